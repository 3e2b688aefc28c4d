//! Built-in scalar functions over values.
//!
//! Theory: each function is an entry of a table: how many arguments, the result type for given argument types, and the
//! evaluation. The binder looks a name up, checks the count, asks for the type and keeps the entry; the executor calls
//! `eval` with values that still have their own types. What is not pure (clock, settings, chance) comes in the context.
//!
//! Invariants
//! 1. A value returned fits the type that `result_type` named.
//! 2. No argument value can make a function panic or allocate without bound (`LARGE_BYTES_MAX`).
//!
//! Functions whose first argument is a date part get it as [`DatePart::to_value`]. Read next: `string`, `date`.

mod bits;
mod date;
pub mod json;
mod logic;
mod math;
mod pattern;
mod random;
mod string;
mod write;
mod xml_rows;

pub use pattern::is_known_culture;
pub use random::RandomSequence;
pub use write::WRITE;
pub use xml_rows::{
    XML_ASIDE, XML_ATTRIBUTE, XML_BASE64, XML_LEVEL, XML_NESTED, XML_PART, XML_ROW, XML_TEXT,
};

#[cfg(test)]
mod tests;

use crate::collation::CollationId;
use crate::convert::{ConvertContext, convert, convert_owned};
use crate::temporal::DatePart;
use crate::types::check_implicit;
use crate::{DataType, DateTime2, LARGE_BYTES_MAX, Len, Value, ValueError};
use compact_str::CompactString;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Chance and identifiers, handed in by the session.
pub trait EvalHost {
    /// A number between 0 and 1; a seed begins the session's sequence anew.
    fn random(&self, seed: Option<i32>) -> f64;
    /// NEWID.
    fn new_guid(&self) -> [u8; 16];
    /// NEWSEQUENTIALID.
    fn sequential_guid(&self) -> [u8; 16] {
        self.new_guid()
    }
    /// May a function build a value of so many bytes now?
    fn may_take(&self, _bytes: usize) -> bool {
        true
    }
    /// Does anybody still want the result? Functions that may take long ask now and then, and then give anything.
    fn goes_on(&self) -> bool {
        true
    }
}

/// What evaluation depends on besides its arguments.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// The statement's time in UTC, scale 7.
    pub now: DateTime2,
    /// The server's offset from UTC.
    pub zone_offset_minutes: i16,
    /// SET DATEFIRST, 1 (Monday) to 7 (Sunday).
    pub datefirst: u8,
    /// SET DATEFORMAT and the collation of comparisons and code page.
    pub convert: ConvertContext,
    pub host: &'a dyn EvalHost,
}

type ResultRule = fn(&Signature<'_>) -> Result<DataType, ValueError>;
type Evaluate = fn(&Call<'_>) -> Result<Value, ValueError>;

/// A built-in function.
#[derive(Clone, Copy)]
pub struct FunctionDef {
    /// Upper-case name.
    pub name: &'static str,
    pub args_min: usize,
    pub args_max: usize,
    /// The first argument is the name of a date part.
    pub takes_date_part: bool,
    /// Same arguments, same result: may be folded and indexed.
    pub is_deterministic: bool,
    /// NULL in any argument makes the result NULL without a call.
    propagates_null: bool,
    result: ResultRule,
    evaluate: Evaluate,
}

impl std::fmt::Debug for FunctionDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Argument types during binding.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    pub name: &'static str,
    pub types: &'a [DataType],
}

impl FunctionDef {
    const fn new(
        name: &'static str,
        args: std::ops::RangeInclusive<usize>,
        result: ResultRule,
        evaluate: Evaluate,
    ) -> FunctionDef {
        FunctionDef {
            name,
            args_min: *args.start(),
            args_max: *args.end(),
            takes_date_part: false,
            is_deterministic: true,
            propagates_null: true,
            result,
            evaluate,
        }
    }

    const fn date_part(self) -> FunctionDef {
        FunctionDef {
            takes_date_part: true,
            ..self
        }
    }

    const fn volatile(self) -> FunctionDef {
        FunctionDef {
            is_deterministic: false,
            ..self
        }
    }

    const fn sees_null(self) -> FunctionDef {
        FunctionDef {
            propagates_null: false,
            ..self
        }
    }

    /// 174 or 189 for a wrong number of arguments.
    pub fn check_count(&self, count: usize) -> Result<(), ValueError> {
        if (self.args_min..=self.args_max).contains(&count) {
            return Ok(());
        }
        let name = self.name.to_ascii_lowercase();
        Err(if self.args_min == self.args_max {
            ValueError::new(174, 1, &[&name, &self.args_min])
        } else {
            ValueError::new(189, 1, &[&name, &self.args_min, &self.args_max])
        })
    }

    /// Result type for arguments of these types (the date part counts as one, of any type).
    pub fn result_type(&self, types: &[DataType]) -> Result<DataType, ValueError> {
        self.check_count(types.len())?;
        (self.result)(&Signature {
            name: self.name,
            types,
        })
    }

    /// Evaluates; `types` are the static types of `args` and `result` what `result_type` gave for them.
    pub fn eval(
        &self,
        args: &[Value],
        types: &[DataType],
        result: DataType,
        context: &EvalContext<'_>,
    ) -> Result<Value, ValueError> {
        if self.propagates_null && args.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        (self.evaluate)(&Call {
            name: self.name,
            args,
            types,
            result,
            context,
        })
    }
}

/// Finds a function by name, in any case.
pub fn lookup(name: &str) -> Option<&'static FunctionDef> {
    static TABLE: LazyLock<HashMap<&'static str, &'static FunctionDef>> =
        LazyLock::new(|| all().map(|def| (def.name, def)).collect());
    TABLE.get(name.to_ascii_uppercase().as_str()).copied()
}

