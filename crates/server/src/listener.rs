//! Accepts connections, bounds their number, and ends them all in the end.

use crate::connection;
use crate::error::ServerError;
use crate::service::Service;
use crate::tls::TlsSettings;
use crate::watcher::{Slot, Watcher};
use parking_lot::{Condvar, Mutex};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Stack of a connection's thread: deep expressions recurse. Reserved, not used up.
pub(crate) const STACK_BYTES: usize = 8 << 20;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// After an `accept` that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Error of connections that fail before anything is read from them.
const NOT_ACCEPTED: i32 = 17194;
/// Time for killed sessions to roll back and say farewell.
const FAREWELL: Duration = Duration::from_secs(10);

/// Bounds in time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From accept to login response.
    pub login_timeout: Duration,
    /// Before a failed login is answered, so that guessing is slow.
    pub refusal_delay: Duration,
    /// How long a client may take not a single byte of its result. Its session holds a snapshot, perhaps locks.
    pub send_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            login_timeout: Duration::from_secs(15),
            refusal_delay: Duration::from_millis(200),
            send_timeout: Duration::from_secs(3600),
        }
    }
}

/// State that all connections share.
pub(crate) struct Shared {
    pub service: Arc<dyn Service>,
    pub tls: TlsSettings,
    pub limits: Limits,
    pub watcher: Watcher,
    is_stopping: AtomicBool,
    /// Set when a session asked the server to stop.
    shutdown: Mutex<bool>,
    shutdown_changed: Condvar,
}

impl Shared {
    pub(crate) fn wake_for_shutdown(&self) {
        *self.shutdown.lock() = true;
        self.shutdown_changed.notify_all();
    }
}

/// A server that accepts connections until it is stopped.
pub struct Listener {
    shared: Arc<Shared>,
    socket: Arc<TcpListener>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// Wakes the thread in [`Listener::wait`].
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

impl Waker {
    /// Lets [`Listener::wait`] return, from any thread; nothing else happens to the server.
    pub fn wake(&self) {
        self.0.wake_for_shutdown();
    }
}

impl Listener {
    /// Binds `address` and begins to accept.
    pub fn start(
        service: Arc<dyn Service>,
        tls: TlsSettings,
        limits: Limits,
        address: &str,
    ) -> Result<Listener, ServerError> {
        let failed = |source| ServerError::Listen {
            address: address.to_string(),
            source,
        };
        let socket = Arc::new(TcpListener::bind(address).map_err(failed)?);
        let address = socket.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            service,
            tls,
            limits,
            watcher: Watcher::new(),
            is_stopping: AtomicBool::new(false),
            shutdown: Mutex::new(false),
            shutdown_changed: Condvar::new(),
        });
        let watched = shared.clone();
        let accepting = (shared.clone(), socket.clone());
        let watcher = spawn("watcher", move || watched.watcher.run())?;
        let never = AtomicBool::new(false);
        let acceptor = spawn("acceptor", move || {
            accept_all(&accepting.0, &accepting.1, &never);
        })?;
        Ok(Listener {
            shared,
            socket,
            address,
            threads: vec![watcher, acceptor],
        })
    }

    /// The real address, also where port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that are open now, logged in or not.
    pub fn connections(&self) -> usize {
        self.shared.watcher.count()
    }

    /// A handle to end [`Listener::wait`] with; it may outlive the listener.
    pub fn waker(&self) -> Waker {
        Waker(self.shared.clone())
    }

    /// A handle to listen at further addresses with; it may outlive the listener.
    pub fn doors(&self) -> Doors {
        Doors {
            shared: self.shared.clone(),
            own: self.address,
        }
    }

    /// Waits until a session or a [`Waker`] asks the server to stop.
    pub fn wait(&self) {
        let mut asked = self.shared.shutdown.lock();
        self.shared
            .shutdown_changed
            .wait_while(&mut asked, |asked| !*asked);
    }

    /// Accepts no more, gives running requests `grace` to end, then ends every session and waits for its thread.
    /// False if some session did not end.
    pub fn stop(mut self, grace: Duration) -> bool {
        let shared = self.shared.clone();
        shared.is_stopping.store(true, Ordering::SeqCst);
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        end_idle(&shared.watcher.all());
        if !shared.watcher.wait_until_empty(grace) {
            shared.watcher.all().iter().for_each(|slot| slot.kill());
        }
        let all_ended = shared.watcher.wait_until_empty(FAREWELL);
        shared.watcher.all().iter().for_each(|slot| slot.close());
        shared.watcher.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        all_ended
    }
}

