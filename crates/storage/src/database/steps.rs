//! Background work in single steps: what the background, a checkpoint or a full pool do at moments of their own is done at
//! a moment that the caller chooses. Tests and the simulation use it to come to an order of events that takes luck otherwise.

use super::Database;
use super::checkpoint::Wanted;
use crate::error::Result;
use crate::log::AppendKind;
use crate::version::Chunk;
use std::sync::Arc;

impl Database {
    /// Writes up to `limit` dirty pages, from the `skip`-th on in the order of their places, as the relief of a full pool
    /// does: pages that wait for versions stay. Returns how many were written.
    pub fn write_some_pages(&self, skip: usize, limit: usize) -> Result<usize> {
        self.pool().flush_some(&self.store, skip, limit)
    }

    /// A checkpoint that writes no page, as the background makes them.
    pub fn fuzzy_checkpoint(&self) -> Result<()> {
        self.checkpoint_record(Wanted::Room)
    }

    /// Gives pages to up to `limit` chunks of versions that have none, from the `skip`-th on in the order of their numbers.
    /// Returns how many it tried.
    pub fn place_some_versions(&self, skip: usize, limit: usize) -> Result<usize> {
        let mut chunks = self.versions().all_chunks();
        chunks.retain(|chunk| chunk.content.read().pages.is_empty());
        chunks.sort_unstable_by_key(|chunk| chunk.id);
        let chosen: Vec<Arc<Chunk>> = chunks.into_iter().skip(skip).take(limit).collect();
        self.place_chunks(&chosen, AppendKind::Completion)?;
        Ok(chosen.len())
    }
}
