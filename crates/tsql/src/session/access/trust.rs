//! Trust between databases: TRUSTWORTHY and DB_CHAINING.
//!
//! Theory: whoever administers a database says who its users are, and could make himself anybody's user there. So a user
//! counts for his login elsewhere only where the database is TRUSTWORTHY, which an administrator of the server says, and
//! where its owner could vouch for logins: as the owner of the other database, by AUTHENTICATE there, or on the server.
//! What is the server's to give needs the latter. In the same way owners of objects are compared over databases only where
//! an administrator said so for both.

use super::{DBO, Identity, Rights, Securable, ServerRights, SessionState, user_of_login};
use crate::instance::DatabaseEntry;
use daruma_base::DatabaseId;
use daruma_catalog::{DatabaseCatalog, LoginDef};
use std::sync::Arc;

impl SessionState {
    /// The login of a user whose database's owner may vouch for everybody.
    pub(super) fn vouched_on_server(&self, user: &Identity) -> Option<Arc<LoginDef>> {
        let (login, owner) = self.trusted(user)?;
        may_vouch_on_server(&owner).then_some(login)
    }

    /// The login of a user whose database's owner may vouch in another database.
    pub(super) fn vouched_in(
        &self,
        user: &Identity,
        other: &DatabaseEntry,
        catalog: &DatabaseCatalog,
    ) -> Option<Arc<LoginDef>> {
        let (login, owner) = self.trusted(user)?;
        let has_authenticate = || {
            let user = user_of_login(catalog, &owner)?;
            let rights = Rights::of_user(catalog, Some(&user), Arc::default(), false)?;
            Some(rights.may(catalog, "AUTHENTICATE", Securable::Database))
        };
        let vouches = may_vouch_on_server(&owner)
            || other.def().is_owned_by(&owner)
            || has_authenticate() == Some(true);
        vouches.then_some(login)
    }

    /// The login of a user of a TRUSTWORTHY database, and the owner of that.
    fn trusted(&self, user: &Identity) -> Option<(Arc<LoginDef>, Arc<LoginDef>)> {
        let Identity::User {
            database,
            id,
            created_utc,
            ..
        } = user
        else {
            return None;
        };
        let home = self.instance.database(*database)?;
        let owner = self.owner_of_database(&home)?;
        let login = match *id {
            _ if !home.is_trustworthy() => None,
            DBO => Some(owner.clone()),
            id => {
                let catalog = self.catalog(*database).ok()?;
                let user = catalog.principal(id).cloned();
                let user = user.filter(|user| user.created_utc == *created_utc)?;
                self.login_of(&user)
            }
        };
        Some((login?, owner))
    }

    fn owner_of_database(&self, entry: &DatabaseEntry) -> Option<Arc<LoginDef>> {
        self.logins().owner_of(&entry.def())
    }

    /// Are these owners of objects one login, and do chains lead from the first one's database to the other's?
    pub(super) fn is_same_owner(&self, from: (DatabaseId, i32), to: (DatabaseId, i32)) -> bool {
        let sid = |(database, owner): (DatabaseId, i32)| {
            let entry = self
                .instance
                .database(database)
                .filter(|e| e.is_chaining())?;
            let login = match owner {
                DBO => self.owner_of_database(&entry),
                id => {
                    let catalog = self.catalog(database).ok()?;
                    let user = catalog.principal(id)?.clone();
                    self.login_of(&user)
                }
            };
            login.map(|l| l.sid.clone())
        };
        let own = sid(from);
        own.is_some() && own == sid(to)
    }
}

fn may_vouch_on_server(owner: &Arc<LoginDef>) -> bool {
    ServerRights::of(Some(owner.clone())).has("AUTHENTICATE SERVER")
}
