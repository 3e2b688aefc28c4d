//! What a first look at the log finds, before the pass: its end, and which transactions commit in it.
//!
//! What nobody can need any more is not made: versions of a transaction that commits, and where it wrote. The look is needed for the end
//! anyway; it begins where the log is not known to be hard, so commits before that are not among those found, nor are more than
//! [`COMMITS_MAX`]: of the others the pass finds out as it goes.
//!
//! A database of a group has the end of its log cut off when another replica has become the primary, maybe after a recovery that did
//! not come to its end: pages it wrote must have the versions of what is cut off, so it knows of no commits ahead.

use crate::buffer::Store;
use crate::error::Result;
use crate::log::Block;
use crate::log::commit;
use crate::log::record::{Kind, Record};
use daruma_base::{Lsn, TxnId};
use std::collections::HashSet;

/// Ids that are remembered: a mebibyte or two.
const COMMITS_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct Ahead {
    /// End of the log; all before it is hard.
    pub end: Lsn,
    pub(super) commits: Commits,
}

/// Transactions whose commit lies ahead.
#[derive(Debug, Default)]
pub(crate) struct Commits(HashSet<TxnId>);

impl Commits {
    /// Does the transaction commit? `false`: that is not known.
    pub(super) fn has(&self, txn: TxnId) -> bool {
        self.0.contains(&txn)
    }

    fn note(&mut self, block: &Block) {
        for (_, bytes) in block.records() {
            if self.0.len() >= COMMITS_MAX {
                return;
            }
            // What cannot be read is found by the pass, which says where.
            let commit = Record::parse(bytes).filter(|r| r.kind == Kind::Commit);
            let Some(record) = commit else { continue };
            if let Some((_, earlier)) = commit::parse_commit(&record) {
                self.0.extend(earlier.chain([record.txn]));
            }
        }
    }
}

impl Ahead {
    /// Forgets the commits: the log may be cut off below them after all.
    #[must_use]
    pub fn without_commits(self) -> Ahead {
        Ahead {
            commits: Commits::default(),
            ..self
        }
    }
}

/// Looks for the end of the log. What nothing proves to be hard is written once more, so that from here on all of it is.
pub fn look_ahead(store: &Store) -> Result<Ahead> {
    let boot = store.files.boot();
    let mut hard = boot.redo_start.max(boot.hard);
    let mut commits = Commits::default();
    let Ok(mut cursor) = store.log.cursor(hard) else {
        // The file ends there, or before: whoever reads up to there finds out.
        return Ok(Ahead { end: hard, commits });
    };
    while let Some(block) = cursor.next()? {
        hard = hard.max(cursor.proven_by(&block));
        commits.note(&block);
    }
    let end = cursor.position();
    if !boot.clean && hard < end {
        store.log.write_again(hard, end)?;
    }
    Ok(Ahead { end, commits })
}
