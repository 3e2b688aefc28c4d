//! Loading one table: by bulk load, or by INSERT statements for a server that refuses it.

use super::data::TableData;
use super::text::{self, FieldError};
use daruma_client::client::{Client, ClientError};
use daruma_tds::WireCollation;
use daruma_tds::token::Column;
use daruma_value::DataType;
use thiserror::Error;

/// Rows of one bulk load, which is one transaction.
const BULK_ROWS: usize = 50_000;
/// SQL Server takes at most 1,000 rows in VALUES; fewer keep the statement short.
const INSERT_ROWS: usize = 250;

/// Why a table was not loaded; each names the table.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error("{table}: {source}")]
    Server { table: String, source: ClientError },
    #[error("{table}: {source}")]
    Csv { table: String, source: csv::Error },
    #[error("{table}, row {row}, column {column}: {source}")]
    Field {
        table: String,
        row: u64,
        column: String,
        source: FieldError,
    },
}

/// How rows get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Bulk,
    Insert,
}

/// A column of the file that is loaded: its place there, name and type.
#[derive(Clone, Debug)]
struct FileColumn {
    at: usize,
    name: String,
    data_type: DataType,
}

/// Loads tables over one connection.
pub struct Loader<'a> {
    client: &'a mut Client,
    pub method: Method,
}

