//! Ports of listeners: the primary of a group listens where the group's listener is.
//!
//! Theory: a thread compares what should be open with what is, whenever a role or a definition has changed and every [`TICK`]. So a port that
//! the old primary has not let go of yet, or an address that comes to this machine later, is taken when it can be. Sessions there are
//! as on the server's own port. An address that this machine does not have is another server's to listen at, and tried again; a port that
//! another program has fails the statement that asks for it, and is told in the error log at a failover.
//!
//! | listener | where |
//! |---|---|
//! | with addresses | each of them that this machine has |
//! | without | the address of the server's own port |
//! | where the server listens already | the server's own port serves it |
//!
//! Invariants
//! 1. Nothing is open for a group whose primary is another server, once the thread has looked.
//! 2. A failure is told once, until it is another one.

use super::common::Common;
use crate::listener::{Door, Doors};
use daruma_catalog::ListenerDef;
use daruma_tsql::error::Result;
use daruma_tsql::instance::hadr::{OpenPort, PortKind};
use daruma_tsql::messages;
use parking_lot::{Condvar, Mutex};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often what could not be opened is tried again.
const TICK: Duration = Duration::from_millis(500);

/// Ports of all groups of this server.
#[derive(Default)]
pub(super) struct Ports {
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    /// `None` until the server listens itself.
    doors: Option<Doors>,
    own_since: i64,
    ports: Vec<Port>,
    has_changed: bool,
    is_stopped: bool,
}

/// Where a group's listener is to be reached on this server.
struct Port {
    group: [u8; 16],
    address: SocketAddr,
    open: Opened,
    since: i64,
}

enum Opened {
    /// By a socket of its own.
    Door(Door),
    /// By the server's own.
    Own,
    /// Not: why.
    No(String),
}

impl Ports {
    /// Somebody's role, or a definition, is not what it was.
    pub(super) fn look(&self) {
        self.state.lock().has_changed = true;
        self.changed.notify_all();
    }

