//! BULK INSERT: a file of the server's disk, batch by batch.
//!
//! Theory: the place in the file outlives a batch, the table does not. Each batch finds the table anew and locks it before
//! it reads a row, so that it may be a transaction of its own, and one that has to begin again has read nothing.

use super::fields::{FieldError, FieldReader, Record};
use super::format::{self, FormatField};
use super::rejected::Rejected;
use super::{BulkOptions, FileLoad, errors};
use crate::dml::errors::{Verb, invalid_object};
use crate::dml::inserter::Inserter;
use crate::error::{Result, SqlError};
use crate::host::{Host, Resolved, TableRef};
use crate::messages;
use daruma_base::{DiskFile, OpenMode};
use daruma_syntax::ast;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// A BULK INSERT under way.
pub struct FileImport<'a> {
    ast: &'a ast::BulkInsert,
    options: BulkOptions,
    file: FileReader,
    place: Option<Place>,
    ended: bool,
}

/// How far it has come.
struct Place {
    reader: FieldReader<'static>,
    format: Vec<FormatField>,
    fields: usize,
    rejected: Option<Rejected>,
    rows: u64,
    refused: u64,
}

impl<'a> FileImport<'a> {
    /// Opens the file of BULK INSERT and reads its options.
    pub fn open(ast: &'a ast::BulkInsert, host: &dyn Host) -> Result<FileImport<'a>> {
        Ok(FileImport {
            file: FileReader::open(&ast.file, host)?,
            options: BulkOptions::parse(&ast.options)?,
            ast,
            place: None,
            ended: false,
        })
    }

    /// Nothing is left to be read.
    pub fn is_over(&self) -> bool {
        self.ended
    }

    /// All batches, one after the other; gives the number of rows.
    pub fn run(&mut self, host: &dyn Host) -> Result<u64> {
        let mut count = 0;
        while !self.ended {
            count += self.next_batch(host)?;
        }
        Ok(count)
    }

    /// The next BATCHSIZE rows of the file, or all that are left.
    pub fn next_batch(&mut self, host: &dyn Host) -> Result<u64> {
        let table = match host.resolve(&self.ast.table)? {
            Resolved::Table(table) => table,
            _ => return Err(invalid_object(&self.ast.table.dotted())),
        };
        let known = self.place.as_ref().map(|p| p.format.clone());
        let format = match known {
            Some(format) => format,
            None => self.format(host, &table)?,
        };
        let load = FileLoad::new(host, &table, &self.options, &format)?;
        let place = match self.place.take() {
            Some(place) => place,
            None => self.start(host, load.fields.len(), format)?,
        };
        let place = self.place.insert(place);
        if place.fields != load.fields.len() {
            return Err(messages::error(2801, &[&table.name]));
        }
        let inserter = Inserter::begin(host, &load.shape, load.options, Verb::Insert)?;
        let (path, options) = (self.ast.file.as_str(), &self.options);
        let batch = Batch {
            host,
            path,
            options,
            load: &load,
        };
        let (count, ended) = batch.fill(place, inserter)?;
        self.ended = ended;
        Ok(count)
    }

    fn format(&self, host: &dyn Host, table: &TableRef) -> Result<Vec<FormatField>> {
        match &self.options.format_file {
            Some(path) => read_format(host, path, table.def.columns.len()),
            None => Ok(Vec::new()),
        }
    }

    fn start(&self, host: &dyn Host, fields: usize, format: Vec<FormatField>) -> Result<Place> {
        let layout = self.options.layout(fields, format.clone());
        let mut reader = FieldReader::new(self.file.clone(), layout);
        let mut rejected = None;
        if let Some(path) = &self.options.error_file {
            [path.clone(), Rejected::told_in(path)]
                .iter()
                .try_for_each(|path| refuse_owned(host, path))?;
            rejected = Some(Rejected::create(&host.spill()?.disk, path)?);
            reader.keep_rows();
        }
        Ok(Place {
            reader,
            format,
            fields,
            rejected,
            rows: 0,
            refused: 0,
        })
    }
}

/// One batch of rows on its way from the file into the table.
struct Batch<'b> {
    host: &'b dyn Host,
    path: &'b str,
    options: &'b BulkOptions,
    load: &'b FileLoad,
}

