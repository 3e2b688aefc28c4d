//! Values of one column lying together: what operators work on when they handle many rows at once.
//!
//! Theory: most types are a number of fixed size underneath: an integer, the units of money or of a short decimal, days,
//! ticks. These lie as 64-bit integers, long decimals as 128-bit ones, approximate numbers as doubles. Everything else
//! lies as values. What the numbers mean is said once for the column by its type, so loops over them have no branches on
//! it. Kernels ([`arithmetic`], [`compare`], [`convert`]) know the common pairs of types and answer `None` for the rest,
//! and wherever a row would be an error: the caller then takes the way over single values, which tells the error.
//!
//! Invariants
//! 1. `value(i)` gives back exactly the value that was pushed.
//! 2. `nulls` is empty (no NULL) or as long as the data; a NULL's number is 0. Columns of values hold `Value::Null`.
//! 3. Units of one [`Class`] compare as the values do.
//!
//! Read next: `read`, `arithmetic`.

pub mod arithmetic;
pub mod compare;
pub mod convert;
mod read;

#[cfg(test)]
mod tests;

use crate::{
    DataType, DateTime, DateTime2, Decimal, SmallDateTime, Time, Value, decimal::power_of_ten,
};

/// Stands for no row in a list of rows to gather: gives NULL.
pub const NO_ROW: u32 = u32::MAX;

/// Decimals of up to this many digits are 64-bit integers.
const DIGITS_IN_64: u8 = 18;
const TICK_BITS: u32 = 40;

/// The values of a column; numbers lie bare.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Int(Vec<i64>),
    Wide(Vec<i128>),
    Float(Vec<f64>),
    Any(Vec<Value>),
}

/// How values of a type lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Int,
    Wide,
    Float,
    Any,
}

impl Form {
    /// The form of a type's values: integers of 64 bits wherever they fit.
    pub const fn of(data_type: DataType) -> Form {
        use DataType::*;
        match data_type {
            Bit
            | TinyInt
            | SmallInt
            | Int
            | BigInt
            | SmallMoney
            | Money
            | Date
            | Time { .. }
            | SmallDateTime
            | DateTime
            | DateTime2 { .. } => Form::Int,
            Decimal { precision, .. } if precision <= DIGITS_IN_64 => Form::Int,
            Decimal { .. } => Form::Wide,
            Real | Float => Form::Float,
            _ => Form::Any,
        }
    }
}

/// Types whose numbers can be compared with each other as they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Exact numbers in units of 10^-scale.
    Exact(u8),
    Approximate,
    Date,
    Time,
    SmallDateTime,
    DateTime,
    DateTime2,
}

impl Class {
    /// The class whose numbers compare and add as they are; `None` for types that are no numbers.
    pub const fn of(data_type: DataType) -> Option<Class> {
        use DataType::*;
        Some(match data_type {
            Bit | TinyInt | SmallInt | Int | BigInt => Class::Exact(0),
            SmallMoney | Money => Class::Exact(4),
            Decimal { scale, .. } => Class::Exact(scale),
            Real | Float => Class::Approximate,
            Date => Class::Date,
            Time { .. } => Class::Time,
            SmallDateTime => Class::SmallDateTime,
            DateTime => Class::DateTime,
            DateTime2 { .. } => Class::DateTime2,
            _ => return None,
        })
    }
}

/// A column of values. `data_type` is that of all values that are not NULL, unless the data is [`Data::Any`].
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    data_type: DataType,
    nulls: Vec<bool>,
    data: Data,
}

impl Default for Column {
    fn default() -> Column {
        Column {
            data_type: DataType::Int,
            nulls: Vec::new(),
            data: Data::Any(Vec::new()),
        }
    }
}

impl Column {
    /// An empty column for values of a type.
    pub fn new(data_type: DataType) -> Column {
        let mut column = Column::default();
        column.start(data_type);
        column
    }

    /// Numbers as they lie; `nulls` is empty or as long as the data.
    pub fn from_parts(data_type: DataType, data: Data, nulls: Vec<bool>) -> Column {
        let column = Column {
            data_type,
            nulls,
            data,
        };
        debug_assert!(column.nulls.is_empty() || column.nulls.len() == column.len());
        column
    }

