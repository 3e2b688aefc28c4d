//! Functions of several statements: what may stand in them, and what is known of them once they are made.
//!
//! Theory: a function must leave nothing behind but its value, so all it may change is its own variables. That is found in
//! the tree before it is stored; what only shows when it runs (a name that means a table after all, EXEC of a
//! procedure) is refused then.

use super::module::{Place, define, module, parameter, place, refuse_options};
use crate::error::{Result, SqlError};
use crate::executor::{gives_the_same, gives_the_same_if};
use crate::host::TableKind;
use crate::instance::TEMPDB;
use crate::messages;
use crate::session::Execution;
use daruma_catalog::{
    ColumnDef, FunctionDef, ModuleDef, ObjectKind, ParameterDef, ReturnDef, SCHEMA_DBO, names_equal,
};
use daruma_syntax::ast::{
    self, CreateFunction, CursorScope, DeclarationKind, DmlTarget, ExecuteTarget, FunctionReturns,
    InsertSource, Query, QueryBody, SelectItem, SetStatement, Statement, StatementKind,
    TableSource,
};
use daruma_syntax::{ParseOptions, named_objects, takes_next_value};
use daruma_value::DataType;
use std::sync::Arc;

/// Functions that leave something behind: the next one gives another value.
const SIDE_EFFECTS: &[&str] = &["newid", "newsequentialid", "rand", "crypt_gen_random"];

/// May a statement of this kind stand in a function at all?
pub(crate) fn may_stand_in_function(kind: &StatementKind) -> bool {
    use StatementKind::*;
    match kind {
        Block(_) | If(_) | While(_) | Break | Continue | Label(_) | Goto(_) | Return(_)
        | Declare(_) | DeclareTable(_) | DeclareCursor(_) | Open(_) | Fetch(_) | Close(_)
        | Deallocate(_) | Select(_) | Insert(_) | Update(_) | Delete(_) | Merge(_) => true,
        Set(SetStatement::Variable { .. } | SetStatement::Cursor { .. }) => true,
        Execute(exec) => !matches!(exec.target, ExecuteTarget::Text { .. }),
        _ => false,
    }
}

/// A statement's effect, as error 443 calls it.
pub(crate) fn effect_of(kind: &StatementKind) -> &'static str {
    use StatementKind::*;
    match kind {
        Insert(_) => "INSERT",
        Update(_) => "UPDATE",
        Delete(_) => "DELETE",
        Merge(_) => "MERGE",
        Truncate(_) => "TRUNCATE TABLE",
        BulkInsert(_) => "BULK INSERT",
        Select(_) => "SELECT INTO",
        Execute(_) => "EXECUTE STRING",
        TryCatch(_) => "BEGIN TRY",
        Throw(_) => "THROW",
        RaisError(_) => "RAISERROR",
        Print(_) => "PRINT",
        WaitFor(_) => "WAITFOR",
        Set(SetStatement::TransactionIsolation(_)) => "SET TRANSACTION ISOLATION LEVEL",
        Set(_) => "SET OPTION ON",
        BeginTransaction(_) => "BEGIN TRANSACTION",
        Commit(_) => "COMMIT TRANSACTION",
        Rollback(_) => "ROLLBACK TRANSACTION",
        SaveTransaction(_) => "SAVEPOINT",
        CreateTable(_) => "CREATE TABLE",
        AlterTable(_) => "ALTER TABLE",
        CreateIndex(_) => "CREATE INDEX",
        Drop(_) => "DROP OBJECT",
        ExecuteAs(_) => "EXECUTE AS",
        Revert { .. } => "REVERT",
        Use(_) => "USE DATABASE",
        Grant(_) => "GRANT",
        Dbcc(_) => "DBCC",
        _ => "DDL",
    }
}

