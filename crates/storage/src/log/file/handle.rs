//! Reads, writes and syncs of the log file, counted; also outside of the log's state.

use crate::error::{Result, StorageError};
use crate::meter::{IoStats, Meter};
use crate::sync::{Mutex, MutexGuard};
use daruma_base::{DIRECT_BYTES, DiskFile};
use std::path::PathBuf;
use std::sync::Arc;

/// Zeros are written in pieces.
const ZEROS_BYTES: usize = 1 << 20;

/// Handle for writing outside the log's state lock.
#[derive(Clone)]
pub struct Handle {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) path: Arc<PathBuf>,
    pub(super) meter: Meter,
    pub(super) syncing: Arc<Mutex<()>>,
}

impl Handle {
    /// Writes bytes; durable after the next sync.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_at(bytes, offset)
            .map_err(|e| self.error("write log", e))
    }

    /// Writes adjacent parts.
    pub fn write_parts(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        self.file
            .write_parts_at(parts, offset)
            .map_err(|e| self.error("write log", e))
    }

    /// Writes adjacent parts and returns when they are durable. Says nothing about other writes.
    pub fn write_synced(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        self.file
            .write_synced_at(parts, offset)
            .map_err(|e| self.error("write log", e))
    }

    /// Writes zeros between two multiples of 4 KiB.
    pub(super) fn write_zeros(&self, from: u64, end: u64) -> Result<()> {
        let zeros = vec![0; ZEROS_BYTES + DIRECT_BYTES];
        let aligned = zeros.as_ptr().align_offset(DIRECT_BYTES);
        let zeros = zeros.get(aligned..).unwrap_or_default();
        let mut at = from;
        while at < end {
            let len = (end - at).min(ZEROS_BYTES as u64);
            let piece = zeros.get(..len as usize).unwrap_or_default();
            let written = self.file.write_direct_at(piece, at);
            written.map_err(|e| self.error("write log", e))?;
            at += len;
        }
        Ok(())
    }

    /// Fills `bytes` from the file.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file
            .read_at(bytes, offset)
            .map_err(|e| self.error("read log", e))
    }

    /// To be held from a write to the end of the sync that makes it durable. The system tells of a lost write once, to
    /// whoever syncs next: that must not be somebody who had something else to sync. Taken after the log's state, if both.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        self.syncing.lock()
    }

    /// Makes every write so far durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| self.error("sync log", e))
    }

    /// Calls and bytes since the file was opened.
    pub fn io_stats(&self) -> IoStats {
        self.meter.stats()
    }

    /// Of the log file.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    pub(super) fn error(&self, action: &'static str, source: std::io::Error) -> StorageError {
        StorageError::Io {
            action,
            path: self.path.as_ref().clone(),
            source,
        }
    }
}
