//! Plans grow old: the sizes of the tables that a plan was made for, and when they have changed too much.
//!
//! Theory: the thresholds are those of the product's automatic statistics, counted in rows that a table has gained or
//! lost. Asking costs two loads for each table, so it is done before every use of a kept plan.

use daruma_storage::Tree;
use std::sync::Arc;

/// A table that a plan reads, and the rows it had.
pub struct Input {
    tree: Arc<Tree>,
    rows: u64,
}

impl Input {
    pub(super) fn new(tree: Arc<Tree>, rows: u64) -> Input {
        Input { tree, rows }
    }

    pub(crate) fn has_changed(&self) -> bool {
        has_changed(self.rows, self.tree.approximate_count())
    }
}

/// By more than 500 rows and a fifth, or by more than the square root of a thousand times the rows.
pub(crate) fn has_changed(before: u64, now: u64) -> bool {
    let rows = before as f64;
    let limit = (500.0 + rows * 0.2).min((rows * 1000.0).sqrt().max(500.0));
    now.abs_diff(before) as f64 > limit
}

#[cfg(test)]
mod tests {
    use super::has_changed;

    #[test]
    fn thresholds() {
        assert!(!has_changed(0, 500));
        assert!(has_changed(0, 501));
        assert!(!has_changed(1_000, 1_700));
        assert!(has_changed(1_000, 1_701));
        assert!(has_changed(2_000, 999));
        // The square root takes over where tables are large.
        assert!(!has_changed(1_000_000, 1_031_000));
        assert!(has_changed(1_000_000, 1_032_000));
    }
}
