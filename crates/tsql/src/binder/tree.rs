//! The bound tree: relational operators over columns that are numbers, with every name and type decided.
//!
//! Theory: each column produced anywhere in a statement has a [`ColId`] of its own, made once and never reused, so an
//! expression says what it means wherever it stands. An operator produces the columns of its inputs plus its own; which
//! of them are needed is found out at the end, when operators become physical. A column that no input of an operator
//! produces belongs to an outer query: the expression is correlated, and nothing else marks it.

use crate::access::TableAccess;
use crate::executor::RowPin;
use crate::executor::xml::XmlMethod;
use crate::host::{LockHints, UserFunction, VirtualTable};
use daruma_base::DatabaseId;
use daruma_syntax::ast::{self, CompareOp, JoinHint, ObjectName};
use daruma_value::types::BinaryOp;
use daruma_value::{CollationId, DataType, Value};
use std::sync::Arc;

/// A column of the statement.
pub type ColId = u32;

/// Static type of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Type {
    pub data_type: DataType,
    pub nullable: bool,
    pub collation: CollationId,
    pub coercion: Coercion,
}

/// How strongly an expression insists on its collation; stronger ones come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coercion {
    /// Literals and variables.
    Default,
    /// Columns.
    Implicit,
    /// Two columns with different collations: an error only when compared.
    None,
    /// COLLATE.
    Explicit,
}

impl Type {
    /// A type with the database's default collation.
    pub const fn new(data_type: DataType, nullable: bool) -> Type {
        Type {
            data_type,
            nullable,
            collation: CollationId::DEFAULT,
            coercion: Coercion::Default,
        }
    }

    /// Type of a condition.
    pub const fn condition() -> Type {
        Type::new(DataType::Bit, true)
    }

    /// The same nullability and collation, another type.
    pub const fn with(self, data_type: DataType) -> Type {
        Type { data_type, ..self }
    }

    /// The same type, NULL or not.
    pub const fn nullable(self, nullable: bool) -> Type {
        Type { nullable, ..self }
    }
}

/// A bound expression or condition. Conditions have type `bit` and may be unknown (NULL).
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    pub kind: Kind,
    pub ty: Type,
}

/// Operation of a scalar expression; conditions are scalars of the type `condition`.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Const(Value),
    Column(ColId),
    /// With the leading `@`.
    Variable(Arc<str>),
    /// Converts to the type of the node.
    Convert {
        input: Box<Scalar>,
        style: Option<Box<Scalar>>,
        is_try: bool,
        implicit: bool,
    },
    /// Numeric operators; operands were converted to the types the operator works on.
    Arith {
        op: BinaryOp,
        left: Box<Scalar>,
        right: Box<Scalar>,
    },
    /// Text or binary concatenation.
    Concat(Box<Scalar>, Box<Scalar>),
    Negate(Box<Scalar>),
    BitNot(Box<Scalar>),
    Collate(Box<Scalar>),
    Case {
        whens: Vec<(Scalar, Scalar)>,
        otherwise: Option<Box<Scalar>>,
    },
    Coalesce(Vec<Scalar>),
    /// ISNULL(a, b): result has the type of `a`.
    IsNullFn(Box<Scalar>, Box<Scalar>),
    /// Scalar function of the value room, by upper-case name.
    Call {
        name: Arc<str>,
        args: Vec<Scalar>,
    },
    /// Function or `@@name` of the session.
    System {
        name: Arc<str>,
        args: Vec<Scalar>,
    },
    /// A scalar function made of statements, with the name it was called by.
    UserFunction {
        function: Arc<UserFunction>,
        name: Arc<ObjectName>,
        args: Vec<Scalar>,
    },
    NextValue(Arc<ObjectName>),
    /// A method of the type `xml`: of a document, maybe of a node in it, with what its query takes from SQL.
    XmlMethod {
        call: Arc<XmlMethod>,
        args: Vec<Scalar>,
    },

    Compare {
        op: CompareOp,
        left: Box<Scalar>,
        right: Box<Scalar>,
    },
    And(Vec<Scalar>),
    Or(Vec<Scalar>),
    Not(Box<Scalar>),
    IsNull(Box<Scalar>),
    IsDistinct(Box<Scalar>, Box<Scalar>),
    Like {
        expr: Box<Scalar>,
        pattern: Box<Scalar>,
        escape: Option<Box<Scalar>>,
    },
    InList {
        expr: Box<Scalar>,
        list: Vec<Scalar>,
    },

    /// `value` is computed once, and [`Kind::Local`] stands for it in `body`. The binder puts it right around operands that
    /// are looked at more than once, so a `Local` always means the nearest `Let` around it.
    Let {
        value: Box<Scalar>,
        body: Box<Scalar>,
    },
    Local,

    Subquery(Box<Subquery>),
    /// Taken out of the expression when its query is put together.
    Aggregate(Box<Aggregate>),
    /// As `Aggregate`.
    Window(Box<WindowCall>),
    /// GROUPING or GROUPING_ID over group-by expressions; as `Aggregate`.
    Grouping(Vec<Scalar>),
}

