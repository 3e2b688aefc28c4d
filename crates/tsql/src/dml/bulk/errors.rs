//! Errors of BULK INSERT.

use crate::error::SqlError;
use crate::messages::{error, error_state, not_supported};

pub fn no_such_file(path: &str) -> SqlError {
    error(4860, &[&path])
}

/// 4861 for anything that keeps the file from being opened or read.
pub fn cannot_read(path: &str, cause: &std::io::Error) -> SqlError {
    let code = match cause.kind() {
        std::io::ErrorKind::ResourceBusy => 32,
        _ => cause.raw_os_error().unwrap_or(0),
    };
    error(4861, &[&path, &format!("{code}({cause})")])
}

/// A format file that says something impossible: 4822 to 4828, the later ones of a field.
pub fn format(number: i32, path: &str, field: Option<usize>) -> SqlError {
    match field {
        Some(field) => error(number, &[&field, &path]),
        None => error(number, &[&path]),
    }
}

/// Neither kind of format file, or one that cannot be read.
pub fn format_unreadable(path: &str) -> SqlError {
    error(4862, &[&path, &"13(The data is invalid.)"])
}

pub fn unexpected_end() -> SqlError {
    error(4832, &[])
}

pub fn truncation(row: u64, column: usize, name: &str) -> SqlError {
    error(4863, &[&row, &column, &name])
}

pub fn type_mismatch(row: u64, column: usize, name: &str) -> SqlError {
    error(4864, &[&row, &column, &name])
}

pub fn too_many_errors(limit: u64) -> SqlError {
    error(4865, &[&limit])
}

pub fn column_too_long(row: u64, column: usize) -> SqlError {
    error(4866, &[&row, &column])
}

pub fn overflow(row: u64, column: usize, name: &str) -> SqlError {
    error(4867, &[&row, &column, &name])
}

pub fn unexpected_null(row: u64, column: usize, name: &str) -> SqlError {
    error(4869, &[&row, &column, &name])
}

pub fn invalid_csv(path: &str, row: u64, column: usize) -> SqlError {
    error(4879, &[&path, &row, &column])
}

pub fn bad_option(name: &str) -> SqlError {
    error_state(155, 2, &[&name, &"BULK INSERT"])
}

pub fn bad_value(name: &str) -> SqlError {
    not_supported(&format!("{name} of BULK INSERT with this value"))
}
