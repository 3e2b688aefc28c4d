//! Tests of this room against a small host of its own.

mod concurrency;
mod fixture;
mod measure;
mod statements;
mod writing;

pub use fixture::{INT, TableBuilder, TestHost, varchar};
