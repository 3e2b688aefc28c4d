//! Types and values on the wire.
//!
//! Theory: `TypeInfo` is the wire's description of a type; it maps to and from `DataType`. `ValueEncoder` is prepared
//! once from a `TypeInfo` and then writes values, converting a `Value` whose variant is narrower or wider than the
//! declared type. `decode_value` reads one value under a `TypeInfo`.
//!
//! Invariants
//! 1. What `ValueEncoder` writes for a `TypeInfo`, `decode_value` reads under the same `TypeInfo` and `Place`.
//! 2. A failed encode leaves the output as it was.

mod collation;
mod decode;
mod encode;
mod info;
mod numeric;
mod plp;
mod temporal;
pub mod type_token;
mod variant;

#[cfg(test)]
mod tests;

pub use collation::WireCollation;
pub(crate) use decode::decode_value;
pub use encode::ValueEncoder;
pub use info::{TypeInfo, UdtName, XmlSchema};

/// Where a type or value stands; a few old types differ in form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Columns of a result and of bulk load: text types carry a pointer.
    Column,
    /// Parameters of a call.
    Parameter,
}
