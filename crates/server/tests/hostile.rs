//! Clients that do what none should: they read nothing, stop in the middle, send too much, the wrong thing, or all at once.
//! Each ends alone, with a reason in the log where there is one, and the others never notice.

mod common;

use common::scripted::{PASSWORD, TestServer, version_of};
use common::{Client, Mode, login};
use daruma_server::{EncryptionPolicy, Limits};
use daruma_tds::TdsVersion;
use daruma_tds::packet::{MessageWriter, PACKET_BYTES_MAX, PacketType};
use daruma_tds::prelogin::{Encryption, Prelogin};
use daruma_tds::request::SqlBatch;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// More rows than any buffer between the session and its client holds.
const FLOOD: &str = "rows 100000000";
/// Bytes of a row of the scripted service, at least.
const ROW_BYTES: u64 = 6;
/// Room that the system gives to both ends of a connection, and the server's own buffers, many times over.
const BUFFERED_BYTES_MAX: u64 = 64 << 20;

fn limits(login: Duration, send: Duration) -> Limits {
    Limits {
        login_timeout: login,
        refusal_delay: Duration::ZERO,
        send_timeout: send,
    }
}

fn works(client: &mut Client) {
    assert_eq!(client.batch("rows 2").expect("answers").rows().len(), 2);
}

/// A batch as it goes over the wire, in packets of 4,096 bytes.
fn batch_bytes(text: &str) -> Vec<u8> {
    let mut writer = MessageWriter::new(PacketType::Batch, 4096, 0);
    SqlBatch::new(text, 0).encode(TdsVersion::V7_4, writer.buffer());
    let mut bytes = Vec::new();
    writer.finish(&mut bytes);
    bytes
}

/// What a client sends before it is logged in, without encryption.
fn login_bytes() -> [Vec<u8>; 2] {
    let prelogin = Prelogin {
        encryption: Some(Encryption::NotSupported),
        ..Prelogin::default()
    };
    let login = login("sa", PASSWORD, TdsVersion::V7_4)
        .encode()
        .expect("encodes");
    [
        (PacketType::Prelogin, prelogin.encode()),
        (PacketType::Login, login),
    ]
    .map(|(packet_type, body)| {
        let mut writer = MessageWriter::new(packet_type, 4096, 0);
        writer.buffer().extend_from_slice(&body);
        let mut bytes = Vec::new();
        writer.finish(&mut bytes);
        bytes
    })
}

/// Waits for what another thread does; only a broken server lets this fail.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never: {what}");
}

// --- clients that do not read ---------------------------------------------------------------------------------------

#[test]
fn a_client_that_never_reads_holds_a_bounded_buffer_and_nobody_else() {
    let mut server = TestServer::start(EncryptionPolicy::On);
    let mut deaf: Vec<Client> = [Mode::Plain, Mode::Full, Mode::Strict, Mode::Plain]
        .into_iter()
        .map(|mode| server.client_by(mode))
        .collect();
    for client in &mut deaf {
        client.send_batch(FLOOD).expect("sends");
    }
    let mut bystander = server.client();
    for _ in 0..200 {
        works(&mut bystander);
    }
    let connections = server.listener.as_ref().expect("runs").connections();
    assert_eq!(connections, deaf.len() + 1, "a thread each and no more");
    server.stop();
    let sent = server.service.rows_sent.load(Ordering::SeqCst);
    assert!(
        sent * ROW_BYTES < BUFFERED_BYTES_MAX * deaf.len() as u64,
        "{sent} rows"
    );
}

#[test]
fn a_client_that_never_reads_is_ended_in_the_end() {
    let server = TestServer::with_limits(
        EncryptionPolicy::On,
        limits(Duration::from_secs(60), Duration::from_millis(200)),
    );
    let mut bystander = server.client();
    let modes = [Mode::Plain, Mode::Full, Mode::Strict];
    let mut deaf: Vec<Client> = modes.map(|mode| server.client_by(mode)).into();
    for client in &mut deaf {
        client.send_batch(FLOOD).expect("sends");
    }
    let open = &server.service.open;
    eventually("sessions end", || open.load(Ordering::SeqCst) == 1);
    eventually("the reasons are logged", || {
        server.log().matches("took no byte").count() == modes.len()
    });
    works(&mut bystander);
}

