//! What administrators say to a node: a socket in its folder, which only those reach who may read the folder.
//!
//! One connection, one line of JSON each way: a [`Request`], then a [`Response`].

use super::{ClusterError, Input, Shared};
use crate::command::{Command, Outcome};
use crate::machine::ClusterView;
use crate::state::GroupId;
use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

const SOCKET: &str = "control";
/// A longer line is none of ours.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Who connects has to say something in so long.
const SAY_TIMEOUT: Duration = Duration::from_secs(5);
/// Whoever asks waits longer than any wish may take, or all that a node does before it leaves for good: it asks, hands over, leaves and
/// forgets, each of which has its limit.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// Connections at once.
const SERVED_MAX: usize = 16;
const LEAVE_WAIT: Duration = Duration::from_secs(5);

/// What an administrator wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// What the leader tells of the cluster, or this node where nobody leads.
    Show,
    /// A change that the cluster has to agree on.
    Wish(Command),
    /// A quorum of this node alone.
    Force,
    /// Give the vote away; the server is about to stop.
    Leave,
    /// Leave the cluster for good.
    Depart,
    /// A new join token.
    Token,
    /// In which epoch does this node act for the group now?
    Acts(GroupId),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    Shown(ClusterView),
    Outcome(Outcome),
    Forced,
    /// Whether the cluster has agreed.
    Left(bool),
    /// The server is no node any more.
    Departed,
    Token(String),
    Acts(Option<u64>),
    Failed(String),
}

/// Why a node could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("no node of a cluster runs with {folder}: {error}")]
    Connect { folder: PathBuf, error: io::Error },
    #[error("the node of the cluster: {0}")]
    Talk(#[from] io::Error),
    #[error("the node's answer is none: {0}")]
    Answer(#[from] serde_json::Error),
}

/// Asks the node whose files are in this folder.
pub fn ask(folder: &Path, request: &Request) -> Result<Response, ControlError> {
    let connected = Reach::of(folder).and_then(|reach| UnixStream::connect(reach.path()));
    let mut stream = connected.map_err(|error| ControlError::Connect {
        folder: folder.to_path_buf(),
        error,
    })?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(SAY_TIMEOUT))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
    }
    Ok(serde_json::from_str(&answer)?)
}

/// The socket by a path that is short, however long that of the folder is: addresses of sockets have 107 bytes.
struct Reach(OwnedFd);

impl Reach {
    fn of(folder: &Path) -> io::Result<Reach> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Reach(openat(CWD, folder, flags, Mode::empty())?))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", self.0.as_raw_fd()))
    }
}

/// The socket of a node that runs.
pub(super) struct Control {
    stopping: Arc<AtomicBool>,
    folder: PathBuf,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Control {
    pub(super) fn open(shared: &Arc<Shared>, folder: &Path) -> Result<Control, ClusterError> {
        let reach = Reach::of(folder).map_err(ClusterError::Folder)?;
        let path = reach.path();
        // Of a node that was killed: the folder's lock is held.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(ClusterError::Folder(e)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(ClusterError::Folder)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))
            .map_err(ClusterError::Folder)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let for_thread = stopping.clone();
        let shared = Arc::downgrade(shared);
        let builder = Builder::new().name("cluster control".into());
        let thread = builder.spawn(move || accept_all(&listener, &shared, &for_thread));
        Ok(Control {
            stopping,
            folder: folder.to_path_buf(),
            thread: Mutex::new(Some(thread.map_err(ClusterError::Thread)?)),
        })
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // A connection of our own wakes the listener.
        let woken = Reach::of(&self.folder).and_then(|r| UnixStream::connect(r.path()));
        let thread = self.thread.lock().take();
        // Without a folder there is no way to wake it; it ends with the process.
        if let (Ok(_), Some(thread)) = (woken, thread) {
            // A thread that panicked has stopped as well.
            let _ = thread.join();
        }
    }
}

fn accept_all(listener: &UnixListener, shared: &Weak<Shared>, stopping: &AtomicBool) {
    let served = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let (Ok((stream, _)), Some(shared)) = (accepted, shared.upgrade()) else {
            // Of too many open files, for example: it may be better in a moment.
            std::thread::sleep(super::drive::TICK);
            continue;
        };
        if served.fetch_add(1, Ordering::AcqRel) >= SERVED_MAX {
            served.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let counted = served.clone();
        let builder = Builder::new().name("cluster command".into());
        let spawned = builder.spawn(move || {
            // Who left without an answer misses nothing.
            let _ = serve(&stream, &shared);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            served.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn serve(mut stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(SAY_TIMEOUT))?;
    stream.set_write_timeout(Some(SAY_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let response = match serde_json::from_str(&line) {
        Ok(request) => answer(shared, request),
        Err(error) => Response::Failed(format!("no request: {error}")),
    };
    let mut line = serde_json::to_string(&response)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

fn answer(shared: &Shared, request: Request) -> Response {
    match request {
        Request::Show => match shared.show() {
            Some(view) => Response::Shown(view),
            None => Response::Failed("the node has ended".into()),
        },
        Request::Wish(command) => Response::Outcome(shared.wish(command)),
        Request::Force => match shared.inbox.push(Input::Force) {
            true => Response::Forced,
            false => Response::Failed("the node has ended".into()),
        },
        Request::Leave => Response::Left(shared.leave(LEAVE_WAIT)),
        Request::Depart => match shared.depart() {
            Ok(()) => Response::Departed,
            Err(why) => Response::Failed(why),
        },
        Request::Token => match shared.make_token() {
            Ok(token) => Response::Token(token.encode()),
            Err(error) => Response::Failed(error.to_string()),
        },
        Request::Acts(group) => Response::Acts(shared.owned(&group).map(|o| o.epoch)),
    }
}
