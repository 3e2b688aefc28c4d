//! Which level of compression pays, learned while the backup runs.
//!
//! Theory: a backup is as fast as the slower of two things: what the processors compress, and what the devices take. A higher
//! level costs the first and helps the second. Neither has to be measured beforehand: the devices show their rate as soon as
//! the queue of writes is full, and each frame shows what its level does, since frames are compressed one by one. So the
//! first frames have the lowest level; when the queue fills, some are tried at the others, and from then on the level is the
//! lowest whose rate is within 5 % of the best. Now and then another level gets a frame, because content and load change.
//! (`zstd --adapt` steers by the fullness of its queues in the same way, but does not look at what a level gains.)

use crate::queue::Look;
use std::time::Duration;

/// Levels that are considered, cheapest first.
const LEVELS: [i32; 3] = [1, 3, 6];
/// A lower level is taken when it is so near to the best.
const NEAR: f64 = 0.95;
/// Frames with which a level is tried before it is judged.
const TRIALS: u32 = 3;
/// One frame of so many is compressed at another level, to see whether that has become better.
const TRIAL_EVERY: u64 = 64;
/// Weight of the newest figure in a mean.
const WEIGHT: f64 = 0.25;
/// The devices' rate is taken over at least so long a time in which they were the slower part, and so many bytes: a few writes
/// more or less are to make little difference.
const WINDOW: Duration = Duration::from_millis(200);
const WINDOW_BYTES: u64 = 8 << 20;

/// Effect of a level on this database, on one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    trials: u32,
    plain_bytes_per_s: f64,
    stored_part: f64,
}

/// Chooses the level of each frame.
#[derive(Debug)]
pub struct Levels {
    processors: usize,
    figures: [Figures; LEVELS.len()],
    device: DeviceRate,
    current: usize,
    frames: u64,
}

impl Levels {
    /// For a backup that compresses on `processors` threads.
    pub fn new(processors: usize) -> Levels {
        Levels {
            processors,
            figures: Default::default(),
            device: DeviceRate::default(),
            current: 0,
            frames: 0,
        }
    }

    /// The level of the next frame.
    pub fn next(&mut self) -> i32 {
        self.frames += 1;
        if self.device.bytes_per_s.is_none() {
            return LEVELS[0];
        }
        let untried = self.figures.iter().position(|f| f.trials < TRIALS);
        let trial = self
            .frames
            .is_multiple_of(TRIAL_EVERY)
            .then_some((self.frames / TRIAL_EVERY) as usize % LEVELS.len());
        LEVELS[untried.or(trial).unwrap_or(self.current)]
    }

    /// Notes how long a frame took at a level, and what it became.
    pub fn record(&mut self, level: i32, plain_bytes: usize, stored_bytes: usize, time: Duration) {
        let Some(at) = LEVELS.iter().position(|l| *l == level) else {
            return;
        };
        let rate = plain_bytes as f64 / time.as_secs_f64().max(1e-6);
        let part = stored_bytes as f64 / plain_bytes.max(1) as f64;
        let figures = &mut self.figures[at];
        let weight = if figures.trials == 0 { 1.0 } else { WEIGHT };
        mix(&mut figures.plain_bytes_per_s, rate, weight);
        mix(&mut figures.stored_part, part, weight);
        figures.trials = figures.trials.saturating_add(1);
        self.choose();
    }

    /// Takes a look at the queue of writes, now and then.
    pub fn observe(&mut self, now: Duration, look: Look) {
        self.device.observe(now, look);
        self.choose();
    }

    fn choose(&mut self) {
        let Some(device) = self.device.bytes_per_s else {
            return;
        };
        let tried = |f: &Figures| f.trials >= TRIALS;
        let rate = |f: &Figures| {
            let computed = f.plain_bytes_per_s * self.processors as f64;
            computed.min(device / f.stored_part.max(1e-6))
        };
        let best = self.figures.iter().filter(|f| tried(f)).map(rate);
        let best = best.fold(0.0, f64::max);
        let near = |f: &Figures| tried(f) && rate(f) >= best * NEAR;
        self.current = self.figures.iter().position(near).unwrap_or(0);
    }
}