impl<'a> Loader<'a> {
    /// Uses the connection's current database.
    pub fn new(client: &'a mut Client, method: Method) -> Loader<'a> {
        Loader { client, method }
    }

    /// Loads all rows of a file; `progress` gets the number of rows as they are sent.
    pub fn table(
        &mut self,
        table: &TableData,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, LoadError> {
        let server = |source| LoadError::Server {
            table: table.quoted(),
            source,
        };
        if table.has_identity {
            self.client
                .execute(&format!("SET IDENTITY_INSERT {} ON", table.quoted()))
                .map_err(server)?;
        }
        let rows = self.rows(table, progress)?;
        if table.has_identity {
            self.client
                .execute(&format!("SET IDENTITY_INSERT {} OFF", table.quoted()))
                .map_err(server)?;
        }
        Ok(rows)
    }

    fn rows(&mut self, table: &TableData, progress: &mut dyn FnMut(u64)) -> Result<u64, LoadError> {
        let csv_error = |source| LoadError::Csv {
            table: table.quoted(),
            source,
        };
        let mut reader = table.reader();
        let columns = file_columns(table, reader.headers().map_err(csv_error)?);
        let mut records = reader.into_records().peekable();
        let mut count = 0;
        while records.peek().is_some() {
            let limit = if self.method == Method::Bulk {
                BULK_ROWS
            } else {
                INSERT_ROWS
            };
            let accepted = self.method == Method::Insert || self.begin_bulk(table, &columns)?;
            if !accepted {
                continue;
            }
            let mut part = records
                .by_ref()
                .take(limit)
                .map(|record| record.map_err(csv_error));
            count += match self.method {
                Method::Bulk => self.bulk(table, &columns, count, &mut part, progress)?,
                Method::Insert => self.insert(table, &columns, &mut part, progress)?,
            };
        }
        Ok(count)
    }

    /// False: the server does not know bulk load; from now on INSERT is used.
    fn begin_bulk(&mut self, table: &TableData, columns: &[FileColumn]) -> Result<bool, LoadError> {
        match self.client.execute(&insert_bulk(table, columns)) {
            Ok(()) => Ok(true),
            Err(ClientError::Server { .. }) => {
                self.method = Method::Insert;
                Ok(false)
            }
            Err(source) => Err(LoadError::Server {
                table: table.quoted(),
                source,
            }),
        }
    }

    fn bulk(
        &mut self,
        table: &TableData,
        columns: &[FileColumn],
        before: u64,
        records: &mut dyn Iterator<Item = Result<csv::StringRecord, LoadError>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, LoadError> {
        let server = |source| LoadError::Server {
            table: table.quoted(),
            source,
        };
        let version = self.client.version();
        let wire: Vec<Column> = columns
            .iter()
            .map(|column| {
                Column::new(
                    &column.name,
                    column.data_type,
                    true,
                    WireCollation::DEFAULT,
                    version,
                )
            })
            .collect();
        let mut load = self.client.bulk(&wire).map_err(server)?;
        let (mut sent, mut row) = (0, Vec::with_capacity(columns.len()));
        for record in records {
            let record = record?;
            row.clear();
            for column in columns {
                let value =
                    text::value(record.get(column.at).unwrap_or_default(), column.data_type);
                row.push(value.map_err(|source| LoadError::Field {
                    table: table.quoted(),
                    row: before + sent + 1,
                    column: column.name.clone(),
                    source,
                })?);
            }
            load.row(&row).map_err(server)?;
            sent += 1;
            progress(1);
        }
        load.finish().map_err(server)?;
        Ok(sent)
    }

    fn insert(
        &mut self,
        table: &TableData,
        columns: &[FileColumn],
        records: &mut dyn Iterator<Item = Result<csv::StringRecord, LoadError>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, LoadError> {
        let mut rows = Vec::new();
        for record in records {
            let record = record?;
            let fields: Vec<String> = columns
                .iter()
                .map(|column| {
                    text::literal(record.get(column.at).unwrap_or_default(), column.data_type)
                })
                .collect();
            rows.push(format!("({})", fields.join(", ")));
        }
        let names: Vec<String> = columns
            .iter()
            .map(|column| format!("[{}]", column.name))
            .collect();
        let statement = format!(
            "INSERT INTO {} ({}) VALUES\n{}",
            table.quoted(),
            names.join(", "),
            rows.join(",\n")
        );
        self.client
            .execute(&statement)
            .map_err(|source| LoadError::Server {
                table: table.quoted(),
                source,
            })?;
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        progress(count);
        Ok(count)
    }
}

/// The columns to load; what the table computes stays out.
fn file_columns(table: &TableData, headers: &csv::StringRecord) -> Vec<FileColumn> {
    let columns = headers.iter().enumerate();
    columns
        .filter_map(|(at, name)| {
            Some(FileColumn {
                at,
                name: name.into(),
                data_type: table.data_type(name)?,
            })
        })
        .collect()
}

fn insert_bulk(table: &TableData, columns: &[FileColumn]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|column| format!("[{}] {}", column.name, column.data_type))
        .collect();
    format!(
        "INSERT BULK {} ({}) WITH (TABLOCK, CHECK_CONSTRAINTS)",
        table.quoted(),
        columns.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::data::tables;

    #[test]
    fn computed_columns_stay_out_of_the_statement() {
        let tables = tables();
        let table = tables
            .iter()
            .find(|table| table.table == "SalesOrderDetail")
            .expect("the table");
        let columns = file_columns(table, table.reader().headers().expect("a header"));
        let statement = insert_bulk(table, &columns);
        assert!(
            statement.starts_with("INSERT BULK [Sales].[SalesOrderDetail] ([SalesOrderID] int, "),
            "{statement}"
        );
        assert!(
            !statement.contains("LineTotal") && statement.contains("[UnitPrice] money"),
            "{statement}"
        );
    }

    #[test]
    fn every_field_converts() {
        let mut rows = 0;
        for table in tables() {
            let mut reader = table.reader();
            let columns = file_columns(&table, reader.headers().expect("a header"));
            for (at, record) in reader.records().enumerate() {
                let record = record.expect("a record");
                rows += 1;
                // Every row is counted, some are converted: a debug build takes its time.
                if at % 16 > 0 {
                    continue;
                }
                for column in &columns {
                    let field = record.get(column.at).unwrap_or_default();
                    text::value(field, column.data_type).unwrap_or_else(|error| {
                        panic!("{}.{}: {error}", table.quoted(), column.name)
                    });
                }
            }
        }
        assert_eq!(rows, crate::sample::data::ROWS_TOTAL);
    }
}
