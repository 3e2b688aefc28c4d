//! One transaction in several databases: it is in all of them or in none, whatever stops the server, and whatever has become
//! of the database that decides.

mod common;

use common::{Client, Server};
use daruma_sim::{Faults, SimDisk};
use std::path::Path;
use std::sync::Arc;

const WORK: &str = "BEGIN TRAN
    INSERT a.dbo.t VALUES (1); CREATE TABLE a.dbo.made (i int)
    INSERT b.dbo.t VALUES (1); CREATE TABLE b.dbo.made (i int)
    INSERT c.dbo.t VALUES (1)";

/// Three databases, stopped cleanly. `a` has the lowest id, so it coordinates.
fn prepared() -> Arc<SimDisk> {
    let server = Server::new();
    let mut client = server.connect();
    for (name, accelerated) in [("a", "OFF"), ("b", "ON"), ("c", "OFF")] {
        client.run(&format!("CREATE DATABASE {name}"));
        client.run(&format!(
            "ALTER DATABASE {name} SET ACCELERATED_DATABASE_RECOVERY = {accelerated}"
        ));
        client.run(&format!("CREATE TABLE {name}.dbo.t (i int PRIMARY KEY)"));
    }
    client.session.close();
    server.stop()
}

/// A copy of the server with the work done and not committed.
fn at_work(disk: &Arc<SimDisk>) -> (Server, Client) {
    let server = Server::over(disk.fork(1));
    let mut client = server.connect();
    let out = client.run(WORK);
    assert!(!out.contains("Msg"), "{out}");
    (server, client)
}

/// Rows in each database, and whether the table made in the transaction is there.
fn found(client: &mut Client) -> String {
    let count = |name: &str| format!("(SELECT COUNT(*) FROM {name}.dbo.t)");
    let made = |name: &str| format!("IIF(OBJECT_ID('{name}.dbo.made') IS NULL, 0, 1)");
    client.scalar(&format!(
        "SELECT CONCAT({}, {}, {}, {}, {})",
        count("a"),
        made("a"),
        count("b"),
        made("b"),
        count("c")
    ))
}

fn error_log(client: &mut Client) -> String {
    client.run("EXEC xp_readerrorlog")
}

