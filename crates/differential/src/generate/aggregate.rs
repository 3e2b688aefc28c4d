//! Aggregates, and window functions.

use super::{Expr, FOLDED, Gen, Scope, Ty, Width};
use crate::text::{Text, fill, fill_two, joined};

/// Sums of more than this could overflow an int over the rows that a query may have.
const SUM_MAX: u64 = 10_000;

impl Gen<'_> {
    /// An aggregate over the rows of `scope`.
    pub(super) fn aggregate(&mut self, scope: &Scope, ty: Ty) -> Expr {
        self.part("aggregate", |g| {
            let scope = scope.inside_aggregate();
            match ty {
                Ty::Int => g.int_aggregate(&scope),
                Ty::Dec => g.dec_aggregate(&scope),
                Ty::Str => g.str_aggregate(&scope),
                Ty::Float => {
                    let name = g.pick(&["MIN", "MAX", "SUM", "AVG"]);
                    let inner = g.local(&scope, Ty::Float).text;
                    Expr::new(Ty::Float, fill(&format!("{name}($0)"), &[&inner]))
                }
                Ty::Date | Ty::Stamp => {
                    let inner = g.local(&scope, ty).text;
                    Expr::new(ty, fill(g.pick(&["MIN($0)", "MAX($0)"]), &[&inner]))
                }
            }
        })
    }

    /// An expression that has a column of these rows.
    fn local(&mut self, scope: &Scope, ty: Ty) -> Expr {
        let depth = self.draw.below(2);
        let made = self.scalar(scope, ty, depth);
        let named = scope.local.iter().any(|c| mentions(&made.text, &c.text));
        match named {
            true => made,
            false => self.column_or_literal(scope, ty),
        }
    }

    fn int_aggregate(&mut self, scope: &Scope) -> Expr {
        match self.draw.below(10) {
            0 | 1 => Expr::int(Text::same("COUNT(*)"), 1_000_000),
            9 => {
                let inner = self.local(scope, Ty::Str).text;
                let text = fill_two(
                    &format!("COUNT(DISTINCT $0 COLLATE {FOLDED})"),
                    "COUNT(DISTINCT LOWER($0))",
                    &[&inner],
                );
                Expr::int(text, 1_000_000)
            }
            2 => {
                let ty = self.pick(&[Ty::Int, Ty::Str, Ty::Date]);
                let inner = self.local(scope, ty).text;
                Expr::int(fill("COUNT($0)", &[&inner]), 1_000_000)
            }
            3 => {
                let ty = self.pick(&[Ty::Int, Ty::Str, Ty::Dec]);
                let inner = self.local(scope, ty).text;
                Expr::int(fill("COUNT(DISTINCT $0)", &[&inner]), 1_000_000)
            }
            4 => {
                let condition = self.predicate(scope, 1);
                let pattern = "COUNT(CASE WHEN $0 THEN 1 END)";
                Expr::int(fill(pattern, &[&condition]), 1_000_000)
            }
            5 => self.int_sum(scope),
            6 => {
                let inner = self.local(scope, Ty::Int).wide().small(SUM_MAX);
                let pg = "(CAST(SUM($0) AS bigint) / NULLIF(COUNT($0), 0))";
                Expr {
                    width: inner.width,
                    ..Expr::int(fill_two("AVG($0)", pg, &[&inner.text]), inner.most)
                }
            }
            _ => {
                let inner = self.local(scope, Ty::Int);
                let inner = if inner.width == Width::Bit {
                    inner.wide()
                } else {
                    inner
                };
                let text = fill(self.pick(&["MIN($0)", "MAX($0)"]), &[&inner.text]);
                Expr {
                    width: inner.width,
                    ..Expr::int(text, inner.most)
                }
            }
        }
    }

    fn int_sum(&mut self, scope: &Scope) -> Expr {
        let inner = self.local(scope, Ty::Int).wide().small(SUM_MAX);
        let distinct = self.pick(&["", "DISTINCT "]);
        let text = fill_two(
            &format!("SUM({distinct}$0)"),
            &format!("CAST(SUM({distinct}$0) AS bigint)"),
            &[&inner.text],
        );
        Expr {
            width: inner.width,
            ..Expr::int(text, inner.most.saturating_mul(100_000))
        }
    }

    fn dec_aggregate(&mut self, scope: &Scope) -> Expr {
        let inner = self.local(scope, Ty::Dec).fixed();
        let (_, s) = inner.digits;
        let made = match self.draw.below(4) {
            0 => Expr::dec(fill("MIN($0)", &[&inner.text]), inner.most, inner.digits),
            1 => Expr::dec(fill("MAX($0)", &[&inner.text]), inner.most, inner.digits),
            2 => Expr::dec(
                fill("SUM($0)", &[&inner.text]),
                inner.most.saturating_mul(100_000),
                (38, s),
            ),
            _ => Expr::dec(
                fill_two(
                    "AVG($0)",
                    "TRUNC(SUM($0) / NULLIF(COUNT($0), 0), 6)",
                    &[&inner.text],
                ),
                inner.most,
                (38, 6),
            ),
        };
        match made.most > 1_000_000_000_000 {
            true => Expr::dec(fill("MIN($0)", &[&inner.text]), inner.most, inner.digits),
            false => made.fixed(),
        }
    }

    fn str_aggregate(&mut self, scope: &Scope) -> Expr {
        let inner = self.local(scope, Ty::Str).text;
        let text = match self.draw.below(4) {
            0 => fill("MIN($0)", &[&inner]),
            1 | 2 => fill("MAX($0)", &[&inner]),
            _ => fill_two(
                "STRING_AGG(CAST($0 AS varchar(max)), ',') WITHIN GROUP (ORDER BY CAST($0 AS varchar(max)))",
                "STRING_AGG($0, ',' ORDER BY $0)",
                &[&inner],
            ),
        };
        Expr::new(Ty::Str, text)
    }

    /// A window function over the rows of `scope`; an ordinary expression where there is nothing to sort by.
    pub(super) fn window(&mut self, scope: &Scope, ty: Ty) -> Expr {
        self.part("window", |g| {
            if scope.local.is_empty() {
                return g.scalar(scope, ty, 0);
            }
            let inside = scope.inside_aggregate();
            let tells_rows_apart = !scope.key.is_empty() && g.draw.below(2) == 1;
            match (ty, tells_rows_apart) {
                (Ty::Int, false) => g.int_window(&inside),
                (Ty::Int, true) => g.int_row_window(&inside),
                (_, true) => g.row_window(&inside, ty),
                _ => g.tied_window(&inside, ty),
            }
        })
    }

    /// Functions to which ties are all the same.
    fn int_window(&mut self, scope: &Scope) -> Expr {
        match self.draw.below(5) {
            0 => {
                let over = self.over(scope, 1, false);
                Expr::int(fill("COUNT(*) OVER ($0)", &[&over]), 100_000)
            }
            1 => {
                let over = self.over(scope, 2, false);
                let name = self.pick(&["RANK", "DENSE_RANK"]);
                Expr::int(fill(&format!("{name}() OVER ($0)"), &[&over]), 100_000)
            }
            2 => {
                let inner = self.window_argument(scope, Ty::Int).small(SUM_MAX);
                let over = self.over(scope, 1, false);
                int_total(&inner, &over)
            }
            _ => self.tied_window(scope, Ty::Int),
        }
    }

    fn tied_window(&mut self, scope: &Scope, ty: Ty) -> Expr {
        if ty == Ty::Float && self.seldom(3) {
            let name = self.pick(&["PERCENT_RANK", "CUME_DIST"]);
            let over = self.over(scope, 2, false);
            return Expr::new(Ty::Float, fill(&format!("{name}() OVER ($0)"), &[&over]));
        }
        let inner = self.window_argument(scope, ty);
        let name = self.pick(&["MIN", "MAX"]);
        let over = self.over(scope, 1, false);
        let text = fill(&format!("{name}($0) OVER ($1)"), &[&inner.text, &over]);
        Expr {
            text,
            bare: false,
            ..inner
        }
    }

    fn int_row_window(&mut self, scope: &Scope) -> Expr {
        match self.draw.below(4) {
            0 | 1 => {
                let over = self.over(scope, 2, true);
                Expr::int(fill("ROW_NUMBER() OVER ($0)", &[&over]), 100_000)
            }
            2 => {
                let over = self.over(scope, 2, true);
                let buckets = 1 + self.draw.below(5);
                let text = fill(&format!("NTILE({buckets}) OVER ($0)"), &[&over]);
                Expr::int(text, 5)
            }
            _ => self.row_window(scope, Ty::Int),
        }
    }

    fn row_window(&mut self, scope: &Scope, ty: Ty) -> Expr {
        let inner = self.window_argument(scope, ty).small(SUM_MAX);
        let kind = self.draw.below(8);
        let frame = match kind {
            0 | 1 | 6 => Text::default(),
            _ => self.frame(),
        };
        let over = self.over(scope, 2, true);
        let over = fill("$0$1", &[&over, &frame]);
        let with = |pattern: &str| Expr {
            text: fill(pattern, &[&inner.text, &over]),
            bare: false,
            ..inner.clone()
        };
        match kind {
            0 => with(&format!("LAG($0, {}) OVER ($1)", 1 + self.draw.below(2))),
            1 => with("LEAD($0) OVER ($1)"),
            2 => with("FIRST_VALUE($0) OVER ($1)"),
            3 => with("LAST_VALUE($0) OVER ($1)"),
            4 if ty == Ty::Int => int_total(&inner, &over),
            4 if ty == Ty::Dec => Expr::dec(
                fill("SUM($0) OVER ($1)", &[&inner.text, &over]),
                inner.most.saturating_mul(100_000),
                (38, inner.digits.1),
            )
            .fixed(),
            6 => with("LAG($0, 1, $0) OVER ($1)"),
            7 if ty == Ty::Int => {
                Expr::int(fill("COUNT($0) OVER ($1)", &[&inner.text, &over]), 100_000)
            }
            _ => with(self.pick(&["MIN($0) OVER ($1)", "MAX($0) OVER ($1)"])),
        }
    }

    fn window_argument(&mut self, scope: &Scope, ty: Ty) -> Expr {
        self.local(scope, ty).wide().fixed()
    }

    fn frame(&mut self) -> Text {
        Text::same(self.pick(&[
            " ROWS UNBOUNDED PRECEDING",
            " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
            " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
            " ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
            " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        ]))
    }

    /// Inside OVER: 0 never sorts, 1 perhaps, 2 always; `by_key` sorts so that no two rows tie.
    fn over(&mut self, scope: &Scope, sorts: u32, by_key: bool) -> Text {
        let parts = self.draw.below(3);
        let columns: Vec<&Expr> = scope.local.iter().collect();
        let mut out = Text::default();
        if parts > 0 {
            let list: Vec<Text> = (0..parts)
                .map(|_| self.pick(&columns).text.clone())
                .collect();
            out.push(&fill("PARTITION BY $0", &[&joined(&list, ", ")]));
        }
        let sorts = sorts == 2 || (sorts == 1 && self.draw.below(2) == 1);
        if !sorts {
            return out;
        }
        let mut keys: Vec<Text> = Vec::new();
        let count = if by_key {
            self.draw.below(2)
        } else {
            1 + self.draw.below(2)
        };
        for _ in 0..count {
            keys.push(self.pick(&columns).text.clone());
        }
        if by_key {
            keys.extend(scope.key.iter().map(|k| k.text.clone()));
        }
        // T-SQL takes a column once.
        let mut once: Vec<Text> = Vec::new();
        keys.into_iter().for_each(|k| {
            if !once.contains(&k) {
                once.push(k);
            }
        });
        let sorted: Vec<Text> = once.iter().map(|k| self.direction(k)).collect();
        let blank = if parts > 0 { " " } else { "" };
        out.push(&fill(
            &format!("{blank}ORDER BY $0"),
            &[&joined(&sorted, ", ")],
        ));
        out
    }

    /// Ascending with NULLs first, or descending with NULLs last: as T-SQL does it.
    pub(super) fn direction(&mut self, key: &Text) -> Text {
        match self.draw.below(2) {
            0 => fill_two("$0", "$0 NULLS FIRST", &[key]),
            _ => fill_two("$0 DESC", "$0 DESC NULLS LAST", &[key]),
        }
    }
}

fn int_total(inner: &Expr, over: &Text) -> Expr {
    let text = fill_two(
        "SUM($0) OVER ($1)",
        "CAST(SUM($0) OVER ($1) AS bigint)",
        &[&inner.text, over],
    );
    Expr {
        width: inner.width,
        ..Expr::int(text, inner.most.saturating_mul(100_000))
    }
}

/// Does the text name a column, and not only one whose name begins alike?
pub(super) fn mentions(text: &Text, column: &Text) -> bool {
    text.pg.match_indices(&column.pg).any(|(at, found)| {
        let after = text.pg[at + found.len()..].chars().next();
        !after.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}
