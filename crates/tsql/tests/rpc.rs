//! Remote procedure calls and transaction manager requests.

mod common;

use common::calls::{arg, output, request, text};
use common::{Client, Server};
use daruma_tsql::error::Result;
use daruma_tsql::session::{
    RequestEnd, RpcArgument, RpcProcedure, RpcRequest, SentColumn, SentTable, TableArgument,
    TakeRow, TransactionRequest,
};
use daruma_value::{DataType, Value};
use std::sync::Arc;

fn client(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d");
    c
}

#[test]
fn executesql_takes_and_gives_parameters() {
    let server = Server::new();
    let mut c = client(&server);
    c.sink.verbose = true;
    let out = c.rpc(request(
        10,
        vec![
            text("SET @b = @a * 2; SELECT @a AS a"),
            text("@a int, @b int OUTPUT"),
            arg("@a", Value::Int(21), DataType::Int),
            output(arg("@b", Value::Null, DataType::Int)),
        ],
    ));
    assert_eq!(
        out,
        "a\n21\n(1 row affected)\nreturn status 0\n@b = 42\ndone Procedure 0xe0\n"
    );
}

#[test]
fn what_cannot_be_parsed_is_not_prepared() {
    let server = Server::new();
    let mut c = client(&server);
    let handle = output(arg("", Value::Null, DataType::Int));
    let out = c.rpc(request(11, vec![handle, text(""), text("SELECT FROM t")]));
    assert!(out.contains("Msg 156") && out.contains("Msg 8180"), "{out}");
}

#[test]
fn prepared_statements_keep_their_handles() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(10)); INSERT t VALUES (1, 'a'), (2, 'b')");
    let out = c.rpc(request(
        13,
        vec![
            output(arg("", Value::Null, DataType::Int)),
            text("@p int"),
            text("SELECT v FROM t WHERE id = @p"),
            arg("", Value::Int(2), DataType::Int),
        ],
    ));
    assert_eq!(out, "v\nb\n(1 row affected)\n = 1\n");
    let again = c.rpc(request(
        12,
        vec![
            arg("", Value::Int(1), DataType::Int),
            arg("", Value::Int(1), DataType::Int),
        ],
    ));
    assert_eq!(again, "v\na\n(1 row affected)\n");
    let dropped = c.rpc(request(15, vec![arg("", Value::Int(1), DataType::Int)]));
    assert_eq!(dropped, "");
    let gone = c.rpc(request(12, vec![arg("", Value::Int(1), DataType::Int)]));
    assert!(gone.starts_with("Msg 8179"), "{gone}");
    let prepared = c.rpc(request(
        11,
        vec![
            output(arg("", Value::Null, DataType::Int)),
            text("@p int"),
            text("SELECT @p AS p"),
        ],
    ));
    assert_eq!(prepared, " = 2\n");
}

#[test]
fn procedures_run_by_name() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("CREATE PROC p @a int, @b varchar(10) = 'def', @o int OUTPUT AS SELECT @a AS a, @b AS b; SET @o = 9; RETURN 3");
    c.sink.verbose = true;
    let request = RpcRequest {
        procedure: RpcProcedure::Name("[dbo].[p]".to_string()),
        args: vec![
            arg("@a", Value::SmallInt(5), DataType::SmallInt),
            output(arg("@o", Value::Null, DataType::Int)),
        ],
        no_metadata: false,
    };
    let out = c.rpc(request);
    assert_eq!(
        out,
        "a | b\n5 | def\n(1 row affected)\nreturn status 3\n@o = 9\ndone Procedure 0xe0\n"
    );
}

#[test]
fn an_error_in_a_call_is_told_once() {
    let server = Server::new();
    let mut c = client(&server);
    let out = c.rpc(request(10, vec![text("SELECT * FROM nope"), text("")]));
    assert_eq!(
        out,
        "Msg 208, Level 16, State 1, Line 1\nInvalid object name 'nope'.\n"
    );
    assert_eq!(c.scalar("SELECT @@TRANCOUNT"), "0");
}

