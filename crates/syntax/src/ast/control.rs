//! Control flow, variables, cursors, procedure calls, transactions, SET.

use super::{
    AssignOp, Condition, CursorRef, Expr, Ident, ObjectName, Query, Span, Statement,
    TableDefinition, TypeName,
};

/// `IF condition statement [ELSE statement]`.
#[derive(Clone, Debug, PartialEq)]
pub struct If {
    pub condition: Condition,
    pub then: Box<Statement>,
    pub otherwise: Option<Box<Statement>>,
}

/// `WHILE condition statement`.
#[derive(Clone, Debug, PartialEq)]
pub struct While {
    pub condition: Condition,
    pub body: Box<Statement>,
}

/// `BEGIN TRY .. END TRY BEGIN CATCH .. END CATCH`.
#[derive(Clone, Debug, PartialEq)]
pub struct TryCatch {
    pub body: Vec<Statement>,
    pub handler: Vec<Statement>,
}

/// `THROW number, message, state`.
#[derive(Clone, Debug, PartialEq)]
pub struct Throw {
    pub number: Expr,
    pub message: Expr,
    pub state: Expr,
}

/// `RAISERROR (message, severity, state, args) WITH LOG, NOWAIT, SETERROR`, or the old form without parentheses.
#[derive(Clone, Debug, PartialEq)]
pub struct RaisError {
    pub message: Expr,
    /// `None` in the old form `RAISERROR 50001 'text'`.
    pub severity: Option<Expr>,
    pub state: Option<Expr>,
    pub args: Vec<Expr>,
    pub log: bool,
    pub no_wait: bool,
    pub set_error: bool,
}

/// `WAITFOR`: how long, until when, or for what.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitFor {
    Delay(Expr),
    Time(Expr),
    /// `WAITFOR (RECEIVE ...), TIMEOUT n` belongs to the service broker; kept as text.
    Broker(String),
}

/// `EXEC`, also as the bare procedure name which may begin a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// `EXEC @status = p`.
    pub status: Option<String>,
    pub target: ExecuteTarget,
    pub args: Vec<ExecuteArg>,
    pub recompile: bool,
    pub result_sets: Option<ResultSets>,
}

/// What an EXECUTE runs.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecuteTarget {
    Procedure {
        name: ObjectName,
        number: Option<u32>,
    },
    /// `EXEC @name args`: the variable holds the procedure's name.
    Variable(String),
    /// `EXEC (text + text)`; `args` of the call are the values after the text, for `AT server`.
    Text {
        text: Expr,
        as_user: Option<AsPrincipal>,
        at: Option<Ident>,
    },
}

/// `AS USER = 'name'`, `AS LOGIN = 'name'`.
#[derive(Clone, Debug, PartialEq)]
pub struct AsPrincipal {
    pub login: bool,
    pub name: Expr,
}

/// An argument of an EXECUTE.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecuteArg {
    /// With its `@`.
    pub name: Option<String>,
    /// `Expr::Default` for DEFAULT. A bare word is a string.
    pub value: Expr,
    pub output: bool,
}

/// `WITH RESULT SETS` of an EXECUTE.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultSets {
    Undefined,
    None,
    Defined(Vec<ResultSet>),
}

/// How one result set is described.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultSet {
    Columns(Vec<ResultColumn>),
    AsObject(ObjectName),
    AsType(ObjectName),
    AsForXml,
}

/// A column of a described result set.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultColumn {
    pub name: Ident,
    pub data_type: TypeName,
    pub collation: Option<Ident>,
    pub nullable: Option<bool>,
}

/// `DECLARE @x int = 1`, `DECLARE @c CURSOR`.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    pub name: String,
    pub kind: DeclarationKind,
    pub span: Span,
}

/// What a DECLARE makes.
#[derive(Clone, Debug, PartialEq)]
pub enum DeclarationKind {
    Scalar {
        data_type: TypeName,
        value: Option<Expr>,
    },
    Cursor,
    /// A table variable inside a list of several declarations.
    Table(Box<TableDefinition>),
}

/// `DECLARE @t TABLE (...)` alone.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareTable {
    pub name: String,
    pub definition: TableDefinition,
    pub span: Span,
}

/// `DECLARE name CURSOR ... FOR SELECT`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    pub name: Ident,
    /// ISO form: `DECLARE c INSENSITIVE SCROLL CURSOR`.
    pub insensitive: bool,
    pub definition: CursorDefinition,
}

