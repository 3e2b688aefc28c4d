//! What it costs to make a log block durable: ways to sync and sizes, side by side.
//!
//! The file is preallocated and zeroed, as the log is, so no way pays for metadata. The ways take turns in short rounds,
//! because the device's speed drifts; the median round counts. One line for each way and size: syncs per second,
//! microseconds for each, and processor time of the process (with the kernel threads that work for it) for each.
//! Run: cargo run --release -p daruma-platform --example sync_cost [directory] [rounds]

use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, pwritev2};
use rustix::io_uring::*;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const FILE_BYTES: usize = 64 << 20;
const SIZES: [usize; 5] = [512, 4 << 10, 8 << 10, 16 << 10, 60 << 10];
const ROUND: Duration = Duration::from_millis(120);
const ALIGN: usize = 4096;

type Outcome<T> = Result<T, Box<dyn Error>>;

trait Way {
    fn name(&self) -> &'static str;
    /// Smallest unit it can write.
    fn unit(&self) -> usize {
        512
    }
    fn write_durably(&mut self, bytes: &[u8], offset: u64) -> Outcome<()>;
}

struct Fdatasync(File);
impl Way for Fdatasync {
    fn name(&self) -> &'static str {
        "pwrite, fdatasync"
    }
    fn write_durably(&mut self, bytes: &[u8], offset: u64) -> Outcome<()> {
        self.0.write_all_at(bytes, offset)?;
        Ok(self.0.sync_data()?)
    }
}

struct Flagged(File);
impl Way for Flagged {
    fn name(&self) -> &'static str {
        "pwritev2 RWF_DSYNC"
    }
    fn write_durably(&mut self, bytes: &[u8], offset: u64) -> Outcome<()> {
        pwritev2(
            &self.0,
            &[IoSlice::new(bytes)],
            offset,
            ReadWriteFlags::DSYNC,
        )?;
        Ok(())
    }
}

struct Opened {
    file: File,
    name: &'static str,
    unit: usize,
}
impl Way for Opened {
    fn name(&self) -> &'static str {
        self.name
    }
    fn unit(&self) -> usize {
        self.unit
    }
    fn write_durably(&mut self, bytes: &[u8], offset: u64) -> Outcome<()> {
        Ok(self.file.write_all_at(bytes, offset)?)
    }
}

/// One submission and one completion queue, used for one operation at a time.
struct Ring {
    fd: OwnedFd,
    sq: *mut u8,
    cq: *mut u8,
    entries: *mut io_uring_sqe,
    params: io_uring_params,
}

impl Ring {
    fn new() -> Outcome<Ring> {
        let mut params = io_uring_params::default();
        // SAFETY: the parameters ask for nothing that needs a descriptor or an address.
        let fd = unsafe { io_uring_setup(4, &mut params)? };
        let map = |len: usize, offset: u64| {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping of the ring's own memory, kept until the process ends.
            unsafe {
                mmap(
                    std::ptr::null_mut(),
                    len,
                    access,
                    MapFlags::SHARED,
                    &fd,
                    offset,
                )
            }
        };
        let sq_bytes = params.sq_off.array as usize + params.sq_entries as usize * 4;
        let cq_bytes = params.cq_off.cqes as usize + params.cq_entries as usize * 16;
        let sqe_bytes = params.sq_entries as usize * size_of::<io_uring_sqe>();
        Ok(Ring {
            sq: map(sq_bytes, IORING_OFF_SQ_RING)?.cast(),
            cq: map(cq_bytes, IORING_OFF_CQ_RING)?.cast(),
            entries: map(sqe_bytes, IORING_OFF_SQES)?.cast(),
            fd,
            params,
        })
    }

    /// An index word of a queue.
    fn word(base: *mut u8, offset: u32) -> &'static AtomicU32 {
        // SAFETY: the kernel gave the offset of an aligned 32-bit word inside a mapping that is never unmapped.
        unsafe { AtomicU32::from_ptr(base.add(offset as usize).cast()) }
    }

    /// Submits the operations as one chain and waits for all; the results.
    fn run(&mut self, operations: &[io_uring_sqe]) -> Outcome<Vec<i32>> {
        let tail = Ring::word(self.sq, self.params.sq_off.tail);
        let mask = Ring::word(self.sq, self.params.sq_off.ring_mask).load(Ordering::Relaxed);
        let count = u32::try_from(operations.len())?;
        for (n, operation) in (0..count).zip(operations) {
            let at = (tail.load(Ordering::Relaxed) + n) & mask;
            // SAFETY: `at` is below the number of entries, and the kernel does not look before the tail moves.
            unsafe { self.entries.add(at as usize).write(*operation) };
            Ring::word(self.sq, self.params.sq_off.array + at * 4).store(at, Ordering::Relaxed);
        }
        tail.fetch_add(count, Ordering::Release);
        // SAFETY: buffers of the operations live until they complete, which this call waits for.
        unsafe { io_uring_enter(&self.fd, count, count, IoringEnterFlags::GETEVENTS)? };
        let head = Ring::word(self.cq, self.params.cq_off.head);
        let mask = Ring::word(self.cq, self.params.cq_off.ring_mask).load(Ordering::Relaxed);
        let mut results = Vec::new();
        while head.load(Ordering::Relaxed)
            != Ring::word(self.cq, self.params.cq_off.tail).load(Ordering::Acquire)
        {
            let at = head.load(Ordering::Relaxed) & mask;
            // A completion is 16 bytes: user data, then the result.
            let result = Ring::word(self.cq, self.params.cq_off.cqes + at * 16 + 8);
            results.push(result.load(Ordering::Relaxed).cast_signed());
            head.fetch_add(1, Ordering::Release);
        }
        Ok(results)
    }
}