#[test]
fn a_client_that_reads_slowly_gets_everything() {
    let server = TestServer::with_limits(
        EncryptionPolicy::On,
        limits(Duration::from_secs(60), Duration::from_secs(60)),
    );
    let mut client = server.client();
    client.send_batch("rows 30000").expect("sends");
    std::thread::yield_now();
    assert_eq!(client.receive().expect("answers").rows().len(), 30_000);
}

#[test]
fn attention_while_the_server_sends() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in [Mode::Plain, Mode::LoginOnly, Mode::Full, Mode::Strict] {
        let mut client = server.client_by(mode);
        let before = server.service.rows_sent.load(Ordering::SeqCst);
        client.send_batch(FLOOD).expect("sends");
        eventually("rows are sent", || {
            server.service.rows_sent.load(Ordering::SeqCst) > before + 10_000
        });
        client.attention().expect("sends");
        // The client reads what was under way, as drivers do.
        let cut = client.receive_cancelled().expect("answers");
        assert!(!cut.rows().is_empty(), "{mode:?}");
        works(&mut client);
    }
}

#[test]
fn attention_without_a_request_and_twice() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in [Mode::Plain, Mode::Full] {
        let mut client = server.client_by(mode);
        for _ in 0..3 {
            client.attention().expect("sends");
        }
        for _ in 0..3 {
            let answer = client.receive().expect("answers");
            assert!(answer.last_done().is_attention(), "{mode:?}");
        }
        client.send_batch("rows 1; wait").expect("sends");
        client.attention().expect("sends");
        client.attention().expect("sends");
        client.receive_cancelled().expect("answers");
        let second = client.receive().expect("answers");
        assert!(second.last_done().is_attention(), "{mode:?}");
        works(&mut client);
    }
}

// --- clients that stop in the middle --------------------------------------------------------------------------------

#[test]
fn a_batch_cut_at_every_offset_ends_its_own_session() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut bystander = server.client();
    let bytes = batch_bytes("rows 3");
    for cut in 0..bytes.len() {
        let mut client = server.client();
        client.send_bytes(&bytes[..cut]).expect("sends");
        client.raw().shutdown(Shutdown::Write).expect("closes");
        client.wait_for_end();
    }
    works(&mut bystander);
    let open = &server.service.open;
    eventually("sessions end", || open.load(Ordering::SeqCst) == 1);
    let log = server.log();
    let told = log.matches("in the middle of a message").count();
    assert_eq!(told, bytes.len() - 1, "all but the one without a byte");
    assert_eq!(log.matches("4014").count(), told);
}

#[test]
fn a_batch_in_two_pieces_is_a_batch() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let bytes = batch_bytes("rows 3");
    for cut in 0..bytes.len() {
        client.send_bytes(&bytes[..cut]).expect("sends");
        std::thread::yield_now();
        client.send_bytes(&bytes[cut..]).expect("sends");
        assert_eq!(client.receive().expect("answers").rows().len(), 3);
    }
}

#[test]
fn a_login_cut_at_every_offset_leaves_no_session() {
    let server = TestServer::start(EncryptionPolicy::On);
    let mut bystander = server.client();
    let [prelogin, login] = login_bytes();
    for (part, bytes) in [&prelogin, &login].into_iter().enumerate() {
        for cut in 0..bytes.len() {
            let mut client = Client::connect(server.address());
            if part == 1 {
                client
                    .prelogin(Encryption::NotSupported)
                    .expect("is answered");
            }
            client.send_bytes(&bytes[..cut]).expect("sends");
            client.raw().shutdown(Shutdown::Write).expect("closes");
            client.wait_for_end();
        }
    }
    works(&mut bystander);
    assert_eq!(server.service.open.load(Ordering::SeqCst), 1);
    let log = server.log();
    let told = log.matches("in the middle of a message").count();
    assert_eq!(told, prelogin.len() + login.len() - 2, "{log}");
    assert_eq!(log.matches("17830").count(), told);
}

#[test]
fn a_client_that_resets_its_connection_ends_alone() {
    let server = TestServer::start(EncryptionPolicy::On);
    let mut bystander = server.client();
    for mode in [Mode::Plain, Mode::Full, Mode::Strict] {
        for text in ["", "rows 1; wait", FLOOD] {
            let mut client = server.client_by(mode);
            if !text.is_empty() {
                client.send_batch(text).expect("sends");
                client.receive_packet().expect("the statement runs");
            }
            let linger = rustix::net::sockopt::set_socket_linger(
                &*client.raw(),
                Some(Duration::from_secs(0)),
            );
            linger.expect("sets an option");
            drop(client);
        }
    }
    let open = &server.service.open;
    eventually("sessions end", || open.load(Ordering::SeqCst) == 1);
    works(&mut bystander);
}

