//! Queries: SELECT, common table expressions, table sources.

use super::{
    BinaryOp, Condition, DataModification, Expr, FunctionCall, Ident, ObjectName, OptionItem, Span,
    TypeName, Window,
};

/// A whole query expression with what may stand around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub with: With,
    pub body: QueryBody,
    pub order_by: Vec<OrderItem>,
    pub offset: Option<Expr>,
    pub fetch: Option<Expr>,
    pub for_clause: Option<ForClause>,
    /// `OPTION (...)`; statements only.
    pub options: Vec<QueryHint>,
}

/// `WITH a AS (...), b AS (...)`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct With {
    pub ctes: Vec<Cte>,
    pub xml_namespaces: Vec<XmlNamespace>,
}

impl With {
    /// Is there nothing behind WITH?
    pub fn is_empty(&self) -> bool {
        self.ctes.is_empty() && self.xml_namespaces.is_empty()
    }
}

/// A common table expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    pub name: Ident,
    pub columns: Vec<Ident>,
    pub query: Query,
    pub span: Span,
}

/// `'uri' AS prefix`, or `DEFAULT 'uri'` without prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct XmlNamespace {
    pub uri: String,
    pub prefix: Option<Ident>,
}

/// A query without its ORDER BY: one SELECT, or several under set operators.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryBody {
    Select(Box<Select>),
    /// Two or more branches under one operator, left to right.
    Set {
        op: SetOp,
        branches: Vec<QueryBody>,
    },
}

/// A set operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    UnionAll,
    Union,
    Except,
    Intersect,
}

/// One SELECT.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub distinct: bool,
    pub top: Option<Top>,
    pub items: Vec<SelectItem>,
    pub into: Option<SelectInto>,
    /// Sources separated by commas; empty without FROM.
    pub from: Vec<TableSource>,
    pub filter: Option<Condition>,
    pub group_by: Option<GroupBy>,
    pub having: Option<Condition>,
    /// `WINDOW name AS (...)`.
    pub windows: Vec<(Ident, Window)>,
    pub span: Span,
}

/// `TOP`.
#[derive(Clone, Debug, PartialEq)]
pub struct Top {
    pub count: Expr,
    pub percent: bool,
    pub with_ties: bool,
}

/// `INTO` of a SELECT.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectInto {
    pub table: ObjectName,
    /// `ON filegroup`.
    pub filegroup: Option<Ident>,
}

/// An item of a select list.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectItem {
    /// `*` or `t.*`.
    Wildcard {
        qualifier: Option<ObjectName>,
        span: Span,
    },
    /// `expr`, `expr AS alias`, `alias = expr`.
    Expr { expr: Expr, alias: Option<Ident> },
    /// `@v = expr`, `@v += expr`.
    Assign {
        variable: String,
        op: AssignOp,
        value: Expr,
    },
}

/// `=` or a compound assignment such as `+=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignOp {
    Set,
    Compound(BinaryOp),
}

/// `GROUP BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupBy {
    /// `GROUP BY ALL`, deprecated.
    pub all: bool,
    pub items: Vec<GroupingElement>,
    /// The old `WITH ROLLUP` and `WITH CUBE`.
    pub with: Option<GroupByWith>,
}

/// `WITH ROLLUP` or `WITH CUBE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupByWith {
    Rollup,
    Cube,
}

/// An element of a GROUP BY list.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupingElement {
    Expr(Expr),
    /// `(a, b)` inside ROLLUP, CUBE or GROUPING SETS; empty is the grand total `()`.
    Composite(Vec<Expr>),
    Rollup(Vec<GroupingElement>),
    Cube(Vec<GroupingElement>),
    Sets(Vec<GroupingElement>),
}

/// An item of an ORDER BY list.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderItem {
    pub expr: Expr,
    pub descending: bool,
}

/// `FOR BROWSE`, `FOR XML` or `FOR JSON`.
#[derive(Clone, Debug, PartialEq)]
pub enum ForClause {
    Browse,
    Xml {
        mode: ForXmlMode,
        element: Option<String>,
        directives: Vec<OptionItem>,
    },
    Json {
        mode: ForJsonMode,
        directives: Vec<OptionItem>,
    },
}

/// The mode of FOR XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForXmlMode {
    Raw,
    Auto,
    Explicit,
    Path,
}

/// The mode of FOR JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForJsonMode {
    Auto,
    Path,
}

/// One hint of `OPTION (...)`.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryHint {
    /// `MAXDOP 4`, `MAXRECURSION 100`, `FAST 10`, `MAX_GRANT_PERCENT = 5`.
    Number { name: String, value: Expr },
    /// `RECOMPILE`, `HASH JOIN`, `FORCE ORDER`, `KEEP PLAN`.
    Word(String),
    /// `OPTIMIZE FOR (@a = 1, @b UNKNOWN)`; an empty list means `OPTIMIZE FOR UNKNOWN`.
    OptimizeFor(Vec<(String, Option<Expr>)>),
    /// `USE HINT ('..')`.
    UseHint(Vec<String>),
    /// `USE PLAN N'..'`.
    UsePlan(String),
    /// `LABEL = '..'`.
    Label(String),
    /// `TABLE HINT (t, INDEX(1))`.
    TableHint {
        object: ObjectName,
        hints: Vec<TableHint>,
    },
}

