//! Conditions.

use super::{Clause, Commas};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

/// A condition below AND or NOT: looser ones in parentheses.
struct Inner<'a>(&'a Condition);

impl Display for Inner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Condition::And(_) | Condition::Or(_) => write!(f, "({})", self.0),
            condition => condition.fmt(f),
        }
    }
}

fn write_joined(
    f: &mut Formatter<'_>,
    branches: &[Condition],
    word: &str,
    loose: bool,
) -> fmt::Result {
    for (index, branch) in branches.iter().enumerate() {
        if index > 0 {
            write!(f, " {word} ")?;
        }
        match branch {
            Condition::And(_) if loose => branch.fmt(f)?,
            branch => Inner(branch).fmt(f)?,
        }
    }
    Ok(())
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::And(branches) => write_joined(f, branches, "AND", false),
            Condition::Or(branches) => write_joined(f, branches, "OR", true),
            Condition::Not(condition) => write!(f, "NOT {}", Inner(condition)),
            Condition::Compare { op, left, right } => write!(f, "{left} {op} {right}"),
            Condition::Quantified {
                op,
                left,
                quantifier,
                query,
            } => {
                let word = if *quantifier == Quantifier::All {
                    "ALL"
                } else {
                    "ANY"
                };
                write!(f, "{left} {op} {word} ({query})")
            }
            Condition::IsNull { expr, negated } => write!(f, "{expr} IS {}NULL", not(*negated)),
            Condition::IsDistinct {
                left,
                right,
                negated,
            } => {
                write!(f, "{left} IS {}DISTINCT FROM {right}", not(*negated))
            }
            Condition::Like {
                expr,
                pattern,
                escape,
                negated,
            } => {
                write!(
                    f,
                    "{expr} {}LIKE {pattern}{}",
                    not(*negated),
                    Clause("ESCAPE", escape)
                )
            }
            Condition::InList {
                expr,
                list,
                negated,
            } => write!(f, "{expr} {}IN ({})", not(*negated), Commas(list)),
            Condition::InQuery {
                expr,
                query,
                negated,
            } => write!(f, "{expr} {}IN ({query})", not(*negated)),
            Condition::Between {
                expr,
                low,
                high,
                negated,
            } => {
                write!(f, "{expr} {}BETWEEN {low} AND {high}", not(*negated))
            }
            Condition::Exists(query) => write!(f, "EXISTS ({query})"),
            Condition::UpdatedColumn(column) => write!(f, "UPDATE({column})"),
            Condition::FullText(predicate) => predicate.fmt(f),
            Condition::Predicate(call) => call.fmt(f),
        }
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "<>",
            CompareOp::Less => "<",
            CompareOp::LessOrEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterOrEqual => ">=",
            CompareOp::NotLess => "!<",
            CompareOp::NotGreater => "!>",
        })
    }
}

impl Display for FullText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.freetext {
            "FREETEXT("
        } else {
            "CONTAINS("
        })?;
        match self.columns.as_slice() {
            [] => f.write_str("*")?,
            [column] => column.fmt(f)?,
            columns => write!(f, "({})", Commas(columns))?,
        }
        write!(f, ", {}", self.search)?;
        if let Some(language) = &self.language {
            write!(f, ", LANGUAGE {language}")?;
        }
        f.write_str(")")
    }
}