struct Uring {
    ring: Ring,
    file: File,
    is_linked: bool,
}

impl Uring {
    fn write(&self, bytes: &[u8], offset: u64) -> io_uring_sqe {
        let mut operation = io_uring_sqe {
            opcode: IoringOp::Write,
            fd: self.file.as_raw_fd(),
            ..io_uring_sqe::default()
        };
        operation.off_or_addr2.off = offset;
        operation.addr_or_splice_off_in.addr = io_uring_ptr::new(bytes.as_ptr().cast_mut().cast());
        operation.len.len = bytes.len() as u32;
        if self.is_linked {
            operation.flags = IoringSqeFlags::IO_LINK;
        } else {
            operation.op_flags.rw_flags = ReadWriteFlags::DSYNC;
        }
        operation
    }

    fn sync(&self) -> io_uring_sqe {
        let mut operation = io_uring_sqe {
            opcode: IoringOp::Fsync,
            fd: self.file.as_raw_fd(),
            ..io_uring_sqe::default()
        };
        operation.op_flags.fsync_flags = IoringFsyncFlags::DATASYNC;
        operation
    }
}

impl Way for Uring {
    fn name(&self) -> &'static str {
        match self.is_linked {
            true => "io_uring write, fdatasync",
            false => "io_uring write RWF_DSYNC",
        }
    }
    fn write_durably(&mut self, bytes: &[u8], offset: u64) -> Outcome<()> {
        let write = self.write(bytes, offset);
        let results = match self.is_linked {
            true => self.ring.run(&[write, self.sync()])?,
            false => self.ring.run(&[write])?,
        };
        let written = results.first().copied().unwrap_or(-1);
        if written != i32::try_from(bytes.len())? || results.iter().any(|r| *r < 0) {
            return Err(format!("io_uring: {results:?}").into());
        }
        Ok(())
    }
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Bytes aligned as direct I/O wants them.
fn aligned(buffer: &mut Vec<u8>, len: usize) -> &[u8] {
    buffer.resize(len + ALIGN, 0x5A);
    let start = buffer.as_ptr().align_offset(ALIGN);
    &buffer[start..start + len]
}

struct Figure {
    per_second: f64,
    processor_us: f64,
}

fn round(way: &mut dyn Way, bytes: &[u8], at: &mut usize) -> Outcome<Figure> {
    let (start, processor) = (Instant::now(), process_time());
    let mut count = 0u32;
    while start.elapsed() < ROUND {
        if *at + bytes.len() > FILE_BYTES {
            *at = 0;
        }
        way.write_durably(bytes, *at as u64)?;
        // Blocks begin at multiples of 4 KiB, whatever they hold.
        *at += bytes.len().next_multiple_of(ALIGN);
        count += 1;
    }
    Ok(Figure {
        per_second: f64::from(count) / start.elapsed().as_secs_f64(),
        processor_us: (process_time() - processor).as_secs_f64() * 1e6 / f64::from(count),
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn open(path: &Path, flags: OFlags) -> Outcome<File> {
    let flags = i32::try_from(flags.bits())?;
    Ok(OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)?)
}

fn ways(path: &Path) -> Outcome<Vec<Box<dyn Way>>> {
    let opened = |name, flags, unit| -> Outcome<Box<dyn Way>> {
        Ok(Box::new(Opened {
            file: open(path, flags)?,
            name,
            unit,
        }))
    };
    let mut ways: Vec<Box<dyn Way>> = vec![
        Box::new(Fdatasync(open(path, OFlags::empty())?)),
        Box::new(Flagged(open(path, OFlags::empty())?)),
        opened("pwrite O_DSYNC", OFlags::DSYNC, 512)?,
        opened(
            "pwrite O_DIRECT O_DSYNC",
            OFlags::DIRECT | OFlags::DSYNC,
            ALIGN,
        )?,
    ];
    for is_linked in [false, true] {
        match Ring::new() {
            Ok(ring) => ways.push(Box::new(Uring {
                ring,
                file: open(path, OFlags::empty())?,
                is_linked,
            })),
            Err(error) => println!("io_uring is not to be had here: {error}"),
        }
    }
    Ok(ways)
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| ".".into());
    let rounds: usize = arguments.next().map_or(Ok(9), |n| n.parse())?;
    let dir = tempfile::tempdir_in(dir)?;
    let path = dir.path().join("log");
    let file = File::create_new(&path)?;
    file.write_all_at(&vec![0; FILE_BYTES], 0)?;
    file.sync_all()?;
    let mut ways = ways(&path)?;
    let mut buffer = Vec::new();
    println!(
        "{:<26} {:>7} {:>9} {:>9} {:>12}",
        "way", "bytes", "per s", "us each", "cpu us each"
    );
    for size in SIZES {
        let bytes = aligned(&mut buffer, size);
        let mut figures: Vec<Vec<Figure>> = ways.iter().map(|_| Vec::new()).collect();
        let mut at = 0;
        for _ in 0..rounds {
            for (way, list) in ways.iter_mut().zip(&mut figures) {
                if size.is_multiple_of(way.unit()) {
                    list.push(round(way.as_mut(), bytes, &mut at)?);
                }
            }
        }
        for (way, list) in ways.iter().zip(&figures).filter(|(_, l)| !l.is_empty()) {
            let rate = median(list.iter().map(|f| f.per_second).collect());
            let processor = median(list.iter().map(|f| f.processor_us).collect());
            println!(
                "{:<26} {size:>7} {rate:>9.0} {:>9.1} {processor:>12.1}",
                way.name(),
                1e6 / rate
            );
        }
    }
    Ok(())
}
