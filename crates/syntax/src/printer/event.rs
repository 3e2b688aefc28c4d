//! Event sessions.

use super::option::WithOptions;
use super::{Commas, Quote};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for EventSession {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verb = match &self.verb {
            EventSessionVerb::Create { .. } => "CREATE",
            EventSessionVerb::Drop => "DROP",
            _ => "ALTER",
        };
        let on = match self.on_database {
            true => "DATABASE",
            false => "SERVER",
        };
        write!(f, "{verb} EVENT SESSION {} ON {on}", self.name)?;
        match &self.verb {
            EventSessionVerb::Create { changes, options }
            | EventSessionVerb::Alter { changes, options } => {
                if !changes.is_empty() {
                    write!(f, " {}", Commas(changes))?;
                }
                write!(f, "{}", WithOptions(options))
            }
            EventSessionVerb::Start => f.write_str(" STATE = START"),
            EventSessionVerb::Stop => f.write_str(" STATE = STOP"),
            EventSessionVerb::Drop => Ok(()),
        }
    }
}

impl Display for EventSessionChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            EventSessionChange::AddEvent(event) => write!(f, "ADD EVENT {event}"),
            EventSessionChange::DropEvent(name) => write!(f, "DROP EVENT {name}"),
            EventSessionChange::AddTarget(target) => write!(f, "ADD TARGET {target}"),
            EventSessionChange::DropTarget(name) => write!(f, "DROP TARGET {name}"),
        }
    }
}

impl Display for EventName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for part in [&self.module, &self.package].into_iter().flatten() {
            write!(f, "{part}.")?;
        }
        self.name.fmt(f)
    }
}

impl Display for EventSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        let mut parts = Vec::new();
        if !self.settings.is_empty() {
            parts.push(format!("SET {}", Commas(&self.settings)));
        }
        if !self.actions.is_empty() {
            parts.push(format!("ACTION ({})", Commas(&self.actions)));
        }
        if let Some(predicate) = &self.predicate {
            parts.push(format!("WHERE {predicate}"));
        }
        match parts.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", parts.join(" ")),
        }
    }
}

impl Display for EventTargetSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        match self.settings.is_empty() {
            true => Ok(()),
            false => write!(f, " (SET {})", Commas(&self.settings)),
        }
    }
}

impl Display for EventSetting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

impl Display for EventValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            EventValue::Number(digits) => f.write_str(digits),
            EventValue::Text(text) => write!(f, "N{}", Quote(text)),
        }
    }
}

impl Display for EventPredicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut Formatter<'_>, branches: &[EventPredicate], word: &str| {
            branches.iter().enumerate().try_for_each(|(at, branch)| {
                if at > 0 {
                    f.write_str(word)?;
                }
                match branch {
                    EventPredicate::And(_) | EventPredicate::Or(_) => write!(f, "({branch})"),
                    _ => branch.fmt(f),
                }
            })
        };
        match self {
            EventPredicate::And(branches) => joined(f, branches, " AND "),
            EventPredicate::Or(branches) => joined(f, branches, " OR "),
            EventPredicate::Not(inner) => match **inner {
                EventPredicate::And(_) | EventPredicate::Or(_) => write!(f, "NOT ({inner})"),
                _ => write!(f, "NOT {inner}"),
            },
            EventPredicate::Compare { source, op, value } => write!(f, "{source} {op} {value}"),
            EventPredicate::Like {
                source,
                pattern,
                negated,
            } => {
                let not = if *negated { "NOT " } else { "" };
                write!(f, "{source} {not}LIKE N{}", Quote(pattern))
            }
            EventPredicate::Call {
                comparator,
                source,
                value,
            } => write!(f, "{comparator}({source}, {value})"),
        }
    }
}
