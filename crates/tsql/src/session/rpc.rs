//! Remote procedure calls and the procedures of the language core: sp_executesql and the prepared statement family.
//!
//! Handles live in the session. Preparing parses only: names resolve when the statement runs, as for deferred names.

use super::TableArgument;
use super::execution::Execution;
use super::fail::{Step, Stop};
use super::parameters::ParameterList;
use super::procedure::{CallArgument, CallResult, OutputValue, value_column};
use crate::error::{Result, SqlError};
use crate::host::Showplan;
use crate::instance::Batch;
use crate::messages;
use crate::session::TransactionRequest;
use crate::sink::{Done, DoneKind, EnvChange};
use daruma_syntax::{ParseOptions, parse_object_name};
use daruma_value::{DataType, Value};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A statement prepared by the client.
#[derive(Clone)]
pub struct Prepared {
    text: Arc<str>,
    parameters: Arc<ParameterList>,
    /// The text parsed under `quoted_identifier`, for as long as the plan cache holds it too.
    batch: Weak<Batch>,
    quoted_identifier: bool,
}

/// Handles of one session.
const HANDLES_MAX: usize = 65_536;

/// Which procedure a call is for.
#[derive(Clone, Debug, PartialEq)]
pub enum RpcProcedure {
    /// As sent, with brackets and dots.
    Name(String),
    /// Well-known number: 10 is sp_executesql.
    Id(u16),
}

/// A parameter of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcArgument {
    /// With its `@`; empty when positional.
    pub name: String,
    /// `None` asks for the default.
    pub value: Option<Value>,
    pub data_type: DataType,
    pub output: bool,
    /// In the place of a value.
    pub table: Option<TableArgument>,
}

/// A call as the connection got it.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcRequest {
    pub procedure: RpcProcedure,
    pub args: Vec<RpcArgument>,
    /// No column metadata wanted again (option bit 0x02).
    pub no_metadata: bool,
}

impl RpcRequest {
    fn is_reset(&self) -> bool {
        let RpcProcedure::Name(name) = &self.procedure else {
            return false;
        };
        let parsed = parse_object_name(name, &ParseOptions::default());
        parsed.is_ok_and(|n| {
            let schema = n.schema.as_ref();
            n.name.is("sp_reset_connection") && schema.is_none_or(|s| s.is("sys") || s.is("dbo"))
        })
    }

    /// The procedure that is called, as it was sent.
    pub fn object_name(&self) -> &str {
        match &self.procedure {
            RpcProcedure::Name(name) => name,
            RpcProcedure::Id(id) => core_name(*id).unwrap_or("sp_unknown"),
        }
    }

    /// Text that activity views show.
    pub fn display_text(&self) -> &str {
        let statement = || {
            self.args.iter().find_map(|a| match &a.value {
                Some(Value::Str(text)) => Some(text.as_str()),
                _ => None,
            })
        };
        match &self.procedure {
            RpcProcedure::Name(name) => Some(name.as_str()),
            RpcProcedure::Id(id @ (2 | 3 | 5 | 10 | 11 | 13)) => {
                statement().or_else(|| core_name(*id))
            }
            RpcProcedure::Id(id) => core_name(*id),
        }
        .unwrap_or("sp_unknown")
    }
}

const CORE: &[(u16, &str)] = &[
    (1, "sp_cursor"),
    (2, "sp_cursoropen"),
    (3, "sp_cursorprepare"),
    (4, "sp_cursorexecute"),
    (5, "sp_cursorprepexec"),
    (6, "sp_cursorunprepare"),
    (7, "sp_cursorfetch"),
    (8, "sp_cursoroption"),
    (9, "sp_cursorclose"),
    (10, "sp_executesql"),
    (11, "sp_prepare"),
    (12, "sp_execute"),
    (13, "sp_prepexec"),
    (14, "sp_prepexecrpc"),
    (15, "sp_unprepare"),
];

fn core_name(id: u16) -> Option<&'static str> {
    CORE.iter().find(|(i, _)| *i == id).map(|(_, name)| *name)
}

/// The name as `CORE` has it.
fn core_of(name: &str) -> Option<&'static str> {
    let mut names = CORE.iter().map(|(_, name)| *name);
    names.find(|known| known.eq_ignore_ascii_case(name))
}