#[test]
fn a_client_that_only_closes_its_writing_half_is_gone() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in [Mode::Plain, Mode::Full, Mode::Strict] {
        for text in ["", "rows 1; wait", FLOOD] {
            let mut client = server.client_by(mode);
            if !text.is_empty() {
                client.send_batch(text).expect("sends");
                client.receive_packet().expect("the statement runs");
            }
            client.raw().shutdown(Shutdown::Write).expect("closes");
            client.wait_for_end();
        }
    }
    let open = &server.service.open;
    eventually("sessions end", || open.load(Ordering::SeqCst) == 0);
}

// --- slow logins and crowds -----------------------------------------------------------------------------------------

#[test]
fn a_login_one_byte_at_a_time_works_within_its_time() {
    let server = TestServer::with_limits(
        EncryptionPolicy::On,
        limits(Duration::from_secs(300), Duration::from_secs(300)),
    );
    let mut socket = TcpStream::connect(server.address()).expect("connects");
    socket.set_nodelay(true).expect("sets an option");
    for message in login_bytes() {
        for byte in message {
            socket.write_all(&[byte]).expect("sends");
        }
        let mut header = [0; 8];
        socket.read_exact(&mut header).expect("is answered");
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let mut body = vec![0; length - 8];
        socket.read_exact(&mut body).expect("is answered");
    }
    assert_eq!(server.service.open.load(Ordering::SeqCst), 1);
}

#[test]
fn a_login_one_byte_at_a_time_has_its_time_as_a_whole() {
    let server = TestServer::with_limits(
        EncryptionPolicy::On,
        limits(Duration::from_millis(100), Duration::from_secs(300)),
    );
    let mut slow = TcpStream::connect(server.address()).expect("connects");
    let [prelogin, _] = login_bytes();
    // Bytes come more often than the limit; each alone would be in time.
    let header = [prelogin[0], 0, 0x7F, 0xF0, 0, 0, 1, 0];
    let ended = header.iter().chain(std::iter::repeat(&0)).find_map(|byte| {
        std::thread::sleep(Duration::from_millis(1));
        slow.write_all(&[*byte]).err()
    });
    let kind = ended.expect("the server ends it").kind();
    assert!(
        matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
        "{kind:?}"
    );
    eventually("the reason is logged", || server.log().contains("17830"));
}

#[test]
fn a_crowd_is_turned_away_and_room_is_given_again() {
    let server = TestServer::start(EncryptionPolicy::On);
    server.service.limit.store(3, Ordering::SeqCst);
    let mut inside: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let mut crowd: Vec<Client> = (0..100)
        .map(|_| Client::connect(server.address()))
        .collect();
    for client in &mut crowd {
        client.wait_for_end();
    }
    inside.iter_mut().for_each(works);
    assert_eq!(server.log().matches("17809").count(), crowd.len());
    drop(inside.pop());
    let open = &server.service.open;
    eventually("one leaves", || open.load(Ordering::SeqCst) == 2);
    eventually("one gets in", || {
        let login = login("sa", PASSWORD, version_of(Mode::Plain));
        match Client::log_in(server.address(), Mode::Plain, &login) {
            Ok((client, _)) => {
                inside.push(client);
                true
            }
            Err(_) => false,
        }
    });
    inside.iter_mut().for_each(works);
}

#[test]
fn silent_connections_keep_nobody_out_for_long() {
    let server = TestServer::with_limits(
        EncryptionPolicy::On,
        limits(Duration::from_secs(1), Duration::from_secs(300)),
    );
    server.service.limit.store(4, Ordering::SeqCst);
    let _silent: Vec<Client> = (0..4).map(|_| Client::connect(server.address())).collect();
    let login = login("sa", PASSWORD, version_of(Mode::Plain));
    eventually("somebody gets in", || {
        Client::log_in(server.address(), Mode::Plain, &login).is_ok()
    });
}

