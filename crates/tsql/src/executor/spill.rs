//! Rows on disk: runs of a sort, partitions of a hash.
//!
//! Theory: a file is a list of blocks, each a count of rows and their values in a self-describing form. Files are made
//! in the engine's scratch directory, never synced, and removed when dropped.

use super::batch::RowBatch;
use super::context::Ctx;
use crate::access::damaged;
use crate::error::{Result, SqlError};
use crate::host::{Host, SpillSpace};
use crate::messages;
use daruma_base::{Disk, DiskFile, OpenMode};
use daruma_value::compare::hash_bytes;
use daruma_value::{
    DateTime, DateTime2, DateTimeOffset, Decimal, SmallDateTime, Time, Value, VariantValue,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes gathered before they are written.
const BLOCK_BYTES: usize = 64 * 1024;

/// Memory that a row's values take, roughly.
pub fn row_bytes(row: &[Value]) -> usize {
    let outside = |v: &Value| match v {
        Value::Str(s) if s.len() > 24 => s.len(),
        Value::Bytes(b) => b.len() + 16,
        Value::Variant(_) => 96,
        _ => 0,
    };
    size_of_val(row) + 16 + row.iter().map(outside).sum::<usize>()
}

/// One file of rows, written front to back, then read front to back.
pub struct SpillFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    width: usize,
    block: Vec<u8>,
    block_rows: u32,
    written: u64,
    read: u64,
    /// Where each block begins, and the number of its first row.
    blocks: Vec<(u64, usize)>,
    rows: usize,
}

impl SpillFile {
    /// An empty file in the spill folder; it is removed when it is dropped.
    pub fn new(cx: &Ctx<'_>, width: usize) -> Result<SpillFile> {
        SpillFile::in_space(cx.host.spill()?, width)
    }

    /// For rows of `width` values.
    pub fn in_space(space: SpillSpace, width: usize) -> Result<SpillFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "spill-{}-{}.tmp",
            space.id,
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = space.directory.join(name);
        let file = space.disk.open(&path, OpenMode::CreateNew).map_err(io)?;
        Ok(SpillFile {
            disk: space.disk,
            path,
            file,
            width,
            block: Vec::new(),
            block_rows: 0,
            written: 0,
            read: 0,
            blocks: Vec::new(),
            rows: 0,
        })
    }

    /// Adds a row; blocks are written when they are full.
    pub fn add(&mut self, row: &[Value]) -> Result<()> {
        for value in row {
            put(value, &mut self.block)?;
        }
        self.block_rows += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.block_rows == 0 {
            return Ok(());
        }
        let len = u32::try_from(self.block.len()).map_err(|_| damaged("spill block too long"))?;
        let mut head = Vec::with_capacity(8 + self.block.len());
        head.extend_from_slice(&len.to_le_bytes());
        head.extend_from_slice(&self.block_rows.to_le_bytes());
        head.append(&mut self.block);
        self.file.write_at(&head, self.written).map_err(io)?;
        self.blocks.push((self.written, self.rows));
        self.rows += self.block_rows as usize;
        self.written += head.len() as u64;
        self.block_rows = 0;
        Ok(())
    }

    /// Writes what is left; the file can be read then.
    pub fn finish(&mut self) -> Result<()> {
        self.flush()
    }

    /// The rows of the next block.
    pub fn read(&mut self, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width);
        if self.read >= self.written {
            return Ok(false);
        }
        self.read += self.read_block(self.read, out)?;
        Ok(true)
    }

    /// Number of the block that holds a row, and that of its first row.
    pub fn block_of(&self, row: usize) -> Option<(usize, usize)> {
        let after = self.blocks.partition_point(|(_, first)| *first <= row);
        let number = after.checked_sub(1)?;
        let (_, first) = self.blocks.get(number)?;
        Some((number, *first))
    }

    /// The rows of the block of this number; `false` behind the last one.
    pub fn read_numbered(&self, number: usize, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width);
        let Some((at, _)) = self.blocks.get(number) else {
            return Ok(false);
        };
        self.read_block(*at, out)?;
        Ok(true)
    }

    /// Adds the rows of the block at `at`; gives its length in bytes.
    fn read_block(&self, at: u64, out: &mut RowBatch) -> Result<u64> {
        let mut head = [0; 8];
        self.file.read_at(&mut head, at).map_err(io)?;
        let [a, b, c, d, e, f, g, h] = head;
        let (len, rows) = (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        );
        let mut bytes = vec![0; len as usize];
        self.file.read_at(&mut bytes, at + 8).map_err(io)?;
        let mut rest = bytes.as_slice();
        for _ in 0..rows {
            for _ in 0..self.width {
                out.put(take(&mut rest)?);
            }
            out.finish_row();
        }
        Ok(8 + u64::from(len))
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        // A file that cannot be removed now is removed when the server starts again.
        let _ = self.disk.remove(&self.path);
    }
}