/// A query inside an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    pub rel: Rel,
    pub kind: SubqueryKind,
}

/// How the rows of a subquery become a value or a condition.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryKind {
    /// Value of the column in the only row, NULL without rows, error 512 with more.
    Scalar(ColId),
    Exists,
    /// `expr op ANY (rel)`; IN is `= ANY`. NOT IN is its negation. `ALL` was turned into `NOT (.. ANY)`.
    Any {
        op: CompareOp,
        expr: Box<Scalar>,
        /// Over the columns of `rel`: the value to compare with, converted.
        value: Box<Scalar>,
    },
}

/// One call of an aggregate in a grouping.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    pub function: AggregateFunction,
    /// `None` for COUNT(*).
    pub arg: Option<Scalar>,
    pub distinct: bool,
    /// STRING_AGG: the separator.
    pub separator: Option<Scalar>,
    /// STRING_AGG: WITHIN GROUP.
    pub order: Vec<(Scalar, bool)>,
}

/// The aggregates that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    Count,
    CountBig,
    Sum,
    Avg,
    Min,
    Max,
    Stdev,
    StdevP,
    Var,
    VarP,
    StringAgg,
    ChecksumAgg,
    ApproxCountDistinct,
    /// Any value of the group: columns that depend on the group's key.
    Any,
}

/// One call with OVER.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    pub function: WindowFunction,
    pub args: Vec<Scalar>,
    pub partition: Vec<Scalar>,
    /// Expression and "descending".
    pub order: Vec<(Scalar, bool)>,
    pub frame: Option<WindowFrame>,
    pub ignore_nulls: bool,
}

/// Functions that OVER may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    NTile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    PercentRank,
    CumeDist,
    PercentileCont,
    PercentileDisc,
    Aggregate(AggregateFunction),
}

/// ROWS or RANGE BETWEEN.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowFrame {
    pub rows: bool,
    pub start: FrameEnd,
    pub end: FrameEnd,
}

/// Where a frame begins or ends; numbers count rows, and RANGE has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    UnboundedPreceding,
    Preceding(u64),
    CurrentRow,
    Following(u64),
    UnboundedFollowing,
}

/// A relational operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Rel {
    /// One row without columns: SELECT without FROM.
    One,
    /// No rows, columns that nobody will read.
    Empty(Vec<ColId>),
    Table(Box<TableScan>),
    Virtual(Box<VirtualScan>),
    Values {
        rows: Vec<Vec<Scalar>>,
        columns: Vec<ColId>,
    },
    Filter {
        input: Box<Rel>,
        condition: Scalar,
    },
    /// Adds columns to those of the input.
    Compute {
        input: Box<Rel>,
        items: Vec<(ColId, Scalar)>,
    },
    Join(Box<Join>),
    /// Produces the key and aggregate columns only.
    Aggregate(Box<Grouping>),
    Window {
        input: Box<Rel>,
        calls: Vec<(ColId, WindowCall)>,
    },
    Sort {
        input: Box<Rel>,
        keys: Vec<SortKey>,
    },
    Top(Box<Top>),
    /// Distinct rows of `columns`; produces those only.
    Distinct {
        input: Box<Rel>,
        columns: Vec<ColId>,
    },
    Set(Box<SetRel>),
    Recursive(Box<Recursive>),
    /// Rows that the last step of the recursive query `id` produced.
    WorkTable {
        id: u32,
        columns: Vec<ColId>,
    },
}

