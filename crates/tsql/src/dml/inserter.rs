//! New rows on their way into a table: from given values to complete rows, written in batches.
//!
//! Theory: every statement that makes rows ends here: INSERT, OUTPUT INTO, SELECT INTO, BULK INSERT and bulk load. An
//! [`InsertShape`] says where each column comes from and is kept with the plan; an [`Inserter`] lives for one statement.
//! The order of checks for a row is conversion (done by the caller), NOT NULL, CHECK, unique keys; foreign keys and
//! triggers follow when all rows are written.

use super::apply::Applier;
use super::effects::Effects;
use super::errors::{self, Verb};
use super::expr::Evaluators;
use super::made_row::MadeRow;
use super::target::Writable;
use super::view::check_view;
use crate::access::damaged;
use crate::binder::next_value::LIMITED_DEFAULT;
use crate::error::{Result, SqlError};
use crate::executor::{ConditionPlan, SPILLED_BYTES_MIN};
use crate::host::{Host, TriggerAction};
use crate::messages;
use daruma_value::{DataType, Decimal, Value};
use std::sync::Arc;

/// Rows are written when this many or this many bytes of values have gathered: enough for index entries, which are
/// sorted before they are written, to fall several to a page. Where memory is scarce fewer bytes are enough.
const PENDING_ROWS_MAX: usize = 16_384;
const PENDING_BYTES_MAX: usize = 8 << 20;

/// Each index has a copy while it is written.
const PENDING_GRANT_PART: usize = 4;

fn pending_bytes_max(host: &dyn Host) -> usize {
    let part = host.memory_grant_bytes() / PENDING_GRANT_PART;
    part.clamp(SPILLED_BYTES_MIN, PENDING_BYTES_MAX)
}

/// Where a column of a new row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Given(usize),
    Default,
    Identity,
    RowVersion,
    Computed,
}

/// How given values become a row of a table: which columns they are for, and what the others get.
pub struct InsertShape {
    pub table: Arc<Writable>,
    sources: Vec<Source>,
    /// Column of each given value.
    pub given: Vec<usize>,
    /// Of the views that the rows are inserted through.
    check: Option<ConditionPlan>,
}

/// Differences between a bulk load and a statement.
#[derive(Clone, Copy, Debug)]
pub struct InsertOptions {
    /// A given NULL stays NULL where the column has a default. Only bulk loads ever replace it.
    pub keep_nulls: bool,
    pub check_constraints: bool,
    pub fire_triggers: bool,
    /// Given identity values are taken whatever IDENTITY_INSERT says.
    pub keep_identity: bool,
}

impl InsertOptions {
    /// Choices of an INSERT statement, as opposed to bulk loads.
    pub const STATEMENT: InsertOptions = InsertOptions {
        keep_nulls: true,
        check_constraints: true,
        fire_triggers: true,
        keep_identity: false,
    };
}

impl InsertShape {
    /// `columns`: ordinals of the columns that values are given for, in order.
    pub fn new(table: Arc<Writable>, columns: Vec<usize>) -> InsertShape {
        let source = |(ordinal, column): (usize, &daruma_catalog::ColumnDef)| {
            if column.computed.is_some() {
                Source::Computed
            } else if column.data_type == DataType::RowVersion {
                Source::RowVersion
            } else if let Some(at) = columns.iter().position(|c| *c == ordinal) {
                Source::Given(at)
            } else if column.is_identity {
                Source::Identity
            } else {
                Source::Default
            }
        };
        let sources = table
            .access
            .def()
            .columns
            .iter()
            .enumerate()
            .map(source)
            .collect();
        InsertShape {
            table,
            sources,
            given: columns,
            check: None,
        }
    }

    /// Rows must fulfil this condition of the views they are inserted through (550).
    pub fn checked_by(self, check: Option<ConditionPlan>) -> InsertShape {
        InsertShape { check, ..self }
    }

    /// Columns that an INSERT without a column list gives values for.
    pub fn implicit_columns(table: &Writable) -> Vec<usize> {
        let columns = table.access.def().columns.iter().enumerate();
        columns
            .filter(|(_, c)| c.computed.is_none() && !c.is_identity)
            .map(|(i, _)| i)
            .collect()
    }

    /// 11740: a default that takes values of a sequence, in a statement that may leave out rows.
    pub fn check_limit(&self, has_top: bool, host: &dyn Host) -> Result<()> {
        let takes = |(ordinal, source): (usize, &Source)| {
            matches!(source, Source::Default) && self.table.default_takes_next_value(ordinal)
        };
        let is_limited = has_top || host.settings().rowcount > 0;
        match is_limited && self.sources.iter().enumerate().any(takes) {
            true => Err(messages::error(LIMITED_DEFAULT, &[])),
            false => Ok(()),
        }
    }

