//! The functions that a query may call, with the numbers of their arguments.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Avg,
    Ceiling,
    Concat,
    Contains,
    Count,
    Data,
    DistinctValues,
    Empty,
    False,
    Floor,
    Last,
    LocalName,
    LowerCase,
    Max,
    Min,
    NamespaceUri,
    Not,
    Number,
    Position,
    Round,
    String,
    StringLength,
    Substring,
    Sum,
    True,
    UpperCase,
}

use Function::*;

/// Name, function, fewest and most arguments.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("avg", Avg, 1, 1),
    ("ceiling", Ceiling, 1, 1),
    ("concat", Concat, 2, usize::MAX),
    ("contains", Contains, 2, 2),
    ("count", Count, 1, 1),
    ("data", Data, 1, 1),
    ("distinct-values", DistinctValues, 1, 1),
    ("empty", Empty, 1, 1),
    ("false", False, 0, 0),
    ("floor", Floor, 1, 1),
    ("last", Last, 0, 0),
    ("local-name", LocalName, 0, 1),
    ("lower-case", LowerCase, 1, 1),
    ("max", Max, 1, 1),
    ("min", Min, 1, 1),
    ("namespace-uri", NamespaceUri, 0, 1),
    ("not", Not, 1, 1),
    ("number", Number, 0, 1),
    ("position", Position, 0, 0),
    ("round", Round, 1, 1),
    ("string", String, 0, 1),
    ("string-length", StringLength, 0, 1),
    ("substring", Substring, 2, 3),
    ("sum", Sum, 1, 1),
    ("true", True, 0, 0),
    ("upper-case", UpperCase, 1, 1),
];

impl Function {
    /// The function of this name with the bounds of its arguments.
    pub fn named(name: &str) -> Option<(Function, usize, usize)> {
        let found = FUNCTIONS.iter().find(|(known, ..)| *known == name);
        found.map(|(_, function, low, high)| (*function, *low, *high))
    }

    /// As written.
    pub fn name(self) -> &'static str {
        let found = FUNCTIONS.iter().find(|(_, function, ..)| *function == self);
        found.map_or("", |(name, ..)| name)
    }
}
