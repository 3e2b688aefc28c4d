//! The server as SQL Server's container is started: by variables, with `sqlcmd`, with scripts for the first start.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const DARUMA: &str = env!("CARGO_BIN_EXE_daruma");
const PASSWORD: &str = "As-a-container-1";

struct Server {
    process: Child,
    /// As sqlcmd takes it.
    address: String,
    /// What it said before it was ready.
    said: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `daruma serve` with nothing but variables; `Err` is what a server said that did not start.
fn serve(variables: &[(&str, &str)]) -> Result<Server, String> {
    let mut process = Command::new(DARUMA)
        .arg("serve")
        .env_remove("MSSQL_SA_PASSWORD")
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut output = BufReader::new(process.stderr.take().expect("its output"));
    let (mut said, mut line) = (String::new(), String::new());
    while output.read_line(&mut line).expect("text") > 0 {
        if let Some(ready) = line.strip_prefix("ready ") {
            let address = ready.split(' ').next().expect("an address");
            let address = address.replace(':', ",");
            // Nobody reads on: what else it says must not fill the pipe.
            std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
            return Ok(Server {
                process,
                address,
                said,
            });
        }
        said.push_str(&line);
        line.clear();
    }
    assert!(!process.wait().expect("ends").success());
    Err(said)
}

struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(dir.path().join("scripts")).expect("folder");
        Folder { dir }
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn scripts(&self) -> PathBuf {
        self.dir.path().join("scripts")
    }

    fn script(&self, name: &str, text: &str) {
        std::fs::write(self.scripts().join(name), text).expect("script");
    }

    /// The program under sqlcmd's name, with sqlcmd's variables.
    fn sqlcmd(&self, server: &Server, arguments: &[&str]) -> Output {
        let link = self.dir.path().join("sqlcmd");
        if !link.exists() {
            symlink(DARUMA, &link).expect("link");
        }
        Command::new(link)
            .args(["-S", &server.address, "-C"])
            .args(arguments)
            .env("SQLCMDUSER", "sa")
            .env("SQLCMDPASSWORD", PASSWORD)
            .output()
            .expect("the program runs")
    }

