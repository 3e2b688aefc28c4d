//! BATCHSIZE of BULK INSERT: each batch is a transaction of its own, unless there is one already.

mod common;

use common::{Client, Server, errors};
use daruma_base::{Disk, OpenMode};
use std::path::Path;

/// A table, and a file of ten rows of which the seventh has the key of the second.
fn prepared() -> (Server, Client) {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE b");
    let mut c = server.connect_to("b");
    c.done("CREATE TABLE t (id int PRIMARY KEY, v varchar(10))");
    let rows = [1, 2, 3, 4, 5, 6, 2, 8, 9, 10];
    let lines: Vec<String> = rows.iter().map(|id| format!("{id},v{id}\n")).collect();
    write(&server, "/in/twice.csv", &lines.concat());
    write(&server, "/in/good.csv", &lines[..6].concat());
    (server, c)
}

fn write(server: &Server, path: &str, content: &str) {
    let path = Path::new(path);
    let parent = path.parent().expect("a folder");
    server.disk.create_dir_all(parent).expect("a folder");
    let file = server.disk.open(path, OpenMode::CreateNew).expect("a file");
    file.write_at(content.as_bytes(), 0).expect("written");
    file.sync_data().expect("synced");
}

const TWICE: &str = "BULK INSERT t FROM '/in/twice.csv' WITH (FORMAT = 'CSV', BATCHSIZE = 3)";
const COUNT: &str = "SELECT COUNT(*) AS n FROM t";

#[test]
fn batches_before_the_one_that_fails_stay() {
    let (server, mut c) = prepared();
    let out = c.run(TWICE);
    assert_eq!(errors(&out), [2627], "{out}");
    assert_eq!(c.scalar(COUNT), "6");
    assert_eq!(c.scalar("SELECT @@TRANCOUNT AS n"), "0");
    let server = server.crash();
    assert_eq!(server.connect_to("b").scalar(COUNT), "6");
}

#[test]
fn without_a_size_all_is_one_batch() {
    let (_server, mut c) = prepared();
    let out = c.run("BULK INSERT t FROM '/in/twice.csv' WITH (FORMAT = 'CSV')");
    assert_eq!(errors(&out), [2627], "{out}");
    assert_eq!(c.scalar(COUNT), "0");
}

#[test]
fn an_open_transaction_holds_all_batches() {
    let (_server, mut c) = prepared();
    let load = "BULK INSERT t FROM '/in/good.csv' WITH (FORMAT = 'CSV', BATCHSIZE = 2)";
    c.done(&format!("BEGIN TRANSACTION; {load}"));
    assert_eq!(c.scalar(COUNT), "6");
    c.done("ROLLBACK");
    assert_eq!(c.scalar(COUNT), "0");
    c.done(&format!("SET IMPLICIT_TRANSACTIONS ON; {load}"));
    c.done("ROLLBACK; SET IMPLICIT_TRANSACTIONS OFF");
    assert_eq!(c.scalar(COUNT), "0");
    let out = c.run(&format!("BEGIN TRANSACTION; {TWICE}"));
    assert_eq!(errors(&out), [2627], "{out}");
    c.done("COMMIT");
    assert_eq!(c.scalar(COUNT), "0");
}

#[test]
fn triggers_fire_for_each_batch_and_none_is_empty() {
    let (_server, mut c) = prepared();
    c.done("CREATE TABLE fired (n int)");
    c.done("CREATE TRIGGER tr ON t AFTER INSERT AS INSERT fired SELECT COUNT(*) FROM inserted");
    let options = "FORMAT = 'CSV', FIRE_TRIGGERS, BATCHSIZE";
    for (size, batches) in [(4, "4 2"), (3, "3 3"), (2, "2 2 2"), (6, "6"), (0, "6")] {
        let load = format!("BULK INSERT t FROM '/in/good.csv' WITH ({options} = {size})");
        let out = c.run(&load);
        assert!(out.contains("(6 rows affected)"), "{out}");
        let fired = "SELECT STRING_AGG(n, ' ') AS fired FROM fired";
        assert_eq!(c.scalar(fired), batches, "batches of {size}");
        c.done("DELETE fired; DELETE t");
    }
    let out = c.run(
        "BULK INSERT t FROM '/in/good.csv' WITH (FORMAT = 'CSV', FIRSTROW = 2, LASTROW = 5, BATCHSIZE = 3)",
    );
    assert!(out.contains("(4 rows affected)"), "{out}");
}

#[test]
fn errors_are_counted_over_all_batches() {
    let (server, mut c) = prepared();
    write(&server, "/in/bad.csv", "1,a\nx,b\n2,c\ny,d\n3,e\nz,f\n");
    let load =
        "BULK INSERT t FROM '/in/bad.csv' WITH (FORMAT = 'CSV', BATCHSIZE = 2, MAXERRORS = 2)";
    let out = c.run(load);
    assert_eq!(errors(&out), [4864, 4864, 4864, 4865], "{out}");
    assert_eq!(c.scalar(COUNT), "2");
}
