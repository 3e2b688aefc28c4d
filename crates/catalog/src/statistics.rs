//! Statistics of tables: what the planner knows of the values in their columns.
//!
//! Theory: one row for each table that has any. Statistics are hints: they are written in short transactions of their
//! own, which need not wait for the disk, and a transaction that rolls back takes none of them back. Rows of objects
//! that are gone are dropped when the catalog opens.

use crate::error::Result;
use crate::model::{ColumnId, ObjectId};
use crate::rows;
use parking_lot::{Mutex, MutexGuard, RwLock};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Ids of statistics that belong to no index start here; those of indexes are the indexes' own.
pub const FIRST_STATISTICS_ID: i32 = 1_000;

/// All statistics of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableStatistics {
    pub object_id: ObjectId,
    pub statistics: Vec<StatisticsDef>,
}

/// Statistics over some columns of a table: how their values are distributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatisticsDef {
    pub id: i32,
    pub name: String,
    /// The histogram is of the first.
    pub columns: Vec<ColumnId>,
    pub auto_created: bool,
    pub user_created: bool,
    pub no_recompute: bool,
    /// 100 ns since 1970-01-01 UTC.
    pub updated_utc: i64,
    pub rows: u64,
    pub rows_sampled: u64,
    /// NULLs in the first column.
    pub null_rows: f64,
    /// Distinct values of the first column, of the first two together, and so on.
    pub distinct: Vec<f64>,
    pub steps: Vec<HistogramStep>,
}

/// Values above the step before, up to and with `key`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistogramStep {
    /// Order-preserving bytes of the highest value.
    #[serde(with = "hex")]
    pub key: Vec<u8>,
    /// As shown.
    pub text: String,
    /// Where numbers and times lie on a line.
    pub number: Option<f64>,
    /// Rows below `key`, rows equal to it, distinct values below it.
    pub range_rows: f64,
    pub equal_rows: f64,
    pub distinct_range_rows: f64,
}

impl TableStatistics {
    /// Statistics whose first column this is, the newest first.
    pub fn of_column(&self, column: ColumnId) -> Option<&StatisticsDef> {
        self.statistics
            .iter()
            .filter(|s| s.columns.first() == Some(&column))
            .max_by_key(|s| s.updated_utc)
    }
}

/// Statistics in memory, by table.
#[derive(Default)]
pub(crate) struct StatisticsMap {
    tables: RwLock<HashMap<ObjectId, Arc<TableStatistics>>>,
    /// Held from reading what is known of a table to storing what replaces it.
    changing: Mutex<()>,
}

impl StatisticsMap {
    pub(crate) fn load(known: Vec<TableStatistics>) -> StatisticsMap {
        let tables = known.into_iter().map(|t| (t.object_id, Arc::new(t)));
        StatisticsMap {
            tables: RwLock::new(tables.collect()),
            changing: Mutex::default(),
        }
    }

    pub(crate) fn change_alone(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<TableStatistics>> {
        self.tables.read().get(&id).cloned()
    }

    pub(crate) fn put(&self, table: TableStatistics) {
        let mut tables = self.tables.write();
        tables.insert(table.object_id, Arc::new(table));
    }

    pub(crate) fn forget(&self, id: ObjectId) {
        self.tables.write().remove(&id);
    }
}

pub(crate) fn key(id: ObjectId) -> Vec<u8> {
    rows::id_key(rows::KIND_STATISTICS, id)
}

pub(crate) fn write(txn: &daruma_storage::Txn, table: &TableStatistics) -> Result<()> {
    rows::put(txn, &key(table.object_id), table)
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes bytes as hexadecimal digits.
    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        s.serialize_str(&digits)
    }

    /// Reads bytes from hexadecimal digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let pair = |p: &[u8; 2]| {
            std::str::from_utf8(p)
                .ok()
                .and_then(|p| u8::from_str_radix(p, 16).ok())
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(pair).collect();
        bytes
            .filter(|_| rest.is_empty())
            .ok_or_else(|| D::Error::custom("not hexadecimal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_survive_their_row() {
        let step = HistogramStep {
            key: vec![0, 1, 0xFF],
            text: "x".into(),
            number: Some(0.5),
            range_rows: 1.0,
            equal_rows: 2.0,
            distinct_range_rows: 1.0,
        };
        let json = serde_json::to_string(&step).unwrap();
        assert!(json.contains("0001ff"), "{json}");
        assert_eq!(serde_json::from_str::<HistogramStep>(&json).unwrap(), step);
        assert!(serde_json::from_str::<HistogramStep>(&json.replace("ff", "f")).is_err());
        assert!(serde_json::from_str::<HistogramStep>(&json.replace("ff", "é")).is_err());
    }
}