    /// The same value `len` times.
    pub fn repeat(value: &Value, len: usize) -> Column {
        let data_type = value.natural_type();
        let mut column = Column::new(data_type);
        let Some(number) = Number::of(value, data_type) else {
            column.data = Data::Any(vec![value.clone(); len]);
            return column;
        };
        match (number, &mut column.data) {
            (Number::Int(n), Data::Int(data)) => data.resize(len, n),
            (Number::Wide(n), Data::Wide(data)) => data.resize(len, n),
            (Number::Float(n), Data::Float(data)) => data.resize(len, n),
            _ => column.data = Data::Any(vec![value.clone(); len]),
        }
        column
    }

    /// Forgets the content and takes values of another type; buffers are kept where they fit.
    pub fn start(&mut self, data_type: DataType) {
        self.data_type = data_type;
        self.nulls.clear();
        match (Form::of(data_type), &mut self.data) {
            (Form::Int, Data::Int(data)) => data.clear(),
            (Form::Wide, Data::Wide(data)) => data.clear(),
            (Form::Float, Data::Float(data)) => data.clear(),
            (Form::Any, Data::Any(data)) => data.clear(),
            (Form::Int, data) => *data = Data::Int(Vec::new()),
            (Form::Wide, data) => *data = Data::Wide(Vec::new()),
            (Form::Float, data) => *data = Data::Float(Vec::new()),
            (Form::Any, data) => *data = Data::Any(Vec::new()),
        }
    }

    /// Forgets the values and keeps type and memory.
    pub fn clear(&mut self) {
        self.nulls.clear();
        match &mut self.data {
            Data::Int(data) => data.clear(),
            Data::Wide(data) => data.clear(),
            Data::Float(data) => data.clear(),
            Data::Any(data) => data.clear(),
        }
    }

