//! Data folders of earlier releases, from `tests/upgrade`: opened, used, their backups restored; folders and backups of a later one are refused.
//!
//! Each was packed after a kill with changes open, so opening it is a recovery of that release's log.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const DARUMA: &str = env!("CARGO_BIN_EXE_daruma");
/// With which the folders were made.
const PASSWORD: &str = "Kept-through-1";
/// In the first page of a data file.
const VERSION_AT: usize = 72;
const PAGE_BYTES: usize = 8192;

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

/// `Err` is what a server said that did not start.
fn serve(data: &Path) -> Result<Server, String> {
    let mut process = Command::new(DARUMA)
        .args(["serve", "--listen", "127.0.0.1:0", "--memory", "128M"])
        .arg("--data")
        .arg(data)
        .env_remove("MSSQL_SA_PASSWORD")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut output = BufReader::new(process.stderr.take().expect("its output"));
    let (mut said, mut line) = (String::new(), String::new());
    while output.read_line(&mut line).expect("text") > 0 {
        if let Some(ready) = line.strip_prefix("ready ") {
            let address = ready.split(' ').next().expect("an address");
            let address = address.replace(':', ",");
            std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
            return Ok(Server { process, address });
        }
        said.push_str(&line);
        line.clear();
    }
    assert!(!process.wait().expect("ends").success());
    Err(said)
}

impl Server {
    fn sql(&self, arguments: &[&str]) -> String {
        let output = Command::new(DARUMA)
            .args(["sql", "-C", "-b", "-W", "-S", &self.address])
            .args(arguments)
            .env("SQLCMDPASSWORD", PASSWORD)
            .output()
            .expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}{error}");
        text
    }

    /// What it says of a statement that fails.
    fn refusal(&self, statement: &str) -> String {
        let output = Command::new(DARUMA)
            .args(["sql", "-C", "-b", "-S", &self.address, "-Q", statement])
            .env("SQLCMDPASSWORD", PASSWORD)
            .output()
            .expect("the program runs");
        assert!(!output.status.success(), "{statement} is not refused");
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Stops in good order.
    fn stop(mut self) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill").success());
        assert!(self.process.wait().expect("ends").success());
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/upgrade")
}

/// Folders of `tests/upgrade`, each of one release.
fn kept() -> Vec<PathBuf> {
    let entries = fs::read_dir(here()).expect("tests/upgrade");
    let folders = entries.map(|entry| entry.expect("entry").path());
    let kept: Vec<_> = folders
        .filter(|path| path.join("kept.tar.gz").exists())
        .collect();
    assert!(!kept.is_empty(), "no release is kept");
    kept
}

fn unpack(release: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--gzip").arg("--no-same-owner");
    tar.arg("--file").arg(release.join("kept.tar.gz"));
    assert!(
        tar.arg("--directory")
            .arg(dir.path())
            .status()
            .expect("tar")
            .success()
    );
    dir
}

fn check(server: &Server, database: &str) -> String {
    let script = here().join("check.sql").display().to_string();
    server.sql(&["-d", database, "-i", &script])
}

#[test]
fn folders_of_earlier_releases_are_opened_used_and_restored() {
    for release in kept() {
        let dir = unpack(&release);
        let data = dir.path().join("data");
        let expected = fs::read_to_string(release.join("expected.txt")).expect("expected.txt");
        let server = serve(&data).expect("opens the folder");
        assert_eq!(
            check(&server, "upgraded"),
            expected,
            "{}",
            release.display()
        );

        server.sql(&["-Q", &format!(
            "RESTORE DATABASE restored FROM DISK = '{0}/upgraded.bak' WITH NORECOVERY, MOVE 'upgraded' TO '{0}/restored.mdf', MOVE 'upgraded_log' TO '{0}/restored.ldf'; \
             RESTORE LOG restored FROM DISK = '{0}/upgraded.trn'", dir.path().display())]);
        // What came after the last backup.
        let later = ["1001 in the log alone", "1002 last"];
        let lines = expected.lines().filter(|line| !later.contains(line));
        let backed_up: String = lines.map(|line| format!("{line}\n")).collect();
        assert_eq!(
            check(&server, "restored"),
            backed_up,
            "{}",
            release.display()
        );

        for database in ["upgraded", "restored"] {
            server.sql(&["-d", database, "-Q",
                "INSERT heap VALUES (2000, 'of this release'); UPDATE texts SET c_nvarchar_max += N'!'; DBCC CHECKDB WITH NO_INFOMSGS"]);
        }
        server.stop();
        let server = serve(&data).expect("opens it again");
        for database in ["upgraded", "restored"] {
            let count = "SET NOCOUNT ON; SELECT COUNT(*) FROM heap WHERE a = 2000";
            let count = server.sql(&["-h", "-1", "-d", database, "-Q", count]);
            assert_eq!(count.trim(), "1", "{database}");
        }
        let login = Command::new(DARUMA)
            .args([
                "sql",
                "-C",
                "-S",
                &server.address,
                "-U",
                "kept",
                "-P",
                PASSWORD,
            ])
            .args(["-d", "upgraded", "-b", "-Q", "SELECT COUNT(*) FROM numbers"])
            .output();
        assert!(login.expect("runs").status.success(), "the login is lost");
    }
}

