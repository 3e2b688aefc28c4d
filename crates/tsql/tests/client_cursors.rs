//! sp_cursoropen and its family, as drivers call them.

mod common;

use common::calls::{int, output, request, text};
use common::{Client, Server};
use daruma_tsql::session::{RpcArgument, RpcProcedure, RpcRequest};

const FIRST: i32 = 1;
const NEXT: i32 = 2;
const PRIOR: i32 = 4;
const LAST: i32 = 8;
const ABSOLUTE: i32 = 16;
const RELATIVE: i32 = 32;
const REFRESH: i32 = 128;
const INFO: i32 = 256;
const PRIOR_NOT_ADJUSTED: i32 = 512;

const STATIC: i32 = 8;
const FAST_FORWARD: i32 = 16;
const DYNAMIC: i32 = 2;
const PARAMETERIZED: i32 = 0x1000;
const AUTO_FETCH: i32 = 0x2000;
const AUTO_CLOSE: i32 = 0x4000;
const READ_ONLY: i32 = 1;
const ALLOW_DIRECT: i32 = 0x2000;

fn out(value: i32) -> RpcArgument {
    output(int(value))
}

fn call(client: &mut Client, id: u16, args: Vec<RpcArgument>) -> String {
    client.rpc(request(id, args))
}

/// A client beside a table of the numbers 1 to 10.
fn client(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d");
    c.run("CREATE TABLE t (n int PRIMARY KEY); INSERT t SELECT value FROM generate_series(1, 10)");
    c.sink.verbose = true;
    c
}

/// Values of the output parameters.
fn outputs(reply: &str) -> Vec<i32> {
    let lines = reply.lines().filter_map(|l| l.strip_prefix(" = "));
    lines.filter_map(|v| v.parse().ok()).collect()
}

/// First column of the rows of a fetch, and what it returned.
fn fetch(client: &mut Client, cursor: i32, kind: i32, row: i32, count: i32) -> (Vec<i32>, i32) {
    let reply = call(
        client,
        7,
        vec![int(cursor), int(kind), int(row), int(count)],
    );
    let status = reply
        .lines()
        .find_map(|l| l.strip_prefix("return status "))
        .unwrap_or_else(|| panic!("{reply}"));
    let rows = reply.lines().skip(1).map_while(|l| {
        let (value, row_status) = l.split_once(" | ")?;
        assert_eq!(row_status, "1", "{reply}");
        value.parse().ok()
    });
    (rows.collect(), status.parse().expect("a number"))
}

