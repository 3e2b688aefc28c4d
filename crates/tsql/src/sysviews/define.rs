//! How a system view is described: one line of text per column, and a function that fills rows by column name.
//!
//! Theory: clients read these views with `SELECT *`, so the column lists are the product's, complete and in its order,
//! though most columns hold constants here. A description therefore carries types and defaults, and code sets only
//! what it knows. Values are converted to the column's type when they are set, so a row always fits its description.
//!
//! Grammar of a description: `name type[?] [= default]`, separated by semicolons. `?` marks a nullable column. Without
//! a default a nullable column is NULL and another one zero or empty. A `~` in a name stands for a blank.
//!
//! Invariant: every description parses (test over all views).

use super::source::Source;
use crate::error::Result;
use crate::host::{Host, VirtualTable};
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_value::temporal::Moment;
use daruma_value::{CollationId, DataType, Decimal, Len, Value, VariantValue};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// A system view or table-valued system function.
pub(crate) struct View {
    pub schema: &'static str,
    pub name: &'static str,
    pub columns: &'static str,
    /// Fewest and most arguments of a function; both 0 for a view.
    pub arguments: (usize, usize),
    pub fill: Fill,
}

pub(crate) type Fill = fn(&Source<'_>, &mut Rows<'_>) -> Result<()>;

impl View {
    /// A view of the schema `sys`.
    pub const fn sys(name: &'static str, columns: &'static str, fill: Fill) -> View {
        View::new("sys", name, columns, fill)
    }

    /// A view: its columns as a line of text, its rows by a function.
    pub const fn new(
        schema: &'static str,
        name: &'static str,
        columns: &'static str,
        fill: Fill,
    ) -> View {
        View {
            schema,
            name,
            columns,
            arguments: (0, 0),
            fill,
        }
    }

    /// A table-valued function of `sys` with so many arguments, least and most.
    pub const fn function(
        name: &'static str,
        arguments: (usize, usize),
        columns: &'static str,
        fill: Fill,
    ) -> View {
        View {
            schema: "sys",
            name,
            columns,
            arguments,
            fill,
        }
    }

    /// A view that is there and has no rows.
    pub const fn empty(name: &'static str, columns: &'static str) -> View {
        View::sys(name, columns, nothing)
    }
}

/// Fills nothing.
pub(crate) fn nothing(_: &Source<'_>, _: &mut Rows<'_>) -> Result<()> {
    Ok(())
}

/// A view with its description parsed, on first use.
pub(crate) struct Registered {
    view: &'static View,
    shape: OnceLock<Shape>,
}

/// Columns and the row of defaults: a description, parsed.
pub(crate) struct Shape {
    pub columns: Vec<OutputColumn>,
    template: Vec<Value>,
}

impl Shape {
    /// Reads the line of text that describes columns and their defaults.
    pub fn new(description: &'static str) -> Shape {
        let (columns, template) = parse(description).map(|c| (c.column, c.default)).unzip();
        Shape { columns, template }
    }

    /// The rows that `fill` adds, each cell it does not set at its default.
    pub fn fill(&self, fill: impl FnOnce(&mut Rows<'_>) -> Result<()>) -> Result<Vec<Vec<Value>>> {
        let mut rows = Rows {
            columns: &self.columns,
            template: &self.template,
            list: Vec::new(),
            hint: 0,
        };
        fill(&mut rows)?;
        Ok(rows.list)
    }
}

impl Registered {
    /// The view, its line of text not read yet.
    pub fn new(view: &'static View) -> Registered {
        Registered {
            view,
            shape: OnceLock::new(),
        }
    }

    fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| Shape::new(self.view.columns))
    }
}

impl VirtualTable for Registered {
    fn name(&self) -> &str {
        self.view.name
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.shape().columns
    }

    fn arguments(&self) -> RangeInclusive<usize> {
        let (fewest, most) = self.view.arguments;
        fewest..=most
    }

