//! Costs of the steps of a plan. The unit is a row that a scan reads in key order.
//!
//! Theory: the figures are ratios of processor time, measured on order lines of 120 bytes that lie in memory. Scans,
//! hash joins and aggregates work on columns and are cheap for each row; a seek descends the tree, and nested loops,
//! merges and sorts handle one row after the other.

/// Descent to a key, and starting an inner side again.
pub const SEEK: f64 = 8.0;
/// Fetching a row by its locator.
pub const LOOKUP: f64 = 8.0;
/// Narrow indexes read fewer pages.
pub const NARROW: f64 = 0.6;
/// A row put into the table of a hash join, and a row that looks for partners there.
pub const HASH_BUILD: f64 = 1.0;
/// A row of the probe side looked up in a hash table.
pub const HASH_PROBE: f64 = 0.3;
/// A row of either side of a merge join.
pub const MERGE: f64 = 2.0;
/// A pair of rows that a loop without an index compares.
pub const PAIR: f64 = 0.7;
/// A row that comes out of a join.
pub const JOINED: f64 = 0.3;
/// A row tested by a condition.
pub const FILTER: f64 = 0.1;
/// A row with computed columns.
pub const COMPUTE: f64 = 0.1;
/// A row put into its group by hashing.
pub const HASH_GROUP: f64 = 0.3;
/// A row put into its group, the input being ordered.
pub const STREAM_GROUP: f64 = 0.2;
/// A comparison of a sort.
const COMPARISON: f64 = 0.3;

/// Sorting so many rows: n log2 n comparisons.
pub fn sort(rows: f64) -> f64 {
    rows * rows.max(2.0).log2() * COMPARISON
}

/// Of an inner join, the smaller side is the one in the table.
pub fn hash(one: f64, other: f64) -> f64 {
    one.min(other) * HASH_BUILD + one.max(other) * HASH_PROBE
}
