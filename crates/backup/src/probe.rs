//! Defaults by measurement: how fast a device takes bytes, and which compression pays on it.
//!
//! Theory: a backup is as fast as the slower of two things: what the processors compress, and what the device takes. A higher
//! level costs the first and helps the second. Both are measured: the device by a few megabytes written into its folder,
//! compression by a few frames of the very database. The level is the lowest whose rate is within 5 % of the best. How many
//! writes are under way at once follows from what one stream moves and what many do; several writes into one file do what
//! several files do elsewhere, so the number of files does not matter and is left to whoever names them.
//!
//! A probe writes 13 MiB at most and syncs them.

use crate::codec::{Compression, Encoder};
use daruma_base::{Clock, DiskFile, Env, OpenMode};
use std::io;
use std::path::Path;
use std::time::Duration;

const SMALL_BYTES: usize = 1 << 20;
pub(crate) const LARGE_BYTES: usize = 4 << 20;
const STREAMS: usize = 8;
/// A device that takes longer for a small write is bound by bytes: larger writes will not help.
const SLOW: Duration = Duration::from_millis(50);
/// So much better must larger writes be.
const LARGE_GAIN: f64 = 1.3;
const LEVELS: [i32; 3] = [1, 3, 6];
/// Others want the processors, too: so much of them is counted on.
const PROCESSORS_PART: f64 = 0.7;
/// A lower level is taken when it is so near to the best.
const NEAR: f64 = 0.95;
const LANES_MAX: usize = 64;

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpeed {
    pub bytes_per_s: f64,
    /// One write after the other.
    pub stream_bytes_per_s: f64,
    pub wants_large_writes: bool,
}

impl DeviceSpeed {
    /// Writes `13 MiB` into a new file of the folder and removes it again.
    pub fn measure(env: &Env, folder: &Path) -> io::Result<DeviceSpeed> {
        let path = folder.join(format!(".backup-probe-{:016x}", env.random.u64()));
        let file = env.disk.open(&path, OpenMode::CreateNew)?;
        let measured = measure_file(env, file.as_ref());
        drop(file);
        let removed = env.disk.remove(&path);
        let speed = measured?;
        removed.map(|()| speed)
    }

    /// Several folders, written at once.
    pub fn together(speeds: &[DeviceSpeed]) -> Option<DeviceSpeed> {
        let first = *speeds.first()?;
        Some(speeds[1..].iter().fold(first, |sum, one| DeviceSpeed {
            bytes_per_s: sum.bytes_per_s + one.bytes_per_s,
            stream_bytes_per_s: sum.stream_bytes_per_s.min(one.stream_bytes_per_s),
            wants_large_writes: sum.wants_large_writes || one.wants_large_writes,
        }))
    }

    /// Writes to have under way so that the device is never idle.
    pub fn lanes(&self) -> usize {
        let lanes = (self.bytes_per_s / self.stream_bytes_per_s).ceil();
        (lanes.clamp(1.0, LANES_MAX as f64) as usize) + 1
    }
}

fn measure_file(env: &Env, file: &dyn DiskFile) -> io::Result<DeviceSpeed> {
    let mut bytes = vec![0; LARGE_BYTES];
    env.random.fill(&mut bytes);
    let clock = env.clock.as_ref();
    let small = timed(clock, || file.write_at(&bytes[..SMALL_BYTES], 0))?;
    let stream = rate(SMALL_BYTES, small);
    let large = match small > SLOW {
        true => stream,
        false => rate(
            LARGE_BYTES,
            timed(clock, || file.write_at(&bytes, SMALL_BYTES as u64))?,
        ),
    };
    let begin = (SMALL_BYTES + LARGE_BYTES) as u64;
    let together = timed(clock, || {
        write_streams(file, &bytes[..SMALL_BYTES], begin)?;
        file.sync_data()
    })?;
    let bytes_per_s = rate(STREAMS * SMALL_BYTES, together);
    Ok(DeviceSpeed {
        bytes_per_s,
        // What the page cache takes is not what the device does.
        stream_bytes_per_s: stream.min(bytes_per_s),
        wants_large_writes: large > stream * LARGE_GAIN,
    })
}