    fn rows(
        &self,
        host: &dyn Host,
        database: DatabaseId,
        arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>> {
        let source = Source::new(host, database, arguments);
        self.shape().fill(|rows| (self.view.fill)(&source, rows))
    }
}

/// Rows of one view while they are made.
pub(crate) struct Rows<'a> {
    columns: &'a [OutputColumn],
    template: &'a [Value],
    list: Vec<Vec<Value>>,
    /// Position after the column set last: names mostly come in order.
    hint: usize,
}

impl Rows<'_> {
    /// Starts a row with every column at its default; [`Rows::set`] changes the row started last.
    pub fn add(&mut self) -> &mut Self {
        self.list.push(self.template.to_vec());
        self.hint = 0;
        self
    }

    /// Sets a cell of the last row by the column's name.
    pub fn set(&mut self, name: &str, cell: impl Into<Cell>) -> &mut Self {
        let at = self.position(name);
        debug_assert!(at.is_some(), "no column {name}");
        if let Some(at) = at
            && let Some(column) = self.columns.get(at)
            && let Some(slot) = self.list.last_mut().and_then(|row| row.get_mut(at))
        {
            let value = cell.into().into_value(column.data_type);
            let fits = column.nullable || !value.is_null() || column.data_type == DataType::Variant;
            debug_assert!(fits, "NULL in {name}");
            *slot = if fits { value } else { zero(column.data_type) };
            self.hint = at + 1;
        }
        self
    }

    /// Sets the column if the view has it: for functions that fill several views.
    pub fn set_if_present(&mut self, name: &str, cell: impl Into<Cell>) -> &mut Self {
        match self.position(name) {
            Some(_) => self.set(name, cell),
            None => self,
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        match self.columns.get(self.hint) {
            Some(column) if column.name == name => Some(self.hint),
            _ => self.columns.iter().position(|c| c.name == name),
        }
    }
}

