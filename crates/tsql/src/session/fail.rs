//! Effects of an error: it ends its statement, its scope, the batch, or the connection; dooms or rolls back.
//!
//! | error | outside TRY | inside TRY |
//! |---|---|---|
//! | statement-terminating (most) | message; next statement | to CATCH |
//! | name resolution | message; the scope ends | to a CATCH of an outer scope |
//! | batch-aborting (conversion, deadlock, any with XACT_ABORT ON) | message; rollback; the batch ends | transaction doomed; to CATCH |
//! | in a trigger, where XACT_ABORT is ON until the trigger says otherwise | message; rollback; the batch ends | transaction doomed; to CATCH |
//! | class 20 and up, KILL | message; the connection ends | the same |
//! | attention | rollback with XACT_ABORT ON; the request ends | the same |

use super::execution::Execution;
use super::frame::FrameKind;
use crate::error::{DamagedPage, Full, FullFile, SqlError};
use crate::instance::OpenDatabase;
use crate::messages;
use daruma_catalog::ObjectKind;
use daruma_storage::TreeId;

/// Why interpretation leaves the normal order of statements.
#[derive(Debug)]
pub enum Stop {
    /// An error on its way to the nearest CATCH.
    Caught(SqlError),
    /// Only the statement ends. Messages are sent.
    Statement,
    /// The scope (module or dynamic text) ends; its caller goes on. Messages are sent.
    Scope,
    /// The batch ends. Messages are sent.
    Batch,
    /// The connection ends.
    Connection,
    /// Attention.
    Cancelled,
    /// The client is gone.
    ClientGone,
}

pub(crate) type Step<T> = std::result::Result<T, Stop>;

/// Errors of rows, after which a statement that changes data says that it was terminated (3621).
fn terminates_statement(number: i32) -> bool {
    matches!(
        number,
        220 | 232 | 512 | 515 | 517 | 547 | 550 | 2601 | 2627 | 2628 | 8115 | 8134 | 8152 | 8672
    )
}

/// An attention or KILL, whatever is said behind it.
fn stops(error: &SqlError) -> bool {
    matches!(error.number, 596 | 3617)
}

