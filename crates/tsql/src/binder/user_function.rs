//! Calls of functions that are made of statements.
//!
//! Theory: arguments have the parameters' types before the call, so that the call itself converts nothing. A function that
//! only returns an expression stands in the place of its call, as inline table functions do, if that costs no more
//! than the call would: its arguments are columns, variables or constants, which may be read as often as one likes.

use super::tree::*;
use super::{Binder, OutColumn, types};
use crate::error::{Result, SqlError};
use crate::host::{Host, Resolved, TableRef, TypeKey, UserFunction, VariableType, VirtualTable};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_catalog::{ColumnDef, Object, ObjectKind};
use daruma_syntax::ast::{self, Expr, FunctionCall, ObjectName};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// Functions within functions that are put in the place of their calls.
const INLINED_DEPTH_MAX: usize = 8;
/// Nodes of an expression that stands in the place of a call.
const INLINED_NODES_MAX: usize = 200;
/// Nodes that one statement binds to put functions in place, those included that stay calls in the end. Functions that call
/// others many times over would otherwise be bound as often as there are paths through them.
pub(super) const INLINED_WORK_MAX: usize = 4_000;

/// A function that is made of statements.
struct Found {
    database: DatabaseId,
    object: Arc<Object>,
}

impl Binder<'_> {
    /// `schema.f(..)`: error 4121 when it is no scalar function.
    pub(super) fn user_function(&mut self, call: &FunctionCall) -> Result<Scalar> {
        let name = &call.name;
        if self.in_stored_text && name.database.is_some() {
            return Err(messages::error(4120, &[]));
        }
        let found = match self.resolve(name) {
            Ok(Resolved::Function { database, object }) if object.type_code() == "FN" => {
                Found { database, object }
            }
            Err(error) if error.number != 208 => return Err(error),
            _ => {
                let prefix = name.schema.as_ref().map_or("", |s| s.text.as_str());
                return Err(messages::error(4121, &[&prefix, &name.dotted()]));
            }
        };
        if call.over.is_some() {
            return Err(messages::error(4113, &[&name.dotted()]));
        }
        if call.star || call.distinct {
            let wrong = if call.star { "*" } else { "distinct" };
            return Err(messages::error(102, &[&wrong]));
        }
        let function = self.host.user_function(found.database, &found.object)?;
        let args = self.function_arguments(&function, name, &call.args, 2, false)?;
        let returns = function.def().and_then(|def| def.returns);
        let Some(returns) = returns.map(|r| r.data_type) else {
            return Err(messages::error(208, &[&name.dotted()]));
        };
        let ty = Type {
            collation: self.host.collation(found.database),
            ..Type::new(returns, true)
        };
        if let Some(inlined) = self.in_place(&function, &args, returns)? {
            return Ok(Scalar::new(inlined, ty));
        }
        let kind = Kind::UserFunction {
            function,
            name: Arc::new(name.clone()),
            args,
        };
        Ok(Scalar::new(kind, ty))
    }

    /// Arguments as the function takes them: errors 313 and 8144, whose state tells the kind of function.
    fn function_arguments(
        &mut self,
        function: &UserFunction,
        name: &ObjectName,
        given: &[Expr],
        state: u8,
        of_table: bool,
    ) -> Result<Vec<Scalar>> {
        let wanted = function.parameters.len();
        if given.len() < wanted {
            return Err(too_few(name, state));
        }
        if given.len() > wanted {
            return Err(too_many(name, state));
        }
        let mut args = Vec::with_capacity(given.len());
        for (at, ((arg, (_, data_type)), default)) in (given
            .iter()
            .zip(&function.parameters)
            .zip(&function.defaults))
        .enumerate()
        {
            if let Some(id) = function.table_type(at) {
                // What the call passes is the number of the table: 0 for an empty one.
                let table = self.given_table(arg, (function.database, id))?;
                let id = Value::Int(table.map_or(0, |t| t.object_id));
                args.push(Scalar::new(
                    Kind::Const(id),
                    Type::new(DataType::Int, false),
                ));
                continue;
            }
            let scalar = match (arg, default) {
                (Expr::Default, Some(Expr::Column(word))) if word.table.is_none() => {
                    self.text(&word.name.text, true)
                }
                (Expr::Default, Some(default)) => self.of_stored_text(|b| b.expr(default))?,
                (Expr::Default, None) => Scalar::null(*data_type),
                (arg, _) if of_table => self.table_argument(arg)?,
                (arg, _) => self.expr(arg)?,
            };
            args.push(match scalar.is_null_literal() {
                true => Scalar::null(*data_type),
                false => types::convert(scalar, *data_type)?,
            });
        }
        Ok(args)
    }

    /// The table variable that an argument names, of the type that the parameter has; `None` is DEFAULT. Error 206.
    pub(super) fn given_table(&mut self, arg: &Expr, of: TypeKey) -> Result<Option<TableRef>> {
        let table = match arg {
            Expr::Default => return Ok(None),
            Expr::Variable { name, .. } => match self.variable_table(name) {
                Some(VariableType::Table(table) | VariableType::Parameter(table)) => Some(table),
                _ => None,
            },
            _ => None,
        };
        match table {
            Some(table) if table.table_type == Some(of) => Ok(Some(table)),
            Some(table) => {
                let from = match table.table_type {
                    Some(other) => self.table_type_name(other)?,
                    None => "table".to_string(),
                };
                Err(messages::error_state(
                    206,
                    2,
                    &[&from, &self.table_type_name(of)?],
                ))
            }
            None => {
                let given = self.table_argument(arg)?.ty.data_type;
                let wanted = self.table_type_name(of)?;
                Err(messages::error_state(206, 2, &[&given.name(), &wanted]))
            }
        }
    }

    fn table_type_name(&self, (database, id): TypeKey) -> Result<String> {
        let catalog = self.host.catalog(database)?;
        let def = catalog.type_by_id(id);
        Ok(def.map_or("table".to_string(), |def| def.name.clone()))
    }

    /// The expression that the function returns, if it may stand here.
    fn in_place(
        &mut self,
        function: &Arc<UserFunction>,
        args: &[Scalar],
        returns: DataType,
    ) -> Result<Option<Kind>> {
        let Some(expr) = function.returned.as_ref().filter(|_| !self.in_stored_text) else {
            return Ok(None);
        };
        let own = (function.database, function.object.id);
        let is_deep = self.inlined.len() >= INLINED_DEPTH_MAX || self.inlined.contains(&own);
        let ObjectKind::Function(module) = &function.object.kind else {
            return Ok(None);
        };
        let is_spent = self.inline_left == 0;
        if is_deep || is_spent || !args.iter().all(is_cheap) || has_query(expr) {
            return Ok(None);
        }
        let collation = self.host.collation(function.database);
        let given = function.parameters.iter().zip(args).enumerate();
        let given = given.filter(|(at, _)| function.table_type(*at).is_none());
        let bound = given.map(|(_, ((key, _), arg))| {
            let mut arg = arg.clone();
            if arg.ty.data_type.is_character() {
                arg.ty.collation = collation;
                arg.ty.coercion = Coercion::Default;
            }
            arg.ty.nullable = true;
            (key.to_string(), arg)
        });
        let bound = bound.collect();
        self.inlined.push(own);
        let outer = self.database.replace(function.database);
        let schema_bound = std::mem::replace(&mut self.schema_bound, false);
        let ansi_nulls = std::mem::replace(&mut self.ansi_nulls, module.ansi_nulls);
        let parameters = self.parameters.replace(bound);
        self.host.enter_view(function.database, &function.object);
        let value = self.of_stored_text(|b| b.expr(expr));
        self.host.leave_view();
        self.database = outer;
        self.schema_bound = schema_bound;
        self.ansi_nulls = ansi_nulls;
        self.parameters = parameters;
        self.inlined.pop();
        // What is wrong with it shows when it is called.
        let Ok(value) = value else {
            self.inline_left = self.inline_left.saturating_sub(1);
            return Ok(None);
        };
        let size = value.size(INLINED_NODES_MAX + 1);
        self.inline_left = self.inline_left.saturating_sub(size.max(1));
        if size > INLINED_NODES_MAX || value.any(&stays_called) {
            return Ok(None);
        }
        let value = match value.is_null_literal() {
            true => Scalar::null(returns),
            false => types::make_convert(value, returns, true),
        };
        Ok(Some(value.kind))
    }

    /// The rows of a multi-statement function.
    pub(super) fn statement_function(
        &mut self,
        call: &ast::TableFunction,
        database: DatabaseId,
        object: &Arc<Object>,
        alias: &ast::Ident,
    ) -> Result<Rel> {
        let ObjectKind::Function(module) = &object.kind else {
            return Err(messages::error(208, &[&object.name]));
        };
        let function = self.host.user_function(database, object)?;
        let args = self.function_arguments(&function, &call.call.name, &call.call.args, 3, true)?;
        let table = Arc::new(FunctionRows {
            columns: module.columns.iter().map(row_column).collect(),
            function,
        });
        let mut columns = Vec::with_capacity(module.columns.len());
        for column in table.columns() {
            let ty = Type {
                collation: column.collation,
                coercion: Coercion::Implicit,
                ..Type::new(column.data_type, column.nullable)
            };
            let sample = Scalar::new(Kind::Const(Value::Bit(false)), ty);
            columns.push(OutColumn {
                name: column.name.clone(),
                id: self.new_computed(&column.name, &sample)?,
            });
        }
        let scan = VirtualScan {
            table,
            database,
            args,
            columns: columns.iter().map(|c| c.id).collect(),
            alias: alias.text.clone(),
        };
        let bound = super::BoundQuery {
            rel: Rel::Virtual(Box::new(scan)),
            columns,
            assignments: Vec::new(),
        };
        self.named(bound, Some(alias), &call.columns)
    }
}

