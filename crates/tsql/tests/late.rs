//! Commits whose wait for the disk a session leaves to its caller.

mod common;

use common::{Client, Server, errors};
use daruma_tsql::session::{RequestEnd, RpcArgument, RpcProcedure, RpcRequest, TransactionRequest};
use daruma_value::{DataType, Value};

fn client(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d");
    c.run("CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int NOT NULL DEFAULT 0)");
    c.run("CREATE PROCEDURE p @a int AS INSERT t (a) VALUES (@a)");
    c.session.set_late_commits(true);
    c
}

/// Runs a batch; was a commit left to the caller? It is waited for.
fn leaves_one(c: &mut Client, text: &str) -> bool {
    let out = c.run(text);
    assert_eq!(errors(&out), [] as [i32; 0], "{text}: {out}");
    let commit = c.session.take_late_commit();
    commit
        .map(|commit| commit.wait().expect("is hard"))
        .is_some()
}

#[test]
fn the_last_change_of_a_request_leaves_its_wait() {
    let server = Server::new();
    let mut c = client(&server);
    for text in [
        "INSERT t (a) VALUES (1)",
        "SELECT 1; UPDATE t SET b = 2",
        "IF 1 = 1 BEGIN PRINT 'x'; UPDATE t SET b = 3 END",
        "EXEC p 2",
        "EXEC sp_executesql N'EXEC p @x', N'@x int', @x = 3",
        "BEGIN TRANSACTION; UPDATE t SET b = 4; COMMIT",
        "DELETE t WHERE a = 3",
    ] {
        assert!(leaves_one(&mut c, text), "{text}");
    }
    let number = RpcArgument {
        name: "@a".into(),
        value: Some(Value::Int(9)),
        data_type: DataType::Int,
        output: false,
        table: None,
    };
    c.rpc(RpcRequest {
        procedure: RpcProcedure::Name("p".into()),
        args: vec![number],
        no_metadata: false,
    });
    let commit = c.session.take_late_commit().expect("a call leaves one");
    commit.wait().expect("is hard");
    assert_eq!(c.scalar("SELECT SUM(a) FROM t"), "12");
}

#[test]
fn whatever_something_follows_waits_itself() {
    let server = Server::new();
    let mut c = client(&server);
    for text in [
        "INSERT t (a) VALUES (1); SELECT 1",
        "DECLARE @i int = 2; WHILE @i < 5 BEGIN INSERT t (a) VALUES (@i); SET @i += 1 END",
        "DECLARE @i int = 5; WHILE @i < 7 BEGIN SET @i += 1; INSERT t (a) VALUES (@i) END",
        "BEGIN TRY INSERT t (a) VALUES (10) END TRY BEGIN CATCH THROW END CATCH",
        "EXEC p 11; PRINT 'x'",
        "CREATE TABLE u (a int)",
        "SELECT a INTO v FROM t",
        "CREATE TABLE #x (a int); INSERT #x VALUES (1)",
        "SET STATISTICS TIME ON; UPDATE t SET b = 4; SET STATISTICS TIME OFF",
        "SELECT 1",
        "DECLARE @x TABLE (a int); INSERT @x EXEC sp_executesql N'SELECT 1'",
        "BEGIN TRANSACTION; UPDATE t SET b = 5",
        "ROLLBACK",
        "ALTER DATABASE d SET DELAYED_DURABILITY = FORCED",
        "UPDATE t SET b = 6",
    ] {
        assert!(!leaves_one(&mut c, text), "{text}");
    }
    c.run("SET STATISTICS TIME ON");
    assert!(!leaves_one(&mut c, "UPDATE t SET b = 7"));
    assert!(!c.session.in_transaction());
}

#[test]
fn who_did_not_ask_is_left_with_nothing() {
    let server = Server::new();
    let mut c = client(&server);
    c.session.set_late_commits(false);
    assert!(!leaves_one(&mut c, "INSERT t (a) VALUES (1)"));
}

#[test]
fn until_then_others_see_nothing_and_wait() {
    let server = Server::new();
    let mut c = client(&server);
    let mut other = server.connect_to("d");
    other.run("SET LOCK_TIMEOUT 0");
    c.run("INSERT t (a) VALUES (1)");
    let commit = c.session.take_late_commit().expect("left");
    assert_eq!(other.run("SELECT a FROM t"), "a\n(0 rows affected)\n");
    let locking = "SELECT a FROM t WITH (READCOMMITTEDLOCK)";
    assert_eq!(errors(&other.run(locking)), [1222]);
    assert_eq!(errors(&other.run("ALTER TABLE t ADD c int")), [1222]);
    commit.wait().expect("is hard");
    assert_eq!(other.scalar("SELECT a FROM t"), "1");
    assert_eq!(
        errors(&other.run("ALTER TABLE t ADD c int")),
        [] as [i32; 0]
    );
}

#[test]
fn a_transaction_request_leaves_one_and_the_next_request_waits_for_it() {
    let server = Server::new();
    let mut c = client(&server);
    let begin = TransactionRequest::Begin {
        isolation: 0,
        name: String::new(),
    };
    let commit = TransactionRequest::Commit {
        name: String::new(),
        begin: None,
    };
    c.transaction(&begin);
    c.run("INSERT t (a) VALUES (1)");
    assert!(c.session.take_late_commit().is_none());
    c.transaction(&commit);
    // Not taken: nobody may hear of it, and the session does not go on without it.
    c.run("INSERT t (a) VALUES (2)");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t"), "2");
    drop(c);
    let server = server.crash();
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t"), "2");
}

/// The end of a session, too.
#[test]
fn a_commit_that_is_left_alone_is_no_rollback() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("INSERT t (a) VALUES (1)");
    drop(c);
    let server = server.crash();
    let mut c = server.connect_to("d");
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t"), "1");
}

/// A failed sync while somebody else was to be told: the request ends the connection, and says nothing of success.
#[test]
fn after_a_failed_sync_the_session_ends() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("INSERT t (a) VALUES (1)");
    let disk = server.disk.clone();
    disk.set_faults(daruma_sim::Faults {
        fail_at: Some(disk.calls() + 1),
        ..Default::default()
    });
    let ended = c.session.execute_batch("SELECT 1", &mut c.sink);
    assert_eq!(ended, RequestEnd::Disconnect);
}