/// A value on its way into a column.
pub(crate) enum Cell {
    Null,
    Number(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Moment(Option<Moment>),
    /// Already of the column's type, or any value for `sql_variant`.
    Typed(DataType, Value),
}

impl Cell {
    fn into_value(self, to: DataType) -> Value {
        match (self, to) {
            (Cell::Null, _) => Value::Null,
            (Cell::Typed(from, value), DataType::Variant) if !value.is_null() => {
                variant(from, value)
            }
            (Cell::Typed(_, value), _) => value,
            (Cell::Number(n), _) => number(n, to),
            (Cell::Float(f), DataType::Real) => Value::Real(f as f32),
            (Cell::Float(f), DataType::Float) => Value::Float(f),
            (Cell::Float(f), _) => number(f as i128, to),
            (Cell::Text(text), _) => text_value(text, to),
            (Cell::Bytes(bytes), _) => bytes_value(bytes, to),
            (Cell::Moment(moment), _) => moment.and_then(|m| m.to_value(to)).unwrap_or(Value::Null),
        }
    }
}

fn variant(data_type: DataType, value: Value) -> Value {
    Value::Variant(Box::new(VariantValue { data_type, value }))
}

fn number(n: i128, to: DataType) -> Value {
    match to {
        DataType::Bit => Value::Bit(n != 0),
        DataType::TinyInt => Value::TinyInt(clamp(n)),
        DataType::SmallInt => Value::SmallInt(clamp(n)),
        DataType::Int => Value::Int(clamp(n)),
        DataType::BigInt => Value::BigInt(clamp(n)),
        DataType::Decimal { precision, scale } => Value::Decimal(Decimal::new(
            n.saturating_mul(10i128.pow(u32::from(scale))),
            precision,
            scale,
        )),
        DataType::Real => Value::Real(n as f32),
        DataType::Float => Value::Float(n as f64),
        DataType::Variant => match i32::try_from(n) {
            Ok(n) => variant(DataType::Int, Value::Int(n)),
            Err(_) => variant(DataType::BigInt, Value::BigInt(clamp(n))),
        },
        _ => text_value(n.to_string(), to),
    }
}

/// The number, or the nearest one the type can hold.
fn clamp<T: TryFrom<i128> + Bounds>(n: i128) -> T {
    T::try_from(n).unwrap_or(if n < 0 { T::LEAST } else { T::GREATEST })
}

trait Bounds {
    const LEAST: Self;
    const GREATEST: Self;
}

macro_rules! bounds {
    ($($t:ty),+) => { $(impl Bounds for $t {
        const LEAST: $t = <$t>::MIN;
        const GREATEST: $t = <$t>::MAX;
    })+ };
}
bounds!(u8, i16, i32, i64);

fn text_value(mut text: String, to: DataType) -> Value {
    match to {
        DataType::Variant => return variant(DataType::NVarChar(Len(4_000)), Value::str(text)),
        DataType::Char(len) | DataType::NChar(len) => {
            while text.chars().count() < usize::from(len.0) {
                text.push(' ');
            }
        }
        DataType::NVarChar(len) | DataType::VarChar(len) if !len.is_max() => {
            if let Some((end, _)) = text.char_indices().nth(usize::from(len.0)) {
                text.truncate(end);
            }
        }
        _ => {}
    }
    Value::str(text)
}

fn bytes_value(mut bytes: Vec<u8>, to: DataType) -> Value {
    match to {
        DataType::UniqueIdentifier => {
            let mut guid = [0; 16];
            bytes.resize(16, 0);
            guid.copy_from_slice(&bytes);
            Value::Guid(guid)
        }
        DataType::Binary(len) => {
            bytes.resize(usize::from(len.0), 0);
            Value::Bytes(bytes)
        }
        _ => Value::Bytes(bytes),
    }
}

macro_rules! cell_of_number {
    ($($t:ty),+) => { $(impl From<$t> for Cell {
        fn from(n: $t) -> Cell {
            Cell::Number(i128::from(n))
        }
    })+ };
}
cell_of_number!(bool, u8, i16, u16, i32, u32, i64, u64, i128);

impl From<usize> for Cell {
    fn from(n: usize) -> Cell {
        Cell::Number(n as i128)
    }
}

impl From<f64> for Cell {
    fn from(f: f64) -> Cell {
        Cell::Float(f)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::Text(text.clone())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<(DataType, Value)> for Cell {
    fn from((data_type, value): (DataType, Value)) -> Cell {
        Cell::Typed(data_type, value)
    }
}

impl From<Vec<u8>> for Cell {
    fn from(bytes: Vec<u8>) -> Cell {
        Cell::Bytes(bytes)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

struct Described {
    column: OutputColumn,
    default: Value,
}

fn parse(description: &'static str) -> impl Iterator<Item = Described> {
    let lines = description.split(';').map(str::trim);
    lines.filter(|line| !line.is_empty()).map(|line| {
        let parsed = parse_line(line);
        debug_assert!(parsed.is_some(), "bad column description: {line}");
        parsed.unwrap_or_else(|| described(line, DataType::NVARCHAR_MAX, true, None))
    })
}

fn parse_line(line: &'static str) -> Option<Described> {
    let (declared, default) = match line.split_once('=') {
        Some((declared, default)) => (declared.trim(), Some(default.trim())),
        None => (line, None),
    };
    let (name, type_name) = declared.split_once(char::is_whitespace)?;
    let type_name = type_name.trim();
    let (type_name, nullable) = match type_name.strip_suffix('?') {
        Some(type_name) => (type_name.trim_end(), true),
        None => (type_name, false),
    };
    Some(described(name, parse_type(type_name)?, nullable, default))
}

fn described(name: &str, data_type: DataType, nullable: bool, default: Option<&str>) -> Described {
    let default = match default {
        Some(text) => default_value(text, data_type),
        None if nullable => Value::Null,
        None => zero(data_type),
    };
    let column = OutputColumn {
        name: name.replace('~', " "),
        data_type,
        collation: CollationId::DEFAULT,
        nullable,
        identity: false,
        computed: false,
    };
    Described { column, default }
}

pub(crate) fn default_value(text: &str, data_type: DataType) -> Value {
    if data_type.is_binary() && text == "0x" {
        return bytes_value(Vec::new(), data_type);
    }
    match text.parse::<i64>() {
        Ok(n) => Cell::from(n).into_value(data_type),
        Err(_) => Cell::from(text).into_value(data_type),
    }
}

fn zero(data_type: DataType) -> Value {
    match data_type {
        DataType::Variant => Value::Null,
        t if t.is_temporal() => Moment::new(daruma_value::temporal::DAYS_TO_1900, 0)
            .to_value(t)
            .unwrap_or(Value::Null),
        t if t.is_binary() => bytes_value(Vec::new(), t),
        DataType::UniqueIdentifier => Value::Guid([0; 16]),
        t if t.is_character() => text_value(String::new(), t),
        t => number(0, t),
    }
}

/// Types that descriptions use.
pub(crate) fn parse_type(text: &str) -> Option<DataType> {
    let (name, arguments) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')?),
        None => (text, ""),
    };
    let len = || match arguments {
        "max" => Some(Len::MAX),
        n => n.parse().ok().map(Len),
    };
    let scale = || arguments.parse().unwrap_or(7);
    Some(match name {
        "bit" => DataType::Bit,
        "tinyint" => DataType::TinyInt,
        "smallint" => DataType::SmallInt,
        "int" => DataType::Int,
        "bigint" => DataType::BigInt,
        "real" => DataType::Real,
        "float" => DataType::Float,
        "date" => DataType::Date,
        "time" => DataType::Time { scale: scale() },
        "datetime" => DataType::DateTime,
        "datetime2" => DataType::DateTime2 { scale: scale() },
        "datetimeoffset" => DataType::DateTimeOffset { scale: scale() },
        "sysname" => DataType::SYSNAME,
        "char" => DataType::Char(len()?),
        "varchar" => DataType::VarChar(len()?),
        "nchar" => DataType::NChar(len()?),
        "nvarchar" => DataType::NVarChar(len()?),
        "text" => DataType::Text,
        "ntext" => DataType::NText,
        "binary" => DataType::Binary(len()?),
        "varbinary" => DataType::VarBinary(len()?),
        "image" => DataType::Image,
        "uniqueidentifier" => DataType::UniqueIdentifier,
        "sql_variant" => DataType::Variant,
        "xml" => DataType::Xml,
        "decimal" | "numeric" => {
            let (precision, scale) = arguments.split_once(',')?;
            DataType::Decimal {
                precision: precision.trim().parse().ok()?,
                scale: scale.trim().parse().ok()?,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_carry_types_and_defaults() {
        let columns: Vec<Described> =
            parse("a int; b sysname?; c tinyint = 2;\n d nvarchar(60) = CHECKSUM; e bit?")
                .collect();
        let types: Vec<DataType> = columns.iter().map(|c| c.column.data_type).collect();
        assert_eq!(
            types,
            [
                DataType::Int,
                DataType::SYSNAME,
                DataType::TinyInt,
                DataType::NVarChar(Len(60)),
                DataType::Bit
            ]
        );
        let defaults: Vec<Value> = columns.iter().map(|c| c.default.clone()).collect();
        assert_eq!(
            defaults,
            [
                Value::Int(0),
                Value::Null,
                Value::TinyInt(2),
                Value::str("CHECKSUM"),
                Value::Null
            ]
        );
        assert_eq!(
            columns
                .iter()
                .map(|c| c.column.nullable)
                .collect::<Vec<_>>(),
            [false, true, false, false, true]
        );
    }

    #[test]
    fn cells_become_what_the_column_holds() {
        assert_eq!(
            Cell::from(300).into_value(DataType::TinyInt),
            Value::TinyInt(255)
        );
        assert_eq!(Cell::from(true).into_value(DataType::Bit), Value::Bit(true));
        assert_eq!(
            Cell::from("U").into_value(DataType::Char(Len(2))),
            Value::str("U ")
        );
        assert_eq!(
            Cell::from("abc").into_value(DataType::NVarChar(Len(2))),
            Value::str("ab")
        );
        assert_eq!(
            Cell::from(5).into_value(DataType::Decimal {
                precision: 10,
                scale: 2
            }),
            Value::Decimal(Decimal::new(500, 10, 2))
        );
        assert_eq!(
            Cell::from(7u8).into_value(DataType::Variant),
            variant(DataType::Int, Value::Int(7))
        );
    }
}
