//! Read-only routing: a reader that comes to the primary is sent to the first secondary of its list that can be read.

use daruma_catalog::{GroupDef, SecondaryConnections};

/// Where a client is to log in instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub host: String,
    pub port: u16,
}

/// The server that a reader of a database of the group is sent to from its primary, `server`. `None`: it stays.
///
/// A place of the list may hold several servers, which take turns by `turn`. `is_ready` says whether a replica, by its id, is
/// connected and its database may be read.
pub fn route(
    group: &GroupDef,
    server: &str,
    turn: usize,
    is_ready: impl Fn([u8; 16]) -> bool,
) -> Option<Route> {
    let primary = group.replica(server)?;
    let ready_url = |name: &String| {
        let replica = group.replica(name)?;
        let is_open = replica.secondary_connections != SecondaryConnections::No;
        let url = replica.read_only_routing_url.as_ref()?;
        match is_open && is_ready(replica.replica_id) {
            true => parse_url(url),
            false => None,
        }
    };
    for place in &primary.read_only_routing {
        let start = turn.checked_rem(place.len()).unwrap_or(0);
        let (later, first) = place.split_at(start);
        if let Some(route) = first.iter().chain(later).find_map(ready_url) {
            return Some(route);
        }
    }
    None
}

/// Is it `TCP://host:port`, with a port that can be connected to?
pub(crate) fn is_url(text: &str) -> bool {
    parse_url(text).is_some()
}

fn parse_url(url: &str) -> Option<Route> {
    let scheme = url.get(..6)?;
    let rest = scheme
        .eq_ignore_ascii_case("tcp://")
        .then(|| url.get(6..))??;
    let (host, port) = rest.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let fits = !bare.is_empty()
        && bare.len() <= 128
        && (is_bracketed || !bare.contains(':'))
        && bare
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%'));
    fits.then(|| Route {
        host: bare.to_string(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_port() {
        let route = parse_url("tcp://db-1.example.com:5022").expect("parses");
        assert_eq!(
            (route.host.as_str(), route.port),
            ("db-1.example.com", 5022)
        );
        assert_eq!(parse_url("TCP://[::1]:1433").expect("parses").host, "::1");
        for bad in [
            "",
            "tcp://",
            "tcp://a",
            "tcp://a:0",
            "tcp://a:65536",
            "tcp://:5022",
            "http://a:80",
            "tcp://a b:1",
            "tcp://::1:1433",
        ] {
            assert_eq!(parse_url(bad), None, "{bad}");
        }
    }
}