/// A stored table in FROM.
#[derive(Clone)]
pub struct TableScan {
    pub access: TableAccess,
    pub alias: String,
    /// One for each column of the table, in order; virtual computed columns are not produced here.
    pub columns: Vec<ColId>,
    /// Filters of indexes as conjunctions over the columns, by position in the definition's indexes.
    pub filters: Vec<(usize, Vec<Scalar>)>,
    pub hints: LockHints,
    /// Index hint: position in the definition's indexes.
    pub forced_index: Option<usize>,
    pub force_seek: bool,
    /// Set for the table that a statement changes: columns for the row's key and stamp.
    pub target: Option<(ColId, ColId)>,
    /// The same of a table whose rows are only read.
    pub locator: Option<(ColId, ColId)>,
    /// The one row that is read.
    pub pin: Option<Arc<RowPin>>,
}

/// A system view or function in FROM, which makes its rows itself.
#[derive(Clone)]
pub struct VirtualScan {
    pub table: Arc<dyn VirtualTable>,
    pub database: DatabaseId,
    pub args: Vec<Scalar>,
    pub columns: Vec<ColId>,
    pub alias: String,
}

/// Which rows a join keeps; RIGHT is Left with the sides exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Full,
    /// Rows of the left with a partner; the right's columns are not produced.
    Semi,
    /// Rows of the left without a partner.
    Anti,
}

/// Two inputs whose rows do not depend on each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub kind: JoinKind,
    pub left: Rel,
    pub right: Rel,
    pub on: Vec<Scalar>,
    pub hint: Option<JoinHint>,
}

/// GROUP BY, and aggregates without it.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    pub input: Rel,
    /// Grouping columns: input columns, produced again under the same numbers.
    pub keys: Vec<ColId>,
    pub aggregates: Vec<(ColId, Aggregate)>,
    /// With grouping sets: for each set, which keys take part; and the column that holds the number of the set.
    pub sets: Option<(Vec<Vec<bool>>, ColId)>,
    /// No GROUP BY: one row even for no input.
    pub scalar: bool,
}

/// A column to order by; NULL stands first, and last when descending.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    pub column: ColId,
    pub descending: bool,
}

/// TOP, OFFSET and FETCH.
#[derive(Clone, Debug, PartialEq)]
pub struct Top {
    pub input: Rel,
    pub count: Option<Scalar>,
    pub percent: bool,
    /// Columns that a tie must share, those of ORDER BY.
    pub ties: Option<Vec<ColId>>,
    pub offset: Option<Scalar>,
}

/// UNION, INTERSECT, EXCEPT; UNION ALL is one of its operators.
#[derive(Clone, Debug, PartialEq)]
pub struct SetRel {
    pub op: ast::SetOp,
    /// Each with its columns in output order, converted to the common types.
    pub branches: Vec<(Rel, Vec<ColId>)>,
    pub columns: Vec<ColId>,
}

/// A recursive common table expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Recursive {
    pub id: u32,
    pub anchor: (Rel, Vec<ColId>),
    pub step: (Rel, Vec<ColId>),
    pub columns: Vec<ColId>,
    /// 0 means no bound.
    pub max_recursion: u32,
}

impl TableScan {
    /// Columns for key and stamp, if rows have them.
    pub fn located(&self) -> Option<(ColId, ColId)> {
        self.target.or(self.locator)
    }

    /// Conditions that hold for every entry of an index: its filter's parts.
    pub fn filter_of(&self, index: usize) -> &[Scalar] {
        self.filters
            .iter()
            .find(|(position, _)| *position == index)
            .map_or(&[], |(_, parts)| parts.as_slice())
    }
}

impl std::fmt::Debug for TableScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{} {:?}",
            self.access.table.schema_name, self.access.table.name, self.columns
        )
    }
}

impl std::fmt::Debug for VirtualScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.table.name(), self.columns)
    }
}

/// Scans are equal when they produce the same columns, that is when they are copies of one scan.
impl PartialEq for TableScan {
    fn eq(&self, other: &TableScan) -> bool {
        self.columns == other.columns
    }
}

impl PartialEq for VirtualScan {
    fn eq(&self, other: &VirtualScan) -> bool {
        self.columns == other.columns
    }
}