impl Execution<'_> {
    /// Decides what an error of the statement at hand does. The statement's own changes are already rolled back.
    pub(crate) fn fail(&self, mut error: SqlError) -> Stop {
        if self.in_function() {
            return self.fail_in_function(error);
        }
        if let Some(next) = error.next.take().filter(|_| !stops(&error)) {
            return self.fail_twice(error, *next);
        }
        self.dress(&mut error);
        self.locate(&mut error);
        self.state.last_error.set(error.number);
        match error.number {
            3617 => return self.cancelled(),
            number if error.class >= 20 || number == 596 => {
                let _ = self.send(&error);
                return Stop::Connection;
            }
            _ => {}
        }
        let resolution = messages::ends_scope(error.number) && error.number != 1205;
        let aborts = self.aborts(&error);
        let catchable = self.can_catch(resolution);
        if catchable {
            if aborts {
                self.doom();
            }
            self.tell_message(&error, true);
            return Stop::Caught(error);
        }
        if self.send(&error).is_err() {
            return Stop::ClientGone;
        }
        if !aborts
            && self.changes_rows.get()
            && terminates_statement(error.number)
            && self.send_terminated().is_err()
        {
            return Stop::ClientGone;
        }
        if aborts {
            return match self.rollback_and_tell() {
                Ok(()) => Stop::Batch,
                Err(stop) => stop,
            };
        }
        match resolution {
            true if self.in_module() => Stop::Scope,
            true => Stop::Batch,
            false => Stop::Statement,
        }
    }

    /// What an error in a function does is decided where the statement stands that calls it.
    fn fail_in_function(&self, mut error: SqlError) -> Stop {
        let mut part = Some(&mut error);
        while let Some(error) = part {
            self.dress(error);
            self.locate(error);
            part = error.next.as_deref_mut();
        }
        Stop::Caught(error)
    }

    /// An error with its consequence: both are told, the second decides. CATCH sees the second.
    fn fail_twice(&self, mut first: SqlError, second: SqlError) -> Stop {
        self.dress(&mut first);
        self.locate(&mut first);
        if !self.can_catch(false) && self.send(&first).is_err() {
            return Stop::ClientGone;
        }
        self.fail(second)
    }

    /// Does the error end the batch and roll back (or doom) the transaction?
    fn aborts(&self, error: &SqlError) -> bool {
        let xact_abort = self.state.settings.borrow().xact_abort;
        error.kills_transaction
            || messages::aborts_batch(error.number)
            || (xact_abort && error.class > 10)
    }

    /// Storage knows no product texts: they are put in where the error first meets the session.
    fn dress(&self, error: &mut SqlError) {
        let database = self.state.database.borrow().name();
        let dressed = match error.number {
            1205 => messages::error_state(1205, 51, &[&self.state.entry.spid, &"lock"]),
            1222 => messages::error_state(1222, 51, &[]),
            3960 => messages::error_state(3960, 2, &[&self.current_object(), &database]),
            3961 => messages::error(3961, &[&database]),
            9002 | 1105 => match error.full.take() {
                Some(file) => self.full_file(&file),
                None => return,
            },
            701 => {
                self.state.instance.memory.note_refusal();
                messages::error_state(701, 123, &[&"default"])
            }
            945 | 9001 | 9004 => return self.name_database(error, &self.broken_database()),
            824 if error.damaged.is_some() => match error.damaged.take() {
                Some(page) => self.damaged_page(&page),
                None => return,
            },
            _ => return,
        };
        error.message = dressed.message;
        error.class = dressed.class;
        error.state = dressed.state;
    }

    /// The database that an error about all of one means: of those that the session works in the one that cannot be used, or the
    /// current one.
    fn broken_database(&self) -> String {
        let current = self.state.database.borrow().clone();
        let visited = self.state.visited.borrow();
        let mut all = std::iter::once(&current).chain(visited.iter());
        let broken = all.find(|entry| entry.open().is_err());
        broken.unwrap_or(&current).name()
    }

    /// Names the database in an error about all of it, unless one is named there. What storage said goes to the error log, which has
    /// it already where a log failed (9001).
    pub(crate) fn name_database(&self, error: &mut SqlError, database: &str) {
        let state = match error.number {
            945 => 2,
            9001 | 9004 => 4,
            _ => return,
        };
        if error.state == state {
            return;
        }
        if error.number != 9001 {
            let source = format!("spid{}", self.spid());
            let said = format!("Database {database}: {}", error.message);
            let log = &self.state.instance.log;
            log.write_bounded(&source, error.number, &[&said]);
        }
        let named = messages::error_state(error.number, state, &[&database]);
        error.message = named.message;
        error.class = named.class;
        error.state = named.state;
    }

    /// 9002 or 1105 with the names of the database and its filegroup; a temporary table fills those of `tempdb`.
    fn full_file(&self, full: &FullFile) -> SqlError {
        let current = self.state.database.borrow().clone();
        let of_file = self.state.instance.database_of_file(&full.path);
        let database = of_file.unwrap_or(current);
        match full.what {
            Full::Log { reason } => messages::error_state(9002, 2, &[&database.name(), &reason]),
            Full::Data { filegroup } => {
                let def = database.def();
                let group = def.filegroups.iter().find(|g| g.id == filegroup);
                let group = group.map_or("PRIMARY", |g| g.name.as_str());
                messages::error_state(
                    1105,
                    2,
                    &[&self.current_object(), &"", &database.name(), &group],
                )
            }
        }
    }

    /// 824 with the names of what the page belongs to.
    fn damaged_page(&self, damaged: &DamagedPage) -> SqlError {
        let entry = self.state.instance.database_of_file(&damaged.path);
        let id = entry.as_ref().map_or(0, |e| e.id().0);
        super::note_suspects(&self.state.instance, id, &[super::SuspectPage::of(damaged)]);
        let open = entry.and_then(|e| e.open().ok());
        let owner = damaged.owner.map(TreeId);
        let name = open.zip(owner).and_then(|(o, tree)| object_of(&o, tree));
        damaged.told(id, name.as_deref())
    }

    /// The table whose lock the session took last: what a conflict was about.
    fn current_object(&self) -> String {
        let Some((database, id)) = self.last_written.get() else {
            return String::new();
        };
        let catalog = self.state.catalog(database).ok();
        let name = catalog.and_then(|c| {
            c.object(id).map(|o| {
                (
                    c.schema(o.schema_id).map(|s| s.name.clone()),
                    o.name.clone(),
                )
            })
        });
        name.map_or(String::new(), |(schema, name)| {
            format!("{}.{name}", schema.unwrap_or_default())
        })
    }

    /// Is there a TRY that may catch? Errors of name resolution only reach those of outer scopes.
    fn can_catch(&self, resolution: bool) -> bool {
        let frames = self.state.frames.borrow();
        let outer_only = usize::from(resolution);
        frames.iter().rev().skip(outer_only).any(|f| f.tries > 0)
    }

    pub(crate) fn in_trigger(&self) -> bool {
        self.state
            .frames
            .borrow()
            .iter()
            .any(|f| f.kind == FrameKind::Trigger)
    }

    fn in_module(&self) -> bool {
        self.state.frames.borrow().len() > 1
    }

    pub(crate) fn doom(&self) {
        if self.state.trancount.get() > 0 {
            self.state.doom();
        }
    }

    fn cancelled(&self) -> Stop {
        let xact_abort = self.state.settings.borrow().xact_abort;
        if xact_abort && self.rollback_and_tell().is_err() {
            return Stop::ClientGone;
        }
        Stop::Cancelled
    }

    /// Fills in line and module where the error does not carry them yet.
    pub(crate) fn locate(&self, error: &mut SqlError) {
        let frames = self.state.frames.borrow();
        let Some(frame) = frames.last() else { return };
        // Errors of a procedure's arguments name the procedure and line 0.
        if error.line == 0 && error.procedure.is_none() {
            error.line = frame.statement_line;
            error.procedure.clone_from(&frame.module);
        }
    }
}

/// In words, what a tree holds.
fn object_of(open: &OpenDatabase, tree: TreeId) -> Option<String> {
    if tree == open.storage.catalog_tree() {
        return Some(crate::error::SYSTEM_CATALOG.to_string());
    }
    let catalog = open.catalog.current();
    catalog.objects().find_map(|object| {
        let ObjectKind::Table(def) = &object.kind else {
            return None;
        };
        let index = def.indexes.iter().find(|i| i.tree == tree)?;
        let schema = catalog.schema(object.schema_id);
        let schema = schema.map_or("dbo", |s| s.name.as_str());
        let table = format!("object '{schema}.{}'", object.name);
        Some(match &index.name {
            Some(name) => format!("index '{name}' of {table}"),
            None => table,
        })
    })
}
