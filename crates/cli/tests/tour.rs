//! The tour of the documentation (docs/tour.md): its commands are run as they stand there, and must answer what stands there.
//!
//! Theory: a `console` block has commands (`$ ..`), each with the lines it answers. All of them become one script for one shell,
//! which marks where each answer begins. A command that ends with `&` is waited for until it has said its lines. `...` in
//! a line stands for anything. The port of the page is replaced by a free one, and the folder is a scratch one. The pages that tell
//! how to move and to back up a database have statements without answers: they must run, one block after the other.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const TOUR: &str = include_str!("../../../docs/tour.md");
const MOVE: &str = include_str!("../../../docs/move.md");
const BACKUPS: &str = include_str!("../../../docs/backups.md");
const PORT: &str = "1433";
const MARK: &str = "@@@";
/// Tenths of a second that a command in the background may take for its lines.
const BACKGROUND_TENTHS_MAX: u32 = 600;

/// A command and the lines that it answers.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    answer: Vec<String>,
}

impl Step {
    fn is_in_background(&self) -> bool {
        self.command.ends_with('&')
    }

    /// Are these the lines? Blanks at the ends of lines do not count.
    fn is_answered_by(&self, lines: &[&str]) -> bool {
        let pairs = self.answer.iter().zip(lines);
        lines.len() == self.answer.len() && pairs.into_iter().all(|(w, l)| fits(w, l.trim_end()))
    }
}

/// The steps of all `console` blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if let (true, Some(command)) = (is_inside, line.strip_prefix("$ ")) {
            steps.push(Step {
                command: command.to_string(),
                answer: Vec::new(),
            });
        } else if let (true, Some(step)) = (is_inside, steps.last_mut()) {
            step.answer.push(line.trim_end().to_string());
        }
    }
    steps
}

/// Does a line fit one in which `...` stands for anything?
fn fits(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.split("...");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or("")) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    last.map_or(rest.is_empty(), |part| {
        part.is_empty() || line.ends_with(part)
    })
}

/// The script of the steps: before each answer stands a line with the mark and the step's number.
fn script(steps: &[Step]) -> String {
    let mut script = String::from("trap 'kill $(jobs -p) 2> /dev/null' EXIT\n");
    for (number, step) in steps.iter().enumerate() {
        let line = match step.is_in_background() {
            true => in_background(number, step),
            false => step.command.clone(),
        };
        let _ = writeln!(script, "echo '{MARK} {number}'\n{line}");
    }
    script
}

/// The number of lines is what is waited for.
fn in_background(number: usize, step: &Step) -> String {
    let (command, lines) = (step.command.trim_end_matches('&'), step.answer.len());
    let file = format!("answer.{number}");
    format!(
        "{command} > {file} 2>&1 &\n\
         for _ in $(seq {BACKGROUND_TENTHS_MAX}); do [ \"$(wc -l < {file})\" -ge {lines} ] && break; sleep 0.1; done\n\
         head -n {lines} {file}"
    )
}

/// What the shell said, step by step.
fn answers(said: &str) -> Vec<Vec<&str>> {
    let mut answers: Vec<Vec<&str>> = Vec::new();
    for line in said.lines() {
        match (line.starts_with(MARK), answers.last_mut()) {
            (true, _) => answers.push(Vec::new()),
            (false, Some(answer)) => answer.push(line),
            (false, None) => {}
        }
    }
    answers
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener
        .local_addr()
        .expect("its address")
        .port()
        .to_string()
}

/// Runs a script in a folder, with the program on its path. What the shell tells of killed jobs goes to standard error, which is
/// shown when the test fails and is no part of the answers.
fn run(script: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_daruma"));
    let own = program.parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", script])
        .current_dir(folder)
        .env("PATH", format!("{own}:{path}"))
        .output()
        .expect("bash runs");
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_command_of_the_tour_answers_what_the_page_says() {
    let port = free_port();
    let steps = steps(&TOUR.replace(PORT, &port));
    let folder = tempfile::tempdir().expect("temporary directory");
    let said = run(&script(&steps), folder.path());
    let answers = answers(&said);
    for (number, step) in steps.iter().enumerate() {
        let lines = answers.get(number).map(Vec::as_slice).unwrap_or_default();
        assert!(
            step.is_answered_by(lines),
            "$ {}\nwanted {:#?}\nsaid {lines:#?}",
            step.command,
            step.answer
        );
    }
    assert!(steps.len() > 20, "a tour of {} steps", steps.len());
}

#[test]
fn a_command_that_answers_something_else_is_noticed() {
    let steps =
        steps("```console\n$ echo one\none\n$ echo two; exit 0\nthree\n```\n$ not a command\n");
    let folder = tempfile::tempdir().expect("temporary directory");
    let said = run(&script(&steps), folder.path());
    let answers = answers(&said);
    let answered: Vec<bool> = steps
        .iter()
        .zip(&answers)
        .map(|(s, a)| s.is_answered_by(a))
        .collect();
    assert_eq!(answered, [true, false]);
}

#[test]
fn three_dots_stand_for_anything() {
    assert!(fits("a ... c ...", "a b c d"));
    assert!(fits("...b", "aab"));
    assert!(!fits("a ... c", "a b"));
    assert!(!fits("a", "a b"));
    assert!(!fits("a...b", "a b c"));
}

/// The blocks of a page that are written in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut inside: Option<String> = None;
    for line in page.lines() {
        match (&mut inside, line.strip_prefix("```")) {
            (Some(_), Some("")) => blocks.extend(inside.take()),
            (Some(block), _) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, Some(named)) if named == language => inside = Some(String::new()),
            (None, _) => {}
        }
    }
    blocks
}