fn open(client: &mut Client, query: &str, scroll: i32) -> i32 {
    let args = vec![
        out(0),
        text(query),
        out(scroll),
        out(READ_ONLY | ALLOW_DIRECT),
        out(0),
    ];
    let reply = call(client, 2, args);
    outputs(&reply)
        .first()
        .copied()
        .unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn a_window_moves_over_the_rows() {
    let server = Server::new();
    let mut c = client(&server);
    let cursor = open(&mut c, "SELECT n FROM t ORDER BY n", STATIC);
    assert_eq!(fetch(&mut c, cursor, NEXT, 0, 3), (vec![1, 2, 3], 0));
    assert_eq!(fetch(&mut c, cursor, NEXT, 0, 3), (vec![4, 5, 6], 0));
    assert_eq!(fetch(&mut c, cursor, REFRESH, 0, 3), (vec![4, 5, 6], 0));
    assert_eq!(fetch(&mut c, cursor, PRIOR, 0, 2), (vec![2, 3], 0));
    assert_eq!(
        fetch(&mut c, cursor, PRIOR, 0, 3),
        (vec![1, 2, 3], 2),
        "adjusted"
    );
    assert_eq!(
        fetch(&mut c, cursor, PRIOR, 0, 3),
        (vec![], 0),
        "before the first"
    );
    assert_eq!(fetch(&mut c, cursor, LAST, 0, 4), (vec![7, 8, 9, 10], 0));
    assert_eq!(
        fetch(&mut c, cursor, NEXT, 0, 4),
        (vec![], 0),
        "behind the last"
    );
    assert_eq!(fetch(&mut c, cursor, PRIOR, 0, 2), (vec![9, 10], 0));
    assert_eq!(fetch(&mut c, cursor, ABSOLUTE, 5, 2), (vec![5, 6], 0));
    assert_eq!(fetch(&mut c, cursor, ABSOLUTE, -2, 5), (vec![9, 10], 0));
    assert_eq!(fetch(&mut c, cursor, ABSOLUTE, -20, 2), (vec![1, 2], 2));
    assert_eq!(
        fetch(&mut c, cursor, ABSOLUTE, 0, 2),
        (vec![], 0),
        "before the first"
    );
    assert_eq!(fetch(&mut c, cursor, RELATIVE, 0, 2), (vec![], 0));
    assert_eq!(fetch(&mut c, cursor, RELATIVE, 4, 1), (vec![4], 0));
    assert_eq!(fetch(&mut c, cursor, RELATIVE, -9, 2), (vec![1, 2], 2));
    assert_eq!(fetch(&mut c, cursor, ABSOLUTE, 3, 1), (vec![3], 0));
    assert_eq!(
        fetch(&mut c, cursor, PRIOR_NOT_ADJUSTED, 0, 5),
        (vec![1, 2], 0),
        "no more than there are"
    );
    assert_eq!(fetch(&mut c, cursor, LAST, 0, 0), (vec![], 0));
    let reply = call(&mut c, 7, vec![int(cursor), int(INFO), out(0), out(0)]);
    assert_eq!(outputs(&reply), [-1, 10], "behind the last: {reply}");
    assert_eq!(fetch(&mut c, cursor, PRIOR, 0, 1), (vec![10], 0));
    assert_eq!(fetch(&mut c, cursor, FIRST, 0, 0), (vec![], 0));
    assert_eq!(fetch(&mut c, cursor, NEXT, 0, 1), (vec![1], 0));
    let reply = call(&mut c, 7, vec![int(cursor), int(INFO), out(0), out(0)]);
    assert_eq!(outputs(&reply), [1, 10], "{reply}");
    for bad in [
        vec![int(cursor), int(3), int(1), int(1)],
        vec![int(cursor), int(NEXT), int(1), int(-1)],
    ] {
        let reply = call(&mut c, 7, bad);
        assert!(reply.contains("Msg 16902"), "{reply}");
    }
    // What others change after the cursor was opened is not seen.
    c.run("DELETE t WHERE n = 2");
    assert_eq!(fetch(&mut c, cursor, NEXT, 0, 1), (vec![2], 0));
    let reply = call(&mut c, 9, vec![int(cursor)]);
    assert!(reply.starts_with("return status 0"), "{reply}");
    let reply = call(&mut c, 7, vec![int(cursor), int(NEXT), int(0), int(1)]);
    assert!(reply.contains("Msg 16909"), "{reply}");
}

#[test]
fn opening_says_what_the_cursor_became() {
    let server = Server::new();
    let mut c = client(&server);
    let query = || text("SELECT n FROM t ORDER BY n");
    let reply = call(
        &mut c,
        2,
        vec![out(0), query(), out(DYNAMIC), out(4), out(0)],
    );
    assert_eq!(outputs(&reply)[1..], [STATIC, READ_ONLY, 10], "{reply}");
    assert!(reply.starts_with("n | ROWSTAT\n"), "{reply}");
    // Only those that are asked for come back.
    let reply = call(
        &mut c,
        2,
        vec![out(0), query(), int(STATIC), int(1), out(0)],
    );
    assert_eq!(outputs(&reply).len(), 2, "{reply}");
    let reply = call(&mut c, 8, vec![int(outputs(&reply)[0]), int(6), out(0)]);
    assert_eq!(outputs(&reply), [10], "{reply}");
    let cursor = open(&mut c, "SELECT n FROM t ORDER BY n", FAST_FORWARD);
    assert_eq!(fetch(&mut c, cursor, NEXT, 0, 2), (vec![1, 2], 0));
    let reply = call(&mut c, 7, vec![int(cursor), int(LAST), int(0), int(1)]);
    assert!(reply.contains("Msg 16911"), "{reply}");
    let reply = call(&mut c, 1, vec![int(cursor), int(1), int(1), text("t")]);
    assert!(reply.contains("Msg 16929"), "{reply}");
}

#[test]
fn rows_may_come_with_the_open_and_the_end_may_close() {
    let server = Server::new();
    let mut c = client(&server);
    let scroll = FAST_FORWARD | AUTO_FETCH | AUTO_CLOSE;
    let query = text("SELECT n FROM t ORDER BY n");
    let reply = call(&mut c, 2, vec![out(0), query, out(scroll), out(1), out(4)]);
    let told = outputs(&reply);
    assert_eq!(told[1..], [FAST_FORWARD, READ_ONLY, 4], "{reply}");
    assert_eq!(fetch(&mut c, told[0], NEXT, 0, 4), (vec![5, 6, 7, 8], 0));
    assert_eq!(
        fetch(&mut c, told[0], NEXT, 0, 4),
        (vec![9, 10], 16),
        "closed"
    );
    let reply = call(&mut c, 9, vec![int(told[0])]);
    assert!(reply.contains("Msg 16909"), "{reply}");
}

/// A short first block ends a cursor that closes at its end; one that has its rows exactly does not.
#[test]
fn opening_may_close_at_once() {
    let server = Server::new();
    let mut c = client(&server);
    for (scroll, wanted, status) in [
        (FAST_FORWARD | AUTO_FETCH | AUTO_CLOSE, 11, 16),
        (FAST_FORWARD | AUTO_FETCH | AUTO_CLOSE, 10, 0),
        (STATIC | AUTO_FETCH | AUTO_CLOSE, 11, 0),
    ] {
        let query = text("SELECT n FROM t ORDER BY n");
        let args = vec![out(0), query, int(scroll), int(1), out(wanted)];
        let reply = call(&mut c, 2, args);
        let told = outputs(&reply);
        assert!(
            reply.contains(&format!("return status {status}\n")),
            "{reply}"
        );
        assert_eq!(told[1], 10, "{reply}");
        let reply = call(&mut c, 9, vec![int(told[0])]);
        assert_eq!(reply.contains("Msg 16909"), status == 16, "{reply}");
    }
}

/// Rows that INSERT .. EXEC takes are not the client's.
#[test]
fn insert_exec_takes_what_is_fetched() {
    let server = Server::new();
    let mut c = client(&server);
    c.done("CREATE TABLE taken (n int, row_status int)");
    let out = c.done(
        "DECLARE @c int; EXEC sp_cursoropen @c OUTPUT, N'SELECT n FROM t ORDER BY n', 8, 1; \
         INSERT taken EXEC sp_cursorfetch @c, 2, 0, 3",
    );
    assert!(out.ends_with("(3 rows affected)\n"), "{out}");
    assert_eq!(c.scalar("SELECT sum(n) FROM taken"), "6");
}

/// What fails leaves no handle that nobody knows.
#[test]
fn handles_are_told_or_gone() {
    let server = Server::new();
    let mut c = client(&server);
    let failing = |c: &mut Client, n: i32| {
        let query = text("SELECT n FROM t WHERE n = @n");
        let args = vec![
            out(0),
            out(0),
            text("@n int"),
            query,
            int(STATIC),
            int(1),
            out(0),
        ];
        let reply = call(c, 5, args);
        assert!(reply.contains("Msg 8178"), "{n}: {reply}");
        outputs(&reply)
    };
    let first = failing(&mut c, 0);
    assert_eq!(first.len(), 1, "the handle alone");
    let reply = call(&mut c, 6, vec![int(first[0])]);
    assert!(reply.starts_with("return status 0"), "{reply}");
}

#[test]
fn prepared_cursors_take_parameters() {
    let server = Server::new();
    let mut c = client(&server);
    let args = vec![
        out(0),
        out(0),
        text("@from int"),
        text("SELECT n FROM t WHERE n >= @from ORDER BY n"),
        int(STATIC | PARAMETERIZED),
        int(READ_ONLY),
        out(0),
        int(9),
    ];
    let reply = call(&mut c, 5, args);
    let told = outputs(&reply);
    assert_eq!((told.len(), told[2]), (3, 2), "{reply}");
    assert_eq!(fetch(&mut c, told[1], NEXT, 0, 5), (vec![9, 10], 0));
    let again = vec![
        int(told[0]),
        out(0),
        int(STATIC),
        int(READ_ONLY),
        out(0),
        int(10),
    ];
    let second = outputs(&call(&mut c, 4, again));
    assert_eq!(second[1], 1);
    assert_ne!(second[0], told[1]);
    assert_eq!(fetch(&mut c, second[0], NEXT, 0, 5), (vec![10], 0));
    assert_eq!(
        fetch(&mut c, told[1], FIRST, 0, 1),
        (vec![9], 0),
        "both are open"
    );
    let reply = call(&mut c, 6, vec![int(told[0])]);
    assert!(reply.starts_with("return status 0"), "{reply}");
    // The columns can be asked for alone.
    let args = vec![
        out(0),
        text("@a int"),
        text("SELECT @a AS a"),
        int(1),
        out(1),
        out(1),
    ];
    let reply = call(&mut c, 3, args);
    assert!(reply.starts_with("a | ROWSTAT\n"), "{reply}");
    assert_eq!(outputs(&reply)[1..], [STATIC, READ_ONLY], "{reply}");
}

#[test]
fn what_is_no_query_runs_at_once_or_not_at_all() {
    let server = Server::new();
    let mut c = client(&server);
    let batch = || text("DELETE t WHERE n = 1; SELECT count(*) FROM t");
    let reply = call(
        &mut c,
        2,
        vec![out(0), batch(), int(STATIC), int(READ_ONLY), out(0)],
    );
    assert!(reply.contains("Msg 16937"), "{reply}");
    assert_eq!(c.scalar("SELECT count(*) FROM t"), "10");
    let direct = int(READ_ONLY | ALLOW_DIRECT);
    let reply = call(
        &mut c,
        2,
        vec![out(0), batch(), int(STATIC), direct, out(0)],
    );
    assert!(
        reply.contains("Msg 16954") && reply.contains("Executing SQL directly; no cursor."),
        "{reply}"
    );
    assert!(outputs(&reply).is_empty(), "{reply}");
    assert_eq!(c.scalar("SELECT count(*) FROM t"), "9");
    let reply = call(
        &mut c,
        2,
        vec![
            out(0),
            text("SELECT nothing FROM t"),
            int(8),
            int(1),
            out(0),
        ],
    );
    assert!(
        reply.contains("Msg 207") && outputs(&reply).is_empty(),
        "{reply}"
    );
}

#[test]
fn a_procedure_that_is_one_query_opens_a_cursor() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("CREATE PROCEDURE upto @n int AS SELECT n FROM t WHERE n <= @n ORDER BY n");
    c.run("CREATE PROCEDURE more AS SELECT n FROM t; SELECT 1");
    c.run("CREATE PROCEDURE outer_one AS EXEC upto 3");
    let opened = |c: &mut Client, query: &str| {
        let args = vec![out(0), text(query), out(STATIC), out(READ_ONLY), out(0)];
        call(c, 2, args)
    };
    let reply = opened(&mut c, "EXEC dbo.upto @n = 4");
    let [cursor, kind, _, rows] = outputs(&reply)[..] else {
        panic!("{reply}");
    };
    assert_eq!((kind, rows), (STATIC, 4), "{reply}");
    assert_eq!(fetch(&mut c, cursor, LAST, 0, 2), (vec![3, 4], 0));
    for other in [
        "EXEC more",
        "EXEC outer_one",
        "EXEC nothing",
        "EXEC sp_who",
        "EXEC upto 1; EXEC upto 2",
        "EXEC upto 1 WITH RESULT SETS ((x int))",
    ] {
        let reply = opened(&mut c, other);
        assert!(reply.contains("Msg 16937"), "{other}: {reply}");
        assert!(outputs(&reply).is_empty(), "{other}: {reply}");
    }
}

