//! Logins as a session sees and changes them: in its transaction, like any other definition (`instance::logins`).

use super::{Execution, SessionState};
use crate::error::Result;
use crate::instance::{LoginList, MASTER, logins_lock};
use daruma_catalog::{Change, LoginDef};
use daruma_storage::LockMode;
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
    /// Keeps others from changing logins until the transaction ends.
    pub(crate) fn lock_logins(&self) -> Result<()> {
        let master = self.instance().open_database(MASTER)?;
        self.lock_for_transaction(&master.storage, logins_lock(), LockMode::Exclusive)
    }

    /// Creates a login with the id given to `make`; error 15025 when there is one of the name.
    pub(super) fn add_login(&self, make: impl FnOnce(i32) -> LoginDef) -> Result<()> {
        self.atomic(|| self.write_login(|list| list.with(make)))
    }

    /// Changes a login that is still the one that was looked at, with the password that it had then; else error 15151.
    pub(crate) fn change_login(
        &self,
        seen: &LoginDef,
        change: impl FnOnce(&mut LoginDef) -> Result<()>,
    ) -> Result<()> {
        self.atomic(|| self.write_login(|list| list.changed(seen, change)))
    }

    /// Drops a login that is still the one that was looked at.
    pub(super) fn remove_login(&self, seen: &LoginDef) -> Result<()> {
        self.atomic(|| {
            self.write_login(|list| {
                list.changed(seen, |_| Ok(()))?;
                Ok(Change::DropLogin(seen.id))
            })
        })
    }

    fn write_login(&self, decide: impl FnOnce(&LoginList) -> Result<Change>) -> Result<()> {
        self.lock_logins()?;
        let change = decide(&self.state.logins())?;
        self.state.change(MASTER, change)
    }

    /// Changes those of all logins that `wants` it.
    pub(crate) fn change_logins(
        &self,
        wants: impl Fn(&LoginDef) -> bool,
        change: impl Fn(&mut LoginDef),
    ) -> Result<()> {
        self.atomic(|| {
            self.lock_logins()?;
            let all = self.state.logins().all();
            for login in all.into_iter().filter(|login| wants(login)) {
                let mut login = (*login).clone();
                change(&mut login);
                self.state
                    .change(MASTER, Change::PutLogin(Arc::new(login)))?;
            }
            Ok(())
        })
    }
}
