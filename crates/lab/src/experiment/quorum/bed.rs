//! Servers of one cluster on this machine, which are stopped, killed and cut off from their witness.
//!
//! Theory: whether there is a quorum is not read but tried: a new join token is one write that a majority has to agree to. What nodes show
//! is looked at again for a while before it counts, as votes follow a loss in steps.
//!
//! Nodes are addressed by their place in the order in which they came.

use super::seen::Seen;
use crate::experiment::{Lab, LabError};
use crate::server::{PrivateServer, ServerSpec, free_port};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What is waited for comes long before, also on a machine with much else to do: a witness that flapped is voted back after 30 s.
const PATIENCE: Duration = Duration::from_secs(240);
/// A cluster that has not agreed by then has no quorum: elections are tried every second, and a command waits ten.
const NO_QUORUM_AFTER: Duration = Duration::from_secs(8);
/// A table that stays the same for so long is not on its way to another: silence is a loss after 0.6 s, and who is back has its vote
/// after 2 s.
const STEADY: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(200);
/// Losses that are further apart than this are no losses at once.
const AT_ONCE: Duration = Duration::from_millis(200);
/// A node holds no user data here.
const MEMORY_BYTES_MAX: u64 = 192 << 20;

/// A node of the cluster.
struct Node {
    name: String,
    server: PrivateServer,
}

/// The servers, and the folder that is their witness.
pub struct Bed {
    name: String,
    folder: PathBuf,
    program: PathBuf,
    memory_bytes: u64,
    nodes: Vec<Node>,
    until: Instant,
}

impl Bed {
    /// An empty cluster of this name in the scratch folder; the experiment has ended by `until`.
    pub fn new(lab: &Lab, name: &str, until: Instant) -> Result<Bed, LabError> {
        let folder = lab.scratch().join(name);
        if folder.exists() {
            // Left by a run that was killed; the name is ours.
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
        fs::create_dir_all(folder.join(SHARE)).map_err(at(&folder))?;
        let program = Path::new("this program");
        Ok(Bed {
            name: name.into(),
            folder: fs::canonicalize(&folder).map_err(at(&folder))?,
            program: std::env::current_exe().map_err(at(program))?,
            memory_bytes: lab.memory_bytes().min(MEMORY_BYTES_MAX),
            nodes: Vec::new(),
            until,
        })
    }

    /// Makes a server a node and starts it: the first one makes the cluster, the others join it.
    pub fn add(&mut self, lab: &Lab, name: &str) -> Result<(), LabError> {
        lab.step(format!("starting {name}"));
        let folder = self.folder.join(name);
        let data = folder.join("data");
        let address = format!("127.0.0.1:{}", free_port());
        let own = ["--address", &address, "--node", name];
        let made = match self.first_up() {
            None => self.run(&data, &[&["create", &self.name], &own[..]].concat()),
            Some(member) => {
                let token = self.command(member, &["token"]);
                token.and_then(|token| {
                    let join = ["join", token.trim()];
                    self.run(&data, &[&join, &own[..]].concat())
                })
            }
        };
        made.map_err(|why| LabError::Unexpected(format!("{name} became no node: {why}")))?;
        let server = PrivateServer::start(ServerSpec {
            program: self.program.clone(),
            folder,
            memory_bytes: self.memory_bytes,
            arguments: vec!["--server-name".into(), name.into()],
        })?;
        self.nodes.push(Node {
            name: name.into(),
            server,
        });
        Ok(())
    }

    /// Nodes hold data of users here: each one may take this much memory from its next start on.
    pub fn with_memory(mut self, bytes: u64) -> Bed {
        self.memory_bytes = bytes;
        self
    }

    /// The server of a node.
    pub fn server(&self, node: usize) -> Result<&PrivateServer, LabError> {
        let found = self.nodes.get(node).map(|n| &n.server);
        found.ok_or_else(|| LabError::Unexpected(format!("there is no node {node}")))
    }

    /// Nodes, whether they run or not.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The node of this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }

    /// Does its process run?
    pub fn runs(&self, node: usize) -> bool {
        let found = self.nodes.get(node);
        found.is_some_and(|n| n.server.process_id().is_some())
    }

    fn first_up(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|n| self.runs(*n))
    }

    /// `daruma cluster` on this node; what it prints, or why it did not do it.
    fn command(&self, node: usize, arguments: &[&str]) -> Result<String, String> {
        let node = self.nodes.get(node).ok_or("no such node")?;
        self.run(&node.server.data_folder(), arguments)
    }

    fn run(&self, data: &Path, arguments: &[&str]) -> Result<String, String> {
        let ran = Command::new(&self.program)
            .arg("cluster")
            .args(arguments)
            .arg("--data")
            .arg(data)
            .stdin(Stdio::null())
            .output();
        let output = ran.map_err(|e| e.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        }
    }

