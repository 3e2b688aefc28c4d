//! Predicates of events: read once, and asked before anything is collected.
//!
//! A comparison with what is not there does not hold. Texts are compared as the product does, whatever their case.

use super::occurrence::{Fact, Occurrence};
use super::words::{ACTIONS, Action, EventInfo, FieldType};
use crate::error::Result;
use crate::messages;
use daruma_syntax::ast::{CompareOp, EventName, EventPredicate, EventValue};
use daruma_value::CollationId;
use daruma_value::collation::{LikePattern, compare};
use std::cmp::Ordering;

/// A predicate that can be asked.
pub enum Predicate {
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
    Not(Box<Predicate>),
    Test(Source, Test),
}

/// What a test looks at.
#[derive(Clone, Copy)]
pub enum Source {
    Field(usize),
    Action(Action),
}

/// A test of one value.
pub enum Test {
    Number(CompareOp, i64),
    Text(CompareOp, String),
    Like(LikePattern, bool),
}

impl Predicate {
    /// Reads a predicate of an event. Errors 25706 and 25713; 25715 for a comparator that is not defined for the type.
    pub fn new(tree: &EventPredicate, event: &'static EventInfo) -> Result<Predicate> {
        let all = |branches: &[EventPredicate]| {
            let read = branches.iter().map(|b| Predicate::new(b, event));
            read.collect::<Result<Vec<_>>>()
        };
        Ok(match tree {
            EventPredicate::And(branches) => Predicate::And(all(branches)?),
            EventPredicate::Or(branches) => Predicate::Or(all(branches)?),
            EventPredicate::Not(inner) => Predicate::Not(Box::new(Predicate::new(inner, event)?)),
            EventPredicate::Compare { source, op, value } => {
                let (found, data_type) = find_source(source, event)?;
                Predicate::Test(found, test(data_type, *op, value, source, event)?)
            }
            EventPredicate::Like {
                source,
                pattern,
                negated,
            } => {
                let (found, data_type) = find_source(source, event)?;
                Predicate::Test(found, like(data_type, pattern, *negated, source, event)?)
            }
            EventPredicate::Call {
                comparator,
                source,
                value,
            } => called(comparator, source, value, event)?,
        })
    }

    /// Does it hold for this event?
    pub fn holds(&self, event: &Occurrence<'_>) -> bool {
        match self {
            Predicate::And(branches) => branches.iter().all(|b| b.holds(event)),
            Predicate::Or(branches) => branches.iter().any(|b| b.holds(event)),
            Predicate::Not(inner) => !inner.holds(event),
            Predicate::Test(Source::Field(at), test) => {
                event.facts.get(*at).is_some_and(|fact| test.holds(fact))
            }
            Predicate::Test(Source::Action(action), test) => test.holds(&event.action(*action, 0)),
        }
    }
}

impl Test {
    fn holds(&self, fact: &Fact<'_>) -> bool {
        match (self, fact) {
            (Test::Number(op, wanted), Fact::Number(number)) => fits(*op, number.cmp(wanted)),
            (Test::Number(op, wanted), Fact::Switch(on)) => fits(*op, i64::from(*on).cmp(wanted)),
            (Test::Text(op, wanted), Fact::Text(text)) => {
                fits(*op, compare(text, wanted, CollationId::DEFAULT))
            }
            (Test::Like(pattern, negated), Fact::Text(text)) => {
                pattern.matches(text, &|| true) != *negated
            }
            _ => false,
        }
    }
}

fn fits(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Less => order.is_lt(),
        CompareOp::LessOrEqual | CompareOp::NotGreater => order.is_le(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::GreaterOrEqual | CompareOp::NotLess => order.is_ge(),
    }
}

/// A field of the event, or an action that may be asked for.
fn find_source(name: &EventName, event: &'static EventInfo) -> Result<(Source, FieldType)> {
    let text = name.name.text.as_str();
    if name.package.is_none()
        && let Some(at) = event
            .fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(text))
        && let Some(field) = event.fields.get(at)
    {
        return match field.data_type {
            FieldType::Xml => Err(invalid_value(text, event)),
            data_type => Ok((Source::Field(at), data_type)),
        };
    }
    let in_package = |package: &str| {
        let asked = name.package.as_ref();
        asked.is_none_or(|asked| asked.text.eq_ignore_ascii_case(package))
    };
    let found = ACTIONS.iter().find(|info| {
        info.is_source && info.name.eq_ignore_ascii_case(text) && in_package(info.package)
    });
    match found {
        Some(info) => Ok((Source::Action(info.action), info.data_type)),
        None => Err(messages::error(
            25706,
            &[&"event attribute or predicate source", &name],
        )),
    }
}