    /// May a row take a default that calls a function of users? `nulls` are left as they are given.
    fn defaults_call(&self, nulls: bool) -> bool {
        let takes = |(ordinal, source): (usize, &Source)| match source {
            Source::Default => self.table.default_calls(ordinal),
            Source::Given(_) => !nulls && self.table.default_calls(ordinal),
            _ => false,
        };
        self.sources.iter().enumerate().any(takes)
    }

    /// Does the statement give the identity column's value itself?
    pub fn gives_identity(&self) -> bool {
        self.table
            .identity
            .is_some_and(|i| matches!(self.sources.get(i), Some(Source::Given(_))))
    }
}

/// Receives each written row, for OUTPUT.
pub type Written<'a> = dyn FnMut(&[Value]) -> Result<()> + 'a;

/// Takes rows one by one and writes them in batches.
pub struct Inserter<'a> {
    host: &'a dyn Host,
    shape: &'a InsertShape,
    options: InsertOptions,
    applier: Applier<'a>,
    effects: Effects,
    verb: Verb,
    pending: Vec<Vec<Value>>,
    pending_bytes: usize,
    pending_bytes_max: usize,
    last_identity: LastIdentity<'a>,
    count: u64,
    evaluators: Evaluators<'a>,
    /// Somebody sees the rows whole: OUTPUT or a trigger.
    shown: bool,
    /// All rows are made before the first is written: a default calls a function, which may read the table.
    gathers: bool,
}

impl<'a> Inserter<'a> {
    /// Begins to insert under the statement's transaction; IDENTITY_INSERT is looked at here.
    pub fn begin(
        host: &'a dyn Host,
        shape: &'a InsertShape,
        options: InsertOptions,
        verb: Verb,
    ) -> Result<Inserter<'a>> {
        let table = &shape.table;
        if table.identity.is_some() && !options.keep_identity {
            let explicit = host.identity_insert(table.table());
            match (shape.gives_identity(), explicit) {
                (true, false) => return Err(errors::identity_insert_off(table.table())),
                (false, true) => return Err(errors::identity_value_missing(table.table())),
                _ => {}
            }
        }
        let txn = host.begin_write(table.table())?;
        table.access.note_update(None)?;
        let effects = if options.check_constraints {
            let effects = Effects::new(host, table, TriggerAction::Insert, None)?;
            if options.fire_triggers {
                effects
            } else {
                effects.without_triggers()
            }
        } else {
            Effects::unchecked(host, table, options.fire_triggers)?
        };
        Ok(Inserter {
            host,
            shape,
            options,
            applier: Applier::new(host, table, txn, &[]),
            shown: effects.has_images(),
            gathers: shape.defaults_call(options.keep_nulls),
            effects,
            verb,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_bytes_max: pending_bytes_max(host),
            last_identity: LastIdentity { host, number: None },
            count: 0,
            evaluators: Evaluators::new(host),
        })
    }

    /// The rows are part of a statement (MERGE) that changes so many in all.
    pub fn of_statement(mut self, rows: u64) -> Inserter<'a> {
        self.effects = self.effects.of_statement(rows);
        self
    }

    /// Rows leave through OUTPUT, with all their columns.
    pub fn show_rows(&mut self) {
        self.shown = true;
    }

    /// Takes one row of given values, converted to their columns' types; `None` is DEFAULT.
    pub fn push(
        &mut self,
        given: &mut [Option<Value>],
        written: Option<&mut Written>,
    ) -> Result<()> {
        let row = self.make_row(given)?;
        self.pending_bytes += row.iter().map(value_bytes).sum::<usize>();
        self.pending.push(row);
        if self.pending.len() >= PENDING_ROWS_MAX || self.pending_bytes >= self.pending_bytes_max {
            match self.gathers {
                true => self.host.check_memory(0)?,
                false => {
                    // It is made; rows of OUTPUT that writing leads to are rows of their own.
                    self.host.end_row();
                    self.flush(written)?;
                }
            }
        }
        Ok(())
    }

    fn make_row(&mut self, given: &mut [Option<Value>]) -> Result<Vec<Value>> {
        let shape: &'a InsertShape = self.shape;
        let table: &'a Writable = &shape.table;
        let _row = MadeRow::begin(self.host);
        let mut row = Vec::with_capacity(self.shape.sources.len() + 1);
        for (ordinal, source) in self.shape.sources.iter().enumerate() {
            row.push(match source {
                Source::Computed => Value::Null,
                Source::Identity => self.next_identity(ordinal)?,
                Source::Default => table.default_value(&self.evaluators, ordinal)?,
                Source::RowVersion => {
                    let version = self.host.next_rowversion(table.access.database())?;
                    Value::Bytes(version.to_be_bytes().to_vec())
                }
                Source::Given(at) => match given.get_mut(*at).and_then(Option::take) {
                    Some(Value::Null) if !self.options.keep_nulls => {
                        table.default_value(&self.evaluators, ordinal)?
                    }
                    Some(value) => value,
                    None => table.default_value(&self.evaluators, ordinal)?,
                },
            });
        }
        if self.shape.gives_identity() {
            self.note_identity(&row)?;
        }
        if self.options.check_constraints {
            table.complete(&self.evaluators, &mut row, None, self.verb, self.shown)?;
        } else {
            table.compute(&self.evaluators, &mut row)?;
            table.check_not_null(&row, None, self.verb)?;
        }
        check_view(&self.evaluators, shape.check.as_ref(), &row)?;
        Ok(row)
    }

    fn next_identity(&mut self, ordinal: usize) -> Result<Value> {
        let number = self.host.next_identity(self.shape.table.table())?;
        self.last_identity.number = Some(number);
        let column = self
            .shape
            .table
            .access
            .def()
            .columns
            .get(ordinal)
            .ok_or_else(|| damaged("no such column"))?;
        identity_value(number, column.data_type)
    }

    fn note_identity(&mut self, row: &[Value]) -> Result<()> {
        let given = self
            .shape
            .table
            .identity
            .and_then(|i| row.get(i))
            .and_then(identity_number);
        if let Some(number) = given {
            self.host.note_identity(self.shape.table.table(), number)?;
            self.last_identity.number = Some(number);
        }
        Ok(())
    }

    fn flush(&mut self, written: Option<&mut Written>) -> Result<()> {
        super::check_cancel(self.host)?;
        self.pending_bytes = 0;
        self.applier.insert(&mut self.pending)?;
        self.count += self.pending.len() as u64;
        self.effects
            .note_inserted(self.host, &self.shape.table, &self.pending, self.verb)?;
        if let Some(written) = written {
            self.pending.iter().try_for_each(|row| written(row))?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Writes what is left, checks foreign keys, fires triggers. Gives the number of rows.
    pub fn finish(mut self, written: Option<&mut Written>) -> Result<u64> {
        if !self.pending.is_empty() {
            self.flush(written)?;
        }
        if self.applier.ignored_duplicates {
            self.host.message(errors::duplicate_ignored());
        }
        self.last_identity.tell();
        self.effects
            .finish(self.host, &self.shape.table, self.verb, 0)?;
        Ok(self.count)
    }
}

/// The last identity value that the statement took, until it is told.
struct LastIdentity<'a> {
    host: &'a dyn Host,
    number: Option<i128>,
}

