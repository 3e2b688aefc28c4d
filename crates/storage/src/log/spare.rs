//! Buffers of blocks that were written and are not kept any more, for the blocks to come: to take fresh memory for each
//! group of commits and give it back costs page faults, and with many threads interrupts of the other processors.

use super::block::BLOCK_ALIGN_BYTES;
use std::sync::Arc;

/// The stream takes one for each that it leaves behind, so few wait here.
const SPARE_MAX: usize = 16;

#[derive(Default)]
pub(super) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        let fresh = || Vec::with_capacity(BLOCK_ALIGN_BYTES);
        self.0.pop().unwrap_or_else(fresh)
    }

    /// Gives all of them back.
    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// Keeps the buffer, unless somebody still reads it.
    pub fn give(&mut self, bytes: Arc<Vec<u8>>) {
        if self.0.len() < SPARE_MAX
            && let Some(mut bytes) = Arc::into_inner(bytes)
        {
            bytes.clear();
            self.0.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_unless_somebody_reads_it() {
        let mut spare = SpareBuffers::default();
        let (free, read) = (Arc::new(vec![1; 9_000]), Arc::new(vec![2; 10_000]));
        let reader = read.clone();
        spare.give(free);
        spare.give(read);
        let again = spare.take();
        assert!(again.is_empty() && (9_000..10_000).contains(&again.capacity()));
        assert!(spare.take().capacity() < 9_000);
        assert_eq!(reader[0], 2);
    }

    #[test]
    fn few_are_kept() {
        let mut spare = SpareBuffers::default();
        (0..100).for_each(|_| spare.give(Arc::new(vec![0; 100])));
        assert_eq!(spare.0.len(), SPARE_MAX);
    }
}