/// Gives a data file the format of a release that is yet to come.
fn make_newer(file: &Path) {
    let mut bytes = fs::read(file).expect("data file");
    let page = &mut bytes[..PAGE_BYTES];
    page[VERSION_AT..VERSION_AT + 4].copy_from_slice(&1000_u32.to_le_bytes());
    let sum = crc32c::crc32c(&page[4..]);
    page[..4].copy_from_slice(&sum.to_le_bytes());
    fs::write(file, bytes).expect("data file");
}

#[test]
fn what_a_later_release_wrote_is_refused_with_a_clear_text() {
    let release = kept().pop().expect("a release");
    let dir = unpack(&release);
    let data = dir.path().join("data");
    make_newer(&data.join("upgraded.mdf"));
    let server = serve(&data).expect("the others are opened");
    let log = server.sql(&["-Q", "EXEC xp_readerrorlog"]);
    let told = "file format 1000 is not supported: this release has format";
    assert!(
        log.contains(told) && log.contains("a newer one wrote it"),
        "{log}"
    );
    let state = "SET NOCOUNT ON; SELECT state_desc FROM sys.databases WHERE name = 'upgraded'";
    let state = server.sql(&["-h", "-1", "-Q", state]);
    assert_ne!(state.trim(), "ONLINE");
    server.stop();

    make_newer(&data.join("master.mdf"));
    let before = fs::read(data.join("master_log.ldf")).expect("log");
    let Err(said) = serve(&data) else {
        panic!("starts with a master of a later release");
    };
    assert!(said.contains(told) && said.contains("master.mdf"), "{said}");
    let after = fs::read(data.join("master_log.ldf")).expect("log");
    assert!(before == after, "a folder that is refused is changed");
}

/// Bytes of a frame of a backup before its payload.
const FRAME_HEADER_BYTES: usize = 64;
/// Kind of the frame that describes a set.
const SET_END: u8 = 6;

/// Gives the description of each set in a backup the format of a release that is yet to come.
fn make_set_newer(bytes: &mut [u8]) {
    let mut rest = bytes;
    while rest.len() >= FRAME_HEADER_BYTES {
        let (header, behind) = rest.split_at_mut(FRAME_HEADER_BYTES);
        let stored = u32::from_le_bytes(header[36..40].try_into().expect("four bytes"));
        let (payload, next) = behind.split_at_mut(stored as usize);
        if header[8] == SET_END {
            let field = b"\"file_format\":";
            let at = payload.windows(field.len()).position(|w| w == field);
            payload[at.expect("a format") + field.len()] = b'9';
            header[40..44].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
            let sum = crc32c::crc32c(&header[8..]);
            header[4..8].copy_from_slice(&sum.to_le_bytes());
        }
        rest = next;
    }
}

#[test]
fn backups_of_a_later_release_are_refused_before_anything_is_replaced() {
    let release = kept().pop().expect("a release");
    let dir = unpack(&release);
    let server = serve(&dir.path().join("data")).expect("opens the folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    server.sql(&[
        "-Q",
        &format!("BACKUP DATABASE upgraded TO DISK = '{}'", path("now.bak")),
    ]);
    let now = fs::read(path("now.bak")).expect("a backup");
    let (mut set, mut medium) = (now.clone(), now);
    make_set_newer(&mut set);
    medium[3] = b'2';
    let own = concat!(
        "which is running version ",
        env!("CARGO_PKG_VERSION"),
        " (format"
    );
    let before = check(&server, "upgraded");
    let later = path("later.bak");
    for (bytes, told) in [
        (set, "file 9, log "),
        (medium, "unknown (format of the medium 2)"),
    ] {
        fs::write(&later, bytes).expect("a backup");
        for statement in [
            format!("RESTORE DATABASE upgraded FROM DISK = '{later}' WITH REPLACE"),
            format!("RESTORE DATABASE another FROM DISK = '{later}'"),
            format!("RESTORE LOG upgraded FROM DISK = '{later}'"),
            format!("RESTORE VERIFYONLY FROM DISK = '{later}'"),
            format!("RESTORE HEADERONLY FROM DISK = '{later}'"),
            format!("RESTORE FILELISTONLY FROM DISK = '{later}'"),
            format!("BACKUP DATABASE upgraded TO DISK = '{later}' WITH INIT"),
        ] {
            let said = server.refusal(&statement);
            let clear = said.contains("Msg 3169, Level 16") && said.contains(own);
            assert!(clear && said.contains(told), "{statement}: {said}");
        }
    }
    assert_eq!(check(&server, "upgraded"), before);
    // Whoever says so makes a new medium of it.
    server.sql(&[
        "-Q",
        &format!("BACKUP DATABASE upgraded TO DISK = '{later}' WITH FORMAT; RESTORE VERIFYONLY FROM DISK = '{later}'"),
    ]);
}
