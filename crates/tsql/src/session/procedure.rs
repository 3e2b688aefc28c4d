//! EXEC: user procedures, dynamic text, procedures of the language core and of the registry.
//!
//! Theory: a call is a list of arguments with values already computed in the caller's frame; a procedure runs in a
//! frame of its own, whose settings end with it. What it gives back (status, output values) is assigned by the caller.

use super::check::Suspect;
use super::execution::{Execution, plain_column};
use super::fail::{Step, Stop};
use super::frame::{Frame, FrameKind};
use super::parameters::{self, ParameterList, ParameterShape};
use super::rpc;
use super::table_argument::TableArgument;
use super::temp_module::procedure_of;
use super::transaction::Transaction;
use super::trigger::{TRIGGER_ENDED, ended_by, stop_of};
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::{Batch, MASTER, SystemProcedure};
use crate::messages;
use crate::sink::{Done, DoneKind, EnvChange, OutputColumn};
use daruma_base::DatabaseId;
use daruma_catalog::{ModuleDef, Object, ObjectKind, SCHEMA_DBO, names_equal};
use daruma_syntax::ast::{
    self, AsPrincipal, ExecuteTarget, Expr, Literal, ModuleBody, ObjectName, Parameter,
    ParameterType, StatementKind,
};
use daruma_syntax::{ParseOptions, parse_object_name, parse_parameter_definitions};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// Gives the value of an expression of a statement.
pub(super) type Evaluate<'e> = dyn Fn(&Expr) -> Result<(Value, DataType)> + 'e;

/// Parameter definitions that a session keeps parsed.
const DEFINITIONS_MAX: usize = 256;

/// One argument of a call: clients and statements send the same.
pub(crate) type CallArgument = rpc::RpcArgument;

/// Value of an output parameter, for the argument at `index`.
pub(crate) struct OutputValue {
    pub index: usize,
    pub value: Value,
    pub data_type: DataType,
}

impl OutputValue {
    /// Of an int parameter.
    pub fn int(index: usize, value: i32) -> OutputValue {
        OutputValue {
            index,
            value: Value::Int(value),
            data_type: DataType::Int,
        }
    }
}

#[derive(Default)]
pub(crate) struct CallResult {
    pub status: i32,
    pub outputs: Vec<OutputValue>,
    /// Of a scalar function.
    pub value: Option<(Value, DataType)>,
}

