//! The whole server over loopback: what it does when databases, files and clients are not as they should be.

mod common;

use common::gated::{Gate, GatedDisk};
use common::{Client, Mode, PASSWORD, client_in, login, program_options, run, start};
use daruma_base::Env;
use daruma_server::EncryptionPolicy;
use daruma_server::program::{Program, environment};
use daruma_tds::TdsVersion;
use daruma_value::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Far longer than anything takes here: only what never comes is not there by then.
const LONG: Duration = Duration::from_secs(300);

/// Test suites create, use and drop databases, each with a connection of its own that they have just closed.
#[test]
fn a_database_can_be_dropped_as_soon_as_its_clients_are_gone() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut admin = client_in(&program, Mode::Plain, "master");
    for round in 0..20 {
        run(
            &mut admin,
            "create database d; create table d.dbo.t (i int)",
        );
        let mode = [Mode::Plain, Mode::Full][round % 2];
        let mut user = client_in(&program, mode, "d");
        // Work that has to be rolled back when its client has gone.
        run(
            &mut user,
            "begin tran; insert t select object_id from sys.all_objects",
        );
        drop(user);
        run(&mut admin, "drop database d");
    }
    // One who is still there keeps it, whatever he does.
    run(&mut admin, "create database d");
    let user = client_in(&program, Mode::Plain, "d");
    let answer = admin.batch("drop database d").expect("answers");
    assert_eq!(answer.error_numbers(), [3702]);
    drop(user);
    program.stop().expect("stops");
}

#[test]
fn a_bulk_load_from_a_pipe_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let pipe = dir.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("makes a pipe");
    let mut client = client_in(&program, Mode::Plain, "master");
    // Whoever opened the pipe to read would wait until somebody wrote.
    let text = format!(
        "create table #q (a int); bulk insert #q from '{}'",
        pipe.display()
    );
    let answer = client.batch(&text).expect("answers");
    assert_eq!(answer.error_numbers().first(), Some(&4861), "{answer:?}");
    let format = format!(
        "bulk insert #q from '/dev/null' with (formatfile = '{}')",
        pipe.display()
    );
    let answer = client.batch(&format).expect("answers");
    assert!(!answer.error_numbers().is_empty());
    program.stop().expect("stops");
}

/// A file of the server's own is that under every name that leads to it.
#[test]
fn links_to_files_of_the_server_are_its_own() {
    let (dir, away) = (tempfile::tempdir(), tempfile::tempdir());
    let (dir, away) = (dir.expect("a folder"), away.expect("a folder"));
    let program = start(dir.path());
    let mut admin = client_in(&program, Mode::Plain, "master");
    let at = |name: &str| away.path().join(name);
    run(
        &mut admin,
        &format!(
            "create database d; backup database d to disk = '{}'; create table #lines (line varchar(max))",
            at("d.bak").display()
        ),
    );
    std::fs::create_dir_all(dir.path().join("spill")).expect("makes");
    std::fs::write(dir.path().join("spill/x"), "rows of somebody").expect("writes");
    let mut links = Vec::new();
    for (own, is_there) in [
        ("log/errorlog", true),
        ("spill/x", true),
        ("log/errorlog.40", false),
        ("d.mdf", true),
        ("master_log.ldf", true),
        ("service_master.key", false),
    ] {
        let own = dir.path().join(own);
        let name = own
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        std::os::unix::fs::symlink(&own, at(&format!("soft.{name}"))).expect("links");
        links.push((own.clone(), at(&format!("soft.{name}"))));
        if is_there {
            std::fs::hard_link(&own, at(&format!("hard.{name}"))).expect("links");
            links.push((own, at(&format!("hard.{name}"))));
        }
    }
    let length = |path: &Path| std::fs::metadata(path).map(|m| (m.len(), m.is_file())).ok();
    for (own, link) in links {
        let before = length(&own);
        let (link, backup, log) = (link.display(), at("d.bak"), at("z.ldf"));
        let (backup, log) = (backup.display(), log.display());
        for (statement, refused) in [
            (
                format!("backup database d to disk = '{link}' with format"),
                &[3201][..],
            ),
            (
                format!(
                    "restore database z from disk = '{backup}' with move 'd' to '{link}', move 'd_log' to '{log}', replace"
                ),
                &[1834, 5170][..],
            ),
            (
                format!(
                    "restore database z from disk = '{backup}' with move 'd' to '{log}.mdf', move 'd_log' to '{log}', standby = '{link}'"
                ),
                &[3201][..],
            ),
            (
                format!("bulk insert #lines from '{link}'"),
                &[4860, 4861][..],
            ),
            (
                format!("bulk insert #lines from '/dev/null' with (errorfile = '{link}')"),
                &[4860, 4861][..],
            ),
            (
                format!("create database z on (name = z, filename = '{link}')"),
                &[1834, 5170][..],
            ),
        ] {
            let answer = admin.batch(&statement).expect("answers");
            let first = answer.error_numbers().first().copied();
            assert!(
                first.is_some_and(|n| refused.contains(&n)),
                "{statement}: {first:?}"
            );
        }
        assert!(length(&own) >= before, "{}", own.display());
    }
    // What is nobody's may be had by a link as well as by its name.
    std::os::unix::fs::symlink(at("free"), at("soft.free")).expect("links");
    run(
        &mut admin,
        &format!(
            "backup database d to disk = '{}' with format",
            at("soft.free").display()
        ),
    );
    program.stop().expect("stops");
}