/// Every function of the table.
pub fn all() -> impl Iterator<Item = &'static FunctionDef> {
    [
        string::FUNCTIONS,
        math::FUNCTIONS,
        bits::FUNCTIONS,
        date::FUNCTIONS,
        logic::FUNCTIONS,
        json::FUNCTIONS,
        write::FUNCTIONS,
        xml_rows::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

impl DatePart {
    const ALL: [DatePart; 15] = [
        DatePart::Year,
        DatePart::Quarter,
        DatePart::Month,
        DatePart::DayOfYear,
        DatePart::Day,
        DatePart::Week,
        DatePart::WeekDay,
        DatePart::Hour,
        DatePart::Minute,
        DatePart::Second,
        DatePart::Millisecond,
        DatePart::Microsecond,
        DatePart::Nanosecond,
        DatePart::TzOffset,
        DatePart::IsoWeek,
    ];

    /// The argument that stands for this part in a call.
    pub fn to_value(self) -> Value {
        Value::TinyInt(DatePart::ALL.iter().position(|p| *p == self).unwrap_or(0) as u8)
    }

    fn from_value(value: &Value) -> Option<DatePart> {
        match value {
            Value::TinyInt(at) => DatePart::ALL.get(usize::from(*at)).copied(),
            Value::Str(name) => DatePart::parse(name),
            _ => None,
        }
    }
}

impl Signature<'_> {
    fn at(&self, position: usize) -> DataType {
        self.types.get(position).copied().unwrap_or(DataType::Int)
    }

    /// 8116 for an argument (counted from 0) of a type the function does not take.
    fn invalid(&self, position: usize) -> ValueError {
        ValueError::invalid_argument(self.at(position), position + 1, self.name)
    }

    /// An argument must convert to text by itself.
    fn check_text(&self, position: usize) -> Result<DataType, ValueError> {
        text_type(self.at(position)).ok_or_else(|| self.invalid(position))
    }

    /// An argument must convert to the type by itself.
    fn check(&self, position: usize, to: DataType) -> Result<(), ValueError> {
        if position < self.types.len() {
            check_implicit(self.at(position), to).map_err(|_| self.invalid(position))?;
        }
        Ok(())
    }
}

/// The varying text type that shows every value of a type.
fn text_type(data_type: DataType) -> Option<DataType> {
    use DataType::*;
    let width = match data_type {
        Char(len) | VarChar(len) => return Some(VarChar(len)),
        NChar(len) | NVarChar(len) => return Some(NVarChar(len)),
        Text => return Some(DataType::VARCHAR_MAX),
        NText | Xml => return Some(DataType::NVARCHAR_MAX),
        Binary(len) | VarBinary(len) => return Some(VarChar(len)),
        RowVersion => 8,
        Bit => 1,
        TinyInt => 4,
        SmallInt => 6,
        Int => 12,
        BigInt => 24,
        Decimal { .. } => 41,
        Money | SmallMoney => 30,
        Real | Float => 30,
        Date => 10,
        Time { .. } => 16,
        SmallDateTime | DateTime => 30,
        DateTime2 { .. } => 27,
        DateTimeOffset { .. } => 34,
        UniqueIdentifier => 36,
        HierarchyId => 4000,
        Variant | Image | Geography | Geometry => return None,
    };
    Some(VarChar(Len(width)))
}

