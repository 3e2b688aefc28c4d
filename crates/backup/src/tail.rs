//! A buffer whose content ends where a direct write may end.
//!
//! Theory: a frame of pages is a table and then the pages, so when the frame ends at a multiple of [`DIRECT_BYTES`] in memory,
//! every page in it begins at one, however long the table is.

use daruma_base::DIRECT_BYTES;

/// Memory that is used again and again.
#[derive(Default)]
pub struct TailAligned {
    bytes: Vec<u8>,
}

impl TailAligned {
    /// Room for `len` bytes, of any content, that ends at a multiple of [`DIRECT_BYTES`].
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + DIRECT_BYTES {
            // Not grown: what is in it need not be kept.
            self.bytes = vec![0; len + DIRECT_BYTES];
        }
        let end = self.bytes.as_ptr().addr() + len;
        let begin = end.next_multiple_of(DIRECT_BYTES) - end;
        self.bytes.get_mut(begin..begin + len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_table_of_any_length_is_aligned() {
        let mut buffer = TailAligned::default();
        for len in [0, 1, 4095, 4096, 12 + 2 * 8192, 100, 20 + 3 * 8192] {
            let space = buffer.space(len);
            assert_eq!(space.len(), len);
            assert!(space.as_ptr_range().end.addr().is_multiple_of(DIRECT_BYTES));
        }
    }
}
