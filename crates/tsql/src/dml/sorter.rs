//! Sorts index entries, in memory up to the statement's grant and in runs on disk beyond it.
//!
//! Theory: entries gather in an [`EntrySet`]. When it outgrows the grant it is sorted and written as a run: entry after
//! entry, lengths first. At the end the runs and the last set are merged by a heap with one entry of each. A run file
//! belongs to this sorter alone and is removed with it.

use super::entries::EntrySet;
use crate::access::damaged;
use crate::error::Result;
use crate::executor::scratch_error;
use crate::host::{Host, SpillSpace};
use daruma_base::{DiskFile, OpenMode};
use daruma_storage::{Batch, Stamp};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;

const BATCH_ENTRIES: usize = 512;
const READ_BYTES: usize = 64 << 10;
const WRITE_BYTES: usize = 256 << 10;
const GRANT_BYTES_MIN: usize = 64 << 10;

/// Sorts index entries by key, on disk when they exceed the memory grant.
pub struct Sorter<'h> {
    host: &'h dyn Host,
    grant_bytes: usize,
    set: EntrySet,
    spill: Option<Spill>,
}

struct Spill {
    space: SpillSpace,
    runs: Vec<Run>,
}

struct Run {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    bytes: u64,
}

impl<'h> Sorter<'h> {
    /// Empty, with the statement's memory grant.
    pub fn new(host: &'h dyn Host) -> Result<Sorter<'h>> {
        let grant_bytes = host.memory_grant_bytes().max(GRANT_BYTES_MIN);
        Ok(Sorter {
            host,
            grant_bytes,
            set: EntrySet::new(),
            spill: None,
        })
    }

    /// Adds an entry.
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        self.set.push(key, payload, Stamp::default(), 0);
        if self.set.bytes() > self.grant_bytes {
            self.write_run()
        } else {
            Ok(())
        }
    }

    fn write_run(&mut self) -> Result<()> {
        self.set.sort();
        if self.spill.is_none() {
            self.spill = Some(Spill {
                space: self.host.spill()?,
                runs: Vec::new(),
            });
        }
        if let Some(spill) = &mut self.spill {
            spill.write(&self.set)?;
        }
        self.set.clear();
        Ok(())
    }

    /// Hands over all entries in key order, in batches; an equal pair never straddles two batches unnoticed, because
    /// the tree refuses the second.
    pub fn drain(mut self, each: &mut dyn FnMut(&Batch) -> Result<()>) -> Result<()> {
        self.set.sort();
        let Some(spill) = self.spill.take() else {
            return self
                .set
                .in_batches(&mut Batch::new(), |batch, _| each(batch));
        };
        merge(&spill, &self.set, each)
    }
}

impl Spill {
    fn write(&mut self, set: &EntrySet) -> Result<()> {
        let name = format!("index-{}-{}.run", self.space.id, self.runs.len());
        let path = self.space.directory.join(name);
        let failed = |e| scratch_error("write sort run", &path, e);
        let file = self
            .space
            .disk
            .open(&path, OpenMode::CreateNew)
            .map_err(failed)?;
        self.runs.push(Run {
            file: file.clone(),
            path: path.clone(),
            bytes: 0,
        });
        let (mut buffer, mut offset) = (Vec::with_capacity(WRITE_BYTES), 0);
        for i in 0..set.len() {
            let (key, payload) = (set.key(i), set.payload(i));
            buffer.extend_from_slice(&(key.len() as u32).to_le_bytes());
            buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(payload);
            if buffer.len() >= WRITE_BYTES || i + 1 == set.len() {
                file.write_at(&buffer, offset).map_err(failed)?;
                offset += buffer.len() as u64;
                buffer.clear();
            }
        }
        if let Some(run) = self.runs.last_mut() {
            run.bytes = offset;
        }
        Ok(())
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        for run in &self.runs {
            // A file left behind is removed with the spill directory when the server starts.
            let _ = self.space.disk.remove(&run.path);
        }
    }
}

/// Reads a run from start to end.
struct RunReader<'a> {
    run: &'a Run,
    offset: u64,
    buffer: Vec<u8>,
    position: usize,
}

impl RunReader<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if !self.fill(8)? {
            return Ok(None);
        }
        let key_len = self.take_len()?;
        let payload_len = self.take_len()?;
        if !self.fill(key_len + payload_len)? {
            return Err(damaged("sort run is cut short"));
        }
        Ok(Some((self.take(key_len), self.take(payload_len))))
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let bytes = self
            .buffer
            .get(self.position..self.position + len)
            .unwrap_or_default()
            .to_vec();
        self.position += len;
        bytes
    }

    fn take_len(&mut self) -> Result<usize> {
        let bytes: [u8; 4] = self
            .take(4)
            .try_into()
            .map_err(|_| damaged("sort run is cut short"))?;
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    /// Makes `bytes` bytes available; false at the end of the run.
    fn fill(&mut self, bytes: usize) -> Result<bool> {
        while self.buffer.len() - self.position < bytes {
            let left = self.run.bytes - self.offset;
            if left == 0 {
                return Ok(false);
            }
            self.buffer.drain(..self.position);
            self.position = 0;
            let held = self.buffer.len();
            let more = left.min(READ_BYTES.max(bytes) as u64) as usize;
            self.buffer.resize(held + more, 0);
            let place = self.buffer.get_mut(held..).unwrap_or_default();
            let read = self.run.file.read_at(place, self.offset);
            read.map_err(|e| scratch_error("read sort run", &self.run.path, e))?;
            self.offset += more as u64;
        }
        Ok(true)
    }
}

fn merge(spill: &Spill, last: &EntrySet, each: &mut dyn FnMut(&Batch) -> Result<()>) -> Result<()> {
    let reader = |run| RunReader {
        run,
        offset: 0,
        buffer: Vec::new(),
        position: 0,
    };
    let mut readers: Vec<_> = spill.runs.iter().map(reader).collect();
    let mut in_memory = 0;
    let mut next = |source: usize| -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if let Some(reader) = readers.get_mut(source) {
            return reader.next();
        }
        in_memory += 1;
        Ok((in_memory <= last.len()).then(|| {
            (
                last.key(in_memory - 1).to_vec(),
                last.payload(in_memory - 1).to_vec(),
            )
        }))
    };
    let mut heap = BinaryHeap::new();
    for source in 0..=spill.runs.len() {
        if let Some((key, payload)) = next(source)? {
            heap.push(Reverse((key, source, payload)));
        }
    }
    let mut batch = Batch::new();
    while let Some(Reverse((key, source, payload))) = heap.pop() {
        batch.push(&key, &payload, Stamp::default());
        if batch.len() >= BATCH_ENTRIES {
            each(&batch)?;
            batch.clear();
        }
        if let Some((key, payload)) = next(source)? {
            heap.push(Reverse((key, source, payload)));
        }
    }
    if batch.is_empty() {
        Ok(())
    } else {
        each(&batch)
    }
}
