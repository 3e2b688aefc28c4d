//! The whole server over loopback: start, log in, work, stop, start again.

mod common;

use common::{Answer, Client, Mode, PASSWORD, client, login, program_options, run, start};
use daruma_server::program::{Program, ProgramOptions};
use daruma_server::{EncryptionPolicy, ServerError};
use daruma_tds::TdsVersion;
use daruma_tds::packet::Reset;
use daruma_tds::request::{Begin, Isolation, ProcId, RpcCall, RpcTarget, TransactionRequest};
use daruma_value::{DataType, Value};
use std::path::Path;

/// Declared length of statement texts.
const TEXT: DataType = DataType::NVARCHAR_MAX;

fn options(data_dir: &Path) -> ProgramOptions {
    program_options(data_dir, EncryptionPolicy::On)
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
fn a_logon_trigger_refuses_logins_and_keeps_nobody_out_for_good() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut c = client(&program);
    let password = "Pq-stuvwxyz-1";
    run(
        &mut c,
        &format!("create login somebody with password = '{password}'"),
    );
    run(&mut c, "create table heard (who sysname, kind sysname)");
    run(
        &mut c,
        "create trigger door on all server with execute as self for logon as
         if original_login() = 'somebody' rollback
         else
         begin
             exec sp_set_session_context N'came', N'by the door'
             insert heard select original_login(), eventdata().value('(/EVENT_INSTANCE/EventType)[1]', 'sysname')
         end",
    );
    let asked = |user: &str, password: &str| {
        let login = login(user, password, TdsVersion::V7_4);
        Client::log_in(program.address(), Mode::Full, &login).expect("answers")
    };
    let refused = asked("somebody", password).1.errors();
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].number, refused[0].class), (17892, 14));
    assert_eq!(
        refused[0].text,
        "Logon failed for login 'somebody' due to trigger execution."
    );
    let (mut other, answer) = asked("sa", PASSWORD);
    assert!(answer.error_numbers().is_empty());
    let told = run(
        &mut other,
        "select who, kind, cast(session_context(N'came') as nvarchar(20)), @@trancount from heard",
    );
    let text = |text: &str| Value::str(text);
    let row = vec![
        text("sa"),
        text("LOGON"),
        text("by the door"),
        Value::Int(0),
    ];
    assert_eq!(told.rows(), [row]);
    // A session that is set back for its pool is no new one.
    let reset = other.batch_with_reset("select count(*) from heard", Reset::Full);
    assert_eq!(reset.expect("answers").rows(), [vec![Value::Int(1)]]);
    // It runs as whoever made it: the other login may not write there itself.
    run(
        &mut c,
        &format!("create login other with password = '{password}'"),
    );
    let (mut guest, answer) = asked("other", password);
    assert!(answer.error_numbers().is_empty());
    let own = run(&mut guest, "select suser_sname()");
    assert_eq!(own.rows(), [vec![text("other")]]);
    let denied = guest
        .batch("insert heard values ('other', 'x')")
        .expect("answers");
    assert_eq!(denied.error_numbers(), [229]);
    let count = run(&mut c, "select count(*) from heard where who = 'other'");
    assert_eq!(count.rows(), [vec![Value::Int(1)]]);
    // One that takes its time can be stopped.
    run(
        &mut c,
        "alter trigger door on all server for logon as waitfor delay '01:00:00'",
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| asked("other", password).1.error_numbers());
        let asleep = "select cast(session_id as int) from sys.dm_exec_requests
             where wait_type = 'WAITFOR'";
        let spid = loop {
            if let [row] = run(&mut c, asleep).rows().as_slice()
                && let [Value::Int(spid)] = row.as_slice()
            {
                break *spid;
            }
        };
        run(&mut c, &format!("kill {spid}"));
        assert_eq!(waits.join().expect("ends"), [17892]);
    });
    // An error of its own refuses, too, and so does a transaction that it leaves open.
    for body in ["throw 50001, 'closed', 1", "begin transaction", "rollback"] {
        let altered = run(
            &mut c,
            &format!("alter trigger door on all server for logon as {body}"),
        );
        assert!(altered.error_numbers().is_empty());
        assert_eq!(asked("sa", PASSWORD).1.error_numbers(), [17892], "{body}");
    }
    program.stop().expect("stops");

    let without = ProgramOptions {
        without_logon_triggers: true,
        ..options(dir.path())
    };
    let program = Program::start(&without).expect("starts");
    let mut c = client(&program);
    let dropped = run(&mut c, "drop trigger door on all server");
    assert!(dropped.error_numbers().is_empty());
    program.stop().expect("stops");
    let program = start(dir.path());
    client(&program);
    program.stop().expect("stops");
}

#[test]
fn a_password_is_made_once() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let without = ProgramOptions {
        sa_password: None,
        ..options(dir.path())
    };
    let program = Program::start(&without).expect("starts");
    let made = program.made_password().expect("made");
    let file = std::fs::read_to_string(made.file()).expect("reads");
    let made = made.text().to_string();
    assert_eq!((made.len(), file), (20, format!("{made}\n")));
    Client::log_in(
        program.address(),
        Mode::Full,
        &login("sa", &made, TdsVersion::V7_4),
    )
    .expect("logs in");
    program.stop().expect("stops");
    let program = Program::start(&without).expect("starts");
    assert!(program.made_password().is_none());
    let (_, answer) = Client::log_in(
        program.address(),
        Mode::Full,
        &login("sa", &made, TdsVersion::V7_4),
    )
    .expect("answers");
    assert_eq!(answer.errors(), []);
    program.stop().expect("stops");
}

