//! Keys of the target's rows that a joined statement has met.
//!
//! Theory: they lie in a hash table as long as they take no more than a part of the statement's grant and the server's memory is not
//! short. Then they are dealt out to scratch files by their hash, and so are all rows that come later; at the end the files are
//! read one after the other. A key lies in one file only, so it is told there which of its rows is the first.

use crate::access::damaged;
use crate::error::Result;
use crate::executor::{
    KeyTable, PARTITIONS, Partitions, RowBatch, SPILLED_BYTES_MIN, partition_of,
};
use crate::host::{Host, check_cancel};
use daruma_value::Value;

/// The changes that are gathered meanwhile have another part.
const GRANT_PART: usize = 4;
/// Memory of a key beside its bytes, roughly.
const KEY_BYTES: usize = 24;

/// What is known of a row's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    New,
    Again,
    /// The row was put aside.
    Later,
}

/// See the module's header.
#[derive(Default)]
pub(super) struct Seen {
    keys: KeyTable,
    bytes: usize,
    aside: Option<Aside>,
}

/// Keys that were met, and rows that came after them, on disk.
struct Aside {
    keys: Partitions,
    rows: Partitions,
}

impl Seen {
    /// Meets a row with this key. All rows have as many values.
    pub fn meet(&mut self, key: &[u8], row: &[Value], host: &dyn Host) -> Result<Met> {
        if let Some(aside) = &mut self.aside {
            aside.rows.add(partition_of(key), row)?;
            return Ok(Met::Later);
        }
        if !self.insert(key)? {
            return Ok(Met::Again);
        }
        let is_over =
            || self.bytes > host.memory_grant_bytes() / GRANT_PART || host.memory_is_short();
        if self.bytes >= SPILLED_BYTES_MIN && is_over() {
            self.put_aside(row.len(), host)?;
        }
        Ok(Met::New)
    }

    /// Is the key new?
    fn insert(&mut self, key: &[u8]) -> Result<bool> {
        let added = self.keys.insert(key);
        let (_, is_new) = added.ok_or_else(crate::binder::too_complex)?;
        self.bytes += if is_new { key.len() + KEY_BYTES } else { 0 };
        Ok(is_new)
    }

    fn put_aside(&mut self, width: usize, host: &dyn Host) -> Result<()> {
        let mut aside = Aside {
            keys: Partitions::of(host, 1)?,
            rows: Partitions::of(host, width)?,
        };
        for key in self.keys.keys() {
            let row = [Value::Bytes(key.to_vec())];
            aside.keys.add(partition_of(key), &row)?;
        }
        (self.keys, self.bytes) = (KeyTable::new(), 0);
        self.aside = Some(aside);
        Ok(())
    }

    /// Shows the rows that were put aside, and whether they are the first of their keys, until `each` wants no more.
    pub fn rest(
        mut self,
        host: &dyn Host,
        key_of: impl Fn(&[Value]) -> Result<Vec<u8>>,
        mut each: impl FnMut(&[Value], bool) -> Result<bool>,
    ) -> Result<()> {
        let Some(mut aside) = self.aside.take() else {
            return Ok(());
        };
        aside.keys.finish()?;
        aside.rows.finish()?;
        let mut batch = RowBatch::new();
        for partition in 0..PARTITIONS {
            (self.keys, self.bytes) = (KeyTable::new(), 0);
            while aside.keys.read(partition, &mut batch)? {
                check_cancel(host)?;
                host.check_memory(0)?;
                for row in batch.rows() {
                    let [Value::Bytes(key)] = row else {
                        return Err(damaged("a spilled key that is none"));
                    };
                    self.insert(key)?;
                }
            }
            while aside.rows.read(partition, &mut batch)? {
                check_cancel(host)?;
                host.check_memory(0)?;
                for row in batch.rows() {
                    let is_new = self.insert(&key_of(row)?)?;
                    if !each(row, is_new)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}