/// CREATE and ALTER FUNCTION of a function with a body of statements.
pub(super) fn create(
    ex: &Execution<'_>,
    statement: &CreateFunction,
    body: &[Statement],
    text: &str,
) -> Result<()> {
    refuse_options(&statement.options, "FUNCTION")?;
    refuse_shape(statement)?;
    let code = match statement.returns {
        FunctionReturns::Scalar(_) => "FN",
        _ => "TF",
    };
    let place = place(ex, &statement.name, statement.mode, code)?;
    let options = &statement.options;
    ex.may_define_as(options.execute_as.as_ref(), place.database, place.schema_id)?;
    if let Some(old) = &place.existing {
        let written = statement.name.dotted();
        super::bound::refuse(ex, place.database, old, ("ALTER", 3), &written)?;
    }
    let module = module(ex, text);
    refuse_effects(&module)?;
    let is_scalar = code == "FN";
    Body { is_scalar }.check(body).map_err(|mut e| {
        e.procedure
            .get_or_insert_with(|| statement.name.name.text.clone());
        e
    })?;
    let parameters = (statement.parameters.iter())
        .map(|p| parameter(ex, p))
        .collect::<Result<Vec<_>>>()?;
    let (returns, columns) = result_of(ex, statement)?;
    let module = ModuleDef {
        columns,
        schema_bound: options.schema_binding,
        ..module
    };
    let is_deterministic = options.schema_binding
        && in_place(ex, &place, || {
            let name = ("function", &statement.name);
            super::bound::bind_names(ex, place.database, place.schema_id, name, &module)?;
            let mut steady = Steady {
                ex,
                returns: returns.map(|r| r.data_type),
                known: parameters.clone(),
                is_steady: is_scalar,
            };
            steady.list(body)?;
            Ok(steady.is_steady)
        })?;
    let module = ModuleDef {
        parameters,
        function: Some(FunctionDef {
            returns,
            null_on_null_input: options.returns_null_on_null_input == Some(true),
            is_deterministic,
        }),
        ..module
    };
    let kind = ObjectKind::Function(Arc::new(module));
    define(ex, place, &statement.name, kind)
}

fn in_place<T>(ex: &Execution<'_>, place: &Place, work: impl FnOnce() -> Result<T>) -> Result<T> {
    ex.with_text_in(place.database, place.schema_id, work)
}

/// OUTPUT (181), and options that functions of rows do not have: those are called whatever their arguments are, and never stand in the
/// place of their call (487).
fn refuse_shape(statement: &CreateFunction) -> Result<()> {
    let options = &statement.options;
    if statement.parameters.iter().any(|p| p.output) {
        return Err(messages::error(181, &[]));
    }
    let is_scalar = matches!(statement.returns, FunctionReturns::Scalar(_));
    let is_called = options.returns_null_on_null_input.is_some() || options.inline.is_some();
    match is_called && !is_scalar {
        true => Err(messages::error(487, &[&"CREATE/ALTER FUNCTION"])),
        false => Ok(()),
    }
}

/// Errors 2772, 443 and 11719 for what the text of a function names.
pub(super) fn refuse_effects(module: &ModuleDef) -> Result<()> {
    let options = ParseOptions {
        quoted_identifier: module.quoted_identifier,
    };
    for name in named_objects(&module.definition, &options) {
        if name.is_temporary() {
            return Err(messages::error(2772, &[]));
        }
        let effect = |f: &&&str| name.is_bare() && name.name.text.eq_ignore_ascii_case(f);
        if let Some(found) = SIDE_EFFECTS.iter().find(effect) {
            return Err(messages::error(443, &[found]));
        }
    }
    match takes_next_value(&module.definition, &options) {
        true => Err(messages::error(11719, &[])),
        false => Ok(()),
    }
}

/// Type of the value, or columns of the rows.
fn result_of(
    ex: &Execution<'_>,
    statement: &CreateFunction,
) -> Result<(Option<ReturnDef>, Vec<ColumnDef>)> {
    match &statement.returns {
        FunctionReturns::Scalar(name) => {
            let (data_type, _, user_type_id) = ex.type_of(name)?;
            let returns = ReturnDef {
                data_type,
                user_type_id,
            };
            Ok((Some(returns), Vec::new()))
        }
        FunctionReturns::TableVariable { name, definition } => {
            let kind = TableKind::Variable;
            let mut builder = super::table::Builder::new(ex, TEMPDB, SCHEMA_DBO, kind, name)?;
            builder.define(definition)?;
            let columns = builder.def.columns.iter().map(|c| ColumnDef {
                default: None,
                computed: None,
                is_identity: false,
                is_rowguid: false,
                ..c.clone()
            });
            Ok((None, columns.collect()))
        }
        _ => Err(messages::not_supported("EXTERNAL NAME")),
    }
}

