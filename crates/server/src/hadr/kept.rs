//! Copies over files that the new secondary has already: sums of their pages, and which pages stay.
//!
//! ```text
//! keeps   7                                        secondary: it has files; before it asks for the copy
//! sums    8 | file u16 | first page u32 | sums     secondary: of its pages, in the order of the copy's files
//! no more 9                                        secondary: it has told all
//! same   10 | file u16 | first page u32 | pages u32   primary: these stay
//! ```
//!
//! Theory: a page stays if its SHA-256, of which 16 bytes travel, is that of the primary's page, so nothing depends on what log the files come
//! from. The secondary tells sums as far as it is granted; the primary grants again what it has compared, and waits for the sums of the
//! page that is next. Neither waits while it reads its connection, so none waits for the other.
//!
//! A primary that does not know these parts passes over the first and says nothing of sums at its beginning: then no sums are told, and
//! all pages come.

use daruma_base::PageId;
use daruma_group::transport::{Link, Pull, Source};
use daruma_group::wire::{Message, seed_frame_bytes};
use daruma_storage::{PageRun, Rebuild};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(super) const KEEPS: u8 = 7;
pub(super) const SUMS: u8 = 8;
pub(super) const NO_MORE: u8 = 9;
pub(super) const SAME: u8 = 10;

const PAGE_BYTES: usize = 8192;
const SUM_BYTES: usize = 16;
/// Pages of which one part tells.
const PAGES_PER_SUMS: u32 = 256;

/// What a page is known by.
type Sum = [u8; SUM_BYTES];

pub(super) fn sum_of(page: &[u8]) -> Sum {
    let digest = Sha256::digest(page);
    let mut sum = Sum::default();
    sum.iter_mut().zip(digest).for_each(|(s, d)| *s = d);
    sum
}

/// A run of pages that stay, as it travels.
pub(super) fn same_part(file: u16, run: PageRun) -> Vec<u8> {
    let mut part = vec![SAME];
    part.extend(file.to_le_bytes());
    part.extend(run.first.to_le_bytes());
    part.extend(run.count.to_le_bytes());
    part
}

/// What [`same_part`] made, without its first byte.
pub(super) fn same_pages(body: &[u8]) -> Option<(u16, PageRun)> {
    let (file, rest) = body.split_first_chunk()?;
    let (first, rest) = rest.split_first_chunk()?;
    let (count, _) = rest.split_first_chunk()?;
    let (first, count) = (u32::from_le_bytes(*first), u32::from_le_bytes(*count));
    Some((u16::from_le_bytes(*file), PageRun { first, count }))
}

/// Bytes that were read for a part of a copy, as they lie on disk: pages that stay travel as a few bytes, and were read all the same.
pub(super) fn bytes_read(part: &[u8]) -> u64 {
    let stays = match part.split_first() {
        Some((&SAME, body)) => same_pages(body).map_or(0, |(_, run)| u64::from(run.count)),
        _ => 0,
    };
    stays * PAGE_BYTES as u64 + part.len() as u64
}

// --- the primary's side

/// Sums that a secondary has told and that are still to be compared.
pub(super) struct Sums {
    link: Weak<Link>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    parts: VecDeque<Part>,
    is_all: bool,
}

struct Part {
    file: u16,
    first: u32,
    sums: Vec<Sum>,
    frame_bytes: usize,
}

/// What is known of a page of the secondary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Sum(Sum),
    /// It has none that could stay.
    Nothing,
    /// It is to be told.
    NotYet,
}

impl Sums {
    pub(super) fn new(link: &Arc<Link>) -> Arc<Sums> {
        Arc::new(Sums {
            link: Arc::downgrade(link),
            told: Mutex::default(),
        })
    }

    /// A part that came. `None`: it is none of these.
    pub(super) fn take(&self, part: &[u8]) -> Option<()> {
        let frame_bytes = seed_frame_bytes(part);
        let (kind, body) = part.split_first()?;
        let mut told = self.told.lock();
        match *kind {
            SUMS => {
                let (file, rest) = body.split_first_chunk()?;
                let (first, rest) = rest.split_first_chunk()?;
                let sums = rest.chunks_exact(SUM_BYTES);
                let sums = sums.map(|sum| sum.try_into().unwrap_or_default());
                told.parts.push_back(Part {
                    file: u16::from_le_bytes(*file),
                    first: u32::from_le_bytes(*first),
                    sums: sums.collect(),
                    frame_bytes,
                });
            }
            NO_MORE => told.is_all = true,
            _ => return None,
        }
        drop(told);
        if let Some(link) = self.link.upgrade() {
            link.wake();
        }
        Some(())
    }