fn write_streams(file: &dyn DiskFile, bytes: &[u8], begin: u64) -> io::Result<()> {
    std::thread::scope(|scope| {
        let streams: Vec<_> = (0..STREAMS)
            .map(|n| scope.spawn(move || file.write_at(bytes, begin + (n * bytes.len()) as u64)))
            .collect();
        streams.into_iter().try_for_each(|s| {
            s.join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    })
}

fn timed(clock: &dyn Clock, work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begun = clock.monotonic();
    work()?;
    Ok(clock.monotonic().saturating_sub(begun))
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64().max(1e-6)
}

/// What a level does to this database on one processor.
#[derive(Clone, Copy, Debug)]
struct LevelSpeed {
    level: i32,
    plain_bytes_per_s: f64,
    stored_part: f64,
}

/// The ZSTD level that fits a device, by trying the levels on `sample`.
pub fn choose_level(
    clock: &dyn Clock,
    device: &DeviceSpeed,
    processors: usize,
    sample: &[u8],
) -> io::Result<i32> {
    let try_level = |level| {
        let mut encoder = Encoder::new(Compression::Zstd { level })?;
        let begun = clock.thread_cpu();
        let (mut stored, mut plain) = (0, 0);
        for frame in sample.chunks(SMALL_BYTES) {
            stored += encoder.encode(frame)?.1.len();
            plain += frame.len();
        }
        let time = clock.thread_cpu().saturating_sub(begun);
        Ok(LevelSpeed {
            level,
            plain_bytes_per_s: rate(plain, time),
            stored_part: stored as f64 / plain.max(1) as f64,
        })
    };
    let levels = LEVELS
        .into_iter()
        .map(try_level)
        .collect::<io::Result<Vec<_>>>()?;
    Ok(best_level(device, processors, &levels))
}

fn best_level(device: &DeviceSpeed, processors: usize, levels: &[LevelSpeed]) -> i32 {
    let speed = |l: &LevelSpeed| {
        let computed = l.plain_bytes_per_s * processors as f64 * PROCESSORS_PART;
        computed.min(device.bytes_per_s / l.stored_part.max(1e-6))
    };
    let best = levels.iter().map(speed).fold(0.0, f64::max);
    let near = levels.iter().find(|l| speed(l) >= best * NEAR);
    near.map_or(1, |l| l.level)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS_OF_A_DATABASE: [LevelSpeed; 3] = [
        LevelSpeed {
            level: 1,
            plain_bytes_per_s: 400e6,
            stored_part: 0.40,
        },
        LevelSpeed {
            level: 3,
            plain_bytes_per_s: 250e6,
            stored_part: 0.36,
        },
        LevelSpeed {
            level: 6,
            plain_bytes_per_s: 90e6,
            stored_part: 0.33,
        },
    ];

    fn device(bytes_per_s: f64, stream_bytes_per_s: f64) -> DeviceSpeed {
        DeviceSpeed {
            bytes_per_s,
            stream_bytes_per_s,
            wants_large_writes: false,
        }
    }

    #[test]
    fn a_slow_device_is_worth_a_higher_level_while_the_processors_keep_up() {
        let level = |bytes_per_s, processors| {
            best_level(&device(bytes_per_s, 1e6), processors, &LEVELS_OF_A_DATABASE)
        };
        assert_eq!(level(2e9, 2), 1);
        assert_eq!(level(100e6, 2), 3);
        assert_eq!(level(60e6, 8), 6);
        assert_eq!(level(10e6, 1), 6);
    }

    #[test]
    fn enough_writes_are_under_way_to_fill_the_device() {
        assert_eq!(device(60e6, 16e6).lanes(), 5);
        assert_eq!(device(60e6, 60e6).lanes(), 2);
        assert_eq!(device(9e9, 1e6).lanes(), LANES_MAX + 1);
    }

    #[test]
    fn a_probe_leaves_nothing_behind() {
        let disk = daruma_sim::SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let speed = DeviceSpeed::measure(&env, Path::new("/b")).expect("measures");
        assert!(speed.bytes_per_s > 0.0 && speed.stream_bytes_per_s > 0.0);
        assert!(
            daruma_base::Disk::list(disk.as_ref(), Path::new("/b"))
                .expect("lists")
                .is_empty()
        );
    }
}
