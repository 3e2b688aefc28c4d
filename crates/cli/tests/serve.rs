//! The server as a process: what the system may do to it.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const DARUMA: &str = env!("CARGO_BIN_EXE_daruma");
const PASSWORD: &str = "Serve-as-a-process-1";
/// Far longer than anything takes here: only what never comes is not there by then.
const LONG: Duration = Duration::from_secs(300);

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

#[test]
fn results_are_shown_while_the_batch_goes_on() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = started(dir.path(), &[]);
    let batch = "select 'a row'; raiserror('a word', 0, 1) with nowait; waitfor delay '01:00'";
    let mut process = Command::new(DARUMA)
        .args(["sql", "-C", "-S", &server.address, "-U", "sa", "-Q", batch])
        .env("SQLCMDPASSWORD", PASSWORD)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let output = process.stdout.take().expect("its output");
    let (told, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        // Nobody listens when all was said.
        lines.for_each(|line| drop(told.send(line)));
    });
    let mut lines = Vec::new();
    while !lines.iter().any(|l: &String| l.contains("a word")) {
        match said.recv_timeout(LONG) {
            Ok(line) => lines.push(line),
            Err(_) => break,
        }
    }
    process.kill().expect("it runs");
    process.wait().expect("its end");
    let text = lines.join("\n");
    assert!(text.contains("a row") && text.contains("a word"), "{text}");
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

/// A configuration file in a folder.
fn conf(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(DARUMA)
        .arg("conf")
        .args(arguments)
        .env("DARUMA_CONF", folder.join("daruma.conf"))
        .output()
        .expect("the program runs")
}

#[test]
fn a_service_manager_is_told_that_the_server_is_ready_lives_and_stops() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let socket = dir.path().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("socket");
    manager.set_read_timeout(Some(LONG)).expect("timeout");
    let next = || {
        let mut text = [0; 64];
        let bytes = manager.recv(&mut text).expect("a word");
        String::from_utf8_lossy(&text[..bytes]).into_owned()
    };
    let mut command = Command::new(DARUMA);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir.path().join("data"))
        .env("NOTIFY_SOCKET", &socket)
        // Each sign of life waits a second for the port's answer: nobody is late by so much.
        .env("WATCHDOG_USEC", "6000000");
    let mut server = run(command);
    assert_eq!(next(), "READY=1");
    assert_eq!(
        (next().as_str(), next().as_str()),
        ("WATCHDOG=1", "WATCHDOG=1")
    );
    let pid = server.process.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("kill").success());
    let mut said = next();
    while said == "WATCHDOG=1" {
        said = next();
    }
    assert_eq!(said, "STOPPING=1");
    assert!(server.process.wait().expect("ends").success());
    // A sign of life is no lost connection.
    let log = std::fs::read_to_string(dir.path().join("data/log/errorlog")).expect("reads");
    assert!(!log.contains("Error: 178"), "{log}");
}

#[test]
fn a_file_is_made_by_conf_and_read_by_the_server() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let data = dir.path().join("data");
    let told = |output: &Output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let named = data.display().to_string();
    for (name, value) in [
        ("filelocation.defaultdatadir", named.as_str()),
        ("network.tcpport", "0"),
        ("traceflag.traceflag0", "1222"),
    ] {
        let set = conf(dir.path(), &["set", name, value]);
        assert!(set.status.success(), "{}", told(&set));
    }
    let got = conf(dir.path(), &["get", "network"]);
    assert_eq!(told(&got), "network.tcpport = 0\n");
    for (name, value, help) in [
        ("network.tcpport", "many", "is not a port"),
        ("network.port", "1", "daruma conf list"),
        ("filelocation.masterlogfile", "/m.ldf", "defaultdatadir"),
        ("memory.memorylimitmb", "95", "less than the 96 megabytes"),
        ("hadr.hadrenabled", "maybe", "neither 1 nor 0"),
    ] {
        let refused = conf(dir.path(), &["set", name, value]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(told(&refused).contains(help), "{}", told(&refused));
    }
    let typed = told(&conf(dir.path(), &["get", "netwrok"]));
    assert!(typed.contains("daruma conf list"), "{typed}");
    let empty = told(&conf(dir.path(), &["get", "memory"]));
    assert!(empty.contains("memory is not set"), "{empty}");
    let agent = told(&conf(dir.path(), &["set", "sqlagent.enabled", "true"]));
    assert!(agent.contains("jobs do not run"), "{agent}");
    let listed = told(&conf(dir.path(), &["list"]));
    assert!(
        listed.contains("network.tcpport") && listed.contains("MSSQL_TCP_PORT"),
        "{listed}"
    );

    let mut command = Command::new(DARUMA);
    command
        .args(["serve", "--config"])
        .arg(dir.path().join("daruma.conf"));
    let server = run(command);
    assert!(data.join("master.mdf").exists());
    let flags = sql(&server, "SET NOCOUNT ON; DBCC TRACESTATUS(-1)");
    assert!(told(&flags).contains("1222"), "{}", told(&flags));
    drop(server);

    let half = conf(dir.path(), &["set", "network.tlscert", "/nowhere.pem"]);
    assert!(
        half.status.success() && told(&half).contains("set both or neither"),
        "{}",
        told(&half)
    );
    let mut command = Command::new(DARUMA);
    command
        .args(["serve", "--config"])
        .arg(dir.path().join("daruma.conf"));
    let refused = command.output().expect("the program runs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        told(&refused).contains("set both or neither"),
        "{}",
        told(&refused)
    );
    let unset = conf(dir.path(), &["unset", "network.tlscert"]);
    assert!(unset.status.success());
    assert_eq!(
        conf(dir.path(), &["unset", "network.tlscert"])
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn man_pages_and_completion_are_made_of_the_commands() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let made = Command::new(DARUMA).arg("manual").arg(dir.path()).status();
    assert!(made.expect("runs").success());
    for page in [
        "daruma.1",
        "daruma-serve.1",
        "daruma-conf-set.1",
        "daruma-group-create.1",
        "sqlcmd.1",
    ] {
        let text = std::fs::read_to_string(dir.path().join(page)).expect(page);
        assert!(text.starts_with(".ie") && text.contains(".TH"), "{page}");
    }
    assert!(!dir.path().join("daruma-manual.1").exists());
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(DARUMA).args(["completion", shell]).output();
        let text = String::from_utf8(output.expect("runs").stdout).expect("text");
        assert!(
            text.contains("print-log") && text.contains("failover"),
            "{shell}"
        );
    }
}
