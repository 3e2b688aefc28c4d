//! What no rollback takes back: its triggers run before it, so rights are asked before they do.
//!
//! Whoever may not do something would write into the records of those who watch it, otherwise.

use crate::error::Result;
use crate::session::backup::credentials;
use crate::session::execution::Execution;
use daruma_syntax::ast::{DropKind, PrincipalStatement, StatementKind};

/// Does a rollback leave what the statement did?
pub(super) fn is_beyond_transaction(kind: &StatementKind) -> bool {
    use StatementKind::*;
    match kind {
        CreateDatabase(_)
        | AlterDatabase(_)
        | Key(_)
        | CreateEndpoint(_)
        | EventSession(_)
        | CreateAvailabilityGroup(_)
        | AlterAvailabilityGroup(_)
        | Reconfigure { .. } => true,
        Drop(drop) => matches!(
            drop.kind,
            DropKind::Database
                | DropKind::Certificate
                | DropKind::MasterKey
                | DropKind::Credential
                | DropKind::Endpoint
                | DropKind::AvailabilityGroup
        ),
        Principal(PrincipalStatement::Credential { .. }) => true,
        _ => false,
    }
}

impl Execution<'_> {
    /// The error of a statement that the session may not run. What has no rule here was asked before the statement was begun.
    pub(super) fn may_begin(&self, kind: &StatementKind) -> Result<()> {
        use StatementKind::*;
        match kind {
            Key(s) => self.may_run_key(s),
            CreateEndpoint(s) => self.may_run_endpoint(s),
            EventSession(s) => self.may_run_event_session(s),
            CreateAvailabilityGroup(_) => self.may_create_group(),
            AlterAvailabilityGroup(s) => self.may_change_group(s),
            Principal(PrincipalStatement::Credential { alter, name, .. }) => {
                let verb = if *alter { "alter" } else { "create" };
                credentials::check_right(self, verb, &name.text)
            }
            // Nobody is told of what it leaves alone.
            Drop(drop) if drop.if_exists => Ok(()),
            Drop(drop) => drop
                .names
                .iter()
                .try_for_each(|name| self.may_end(&drop.kind, &name.name.text)),
            _ => Ok(()),
        }
    }

    /// The same of DROP, for one name.
    pub(super) fn may_end(&self, kind: &DropKind, name: &str) -> Result<()> {
        match kind {
            DropKind::Certificate | DropKind::MasterKey => self.may_drop_key(kind, name),
            DropKind::Credential => credentials::check_right(self, "drop", name),
            DropKind::Endpoint | DropKind::AvailabilityGroup => self.may_drop_hadr(kind, name),
            _ => Ok(()),
        }
    }
}