    /// Values, NULLs included.
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Int(data) => data.len(),
            Data::Wide(data) => data.len(),
            Data::Float(data) => data.len(),
            Data::Any(data) => data.len(),
        }
    }

    /// Has it no value?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Type of all values.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The values as they lie; a NULL has any number.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Flags of NULLs; empty when there is none, and for columns of values.
    pub fn nulls(&self) -> &[bool] {
        &self.nulls
    }

    /// What the numbers mean; `None` for columns of values.
    pub fn class(&self) -> Option<Class> {
        match self.data {
            Data::Any(_) => None,
            _ => Class::of(self.data_type),
        }
    }

    /// Is the value NULL? In a column of values one behind the last is.
    #[inline]
    pub fn is_null(&self, index: usize) -> bool {
        match &self.data {
            Data::Any(data) => data.get(index).is_none_or(Value::is_null),
            _ => self.nulls.get(index).copied().unwrap_or(false),
        }
    }

    /// The value at `index`; NULL beyond the end.
    pub fn value(&self, index: usize) -> Value {
        if self.nulls.get(index) == Some(&true) {
            return Value::Null;
        }
        let number = match &self.data {
            Data::Int(data) => data.get(index).copied().map(Number::Int),
            Data::Wide(data) => data.get(index).copied().map(Number::Wide),
            Data::Float(data) => data.get(index).copied().map(Number::Float),
            Data::Any(data) => return data.get(index).cloned().unwrap_or(Value::Null),
        };
        number.map_or(Value::Null, |n| n.value(self.data_type))
    }

    /// As `value`, and a column of values may lose it.
    pub fn take(&mut self, index: usize) -> Value {
        match &mut self.data {
            Data::Any(data) => data
                .get_mut(index)
                .map_or(Value::Null, |v| std::mem::replace(v, Value::Null)),
            _ => self.value(index),
        }
    }

    /// Appends a value. A column of numbers that it does not fit becomes a column of values; an empty column of values
    /// takes the type of its first one.
    pub fn push(&mut self, value: Value) {
        if let Data::Any(data) = &mut self.data {
            if !data.is_empty() || value.is_null() || Form::of(value.natural_type()) == Form::Any {
                data.push(value);
                return;
            }
            self.start(value.natural_type());
        }
        if value.is_null() {
            return self.push_null();
        }
        match (Number::of(&value, self.data_type), &mut self.data) {
            (Some(Number::Int(n)), Data::Int(data)) => data.push(n),
            (Some(Number::Wide(n)), Data::Wide(data)) => data.push(n),
            (Some(Number::Float(n)), Data::Float(data)) => data.push(n),
            _ => {
                self.loosen();
                if let Data::Any(data) = &mut self.data {
                    data.push(value);
                }
                return;
            }
        }
        if !self.nulls.is_empty() {
            self.nulls.push(false);
        }
    }

    /// Adds a NULL.
    pub fn push_null(&mut self) {
        if let Data::Any(data) = &mut self.data {
            data.push(Value::Null);
            return;
        }
        let len = self.len();
        self.nulls.resize(len, false);
        self.nulls.push(true);
        match &mut self.data {
            Data::Int(data) => data.push(0),
            Data::Wide(data) => data.push(0),
            Data::Float(data) => data.push(0.0),
            Data::Any(_) => {}
        }
    }

    /// Turns numbers into values.
    fn loosen(&mut self) {
        if !matches!(self.data, Data::Any(_)) {
            let values = (0..self.len()).map(|i| self.value(i)).collect();
            self.nulls.clear();
            self.data = Data::Any(values);
        }
    }

    /// Appends all of `other`.
    pub fn append(&mut self, other: &Column) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        let len = self.len();
        let same = self.data_type == other.data_type;
        match (&mut self.data, &other.data) {
            (Data::Int(data), Data::Int(more)) if same => data.extend_from_slice(more),
            (Data::Wide(data), Data::Wide(more)) if same => data.extend_from_slice(more),
            (Data::Float(data), Data::Float(more)) if same => data.extend_from_slice(more),
            (Data::Any(data), Data::Any(more)) => {
                data.extend_from_slice(more);
                return;
            }
            _ => {
                self.loosen();
                if let Data::Any(data) = &mut self.data {
                    data.extend((0..other.len()).map(|i| other.value(i)));
                }
                return;
            }
        }
        if !self.nulls.is_empty() || !other.nulls.is_empty() {
            self.nulls.resize(len, false);
            self.nulls.extend_from_slice(&other.nulls);
            let len = self.len();
            self.nulls.resize(len, false);
        }
    }

    /// Replaces the content with the rows of `from` at `rows`; [`NO_ROW`] gives NULL.
    pub fn gather(&mut self, from: &Column, rows: &[u32]) {
        fn pick<T: Copy + Default>(from: &[T], rows: &[u32]) -> Vec<T> {
            let at = |row: &u32| from.get(*row as usize).copied().unwrap_or_default();
            rows.iter().map(at).collect()
        }
        self.data_type = from.data_type;
        self.nulls.clear();
        match &from.data {
            Data::Int(data) => self.data = Data::Int(pick(data, rows)),
            Data::Wide(data) => self.data = Data::Wide(pick(data, rows)),
            Data::Float(data) => self.data = Data::Float(pick(data, rows)),
            Data::Any(data) => {
                let at = |row: &u32| data.get(*row as usize).cloned().unwrap_or(Value::Null);
                self.data = Data::Any(rows.iter().map(at).collect());
                return;
            }
        }
        if !from.nulls.is_empty() {
            let null = |row: &u32| from.nulls.get(*row as usize).copied().unwrap_or(true);
            self.nulls = rows.iter().map(null).collect();
        } else if rows.contains(&NO_ROW) {
            self.nulls = rows.iter().map(|row| *row == NO_ROW).collect();
        }
    }

    /// Memory taken, roughly.
    pub fn bytes(&self) -> usize {
        self.nulls.len()
            + match &self.data {
                Data::Int(data) => size_of_val(data.as_slice()),
                Data::Wide(data) => size_of_val(data.as_slice()),
                Data::Float(data) => size_of_val(data.as_slice()),
                Data::Any(data) => size_of_val(data.as_slice()) + self.outside_bytes(),
            }
    }

    /// Bytes that the values have allocated, roughly.
    pub fn outside_bytes(&self) -> usize {
        self.outside().map(Value::outside_bytes).sum()
    }

    /// What the value that has allocated most has.
    pub fn longest_outside(&self) -> usize {
        self.outside().map(Value::outside_bytes).max().unwrap_or(0)
    }

    /// Bytes that the value of one row has allocated.
    pub fn outside_bytes_of(&self, row: usize) -> usize {
        match &self.data {
            Data::Any(data) => data.get(row).map_or(0, Value::outside_bytes),
            _ => 0,
        }
    }

    fn outside(&self) -> impl Iterator<Item = &Value> {
        let values: &[Value] = match &self.data {
            Data::Any(data) => data,
            _ => &[],
        };
        values.iter()
    }
}

