//! A log that is another node's copy: it takes sealed blocks as they are, and makes none.
//!
//! Theory: blocks keep their positions and bytes, so positions compare on every node. Where they lie in the file is this node's
//! own affair: it has virtual log files of its own sizes, and begins one wherever the incarnation changes. The log grows as far
//! as the blocks need it, also past its limit: what comes was logged already, and to refuse it would only leave this node behind.
//!
//! The tail can be cut off again, for it may be ahead of what the next primary has: [`Log::cut_tail`] takes away everything from
//! a block boundary on. What lies behind is never read again, also where blocks of the same positions come to lie there later.
//!
//! What a block says to be hard was so on the node that made it. Here it proves nothing: the end of a copied log is where the
//! first block is missing, wherever other ones of which nobody was told happen to lie. What this node has told that it has is
//! below a mark of its own in the boot page (`Store::write_boot` raises it), and damage below that mark is damage.
//!
//! Invariants
//! 1. A block is taken only where the last one ended, whole, and of no older incarnation.
//! 2. A crash at any instant of a cut leaves the log as it was before or as it is after.
//!
//! | a crash finds | the log ends |
//! |---|---|
//! | the VLF in which the cut lies still whole | where it ended before |
//! | that VLF says how much it holds | at the cut |
//! | the cut at the beginning of a VLF, whose header is as it was | where it ended before |
//! | that header says that it holds nothing | at the cut |

use super::block::{self, BLOCK_ALIGN_BYTES, BLOCK_HEADER_BYTES};
use super::file::{LSN_END, Left};
use super::hold::Need;
use super::{DelayedCommits, Log, LogState, NOTHING, Placement, Room, Sealed};
use super::{Tried, inspect_unpadded};
use crate::error::{Result, StorageError};
use crate::planted::{Bug, planted};
use daruma_base::{Lsn, reached};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a block was not taken.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// It does not fit here; nothing has changed.
    #[error("a log block at {found} is refused where {expected} comes next: {what}")]
    Refused {
        found: Lsn,
        expected: Lsn,
        what: &'static str,
    },
    /// It could not be kept.
    #[error(transparent)]
    Failed(#[from] StorageError),
}

impl Log {
    /// From here on the log takes blocks of another node behind `end`, where its last whole block ends. What lies behind that
    /// is taken away. Everything from `keep_from` on is kept.
    pub fn follow(&self, end: Lsn, keep_from: Lsn) -> Result<()> {
        let mut state = self.state.lock();
        assert!(
            state.open.is_none() && state.sealed.is_empty(),
            "a log that is written becomes a copy"
        );
        state.file.cut_at(end.0)?;
        state.file.truncate(Need {
            from: keep_from,
            reason: NOTHING,
        });
        state.next_block = end.0;
        state.refuses_blocks = false;
        self.hardened.store(end.0, Ordering::Release);
        self.is_copy.store(true, Ordering::Release);
        Ok(())
    }

    /// Is it another node's copy? Nothing can be appended to it then but blocks.
    pub fn is_copy(&self) -> bool {
        self.is_copy.load(Ordering::Acquire)
    }

    /// Before the end of a log is looked for: it is a copy, so what its blocks say to be hard is no proof.
    pub fn set_copy(&self) {
        self.is_copy.store(true, Ordering::Release);
    }

    /// From here on no block is taken: this node goes on with the log.
    pub fn refuse_blocks(&self) {
        self.state.lock().refuses_blocks = true;
    }

