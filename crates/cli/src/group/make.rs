//! `daruma group create` and `join`: the statements, in their order.

use super::peers::Peer;
use super::text::{listener_address, name, port_of, string};
use super::token::Token;
use super::{CreateArgs, GroupError, JoinArgs, ReplicaArgs, Server};

/// Names of what is made on each server.
const CERTIFICATE: &str = "daruma_group_certificate";
const ENDPOINT: &str = "daruma_group_endpoint";

/// The primary: its certificate and endpoint, then the group.
pub(super) fn create(
    server: &mut Server,
    args: &CreateArgs,
    address: &str,
) -> Result<Token, GroupError> {
    prepare(server, &args.replica)?;
    let own = server.one("the server's name", "SELECT @@SERVERNAME")?;
    let databases: Vec<String> = args.database.iter().map(|d| name(d)).collect();
    let databases = match databases.is_empty() {
        true => String::new(),
        false => format!("DATABASE {} ", databases.join(", ")),
    };
    let group = name(&args.group);
    let replica = replica(&own, &args.replica);
    server.run(
        "the group is there",
        &format!(
            "CREATE AVAILABILITY GROUP {group} WITH (CLUSTER_TYPE = NONE) FOR {databases}REPLICA ON {replica}"
        ),
    )?;
    // Here too: one day it follows.
    let_make(server, &group)?;
    Ok(Token {
        group: args.group.clone(),
        server: own,
        address: address.to_string(),
        fingerprint: fingerprint(server, &format!("CERTENCODED(CERT_ID('{CERTIFICATE}'))"))?,
    })
}

/// A secondary: it and each of the other servers know each other's certificate, then the group gets a replica more.
pub(super) fn join(
    own: &mut Server,
    own_name: &str,
    primary: &mut Server,
    peers: &mut [Peer],
    token: &Token,
    args: &JoinArgs,
) -> Result<(), GroupError> {
    prepare(own, &args.replica)?;
    let (here, there) = (certificate(own)?, certificate(primary)?);
    if fingerprint(own, &there)? != token.fingerprint {
        return Err(GroupError::Certificate {
            address: token.address.clone(),
        });
    }
    let of_peers: Vec<String> = peers
        .iter_mut()
        .map(|peer| certificate_of(peer, primary))
        .collect::<Result<_, _>>()?;
    trust(own, &token.server, &there)?;
    trust(primary, own_name, &here)?;
    for (peer, theirs) in peers.iter_mut().zip(&of_peers) {
        trust(own, &peer.name, theirs)?;
        trust(&mut peer.server, own_name, &here)?;
    }
    let group = name(&token.group);
    let replica = replica(own_name, &args.replica);
    primary.run(
        "the primary has a replica more",
        &format!("ALTER AVAILABILITY GROUP {group} ADD REPLICA ON {replica}"),
    )?;
    own.run(
        "the server has joined",
        &format!("ALTER AVAILABILITY GROUP {group} JOIN WITH (CLUSTER_TYPE = NONE)"),
    )?;
    let_make(own, &group)
}

/// A database of the group that the server does not have comes by itself. `group` is its name as in a statement.
fn let_make(server: &mut Server, group: &str) -> Result<(), GroupError> {
    server.run(
        "the group may make databases here",
        &format!("ALTER AVAILABILITY GROUP {group} GRANT CREATE ANY DATABASE"),
    )
}

