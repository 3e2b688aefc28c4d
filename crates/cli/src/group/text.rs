//! Names and strings as they stand in statements.

/// `[name]`.
pub(super) fn name(text: &str) -> String {
    format!("[{}]", text.replace(']', "]]"))
}

/// `N'text'`. A backslash before a line end would continue the line; neither is in what is quoted here.
pub(super) fn string(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

/// Host and port of `tcp://HOST:PORT`.
pub(super) fn port_of(url: &str) -> Option<u16> {
    let lower = url.to_ascii_lowercase();
    let (host, port) = lower.strip_prefix("tcp://")?.rsplit_once(':')?;
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    match !host.is_empty() && host.chars().all(fits) {
        true => port.parse().ok().filter(|port| *port >= 1_024),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_stays_one_word() {
        assert_eq!(name("a]b"), "[a]]b]");
        assert_eq!(string("it's"), "N'it''s'");
        assert_eq!(port_of("TCP://alpha:5022"), Some(5022));
        for bad in [
            "alpha:5022",
            "tcp://:5022",
            "tcp://a'b:5022",
            "tcp://a:80",
            "tcp://a",
        ] {
            assert_eq!(port_of(bad), None, "{bad}");
        }
    }
}