/// A client that cannot log in decides neither what is written into the log nor how much.
#[test]
fn names_that_strangers_choose_do_not_shape_the_error_log() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let name = "x\r2026-11-21 21:00:00.00 Server      all is well\nall is well\u{1b}[2K";
    let refused = Client::log_in(
        program.address(),
        Mode::Plain,
        &login(name, PASSWORD, TdsVersion::V7_4),
    );
    assert_eq!(refused.expect("answers").1.error_numbers(), [18456]);
    let log = std::fs::read_to_string(dir.path().join("log/errorlog")).expect("reads");
    let lines: Vec<&str> = log.lines().filter(|l| l.contains("all is well")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(r"x\r2026-11-21") && lines[0].contains(r"\nall is well\u{1b}[2K"),
        "{lines:?}"
    );
    assert!(!log.contains(['\r', '\u{1b}']));
    program.stop().expect("stops");
}

/// A database that takes long to recover keeps neither the port nor the others closed.
#[test]
fn a_server_is_ready_before_its_databases_are() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = start(dir.path());
    let mut admin = client_in(&program, Mode::Plain, "master");
    run(
        &mut admin,
        "create database d; create database e; create table d.dbo.t (i int); insert d.dbo.t values (1); \
         create table e.dbo.t (i int)",
    );
    drop(admin);
    program.stop().expect("stops");

    // Nobody gets a page of `d` before the gate is opened.
    let gate = Arc::new(Gate::of("d.mdf"));
    let machine = environment();
    let env = Env {
        disk: Arc::new(GatedDisk::new(machine.disk.clone(), gate.clone())),
        ..machine
    };
    let (started, is_started) = channel();
    let options = program_options(dir.path(), EncryptionPolicy::On);
    std::thread::spawn(move || started.send(Program::start_in(env, &options)));
    let program = is_started.recv_timeout(LONG);
    let program = program
        .expect("it waits for its databases")
        .expect("starts");
    let mut client = client_in(&program, Mode::Plain, "master");
    let state = "select cast(state_desc as varchar(20)) from sys.databases where name = 'd'";
    let rows = run(&mut client, state).rows();
    assert_eq!(rows, [vec![Value::str("RECOVERING")]]);
    let refused = client.batch("select i from d.dbo.t").expect("answers");
    assert_eq!(refused.error_numbers(), [922]);
    while client
        .batch("insert e.dbo.t values (1)")
        .expect("answers")
        .error_numbers()
        == [922]
    {
        std::thread::yield_now();
    }
    assert_eq!(run(&mut client, "select i from e.dbo.t").rows().len(), 1);
    let rows = run(&mut client, state).rows();
    assert_eq!(rows, [vec![Value::str("RECOVERING")]]);

    gate.open();
    assert!(program.instance().wait_until_recovered(LONG));
    let mut client = client_in(&program, Mode::Plain, "d");
    assert_eq!(run(&mut client, "select i from t").rows().len(), 1);
    program.stop().expect("stops");
}
