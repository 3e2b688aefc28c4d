//! A link that is slower than the machine's own: bytes are taken at its rate and handed on after its delay.
//!
//! Theory: each direction is one wire, which all connections over the relay share. A piece begins when the wire is free and leaves it after
//! its bytes / rate; on the other side it is one delay later. The reading thread waits until the wire takes the piece, so what cannot be
//! sent yet stays with the sender, as on a real link. Nothing is lost, doubled or reordered.
//!
//! Invariant: times are counted from when the wire was free, not from when a thread woke, so late wake-ups do not add up.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const PIECE_BYTES: usize = 16 << 10;
/// Pieces on their way over one connection; more than any of the links holds within its delay.
const PIECES_MAX: usize = 4096;

/// Rate and delay of a link, in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    pub bytes_per_s: f64,
    /// One way: half of a round trip.
    pub delay: Duration,
}

/// One direction.
struct Wire {
    free_at: Instant,
}

impl Wire {
    /// When the wire begins to take so many bytes, and when they have come to its other end.
    fn take(&mut self, model: Model, bytes: usize, now: Instant) -> (Instant, Instant) {
        let begins = self.free_at.max(now);
        self.free_at = begins + Duration::from_secs_f64(bytes as f64 / model.bytes_per_s);
        (begins, self.free_at + model.delay)
    }
}

/// Listens on a port of this machine and passes connections on to another.
pub struct Relay {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    to: u16,
    model: Mutex<Model>,
    there: Mutex<Wire>,
    back: Mutex<Wire>,
    /// Both ends of each connection, to be ended with the relay.
    open: Mutex<BTreeMap<u64, [TcpStream; 2]>>,
    next: AtomicU64,
    stopped: AtomicBool,
}

impl Relay {
    /// A relay in front of a port of this machine.
    pub fn start(to: u16, model: Model) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let wire = || {
            Mutex::new(Wire {
                free_at: Instant::now(),
            })
        };
        let shared = Arc::new(Shared {
            to,
            model: Mutex::new(model),
            there: wire(),
            back: wire(),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        thread::Builder::new()
            .name("relay".into())
            .spawn(move || accepting.accept(&listener))?;
        Ok(Relay { port, shared })
    }

    /// Where it listens.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The link is another one from now on.
    pub fn set_model(&self, model: Model) {
        *latched(&self.shared.model) = model;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        for ends in latched(&self.shared.open).values() {
            close(ends);
        }
        // Wakes whoever waits for a connection; if nobody can be connected, nobody waits.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            // One that cannot be passed on ends, and its sender tries again.
            if let Ok(stream) = stream {
                let _ = self.pass_on(stream);
            }
        }
    }

    fn pass_on(self: &Arc<Self>, near: TcpStream) -> io::Result<()> {
        let far = TcpStream::connect((Ipv4Addr::LOCALHOST, self.to))?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let ends = [near.try_clone()?, far.try_clone()?];
        latched(&self.open).insert(id, ends);
        let pumps = [
            (near.try_clone()?, far.try_clone()?, true),
            (far, near, false),
        ];
        for (from, to, is_there) in pumps {
            let (sender, receiver) = sync_channel(PIECES_MAX);
            let shared = self.clone();
            spawn(move || shared.read(from, &sender, is_there))?;
            let shared = self.clone();
            spawn(move || {
                write(to, &receiver);
                shared.ended(id);
            })?;
        }
        Ok(())
    }

    fn read(&self, mut from: TcpStream, sender: &SyncSender<Piece>, is_there: bool) {
        let wire = if is_there { &self.there } else { &self.back };
        let mut buffer = vec![0; PIECE_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let model = *latched(&self.model);
            let (begins, arrives) = latched(wire).take(model, length, Instant::now());
            sleep_until(begins);
            let bytes = buffer.get(..length).unwrap_or_default().to_vec();
            if sender.send(Piece { arrives, bytes }).is_err() {
                return;
            }
        }
    }

    /// A direction has ended, and the other one ends with it: half open connections are of no use here.
    fn ended(&self, id: u64) {
        if let Some(ends) = latched(&self.open).remove(&id) {
            close(&ends);
        }
    }
}

struct Piece {
    arrives: Instant,
    bytes: Vec<u8>,
}

fn write(mut to: TcpStream, pieces: &Receiver<Piece>) {
    for piece in pieces {
        sleep_until(piece.arrives);
        if to.write_all(&piece.bytes).is_err() {
            return;
        }
    }
}

fn close(ends: &[TcpStream; 2]) {
    for end in ends {
        // One that is closed already is as it should be.
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let spawned = thread::Builder::new().name("relay".into()).spawn(work);
    spawned.map(drop)
}

fn sleep_until(at: Instant) {
    let left = at.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

/// A thread that panicked leaves nothing half done here.
fn latched<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Model = Model {
        bytes_per_s: 1e9,
        delay: Duration::from_millis(1),
    };

    #[test]
    fn a_wire_takes_one_piece_after_the_other() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        let model = Model {
            bytes_per_s: 1_000_000.0,
            delay: ms(20),
        };
        let mut wire = Wire { free_at: now };
        assert_eq!(wire.take(model, 10_000, now), (now, now + ms(30)));
        // It comes while the first one is under way.
        assert_eq!(
            wire.take(model, 10_000, now + ms(3)),
            (now + ms(10), now + ms(40))
        );
        // The wire has been free for a while.
        assert_eq!(
            wire.take(model, 5_000, now + ms(100)),
            (now + ms(100), now + ms(125))
        );
    }

    #[test]
    fn bytes_come_unchanged_and_an_end_is_passed_on() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
        let to = listener.local_addr().expect("an address").port();
        let echo = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut taken = vec![0; 200_000];
            stream.read_exact(&mut taken).expect("all of it");
            stream.write_all(&taken).expect("it goes back");
            // The end on the other side comes here.
            assert!(matches!(stream.read(&mut taken), Ok(0) | Err(_)));
        });
        let relay = Relay::start(to, FAST).expect("it starts");
        let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).expect("a relay");
        let sent: Vec<u8> = (0..200_000u32).map(|n| (n * 31 % 251) as u8).collect();
        let mut writer = near.try_clone().expect("a second handle");
        let writing = {
            let sent = sent.clone();
            thread::spawn(move || writer.write_all(&sent))
        };
        let mut back = vec![0; sent.len()];
        near.read_exact(&mut back).expect("all of it comes back");
        assert!(back == sent);
        writing.join().expect("no panic").expect("it was sent");
        drop(near);
        echo.join().expect("no panic");
    }

    #[test]
    fn connections_end_with_their_relay() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
        let to = listener.local_addr().expect("an address").port();
        let relay = Relay::start(to, FAST).expect("it starts");
        let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).expect("a relay");
        near.write_all(b"x").expect("it goes");
        let (mut far, _) = listener.accept().expect("a connection");
        far.read_exact(&mut [0]).expect("it comes");
        drop(relay);
        assert!(matches!(near.read(&mut [0]), Ok(0) | Err(_)));
        assert!(matches!(far.read(&mut [0]), Ok(0) | Err(_)));
    }
}