impl Execution<'_> {
    pub(crate) fn run_execute(&self, exec: &ast::Execute) -> Step<()> {
        self.run_target(exec, &|expr| self.evaluate_alone(expr))
    }

    /// `evaluate` gives the values of expressions in the statement.
    fn run_target(&self, exec: &ast::Execute, evaluate: &Evaluate<'_>) -> Step<()> {
        self.with_result_sets(exec.result_sets.as_ref(), || {
            self.execute_by(exec, evaluate)
        })
    }

    fn execute_by(&self, exec: &ast::Execute, evaluate: &Evaluate<'_>) -> Step<()> {
        let outer = self.state.trancount.get();
        match &exec.target {
            ExecuteTarget::Text { text, as_user, at } => {
                if let Some(server) = at {
                    return Err(self.fail(messages::error(7202, &[&server.text])));
                }
                self.run_text(text, as_user.as_ref(), evaluate)?;
            }
            ExecuteTarget::Procedure { name, .. } => {
                self.execute_procedure(name, exec, evaluate)?;
            }
            ExecuteTarget::Variable(variable) => {
                let name = self
                    .procedure_in_variable(variable)
                    .map_err(|e| self.fail(e))?;
                self.execute_procedure(&name, exec, evaluate)?;
            }
        }
        self.check_trancount(outer)
    }

    /// 266: a module must leave as many transactions as it found.
    fn check_trancount(&self, before: u32) -> Step<()> {
        let after = self.state.trancount.get();
        if before == after || self.in_trigger() {
            return Ok(());
        }
        let mismatch = messages::error_state(266, 2, &[&before, &after]);
        // Told, and the rows that it gave are inserted in the transaction that it has left open.
        if self.captured.borrow().is_some() && after > before {
            return self.send_located(mismatch);
        }
        Err(self.fail(mismatch))
    }

    fn procedure_in_variable(&self, variable: &str) -> Result<ObjectName> {
        match self.variable(variable)? {
            Value::Str(text) => parse_object_name(&text, &ParseOptions::default())
                .map_err(|_| messages::error(2812, &[&text])),
            _ => Err(messages::error(2812, &[&""])),
        }
    }

    fn execute_procedure(
        &self,
        name: &ObjectName,
        exec: &ast::Execute,
        evaluate: &Evaluate<'_>,
    ) -> Step<()> {
        let args = exec
            .args
            .iter()
            .map(|a| self.argument(a, evaluate))
            .collect::<Result<Vec<_>>>();
        let args = args.map_err(|e| self.fail(e))?;
        let result = self.call_procedure(name, &args)?;
        self.assign_results(exec, &result)
            .map_err(|e| self.fail(e))?;
        self.procedure_done(result.status)
    }

    fn argument(&self, arg: &ast::ExecuteArg, evaluate: &Evaluate<'_>) -> Result<CallArgument> {
        let table = match &arg.value {
            Expr::Variable { name, .. } if self.is_cursor_variable(name) => {
                Some(TableArgument::Cursor(name.clone()))
            }
            Expr::Variable { name, .. } => self.table_variable(name).map(TableArgument::Passed),
            _ => None,
        };
        let (value, data_type) = match &arg.value {
            Expr::Default => (None, DataType::Int),
            // A bare word is a string.
            Expr::Column(column) if column.table.is_none() => {
                (Some(Value::str(&column.name.text)), DataType::NVARCHAR_MAX)
            }
            Expr::Literal(Literal::Null) => (Some(Value::Null), DataType::Int),
            _ if table.is_some() => (Some(Value::Null), DataType::Int),
            expr => {
                let (value, data_type) = evaluate(expr)?;
                (Some(value), data_type)
            }
        };
        Ok(CallArgument {
            name: arg.name.clone().unwrap_or_default(),
            value,
            data_type,
            output: arg.output,
            table,
        })
    }

    /// RETURNSTATUS and DONEPROC of a procedure called by the batch itself.
    fn procedure_done(&self, status: i32) -> Step<()> {
        if self.captured.borrow().is_some() || self.in_function() {
            return Ok(());
        }
        let outermost = self.top(|f| f.kind == FrameKind::Batch);
        let kind = if outermost {
            DoneKind::Procedure
        } else {
            DoneKind::InProcedure
        };
        if outermost {
            self.to_client(|sink| sink.return_status(status))?;
        }
        let in_transaction = self.state.trancount.get() > 0;
        self.to_client(|sink| {
            sink.done(Done {
                kind,
                command: 0xE0,
                row_count: None,
                error: false,
                in_transaction,
            })
        })
    }

    fn assign_results(&self, exec: &ast::Execute, result: &CallResult) -> Result<()> {
        if let Some(status) = &exec.status {
            let (value, from) = match &result.value {
                Some((value, from)) => (value.clone(), *from),
                None => (Value::Int(result.status), DataType::Int),
            };
            self.assign_value(status, value, from)?;
        }
        for output in &result.outputs {
            let target = exec
                .args
                .get(output.index)
                .filter(|a| a.output)
                .map(|a| &a.value);
            if let Some(Expr::Variable { name, .. }) = target {
                self.assign_value(name, output.value.clone(), output.data_type)?;
            }
        }
        Ok(())
    }

    /// What msdb alone has is found in msdb. Elsewhere the name is a user's.
    fn is_where_it_is_known(&self, name: &ObjectName) -> bool {
        if !crate::sysprocs::is_of_msdb(&name.name.text) {
            return true;
        }
        match &name.database {
            Some(database) => database.is("msdb"),
            None => crate::host::Host::current_database(self) == crate::instance::MSDB,
        }
    }

    /// Calls a procedure by name, whatever kind it is.
    pub(crate) fn call_procedure(
        &self,
        name: &ObjectName,
        args: &[CallArgument],
    ) -> Step<CallResult> {
        let text = &name.name.text;
        let schema_is_system = name
            .schema
            .as_ref()
            .is_none_or(|s| s.is("sys") || s.is("dbo"));
        if self.in_function() {
            return self.call_in_function(name, args);
        }
        if schema_is_system && rpc::is_core_procedure(text) {
            return self.call_within(name, || self.call_core(text, args));
        }
        // Before those of users: whoever may define procedures would define them for administrators.
        if schema_is_system
            && self.is_where_it_is_known(name)
            && let Some(procedure) = self.state.instance.registry().procedure(text)
        {
            return self.call_within(name, || self.call_system(procedure.as_ref(), args));
        }
        if name.is_temporary() {
            let found = self.state.temp_module(&name.name.text);
            return match found.as_ref().and_then(|o| Some((o, procedure_of(o)?))) {
                Some((object, module)) => self.call_temporary(object, module, args),
                None => Err(self.fail(messages::error_state(2812, 62, &[&name.dotted()]))),
            };
        }
        let found = self.find_object(name).map_err(|e| self.fail(e))?;
        if let Some((database, object)) = found {
            return match &object.kind {
                ObjectKind::Procedure(module) => {
                    self.call_user(database, database, &object, module, args)
                }
                ObjectKind::Function(_) if object.type_code() == "FN" => self
                    .execute_function(database, &object, args)
                    .map_err(|e| self.fail(e)),
                _ => {
                    let kind = object_kind_name(&object);
                    Err(self.fail(messages::error(
                        2809,
                        &[&"procedure", &name.dotted(), &object.name, &kind],
                    )))
                }
            };
        }
        match self.procedure_of_master(name).map_err(|e| self.fail(e))? {
            Some((database, object)) => match &object.kind {
                ObjectKind::Procedure(module) => {
                    self.call_user(database, MASTER, &object, module, args)
                }
                _ => Err(self.fail(messages::error_state(2812, 62, &[&name.dotted()]))),
            },
            None => Err(self.fail(messages::error_state(2812, 62, &[&name.dotted()]))),
        }
    }

    /// Does the name mean a procedure of the server's?
    pub(super) fn is_system_call(&self, name: &ObjectName) -> bool {
        let schema = name.schema.as_ref();
        let text = &name.name.text;
        schema.is_none_or(|s| s.is("sys") || s.is("dbo"))
            && (rpc::is_core_procedure(text)
                || self.is_where_it_is_known(name)
                    && self.state.instance.registry().procedure(text).is_some())
    }

    /// 557: a function may call others, and nothing else.
    fn call_in_function(&self, name: &ObjectName, args: &[CallArgument]) -> Step<CallResult> {
        let found = self.find_object(name).map_err(|e| self.fail(e))?;
        match found.filter(|(_, object)| object.type_code() == "FN") {
            Some((database, object)) => self
                .execute_function(database, &object, args)
                .map_err(|e| self.fail(e)),
            None => Err(self.fail(messages::error_state(557, 2, &[]))),
        }
    }

    /// A procedure of master whose name begins with `sp_` is found from every database. It comes with the database that
    /// its own names mean: the one it is called in.
    fn procedure_of_master(&self, name: &ObjectName) -> Result<Option<(DatabaseId, Arc<Object>)>> {
        let text = &name.name.text;
        let is_shared = text
            .get(..3)
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case("sp_"));
        if !is_shared || name.server.is_some() {
            return Ok(None);
        }
        let database = match self.named_database(self.current_database(), name) {
            Ok(database) => database,
            Err(error) if error.number == 208 => return Ok(None),
            Err(error) => return Err(error),
        };
        let catalog = self.state.catalog(MASTER)?;
        let schema = match &name.schema {
            Some(schema) => catalog.schema_named(&schema.text).map(|s| s.id),
            None => Some(SCHEMA_DBO),
        };
        let found = schema.and_then(|schema| catalog.object_named(schema, text));
        let found = found.filter(|o| matches!(o.kind, ObjectKind::Procedure(_)));
        Ok(found.map(|object| (database, object.clone())))
    }

    /// A system procedure that is named in a database (`master..sp_help`) runs there, with the names and the rights that
    /// the session has there.
    fn call_within(
        &self,
        name: &ObjectName,
        call: impl FnOnce() -> Step<CallResult>,
    ) -> Step<CallResult> {
        let current = self.current_database();
        let database = match self.named_database(current, name) {
            Ok(database) => database,
            Err(error) if error.number == 208 => {
                let database = name.database.as_ref().map_or("", |d| d.text.as_str());
                return Err(self.fail(messages::error(911, &[&database])));
            }
            Err(error) => return Err(self.fail(error)),
        };
        if database == current {
            return call();
        }
        self.check_nesting()?;
        let mut frame = Frame::new(FrameKind::Dynamic, Batch::empty(), database);
        frame.statement_line = self.top(|f| f.statement_line);
        self.state.frames.borrow_mut().push(frame);
        let result = call();
        self.state.frames.borrow_mut().pop();
        result
    }

    pub(super) fn check_nesting(&self) -> Step<()> {
        self.check_depth().map_err(|e| self.fail(e))
    }

    /// `database`: what the procedure's names mean; `home`: where it is defined.
    fn call_user(
        &self,
        database: DatabaseId,
        home: DatabaseId,
        object: &Arc<Object>,
        module: &ModuleDef,
        args: &[CallArgument],
    ) -> Step<CallResult> {
        self.check_nesting()?;
        self.check_execute(home, object).map_err(|e| self.fail(e))?;
        let batch = self.module_batch(database, module);
        let batch = batch.map_err(|e| self.fail(e))?;
        let Some(StatementKind::CreateProcedure(create)) =
            batch.statements.first().map(|s| &s.kind)
        else {
            return Err(self.fail(messages::error_state(2812, 62, &[&object.name])));
        };
        let ModuleBody::Statements(body) = &create.body else {
            return Err(self.fail(messages::not_supported("EXTERNAL NAME")));
        };
        let kind = FrameKind::Procedure;
        let mut frame = self.module_frame(kind, object, batch.clone(), (database, home));
        let bound = self
            .bind_parameters(
                &mut frame,
                &object.name,
                &create.parameters,
                &ParameterShape::of(&create.parameters),
                args,
            )
            .map_err(|e| self.fail(e.of_module(&object.name)))?;
        let entered = self.enter_module(module, create.options.execute_as.as_ref(), &frame);
        if let Err(error) = entered {
            self.drop_table_variables(&frame);
            return Err(self.fail(error));
        }
        self.run_module(frame, body, bound)
    }

    /// Runs a frame and collects its output values.
    pub(crate) fn run_module(
        &self,
        frame: Frame,
        body: &[ast::Statement],
        bound: Vec<BoundOutput>,
    ) -> Step<CallResult> {
        let outputs = std::cell::RefCell::new(Vec::new());
        let status = self.run_frame_with(frame, body, &|frame: &Frame| {
            let value = |b: &BoundOutput| OutputValue {
                index: b.index,
                value: frame
                    .variable(&b.parameter)
                    .map_or(Value::Null, |v| v.value.clone()),
                data_type: b.data_type,
            };
            outputs.borrow_mut().extend(bound.iter().map(value));
        });
        match status {
            Ok(status) => Ok(CallResult {
                status,
                outputs: outputs.into_inner(),
                value: None,
            }),
            // The module ended early; its caller goes on.
            Err(Stop::Scope) => Ok(CallResult {
                status: -6,
                ..CallResult::default()
            }),
            Err(stop) => Err(stop),
        }
    }

    /// Declares the parameters with the values of the call.
    pub(crate) fn bind_parameters(
        &self,
        frame: &mut Frame,
        procedure: &str,
        parameters: &[Parameter],
        shape: &ParameterShape,
        args: &[CallArgument],
    ) -> Result<Vec<BoundOutput>> {
        let bound = self.bind_each(frame, procedure, parameters, shape, args);
        if bound.is_err() {
            self.drop_table_variables(frame);
            self.unbind_cursors();
        }
        bound
    }

    fn bind_each(
        &self,
        frame: &mut Frame,
        procedure: &str,
        parameters: &[Parameter],
        shape: &ParameterShape,
        args: &[CallArgument],
    ) -> Result<Vec<BoundOutput>> {
        let places = match_arguments(procedure, parameters, args)?;
        let mut outputs = Vec::new();
        let mut types = Vec::new();
        let mut tables = Vec::new();
        let shapes = shape.keys.iter().zip(&shape.types);
        for ((parameter, place), (key, built_in)) in parameters.iter().zip(&places).zip(shapes) {
            let argument = place.and_then(|at| args.get(at));
            let declared = match (built_in, &parameter.data_type) {
                (Some(built_in), _) => *built_in,
                (None, ParameterType::Named(name)) => match self.type_of(name) {
                    Ok((declared, ..)) => declared,
                    Err(missing) => {
                        let of = self.table_type(name)?.ok_or(missing)?;
                        self.bind_table(frame, parameter, &of, argument)?;
                        tables.push(&parameter.name);
                        continue;
                    }
                },
                (None, _) => {
                    let missing = || messages::error_state(201, 4, &[&procedure, &parameter.name]);
                    let argument = argument.ok_or_else(missing)?;
                    match &argument.table {
                        Some(TableArgument::Cursor(name)) if argument.output => {
                            self.bind_cursor(frame, &parameter.name, name)?;
                        }
                        _ => return Err(messages::error(16948, &[&parameter.name])),
                    }
                    continue;
                }
            };
            if parameter.read_only {
                return Err(messages::error(346, &[&parameter.name]));
            }
            if let Some(table) = argument.and_then(|a| a.table.as_ref()) {
                return Err(self.no_value(table, declared));
            }
            let value = match (argument.and_then(|a| a.value.clone()), &parameter.default) {
                (Some(value), _) => {
                    let from = argument.map_or(declared, |a| a.data_type);
                    super::convert::pass(value, from, declared, self)?
                }
                (None, Some(default)) => self.parameter_default(default, declared)?,
                (None, None) => {
                    return Err(messages::error_state(
                        201,
                        4,
                        &[&procedure, &parameter.name],
                    ));
                }
            };
            frame.declare_parameter(&parameter.name, key, declared, value)?;
            if shape.signature.is_none() {
                types.push((key, declared));
            }
            if let Some(index) = *place
                && argument.is_some_and(|a| a.output)
            {
                if !parameter.output {
                    return Err(messages::error_state(8162, 2, &[&parameter.name]));
                }
                outputs.push(BoundOutput {
                    index,
                    parameter: parameter.name.clone(),
                    data_type: declared,
                });
            }
        }
        frame.signature = shape
            .signature
            .unwrap_or_else(|| parameters::signature(types.into_iter()));
        tables.iter().for_each(|name| frame.note_table(name));
        Ok(outputs)
    }

    fn parameter_default(&self, default: &Expr, declared: DataType) -> Result<Value> {
        let (value, from) = match default {
            Expr::Literal(Literal::Null) => return Ok(Value::Null),
            Expr::Column(column) if column.table.is_none() => {
                (Value::str(&column.name.text), DataType::NVARCHAR_MAX)
            }
            expr => self.evaluate_made(expr)?,
        };
        super::convert::assign(value, from, declared, self)
    }

    /// EXEC('text'), EXEC('text') AS USER = 'name'.
    fn run_text(
        &self,
        text: &Expr,
        as_user: Option<&AsPrincipal>,
        evaluate: &Evaluate<'_>,
    ) -> Step<()> {
        let (value, from) = evaluate(text).map_err(|e| self.fail(e))?;
        let text = super::convert::to_text(&value, from).map_err(|e| self.fail(e))?;
        let Some(text) = text else {
            return Ok(());
        };
        let run = || {
            self.run_dynamic(&text, &ParameterList::default(), &[])
                .map(|_| ())
        };
        match as_user {
            None => run(),
            Some(principal) => self.run_inside_as(principal, evaluate, run),
        }
    }

    /// Runs text in a frame of its own with parameters.
    pub(crate) fn run_dynamic(
        &self,
        text: &str,
        parameters: &ParameterList,
        args: &[CallArgument],
    ) -> Step<CallResult> {
        self.check_nesting()?;
        let batch = self.dynamic_batch(text)?;
        self.run_dynamic_batch(&batch, parameters, args)
    }

    pub(super) fn dynamic_batch(&self, text: &str) -> Step<Arc<Batch>> {
        self.parsed_batch(text)
            .map_err(|errors| self.syntax_errors(errors))
    }

    pub(super) fn run_dynamic_batch(
        &self,
        batch: &Arc<Batch>,
        parameters: &ParameterList,
        args: &[CallArgument],
    ) -> Step<CallResult> {
        let mut frame = Frame::new(FrameKind::Dynamic, batch.clone(), self.current_database());
        frame.saved_settings = Some(self.state.settings.borrow().clone());
        let ParameterList { parameters, shape } = parameters;
        let bound = self.bind_parameters(&mut frame, "", parameters, shape, args);
        let bound = bound.map_err(|e| self.fail(missing_parameter(e, &batch.text)))?;
        let unknown = batch
            .suspects
            .iter()
            .filter(|s| frame.variable(&s.name).is_none());
        let errors: Vec<SqlError> = unknown.map(Suspect::error).collect();
        if !errors.is_empty() {
            self.drop_table_variables(&frame);
            return Err(self.syntax_errors(errors));
        }
        self.run_module(frame, &batch.statements, bound)
    }

    /// Syntax errors of dynamic text: all are told, the last one counts.
    fn syntax_errors(&self, mut errors: Vec<SqlError>) -> Stop {
        let last = errors.pop();
        for error in &errors {
            if let Err(stop) = self.send(error) {
                return stop;
            }
        }
        let error = last.unwrap_or_else(|| messages::error(102, &[&""]));
        // The dynamic scope never came to be, so the running frame is already the outer one.
        if self.state.frames.borrow().iter().any(|f| f.tries > 0) {
            self.state.last_error.set(error.number);
            return Stop::Caught(error);
        }
        match self.send(&error) {
            Ok(()) => Stop::Statement,
            Err(stop) => stop,
        }
    }

    /// Definitions of sp_executesql's parameters.
    pub(crate) fn parameter_definitions(&self, text: &str) -> Result<Arc<ParameterList>> {
        if let Some(known) = self.state.definitions.borrow().get(text) {
            return Ok(known.clone());
        }
        let options = self.parse_options();
        let parsed = crate::instance::parsed(parse_parameter_definitions(text, &options))?;
        let parsed = Arc::new(ParameterList::new(parsed));
        let mut known = self.state.definitions.borrow_mut();
        if known.len() >= DEFINITIONS_MAX {
            known.clear();
        }
        known.insert(text.to_string(), parsed.clone());
        Ok(parsed)
    }

    /// Rows of EXEC for INSERT.
    pub(crate) fn capture_rows(&self, exec: &ast::Execute) -> Result<Vec<Vec<Value>>> {
        // The statement lies in the plan of the INSERT, which may go before the batch does: no plan is kept for its nodes.
        self.capture(|| self.run_target(exec, &|expr| self.evaluate_made(expr)))
    }

    /// Rows that would go to the client.
    fn capture(&self, work: impl FnOnce() -> Step<()>) -> Result<Vec<Vec<Value>>> {
        if self.captured.borrow().is_some() {
            return Err(messages::error(8164, &[]));
        }
        *self.captured.borrow_mut() = Some(Vec::new());
        let depth = self.depth.get();
        let changes = self.changes_rows.replace(false);
        // As for triggers: without BEGIN TRANSACTION the statement's own transaction counts as one, which what begins one joins. Who reads rows
        // for a procedure of the system has no such transaction.
        let is_own = |t: &Transaction| t.autocommit;
        let is_alone = self.state.trancount.get() == 0
            && self.state.transaction.borrow().as_ref().is_some_and(is_own);
        if is_alone {
            self.state.trancount.set(1);
        }
        let mut result = work();
        if is_alone {
            result = result.and(self.keep_one_fewer());
        }
        self.changes_rows.set(changes);
        self.depth.set(depth);
        let rows = self.captured.borrow_mut().take().unwrap_or_default();
        match result {
            // What was caught has decided that nothing of this is committed.
            Ok(()) if self.state.is_doomed() => Err(messages::error(3930, &[])),
            Ok(()) => Ok(rows),
            Err(Stop::Caught(error)) => Err(error),
            // Told already; the INSERT itself ends.
            Err(stop) => Err(ended_by(&stop)),
        }
    }

    /// Takes the statement's own transaction from the count. What has begun one more and left it open has made it the session's.
    pub(super) fn keep_one_fewer(&self) -> Step<()> {
        let left = self.state.trancount.get().saturating_sub(1);
        self.state.trancount.set(left);
        match left > 0 && self.state.keep_transaction() {
            true => match self.state.transaction_id() {
                Some(id) => self.to_client(|sink| sink.env_change(EnvChange::BeginTransaction(id))),
                None => Ok(()),
            },
            false => Ok(()),
        }
    }

    // --- Procedures of the registry

    fn call_system(
        &self,
        procedure: &dyn SystemProcedure,
        args: &[CallArgument],
    ) -> Step<CallResult> {
        self.check_nesting()?;
        self.check_system_procedure(procedure.name())
            .map_err(|e| self.fail(e))?;
        // `sp_configure` without a value shows the options.
        let is_given = |args: Vec<Value>| args.get(1).is_some_and(|v| !v.is_null());
        let changes = procedure.name() != "sp_configure"
            || self.system_arguments(procedure, args).is_ok_and(is_given);
        if let Err(error) = self.fire_before_call(procedure.name(), changes) {
            return Err(self.after_trigger_in_call(error));
        }
        self.call_in(procedure, self.current_database(), args, &[])
    }

    /// The end of a call in which triggers ran.
    fn after_trigger_in_call(&self, error: SqlError) -> Stop {
        match error.number {
            TRIGGER_ENDED => stop_of(&error),
            3609 => match self.fail(error) {
                Stop::Statement => Stop::Batch,
                stop => stop,
            },
            _ => self.fail(error),
        }
    }

    /// As a procedure of the current database.
    pub(crate) fn call_registered(
        &self,
        procedure: &dyn SystemProcedure,
        args: &[CallArgument],
        options: &[ast::OptionItem],
    ) -> Step<CallResult> {
        self.call_in(procedure, self.current_database(), args, options)
    }

    fn call_in(
        &self,
        procedure: &dyn SystemProcedure,
        database: DatabaseId,
        args: &[CallArgument],
        options: &[ast::OptionItem],
    ) -> Step<CallResult> {
        let values = match self.system_arguments(procedure, args) {
            Ok(values) => values,
            Err(error) => return Err(self.fail(error.of_module(procedure.name()))),
        };
        let places = system_places(procedure, args).unwrap_or_default();
        let is_output = |place: &Option<usize>| {
            let argument = place.and_then(|at| args.get(at));
            argument.is_some_and(|a| a.output)
        };
        let call = SystemCall {
            execution: self,
            database,
            args: values,
            options,
            wanted: places.iter().map(is_output).collect(),
            outputs: std::cell::RefCell::default(),
        };
        let status = self.atomic_or_not(|| procedure.run(&call));
        let status = match status {
            Ok(status) => status,
            Err(error) => return Err(self.after_trigger_in_call(error)),
        };
        self.send_pending()?;
        let outputs = call.outputs.into_inner();
        let list = procedure.parameters();
        let output = |(at, value): (usize, Value)| {
            let parameter = list.get(at)?;
            let index = (*places.get(at)?)?;
            Some(OutputValue {
                index,
                value,
                data_type: parameter.data_type,
            })
        };
        Ok(CallResult {
            status,
            outputs: outputs.into_iter().filter_map(output).collect(),
            value: None,
        })
    }

    /// System procedures run their own statements; what they read themselves is released afterwards.
    fn atomic_or_not<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = work();
        if self.depth.get() == 0 {
            self.release_statement();
        }
        result
    }

    fn system_arguments(
        &self,
        procedure: &dyn SystemProcedure,
        args: &[CallArgument],
    ) -> Result<Vec<Value>> {
        let places = system_places(procedure, args)?;
        let mut values = Vec::new();
        for (parameter, place) in procedure.parameters().iter().zip(places) {
            let argument = place.and_then(|at| args.get(at));
            if let Some(table) = argument.and_then(|a| a.table.as_ref()) {
                return Err(self.no_value(table, parameter.data_type));
            }
            let given = argument.and_then(|a| a.value.clone().map(|v| (v, a.data_type)));
            values.push(match (given, &parameter.default) {
                // A document may come as such, though other texts take none without CAST.
                (Some((value, DataType::Xml)), _) if procedure.takes_xml() => value,
                (Some((value, from)), _) => {
                    super::convert::pass(value, from, parameter.data_type, self)?
                }
                (None, Some(default)) => default.clone(),
                (None, None) => {
                    return Err(messages::error_state(
                        201,
                        4,
                        &[&procedure.name(), &parameter.name],
                    ));
                }
            });
        }
        Ok(values)
    }
}