#[test]
fn a_stop_while_it_commits_leaves_all_or_nothing() {
    let disk = prepared();
    let calls = {
        let (server, mut client) = at_work(&disk);
        let begin = server.disk.ios();
        assert_eq!(client.run("COMMIT"), "");
        let calls = server.disk.ios() - begin;
        assert_eq!(found(&mut client), "11111");
        calls
    };
    assert!(calls >= 3, "a sync for each database: {calls}");
    let mut seen = [0, 0];
    for call in 0..calls {
        for is_power in [true, false] {
            let (server, mut client) = at_work(&disk);
            server.disk.set_faults(Faults {
                stop_io_at: Some(server.disk.ios() + call),
                ..Faults::default()
            });
            let out = client.run("COMMIT");
            let acknowledged = out.is_empty();
            drop(client);
            server.disk.set_faults(Faults::default());
            let server = match is_power {
                true => server.crash(),
                false => {
                    let Server { disk, instance, .. } = server;
                    drop(instance);
                    disk.restart();
                    Server::over(disk)
                }
            };
            let mut client = server.connect();
            let found = found(&mut client);
            assert!(found == "11111" || found == "00000", "call {call}: {found}");
            assert!(found == "11111" || !acknowledged, "call {call}: {out}");
            assert!(!error_log(&mut client).contains("cross-database"));
            seen[usize::from(found == "11111")] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// The first stop after which `b` is prepared and the outcome is `wanted` when all is well.
fn in_doubt(disk: &Arc<SimDisk>, wanted: &str) -> Arc<SimDisk> {
    for call in 0..100 {
        let (server, mut client) = at_work(disk);
        server.disk.set_faults(Faults {
            stop_io_at: Some(server.disk.ios() + call),
            ..Faults::default()
        });
        client.run("COMMIT");
        drop(client);
        let Server { disk, instance, .. } = server;
        drop(instance);
        disk.restart();
        disk.set_faults(Faults::default());
        let (whole, without) = (disk.fork(1), disk.fork(1));
        lose(&without, "a");
        let server = Server::over(without);
        let was_prepared = error_log(&mut server.connect()).contains("cross-database");
        if was_prepared && found(&mut Server::over(whole).connect()) == wanted {
            return disk;
        }
    }
    panic!("no stop left a prepared transaction that ends as {wanted}");
}

/// The files of a database are damaged beyond recognition.
fn lose(disk: &Arc<SimDisk>, name: &str) {
    for file in [format!("/data/{name}.mdf"), format!("/data/{name}_log.ldf")] {
        (0..64).for_each(|byte| disk.flip(Path::new(&file), byte, 0xFF));
    }
}

/// Message 3429.
#[test]
fn without_its_coordinator_a_prepared_transaction_is_assumed_committed_and_told() {
    let disk = in_doubt(&prepared(), "00000");
    lose(&disk, "a");
    let server = Server::over(disk);
    let mut client = server.connect();
    let log = error_log(&mut client);
    let told = "in database 'b' (database ID 6:0). The coordinating database (database ID 5:0) was unavailable. \
                The transaction was assumed to be committed.";
    assert!(log.contains(told), "{log}");
    assert_eq!(client.scalar("SELECT COUNT(*) FROM b.dbo.t"), "1");
    // Once resolved it stays so, and is told once.
    let server = server.crash();
    let mut client = server.connect();
    assert_eq!(client.scalar("SELECT COUNT(*) FROM b.dbo.t"), "1");
    let told_once = error_log(&mut client).matches("cross-database").count();
    assert_eq!(told_once, 0, "the log of this start");
}

#[test]
fn a_coordinator_that_cannot_be_opened_is_asked_through_its_log() {
    for wanted in ["00000", "11111"] {
        let disk = in_doubt(&prepared(), wanted);
        // The root of its catalog, and the area from which a torn page would come back.
        for page in [16, 31] {
            disk.flip(Path::new("/data/a.mdf"), page * 8_192 + 100, 0xFF);
        }
        let server = Server::over(disk);
        let mut client = server.connect();
        let state = client.scalar("SELECT state_desc FROM sys.databases WHERE name = 'a'");
        assert_eq!(state, "SUSPECT");
        assert!(!error_log(&mut client).contains("cross-database"));
        let rows = client.scalar(
            "SELECT CONCAT((SELECT COUNT(*) FROM b.dbo.t), (SELECT COUNT(*) FROM c.dbo.t))",
        );
        assert_eq!(rows, wanted[3..], "as {wanted}");
    }
}

#[test]
fn a_failed_sync_of_the_decision_leaves_nobody_with_a_guess() {
    let disk = prepared();
    let mut unknown = 0;
    for call in 0..12 {
        let (server, mut client) = at_work(&disk);
        server.disk.set_faults(Faults {
            fail_io_at: Some(server.disk.ios() + call),
            ..Faults::default()
        });
        let out = client.run("COMMIT");
        server.disk.set_faults(Faults::default());
        if out.is_empty() {
            continue;
        }
        let states = "SELECT STRING_AGG(state_desc, ' ') WITHIN GROUP (ORDER BY name)
            FROM sys.databases WHERE name IN ('a', 'b', 'c')";
        let states = client.scalar(states);
        drop(client);
        let mut client = server.connect();
        if states == "SUSPECT SUSPECT SUSPECT" {
            unknown += 1;
            // Those who ask wait for the one who knows.
            assert!(client.run("ALTER DATABASE b SET OFFLINE").is_empty());
            let refused = client.run("ALTER DATABASE b SET ONLINE");
            let words = "Msg 945, Level 14, State 2, Line 1\nDatabase 'b' cannot be opened due to";
            assert!(refused.starts_with(words), "{refused}");
            assert!(error_log(&mut client).contains("coordinates it, is online again"));
            for name in ["a", "b", "c"] {
                client.run(&format!("ALTER DATABASE {name} SET OFFLINE"));
                let out = client.run(&format!("ALTER DATABASE {name} SET ONLINE"));
                assert!(!out.contains("Msg"), "{out}");
            }
            let found = found(&mut client);
            assert!(found == "11111" || found == "00000", "call {call}: {found}");
        }
        let before = (!states.contains("SUSPECT")).then(|| found(&mut client));
        assert!(before.is_none_or(|f| f == "00000"), "call {call}");
        drop(client);
        let server = server.crash();
        let mut client = server.connect();
        let found = found(&mut client);
        let log = error_log(&mut client);
        assert!(
            found == "11111" || found == "00000",
            "call {call}: {found}\n{log}"
        );
    }
    assert!(unknown > 0);
}

#[test]
fn decisions_are_forgotten_when_all_have_them_on_disk() {
    let disk = prepared();
    let (server, mut client) = at_work(&disk);
    assert_eq!(client.run("COMMIT"), "");
    let decisions = "SELECT COUNT(*) FROM sys.fn_dblog(NULL, NULL)
        WHERE Operation = 'LOP_XACT_CKPT' AND [Description] LIKE '%may not have it on disk%'";
    client.run("USE a; CHECKPOINT");
    let first: i32 = client.scalar(decisions).parse().expect("a number");
    assert!(first > 0, "kept by the checkpoint");
    for name in ["b", "c", "a"] {
        client.run(&format!("USE {name}; CHECKPOINT"));
    }
    let last: i32 = client.scalar(decisions).parse().expect("a number");
    assert_eq!(first, last, "the last checkpoint lists it no more");
    drop(client);
    assert_eq!(found(&mut server.crash().connect()), "11111");
}

#[test]
fn each_database_shows_what_it_promised_in_its_log() {
    let disk = prepared();
    let (_server, mut client) = at_work(&disk);
    assert_eq!(client.run("COMMIT"), "");
    let line = |operation: &str, text: &str| {
        format!(
            "SELECT COUNT(*) FROM sys.fn_dblog(NULL, NULL)
             WHERE Operation = '{operation}' AND [Description] LIKE '%{text}%'"
        )
    };
    for name in ["b", "c"] {
        client.run(&format!("USE {name}"));
        let prepares = client.scalar(&line("LOP_PREP_XACT", "of database 5 decides"));
        assert_eq!(prepares, "1", "{name}");
    }
    client.run("USE a");
    assert_eq!(
        client.scalar(&line("LOP_COMMIT_XACT", "decides for 2")),
        "1"
    );
}

#[test]
fn an_error_before_the_decision_rolls_everything_back() {
    let server = Server::over(prepared());
    let mut client = server.connect();
    client.run(WORK);
    client.run("ROLLBACK");
    assert_eq!(found(&mut client), "00000");
    // Work in one database only goes no other way than before.
    client.run("BEGIN TRAN; SELECT COUNT(*) FROM b.dbo.t; INSERT a.dbo.t VALUES (1); COMMIT");
    client.run("USE b");
    let prepares =
        "SELECT COUNT(*) FROM sys.fn_dblog(NULL, NULL) WHERE Operation = 'LOP_PREP_XACT'";
    assert_eq!(client.scalar(prepares), "0");
}

/// `c` has a copy, which a restore made under another name: the same guid, one database id above `c`'s or below.
fn with_a_copy(is_below: bool) -> Arc<SimDisk> {
    let server = Server::new();
    let mut client = server.connect();
    for name in ["a", "hole", "c"] {
        client.run(&format!("CREATE DATABASE {name}"));
    }
    for name in ["a", "c"] {
        client.run(&format!("CREATE TABLE {name}.dbo.t (i int PRIMARY KEY)"));
    }
    client.run("BACKUP DATABASE c TO DISK = '/b/c'");
    if is_below {
        client.run("DROP DATABASE hole");
    }
    let out = client.run(
        "RESTORE DATABASE copy FROM DISK = '/b/c' WITH MOVE 'c' TO '/x/copy', MOVE 'c_log' TO '/x/copy_log'",
    );
    assert!(out.contains("successfully processed"), "{out}");
    client.session.close();
    server.stop()
}

/// Rows of the transaction, in `a` and in `c`.
fn halves(client: &mut Client) -> String {
    client.scalar("SELECT CONCAT((SELECT COUNT(*) FROM a.dbo.t), (SELECT COUNT(*) FROM c.dbo.t))")
}

const HALVES: &str =
    "SET NOCOUNT ON BEGIN TRAN INSERT a.dbo.t VALUES (1) INSERT c.dbo.t VALUES (1) COMMIT";

#[test]
fn a_copy_of_one_of_the_databases_answers_for_nobody() {
    for is_below in [true, false] {
        let disk = with_a_copy(is_below);
        let server = Server::over(disk);
        let mut client = server.connect();
        assert_eq!(client.run(HALVES), "");
        drop(client);
        let server = server.crash();
        assert_eq!(halves(&mut server.connect()), "11", "{is_below}");
        let server = server.crash();
        assert_eq!(halves(&mut server.connect()), "11", "{is_below}");
    }
}

#[test]
fn a_copy_that_is_dropped_takes_no_decision_with_it() {
    let server = Server::over(with_a_copy(true));
    let mut client = server.connect();
    assert_eq!(client.run(HALVES), "");
    drop(client);
    // Its files cannot be read for a while.
    server.disk.crash();
    let disk = server.disk.fork(1);
    drop(server);
    lose(&disk, "c");
    let server = Server::over(disk);
    let mut client = server.connect();
    assert_eq!(client.scalar("SELECT COUNT(*) FROM a.dbo.t"), "1");
    assert_eq!(client.run("DROP DATABASE copy"), "");
    client.run("USE a; CHECKPOINT; USE master");
    client.session.close();
    let disk = server.stop();
    lose(&disk, "c");
    assert_eq!(halves(&mut Server::over(disk).connect()), "11");
}

#[test]
fn a_database_and_its_copy_in_one_transaction_are_whole() {
    let disk = with_a_copy(true);
    let calls = {
        let server = Server::over(disk.fork(1));
        let mut client = server.connect();
        client.run(&begin_in_both());
        let begin = server.disk.ios();
        assert_eq!(client.run("COMMIT"), "");
        server.disk.ios() - begin
    };
    for call in 0..calls {
        let server = Server::over(disk.fork(1));
        let mut client = server.connect();
        client.run(&begin_in_both());
        server.disk.set_faults(Faults {
            stop_io_at: Some(server.disk.ios() + call),
            ..Faults::default()
        });
        let is_acknowledged = client.run("COMMIT").is_empty();
        drop(client);
        server.disk.set_faults(Faults::default());
        let mut client = server.crash().connect();
        let there = format!(
            "{}{}",
            halves(&mut client),
            client.scalar("SELECT COUNT(*) FROM copy.dbo.t")
        );
        assert!(there == "111" || there == "000", "call {call}: {there}");
        assert!(there == "111" || !is_acknowledged, "call {call}");
    }
}

fn begin_in_both() -> String {
    let halves = HALVES.replace("COMMIT", "");
    format!("{halves} INSERT copy.dbo.t VALUES (1)")
}
