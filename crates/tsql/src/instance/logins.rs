//! Logins with SQL authentication. How passwords are hashed is handed in: this room stores opaque text.
//!
//! Theory: logins are definitions in master's catalog, so a statement that changes them is part of its transaction: the session sees
//! them as it has changed them (`session::logins`), others when it has committed, and a rollback or a crash leaves nothing. Failed
//! logins of those with CHECK_POLICY are counted in memory; too many in a row lock the login for a while, or until
//! ALTER LOGIN .. UNLOCK. `sa` is the login with id 1, whatever it is called. Databases name their owner by its SID, so a login that
//! gets another name keeps them, and whoever gets its old name has none of them.
//!
//! Invariants
//! 1. A change is made of what the login is when it is made ([`LoginList::changed`]), never of a copy from before: whoever was
//!    taken out of a role is not in it again because a slow change of the password began earlier.
//! 2. Whoever makes, names or drops logins, or changes what they may, has [`logins_lock`] until the end of the transaction, and
//!    [`login_lock`] of each login that it changes; whoever changes its own password, or one with it while it connects, or makes a
//!    database a login's, the latter alone. So no change is decided on a list that another one replaces, and who may do nothing
//!    else keeps from the other logins nobody but those who wait for that one and have [`logins_lock`] meanwhile.
//! 3. Locks are asked for by those alone who may make the change, and whether they may is looked at again under the locks.

use super::LoginInfo;
use crate::error::Result;
use crate::messages;
use daruma_catalog::{Catalog, Change, DatabaseCatalog, DatabaseDef, LoginDef, Put};
use daruma_storage::LockResource;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Slow, salted hashing of passwords.
pub trait PasswordHasher: Send + Sync {
    /// A salted hash that can be stored; a password that is too long is an error.
    fn hash(&self, password: &str) -> Result<String>;
    /// Does the stored hash belong to this password?
    fn verify(&self, password: &str, hash: &str) -> bool;
}

/// Failures in a row after which a login is locked.
const FAILURES_MAX: u32 = 10;
/// How long, in 100 ns.
const LOCKED_FOR: i64 = 15 * 60 * 10_000_000;
/// CHECK_EXPIRATION: age of a password, in 100 ns.
const PASSWORD_AGE_MAX: i64 = 90 * 24 * 3_600 * 10_000_000;
/// `principal_id` of `sa`.
pub(crate) const SA: i32 = 1;

/// Failures of a login in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    pub count: u32,
    /// When the last was; 0 without one.
    pub last_utc: i64,
    /// Are there so many that it is locked, if it is under the policy?
    pub is_locked: bool,
}

/// Days until the password of a login that expires has expired.
pub(crate) fn days_left(login: &LoginDef, now_utc: i64) -> i32 {
    const DAY: u64 = 24 * 3_600 * 10_000_000;
    let age = now_utc.saturating_sub(login.password_set_utc);
    let left = u64::try_from(PASSWORD_AGE_MAX.saturating_sub(age)).unwrap_or(0);
    i32::try_from(left.div_ceil(DAY)).unwrap_or(i32::MAX)
}

/// Why a login was refused. The client is told less than the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    Unknown,
    WrongPassword,
    Disabled { password_was_right: bool },
    LockedOut,
    MustChange,
    Expired,
}

/// Logins as somebody sees them at one moment.
#[derive(Clone)]
pub struct LoginList(Arc<DatabaseCatalog>);

impl LoginList {
    /// Those of a catalog of master.
    pub(crate) fn of(catalog: Arc<DatabaseCatalog>) -> LoginList {
        LoginList(catalog)
    }

    /// All logins, in the order of their ids.
    pub fn all(&self) -> Vec<Arc<LoginDef>> {
        self.0.logins().cloned().collect()
    }

    /// The login of this name, in any case.
    pub fn get(&self, name: &str) -> Option<Arc<LoginDef>> {
        self.0.login_named(name).cloned()
    }

    /// The login with this `principal_id`.
    pub fn by_id(&self, id: i32) -> Option<Arc<LoginDef>> {
        self.0.login(id).cloned()
    }

    /// The login with this SID, whatever it is called.
    pub fn by_sid(&self, sid: &[u8]) -> Option<Arc<LoginDef>> {
        self.0.logins().find(|l| l.sid == sid).cloned()
    }

    /// The login that somebody has come in as, if it is still there.
    pub fn of_client(&self, client: &LoginInfo) -> Option<Arc<LoginDef>> {
        match &client.sid {
            Some(sid) => self.by_sid(sid),
            None => self.get(&client.login),
        }
    }

