//! What stands behind FROM.

use super::{Expr, Gen, ROWS_MAX, Scope, TYPES, Ty, Width};
use crate::tables::COLUMNS;
use crate::text::{Text, fill, fill_two, joined};

/// One source or several joined ones.
pub(super) struct Source {
    pub text: Text,
    pub columns: Vec<Expr>,
    pub key: Vec<Expr>,
    pub rows: u64,
}

impl Gen<'_> {
    pub(super) fn from(&mut self, outer: &[Expr], depth: u32) -> Source {
        self.part("from", |g| {
            let mut made: Option<Source> = None;
            let most = if depth > 1 { 3 } else { 2 };
            g.list(1, most, |g, _| {
                let next = match made.take() {
                    None => g.source(outer, depth),
                    Some(left) => g.join(left, outer, depth),
                };
                made = Some(next);
            });
            made.expect("a list has an item at least")
        })
    }

    fn source(&mut self, outer: &[Expr], depth: u32) -> Source {
        self.part("source", |g| {
            let kind = g.draw.below(10);
            match kind {
                7 | 8 if depth > 0 => g.derived(outer, depth - 1),
                6 if !g.shared.is_empty() => g.shared_source(),
                9 => g.rows(),
                _ => g.table(),
            }
        })
    }

    fn table(&mut self) -> Source {
        let tables = u32::try_from(self.tables.len()).unwrap_or(1);
        let table = self.draw.below(tables) as usize;
        let alias = self.alias();
        let columns = table_columns(&alias);
        let pattern = format!("t{table} {alias}$0");
        Source {
            text: fill(&pattern, &[&Text::hint(table)]),
            key: columns.iter().take(1).cloned().collect(),
            columns,
            rows: self.tables[table].rows as u64,
        }
    }

    fn shared_source(&mut self) -> Source {
        let at = self
            .draw
            .below(u32::try_from(self.shared.len()).unwrap_or(1));
        let (name, columns, rows) = self.shared[at as usize].clone();
        let alias = self.alias();
        Source {
            text: Text::same(&format!("{name} {alias}")),
            columns: renamed(&columns, &alias),
            key: Vec::new(),
            rows,
        }
    }

    fn derived(&mut self, outer: &[Expr], depth: u32) -> Source {
        let types = self.types(3);
        let query = self.query(outer, &types, depth);
        let alias = self.alias();
        Source {
            text: fill(&format!("($0) {alias}"), &[&query.text]),
            columns: renamed(&query.columns, &alias),
            key: Vec::new(),
            rows: 100,
        }
    }

    fn rows(&mut self) -> Source {
        let types = self.types(3);
        let scope = Scope::default();
        let mut most = vec![0; types.len()];
        let mut digits = vec![(10, 0); types.len()];
        let rows = self.list(1, 4, |g, _| {
            let values: Vec<Text> = types
                .iter()
                .enumerate()
                .map(|(n, ty)| {
                    let value = g.scalar(&scope, *ty, 0);
                    most[n] = most[n].max(value.most);
                    digits[n] = value.digits;
                    value.text
                })
                .collect();
            fill("($0)", &[&joined(&values, ", ")])
        });
        let alias = self.alias();
        let names: Vec<String> = (0..types.len()).map(|n| format!("c{n}")).collect();
        let columns: Vec<Expr> = types
            .iter()
            .enumerate()
            .map(|(n, ty)| Expr {
                most: most[n],
                digits: digits[n],
                ..Expr::new(*ty, Text::default())
            })
            .collect();
        let pattern = format!("(VALUES $0) {alias}({})", names.join(", "));
        Source {
            text: fill(&pattern, &[&joined(&rows, ", ")]),
            columns: renamed(&columns, &alias),
            key: Vec::new(),
            rows: 4,
        }
    }

    /// One to `most` types.
    pub(super) fn types(&mut self, most: u32) -> Vec<Ty> {
        self.list(1, most, |g, _| g.pick(&TYPES))
    }

    fn join(&mut self, left: Source, outer: &[Expr], depth: u32) -> Source {
        let kind = self.draw.below(12);
        if matches!(kind, 9 | 10) && depth > 0 {
            return self.apply(left, outer, depth - 1, kind == 10);
        }
        let right = self.source(outer, depth);
        let columns: Vec<Expr> = left.columns.iter().chain(&right.columns).cloned().collect();
        let both = Scope {
            subqueries: depth > 1,
            ..Scope::of(columns.clone(), outer, Vec::new())
        };
        let product = left.rows.saturating_mul(right.rows);
        let word = match kind {
            0..=3 => "JOIN",
            4..=6 => "LEFT JOIN",
            7 => "RIGHT JOIN",
            8 => "FULL JOIN",
            _ if product <= ROWS_MAX => "CROSS JOIN",
            _ => "JOIN",
        };
        let text = match word {
            "CROSS JOIN" => fill("$0 CROSS JOIN $1", &[&left.text, &right.text]),
            _ => {
                let full = word == "FULL JOIN" || product > ROWS_MAX;
                let on = self.join_condition(&left.columns, &right.columns, &both, full);
                fill(
                    &format!("$0 {word} $1 ON $2"),
                    &[&left.text, &right.text, &on],
                )
            }
        };
        Source {
            text,
            columns,
            key: joint_key(&left.key, &right.key),
            rows: product.min(left.rows.max(right.rows) * 8),
        }
    }

    fn apply(&mut self, left: Source, outer: &[Expr], depth: u32, keeps: bool) -> Source {
        let seen: Vec<Expr> = left.columns.iter().chain(outer).cloned().collect();
        let types = self.types(2);
        let query = self.query(&seen, &types, depth);
        let alias = self.alias();
        let (ms, pg) = match keeps {
            false => ("$0 CROSS APPLY ($1) ", "$0 CROSS JOIN LATERAL ($1) "),
            true => ("$0 OUTER APPLY ($1) ", "$0 LEFT JOIN LATERAL ($1) "),
        };
        let end = if keeps { " ON true" } else { "" };
        let text = fill_two(
            &format!("{ms}{alias}"),
            &format!("{pg}{alias}{end}"),
            &[&left.text, &query.text],
        );
        let mut columns = left.columns;
        columns.extend(renamed(&query.columns, &alias));
        Source {
            text,
            columns,
            key: Vec::new(),
            rows: left.rows * 4,
        }
    }
}

/// Columns that are unique together, if those of both sides are known.
fn joint_key(left: &[Expr], right: &[Expr]) -> Vec<Expr> {
    match left.is_empty() || right.is_empty() {
        true => Vec::new(),
        false => left.iter().chain(right).cloned().collect(),
    }
}

/// Columns c0, c1 and so on of an alias.
pub(super) fn renamed(columns: &[Expr], alias: &str) -> Vec<Expr> {
    let list = columns.iter().enumerate();
    list.map(|(n, column)| column.column(&format!("{alias}.c{n}")))
        .collect()
}

pub(super) fn table_columns(alias: &str) -> Vec<Expr> {
    COLUMNS
        .iter()
        .map(|column| Expr {
            width: column.width,
            most: column.most,
            digits: if column.ty == Ty::Dec {
                (9, 2)
            } else {
                (10, 0)
            },
            bare: true,
            ..Expr::new(column.ty, Text::same(&format!("{alias}.{}", column.name)))
        })
        .collect()
}

/// A column that holds any int.
pub(super) fn counter(name: &str, most: u64) -> Expr {
    Expr {
        width: Width::Int,
        bare: true,
        ..Expr::int(Text::same(name), most)
    }
}
