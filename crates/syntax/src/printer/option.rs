//! Option lists.

use super::{Commas, Parens};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for OptionItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.value {
            value if name.is_empty() => value.fmt(f),
            OptionValue::None => f.write_str(name),
            OptionValue::List(items) if name.ends_with("_LIST") => {
                write!(f, "{name} = ({})", Commas(items))
            }
            OptionValue::List(items) => write!(f, "{name} ({})", Commas(items)),
            value => write!(f, "{name} = {value}"),
        }
    }
}

impl Display for OptionValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::None => Ok(()),
            OptionValue::On => f.write_str("ON"),
            OptionValue::Off => f.write_str("OFF"),
            OptionValue::Expr(expr) => expr.fmt(f),
            OptionValue::Word(words) => f.write_str(words),
            OptionValue::Name(name) => name.fmt(f),
            OptionValue::Quantity { amount, unit } => write!(f, "{amount} {unit}"),
            OptionValue::List(items) => write!(f, "({})", Commas(items)),
            OptionValue::Qualified(value, items) => write!(f, "{value}{}", Parens(items)),
        }
    }
}

/// ` WITH (a = 1, b)`, or nothing.
pub(super) struct WithOptions<'a>(pub &'a [OptionItem]);

impl Display for WithOptions<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH ({})", Commas(self.0))
        }
    }
}

/// ` WITH a = 1, b` without parentheses, or nothing.
pub(super) struct LooseOptions<'a>(pub &'a [OptionItem]);

impl Display for LooseOptions<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH {}", Commas(self.0))
        }
    }
}

/// Options of CREATE and UPDATE STATISTICS, two of which have words behind them.
pub(super) struct StatisticsOptions<'a>(pub &'a [OptionItem]);

impl Display for StatisticsOptions<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, option) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { " WITH " } else { ", " })?;
            match &option.value {
                OptionValue::Quantity { amount, unit } => {
                    write!(f, "{} {amount} {unit}", option.name)?
                }
                OptionValue::Qualified(value, items) => {
                    write!(f, "{} {value} {}", option.name, Commas(items))?
                }
                _ => option.fmt(f)?,
            }
        }
        Ok(())
    }
}
