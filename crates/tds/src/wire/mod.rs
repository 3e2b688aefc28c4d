//! Bytes: a bounded reader, writers for the protocol's counted strings, text conversion.
//!
//! Invariants
//! 1. `Reader` never reads past its slice and never panics; a short read is an error that says what was wanted.
//! 2. A reader made by `sub` covers a structure of known length: running off its end is an overrun, not truncation.

pub mod codepage;
mod put;
mod reader;
pub mod text;
mod window;

pub(crate) use put::{
    end_u16_length, put_b_varbyte, put_b_varchar, put_us_varbyte, put_us_varchar, start_u16_length,
};
pub(crate) use reader::Reader;
pub(crate) use window::Window;