    fn start(&self) -> Result<Server, String> {
        serve(&[
            ("ACCEPT_EULA", "Y"),
            ("MSSQL_SA_PASSWORD", PASSWORD),
            ("MSSQL_IP_ADDRESS", "127.0.0.1"),
            ("MSSQL_TCP_PORT", "0"),
            ("MSSQL_DATA_DIR", &self.data()),
            ("MSSQL_MEMORY_LIMIT_MB", "200"),
            ("DARUMA_INIT_SCRIPTS", &self.scripts().display().to_string()),
        ])
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn variables_start_a_server_and_sqlcmd_is_healthy() {
    let folder = Folder::new();
    let server = folder.start().expect("starts");
    assert_eq!(server.said, "");
    let healthy = folder.sqlcmd(&server, &["-Q", "SELECT 1;", "-b", "-h", "-1", "-W"]);
    assert!(healthy.status.success(), "{}", text(&healthy));
    assert!(text(&healthy).starts_with("1\n"), "{}", text(&healthy));
    let wrong = folder.sqlcmd(&server, &["-Q", "SELECT 1", "-P", "wrong"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong).starts_with("Sqlcmd: Error: "),
        "{}",
        text(&wrong)
    );
    assert!(
        text(&wrong).contains("Login failed for user 'sa'"),
        "{}",
        text(&wrong)
    );
    let failed = folder.sqlcmd(&server, &["-b", "-Q", "SELECT * FROM nowhere"]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed));
    let memory =
        "SET NOCOUNT ON; SELECT IIF(physical_memory_kb > 0, 'told', '') FROM sys.dm_os_sys_info";
    assert!(text(&folder.sqlcmd(&server, &["-Q", memory])).contains("told"));
}

/// The only file that has the password which a first start makes.
fn made_password(data: &str) -> String {
    let file = Path::new(data).join("sa-password");
    let mode = std::fs::metadata(&file).expect("its file").mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("reads");
    text.trim_end().to_string()
}

#[test]
fn a_made_password_is_in_a_file_of_the_server_alone() {
    let folder = Folder::new();
    folder.script("1.sql", "CREATE DATABASE shop\n");
    let scripts = folder.scripts().display().to_string();
    for with_scripts in [false, true] {
        let data = format!("{}{with_scripts}", folder.data());
        let mut variables = vec![("MSSQL_DATA_DIR", data.as_str()), ("MSSQL_TCP_PORT", "0")];
        if with_scripts {
            variables.push(("DARUMA_INIT_SCRIPTS", &scripts));
        }
        let server = serve(&variables).expect("starts");
        let password = made_password(&data);
        assert!(server.said.contains("sa-password"), "{}", server.said);
        assert!(!server.said.contains(&password), "{}", server.said);
        let log = std::fs::read_to_string(Path::new(&data).join("log/errorlog")).expect("log");
        assert!(!log.contains(&password), "{log}");
        let login = ["-P", &password, "-b", "-Q", "SELECT 1"];
        let answer = folder.sqlcmd(&server, &login);
        assert!(answer.status.success(), "{}", text(&answer));
        let file = format!("{data}/sa-password");
        let read = format!("SELECT * FROM OPENROWSET(BULK '{file}', SINGLE_CLOB) AS f");
        let refused = folder.sqlcmd(&server, &["-P", &password, "-b", "-Q", &read]);
        assert!(!text(&refused).contains("(1 row"), "{}", text(&refused));
        drop(server);
        let again = serve(&variables).expect("starts again");
        assert_eq!(again.said.matches("sa-password").count(), 0);
        drop(again);
        // Who gives one later has no use for the old one, which is no password any more.
        variables.push(("MSSQL_SA_PASSWORD", PASSWORD));
        let _given = serve(&variables).expect("starts with a password");
        assert!(!Path::new(&file).exists());
    }
}

#[test]
fn logs_and_backups_lie_where_the_variables_say() {
    let folder = Folder::new();
    let data = folder.data();
    let [logs, backups] =
        ["logs", "deep/backups"].map(|name| folder.dir.path().join(name).display().to_string());
    let variables = [
        ("MSSQL_SA_PASSWORD", PASSWORD),
        ("MSSQL_TCP_PORT", "0"),
        ("MSSQL_DATA_DIR", data.as_str()),
        ("MSSQL_LOG_DIR", logs.as_str()),
        ("MSSQL_BACKUP_DIR", backups.as_str()),
    ];
    let server = serve(&variables).expect("starts");
    let ask = |server: &Server, statement: &str| {
        let statement = format!("SET NOCOUNT ON; {statement}");
        let answer = folder.sqlcmd(server, &["-b", "-h", "-1", "-W", "-Q", &statement]);
        assert!(answer.status.success(), "{}", text(&answer));
        text(&answer).trim().to_string()
    };
    let told = ask(
        &server,
        "SELECT CONCAT_WS('|', CONVERT(nvarchar(400), SERVERPROPERTY('InstanceDefaultDataPath')), \
         CONVERT(nvarchar(400), SERVERPROPERTY('InstanceDefaultLogPath')), \
         CONVERT(nvarchar(400), SERVERPROPERTY('InstanceDefaultBackupPath')))",
    );
    assert_eq!(told, format!("{data}/|{logs}/|{backups}/"));
    ask(
        &server,
        "CREATE DATABASE shop; CREATE DATABASE store ON (NAME = s1, SIZE = 8MB) LOG ON (NAME = s2, SIZE = 8MB)",
    );
    ask(&server, "SELECT 1 AS a INTO shop.dbo.t");
    for (folder, file) in [
        (&data, "shop.mdf"),
        (&logs, "shop_log.ldf"),
        (&data, "s1.mdf"),
        (&logs, "s2.ldf"),
    ] {
        assert!(Path::new(folder).join(file).exists(), "{folder}/{file}");
    }
    ask(&server, "BACKUP DATABASE shop TO DISK = 'shop.bak'");
    assert!(Path::new(&backups).join("shop.bak").exists());
    ask(
        &server,
        "DROP DATABASE shop; RESTORE DATABASE shop FROM DISK = 'shop.bak'",
    );
    drop(server);
    // Files stay where they are, whatever a later start says of new ones.
    let server = serve(&variables[..3]).expect("starts again");
    assert_eq!(ask(&server, "SELECT a FROM shop.dbo.t"), "1");
}

#[test]
fn settings_that_cannot_be_kept_are_refused_before_anything_is_made() {
    let folder = Folder::new();
    let data = folder.data();
    for (name, value) in [
        ("MSSQL_COLLATION", "Turkish_CI_AS"),
        ("MSSQL_LCID", "1031"),
        ("MSSQL_TCP_PORT", "many"),
        ("MSSQL_MEMORY_LIMIT_MB", "lots"),
        ("MSSQL_ENABLE_HADR", "maybe"),
        ("MSSQL_PID", "Ultimate"),
        ("TZ", "Mars/Phobos"),
    ] {
        let Err(said) = serve(&[("MSSQL_DATA_DIR", &data), (name, value)]) else {
            panic!("{name} is taken");
        };
        assert!(said.contains(name), "{said}");
    }
    assert!(!Path::new(&data).exists());
}

#[test]
fn times_are_of_the_zone_that_is_named() {
    let folder = Folder::new();
    let (data, mut said) = (folder.data(), Vec::new());
    for zone in ["Etc/GMT-5", "", "XYZ+4"] {
        let server = serve(&[
            ("MSSQL_DATA_DIR", &data),
            ("MSSQL_TCP_PORT", "0"),
            ("MSSQL_SA_PASSWORD", PASSWORD),
            ("TZ", zone),
        ])
        .expect("starts");
        let hours = "SET NOCOUNT ON; SELECT DATEPART(tzoffset, SYSDATETIMEOFFSET()) / 60";
        let told = folder.sqlcmd(&server, &["-h", "-1", "-W", "-Q", hours]);
        said.push(text(&told).trim().to_string());
    }
    assert_eq!(said, ["5", "0", "-4"]);
}

#[test]
fn scripts_fill_a_new_folder_once() {
    let folder = Folder::new();
    folder.script(
        "2-rows.sql",
        "USE shop\nGO\nINSERT items VALUES (1), (2)\nGO\n",
    );
    folder.script(
        "1-schema.SQL",
        "CREATE DATABASE shop\nGO\nUSE shop\nCREATE TABLE items (id int PRIMARY KEY)\nGO\n",
    );
    folder.script("readme.txt", "no script");
    for _ in 0..2 {
        let server = folder.start().expect("starts");
        let count = folder.sqlcmd(&server, &["-d", "shop", "-h", "-1", "-W", "-Q", "SET NOCOUNT ON; SELECT COUNT(*), SUSER_SNAME(owner_sid) FROM items, sys.databases WHERE name = 'shop' GROUP BY owner_sid"]);
        assert_eq!(text(&count).trim(), "2 sa");
    }
}

#[test]
fn scripts_that_fail_stop_the_start_and_are_not_run_again() {
    let folder = Folder::new();
    folder.script(
        "1.sql",
        "CREATE DATABASE half\nGO\nSELECT 1/0\nGO\nCREATE DATABASE never\n",
    );
    let Err(said) = folder.start() else {
        panic!("starts although a script failed");
    };
    assert!(said.contains("1.sql failed with exit code 1"), "{said}");
    let Err(said) = folder.start() else {
        panic!("starts with half of what was asked for");
    };
    assert!(said.contains("init-scripts.pending"), "{said}");
    std::fs::remove_file(Path::new(&folder.data()).join("init-scripts.pending")).expect("mark");
    let server = folder.start().expect("goes on with what there is");
    let there = folder.sqlcmd(
        &server,
        &[
            "-h",
            "-1",
            "-W",
            "-Q",
            "SET NOCOUNT ON; SELECT COUNT(*) FROM sys.databases WHERE name IN ('half', 'never')",
        ],
    );
    assert_eq!(text(&there).trim(), "1");
}