/// What stands in a FROM clause.
#[derive(Clone, Debug, PartialEq)]
pub enum TableSource {
    Table(TableRef),
    /// `@t AS x`.
    Variable {
        name: String,
        alias: Option<Ident>,
        hints: Vec<TableHint>,
        span: Span,
    },
    /// A function in FROM: user-defined, `OPENJSON(..) WITH (..)`, `STRING_SPLIT`, `x.nodes(..)`, `CONTAINSTABLE(..)`.
    Function(TableFunction),
    /// `@x.nodes('/a') AS t(c)`.
    MethodRows {
        target: Expr,
        method: Ident,
        args: Vec<Expr>,
        alias: Option<Ident>,
        columns: Vec<Ident>,
    },
    Derived {
        query: Box<Query>,
        alias: Option<Ident>,
        columns: Vec<Ident>,
        span: Span,
    },
    Values {
        rows: Vec<Vec<Expr>>,
        alias: Option<Ident>,
        columns: Vec<Ident>,
        span: Span,
    },
    /// `(DELETE .. OUTPUT ..) AS t` below an INSERT.
    Modification {
        statement: Box<DataModification>,
        alias: Option<Ident>,
        columns: Vec<Ident>,
    },
    Join(Box<Join>),
    Apply {
        left: Box<TableSource>,
        right: Box<TableSource>,
        outer: bool,
    },
    Pivot(Box<Pivot>),
    Unpivot(Box<Unpivot>),
    /// `OPENROWSET(..)`, `OPENQUERY(..)`, `OPENDATASOURCE(..).db.s.t`, `OPENXML(..)`.
    Rowset(Rowset),
}

/// A table or view by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRef {
    pub name: ObjectName,
    pub alias: Option<Ident>,
    pub hints: Vec<TableHint>,
    pub sample: Option<TableSample>,
    pub system_time: Option<SystemTime>,
}

/// A table-valued function in a FROM clause.
#[derive(Clone, Debug, PartialEq)]
pub struct TableFunction {
    pub call: FunctionCall,
    pub alias: Option<Ident>,
    pub columns: Vec<Ident>,
    /// `OPENJSON(..) WITH (id int '$.id', ..)`.
    pub schema: Vec<SchemaColumn>,
    pub hints: Vec<TableHint>,
}

/// A column of `OPENJSON .. WITH` or `OPENXML .. WITH`.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaColumn {
    pub name: Ident,
    pub data_type: TypeName,
    pub collation: Option<Ident>,
    pub path: Option<String>,
    pub as_json: bool,
}

/// A join of two sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub kind: JoinKind,
    pub hint: Option<JoinHint>,
    pub left: TableSource,
    pub right: TableSource,
    /// `None` for CROSS JOIN only.
    pub on: Option<Condition>,
}

/// Which rows a join keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

/// Which join operator a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinHint {
    Loop,
    Hash,
    Merge,
    Remote,
}

/// `PIVOT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pivot {
    pub source: TableSource,
    pub aggregate: FunctionCall,
    pub column: ColumnPath,
    pub values: Vec<Ident>,
    pub alias: Option<Ident>,
}

/// `UNPIVOT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpivot {
    pub source: TableSource,
    pub value: Ident,
    pub column: Ident,
    pub columns: Vec<ColumnPath>,
    pub alias: Option<Ident>,
}

/// A column which PIVOT and UNPIVOT name, maybe qualified.
pub type ColumnPath = super::ColumnRef;

/// `TABLESAMPLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSample {
    pub system: bool,
    pub amount: Expr,
    pub unit: SampleUnit,
    pub repeatable: Option<Expr>,
}

/// What TABLESAMPLE counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleUnit {
    Percent,
    Rows,
}

/// `FOR SYSTEM_TIME`.
#[derive(Clone, Debug, PartialEq)]
pub enum SystemTime {
    AsOf(Expr),
    FromTo(Expr, Expr),
    Between(Expr, Expr),
    ContainedIn(Expr, Expr),
    All,
}

/// A hint behind a table's name.
#[derive(Clone, Debug, PartialEq)]
pub enum TableHint {
    /// `NOLOCK`, `UPDLOCK`, `HOLDLOCK`, `TABLOCKX`, `READPAST`, upper case.
    Word(String),
    /// `INDEX(ix, 1)`, `INDEX = ix`; numbers arrive as identifiers.
    Index(Vec<Ident>),
    /// `FORCESEEK (ix (a, b))`.
    ForceSeek { index: Ident, columns: Vec<Ident> },
    /// `SPATIAL_WINDOW_MAX_CELLS = 512`.
    SpatialWindowMaxCells(u32),
}

/// A rowset function such as OPENROWSET.
#[derive(Clone, Debug, PartialEq)]
pub enum Rowset {
    /// `OPENQUERY(server, 'query')`.
    OpenQuery {
        server: Ident,
        query: String,
        alias: Option<Ident>,
        columns: Vec<Ident>,
    },
    /// `OPENROWSET(...)`; each argument with the name before `=`, or the words `BULK`, `SINGLE_BLOB` and the like.
    OpenRowset {
        args: Vec<RowsetArg>,
        schema: Vec<SchemaColumn>,
        alias: Option<Ident>,
        columns: Vec<Ident>,
    },
    /// `OPENDATASOURCE('provider', 'init').db.schema.name`.
    OpenDataSource {
        provider: String,
        init: String,
        name: ObjectName,
        alias: Option<Ident>,
    },
    /// `OPENXML(@doc, '/path', flags) WITH (...)` or `WITH table`.
    OpenXml {
        args: Vec<Expr>,
        schema: Vec<SchemaColumn>,
        table: Option<ObjectName>,
        alias: Option<Ident>,
    },
}

/// An argument of OPENROWSET.
#[derive(Clone, Debug, PartialEq)]
pub enum RowsetArg {
    Value(Expr),
    /// `BULK 'file'`.
    Bulk(Vec<String>),
    /// `SINGLE_CLOB`.
    Word(String),
    Option(OptionItem),
    /// `db.schema.table` or `'a';'b';'c'` pieces joined by semicolons.
    Object(ObjectName),
    Connection(Vec<String>),
}
