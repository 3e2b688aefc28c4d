//! `$IDENTITY`, `$ROWGUID`, and the star of CHECKSUM.

mod common;

use common::{Client, Server};

fn prepared() -> (Server, Client) {
    let server = Server::new();
    let mut c = server.connect();
    c.done("CREATE DATABASE d");
    c.done("USE d; CREATE TABLE t (a int, id int IDENTITY(5, 1), g uniqueidentifier ROWGUIDCOL, b varchar(10))");
    c.done("INSERT t (a, g, b) VALUES (1, '11111111-1111-1111-1111-111111111111', 'x'), (2, NULL, NULL)");
    (server, c)
}

#[test]
fn a_table_names_its_identity_and_its_row_guid() {
    let (_server, mut c) = prepared();
    assert_eq!(c.scalar("SELECT $IDENTITY FROM t WHERE a = 2"), "6");
    assert_eq!(c.scalar("SELECT a FROM t WHERE $IDENTITY = 6"), "2");
    let guid = c.scalar("SELECT $ROWGUID FROM t WHERE a = 1");
    assert_eq!(guid, "11111111-1111-1111-1111-111111111111");
    let named = "SELECT id FROM (SELECT $IDENTITY FROM t WHERE a = 1) q";
    assert_eq!(c.scalar(named), "5");
    let out = c.run("SELECT $ROWGUID FROM (SELECT 1 AS x) q");
    assert!(out.contains("Msg 207,"), "{out}");
}

#[test]
fn a_star_stands_for_all_columns() {
    let (_server, mut c) = prepared();
    for function in ["CHECKSUM", "BINARY_CHECKSUM"] {
        let same = format!("SELECT COUNT(*) FROM t WHERE {function}(*) = {function}(a, id, g, b)");
        assert_eq!(c.scalar(&same), "2", "{function}");
    }
    let out = c.run("SELECT CHECKSUM(*)");
    assert!(out.contains("Msg 263,"), "{out}");
}
