//! Binder: from syntax to a bound tree, every name resolved and every type known.
//!
//! Read next: `tree`.

pub mod tree;
