//! Errors of BULK INSERT.

use crate::error::SqlError;
use crate::messages::{error, error_state, not_supported};

/// 4860: the file is not there.
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

/// 4832: the file ends inside a row.
pub fn unexpected_end() -> SqlError {
    error(4832, &[])
}

/// 4863: a field is longer than its column.
pub fn truncation(row: u64, column: usize, name: &str) -> SqlError {
    error(4863, &[&row, &column, &name])
}

/// 4864: a field is no value of its column's type.
pub fn type_mismatch(row: u64, column: usize, name: &str) -> SqlError {
    error(4864, &[&row, &column, &name])
}

/// 4865: more rows were refused than MAXERRORS allows.
pub fn too_many_errors(limit: u64) -> SqlError {
    error(4865, &[&limit])
}

/// 4866: a field is longer than anything that may be read.
pub fn column_too_long(row: u64, column: usize) -> SqlError {
    error(4866, &[&row, &column])
}

/// 4867: a number does not fit its column.
pub fn overflow(row: u64, column: usize, name: &str) -> SqlError {
    error(4867, &[&row, &column, &name])
}

/// 4869: an empty field for a column that does not allow NULL.
pub fn unexpected_null(row: u64, column: usize, name: &str) -> SqlError {
    error(4869, &[&row, &column, &name])
}

/// 4879: quotes that do not match in a CSV file.
pub fn invalid_csv(path: &str, row: u64, column: usize) -> SqlError {
    error(4879, &[&path, &row, &column])
}

/// 155: an option that BULK INSERT does not have.
pub fn bad_option(name: &str) -> SqlError {
    error_state(155, 2, &[&name, &"BULK INSERT"])
}

/// 40517: an option with a value that is not supported.
pub fn bad_value(name: &str) -> SqlError {
    not_supported(&format!("{name} of BULK INSERT with this value"))
}