pub(crate) fn is_core_procedure(name: &str) -> bool {
    core_of(name).is_some()
}

impl Execution<'_> {
    pub(crate) fn run_rpcs(&self, requests: &[RpcRequest]) -> Step<()> {
        for (at, request) in requests.iter().enumerate() {
            self.state.late.set_tail(at + 1 == requests.len());
            self.run_rpc(request)?;
        }
        Ok(())
    }

    fn run_rpc(&self, request: &RpcRequest) -> Step<()> {
        if request.is_reset() {
            self.reset_connection()?;
            return self.rpc_done(request, &CallResult::default());
        }
        self.push_request_frame();
        let before = self.state.trancount.get();
        let result = self.dispatch_rpc(request, &request.args, before);
        self.state.frames.borrow_mut().pop();
        match result {
            Ok(result) => self.rpc_done(request, &result),
            Err(Stop::Statement | Stop::Scope | Stop::Batch) => self.rpc_failed(),
            Err(Stop::Caught(error)) => {
                self.send(&error)?;
                self.rpc_failed()
            }
            Err(stop) => Err(stop),
        }
    }

    /// sp_reset_connection: what the bit of that name in a packet's header does before a request, as a call of its own.
    /// Only clients can call it, between their requests.
    fn reset_connection(&self) -> Step<()> {
        self.rollback_and_tell()?;
        let old = self.state.database.borrow().name();
        if let Err(error) = self.state.reset(false) {
            self.send(&error)?;
            return Err(Stop::Connection);
        }
        let new = self.state.database.borrow().name();
        match old == new {
            true => Ok(()),
            false => self.to_client(|sink| sink.env_change(EnvChange::Database { new, old })),
        }
    }

    /// A frame that stands for the client: its variables are none.
    pub(super) fn push_request_frame(&self) {
        let batch = Batch::empty();
        let database = self.state.database.borrow().id();
        let frame = super::frame::Frame::new(super::frame::FrameKind::Batch, batch, database);
        self.state.frames.borrow_mut().push(frame);
    }

    fn dispatch_rpc(
        &self,
        request: &RpcRequest,
        args: &[CallArgument],
        before: u32,
    ) -> Step<CallResult> {
        let name = match &request.procedure {
            RpcProcedure::Id(id) => match core_name(*id) {
                Some(name) => {
                    self.refuse_unshown(name).map_err(|e| self.fail(e))?;
                    return self.call_core(name, args);
                }
                None => {
                    let missing = messages::error_state(2812, 62, &[&format!("#{id}")]);
                    return Err(self.fail(missing));
                }
            },
            RpcProcedure::Name(name) => name,
        };
        let parsed = parse_object_name(name, &ParseOptions::default());
        let parsed = parsed.map_err(|_| self.fail(messages::error_state(2812, 62, &[name])))?;
        let core = is_core_procedure(&parsed.name.text);
        if core || self.is_system_call(&parsed) {
            let refused = self.refuse_unshown(&parsed.name.text);
            refused.map_err(|e| self.fail(e))?;
        }
        let result = self.call_procedure(&parsed, args)?;
        let after = self.state.trancount.get();
        if !core && before != after {
            let mismatch = messages::error_state(266, 2, &[&before, &after]);
            self.send_located(mismatch)?;
        }
        Ok(result)
    }

    /// Under SHOWPLAN nothing runs: of the server's procedures only those that run a text can be called, and show it.
    fn refuse_unshown(&self, name: &str) -> Result<()> {
        const SHOWN: [&str; 6] = [
            "sp_executesql",
            "sp_prepare",
            "sp_execute",
            "sp_prepexec",
            "sp_unprepare",
            "sp_cursorclose",
        ];
        let is_shown = SHOWN.iter().any(|s| s.eq_ignore_ascii_case(name));
        match self.showplan() == Showplan::Off || is_shown {
            true => Ok(()),
            false => Err(messages::not_supported(&format!("SHOWPLAN of {name}"))),
        }
    }

    fn rpc_done(&self, request: &RpcRequest, result: &CallResult) -> Step<()> {
        self.to_client(|sink| sink.return_status(result.status))?;
        if let Some((value, data_type)) = &result.value {
            let column = value_column("", *data_type);
            self.to_client(|sink| sink.function_value(&column, value))?;
        }
        for output in &result.outputs {
            let sent_name = request
                .args
                .get(output.index)
                .map_or("", |a| a.name.as_str());
            let column = value_column(sent_name, output.data_type);
            let ordinal = u16::try_from(output.index).unwrap_or(u16::MAX);
            self.to_client(|sink| sink.return_value(ordinal, sent_name, &column, &output.value))?;
        }
        self.procedure_end(false)
    }

    fn rpc_failed(&self) -> Step<()> {
        self.procedure_end(true)
    }

    fn procedure_end(&self, error: bool) -> Step<()> {
        let in_transaction = self.state.trancount.get() > 0;
        let done = Done {
            kind: DoneKind::Procedure,
            command: 0xE0,
            row_count: None,
            error,
            in_transaction,
        };
        self.to_client(|sink| sink.done(done))
    }

    /// The procedures of the language core.
    pub(crate) fn call_core(&self, name: &str, args: &[CallArgument]) -> Step<CallResult> {
        match core_of(name).unwrap_or(name) {
            "sp_executesql" => self.executesql(args),
            "sp_prepare" => self.prepare(args).map_err(|e| self.fail(e)),
            "sp_execute" => self.execute_handle(args),
            "sp_prepexec" => self.prepexec(args),
            "sp_prepexecrpc" => self.prepexec_rpc(args),
            "sp_unprepare" | "sp_cursorunprepare" => self.unprepare(args).map_err(|e| self.fail(e)),
            "sp_cursoropen" => self.cursor_open(args),
            "sp_cursorprepare" => self.cursor_prepare(args),
            "sp_cursorexecute" => self.cursor_execute(args),
            "sp_cursorprepexec" => self.cursor_prepexec(args),
            "sp_cursorfetch" => self.cursor_fetch(args),
            "sp_cursoroption" => self.cursor_option(args).map_err(|e| self.fail(e)),
            "sp_cursorclose" => self.cursor_close(args).map_err(|e| self.fail(e)),
            "sp_cursor" => self.cursor_change(args).map_err(|e| self.fail(e)),
            other => Err(self.fail(messages::error_state(2812, 62, &[&other]))),
        }
    }

    fn executesql(&self, args: &[CallArgument]) -> Step<CallResult> {
        let text = self.text_argument(args, 0).map_err(|e| self.fail(e))?;
        let definitions = self.optional_text(args, 1).map_err(|e| self.fail(e))?;
        let parameters = self
            .parameter_definitions(&definitions)
            .map_err(|e| self.fail(e))?;
        let rest = args.get(2..).unwrap_or_default();
        self.check_nesting()?;
        let batch = self.dynamic_batch(&text)?;
        batch.is_prepared.store(true, Ordering::Relaxed);
        let mut result = self.run_dynamic_batch(&batch, &parameters, rest)?;
        result.outputs.iter_mut().for_each(|o| o.index += 2);
        Ok(result)
    }

    /// Runs a prepared statement with the arguments from `skip` on.
    fn run_prepared(&self, handle: i32, args: &[CallArgument], skip: usize) -> Step<CallResult> {
        let (batch, parameters) = self.prepared_batch(handle)?;
        let rest = args.get(skip..).unwrap_or_default();
        let mut result = self.run_dynamic_batch(&batch, &parameters, rest)?;
        result.outputs.iter_mut().for_each(|o| o.index += skip);
        Ok(result)
    }

    /// The text of a prepared statement as it is to be run now, and its parameters.
    pub(super) fn prepared_batch(&self, handle: i32) -> Step<(Arc<Batch>, Arc<ParameterList>)> {
        let prepared = self.state.prepared.borrow().get(&handle).cloned();
        let Some(prepared) = prepared else {
            return Err(self.fail(messages::error(8179, &[&handle])));
        };
        self.check_nesting()?;
        let options = self.parse_options();
        let batch = match prepared.batch.upgrade() {
            Some(batch) if prepared.quoted_identifier == options.quoted_identifier => batch,
            _ => {
                let batch = self.dynamic_batch(&prepared.text)?;
                if let Some(prepared) = self.state.prepared.borrow_mut().get_mut(&handle) {
                    prepared.batch = Arc::downgrade(&batch);
                    prepared.quoted_identifier = options.quoted_identifier;
                }
                batch
            }
        };
        Ok((batch, prepared.parameters))
    }

    fn prepare(&self, args: &[CallArgument]) -> Result<CallResult> {
        let definitions = self.optional_text(args, 1)?;
        let text = self.text_argument(args, 2)?;
        let handle = self.new_handle(&text, &definitions)?;
        Ok(handle_result(handle))
    }

    pub(super) fn new_handle(&self, text: &str, definitions: &str) -> Result<i32> {
        let parameters = self.parameter_definitions(definitions)?;
        let batch = self.parsed_batch(text).map_err(|errors| {
            let unprepared = messages::error(8180, &[]);
            match errors.into_iter().next() {
                Some(first) => first.followed(unprepared),
                None => unprepared,
            }
        })?;
        batch.is_prepared.store(true, Ordering::Relaxed);
        let mut prepared = self.state.prepared.borrow_mut();
        if prepared.len() >= HANDLES_MAX {
            return Err(messages::error(8180, &[]));
        }
        let handle = self.state.next_handle.get() + 1;
        self.state.next_handle.set(handle);
        prepared.insert(
            handle,
            Prepared {
                text: Arc::from(text),
                parameters,
                batch: Arc::downgrade(&batch),
                quoted_identifier: self.parse_options().quoted_identifier,
            },
        );
        Ok(handle)
    }

    fn execute_handle(&self, args: &[CallArgument]) -> Step<CallResult> {
        self.run_prepared(handle_argument(args), args, 1)
    }

    /// A handle that comes in is dropped; the new one goes out with the results.
    fn prepexec(&self, args: &[CallArgument]) -> Step<CallResult> {
        let old = handle_argument(args);
        self.state.prepared.borrow_mut().remove(&old);
        let prepared = self.optional_text(args, 1).and_then(|definitions| {
            let text = self.text_argument(args, 2)?;
            self.new_handle(&text, &definitions)
        });
        let handle = prepared.map_err(|e| self.fail(e))?;
        let result = self.run_prepared(handle, args, 3);
        let mut result = match result {
            Ok(result) => result,
            // The statement failed, the handle is good nevertheless.
            Err(Stop::Statement | Stop::Scope) => CallResult {
                status: -6,
                ..CallResult::default()
            },
            Err(stop) => return Err(stop),
        };
        result.outputs.insert(0, OutputValue::int(0, handle));
        Ok(result)
    }

    /// sp_prepexecrpc: the text is a procedure's name.
    fn prepexec_rpc(&self, args: &[CallArgument]) -> Step<CallResult> {
        let name = self.text_argument(args, 1).map_err(|e| self.fail(e))?;
        let parsed = parse_object_name(&name, &ParseOptions::default());
        let parsed = parsed.map_err(|_| self.fail(messages::error_state(2812, 62, &[&name])))?;
        let handle = self
            .new_handle(&format!("EXEC {name}"), "")
            .map_err(|e| self.fail(e))?;
        let mut result = self.call_procedure(&parsed, args.get(2..).unwrap_or_default())?;
        result.outputs.iter_mut().for_each(|o| o.index += 2);
        result.outputs.insert(0, OutputValue::int(0, handle));
        Ok(result)
    }

    fn unprepare(&self, args: &[CallArgument]) -> Result<CallResult> {
        let handle = handle_argument(args);
        match self.state.prepared.borrow_mut().remove(&handle) {
            Some(_) => Ok(CallResult::default()),
            None => Err(messages::error(8179, &[&handle])),
        }
    }

    pub(super) fn text_argument(&self, args: &[CallArgument], index: usize) -> Result<String> {
        let argument = args
            .get(index)
            .ok_or_else(|| messages::error_state(201, 10, &[&"sp_executesql", &"@statement"]))?;
        match &argument.value {
            Some(value @ Value::Str(_)) => {
                Ok(super::convert::to_text(value, argument.data_type)?.unwrap_or_default())
            }
            // A text that is NULL is nothing to do; NULL alone is no text.
            Some(Value::Null) if argument.data_type.is_character() => Ok(String::new()),
            _ => Err(SqlError::new(
                214,
                16,
                2,
                "Procedure expects parameter '@statement' of type 'ntext/nchar/nvarchar'.",
            )),
        }
    }

    pub(super) fn optional_text(&self, args: &[CallArgument], index: usize) -> Result<String> {
        match args.get(index).and_then(|a| a.value.as_ref()) {
            Some(Value::Str(text)) => Ok(text.to_string()),
            Some(Value::Null) | None => Ok(String::new()),
            Some(_) => Err(SqlError::new(
                214,
                16,
                3,
                "Procedure expects parameter '@params' of type 'ntext/nchar/nvarchar'.",
            )),
        }
    }

    // --- Transaction manager requests

    pub(crate) fn run_transaction_request(&self, request: &TransactionRequest) -> Step<()> {
        self.push_request_frame();
        let result = self.transaction_request(request);
        match result {
            Err(Stop::Statement | Stop::Scope | Stop::Batch) => Ok(()),
            other => other,
        }
    }

    fn transaction_request(&self, request: &TransactionRequest) -> Step<()> {
        match request {
            TransactionRequest::Begin { isolation, name } => {
                self.begin_from_client(*isolation, name)
            }
            TransactionRequest::Commit { begin, .. } => {
                match self.commit_transaction(None) {
                    Ok(Some(id)) => {
                        self.to_client(|sink| sink.env_change(EnvChange::CommitTransaction(id)))?
                    }
                    Ok(None) => {}
                    Err(error) => return Err(self.failed(0xD5, error)),
                }
                self.begin_again(begin.as_ref(), 0xD5)
            }
            TransactionRequest::Rollback { name, begin } => {
                let ended = match name.is_empty() {
                    true if self.state.trancount.get() == 0 => Err(messages::error(3903, &[])),
                    true => self.state.rollback_all(),
                    false => self.state.rollback_named(name),
                };
                match ended {
                    Ok(Some(id)) => {
                        self.to_client(|sink| sink.env_change(EnvChange::RollbackTransaction(id)))?
                    }
                    Ok(None) => {}
                    Err(error) => return Err(self.failed(0xD2, error)),
                }
                self.begin_again(begin.as_ref(), 0xD2)
            }
            TransactionRequest::Save { name } => match self.state.save_transaction(name) {
                Ok(()) => self.succeed(0xD4),
                Err(error) => Err(self.failed(0xD4, error)),
            },
        }
    }

    fn begin_again(&self, begin: Option<&(u8, String)>, command: u16) -> Step<()> {
        match begin {
            Some((isolation, name)) => self.begin_from_client(*isolation, name),
            None => self.succeed(command),
        }
    }

    fn begin_from_client(&self, isolation: u8, name: &str) -> Step<()> {
        use crate::host::IsolationLevel::*;
        let level = match isolation {
            1 => Some(ReadUncommitted),
            2 => Some(ReadCommitted),
            3 => Some(RepeatableRead),
            4 => Some(Serializable),
            5 => Some(Snapshot),
            _ => None,
        };
        if let Some(level) = level {
            self.state.settings.borrow_mut().isolation = level;
        }
        let name = (!name.is_empty()).then(|| name.to_string());
        if let Some(id) = self.state.begin_transaction(name) {
            self.to_client(|sink| sink.env_change(EnvChange::BeginTransaction(id)))?;
        }
        self.succeed(0xD4)
    }
}

/// An integer argument; `None` where it is missing, NULL or something else.
pub(super) fn int_argument(args: &[CallArgument], index: usize) -> Option<i32> {
    let value = args.get(index).and_then(|a| a.value.as_ref())?;
    value.as_i64().and_then(|n| i32::try_from(n).ok())
}

/// A handle that a call names; 0, which is none, where it names none.
fn handle_argument(args: &[CallArgument]) -> i32 {
    int_argument(args, 0).unwrap_or(0)
}

fn handle_result(handle: i32) -> CallResult {
    CallResult {
        outputs: vec![OutputValue::int(0, handle)],
        ..CallResult::default()
    }
}