fn mix(mean: &mut f64, new: f64, weight: f64) {
    *mean += (new - *mean) * weight;
}

/// Rate of the devices, known when they have been the slower part for a while.
#[derive(Debug, Default)]
struct DeviceRate {
    /// Since when they have been, and what was written then.
    full_since: Option<(Duration, u64)>,
    bytes_per_s: Option<f64>,
}

impl DeviceRate {
    fn observe(&mut self, now: Duration, look: Look) {
        if !look.was_full {
            self.full_since = None;
            return;
        }
        let (since, before) = *self.full_since.get_or_insert((now, look.written));
        let time = now.saturating_sub(since);
        let bytes = look.written.saturating_sub(before);
        if time < WINDOW || bytes < WINDOW_BYTES {
            return;
        }
        let rate = bytes as f64 / time.as_secs_f64();
        match &mut self.bytes_per_s {
            Some(mean) => mix(mean, rate, WEIGHT),
            None => self.bytes_per_s = Some(rate),
        }
        self.full_since = Some((now, look.written));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain bytes per second of one thread, and part stored, by level: such a database.
    fn figures_of(level: i32) -> (f64, f64) {
        match level {
            1 => (400e6, 0.40),
            3 => (250e6, 0.36),
            _ => (90e6, 0.33),
        }
    }

    /// Levels of the last of many frames, the devices taking `bytes_per_s` all the time.
    fn settled(bytes_per_s: f64, processors: usize) -> Vec<i32> {
        let mut levels = Levels::new(processors);
        let mut chosen = Vec::new();
        for n in 0..400u64 {
            let now = Duration::from_millis(50 * n);
            let written = (bytes_per_s * now.as_secs_f64()) as u64;
            let was_full = true;
            levels.observe(now, Look { written, was_full });
            let level = levels.next();
            let (rate, part) = figures_of(level);
            let time = Duration::from_secs_f64(1e6 / rate);
            levels.record(level, 1_000_000, (1e6 * part) as usize, time);
            chosen.push(level);
        }
        chosen.split_off(330)
    }

    fn most(levels: &[i32]) -> i32 {
        let count = |level: &i32| levels.iter().filter(|l| *l == level).count();
        LEVELS.into_iter().max_by_key(count).unwrap_or(0)
    }

    #[test]
    fn a_slow_device_is_worth_a_higher_level_while_the_processors_keep_up() {
        for (bytes_per_s, processors, level) in
            [(2e9, 2, 1), (150e6, 2, 3), (60e6, 8, 6), (10e6, 1, 6)]
        {
            let chosen = settled(bytes_per_s, processors);
            assert_eq!(most(&chosen), level, "{bytes_per_s} on {processors}");
            let trials = chosen.iter().filter(|l| **l != level).count();
            assert!(trials <= 2, "{chosen:?}");
        }
    }

    #[test]
    fn nothing_is_tried_while_the_devices_keep_up() {
        let mut levels = Levels::new(2);
        for n in 0..200u64 {
            let look = Look {
                written: n << 20,
                was_full: false,
            };
            levels.observe(Duration::from_millis(50 * n), look);
            let level = levels.next();
            assert_eq!(level, 1);
            levels.record(level, 1 << 20, 1 << 19, Duration::from_millis(3));
        }
    }

    #[test]
    fn a_level_that_gains_nothing_is_not_used() {
        let mut levels = Levels::new(2);
        let mut higher = 0;
        for n in 0..300u64 {
            let look = Look {
                written: n * 3_000_000,
                was_full: true,
            };
            levels.observe(Duration::from_millis(50 * n), look);
            let level = levels.next();
            higher += u32::from(level > 1);
            levels.record(level, 1 << 20, 1 << 19, Duration::from_millis(3));
        }
        assert!(higher <= 2 * TRIALS + 5, "{higher} frames");
    }
}