impl Scalar {
    /// Does the other give the same result? What is made of the input stands in the type where that is cut to it, and in a COLLATE. The
    /// type of anything else may differ: what is around a column may take it for a wider one, or compare it otherwise.
    pub fn is_same(&self, other: &Scalar) -> bool {
        let is_same_type = match &self.kind {
            Kind::Collate(_) => self.ty.collation == other.ty.collation,
            _ if self.is_cut_to_type() => self.ty.data_type == other.ty.data_type,
            _ => true,
        };
        is_same_type && self.kind == other.kind
    }

    /// Does the type of the node say how long the text or binary is that it makes?
    pub fn is_cut_to_type(&self) -> bool {
        match &self.kind {
            Kind::Convert { .. } | Kind::Concat(..) | Kind::Call { .. } => true,
            // An error where it is longer.
            Kind::Aggregate(call) => call.function == AggregateFunction::StringAgg,
            _ => false,
        }
    }

    /// A node of this type.
    pub fn new(kind: Kind, ty: Type) -> Scalar {
        Scalar { kind, ty }
    }

    /// A literal; its type allows NULL only if it is NULL.
    pub fn constant(value: Value, data_type: DataType) -> Scalar {
        let nullable = value.is_null();
        Scalar {
            kind: Kind::Const(value),
            ty: Type::new(data_type, nullable),
        }
    }

    /// NULL of a type.
    pub fn null(data_type: DataType) -> Scalar {
        Scalar::constant(Value::Null, data_type)
    }

    /// A column of the row at hand, or of an outer one.
    pub fn column(id: ColId, ty: Type) -> Scalar {
        Scalar {
            kind: Kind::Column(id),
            ty,
        }
    }

    /// A node whose value is true, false or unknown.
    pub fn condition(kind: Kind) -> Scalar {
        Scalar {
            kind,
            ty: Type::condition(),
        }
    }

