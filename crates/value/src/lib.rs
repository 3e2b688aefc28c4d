//! SQL Server's data types and values: what a column can hold, how values compare, convert and combine.
//!
//! Theory: a [`DataType`] describes a column or expression, a [`Value`] is one datum. Text of every character type is
//! held as UTF-8 in memory; the static type says whether it counts as `varchar` (code page) or `nvarchar` (UTF-16).
//! Everything here is pure: no clock, no I/O, no catalog. Both the wire protocol and the engine build on it.
//!
//! Read next: `datatype`, `value`, `convert`, `row`, `column`.

pub mod arithmetic;
pub mod collation;
pub mod column;
pub mod compare;
pub mod convert;
pub mod datatype;
pub mod decimal;
pub mod error;
pub mod functions;
pub mod json;
pub mod keyenc;
pub mod row;
pub mod temporal;
#[cfg(test)]
mod testing;
pub mod types;
pub mod value;
pub mod xml;

/// Longest value that an expression builds. The product says 2 GB; a server that others share says less.
pub const LARGE_BYTES_MAX: usize = 256 << 20;

pub use collation::CollationId;
pub use compare::compare;
pub use datatype::{DataType, Len};
pub use error::ValueError;
pub use value::{
    DateTime, DateTime2, DateTimeOffset, Decimal, SmallDateTime, Time, Value, VariantValue,
};
