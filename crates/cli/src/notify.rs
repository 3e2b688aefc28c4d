//! What the service manager is told: that the server is ready, that it stops, that it is alive.
//!
//! Theory: a datagram to the socket that `NOTIFY_SOCKET` names (sd_notify(3)). Where there is none, nobody asked. The watchdog's sign
//! of life is sent only after the port has answered: a server that takes no connections gives none, and is started again.

use std::env;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::thread;
use std::time::Duration;

const READY: &str = "READY=1";
const STOPPING: &str = "STOPPING=1";
const ALIVE: &str = "WATCHDOG=1";
/// A TDS packet PRELOGIN with a version, the wish for encryption, which no server refuses, and the end mark.
const PRELOGIN: [u8; 26] = [
    0x12, 1, 0, 26, 0, 0, 1, 0, // head: type, last packet, length
    0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xFF, // what there is, where and how long
    0, 0, 0, 0, 0, 0, 1,
];
/// Bytes of a packet's head.
const HEAD_BYTES: usize = 8;

/// The server accepts connections.
pub fn ready() {
    tell(READY);
}

/// The server has begun to stop.
pub fn stopping() {
    tell(STOPPING);
}

/// Begins to give signs of life, twice as often as they are asked for, if they are. Of a server that takes strict encryption only it is
/// enough that it takes the connection.
pub fn begin_watchdog(listening: SocketAddr, is_strict: bool) -> io::Result<()> {
    let Some(period) = watchdog_period() else {
        return Ok(());
    };
    let address = reachable(listening);
    let watch = move || {
        loop {
            if answers(address, period, is_strict) {
                tell(ALIVE);
            }
            thread::sleep(period / 2);
        }
    };
    let builder = thread::Builder::new().name("watchdog".to_string());
    builder.spawn(watch).map(|_| ())
}

/// A failure changes nothing here: the service manager notices by itself that it was not told.
fn tell(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let path = path.as_bytes();
    let address = match path.split_first() {
        Some((b'@', name)) => UnixAddr::from_abstract_name(name),
        Some(_) => UnixAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
        None => return,
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        eprintln!("daruma: the service manager is not told '{state}': {error}");
    }
}

/// Half of what is left between two signs of life; `None` when nobody wants them from this process.
fn watchdog_period() -> Option<Duration> {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let is_other = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| *micros > 0)?;
    (!is_other).then(|| Duration::from_micros(micros / 2))
}

/// An address that listens on all is reached over the loopback.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

/// Does the port answer within this time? The answer is read to its end, so that the server sees a client that has nothing more to say,
/// not one that was lost.
fn answers(address: SocketAddr, within: Duration, is_strict: bool) -> bool {
    let each = (within / 3).max(Duration::from_millis(1));
    let asked = || -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, each)?;
        if is_strict {
            return Ok(());
        }
        stream.set_write_timeout(Some(each))?;
        stream.set_read_timeout(Some(each))?;
        stream.write_all(&PRELOGIN)?;
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head)?;
        let [_, _, high, low, ..] = head;
        let rest = usize::from(u16::from_be_bytes([high, low])).saturating_sub(HEAD_BYTES);
        stream.read_exact(&mut vec![0; rest])
    };
    asked().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_that_nobody_serves_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("address");
        // The system takes the connection; nobody reads from it.
        assert!(!answers(address, Duration::from_millis(20), false));
        drop(listener);
        assert!(!answers(address, Duration::from_millis(20), false));
        assert!(!answers(address, Duration::from_millis(20), true));
    }

    #[test]
    fn the_loopback_stands_for_all_addresses() {
        let of = |text: &str| reachable(text.parse().expect("address")).to_string();
        assert_eq!(of("0.0.0.0:1433"), "127.0.0.1:1433");
        assert_eq!(of("[::]:1433"), "[::1]:1433");
        assert_eq!(of("10.1.2.3:1"), "10.1.2.3:1");
    }
}
