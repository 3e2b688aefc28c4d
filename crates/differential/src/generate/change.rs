//! INSERT, UPDATE, DELETE and MERGE. Each runs in a transaction that is rolled back, so keys need only be unique once.

use super::source::{renamed, table_columns};
use super::{Expr, Gen, Kind, Output, Scope, Ty, Width};
use crate::tables::COLUMNS;
use crate::text::{Text, fill, fill_two, joined};

/// Added to keys that must not be there yet.
const APART: usize = 100_000;

impl Gen<'_> {
    pub(super) fn change(&mut self) -> (Text, Kind) {
        self.part("change", |g| {
            let tables = u32::try_from(g.tables.len()).unwrap_or(1);
            let table = g.draw.below(tables) as usize;
            let wants_rows = g.draw.below(2) == 1;
            let (text, output) = match g.draw.below(4) {
                0 => g.update(table, wants_rows),
                1 => g.delete(table, wants_rows),
                2 => g.insert(table, wants_rows),
                _ => g.merge(table, wants_rows),
            };
            (text, Kind::Change { table, output })
        })
    }

    fn update(&mut self, table: usize, wants_rows: bool) -> (Text, Output) {
        let alias = self.alias();
        let own = table_columns(&alias);
        let (source, more) = self.partner(&own);
        let all: Vec<Expr> = own.iter().chain(&more).cloned().collect();
        let scope = Scope::of(all, &[], Vec::new());
        let sets = self.assignments(&scope, true);
        let filter = self.predicate(&scope, 2);
        let (output, returning, kind) = output(wants_rows, "inserted", &alias);
        let text = match source {
            None => fill_two(
                &format!("UPDATE {alias} SET $0{output} FROM t{table} {alias} WHERE $1"),
                &format!("UPDATE t{table} {alias} SET $0 WHERE $1{returning}"),
                &[&sets, &filter],
            ),
            Some((partner, on)) => fill_two(
                &format!(
                    "UPDATE {alias} SET $0{output} FROM t{table} {alias} JOIN $2 ON $3 WHERE $1"
                ),
                &format!("UPDATE t{table} {alias} SET $0 FROM $2 WHERE $3 AND ($1){returning}"),
                &[&sets, &filter, &partner, &on],
            ),
        };
        (text, kind)
    }

    fn delete(&mut self, table: usize, wants_rows: bool) -> (Text, Output) {
        let alias = self.alias();
        let own = table_columns(&alias);
        let (source, more) = self.partner(&own);
        let all: Vec<Expr> = own.iter().chain(&more).cloned().collect();
        let filter = self.predicate(&Scope::of(all, &[], Vec::new()), 2);
        let (output, returning, kind) = output(wants_rows, "deleted", &alias);
        let text = match source {
            None => fill_two(
                &format!("DELETE {alias}{output} FROM t{table} {alias} WHERE $0"),
                &format!("DELETE FROM t{table} {alias} WHERE $0{returning}"),
                &[&filter],
            ),
            Some((partner, on)) => fill_two(
                &format!("DELETE {alias}{output} FROM t{table} {alias} JOIN $1 ON $2 WHERE $0"),
                &format!("DELETE FROM t{table} {alias} USING $1 WHERE $2 AND ($0){returning}"),
                &[&filter, &partner, &on],
            ),
        };
        (text, kind)
    }

    /// A table to join with, at most one row of it for each row of the changed one.
    fn partner(&mut self, own: &[Expr]) -> (Option<(Text, Text)>, Vec<Expr>) {
        match self.draw.below(5) {
            1 => {}
            2 => return self.grouped_partner(own),
            _ => return (None, Vec::new()),
        }
        let tables = u32::try_from(self.tables.len()).unwrap_or(1);
        let table = self.draw.below(tables) as usize;
        let alias = self.alias();
        let ints: Vec<&Expr> = own
            .iter()
            .filter(|c| c.ty == Ty::Int && c.width == Width::Int)
            .collect();
        let link = self.pick(&ints);
        let on = fill(&format!("{alias}.id = $0"), &[&link.text]);
        let source = fill(&format!("t{table} {alias}$0"), &[&Text::hint(table)]);
        (Some((source, on)), table_columns(&alias))
    }

    /// Groups of a table to join with, by what they are grouped by.
    fn grouped_partner(&mut self, own: &[Expr]) -> (Option<(Text, Text)>, Vec<Expr>) {
        let tables = u32::try_from(self.tables.len()).unwrap_or(1);
        let table = self.draw.below(tables) as usize;
        let (inner, alias) = (self.alias(), self.alias());
        let link = self.pick(&["i1", "i2"]);
        let column = own
            .iter()
            .find(|c| c.text.ms.ends_with(&format!(".{link}")));
        let column = column.expect("every table has it");
        let source = fill(
            &format!(
                "(SELECT {inner}.{link} AS c0, COUNT(*) AS c1, MIN({inner}.d1) AS c2, MAX({inner}.s1) AS c3 FROM t{table} {inner}$0 GROUP BY {inner}.{link}) {alias}"
            ),
            &[&Text::hint(table)],
        );
        let on = fill(&format!("{alias}.c0 = $0"), &[&column.text]);
        let types = [int_of(link), counter_of("c1"), date_of(), text_of()];
        (Some((source, on)), renamed(&types, &alias))
    }

    /// `column = value` for some columns; `key` now and then for the key as well, so that it stays unique.
    fn assignments(&mut self, scope: &Scope, key: bool) -> Text {
        let mut taken: Vec<&str> = Vec::new();
        let mut out: Vec<Text> = Vec::new();
        let moved = key && self.seldom(5);
        if moved {
            let pattern = self.pick(&["id = -$0", "id = $0 + 100000", "id = 90000 - $0"]);
            out.push(fill(pattern, &[&scope.local[0].text]));
        }
        self.list(1, 3, |g, _| {
            let column = 1 + g.draw.below(u32::try_from(COLUMNS.len() - 1).unwrap_or(1)) as usize;
            let name = COLUMNS[column].name;
            let value = g.stored(scope, column);
            if !taken.contains(&name) {
                taken.push(name);
                out.push(fill(&format!("{name} = $0"), &[&value]));
            }
        });
        joined(&out, ", ")
    }

    /// A value that the column can hold.
    fn stored(&mut self, scope: &Scope, column: usize) -> Text {
        let column = &COLUMNS[column];
        let depth = self.draw.below(3);
        match (column.ty, column.width) {
            (Ty::Int, Width::Bit) => {
                let condition = self.predicate(scope, depth.min(1));
                fill("CASE WHEN $0 THEN 1 ELSE 0 END", &[&condition])
            }
            (Ty::Int, Width::Tiny) => {
                let value = self.scalar(scope, Ty::Int, depth).wide().small(100);
                fill("ABS($0)", &[&value.text])
            }
            (Ty::Int, _) => {
                self.scalar(scope, Ty::Int, depth)
                    .wide()
                    .small(column.most)
                    .text
            }
            (Ty::Dec, _) => {
                let value = self.scalar(scope, Ty::Dec, depth).fixed();
                match value.most < 1_000_000 {
                    true => value.text,
                    false => self.literal(Ty::Dec).text,
                }
            }
            (Ty::Str, _) => {
                let value = self.scalar(scope, Ty::Str, depth).text;
                fill("LEFT($0, 8)", &[&value])
            }
            (ty, _) => self.scalar(scope, ty, depth).text,
        }
    }

    fn insert(&mut self, table: usize, wants_rows: bool) -> (Text, Output) {
        let tables = u32::try_from(self.tables.len()).unwrap_or(1);
        let from = self.draw.below(tables) as usize;
        let alias = self.alias();
        let scope = Scope::of(table_columns(&alias), &[], Vec::new());
        let filter = self.predicate(&scope, 2);
        let mut values = vec![Text::same(&format!("{alias}.id + {APART}"))];
        for (column, definition) in COLUMNS.iter().enumerate().skip(1) {
            let own = Text::same(&format!("{alias}.{}", definition.name));
            let made = match self.seldom(5) {
                true => self.stored(&scope, column),
                false => own,
            };
            values.push(made);
        }
        let (output, returning, kind) = output(wants_rows, "inserted", &format!("t{table}"));
        let text = fill_two(
            &format!(
                "INSERT t{table} ({}){output} SELECT $0 FROM t{from} {alias}$2 WHERE $1",
                names()
            ),
            &format!(
                "INSERT INTO t{table} ({}) SELECT $0 FROM t{from} {alias} WHERE $1{returning}",
                names()
            ),
            &[&joined(&values, ", "), &filter, &Text::hint(from)],
        );
        (text, kind)
    }

    /// By a source that is unique by the key.
    fn merge(&mut self, table: usize, wants_rows: bool) -> (Text, Output) {
        let tables = u32::try_from(self.tables.len()).unwrap_or(1);
        let from = self.draw.below(tables) as usize;
        let (inner, target, source) = (self.alias(), self.alias(), self.alias());
        let filter = {
            let scope = Scope::of(table_columns(&inner), &[], Vec::new());
            self.predicate(&scope, 1)
        };
        // Some keys are there, some are not.
        let shift = self.pick(&[0, 7, 40]);
        let rows = fill(
            &format!(
                "(SELECT {inner}.id + {shift} AS c0, {inner}.i1 AS c1, {inner}.s1 AS c2, {inner}.d1 AS c3 FROM t{from} {inner}$1 WHERE $0) {source}"
            ),
            &[&filter, &Text::hint(from)],
        );
        let types = [counter_of("c0"), int_of("i1"), text_of(), date_of()];
        let given = renamed(&types, &source);
        let own = table_columns(&target);
        let both: Vec<Expr> = own.iter().chain(&given).cloned().collect();
        let both = Scope {
            subqueries: false,
            ..Scope::of(both, &[], Vec::new())
        };
        let matched = self.merge_condition(&both);
        let change = match self.draw.below(3) {
            0 | 1 => {
                let sets = self.assignments(&both, false);
                fill("UPDATE SET $0", &[&sets])
            }
            _ => Text::same("DELETE"),
        };
        let otherwise = match matched.ms.is_empty() || !self.seldom(2) {
            true => Text::default(),
            // T-SQL wants one of each.
            false if change.ms == "DELETE" => {
                let sets = self.assignments(&both, false);
                fill(" WHEN MATCHED THEN UPDATE SET $0", &[&sets])
            }
            false => Text::same(" WHEN MATCHED THEN DELETE"),
        };
        let only_source = Scope {
            subqueries: false,
            ..Scope::of(given, &[], Vec::new())
        };
        let missing = self.merge_condition(&only_source);
        let text = self.stored(&only_source, 8);
        let number = self.stored(&only_source, 1);
        let ending = match wants_rows {
            true => " OUTPUT $$action, deleted.id, inserted.id, deleted.s1, inserted.i1",
            false => "",
        }
        .replace("$$", "\u{3}");
        let pattern = format!(
            "MERGE INTO t{table} {target} USING $0 ON {target}.id = {source}.c0
             WHEN MATCHED$1 THEN $2$6
             WHEN NOT MATCHED$3 THEN INSERT (id, i1, b1, s1) VALUES ({source}.c0, $4, 0, $5)"
        );
        let mut made = fill_two(
            &format!("{pattern}{ending}"),
            &pattern,
            &[
                &rows, &matched, &change, &missing, &number, &text, &otherwise,
            ],
        );
        made.ms = made.ms.replace('\u{3}', "$");
        let kind = if wants_rows {
            Output::OneSided
        } else {
            Output::None
        };
        (made, kind)
    }

    fn merge_condition(&mut self, scope: &Scope) -> Text {
        match self.draw.below(2) {
            0 => Text::default(),
            _ => fill(" AND $0", &[&self.predicate(scope, 1)]),
        }
    }
}

/// OUTPUT of T-SQL and RETURNING of PostgreSQL, when rows are wanted.
fn output(wants_rows: bool, side: &str, alias: &str) -> (String, String, Output) {
    if !wants_rows {
        return (String::new(), String::new(), Output::None);
    }
    let list = |prefix: &str| {
        let names = ["id", "i1", "s1", "n1", "d1"];
        names.map(|n| format!("{prefix}.{n}")).join(", ")
    };
    (
        format!(" OUTPUT {}", list(side)),
        format!(" RETURNING {}", list(alias)),
        Output::Rows,
    )
}

fn names() -> String {
    COLUMNS.map(|c| c.name).join(", ")
}

fn counter_of(name: &str) -> Expr {
    super::source::counter(name, 1000)
}

/// A column of every table, with the bound of its values.
fn int_of(name: &str) -> Expr {
    let column = COLUMNS.iter().find(|c| c.name == name);
    super::source::counter(name, column.expect("every table has it").most)
}

fn text_of() -> Expr {
    Expr::new(Ty::Str, Text::default())
}

fn date_of() -> Expr {
    Expr::new(Ty::Date, Text::default())
}
