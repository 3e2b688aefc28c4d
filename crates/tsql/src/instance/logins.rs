//! Logins with SQL authentication. How passwords are hashed is handed in: this room stores opaque text.
//!
//! Theory: the list is small and read often, so it is kept whole and written through to master. Failed logins of those
//! with CHECK_POLICY are counted in memory; too many in a row lock the login for a while, or until ALTER LOGIN .. UNLOCK.
//! `sa` is the login with id 1, whatever it is called.
//!
//! Invariants
//! 1. A change is made of what the login is when it is made ([`Logins::change`]), never of a copy from before: whoever was
//!    taken out of a role is not in it again because a slow change of the password began earlier.

use crate::error::Result;
use crate::messages;
use daruma_catalog::{Catalog, LoginDef, names_equal};
use parking_lot::{Mutex, RwLock};
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
const SA: i32 = 1;

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

/// The logins of the server, read without a lock on the catalog.
pub struct Logins {
    list: RwLock<Vec<Arc<LoginDef>>>,
    /// Failures in a row and the time of the last, by login.
    failures: Mutex<HashMap<i32, (u32, i64)>>,
    /// Held by whoever changes the list.
    changing: Mutex<()>,
    catalog: Arc<Catalog>,
    hasher: Arc<dyn PasswordHasher>,
}

impl Logins {
    /// Reads them from `master`.
    pub fn load(catalog: Arc<Catalog>, hasher: Arc<dyn PasswordHasher>) -> Result<Logins> {
        let list = catalog.logins()?.into_iter().map(Arc::new).collect();
        Ok(Logins {
            list: RwLock::new(list),
            failures: Mutex::default(),
            changing: Mutex::default(),
            catalog,
            hasher,
        })
    }

    /// All logins, in the order of their ids.
    pub fn all(&self) -> Vec<Arc<LoginDef>> {
        self.list.read().clone()
    }

    /// The login of this name, in any case.
    pub fn get(&self, name: &str) -> Option<Arc<LoginDef>> {
        self.list
            .read()
            .iter()
            .find(|l| names_equal(&l.name, name))
            .cloned()
    }

    /// The login with this `principal_id`.
    pub fn by_id(&self, id: i32) -> Option<Arc<LoginDef>> {
        self.list.read().iter().find(|l| l.id == id).cloned()
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
            Some(new) => self
                .change_own_password(&login, new, now_utc)
                .ok_or(LoginRefusal::MustChange),
            None if login.must_change => Err(LoginRefusal::MustChange),
            None if expired => Err(LoginRefusal::Expired),
            None => Ok(login),
        }
    }

    /// `None` when the new password is not good enough.
    fn change_own_password(
        &self,
        login: &LoginDef,
        password: &str,
        now_utc: i64,
    ) -> Option<Arc<LoginDef>> {
        if login.check_policy && crate::session::check_policy(&login.name, password).is_err() {
            return None;
        }
        let hash = self.hash(password).ok()?;
        let changed = self.change(login, |fresh| {
            fresh.password_hash = hash;
            fresh.must_change = false;
            fresh.password_set_utc = now_utc;
            fresh.modified_utc = now_utc;
            Ok(())
        });
        changed.ok()?;
        self.by_id(login.id)
    }

    fn is_locked(&self, id: i32, now_utc: i64) -> bool {
        let failures = self.failures.lock();
        failures
            .get(&id)
            .is_some_and(|(n, last)| *n >= FAILURES_MAX && now_utc - last < LOCKED_FOR)
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

    /// Creates a login with the id given to `make`; error 15025 when there is one of the name.
    pub fn create(&self, make: impl FnOnce(i32) -> LoginDef) -> Result<()> {
        let _one = self.changing.lock();
        let id = self.list.read().iter().map(|l| l.id).max();
        let login = make(id.map_or(SA, |id| (id + 1).max(260)));
        if self.get(&login.name).is_some() {
            return Err(messages::error(15025, &[&login.name]));
        }
        self.put(login)
    }

    /// Sets the password without a check of policy, for the start of the server.
    pub fn set_password(&self, name: &str, password: &str) -> Result<()> {
        let login = self.existing(name, "alter")?;
        let hash = self.hasher.hash(password)?;
        self.change(&login, |fresh| {
            fresh.password_hash = hash;
            Ok(())
        })
    }

    /// Changes a login that is still the one that was looked at, with the password that it had then; else error 15151.
    pub fn change(
        &self,
        seen: &LoginDef,
        change: impl FnOnce(&mut LoginDef) -> Result<()>,
    ) -> Result<()> {
        let _one = self.changing.lock();
        let is_same =
            |l: &Arc<LoginDef>| l.sid == seen.sid && l.password_hash == seen.password_hash;
        let login = self.by_id(seen.id).filter(is_same);
        let login =
            login.ok_or_else(|| messages::error(15151, &[&"alter", &"login", &seen.name]))?;
        let mut login = (*login).clone();
        change(&mut login)?;
        self.put(login)
    }

    /// Compares passwords. It takes as long for a wrong one, some 10 ms: call it without locks.
    pub fn verify(&self, login: &LoginDef, password: &str) -> bool {
        self.hasher.verify(password, &login.password_hash)
    }

    /// Error 15151 when there is none.
    pub fn existing(&self, name: &str, verb: &str) -> Result<LoginDef> {
        let login = self
            .get(name)
            .ok_or_else(|| messages::error(15151, &[&verb, &"login", &name]))?;
        Ok((*login).clone())
    }

    fn put(&self, login: LoginDef) -> Result<()> {
        self.catalog.put_login(&login)?;
        let mut list = self.list.write();
        list.retain(|l| l.id != login.id);
        list.push(Arc::new(login));
        list.sort_by_key(|l| l.id);
        Ok(())
    }

    /// DROP LOGIN; `sa` stays (15151).
    pub fn remove(&self, name: &str) -> Result<()> {
        let _one = self.changing.lock();
        let login = self.existing(name, "drop")?;
        if login.id == SA {
            return Err(messages::error(15151, &[&"drop", &"login", &name]));
        }
        self.catalog.delete_login(login.id)?;
        self.list.write().retain(|l| l.id != login.id);
        // The number may be given out again, without what was counted under it.
        self.unlock(login.id);
        Ok(())
    }
}
