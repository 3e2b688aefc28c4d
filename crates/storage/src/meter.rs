//! Cost of each file's input and output, counted where it happens, for `sys.dm_io_virtual_file_stats`.
//!
//! A wrapper around a file: two clock reads and three relaxed additions for each call. A sync counts as time of writing,
//! for that is where buffered writes are waited for.

use daruma_base::{Clock, DiskFile};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Totals of one file since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    pub reads: u64,
    pub bytes_read: u64,
    pub read_time: Duration,
    pub writes: u64,
    pub bytes_written: u64,
    /// Writing and syncing.
    pub write_time: Duration,
}

#[derive(Default)]
struct Direction {
    count: AtomicU64,
    bytes: AtomicU64,
    ns: AtomicU64,
}

impl Direction {
    fn add(&self, count: u64, bytes: u64, time: Duration) {
        self.count.fetch_add(count, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Counters {
    read: Direction,
    write: Direction,
}

/// Reads the counters of a metered file.
#[derive(Clone, Default)]
pub struct Meter(Arc<Counters>);

impl Meter {
    /// Counts and times since the file was opened.
    pub fn stats(&self) -> IoStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { read, write } = &*self.0;
        IoStats {
            reads: load(&read.count),
            bytes_read: load(&read.bytes),
            read_time: Duration::from_nanos(load(&read.ns)),
            writes: load(&write.count),
            bytes_written: load(&write.bytes),
            write_time: Duration::from_nanos(load(&write.ns)),
        }
    }
}

/// The same file, counted.
pub fn metered(file: Arc<dyn DiskFile>, clock: &Arc<dyn Clock>) -> (Arc<dyn DiskFile>, Meter) {
    let meter = Meter::default();
    let file = Metered {
        file,
        clock: clock.clone(),
        meter: meter.clone(),
    };
    (Arc::new(file), meter)
}

struct Metered {
    file: Arc<dyn DiskFile>,
    clock: Arc<dyn Clock>,
    meter: Meter,
}

impl Metered {
    fn timed<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Duration)> {
        let start = self.clock.monotonic();
        let done = work()?;
        Ok((done, self.clock.monotonic().saturating_sub(start)))
    }

    fn write(&self, bytes: usize, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let ((), time) = self.timed(work)?;
        self.meter.0.write.add(1, bytes as u64, time);
        Ok(())
    }
}

fn length(parts: &[&[u8]]) -> usize {
    parts.iter().map(|p| p.len()).sum()
}

impl DiskFile for Metered {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = buf.len() as u64;
        let ((), time) = self.timed(|| self.file.read_at(buf, offset))?;
        self.meter.0.read.add(1, bytes, time);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf.len(), || self.file.write_at(buf, offset))
    }

    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.write(length(parts), || self.file.write_parts_at(parts, offset))
    }

    fn write_synced_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.write(length(parts), || self.file.write_synced_at(parts, offset))
    }

    fn write_direct_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf.len(), || self.file.write_direct_at(buf, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        let ((), time) = self.timed(|| self.file.sync_data())?;
        self.meter.0.write.add(0, 0, time);
        Ok(())
    }

    fn start_writing(&self, offset: u64, len: u64) {
        self.file.start_writing(offset, len);
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn release(&self) {
        self.file.release();
    }
}