#[test]
fn clients_drive_transactions() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("CREATE TABLE t (id int)");
    c.sink.verbose = true;
    let begin = TransactionRequest::Begin {
        isolation: 2,
        name: String::new(),
    };
    assert!(c.transaction(&begin).starts_with("env BeginTransaction("));
    assert!(c.session.transaction_descriptor() != 0);
    c.run("INSERT t VALUES (1)");
    let save = TransactionRequest::Save {
        name: "s".to_string(),
    };
    c.transaction(&save);
    c.run("INSERT t VALUES (2)");
    let back = TransactionRequest::Rollback {
        name: "s".to_string(),
        begin: None,
    };
    c.transaction(&back);
    let commit = TransactionRequest::Commit {
        name: String::new(),
        begin: Some((0, String::new())),
    };
    let out = c.transaction(&commit);
    assert!(
        out.contains("env CommitTransaction") && out.contains("env BeginTransaction"),
        "{out}"
    );
    let rollback = TransactionRequest::Rollback {
        name: String::new(),
        begin: None,
    };
    c.transaction(&rollback);
    assert_eq!(c.session.transaction_descriptor(), 0);
    assert_eq!(c.scalar("SELECT COUNT(*) FROM t"), "1");
    let nothing = c.transaction(&rollback);
    assert!(nothing.starts_with("Msg 3903"), "{nothing}");
}

#[test]
fn reset_brings_the_login_state_back() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("CREATE PROCEDURE #p AS SELECT 1");
    c.run("CREATE PROCEDURE ##p AS SELECT 1");
    c.run("SET XACT_ABORT ON; CREATE TABLE #t (a int); BEGIN TRAN; SET LOCK_TIMEOUT 5");
    assert_eq!(c.scalar("EXEC ##p"), "1");
    c.session.reset(false, &mut c.sink).unwrap();
    c.sink.take();
    assert_eq!(c.session.database_name(), "master");
    assert_eq!(c.scalar("SELECT @@TRANCOUNT"), "0");
    assert_eq!(c.scalar("SELECT @@LOCK_TIMEOUT"), "-1");
    assert!(c.run("SELECT * FROM #t").starts_with("Msg 208"));
    assert!(c.run("EXEC #p").starts_with("Msg 2812"));
    assert!(c.run("EXEC ##p").starts_with("Msg 2812"));
}

#[test]
fn temporary_procedures_go_with_their_session() {
    let server = Server::new();
    let (mut maker, mut other) = (client(&server), client(&server));
    maker.run("CREATE PROCEDURE #p AS SELECT 1");
    maker.run("CREATE PROCEDURE ##p AS SELECT 2");
    assert!(other.run("EXEC #p").starts_with("Msg 2812"));
    assert_eq!(other.scalar("EXEC ##p"), "2");
    drop(maker);
    assert!(other.run("EXEC ##p").starts_with("Msg 2812"));
}

#[test]
fn severe_errors_end_the_connection() {
    let server = Server::new();
    let mut c = client(&server);
    let out = c.run("RAISERROR('fatal', 20, 1) WITH LOG\nPRINT 'never'");
    assert_eq!(out, "Msg 50000, Level 20, State 1, Line 1\nfatal\n");
    assert_eq!(c.ended, RequestEnd::Disconnect);
    let log = server.instance.log.read(0).unwrap();
    assert!(log.iter().any(|l| l.text.contains("Severity: 20")));
}

#[test]
fn a_killed_session_stops() {
    let server = Server::new();
    let mut victim = client(&server);
    let mut other = server.connect();
    let spid = victim.session.spid();
    assert_eq!(other.run(&format!("KILL {spid}")), "");
    let out = victim.run("SELECT 1");
    assert!(out.starts_with("Msg 596, Level 21"), "{out}");
    assert_eq!(victim.ended, RequestEnd::Disconnect);
}

#[test]
fn an_attention_stops_the_batch_and_keeps_the_transaction() {
    let server = Server::new();
    let mut c = client(&server);
    c.run("BEGIN TRAN");
    c.session
        .cancel_flag()
        .set(daruma_base::cancel::CancelReason::Attention);
    c.run("SELECT 1");
    assert_eq!(c.ended, RequestEnd::Cancelled);
    assert_eq!(c.scalar("SELECT @@TRANCOUNT"), "1");
}

