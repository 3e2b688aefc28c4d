//! Scalars and conditions.

use super::{Ident, ObjectName, OrderItem, Query, Span, TypeName};

/// An expression that has a value; conditions are [`Condition`].
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Literal(Literal),
    Column(ColumnRef),
    /// `@x`.
    Variable {
        name: String,
        span: Span,
    },
    /// `@@rowcount`, lower or upper case as written.
    Global {
        name: String,
        span: Span,
    },
    Unary {
        op: UnaryOp,
        expr: Box<Expr>,
    },
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
        span: Span,
    },
    Function(Box<FunctionCall>),
    /// `CURRENT_TIMESTAMP`, `USER` and the like, which take no parentheses.
    Niladic(Niladic),
    /// `CAST` and `TRY_CAST`.
    Cast {
        expr: Box<Expr>,
        to: TypeName,
        is_try: bool,
        span: Span,
    },
    /// `CONVERT` and `TRY_CONVERT`.
    Convert {
        to: TypeName,
        expr: Box<Expr>,
        style: Option<Box<Expr>>,
        is_try: bool,
        span: Span,
    },
    /// `PARSE` and `TRY_PARSE`.
    Parse {
        expr: Box<Expr>,
        to: TypeName,
        culture: Option<Box<Expr>>,
        is_try: bool,
        span: Span,
    },
    Case(Box<Case>),
    Iif {
        condition: Box<Condition>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    NullIf(Box<Expr>, Box<Expr>),
    Subquery(Box<Query>),
    Collate {
        expr: Box<Expr>,
        collation: Ident,
    },
    AtTimeZone {
        expr: Box<Expr>,
        zone: Box<Expr>,
    },
    NextValueFor {
        sequence: ObjectName,
        over: Vec<OrderItem>,
        span: Span,
    },
    /// `expression.method(args)` on a value that is no plain name: `@x.value('..', 'int')`.
    /// A method on a column parses as `Function` with a name of several parts; the binder knows which it is.
    Method {
        target: Box<Expr>,
        method: Ident,
        args: Vec<Expr>,
    },
    /// `@point.X`: a property of a CLR value.
    Property {
        target: Box<Expr>,
        property: Ident,
    },
    /// `geography::Parse(...)`; without parentheses `args` is `None` (`hierarchyid::Null`).
    StaticMethod {
        of: TypeName,
        method: Ident,
        args: Option<Vec<Expr>>,
    },
    /// `TRIM(LEADING 'x' FROM s)`.
    Trim {
        side: Option<TrimSide>,
        characters: Option<Box<Expr>>,
        from: Box<Expr>,
    },
    /// `$action`, `$identity`, `$rowguid`, in `MERGE ... OUTPUT` and select lists.
    Pseudo(PseudoColumn),
    /// `$PARTITION.fn(expr)`.
    Partition {
        database: Option<Ident>,
        function: Ident,
        arg: Box<Expr>,
    },
    /// `DEFAULT` as a value of `INSERT`, `UPDATE`, `EXEC` or a function argument.
    Default,
}

/// Literals keep their digits: the binder decides on types.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Null,
    /// Digits only. Values over `int` are numeric in T-SQL.
    Integer(String),
    /// Digits with a point: `1.`, `.5`, `1.50`.
    Decimal(String),
    /// With an exponent: `1E5`, `1.5e-3`.
    Float(String),
    /// Digits after a currency sign, maybe with a sign or commas removed: `$1.50` is `1.50`. Empty digits mean zero.
    Money(String),
    Binary(Vec<u8>),
    String {
        text: String,
        national: bool,
    },
    /// `{d '..'}`, `{t '..'}`, `{ts '..'}`, `{guid '..'}`.
    Odbc {
        kind: OdbcLiteral,
        text: String,
    },
}

/// The kind of an ODBC escape such as `{d '2024-01-31'}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OdbcLiteral {
    Date,
    Time,
    Timestamp,
    Guid,
}

/// A column with whatever qualifies it: `c`, `t.c`, `dbo.t.c`, `db.dbo.t.c`.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRef {
    pub table: Option<ObjectName>,
    pub name: Ident,
    pub span: Span,
}

/// An operator of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Plus,
    Minus,
    /// `~`
    BitNot,
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    /// `||`, string concatenation of SQL Server 2025.
    Concat,
}

/// A call by name: built-in, user-defined, aggregate, or window function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCall {
    pub name: ObjectName,
    /// Date parts (`DATEADD(day, ..)`) arrive as unqualified columns, `JSON_OBJECT('a':1, ..)` as keys and values in turn.
    pub args: Vec<Expr>,
    /// `COUNT(*)`.
    pub star: bool,
    pub distinct: bool,
    /// `WITHIN GROUP (ORDER BY ...)`.
    pub within_group: Vec<OrderItem>,
    pub nulls: Option<NullTreatment>,
    pub over: Option<Window>,
    /// `{fn name(...)}`.
    pub odbc: bool,
    /// `::fn_name(...)`, the old way to name a system function.
    pub system: bool,
    pub span: Span,
}