/// Error 313.
pub(super) fn too_few(name: &ObjectName, state: u8) -> SqlError {
    let text = "An insufficient number of arguments were supplied for the procedure or function";
    SqlError::new(313, 16, state, format!("{text} {}.", name.dotted()))
}

/// Error 8144.
pub(super) fn too_many(name: &ObjectName, state: u8) -> SqlError {
    let name = name.dotted();
    let text = format!("Procedure or function {name} has too many arguments specified.");
    SqlError::new(8144, 16, state, text)
}

/// May it be read again and again for nothing?
fn is_cheap(arg: &Scalar) -> bool {
    match &arg.kind {
        Kind::Const(_) | Kind::Column(_) | Kind::Variable(_) => true,
        Kind::Convert { input, style, .. } => {
            style.is_none()
                && matches!(
                    input.kind,
                    Kind::Const(_) | Kind::Column(_) | Kind::Variable(_)
                )
        }
        _ => false,
    }
}

/// Is there a subquery in it? One that only a text seems to hold costs no more than a call.
fn has_query(expr: &Expr) -> bool {
    expr.to_string().to_ascii_uppercase().contains("SELECT")
}

/// What means another thing in the function than around its call.
fn stays_called(scalar: &Scalar) -> bool {
    matches!(
        scalar.kind,
        Kind::System { .. }
            | Kind::NextValue(_)
            | Kind::Subquery(_)
            | Kind::Aggregate(_)
            | Kind::Window(_)
            | Kind::Grouping(_)
    ) || scalar.is_volatile()
}

fn row_column(column: &ColumnDef) -> OutputColumn {
    OutputColumn {
        name: column.name.clone(),
        data_type: column.data_type,
        collation: column.collation,
        nullable: column.nullable,
        identity: false,
        computed: false,
    }
}

/// Rows that a function fills a table with.
struct FunctionRows {
    columns: Vec<OutputColumn>,
    function: Arc<UserFunction>,
}

impl VirtualTable for FunctionRows {
    fn name(&self) -> &str {
        &self.function.object.name
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    fn arguments(&self) -> std::ops::RangeInclusive<usize> {
        let count = self.function.parameters.len();
        count..=count
    }

    fn rows(
        &self,
        host: &dyn Host,
        _database: DatabaseId,
        arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>> {
        host.function_rows(&self.function, arguments)
    }
}