    /// A command that has to succeed before long, on whichever node runs.
    pub fn tell(&self, lab: &Lab, arguments: &[&str]) -> Result<(), LabError> {
        let begun = Instant::now();
        loop {
            let told = match self.first_up() {
                Some(node) => self.command(node, arguments),
                None => Err("no node runs".into()),
            };
            let Err(why) = told else { return Ok(()) };
            if begun.elapsed() > PATIENCE {
                let text = format!("daruma cluster {}: {why}", arguments.join(" "));
                return Err(LabError::Unexpected(text));
            }
            self.pause(lab)?;
        }
    }

    /// What the cluster shows, asked on a node that runs. `None`: nobody answers.
    pub fn look(&self) -> Option<Seen> {
        let text = self.command(self.first_up()?, &["show", "--json"]).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Looks until the cluster has been as wanted for a while; `false` with what was seen last: it never was.
    pub fn await_steady(
        &self,
        lab: &Lab,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Result<(Seen, bool), LabError> {
        let begun = Instant::now();
        let mut since: Option<Instant> = None;
        let mut last = Seen::default();
        loop {
            let seen = self.look();
            let is_wanted = seen.as_ref().is_some_and(&wanted);
            last = seen.unwrap_or(last);
            since = match is_wanted {
                true => Some(since.unwrap_or_else(Instant::now)),
                false => None,
            };
            if since.is_some_and(|at| at.elapsed() >= STEADY) {
                return Ok((last, true));
            }
            if since.is_none() && begun.elapsed() > PATIENCE {
                return Ok((last, false));
            }
            self.pause(lab)?;
        }
    }

    /// Can the cluster agree on anything? With `patience`, where it should: before long.
    pub fn has_quorum(&self, lab: &Lab, patience: bool) -> Result<bool, LabError> {
        let limit = match patience {
            true => PATIENCE,
            false => NO_QUORUM_AFTER,
        };
        let begun = Instant::now();
        loop {
            let Some(node) = self.first_up() else {
                return Ok(false);
            };
            if self.command(node, &["token"]).is_ok() {
                return Ok(true);
            }
            if begun.elapsed() > limit {
                return Ok(false);
            }
            self.pause(lab)?;
        }
    }

    /// SIGTERM, as a service is stopped.
    pub fn stop(&mut self, node: usize) -> Result<(), LabError> {
        match self.nodes.get_mut(node) {
            Some(node) => Ok(node.server.stop()?),
            None => Ok(()),
        }
    }

    /// SIGKILL for all of them, and the share if it goes too. `false`: the machine was too busy to do it at once.
    pub fn lose(&mut self, nodes: &[usize], share: bool) -> Result<bool, LabError> {
        let begun = Instant::now();
        if share {
            self.share_off()?;
        }
        for node in nodes {
            let id = self.nodes.get(*node).and_then(|n| n.server.process_id());
            let id = id.and_then(|id| i32::try_from(id).ok());
            if let Some(pid) = id.and_then(Pid::from_raw) {
                // One that has ended by itself is lost as well.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let took = begun.elapsed();
        for node in nodes {
            if let Some(node) = self.nodes.get_mut(*node) {
                node.server.kill();
            }
        }
        Ok(took < AT_ONCE)
    }

    /// Starts a node that was stopped or killed.
    pub fn start(&mut self, node: usize) -> Result<(), LabError> {
        if !self.runs(node)
            && let Some(node) = self.nodes.get_mut(node)
        {
            node.server.launch()?;
        }
        Ok(())
    }

    /// The folder that the witness is in.
    pub fn share(&self) -> PathBuf {
        self.folder.join(SHARE)
    }

    /// Nobody reaches the witness any more.
    pub fn share_off(&self) -> Result<(), LabError> {
        self.move_share(SHARE, SHARE_OFF)
    }

    /// The witness can be reached again.
    pub fn share_on(&self) -> Result<(), LabError> {
        self.move_share(SHARE_OFF, SHARE)
    }

    fn move_share(&self, from: &str, to: &str) -> Result<(), LabError> {
        let from = self.folder.join(from);
        match from.exists() {
            true => fs::rename(&from, self.folder.join(to)).map_err(at(&from)),
            false => Ok(()),
        }
    }

    /// Between two looks; an end that the user wants, or that time brings, comes here.
    pub fn pause(&self, lab: &Lab) -> Result<(), LabError> {
        lab.check_interrupt()?;
        if Instant::now() > self.until {
            return Err(LabError::Unexpected(
                "the experiment's time is up (--limit)".into(),
            ));
        }
        thread::sleep(POLL);
        Ok(())
    }
}

const SHARE: &str = "share";
const SHARE_OFF: &str = "share.off";

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> LabError + use<> {
    let path = path.to_path_buf();
    move |source| LabError::File { path, source }
}