/// A value as it lies in a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int(i64),
    Wide(i128),
    Float(f64),
}

impl Number {
    /// `None` when the value is NULL, lies as a value, or is not exactly of this type.
    pub fn of(value: &Value, data_type: DataType) -> Option<Number> {
        use DataType as T;
        Some(Number::Int(match (value, data_type) {
            (Value::Bit(v), T::Bit) => i64::from(*v),
            (Value::TinyInt(v), T::TinyInt) => i64::from(*v),
            (Value::SmallInt(v), T::SmallInt) => i64::from(*v),
            (Value::Int(v), T::Int) | (Value::SmallMoney(v), T::SmallMoney) => i64::from(*v),
            (Value::BigInt(v), T::BigInt) | (Value::Money(v), T::Money) => *v,
            (Value::Date(v), T::Date) => i64::from(*v),
            (Value::Time(v), T::Time { scale }) if v.scale == scale => v.ticks as i64,
            (Value::SmallDateTime(v), T::SmallDateTime) => {
                i64::from(v.days) << 16 | i64::from(v.minutes)
            }
            (Value::DateTime(v), T::DateTime) => i64::from(v.days) << 32 | i64::from(v.ticks),
            (Value::DateTime2(v), T::DateTime2 { scale }) if v.scale == scale => {
                i64::from(v.days) << TICK_BITS | v.ticks as i64
            }
            (Value::Decimal(v), T::Decimal { .. }) if v.data_type() == data_type => {
                if v.precision > DIGITS_IN_64 {
                    return Some(Number::Wide(v.unscaled()));
                }
                i64::try_from(v.unscaled()).ok()?
            }
            (Value::Real(v), T::Real) => return Some(Number::Float(f64::from(*v))),
            (Value::Float(v), T::Float) => return Some(Number::Float(*v)),
            _ => return None,
        }))
    }

    /// The number as a value of this type, which must be the one it was taken from.
    pub fn value(self, data_type: DataType) -> Value {
        use DataType as T;
        match (self, data_type) {
            (Number::Int(n), T::Decimal { precision, scale }) => {
                Value::Decimal(Decimal::new(i128::from(n), precision, scale))
            }
            (Number::Wide(n), T::Decimal { precision, scale }) => {
                Value::Decimal(Decimal::new(n, precision, scale))
            }
            (Number::Float(n), T::Real) => Value::Real(n as f32),
            (Number::Float(n), _) => Value::Float(n),
            (Number::Int(n), T::Bit) => Value::Bit(n != 0),
            (Number::Int(n), T::TinyInt) => Value::TinyInt(n as u8),
            (Number::Int(n), T::SmallInt) => Value::SmallInt(n as i16),
            (Number::Int(n), T::Int) => Value::Int(n as i32),
            (Number::Int(n), T::BigInt) => Value::BigInt(n),
            (Number::Int(n), T::SmallMoney) => Value::SmallMoney(n as i32),
            (Number::Int(n), T::Money) => Value::Money(n),
            (Number::Int(n), T::Date) => Value::Date(n as i32),
            (Number::Int(n), T::Time { scale }) => Value::Time(Time {
                ticks: n as u64,
                scale,
            }),
            (Number::Int(n), T::SmallDateTime) => Value::SmallDateTime(SmallDateTime {
                days: (n >> 16) as u16,
                minutes: n as u16,
            }),
            (Number::Int(n), T::DateTime) => Value::DateTime(DateTime {
                days: (n >> 32) as i32,
                ticks: n as u32,
            }),
            (Number::Int(n), T::DateTime2 { scale }) => Value::DateTime2(DateTime2 {
                days: (n >> TICK_BITS) as i32,
                ticks: n as u64 & ((1 << TICK_BITS) - 1),
                scale,
            }),
            _ => Value::Null,
        }
    }
}