#[test]
fn a_panic_before_the_session_gives_its_place_back() {
    let server = TestServer::start(EncryptionPolicy::On);
    server.service.limit.store(2, Ordering::SeqCst);
    for _ in 0..5 {
        let login = login("fault", PASSWORD, version_of(Mode::Plain));
        assert!(Client::log_in(server.address(), Mode::Plain, &login).is_err());
        let listener = server.listener.as_ref().expect("runs");
        eventually("its place is free", || listener.connections() == 0);
    }
    assert_eq!(server.log().matches("3624").count(), 5, "{}", server.log());
    works(&mut server.client());
}

// --- too much, and the wrong thing ----------------------------------------------------------------------------------

#[test]
fn lengths_that_cannot_be_end_the_session() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut bystander = server.client();
    let too_long = u16::try_from(PACKET_BYTES_MAX + 1).expect("fits");
    for length in [0, 7, too_long, u16::MAX] {
        for is_logged_in in [false, true] {
            let mut client = match is_logged_in {
                true => server.client(),
                false => Client::connect(server.address()),
            };
            let [high, low] = length.to_be_bytes();
            let _ = client.send_bytes(&[1, 1, high, low, 0, 0, 1, 0]);
            client.wait_for_end();
        }
    }
    works(&mut bystander);
    let told = || {
        let log = server.log();
        (log.matches("4014").count(), log.matches("17828").count())
    };
    eventually("the reasons are logged", || told() == (4, 4));
}

#[test]
fn a_message_without_an_end_is_not_gathered_for_ever() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut bystander = server.client();
    // Before login little is gathered, afterwards 65,536 packets of the size agreed on.
    let mut early = Client::connect(server.address());
    let mut small = login("sa", PASSWORD, TdsVersion::V7_4);
    small.packet_bytes = 512;
    let (mut late, _) = Client::log_in(server.address(), Mode::Plain, &small).expect("logs in");
    for (client, first, most) in [(&mut early, 0x12, 64 << 20), (&mut late, 0x01, 128 << 20)] {
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let [high, low] = u16::try_from(packet.len()).expect("fits").to_be_bytes();
        packet[..8].copy_from_slice(&[first, 0, high, low, 0, 0, 1, 0]);
        let taken = (0..)
            .take_while(|_| client.send_bytes(&packet).is_ok())
            .count();
        assert!(taken * packet.len() < most, "{taken} packets");
        client.wait_for_end();
    }
    works(&mut bystander);
    eventually("the reasons are logged", || {
        let log = server.log();
        log.contains("4014") && log.contains("17828")
    });
}

#[test]
fn messages_in_the_wrong_order_end_the_session() {
    let server = TestServer::start(EncryptionPolicy::On);
    let mut bystander = server.client();
    let [prelogin, login] = login_bytes();
    let batch = batch_bytes("rows 1");
    let mut begun = batch.clone();
    begun[1] = 0;
    let attention = [6, 1, 0, 8, 0, 0, 1, 0];
    let reply = [4, 1, 0, 8, 0, 0, 1, 0];
    let unknown = [0x42, 1, 0, 8, 0, 0, 1, 0];
    let early: [&[u8]; 6] = [
        &batch,
        &attention,
        &reply,
        &unknown,
        &[prelogin.clone(), batch.clone()].concat(),
        &[prelogin.clone(), prelogin.clone()].concat(),
    ];
    for bytes in early {
        let mut client = Client::connect(server.address());
        let _ = client.send_bytes(bytes);
        client.wait_for_end();
    }
    let late: [&[u8]; 6] = [
        &prelogin,
        &login,
        &reply,
        &unknown,
        &[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5],
        // Another message inside one that has begun.
        &[begun, login.clone()].concat(),
    ];
    for bytes in late {
        let mut client = server.client();
        let _ = client.send_bytes(bytes);
        client.wait_for_end();
    }
    works(&mut bystander);
    let open = &server.service.open;
    eventually("sessions end", || open.load(Ordering::SeqCst) == 1);
    eventually("the reasons are logged", || {
        let log = server.log();
        let told = (log.matches("4014").count(), log.matches("17828").count());
        told == (late.len(), early.len())
    });
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let ahead: Vec<u8> = (1..=20)
        .flat_map(|n| batch_bytes(&format!("rows {n}")))
        .collect();
    client.send_bytes(&ahead).expect("sends");
    for n in 1..=20 {
        assert_eq!(client.receive().expect("answers").rows().len(), n);
    }
}
