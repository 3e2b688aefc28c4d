//! What every experiment has: a server, a report that grows, progress for people, and the files at the end.

use super::{Ending, machine, probe};
use crate::report::{Report, Section, html, text};
use crate::sample::{self, SampleError};
use crate::server::{PrivateServer, ServerError, ServerSpec};
use crate::sql::{Ask, bracketed, connect_to, quoted};
use clap::Args;
use daruma_client::client::{Client, ClientError, Options};
use daruma_client::connect::{ConnectArgs, ConnectError};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

const MEMORY_MIB_DEFAULT: u64 = 1024;
const RETRY_PAUSE: Duration = Duration::from_millis(2);
/// How long a database may recover after the server is up.
const OPEN_LIMIT: Duration = Duration::from_secs(3600);

/// Options that every experiment has.
#[derive(Args, Clone, Debug)]
pub struct LabOptions {
    #[command(flatten)]
    pub connect: ConnectArgs,

    /// A run of about a minute: less data, fewer repetitions
    #[arg(help_heading = "Experiment", long)]
    pub quick: bool,

    /// Folder for report.html and results.json [default: lab-NAME]
    #[arg(help_heading = "Experiment", long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Start a private server even if SQLCMDSERVER names another one
    #[arg(help_heading = "Experiment", long)]
    pub private: bool,

    /// Memory of the private server in MiB, three quarters of it for data pages
    #[arg(help_heading = "Experiment", long, value_name = "MIB", default_value_t = MEMORY_MIB_DEFAULT)]
    pub memory: u64,

    /// Folder for the private server's data; it is removed at the end [default: inside --out]
    #[arg(help_heading = "Experiment", long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,

    /// Leave databases and scratch folder for a look
    #[arg(help_heading = "Experiment", long)]
    pub keep: bool,
}

/// What ends an experiment early. What was found until then is reported all the same.
#[derive(Debug, Error)]
pub enum LabError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Sample(#[from] SampleError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "database {name} exists already on that server. Drop or rename it, the lab touches nothing it did not make"
    )]
    DatabaseExists { name: String },
    #[error("database {name} did not come back within an hour: {reason}")]
    StaysClosed { name: String, reason: String },
    #[error(
        "this experiment runs on servers of its own, which it restarts, kills and sets relays between: leave out -S, and unset \
         SQLCMDSERVER or say --private"
    )]
    OwnServersOnly,
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    Unexpected(String),
}

/// The server under test, the databases made on it, and the report.
pub struct Lab {
    pub quick: bool,
    pub report: Report,
    options: LabOptions,
    server: Option<PrivateServer>,
    target: Options,
    databases: Vec<String>,
    progress: ProgressBar,
    out: PathBuf,
    scratch: PathBuf,
    begun: Instant,
    accelerated: Option<bool>,
}

impl Lab {
    /// Starts or finds the server and begins the report.
    pub fn start(options: &LabOptions, report: Report) -> Result<Lab, LabError> {
        Lab::start_with(options, report, Vec::new())
    }

    /// The same, with more arguments for a private server.
    pub fn start_with(
        options: &LabOptions,
        report: Report,
        arguments: Vec<String>,
    ) -> Result<Lab, LabError> {
        let out = options
            .out
            .clone()
            .unwrap_or_else(|| PathBuf::from(format!("lab-{}", report.experiment)));
        fs::create_dir_all(&out).map_err(at(&out))?;
        let scratch = options
            .scratch
            .clone()
            .unwrap_or_else(|| out.join("scratch"));
        let is_private = options.private || options.connect.server.is_none();
        let (server, target) = if is_private {
            if scratch.exists() {
                // Left by a run that was killed; the name is ours.
                fs::remove_dir_all(scratch.join("data"))
                    .or_else(missing_is_fine)
                    .map_err(at(&scratch))?;
            }
            let server = PrivateServer::start(ServerSpec {
                program: std::env::current_exe().map_err(at(Path::new("this program")))?,
                folder: scratch.clone(),
                memory_bytes: memory_bytes(options),
                arguments,
            })?;
            let target = server.options();
            (Some(server), target)
        } else {
            (None, options.connect.options("daruma lab")?)
        };
        let mut lab = Lab {
            quick: options.quick,
            report,
            options: options.clone(),
            server,
            target,
            databases: Vec::new(),
            progress: spinner(),
            out,
            scratch,
            begun: Instant::now(),
            accelerated: None,
        };
        lab.note_facts()?;
        Ok(lab)
    }