impl FunctionCall {
    /// `JSON_OBJECT(key : value, ..)`
    pub fn is_json_object(&self) -> bool {
        self.name.is_bare() && self.name.name.is("JSON_OBJECT")
    }

    /// JSON_OBJECT or JSON_ARRAY.
    pub fn makes_json(&self) -> bool {
        self.is_json_object() || self.name.is_bare() && self.name.name.is("JSON_ARRAY")
    }
}

/// `IGNORE NULLS` or `RESPECT NULLS` of a window function; what JSON_OBJECT and JSON_ARRAY do with a NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullTreatment {
    Ignore,
    Respect,
    /// `NULL ON NULL`
    NullOnNull,
    /// `ABSENT ON NULL`
    AbsentOnNull,
}

/// `OVER (...)`, or `OVER name` with a `WINDOW` clause.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Window {
    pub name: Option<Ident>,
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<OrderItem>,
    pub frame: Option<Frame>,
}

/// The frame of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    /// Without `BETWEEN` the frame ends at the current row.
    pub end: Option<FrameBound>,
}

/// What a frame counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    Rows,
    Range,
}

/// Where a frame begins or ends.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Box<Expr>),
    CurrentRow,
    Following(Box<Expr>),
    UnboundedFollowing,
}

/// A function that is written without parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Niladic {
    CurrentTimestamp,
    CurrentDate,
    CurrentUser,
    SessionUser,
    SystemUser,
    User,
}

/// `CASE .. END`.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// `CASE x WHEN ..`; the whens are then `When::Value`.
    pub operand: Option<Expr>,
    pub whens: Vec<CaseWhen>,
    pub otherwise: Option<Expr>,
}

/// One `WHEN .. THEN ..` of a CASE.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseWhen {
    pub when: When,
    pub then: Expr,
}

/// What a WHEN compares or asks.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    Value(Expr),
    Condition(Condition),
}

/// Which end TRIM takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimSide {
    Leading,
    Trailing,
    Both,
}

/// A column that is written with a dollar sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PseudoColumn {
    Action,
    Identity,
    RowGuid,
    /// `$CUID` and `$node_id` style columns have no meaning here.
    Cuid,
}

/// What is true, false or unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// At least two branches; none of them is itself an `And`.
    And(Vec<Condition>),
    /// At least two branches; none of them is itself an `Or`.
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Compare {
        op: CompareOp,
        left: Expr,
        right: Expr,
    },
    /// `x > ALL (SELECT ..)`.
    Quantified {
        op: CompareOp,
        left: Expr,
        quantifier: Quantifier,
        query: Box<Query>,
    },
    IsNull {
        expr: Expr,
        negated: bool,
    },
    /// `a IS [NOT] DISTINCT FROM b`; `negated` is the form with NOT.
    IsDistinct {
        left: Expr,
        right: Expr,
        negated: bool,
    },
    Like {
        expr: Expr,
        pattern: Expr,
        escape: Option<Expr>,
        negated: bool,
    },
    InList {
        expr: Expr,
        list: Vec<Expr>,
        negated: bool,
    },
    InQuery {
        expr: Expr,
        query: Box<Query>,
        negated: bool,
    },
    Between {
        expr: Expr,
        low: Expr,
        high: Expr,
        negated: bool,
    },
    Exists(Box<Query>),
    /// `UPDATE(column)` inside a trigger.
    UpdatedColumn(Ident),
    FullText(FullText),
    /// `REGEXP_LIKE(..)`: a call which is a condition by itself.
    Predicate(Box<FunctionCall>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `!<`
    NotLess,
    /// `!>`
    NotGreater,
}

impl CompareOp {
    /// The usual way to write it: `!<` is `>=`.
    pub fn text(self) -> &'static str {
        match self {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "<>",
            CompareOp::Less => "<",
            CompareOp::LessOrEqual | CompareOp::NotGreater => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterOrEqual | CompareOp::NotLess => ">=",
        }
    }
}

/// `SOME` is a synonym of `ANY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    All,
    Any,
}

/// `CONTAINS(columns, search)` and `FREETEXT`.
#[derive(Clone, Debug, PartialEq)]
pub struct FullText {
    pub freetext: bool,
    /// Empty means `*`.
    pub columns: Vec<ColumnRef>,
    pub search: Expr,
    pub language: Option<Expr>,
}