    /// Takes the next block as the other node has sealed it, without padding; where the one after begins. It is hard after
    /// [`Log::sync_blocks`].
    pub fn append_block(&self, used: &[u8]) -> std::result::Result<Lsn, BlockError> {
        self.check()?;
        let found = Lsn(block::claimed_lsn(used).unwrap_or(0));
        let refused = |expected, what| BlockError::Refused {
            found,
            expected,
            what,
        };
        let whole = inspect_unpadded(used).filter(|_| holds_records(used));
        let Some((_, padded)) = whole else {
            return Err(refused(self.sealed_end(), "it is not whole"));
        };
        if self.state.lock().has_backlog() {
            self.relieve()?;
        }
        let incarnation = block::incarnation_of(used);
        let mut bytes = Some(Arc::new(padded));
        let mut tried = Tried::default();
        loop {
            let mut state = self.state.lock();
            let expected = Lsn(state.next_block);
            if !self.is_copy() || state.refuses_blocks {
                return Err(refused(expected, "this log is no copy"));
            }
            if found != expected && !planted(Bug::AcceptGap) {
                return Err(refused(expected, "it is not the next one"));
            }
            if incarnation < state.file.incarnation() || incarnation >= u32::MAX / 2 {
                return Err(refused(expected, "its incarnation is over"));
            }
            if found.0 >= LSN_END {
                return Err(refused(expected, "the log ends before it"));
            }
            state.file.set_incarnation(incarnation);
            let need = bytes.as_ref().map_or(0, |b| b.len()) as u64;
            match state
                .file
                .place(found.0, need, Left::ByEndings(0), &mut tried)?
            {
                Room::Found(placement) => {
                    let bytes = bytes.take().unwrap_or_default();
                    return Ok(state.take_block(found.0, bytes, placement));
                }
                Room::Grow { step, seen } => {
                    drop(state);
                    tried.failure = self.grow(|file| file.by(step, seen)).err();
                }
            }
        }
    }

    /// Makes all blocks hard that have come so far, on this thread; up to where the log is hard then.
    pub fn sync_blocks(&self) -> Result<Lsn> {
        self.harden_all_here()?;
        Ok(self.hardened())
    }

    /// Takes away everything from `at` on, a block boundary, durably. The caller sees to it that neither the boot page nor any
    /// other page depends on it, and that nobody appends meanwhile.
    pub fn cut_tail(&self, at: Lsn) -> Result<()> {
        self.check()?;
        self.harden_all_here()?;
        let mut state = self.state.lock();
        let is_within = at.0.is_multiple_of(BLOCK_ALIGN_BYTES as u64)
            && at.0 <= state.next_block
            && at.0 >= state.file.min_lsn();
        if !self.is_copy() || !is_within {
            return Err(StorageError::DamagedLog {
                path: state.file.handle().path().clone(),
                lsn: at,
                what: "the log cannot be cut there".into(),
            });
        }
        if let Err(error) = state.file.cut_at(at.0) {
            // Nobody knows where it ends now.
            drop(state);
            self.fence(&error.to_string());
            return Err(error);
        }
        reached!("log.tail.cut");
        state.forget_from(at.0);
        self.hardened.store(at.0, Ordering::Release);
        drop(state);
        self.feeds.ring();
        Ok(())
    }
}

impl LogState {
    fn take_block(&mut self, lsn: u64, bytes: Arc<Vec<u8>>, placement: Placement) -> Lsn {
        let Placement { offset, header, .. } = placement;
        self.headers.extend(header);
        self.next_block = lsn + bytes.len() as u64;
        self.file.advance(self.next_block);
        self.sealed_bytes += bytes.len();
        self.sealed.push_back(Sealed {
            lsn,
            offset,
            bytes,
            delayed: DelayedCommits::default(),
        });
        self.feeds.ring();
        Lsn(self.next_block)
    }

    /// Memory holds no block from `at` on.
    fn forget_from(&mut self, at: u64) {
        while let Some(block) = self.recent.pop_back_if(|block| block.lsn >= at) {
            self.recent_bytes -= block.bytes.capacity();
        }
        self.next_block = at;
        self.cuts += 1;
        self.cut_at = at;
    }
}

/// Do records fill the block to its end? Who reads them later relies on it.
fn holds_records(used: &[u8]) -> bool {
    let mut at = BLOCK_HEADER_BYTES;
    while at < used.len() {
        let Some(record) = block::record_at(used, at) else {
            return false;
        };
        at += record.len();
    }
    at > BLOCK_HEADER_BYTES
}

#[cfg(test)]
mod tests;
