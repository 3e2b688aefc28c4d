//! The server as a process: what the system may do to it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const DARUMA: &str = env!("CARGO_BIN_EXE_daruma");
const PASSWORD: &str = "Serve-as-a-process-1";

struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server whose files may have so many kilobytes.
fn limited(data: &Path, kilobytes: u32) -> Server {
    let script =
        format!("ulimit -f {kilobytes}; exec \"$0\" serve --data \"$1\" --listen 127.0.0.1:0");
    let mut command = Command::new("bash");
    command.args(["-c", &script, DARUMA]).arg(data);
    run(command)
}

/// A server with more arguments.
fn started(data: &Path, arguments: &[&str]) -> Server {
    let mut command = Command::new(DARUMA);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .args(arguments);
    run(command)
}

fn run(mut command: Command) -> Server {
    let mut process = command
        .env("MSSQL_SA_PASSWORD", PASSWORD)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let output = process.stderr.take().expect("its output");
    let line = BufReader::new(output).lines().map_while(Result::ok);
    let ready = line.into_iter().find(|l| l.starts_with("ready "));
    let address = ready.as_deref().and_then(|l| l.split(' ').nth(1));
    Server {
        address: address.expect("an address").replace(':', ","),
        process,
    }
}

fn sql(server: &Server, text: &str) -> Output {
    Command::new(DARUMA)
        .args([
            "sql",
            "-C",
            "-S",
            &server.address,
            "-U",
            "sa",
            "-b",
            "-Q",
            text,
        ])
        .env("SQLCMDPASSWORD", PASSWORD)
        .output()
        .expect("the program runs")
}

#[test]
fn a_server_is_called_as_it_was_told_and_starts_with_its_flags() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = started(
        dir.path(),
        &["--server-name", "Alpha", "-T", "9592", "-T1462"],
    );
    let told = sql(
        &server,
        "set nocount on; select @@servername, serverproperty('ServerName'), (select name from sys.servers where server_id = 0); dbcc tracestatus (-1)",
    );
    let text = String::from_utf8_lossy(&told.stdout);
    assert_eq!(text.matches("Alpha").count(), 3, "{text}");
    assert!(text.contains("9592") && text.contains("1462"), "{text}");
}

#[test]
fn a_file_that_may_grow_no_further_refuses_statements_and_ends_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = limited(dir.path(), 9_000);
    let made = sql(
        &server,
        "create database d; create table d.dbo.t (v char(2000)); insert d.dbo.t values ('kept')",
    );
    assert!(made.status.success(), "{made:?}");
    let fill = "set nocount on; declare @n int = 0; while @n < 100 begin
        insert d.dbo.t select top 100 'x' from sys.all_columns; set @n += 1 end";
    let refused = sql(&server, fill);
    let text = String::from_utf8_lossy(&refused.stdout) + String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{text}");
    assert!(
        text.contains("Msg 1105") || text.contains("Msg 9002"),
        "{text}"
    );
    let alive = sql(
        &server,
        "select count(*) from d.dbo.t where v = 'kept'; create table master.dbo.t (i int)",
    );
    assert!(alive.status.success(), "{alive:?}");
}

fn group(server: &Server, arguments: &[&str]) -> Output {
    Command::new(DARUMA)
        .arg("group")
        .args(arguments)
        .args(["-C", "-U", "sa", "-S", &server.address])
        .env("SQLCMDPASSWORD", PASSWORD)
        .output()
        .expect("the program runs")
}

/// A second time, what is there is kept and the group is named as there.
#[test]
fn a_group_of_one_is_made_once() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = started(dir.path(), &["--server-name", "alpha"]);
    let create = ["create", "g", "--endpoint", "tcp://alpha:5022"];
    let made = group(&server, &create);
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(
        made.status.success() && text.contains("the server has an endpoint"),
        "{text}"
    );
    let token = String::from_utf8_lossy(&made.stdout);
    assert!(token.starts_with("daruma-group-1-"), "{token}");
    let again = group(&server, &create);
    let text = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && text.contains("41042"), "{text}");
    let keys = sql(
        &server,
        "set nocount on; select (select count(*) from sys.certificates), (select count(*) from sys.symmetric_keys)",
    );
    let text = String::from_utf8_lossy(&keys.stdout);
    assert!(
        text.split_whitespace().filter(|w| *w == "1").count() == 2,
        "{text}"
    );
    let status = group(&server, &["status", "--json"]);
    let text = String::from_utf8_lossy(&status.stdout);
    assert!(
        text.contains(r#""databases":[]"#) && text.contains(r#""role":"PRIMARY","server":"alpha""#),
        "{text}"
    );
    let cut = [
        "join",
        "daruma-group-1-00",
        "--endpoint",
        "tcp://bravo:5022",
    ];
    assert!(!group(&server, &cut).status.success());
    let refused = group(&server, &["failover", "g"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("41122"),
        "{text}"
    );
}
