//! Changes that are gathered before they are written, and those that were written while their consequences follow.
//!
//! Theory: they lie in memory as long as they take no more than a part of the statement's grant and the server's memory is not
//! short, otherwise all of them in a scratch file, and come back in parts. In the file a change is a head (which sides it has and
//! how many values follow) and its values, one after the other.

use super::apply::{Change, OldRow};
use crate::access::damaged;
use crate::error::Result;
use crate::executor::{RowBatch, SPILLED_BYTES_MIN, SpillFile, row_bytes};
use crate::host::{Host, check_cancel};
use daruma_base::TxnId;
use daruma_storage::Stamp;
use daruma_value::Value;

/// A statement has the changes to come, those done and maybe two images for triggers.
const GRANT_PART: usize = 4;
/// A part that is read back has so many changes or bytes, or as many as one of the grant: enough for index entries, which are sorted
/// before they are written, to fall several to a page.
const PART_ROWS: usize = 16_384;
const PART_BYTES: usize = 4 << 20;

const HAS_OLD: i32 = 1;
const HAS_NEW: i32 = 2;
const HAS_MOVED: i32 = 4;

/// Changes in the order in which they were added.
#[derive(Default)]
pub struct Changes {
    memory: Vec<Change>,
    bytes: usize,
    file: Option<SpillFile>,
    len: usize,
}

impl Changes {
    /// Changes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a change.
    pub fn add(&mut self, change: Change, host: &dyn Host) -> Result<()> {
        self.len += 1;
        if let Some(file) = &mut self.file {
            return put(change, file);
        }
        self.bytes += bytes_of(&change);
        self.memory.push(change);
        let is_over =
            || self.bytes > host.memory_grant_bytes() / GRANT_PART || host.memory_is_short();
        if self.bytes >= SPILLED_BYTES_MIN && is_over() {
            self.spill(host)?;
        }
        Ok(())
    }

    /// Adds several.
    pub fn extend(&mut self, changes: Vec<Change>, host: &dyn Host) -> Result<()> {
        changes
            .into_iter()
            .try_for_each(|change| self.add(change, host))
    }

    fn spill(&mut self, host: &dyn Host) -> Result<()> {
        // Values differ in number from change to change, so each is a row of its own.
        let mut file = SpillFile::in_space(host.spill()?, 1)?;
        for change in std::mem::take(&mut self.memory) {
            put(change, &mut file)?;
        }
        self.bytes = 0;
        self.file = Some(file);
        Ok(())
    }

    /// Hands all over, part by part.
    pub fn into_parts(
        self,
        host: &dyn Host,
        mut each: impl FnMut(Vec<Change>) -> Result<()>,
    ) -> Result<()> {
        match self.file {
            Some(mut file) => read_parts(&mut file, host, &mut each),
            None if self.memory.is_empty() => Ok(()),
            None => each(self.memory),
        }
    }

    /// Shows all, part by part; may be asked again.
    pub fn parts(
        &mut self,
        host: &dyn Host,
        mut each: impl FnMut(&[Change]) -> Result<()>,
    ) -> Result<()> {
        match &mut self.file {
            Some(file) => read_parts(file, host, &mut |part| each(&part)),
            None if self.memory.is_empty() => Ok(()),
            None => each(&self.memory),
        }
    }
}

impl From<Vec<Change>> for Changes {
    /// As they are, in memory.
    fn from(changes: Vec<Change>) -> Changes {
        Changes {
            len: changes.len(),
            bytes: changes.iter().map(bytes_of).sum(),
            memory: changes,
            file: None,
        }
    }
}

fn bytes_of(change: &Change) -> usize {
    let old = change.old.as_ref().map_or(0, |old| {
        old.key.len() + old.payload.len() + row_bytes(&old.values)
    });
    let new = change.new.as_deref().map_or(0, row_bytes);
    size_of::<Change>() + old + new + row_bytes(&change.sources)
}

