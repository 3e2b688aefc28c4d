//! Expressions of XQuery, names resolved: variables are slots, prefixes are namespaces.

use crate::atom::{Arithmetic, Atom, AtomType};
use crate::document::Name;
use crate::function::Function;

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Literal(Atom),
    /// Values one after the other; empty is `()`.
    Sequence(Vec<Expr>),
    Variable(usize),
    /// `.`
    Context,
    /// The document node above the context.
    Root,
    /// `left/right`
    Path(Box<Expr>, Box<Expr>),
    Step {
        axis: Axis,
        test: Test,
        predicates: Vec<Expr>,
    },
    Filter(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    /// `=`, `<` and the like: is there a pair of values that fits?
    General(Comparison, Box<Expr>, Box<Expr>),
    /// `eq`, `lt` and the like: of single values.
    Value(Comparison, Box<Expr>, Box<Expr>),
    /// `is`, `<<`, `>>`
    Order(Order, Box<Expr>, Box<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Flwor(Box<Flwor>),
    Quantified {
        every: bool,
        bindings: Vec<(usize, Expr)>,
        holds: Box<Expr>,
    },
    Call(Function, Vec<Expr>),
    /// `cast as`, and calls of a type's name.
    Cast(Box<Expr>, AtomType),
    /// With `true` nothing is of the type, too.
    InstanceOf(Box<Expr>, AtomType, bool),
    Element(Box<Constructor>),
    /// `attribute name { .. }`, allowed where modify inserts.
    Attribute(Name, Box<Expr>),
    /// `text { .. }`
    Text(Box<Expr>),
    Comment(String),
    Instruction(String, String),
    /// A variable or column of SQL, by its place among those that the query names.
    External(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Child,
    Descendant,
    DescendantOrSelf,
    Parent,
    Attribute,
    Own,
}

/// Which nodes of an axis a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// Elements (or attributes) of a name; `None` stands for `*`.
    Name {
        namespace: Option<String>,
        local: Option<String>,
    },
    Node,
    Text,
    Comment,
    Instruction(Option<String>),
}

impl Test {
    /// The local name, if it is the test for a name of this namespace.
    pub fn local_in(&self, wanted: &str) -> Option<&str> {
        match self {
            Test::Name { namespace, local } => {
                let is_it = namespace.as_deref() == Some(wanted);
                local.as_deref().filter(|_| is_it)
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Does it say so of values in this order?
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// As written.
    pub fn name(self, is_general: bool) -> &'static str {
        let both = match self {
            Comparison::Equal => ("=", "eq"),
            Comparison::NotEqual => ("!=", "ne"),
            Comparison::Less => ("<", "lt"),
            Comparison::LessOrEqual => ("<=", "le"),
            Comparison::Greater => (">", "gt"),
            Comparison::GreaterOrEqual => (">=", "ge"),
        };
        if is_general { both.0 } else { both.1 }
    }
}

/// How nodes lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Same,
    Before,
    After,
}

#[derive(Clone, Debug)]
pub(crate) struct Flwor {
    pub clauses: Vec<Clause>,
    pub filter: Option<Expr>,
    /// Expression and "descending".
    pub order: Vec<(Expr, bool)>,
    pub result: Expr,
}

#[derive(Clone, Debug)]
pub(crate) enum Clause {
    For(usize, Expr),
    Let(usize, Expr),
}

/// `<name a="..">..</name>` and `element name { .. }`.
#[derive(Clone, Debug)]
pub(crate) struct Constructor {
    pub name: Name,
    /// Prefix and namespace.
    pub declarations: Vec<(String, String)>,
    pub attributes: Vec<(Name, Vec<Part>)>,
    pub content: Vec<Part>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Expr(Expr),
}

/// What modify does.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert {
        what: Expr,
        place: Place,
        target: Expr,
    },
    Delete(Expr),
    Replace {
        target: Expr,
        with: Expr,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `into`: the product puts it last.
    Into,
    First,
    Last,
    Before,
    After,
}