/// A script that ends at the first command that fails, beside a server in a scratch folder.
fn beside_a_server(port: &str, commands: &str) -> String {
    format!(
        "trap 'kill $(jobs -p) 2> /dev/null' EXIT\nset -eE\ntrap 'echo \"failed: $BASH_COMMAND\"' ERR\n\
         export MSSQL_SA_PASSWORD='Str0ng!Passw0rd' SQLCMDPASSWORD='Str0ng!Passw0rd' SQLCMDUSER=sa SQLCMDSERVER=127.0.0.1,{port}\n\
         daruma serve --data \"$PWD/data\" --listen 127.0.0.1:{port} > serve.log 2>&1 &\n\
         for _ in $(seq {BACKGROUND_TENTHS_MAX}); do grep -q ^ready serve.log && break; sleep 0.1; done\n\
         {commands}\necho all of it\n"
    )
}

#[test]
fn what_the_page_on_moving_says_runs() {
    let port = free_port();
    let folder = tempfile::tempdir().expect("temporary directory");
    let here = folder.path().display().to_string();
    let shell = blocks(MOVE, "sh");
    let [schema, out] = shell.as_slice() else {
        panic!("blocks of the page: {shell:?}");
    };
    let load = blocks(MOVE, "sql").concat();
    let load = load.replace("/transfer", &here);
    std::fs::write(folder.path().join("load.sql"), load).expect("writes");
    let table = "CREATE TABLE dbo.Orders (id int IDENTITY PRIMARY KEY, at datetime2 NULL, note nvarchar(40) NULL)\nGO\n";
    std::fs::write(folder.path().join("schema.sql"), table).expect("writes");
    let rows = "INSERT dbo.Orders VALUES ('2026-11-01T12:00:00', N'a, \"quoted\" one'), (NULL, NULL), ('1753-01-01', N'');";
    std::fs::write(folder.path().join("rows.sql"), rows).expect("writes");
    let sums = "daruma sql -C -d Shop -b -h -1 -W -Q \"SET NOCOUNT ON; SELECT COUNT(*), SUM(id), CHECKSUM_AGG(CHECKSUM(*)), COUNT(note) FROM dbo.Orders\"";
    let out = out.replace("old,1433", &format!("127.0.0.1,{port}"));
    let commands = format!(
        "{{\n{schema}daruma sql -C -d Shop -b -i rows.sql\n{out}}} > said\nbefore=$({sums})\n\
         daruma sql -C -d Shop -b -Q 'TRUNCATE TABLE dbo.Orders' > said\ndaruma sql -C -d Shop -b -i load.sql > said\n\
         [ \"$before\" = \"$({sums})\" ]"
    );
    let said = run(&beside_a_server(&port, &commands), folder.path());
    assert!(said.ends_with("all of it\n"), "{said}");
}

#[test]
fn the_statements_of_the_page_on_backups_run() {
    let port = free_port();
    let folder = tempfile::tempdir().expect("temporary directory");
    let here = folder.path().display().to_string();
    let mut commands = String::from(
        "daruma sql -C -b -Q 'CREATE DATABASE Shop' > said\n\
         now() { daruma sql -C -b -h -1 -W -Q 'SET NOCOUNT ON; SELECT CONVERT(varchar(23), SYSDATETIME(), 126)'; }\n",
    );
    let mut count = 0;
    for (number, block) in blocks(BACKUPS, "sql").iter().enumerate() {
        if block.contains("URL =") {
            continue;
        }
        let mut block = block.replace("/backup/", &format!("{here}/backup/"));
        if block.contains("ENCRYPTION") {
            // An example beside the others: they have no password.
            block = block.replace("shop.bak", "encrypted.bak");
        }
        count += 1;
        std::fs::write(folder.path().join(format!("{number}.sql")), block).expect("writes");
        let _ = writeln!(
            commands,
            "sed -i \"s/2026-11-26T09:30:00/$(now)/\" {number}.sql\n\
             daruma sql -C -b -d Shop -Q 'CREATE TABLE t{number} (a int)' > said\n\
             daruma sql -C -b -i {number}.sql > said 2>&1 || {{ cat said; false; }}"
        );
    }
    let state = "SET NOCOUNT ON; SELECT state_desc FROM sys.databases WHERE name = 'Shop'";
    let _ = writeln!(commands, "daruma sql -C -b -h -1 -W -Q \"{state}\"");
    let said = run(&beside_a_server(&port, &commands), folder.path());
    assert!(said.ends_with("ONLINE\nall of it\n"), "{said}");
    assert!(count >= 4, "{count} blocks");
}