/// The statements of a function, one by one.
struct Body {
    is_scalar: bool,
}

impl Body {
    fn check(&self, body: &[Statement]) -> Result<()> {
        body.iter().try_for_each(|s| self.statement(s))?;
        match body.last().map(|s| (&s.kind, s.span.line)) {
            Some((StatementKind::Return(_), _)) => Ok(()),
            Some((StatementKind::Block(inner), _)) if ends_in_return(inner) => Ok(()),
            last => Err(at(
                messages::error_state(455, 2, &[]),
                last.map_or(1, |l| l.1),
            )),
        }
    }

    fn statement(&self, statement: &Statement) -> Result<()> {
        self.kind(&statement.kind)
            .map_err(|e| at(e, statement.span.line))
    }

    fn kind(&self, kind: &StatementKind) -> Result<()> {
        use StatementKind::*;
        if !may_stand_in_function(kind) {
            return Err(messages::error_state(443, 14, &[&effect_of(kind)]));
        }
        match kind {
            Block(body) => body.iter().try_for_each(|s| self.statement(s)),
            If(s) => {
                self.statement(&s.then)?;
                s.otherwise.iter().try_for_each(|o| self.statement(o))
            }
            While(s) => self.statement(&s.body),
            Return(Some(_)) if !self.is_scalar => Err(messages::error(178, &[])),
            Return(None) if self.is_scalar => Err(messages::error_state(455, 2, &[])),
            Select(query) => only_assigns(query),
            Insert(s) => {
                if matches!(s.source, InsertSource::Execute(_)) {
                    return Err(messages::error_state(443, 14, &[&"INSERT EXEC"]));
                }
                own_target(kind, &s.target, &[], &s.with, s.output.as_ref())
            }
            Update(s) => own_target(kind, &s.target, &s.from, &s.with, s.output.as_ref()),
            Delete(s) => own_target(kind, &s.target, &s.from, &s.with, s.output.as_ref()),
            Merge(s) => own_target(kind, &s.target, &[], &s.with, s.output.as_ref()),
            Fetch(s) if s.into.is_empty() => Err(messages::error_state(444, 3, &[])),
            DeclareCursor(s) if s.definition.scope == Some(CursorScope::Global) => {
                Err(messages::not_supported("GLOBAL cursors in functions"))
            }
            _ => Ok(()),
        }
    }
}

fn ends_in_return(body: &[Statement]) -> bool {
    match body.last().map(|s| &s.kind) {
        Some(StatementKind::Return(_)) => true,
        Some(StatementKind::Block(inner)) => ends_in_return(inner),
        _ => false,
    }
}

fn at(mut error: SqlError, line: u32) -> SqlError {
    if error.line == 0 {
        error.line = i32::try_from(line).unwrap_or(i32::MAX);
    }
    error
}

/// A SELECT statement must give its values to variables: errors 444 and 443.
fn only_assigns(query: &Query) -> Result<()> {
    let QueryBody::Select(select) = &query.body else {
        return Err(messages::error_state(444, 2, &[]));
    };
    if select.into.is_some() {
        return Err(messages::error_state(443, 15, &[&"SELECT INTO"]));
    }
    let assigns = |item: &SelectItem| matches!(item, SelectItem::Assign { .. });
    match select.items.iter().all(assigns) {
        true => Ok(()),
        false => Err(messages::error_state(444, 2, &[])),
    }
}

