//! Views, procedures, functions and triggers. Their stored definition is the text of the batch that created them.

use super::{
    DefineMode, ExecuteContext, Expr, Ident, ObjectName, Query, Statement, TableDefinition,
    TriggerScope, TypeName,
};

/// `CREATE` or `ALTER VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    pub mode: DefineMode,
    pub name: ObjectName,
    pub columns: Vec<Ident>,
    pub options: ModuleOptions,
    pub query: Query,
    /// `WITH CHECK OPTION`.
    pub check_option: bool,
}

/// `CREATE` or `ALTER PROCEDURE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateProcedure {
    pub mode: DefineMode,
    pub name: ObjectName,
    /// `p;2`.
    pub number: Option<u32>,
    pub parameters: Vec<Parameter>,
    pub options: ModuleOptions,
    pub for_replication: bool,
    pub body: ModuleBody,
}

/// What a procedure or trigger does.
#[derive(Clone, Debug, PartialEq)]
pub enum ModuleBody {
    Statements(Vec<Statement>),
    /// `EXTERNAL NAME assembly.class.method`.
    External(ObjectName),
}

/// A parameter of a procedure, function, or parameter definition string.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// With its `@`.
    pub name: String,
    pub data_type: ParameterType,
    pub nullable: Option<bool>,
    pub default: Option<Expr>,
    pub output: bool,
    pub read_only: bool,
}

/// The type of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterType {
    Named(TypeName),
    /// `@c CURSOR VARYING`.
    Cursor {
        varying: bool,
    },
}

/// Options after WITH which all kinds of modules share.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ModuleOptions {
    pub encryption: bool,
    pub schema_binding: bool,
    pub recompile: bool,
    pub view_metadata: bool,
    pub native_compilation: bool,
    pub execute_as: Option<ExecuteContext>,
    /// `RETURNS NULL ON NULL INPUT` is true, `CALLED ON NULL INPUT` false.
    pub returns_null_on_null_input: Option<bool>,
    /// `INLINE = ON | OFF`.
    pub inline: Option<bool>,
}

/// `CREATE` or `ALTER FUNCTION`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    pub mode: DefineMode,
    pub name: ObjectName,
    pub parameters: Vec<Parameter>,
    pub returns: FunctionReturns,
    pub options: ModuleOptions,
    pub body: FunctionBody,
}

/// What a function returns.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionReturns {
    Scalar(TypeName),
    /// `RETURNS TABLE`, inline.
    Table,
    /// `RETURNS @t TABLE (...)`.
    TableVariable {
        name: String,
        definition: TableDefinition,
    },
    /// `RETURNS TABLE (...)` of an external function.
    TableDefinition(TableDefinition),
}

/// What a function does.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionBody {
    /// `BEGIN ... END`.
    Statements(Vec<Statement>),
    /// `RETURN (SELECT ...)` of an inline function.
    Query(Box<Query>),
    External(ObjectName),
}

/// `CREATE` or `ALTER TRIGGER`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTrigger {
    pub mode: DefineMode,
    pub name: ObjectName,
    pub on: TriggerScope,
    pub options: ModuleOptions,
    pub timing: TriggerTiming,
    /// `INSERT`, `UPDATE`, `DELETE`, or DDL and LOGON events, in upper case.
    pub events: Vec<String>,
    /// `WITH APPEND`, ignored since long.
    pub append: bool,
    pub not_for_replication: bool,
    pub body: ModuleBody,
}

/// `FOR` is a synonym of `AFTER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTiming {
    After,
    InsteadOf,
}
