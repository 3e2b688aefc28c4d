//! User-defined functions of several statements: scalar ones and those that fill a table.
//!
//! Theory: a function runs inside the statement that calls it, in a frame of its own. It changes nothing but its own
//! variables, so its table variables live in a transaction of their own, which ends with the call. An error in it is
//! the statement's error: it passes the function's frame and is judged where the statement stands. Nothing that its
//! statements say reaches the client.
//!
//! Invariants
//! 1. While `Execution::functions` is not 0, no statement sends anything, begins or ends a transaction, or writes to
//!    anything but a table variable (error 443).
//! 2. What a call changes of the request's state is as before when it ends, however it ends.

use super::execution::Execution;
use super::fail::{Step, Stop};
use super::frame::{Frame, FrameKind, Variable};
use super::parameters::{ParameterShape, signature};
use super::procedure::{CallArgument, CallResult};
use crate::error::Result;
use crate::executor::{RowBatch, open, prepare_select, with_room};
use crate::host::{Host, UserFunction, VariableType};
use crate::instance::Batch;
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{FunctionDef, ModuleDef, Object, ObjectKind, name_key};
use daruma_syntax::ast::{CreateFunction, FunctionBody, FunctionReturns, Statement, StatementKind};
use daruma_syntax::{ParseOptions, parse_batch};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// The statement that a function was made by.
fn created(batch: &Batch) -> Option<&CreateFunction> {
    match &batch.statements.first()?.kind {
        StatementKind::CreateFunction(create) => Some(create),
        _ => None,
    }
}

fn body_of(create: &CreateFunction) -> Result<&[Statement]> {
    match &create.body {
        FunctionBody::Statements(body) => Ok(body),
        _ => Err(messages::not_supported("EXTERNAL NAME")),
    }
}

/// A function that is made of statements, with its definition.
pub(crate) fn function_of(object: &Object) -> Option<(&ModuleDef, &FunctionDef)> {
    match &object.kind {
        ObjectKind::Function(module) => Some((module, module.function.as_ref()?)),
        _ => None,
    }
}

