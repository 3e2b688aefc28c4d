//! SELECT in its shapes, set operations, and common table expressions.

use super::aggregate::mentions;
use super::source::{Source, counter};
use super::{Expr, Gen, Query, Scope, TYPES, Ty, Width};
use crate::text::{Text, fill, fill_two, joined};

/// How the rows of a SELECT are cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    /// TOP with every column sorted by.
    Top,
    /// TOP WITH TIES, sorted by the first column.
    Ties,
    /// OFFSET and FETCH.
    Offset,
}

/// A SELECT in the making.
struct Core {
    /// What stands between SELECT and FROM apart from TOP.
    distinct: &'static str,
    items: Vec<Expr>,
    /// From FROM to HAVING.
    rest: Text,
    /// What the rows are sorted by first, when they are sorted.
    first: Option<Text>,
}

impl Gen<'_> {
    /// A whole statement: common table expressions, then a query.
    pub(super) fn top_query(&mut self) -> Query {
        let with = self.common_tables();
        let types = self.types(4);
        let depth = 1 + self.draw.below(3);
        let mut query = self.query(&[], &types, depth);
        if !query.sorts && self.draw.below(3) == 1 {
            let order = self.whole_order(query.columns.len());
            query.text = fill("$0 ORDER BY $1", &[&query.text, &order]);
            query.ordered = true;
        }
        query.text.ms.insert_str(0, &with.ms);
        query.text.pg.insert_str(0, &with.pg);
        query
    }

    /// A query with columns of the types. The simplest is a SELECT of literals from one table.
    pub(super) fn query(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Query {
        self.part("query", |g| match g.draw.below(8) {
            6 if depth > 0 => g.set_operation(outer, types, depth - 1),
            7 if depth > 0 => g.wrapped(outer, types, depth - 1),
            kind => {
                let cut = match kind {
                    3 => Cut::Top,
                    4 => g.pick(&[Cut::Ties, Cut::Offset]),
                    _ => Cut::None,
                };
                g.select(outer, types, depth, cut)
            }
        })
    }

    /// A query of one column and one row: an aggregate, or the first by its only column.
    pub(super) fn one_value(&mut self, outer: &[Expr], ty: Ty, depth: u32) -> Expr {
        self.part("one", |g| match g.draw.below(3) {
            0 | 1 => {
                let source = g.from(outer, depth);
                let scope = Scope::of(source.columns.clone(), outer, source.key.clone());
                let filter = g.filter(&scope, depth);
                let made = g.aggregate(&scope, ty);
                let text = fill("SELECT $0 FROM $1$2", &[&made.text, &source.text, &filter]);
                Expr {
                    text,
                    bare: false,
                    ..made
                }
            }
            _ => {
                let core = g.plain(outer, &[ty], depth);
                let order = g.whole_order(1);
                let text = fill_two(
                    "SELECT TOP (1) $0 AS c0$1 ORDER BY $2",
                    "SELECT $0 AS c0$1 ORDER BY $2 LIMIT 1",
                    &[&core.items[0].text, &core.rest, &order],
                );
                Expr {
                    text,
                    bare: false,
                    ..core.items[0].clone()
                }
            }
        })
    }

    fn filter(&mut self, scope: &Scope, depth: u32) -> Text {
        match self.draw.below(3) {
            0 => Text::default(),
            _ => fill(" WHERE $0", &[&self.predicate(scope, depth.min(2))]),
        }
    }

    // --- One SELECT

    fn select(&mut self, outer: &[Expr], types: &[Ty], depth: u32, cut: Cut) -> Query {
        let core = self.core(outer, types, depth);
        let items: Vec<Text> = core
            .items
            .iter()
            .enumerate()
            .map(|(n, item)| fill(&format!("$0 AS c{n}"), &[&item.text]))
            .collect();
        let items = joined(&items, ", ");
        let columns = columns_of(&core.items);
        let distinct = core.distinct;
        let text = match cut {
            Cut::None => fill(&format!("SELECT {distinct}$0$1"), &[&items, &core.rest]),
            Cut::Top => {
                let count = self.count(0, 9);
                let order = self.order_behind(core.first, columns.len());
                fill_two(
                    &format!("SELECT {distinct}TOP ($2) $0$1 ORDER BY $3"),
                    &format!("SELECT {distinct}$0$1 ORDER BY $3 LIMIT $2"),
                    &[&items, &core.rest, &count, &order],
                )
            }
            Cut::Ties => {
                let (count, order) = (self.count(0, 9), self.direction(&Text::same("1")));
                fill_two(
                    &format!("SELECT {distinct}TOP ($2) WITH TIES $0$1 ORDER BY $3"),
                    &format!("SELECT {distinct}$0$1 ORDER BY $3 FETCH FIRST $2 ROWS WITH TIES"),
                    &[&items, &core.rest, &count, &order],
                )
            }
            Cut::Offset => {
                let (skip, count) = (self.count(0, 6), self.count(1, 9));
                let order = self.order_behind(core.first, columns.len());
                fill(
                    &format!(
                        "SELECT {distinct}$0$1 ORDER BY $4 OFFSET $2 ROWS FETCH NEXT $3 ROWS ONLY"
                    ),
                    &[&items, &core.rest, &skip, &count, &order],
                )
            }
        };
        Query {
            text,
            columns,
            sorts: cut != Cut::None,
            ordered: !matches!(cut, Cut::None | Cut::Ties),
        }
    }

    fn order_behind(&mut self, first: Option<Text>, columns: usize) -> Text {
        let order = self.whole_order(columns);
        match first {
            Some(first) => fill("$0, $1", &[&first, &order]),
            None => order,
        }
    }

    /// Every column by its number, each in some direction.
    fn whole_order(&mut self, columns: usize) -> Text {
        let keys: Vec<Text> = (1..=columns)
            .map(|n| self.direction(&Text::same(&n.to_string())))
            .collect();
        joined(&keys, ", ")
    }

    fn core(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Core {
        match self.draw.below(10) {
            0..=3 => self.plain(outer, types, depth),
            4 => Core {
                distinct: "DISTINCT ",
                first: None,
                ..self.plain(outer, types, depth)
            },
            5 | 6 => self.windowed(outer, types, depth),
            7 => self.total(outer, types, depth),
            _ => self.grouped(outer, types, depth),
        }
    }

    fn plain(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Core {
        let (source, scope) = self.rows_of(outer, depth);
        let filter = self.filter(&scope, depth);
        let items = self.items(&scope, types, depth);
        let first = self.first_key(&scope, depth);
        Core {
            distinct: "",
            items,
            rest: fill(" FROM $0$1", &[&source.text, &filter]),
            first,
        }
    }

    /// An expression to sort by that is not given; T-SQL takes none without a column.
    fn first_key(&mut self, scope: &Scope, depth: u32) -> Option<Text> {
        if !self.seldom(4) {
            return None;
        }
        let ty = self.pick(&TYPES);
        let key = self.scalar(scope, ty, depth.min(2)).text;
        let named = scope.local.iter().any(|c| mentions(&key, &c.text));
        named.then(|| self.direction(&key))
    }

    fn rows_of(&mut self, outer: &[Expr], depth: u32) -> (Source, Scope) {
        let source = self.from(outer, depth);
        let scope = Scope::of(source.columns.clone(), outer, source.key.clone());
        (source, scope)
    }

    fn items(&mut self, scope: &Scope, types: &[Ty], depth: u32) -> Vec<Expr> {
        types
            .iter()
            .map(|ty| self.scalar(scope, *ty, depth.min(2)))
            .collect()
    }

    fn windowed(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Core {
        let (source, scope) = self.rows_of(outer, depth);
        let filter = self.filter(&scope, depth.min(1));
        let items = types
            .iter()
            .map(|ty| match self.draw.below(3) {
                0 => self.scalar(&scope, *ty, 1),
                _ => self.window(&scope, *ty),
            })
            .collect();
        Core {
            distinct: self.pick(&["", "", "", "DISTINCT "]),
            items,
            rest: fill(" FROM $0$1", &[&source.text, &filter]),
            first: None,
        }
    }

    /// Aggregates without GROUP BY.
    fn total(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Core {
        let (source, scope) = self.rows_of(outer, depth);
        let filter = self.filter(&scope, depth);
        let items = types.iter().map(|ty| self.aggregate(&scope, *ty)).collect();
        Core {
            distinct: "",
            items,
            rest: fill(" FROM $0$1", &[&source.text, &filter]),
            first: None,
        }
    }

    fn grouped(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Core {
        let (source, scope) = self.rows_of(outer, depth);
        let filter = self.filter(&scope, depth.min(1));
        let keys = self.group_keys(&scope);
        let texts: Vec<Text> = keys.iter().map(|k| k.text.clone()).collect();
        let (sets, several) = self.grouping(&texts);
        let mut local = keys.clone();
        if several {
            local.push(self.grouping_of(&texts));
        }
        for _ in 0..3 {
            let ty = self.pick(types);
            local.push(self.aggregate(&scope, ty));
        }
        let shown: Vec<Expr> = match several {
            true => Vec::new(),
            false => keys.iter().filter(|k| k.bare).cloned().collect(),
        };
        let groups = Scope {
            local,
            outer: outer.to_vec(),
            key: if several { Vec::new() } else { keys },
            shown,
            subqueries: depth > 1,
        };
        let mut rest = fill(" FROM $0$1 GROUP BY $2", &[&source.text, &filter, &sets]);
        if self.draw.below(3) == 1 {
            let having = self.predicate(&groups, 1);
            rest.push(&fill(" HAVING $0", &[&having]));
        }
        let windows = self.seldom(4);
        let items = types
            .iter()
            .map(|ty| match windows && self.draw.below(2) == 1 {
                true => self.window(&groups, *ty),
                false => self.scalar(&groups, *ty, 1),
            })
            .collect();
        Core {
            // Sums of floats differ in their last digits with the order of the rows, so no two need be the same.
            distinct: match types.contains(&Ty::Float) {
                true => "",
                false => self.pick(&["", "", "", "", "DISTINCT "]),
            },
            items,
            rest,
            first: None,
        }
    }

    /// What is grouped by: columns, and expressions of columns without values that could be parameters.
    ///
    /// No column under its second name: to PostgreSQL 15 both names are one key, so a set that lacks one still shows its value.
    fn group_keys(&mut self, scope: &Scope) -> Vec<Expr> {
        let mut columns: Vec<&Expr> = scope.local.iter().filter(|c| !c.again).collect();
        if columns.is_empty() {
            columns = scope.local.iter().collect();
        }
        let list = self.list(1, 3, |g, _| {
            let column = g.pick(&columns).clone();
            match g.draw.below(4) {
                3 => key_expression(column),
                _ => column,
            }
        });
        let mut keys: Vec<Expr> = Vec::new();
        for key in list {
            if !keys.iter().any(|k| k.text == key.text) {
                keys.push(key);
            }
        }
        keys
    }

    /// The list behind GROUP BY; does it make several groupings?
    fn grouping(&mut self, keys: &[Text]) -> (Text, bool) {
        let all = joined(keys, ", ");
        match self.draw.below(7) {
            4 => (fill("ROLLUP ($0)", &[&all]), true),
            5 => (fill("CUBE ($0)", &[&all]), true),
            6 => {
                let first = keys.first().cloned().unwrap_or_default();
                let sets = self.pick(&[
                    "GROUPING SETS (($0), ($1), ())",
                    "GROUPING SETS (($1), ())",
                    "GROUPING SETS (($0), ($0), ($1))",
                    "GROUPING SETS ((), ())",
                ]);
                match sets.contains("$0") {
                    true => (fill(sets, &[&all, &first]), true),
                    // Every key has to be in some set.
                    false => (fill("GROUPING SETS (($0), (), ())", &[&all]), true),
                }
            }
            _ => (all, false),
        }
    }

    fn grouping_of(&mut self, keys: &[Text]) -> Expr {
        match self.draw.below(2) {
            0 => Expr {
                width: Width::Tiny,
                ..Expr::int(
                    fill(
                        "GROUPING($0)",
                        &[&keys.first().cloned().unwrap_or_default()],
                    ),
                    1,
                )
            },
            _ => Expr::int(
                fill_two("GROUPING_ID($0)", "GROUPING($0)", &[&joined(keys, ", ")]),
                7,
            ),
        }
    }

    // --- Several SELECTs

    fn set_operation(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Query {
        let left = self.branch(outer, types, depth);
        let right = self.branch(outer, types, depth);
        let operator = self.pick(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
        let text = fill(&format!("$0 {operator} $1"), &[&left.text, &right.text]);
        let columns = left
            .columns
            .iter()
            .zip(&right.columns)
            .map(|(l, r)| united(l, r))
            .collect();
        Query {
            text,
            columns,
            sorts: false,
            ordered: false,
        }
    }

    /// A query that may stand in a set operation: without an ORDER BY of its own.
    fn branch(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Query {
        self.part("branch", |g| match depth > 0 && g.seldom(5) {
            true => {
                let inner = g.set_operation(outer, types, depth - 1);
                Query {
                    text: fill("($0)", &[&inner.text]),
                    ..inner
                }
            }
            false => g.select(outer, types, depth, Cut::None),
        })
    }

    /// A query of a query.
    fn wrapped(&mut self, outer: &[Expr], types: &[Ty], depth: u32) -> Query {
        let inner = self.query(outer, types, depth);
        let alias = self.alias();
        Query {
            text: fill(&format!("SELECT * FROM ($0) {alias}"), &[&inner.text]),
            columns: inner.columns,
            sorts: false,
            ordered: false,
        }
    }

    // --- Common table expressions

    fn common_tables(&mut self) -> Text {
        if self.draw.below(4) < 3 {
            return Text::default();
        }
        let list = self.list(1, 2, |g, n| match g.draw.below(3) {
            0 | 1 => g.common_table(n),
            _ => g.recursive_table(n),
        });
        let word = if self.needs_recursion {
            "WITH RECURSIVE $0 "
        } else {
            "WITH $0 "
        };
        fill_two("WITH $0 ", word, &[&joined(&list, ", ")])
    }

    fn common_table(&mut self, n: u32) -> Text {
        let types = self.types(3);
        let query = self.query(&[], &types, 1);
        let name = format!("w{n}");
        let text = fill(&format!("{name} AS ($0)"), &[&query.text]);
        self.shared.push((name, query.columns, 100));
        text
    }

    fn recursive_table(&mut self, n: u32) -> Text {
        self.needs_recursion = true;
        let name = format!("w{n}");
        let (text, rows) = match self.draw.below(2) {
            0 => (self.counting(&name), 10),
            _ => (self.descending(&name), 200),
        };
        let columns = vec![counter("", 20_000), counter("", 20_000)];
        self.shared.push((name, columns, rows));
        text
    }

    /// Numbers that are counted up to a bound.
    fn counting(&mut self, name: &str) -> Text {
        let (first, last, step) = (self.count(0, 3), self.count(3, 12), self.count(1, 3));
        let pattern = format!(
            "{name}(c0, c1) AS (SELECT $0, 0 UNION ALL SELECT c0 + $1, c1 + c0 FROM {name} WHERE c0 < $2)"
        );
        fill(&pattern, &[&first, &step, &last])
    }

    /// Rows that lead to rows, three steps far.
    fn descending(&mut self, name: &str) -> Text {
        let tables = u32::try_from(self.tables.len()).unwrap_or(1);
        let (start, next) = (self.draw.below(tables), self.draw.below(tables));
        let (first, second) = (self.alias(), self.alias());
        let columns = super::source::table_columns(&first);
        let scope = Scope::of(columns, &[], Vec::new());
        let filter = self.predicate(&scope, 0);
        let link = self.pick(&["i2", "i1"]);
        let pattern = format!(
            "{name}(c0, c1) AS (SELECT {first}.id, 0 FROM t{start} {first}$1 WHERE $0
             UNION ALL SELECT {second}.id, w.c1 + 1 FROM {name} w JOIN t{next} {second}$2 ON {second}.{link} = w.c0 WHERE w.c1 < 2)"
        );
        let hints = [start, next].map(|t| Text::hint(t as usize));
        fill(&pattern, &[&filter, &hints[0], &hints[1]])
    }
}

/// An expression of a column that can be grouped by.
fn key_expression(column: Expr) -> Expr {
    let text = &column.text;
    match (column.ty, column.width) {
        (Ty::Int, Width::Int | Width::Big) => Expr {
            most: 3,
            text: fill("($0 % 3)", &[text]),
            bare: false,
            ..column
        },
        (Ty::Str, _) => Expr::new(Ty::Str, fill("LEFT($0, 1)", &[text])),
        (Ty::Date, _) => Expr::int(
            fill_two(
                "MONTH($0)",
                "CAST(EXTRACT(month FROM $0) AS integer)",
                &[text],
            ),
            12,
        ),
        _ => column,
    }
}

/// A column of a set operation.
fn united(left: &Expr, right: &Expr) -> Expr {
    let (l, r) = (left.digits, right.digits);
    let s = l.1.max(r.1);
    let big = left.width == Width::Big || right.width == Width::Big;
    let width = match left.width == right.width {
        true => left.width,
        false if big => Width::Big,
        // A bit and a tinyint, say: the wider of them, and small at most.
        false => left.width.max_of(right.width),
    };
    Expr {
        width,
        most: left.most.max(right.most),
        digits: ((l.0 - l.1).max(r.0 - r.1) + s, s),
        ..left.clone()
    }
}

impl Width {
    fn max_of(self, other: Width) -> Width {
        const ORDER: [Width; 5] = [
            Width::Bit,
            Width::Tiny,
            Width::Small,
            Width::Int,
            Width::Big,
        ];
        let at = |w| ORDER.iter().position(|o| *o == w).unwrap_or(0);
        ORDER[at(self).max(at(other))]
    }
}

/// The columns of a SELECT list.
fn columns_of(items: &[Expr]) -> Vec<Expr> {
    let column = |(n, item): (usize, &Expr)| Expr {
        again: item.again || (item.bare && items.iter().take(n).any(|i| i.text == item.text)),
        ..item.column("")
    };
    items.iter().enumerate().map(column).collect()
}
