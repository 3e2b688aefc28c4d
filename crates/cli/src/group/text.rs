//! Names and strings as they stand in statements.

use std::net::IpAddr;

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

/// Host of `tcp://HOST:PORT`, without brackets.
pub(super) fn host_of(url: &str) -> Option<&str> {
    let (host, _) = url.get(6..)?.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']))
}

/// Where the endpoint of this address listens: everywhere, but on a loopback address there alone.
pub(super) fn listener_address(url: &str) -> String {
    let address = host_of(url).and_then(|host| host.parse().ok());
    match address.filter(IpAddr::is_loopback) {
        Some(address) => format!("('{address}')"),
        None => "ALL".to_string(),
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
        assert_eq!(listener_address("tcp://127.0.0.1:5022"), "('127.0.0.1')");
        assert_eq!(listener_address("tcp://[::1]:5022"), "('::1')");
        assert_eq!(listener_address("tcp://10.0.0.1:5022"), "ALL");
        assert_eq!(listener_address("tcp://alpha:5022"), "ALL");
        assert_eq!(host_of("TCP://alpha:5022"), Some("alpha"));
        assert_eq!(host_of("tcp://[::1]:5022"), Some("::1"));
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