/// Master key, certificate and endpoint, as far as they are missing. The password of the master key is made by chance and
/// kept nowhere: the server opens its key by itself.
fn prepare(server: &mut Server, replica: &ReplicaArgs) -> Result<(), GroupError> {
    let port = port_of(&replica.endpoint);
    let port = port.ok_or_else(|| GroupError::Url(replica.endpoint.clone()))?;
    let address = listener_address(&replica.endpoint);
    server.run(
        "the server has a master key",
        "USE master; IF NOT EXISTS (SELECT 1 FROM sys.symmetric_keys WHERE name = '##MS_DatabaseMasterKey##') \
         BEGIN DECLARE @p nvarchar(200) = N'CREATE MASTER KEY ENCRYPTION BY PASSWORD = ''aA1!' + CONVERT(nvarchar(36), NEWID()) + CONVERT(nvarchar(36), NEWID()) + N''''; EXEC (@p) END",
    )?;
    server.run(
        "the server has a certificate",
        &format!(
            "IF CERT_ID('{CERTIFICATE}') IS NULL BEGIN DECLARE @c nvarchar(400) = N'CREATE CERTIFICATE {CERTIFICATE} WITH SUBJECT = ''' + \
             LEFT(REPLACE(@@SERVERNAME, '''', ''), 64) + N''', EXPIRY_DATE = ''' + CONVERT(nvarchar(8), DATEADD(year, 20, GETUTCDATE()), 112) + N''''; EXEC (@c) END"
        ),
    )?;
    server.run(
        "the server has an endpoint",
        &format!(
            "IF NOT EXISTS (SELECT 1 FROM sys.database_mirroring_endpoints) CREATE ENDPOINT {ENDPOINT} STATE = STARTED \
             AS TCP (LISTENER_PORT = {port}, LISTENER_IP = {address}) FOR DATABASE_MIRRORING (ROLE = ALL, AUTHENTICATION = CERTIFICATE {CERTIFICATE}, ENCRYPTION = REQUIRED ALGORITHM AES)"
        ),
    )
}

/// The endpoint's certificate as a constant in a statement.
fn certificate(server: &mut Server) -> Result<String, GroupError> {
    server.one(
        "the certificate",
        "USE master; SELECT CONVERT(varchar(max), CERTENCODED(certificate_id), 1) FROM sys.database_mirroring_endpoints",
    )
}

/// A peer's certificate, which must be the one that the primary has of it, where these commands made that.
fn certificate_of(peer: &mut Peer, primary: &mut Server) -> Result<String, GroupError> {
    let theirs = certificate(&mut peer.server)?;
    let known = string(&known_as(&peer.name));
    let is_other = primary.one(
        "the certificate of a replica",
        &format!(
            "USE master; SELECT IIF(CERT_ID({known}) IS NULL OR CERTENCODED(CERT_ID({known})) = {theirs}, 0, 1)"
        ),
    )?;
    match is_other.as_str() {
        "0" => Ok(theirs),
        _ => Err(GroupError::PeerCertificate {
            address: peer.address.clone(),
        }),
    }
}

/// What a peer's certificate and login are called.
fn known_as(peer: &str) -> String {
    format!("daruma_group_{peer}")
}

fn fingerprint(server: &mut Server, certificate: &str) -> Result<String, GroupError> {
    server.one(
        "the fingerprint",
        &format!(
            "USE master; SELECT CONVERT(varchar(64), HASHBYTES('SHA2_256', {certificate}), 2)"
        ),
    )
}

/// The server believes a peer that has this certificate.
fn trust(server: &mut Server, peer: &str, certificate: &str) -> Result<(), GroupError> {
    let known = known_as(peer);
    let (named, text) = (name(&known), string(&known));
    server.run(
        "the servers know each other",
        &format!(
            "USE master; IF CERT_ID({text}) IS NULL CREATE CERTIFICATE {named} FROM BINARY = {certificate}; \
             IF SUSER_ID({text}) IS NULL CREATE LOGIN {named} FROM CERTIFICATE {named}; \
             DECLARE @g nvarchar(400) = N'GRANT CONNECT ON ENDPOINT::' + (SELECT QUOTENAME(name) FROM sys.database_mirroring_endpoints) + N' TO ' + QUOTENAME({text}); EXEC (@g)"
        ),
    )
}

/// `N'server' WITH (..)`.
fn replica(server: &str, args: &ReplicaArgs) -> String {
    let mode = match args.asynchronous {
        true => "ASYNCHRONOUS_COMMIT",
        false => "SYNCHRONOUS_COMMIT",
    };
    let readers = match args.readable {
        true => "ALL",
        false => "NO",
    };
    format!(
        "{} WITH (ENDPOINT_URL = {}, AVAILABILITY_MODE = {mode}, FAILOVER_MODE = MANUAL, SEEDING_MODE = AUTOMATIC, SECONDARY_ROLE (ALLOW_CONNECTIONS = {readers}))",
        string(server),
        string(&args.endpoint)
    )
}