    /// Conjunction of any number of conditions; none is true.
    pub fn all(mut conditions: Vec<Scalar>) -> Option<Scalar> {
        match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(Scalar::condition(Kind::And(conditions))),
        }
    }

    /// NOT, without piling up a second one.
    pub fn negate(self) -> Scalar {
        match self.kind {
            Kind::Not(inner) => *inner,
            _ => Scalar::condition(Kind::Not(Box::new(self))),
        }
    }

    /// Is it the word NULL, converted to nothing?
    pub fn is_null_literal(&self) -> bool {
        matches!(self.kind, Kind::Const(Value::Null))
    }

    /// The column that it is, if it is nothing but one.
    pub fn as_column(&self) -> Option<ColId> {
        match self.kind {
            Kind::Column(id) => Some(id),
            _ => None,
        }
    }

    /// Splits a condition at its ANDs.
    pub fn conjuncts(self, out: &mut Vec<Scalar>) {
        match self.kind {
            Kind::And(parts) => parts.into_iter().for_each(|p| p.conjuncts(out)),
            _ => out.push(self),
        }
    }

    /// Calls `f` on every direct part, not looking into subqueries.
    pub fn for_each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Scalar)) {
        match &self.kind {
            Kind::Const(_)
            | Kind::Column(_)
            | Kind::Variable(_)
            | Kind::Local
            | Kind::NextValue(_) => {}
            Kind::Convert { input, style, .. } => {
                f(input);
                if let Some(style) = style {
                    f(style);
                }
            }
            Kind::Arith { left, right, .. } | Kind::Compare { left, right, .. } => {
                f(left);
                f(right);
            }
            Kind::Let { value, body } => {
                f(value);
                f(body);
            }
            Kind::Concat(a, b) | Kind::IsNullFn(a, b) | Kind::IsDistinct(a, b) => {
                f(a);
                f(b);
            }
            Kind::Negate(a)
            | Kind::BitNot(a)
            | Kind::Collate(a)
            | Kind::Not(a)
            | Kind::IsNull(a) => f(a),
            Kind::Case { whens, otherwise } => {
                for (when, then) in whens {
                    f(when);
                    f(then);
                }
                if let Some(otherwise) = otherwise {
                    f(otherwise);
                }
            }
            Kind::Coalesce(list) | Kind::And(list) | Kind::Or(list) | Kind::Grouping(list) => {
                list.iter().for_each(f)
            }
            Kind::Call { args, .. }
            | Kind::System { args, .. }
            | Kind::UserFunction { args, .. }
            | Kind::XmlMethod { args, .. } => args.iter().for_each(f),
            Kind::Like {
                expr,
                pattern,
                escape,
            } => {
                f(expr);
                f(pattern);
                if let Some(escape) = escape {
                    f(escape);
                }
            }
            Kind::InList { expr, list } => {
                f(expr);
                list.iter().for_each(f);
            }
            Kind::Subquery(sub) => {
                if let SubqueryKind::Any { expr, .. } = &sub.kind {
                    f(expr);
                }
            }
            Kind::Aggregate(aggregate) => aggregate.for_each(f),
            Kind::Window(call) => {
                call.args.iter().for_each(&mut *f);
                call.partition.iter().for_each(&mut *f);
                call.order.iter().for_each(|(e, _)| f(e));
            }
        }
    }

    /// Mutable form of `for_each_child`; a subquery's own tree is left alone.
    pub fn for_each_child_mut(&mut self, f: &mut dyn FnMut(&mut Scalar)) {
        match &mut self.kind {
            Kind::Const(_)
            | Kind::Column(_)
            | Kind::Variable(_)
            | Kind::Local
            | Kind::NextValue(_) => {}
            Kind::Convert { input, style, .. } => {
                f(input);
                if let Some(style) = style {
                    f(style);
                }
            }
            Kind::Arith { left, right, .. } | Kind::Compare { left, right, .. } => {
                f(left);
                f(right);
            }
            Kind::Let { value, body } => {
                f(value);
                f(body);
            }
            Kind::Concat(a, b) | Kind::IsNullFn(a, b) | Kind::IsDistinct(a, b) => {
                f(a);
                f(b);
            }
            Kind::Negate(a)
            | Kind::BitNot(a)
            | Kind::Collate(a)
            | Kind::Not(a)
            | Kind::IsNull(a) => f(a),
            Kind::Case { whens, otherwise } => {
                for (when, then) in whens {
                    f(when);
                    f(then);
                }
                if let Some(otherwise) = otherwise {
                    f(otherwise);
                }
            }
            Kind::Coalesce(list) | Kind::And(list) | Kind::Or(list) | Kind::Grouping(list) => {
                list.iter_mut().for_each(f)
            }
            Kind::Call { args, .. }
            | Kind::System { args, .. }
            | Kind::UserFunction { args, .. }
            | Kind::XmlMethod { args, .. } => args.iter_mut().for_each(f),
            Kind::Like {
                expr,
                pattern,
                escape,
            } => {
                f(expr);
                f(pattern);
                if let Some(escape) = escape {
                    f(escape);
                }
            }
            Kind::InList { expr, list } => {
                f(expr);
                list.iter_mut().for_each(f);
            }
            Kind::Subquery(sub) => {
                if let SubqueryKind::Any { expr, .. } = &mut sub.kind {
                    f(expr);
                }
            }
            Kind::Aggregate(aggregate) => aggregate.for_each_mut(f),
            Kind::Window(call) => {
                call.args.iter_mut().for_each(&mut *f);
                call.partition.iter_mut().for_each(&mut *f);
                call.order.iter_mut().for_each(|(e, _)| f(e));
            }
        }
    }

    /// Does `test` hold for this node or any below it, subqueries' own trees aside?
    pub fn any(&self, test: &dyn Fn(&Scalar) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.for_each_child(&mut |c| found = found || c.any(test));
        found
    }

    /// Calls `f` for each place where a column is read, subqueries included.
    pub fn for_each_column(&self, f: &mut dyn FnMut(ColId)) {
        if let Kind::Column(id) = &self.kind {
            f(*id);
        }
        self.for_each_child(&mut |c| c.for_each_column(f));
        if let Kind::Subquery(sub) = &self.kind {
            sub.rel.for_each_column(f);
            if let SubqueryKind::Any { value, .. } = &sub.kind {
                value.for_each_column(f);
            }
        }
    }

    /// Number of nodes, those of subqueries included; no more are counted once there are `enough`.
    pub fn size(&self, enough: usize) -> usize {
        let mut nodes = 1;
        let mut add = |part: &Scalar| {
            if nodes < enough {
                nodes += part.size(enough - nodes);
            }
        };
        self.for_each_child(&mut add);
        if let Kind::Subquery(sub) = &self.kind {
            if let SubqueryKind::Any { value, .. } = &sub.kind {
                add(value);
            }
            if nodes < enough {
                nodes += sub.rel.size(enough - nodes);
            }
        }
        nodes
    }

    /// Adds every column that the expression reads, those that its subqueries take from outside included.
    pub fn columns(&self, out: &mut ColSet) {
        match &self.kind {
            Kind::Column(id) => {
                out.insert(*id);
            }
            Kind::Subquery(sub) => {
                self.for_each_child(&mut |c| c.columns(out));
                let mut outer = sub.rel.outer_columns();
                if let SubqueryKind::Any { value, .. } = &sub.kind {
                    let mut inner = ColSet::default();
                    value.columns(&mut inner);
                    let produced = sub.rel.produced();
                    outer.extend(inner.difference(&produced).copied());
                }
                out.extend(outer);
            }
            _ => self.for_each_child(&mut |c| c.columns(out)),
        }
    }

    /// All columns it reads, those inside subqueries included.
    pub fn column_set(&self) -> ColSet {
        let mut set = ColSet::default();
        self.columns(&mut set);
        set
    }

    /// Replaces columns everywhere, also inside subqueries.
    pub fn replace_columns(&mut self, map: &dyn Fn(ColId) -> Option<Scalar>) {
        if let Kind::Column(id) = self.kind {
            if let Some(new) = map(id) {
                *self = new;
            }
            return;
        }
        self.for_each_child_mut(&mut |c| c.replace_columns(map));
        if let Kind::Subquery(sub) = &mut self.kind {
            sub.rel.for_each_scalar_mut(&mut |s| s.replace_columns(map));
            if let SubqueryKind::Any { value, .. } = &mut sub.kind {
                value.replace_columns(map);
            }
        }
    }

    /// May it give another value or an effect when evaluated again with the same inputs?
    pub fn is_volatile(&self) -> bool {
        self.any(&Scalar::is_volatile_itself)
    }

    /// The same of this node, whatever stands in it.
    pub fn is_volatile_itself(&self) -> bool {
        match &self.kind {
            Kind::NextValue(_) => true,
            Kind::Call { name, .. } => matches!(
                &**name,
                "NEWID" | "RAND" | "NEWSEQUENTIALID" | "CRYPT_GEN_RANDOM"
            ),
            _ => false,
        }
    }
}

