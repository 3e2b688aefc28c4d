//! Statements: blocks with indentation, and everything else on its line.

use super::Commas;
use super::option::WithOptions;
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

/// The text of a batch: one statement after the other, each with its semicolon.
pub fn print_batch(statements: &[Statement]) -> String {
    Statements {
        statements,
        depth: 0,
    }
    .to_string()
}

/// A list of statements, each on a line of its own.
pub(super) struct Statements<'a> {
    pub statements: &'a [Statement],
    pub depth: usize,
}

impl Display for Statements<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for statement in self.statements {
            Line {
                statement,
                depth: self.depth,
            }
            .fmt(f)?;
        }
        Ok(())
    }
}

/// One statement, indented, with semicolon and line end.
struct Line<'a> {
    statement: &'a Statement,
    depth: usize,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        indent(f, self.depth)?;
        write_kind(f, &self.statement.kind, self.depth)?;
        match self.statement.kind {
            // These end with the line of their last statement.
            StatementKind::If(_) | StatementKind::While(_) => Ok(()),
            StatementKind::Label(_) => f.write_str("\n"),
            // Everything up to the end of the batch belongs to these.
            StatementKind::CreateProcedure(_) | StatementKind::CreateTrigger(_) => {
                f.write_str("\n")
            }
            _ => f.write_str(";\n"),
        }
    }
}

fn indent(f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    (0..depth).try_for_each(|_| f.write_str("    "))
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_kind(f, &self.kind, 0)
    }
}

impl Display for StatementKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_kind(f, self, 0)
    }
}

fn write_block(f: &mut Formatter<'_>, statements: &[Statement], depth: usize) -> fmt::Result {
    f.write_str("\n")?;
    Statements {
        statements,
        depth: depth + 1,
    }
    .fmt(f)?;
    indent(f, depth)
}

