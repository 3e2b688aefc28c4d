//! A private server: a child process of this program on scratch folders, for experiments that stop and kill servers.
//!
//! The child runs `daruma serve` from the program's own file, listens on a free port of this machine, and ends when
//! its standard input closes, which happens whatever ends the lab. It stands in a process group of its own, so that
//! Ctrl-C reaches the lab alone.
//!
//! Read next: `experiment`.

use daruma_client::client::{Client, ClientError, EncryptionWish, Options};
use daruma_tds::login::Secret;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

const PASSWORD: &str = "Lab-in-a-scratch-folder-1";
/// Recovery of a large transaction in classic mode takes its time.
const READY_LIMIT: Duration = Duration::from_secs(3600);
const STOP_LIMIT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(2);

/// Why a private server could not be started, reached or stopped.
#[derive(Debug, Error)]
pub enum ServerError {
    #[error("cannot start a server ({}): {source}", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("the server ended before it was ready; its last lines:\n{lines}")]
    Ended { lines: String },
    #[error("the server was not ready within {seconds} s")]
    Late { seconds: u64 },
    #[error("the server did not stop within {seconds} s")]
    StaysUp { seconds: u64 },
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What a private server is started with.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The program to run, normally this one.
    pub program: PathBuf,
    /// Folder of its data and its output.
    pub folder: PathBuf,
    /// `--memory` of `serve`: what data pages and work may take together.
    pub memory_bytes: u64,
    /// More arguments of `serve`.
    pub arguments: Vec<String>,
}

/// A server process of the lab's own on a port that it chose itself. It ends with this value, killed if it must be.
pub struct PrivateServer {
    spec: ServerSpec,
    child: Option<Child>,
    port: u16,
}

impl PrivateServer {
    /// Starts the process and waits, for up to an hour, until it says `ready`.
    pub fn start(spec: ServerSpec) -> Result<PrivateServer, ServerError> {
        let mut server = PrivateServer {
            spec,
            child: None,
            port: 0,
        };
        server.launch()?;
        Ok(server)
    }

    /// `--data` of the process.
    pub fn data_folder(&self) -> PathBuf {
        self.spec.folder.join("data")
    }

    /// More arguments of `serve`, from the next launch on.
    pub fn set_arguments(&mut self, arguments: Vec<String>) {
        self.spec.arguments = arguments;
    }

    /// Id of the running process; `None` between a kill and the next launch.
    pub fn process_id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// How to log in: as `sa`, without encryption, so that no experiment measures TLS.
    pub fn options(&self) -> Options {
        Options {
            user: "sa".into(),
            password: Secret::new(PASSWORD),
            encryption: EncryptionWish::Optional,
            app_name: "daruma lab".into(),
            ..Options::new("127.0.0.1", self.port)
        }
    }

    /// Starts the process again; how long it took until it said `ready`.
    pub fn launch(&mut self) -> Result<Duration, ServerError> {
        let failed = |source| ServerError::Start {
            path: self.spec.program.clone(),
            source,
        };
        fs::create_dir_all(&self.spec.folder).map_err(failed)?;
        let log_path = self.spec.folder.join("server.log");
        let opened = OpenOptions::new().create(true).append(true).open(&log_path);
        let log = opened.map_err(failed)?;
        let begun = Instant::now();
        let mut child = self.command().spawn().map_err(failed)?;
        let lines = follow(&mut child, log);
        self.child = Some(child);
        self.port = self.await_ready(&lines, &log_path)?;
        Ok(begun.elapsed())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.spec.program);
        command
            .arg("serve")
            .arg("--data")
            .arg(self.data_folder())
            .args([
                "--listen",
                "127.0.0.1:0",
                "--encrypt",
                "off",
                "--until-input-ends",
            ])
            .args(["--memory", &self.spec.memory_bytes.to_string()])
            .args(&self.spec.arguments)
            .env("MSSQL_SA_PASSWORD", PASSWORD)
            .env_remove("MSSQL_TCP_PORT")
            .env_remove("MSSQL_DATA_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    fn await_ready(&mut self, lines: &Receiver<String>, log: &Path) -> Result<u16, ServerError> {
        let begun = Instant::now();
        loop {
            let left = READY_LIMIT.saturating_sub(begun.elapsed());
            match lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(port) = ready_port(&line) {
                        return Ok(port);
                    }
                }
                Err(_) if left.is_zero() => {
                    return Err(ServerError::Late {
                        seconds: READY_LIMIT.as_secs(),
                    });
                }
                Err(_) => {
                    self.kill();
                    let text = fs::read_to_string(log).unwrap_or_default();
                    let all: Vec<&str> = text.lines().collect();
                    let last = all.len().saturating_sub(15);
                    return Err(ServerError::Ended {
                        lines: all.get(last..).unwrap_or_default().join("\n"),
                    });
                }
            }
        }
    }

    /// Starts the process and kills it again before it can be ready, or soon after.
    pub fn stumble(&mut self, after: Duration) -> Result<(), ServerError> {
        let spawned = self.command().stderr(Stdio::null()).spawn();
        self.child = Some(spawned.map_err(|source| ServerError::Start {
            path: self.spec.program.clone(),
            source,
        })?);
        thread::sleep(after);
        self.kill();
        Ok(())
    }

    /// SIGKILL: what a power cut does to the process, though not to the disk's own memory.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A child that has ended by itself cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, and waiting for the end: a clean shutdown with its checkpoint.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        if let Some(id) = self.process_id()
            && let Ok(id) = i32::try_from(id)
            && let Some(pid) = Pid::from_raw(id)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        self.await_end()
    }

    /// Waits for a server that was told to end.
    pub fn await_end(&mut self) -> Result<(), ServerError> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let begun = Instant::now();
        while begun.elapsed() < STOP_LIMIT {
            match child.try_wait() {
                Ok(None) => thread::sleep(POLL),
                Ok(Some(_)) | Err(_) => return Ok(()),
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(ServerError::StaysUp {
            seconds: STOP_LIMIT.as_secs(),
        })
    }

    /// A new connection to the database master.
    pub fn connect(&self) -> Result<Client, ServerError> {
        Ok(Client::connect(&self.options())?)
    }

    /// Processor time of the server so far, in seconds.
    pub fn cpu_s(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process_id()?)).ok()?;
        cpu_ticks(&stat).map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A thread that writes the child's lines to the log and passes them on as long as somebody listens.
fn follow(child: &mut Child, mut log: File) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(output) = child.stderr.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The log is for people; an experiment does not fail because it is full.
                let _ = writeln!(log, "{line}");
                let _ = sender.send(line);
            }
        });
    }
    receiver
}

/// A port that nobody listens on, below those that the system gives to connections: whoever listens there comes back to it after a restart.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 16_000;
    let start = std::process::id() as u16;
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_mul(61).wrapping_add(next) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The port in `ready 127.0.0.1:40123 ...`.
fn ready_port(line: &str) -> Option<u16> {
    let address = line.strip_prefix("ready ")?.split_whitespace().next()?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// User and system time in a line of /proc/PID/stat. The name in brackets may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_the_port() {
        assert_eq!(
            ready_port("ready 127.0.0.1:40123 data /tmp/x encrypt Off"),
            Some(40123)
        );
        assert_eq!(ready_port("password of sa: in /data/sa-password"), None);
        assert_eq!(ready_port("ready"), None);
    }

    #[test]
    fn processor_time_is_behind_the_name() {
        let stat = "77 (a) b) S 1 77 77 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 100 1 1";
        assert_eq!(cpu_ticks(stat), Some(300));
    }
}
