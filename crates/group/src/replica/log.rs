//! What a replica needs of a database's log.

use crate::commit::ReplicaId;
use daruma_base::Lsn;
use std::sync::Arc;

/// Why a log cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed: the database is fenced.
    #[error("log of a replica: {0}")]
    Failed(String),
    /// The log that is asked for is no longer there: the copy has to be made anew.
    #[error("the log is not kept that far back")]
    Gone,
    /// A block that does not come where the log ends, or is damaged.
    #[error("a log block does not fit: {0}")]
    Refused(String),
    /// What was to be cut off stays: pages have it.
    #[error("the log cannot be cut off there: {0}")]
    Needed(String),
}

/// A sealed block.
#[derive(Clone, Debug)]
pub struct LogBlock {
    /// Where it begins.
    pub first: Lsn,
    /// Where the next one begins.
    pub end: Lsn,
    /// Header and records, perhaps with padding behind them.
    pub bytes: Arc<Vec<u8>>,
    /// Bytes without the padding.
    pub used: usize,
}

impl LogBlock {
    /// Header and records.
    pub fn plain(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

/// Sealed blocks in order, each once.
pub trait Feed: Send {
    /// The next block that ends at `limit` or before, if it is there. It waits for nobody.
    fn next(&mut self, limit: Lsn) -> Result<Option<LogBlock>, LogError>;
    /// What lies below is safe elsewhere.
    fn release_below(&mut self, to: Lsn);
}

/// The log of a database that this node leads.
pub trait PrimaryLog: Send + Sync {
    /// Where the block after the last sealed one begins.
    fn end(&self) -> Lsn;
    /// Hard on this node's disk.
    fn here(&self) -> Lsn;
    /// A write or a sync of it has failed: nothing more is acknowledged from it.
    fn has_failed(&self) -> bool;
    /// Commits below are acknowledged. It may come late, after a larger one.
    fn raise_quorum(&self, quorum: Lsn);
    /// The log acknowledges what is hard here by itself.
    fn acknowledge_alone(&self);
    /// From now on it does so no longer; what it has acknowledged.
    fn wait_for_participants(&self) -> Lsn;
    /// Whether who writes much may be held back until the participants have it: somebody besides this node is waited for.
    fn hold_writers_back(&self, are_held: bool);
    /// Sessions may come.
    fn open(&self);
    /// This node leads no longer: what waits ends with an unknown outcome. Called under no latch.
    fn fence(&self);
    /// A replica has everything below `here` hard, and its readers need nothing below `pin`: the rest is kept for it, also
    /// while it is away.
    fn keep_for(&self, replica: ReplicaId, here: Lsn, pin: Lsn);
    /// Its readers are spared no longer, as it has been away for too long; its log is kept still.
    fn unpin(&self, replica: ReplicaId);
    /// It is a replica no longer.
    fn forget(&self, replica: ReplicaId);
    /// The blocks from `from` on. `more` is called whenever there may be another one; it wakes somebody and does nothing else.
    fn feed(&self, from: Lsn, more: Box<dyn Fn() + Send + Sync>)
    -> Result<Box<dyn Feed>, LogError>;
}

/// The log of a database that this node follows.
pub trait SecondaryLog: Send + Sync {
    /// Where it ends.
    fn end(&self) -> Lsn;
    /// Takes the next block; where the log ends then.
    fn append(&self, used: &[u8]) -> Result<Lsn, LogError>;
    /// Makes everything that was appended hard; up to where.
    fn sync(&self) -> Result<Lsn, LogError>;
    /// Takes away everything from here on, durably; [`LogError::Needed`] where that cannot be.
    fn cut(&self, at: Lsn) -> Result<(), LogError>;
    /// Redo may go as far as this.
    fn may_apply(&self, to: Lsn);
    /// Redone and shown.
    fn applied(&self) -> Lsn;
    /// Oldest position that a reader may need.
    fn pin(&self) -> Lsn;
}