    /// Who owns the database, if that is still a login.
    pub fn owner_of(&self, database: &DatabaseDef) -> Option<Arc<LoginDef>> {
        let mut logins = self.0.logins();
        logins.find(|l| database.is_owned_by(l)).cloned()
    }

    /// Error 15151 when there is none of the name.
    pub fn existing(&self, name: &str, verb: &str) -> Result<LoginDef> {
        let login = self.get(name);
        let login = login.ok_or_else(|| messages::error(15151, &[&verb, &"login", &name]))?;
        Ok((*login).clone())
    }

    /// The login that `make` makes with a new id; error 15025 when there is one of its name.
    pub(crate) fn with(&self, make: impl FnOnce(i32) -> LoginDef) -> Result<Change> {
        let id = self.0.logins().map(|l| l.id).max();
        let login = make(id.map_or(SA, |id| id.saturating_add(1).max(260)));
        match self.get(&login.name) {
            Some(_) => Err(messages::error(15025, &[&login.name])),
            None => Ok(Change::PutLogin(Put::new(login))),
        }
    }

    /// A change of a login that is still the one that was looked at, with the password that it had then; else error 15151.
    pub(crate) fn changed(
        &self,
        seen: &LoginDef,
        change: impl FnOnce(&mut LoginDef) -> Result<()>,
    ) -> Result<Change> {
        let is_same =
            |l: &Arc<LoginDef>| l.sid == seen.sid && l.password_hash == seen.password_hash;
        let login = self.by_id(seen.id).filter(is_same);
        let login =
            login.ok_or_else(|| messages::error(15151, &[&"alter", &"login", &seen.name]))?;
        let mut changed = (*login).clone();
        change(&mut changed)?;
        Ok(Change::PutLogin(Put::over(&login, changed)))
    }
}

/// Held by whoever changes which logins there are, their names or what they may: in master and until the transaction ends.
pub(crate) fn logins_lock() -> LockResource {
    LockResource::Name("logins".to_string())
}

/// Held, in the same way, by whoever changes this login.
pub(crate) fn login_lock(id: i32) -> LockResource {
    LockResource::Name(format!("login {id}"))
}

/// The logins of the server as they are committed, and how often each has failed.
pub struct Logins {
    /// Failures in a row and the time of the last, by login.
    failures: Mutex<HashMap<i32, (u32, i64)>>,
    catalog: Arc<Catalog>,
    hasher: Arc<dyn PasswordHasher>,
}

impl Logins {
    /// Those in the catalog of `master`.
    pub fn new(catalog: Arc<Catalog>, hasher: Arc<dyn PasswordHasher>) -> Logins {
        Logins {
            failures: Mutex::default(),
            catalog,
            hasher,
        }
    }

    /// All of them, as they are now.
    pub fn list(&self) -> LoginList {
        LoginList(self.catalog.current())
    }

    /// All logins, in the order of their ids.
    pub fn all(&self) -> Vec<Arc<LoginDef>> {
        self.list().all()
    }

    /// The login of this name, in any case.
    pub fn get(&self, name: &str) -> Option<Arc<LoginDef>> {
        self.list().get(name)
    }

    /// The login with this `principal_id`.
    pub fn by_id(&self, id: i32) -> Option<Arc<LoginDef>> {
        self.list().by_id(id)
    }

    /// `sa`, whatever its name is.
    pub fn administrator(&self) -> Option<Arc<LoginDef>> {
        self.by_id(SA)
    }

    /// The login, if name and password are right and it may connect. A wrong name costs as much time as a wrong
    /// password, so that names cannot be found out. A new password is set when the old one was right.
    pub fn authenticate(
        &self,
        name: &str,
        password: &str,
        new_password: Option<&str>,
        now_utc: i64,
    ) -> std::result::Result<Arc<LoginDef>, LoginRefusal> {
        let login = self.get(name).filter(|l| !l.password_hash.is_empty());
        let Some(login) = login else {
            let other = self.administrator();
            let hash = other.map_or(String::new(), |sa| sa.password_hash.clone());
            self.hasher.verify(password, &hash);
            return Err(LoginRefusal::Unknown);
        };
        if login.check_policy && self.is_locked(login.id, now_utc) {
            return Err(LoginRefusal::LockedOut);
        }
        let right = self.hasher.verify(password, &login.password_hash);
        if login.disabled {
            return Err(LoginRefusal::Disabled {
                password_was_right: right,
            });
        }
        if !right {
            self.note_failure(login.id, now_utc);
            return Err(LoginRefusal::WrongPassword);
        }
        self.failures.lock().remove(&login.id);
        let expired = login.check_expiration && now_utc - login.password_set_utc > PASSWORD_AGE_MAX;
        match new_password {
            Some(new) => self.change_own_password(&login, new, now_utc),
            None if login.must_change => Err(LoginRefusal::MustChange),
            None if expired => Err(LoginRefusal::Expired),
            None => Ok(login),
        }
    }

