//! Logins and sessions of the page.
//!
//! Theory: a name and a password are tried at the repository's server, over TDS like any login; the server says what the login
//! may do, and the password is forgotten. What stays is a session under 256 random bits, of which only the hash is kept. A session ends
//! after half an hour without use, after twelve hours, by logout, and when its login is disabled or loses its role.

use super::State;
use crate::repository::Repository;
use crate::repository::schema::{ADMIN, DATABASE, READER};
use crate::sql::quoted;
use daruma_client::client::{Client, ClientError, Options};
use daruma_tds::login::Secret;
use daruma_value::Value;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
const AGE_MAX: Duration = Duration::from_secs(12 * 3_600);
/// A login's role is looked up again after this time.
const CHECK_EVERY: Duration = Duration::from_secs(300);
const SESSIONS_MAX: usize = 1_000;
/// Tries in a minute, by address and by name.
const TRIES_MAX: usize = 5;
const TRIES_WITHIN: Duration = Duration::from_secs(60);
const TRIES_KEPT: usize = 10_000;
/// Longest name and password that are tried.
const NAME_CHARS_MAX: usize = 128;

/// What a login may do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks.
    Reader,
    /// Also makes baselines, rules, settings.
    Admin,
}

/// Somebody who is logged in.
#[derive(Clone, Debug)]
pub struct Session {
    pub login: String,
    pub role: Role,
    begun: Instant,
    used: Instant,
    checked: Instant,
}

/// Sessions by the hash of their token, and failed tries.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Mutex<HashMap<[u8; 32], Session>>,
    tries: Mutex<HashMap<String, Vec<Instant>>>,
}

fn hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(Sha256::digest(token.as_bytes()).as_slice());
    hash
}

/// 256 random bits as text; `None` when the system has no randomness.
fn token() -> Option<String> {
    let mut bytes = [0u8; 32];
    let got = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    (got.ok()? == bytes.len()).then(|| bytes.iter().map(|b| format!("{b:02x}")).collect())
}

impl Sessions {
    /// Opens a session; its token goes into the cookie and nowhere else.
    pub fn open(&self, login: &str, role: Role) -> Option<String> {
        let token = token()?;
        let now = Instant::now();
        let mut open = self.open.lock();
        open.retain(|_, s| s.used.elapsed() < IDLE_MAX && s.begun.elapsed() < AGE_MAX);
        if open.len() >= SESSIONS_MAX {
            return None;
        }
        let session = Session {
            login: login.into(),
            role,
            begun: now,
            used: now,
            checked: now,
        };
        open.insert(hash(&token), session);
        Some(token)
    }

    /// The session of a token, which counts as used now; the flag says that its role is to be looked up again.
    pub fn get(&self, token: &str) -> Option<(Session, bool)> {
        let mut open = self.open.lock();
        let key = hash(token);
        let session = open.get_mut(&key)?;
        if session.used.elapsed() >= IDLE_MAX || session.begun.elapsed() >= AGE_MAX {
            open.remove(&key);
            return None;
        }
        session.used = Instant::now();
        let due = session.checked.elapsed() >= CHECK_EVERY;
        if due {
            session.checked = Instant::now();
        }
        Some((session.clone(), due))
    }

    /// Ends a session.
    pub fn close(&self, token: &str) {
        self.open.lock().remove(&hash(token));
    }

    /// Gives the sessions of a login another role.
    pub fn set_role(&self, login: &str, role: Role) {
        let mut open = self.open.lock();
        for session in open.values_mut().filter(|s| s.login == login) {
            session.role = role;
        }
    }

    /// Ends all sessions of a login.
    pub fn close_login(&self, login: &str) {
        self.open.lock().retain(|_, s| s.login != login);
    }

    /// Counts a try; false when there were too many. One that is not allowed leaves no trace of its name.
    pub fn may_try(&self, address: IpAddr, name: &str) -> bool {
        let mut tries = self.tries.lock();
        if tries.len() >= TRIES_KEPT {
            tries.retain(|_, at| at.iter().any(|at| at.elapsed() < TRIES_WITHIN));
        }
        if tries.len() >= TRIES_KEPT {
            return false;
        }
        let name = (!is_too_long(name)).then(|| format!("name {}", name.to_lowercase()));
        let mut keys = std::iter::once(format!("address {address}")).chain(name);
        // The name is not looked at when the address has had its tries.
        keys.all(|key| {
            let at = tries.entry(key).or_default();
            at.retain(|at| at.elapsed() < TRIES_WITHIN);
            let allowed = at.len() < TRIES_MAX;
            if allowed {
                at.push(Instant::now());
            }
            allowed
        })
    }

    /// Forgets tries after one that was right.
    pub fn right(&self, address: IpAddr, name: &str) {
        let mut tries = self.tries.lock();
        tries.remove(&format!("address {address}"));
        tries.remove(&format!("name {}", name.to_lowercase()));
    }
}

