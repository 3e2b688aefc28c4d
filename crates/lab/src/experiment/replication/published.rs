//! The article's own figures, as printed: SQL Server 2014 and 2016, October 2017.

use super::Variant;
use crate::report::Source;

/// The article, and what it says of its machines.
pub fn source() -> Source {
    Source {
        text: "Published figures: \"The Curious Case of Compression - An Availability Group Story\", 12 October 2017: one server with \
               two databases in two groups, one asynchronous and one synchronous, 100 loops of each shape."
            .into(),
        setting: "Measured there with SQL Server 2014 and 2016 on servers and a network that are not described; penalties compare, times \
                  do not."
            .into(),
    }
}

/// The article's columns.
pub const COLUMNS: [&str; 10] = [
    "Inserts",
    "Rows/insert",
    "Async ms",
    "Sync ms",
    "Penalty ms",
    "Pen ms/ins",
    "Penalty %",
    "Async ins/s",
    "Sync ins/s",
    "Penalty ins/s",
];

/// One row, as it is printed.
#[derive(Clone, Copy, Debug)]
pub struct Printed {
    /// What a statement inserts: rows of different tables are compared by it.
    pub rows_per_insert: u64,
    pub cells: [&'static str; 10],
}

impl Printed {
    const fn new(rows_per_insert: u64, cells: [&'static str; 10]) -> Printed {
        Printed {
            rows_per_insert,
            cells,
        }
    }

    /// What synchronous commit costs.
    pub fn penalty_percent(&self) -> Option<f64> {
        let cell = self.cells.get(6)?;
        cell.trim_end_matches('%').parse().ok()
    }
}

#[rustfmt::skip]
const OF_2014: [Printed; 7] = [
    Printed::new(1_000_000, ["1", "1000000", "7560", "8204", "645", "644.85", "9%", "0.13", "0.12", "0.01"]),
    Printed::new(100_000, ["10", "100000", "7543", "10668", "3125", "312.51", "41%", "1.33", "0.94", "0.39"]),
    Printed::new(10_000, ["100", "10000", "8537", "10006", "1469", "14.69", "17%", "11.71", "9.99", "1.72"]),
    Printed::new(1_000, ["1000", "1000", "10647", "15097", "4450", "4.45", "42%", "93.93", "66.24", "27.69"]),
    Printed::new(100, ["10000", "100", "30625", "39787", "9162", "0.92", "30%", "326.53", "251.34", "75.19"]),
    Printed::new(10, ["100000", "10", "247095", "327879", "80784", "0.81", "33%", "404.70", "304.99", "99.71"]),
    Printed::new(1, ["1000000", "1", "2048431", "2892779", "844348", "0.84", "41%", "488.18", "345.69", "142.49"]),
];

#[rustfmt::skip]
const OF_2016: [Printed; 7] = [
    Printed::new(1_000_000, ["1", "1000000", "7279", "14189", "6910", "6910.25", "95%", "0.14", "0.07", "0.07"]),
    Printed::new(100_000, ["10", "100000", "7029", "15467", "8438", "843.79", "120%", "1.42", "0.65", "0.78"]),
    Printed::new(10_000, ["100", "10000", "8114", "16736", "8623", "86.23", "106%", "12.32", "5.98", "6.35"]),
    Printed::new(1_000, ["1000", "1000", "10658", "22539", "11881", "11.88", "111%", "93.83", "44.37", "49.46"]),
    Printed::new(100, ["10000", "100", "29862", "52750", "22888", "2.29", "77%", "334.87", "189.57", "145.30"]),
    Printed::new(10, ["100000", "10", "242869", "398737", "155868", "1.56", "64%", "411.74", "250.79", "160.95"]),
    Printed::new(1, ["1000000", "1", "2129939", "3056955", "927016", "0.93", "44%", "469.50", "327.12", "142.37"]),
];

#[rustfmt::skip]
const OF_2016_WITH_9592: [Printed; 7] = [
    Printed::new(1_000_000, ["1", "1000000", "8560", "8131", "-429", "-429", "-5%", "0.12", "0.12", "-0.01"]),
    Printed::new(100_000, ["10", "100000", "8657", "8363", "-294", "-29", "-3%", "1.16", "1.20", "-0.04"]),
    Printed::new(10_000, ["100", "10000", "9894", "10279", "384", "4", "4%", "10.11", "9.73", "0.38"]),
    Printed::new(1_000, ["1000", "1000", "13148", "16928", "3780", "4", "29%", "76.06", "59.07", "16.98"]),
    Printed::new(100, ["10000", "100", "32103", "44546", "12443", "1", "39%", "311.50", "224.49", "87.01"]),
    Printed::new(10, ["100000", "10", "273164", "348095", "74932", "1", "27%", "366.08", "287.28", "78.80"]),
    Printed::new(1, ["1000000", "1", "2292889", "3096621", "803732", "1", "35%", "436.13", "322.93", "113.20"]),
];

/// The article's table for a variant; it has none for what SQL Server has not.
pub const fn table(variant: Variant) -> &'static [Printed] {
    match variant {
        Variant::Of2014 => &OF_2014,
        Variant::Of2016 => &OF_2016,
        Variant::Of2016With9592 => &OF_2016_WITH_9592,
        Variant::Automatic => &[],
    }
}

/// The row of statements of this size.
pub fn row(variant: Variant, rows_per_insert: u64) -> Option<&'static Printed> {
    let is_it = |row: &&Printed| row.rows_per_insert == rows_per_insert;
    table(variant).iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed agrees with itself, as far as its rounding goes: nothing was misread.
    #[test]
    fn penalties_are_differences() {
        for variant in [Variant::Of2014, Variant::Of2016, Variant::Of2016With9592] {
            for row in table(variant) {
                let number = |at: usize| {
                    let cell: &str = row.cells[at];
                    cell.trim_end_matches('%').parse::<f64>().expect("a number")
                };
                let (inserts, rows) = (number(0), number(1));
                assert!((inserts * rows - 1e6).abs() < 0.5, "{row:?}");
                assert!((rows - row.rows_per_insert as f64).abs() < 0.5, "{row:?}");
                let penalty = number(3) - number(2);
                assert!((penalty - number(4)).abs() <= 1.5, "{row:?}");
                assert!(
                    (penalty / number(2) * 100.0 - number(6)).abs() < 1.0,
                    "{row:?}"
                );
                assert!((penalty / inserts - number(5)).abs() < 1.0, "{row:?}");
                assert!((number(7) - number(8) - number(9)).abs() < 0.02, "{row:?}");
                assert_eq!(row.penalty_percent(), Some(number(6)));
            }
        }
    }
}