/// The type with another length, cut to what the type allows.
fn with_len(data_type: DataType, len: usize) -> DataType {
    match data_type {
        DataType::NVarChar(old) if !old.is_max() => {
            DataType::NVarChar(Len(len.clamp(1, 4000) as u16))
        }
        DataType::VarChar(old) if !old.is_max() => {
            DataType::VarChar(Len(len.clamp(1, 8000) as u16))
        }
        DataType::VarBinary(old) if !old.is_max() => {
            DataType::VarBinary(Len(len.clamp(1, 8000) as u16))
        }
        other => other,
    }
}

/// One evaluation.
struct Call<'a> {
    name: &'static str,
    args: &'a [Value],
    types: &'a [DataType],
    result: DataType,
    context: &'a EvalContext<'a>,
}

impl<'a> Call<'a> {
    fn value(&self, position: usize) -> &'a Value {
        self.args.get(position).unwrap_or(&Value::Null)
    }

    fn type_of(&self, position: usize) -> DataType {
        self.types
            .get(position)
            .copied()
            .unwrap_or_else(|| self.value(position).natural_type())
    }

    fn collation(&self) -> CollationId {
        self.context.convert.collation
    }

    /// The argument converted; NULL stays NULL.
    fn as_type(&self, position: usize, to: DataType) -> Result<Value, ValueError> {
        convert(
            self.value(position),
            self.type_of(position),
            to,
            None,
            &self.context.convert,
        )
    }

    /// The argument as text; NULL as the empty string.
    fn text(&self, position: usize) -> Result<Cow<'a, str>, ValueError> {
        if let Value::Str(text) = self.value(position) {
            return Ok(Cow::Borrowed(text.as_str()));
        }
        let to = match text_type(self.type_of(position)) {
            Some(DataType::NVarChar(_)) => DataType::NVARCHAR_MAX,
            _ => DataType::VARCHAR_MAX,
        };
        Ok(match self.as_type(position, to)? {
            Value::Str(text) => Cow::Owned(text.into_string()),
            _ => Cow::Borrowed(""),
        })
    }

    /// The argument as an integer; NULL as 0.
    fn int(&self, position: usize) -> Result<i64, ValueError> {
        match self.value(position).as_i64() {
            Some(number) => Ok(number),
            None => Ok(self
                .as_type(position, DataType::BigInt)?
                .as_i64()
                .unwrap_or(0)),
        }
    }

    fn int_or(&self, position: usize, default: i64) -> Result<i64, ValueError> {
        if position < self.args.len() {
            self.int(position)
        } else {
            Ok(default)
        }
    }

    fn float(&self, position: usize) -> Result<f64, ValueError> {
        match self.value(position) {
            Value::Float(number) => Ok(*number),
            _ => Ok(self
                .as_type(position, DataType::Float)?
                .as_f64()
                .unwrap_or(0.0)),
        }
    }

    /// The date part in front.
    fn part(&self) -> Result<DatePart, ValueError> {
        let first = self.value(0);
        DatePart::from_value(first)
            .ok_or_else(|| ValueError::new(1023, 1, &[&1, &self.name.to_ascii_lowercase()]))
    }

    /// To be called before a value is built that may be much larger than the arguments: errors 7119 and 701.
    fn take(&self, bytes: usize) -> Result<(), ValueError> {
        if bytes > LARGE_BYTES_MAX {
            return Err(ValueError::too_large());
        }
        match self.context.host.may_take(bytes) {
            true => Ok(()),
            false => Err(ValueError::no_memory()),
        }
    }

    /// Text as the result type.
    fn give_text(&self, text: impl Into<CompactString>) -> Result<Value, ValueError> {
        let text: CompactString = text.into();
        let fits = match self.result {
            DataType::VarChar(len) | DataType::NVarChar(len) => {
                len.is_max() || text.len() <= usize::from(len.0)
            }
            _ => false,
        };
        if fits {
            return Ok(Value::Str(text));
        }
        let from = if self.result.is_unicode() {
            DataType::NVARCHAR_MAX
        } else {
            DataType::VARCHAR_MAX
        };
        convert_owned(
            Value::Str(text),
            from,
            self.result,
            None,
            &self.context.convert,
        )
    }

    /// A number as the result type.
    fn give_int(&self, number: i64) -> Result<Value, ValueError> {
        Value::integer(number, self.result)
            .ok_or_else(|| ValueError::expression_overflow(self.result))
    }

    fn give_float(&self, number: f64) -> Result<Value, ValueError> {
        if number.is_nan() {
            return Err(ValueError::invalid_float());
        }
        Value::approximate(number, self.result)
            .ok_or_else(|| ValueError::expression_overflow(self.result))
    }

    /// Any value of any type as the result type.
    fn give(&self, value: Value, from: DataType) -> Result<Value, ValueError> {
        convert_owned(value, from, self.result, None, &self.context.convert)
    }
}
