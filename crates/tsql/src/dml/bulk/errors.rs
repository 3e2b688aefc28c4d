//! Errors of BULK INSERT.

use crate::error::SqlError;

pub fn no_such_file(path: &str) -> SqlError {
    SqlError::new(
        4860,
        16,
        1,
        format!(
            "Cannot bulk load. The file \"{path}\" does not exist or you don't have file access rights."
        ),
    )
}

pub fn cannot_open(path: &str, error: &std::io::Error) -> SqlError {
    let code = error.raw_os_error().unwrap_or(0);
    let text = format!(
        "Cannot bulk load because the file \"{path}\" could not be opened. Operating system error code {code}({error})."
    );
    SqlError::new(4861, 16, 1, text)
}

pub fn cannot_read(path: &str, error: &std::io::Error) -> SqlError {
    let code = error.raw_os_error().unwrap_or(0);
    let text = format!(
        "Cannot bulk load because the file \"{path}\" could not be read. Operating system error code {code}({error})."
    );
    SqlError::new(4861, 16, 1, text)
}

pub fn unexpected_end() -> SqlError {
    SqlError::new(
        4832,
        16,
        1,
        "Bulk load: An unexpected end of file was encountered in the data file.",
    )
}

pub fn truncation(row: u64, column: usize, name: &str) -> SqlError {
    let text = format!(
        "Bulk load data conversion error (truncation) for row {row}, column {column} ({name})."
    );
    SqlError::new(4863, 16, 1, text)
}

pub fn type_mismatch(row: u64, column: usize, name: &str) -> SqlError {
    let text = format!(
        "Bulk load data conversion error (type mismatch or invalid character for the specified codepage) for row {row}, column {column} ({name})."
    );
    SqlError::new(4864, 16, 1, text)
}

pub fn too_many_errors(limit: u64) -> SqlError {
    SqlError::new(
        4865,
        16,
        1,
        format!("Cannot bulk load because the maximum number of errors ({limit}) was exceeded."),
    )
}

pub fn column_too_long(row: u64, column: usize) -> SqlError {
    let text = format!(
        "The bulk load failed. The column is too long in the data file for row {row}, column {column}. Verify that the field terminator and row terminator are specified correctly."
    );
    SqlError::new(4866, 16, 1, text)
}

pub fn overflow(row: u64, column: usize, name: &str) -> SqlError {
    let text = format!(
        "Bulk load data conversion error (overflow) for row {row}, column {column} ({name})."
    );
    SqlError::new(4867, 16, 1, text)
}

pub fn unexpected_null(row: u64, column: usize, name: &str) -> SqlError {
    let text = format!(
        "The bulk load failed. Unexpected NULL value in data file row {row}, column {column}. The destination column ({name}) is defined as NOT NULL."
    );
    SqlError::new(4869, 16, 1, text)
}

pub fn invalid_csv(path: &str, row: u64, column: usize) -> SqlError {
    let text = format!(
        "Bulk load failed due to invalid column value in CSV data file {path} in row {row}, column {column}."
    );
    SqlError::new(4879, 16, 1, text)
}

pub fn bad_option(name: &str) -> SqlError {
    SqlError::new(
        155,
        15,
        2,
        format!("'{name}' is not a recognized BULK INSERT option."),
    )
}

pub fn bad_value(name: &str) -> SqlError {
    SqlError::new(
        4838,
        16,
        1,
        format!("The bulk data source does not support the value given for {name}."),
    )
}
