//! DBCC CHECKIDENT: which value the next identity value of a table follows.
//!
//! | asked | found | done |
//! |---|---|---|
//! | nothing, or RESEED | a value in the column that lies behind the last one given | values go on behind it |
//! | NORESEED | anything | it is told |
//! | RESEED, n | a value was given since the table was made or truncated | the next one follows n |
//! | RESEED, n | none was | n is the first |
//!
//! A value that is named is set by the transaction's commit; until its end nobody else uses the table.
//!
//! Tests: `crates/tsql/tests/sequences.rs`, `golden/sql/system/reseeded.sqlt`, `golden/sql/system/checked_identity.sqlt`.

use super::execution::Execution;
use super::temp::TempUndo;
use crate::dml::{identity_number, identity_value};
use crate::error::{Result, SqlError};
use crate::host::{Host, Resolved, TableKind, TableRef};
use crate::messages;
use crate::session::SessionState;
use daruma_base::DatabaseId;
use daruma_catalog::{CounterId, IdentityDef, Reached};
use daruma_syntax::ast::{Expr, Literal};
use daruma_syntax::{ParseOptions, parse_object_name};

/// What the arguments behind the table ask for.
enum Asked {
    Check,
    Look,
    Set(i128),
}

impl Execution<'_> {
    /// `DBCC CHECKIDENT (table [, NORESEED | RESEED [, value]])`.
    pub(super) fn check_identity(&self, args: &[Expr], quiet: bool) -> Result<()> {
        let (table, name) = self.identity_table(args)?;
        let Some(identity) = table.def.identity else {
            return Err(SqlError::new(
                7997,
                16,
                1,
                format!("'{name}' does not contain an identity column."),
            ));
        };
        match self.asked_of(args, &table, identity)? {
            Asked::Set(value) => self.atomic(|| {
                let table = self.locked_for_reseed(table, args)?;
                self.reseed(&table, identity, value, quiet)
            }),
            asked => self.look_at_identity(&table, identity, &asked, quiet),
        }
    }

    /// The table, which nobody else uses until the transaction ends. Error 2801 where it is not as it was any more, with which the
    /// statement begins anew.
    fn locked_for_reseed(&self, table: TableRef, args: &[Expr]) -> Result<TableRef> {
        if table.kind != TableKind::User {
            return Ok(table);
        }
        let database = table.database.id();
        self.state.check_writable(database)?;
        if table.database.settings().read_only {
            return Err(messages::error(3906, &[&table.database.name()]));
        }
        self.lock_schema(&table.database, table.object_id)?;
        // Behind the wait another one may have its name, and the session fewer permissions.
        let (now, _) = self.identity_table(args)?;
        let is_it = now.database.id() == database && now.object_id == table.object_id;
        match is_it && now.def == table.def {
            true => Ok(now),
            false => Err(messages::error(2801, &[&table.name])),
        }
    }

    /// The value that CHECKIDENT calls the current one.
    fn shown_identity(&self, table: &TableRef, identity: IdentityDef) -> String {
        let current = match self.reached_identity(table) {
            None => None,
            Some(reached) if reached.is_given => Some(reached.last),
            Some(reached) => Some(reached.last.saturating_add(identity.increment)),
        };
        shown(current)
    }

    fn reseed(
        &self,
        table: &TableRef,
        identity: IdentityDef,
        value: i128,
        quiet: bool,
    ) -> Result<()> {
        let current = self.shown_identity(table, identity);
        self.set_identity(table, identity, value)?;
        let text = format!("Checking identity information: current identity value '{current}'.");
        self.tell_identity(text, quiet);
        Ok(())
    }

    fn look_at_identity(
        &self,
        table: &TableRef,
        identity: IdentityDef,
        asked: &Asked,
        quiet: bool,
    ) -> Result<()> {
        let current = self.shown_identity(table, identity);
        let greatest = self.outermost_value(table, identity)?;
        if let (Asked::Check, Some(value)) = (asked, greatest) {
            self.note_identity(table, value)?;
        }
        let greatest = shown(greatest);
        let text = format!(
            "Checking identity information: current identity value '{current}', current column value '{greatest}'."
        );
        self.tell_identity(text, quiet);
        Ok(())
    }

    fn tell_identity(&self, text: String, quiet: bool) {
        if !quiet {
            self.message(SqlError::new(7998, 10, 1, text));
        }
    }

    /// The table that the first argument names, if the session may do this to it.
    fn identity_table(&self, args: &[Expr]) -> Result<(TableRef, String)> {
        let name = match args.first() {
            Some(Expr::Literal(Literal::String { text, .. })) => text.clone(),
            Some(Expr::Column(column)) => column.to_string(),
            _ => return Err(messages::error(2526, &[])),
        };
        // One that has changed while it was waited for is looked for anew.
        let missing = |error: SqlError| match error.number {
            2801 => error,
            _ => messages::error(2501, &[&name]),
        };
        let parsed = parse_object_name(&name, &ParseOptions::default());
        let parsed = parsed.map_err(|_| messages::error(2501, &[&name]))?;
        let Resolved::Table(table) = self.resolve(&parsed).map_err(missing)? else {
            return Err(messages::error(2501, &[&name]));
        };
        let about = super::DbccTable {
            command: "CHECKIDENT",
            state: 5,
            named: &name,
            enough: None,
        };
        self.check_table_for_dbcc(&table, &about)?;
        Ok((table, name))
    }

    /// Error 2560 for an argument that is none, or a value that the column cannot have.
    fn asked_of(&self, args: &[Expr], table: &TableRef, identity: IdentityDef) -> Result<Asked> {
        let wrong = |at: usize| messages::error(2560, &[&at]);
        let how = match args.get(1) {
            None => return Ok(Asked::Check),
            Some(Expr::Column(column)) => column.to_string(),
            Some(_) => return Err(wrong(2)),
        };
        match (args.get(2), args.len()) {
            (None, _) if how.eq_ignore_ascii_case("NORESEED") => Ok(Asked::Look),
            (None, _) if how.eq_ignore_ascii_case("RESEED") => Ok(Asked::Check),
            (Some(value), 3) if how.eq_ignore_ascii_case("RESEED") => {
                let (value, _) = self.evaluate_alone(value)?;
                let value = identity_number(&value).ok_or_else(|| wrong(3))?;
                let column = table.def.column(identity.column_id);
                let fits = column.is_some_and(|c| identity_value(value, c.data_type).is_ok());
                match fits {
                    true => Ok(Asked::Set(value)),
                    false => Err(wrong(3)),
                }
            }
            _ => Err(wrong(2)),
        }
    }

    fn set_identity(&self, table: &TableRef, identity: IdentityDef, value: i128) -> Result<()> {
        let is_given = self.reached_identity(table).is_some_and(|r| r.is_given);
        let last = match is_given {
            true => value,
            false => value.saturating_sub(identity.increment),
        };
        self.state
            .reset_identity(table, Some(Reached { last, is_given }))
    }

    /// The value in the column that the others do not go beyond: the least one where they descend.
    fn outermost_value(&self, table: &TableRef, identity: IdentityDef) -> Result<Option<i128>> {
        let Some(column) = table.def.column(identity.column_id) else {
            return Ok(None);
        };
        let function = match identity.increment < 0 {
            true => "MIN",
            false => "MAX",
        };
        let quoted = |name: &str| format!("[{}]", name.replace(']', "]]"));
        let from = match table.kind {
            TableKind::User => {
                let database = self.state.instance.database(table.database.id());
                let database = database.map_or(String::new(), |d| d.name());
                let parts = [&database, &table.schema_name, &table.name];
                parts.map(|part| quoted(part)).join(".")
            }
            _ => quoted(&table.name),
        };
        let text = format!("SELECT {function}({}) FROM {from}", quoted(&column.name));
        let rows = self.rows_of_query(&text)?;
        let value = rows.first().and_then(|row| row.first());
        Ok(value.and_then(identity_number))
    }
}

