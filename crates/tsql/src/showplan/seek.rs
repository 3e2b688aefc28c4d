//! Where a seek begins and ends, as elements: values of the leading key columns, then the ends of a range of the next.

use super::operators::Drawer;
use super::scalar::Columns;
use crate::access::IndexAccess;
use crate::executor::plan::{ScanNode, Seek, SeekBound, SeekKey};

/// Expressions of a seek know no row.
const NO_ROW: Columns<'static> = Columns::Row(&[]);

impl Drawer<'_, '_> {
    /// `SeekPredicates` of a scan that seeks.
    pub fn seek_predicates(&mut self, scan: &ScanNode, seek: &Seek, index: &IndexAccess) {
        for element in ["SeekPredicates", "SeekPredicateNew", "SeekKeys"] {
            self.w.open(element);
        }
        self.prefix(scan, seek, index);
        let at = seek.equal.len();
        if let Some(low) = &seek.low {
            let operation = if low.inclusive { "GE" } else { "GT" };
            self.bound(
                "StartRange",
                operation,
                scan,
                key_name(scan, index, at),
                low,
            );
        }
        if let Some(high) = &seek.high {
            let operation = if high.inclusive { "LE" } else { "LT" };
            self.bound("EndRange", operation, scan, key_name(scan, index, at), high);
        }
        for _ in 0..3 {
            self.w.close();
        }
    }

    fn prefix(&mut self, scan: &ScanNode, seek: &Seek, index: &IndexAccess) {
        if seek.equal.is_empty() {
            return;
        }
        self.w.open("Prefix");
        self.w.attribute("ScanType", "EQ");
        self.w.open("RangeColumns");
        for at in 0..seek.equal.len() {
            self.scan_column(scan, key_name(scan, index, at));
        }
        self.w.close();
        self.w.open("RangeExpressions");
        for key in &seek.equal {
            match key {
                SeekKey::One(value) => self.operand(value, NO_ROW),
                SeekKey::List(values) => self.operands(values, NO_ROW),
                SeekKey::Null => self.null(),
            }
        }
        self.w.close();
        self.w.close();
    }

    fn bound(
        &mut self,
        element: &'static str,
        operation: &str,
        scan: &ScanNode,
        column: &str,
        bound: &SeekBound,
    ) {
        self.w.open(element);
        self.w.attribute("ScanType", operation);
        self.w.open("RangeColumns");
        self.scan_column(scan, column);
        self.w.close();
        self.w.open("RangeExpressions");
        self.operand(&bound.value, NO_ROW);
        self.w.close();
        self.w.close();
    }
}

fn key_name<'p>(scan: &'p ScanNode, index: &IndexAccess, at: usize) -> &'p str {
    let ordinal = index.key.get(at).map(|k| k.ordinal);
    let column = ordinal.and_then(|o| scan.access.def().columns.get(o));
    column.map_or("", |c| c.name.as_str())
}
