//! A table as a queue: many sessions take rows with DELETE TOP (1), and every row is taken once.

mod common;

use common::Server;
use std::collections::BTreeSet;

const ROWS: usize = 400;
const TAKERS: usize = 6;

/// What `takers` sessions took until the queue was empty, and how often one came away with nothing before that.
fn drain(statement: &str) -> (Vec<usize>, usize) {
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE q");
    let mut c = server.connect_to("q");
    c.run("CREATE TABLE dbo.q (id int PRIMARY KEY, body varchar(50))");
    c.run(&format!(
        "DECLARE @i int = 0; SET NOCOUNT ON; WHILE @i < {ROWS} BEGIN INSERT dbo.q VALUES (@i, 'work'); SET @i += 1 END"
    ));
    let results: Vec<(Vec<usize>, usize)> = std::thread::scope(|scope| {
        let taker = || {
            let mut c = server.connect_to("q");
            c.run("SET NOCOUNT ON");
            let (mut taken, mut empty) = (Vec::new(), 0);
            loop {
                let out = c.run(statement);
                assert!(!out.contains("Msg"), "{out}");
                match out.lines().nth(1).and_then(|id| id.parse().ok()) {
                    Some(id) => taken.push(id),
                    None if c.scalar("SELECT COUNT(*) FROM dbo.q") == "0" => break,
                    None => empty += 1,
                }
            }
            (taken, empty)
        };
        let threads: Vec<_> = (0..TAKERS).map(|_| scope.spawn(taker)).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    let empty = results.iter().map(|(_, n)| n).sum();
    (results.into_iter().flat_map(|(t, _)| t).collect(), empty)
}

fn each_once(taken: &[usize]) {
    let distinct: BTreeSet<usize> = taken.iter().copied().collect();
    assert_eq!(taken.len(), ROWS, "rows taken, with repetitions");
    assert_eq!(distinct.len(), ROWS, "distinct rows taken");
}

#[test]
fn readpast_takes_every_row_once() {
    each_once(&drain("DELETE TOP (1) FROM dbo.q WITH (ROWLOCK, READPAST) OUTPUT deleted.id").0);
}

#[test]
fn an_ordered_queue_takes_every_row_once() {
    let statement = "WITH n AS (SELECT TOP (1) id FROM dbo.q WITH (UPDLOCK, READPAST) ORDER BY id) DELETE FROM n OUTPUT deleted.id";
    each_once(&drain(statement).0);
}

#[test]
fn without_hints_a_taker_gets_a_row_while_there_is_one() {
    let (taken, _) = drain("DELETE TOP (1) FROM dbo.q OUTPUT deleted.id");
    each_once(&taken);
}

#[test]
fn updlock_keeps_what_was_read() {
    let server = Server::new();
    server.connect().run("CREATE DATABASE q");
    let mut c = server.connect_to("q");
    c.run("CREATE TABLE dbo.n (id int PRIMARY KEY, v int); INSERT dbo.n VALUES (1, 0), (2, 0)");
    let step = "BEGIN TRAN; DECLARE @v int = (SELECT v FROM dbo.n WITH (UPDLOCK) WHERE id = 1); UPDATE dbo.n SET v = @v + 1 WHERE id = 1; COMMIT";
    std::thread::scope(|scope| {
        for _ in 0..TAKERS {
            scope.spawn(|| {
                let mut c = server.connect_to("q");
                for _ in 0..50 {
                    let out = c.run(step);
                    assert!(!out.contains("Msg"), "{out}");
                }
            });
        }
    });
    let sum = c.scalar("SELECT v FROM dbo.n WHERE id = 1");
    assert_eq!(sum, (TAKERS * 50).to_string());
}

#[test]
fn an_upsert_under_a_key_range_lock_never_collides() {
    let server = Server::new();
    server.connect().run("CREATE DATABASE q");
    let mut c = server.connect_to("q");
    c.run("CREATE TABLE dbo.n (id int PRIMARY KEY, v int)");
    let step = |id: usize| {
        format!(
            "BEGIN TRAN; IF EXISTS (SELECT 1 FROM dbo.n WITH (UPDLOCK, HOLDLOCK) WHERE id = {id}) UPDATE dbo.n SET v += 1 WHERE id = {id} ELSE INSERT dbo.n VALUES ({id}, 1); COMMIT"
        )
    };
    std::thread::scope(|scope| {
        for _ in 0..TAKERS {
            scope.spawn(|| {
                let mut c = server.connect_to("q");
                for id in 0..50 {
                    let out = c.run(&step(id));
                    assert!(!out.contains("Msg"), "{out}");
                }
            });
        }
    });
    assert_eq!(
        c.scalar("SELECT COUNT(*) FROM dbo.n WHERE v = 6"),
        "50",
        "every upsert of every session counts"
    );
}
