//! Values: what a statement is made with, and other ones, some of which are often NULL.

use super::{Expr, Gen, Ty};
use crate::text::{Literal, Param, SETS, Text};

/// Letters of all texts. Lower and upper case, so that a collation that takes them for the same shows.
const LETTERS: [&str; 8] = ["a", "b", "A", "c", "B", "0", "1", "_"];

/// How seldom a value of each set is NULL.
const NULL_ONCE_IN: [u32; SETS] = [24, 6, 2, 12, 24, 4];

impl Gen<'_> {
    pub(super) fn literal(&mut self, ty: Ty) -> Expr {
        match ty {
            Ty::Int => self.number(-3, 30),
            Ty::Dec => self.decimal(),
            Ty::Float => self.float(),
            Ty::Str => self.text(),
            Ty::Date => self.day(),
            Ty::Stamp => self.moment(),
        }
    }

    /// An integer, NULL among its other values.
    pub(super) fn number(&mut self, low: i32, high: i32) -> Expr {
        let text = self.value("int", "integer", true, |g| {
            let n = g.between(low, high);
            Literal::Number(n.to_string())
        });
        Expr::int(text, u64::from(low.unsigned_abs().max(high.unsigned_abs())))
    }

    /// An integer that is never NULL.
    pub(super) fn count(&mut self, low: i32, high: i32) -> Text {
        self.value("int", "integer", false, |g| {
            Literal::Number(g.between(low, high).to_string())
        })
    }

    fn between(&mut self, low: i32, high: i32) -> i32 {
        let span = high.abs_diff(low) + 1;
        // The simplest is 0 where it may be.
        let first = low.max(0).min(high);
        let n = i64::from(first) + i64::from(self.draw.below(span));
        let n = if n > i64::from(high) {
            n - i64::from(span)
        } else {
            n
        };
        i32::try_from(n).unwrap_or(low)
    }

    fn decimal(&mut self) -> Expr {
        let text = self.value("decimal(9, 2)", "numeric", true, |g| {
            let whole = g.between(-20, 900);
            let part = g.pick(&["00", "25", "50", "99", "10"]);
            Literal::Number(format!("{whole}.{part}"))
        });
        Expr::dec(text, 901, (9, 2))
    }

    fn float(&mut self) -> Expr {
        let text = self.value("float", "float8", true, |g| {
            let whole = g.between(-20, 40);
            let part = g.pick(&["0", "25", "5", "75"]);
            Literal::Number(format!("{whole}.{part}e0"))
        });
        Expr {
            most: 41,
            ..Expr::new(Ty::Float, text)
        }
    }

    fn text(&mut self) -> Expr {
        let wide = self.seldom(4);
        let text = self.value(
            if wide { "nvarchar(20)" } else { "varchar(20)" },
            "text",
            true,
            |g| {
                let word = g.word(4);
                match wide {
                    true => Literal::Wide(word),
                    false => Literal::Text(word),
                }
            },
        );
        Expr::new(Ty::Str, text)
    }

    pub(super) fn word(&mut self, most: u32) -> String {
        let length = self.draw.below(most + 1);
        (0..length).map(|_| self.pick(&LETTERS)).collect()
    }

    fn day(&mut self) -> Expr {
        let text = self.value("date", "date", true, |g| Literal::Date(g.date()));
        Expr::new(Ty::Date, text)
    }

    fn moment(&mut self) -> Expr {
        let text = self.value("datetime2(0)", "timestamp", true, |g| {
            let date = g.date();
            let (hour, minute) = (g.draw.below(24), g.draw.below(4) * 15);
            Literal::Stamp(format!("{date} {hour:02}:{minute:02}:00"))
        });
        Expr::new(Ty::Stamp, text)
    }

    fn date(&mut self) -> String {
        let (month, day) = (1 + self.draw.below(6), 1 + self.draw.below(28));
        format!("2024-{month:02}-{day:02}")
    }

    /// A pattern of LIKE: without classes it says the same in both dialects.
    pub(super) fn pattern(&mut self) -> (bool, Text) {
        let classes = self.seldom(3);
        (classes, self.pattern_of(classes))
    }

    pub(super) fn pattern_of(&mut self, classes: bool) -> Text {
        self.value("varchar(30)", "text", true, |g| match classes {
            true => g.class_pattern(),
            false => Literal::Text(g.plain_pattern()),
        })
    }

    fn plain_pattern(&mut self) -> String {
        let length = 1 + self.draw.below(3);
        let pieces = ["%", "a", "b", "_", "A", "0"];
        (0..length).map(|_| self.pick(&pieces)).collect()
    }

    fn class_pattern(&mut self) -> Literal {
        const PIECES: [(&str, &str); 8] = [
            ("%", ".*"),
            ("a", "a"),
            ("[a-b]", "[a-b]"),
            ("[^a]", "[^a]"),
            ("_", "."),
            ("[_]", "[_]"),
            ("[A-Ca]", "[A-Ca]"),
            ("[^0-9]", "[^0-9]"),
        ];
        let length = 1 + self.draw.below(3);
        let (mut like, mut regex) = (String::new(), String::from("^"));
        for _ in 0..length {
            let (piece, expression) = self.pick(&PIECES);
            like.push_str(piece);
            regex.push_str(expression);
        }
        regex.push('$');
        Literal::Pattern { like, regex }
    }

    fn value(
        &mut self,
        ms_type: &'static str,
        pg_type: &'static str,
        nullable: bool,
        mut make: impl FnMut(&mut Self) -> Literal,
    ) -> Text {
        let values: [Literal; SETS] = std::array::from_fn(|set| {
            let null = nullable && self.draw.below(NULL_ONCE_IN[set]) == 1;
            match null {
                true => Literal::Null,
                false => make(self),
            }
        });
        self.params.push(Param {
            ms_type,
            pg_type,
            values,
        });
        Text::value(self.params.len() - 1)
    }
}
