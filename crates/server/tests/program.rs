//! The whole server over loopback: start, log in, work, stop, start again.

mod common;

use common::{Answer, Client, Mode, PASSWORD, login, program_options};
use daruma_server::program::{Program, ProgramOptions};
use daruma_server::{EncryptionPolicy, ServerError};
use daruma_tds::TdsVersion;
use daruma_tds::request::{Begin, Isolation, ProcId, RpcCall, RpcTarget, TransactionRequest};
use daruma_value::{DataType, Value};
use std::path::Path;

/// Declared length of statement texts.
const TEXT: DataType = DataType::NVARCHAR_MAX;

fn options(data_dir: &Path) -> ProgramOptions {
    program_options(data_dir, EncryptionPolicy::On)
}

fn start(data_dir: &Path) -> Program {
    Program::start(&options(data_dir)).expect("starts")
}

fn client(program: &Program) -> Client {
    Client::log_in(
        program.address(),
        Mode::Plain,
        &login("sa", PASSWORD, TdsVersion::V7_4),
    )
    .expect("logs in")
    .0
}

/// Runs a batch that must not fail.
fn run(client: &mut Client, text: &str) -> Answer {
    let answer = client.batch(text).expect("answers");
    assert_eq!(answer.errors(), [], "{text}");
    answer
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut c = client(&program);
    run(&mut c, "create table t (a int primary key, b nvarchar(20))");
    let inserted = run(&mut c, "insert into t values (1, N'one'), (2, NULL)");
    assert_eq!(inserted.last_done().count(), Some(2));
    run(&mut c, "begin tran; insert into t values (3, N'never')");
    program.stop().expect("stops");

    let program = start(dir.path());
    let mut c = client(&program);
    let rows = run(&mut c, "select a, b from t order by a").rows();
    assert_eq!(
        rows,
        [
            vec![Value::Int(1), Value::str("one")],
            vec![Value::Int(2), Value::Null]
        ]
    );
    program.stop().expect("stops");
}

#[test]
fn logins_are_checked_and_refusals_say_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    for (user, password, number) in [
        ("sa", "wrong", 18456),
        ("nobody", PASSWORD, 18456),
        ("", "", 18456),
    ] {
        let refused = Client::log_in(
            program.address(),
            Mode::LoginOnly,
            &login(user, password, TdsVersion::V7_4),
        );
        let errors = refused.expect("answers").1.errors();
        assert_eq!((errors[0].number, errors[0].state), (number, 1), "{user}");
        assert_eq!(errors[0].text, format!("Login failed for user '{user}'."));
    }
    let mut asked = login("sa", PASSWORD, TdsVersion::V7_4);
    asked.database = "nowhere".into();
    let answer = Client::log_in(program.address(), Mode::Plain, &asked)
        .expect("answers")
        .1;
    assert_eq!(answer.error_numbers(), [4060, 18456]);
    let log = program.instance().log.read(0).expect("reads the log");
    let text: String = log.iter().map(|entry| entry.text.clone() + "\n").collect();
    assert!(
        text.contains("Severity: 14, State: 8.") && text.contains("Severity: 14, State: 5."),
        "{text}"
    );
    program.stop().expect("stops");
}

