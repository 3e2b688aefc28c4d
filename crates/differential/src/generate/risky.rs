//! What may fail: an overflow, a division by zero, a text that is no number. Both have to fail, and for the same reason.
//!
//! Whether a row that nobody asked for fails depends on the plan, so there is one table, no condition, and every row's value is
//! asked for.

use super::Gen;
use crate::text::{Text, fill_two};

/// Over a table `a` and a small number, in both dialects.
const FORMS: [(&str, &str); 11] = [
    ("a.i2 / (a.i1 - $0)", "a.i2 / (a.i1 - $0)"),
    ("a.i2 % (a.sm - $0)", "a.i2 % (a.sm - $0)"),
    ("a.n1 / (a.i1 - $0) * 0", "a.n1 / (a.i1 - $0) * 0"),
    (
        "CAST(a.i2 * $0 * 7 AS smallint)",
        "CAST(a.i2 * $0 * 7 AS smallint)",
    ),
    (
        "CAST(a.n1 * $0 AS decimal(6, 2))",
        "CAST(a.n1 * $0 AS numeric(6, 2))",
    ),
    ("CAST(a.bi AS int) + $0", "CAST(a.bi AS integer) + $0"),
    ("a.i2 * 300000 * $0", "a.i2 * 300000 * $0"),
    ("a.bi * a.bi * $0", "a.bi * a.bi * $0"),
    (
        "CASE WHEN a.s1 > '' AND a.s1 < 'A' THEN CAST(a.s1 AS int) END + $0",
        "CASE WHEN a.s1 > '' AND a.s1 < 'A' THEN CAST(a.s1 AS integer) END + $0",
    ),
    ("DATEFROMPARTS(2024, $0, a.i1)", "MAKE_DATE(2024, $0, a.i1)"),
    ("SQRT(a.f1 + $0)", "SQRT(a.f1 + $0)"),
];

impl Gen<'_> {
    pub(super) fn risky(&mut self) -> Text {
        self.part("risky", |g| {
            let tables = u32::try_from(g.tables.len()).unwrap_or(1);
            let table = g.draw.below(tables) as usize;
            let (ms, pg) = g.pick(&FORMS);
            // Never NULL: PostgreSQL does not look at the other operand of a NULL that it knows.
            let number = g.count(0, 24);
            let hint = Text::hint(table);
            fill_two(
                &format!("SELECT a.id AS c0, {ms} AS c1 FROM t{table} a$1"),
                &format!("SELECT a.id AS c0, {pg} AS c1 FROM t{table} a$1"),
                &[&number, &hint],
            )
        })
    }
}
