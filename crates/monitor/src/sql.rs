//! Values as literals of statements, and times as text.

use std::fmt::Write;

/// `N'text'`, whatever is in it.
pub fn quoted(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

/// UTC in ms as `2026-11-24T16:00:00.000`.
pub fn utc(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_string(),
        Err(_) => "1970-01-01T00:00:00.000".into(),
    }
}

/// The same as a literal.
pub fn time(ms: i64) -> String {
    format!("'{}'", utc(ms))
}

/// A number, NULL for NaN.
pub fn number(value: f64, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match value.is_finite() {
        true => write!(out, "{value:e}"),
        false => write!(out, "NULL"),
    };
}

/// UTC now, in ms.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// ISO text or a number of ms, to ms.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Ok(ms) = text.parse::<i64>() {
        return Some(ms);
    }
    let text = match text.ends_with('Z') {
        true => text.to_string(),
        false => format!("{text}Z"),
    };
    text.parse::<jiff::Timestamp>()
        .ok()
        .map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        let mut out = String::new();
        for value in [0.0, 1.5, -2e-9, 1e20, f64::NAN, f64::INFINITY] {
            number(value, &mut out);
            out.push(' ');
        }
        assert_eq!(out, "0e0 1.5e0 -2e-9 1e20 NULL NULL ");
        assert_eq!(quoted("it's"), "N'it''s'");
        assert_eq!(time(1_795_535_702_718), "'2026-11-24T15:55:02.718'");
    }

    #[test]
    fn times_of_addresses() {
        assert_eq!(
            parse_time("2026-11-24T15:55:02.718Z"),
            Some(1_795_535_702_718)
        );
        assert_eq!(
            parse_time("2026-11-24T15:55:02.718"),
            Some(1_795_535_702_718)
        );
        assert_eq!(parse_time("5"), Some(5));
        assert_eq!(parse_time("yesterday"), None);
    }
}
