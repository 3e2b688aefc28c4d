//! Connections over loopback: order, windows, silence, strangers.

use super::endpoint::dial_in;
use super::*;
use crate::commit::{EpochId, ReplicaId};
use crate::wire::{Block, Codec, Codecs, FRAME_HEADER_BYTES, Message, Purpose, VERSION};
use daruma_base::Lsn;
use parking_lot::Mutex;
use rustls::pki_types::PrivateKeyDer;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What is waited for comes long before; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(300);
const DATABASE: u128 = 7;

fn id(number: u8) -> ReplicaId {
    ReplicaId::new(number).expect("a replica")
}

fn identity() -> Identity {
    let made = rcgen::generate_simple_self_signed(vec!["replica".into()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Identity::new(made.cert.der().clone(), key)
}

fn config(me: u8, identity: &Identity, others: &[(u8, &Identity)]) -> EndpointConfig {
    let member = |(n, i): &(u8, &Identity)| Member {
        replica: id(*n),
        fingerprint: i.fingerprint(),
    };
    EndpointConfig {
        group: 42,
        me: id(me),
        name: format!("server{me}"),
        identity: identity.clone(),
        members: others.iter().map(member).collect(),
        codecs: Codecs::OURS,
        window_bytes: 100_000,
        session_timeout: LONG,
        handshake_timeout: LONG,
    }
}

enum Event {
    Received(Arc<Link>, Message),
    Closed(String),
}

/// Hands everything to a test.
struct Told(Mutex<Sender<Event>>);

impl Handler for Told {
    fn connected(&self, _: &Arc<Link>) {}

    fn received(&self, link: &Arc<Link>, message: Message) -> Result<(), LinkError> {
        // A test that has ended listens no longer.
        let _ = self.0.lock().send(Event::Received(link.clone(), message));
        Ok(())
    }

    fn closed(&self, _: &Arc<Link>, why: &LinkError) {
        let _ = self.0.lock().send(Event::Closed(why.to_string()));
    }
}

fn told() -> (Arc<Told>, Receiver<Event>) {
    let (sender, receiver) = channel();
    (Arc::new(Told(Mutex::new(sender))), receiver)
}

fn received(events: &Receiver<Event>) -> (Arc<Link>, Message) {
    match events.recv_timeout(LONG).expect("an event") {
        Event::Received(link, message) => (link, message),
        Event::Closed(why) => panic!("closed: {why}"),
    }
}

fn closed(events: &Receiver<Event>) -> String {
    loop {
        if let Event::Closed(why) = events.recv_timeout(LONG).expect("an event") {
            return why;
        }
    }
}

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Two replicas: 1 listens and 0 has connected.
struct Pair {
    endpoint: Endpoint,
    at_one: Receiver<Event>,
    link: Arc<Link>,
    at_zero: Receiver<Event>,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Pair {
    fn new(change: impl FnOnce(&mut EndpointConfig, &mut EndpointConfig)) -> Pair {
        let (zero, one) = (identity(), identity());
        let mut dialer = config(0, &zero, &[(1, &one)]);
        let mut listener = config(1, &one, &[(0, &zero)]);
        change(&mut dialer, &mut listener);
        let (handler, at_one) = told();
        let endpoint = Endpoint::listen(here(), listener, handler).expect("it listens");
        let link = dial(endpoint.address(), dialer.members[0], &dialer).expect("it connects");
        let (handler, at_zero) = told();
        let serving = link.clone();
        let serving = std::thread::spawn(move || serving.serve(&*handler));
        Pair {
            endpoint,
            at_one,
            link,
            at_zero,
            serving: Some(serving),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.link.close();
        if let Some(serving) = self.serving.take() {
            // A thread that panicked has failed the test already.
            let _ = serving.join();
        }
    }
}

fn quorum(lsn: u64) -> Message {
    Message::Quorum {
        database: DATABASE,
        epoch: EpochId::default(),
        quorum: Lsn(lsn),
    }
}

/// As many blocks as are left, each of 8,000 bytes.
struct Blocks(Mutex<u64>);

impl Source for Blocks {
    fn pull(&self) -> Pull {
        let mut left = self.0.lock();
        if *left == 0 {
            return Pull::Nothing;
        }
        *left -= 1;
        let block = Block {
            epoch: EpochId::default(),
            first: Lsn(*left),
            end: Lsn(*left + 1),
            quorum: Lsn::NONE,
            primary_here: Lsn::NONE,
            clock_us: 0,
            codec: Codec::Plain,
            plain_bytes: 8000,
            bytes: vec![7; 8000].into(),
        };
        Pull::Send(Message::Block {
            database: DATABASE,
            block,
        })
    }
}

#[test]
fn messages_go_both_ways_in_their_order() {
    let pair = Pair::new(|_, _| {});
    assert_eq!(pair.link.peer().name, "server1");
    for lsn in 0..1000 {
        pair.link.send(quorum(lsn));
    }
    for lsn in 0..1000 {
        let (link, message) = received(&pair.at_one);
        assert_eq!((link.peer().replica, message), (id(0), quorum(lsn)));
        link.send(quorum(lsn + 5000));
    }
    for lsn in 0..1000 {
        assert_eq!(received(&pair.at_zero).1, quorum(lsn + 5000));
    }
}

#[test]
fn blocks_wait_for_what_the_receiver_grants_and_control_does_not() {
    let pair = Pair::new(|_, _| {});
    pair.link.add(Arc::new(Blocks(Mutex::new(40))));
    let mut blocks = Vec::new();
    while blocks.len() < 13 {
        blocks.push(received(&pair.at_one));
    }
    // 100,000 bytes are granted: the thirteenth begins within them, and no other may follow.
    pair.link.send(quorum(1));
    let (link, message) = received(&pair.at_one);
    assert_eq!(message, quorum(1), "control passes blocks that wait");
    link.grant(8 * 8100);
    for _ in 0..8 {
        assert!(matches!(received(&pair.at_one).1, Message::Block { .. }));
    }
    link.grant(40 * 8100);
    for _ in 0..19 {
        assert!(matches!(received(&pair.at_one).1, Message::Block { .. }));
    }
    assert!(pair.link.counts().sent_bytes > 40 * 8000);
}

#[test]
fn a_sender_that_takes_more_than_it_was_granted_is_cut_off() {
    let pair = Pair::new(|_, _| {});
    pair.link.add(Arc::new(Blocks(Mutex::new(400))));
    let (link, _) = received(&pair.at_one);
    // The sender believes in a grant that the receiver never made.
    link.send(Message::Grant { bytes: 1 << 30 });
    assert!(closed(&pair.at_one).contains("more blocks than were granted"));
    closed(&pair.at_zero);
}

/// Of two connections with this timeout the silent one ends; has the other lived on pings for as long?
fn pings_keep_a_connection(short: Duration) -> bool {
    let pair = Pair::new(|zero, one| {
        zero.session_timeout = short;
        one.session_timeout = short;
    });
    // A second connection, on which nobody answers: nothing reads or writes at this end.
    let (two, three) = (identity(), identity());
    let mut listener = config(3, &three, &[(2, &two)]);
    listener.session_timeout = short;
    let (handler, at_three) = told();
    let endpoint = Endpoint::listen(here(), listener, handler).expect("it listens");
    let dialer = config(2, &two, &[(3, &three)]);
    let mute = dial(endpoint.address(), dialer.members[0], &dialer).expect("it connects");
    assert!(closed(&at_three).contains("session timeout"));
    mute.close();
    pair.link.send(quorum(9));
    matches!(
        pair.at_one.recv_timeout(LONG).expect("an event"),
        Event::Received(_, message) if message == quorum(9)
    )
}

/// A machine that is too busy to send a ping in time may be so with a longer timeout as well, but not with every one.
#[test]
fn silence_ends_a_connection_and_pings_keep_one() {
    let mut timeouts = (0..7).map(|n| Duration::from_millis(300 << n));
    assert!(timeouts.any(pings_keep_a_connection));
}

#[test]
fn a_peer_without_the_right_certificate_learns_nothing() {
    let (one, zero, stranger) = (identity(), identity(), identity());
    let (handler, events) = told();
    let endpoint =
        Endpoint::listen(here(), config(1, &one, &[(0, &zero)]), handler).expect("it listens");
    // A stranger that knows the server's certificate and has one of its own.
    let config_of_stranger = config(0, &stranger, &[(1, &one)]);
    let refused = dial(
        endpoint.address(),
        config_of_stranger.members[0],
        &config_of_stranger,
    );
    assert!(
        matches!(refused, Err(LinkError::Socket(_) | LinkError::Tls(_))),
        "a message came back"
    );
    // A member that is led to somebody else.
    let led_astray = config(0, &zero, &[(1, &stranger)]);
    assert!(dial(endpoint.address(), led_astray.members[0], &led_astray).is_err());
    // No TLS at all: an alert comes back, and no frame.
    let mut socket = TcpStream::connect(endpoint.address()).expect("it connects");
    let mut hello = Vec::new();
    crate::wire::encode(
        1,
        &Message::Bye {
            reason: "x".repeat(200),
        },
        &mut hello,
    );
    socket.write_all(&hello).expect("it writes");
    let mut answer = Vec::new();
    // The connection may be reset rather than closed.
    let _ = socket.read_to_end(&mut answer);
    assert!(answer.len() < FRAME_HEADER_BYTES, "{answer:?}");
    endpoint.stop();
    assert!(
        events.try_recv().is_err(),
        "the stranger got past the handshake"
    );
}

#[test]
fn a_member_that_speaks_for_another_or_for_another_group_is_refused() {
    let (one, zero) = (identity(), identity());
    let (handler, _events) = told();
    let endpoint =
        Endpoint::listen(here(), config(1, &one, &[(0, &zero)]), handler).expect("it listens");
    let good = config(0, &zero, &[(1, &one)]);
    let wrong = [
        EndpointConfig {
            group: 43,
            ..good.clone()
        },
        EndpointConfig {
            me: id(5),
            ..good.clone()
        },
    ];
    for wrong in wrong {
        let refused = dial(endpoint.address(), wrong.members[0], &wrong);
        assert!(matches!(refused, Err(LinkError::Farewell(_))));
    }
    let to_another = Member {
        replica: id(6),
        ..good.members[0]
    };
    assert!(matches!(
        dial(endpoint.address(), to_another, &good),
        Err(LinkError::Farewell(_))
    ));
    assert!(dial(endpoint.address(), good.members[0], &good).is_ok());
}

#[test]
fn a_build_of_another_version_is_told_what_to_do() {
    let (one, zero) = (identity(), identity());
    let (handler, _events) = told();
    let endpoint =
        Endpoint::listen(here(), config(1, &one, &[(0, &zero)]), handler).expect("it listens");
    let old = config(0, &zero, &[(1, &one)]);
    let pinned = [one.fingerprint()];
    for versions in [(1, 1), (VERSION + 1, VERSION + 2)] {
        let purpose = Purpose::Member;
        let refused = dial_in(endpoint.address(), id(1), &pinned, &old, purpose, versions);
        let Err(LinkError::Farewell(why)) = refused else {
            panic!("version {versions:?} is spoken");
        };
        let spoken = format!("versions {} to {} ", versions.0, versions.1);
        assert!(
            why.contains(&spoken) && why.contains("run the same release on all servers"),
            "{why}"
        );
    }
    assert!(dial(endpoint.address(), old.members[0], &old).is_ok());
}

/// The listener ends each connection on which something comes; the dialer makes another, on which it is told the next number.
#[test]
fn a_connection_that_breaks_is_made_again() {
    struct Speaks(Mutex<u64>);
    impl Handler for Speaks {
        fn connected(&self, link: &Arc<Link>) {
            let mut next = self.0.lock();
            *next += 1;
            link.send(quorum(*next));
        }
        fn received(&self, _: &Arc<Link>, _: Message) -> Result<(), LinkError> {
            Ok(())
        }
        fn closed(&self, _: &Arc<Link>, _: &LinkError) {}
    }
    let (one, zero) = (identity(), identity());
    let (handler, events) = told();
    let endpoint =
        Endpoint::listen(here(), config(1, &one, &[(0, &zero)]), handler).expect("it listens");
    let dialer = config(0, &zero, &[(1, &one)]);
    let speaks = Arc::new(Speaks(Mutex::new(0)));
    let dialer = Dialer::start(target(endpoint.address(), dialer), speaks).expect("a thread");
    for number in 1..4 {
        let (link, message) = received(&events);
        assert_eq!(message, quorum(number));
        link.close();
        closed(&events);
    }
    dialer.stop();
    assert!(dialer.last_error().is_none());
}

/// The first member, wherever it is asked for.
fn target(address: SocketAddr, config: EndpointConfig) -> Box<dyn Fn() -> Wanted + Send + Sync> {
    Box::new(move || {
        let member = config.members.first().copied();
        Ok(member.map(|member| Target {
            address,
            to: member.replica,
            pinned: vec![member.fingerprint],
            config: config.clone(),
        }))
    })
}

/// Connections that never speak take places of unproved ones, and none of a proved one.
#[test]
fn mute_strangers_do_not_stop_a_member() {
    let pair = Pair::new(|_, _| {});
    let strangers: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(pair.endpoint.address()).expect("it connects"))
        .collect();
    pair.link.send(quorum(3));
    assert_eq!(received(&pair.at_one).1, quorum(3));
    drop(strangers);
}
