//! Replies to commits that share a sync: each client gets its own, in order, whatever the others do.

mod common;

use common::{Client, Mode, PASSWORD, login, program_options};
use daruma_server::EncryptionPolicy;
use daruma_server::program::Program;
use daruma_tds::TdsVersion;
use daruma_value::Value;
use std::net::SocketAddr;
use std::thread;

const CLIENTS: i32 = 16;
const ROUNDS: i32 = 40;

fn log_in(address: SocketAddr, mode: Mode) -> Client {
    let login = login("sa", PASSWORD, TdsVersion::V7_4);
    let (client, _) = Client::log_in(address, mode, &login).expect("logs in");
    client
}

fn insert(n: i32) -> String {
    format!("INSERT t VALUES ({n}, {n})")
}

/// Commits one by one, two at once, with an attention behind, and by a transaction; every answer is its own.
fn work(address: SocketAddr, number: i32) {
    let mode = if number % 4 == 0 {
        Mode::Full
    } else {
        Mode::Plain
    };
    let mut client = log_in(address, mode);
    for round in 0..ROUNDS {
        let n = (number * ROUNDS + round) * 4;
        let told = client.batch(&insert(n)).expect("answers");
        assert_eq!(told.last_done().count(), Some(1), "{:?}", told.errors());
        // The second one comes while the first may still wait for its commit.
        client.send_batch(&insert(n + 1)).expect("sends");
        client
            .send_batch(&format!("UPDATE t SET b = -1 WHERE a IN ({n}, {})", n + 1))
            .expect("sends");
        let first = client.receive().expect("answers");
        let second = client.receive().expect("answers");
        assert_eq!(first.last_done().count(), Some(1));
        assert_eq!(second.last_done().count(), Some(2));
        let text = format!("BEGIN TRAN; {}; COMMIT", insert(n + 2));
        let told = client.batch(&text).expect("answers");
        assert_eq!(told.errors(), []);
        let again = client.batch(&insert(n + 2)).expect("answers");
        assert_eq!(
            again.error_numbers(),
            [2627, 3621][..again.error_numbers().len()]
        );
        assert!(!again.errors().is_empty());
        if round % 8 == 7 {
            // Left without an answer: its row is there or not, its locks are gone.
            let mut leaver = log_in(address, Mode::Plain);
            leaver.send_batch(&insert(n + 3)).expect("sends");
        }
    }
}

#[test]
fn every_client_gets_its_own_answers() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let options = program_options(dir.path(), EncryptionPolicy::On);
    let program = Program::start(&options).expect("starts");
    let address = program.address();
    let mut client = log_in(address, Mode::Plain);
    let made = client.batch("CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int NOT NULL)");
    assert_eq!(made.expect("answers").errors(), []);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || work(address, number));
        }
    });
    let counts =
        "SELECT COUNT(CASE WHEN a % 4 < 3 THEN 1 END), COUNT(CASE WHEN b = -1 THEN 1 END) FROM t";
    let rows = client.batch(counts).expect("answers").rows();
    let all = CLIENTS * ROUNDS;
    assert_eq!(rows, [vec![Value::Int(3 * all), Value::Int(2 * all)]]);
    // The leavers hold nothing.
    let told = client.batch("SET LOCK_TIMEOUT 300000; ALTER TABLE t ADD c int; DELETE t");
    assert_eq!(told.expect("answers").errors(), []);
    program.stop().expect("stops");
}
