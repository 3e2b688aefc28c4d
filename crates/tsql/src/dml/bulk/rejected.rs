//! ERRORFILE of BULK INSERT: the rows that were refused, as they stood in the data file, and in a file beside it where they
//! stood and why.
//!
//! Both files are made when the load begins and must not exist; they stay when the load fails.

use super::errors;
use crate::error::{Result, SqlError};
use daruma_base::{Disk, DiskFile, OpenMode};
use std::path::Path;
use std::sync::Arc;

/// HRESULT of a value that cannot be converted, which the product writes for every refused row.
const TYPE_MISMATCH: &str = "0x80020005";

/// Where refused rows go.
pub struct Rejected {
    rows: Written,
    told: Written,
}

struct Written {
    path: String,
    file: Arc<dyn DiskFile>,
    len: u64,
}

impl Rejected {
    /// Makes the files of ERRORFILE; one that is there already is an error.
    pub fn create(disk: &Arc<dyn Disk>, path: &str) -> Result<Rejected> {
        Ok(Rejected {
            rows: Written::create(disk, path.to_string())?,
            told: Written::create(disk, Rejected::told_in(path))?,
        })
    }

    /// Where it stands why rows were refused.
    pub fn told_in(path: &str) -> String {
        format!("{path}.Error.Txt")
    }

    /// A row, counted from 1, that began at `offset` of the data file.
    pub fn note(&mut self, number: u64, offset: u64, bytes: &[u8], error: &SqlError) -> Result<()> {
        let line = format!(
            "Row {number} File Offset {offset} ErrorFile Offset {} - HRESULT {TYPE_MISMATCH}: {}\r\n",
            self.rows.len, error.message
        );
        self.rows.append(bytes)?;
        self.told.append(line.as_bytes())
    }
}

impl Written {
    fn create(disk: &Arc<dyn Disk>, path: String) -> Result<Written> {
        let file = disk.open(Path::new(&path), OpenMode::CreateNew);
        let file = file.map_err(|e| errors::cannot_read(&path, &e))?;
        Ok(Written { path, file, len: 0 })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(bytes, self.len);
        written.map_err(|e| errors::cannot_read(&self.path, &e))?;
        self.len += bytes.len() as u64;
        Ok(())
    }
}
