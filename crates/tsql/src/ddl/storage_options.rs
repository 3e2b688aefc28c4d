//! Options of WITH for tables and indexes: which statement has which, and what values they take.
//!
//! Theory: an option that a statement does not have is refused, and so is a value that the option cannot have. Most of them choose how
//! rows are stored or an index is built, and no result depends on it here: those are taken and change nothing (COMPAT.md lists them).
//! FILLFACTOR and IGNORE_DUP_KEY are kept in the definition, DROP_EXISTING is looked at by CREATE INDEX.

use crate::error::{Result, SqlError};
use crate::messages;
use daruma_catalog::IndexDef;
use daruma_syntax::ast::{Expr, Literal, OptionItem, OptionValue};

/// A statement with options of indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    CreateIndex,
    /// ALTER INDEX .. REBUILD.
    Rebuild,
    /// ALTER INDEX .. SET.
    Set,
    /// ALTER INDEX .. REORGANIZE.
    Reorganize,
    DropIndex,
    /// A key or index inside of CREATE TABLE, and of a table variable.
    CreateTable,
    AlterTable,
    CreateType,
}

use Taker::*;

impl Taker {
    /// Names in error 155: of an option that nothing has, and of one that other statements have.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            CreateIndex => ("CREATE INDEX", "CREATE INDEX"),
            Rebuild => ("ALTER INDEX", "ALTER INDEX REBUILD"),
            Set => ("ALTER INDEX", "ALTER INDEX SET"),
            Reorganize => ("ALTER INDEX", "ALTER INDEX REORGANIZE"),
            DropIndex => ("DROP INDEX", "DROP INDEX"),
            CreateTable => ("CREATE TABLE", "CREATE TABLE"),
            AlterTable => ("ALTER TABLE", "ALTER TABLE"),
            CreateType => ("CREATE TYPE", "CREATE TYPE"),
        }
    }
}

/// What may be behind the equals sign.
#[derive(Clone, Copy)]
enum Values {
    Switch,
    Number,
    Words(&'static [&'static str]),
}

struct Known {
    name: &'static str,
    values: Values,
    of: &'static [Taker],
}

const fn known(name: &'static str, values: Values, of: &'static [Taker]) -> Known {
    Known { name, values, of }
}

const COMPRESSION: Values =
    Values::Words(&["NONE", "ROW", "PAGE", "COLUMNSTORE", "COLUMNSTORE_ARCHIVE"]);
const STORED: &[Taker] = &[CreateIndex, Rebuild, CreateTable, AlterTable];
const CHANGED: &[Taker] = &[CreateIndex, Rebuild, Set, CreateTable, AlterTable];
const BUILT: &[Taker] = &[CreateIndex, Rebuild, AlterTable];
const BUILT_OR_DROPPED: &[Taker] = &[CreateIndex, Rebuild, AlterTable, DropIndex];

/// Options of indexes.
const INDEX_OPTIONS: &[Known] = &[
    known("ALLOW_PAGE_LOCKS", Values::Switch, CHANGED),
    known("ALLOW_ROW_LOCKS", Values::Switch, CHANGED),
    known("COMPRESS_ALL_ROW_GROUPS", Values::Switch, &[Reorganize]),
    known("DATA_COMPRESSION", COMPRESSION, STORED),
    known("DROP_EXISTING", Values::Switch, &[CreateIndex]),
    known("FILLFACTOR", Values::Number, STORED),
    known(
        "IGNORE_DUP_KEY",
        Values::Switch,
        &[
            CreateIndex,
            Rebuild,
            Set,
            CreateTable,
            AlterTable,
            CreateType,
        ],
    ),
    known("LOB_COMPACTION", Values::Switch, &[Reorganize]),
    known("MAXDOP", Values::Number, BUILT_OR_DROPPED),
    known("MAX_DURATION", Values::Number, STORED),
    known("ONLINE", Values::Switch, BUILT_OR_DROPPED),
    known(
        "OPTIMIZE_FOR_SEQUENTIAL_KEY",
        Values::Switch,
        &[CreateIndex, Set, CreateTable, AlterTable],
    ),
    known("PAD_INDEX", Values::Switch, STORED),
    known("RESUMABLE", Values::Switch, STORED),
    known("SORT_IN_TEMPDB", Values::Switch, BUILT),
    known("STATISTICS_INCREMENTAL", Values::Switch, STORED),
    known("STATISTICS_NORECOMPUTE", Values::Switch, CHANGED),
    known("XML_COMPRESSION", Values::Switch, STORED),
];

/// Options of a table that promise what would not be kept.
const TABLE_PROMISES: &[&str] = &[
    "DATA_DELETION",
    "DURABILITY",
    "FILESTREAM_ON",
    "FILETABLE_COLLATE_FILENAME",
    "FILETABLE_DIRECTORY",
    "FILETABLE_FULLPATH_UNIQUE_CONSTRAINT_NAME",
    "FILETABLE_NAMESPACE",
    "FILETABLE_PRIMARY_KEY_CONSTRAINT_NAME",
    "FILETABLE_STREAMID_UNIQUE_CONSTRAINT_NAME",
    "LEDGER",
    "MEMORY_OPTIMIZED",
    "REMOTE_DATA_ARCHIVE",
    "SYSTEM_VERSIONING",
];

