//! RESTORE over an existing database while the disk fails or the machine stops: afterwards there is the old database or
//! the restored one, whole.

mod common;

use common::rows::{MOVES, content, fill};
use common::{Client, Server};
use daruma_sim::Faults;

/// How many moments of a restore are tried in each way.
const MOMENTS: u64 = 12;

/// A server with a backup and a database that has gone on since; what both hold.
fn prepared(seed: u64) -> (Server, Client, String, String) {
    let server = Server::with_seed(seed);
    let mut client = server.connect();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.dbo.t (id int NOT NULL PRIMARY KEY, name varchar(400) NOT NULL)");
    fill(&mut client, 1, 20);
    client.run("BACKUP DATABASE d TO DISK = '/b/1', DISK = '/b/2'");
    let restored = content(&mut client, "d");
    fill(&mut client, 21, 30);
    let old = content(&mut client, "d");
    client.run("USE master");
    (server, client, old, restored)
}

const RESTORE: &str = "RESTORE DATABASE d FROM DISK = '/b/1', DISK = '/b/2' WITH REPLACE";

fn calls_of_a_restore() -> u64 {
    let (server, mut client, _, restored) = prepared(1);
    let begin = server.disk.ios();
    let out = client.run(RESTORE);
    assert!(out.contains("RESTORE DATABASE successfully"), "{out}");
    let calls = server.disk.ios() - begin;
    assert_eq!(content(&mut client, "d"), restored);
    calls
}

#[test]
fn a_stop_leaves_the_old_database_or_the_new_one() {
    let calls = calls_of_a_restore();
    let mut seen = [0, 0];
    for moment in 0..MOMENTS {
        let (server, mut client, old, restored) = prepared(moment);
        let at = server.disk.ios() + calls * (2 * moment + 1) / (2 * MOMENTS);
        server.disk.set_faults(Faults {
            stop_io_at: Some(at),
            ..Faults::default()
        });
        let out = client.run(RESTORE);
        let acknowledged = out.contains("RESTORE DATABASE successfully");
        drop(client);
        server.disk.set_faults(Faults::default());
        let server = server.crash();
        let found = content(&mut server.connect(), "d");
        assert!(
            found == old || found == restored,
            "moment {moment}: {found}"
        );
        assert!(found == restored || !acknowledged, "moment {moment}: {out}");
        seen[usize::from(found == restored)] += 1;
    }
    assert!(seen[0] > 0, "{seen:?}");
}

#[test]
fn an_error_leaves_the_old_database_or_the_new_one() {
    let calls = calls_of_a_restore();
    let mut failures = 0;
    // The files are exchanged in the second half.
    let moments = (0..calls).filter(|m| *m >= calls / 2 || m % MOMENTS == 0);
    for moment in moments {
        let (server, mut client, old, restored) = prepared(100);
        let at = server.disk.ios() + moment;
        server.disk.set_faults(Faults {
            fail_io_at: Some(at),
            ..Faults::default()
        });
        let out = client.run(RESTORE);
        let acknowledged = out.contains("RESTORE DATABASE successfully");
        failures += usize::from(!acknowledged);
        server.disk.set_faults(Faults::default());
        // Whatever the error met, a start puts it right.
        drop(client);
        let server = server.crash();
        let found = content(&mut server.connect(), "d");
        assert!(
            found == old || found == restored,
            "moment {moment}: {found}\n{out}"
        );
        assert!(found == restored || !acknowledged, "moment {moment}: {out}");
    }
    assert!(failures > 0);
}

/// A differential of another recovery path that is broken off beside log that goes beyond it: what there is then is no database, until
/// one is restored in whole.
#[test]
fn a_differential_that_was_broken_off_is_not_recovered_without_it() {
    let mut server = Server::new();
    let mut client = server.connect();
    for text in [
        "CREATE DATABASE d; ALTER DATABASE d SET RECOVERY FULL",
        "CREATE TABLE d.dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(400) NOT NULL)",
        "INSERT d.dbo.t SELECT value, REPLICATE(N'x', 300) FROM GENERATE_SERIES(1, 2000)",
        "BACKUP DATABASE d TO DISK = '/b/full'; BACKUP LOG d TO DISK = '/b/1'",
        &format!(
            "RESTORE DATABASE e FROM DISK = '/b/full' WITH NORECOVERY, {MOVES}; RESTORE LOG e FROM DISK = '/b/1'"
        ),
        "UPDATE e.dbo.t SET name = N'elsewhere'; BACKUP DATABASE e TO DISK = '/b/other' WITH DIFFERENTIAL",
        "INSERT d.dbo.t SELECT value, REPLICATE(N'y', 300) FROM GENERATE_SERIES(2001, 6000)",
        "BACKUP LOG d TO DISK = '/b/2'",
    ] {
        client.done(text);
    }
    let (rolled, other) = (content(&mut client, "d"), content(&mut client, "e"));
    let again = "RESTORE DATABASE d FROM DISK = '/b/full' WITH NORECOVERY, REPLACE;
        RESTORE LOG d FROM DISK = '/b/1' WITH NORECOVERY; RESTORE LOG d FROM DISK = '/b/2' WITH NORECOVERY";
    let differential = "RESTORE DATABASE d FROM DISK = '/b/other' WITH NORECOVERY";
    client.done(again);
    let begin = server.disk.ios();
    client.done(differential);
    let calls = server.disk.ios() - begin;
    let mut refused = 0;
    // Nothing is written before the set has been read.
    for moment in (MOMENTS / 2..MOMENTS).step_by(2) {
        client.done(again);
        let at = server.disk.ios() + calls * (2 * moment + 1) / (2 * MOMENTS);
        server.disk.set_faults(Faults {
            stop_io_at: Some(at),
            ..Faults::default()
        });
        client.run(differential);
        drop(client);
        server.disk.set_faults(Faults::default());
        server = server.crash();
        client = server.connect();
        let recovered = client.run("RESTORE DATABASE d WITH RECOVERY");
        if !recovered.contains("RESTORE DATABASE successfully") {
            assert!(
                recovered.contains("Msg 4319"),
                "moment {moment}: {recovered}"
            );
            refused += 1;
            client.done("RESTORE DATABASE d FROM DISK = '/b/other' WITH RECOVERY");
            assert_eq!(content(&mut client, "d"), other, "moment {moment}");
            continue;
        }
        let found = content(&mut client, "d");
        assert!(
            found == rolled || found == other,
            "moment {moment}: {found}"
        );
    }
    assert!(refused > 0);
}
