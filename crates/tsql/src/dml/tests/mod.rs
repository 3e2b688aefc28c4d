//! Tests of this room against a small host of its own.

mod fixture;
mod statements;
mod writing;