#[test]
fn a_function_called_by_name_gives_its_value() {
    let server = Server::new();
    let mut c = client(&server);
    c.run(
        "CREATE FUNCTION dbo.twice (@n int, @m int = 2) RETURNS bigint AS BEGIN RETURN @n * @m END",
    );
    c.run("CREATE FUNCTION dbo.text (@n int) RETURNS varchar(20) AS BEGIN DECLARE @s varchar(20) = REPLICATE('x', @n) RETURN @s END");
    c.run("CREATE FUNCTION dbo.rows_of (@n int) RETURNS TABLE AS RETURN (SELECT @n AS n)");
    c.sink.verbose = true;
    let by_name = |name: &str, args: Vec<RpcArgument>| RpcRequest {
        procedure: RpcProcedure::Name(name.to_string()),
        args,
        no_metadata: false,
    };
    let int = |n: i32| arg("", Value::Int(n), DataType::Int);
    let end = "done Procedure 0xe0\n";
    let value =
        |text: &str, kind: &str| format!("return status 0\nfunction value {text} of {kind}\n{end}");
    let out = c.rpc(by_name("dbo.twice", vec![int(21)]));
    assert_eq!(out, value("42", "bigint"));
    let out = c.rpc(by_name(
        "[d].[dbo].[twice]",
        vec![
            arg("@m", Value::Int(3), DataType::Int),
            arg("@n", Value::Int(5), DataType::Int),
        ],
    ));
    assert_eq!(out, value("15", "bigint"));
    assert_eq!(
        c.rpc(by_name("dbo.text", vec![int(3)])),
        value("xxx", "varchar")
    );
    assert_eq!(
        c.rpc(by_name("dbo.text", vec![int(-1)])),
        value("NULL", "varchar")
    );
    let refused = c.rpc(by_name("dbo.rows_of", vec![int(3)]));
    assert!(
        refused.contains("Msg 2809") && !refused.contains("function value"),
        "{refused}"
    );
    let refused = c.rpc(by_name("dbo.twice", vec![output(int(1))]));
    assert!(refused.contains("Msg 8162"), "{refused}");
}

/// Rows as a connection hands them on.
struct Rows {
    type_name: (&'static str, &'static str),
    columns: Vec<SentColumn>,
    rows: Vec<Vec<Value>>,
    is_default: bool,
}

impl SentTable for Rows {
    fn type_name(&self) -> (&str, &str) {
        self.type_name
    }

    fn is_default(&self) -> bool {
        self.is_default
    }

    fn columns(&self) -> Vec<SentColumn> {
        self.columns.clone()
    }

    fn each_row(&self, take: &mut TakeRow<'_>) -> Result<()> {
        self.rows.iter().try_for_each(|row| take(&mut row.clone()))
    }
}

fn column(ordinal: usize, data_type: DataType, is_default: bool) -> SentColumn {
    SentColumn {
        ordinal,
        data_type,
        is_default,
    }
}

const INT: DataType = DataType::Int;

/// Two columns of `dbo.Pair`, in their order.
fn pairs(rows: Vec<Vec<Value>>) -> Rows {
    Rows {
        type_name: ("dbo", "Pair"),
        columns: vec![
            column(0, INT, false),
            column(1, DataType::NVARCHAR_MAX, false),
        ],
        rows,
        is_default: false,
    }
}

fn table(name: &str, rows: Rows) -> RpcArgument {
    RpcArgument {
        table: Some(TableArgument::Sent(Arc::new(rows))),
        ..arg(name, Value::Null, INT)
    }
}

fn named(procedure: &str, args: Vec<RpcArgument>) -> RpcRequest {
    RpcRequest {
        procedure: RpcProcedure::Name(procedure.to_string()),
        args,
        no_metadata: false,
    }
}

fn with_types() -> (Server, Client) {
    let server = Server::new();
    let mut c = client(&server);
    c.run("CREATE TYPE Pair AS TABLE (id int NOT NULL PRIMARY KEY CHECK (id > 0), v varchar(5) DEFAULT 'none')");
    c.run("CREATE TYPE Made AS TABLE (n int IDENTITY(5, 5), a int, b AS a + 1, r rowversion)");
    c.run("CREATE PROCEDURE p @t Pair READONLY AS SELECT id, v FROM @t ORDER BY id");
    c.run("CREATE PROCEDURE m @t Made READONLY AS SELECT n, a, b FROM @t ORDER BY n");
    (server, c)
}

#[test]
fn tables_come_with_calls() {
    let (_server, mut c) = with_types();
    let rows = || {
        vec![
            vec![Value::Int(2), Value::str("two")],
            vec![Value::Int(1), Value::Null],
        ]
    };
    let shown = "id | v\n1 | NULL\n2 | two\n(2 rows affected)\n";
    assert_eq!(c.rpc(named("p", vec![table("@t", pairs(rows()))])), shown);
    // By position, without a name of the type, with the columns the other way round.
    let turned = Rows {
        type_name: ("", ""),
        columns: vec![
            column(1, DataType::NVARCHAR_MAX, false),
            column(0, INT, false),
        ],
        rows: rows()
            .into_iter()
            .map(|r| r.into_iter().rev().collect())
            .collect(),
        is_default: false,
    };
    assert_eq!(c.rpc(named("p", vec![table("", turned)])), shown);
    let statement = vec![
        text("SELECT id, v FROM @x ORDER BY id"),
        text("@x dbo.Pair READONLY"),
        table("@x", pairs(rows())),
    ];
    assert_eq!(c.rpc(request(10, statement)), shown);
    let absent = Rows {
        is_default: true,
        columns: Vec::new(),
        ..pairs(Vec::new())
    };
    let none = "id | v\n(0 rows affected)\n";
    assert_eq!(c.rpc(named("p", vec![table("@t", absent)])), none);
    assert_eq!(c.rpc(named("p", Vec::new())), none);
}

