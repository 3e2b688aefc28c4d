//! Names of databases that are being made, dropped, renamed or restored: one statement at a time has each.
//!
//! Theory: such a statement claims the names it is about before it looks whether there are such databases, and keeps them until
//! master and the registry say what became of them. Statements about other names go on meanwhile, however long it takes: a restore
//! lasts as long as its backup is large, or its store silent. A number that a new database gets is claimed with its name, as is
//! that of one that goes.
//!
//! Latches: a claim comes before the change of a definition (`change`). Who needs two names takes both at once.

use super::Instance;
use super::change::{GoOn, PATIENCE_STEP};
use crate::error::Result;
use daruma_catalog::name_key;
use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;

#[derive(Default)]
pub(super) struct NameGate {
    claims: Mutex<Claims>,
    given_back: Condvar,
}

#[derive(Default)]
struct Claims {
    names: Vec<String>,
    ids: Vec<u16>,
}

/// Names of databases, and numbers with them, that nobody else makes anything of until it is dropped.
pub(crate) struct NameClaim<'i> {
    instance: &'i Instance,
    names: Vec<String>,
    ids: RefCell<Vec<u16>>,
}

impl Instance {
    /// Claims names of databases, once nobody else has one of them.
    pub(crate) fn claim_names(&self, names: &[&str], go_on: GoOn<'_>) -> Result<NameClaim<'_>> {
        let names: Vec<String> = names.iter().map(|name| name_key(name)).collect();
        let mut claims = self.names.claims.lock();
        while names.iter().any(|name| claims.names.contains(name)) {
            self.names.given_back.wait_for(&mut claims, PATIENCE_STEP);
            go_on()?;
        }
        claims.names.extend(names.iter().cloned());
        Ok(NameClaim {
            instance: self,
            names,
            ids: RefCell::default(),
        })
    }
}

impl NameClaim<'_> {
    /// Lowest id that no database has and nobody else claims.
    pub fn free_id(&self) -> u16 {
        let mut claims = self.instance.names.claims.lock();
        let databases = self.instance.databases.read();
        let is_free = |id: &u16| !databases.contains_key(id) && !claims.ids.contains(id);
        let id = (5..u16::MAX).find(is_free).unwrap_or(u16::MAX);
        claims.ids.push(id);
        self.ids.borrow_mut().push(id);
        id
    }

    /// The id of a database that goes: nobody gets it before all that it names is gone.
    pub fn keep_id(&self, id: u16) {
        self.instance.names.claims.lock().ids.push(id);
        self.ids.borrow_mut().push(id);
    }
}

impl Drop for NameClaim<'_> {
    fn drop(&mut self) {
        let mut claims = self.instance.names.claims.lock();
        let Claims { names, ids } = &mut *claims;
        self.names.iter().for_each(|name| remove_one(names, name));
        self.ids.borrow().iter().for_each(|id| remove_one(ids, id));
        self.instance.names.given_back.notify_all();
    }
}

fn remove_one<T: PartialEq>(from: &mut Vec<T>, one: &T) {
    if let Some(at) = from.iter().position(|other| other == one) {
        from.swap_remove(at);
    }
}
