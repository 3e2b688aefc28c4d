//! Logins as a session sees and changes them: in its transaction, like any other definition (`instance::logins`).

use super::{Execution, SessionState};
use crate::error::Result;
use crate::instance::{LoginList, MASTER, SA, login_lock, logins_lock};
use daruma_catalog::{Change, DatabaseDef, LoginDef, Put};
use daruma_storage::{LockMode, LockResource};
use std::sync::Arc;

impl SessionState {
    /// All logins, as the transaction has changed them.
    pub(crate) fn logins(&self) -> LoginList {
        match self.catalog(MASTER) {
            Ok(catalog) => LoginList::of(catalog),
            // What cannot be read cannot have been changed here.
            Err(_) => self.instance.logins.list(),
        }
    }
}

impl Execution<'_> {
    /// Keeps others from making, naming and dropping logins, and from changing what they may, until the transaction ends.
    pub(crate) fn lock_logins(&self) -> Result<()> {
        self.lock_in_master(logins_lock())
    }

    /// Keeps others from changing this login, its own session included, until the transaction ends.
    pub(crate) fn lock_login(&self, id: i32) -> Result<()> {
        self.lock_in_master(login_lock(id))
    }

    fn lock_in_master(&self, resource: LockResource) -> Result<()> {
        let master = self.instance().open_database(MASTER)?;
        self.lock_for_transaction(&master.storage, resource, LockMode::Exclusive)
    }

    /// The login of this name as it is when nobody else can change it or any other.
    pub(super) fn login_to_change(&self, name: &str) -> Result<Option<Arc<LoginDef>>> {
        self.lock_logins()?;
        let Some(found) = self.state.logins().get(name) else {
            return Ok(None);
        };
        self.lock_login(found.id)?;
        Ok(self.state.logins().by_id(found.id))
    }

    /// Creates a login with the id given to `make`; error 15025 when there is one of the name.
    pub(super) fn add_login(&self, make: impl FnOnce(i32) -> LoginDef) -> Result<()> {
        self.atomic(|| {
            self.lock_logins()?;
            let change = self.state.logins().with(make)?;
            self.state.change(MASTER, change)
        })
    }

    /// Changes a login that is still the one that was looked at, with the password that it had then; else error 15151. Whoever
    /// changes more than its password has the lock of all logins.
    pub(crate) fn change_login(
        &self,
        seen: &LoginDef,
        change: impl FnOnce(&mut LoginDef) -> Result<()>,
    ) -> Result<()> {
        self.atomic(|| {
            self.lock_login(seen.id)?;
            let change = self.state.logins().changed(seen, change)?;
            self.state.change(MASTER, change)
        })
    }

    /// Drops a login that [`Execution::login_to_change`] gave.
    pub(super) fn remove_login(&self, login: &LoginDef) -> Result<()> {
        self.state.change(MASTER, Change::DropLogin(login.id))
    }

    /// Changes those of all logins that `wants` it, because of what they may.
    pub(crate) fn change_logins(
        &self,
        wants: impl Fn(&LoginDef) -> bool,
        change: impl Fn(&mut LoginDef),
    ) -> Result<()> {
        self.atomic(|| {
            self.lock_logins()?;
            let all = self.state.logins().all();
            for seen in all.into_iter().filter(|login| wants(login)) {
                self.lock_login(seen.id)?;
                // With the password that it has by now.
                let Some(login) = self.state.logins().by_id(seen.id) else {
                    continue;
                };
                let mut changed = (*login).clone();
                change(&mut changed);
                self.state
                    .change(MASTER, Change::PutLogin(Put::over(&login, changed)))?;
            }
            Ok(())
        })
    }

    /// Keeps others from dropping the login that will own a new database, and from changing what it may, until the transaction
    /// ends.
    pub(crate) fn lock_new_owner(&self) -> Result<()> {
        let rights = self.state.server_rights();
        self.lock_login(rights.login.as_ref().map_or(SA, |l| l.id))
    }

    /// A new database is owned by whoever makes it.
    pub(crate) fn own(&self, def: &mut DatabaseDef) {
        match &self.state.server_rights().login {
            Some(login) => def.set_owner(login),
            None => self.instance().give_to_administrator(def),
        }
    }
}