#[test]
fn defaults_of_the_type_count() {
    let (_server, mut c) = with_types();
    let defaults = Rows {
        columns: vec![column(0, INT, false), column(1, INT, true)],
        ..pairs(vec![vec![Value::Int(1), Value::Null]])
    };
    let out = c.rpc(named("p", vec![table("@t", defaults)]));
    assert_eq!(out, "id | v\n1 | none\n(1 row affected)\n");
    let made = |defaults: [bool; 4]| Rows {
        type_name: ("dbo", "Made"),
        columns: (0..4).map(|at| column(at, INT, defaults[at])).collect(),
        rows: (1..3).map(|n| vec![Value::Int(n); 4]).collect(),
        is_default: false,
    };
    let out = c.rpc(named(
        "m",
        vec![table("@t", made([true, false, true, true]))],
    ));
    assert_eq!(out, "n | a | b\n5 | 1 | 2\n10 | 2 | 3\n(2 rows affected)\n");
    for (given, number) in [(0, 1077), (2, 271), (3, 273)] {
        let mut defaults = [true, false, true, true];
        defaults[given] = false;
        let out = c.rpc(named("m", vec![table("@t", made(defaults))]));
        assert!(out.starts_with(&format!("Msg {number},")), "{out}");
    }
}

#[test]
fn wrong_tables_are_refused() {
    let (_server, mut c) = with_types();
    let one = |value: Value| vec![vec![Value::Int(1), value]];
    let twice = vec![vec![Value::Int(1), Value::Null]; 2];
    let cases: Vec<(i32, Rows)> = vec![
        (
            2715,
            Rows {
                type_name: ("dbo", "Nothing"),
                ..pairs(Vec::new())
            },
        ),
        (
            2715,
            Rows {
                type_name: ("no", "Pair"),
                ..pairs(Vec::new())
            },
        ),
        (
            206,
            Rows {
                type_name: ("dbo", "Made"),
                ..pairs(Vec::new())
            },
        ),
        (
            500,
            Rows {
                columns: vec![column(0, INT, false)],
                ..pairs(Vec::new())
            },
        ),
        (
            8009,
            Rows {
                columns: vec![column(0, INT, false); 2],
                ..pairs(Vec::new())
            },
        ),
        (
            8009,
            Rows {
                columns: vec![column(0, INT, false), column(usize::MAX, INT, false)],
                ..pairs(Vec::new())
            },
        ),
        (2627, pairs(twice)),
        (2628, pairs(one(Value::str("too long")))),
        (515, pairs(vec![vec![Value::Null, Value::Null]])),
        (547, pairs(vec![vec![Value::Int(0), Value::Null]])),
    ];
    for (number, rows) in cases {
        let out = c.rpc(named("p", vec![table("@t", rows)]));
        assert!(
            out.starts_with(&format!("Msg {number},")),
            "{number}: {out}"
        );
    }
    // A table where a value must be, and the other way round.
    c.run("CREATE PROCEDURE v @n int AS SELECT @n AS n");
    let out = c.rpc(named("v", vec![table("@n", pairs(Vec::new()))]));
    assert!(out.starts_with("Msg 206,"), "{out}");
    let out = c.rpc(named("p", vec![arg("@t", Value::Int(1), INT)]));
    assert!(out.starts_with("Msg 206,"), "{out}");
    let out = c.rpc(named("sp_help", vec![table("@objname", pairs(Vec::new()))]));
    assert!(out.starts_with("Msg 206,"), "{out}");
    let out = c.rpc(named("p", vec![output(table("@t", pairs(Vec::new())))]));
    assert!(out.starts_with("Msg 8162,"), "{out}");
}

#[test]
fn prepared_documents_end_with_a_reset() {
    let server = Server::new();
    let mut c = client(&server);
    let prepare = "DECLARE @h int; EXEC sp_xml_preparedocument @h OUTPUT, N'<a/>'; SELECT @h";
    let rows = "SELECT localname FROM OPENXML(1, '/a')";
    assert_eq!(c.scalar(prepare), "1");
    assert_eq!(c.scalar(rows), "a");
    // Another session has none of them.
    assert_eq!(common::errors(&client(&server).run(rows)), [8179]);
    c.session.reset(false, &mut c.sink).expect("reset");
    c.sink.take();
    assert_eq!(common::errors(&c.run(rows)), [8179]);
    assert_eq!(c.scalar(prepare), "1");
}