/// Files that rows are dealt out to when they do not fit.
pub const PARTITIONS: usize = 16;

/// Number of the file in which rows of this key lie. By the high bits of the hash: tables use the low ones.
pub fn partition_of(key: &[u8]) -> usize {
    (hash_bytes(key) >> 48) as usize % PARTITIONS
}

/// Several files that rows are dealt out to.
pub struct Partitions {
    files: Vec<SpillFile>,
}

impl Partitions {
    /// Empty files for rows of this width.
    pub fn new(cx: &Ctx<'_>, width: usize) -> Result<Partitions> {
        Partitions::of(cx.host, width)
    }

    /// The same outside of operators.
    pub fn of(host: &dyn Host, width: usize) -> Result<Partitions> {
        Ok(Partitions {
            files: (0..PARTITIONS)
                .map(|_| SpillFile::in_space(host.spill()?, width))
                .collect::<Result<_>>()?,
        })
    }

    /// Adds a row to one of the files.
    pub fn add(&mut self, partition: usize, row: &[Value]) -> Result<()> {
        match self.files.get_mut(partition) {
            Some(file) => file.add(row),
            None => Ok(()),
        }
    }

    /// Writes what is left of all files.
    pub fn finish(&mut self) -> Result<()> {
        self.files.iter_mut().try_for_each(SpillFile::finish)
    }

    /// The next rows of one file; false at its end.
    pub fn read(&mut self, partition: usize, out: &mut RowBatch) -> Result<bool> {
        match self.files.get_mut(partition) {
            Some(file) => file.read(out),
            None => Ok(false),
        }
    }
}

/// The error of a scratch file: no room on the disk or no more files are the statement's end, anything else a damaged disk.
pub(crate) fn scratch_error(action: &'static str, path: &Path, error: std::io::Error) -> SqlError {
    /// Open files of the system, and of the process (`errno(3)`).
    const NO_MORE_FILES: [i32; 2] = [23, 24];
    if error
        .raw_os_error()
        .is_some_and(|e| NO_MORE_FILES.contains(&e))
    {
        return messages::error(701, &[&"default"]);
    }
    if daruma_storage::is_full(&error) {
        let object = "dbo.WORKFILE run storage";
        return messages::error_state(1105, 2, &[&object, &"", &"tempdb", &"PRIMARY"]);
    }
    SqlError::from(daruma_storage::StorageError::Io {
        path: path.to_path_buf(),
        action,
        source: error,
    })
}

fn io(error: std::io::Error) -> SqlError {
    scratch_error("use scratch file", Path::new("tempdb"), error)
}

fn put(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    let mut tagged = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Null => tagged(0, &[]),
        Value::Bit(b) => tagged(1, &[u8::from(*b)]),
        Value::TinyInt(n) => tagged(2, &[*n]),
        Value::SmallInt(n) => tagged(3, &n.to_le_bytes()),
        Value::Int(n) => tagged(4, &n.to_le_bytes()),
        Value::BigInt(n) => tagged(5, &n.to_le_bytes()),
        Value::Decimal(d) => {
            tagged(6, &d.unscaled().to_le_bytes());
            out.extend_from_slice(&[d.precision, d.scale]);
        }
        Value::SmallMoney(n) => tagged(7, &n.to_le_bytes()),
        Value::Money(n) => tagged(8, &n.to_le_bytes()),
        Value::Real(n) => tagged(9, &n.to_le_bytes()),
        Value::Float(n) => tagged(10, &n.to_le_bytes()),
        Value::Date(n) => tagged(11, &n.to_le_bytes()),
        Value::Time(t) => {
            tagged(12, &t.ticks.to_le_bytes());
            out.push(t.scale);
        }
        Value::SmallDateTime(t) => {
            tagged(13, &t.days.to_le_bytes());
            out.extend_from_slice(&t.minutes.to_le_bytes());
        }
        Value::DateTime(t) => {
            tagged(14, &t.days.to_le_bytes());
            out.extend_from_slice(&t.ticks.to_le_bytes());
        }
        Value::DateTime2(t) => {
            tagged(15, &[]);
            put_datetime2(t, out);
        }
        Value::DateTimeOffset(t) => {
            tagged(16, &t.offset_minutes.to_le_bytes());
            put_datetime2(&t.utc, out);
        }
        Value::Str(s) => {
            tagged(17, &length(s.len())?);
            out.extend_from_slice(s.as_bytes());
        }
        Value::Bytes(b) => {
            tagged(18, &length(b.len())?);
            out.extend_from_slice(b);
        }
        Value::Guid(g) => tagged(19, g),
        Value::Variant(v) => {
            let head = serde_json::to_vec(&v.data_type).map_err(|_| damaged("bad variant"))?;
            tagged(20, &length(head.len())?);
            out.extend_from_slice(&head);
            if matches!(v.value, Value::Variant(_)) {
                return Err(damaged("nested variant"));
            }
            put(&v.value, out)?;
        }
    }
    Ok(())
}