#[test]
fn an_assignment_is_no_query() {
    let server = Server::new();
    let mut c = client(&server);
    let assigns = || text("DECLARE @a int; SELECT @a = 1");
    for query in [assigns(), text("SELECT @p = 1")] {
        let args = vec![out(0), query, int(STATIC), int(READ_ONLY), out(0)];
        let reply = call(&mut c, 2, args);
        assert!(reply.contains("Msg 16937"), "{reply}");
    }
    let args = vec![
        out(0),
        text("SELECT @p = n FROM t"),
        int(STATIC | PARAMETERIZED),
        int(READ_ONLY | ALLOW_DIRECT),
        out(0),
        text("@p int"),
        int(5),
    ];
    let reply = call(&mut c, 2, args);
    assert!(reply.contains("Msg 16954"), "{reply}");
}

#[test]
fn cursors_end_with_the_session_and_are_bounded() {
    let server = Server::new();
    let mut c = client(&server);
    let cursor = open(&mut c, "SELECT n FROM t", STATIC);
    let other = open(&mut c, "SELECT n FROM t", STATIC);
    assert_ne!(cursor, other);
    let reply = call(&mut c, 9, vec![int(-1)]);
    assert!(reply.starts_with("return status 0"), "{reply}");
    let mut refused = String::new();
    for _ in 0..5_000 {
        let args = vec![out(0), text("SELECT 1 AS a"), int(STATIC), int(1), out(0)];
        refused = call(&mut c, 2, args);
        if refused.contains("Msg ") {
            break;
        }
    }
    assert!(refused.contains("Msg 16955"), "{refused}");
    c.rpc(RpcRequest {
        procedure: RpcProcedure::Name("sp_reset_connection".into()),
        args: Vec::new(),
        no_metadata: false,
    });
    let again = open(&mut c, "SELECT 1 AS a", STATIC);
    assert_eq!(fetch(&mut c, again, NEXT, 0, 1), (vec![1], 0));
}