fn put(change: Change, file: &mut SpillFile) -> Result<()> {
    let Change {
        old,
        new,
        sources,
        moved_to,
    } = change;
    let flag = |is: bool, flag| if is { flag } else { 0 };
    let sides = flag(old.is_some(), HAS_OLD)
        | flag(new.is_some(), HAS_NEW)
        | flag(moved_to.is_some(), HAS_MOVED);
    let count = |values: Option<usize>| {
        i32::try_from(values.unwrap_or(0))
            .map(Value::Int)
            .map_err(|_| damaged("row too long"))
    };
    let mut add = |value: &Value| file.add(std::slice::from_ref(value));
    add(&Value::Int(sides))?;
    add(&count(old.as_ref().map(|o| o.values.len()))?)?;
    add(&count(new.as_ref().map(Vec::len))?)?;
    add(&count(Some(sources.len()))?)?;
    if let Some(old) = old {
        add(&Value::Bytes(old.key))?;
        add(&Value::Bytes(old.payload))?;
        add(&Value::BigInt(old.stamp.txn.0.cast_signed()))?;
        add(&Value::BigInt(old.stamp.version.cast_signed()))?;
        old.values.iter().try_for_each(&mut add)?;
    }
    new.iter().flatten().try_for_each(&mut add)?;
    sources.iter().try_for_each(&mut add)?;
    moved_to.map_or(Ok(()), |key| add(&Value::Bytes(key)))
}

fn read_parts(
    file: &mut SpillFile,
    host: &dyn Host,
    each: &mut dyn FnMut(Vec<Change>) -> Result<()>,
) -> Result<()> {
    file.finish()?;
    let mut reader = Reader {
        file,
        block: 0,
        rows: RowBatch::new(),
        at: 0,
    };
    let of_grant = host.memory_grant_bytes() / GRANT_PART;
    let most = of_grant.clamp(SPILLED_BYTES_MIN, PART_BYTES);
    let (mut part, mut bytes) = (Vec::new(), 0);
    while let Some(change) = reader.change()? {
        bytes += bytes_of(&change);
        part.push(change);
        if part.len() >= PART_ROWS || bytes >= most {
            check_cancel(host)?;
            each(std::mem::take(&mut part))?;
            bytes = 0;
        }
    }
    match part.is_empty() {
        true => Ok(()),
        false => each(part),
    }
}

/// Reads value after value.
struct Reader<'f> {
    file: &'f SpillFile,
    block: usize,
    rows: RowBatch,
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.at >= self.rows.len() {
            if !self.file.read_numbered(self.block, &mut self.rows)? {
                return Ok(None);
            }
            (self.block, self.at) = (self.block + 1, 0);
        }
        let place = self.rows.row_mut(self.at).first_mut();
        self.at += 1;
        Ok(place.map(|value| std::mem::replace(value, Value::Null)))
    }

    fn value(&mut self) -> Result<Value> {
        self.next()?
            .ok_or_else(|| damaged("spilled change cut off"))
    }

    fn number(&mut self) -> Result<i64> {
        let number = self.value()?.as_i64();
        number.ok_or_else(|| damaged("spilled change has no number"))
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.value()? {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(damaged("spilled change has no key")),
        }
    }

    fn values(&mut self, count: i64) -> Result<Vec<Value>> {
        (0..count).map(|_| self.value()).collect()
    }

    /// The next change; `None` behind the last.
    fn change(&mut self) -> Result<Option<Change>> {
        let sides = match self.next()? {
            None => return Ok(None),
            Some(Value::Int(sides)) => sides,
            Some(_) => return Err(damaged("spilled change has no head")),
        };
        let (old, new, sources) = (self.number()?, self.number()?, self.number()?);
        let old = match sides & HAS_OLD {
            0 => None,
            _ => Some(OldRow {
                key: self.bytes()?,
                payload: self.bytes()?,
                stamp: Stamp {
                    txn: TxnId(self.number()?.cast_unsigned()),
                    version: self.number()?.cast_unsigned(),
                },
                values: self.values(old)?,
            }),
        };
        Ok(Some(Change {
            old,
            new: match sides & HAS_NEW {
                0 => None,
                _ => Some(self.values(new)?),
            },
            sources: self.values(sources)?,
            moved_to: match sides & HAS_MOVED {
                0 => None,
                _ => Some(self.bytes()?),
            },
        }))
    }
}
