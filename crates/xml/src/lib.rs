//! XML documents and the part of XQuery that T-SQL's methods speak: query, value, exist, nodes and modify. And OPENXML.
//!
//! Theory: a [`Document`] is a table of nodes in document order, made from a text in one pass. A [`Query`] is parsed and
//! checked once; running it never changes the document: modify gathers edits and writes a new text. What fails while an
//! expression runs (a text that is no number, a division by zero) gives the empty sequence, as in the product; errors are
//! for queries that say something impossible.
//!
//! Invariants
//! 1. Depth is bounded on both sides: elements by `value::xml::DEPTH_MAX`, expressions by [`NESTING_MAX`].
//! 2. The caller that runs a query is asked by [`Meter`] whether it may go on, at each thousandth step and before large texts are made.
//! 3. Nothing here panics, whatever the document or the query.
//!
//! Errors have the product's numbers; their words are in the table of messages of the statements' room.

mod ast;
mod atom;
mod document;
mod eval;
mod function;
mod infer;
mod lexer;
mod modify;
mod parse;
mod query;
mod rowset;
#[cfg(test)]
mod tests;
mod write;

pub use atom::{Atom, AtomType};
pub use document::{Document, NodeId};
pub use query::{External, Given, Method, Namespace, Query};
pub use rowset::{Edge, Found, Mapping, Meta, Pattern, Prepared};

use daruma_value::ValueError;
use std::fmt::Display;

/// Expressions within expressions: error 2363.
pub const NESTING_MAX: usize = 96;
/// Longest query, in bytes: error 2363.
pub const QUERY_BYTES_MAX: usize = 1 << 20;

/// Why a query does not run, or no further.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A message of the product with what its places hold, but for the first, the method.
    Query { number: i32, args: Vec<String> },
    /// The document is not well-formed, or too large.
    Document(ValueError),
    /// The [`Meter`] said no.
    Stopped,
}

/// Result of everything that may fail here.
pub type Result<T> = std::result::Result<T, Error>;

impl From<ValueError> for Error {
    fn from(error: ValueError) -> Error {
        Error::Document(error)
    }
}

pub(crate) fn error<T>(number: i32, args: &[&dyn Display]) -> Result<T> {
    let args = args.iter().map(ToString::to_string).collect();
    Err(Error::Query { number, args })
}

/// Says whether work goes on: not when the client has left or memory is used up.
pub trait Meter {
    /// May so many bytes more be taken now?
    fn goes_on(&self, bytes: usize) -> bool;
}

/// A thread with little stack left goes on in a new segment.
pub(crate) fn with_stack<T>(f: impl FnOnce() -> T) -> T {
    const LEFT_MIN_BYTES: usize = 256 << 10;
    const SEGMENT_BYTES: usize = 2 << 20;
    stacker::maybe_grow(LEFT_MIN_BYTES, SEGMENT_BYTES, f)
}
