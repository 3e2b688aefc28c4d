//! A piece of a statement in both dialects, and the values that may stand in it.
//!
//! A value is a marker in the text until the statement is written, so that one statement can be written with literals, with
//! parameters, and with other values. The same goes for the place behind a table's name where a hint may stand.

/// Around the number of a value.
const VALUE: char = '\u{1}';
/// Around the number of a table.
const TABLE: char = '\u{2}';

/// T-SQL and PostgreSQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub ms: String,
    pub pg: String,
}

impl Text {
    /// A text that both dialects write alike.
    pub fn same(text: &str) -> Text {
        Text::two(text, text)
    }

    /// A text as each dialect writes it.
    pub fn two(ms: &str, pg: &str) -> Text {
        Text {
            ms: ms.into(),
            pg: pg.into(),
        }
    }

    /// The place of value `n`.
    pub fn value(n: usize) -> Text {
        Text::same(&format!("{VALUE}{n}{VALUE}"))
    }

    /// The place where a hint for table `n` may stand.
    pub fn hint(n: usize) -> Text {
        Text::two(&format!("{TABLE}{n}{TABLE}"), "")
    }

    /// Adds more to both.
    pub fn push(&mut self, more: &Text) {
        self.ms.push_str(&more.ms);
        self.pg.push_str(&more.pg);
    }
}

/// Fills the places `$0` to `$9` of a pattern.
pub fn fill(pattern: &str, parts: &[&Text]) -> Text {
    fill_two(pattern, pattern, parts)
}

/// The same with a pattern for each dialect.
pub fn fill_two(ms: &str, pg: &str, parts: &[&Text]) -> Text {
    Text {
        ms: filled(ms, parts, |t| &t.ms),
        pg: filled(pg, parts, |t| &t.pg),
    }
}

fn filled(pattern: &str, parts: &[&Text], side: impl Fn(&Text) -> &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 32);
    let mut pieces = pattern.split('$');
    out.push_str(pieces.next().unwrap_or(""));
    for piece in pieces {
        let mut rest = piece.chars();
        let place = rest.next().and_then(|c| c.to_digit(10));
        let part = place.and_then(|n| parts.get(n as usize));
        out.push_str(side(part.expect("the pattern names a part")));
        out.push_str(rest.as_str());
    }
    out
}

/// The parts with `between` between them.
pub fn joined(parts: &[Text], between: &str) -> Text {
    let mut out = Text::default();
    for (n, part) in parts.iter().enumerate() {
        if n > 0 {
            out.push(&Text::same(between));
        }
        out.push(part);
    }
    out
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    Null,
    /// Digits, with sign and point.
    Number(String),
    Text(String),
    /// National characters in T-SQL.
    Wide(String),
    Date(String),
    Stamp(String),
    /// A pattern of LIKE with classes, and the regular expression that says the same.
    Pattern {
        like: String,
        regex: String,
    },
}

/// A value of a statement: its declared types, and what it may be. The first is what the statement was made with.
#[derive(Clone, Debug)]
pub struct Param {
    pub ms_type: &'static str,
    pub pg_type: &'static str,
    pub values: [Literal; SETS],
}

/// Sets of values of one statement.
pub const SETS: usize = 6;

impl Param {
    fn ms(&self, set: usize) -> String {
        match &self.values[set] {
            Literal::Null => format!("CAST(NULL AS {})", self.ms_type),
            Literal::Date(day) => format!("CAST('{day}' AS date)"),
            Literal::Stamp(at) => format!("CAST('{at}' AS datetime2(0))"),
            other => ms_bare(other),
        }
    }

    fn pg(&self, set: usize) -> String {
        match &self.values[set] {
            Literal::Null => format!("CAST(NULL AS {})", self.pg_type),
            Literal::Number(digits) if self.pg_type == "float8" => {
                format!("CAST({digits} AS float8)")
            }
            Literal::Number(digits) => bracketed_number(digits),
            Literal::Text(text) | Literal::Wide(text) => format!("{}::text", quoted(text)),
            Literal::Date(day) => format!("date '{day}'"),
            Literal::Stamp(at) => format!("timestamp '{at}'"),
            Literal::Pattern { regex, .. } => format!("{}::text", quoted(regex)),
        }
    }
}