/// A cursor: its query and how it behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct CursorDefinition {
    pub scope: Option<CursorScope>,
    pub scroll: Option<CursorScroll>,
    pub kind: Option<CursorKind>,
    pub concurrency: Option<CursorConcurrency>,
    pub type_warning: bool,
    pub query: Query,
    pub update: Option<CursorUpdate>,
}

/// Where a cursor's name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorScope {
    Local,
    Global,
}

/// In which directions a cursor is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorScroll {
    ForwardOnly,
    Scroll,
}

/// What a cursor sees of later changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorKind {
    Static,
    Keyset,
    Dynamic,
    FastForward,
}

/// How a cursor keeps others from changing its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorConcurrency {
    ReadOnly,
    ScrollLocks,
    Optimistic,
}

/// `FOR READ ONLY` or `FOR UPDATE` of a cursor.
#[derive(Clone, Debug, PartialEq)]
pub enum CursorUpdate {
    ReadOnly,
    /// `FOR UPDATE OF a, b`; empty means all columns.
    Update(Vec<Ident>),
}

/// `FETCH .. FROM cursor [INTO ..]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetch {
    pub direction: FetchDirection,
    pub cursor: CursorRef,
    /// `INTO @a, @b`; empty returns the row to the client.
    pub into: Vec<String>,
}

/// Which row a FETCH asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum FetchDirection {
    Next,
    Prior,
    First,
    Last,
    Absolute(Expr),
    Relative(Expr),
}

/// A SET statement.
#[derive(Clone, Debug, PartialEq)]
pub enum SetStatement {
    /// `SET @v = expr`, `SET @v += expr`.
    Variable {
        name: String,
        op: AssignOp,
        value: Expr,
        span: Span,
    },
    /// `SET @c = CURSOR ... FOR SELECT`.
    Cursor {
        name: String,
        definition: Box<CursorDefinition>,
    },
    /// `SET @x.modify('...')`.
    Method {
        name: String,
        method: Ident,
        args: Vec<Expr>,
    },
    /// `SET @p.X = expr`.
    Property {
        name: String,
        property: Ident,
        value: Expr,
    },
    /// `SET NOCOUNT, XACT_ABORT ON`. Names in upper case.
    Switch {
        options: Vec<String>,
        on: bool,
    },
    /// `SET STATISTICS IO, TIME ON`.
    Statistics {
        options: Vec<String>,
        on: bool,
    },
    /// `SET LOCK_TIMEOUT 100`, `SET DATEFORMAT mdy`, `SET DEADLOCK_PRIORITY LOW`, `SET LANGUAGE us_english`.
    Value {
        option: String,
        value: SetValue,
    },
    TransactionIsolation(IsolationLevel),
    IdentityInsert {
        table: ObjectName,
        on: bool,
    },
    /// `SET OFFSETS SELECT, FROM ON`.
    Offsets {
        keywords: Vec<String>,
        on: bool,
    },
}

impl SetStatement {
    /// Does it give a variable a value, rather than set an option?
    pub fn is_of_variable(&self) -> bool {
        matches!(
            self,
            SetStatement::Variable { .. }
                | SetStatement::Cursor { .. }
                | SetStatement::Method { .. }
                | SetStatement::Property { .. }
        )
    }
}

/// The value that an option is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum SetValue {
    Expr(Expr),
    Word(Ident),
}

/// `SET TRANSACTION ISOLATION LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Snapshot,
    Serializable,
}

/// `BEGIN TRANSACTION`.
#[derive(Clone, Debug, PartialEq)]
pub struct BeginTransaction {
    pub distributed: bool,
    pub name: Option<TransactionName>,
    /// `WITH MARK 'description'`; an empty string without a description.
    pub mark: Option<String>,
}

/// `COMMIT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    pub name: Option<TransactionName>,
    /// `WITH (DELAYED_DURABILITY = ON | OFF)`.
    pub delayed_durability: Option<bool>,
}

/// The name of a transaction or savepoint.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionName {
    Name(Ident),
    Variable(String),
}

/// `EXECUTE AS` as a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecuteAs {
    pub context: ExecuteContext,
    pub no_revert: bool,
    /// `WITH COOKIE INTO @v`.
    pub cookie: Option<String>,
}

/// Principal whose rights EXECUTE AS takes.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecuteContext {
    Caller,
    SelfUser,
    Owner,
    Login(Expr),
    User(Expr),
    /// `EXECUTE AS 'name'` in a module's options.
    Name(String),
}