impl LastIdentity<'_> {
    fn tell(&mut self) {
        if let Some(number) = self.number.take() {
            self.host.set_last_identity(number);
        }
    }
}

impl Drop for LastIdentity<'_> {
    /// The values of a statement that failed are used up, and the last one is told as that of any other.
    fn drop(&mut self) {
        self.tell();
    }
}

/// The number as a value of an identity column's type: error 8115.
pub fn identity_value(number: i128, data_type: DataType) -> Result<Value> {
    let value = match data_type {
        DataType::TinyInt => u8::try_from(number).ok().map(Value::TinyInt),
        DataType::SmallInt => i16::try_from(number).ok().map(Value::SmallInt),
        DataType::Int => i32::try_from(number).ok().map(Value::Int),
        DataType::BigInt => i64::try_from(number).ok().map(Value::BigInt),
        DataType::Decimal { precision, scale } => decimal_identity(number, precision, scale),
        _ => None,
    };
    value.ok_or_else(|| errors::identity_overflow(data_type.error_name()))
}

/// Identity columns of type decimal have scale 0.
fn decimal_identity(number: i128, precision: u8, scale: u8) -> Option<Value> {
    let limit = 10i128.checked_pow(u32::from(precision))?;
    (number.abs() < limit).then(|| Value::Decimal(Decimal::new(number, precision, scale)))
}

/// The number that a value of an identity column is.
pub fn identity_number(value: &Value) -> Option<i128> {
    match value {
        Value::TinyInt(n) => Some(i128::from(*n)),
        Value::SmallInt(n) => Some(i128::from(*n)),
        Value::Int(n) => Some(i128::from(*n)),
        Value::BigInt(n) => Some(i128::from(*n)),
        Value::Decimal(d) => Some(d.unscaled()),
        _ => None,
    }
}

fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Str(s) => s.len(),
            Value::Bytes(b) => b.len(),
            _ => 0,
        }
}

/// An INSERT whose source gives too few or too many values.
pub fn check_count(
    given: usize,
    wanted: usize,
    fewer: fn() -> SqlError,
    more: fn() -> SqlError,
) -> Result<()> {
    match given.cmp(&wanted) {
        std::cmp::Ordering::Less => Err(fewer()),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(more()),
    }
}