    /// Sets a new password after the old one was right; `MustChange` when it is not good enough.
    fn change_own_password(
        &self,
        login: &LoginDef,
        password: &str,
        now_utc: i64,
    ) -> std::result::Result<Arc<LoginDef>, LoginRefusal> {
        if login.check_policy && crate::session::check_policy(&login.name, password).is_err() {
            return Err(LoginRefusal::MustChange);
        }
        let hash = self.hash(password).map_err(|_| LoginRefusal::MustChange)?;
        let mut refusal = LoginRefusal::MustChange;
        let changed = self.change(login, |fresh| {
            // It may have been while this waited.
            if fresh.disabled {
                refusal = LoginRefusal::Disabled {
                    password_was_right: true,
                };
                return Err(messages::error(15151, &[&"alter", &"login", &fresh.name]));
            }
            fresh.password_hash = hash;
            fresh.must_change = false;
            fresh.password_set_utc = now_utc;
            fresh.modified_utc = now_utc;
            Ok(())
        });
        changed.map_err(|_| refusal)?;
        let login = self.by_id(login.id).filter(|l| l.sid == login.sid);
        login.ok_or(LoginRefusal::Unknown)
    }

    /// Failures in a row since the last success.
    pub(crate) fn failures_of(&self, id: i32, now_utc: i64) -> Failures {
        let found = self.failures.lock().get(&id).copied();
        let (count, last_utc) = found.unwrap_or_default();
        Failures {
            count,
            last_utc,
            is_locked: count >= FAILURES_MAX && now_utc - last_utc < LOCKED_FOR,
        }
    }

    fn is_locked(&self, id: i32, now_utc: i64) -> bool {
        self.failures_of(id, now_utc).is_locked
    }

    fn note_failure(&self, id: i32, now_utc: i64) {
        let mut failures = self.failures.lock();
        let (count, last) = failures.entry(id).or_default();
        if now_utc - *last >= LOCKED_FOR {
            *count = 0;
        }
        (*count, *last) = (count.saturating_add(1), now_utc);
    }

    /// ALTER LOGIN .. UNLOCK.
    pub fn unlock(&self, id: i32) {
        self.failures.lock().remove(&id);
    }

    /// A hash for CREATE LOGIN.
    pub fn hash(&self, password: &str) -> Result<String> {
        self.hasher.hash(password)
    }

    /// Can it log in with a password? A fresh `sa` cannot.
    pub fn has_password(&self, name: &str) -> bool {
        self.get(name).is_some_and(|l| !l.password_hash.is_empty())
    }

    /// Creates a login with the id given to `make`, outside of any session; error 15025 when there is one of the name.
    pub fn create(&self, make: impl FnOnce(i32) -> LoginDef) -> Result<()> {
        self.change_alone(&logins_lock(), |list| list.with(make))
    }

    /// Sets the password without a check of policy, for the start of the server.
    pub fn set_password(&self, name: &str, password: &str) -> Result<()> {
        let login = self.list().existing(name, "alter")?;
        let hash = self.hasher.hash(password)?;
        self.change(&login, |fresh| {
            fresh.password_hash = hash;
            Ok(())
        })
    }

    fn change(
        &self,
        seen: &LoginDef,
        change: impl FnOnce(&mut LoginDef) -> Result<()>,
    ) -> Result<()> {
        self.change_alone(&login_lock(seen.id), |list| list.changed(seen, change))
    }

    fn change_alone(
        &self,
        lock: &LockResource,
        decide: impl FnOnce(&LoginList) -> Result<Change>,
    ) -> Result<()> {
        let decide = |catalog: &Arc<DatabaseCatalog>| decide(&LoginList(catalog.clone()));
        self.catalog.change_alone(lock, decide)
    }

    /// Compares passwords. It takes as long for a wrong one, some 10 ms: call it without locks.
    pub fn verify(&self, login: &LoginDef, password: &str) -> bool {
        self.hasher.verify(password, &login.password_hash)
    }
}
