//! Expressions that give one value.

use super::{Expr, FOLDED, Gen, Scope, Ty, Width};
use crate::text::{Text, fill, fill_two};

/// Integers stay below this, decimals and bigints below its square.
const INT_MAX: u64 = 100_000_000;
const WIDE_MAX: u64 = 1_000_000_000_000_000;

/// Parts of a date; the week begins on Sunday, day 1.
const DATE_PARTS: [(&str, &str); 4] = [
    ("dayofyear", "EXTRACT(doy FROM $0)"),
    ("weekday", "EXTRACT(dow FROM $0) + 1"),
    ("iso_week", "EXTRACT(week FROM $0)"),
    ("month", "EXTRACT(month FROM $0)"),
];

/// Boundaries between two dates.
const DATE_STEPS: [(&str, &str); 4] = [
    (
        "month",
        "(EXTRACT(year FROM $1) - EXTRACT(year FROM $0)) * 12 + EXTRACT(month FROM $1) - EXTRACT(month FROM $0)",
    ),
    ("year", "EXTRACT(year FROM $1) - EXTRACT(year FROM $0)"),
    (
        "quarter",
        "(EXTRACT(year FROM $1) - EXTRACT(year FROM $0)) * 4 + EXTRACT(quarter FROM $1) - EXTRACT(quarter FROM $0)",
    ),
    // Day 0 is a Sunday.
    (
        "week",
        "($1 - date '1899-12-31') / 7 - ($0 - date '1899-12-31') / 7",
    ),
];

