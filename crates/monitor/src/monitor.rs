//! The monitor as a whole: its threads, and the order in which they start and stop.
//!
//! | thread | does |
//! |---|---|
//! | one for each server | samples |
//! | watchdog | breaks connections that are never answered |
//! | writer | samples into the repository |
//! | keeper | purge, alerts, names and starts of servers |
//! | two of the web | answer pages from what the others gathered |

use crate::alerts::Alerts;
use crate::page;
use crate::repository::store::{self, Status};
use crate::repository::{Repository, purge};
use crate::sampler::live::{Outbox, Server};
use crate::sampler::{self, BREAK_AFTER, Settings};
use crate::sql::now;
use daruma_client::client::{ClientError, Options};
use parking_lot::Mutex;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// Pause of the keeper and the watchdog.
const PAUSE: Duration = Duration::from_millis(250);
/// The first purge comes after the start has settled.
const FIRST_PURGE_MS: i64 = 60_000;

/// What the monitor is started with.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    /// The servers to watch.
    pub servers: Vec<Options>,
    /// Where samples are kept; logins of this server are those of the page.
    pub repository: Options,
    /// `address:port` of the page; port 0 takes a free one.
    pub listen: String,
    /// Certificate chain and key (PEM) of the page.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Listen beyond this machine without TLS all the same.
    pub insecure: bool,
    /// More names by which the page is called.
    pub hosts: Vec<String>,
    /// Replace literals of statement texts.
    pub mask: bool,
    /// What a scrape of `/metrics` must bring.
    pub metrics_token: Option<String>,
    /// Who is told of alerts, and the secret that signs it.
    pub webhook: Option<(String, String)>,
}

impl MonitorOptions {
    /// For a page on a free port of this machine that watches the repository's own server.
    pub fn new(server: Options) -> MonitorOptions {
        MonitorOptions {
            servers: vec![server.clone()],
            repository: server,
            listen: "127.0.0.1:0".into(),
            certificate: None,
            insecure: false,
            hosts: Vec::new(),
            mask: true,
            metrics_token: None,
            webhook: None,
        }
    }
}

/// Why the monitor does not start.
#[derive(Debug, Error)]
pub enum MonitorError {
    #[error("repository: {0}")]
    Repository(#[from] ClientError),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: io::Error },
    #[error(
        "the page would be open beyond this machine without TLS on {address}. Give it a certificate (--tls-cert, --tls-key), or say --insecure-listen"
    )]
    Insecure { address: String },
    #[error("certificate: {0}")]
    Certificate(String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    pub servers: Vec<Arc<Server>>,
    pub repository: Repository,
    pub outbox: Outbox,
    pub stored: Status,
    pub alerts: Alerts,
    pub masks: bool,
    pub purge_error: Mutex<Option<String>>,
}

impl Shared {
    /// The server with this number.
    pub fn server(&self, id: i16) -> Option<&Arc<Server>> {
        self.servers.iter().find(|server| server.id == id)
    }
}

/// A running monitor.
pub struct Monitor {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    /// Those that fill the outbox; they end before the writer does.
    samplers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    writer_stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
    web: Option<page::serve::Web>,
}

impl Monitor {
    /// Opens the repository, begins to sample, then listens.
    pub fn start(options: &MonitorOptions) -> Result<Monitor, MonitorError> {
        let bound = page::serve::bind(options)?;
        let repository = Repository::open(&options.repository)?;
        let mut servers = Vec::new();
        for server in &options.servers {
            let id = repository.server_id(&server.server())?;
            servers.push(Arc::new(Server::new(id, server.server())));
        }
        let shared = Arc::new(Shared {
            servers,
            repository,
            outbox: Outbox::default(),
            stored: Status::default(),
            alerts: Alerts::default(),
            masks: options.mask,
            purge_error: Mutex::default(),
        });
        let mut monitor = Monitor {
            shared: shared.clone(),
            stop: Arc::default(),
            samplers: Vec::new(),
            others: Vec::new(),
            writer_stop: Arc::default(),
            writer: None,
            web: None,
        };
        let web = page::serve::Web::start(bound, &shared, options)?;
        let teller = web.teller(options.webhook.clone());
        monitor.web = Some(web);
        for (server, how) in shared.servers.iter().zip(&options.servers) {
            let (server, how, shared) = (server.clone(), how.clone(), shared.clone());
            let (stop, settings) = (monitor.stop.clone(), Settings { mask: options.mask });
            let sampler = spawn(format!("sampler {}", server.id), move || {
                sampler::watch(&server, &how, &settings, &shared.outbox, &stop);
            })?;
            monitor.samplers.push(sampler);
        }
        let (held, stop) = (shared.clone(), monitor.writer_stop.clone());
        monitor.writer = Some(spawn("writer".into(), move || {
            store::run(&held.repository, &held.outbox, &held.stored, &stop);
        })?);
        let (held, stop) = (shared.clone(), monitor.stop.clone());
        monitor.others.push(spawn("watchdog".into(), move || {
            while !stop.load(Ordering::Acquire) {
                for server in &held.servers {
                    server.break_after(BREAK_AFTER);
                }
                thread::sleep(PAUSE);
            }
        })?);
        let stop = monitor.stop.clone();
        monitor.others.push(spawn("keeper".into(), move || {
            keep(&shared, &stop, &teller);
        })?);
        Ok(monitor)
    }

    /// Where the page is: the real port, also where port 0 was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(page::serve::Web::address)
    }

    /// What the threads share, for tests and for other rooms.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Stops sampling, stores what is left, then closes the page.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        for server in &self.shared.servers {
            // A sampler that waits for an answer is not waited for.
            server.break_after(Duration::from_secs(2));
        }
        for thread in self.samplers.drain(..).chain(self.others.drain(..)) {
            let _ = thread.join();
        }
        self.writer_stop.store(true, Ordering::Release);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        self.web = None;
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, MonitorError> {
    thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(MonitorError::Thread)
}

/// Purge every ten minutes, alerts every second, names of servers when they start.
fn keep(shared: &Shared, stop: &AtomicBool, teller: &page::serve::Teller) {
    let mut next_purge = now() + FIRST_PURGE_MS;
    let mut next_alerts = now();
    let mut purges = 0;
    let mut known = vec![0; shared.servers.len()];
    while !stop.load(Ordering::Acquire) {
        let at = now();
        if at >= next_purge {
            let done = purge::all(&shared.repository, purges);
            *shared.purge_error.lock() = done.err().map(|error| error.to_string());
            purges += 1;
            next_purge = at + purge::EVERY_MS;
        }
        if at >= next_alerts {
            shared.alerts.look(shared, at, teller);
            next_alerts = at + 1_000;
        }
        for (server, known) in shared.servers.iter().zip(&mut known) {
            note_boot(shared, server, known);
        }
        thread::sleep(PAUSE);
    }
}

fn note_boot(shared: &Shared, server: &Server, known: &mut i64) {
    let (name, started, version) = {
        let live = server.live();
        (live.name.clone(), live.started, live.version.clone())
    };
    if started != 0 && started.abs_diff(*known) > 1_000 {
        // When it fails, the next round tries again.
        if shared
            .repository
            .note_boot(server.id, &name, started, &version)
            .is_ok()
        {
            *known = started;
        }
    }
}
