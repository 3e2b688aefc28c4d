//! Cooperative cancellation: set by an attention, KILL or shutdown, read by every loop that may run long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Why a running request must stop. The most severe reason wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CancelReason {
    /// Attention from the client: the statement ends, the connection stays.
    Attention = 1,
    /// KILL, shutdown or a lost connection: the session ends.
    Kill = 2,
}

/// Shared by the session that runs and the threads that may stop it.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicU8>);

impl CancelFlag {
    /// A flag that nobody has set.
    pub fn new() -> CancelFlag {
        CancelFlag::default()
    }

    /// Asks the statement to stop; a kill outranks an attention and is never lowered.
    pub fn set(&self, reason: CancelReason) {
        self.0.fetch_max(reason as u8, Ordering::SeqCst);
    }

    /// Clears an attention once it was answered; a kill stays.
    pub fn clear_attention(&self) {
        let _ = self.0.compare_exchange(
            CancelReason::Attention as u8,
            0,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
    }

    /// Why the statement should stop, if it should.
    pub fn get(&self) -> Option<CancelReason> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(CancelReason::Attention),
            _ => Some(CancelReason::Kill),
        }
    }
}
