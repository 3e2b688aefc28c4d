//! Statements which change rows.

use super::{
    AssignOp, ColumnRef, Condition, Execute, Expr, Ident, ObjectName, OptionItem, OrderItem, Query,
    QueryHint, Rowset, SelectItem, Span, TableHint, TableSource, Top, TypeName, With,
};

/// A changing statement inside FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum DataModification {
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    Merge(Merge),
}

/// What INSERT, UPDATE, DELETE and MERGE change. With a FROM clause the name may be an alias of it.
#[derive(Clone, Debug, PartialEq)]
pub enum DmlTarget {
    Table {
        name: ObjectName,
        hints: Vec<TableHint>,
    },
    Variable {
        name: String,
        span: Span,
    },
    Rowset(Box<Rowset>),
}

/// `INSERT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    pub with: With,
    pub top: Option<Top>,
    pub target: DmlTarget,
    /// Empty means all columns.
    pub columns: Vec<ColumnRef>,
    pub output: Option<Output>,
    pub source: InsertSource,
    pub options: Vec<QueryHint>,
}

/// Where the rows of an INSERT come from.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    Values(Vec<Vec<Expr>>),
    Query(Box<Query>),
    Execute(Box<Execute>),
    DefaultValues,
}

/// `UPDATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub with: With,
    pub top: Option<Top>,
    pub target: DmlTarget,
    pub assignments: Vec<Assignment>,
    pub output: Option<Output>,
    pub from: Vec<TableSource>,
    pub filter: Option<DmlFilter>,
    pub options: Vec<QueryHint>,
}

/// One assignment of an UPDATE or MERGE.
#[derive(Clone, Debug, PartialEq)]
pub enum Assignment {
    /// `c = expr`, `c += expr`. `value` may be `Expr::Default`.
    Column {
        column: ColumnRef,
        op: AssignOp,
        value: Expr,
    },
    /// `@v = expr`.
    Variable {
        variable: String,
        op: AssignOp,
        value: Expr,
    },
    /// `@v = c = expr`, `@v = c += expr`.
    Both {
        variable: String,
        column: ColumnRef,
        op: AssignOp,
        value: Expr,
    },
    /// `c.WRITE(expr, offset, length)` and the methods of CLR columns.
    Method {
        column: ColumnRef,
        method: Ident,
        args: Vec<Expr>,
    },
}

/// Which rows an UPDATE or DELETE takes.
#[derive(Clone, Debug, PartialEq)]
pub enum DmlFilter {
    Where(Condition),
    CurrentOf(CursorRef),
}

/// `[GLOBAL] name` or `@cursor`.
#[derive(Clone, Debug, PartialEq)]
pub enum CursorRef {
    Name { name: Ident, global: bool },
    Variable(String),
}

/// `DELETE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub with: With,
    pub top: Option<Top>,
    pub target: DmlTarget,
    pub output: Option<Output>,
    pub from: Vec<TableSource>,
    pub filter: Option<DmlFilter>,
    pub options: Vec<QueryHint>,
}

/// `MERGE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    pub with: With,
    pub top: Option<Top>,
    pub target: DmlTarget,
    pub alias: Option<Ident>,
    pub source: TableSource,
    pub on: Condition,
    pub clauses: Vec<MergeClause>,
    pub output: Option<Output>,
    pub options: Vec<QueryHint>,
}

/// One `WHEN .. THEN ..` of a MERGE.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeClause {
    pub when: MergeWhen,
    /// `AND condition`.
    pub condition: Option<Condition>,
    pub action: MergeAction,
}

/// Which rows a clause of a MERGE is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeWhen {
    Matched,
    NotMatchedByTarget,
    NotMatchedBySource,
}

/// What a clause of a MERGE does.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    Update(Vec<Assignment>),
    Delete,
    /// `values` is `None` for DEFAULT VALUES.
    Insert {
        columns: Vec<ColumnRef>,
        values: Option<Vec<Expr>>,
    },
}

/// `OUTPUT .. INTO t (..)` and a plain `OUTPUT ..` may stand together.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub into: Option<OutputInto>,
    /// Items returned to the client; empty if everything goes into a table.
    pub items: Vec<SelectItem>,
}

/// `OUTPUT .. INTO`.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputInto {
    pub items: Vec<SelectItem>,
    pub target: OutputTarget,
    pub columns: Vec<Ident>,
}

/// Where `OUTPUT .. INTO` puts its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputTarget {
    Table(ObjectName),
    Variable(String),
}

/// `TRUNCATE TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    pub table: ObjectName,
    /// `WITH (PARTITIONS (1, 3 TO 5))`.
    pub partitions: Vec<(Expr, Option<Expr>)>,
}

/// `BULK INSERT t FROM 'file' WITH (...)`.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkInsert {
    pub table: ObjectName,
    pub file: String,
    pub options: Vec<OptionItem>,
    /// `ORDER (a ASC, b DESC)` among the options.
    pub order: Vec<OrderItem>,
}

/// `INSERT BULK t (c int, ..) WITH (CHECK_CONSTRAINTS, ..)`.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertBulk {
    pub table: ObjectName,
    pub columns: Vec<InsertBulkColumn>,
    pub options: Vec<OptionItem>,
    pub order: Vec<OrderItem>,
}

/// A column of `INSERT BULK`.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertBulkColumn {
    pub name: Ident,
    pub data_type: TypeName,
    pub collation: Option<Ident>,
}

/// `READTEXT`, `WRITETEXT`, `UPDATETEXT`: parsed so that old scripts get a clear answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TextPointer {
    pub verb: TextVerb,
    pub bulk: bool,
    pub column: ColumnRef,
    pub pointer: Expr,
    pub args: Vec<Expr>,
    pub with_log: bool,
    pub hold_lock: bool,
}

/// READTEXT, WRITETEXT or UPDATETEXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextVerb {
    Read,
    Write,
    Update,
}