/// An output parameter that the caller asked for.
pub(crate) struct BoundOutput {
    index: usize,
    parameter: String,
    data_type: DataType,
}

/// A call of a system procedure, as its implementation sees it.
pub struct SystemCall<'e, 'a> {
    pub execution: &'e Execution<'a>,
    /// Database it was named in (`master..sp_help`), or the current one.
    pub database: DatabaseId,
    /// One value for each declared parameter.
    pub args: Vec<Value>,
    /// Of a DBCC command: what stands behind WITH.
    pub options: &'e [ast::OptionItem],
    /// Of each parameter: is the argument an OUTPUT one?
    wanted: Vec<bool>,
    outputs: std::cell::RefCell<Vec<(usize, Value)>>,
}

impl SystemCall<'_, '_> {
    /// The session as queries see it.
    pub fn host(&self) -> &dyn Host {
        self.execution
    }

    /// Argument at `index`; NULL when there is no such parameter.
    pub fn arg(&self, index: usize) -> &Value {
        self.args.get(index).unwrap_or(&Value::Null)
    }

    /// Argument as text, `None` for NULL.
    pub fn text(&self, index: usize) -> Option<String> {
        match self.arg(index) {
            Value::Str(text) => Some(text.to_string()),
            _ => None,
        }
    }

