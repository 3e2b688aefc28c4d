//! Replicas that a group has beside its primary, while another joins: each of them may lead it one day, so it has to know the newcomer.

use super::text::{host_of, string};
use super::{GroupError, JoinArgs, Server};
use daruma_client::connect::ConnectArgs;
use daruma_client::value;

/// One of them, by the name that the group has for it, and a connection to it.
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) server: Server,
}

/// Connects to all of them as to the primary: where `--peer` says, and otherwise at the host of the endpoint. Nothing is changed yet;
/// `Err` names a replica that is not reached, or a server that is none.
pub(super) fn connect(
    primary: &mut Server,
    own_name: &str,
    group: &str,
    to_primary: &ConnectArgs,
    args: &JoinArgs,
) -> Result<Vec<Peer>, GroupError> {
    let mut wanted = replicas(primary, own_name, group)?;
    let mut peers = Vec::with_capacity(wanted.len());
    for address in &args.peer {
        let (server, name) = open(to_primary, address)?;
        let address = address.clone();
        let at = wanted.iter().position(|(wanted, _)| *wanted == name);
        let Some(at) = at else {
            return Err(GroupError::Stranger { address, name });
        };
        wanted.swap_remove(at);
        peers.push(Peer {
            name,
            address,
            server,
        });
    }
    for (name, url) in wanted {
        peers.push(at_endpoint(to_primary, name, &url)?);
    }
    Ok(peers)
}

/// The replica, where its endpoint's host serves clients at the usual port.
fn at_endpoint(to_primary: &ConnectArgs, name: String, url: &str) -> Result<Peer, GroupError> {
    let address = host_of(url).unwrap_or(url).to_string();
    let why = match open(to_primary, &address) {
        Ok((server, found)) if found == name => {
            return Ok(Peer {
                name,
                address,
                server,
            });
        }
        Ok((_, found)) => format!("{found} answers there"),
        Err(error) => error.to_string(),
    };
    Err(GroupError::Absent { name, address, why })
}

/// Names and endpoints of the group's replicas without the primary and the newcomer.
fn replicas(
    primary: &mut Server,
    own_name: &str,
    group: &str,
) -> Result<Vec<(String, String)>, GroupError> {
    let rows = primary.ask(
        "the group's replicas",
        &format!(
            "SELECT r.replica_server_name, r.endpoint_url FROM sys.availability_replicas AS r JOIN sys.availability_groups AS g ON g.group_id = r.group_id \
             WHERE g.name = {} AND r.replica_server_name NOT IN (@@SERVERNAME, {}) ORDER BY 1",
            string(group),
            string(own_name)
        ),
    )?;
    let pair = |row: &Vec<_>| Some((value::text(row.first()?), value::text(row.get(1)?)));
    Ok(rows.iter().filter_map(pair).collect())
}

/// A connection to a server with the login for the primary, and the server's name.
fn open(to_primary: &ConnectArgs, address: &str) -> Result<(Server, String), GroupError> {
    let to_peer = ConnectArgs {
        server: Some(address.to_string()),
        ..to_primary.clone()
    };
    let mut server = Server::new(to_peer.connect("daruma group")?);
    let name = server.one("the server's name", "SELECT @@SERVERNAME")?;
    Ok((server, name))
}
