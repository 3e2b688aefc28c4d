//! Options of CREATE and UPDATE STATISTICS.
//!
//! Theory: FULLSCAN reads everything, NORECOMPUTE is kept, and UPDATE has words for which statistics it means. How large a part is read
//! otherwise is decided here, whatever SAMPLE, RESAMPLE and PERSIST_SAMPLE_PERCENT say; MAXDOP and AUTO_DROP change nothing, nor
//! do ROWCOUNT and PAGECOUNT: plans are made for the rows that are there.

use super::Share;
use crate::error::{Result, SqlError};
use crate::messages;
use daruma_syntax::ast::{Expr, Literal, OptionItem, OptionValue};

/// What an UPDATE without names is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// Those of no index.
    Columns,
    /// Those of indexes.
    Index,
}

/// What the options of a statement say.
pub(super) struct Options {
    pub share: Share,
    pub no_recompute: bool,
    pub wanted: Wanted,
}

/// How much is read: not two of these in one statement, which error 1052 tells in this order.
const SHARES: &[&str] = &["PERCENT", "ROWS", "RESAMPLE", "FULLSCAN"];
/// What is meant.
const PARTS: &[&str] = &["ALL", "COLUMNS", "INDEX"];

/// Reads the options of `CREATE STATISTICS` or `UPDATE STATISTICS`. Error 155 for an unknown one.
pub(super) fn read(options: &[OptionItem], statement: &str) -> Result<Options> {
    let mut words: Vec<&str> = Vec::new();
    for option in options {
        let word = word(option, statement)?;
        if words.contains(&word) {
            return Err(messages::error(1039, &[&word]));
        }
        words.push(word);
    }
    for group in [SHARES, PARTS] {
        let mut given = group.iter().filter(|w| words.contains(w));
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            return Err(messages::error(1052, &[&statement, one, other]));
        }
    }
    Ok(Options {
        share: match words.contains(&"FULLSCAN") {
            true => Share::Full,
            false => Share::Auto,
        },
        no_recompute: words.contains(&"NORECOMPUTE"),
        wanted: match () {
            () if words.contains(&"COLUMNS") => Wanted::Columns,
            () if words.contains(&"INDEX") => Wanted::Index,
            () => Wanted::All,
        },
    })
}

/// The option's name, of SAMPLE its unit.
fn word<'o>(option: &'o OptionItem, statement: &str) -> Result<&'o str> {
    let is_update = statement == "UPDATE STATISTICS";
    let name = option.name.as_str();
    let near = || messages::error(102, &[&option.value]);
    match (name, &option.value) {
        ("SAMPLE", value) => return unit(value),
        ("FULLSCAN" | "NORECOMPUTE", OptionValue::None) => {}
        ("RESAMPLE", OptionValue::None) if is_update => {}
        ("RESAMPLE", OptionValue::Qualified(..)) if is_update => {
            return Err(messages::error(9111, &[]));
        }
        ("ALL" | "COLUMNS" | "INDEX", OptionValue::None) if is_update => {}
        ("INCREMENTAL", OptionValue::On) => return Err(messages::error(9108, &[])),
        ("INCREMENTAL", OptionValue::Off) => {}
        ("AUTO_DROP" | "PERSIST_SAMPLE_PERCENT", OptionValue::On | OptionValue::Off) => {}
        ("MAXDOP", value) => messages::check_processors(integer(value).ok_or_else(near)?)?,
        ("STATS_STREAM", _) => return Err(messages::not_supported(name)),
        ("ROWCOUNT" | "PAGECOUNT", value) if is_update => {
            integer(value).filter(|n| *n >= 0).ok_or_else(near)?;
        }
        (
            "FULLSCAN" | "NORECOMPUTE" | "INCREMENTAL" | "AUTO_DROP" | "PERSIST_SAMPLE_PERCENT",
            _,
        ) => return Err(near()),
        ("ALL" | "COLUMNS" | "INDEX" | "RESAMPLE", _) if is_update => return Err(near()),
        _ => return Err(unknown(name, statement)),
    }
    Ok(name)
}

/// `PERCENT` or `ROWS`. Error 1031 for more than all.
fn unit(value: &OptionValue) -> Result<&str> {
    let OptionValue::Quantity { amount, unit } = value else {
        return Err(messages::error(102, &[value]));
    };
    let is_too_much = !amount.parse::<f64>().is_ok_and(|percent| percent <= 100.0);
    match unit.as_str() {
        "PERCENT" if is_too_much => Err(messages::error(1031, &[])),
        "PERCENT" | "ROWS" => Ok(unit),
        _ => Err(messages::error(102, &[amount])),
    }
}

fn integer(value: &OptionValue) -> Option<i64> {
    match value {
        OptionValue::Expr(Expr::Literal(Literal::Integer(digits))) => digits.parse().ok(),
        _ => None,
    }
}

fn unknown(name: &str, statement: &str) -> SqlError {
    messages::error(155, &[&name.to_ascii_lowercase(), &statement])
}
