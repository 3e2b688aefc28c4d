//! Statements about endpoints and availability groups.
//!
//! Theory: a statement is checked, the service is asked ([`crate::instance::hadr::HadrService`]), and what it accepted is stored.
//! The service is asked while no other statement changes what is of the same kind.
//!
//! | statement | permission | error |
//! |---|---|---|
//! | CREATE ENDPOINT | CREATE ENDPOINT | 15247 |
//! | ALTER, DROP ENDPOINT | ALTER ANY ENDPOINT, or ALTER on it | 15151 |
//! | CREATE AVAILABILITY GROUP, JOIN | CREATE AVAILABILITY GROUP | 15247 |
//! | ALTER, DROP AVAILABILITY GROUP | ALTER ANY AVAILABILITY GROUP, or ALTER on it | 15151 |
//! | ALTER DATABASE .. SET HADR | ALTER on the database | 5011 |
//!
//! Map: `endpoint`, `options` (words to definitions), `create`, `alter`, `database` (SET HADR), `functions`.

mod alter;
mod create;
mod database;
mod endpoint;
mod functions;
mod options;

pub(crate) use database::set_hadr;

use super::access::class;
use super::execution::Execution;
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::hadr::{Leaving, ServerRows};
use crate::messages;
use daruma_catalog::{GroupDef, LoginDef, PermissionState, ServerRow};
use daruma_syntax::ast::{self, DropKind};
use std::sync::Arc;

impl Execution<'_> {
    /// DROP ENDPOINT and DROP AVAILABILITY GROUP.
    pub(crate) fn drop_hadr(&self, drop: &ast::Drop) -> Result<()> {
        drop.names.iter().try_for_each(|name| {
            let name = &name.name.text;
            let dropped = match drop.kind {
                DropKind::Endpoint => self.drop_endpoint(name),
                _ => self.drop_group(name),
            };
            match dropped {
                Err(error) if drop.if_exists && error.number == 15151 => Ok(()),
                other => other,
            }
        })
    }

    /// Error 15151 for what DROP of this kind does not find, or may not drop.
    pub(crate) fn may_drop_hadr(&self, kind: &DropKind, name: &str) -> Result<()> {
        match kind {
            DropKind::Endpoint => self.endpoint_to("drop", name).map(|_| ()),
            _ => self.group_to("drop", name).map(|_| ()),
        }
    }

    /// ALTER on one group or endpoint, or on all of them.
    fn may_alter_hadr(&self, any: &str, class: u8, id: i32) -> bool {
        let rights = self.state.server_rights();
        rights.has(any) || rights.has_on(class, id, "ALTER")
    }

    fn may_alter_group(&self, id: i32) -> bool {
        self.may_alter_hadr(
            "ALTER ANY AVAILABILITY GROUP",
            class::AVAILABILITY_GROUP,
            id,
        )
    }

    /// A group that the session may alter; 15151 when there is none, or it may not.
    fn group_to(&self, verb: &str, name: &str) -> Result<Arc<GroupDef>> {
        let group = self.instance().hadr.group(name);
        group
            .filter(|g| self.may_alter_group(g.id))
            .ok_or_else(|| group_missing(verb, name))
    }

    fn random_guid(&self) -> [u8; 16] {
        let mut guid = [0; 16];
        self.random_bytes(&mut guid);
        guid
    }

    /// The numbers of endpoints and groups are given out again: nobody keeps permissions on them. That is committed before they
    /// end, so that no crash leaves any; they are marked meanwhile, so that nobody gets new ones.
    fn forget_permissions(&self, class: u8, id: i32) -> Result<()> {
        let on_it = |p: &daruma_catalog::PermissionDef| p.class == class && p.major == id;
        self.change_logins(
            |login| login.permissions.iter().any(on_it),
            |login| login.permissions.retain(|p| !on_it(p)),
        )
    }

    /// What is dropped, marked, when the permissions on it are gone; `None` when it, or the right to drop it, went while this waited
    /// for who changes logins.
    fn leave<'r, T: ServerRow + Clone>(
        &self,
        rows: &'r ServerRows<T>,
        class: u8,
        fits: impl Fn(&T) -> bool,
        may: impl Fn(i32) -> bool,
    ) -> Result<Option<(Arc<T>, Leaving<'r>)>> {
        self.atomic(|| {
            self.lock_logins()?;
            let picked = rows.leave(fits).filter(|(row, _)| may(row.id()));
            if let Some((row, _)) = &picked {
                self.forget_permissions(class, row.id())?;
            }
            Ok(picked)
        })
    }
}

fn group_missing(verb: &str, name: &str) -> SqlError {
    messages::error(15151, &[&verb, &"availability group", &name])
}

/// May whoever proves to be this login speak to the endpoint?
pub(crate) fn may_connect_to_endpoint(login: &LoginDef, endpoint: i32) -> bool {
    let on_it = |p: &&daruma_catalog::PermissionDef| {
        p.class == class::ENDPOINT
            && p.major == endpoint
            && matches!(p.permission.as_str(), "CONNECT" | "CONTROL")
    };
    let mut entries = login.permissions.iter().filter(on_it).peekable();
    !login.disabled && entries.peek().is_some() && entries.all(|p| p.state != PermissionState::Deny)
}