/// One side of a kernel: a column, or the same value for every row.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    Column(&'a Column),
    Constant(&'a Value),
}

/// The numbers of an operand.
#[derive(Clone, Copy)]
enum Numbers<'a> {
    Int(&'a [i64]),
    Wide(&'a [i128]),
    Float(&'a [f64]),
    OneInt(i64),
    OneWide(i128),
    OneFloat(f64),
}

impl<'a> Operand<'a> {
    /// Numbers with their type and NULLs; `None` for columns of values and NULL constants.
    fn numbers(self) -> Option<(DataType, Numbers<'a>, &'a [bool])> {
        match self {
            Operand::Constant(value) => {
                let data_type = value.natural_type();
                let numbers = match Number::of(value, data_type)? {
                    Number::Int(n) => Numbers::OneInt(n),
                    Number::Wide(n) => Numbers::OneWide(n),
                    Number::Float(n) => Numbers::OneFloat(n),
                };
                Some((data_type, numbers, &[]))
            }
            Operand::Column(column) => {
                let numbers = match &column.data {
                    Data::Int(data) => Numbers::Int(data),
                    Data::Wide(data) => Numbers::Wide(data),
                    Data::Float(data) => Numbers::Float(data),
                    Data::Any(_) => return None,
                };
                Some((column.data_type, numbers, &column.nulls))
            }
        }
    }
}

impl Numbers<'_> {
    #[inline]
    fn int(&self, index: usize) -> Option<i64> {
        match self {
            Numbers::Int(data) => data.get(index).copied(),
            Numbers::OneInt(n) => Some(*n),
            _ => None,
        }
    }

    #[inline]
    fn wide(&self, index: usize) -> Option<i128> {
        match self {
            Numbers::Wide(data) => data.get(index).copied(),
            Numbers::OneWide(n) => Some(*n),
            other => other.int(index).map(i128::from),
        }
    }

    #[inline]
    fn float(&self, index: usize) -> Option<f64> {
        match self {
            Numbers::Float(data) => data.get(index).copied(),
            Numbers::OneFloat(n) => Some(*n),
            _ => None,
        }
    }

    fn is_int(&self) -> bool {
        matches!(self, Numbers::Int(_) | Numbers::OneInt(_))
    }

    fn is_float(&self) -> bool {
        matches!(self, Numbers::Float(_) | Numbers::OneFloat(_))
    }
}

/// NULL wherever one side is.
fn either_null(left: &[bool], right: &[bool]) -> Vec<bool> {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => Vec::new(),
        (false, true) => left.to_vec(),
        (true, false) => right.to_vec(),
        (false, false) => left.iter().zip(right).map(|(a, b)| *a || *b).collect(),
    }
}

/// Numbers of an exact type in the form it lies in; `None` when one is beyond its precision. NULL rows become 0.
fn exact_data(mut units: Vec<i128>, data_type: DataType, nulls: &[bool]) -> Option<Data> {
    for (number, null) in units.iter_mut().zip(nulls) {
        if *null {
            *number = 0;
        }
    }
    let DataType::Decimal { precision, .. } = data_type else {
        let low = units.iter().min().copied().unwrap_or(0);
        let high = units.iter().max().copied().unwrap_or(0);
        let (min, max) = integer_range(data_type)?;
        if low < i128::from(min) || high > i128::from(max) {
            return None;
        }
        return Some(Data::Int(units.into_iter().map(|n| n as i64).collect()));
    };
    let limit = power_of_ten(precision).unsigned_abs();
    if units.iter().any(|n| n.unsigned_abs() >= limit) {
        return None;
    }
    Some(match Form::of(data_type) {
        Form::Int => Data::Int(units.into_iter().map(|n| n as i64).collect()),
        _ => Data::Wide(units),
    })
}

/// Units that a type of integers or money can hold.
fn integer_range(data_type: DataType) -> Option<(i64, i64)> {
    Some(match data_type {
        DataType::TinyInt => (0, i64::from(u8::MAX)),
        DataType::SmallInt => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int | DataType::SmallMoney => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DataType::BigInt | DataType::Money => (i64::MIN, i64::MAX),
        _ => return None,
    })
}