fn write_kind(f: &mut Formatter<'_>, kind: &StatementKind, depth: usize) -> fmt::Result {
    match kind {
        StatementKind::Block(body) => {
            f.write_str("BEGIN")?;
            write_block(f, body, depth)?;
            f.write_str("END")
        }
        StatementKind::Atomic { options, body } => {
            write!(f, "BEGIN ATOMIC{}", WithOptions(options))?;
            write_block(f, body, depth)?;
            f.write_str("END")
        }
        StatementKind::TryCatch(TryCatch { body, handler }) => {
            f.write_str("BEGIN TRY")?;
            write_block(f, body, depth)?;
            f.write_str("END TRY\n")?;
            indent(f, depth)?;
            f.write_str("BEGIN CATCH")?;
            write_block(f, handler, depth)?;
            f.write_str("END CATCH")
        }
        StatementKind::If(If {
            condition,
            then,
            otherwise,
        }) => {
            writeln!(f, "IF {condition}")?;
            Line {
                statement: then,
                depth: depth + 1,
            }
            .fmt(f)?;
            let Some(otherwise) = otherwise else {
                return Ok(());
            };
            indent(f, depth)?;
            f.write_str("ELSE\n")?;
            Line {
                statement: otherwise,
                depth: depth + 1,
            }
            .fmt(f)
        }
        StatementKind::While(While { condition, body }) => {
            writeln!(f, "WHILE {condition}")?;
            Line {
                statement: body,
                depth: depth + 1,
            }
            .fmt(f)
        }
        StatementKind::Select(query) => query.fmt(f),
        StatementKind::Insert(insert) => insert.fmt(f),
        StatementKind::Update(update) => update.fmt(f),
        StatementKind::Delete(delete) => delete.fmt(f),
        StatementKind::Merge(merge) => merge.fmt(f),
        StatementKind::Truncate(truncate) => truncate.fmt(f),
        StatementKind::BulkInsert(bulk) => bulk.fmt(f),
        StatementKind::InsertBulk(bulk) => bulk.fmt(f),
        StatementKind::TextPointer(text) => text.fmt(f),
        StatementKind::Break => f.write_str("BREAK"),
        StatementKind::Continue => f.write_str("CONTINUE"),
        StatementKind::Label(label) => write!(f, "{label}:"),
        StatementKind::Goto(label) => write!(f, "GOTO {label}"),
        StatementKind::Return(None) => f.write_str("RETURN"),
        StatementKind::Return(Some(value)) => write!(f, "RETURN {value}"),
        StatementKind::Throw(None) => f.write_str("THROW"),
        StatementKind::Throw(Some(throw)) => write!(
            f,
            "THROW {}, {}, {}",
            throw.number, throw.message, throw.state
        ),
        StatementKind::RaisError(raise) => raise.fmt(f),
        StatementKind::Print(value) => write!(f, "PRINT {value}"),
        StatementKind::WaitFor(wait) => wait.fmt(f),
        StatementKind::Execute(execute) => execute.fmt(f),
        StatementKind::Declare(declarations) => write!(f, "DECLARE {}", Commas(declarations)),
        StatementKind::DeclareTable(declare) => {
            write!(f, "DECLARE {} TABLE {}", declare.name, declare.definition)
        }
        StatementKind::DeclareCursor(cursor) => cursor.fmt(f),
        StatementKind::Set(set) => set.fmt(f),
        StatementKind::Open(cursor) => write!(f, "OPEN {cursor}"),
        StatementKind::Fetch(fetch) => fetch.fmt(f),
        StatementKind::Close(cursor) => write!(f, "CLOSE {cursor}"),
        StatementKind::Deallocate(cursor) => write!(f, "DEALLOCATE {cursor}"),
        StatementKind::BeginTransaction(begin) => begin.fmt(f),
        StatementKind::Commit(commit) => commit.fmt(f),
        StatementKind::Rollback(None) => f.write_str("ROLLBACK TRANSACTION"),
        StatementKind::Rollback(Some(name)) => write!(f, "ROLLBACK TRANSACTION {name}"),
        StatementKind::SaveTransaction(name) => write!(f, "SAVE TRANSACTION {name}"),
        StatementKind::Use(database) => write!(f, "USE {database}"),
        StatementKind::ExecuteAs(execute) => execute.fmt(f),
        StatementKind::Revert { cookie: None } => f.write_str("REVERT"),
        StatementKind::Revert {
            cookie: Some(cookie),
        } => write!(f, "REVERT WITH COOKIE = {cookie}"),
        StatementKind::CreateTable(table) => table.fmt(f),
        StatementKind::AlterTable(table) => table.fmt(f),
        StatementKind::CreateIndex(index) => index.fmt(f),
        StatementKind::AlterIndex(index) => index.fmt(f),
        StatementKind::DropIndex(drop) => drop.fmt(f),
        StatementKind::CreateStatistics(statistics) => statistics.fmt(f),
        StatementKind::UpdateStatistics(statistics) => statistics.fmt(f),
        StatementKind::SwitchTrigger(switch) => switch.fmt(f),
        StatementKind::CreateSchema(schema) => schema.fmt(f),
        StatementKind::AlterSchema(schema) => schema.fmt(f),
        StatementKind::CreateType(definition) => definition.fmt(f),
        StatementKind::CreateSequence(sequence) => sequence.fmt(f),
        StatementKind::AlterSequence(sequence) => sequence.fmt(f),
        StatementKind::CreateSynonym(synonym) => synonym.fmt(f),
        StatementKind::CreateXmlSchemaCollection(collection) => collection.fmt(f),
        StatementKind::Drop(drop) => drop.fmt(f),
        StatementKind::CreateView(view) => view.fmt(f),
        StatementKind::CreateProcedure(procedure) => procedure.fmt(f),
        StatementKind::CreateFunction(function) => function.fmt(f),
        StatementKind::CreateTrigger(trigger) => trigger.fmt(f),
        StatementKind::CreateDatabase(database) => database.fmt(f),
        StatementKind::AlterDatabase(database) => database.fmt(f),
        StatementKind::Backup(backup) => backup.fmt(f),
        StatementKind::Restore(restore) => restore.fmt(f),
        StatementKind::Grant(grant) => grant.fmt(f),
        StatementKind::Principal(principal) => principal.fmt(f),
        StatementKind::Key(key) => key.fmt(f),
        StatementKind::Checkpoint(None) => f.write_str("CHECKPOINT"),
        StatementKind::Checkpoint(Some(seconds)) => write!(f, "CHECKPOINT {seconds}"),
        StatementKind::Kill(kill) => kill.fmt(f),
        StatementKind::Shutdown { no_wait } => f.write_str(if *no_wait {
            "SHUTDOWN WITH NOWAIT"
        } else {
            "SHUTDOWN"
        }),
        StatementKind::Reconfigure { with_override } => f.write_str(if *with_override {
            "RECONFIGURE WITH OVERRIDE"
        } else {
            "RECONFIGURE"
        }),
        StatementKind::Dbcc(dbcc) => dbcc.fmt(f),
        StatementKind::CreateEndpoint(endpoint) => endpoint.fmt(f),
        StatementKind::EventSession(session) => session.fmt(f),
        StatementKind::CreateAvailabilityGroup(group) => group.fmt(f),
        StatementKind::AlterAvailabilityGroup(group) => group.fmt(f),
        StatementKind::OtherDdl(other) => f.write_str(&other.text),
    }
}