    fn note_facts(&mut self) -> Result<(), LabError> {
        let mut client = self.client("master")?;
        let version = client.text("SELECT @@VERSION")?;
        self.report.fact("Server", product(&version));
        let place = match &self.server {
            Some(_) => "private, made for this run".to_string(),
            None => self.target.server(),
        };
        self.report.fact("Where", place);
        if self.server.is_some() {
            let memory = format!(
                "{} MiB, three quarters of it for data pages",
                self.options.memory
            );
            self.report.fact("Memory", memory);
        }
        self.report.fact("Machine of the lab", machine::describe());
        let run = if self.quick { "quick" } else { "full" };
        self.report.fact("Run", run);
        self.report.fact(
            "Begun",
            jiff::Zoned::now().strftime("%Y-%m-%d %H:%M").to_string(),
        );
        println!("{}", self.report.title);
        for (name, value) in &self.report.facts {
            println!("  {name}: {value}");
        }
        Ok(())
    }

    /// Says what is under way.
    pub fn step(&self, text: impl Into<String>) {
        let text = text.into();
        if self.progress.is_hidden() {
            eprintln!("[{:7.1} s] {text}", self.begun.elapsed().as_secs_f64());
        } else {
            self.progress.set_message(text);
        }
    }

    /// Stops the experiment between two steps when the user wants an end.
    pub fn check_interrupt(&self) -> Result<(), LabError> {
        if crate::interrupt::flag().load(std::sync::atomic::Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        Ok(())
    }

    /// Shows a finished section and adds it to the report.
    pub fn publish(&mut self, section: Section) {
        self.progress
            .suspend(|| print!("{}", text::section(&section)));
        self.report.sections.push(section);
    }

    /// Says that something is left out.
    pub fn notice(&mut self, notice: impl Into<String>) {
        let notice = notice.into();
        self.progress.suspend(|| println!("! {notice}"));
        self.report.notices.push(notice);
    }

    /// How to reach the server under test.
    pub fn target(&self) -> &Options {
        &self.target
    }

    /// The same, for this database.
    pub fn options_for(&self, database: &str) -> Options {
        Options {
            database: database.into(),
            ..self.target.clone()
        }
    }

    /// A new connection to this database.
    pub fn client(&self, database: &str) -> Result<Client, LabError> {
        Ok(connect_to(&self.target, database)?)
    }

    /// Is the server ours, so that it may be killed?
    pub fn is_private(&self) -> bool {
        self.server.is_some()
    }

    /// Memory of a private server.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(&self.options)
    }

    /// Folder for files of the experiment, removed at the end unless `--keep` was given.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Does accelerated recovery have its effect here? Found out once.
    pub fn accelerated_recovery(&mut self) -> Result<bool, LabError> {
        if let Some(known) = self.accelerated {
            return Ok(known);
        }
        self.step("finding out whether accelerated recovery works here");
        let mut client = self.client("master")?;
        let works = probe::accelerated_recovery(&mut client)?;
        self.accelerated = Some(works);
        if !works {
            self.notice(
                "This server does not support accelerated database recovery: with the option on, an open transaction \
                 still holds the log. Nothing below was measured with it.",
            );
        }
        Ok(works)
    }

    /// Creates an empty database and notes it for the end. One of that name that is not ours is an error.
    pub fn create_database(&mut self, name: &str) -> Result<Client, LabError> {
        self.make_room(name)?;
        let mut client = self.client("master")?;
        client.execute(&format!("CREATE DATABASE {}", bracketed(name)))?;
        self.databases.push(name.into());
        client.execute(&format!("USE {}", bracketed(name)))?;
        Ok(client)
    }