fn length(n: usize) -> Result<[u8; 4]> {
    u32::try_from(n)
        .map(u32::to_le_bytes)
        .map_err(|_| damaged("value too long"))
}

fn put_datetime2(t: &DateTime2, out: &mut Vec<u8>) {
    out.extend_from_slice(&t.days.to_le_bytes());
    out.extend_from_slice(&t.ticks.to_le_bytes());
    out.push(t.scale);
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or_else(|| damaged("spilled row too short"))?;
    *rest = tail;
    Ok(*head)
}

fn sized<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = u32::from_le_bytes(fixed(rest)?) as usize;
    let (head, tail) = rest
        .split_at_checked(len)
        .ok_or_else(|| damaged("spilled row too short"))?;
    *rest = tail;
    Ok(head)
}

fn take_datetime2(rest: &mut &[u8]) -> Result<DateTime2> {
    let days = i32::from_le_bytes(fixed(rest)?);
    let ticks = u64::from_le_bytes(fixed(rest)?);
    let [scale] = fixed(rest)?;
    Ok(DateTime2 { days, ticks, scale })
}

fn take(rest: &mut &[u8]) -> Result<Value> {
    let [tag] = fixed(rest)?;
    Ok(match tag {
        0 => Value::Null,
        1 => Value::Bit(fixed::<1>(rest)? != [0]),
        2 => Value::TinyInt(u8::from_le_bytes(fixed(rest)?)),
        3 => Value::SmallInt(i16::from_le_bytes(fixed(rest)?)),
        4 => Value::Int(i32::from_le_bytes(fixed(rest)?)),
        5 => Value::BigInt(i64::from_le_bytes(fixed(rest)?)),
        6 => {
            let unscaled = i128::from_le_bytes(fixed(rest)?);
            let [precision, scale] = fixed(rest)?;
            Value::Decimal(Decimal::new(unscaled, precision, scale))
        }
        7 => Value::SmallMoney(i32::from_le_bytes(fixed(rest)?)),
        8 => Value::Money(i64::from_le_bytes(fixed(rest)?)),
        9 => Value::Real(f32::from_le_bytes(fixed(rest)?)),
        10 => Value::Float(f64::from_le_bytes(fixed(rest)?)),
        11 => Value::Date(i32::from_le_bytes(fixed(rest)?)),
        12 => {
            let ticks = u64::from_le_bytes(fixed(rest)?);
            let [scale] = fixed(rest)?;
            Value::Time(Time { ticks, scale })
        }
        13 => {
            let days = u16::from_le_bytes(fixed(rest)?);
            Value::SmallDateTime(SmallDateTime {
                days,
                minutes: u16::from_le_bytes(fixed(rest)?),
            })
        }
        14 => {
            let days = i32::from_le_bytes(fixed(rest)?);
            Value::DateTime(DateTime {
                days,
                ticks: u32::from_le_bytes(fixed(rest)?),
            })
        }
        15 => Value::DateTime2(take_datetime2(rest)?),
        16 => {
            let offset_minutes = i16::from_le_bytes(fixed(rest)?);
            Value::DateTimeOffset(DateTimeOffset {
                utc: take_datetime2(rest)?,
                offset_minutes,
            })
        }
        17 => match std::str::from_utf8(sized(rest)?) {
            Ok(text) => Value::Str(text.into()),
            Err(_) => return Err(damaged("spilled text is not UTF-8")),
        },
        18 => Value::Bytes(sized(rest)?.to_vec()),
        19 => Value::Guid(fixed(rest)?),
        20 => {
            let data_type =
                serde_json::from_slice(sized(rest)?).map_err(|_| damaged("bad variant"))?;
            if rest.first() == Some(&20) {
                return Err(damaged("nested variant"));
            }
            Value::Variant(Box::new(VariantValue {
                data_type,
                value: take(rest)?,
            }))
        }
        _ => return Err(damaged("unknown spilled value")),
    })
}
