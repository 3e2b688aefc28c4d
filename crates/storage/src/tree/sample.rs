//! Random leaves, for statistics of tables too large to read whole.
//!
//! Theory: a descent that takes a random child at each level ends at a leaf nearly as likely as at any other, because
//! pages of a level hold about the same number of children.

use super::{DEPTH_MAX, Tree};
use crate::error::Result;

impl Tree {
    /// First keys of up to `leaves` random leaves, ascending, each once. `random` gives a number below its argument.
    pub fn sample_leaves(
        &self,
        leaves: usize,
        mut random: impl FnMut(usize) -> usize,
    ) -> Result<Vec<Vec<u8>>> {
        let db = self.database()?;
        let mut keys = Vec::with_capacity(leaves);
        for _ in 0..leaves {
            let mut id = self.id.0;
            for _ in 0..DEPTH_MAX {
                let page = self.read_page(&db, id)?;
                if page.slots() == 0 {
                    break;
                }
                if page.is_leaf() {
                    keys.push(page.key(0).to_vec());
                    break;
                }
                id = page.child(random(page.slots()).min(page.slots() - 1));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}