/// Opens further addresses, where sessions are as at the server's own.
#[derive(Clone)]
pub struct Doors {
    shared: Arc<Shared>,
    own: SocketAddr,
}

impl Doors {
    /// Where the server itself listens.
    pub fn own(&self) -> SocketAddr {
        self.own
    }

    /// Listens at one more address.
    pub fn open(&self, address: SocketAddr) -> std::io::Result<Door> {
        let socket = Arc::new(TcpListener::bind(address)?);
        let address = socket.local_addr()?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let (shared, taken, closed) = (self.shared.clone(), socket.clone(), is_closed.clone());
        let acceptor = thread::Builder::new()
            .name("acceptor".into())
            .spawn(move || accept_all(&shared, &taken, &closed))?;
        Ok(Door {
            address,
            socket,
            is_closed,
            acceptor: Some(acceptor),
        })
    }
}

/// One more address at which the server listens, until it is dropped. Sessions that came this way go on.
pub struct Door {
    address: SocketAddr,
    socket: Arc<TcpListener>,
    is_closed: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Door {
    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // The acceptor wakes by that.
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            // One that panicked has ended as well.
            let _ = acceptor.join();
        }
    }
}

/// Sessions without a request end at once; the others are asked again after their grace.
fn end_idle(slots: &[Arc<Slot>]) {
    slots
        .iter()
        .filter(|slot| !slot.is_running())
        .for_each(|slot| slot.kill());
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServerError> {
    thread::Builder::new()
        .name(name.to_string())
        .spawn(work)
        .map_err(ServerError::Thread)
}

fn accept_all(shared: &Arc<Shared>, listener: &TcpListener, is_closed: &AtomicBool) {
    let has_ended =
        || is_closed.load(Ordering::SeqCst) || shared.is_stopping.load(Ordering::SeqCst);
    let mut number = 0_u64;
    while !has_ended() {
        match listener.accept() {
            Ok((socket, client)) => {
                number += 1;
                admit(shared, socket, client, number);
            }
            Err(_) if has_ended() => return,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                let text = format!("A connection cannot be accepted: {error}.");
                shared
                    .service
                    .write_log_bounded("Server", NOT_ACCEPTED, &[&text]);
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// Gives the connection its thread, if there is room for it.
fn admit(shared: &Arc<Shared>, socket: TcpStream, client: SocketAddr, number: u64) {
    let limit = shared.service.connections_max();
    if shared.watcher.count() >= limit {
        let text = format!(
            "Error: 17809, Severity: 20, State: 3.\nCould not connect because the maximum number of '{limit}' user connections has already been reached. The connection has been closed. [CLIENT: {}]",
            client.ip()
        );
        shared.service.write_log_bounded("Logon", 17809, &[&text]);
        return;
    }
    if let Err(error) = tune(&socket) {
        let ip = client.ip();
        let text = format!("A connection cannot be set up: {error}. [CLIENT: {ip}]");
        shared
            .service
            .write_log_bounded("Logon", NOT_ACCEPTED, &[&text]);
        return;
    }
    let socket = Arc::new(socket);
    let slot = shared.watcher.add(socket.clone());
    // Seen by `stop` from here on; a stop that came just before did not see it.
    if shared.is_stopping.load(Ordering::SeqCst) {
        shared.watcher.remove(&slot);
        return;
    }
    let (owned, kept) = (shared.clone(), slot.clone());
    let body = move || {
        let served = catch_unwind(AssertUnwindSafe(|| {
            connection::serve(socket, client, &kept, &owned);
        }));
        // A request's panic is caught where it runs; this one came from login or the connection itself.
        if let Err(panic) = served {
            let text = connection::panic_text(panic.as_ref());
            owned.service.write_log("Server", &text);
            kept.close();
        }
        owned.watcher.remove(&kept);
    };
    let builder = thread::Builder::new()
        .name(format!("tds-{number}"))
        .stack_size(STACK_BYTES);
    if let Err(error) = builder.spawn(body) {
        shared.watcher.remove(&slot);
        shared.service.write_log("Server", &format!("Error: 17189, Severity: 16, State: 1.\nA thread for a new connection cannot be started: {error}. [CLIENT: {}]", client.ip()));
    }
}

fn tune(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    Ok(())
}