    /// Does the caller take the value of the output parameter at `index`?
    pub fn wants_output(&self, index: usize) -> bool {
        self.wanted.get(index) == Some(&true)
    }

    /// The value that the output parameter at `index` has after the call.
    pub fn set_output(&self, index: usize, value: Value) {
        self.outputs.borrow_mut().push((index, value));
    }

    /// Sends a result set.
    pub fn rows(&self, columns: &[OutputColumn], rows: &[Vec<Value>]) -> Result<()> {
        self.execution.send_columns(columns)?;
        rows.iter()
            .try_for_each(|row| self.execution.send_row(row))?;
        let done =
            self.execution
                .done(super::query::COMMAND_SELECT, Some(rows.len() as u64), false);
        done.map_err(|_| super::query::client_gone())
    }

    /// Sends an informational message now.
    pub fn message(&self, message: SqlError) -> Result<()> {
        self.execution
            .send_located(message)
            .map_err(|_| super::query::client_gone())
    }

    /// Binds something in a scope where the parameters of `definitions` are declared, all NULL.
    pub(crate) fn with_parameters<T>(
        &self,
        definitions: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let parameters = match definitions.trim() {
            "" => Arc::default(),
            text => self.execution.parameter_definitions(text)?,
        };
        let mut frame = Frame::new(FrameKind::Dynamic, Batch::empty(), self.database);
        for parameter in &parameters.parameters {
            if let ParameterType::Named(name) = &parameter.data_type {
                let declared = self.execution.parameter_type(&parameter.name, name)?;
                frame.declare(&parameter.name, declared, Value::Null)?;
            }
        }
        self.execution.state.frames.borrow_mut().push(frame);
        let result = work();
        self.execution.state.frames.borrow_mut().pop();
        result
    }