/// What one user of a pooled connection leaves behind, and what the next one would see of it.
const LEFT: &str = "use d; execute as user = 'ann' with no revert; create table #left (a int); create table ##left (a int); \
    set transaction isolation level serializable; set language German; set rowcount 1; set nocount on; set lock_timeout 7; \
    set context_info 0x4142; exec sp_set_session_context 'k', 'v'; declare left_open cursor global for select 1; open left_open; \
    insert dbo.kept values (2); begin transaction; insert dbo.kept values (3)";

const SEEN: &[(&str, &str)] = &[
    ("user", "select user_name() + ' ' + suser_sname()"),
    ("database", "select db_name()"),
    ("table", "select isnull(object_id('tempdb..#left'), 0)"),
    (
        "global table",
        "select isnull(object_id('tempdb..##left'), 0)",
    ),
    (
        "isolation",
        "select transaction_isolation_level from sys.dm_exec_sessions where session_id = @@spid",
    ),
    ("language", "select @@language"),
    ("first day", "select @@datefirst"),
    ("lock timeout", "select @@lock_timeout"),
    ("options", "select @@options"),
    ("context", "select context_info()"),
    ("session context", "select session_context(N'k')"),
    ("cursor", "select cursor_status('global', 'left_open')"),
    ("transaction", "select @@trancount"),
    ("identity", "select @@identity"),
    ("rows", "select count(*) from (values (1), (2)) as v(a)"),
];

fn seen(client: &mut Client) -> Vec<String> {
    let value = |client: &mut Client, text: &str| format!("{:?}", run(client, text).rows());
    let seen = SEEN.iter();
    seen.map(|(what, text)| format!("{what}: {}", value(client, text)))
        .collect()
}

fn call(client: &mut Client, name: &str) -> Answer {
    let answer = client.rpc(vec![RpcCall::new(RpcTarget::Name(name.into()))]);
    answer.expect("answers")
}

#[test]
fn a_connection_that_is_reset_by_a_call_is_as_after_the_login() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut admin = client(&program);
    run(&mut admin, "create database d");
    run(
        &mut admin,
        "use d; create table dbo.kept (a int); create user ann without login; grant insert on dbo.kept to ann",
    );
    let mut other = client(&program);
    let fresh = seen(&mut other);
    for name in [
        "sp_reset_connection",
        "sys.sp_reset_connection",
        "[dbo].[SP_RESET_CONNECTION]",
        "master..sp_reset_connection",
    ] {
        let mut c = client(&program);
        let prepare = RpcCall::new(RpcTarget::Id(ProcId::Prepare))
            .with_output("@handle", DataType::Int, Value::Null)
            .with("@params", TEXT, Value::Null)
            .with("@stmt", TEXT, Value::str("select 1"));
        let prepared = c.rpc(vec![prepare]).expect("answers");
        let handle = prepared.return_values()[0].value.clone();
        run(&mut c, LEFT);
        assert_ne!(c.transaction, 0);
        let answer = call(&mut c, name);
        assert_eq!(answer.errors(), [], "{name}");
        assert_eq!(c.transaction, 0, "the client was told of the rollback");
        assert_eq!(seen(&mut c), fresh, "{name}");
        let execute =
            RpcCall::new(RpcTarget::Id(ProcId::Execute)).with("@handle", DataType::Int, handle);
        assert_eq!(
            c.rpc(vec![execute]).expect("answers").error_numbers(),
            [8179]
        );
        let rows = run(&mut c, "select max(a) from d.dbo.kept").rows();
        assert_eq!(rows, [vec![Value::Int(2)]], "{name}");
    }
    // It is the client's to call, not a statement's: what runs cannot be taken from under itself.
    let refused = other.batch("exec sp_reset_connection").expect("answers");
    assert_eq!(refused.error_numbers(), [2812]);
    program.stop().expect("stops");
}

#[test]
fn both_bits_of_the_header_reset_and_one_keeps_the_transaction() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut admin = client(&program);
    run(&mut admin, "create database d");
    run(
        &mut admin,
        "use d; create table dbo.kept (a int); create user ann without login; grant insert on dbo.kept to ann",
    );
    let fresh = seen(&mut client(&program));
    let mut c = client(&program);
    run(&mut c, LEFT);
    let answer = c
        .batch_with_reset("select @@trancount", Reset::Full)
        .expect("answers");
    assert_eq!(answer.rows(), [vec![Value::Int(0)]]);
    c.transaction = 0;
    assert_eq!(seen(&mut c), fresh);
    let mut c = client(&program);
    run(&mut c, LEFT);
    let answer = c
        .batch_with_reset("select @@trancount", Reset::KeepTransaction)
        .expect("answers");
    assert_eq!(answer.rows(), [vec![Value::Int(1)]]);
    let differs: Vec<String> = seen(&mut c)
        .into_iter()
        .filter(|line| !fresh.contains(line))
        .collect();
    let about: Vec<&str> = differs.iter().filter_map(|l| l.split(':').next()).collect();
    assert_eq!(about, ["isolation", "transaction"]);
    program.stop().expect("stops");
}

#[test]
fn a_reset_connection_whose_database_is_closed_to_it_ends() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut admin = client(&program);
    run(
        &mut admin,
        "create database d; create login ann with password = 'Daruma-2026', default_database = d",
    );
    run(&mut admin, "use d; create user ann for login ann");
    let mut ann = Client::log_in(
        program.address(),
        Mode::Plain,
        &login("ann", "Daruma-2026", TdsVersion::V7_4),
    )
    .expect("logs in")
    .0;
    assert_eq!(
        run(&mut ann, "select db_name()").rows(),
        [vec![Value::str("d")]]
    );
    run(&mut admin, "revoke connect from ann");
    let answer = call(&mut ann, "sp_reset_connection");
    assert_eq!(answer.error_numbers(), [4060]);
    program.stop().expect("stops");
}