fn shown(value: Option<i128>) -> String {
    value.map_or("NULL".to_string(), |value| value.to_string())
}

impl SessionState {
    /// TRUNCATE: identity values begin anew.
    pub(crate) fn restart_identity(&self, table: &TableRef) -> Result<()> {
        self.reset_identity(table, None)
    }

    /// Sets how far the identity values of a table are, for others and after a crash when the transaction commits. The caller has its lock.
    fn reset_identity(&self, table: &TableRef, reached: Option<Reached>) -> Result<()> {
        let id = CounterId::Identity(table.object_id);
        if table.kind != TableKind::User {
            let before = self.instance.temp_counters.lock().get(&id).copied();
            self.push_temp_undo(TempUndo::TempCounter(id, before));
            self.set_temp_counter(id, reached);
            return Ok(());
        }
        self.reset_stored_counter(table.database.id(), id, reached)
    }

    /// ALTER SEQUENCE .. RESTART: the same of a sequence.
    pub(crate) fn reset_sequence(&self, database: DatabaseId, id: i32) -> Result<()> {
        self.reset_stored_counter(database, CounterId::Sequence(id), None)
    }

    fn reset_stored_counter(
        &self,
        database: DatabaseId,
        id: CounterId,
        reached: Option<Reached>,
    ) -> Result<()> {
        // Its commit stores the counter.
        self.txn_in(database)?;
        let catalog = self.instance.open_database(database)?.catalog;
        self.push_temp_undo(TempUndo::Counter(database, id, catalog.reached(id)));
        catalog.set_reached(id, reached);
        Ok(())
    }
}