/// As it stands in a T-SQL list of values, where a date is a text.
pub fn ms_bare(literal: &Literal) -> String {
    match literal {
        Literal::Null => "NULL".into(),
        Literal::Number(digits) => bracketed_number(digits),
        Literal::Wide(text) => format!("N{}", quoted(text)),
        Literal::Text(text) | Literal::Date(text) | Literal::Stamp(text) => quoted(text),
        Literal::Pattern { like, .. } => quoted(like),
    }
}

/// As it stands in a list of rows to insert.
pub fn pg_bare(literal: &Literal) -> String {
    match literal {
        Literal::Wide(text) => quoted(text),
        Literal::Pattern { regex, .. } => quoted(regex),
        other => ms_bare(other),
    }
}

fn bracketed_number(digits: &str) -> String {
    match digits.starts_with('-') {
        true => format!("({digits})"),
        false => digits.into(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Replaces what stands between two markers.
fn replaced(text: &str, marker: char, with: impl Fn(usize) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, piece) in text.split(marker).enumerate() {
        match n % 2 {
            0 => out.push_str(piece),
            _ => out.push_str(&with(piece.parse().expect("a number between markers"))),
        }
    }
    out
}

/// T-SQL with literals of a set; `hint` says what stands behind a table.
pub fn ms_literals(
    ms: &str,
    params: &[Param],
    set: usize,
    hint: impl Fn(usize) -> String,
) -> String {
    let text = replaced(ms, VALUE, |n| params[n].ms(set));
    replaced(&text, TABLE, hint)
}

/// PostgreSQL's text with the values of one set in place of the parameters.
pub fn pg_literals(pg: &str, params: &[Param], set: usize) -> String {
    replaced(pg, VALUE, |n| params[n].pg(set))
}

/// A call of sp_executesql with the values of a set.
pub fn ms_call(ms: &str, params: &[Param], set: usize, hint: impl Fn(usize) -> String) -> String {
    let text = replaced(ms, VALUE, |n| format!("@p{n}"));
    let text = quoted(&replaced(&text, TABLE, hint));
    let list = params.iter().enumerate();
    let declared: Vec<String> = list
        .clone()
        .map(|(n, p)| format!("@p{n} {}", p.ms_type))
        .collect();
    if declared.is_empty() {
        return format!("EXEC sp_executesql N{text}");
    }
    let given: Vec<String> = list
        .map(|(n, p)| {
            let value = match &p.values[set] {
                Literal::Number(digits) => digits.clone(),
                other => ms_bare(other),
            };
            format!("@p{n} = {value}")
        })
        .collect();
    format!(
        "EXEC sp_executesql N{text}, N'{}', {}",
        declared.join(", "),
        given.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_literals_and_as_parameters() {
        let params = [Param {
            ms_type: "int",
            pg_type: "integer",
            values: std::array::from_fn(|set| match set {
                0 => Literal::Number("-5".into()),
                _ => Literal::Null,
            }),
        }];
        let text = fill("a < $0 OR $0 = b", &[&Text::value(0)]);
        let no_hint = |_| String::new();
        assert_eq!(
            ms_literals(&text.ms, &params, 0, no_hint),
            "a < (-5) OR (-5) = b"
        );
        assert_eq!(
            pg_literals(&text.pg, &params, 1),
            "a < CAST(NULL AS integer) OR CAST(NULL AS integer) = b"
        );
        assert_eq!(
            ms_call(&text.ms, &params, 0, no_hint),
            "EXEC sp_executesql N'a < @p0 OR @p0 = b', N'@p0 int', @p0 = -5"
        );
    }

    #[test]
    fn a_hint_stands_in_one_dialect() {
        let text = fill("t3 a$0", &[&Text::hint(3)]);
        assert_eq!(
            ms_literals(&text.ms, &[], 0, |n| format!(" #{n}")),
            "t3 a #3"
        );
        assert_eq!(text.pg, "t3 a");
    }
}