    /// AdventureWorks under each of the names, two at a time.
    pub fn create_samples(&mut self, names: &[&str]) -> Result<(), LabError> {
        for name in names {
            self.make_room(name)?;
            self.databases.push((*name).into());
        }
        for pair in names.chunks(2) {
            self.step(format!(
                "loading AdventureWorks into {}",
                pair.join(" and ")
            ));
            let target = &self.target;
            let load = |name: &str| -> Result<(), LabError> {
                let mut client = connect_to(target, "master")?;
                Ok(sample::load_into(&mut client, name)?)
            };
            thread::scope(|scope| {
                let handles: Vec<_> = pair.iter().map(|name| scope.spawn(|| load(name))).collect();
                handles
                    .into_iter()
                    .try_for_each(|handle| match handle.join() {
                        Ok(done) => done,
                        Err(_) => Err(LabError::Unexpected("loading the sample failed".into())),
                    })
            })?;
            self.check_interrupt()?;
        }
        Ok(())
    }

    fn make_room(&mut self, name: &str) -> Result<(), LabError> {
        let mut client = self.client("master")?;
        let id = client.text(&format!("SELECT DB_ID({})", quoted(name)))?;
        if id.is_empty() {
            return Ok(());
        }
        if !self.databases.iter().any(|own| own == name) {
            return Err(LabError::DatabaseExists { name: name.into() });
        }
        self.drop_database(name)
    }

    /// Drops a database of the experiment, whoever is in it.
    pub fn drop_database(&mut self, name: &str) -> Result<(), LabError> {
        let mut client = self.client("master")?;
        let name_quoted = bracketed(name);
        // Sessions that are still in it are thrown out; if that is refused, DROP says why it cannot be done.
        let _ = client.execute(&format!(
            "ALTER DATABASE {name_quoted} SET SINGLE_USER WITH ROLLBACK IMMEDIATE"
        ));
        client.execute(&format!("DROP DATABASE {name_quoted}"))?;
        self.databases.retain(|own| own != name);
        Ok(())
    }

    /// SHUTDOWN WITH NOWAIT as an operator would type it, or SIGKILL; then the server is started again. How long until
    /// it was ready for connections.
    pub fn crash(&mut self, how: Crash) -> Result<Duration, LabError> {
        let Some(server) = &mut self.server else {
            return Err(LabError::Unexpected(
                "only a private server is stopped".into(),
            ));
        };
        match how {
            Crash::Kill => server.kill(),
            Crash::ShutdownNoWait => {
                let mut client = server.connect()?;
                // The answer may be cut off by what was asked for.
                let _ = client.execute("SHUTDOWN WITH NOWAIT");
                server.await_end()?;
            }
        }
        let ready = server.launch()?;
        self.target = server.options();
        Ok(ready)
    }

    /// Processor time of the private server so far.
    pub fn server_cpu_s(&self) -> Option<f64> {
        self.server.as_ref()?.cpu_s()
    }

    /// The private server, for experiments that kill it while others talk to it.
    pub fn server_mut(&mut self) -> Option<&mut PrivateServer> {
        self.server.as_mut()
    }

    /// After [`PrivateServer::launch`] the port is another one.
    pub fn find_server_again(&mut self) {
        if let Some(server) = &self.server {
            self.target = server.options();
        }
    }

