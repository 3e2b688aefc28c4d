//! Pictures of a disk in the middle of its calls: one history, and the power fails at many points of it.
//!
//! Theory: before a write-side call is carried out, all that is on the disk and on its way there is copied, which costs little
//! (`bytes`), the call itself as the write under way. A picture becomes a disk of its own that has stopped there: to be
//! crashed or restarted like any other, with losses drawn from a seed of its own.
//!
//! Invariant: pictures change nothing on the disk that they are taken of, its randomness included.

use crate::disk::{Content, Directory, Names, Shared, SimDisk};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pictures that wait to be fetched; more are not taken.
const IMAGES_MAX: usize = 64;

/// A disk as it was before one of its calls.
pub struct Image {
    names: Directory,
    /// Number of the call, as [`SimDisk::calls`] counts.
    pub call: u64,
}

/// The pictures taken, oldest first.
pub type Images = Vec<Image>;

/// When pictures are taken, and those that were.
#[derive(Default)]
pub(crate) struct Photographer(Mutex<Plan>);

#[derive(Default)]
struct Plan {
    one_in: u64,
    seed: u64,
    images: Images,
}

impl Photographer {
    /// From now on one in so many calls is preceded by a picture; 0: none.
    pub fn set(&self, one_in: u64, seed: u64) {
        let mut plan = self.0.lock();
        (plan.one_in, plan.seed) = (one_in, seed);
    }

    /// Gives away the pictures taken so far.
    pub fn images(&self) -> Images {
        std::mem::take(&mut self.0.lock().images)
    }

    /// Is the next call to be preceded by a picture?
    fn is_due(&self) -> bool {
        let plan = &mut *self.0.lock();
        if plan.one_in == 0 || plan.images.len() >= IMAGES_MAX {
            return false;
        }
        let random = crate::SimRandom::new(plan.seed);
        plan.seed = random.next();
        plan.seed.is_multiple_of(plan.one_in)
    }
}

impl Shared {
    /// Takes a picture, if it is time, before a call on the file with that content.
    pub fn photograph(&self, content: &Arc<Mutex<Content>>, write: Option<(u64, &[u8])>) {
        if !self.photographer.is_due() {
            return;
        }
        let names = copied(&self.names.lock(), |original, copy| {
            if Arc::ptr_eq(original, content) {
                copy.in_flight = write.map(|(offset, bytes)| (offset, bytes.into()));
            }
        });
        let call = self.call();
        self.photographer
            .0
            .lock()
            .images
            .push(Image { names, call });
    }
}

impl Image {
    /// A disk that has stopped there, to be crashed or restarted; what goes wrong on it is drawn from `seed`.
    pub fn into_disk(self, seed: u64) -> Arc<SimDisk> {
        let disk = SimDisk::new(seed);
        let used = self.names.now.values().map(|c| c.lock().now.len() as u64);
        disk.shared.used_bytes.store(used.sum(), Ordering::Relaxed);
        *disk.shared.names.lock() = self.names;
        disk.stop();
        disk
    }

    /// The same picture once more.
    pub fn again(&self) -> Image {
        Image {
            names: copied(&self.names, |original, copy| {
                copy.in_flight.clone_from(&original.lock().in_flight);
            }),
            call: self.call,
        }
    }
}

/// The same names, with contents of their own. Two names of one content have one in the copy, too.
fn copied(names: &Directory, change: impl Fn(&Arc<Mutex<Content>>, &mut Content)) -> Directory {
    let mut known: Vec<(Arc<Mutex<Content>>, Arc<Mutex<Content>>)> = Vec::new();
    let mut copy_of = |original: &Arc<Mutex<Content>>| {
        if let Some((_, copy)) = known.iter().find(|(o, _)| Arc::ptr_eq(o, original)) {
            return copy.clone();
        }
        let mut copy = original.lock().clone();
        (copy.locked, copy.in_flight) = (false, None);
        change(original, &mut copy);
        let copy = Arc::new(Mutex::new(copy));
        known.push((original.clone(), copy.clone()));
        copy
    };
    let mut map = |names: &Names| -> Names {
        let copies = names
            .iter()
            .map(|(p, c): (&PathBuf, _)| (p.clone(), copy_of(c)));
        copies.collect()
    };
    let (now, durable) = (map(&names.now), map(&names.durable));
    Directory { now, durable }
}