    /// The server listens; from now on so do its groups.
    pub(super) fn begin(&self, common: &Arc<Common>, doors: Doors) -> std::io::Result<()> {
        {
            let mut state = self.state.lock();
            state.own_since = common.instance.now_utc();
            state.doors = Some(doors);
        }
        let common = common.clone();
        let thread = std::thread::Builder::new()
            .name("hadr listen".into())
            .spawn(move || common.ports.keep(&common))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Closes everything, and ends the thread.
    pub(super) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // One that panicked has ended as well.
            let _ = thread.join();
        }
        let mut state = self.state.lock();
        state.doors = None;
        drop(std::mem::take(&mut state.ports));
    }

    /// Lets go of a group's ports, so that they are opened anew.
    pub(super) fn restart(&self, group: [u8; 16]) {
        let mut state = self.state.lock();
        let closed = state.ports.extract_if(.., |p| p.group == group);
        drop(closed.collect::<Vec<_>>());
        drop(state);
        self.look();
    }

    /// Fails where another program has the port of a listener that is about to be this server's.
    pub(super) fn check(&self, listener: &ListenerDef) -> Result<()> {
        let state = self.state.lock();
        let Some(doors) = &state.doors else {
            return Ok(());
        };
        for address in addresses(listener, doors.own()) {
            let is_open = state.ports.iter().any(|p| p.address == address);
            if is_open || is_covered(doors.own(), address) {
                continue;
            }
            match TcpListener::bind(address) {
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
                Err(error) => {
                    let code = error.raw_os_error().unwrap_or(0);
                    let (name, port) = (&listener.dns_name, &listener.port);
                    return Err(messages::error(19452, &[name, name, port, &code]));
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Is the listener of a group reached here at this address? `None`: nobody tried.
    pub(super) fn is_open(&self, group: [u8; 16], ip: &str) -> Option<bool> {
        let ip: IpAddr = ip.parse().ok()?;
        let state = self.state.lock();
        let mut of_it = state.ports.iter();
        let port = of_it.find(|p| p.group == group && p.address.ip() == ip)?;
        Some(!matches!(port.open, Opened::No(_)))
    }

    /// The server's own port and those of groups that are open.
    pub(super) fn open_ports(&self) -> Vec<OpenPort> {
        let state = self.state.lock();
        let own = state.doors.iter().map(|doors| OpenPort {
            address: doors.own(),
            kind: PortKind::Sessions,
            since_utc: state.own_since,
        });
        let doors = state.ports.iter().filter_map(|port| match &port.open {
            Opened::Door(door) => Some(OpenPort {
                address: door.address(),
                kind: PortKind::Sessions,
                since_utc: port.since,
            }),
            _ => None,
        });
        own.chain(doors).collect()
    }

    fn keep(&self, common: &Common) {
        loop {
            let wanted = wanted(common);
            let mut state = self.state.lock();
            if state.is_stopped {
                return;
            }
            state.settle(&wanted, common);
            if !state.has_changed {
                self.changed.wait_for(&mut state, TICK);
            }
            state.has_changed = false;
        }
    }
}

impl State {
    fn settle(&mut self, wanted: &[([u8; 16], ListenerDef)], common: &Common) {
        let Some(doors) = &self.doors else {
            return;
        };
        let wanted = wanted.iter().flat_map(|(group, listener)| {
            let places = addresses(listener, doors.own()).into_iter();
            places.map(|address| (*group, address, &listener.dns_name))
        });
        let wanted: Vec<_> = wanted.collect();
        let stays = |p: &Port| {
            let mut same = wanted.iter();
            same.any(|(group, address, _)| (*group, *address) == (p.group, p.address))
        };
        for gone in self.ports.extract_if(.., |p| !stays(p)) {
            if !matches!(gone.open, Opened::No(_)) {
                let address = gone.address;
                common.log(&format!(
                    "The availability group listener at [ {address} ] is no longer served here."
                ));
            }
        }
        for (group, address, name) in wanted {
            let known = self
                .ports
                .iter()
                .position(|p| (p.group, p.address) == (group, address));
            let before = known.map(|at| self.ports.swap_remove(at));
            let port = match before {
                Some(port) if !matches!(port.open, Opened::No(_)) => port,
                before => {
                    let told = before.and_then(|p| match p.open {
                        Opened::No(why) => Some(why),
                        _ => None,
                    });
                    let open = open(doors, address);
                    tell(common, name, address, &open, told.as_deref());
                    let since = common.instance.now_utc();
                    Port {
                        group,
                        address,
                        open,
                        since,
                    }
                }
            };
            self.ports.push(port);
        }
    }
}

fn tell(common: &Common, name: &str, address: SocketAddr, open: &Opened, told: Option<&str>) {
    match open {
        Opened::No(why) if Some(why.as_str()) == told => {}
        Opened::No(why) => common.log(&format!(
            "The availability group listener '{name}' cannot listen on [ {address} ]: {why}. It is tried again."
        )),
        _ => common.log(&format!(
            "Started listening on virtual network name '{name}', [ {address} ]. No user action is required."
        )),
    }
}

fn open(doors: &Doors, address: SocketAddr) -> Opened {
    if is_covered(doors.own(), address) {
        return Opened::Own;
    }
    match doors.open(address) {
        Ok(door) => Opened::Door(door),
        Err(error) => Opened::No(error.to_string()),
    }
}

/// Does the server's own port take connections for this address?
fn is_covered(own: SocketAddr, address: SocketAddr) -> bool {
    let is_everywhere = own.ip().is_unspecified() && (own.is_ipv6() || address.is_ipv4());
    own.port() == address.port() && (own.ip() == address.ip() || is_everywhere)
}

fn addresses(listener: &ListenerDef, own: SocketAddr) -> Vec<SocketAddr> {
    let given = listener.addresses.iter();
    let mut ips: Vec<IpAddr> = given.filter_map(|a| a.address.parse().ok()).collect();
    if ips.is_empty() {
        ips.push(own.ip());
    }
    let mut places: Vec<SocketAddr> = Vec::new();
    for ip in ips {
        let address = SocketAddr::new(ip, listener.port);
        if !places.contains(&address) {
            places.push(address);
        }
    }
    places
}

/// Listeners of the groups whose primary is this server.
fn wanted(common: &Common) -> Vec<([u8; 16], ListenerDef)> {
    let groups = common.groups.read().clone();
    let led = groups
        .iter()
        .filter(|g| g.is_primary() && !g.is_removed() && !g.is_stopped());
    led.filter_map(|g| Some((g.id(), g.def().listener.clone()?)))
        .collect()
}