    /// Rows that a T-SQL text gives.
    pub(crate) fn rows_of(&self, text: &str) -> Result<Vec<Vec<Value>>> {
        let definitions = self.execution.parameter_definitions("")?;
        let run = || self.execution.run_dynamic(text, &definitions, &[]);
        self.execution.capture(|| run().map(|_| ()))
    }

    /// Runs T-SQL text with parameters (`@p` names); its result sets go to the client.
    pub fn run(&self, text: &str, parameters: &[(&str, DataType, Value)]) -> Result<()> {
        let definitions: Vec<String> = parameters
            .iter()
            .map(|(name, t, _)| format!("{name} {t}"))
            .collect();
        let definitions = self
            .execution
            .parameter_definitions(&definitions.join(", "))?;
        let argument = |(name, data_type, value): &(&str, DataType, Value)| CallArgument {
            name: (*name).to_string(),
            value: Some(value.clone()),
            data_type: *data_type,
            output: false,
            table: None,
        };
        let args: Vec<_> = parameters.iter().map(argument).collect();
        match self.execution.run_dynamic(text, &definitions, &args) {
            Ok(_) | Err(Stop::Statement) => Ok(()),
            Err(Stop::Caught(error)) => Err(error),
            Err(stop) => Err(ended_by(&stop)),
        }
    }
}