impl Batch<'_> {
    /// The number of rows inserted, and whether the file has ended.
    fn fill(&self, place: &mut Place, mut inserter: Inserter<'_>) -> Result<(u64, bool)> {
        let options = self.options;
        let (mut record, mut given) = (Record::default(), Vec::new());
        let mut taken = 0;
        let ended = loop {
            if options.batch_size != 0 && taken == options.batch_size {
                break false;
            }
            place.rows += 1;
            if options.last_row != 0 && place.rows > options.last_row {
                break true;
            }
            let wanted = place.rows >= options.first_row;
            let read = place.reader.next(&mut record);
            let problem = match read {
                Ok(false) => break true,
                Ok(true) | Err(FieldError::Malformed { .. }) if !wanted => continue,
                Ok(true) => {
                    let row = self.load.row(&record, place.rows, options, &mut given);
                    row.err()
                }
                Err(error) => Some(self.misread(error, place.rows)?),
            };
            taken += 1;
            match problem {
                None => inserter.push(&mut given, None)?,
                Some(error) => self.refuse(place, error)?,
            }
        };
        // A file that ends with a batch has no empty one after it.
        match taken == 0 && place.rows > options.first_row {
            true => Ok((0, ended)),
            false => Ok((inserter.finish(None)?, ended)),
        }
    }

    /// The fault of a row; an error when the rest cannot be read.
    fn misread(&self, error: FieldError, row: u64) -> Result<SqlError> {
        match error {
            FieldError::Malformed { column } => Ok(errors::invalid_csv(self.path, row, column)),
            FieldError::TooLong { column } => Err(errors::column_too_long(row, column)),
            FieldError::UnexpectedEnd => Err(errors::unexpected_end()),
            FieldError::Io(e) => Err(errors::cannot_read(self.path, &e)),
        }
    }

    fn refuse(&self, place: &mut Place, error: SqlError) -> Result<()> {
        place.refused += 1;
        if let Some(rejected) = &mut place.rejected {
            let (offset, bytes) = place.reader.row();
            rejected.note(place.rows, offset, bytes, &error)?;
        }
        self.host.message(error);
        match place.refused > self.options.max_errors {
            true => Err(errors::too_many_errors(self.options.max_errors)),
            false => Ok(()),
        }
    }
}

/// A file read from start to end.
#[derive(Clone)]
struct FileReader {
    file: Arc<dyn DiskFile>,
    offset: u64,
    left: u64,
}

impl FileReader {
    fn open(name: &str, host: &dyn Host) -> Result<FileReader> {
        let disk = host.spill()?.disk;
        let path = Path::new(name);
        if !matches!(disk.exists(path), Ok(true)) {
            return Err(errors::no_such_file(name));
        }
        let unreadable = |e| errors::cannot_read(name, &e);
        refuse_owned(host, name)?;
        let file = disk.open(path, OpenMode::ReadOnly).map_err(unreadable)?;
        let left = file.len().map_err(unreadable)?;
        Ok(FileReader {
            file,
            offset: 0,
            left,
        })
    }
}

impl Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let wanted = (buf.len() as u64).min(self.left) as usize;
        self.file
            .read_at(buf.get_mut(..wanted).unwrap_or_default(), self.offset)?;
        self.offset += wanted as u64;
        self.left -= wanted as u64;
        Ok(wanted)
    }
}

/// Error 4861 for the files of databases and of the server itself: who may load files may not load everything with it.
fn refuse_owned(host: &dyn Host, path: &str) -> Result<()> {
    match host.instance() {
        None => Ok(()),
        Some(instance) => instance
            .refuse_owned(Path::new(path))
            .map_err(|e| errors::cannot_read(path, &e)),
    }
}

/// Layout of a data file after its format file, for a table with so many columns.
fn read_format(host: &dyn Host, path: &str, columns: usize) -> Result<Vec<FormatField>> {
    let disk = host.spill()?.disk;
    if !matches!(disk.exists(Path::new(path)), Ok(true)) {
        return Err(errors::no_such_file(path));
    }
    refuse_owned(host, path)?;
    let unreadable = |_| errors::format_unreadable(path);
    let file = disk.open(Path::new(path), OpenMode::ReadOnly);
    let file = file.map_err(unreadable)?;
    let len = file.len().map_err(unreadable)?;
    if len > format::FORMAT_BYTES_MAX {
        return Err(errors::format_unreadable(path));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0).map_err(unreadable)?;
    format::parse(path, &String::from_utf8_lossy(&bytes), columns)
}