impl Execution<'_> {
    /// Does a function run? Then no statement does more than to set its variables.
    pub(crate) fn in_function(&self) -> bool {
        self.functions.get() > 0
    }

    /// A function as plans keep it.
    pub(crate) fn make_function(
        &self,
        database: DatabaseId,
        object: &Arc<Object>,
    ) -> Result<UserFunction> {
        let Some((module, _)) = function_of(object) else {
            return Err(messages::error(208, &[&object.name]));
        };
        let batch = self.module_batch(database, module)?;
        let create = created(&batch).ok_or_else(|| messages::error(208, &[&object.name]))?;
        let parameters: Vec<(Arc<str>, DataType)> = module
            .parameters
            .iter()
            .map(|p| (Arc::from(name_key(&p.name)), p.data_type))
            .collect();
        let types = parameters.iter().map(|(key, data_type)| (key, *data_type));
        Ok(UserFunction {
            database,
            object: object.clone(),
            signature: signature(types),
            defaults: (create.parameters.iter().map(|p| p.default.clone())).collect(),
            returned: only_value(create),
            parameters,
            batch: Arc::downgrade(&batch),
        })
    }

    fn function_batch(&self, function: &UserFunction, module: &ModuleDef) -> Result<Arc<Batch>> {
        match function.batch.upgrade() {
            Some(batch) => Ok(batch),
            None => self.module_batch(function.database, module),
        }
    }

    /// Value of a scalar function for values of its parameters' types.
    pub(crate) fn call_scalar(&self, function: &UserFunction, args: Vec<Value>) -> Result<Value> {
        let Some((module, def)) = function_of(&function.object) else {
            return Err(messages::error(208, &[&function.object.name]));
        };
        if def.null_on_null_input && args.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        let batch = self.function_batch(function, module)?;
        let frame = self.frame_with(function, &batch, args)?;
        self.run_scalar(frame, module, def, &batch)
    }

    fn frame_with(
        &self,
        function: &UserFunction,
        batch: &Arc<Batch>,
        args: Vec<Value>,
    ) -> Result<Frame> {
        self.check_depth()?;
        let place = (function.database, function.database);
        let kind = FrameKind::Function;
        let mut frame = self.module_frame(kind, &function.object, batch.clone(), place);
        let parameters = function.parameters.iter().zip(args).enumerate();
        for (at, ((key, data_type), value)) in parameters {
            let declared = match function.table_type(at) {
                Some(id) => self.pass_table(&mut frame, key, (function.database, id), &value),
                None => frame.declare_parameter(key, key, *data_type, value),
            };
            if let Err(error) = declared {
                self.drop_table_variables(&frame);
                return Err(error);
            }
        }
        frame.signature = function.signature;
        Ok(frame)
    }

    fn run_scalar(
        &self,
        mut frame: Frame,
        module: &ModuleDef,
        def: &FunctionDef,
        batch: &Batch,
    ) -> Result<Value> {
        let create = created(batch).ok_or_else(|| messages::error(208, &[&""]))?;
        let body = body_of(create)?;
        frame.returns = def.returns.map(|r| r.data_type);
        let mut value = Value::Null;
        self.run_function(frame, module, create, &mut |ex| {
            ex.run_list(body)?;
            let mut frames = ex.state.frames.borrow_mut();
            let returned = frames.last_mut().and_then(|f| f.returned.take());
            value = returned.unwrap_or(Value::Null);
            Ok(())
        })?;
        Ok(value)
    }

    /// The rows of a multi-statement function.
    pub(crate) fn rows_of_function(
        &self,
        function: &UserFunction,
        args: Vec<Value>,
    ) -> Result<Vec<Vec<Value>>> {
        let Some((module, _)) = function_of(&function.object) else {
            return Err(messages::error(208, &[&function.object.name]));
        };
        let batch = self.function_batch(function, module)?;
        let create = created(&batch).ok_or_else(|| messages::error(208, &[&""]))?;
        let FunctionReturns::TableVariable { name, definition } = &create.returns else {
            return Err(messages::error(208, &[&function.object.name]));
        };
        let body = body_of(create)?;
        let frame = self.frame_with(function, &batch, args)?;
        let mut rows = Vec::new();
        self.run_function(frame, module, create, &mut |ex| {
            let table = crate::ddl::create_table_variable(ex, name, definition);
            let table = table.map_err(|e| ex.fail(e))?;
            let declared = VariableType::Table(table);
            let declare = |frame: &mut Frame| frame.declare(name, declared.clone(), Value::Null);
            let mut made = Ok(());
            ex.top_mut(|frame| made = declare(frame));
            made.map_err(|e| ex.fail(e))?;
            ex.run_list(body)?;
            rows = ex.variable_rows(name).map_err(|e| ex.fail(e))?;
            Ok(())
        })?;
        Ok(rows)
    }

    /// All rows of a table variable.
    fn variable_rows(&self, name: &str) -> Result<Vec<Vec<Value>>> {
        self.rows_of_query(&format!("SELECT * FROM {name}"))
    }

    /// Rows of a query that the server asks for itself: rights are not looked at.
    pub(super) fn rows_of_query(&self, text: &str) -> Result<Vec<Vec<Value>>> {
        let parsed = parse_batch(text, &ParseOptions::default());
        let parsed = parsed.ok().and_then(|list| list.into_iter().next());
        let Some(StatementKind::Select(query)) = parsed.map(|s| s.kind) else {
            return Err(messages::error_state(1087, 2, &[&text]));
        };
        self.atomic(|| {
            let plan = prepare_select(&query, self)?;
            let mut stream = open(&plan, self)?;
            let mut batch = RowBatch::new();
            let mut rows = Vec::new();
            while stream.next(&mut batch)? {
                crate::host::check_cancel(self)?;
                for row in batch.rows() {
                    self.check_memory(row.iter().map(Value::outside_bytes).sum())?;
                    rows.push(row.to_vec());
                }
            }
            Ok(rows)
        })
    }

    /// Runs `work` in the function's frame; the request is as before when it ends.
    fn run_function(
        &self,
        frame: Frame,
        module: &ModuleDef,
        create: &CreateFunction,
        work: &mut dyn FnMut(&Self) -> Step<()>,
    ) -> Result<()> {
        if self.depth.get() == 0 {
            return self.atomic(|| self.run_function(frame, module, create, work));
        }
        let entered = self.enter_module(module, create.options.execute_as.as_ref(), &frame);
        if let Err(error) = entered {
            self.drop_table_variables(&frame);
            return Err(error);
        }
        let s = self.state;
        let is_tail = s.late.set_tail(false);
        let changes_rows = self.changes_rows.replace(false);
        let planned = self.planned_version.get();
        let (row_count, last_error) = (s.row_count.get(), s.last_error.get());
        let (fetch_status, cursor_rows) = (s.cursors.fetch_status.get(), s.cursors.rows.get());
        let last_identity = s.last_identity.get();
        let variables = self.variable_txn.take();
        self.functions.set(self.functions.get() + 1);
        s.frames.borrow_mut().push(frame);
        let level = s.frames.borrow().len();
        // Whatever called it may have left little room, and its statements are as deep as any.
        let result = with_room(|| work(self));
        s.cursors.leave(level);
        self.leave_frame_as(level);
        let dropped = self.leave_function();
        self.functions.set(self.functions.get() - 1);
        self.variable_txn.replace(variables);
        s.cursors.fetch_status.set(fetch_status);
        s.cursors.rows.set(cursor_rows);
        s.last_identity.set(last_identity);
        s.row_count.set(row_count);
        s.last_error.set(last_error);
        self.planned_version.set(planned);
        self.changes_rows.set(changes_rows);
        s.late.set_tail(is_tail);
        match result {
            Ok(()) => dropped,
            Err(Stop::Caught(error)) => Err(error),
            Err(_) => Err(super::query::client_gone()),
        }
    }

    /// Takes the function's frame away, with its table variables and settings.
    fn leave_function(&self) -> Result<()> {
        let Some(mut frame) = self.state.frames.borrow_mut().pop() else {
            return Ok(());
        };
        self.drop_table_variables(&frame);
        if let Some(saved) = frame.saved_settings.take() {
            *self.state.settings.borrow_mut() = saved;
        }
        // Its rows are read; how it ends is nobody's concern but the disk's.
        match self.variable_txn.take() {
            Some(txn) => Ok(txn.commit(daruma_storage::Durability::Delayed)?),
            None => Ok(()),
        }
    }

    /// `EXEC @value = f`: arguments are converted, and may be left out where there are defaults.
    pub(super) fn execute_function(
        &self,
        database: DatabaseId,
        object: &Arc<Object>,
        args: &[CallArgument],
    ) -> Result<CallResult> {
        let Some((module, def)) = function_of(object) else {
            return Err(messages::error(208, &[&object.name]));
        };
        self.check_depth()?;
        self.check_execute(database, object)?;
        let batch = self.module_batch(database, module)?;
        let create = created(&batch).ok_or_else(|| messages::error(208, &[&object.name]))?;
        let place = (database, database);
        let mut frame = self.module_frame(FrameKind::Function, object, batch.clone(), place);
        let shape = ParameterShape::of(&create.parameters);
        self.bind_parameters(&mut frame, &object.name, &create.parameters, &shape, args)
            .map_err(|e| e.of_module(&object.name))?;
        let is_null =
            |v: &Variable| matches!(v.declared, VariableType::Scalar(_)) && v.value.is_null();
        let value = match def.null_on_null_input && frame.variables.values().any(is_null) {
            true => {
                self.drop_table_variables(&frame);
                Value::Null
            }
            false => self.run_scalar(frame, module, def, &batch)?,
        };
        let data_type = def.returns.map_or(DataType::Int, |r| r.data_type);
        Ok(CallResult {
            value: Some((value, data_type)),
            ..CallResult::default()
        })
    }
}

/// The expression of a function that does nothing else than to return it, as whoever calls it.
fn only_value(create: &CreateFunction) -> Option<daruma_syntax::ast::Expr> {
    let FunctionBody::Statements(body) = &create.body else {
        return None;
    };
    let [statement] = body.as_slice() else {
        return None;
    };
    let StatementKind::Return(Some(expr)) = &statement.kind else {
        return None;
    };
    let options = &create.options;
    let is_plain = options.execute_as.is_none()
        && options.inline != Some(false)
        && options.returns_null_on_null_input != Some(true);
    is_plain.then(|| expr.clone())
}