fn invalid_value(source: &str, event: &EventInfo) -> crate::error::SqlError {
    let what = "event attribute or predicate source";
    messages::error(25713, &[&what, &source, &"event", &event.name])
}

fn test(
    data_type: FieldType,
    op: CompareOp,
    value: &EventValue,
    source: &EventName,
    event: &'static EventInfo,
) -> Result<Test> {
    let bad = || invalid_value(&source.name.text, event);
    match (data_type, value) {
        (FieldType::Text, EventValue::Text(text)) => Ok(Test::Text(op, text.clone())),
        (FieldType::Map(_, names), EventValue::Text(text)) => {
            let found = names
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(text));
            found
                .map(|(number, _)| Test::Number(op, *number))
                .ok_or_else(bad)
        }
        (FieldType::Number(_) | FieldType::Boolean | FieldType::Map(..), EventValue::Number(n)) => {
            n.parse().map(|n| Test::Number(op, n)).map_err(|_| bad())
        }
        _ => Err(bad()),
    }
}

fn like(
    data_type: FieldType,
    pattern: &str,
    negated: bool,
    source: &EventName,
    event: &'static EventInfo,
) -> Result<Test> {
    let bad = || invalid_value(&source.name.text, event);
    match data_type {
        FieldType::Text => {
            let pattern = LikePattern::new(pattern, None, CollationId::DEFAULT, true);
            Ok(Test::Like(pattern.map_err(|_| bad())?, negated))
        }
        _ => Err(bad()),
    }
}

/// `package0.greater_than_uint64`: what is compared stands first in the name, its type behind.
const COMPARATORS: &[(&str, CompareOp)] = &[
    ("greater_than_equal_", CompareOp::GreaterOrEqual),
    ("greater_than_", CompareOp::Greater),
    ("less_than_equal_", CompareOp::LessOrEqual),
    ("less_than_", CompareOp::Less),
    ("not_equal_", CompareOp::NotEqual),
    ("equal_", CompareOp::Equal),
];
const NUMBERS: &[&str] = &[
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "boolean",
];
const TEXTS: &[&str] = &[
    "unicode_string",
    "ansi_string",
    "i_unicode_string",
    "i_ansi_string",
    "i_sql_unicode_string",
    "i_sql_ansi_string",
];

fn called(
    comparator: &EventName,
    source: &EventName,
    value: &EventValue,
    event: &'static EventInfo,
) -> Result<Predicate> {
    let (found, data_type) = find_source(source, event)?;
    let name = comparator.name.text.to_ascii_lowercase();
    let undefined = || {
        let type_name = data_type.name();
        let what = "event attribute or predicate source";
        let source = &source.name.text;
        messages::error(25715, &[&event.name, &name, &type_name, &what, source])
    };
    if let Some(kind) = name.strip_prefix("like_") {
        return match value {
            EventValue::Text(pattern) if TEXTS.contains(&kind) => Ok(Predicate::Test(
                found,
                like(data_type, pattern, false, source, event)?,
            )),
            _ => Err(undefined()),
        };
    }
    let fitting = |(prefix, op): &(&str, CompareOp)| name.strip_prefix(prefix).map(|k| (k, *op));
    let Some((kind, op)) = COMPARATORS.iter().find_map(fitting) else {
        let what = "event predicate comparator";
        return Err(messages::error(25706, &[&what, &comparator]));
    };
    let is_defined = match data_type {
        FieldType::Text => TEXTS.contains(&kind),
        FieldType::Xml => false,
        _ => NUMBERS.contains(&kind),
    };
    match is_defined {
        true => Ok(Predicate::Test(
            found,
            test(data_type, op, value, source, event)?,
        )),
        false => Err(undefined()),
    }
}