/// Which argument each parameter takes.
fn match_arguments(
    procedure: &str,
    parameters: &[Parameter],
    args: &[CallArgument],
) -> Result<Vec<Option<usize>>> {
    places(procedure, parameters.len(), |at| &parameters[at].name, args)
}

fn system_places(
    procedure: &dyn SystemProcedure,
    args: &[CallArgument],
) -> Result<Vec<Option<usize>>> {
    let parameters = procedure.parameters();
    places(
        procedure.name(),
        parameters.len(),
        |at| parameters[at].name,
        args,
    )
}

/// `name` gives the name of a parameter below `count`.
fn places<'n>(
    procedure: &str,
    count: usize,
    name: impl Fn(usize) -> &'n str,
    args: &[CallArgument],
) -> Result<Vec<Option<usize>>> {
    let mut places = vec![None; count];
    let mut named_from = None;
    for (at, arg) in args.iter().enumerate() {
        let slot = match arg.name.as_str() {
            "" if named_from.is_some() => return Err(messages::error(119, &[&(at + 1)])),
            "" => at,
            wanted => {
                named_from.get_or_insert(at);
                let found = (0..count).find(|n| names_equal(name(*n), wanted));
                found.ok_or_else(|| match count {
                    0 => messages::error_state(8146, 2, &[&procedure]),
                    _ => messages::error_state(8145, 1, &[&wanted, &procedure]),
                })?
            }
        };
        match places.get_mut(slot) {
            None if count == 0 => return Err(messages::error_state(8146, 2, &[&procedure])),
            None => return Err(messages::error_state(8144, 2, &[&procedure])),
            Some(place @ None) => *place = Some(at),
            Some(Some(_)) => {
                return Err(messages::error_state(8143, 1, &[&name(slot)]));
            }
        }
    }
    Ok(places)
}

/// 201 of sp_executesql is 8178.
fn missing_parameter(error: SqlError, text: &str) -> SqlError {
    if error.number != 201 {
        return error;
    }
    let parameter = error
        .message
        .split('\'')
        .nth(3)
        .unwrap_or_default()
        .to_string();
    messages::error(8178, &[&text, &parameter])
}

fn object_kind_name(object: &Object) -> &'static str {
    match object.kind {
        ObjectKind::Table(_) => "table",
        ObjectKind::View(_) => "view",
        ObjectKind::Procedure(_) => "procedure",
        ObjectKind::Function(_) => "table valued function",
        ObjectKind::Trigger(_) => "trigger",
        ObjectKind::Sequence(_) => "sequence",
        ObjectKind::Synonym { .. } => "synonym",
    }
}

/// Column of a return value.
pub(crate) fn value_column(name: &str, data_type: DataType) -> OutputColumn {
    plain_column(name, data_type, true)
}