fn is_too_long(text: &str) -> bool {
    text.chars().count() > NAME_CHARS_MAX
}

/// Tries a login at the repository's server. `Ok(None)`: refused, or without a role here.
pub fn try_login(state: &State, name: &str, password: &str) -> Result<Option<Role>, ClientError> {
    if name.is_empty() || is_too_long(name) || is_too_long(password) {
        return Ok(None);
    }
    let options = Options {
        user: name.into(),
        password: Secret::new(password),
        database: DATABASE.into(),
        login_timeout: Some(Duration::from_secs(5)),
        query_timeout: Some(Duration::from_secs(5)),
        ..state.shared.repository.options().clone()
    };
    let mut client = match Client::connect(&options) {
        Ok(client) => client,
        Err(ClientError::LoginRefused { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let rows = client.query(&format!(
        "SELECT IS_SRVROLEMEMBER('sysadmin'), IS_MEMBER('db_owner'), IS_MEMBER('{ADMIN}'), IS_MEMBER('{READER}'), \
         IS_MEMBER('db_datareader')"
    ))?;
    Ok(role(rows.first()))
}

/// The role of a login as the repository's server has it now. `Ok(None)`: it is gone, disabled, or has none.
pub fn role_of(repository: &Repository, login: &str) -> Result<Option<Role>, ClientError> {
    // Without a user there is no name: NULL in its place would ask about the one who asks.
    let rows = repository.query(&format!(
        "SELECT IS_SRVROLEMEMBER('sysadmin', l.name), IS_ROLEMEMBER('db_owner', u.name), IS_ROLEMEMBER('{ADMIN}', u.name), \
         IS_ROLEMEMBER('{READER}', u.name), IS_ROLEMEMBER('db_datareader', u.name) FROM sys.server_principals AS l OUTER APPLY \
         (SELECT ISNULL(MAX(name), '') AS name FROM sys.database_principals WHERE sid = l.sid) AS u WHERE l.name = {} AND \
         l.is_disabled = 0",
        quoted(login)
    ))?;
    Ok(role(rows.first()))
}

/// Of memberships: sysadmin, owner, administrator, reader, reader of all tables.
fn role(memberships: Option<&Vec<Value>>) -> Option<Role> {
    let member = |at: usize| {
        let value = memberships.and_then(|row| row.get(at));
        value.and_then(crate::sampler::integer) == Some(1)
    };
    if member(0) || member(1) || member(2) {
        Some(Role::Admin)
    } else if member(3) || member(4) {
        Some(Role::Reader)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_new_and_end() {
        let sessions = Sessions::default();
        let a = sessions.open("sa", Role::Admin).expect("opens");
        let b = sessions.open("sa", Role::Reader).expect("opens");
        assert!(a != b && a.len() == 64);
        assert_eq!(sessions.get(&a).map(|(s, _)| s.role), Some(Role::Admin));
        sessions.close(&a);
        assert!(sessions.get(&a).is_none() && sessions.get("").is_none());
        sessions.close_login("sa");
        assert!(sessions.get(&b).is_none());
    }

    #[test]
    fn five_tries_a_minute() {
        let sessions = Sessions::default();
        let here: IpAddr = [127, 0, 0, 1].into();
        for _ in 0..5 {
            assert!(sessions.may_try(here, "sa"));
        }
        assert!(!sessions.may_try(here, "SA"));
        assert!(
            !sessions.may_try([10, 0, 0, 1].into(), "sa"),
            "the name counts as well"
        );
        sessions.right(here, "sa");
        assert!(sessions.may_try(here, "sa"));
    }

    #[test]
    fn names_that_are_not_tried_are_not_kept() {
        let sessions = Sessions::default();
        let here: IpAddr = [127, 0, 0, 1].into();
        assert!(sessions.may_try(here, &"x".repeat(60_000)));
        for n in 0..100 {
            sessions.may_try(here, &format!("name {n}"));
        }
        assert_eq!(sessions.tries.lock().len(), 5, "the address and four names");
        for n in 0..20_000_u32 {
            sessions.may_try(n.to_be_bytes().into(), "sa");
        }
        assert!(sessions.tries.lock().len() <= TRIES_KEPT);
    }

    #[test]
    fn a_role_changes_while_one_is_logged_in() {
        let sessions = Sessions::default();
        let token = sessions.open("a", Role::Admin).expect("opens");
        sessions.set_role("b", Role::Reader);
        assert_eq!(sessions.get(&token).map(|(s, _)| s.role), Some(Role::Admin));
        sessions.set_role("a", Role::Reader);
        assert_eq!(
            sessions.get(&token).map(|(s, _)| s.role),
            Some(Role::Reader)
        );
    }
}