impl Aggregate {
    /// The expressions directly below, in order.
    pub fn for_each<'a>(&'a self, f: &mut dyn FnMut(&'a Scalar)) {
        self.arg.iter().for_each(&mut *f);
        self.separator.iter().for_each(&mut *f);
        self.order.iter().for_each(|(e, _)| f(e));
    }

    /// The expressions directly below, to be changed.
    pub fn for_each_mut(&mut self, f: &mut dyn FnMut(&mut Scalar)) {
        self.arg.iter_mut().for_each(&mut *f);
        self.separator.iter_mut().for_each(&mut *f);
        self.order.iter_mut().for_each(|(e, _)| f(e));
    }
}

/// A set of columns.
pub type ColSet = std::collections::BTreeSet<ColId>;

impl Rel {
    /// Do rows of several tables stand side by side in it? What a set operation produces is its own.
    pub fn joins(&self) -> bool {
        match self {
            Rel::Join(join) => {
                !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) || join.left.joins()
            }
            Rel::Filter { input, .. }
            | Rel::Compute { input, .. }
            | Rel::Window { input, .. }
            | Rel::Sort { input, .. }
            | Rel::Distinct { input, .. } => input.joins(),
            Rel::Aggregate(grouping) => grouping.input.joins(),
            Rel::Top(top) => top.input.joins(),
            Rel::One
            | Rel::Empty(_)
            | Rel::Table(_)
            | Rel::Virtual(_)
            | Rel::Values { .. }
            | Rel::Set(_)
            | Rel::Recursive(_)
            | Rel::WorkTable { .. } => false,
        }
    }

    /// The rows for which the condition is true; all of them for `None`.
    pub fn filter(self, condition: Option<Scalar>) -> Rel {
        match condition {
            None => self,
            Some(condition) => Rel::Filter {
                input: Box::new(self),
                condition,
            },
        }
    }

    /// The same where it only matters whether there is a row: order, distinctness and computed columns are dropped, TOP n too.
    pub fn for_existence(self) -> Rel {
        match self {
            Rel::Sort { input, .. } | Rel::Distinct { input, .. } | Rel::Compute { input, .. } => {
                input.for_existence()
            }
            Rel::Top(top)
                if top.offset.is_none()
                    && !top.percent
                    && top.count.as_ref().is_some_and(is_positive) =>
            {
                top.input.for_existence()
            }
            other => other,
        }
    }

    /// The rows with further columns.
    pub fn compute(self, items: Vec<(ColId, Scalar)>) -> Rel {
        if items.is_empty() {
            self
        } else {
            Rel::Compute {
                input: Box::new(self),
                items,
            }
        }
    }

    /// The relations directly below, not those inside expressions.
    pub fn inputs(&self) -> Vec<&Rel> {
        match self {
            Rel::One
            | Rel::Empty(_)
            | Rel::Table(_)
            | Rel::Virtual(_)
            | Rel::Values { .. }
            | Rel::WorkTable { .. } => Vec::new(),
            Rel::Filter { input, .. }
            | Rel::Compute { input, .. }
            | Rel::Window { input, .. }
            | Rel::Sort { input, .. }
            | Rel::Distinct { input, .. } => vec![input],
            Rel::Join(join) => vec![&join.left, &join.right],
            Rel::Aggregate(g) => vec![&g.input],
            Rel::Top(top) => vec![&top.input],
            Rel::Set(set) => set.branches.iter().map(|(r, _)| r).collect(),
            Rel::Recursive(r) => vec![&r.anchor.0, &r.step.0],
        }
    }

    /// The relations directly below, to be changed.
    pub fn inputs_mut(&mut self) -> Vec<&mut Rel> {
        match self {
            Rel::One
            | Rel::Empty(_)
            | Rel::Table(_)
            | Rel::Virtual(_)
            | Rel::Values { .. }
            | Rel::WorkTable { .. } => Vec::new(),
            Rel::Filter { input, .. }
            | Rel::Compute { input, .. }
            | Rel::Window { input, .. }
            | Rel::Sort { input, .. }
            | Rel::Distinct { input, .. } => vec![input],
            Rel::Join(join) => vec![&mut join.left, &mut join.right],
            Rel::Aggregate(g) => vec![&mut g.input],
            Rel::Top(top) => vec![&mut top.input],
            Rel::Set(set) => set.branches.iter_mut().map(|(r, _)| r).collect(),
            Rel::Recursive(r) => vec![&mut r.anchor.0, &mut r.step.0],
        }
    }

    /// Expressions of this operator alone.
    pub fn own_scalars(&self) -> Vec<&Scalar> {
        let mut out: Vec<&Scalar> = Vec::new();
        match self {
            Rel::Values { rows, .. } => out.extend(rows.iter().flatten()),
            Rel::Virtual(v) => out.extend(&v.args),
            Rel::Filter { condition, .. } => out.push(condition),
            Rel::Compute { items, .. } => out.extend(items.iter().map(|(_, s)| s)),
            Rel::Join(join) => out.extend(&join.on),
            Rel::Aggregate(g) => g
                .aggregates
                .iter()
                .for_each(|(_, a)| a.for_each(&mut |s| out.push(s))),
            Rel::Window { calls, .. } => {
                for (_, call) in calls {
                    out.extend(&call.args);
                    out.extend(&call.partition);
                    out.extend(call.order.iter().map(|(s, _)| s));
                }
            }
            Rel::Top(top) => out.extend(top.count.iter().chain(&top.offset)),
            _ => {}
        }
        out
    }

    fn for_each_column(&self, f: &mut dyn FnMut(ColId)) {
        self.own_scalars().iter().for_each(|s| s.for_each_column(f));
        self.inputs().iter().for_each(|i| i.for_each_column(f));
    }

    /// Number of operators and nodes of expressions, as far as `enough`.
    pub fn size(&self, enough: usize) -> usize {
        let mut nodes = 1;
        for scalar in self.own_scalars() {
            if nodes < enough {
                nodes += scalar.size(enough - nodes);
            }
        }
        for input in self.inputs() {
            if nodes < enough {
                nodes += input.size(enough - nodes);
            }
        }
        nodes
    }

    /// Every expression of this operator and those below.
    pub fn for_each_scalar_mut(&mut self, f: &mut dyn FnMut(&mut Scalar)) {
        self.for_each_own_scalar_mut(f);
        self.inputs_mut()
            .into_iter()
            .for_each(|i| i.for_each_scalar_mut(f));
    }

    /// Every expression of this operator alone.
    pub fn for_each_own_scalar_mut(&mut self, f: &mut dyn FnMut(&mut Scalar)) {
        match self {
            Rel::Values { rows, .. } => rows.iter_mut().flatten().for_each(&mut *f),
            Rel::Virtual(v) => v.args.iter_mut().for_each(&mut *f),
            Rel::Filter { condition, .. } => f(condition),
            Rel::Compute { items, .. } => items.iter_mut().for_each(|(_, s)| f(s)),
            Rel::Join(join) => join.on.iter_mut().for_each(&mut *f),
            Rel::Aggregate(g) => g.aggregates.iter_mut().for_each(|(_, a)| a.for_each_mut(f)),
            Rel::Window { calls, .. } => {
                for (_, call) in calls {
                    call.args.iter_mut().for_each(&mut *f);
                    call.partition.iter_mut().for_each(&mut *f);
                    call.order.iter_mut().for_each(|(s, _)| f(s));
                }
            }
            Rel::Top(top) => top
                .count
                .iter_mut()
                .chain(top.offset.iter_mut())
                .for_each(&mut *f),
            _ => {}
        }
    }

    /// Columns that this operator offers to those above.
    pub fn produced(&self) -> ColSet {
        match self {
            Rel::One => ColSet::new(),
            Rel::Empty(columns)
            | Rel::Values { columns, .. }
            | Rel::WorkTable { columns, .. }
            | Rel::Distinct { columns, .. } => columns.iter().copied().collect(),
            Rel::Table(t) => t
                .columns
                .iter()
                .copied()
                .chain(t.located().into_iter().flat_map(|(k, s)| [k, s]))
                .collect(),
            Rel::Virtual(v) => v.columns.iter().copied().collect(),
            Rel::Filter { input, .. } | Rel::Sort { input, .. } => input.produced(),
            Rel::Compute { input, items } => {
                let mut set = input.produced();
                set.extend(items.iter().map(|(id, _)| *id));
                set
            }
            Rel::Window { input, calls } => {
                let mut set = input.produced();
                set.extend(calls.iter().map(|(id, _)| *id));
                set
            }
            Rel::Join(join) => {
                let mut set = join.left.produced();
                if !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
                    set.extend(join.right.produced());
                }
                set
            }
            Rel::Aggregate(g) => {
                let mut set: ColSet = g.keys.iter().copied().collect();
                set.extend(g.aggregates.iter().map(|(id, _)| *id));
                set.extend(g.sets.iter().map(|(_, id)| *id));
                set
            }
            Rel::Top(top) => top.input.produced(),
            Rel::Set(set) => set.columns.iter().copied().collect(),
            Rel::Recursive(r) => r.columns.iter().copied().collect(),
        }
    }

    /// Columns read here or below that come from outside.
    pub fn outer_columns(&self) -> ColSet {
        let mut used = ColSet::new();
        let mut made = ColSet::new();
        self.collect_use(&mut used, &mut made);
        used.difference(&made).copied().collect()
    }

    fn collect_use(&self, used: &mut ColSet, made: &mut ColSet) {
        for scalar in self.own_scalars() {
            scalar.columns(used);
        }
        made.extend(self.produced());
        for input in self.inputs() {
            made.extend(input.produced());
            input.collect_use(used, made);
        }
    }
}

/// A count that is a literal above zero, converted or not.
fn is_positive(count: &Scalar) -> bool {
    match &count.kind {
        Kind::Const(value) => value.as_i64().is_some_and(|n| n > 0),
        Kind::Convert { input, .. } => is_positive(input),
        _ => false,
    }
}
