//! USE, KILL, CHECKPOINT, SHUTDOWN, DBCC, and the way to database statements.

use super::check::use_in_module;
use super::execution::Execution;
use super::fail::{Step, Stop};
use crate::ddl;
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::change::DatabaseChange;
use crate::instance::{DatabaseEntry, FIRST_USER_SPID, ShutdownRequest};
use crate::messages;
use crate::sink::EnvChange;
use daruma_base::cancel::CancelReason;
use daruma_catalog::DatabaseDef;
use daruma_syntax::ast::{self, Expr, KillTarget, Statement, StatementKind};
use daruma_value::Value;

impl Execution<'_> {
    pub(crate) fn spid(&self) -> i32 {
        self.state.entry.spid
    }

    pub(crate) fn login(&self) -> &str {
        &self.state.entry.login.login
    }

    pub(crate) fn owner(&self) -> &std::sync::Arc<daruma_storage::Owner> {
        &self.state.entry.owner
    }

    /// Figures of this session that others are shown.
    pub(crate) fn session_activity(&self) -> &parking_lot::Mutex<crate::instance::Activity> {
        &self.state.entry.activity
    }

    pub(crate) fn check_cancel(&self) -> Result<()> {
        self.state.check_cancel()
    }

    /// See [`SessionState::patience`].
    pub(crate) fn patience(&self) -> impl Fn() -> Result<()> + '_ {
        self.state.patience()
    }

    /// Begins a change of a database's definition, when nobody else is changing it.
    pub(crate) fn begin_change<'e>(
        &'e self,
        entry: &'e DatabaseEntry,
    ) -> Result<DatabaseChange<'e>> {
        self.instance().begin_change(entry, &self.patience())
    }

    /// Changes the definition of a database as it is when nobody else changes it.
    pub(crate) fn change_database(
        &self,
        entry: &DatabaseEntry,
        change: impl FnOnce(&mut DatabaseDef) -> Result<()>,
    ) -> Result<()> {
        let mut begun = self.begin_change(entry)?;
        change(&mut begun.def)?;
        begun.store()
    }

    pub(crate) fn run_use(&self, name: &str) -> Step<()> {
        let old = self
            .state
            .instance
            .database(self.current_database())
            .map_or(String::new(), |d| d.name());
        // The rights of a module in its database follow from its owner there.
        if self.top(|f| f.kind.is_module()) {
            return Err(self.failed(0xFD, use_in_module()));
        }
        let entry = match self.enterable(name) {
            Ok(entry) => entry,
            Err(error) => return Err(self.failed(0xFD, error)),
        };
        let outermost = self.state.frames.borrow().len() == 1;
        let entered = match outermost {
            true => self.state.enter_database(entry.clone()),
            false => self.state.visit(&entry),
        };
        if let Err(error) = entered {
            return Err(self.failed(0xFD, error));
        }
        self.top_mut(|f| f.database = entry.id());
        let new = entry.name();
        let told = messages::error(5701, &[&new]);
        if outermost {
            self.to_client(|sink| sink.env_change(EnvChange::Database { new, old }))?;
        }
        self.send_located(told)?;
        self.succeed(0xFD)
    }

    fn enterable(&self, name: &str) -> Result<std::sync::Arc<crate::instance::DatabaseEntry>> {
        let entry = self
            .state
            .instance
            .database_named(name)
            .ok_or_else(|| messages::error(911, &[&name]))?;
        entry.open()?;
        let reads_only = self.state.entry.login.read_only_intent;
        entry
            .availability()
            .check_intent(&entry.name(), reads_only)?;
        self.state.rights(entry.id())?;
        Ok(entry)
    }

    pub(crate) fn run_database(&self, statement: &Statement) -> Step<()> {
        let (code, name) = match &statement.kind {
            StatementKind::CreateDatabase(_) => (0xCB, "CREATE DATABASE"),
            StatementKind::Drop(_) => (0xCC, "DROP DATABASE"),
            _ => (0xFD, "ALTER DATABASE"),
        };
        if self.state.trancount.get() > 0 || self.depth.get() > 0 {
            return Err(self.failed(code, messages::error_state(226, 6, &[&name])));
        }
        self.run_with_triggers(statement, code, || self.change_databases(statement))
    }

    fn change_databases(&self, statement: &Statement) -> Result<()> {
        match &statement.kind {
            StatementKind::CreateDatabase(s) => ddl::database::create(self, s),
            StatementKind::AlterDatabase(s) => ddl::database::alter(self, s),
            StatementKind::Drop(s) => {
                s.names
                    .iter()
                    .try_for_each(|n| match ddl::database::drop(self, &n.name.text) {
                        Err(error) if s.if_exists && error.number == 3701 => Ok(()),
                        other => other,
                    })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        let open = self.state.instance.open_database(self.current_database())?;
        Ok(open.storage.checkpoint()?)
    }

    pub(crate) fn kill(&self, kill: &ast::Kill) -> Result<()> {
        let KillTarget::Session(expr) = &kill.target else {
            return Err(messages::not_supported(
                "KILL of query notifications and statistics jobs",
            ));
        };
        let (value, from) = self.evaluate_alone(expr)?;
        let spid = super::convert::to_int(&value, from)?;
        if spid == self.spid() {
            return Err(messages::error(6104, &[]));
        }
        if (1..FIRST_USER_SPID).contains(&spid) {
            return Err(messages::error(6107, &[]));
        }
        if spid < 1 {
            return Err(messages::error(6101, &[&spid]));
        }
        let session = self
            .state
            .instance
            .sessions
            .get(spid)
            .ok_or_else(|| messages::error(6106, &[&spid]))?;
        if kill.status_only {
            return Err(SqlError::new(
                6120,
                16,
                1,
                "Status report cannot be obtained. Rollback operation for Process ID is not in progress.",
            ));
        }
        session.cancel.set(CancelReason::Kill);
        let text = format!(
            "Process ID {spid} was killed by hostname {}, host process ID {}.",
            self.state.entry.login.host, self.state.entry.login.client_process_id
        );
        self.state
            .instance
            .log
            .write(&format!("spid{}", self.spid()), &text);
        Ok(())
    }

    pub(crate) fn run_shutdown(&self, no_wait: bool) -> Step<()> {
        let request = if no_wait {
            ShutdownRequest::NoWait
        } else {
            ShutdownRequest::Orderly
        };
        let told = match no_wait {
            true => messages::error(6006, &[&"NOWAIT request", &self.state.entry.login.login]),
            false => messages::error(6006, &[&"request", &self.state.entry.login.login]),
        };
        self.state
            .instance
            .log
            .write(&format!("spid{}", self.spid()), &told.message);
        self.send_located(told)?;
        self.state.instance.request_shutdown(request);
        self.succeed(0xFD)?;
        self.to_client(|sink| sink.flush())?;
        Err(Stop::Connection)
    }

    pub(crate) fn run_dbcc(&self, dbcc: &ast::Dbcc) -> Step<()> {
        if let Some(procedure) = self.state.instance.registry().command(&dbcc.name).cloned() {
            return self.run_registered_dbcc(procedure.as_ref(), dbcc);
        }
        let quiet = is_quiet(dbcc);
        match self.dbcc(dbcc) {
            Ok(()) => {
                self.send_pending()?;
                if !quiet {
                    self.send_located(messages::error(2528, &[]))?;
                }
                self.succeed(0xE6)
            }
            Err(error) => Err(self.failed(0xE6, error)),
        }
    }

    /// A DBCC command of the registry, whose arguments are those of a procedure.
    fn run_registered_dbcc(
        &self,
        procedure: &dyn crate::instance::SystemProcedure,
        dbcc: &ast::Dbcc,
    ) -> Step<()> {
        let args = dbcc
            .args
            .iter()
            .map(|a| self.dbcc_argument(a))
            .collect::<Result<Vec<_>>>();
        let args = args.map_err(|e| self.fail(e))?;
        self.state.last_error.set(0);
        self.call_registered(procedure, &args, &dbcc.options)?;
        // What a check found was told as errors, though the statement has gone well: nothing catches them, and @@ERROR has the last.
        let found = self.state.last_error.get();
        self.state.row_count.set(0);
        self.send_pending()?;
        self.done(0xE6, None, found != 0)
    }

    fn dbcc_argument(&self, expr: &Expr) -> Result<super::procedure::CallArgument> {
        let (value, data_type) = match expr {
            Expr::Column(column) => (
                Value::str(&column.name.text),
                daruma_value::DataType::NVARCHAR_MAX,
            ),
            other => self.evaluate_alone(other)?,
        };
        Ok(super::procedure::CallArgument {
            name: String::new(),
            value: Some(value),
            data_type,
            output: false,
            table: None,
        })
    }

    /// An argument that is an integer.
    pub(super) fn dbcc_number(&self, expr: &Expr) -> Result<Option<i64>> {
        let argument = self.dbcc_argument(expr)?;
        Ok(argument.value.and_then(|v| v.as_i64()))
    }

    fn dbcc(&self, dbcc: &ast::Dbcc) -> Result<()> {
        match dbcc.name.as_str() {
            "FREEPROCCACHE" => {
                self.state.instance.plans.clear();
                self.state.instance.give_back_memory();
                Ok(())
            }
            "DROPCLEANBUFFERS" => {
                self.state.instance.engine().drop_clean_pages();
                self.state.instance.give_back_memory();
                Ok(())
            }
            "FREESYSTEMCACHE" | "FREESESSIONCACHE" => {
                self.state.instance.give_back_memory();
                Ok(())
            }
            "SHRINKDATABASE" => Err(messages::not_supported("DBCC SHRINKDATABASE")),
            "UPDATEUSAGE" => Ok(()),
            "TRACEON" => self.switch_trace_flags(&dbcc.args, true),
            "TRACEOFF" => self.switch_trace_flags(&dbcc.args, false),
            "CHECKIDENT" => {
                self.retry_on_change(|| self.check_identity(&dbcc.args, is_quiet(dbcc)))
            }
            known if KNOWN_DBCC.contains(&known) => {
                Err(messages::not_supported(&format!("DBCC {known}")))
            }
            _ => Err(messages::error(2526, &[])),
        }
    }
}

/// Commands of the product that are not here.
const KNOWN_DBCC: &[&str] = &[
    "CLEANTABLE",
    "CLONEDATABASE",
    "DBREINDEX",
    "DBREPAIR",
    "HELP",
    "IND",
    "INDEXDEFRAG",
    "MEMORYSTATUS",
    "OUTPUTBUFFER",
    "PAGE",
    "PROCCACHE",
    "SHOWCONTIG",
    "SHOW_STATISTICS",
];

fn is_quiet(dbcc: &ast::Dbcc) -> bool {
    dbcc.options.iter().any(|o| o.is("NO_INFOMSGS"))
}
