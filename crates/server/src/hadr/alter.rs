//! ALTER AVAILABILITY GROUP on the primary, in an order in which a crash anywhere leaves the group as one of the two definitions has it.
//!
//! | step | a crash after it |
//! |---|---|
//! | the cluster, if there is one, lists nobody any more who is to go, or lacks what is added; it is led, commits wait for whom they shall (`prepare`) | the earlier definition: what was added is in no group |
//! | the definition is stored | the new one: what was removed is in no group, the others hear when they connect |
//! | what was removed is let go, the others are told (`settle`) | the new one |
//!
//! Nobody is told of a definition that is not stored: it might never have been.

use super::group::Group;
use super::part::PartState;
use daruma_catalog::GroupDef;
use daruma_group::commit::Role;
use daruma_tsql::error::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Group {
    /// Before the definition is stored.
    pub(super) fn prepare(self: &Arc<Self>) -> Result<()> {
        self.let_others_go()?;
        self.bring_in()
    }

    fn bring_in(self: &Arc<Self>) -> Result<()> {
        let def = self.def();
        for database in def.databases.iter().filter(|d| d.is_joined) {
            let number = u128::from_be_bytes(database.group_database_id);
            if self.part(number).is_none() && !self.is_named(&database.name) {
                self.lead_new(database)?;
            }
        }
        let parts = self.parts.lock().clone();
        for part in parts {
            if let PartState::Led { led, .. } = &part.state {
                led.configure(self.rules());
                if led.role() == Role::Open && !self.is_paused.load(Ordering::Acquire) {
                    self.set_availability(&part.entry, self.primary_availability());
                }
            }
        }
        Ok(())
    }

    /// It is stored. Who was passed over meanwhile, by force, or is not known to lead, leaves nothing open.
    pub(super) fn settle(self: &Arc<Self>) {
        self.let_go_what_went(self.is_still_owner());
    }

    fn let_go_what_went(self: &Arc<Self>, stays_open: bool) {
        let def = self.def();
        let parts = self.parts.lock().clone();
        let gone = parts.iter().filter(|part| !part.stays(&def));
        gone.for_each(|part| self.let_go_of(part, stays_open));
        // Who is removed hears of it on the connection that ends then.
        self.announce();
        self.connect();
    }

    /// It could not be: what was added goes again. Nobody has heard of it.
    pub(super) fn go_back(self: &Arc<Self>, before: GroupDef) {
        self.set_def(before);
        if let Err(error) = self.bring_in() {
            self.common.log(&error.message);
        }
        self.let_go_what_went(true);
    }
}