    /// What is known of a page; `order` are the copy's files, and nobody asks for a page before one that was asked for.
    pub(super) fn of(&self, order: &[u16], file: u16, page: u32) -> Known {
        let place = |file: u16| order.iter().position(|f| *f == file);
        let mut told = self.told.lock();
        loop {
            let Some(part) = told.parts.front() else {
                return if told.is_all {
                    Known::Nothing
                } else {
                    Known::NotYet
                };
            };
            let at = page.checked_sub(part.first).map(|at| at as usize);
            let sum = at.and_then(|at| part.sums.get(at));
            if part.file == file
                && let Some(sum) = sum
            {
                return Known::Sum(*sum);
            }
            if (place(part.file), part.first) > (place(file), page) {
                return Known::Nothing;
            }
            let passed = part.frame_bytes;
            told.parts.pop_front();
            if let Some(link) = self.link.upgrade() {
                link.grant(passed);
            }
        }
    }
}

// --- the secondary's side

/// Shows somebody the copy's files, or nothing when it has ended.
pub(super) type Lend = Box<dyn Fn(&mut dyn FnMut(&Rebuild)) + Send + Sync>;

/// Tells sums of the files that a copy is written over.
pub(super) struct Claims {
    database: u128,
    read: Lend,
    left: Mutex<VecDeque<(u16, PageRun)>>,
    is_over: AtomicBool,
    /// Nobody compares them any more.
    is_stopped: AtomicBool,
    /// A part has just gone: whatever else the connection has to send goes before the next.
    has_sent: AtomicBool,
}

impl Claims {
    /// `files`: those that were taken over, with their pages, in the copy's order. `read` lends the files.
    pub(super) fn new(database: u128, files: &[(u16, u64)], read: Lend) -> Claims {
        let whole = |(file, pages): &(u16, u64)| {
            let count = u32::try_from(*pages).unwrap_or(u32::MAX);
            (*file, PageRun { first: 0, count })
        };
        Claims {
            database,
            read,
            left: Mutex::new(files.iter().map(whole).collect()),
            is_over: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            has_sent: AtomicBool::new(false),
        }
    }

    /// The copy's pages have all come: no more sums are told.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn next(&self) -> Option<Vec<u8>> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut left = self.left.lock();
        while left.front().is_some_and(|(_, run)| run.count == 0) {
            left.pop_front();
        }
        let Some((file, run)) = left.front_mut() else {
            let was_over = self.is_over.swap(true, Ordering::Relaxed);
            return (!was_over).then(|| vec![NO_MORE]);
        };
        let count = run.count.min(PAGES_PER_SUMS);
        let mut part = vec![SUMS];
        part.extend(file.to_le_bytes());
        part.extend(run.first.to_le_bytes());
        (self.read)(&mut |files| {
            let mut page = [0; PAGE_BYTES];
            for number in run.first..run.first + count {
                // One that cannot be read, or could not stay, has a sum that no page has.
                let sum = match files.read_kept(PageId::new(*file, number), &mut page) {
                    Ok(true) => sum_of(&page),
                    _ => Sum::default(),
                };
                part.extend(sum);
            }
        });
        (run.first, run.count) = (run.first + count, run.count - count);
        Some(part)
    }
}

impl Source for Claims {
    fn pull(&self) -> Pull {
        if self.has_sent.swap(false, Ordering::Relaxed) {
            return Pull::Later(Duration::ZERO);
        }
        let part = self.next();
        self.has_sent.store(part.is_some(), Ordering::Relaxed);
        match part {
            Some(part) => Pull::Send(Message::Seed {
                database: self.database,
                part: Arc::from(part),
            }),
            None => Pull::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_stay_count_as_what_was_read_of_them() {
        let run = PageRun {
            first: 70,
            count: 448,
        };
        let part = same_part(3, run);
        assert_eq!(bytes_read(&part), 448 * 8192 + part.len() as u64);
        assert_eq!(bytes_read(&[2; 57_351]), 57_351);
    }

    #[test]
    fn nothing_is_read_for_a_copy_whose_pages_have_all_come() {
        let claims = Claims::new(1, &[(1, 8)], Box::new(|_| panic!("it is read")));
        claims.stop();
        assert!(matches!(claims.pull(), Pull::Nothing));
    }
}