/// A change must be of a table variable, and give its OUTPUT to one.
fn own_target(
    kind: &StatementKind,
    target: &DmlTarget,
    from: &[TableSource],
    with: &ast::With,
    output: Option<&ast::Output>,
) -> Result<()> {
    let is_own = match target {
        DmlTarget::Variable { .. } => true,
        DmlTarget::Table { name, .. } if name.is_bare() => {
            let name = &name.name.text;
            // What a common table expression reads shows when it runs.
            from.iter().any(|s| names_variable(s, name))
                || with.ctes.iter().any(|c| names_equal(&c.name.text, name))
        }
        _ => false,
    };
    let output_is_own = output.is_none_or(|output| {
        let into = output.into.as_ref().map(|i| &i.target);
        output.items.is_empty() && matches!(into, Some(ast::OutputTarget::Variable(_)))
    });
    match () {
        () if !is_own => Err(messages::error_state(443, 15, &[&effect_of(kind)])),
        () if !output_is_own => Err(messages::error_state(443, 14, &[&"OUTPUT INTO"])),
        () => Ok(()),
    }
}

/// Is the name an alias of a table variable?
fn names_variable(source: &TableSource, wanted: &str) -> bool {
    match source {
        TableSource::Variable { alias, .. } => {
            alias.as_ref().is_some_and(|a| names_equal(&a.text, wanted))
        }
        TableSource::Join(join) => {
            names_variable(&join.left, wanted) || names_variable(&join.right, wanted)
        }
        TableSource::Apply { left, right, .. } => {
            names_variable(left, wanted) || names_variable(right, wanted)
        }
        _ => false,
    }
}

/// Are all of the function's statements expressions that give the same for the same arguments? Whatever reads rows does
/// not count as such.
struct Steady<'e, 'a> {
    ex: &'e Execution<'a>,
    returns: Option<DataType>,
    /// Parameters, and variables that were declared so far.
    known: Vec<ParameterDef>,
    is_steady: bool,
}

impl Steady<'_, '_> {
    fn list(&mut self, body: &[Statement]) -> Result<()> {
        body.iter()
            .try_for_each(|s| self.statement(&s.kind).map_err(|e| at(e, s.span.line)))
    }

    /// A value that becomes one of the type: texts of dates mean what the session's settings say.
    fn value(&mut self, expr: &ast::Expr, to: Option<DataType>) -> Result<()> {
        let Some(to) = to else {
            self.is_steady = false;
            return Ok(());
        };
        if self.is_steady {
            self.is_steady = gives_the_same(expr, to, &self.known, self.ex)?;
        }
        Ok(())
    }

    fn type_of(&self, variable: &str) -> Option<DataType> {
        let mut known = self.known.iter().rev();
        let found = known.find(|p| names_equal(&p.name, variable))?;
        Some(found.data_type)
    }

    fn condition(&mut self, condition: &ast::Condition) -> Result<()> {
        if self.is_steady {
            self.is_steady = gives_the_same_if(condition, &self.known, self.ex)?;
        }
        Ok(())
    }

    fn statement(&mut self, kind: &StatementKind) -> Result<()> {
        use StatementKind::*;
        match kind {
            Block(body) => self.list(body),
            If(s) => {
                self.condition(&s.condition)?;
                self.statement(&s.then.kind)?;
                s.otherwise.iter().try_for_each(|o| self.statement(&o.kind))
            }
            While(s) => {
                self.condition(&s.condition)?;
                self.statement(&s.body.kind)
            }
            Return(Some(value)) => self.value(value, self.returns),
            Set(SetStatement::Variable { name, value, .. }) => {
                self.value(value, self.type_of(name))
            }
            Declare(list) => list.iter().try_for_each(|d| self.declare(d)),
            Break | Continue | Label(_) | Goto(_) | Return(None) => Ok(()),
            _ => {
                self.is_steady = false;
                Ok(())
            }
        }
    }

    fn declare(&mut self, declaration: &ast::Declaration) -> Result<()> {
        let DeclarationKind::Scalar { data_type, value } = &declaration.kind else {
            self.is_steady = false;
            return Ok(());
        };
        if self.ex.table_type(data_type)?.is_some() {
            self.is_steady = false;
            return Ok(());
        }
        let (data_type, _, user_type_id) = self.ex.type_of(data_type)?;
        value
            .iter()
            .try_for_each(|v| self.value(v, Some(data_type)))?;
        self.known.push(ParameterDef {
            name: declaration.name.clone(),
            data_type,
            user_type_id,
            is_output: false,
            has_default: false,
            is_readonly: false,
        });
        Ok(())
    }
}