/// Takes options over into an index. Error 155 and its like for those that the statement does not have.
pub(super) fn apply(index: &mut IndexDef, options: &[OptionItem], taker: Taker) -> Result<()> {
    check(options, taker)?;
    for option in options {
        match option.name.as_str() {
            "FILLFACTOR" => {
                let percent = number(option).and_then(|n| u8::try_from(n).ok());
                index.fill_factor = percent
                    .filter(|p| (1..=100).contains(p))
                    .ok_or_else(|| messages::error(129, &[&option.value]))?;
            }
            "IGNORE_DUP_KEY" => {
                index.ignore_dup_key = option.is_on();
                if index.ignore_dup_key && !index.unique {
                    let text =
                        "CREATE INDEX options nonunique and ignore_dup_key are mutually exclusive.";
                    return Err(SqlError::new(1916, 16, 4, text));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses options that a statement does not have, and values that they cannot have.
pub(super) fn check(options: &[OptionItem], taker: Taker) -> Result<()> {
    for option in options {
        let name = option.name.as_str();
        match INDEX_OPTIONS.iter().find(|k| k.name == name) {
            _ if name == "BUCKET_COUNT" => {
                return Err(messages::error(10790, &[&name.to_ascii_lowercase()]));
            }
            _ if name == "COMPRESSION_DELAY" => {
                let syntax = "CREATE or ALTER COLUMNSTORE INDEX";
                return Err(messages::error(122, &[&name, &syntax]));
            }
            _ if taker == DropIndex && name.starts_with("MOVE TO") => {
                return Err(messages::not_supported("MOVE TO"));
            }
            None => return Err(unknown(name, taker.names().0)),
            Some(found) if !found.of.contains(&taker) => {
                return Err(unknown(name, taker.names().1));
            }
            Some(found) => check_value(option, found.values)?,
        }
    }
    let is_given = |name: &str| options.iter().any(|o| o.is(name));
    match is_on(options, "RESUMABLE") {
        false if is_given("MAX_DURATION") => {
            Err(messages::error(11431, &[&"MAX_DURATION", &"RESUMABLE"]))
        }
        true if !is_on(options, "ONLINE") => Err(messages::error(
            11438,
            &[&"RESUMABLE", &"ON", &"ONLINE", &"OFF"],
        )),
        _ => Ok(()),
    }
}

/// Refuses options that no table has, and those that are not kept here, unless they are turned off.
pub(super) fn check_table(options: &[OptionItem], statement: &str) -> Result<()> {
    for option in options {
        let is_off = matches!(option.value, OptionValue::Off);
        match (statement, option.name.as_str()) {
            (_, name) if TABLE_PROMISES.contains(&name) => {
                if !is_off {
                    return Err(messages::not_supported(name));
                }
            }
            ("CREATE TABLE", "DATA_COMPRESSION") => check_value(option, COMPRESSION)?,
            ("CREATE TABLE", "XML_COMPRESSION") => check_value(option, Values::Switch)?,
            ("ALTER TABLE", "LOCK_ESCALATION") => {
                check_value(option, Values::Words(&["AUTO", "DISABLE", "TABLE"]))?;
            }
            (_, name) => return Err(unknown(name, statement)),
        }
    }
    Ok(())
}

/// Is an option there, and on?
pub(super) fn is_on(options: &[OptionItem], name: &str) -> bool {
    let mut found = options.iter().filter(|o| o.is(name));
    found.any(|o| matches!(bare(o), OptionValue::None | OptionValue::On))
}

fn unknown(name: &str, statement: &str) -> SqlError {
    messages::error(155, &[&name.to_ascii_lowercase(), &statement])
}

/// Error 102 near a value that the option cannot have.
fn check_value(option: &OptionItem, values: Values) -> Result<()> {
    let value = bare(option);
    let fits = match values {
        Values::Switch => matches!(
            value,
            OptionValue::None | OptionValue::On | OptionValue::Off
        ),
        Values::Number => number(option).is_some(),
        Values::Words(words) => match value {
            OptionValue::Word(found) => {
                let first = found.split(' ').next().unwrap_or_default();
                words.iter().any(|w| w.eq_ignore_ascii_case(first))
            }
            _ => false,
        },
    };
    if !fits {
        return Err(messages::error(102, &[value]));
    }
    let is_columnstore =
        matches!(value, OptionValue::Word(w) if w.to_ascii_uppercase().starts_with("COLUMNSTORE"));
    match option.name.as_str() {
        "DATA_COMPRESSION" if is_columnstore => Err(messages::not_supported(&format!(
            "DATA_COMPRESSION = {value}"
        ))),
        "MAXDOP" => messages::check_processors(number(option).unwrap_or(-1)),
        _ => Ok(()),
    }
}

/// The value without the list that may be behind it: `ON (WAIT_AT_LOW_PRIORITY (..))`.
fn bare(option: &OptionItem) -> &OptionValue {
    match &option.value {
        OptionValue::Qualified(value, _) => value,
        value => value,
    }
}

/// A number, also one with a unit. One below zero is -1: no option has such values.
fn number(option: &OptionItem) -> Option<i64> {
    match bare(option) {
        OptionValue::Expr(Expr::Literal(Literal::Integer(digits))) => digits.parse().ok(),
        OptionValue::Expr(Expr::Unary { expr, .. })
            if matches!(&**expr, Expr::Literal(Literal::Integer(_))) =>
        {
            Some(-1)
        }
        OptionValue::Quantity { amount, .. } => amount.parse().ok(),
        _ => None,
    }
}
