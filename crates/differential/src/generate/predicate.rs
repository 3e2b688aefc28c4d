//! Conditions.

use super::{Expr, FOLDED, Gen, Scope, TYPES, Ty};
use crate::text::{Text, fill, fill_two, joined};

const OPERATORS: [&str; 6] = ["=", "<", ">", "<=", ">=", "<>"];

impl Gen<'_> {
    /// A condition. The simplest compares a column with a literal.
    pub(super) fn predicate(&mut self, scope: &Scope, depth: u32) -> Text {
        self.part("predicate", |g| {
            if depth == 0 {
                return g.simple(scope);
            }
            match g.draw.below(16) {
                0..=4 => g.simple(scope),
                5 | 6 => g.several(scope, depth - 1),
                7 => {
                    let inner = g.predicate(scope, depth - 1);
                    fill("NOT ($0)", &[&inner])
                }
                8 | 9 => g.compared(scope, depth - 1),
                10 => g.distinct_from(scope, depth - 1),
                _ if !scope.subqueries => g.simple(scope),
                11 | 12 => g.exists(scope, depth - 1),
                13 | 14 => g.in_query(scope, depth - 1),
                _ => g.quantified(scope, depth - 1),
            }
        })
    }

    fn several(&mut self, scope: &Scope, depth: u32) -> Text {
        let between = self.pick(&[" AND ", " OR "]);
        let parts = self.list(1, 3, |g, _| g.predicate(scope, depth));
        fill("($0)", &[&joined(&parts, between)])
    }

    /// What an index may serve.
    fn simple(&mut self, scope: &Scope) -> Text {
        let kind = self.draw.below(10);
        let ty = match kind {
            7 | 9 => Ty::Str,
            _ => self.pick(&TYPES),
        };
        let Some(column) = self.column(scope, ty) else {
            return self.constant(scope);
        };
        let name = &column.text;
        match kind {
            0..=2 => {
                let operator = self.pick(&OPERATORS);
                let other = self.literal(ty).text;
                fill(&format!("$0 {operator} $1"), &[name, &other])
            }
            3 => {
                let operator = self.pick(&OPERATORS);
                let other = self.column_or_literal(scope, ty).text;
                fill(&format!("$0 {operator} $1"), &[name, &other])
            }
            4 => fill(self.pick(&["$0 IS NULL", "$0 IS NOT NULL"]), &[name]),
            5 => {
                let (low, high) = (self.literal(ty).text, self.literal(ty).text);
                let pattern = self.pick(&["$0 BETWEEN $1 AND $2", "$0 NOT BETWEEN $1 AND $2"]);
                fill(pattern, &[name, &low, &high])
            }
            6 => {
                let word = self.pick(&["IN", "NOT IN"]);
                let list = self.list(1, 4, |g, _| g.literal(ty).text);
                fill(&format!("$0 {word} ($1)"), &[name, &joined(&list, ", ")])
            }
            7 => self.like(name),
            9 => self.folded(scope, name),
            _ => {
                let operator = self.pick(&OPERATORS);
                let other = self.scalar(scope, ty, 1).text;
                fill(&format!("$0 {operator} $1"), &[name, &other])
            }
        }
    }

    fn like(&mut self, text: &Text) -> Text {
        let not = self.pick(&["", "NOT "]);
        let (classes, pattern) = self.pattern();
        match classes {
            true => fill_two(
                &format!("$0 {not}LIKE $1"),
                &format!("$0 {}~ $1", if not.is_empty() { "" } else { "!" }),
                &[text, &pattern],
            ),
            // Without a character of escape PostgreSQL would take a backslash for one; there is none in any text.
            false => fill(&format!("$0 {not}LIKE $1"), &[text, &pattern]),
        }
    }

    /// Under a collation that the column has not.
    fn folded(&mut self, scope: &Scope, name: &Text) -> Text {
        let pair = |operator: &str| {
            (
                format!("$0 COLLATE {FOLDED} {operator} $1"),
                format!("LOWER($0) {operator} LOWER($1)"),
            )
        };
        let ((ms, pg), other) = match self.draw.below(4) {
            0 => {
                let operator = self.pick(&["=", "<>"]);
                (pair(operator), self.literal(Ty::Str).text)
            }
            1 => {
                let operator = self.pick(&["=", "<>", "IS DISTINCT FROM"]);
                (pair(operator), self.scalar(scope, Ty::Str, 1).text)
            }
            2 => {
                let not = self.pick(&["", "NOT "]);
                (pair(&format!("{not}LIKE")), self.pattern_of(false))
            }
            _ => {
                let (ms, pg) = (
                    "$0 COLLATE F IN ($1, 'Ab')",
                    "LOWER($0) IN (LOWER($1), 'ab')",
                );
                (
                    (ms.replace('F', FOLDED), pg.into()),
                    self.literal(Ty::Str).text,
                )
            }
        };
        fill_two(&ms, &pg, &[name, &other])
    }

    fn constant(&mut self, scope: &Scope) -> Text {
        let ty = self.pick(&[Ty::Int, Ty::Str]);
        let left = self.column_or_literal(scope, ty).text;
        let right = self.literal(ty).text;
        let operator = self.pick(&OPERATORS);
        fill(&format!("$0 {operator} $1"), &[&left, &right])
    }

    fn pair(&mut self, scope: &Scope, depth: u32) -> (Text, Text) {
        let ty = self.pick(&TYPES);
        let left = self.scalar(scope, ty, depth).text;
        let right = self.scalar(scope, ty, depth).text;
        (left, right)
    }

    fn compared(&mut self, scope: &Scope, depth: u32) -> Text {
        let operator = self.pick(&OPERATORS);
        let (left, right) = self.pair(scope, depth + 1);
        fill(&format!("$0 {operator} $1"), &[&left, &right])
    }

    fn distinct_from(&mut self, scope: &Scope, depth: u32) -> Text {
        let not = self.pick(&["", "NOT "]);
        let (left, right) = self.pair(scope, depth);
        fill(&format!("$0 IS {not}DISTINCT FROM $1"), &[&left, &right])
    }

    fn exists(&mut self, scope: &Scope, depth: u32) -> Text {
        let not = self.pick(&["", "NOT "]);
        let ty = self.pick(&TYPES);
        let query = self.query(&scope.for_subquery(), &[ty], depth);
        fill(&format!("{not}EXISTS ($0)"), &[&query.text])
    }

    fn in_query(&mut self, scope: &Scope, depth: u32) -> Text {
        let not = self.pick(&["", "NOT "]);
        let ty = self.pick(&TYPES);
        let left = self.scalar(scope, ty, depth.min(1)).text;
        let query = self.query(&scope.for_subquery(), &[ty], depth);
        fill(&format!("$0 {not}IN ($1)"), &[&left, &query.text])
    }

    fn quantified(&mut self, scope: &Scope, depth: u32) -> Text {
        let operator = self.pick(&OPERATORS);
        let word = self.pick(&["ANY", "ALL", "SOME"]);
        let ty = self.pick(&TYPES);
        let left = self.scalar(scope, ty, depth.min(1)).text;
        let query = self.query(&scope.for_subquery(), &[ty], depth);
        fill(&format!("$0 {operator} {word} ($1)"), &[&left, &query.text])
    }

    /// A condition of a join: columns of both sides are alike, and perhaps more.
    pub(super) fn join_condition(
        &mut self,
        left: &[Expr],
        right: &[Expr],
        both: &Scope,
        only_equal: bool,
    ) -> Text {
        let equal = self.equal_columns(left, right);
        match self.draw.below(4) {
            0 | 1 => equal,
            2 if !only_equal => {
                let more = self.predicate(both, 1);
                fill("$0 AND $1", &[&equal, &more])
            }
            3 if !only_equal && self.seldom(3) => self.predicate(both, 1),
            _ => equal,
        }
    }

    fn equal_columns(&mut self, left: &[Expr], right: &[Expr]) -> Text {
        let left = self.pick(&left.iter().collect::<Vec<_>>());
        let partners: Vec<&Expr> = right.iter().filter(|c| c.ty == left.ty).collect();
        match partners.is_empty() {
            true => {
                let right = self.pick(&right.iter().collect::<Vec<_>>());
                fill("($0 IS NULL OR $1 IS NOT NULL)", &[&left.text, &right.text])
            }
            false => {
                let right = self.pick(&partners);
                fill("$0 = $1", &[&left.text, &right.text])
            }
        }
    }
}
