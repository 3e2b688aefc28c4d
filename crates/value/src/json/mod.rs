//! JSON as T-SQL knows it: texts that are checked, walked along a path, and changed in place.
//!
//! Theory: a JSON text stays text. What a path finds is a slice of it, so numbers keep their digits, objects the order of
//! their keys and all blanks, and a change is a new text with one slice replaced. A text is checked whole before anything
//! is read of it; afterwards values are passed over without a tree being built, and no memory is taken.
//!
//! A library's tree would lose what is asked for here: the first of two equal keys, digits, blanks, and the place and the
//! character of a fault, which are in the product's messages (13607, 13609).
//!
//! Read next: `scan`, `path`, `modify`, `write`.

pub mod base64;
mod modify;
mod path;
mod scan;
mod write;

pub use modify::modify;
pub use path::{Found, Path, Step};
pub use scan::{Kind, Node, parse, parse_container};
pub use write::{put_key, put_string, put_value};

use crate::ValueError;

/// Levels of objects and arrays within each other.
pub const DEPTH_MAX: usize = 128;

/// A character that does not belong where it stands; a text that ends too early has a point there.
fn unexpected(number: i32, text: &str, at: usize) -> ValueError {
    let rest = text.get(at..).unwrap_or_default();
    let found = rest.chars().next().unwrap_or('.');
    let before = text.get(..at).unwrap_or(text);
    let position: usize = before.chars().map(char::len_utf16).sum();
    ValueError::new(number, 4, &[&found, &position])
}

#[cfg(test)]
mod tests;