#[test]
fn calls_with_output_and_prepared_handles() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut c = client(&program);
    let call = RpcCall::new(RpcTarget::Id(ProcId::ExecuteSql))
        .with("", TEXT, Value::str("set @b = @a * 2; select @a as a"))
        .with("", TEXT, Value::str("@a int, @b int output"))
        .with("@a", DataType::Int, Value::Int(21))
        .with_output("@b", DataType::Int, Value::Null);
    let answer = c.rpc(vec![call]).expect("answers");
    assert_eq!(answer.errors(), []);
    assert_eq!(answer.rows(), [vec![Value::Int(21)]]);
    assert_eq!(answer.return_values()[0].value, Value::Int(42));

    let prepare = RpcCall::new(RpcTarget::Id(ProcId::PrepExec))
        .with_output("", DataType::Int, Value::Null)
        .with("", TEXT, Value::str("@p int"))
        .with("", TEXT, Value::str("select @p + 1 as n"))
        .with("", DataType::Int, Value::Int(1));
    let answer = c.rpc(vec![prepare]).expect("answers");
    assert_eq!(answer.rows(), [vec![Value::Int(2)]]);
    let handle = answer.return_values()[0].value.clone();
    let execute = |n| {
        RpcCall::new(RpcTarget::Id(ProcId::Execute))
            .with("", DataType::Int, handle.clone())
            .with("", DataType::Int, Value::Int(n))
    };
    let answer = c.rpc(vec![execute(10), execute(20)]).expect("answers");
    assert_eq!(answer.rows(), [vec![Value::Int(11)], vec![Value::Int(21)]]);
    let unprepare = RpcCall::new(RpcTarget::Name("sp_unprepare".into())).with(
        "",
        DataType::Int,
        handle.clone(),
    );
    assert_eq!(c.rpc(vec![unprepare]).expect("answers").errors(), []);
    assert_eq!(
        c.rpc(vec![execute(1)]).expect("answers").error_numbers(),
        [8179]
    );
    program.stop().expect("stops");
}

#[test]
fn transactions_by_request_and_two_sessions() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let (mut a, mut b) = (client(&program), client(&program));
    run(&mut a, "create table t (a int primary key)");
    let begin = TransactionRequest::Begin(Begin {
        isolation: Isolation::ReadCommitted,
        name: String::new(),
    });
    a.transaction(&begin).expect("answers");
    assert_ne!(a.transaction, 0);
    run(&mut a, "insert into t values (1)");
    a.transaction(&TransactionRequest::Rollback {
        name: String::new(),
        next: None,
    })
    .expect("answers");
    assert_eq!(a.transaction, 0);
    a.transaction(&begin).expect("answers");
    run(&mut a, "insert into t values (2)");
    a.transaction(&TransactionRequest::Commit {
        name: String::new(),
        next: None,
    })
    .expect("answers");
    assert_eq!(run(&mut b, "select a from t").rows(), [vec![Value::Int(2)]]);
    program.stop().expect("stops");
}

#[test]
fn attention_ends_waitfor_and_a_lock_wait() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let (mut a, mut b) = (client(&program), client(&program));
    a.send_batch("waitfor delay '01:00:00'").expect("sends");
    a.attention().expect("sends");
    a.receive_cancelled().expect("answers");
    run(
        &mut a,
        "create table t (a int primary key, b int); insert into t values (1, 1)",
    );
    run(&mut a, "begin tran; update t set b = 2");
    b.send_batch("update t set b = 3").expect("sends");
    b.attention().expect("sends");
    b.receive_cancelled().expect("answers");
    run(&mut a, "commit");
    assert_eq!(run(&mut b, "select b from t").rows(), [vec![Value::Int(2)]]);
    program.stop().expect("stops");
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let refused = Program::start(&options(dir.path())).err();
    assert!(
        matches!(refused, Some(ServerError::InUse { .. })),
        "{refused:?}"
    );
    client(&program);
    program.stop().expect("stops");
    start(dir.path()).stop().expect("stops");
}

#[test]
fn a_made_password_is_shown_once() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let without = ProgramOptions {
        sa_password: None,
        ..options(dir.path())
    };
    let program = Program::start(&without).expect("starts");
    let made = program.made_password().expect("made").to_string();
    assert_eq!(made.len(), 20);
    Client::log_in(
        program.address(),
        Mode::Full,
        &login("sa", &made, TdsVersion::V7_4),
    )
    .expect("logs in");
    program.stop().expect("stops");
    let program = Program::start(&without).expect("starts");
    assert_eq!(program.made_password(), None);
    let (_, answer) = Client::log_in(
        program.address(),
        Mode::Full,
        &login("sa", &made, TdsVersion::V7_4),
    )
    .expect("answers");
    assert_eq!(answer.errors(), []);
    program.stop().expect("stops");
}
