//! Keeps a connection to one replica.
//!
//! A thread asks where the replica is, connects, serves the connection until it ends, and begins again: at once after one that stood
//! for a while, else after a pause that doubles up to two seconds.

use super::endpoint::{EndpointConfig, dial_for};
use super::link::{Handler, Link};
use super::tls::Fingerprint;
use crate::commit::ReplicaId;
use crate::wire::Purpose;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Where a replica is now, and how this side greets it.
pub struct Target {
    /// Of its endpoint.
    pub address: SocketAddr,
    /// Which it is.
    pub to: ReplicaId,
    /// Certificates, of which it has one.
    pub pinned: Vec<Fingerprint>,
    /// This side.
    pub config: EndpointConfig,
}

/// What the next attempt is for: nobody for now, a replica, or why there can be none.
pub type Wanted = Result<Option<Target>, String>;

/// See the module.
pub struct Dialer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    target: Box<dyn Fn() -> Wanted + Send + Sync>,
    handler: Arc<dyn Handler>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    link: Option<Arc<Link>>,
    /// The view's last_connect_error_description.
    last_error: Option<String>,
}

impl Dialer {
    /// Begins to connect. `target` is asked before each attempt, on a thread that may wait.
    pub fn start(
        target: Box<dyn Fn() -> Wanted + Send + Sync>,
        handler: Arc<dyn Handler>,
    ) -> io::Result<Dialer> {
        let shared = Arc::new(Shared {
            target,
            handler,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let dialing = shared.clone();
        let builder = std::thread::Builder::new().name("group dial".into());
        let thread = builder.spawn(move || dialing.keep())?;
        Ok(Dialer {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Why the last attempt failed, if none has succeeded since.
    pub fn last_error(&self) -> Option<String> {
        self.shared.state.lock().last_error.clone()
    }

    /// The pause is over: something has changed.
    pub fn hurry(&self) {
        self.shared.changed.notify_all();
    }

    /// Closes the connection and makes no other.
    pub fn stop(&self) {
        let link = {
            let mut state = self.shared.state.lock();
            state.stopped = true;
            state.link.clone()
        };
        self.shared.changed.notify_all();
        link.iter().for_each(|l| l.close());
        if let Some(thread) = self.thread.lock().take() {
            // A thread that panicked has stopped as well.
            let _ = thread.join();
        }
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn keep(&self) {
        let mut pause = PAUSE_MIN;
        while !self.state.lock().stopped {
            let began = Instant::now();
            match (self.target)() {
                Ok(None) => {}
                Ok(Some(target)) => {
                    let Target {
                        address,
                        to,
                        pinned,
                        config,
                    } = target;
                    match dial_for(address, to, &pinned, &config, Purpose::Member) {
                        Ok(link) => self.serve(&link),
                        Err(error) => self.failed(error.to_string()),
                    }
                }
                Err(why) => self.failed(why),
            }
            pause = match began.elapsed() > PAUSE_MAX {
                true => PAUSE_MIN,
                false => pause,
            };
            let mut state = self.state.lock();
            if !state.stopped {
                self.changed.wait_for(&mut state, pause);
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn serve(&self, link: &Arc<Link>) {
        {
            let mut state = self.state.lock();
            if state.stopped {
                return;
            }
            state.link = Some(link.clone());
            state.last_error = None;
        }
        self.handler.connected(link);
        link.serve(&*self.handler);
        self.state.lock().link = None;
    }

    fn failed(&self, why: String) {
        self.state.lock().last_error = Some(why);
    }
}