impl Gen<'_> {
    /// An expression of a type. The simplest is a literal.
    pub(super) fn scalar(&mut self, scope: &Scope, ty: Ty, depth: u32) -> Expr {
        self.part("scalar", |g| {
            if depth == 0 {
                return g.leaf(scope, ty);
            }
            match ty {
                Ty::Int => g.integer(scope, depth - 1),
                Ty::Dec => g.number_with_point(scope, depth - 1),
                Ty::Float => g.floating(scope, depth - 1),
                Ty::Str => g.string(scope, depth - 1),
                Ty::Date => g.date_of(scope, depth - 1),
                Ty::Stamp => g.stamp(scope, depth - 1),
            }
        })
    }

    fn leaf(&mut self, scope: &Scope, ty: Ty) -> Expr {
        match self.draw.below(4) {
            0 => self.literal(ty),
            _ => self.column_or_literal(scope, ty),
        }
    }

    pub(super) fn column_or_literal(&mut self, scope: &Scope, ty: Ty) -> Expr {
        match self.column(scope, ty) {
            Some(column) => column,
            None => self.literal(ty),
        }
    }

    /// A column of the type, now and then one of a query around.
    pub(super) fn column(&mut self, scope: &Scope, ty: Ty) -> Option<Expr> {
        let local: Vec<&Expr> = scope.local.iter().filter(|c| c.ty == ty).collect();
        let outer: Vec<&Expr> = scope.outer.iter().filter(|c| c.ty == ty).collect();
        let from_outer = !outer.is_empty() && (local.is_empty() || self.seldom(3));
        let list = if from_outer { outer } else { local };
        match list.is_empty() {
            true => None,
            false => Some(self.pick(&list).clone()),
        }
    }

    fn integer(&mut self, scope: &Scope, depth: u32) -> Expr {
        match self.draw.below(20) {
            0 => self.literal(Ty::Int),
            1..=4 => self.column_or_literal(scope, Ty::Int).wide(),
            5 | 6 => self.sum_of(scope, depth),
            7 => self.product(scope, depth),
            8 => self.quotient(scope, depth),
            9 | 10 => self.choice(scope, Ty::Int, depth),
            11 => self.sign(scope, depth),
            12 => self.of_text(scope, depth),
            13 => self.of_date(scope, depth),
            14 => self.truncated(scope, depth),
            15 => self.minus_tiny(scope),
            16 => self.extreme(scope, Ty::Int, depth),
            _ => self.scalar_subquery(scope, Ty::Int, depth),
        }
    }

    fn two(&mut self, scope: &Scope, ty: Ty, depth: u32) -> (Expr, Expr) {
        let left = self.scalar(scope, ty, depth).wide();
        let right = self.scalar(scope, ty, depth).wide();
        (left, right)
    }

    fn sum_of(&mut self, scope: &Scope, depth: u32) -> Expr {
        let (left, right) = self.two(scope, Ty::Int, depth);
        let (left, right) = (left.small(INT_MAX), right.small(INT_MAX));
        let operator = self.pick(&["+", "-"]);
        let text = fill(&format!("($0 {operator} $1)"), &[&left.text, &right.text]);
        wider(Expr::int(text, left.most + right.most), &left, &right)
    }

    fn product(&mut self, scope: &Scope, depth: u32) -> Expr {
        let (left, right) = self.two(scope, Ty::Int, depth);
        let (left, right) = (left.small(10_000), right.small(10_000));
        let text = fill("($0 * $1)", &[&left.text, &right.text]);
        wider(Expr::int(text, left.most * right.most), &left, &right)
    }

    fn quotient(&mut self, scope: &Scope, depth: u32) -> Expr {
        let (left, right) = self.two(scope, Ty::Int, depth);
        let operator = self.pick(&["/", "%"]);
        let pattern = format!("($0 {operator} NULLIF($1, 0))");
        let text = fill(&pattern, &[&left.text, &right.text]);
        wider(Expr::int(text, left.most), &left, &right)
    }

    /// One of two by a condition, by NULL, or by being alike.
    fn choice(&mut self, scope: &Scope, ty: Ty, depth: u32) -> Expr {
        let kind = self.draw.below(6);
        let condition = match kind {
            0..=2 => Some(self.predicate(scope, depth.min(1))),
            _ => None,
        };
        let (left, right) = match self.other_type(ty) {
            // The first value alone has another type: what comes out is the higher of both.
            Some(other) if matches!(kind, 0 | 2 | 3) => {
                let left = self.scalar(scope, other, depth.min(1)).wide();
                (left.taken_as(ty), self.scalar(scope, ty, depth).wide())
            }
            _ => self.two(scope, ty, depth),
        };
        let (left, right) = (left.fixed(), right.fixed());
        let parts = |c: Option<&Text>| -> Vec<Text> {
            [Some(&left.text), Some(&right.text), c]
                .into_iter()
                .flatten()
                .cloned()
                .collect()
        };
        let texts = parts(condition.as_ref());
        let texts: Vec<&Text> = texts.iter().collect();
        let text = match kind {
            0 => fill("CASE WHEN $2 THEN $0 ELSE $1 END", &texts),
            1 => fill("CASE WHEN $2 THEN $0 END", &texts),
            2 => fill_two(
                "IIF($2, $0, $1)",
                "CASE WHEN $2 THEN $0 ELSE $1 END",
                &texts,
            ),
            3 => fill("COALESCE($0, $1)", &texts),
            4 => fill("NULLIF($0, $1)", &texts),
            _ => fill("CASE $0 WHEN $1 THEN $1 ELSE $0 END", &texts),
        };
        let most = left.most.max(right.most);
        let digits = joint_digits(left.digits, right.digits);
        let made = Expr {
            most,
            digits,
            ..Expr::new(ty, text)
        };
        match kind {
            1 | 4 => Expr {
                width: left.width,
                digits: left.digits,
                ..made
            },
            _ => wider(made, &left, &right),
        }
    }

    /// Now and then a type that becomes this one when both stand side by side.
    fn other_type(&mut self, ty: Ty) -> Option<Ty> {
        let lower = match ty {
            Ty::Dec => Ty::Int,
            Ty::Float => Ty::Dec,
            Ty::Stamp => Ty::Date,
            _ => return None,
        };
        self.seldom(4).then_some(lower)
    }

    fn sign(&mut self, scope: &Scope, depth: u32) -> Expr {
        let inner = self.scalar(scope, Ty::Int, depth).wide();
        let (text, most) = match self.draw.below(3) {
            0 => (fill("(-$0)", &[&inner.text]), inner.most),
            1 => (fill("ABS($0)", &[&inner.text]), inner.most),
            _ => (
                fill_two("SIGN($0)", "CAST(SIGN($0) AS integer)", &[&inner.text]),
                1,
            ),
        };
        Expr {
            width: inner.width,
            ..Expr::int(text, most)
        }
    }

    fn of_text(&mut self, scope: &Scope, depth: u32) -> Expr {
        let text = self.scalar(scope, Ty::Str, depth).text;
        match self.draw.below(5) {
            2 => {
                // The empty text is 0 to T-SQL, and signs are another matter.
                let digits = fill("REPLACE(LEFT($0, 6), '-', '')", &[&text]);
                let number = fill_two(
                    "TRY_CAST($0 AS int)",
                    "CASE WHEN $0 = '' THEN 0 WHEN $0 !~ '[^0-9]' THEN CAST($0 AS integer) END",
                    &[&digits],
                );
                Expr::int(number, 999_999)
            }
            3 => Expr::int(
                fill_two("ASCII(NULLIF($0, ''))", "ASCII(NULLIF($0, ''))", &[&text]),
                127,
            ),
            4 => {
                let part = self.scalar(scope, Ty::Str, 0).text;
                let found = fill_two(
                    &format!("CHARINDEX(NULLIF($1, '') COLLATE {FOLDED}, $0)"),
                    "STRPOS(LOWER($0), LOWER(NULLIF($1, '')))",
                    &[&text, &part],
                );
                Expr::int(found, 200)
            }
            0 => Expr::int(fill_two("LEN($0)", "LENGTH($0)", &[&text]), 200),
            _ => {
                let part = self.scalar(scope, Ty::Str, 0).text;
                let found = fill_two(
                    "CHARINDEX(NULLIF($1, ''), $0)",
                    "STRPOS($0, NULLIF($1, ''))",
                    &[&text, &part],
                );
                Expr::int(found, 200)
            }
        }
    }

    fn of_date(&mut self, scope: &Scope, depth: u32) -> Expr {
        let kind = self.draw.below(8);
        let ty = if kind == 5 { Ty::Stamp } else { Ty::Date };
        let day = self.scalar(scope, ty, depth).text;
        let extract = |part: &str| format!("CAST(EXTRACT({part} FROM $0) AS integer)");
        match kind {
            0 => Expr::int(fill_two("YEAR($0)", &extract("year"), &[&day]), 2100),
            1 => Expr::int(fill_two("MONTH($0)", &extract("month"), &[&day]), 12),
            2 => Expr::int(fill_two("DAY($0)", &extract("day"), &[&day]), 31),
            3 => Expr::int(
                fill_two("DATEPART(quarter, $0)", &extract("quarter"), &[&day]),
                4,
            ),
            4 => {
                let other = self.scalar(scope, Ty::Date, depth).text;
                Expr::int(
                    fill_two("DATEDIFF(day, $0, $1)", "($1 - $0)", &[&day, &other]),
                    40_000,
                )
            }
            6 => {
                let (part, reference) = self.pick(&DATE_PARTS);
                Expr::int(
                    fill_two(
                        &format!("DATEPART({part}, $0)"),
                        &format!("CAST({reference} AS integer)"),
                        &[&day],
                    ),
                    366,
                )
            }
            7 => {
                let other = self.scalar(scope, Ty::Date, depth).text;
                let (part, reference) = self.pick(&DATE_STEPS);
                Expr::int(
                    fill_two(
                        &format!("DATEDIFF({part}, $0, $1)"),
                        &format!("CAST({reference} AS integer)"),
                        &[&day, &other],
                    ),
                    5_000,
                )
            }
            _ => {
                let other = self.scalar(scope, Ty::Stamp, depth).text;
                let hours = "CAST(EXTRACT(epoch FROM (date_trunc('hour', $1) - date_trunc('hour', $0))) / 3600 AS integer)";
                Expr::int(
                    fill_two("DATEDIFF(hour, $0, $1)", hours, &[&day, &other]),
                    1_000_000,
                )
            }
        }
    }

    fn truncated(&mut self, scope: &Scope, depth: u32) -> Expr {
        let inner = self.scalar(scope, Ty::Dec, depth).fixed();
        if inner.most > INT_MAX {
            return self.literal(Ty::Int);
        }
        let text = fill_two(
            "CAST($0 AS int)",
            "CAST(TRUNC($0) AS integer)",
            &[&inner.text],
        );
        Expr::int(text, inner.most)
    }

    /// Minus of a tinyint is a smallint.
    fn minus_tiny(&mut self, scope: &Scope) -> Expr {
        let tiny = scope.local.iter().find(|c| c.width == Width::Tiny);
        match tiny {
            Some(tiny) => Expr {
                width: Width::Small,
                ..Expr::int(fill("(-$0)", &[&tiny.text]), tiny.most)
            }
            .wide(),
            None => self.literal(Ty::Int),
        }
    }

    fn extreme(&mut self, scope: &Scope, ty: Ty, depth: u32) -> Expr {
        let (left, right) = self.two(scope, ty, depth);
        let (left, right) = (left.fixed(), right.fixed());
        let name = self.pick(&["GREATEST", "LEAST"]);
        let text = fill(&format!("{name}($0, $1)"), &[&left.text, &right.text]);
        let made = Expr {
            most: left.most.max(right.most),
            digits: joint_digits(left.digits, right.digits),
            ..Expr::new(ty, text)
        };
        wider(made, &left, &right)
    }

    fn number_with_point(&mut self, scope: &Scope, depth: u32) -> Expr {
        match self.draw.below(14) {
            0 => self.literal(Ty::Dec),
            1..=4 => self.column_or_literal(scope, Ty::Dec),
            5 | 6 => self.dec_sum(scope, depth),
            7 => self.dec_product(scope, depth),
            8 => self.dec_quotient(scope, depth),
            9 | 10 => self.choice(scope, Ty::Dec, depth),
            11 => self.rounded(scope, depth),
            12 => self.of_int(scope, depth),
            _ => self.scalar_subquery(scope, Ty::Dec, depth),
        }
    }

    fn dec_sum(&mut self, scope: &Scope, depth: u32) -> Expr {
        let (left, right) = self.two(scope, Ty::Dec, depth);
        let (left, right) = (left.fixed(), right.fixed());
        let (p, s) = joint_digits(left.digits, right.digits);
        let operator = self.pick(&["+", "-"]);
        let text = fill(&format!("($0 {operator} $1)"), &[&left.text, &right.text]);
        self.bounded(Expr::dec(text, left.most + right.most, (p + 1, s)))
    }

    fn dec_product(&mut self, scope: &Scope, depth: u32) -> Expr {
        let left = self.scalar(scope, Ty::Dec, depth);
        let right_type = self.pick(&[Ty::Dec, Ty::Int]);
        let right = self.scalar(scope, right_type, depth).wide();
        let ((p1, s1), (p2, s2)) = (left.as_digits(), right.as_digits());
        let most = left.most.saturating_mul(right.most);
        if p1 + p2 + 1 > 38 || most > WIDE_MAX {
            return left;
        }
        let text = fill("($0 * $1)", &[&left.text, &right.text]);
        self.bounded(Expr::dec(text, most, (p1 + p2 + 1, s1 + s2)))
    }

    fn dec_quotient(&mut self, scope: &Scope, depth: u32) -> Expr {
        let (left, right) = self.two(scope, Ty::Dec, depth);
        let (left, right) = (left.fixed(), right.fixed());
        let most = left.most.saturating_mul(10_u64.pow(right.digits.1));
        if most > INT_MAX * 1000 {
            return left;
        }
        let text = fill_two(
            "CAST(ROUND($0 / NULLIF($1, 0), 2, 1) AS decimal(18, 2))",
            "TRUNC($0 / NULLIF($1, 0), 2)",
            &[&left.text, &right.text],
        );
        Expr::dec(text, most, (18, 2))
    }

    fn rounded(&mut self, scope: &Scope, depth: u32) -> Expr {
        let inner = self.scalar(scope, Ty::Dec, depth).fixed();
        let p = inner.digits.0;
        match self.draw.below(4) {
            0 => Expr::dec(fill("ABS($0)", &[&inner.text]), inner.most, inner.digits),
            1 => self.bounded(Expr::dec(
                // One more digit before the point, since rounding up may need it.
                fill_two(
                    "ROUND(CAST($0 AS decimal(19, 4)), 1)",
                    "ROUND($0, 1)",
                    &[&inner.text],
                ),
                inner.most + 1,
                (19, 4),
            )),
            2 => Expr::dec(fill("FLOOR($0)", &[&inner.text]), inner.most + 1, (p, 0)),
            _ => Expr::dec(fill("CEILING($0)", &[&inner.text]), inner.most + 1, (p, 0)),
        }
    }

    fn of_int(&mut self, scope: &Scope, depth: u32) -> Expr {
        let inner = self.scalar(scope, Ty::Int, depth).wide();
        if inner.most > 1_000_000 {
            return self.literal(Ty::Dec);
        }
        let text = fill_two(
            "CAST($0 AS decimal(9, 2))",
            "CAST($0 AS numeric(9, 2))",
            &[&inner.text],
        );
        Expr::dec(text, inner.most, (9, 2))
    }

    /// Kept below the bound of decimals by giving it up.
    fn bounded(&mut self, made: Expr) -> Expr {
        match made.most > WIDE_MAX || made.digits.0 > 38 {
            true => self.literal(Ty::Dec),
            false => made.fixed_if_large(),
        }
    }

    fn floating(&mut self, scope: &Scope, depth: u32) -> Expr {
        match self.draw.below(8) {
            0 => self.literal(Ty::Float),
            1..=3 => self.column_or_literal(scope, Ty::Float),
            4 => {
                let (left, right) = self.two(scope, Ty::Float, depth);
                let operator = self.pick(&["+", "-"]);
                let text = fill(&format!("($0 {operator} $1)"), &[&left.text, &right.text]);
                Expr::new(Ty::Float, text)
            }
            5 => {
                let inner = self.scalar(scope, Ty::Int, depth).wide().small(1_000_000);
                let text = fill("CAST($0 AS float)", &[&inner.text]);
                Expr::new(Ty::Float, text)
            }
            6 => self.choice(scope, Ty::Float, depth),
            _ => self.scalar_subquery(scope, Ty::Float, depth),
        }
    }

    fn string(&mut self, scope: &Scope, depth: u32) -> Expr {
        let made = match self.draw.below(22) {
            0 => return self.literal(Ty::Str),
            1..=5 => return self.column_or_literal(scope, Ty::Str),
            6 => {
                let (left, right) = self.two(scope, Ty::Str, depth);
                fill_two("($0 + $1)", "($0 || $1)", &[&left.text, &right.text])
            }
            7 => {
                let (text, from, length) = (
                    self.scalar(scope, Ty::Str, depth).text,
                    self.count(1, 4),
                    self.count(0, 3),
                );
                fill_two(
                    "SUBSTRING($0, $1, $2)",
                    "SUBSTR($0, $1, $2)",
                    &[&text, &from, &length],
                )
            }
            8 => {
                let name = self.pick(&["LEFT", "RIGHT"]);
                let (text, length) = (self.scalar(scope, Ty::Str, depth).text, self.count(0, 3));
                fill(&format!("{name}($0, $1)"), &[&text, &length])
            }
            9 => {
                let name = self.pick(&["UPPER", "LOWER", "REVERSE"]);
                let text = self.scalar(scope, Ty::Str, depth).text;
                fill(&format!("{name}($0)"), &[&text])
            }
            10 => {
                let text = self.scalar(scope, Ty::Str, depth).text;
                let (old, new) = (self.literal(Ty::Str).text, self.literal(Ty::Str).text);
                fill("REPLACE($0, $1, $2)", &[&text, &old, &new])
            }
            11 => {
                let number = self.scalar(scope, Ty::Int, depth).wide().text;
                fill("CAST($0 AS varchar(20))", &[&number])
            }
            12 => {
                let (left, right) = (
                    self.scalar(scope, Ty::Str, depth).text,
                    self.scalar(scope, Ty::Int, depth).wide().text,
                );
                fill("CONCAT($0, $1)", &[&left, &right])
            }
            13 => {
                let day = self.scalar(scope, Ty::Date, depth).text;
                fill_two(
                    "CONVERT(varchar(10), $0, 23)",
                    "TO_CHAR($0, 'YYYY-MM-DD')",
                    &[&day],
                )
            }
            14 => {
                let text = self.scalar(scope, Ty::Str, depth.min(1)).text;
                let times = self.count(0, 3);
                fill_two("REPLICATE($0, $1)", "REPEAT($0, $1)", &[&text, &times])
            }
            15 | 16 => return self.choice(scope, Ty::Str, depth),
            18 => {
                let (text, part) = (
                    self.scalar(scope, Ty::Str, depth).text,
                    self.literal(Ty::Str).text,
                );
                let (from, length) = (self.count(1, 3), self.count(0, 3));
                // Behind its end there is nothing to take out.
                fill_two(
                    "STUFF($0, $1, $2, $3)",
                    "CASE WHEN $1 <= LENGTH($0) THEN OVERLAY($0 PLACING COALESCE($3, '') FROM $1 FOR $2) END",
                    &[&text, &from, &length, &part],
                )
            }
            19 => {
                let text = self.scalar(scope, Ty::Str, depth).text;
                let (from, to) =
                    self.pick(&[("abA", "01_"), ("a_", "_a"), ("01", "ba"), ("BcB", "xyz")]);
                fill(&format!("TRANSLATE($0, '{from}', '{to}')"), &[&text])
            }
            20 => {
                let parts: Vec<Text> = (0..3)
                    .map(|_| self.scalar(scope, Ty::Str, depth.min(1)).text)
                    .collect();
                fill(
                    "CONCAT_WS('_', $0, $1, $2)",
                    &parts.iter().collect::<Vec<_>>(),
                )
            }
            21 => {
                let text = self.scalar(scope, Ty::Str, depth).text;
                fill("TRIM('a0' FROM $0)", &[&text])
            }
            _ => return self.scalar_subquery(scope, Ty::Str, depth),
        };
        Expr::new(Ty::Str, made)
    }

    fn date_of(&mut self, scope: &Scope, depth: u32) -> Expr {
        let made = match self.draw.below(15) {
            0 => return self.literal(Ty::Date),
            1..=4 => return self.column_or_literal(scope, Ty::Date),
            5 | 6 => {
                let day = self.scalar(scope, Ty::Date, depth).text;
                let days = self.scalar(scope, Ty::Int, depth.min(1)).wide().small(60);
                fill_two(
                    "DATEADD(day, $1, $0)",
                    "($0 + CAST($1 AS integer))",
                    &[&day, &days.text],
                )
            }
            7 => {
                let day = self.scalar(scope, Ty::Date, depth).text;
                let months = self.number(-5, 9).text;
                fill_two(
                    "DATEADD(month, $1, $0)",
                    "CAST($0 + $1 * interval '1 month' AS date)",
                    &[&day, &months],
                )
            }
            8 => {
                let day = self.scalar(scope, Ty::Date, depth).text;
                fill_two(
                    "EOMONTH($0)",
                    "CAST(date_trunc('month', $0) + interval '1 month - 1 day' AS date)",
                    &[&day],
                )
            }
            9 => {
                let at = self.scalar(scope, Ty::Stamp, depth).text;
                fill("CAST($0 AS date)", &[&at])
            }
            10 => return self.choice(scope, Ty::Date, depth),
            12 => {
                let day = self.scalar(scope, Ty::Date, depth).text;
                let count = self.number(-3, 4).text;
                let (part, step) = self.pick(&[
                    ("year", "1 year"),
                    ("quarter", "3 month"),
                    ("week", "7 day"),
                ]);
                fill_two(
                    &format!("DATEADD({part}, $1, $0)"),
                    &format!("CAST($0 + $1 * interval '{step}' AS date)"),
                    &[&day, &count],
                )
            }
            13 => {
                let day = self.scalar(scope, Ty::Date, depth).text;
                let part = self.pick(&["month", "year", "quarter"]);
                fill_two(
                    &format!("DATETRUNC({part}, $0)"),
                    &format!("CAST(date_trunc('{part}', $0) AS date)"),
                    &[&day],
                )
            }
            14 => {
                let (year, month, day) =
                    (self.count(2023, 2025), self.count(1, 12), self.count(1, 28));
                fill_two(
                    "DATEFROMPARTS($0, $1, $2)",
                    "MAKE_DATE($0, $1, $2)",
                    &[&year, &month, &day],
                )
            }
            _ => return self.scalar_subquery(scope, Ty::Date, depth),
        };
        Expr::new(Ty::Date, made)
    }

    fn stamp(&mut self, scope: &Scope, depth: u32) -> Expr {
        let made = match self.draw.below(9) {
            0 => return self.literal(Ty::Stamp),
            1..=4 => return self.column_or_literal(scope, Ty::Stamp),
            5 | 6 => {
                let at = self.scalar(scope, Ty::Stamp, depth).text;
                let part = self.pick(&["hour", "minute", "day"]);
                let count = self.scalar(scope, Ty::Int, depth.min(1)).wide().small(90);
                fill_two(
                    &format!("DATEADD({part}, $1, $0)"),
                    &format!("($0 + $1 * interval '1 {part}')"),
                    &[&at, &count.text],
                )
            }
            7 => {
                let day = self.scalar(scope, Ty::Date, depth).text;
                fill_two("CAST($0 AS datetime2(0))", "CAST($0 AS timestamp)", &[&day])
            }
            _ => return self.choice(scope, Ty::Stamp, depth),
        };
        Expr::new(Ty::Stamp, made)
    }

    /// A query of one row and one column.
    fn scalar_subquery(&mut self, scope: &Scope, ty: Ty, depth: u32) -> Expr {
        if !scope.subqueries || depth == 0 {
            return self.column_or_literal(scope, ty).wide();
        }
        let made = self.one_value(&scope.for_subquery(), ty, depth - 1);
        Expr {
            text: fill("($0)", &[&made.text]),
            bare: false,
            ..made
        }
    }
}

impl Expr {
    fn fixed_if_large(self) -> Expr {
        match self.digits.0 > 30 {
            true => self.fixed(),
            false => self,
        }
    }
}

fn wider(made: Expr, left: &Expr, right: &Expr) -> Expr {
    let big = left.width == Width::Big || right.width == Width::Big;
    Expr {
        width: if big { Width::Big } else { Width::Int },
        ..made
    }
}

/// Digits of a type that holds both.
fn joint_digits((p1, s1): (u32, u32), (p2, s2): (u32, u32)) -> (u32, u32) {
    let s = s1.max(s2);
    ((p1 - s1).max(p2 - s2) + s, s)
}