    /// Asks until the database answers; a database in recovery refuses at first.
    pub fn first_answer(&self, database: &str, query: &str) -> Result<String, LabError> {
        let begun = Instant::now();
        loop {
            let answer =
                connect_to(&self.target, database).and_then(|mut client| client.text(query));
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) if begun.elapsed() > OPEN_LIMIT => {
                    return Err(LabError::StaysClosed {
                        name: database.into(),
                        reason: error.to_string(),
                    });
                }
                Err(_) => thread::sleep(RETRY_PAUSE),
            }
        }
    }

    /// Folder in which the server keeps data files.
    pub fn data_folder(&self) -> Result<String, LabError> {
        if let Some(server) = &self.server {
            let folder = server.data_folder();
            let whole = fs::canonicalize(&folder).unwrap_or(folder);
            return Ok(format!("{}/", whole.display()));
        }
        let mut client = self.client("master")?;
        Ok(client
            .text("SELECT CAST(SERVERPROPERTY('InstanceDefaultDataPath') AS nvarchar(4000))")?)
    }

    /// Cleans up and writes the report.
    pub fn finish(mut self, outcome: Result<(), LabError>) -> Result<Ending, LabError> {
        if let Err(error) = &outcome {
            self.notice(format!("The experiment ended early: {error}"));
        }
        if !self.options.keep && self.server.is_none() {
            for name in std::mem::take(&mut self.databases) {
                if let Err(error) = self.drop_database(&name) {
                    self.notice(format!("{name} could not be dropped: {error}"));
                }
            }
        }
        self.server = None;
        if self.is_scratch_ours() {
            fs::remove_dir_all(&self.scratch)
                .or_else(missing_is_fine)
                .map_err(at(&self.scratch))?;
        }
        self.report.fact(
            "Took",
            crate::figures::seconds(self.begun.elapsed().as_secs_f64()),
        );
        self.progress.finish_and_clear();
        let ending = ending(&self.report, outcome.is_ok());
        self.write_files()?;
        print!("{}", text::summary(&self.report));
        println!("Report: {}", self.out.join("report.html").display());
        Ok(ending)
    }

    fn is_scratch_ours(&self) -> bool {
        !self.options.keep && (self.options.private || self.options.connect.server.is_none())
    }

    fn write_files(&self) -> Result<(), LabError> {
        let page = self.out.join("report.html");
        fs::write(&page, html::page(&self.report)).map_err(at(&page))?;
        let results = self.out.join("results.json");
        let json = serde_json::to_string_pretty(&self.report)
            .map_err(|error| LabError::Unexpected(error.to_string()))?;
        fs::write(&results, json).map_err(at(&results))
    }
}

fn ending(report: &Report, is_complete: bool) -> Ending {
    match (
        is_complete && report.failed_checks() == 0,
        report.missed().0,
    ) {
        (false, _) => Ending::Failed,
        (true, 0) => Ending::Well,
        (true, _) => Ending::Missed,
    }
}

fn memory_bytes(options: &LabOptions) -> u64 {
    options.memory.max(64) << 20
}

/// How a server is brought down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    Kill,
    ShutdownNoWait,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LabError + use<> {
    let path = path.to_path_buf();
    move |source| LabError::File { path, source }
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        return Ok(());
    }
    Err(error)
}

fn spinner() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) =
        ProgressStyle::with_template("{spinner:.red} {elapsed_precise:.dim} {wide_msg}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// The server's name and version from `@@VERSION`: the first line, and the second where that says who is compatible.
fn product(version: &str) -> String {
    let mut lines = version.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    match lines
        .next()
        .and_then(|l| l.split_once(": compatible server"))
    {
        Some((name, _)) => format!("{name}, compatible with {first}"),
        None => first.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn a_missed_target_is_an_ending_of_its_own() {
        let mut report = Report::default();
        assert_eq!(ending(&report, true), Ending::Well);
        report.figure("updates", "1.4", "target at most 1.05", Verdict::Bad);
        assert_eq!(ending(&report, true), Ending::Missed);
        report.check("rows", "1", "2");
        assert_eq!(ending(&report, true), Ending::Failed);
        assert_eq!(ending(&Report::default(), false), Ending::Failed);
    }

    #[test]
    fn a_server_is_called_by_its_own_name() {
        let own = "Microsoft SQL Server 2022 (RTM) - 16.0.4100.1 (X64) \n\tDaruma 0.1.0: compatible server, not a Microsoft product\n\tDeveloper";
        let expected =
            "Daruma 0.1.0, compatible with Microsoft SQL Server 2022 (RTM) - 16.0.4100.1 (X64)";
        assert_eq!(product(own), expected);
        let other = "Microsoft SQL Server 2019 - 15.0.1 (X64)\n\tSep 1 2024\n\tCopyright";
        assert_eq!(product(other), "Microsoft SQL Server 2019 - 15.0.1 (X64)");
    }
}
