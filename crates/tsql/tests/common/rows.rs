//! A database `d` with a table of rows whose loss, doubling or damage shows; and the files it lies in.

use super::{Client, Server};
use daruma_base::{Disk, OpenMode};
use std::path::Path;

/// Where a copy of `d` goes that stands beside it.
pub const MOVES: &str = "MOVE 'd' TO '/x/e.mdf', MOVE 'd_log' TO '/x/e.ldf'";
const PAGE_BYTES: usize = 8_192;

pub fn server_with_rows(rows: usize) -> (Server, Client) {
    let server = Server::new();
    let mut client = server.connect();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(400) NOT NULL)");
    fill(&mut client, 1, rows);
    (server, client)
}

pub fn fill(client: &mut Client, from: usize, to: usize) {
    for n in from..=to {
        client.run(&format!(
            "INSERT d.dbo.t VALUES ({n}, REPLICATE(N'row {n} ', 20))"
        ));
    }
}

/// Rows and sums that any lost or doubled row would change.
pub fn rows(client: &mut Client, database: &str) -> String {
    client.run(&format!(
        "SELECT COUNT(*), SUM(CAST(id AS bigint)), SUM(LEN(name)) FROM {database}.dbo.t"
    ))
}

/// The same, after a check of all structures.
pub fn content(client: &mut Client, database: &str) -> String {
    let check = client.run(&format!("DBCC CHECKDB ({database})"));
    assert!(
        check.contains("0 allocation errors and 0 consistency errors"),
        "{check}"
    );
    rows(client, database)
}

pub fn write_file(server: &Server, path: &str, bytes: &[u8]) {
    let file = server
        .disk
        .open(Path::new(path), OpenMode::CreateNew)
        .expect("creates");
    file.write_at(bytes, 0).expect("writes");
    file.sync_data().expect("syncs");
}

pub fn read_file(server: &Server, path: &str) -> Vec<u8> {
    let file = server
        .disk
        .open(Path::new(path), OpenMode::ReadOnly)
        .expect("opens");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_at(&mut bytes, 0).expect("reads");
    bytes
}

/// Where these bytes are last in a file: a page may be in the doublewrite area, too, which comes first.
pub fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|w| w == wanted)
}

/// The page of the database's data file in which these bytes are.
pub fn page_with(server: &Server, wanted: &[u8]) -> usize {
    let at = find(&read_file(server, "/data/d.mdf"), wanted);
    at.expect("the row") / PAGE_BYTES
}

/// Changes a byte of a page behind everybody's back.
pub fn damage(server: &Server, page: usize) {
    let at = page * PAGE_BYTES + 5_000;
    server.disk.flip(Path::new("/data/d.mdf"), at as u64, 0x55);
}
