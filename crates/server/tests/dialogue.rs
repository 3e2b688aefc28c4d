//! The dialogue over loopback against a scripted service: login, TLS, requests, cancel, broken input.

mod common;

use common::scripted::{PASSWORD, TestServer, version_of};
use common::{Client, Mode, login};
use daruma_server::{EncryptionPolicy, Limits};
use daruma_tds::TdsVersion;
use daruma_tds::WireCollation;
use daruma_tds::login::{Feature, feature_id};
use daruma_tds::packet::{PacketType, Reset};
use daruma_tds::prelogin::Encryption;
use daruma_tds::request::{
    BulkEncoder, ProcId, RpcCall, RpcRequest, RpcTarget, TransactionRequest,
};
use daruma_tds::token::{Column, EnvChange, Token, done_status};
use daruma_value::{DataType, Value};
use std::io::Write;
use std::net::Shutdown as SocketShutdown;
use std::sync::atomic::Ordering;
use std::time::Duration;

const EVERY_MODE: [Mode; 5] = [
    Mode::Bare,
    Mode::Plain,
    Mode::LoginOnly,
    Mode::Full,
    Mode::Strict,
];

fn int_rows(count: i32) -> Vec<Vec<Value>> {
    let twice = |n: i32| {
        if n % 2 == 0 {
            Value::Int(2 * n)
        } else {
            Value::Null
        }
    };
    (0..count).map(|n| vec![Value::Int(n), twice(n)]).collect()
}

#[test]
fn a_reader_is_told_where_to_log_in() {
    let server = TestServer::start(EncryptionPolicy::On);
    let routes = |reads_only: bool, version| {
        let mut asked = login("sa", PASSWORD, version);
        if reads_only {
            asked.type_flags |= daruma_tds::login::type_flag::READ_ONLY_INTENT;
        }
        let (_, response) = Client::log_in(server.address(), Mode::Plain, &asked).expect("logs in");
        let routes = response.tokens.into_iter().filter_map(|token| match token {
            Token::EnvChange(EnvChange::Routing(route)) => Some((route.server, route.port)),
            _ => None,
        });
        routes.collect::<Vec<_>>()
    };
    assert_eq!(
        routes(true, TdsVersion::V7_4),
        [("reader".to_string(), 14_330)]
    );
    assert_eq!(routes(false, TdsVersion::V7_4), []);
    // A client older than 7.4 does not know the token.
    assert_eq!(routes(true, TdsVersion::V7_3B), []);
}

#[test]
fn every_way_in_gives_the_same_session() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in EVERY_MODE {
        let mut asked = login("sa", PASSWORD, version_of(mode));
        asked.packet_bytes = 8000;
        let (mut client, response) =
            Client::log_in(server.address(), mode, &asked).expect("logs in");
        let acks: Vec<_> = response
            .tokens
            .iter()
            .filter_map(|t| {
                if let Token::LoginAck(a) = t {
                    Some(a)
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(
            (acks[0].version, acks[0].program.as_str(), acks[0].major),
            (version_of(mode), "Microsoft SQL Server", 16),
            "{mode:?}"
        );
        assert_eq!(
            response
                .infos()
                .iter()
                .map(|i| i.number)
                .collect::<Vec<_>>(),
            [5701, 5703]
        );
        let answer = client.batch("rows 3").expect("answers");
        assert_eq!(answer.rows(), int_rows(3), "{mode:?}");
        assert_eq!(answer.last_done().count(), Some(3));
        // Several packets, several writes.
        assert_eq!(
            client.batch("rows 30000").expect("answers").rows().len(),
            30_000,
            "{mode:?}"
        );
    }
}

#[test]
fn login_response_has_the_usual_order() {
    let server = TestServer::start(EncryptionPolicy::On);
    let mut asked = login("sa", PASSWORD, TdsVersion::V7_4);
    asked.packet_bytes = 4001;
    asked.features = [feature_id::UTF8_SUPPORT, feature_id::SESSION_RECOVERY]
        .map(|id| Feature {
            id,
            data: Vec::new(),
        })
        .to_vec();
    let (_, response) = Client::log_in(server.address(), Mode::Plain, &asked).expect("logs in");
    let kinds: Vec<_> = response
        .tokens
        .iter()
        .map(|t| match t {
            Token::EnvChange(EnvChange::Database { .. }) => "database",
            Token::EnvChange(EnvChange::Collation { .. }) => "collation",
            Token::EnvChange(EnvChange::Language { .. }) => "language",
            Token::EnvChange(EnvChange::PacketSize {
                new: 4000,
                old: 4096,
            }) => "packet size",
            Token::Info(_) => "info",
            Token::LoginAck(_) => "ack",
            Token::FeatureAck(features) => {
                assert_eq!(
                    *features,
                    [Feature {
                        id: feature_id::UTF8_SUPPORT,
                        data: vec![1]
                    }]
                );
                "features"
            }
            Token::Done(_) => "done",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "database",
            "info",
            "collation",
            "language",
            "info",
            "ack",
            "packet size",
            "features",
            "done"
        ]
    );
}

#[test]
fn a_wrong_password_tells_nothing_and_ends_the_connection() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in EVERY_MODE {
        let refused = login("sa", "wrong", version_of(mode));
        let (mut client, response) =
            Client::log_in(server.address(), mode, &refused).expect("answers");
        let errors = response.errors();
        assert_eq!(
            (errors[0].number, errors[0].state, errors[0].class),
            (18456, 1, 14)
        );
        assert!(response.last_done().is_error());
        assert!(!errors[0].text.contains("assword"));
        client.wait_for_end();
    }
    assert!(
        server
            .log()
            .contains("Error: 18456, Severity: 14, State: 8."),
        "{}",
        server.log()
    );
    assert!(
        server
            .log()
            .contains("Reason: Password did not match. [CLIENT: 127.0.0.1]")
    );
    assert!(!server.log().contains("wrong"));
}

#[test]
fn encryption_policies_meet_the_clients_wishes() {
    let off = TestServer::start(EncryptionPolicy::Off);
    let (client, _) = Client::log_in(
        off.address(),
        Mode::LoginOnly,
        &login("sa", PASSWORD, TdsVersion::V7_4),
    )
    .expect("logs in");
    assert_eq!(client.prelogin_reply, Some(Encryption::NotSupported));
    assert!(
        Client::log_in(
            off.address(),
            Mode::Strict,
            &login("sa", PASSWORD, TdsVersion::V8_0)
        )
        .is_err()
    );

    let required = TestServer::start(EncryptionPolicy::Required);
    for mode in [Mode::LoginOnly, Mode::Full, Mode::Strict] {
        // A client that would be content with less must keep its TLS after the login.
        let mode = if mode == Mode::LoginOnly {
            Mode::Full
        } else {
            mode
        };
        required.client_by(mode).batch("rows 1").expect("answers");
    }
    for mode in [Mode::Bare, Mode::Plain] {
        assert!(
            Client::log_in(
                required.address(),
                mode,
                &login("sa", PASSWORD, version_of(mode))
            )
            .is_err(),
            "{mode:?}"
        );
    }
    let mut client = Client::connect(required.address());
    client.prelogin(Encryption::Off).expect("answers");
    assert_eq!(client.prelogin_reply, Some(Encryption::Required));

    let strict = TestServer::start(EncryptionPolicy::Strict);
    strict
        .client_by(Mode::Strict)
        .batch("rows 1")
        .expect("answers");
    for mode in [Mode::Bare, Mode::Plain, Mode::Full] {
        assert!(
            Client::log_in(
                strict.address(),
                mode,
                &login("sa", PASSWORD, version_of(mode))
            )
            .is_err(),
            "{mode:?}"
        );
    }
    assert!(required.log().contains("17835") && strict.log().contains("17835"));
}

#[test]
fn several_results_and_errors_in_one_reply() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let answer = client.batch("rows 1; error; rows 2").expect("answers");
    assert_eq!(answer.error_numbers(), [208]);
    assert_eq!(
        answer
            .dones()
            .iter()
            .map(|d| (d.count(), d.is_error()))
            .collect::<Vec<_>>(),
        [(Some(1), false), (None, true), (Some(2), false)]
    );
    let empty = client.batch("").expect("answers");
    assert_eq!(empty.tokens.len(), 1);
    assert_eq!(empty.last_done().status, done_status::FINAL);
}

#[test]
fn calls_and_transaction_requests() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let calls = vec![
        RpcCall::new(RpcTarget::Id(ProcId::ExecuteSql)).with("@stmt", DataType::Int, Value::Int(1)),
        RpcCall::new(RpcTarget::Name("p".into())).with_output(
            "@out",
            DataType::Int,
            Value::Int(42),
        ),
    ];
    let answer = client.rpc(calls).expect("answers");
    assert_eq!(answer.dones().len(), 2);
    let values = answer.return_values();
    assert_eq!(
        (values[0].name.as_str(), &values[0].value),
        ("@out", &Value::Int(42))
    );
    let begin = TransactionRequest::Begin(daruma_tds::request::Begin {
        isolation: daruma_tds::request::Isolation::Keep,
        name: String::new(),
    });
    client.transaction(&begin).expect("answers");
    assert_eq!(client.transaction, 77);
    client
        .transaction(&TransactionRequest::Commit {
            name: String::new(),
            next: None,
        })
        .expect("answers");
    assert_eq!(client.transaction, 0);
}

#[test]
fn attention_stops_a_running_statement_and_the_session_goes_on() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in EVERY_MODE {
        let mut client = server.client_by(mode);
        for _ in 0..3 {
            client.send_batch("rows 2; wait").expect("sends");
            client.attention().expect("sends");
            let answer = client.receive_cancelled().expect("answers");
            assert_eq!(answer.rows().len(), 2, "{mode:?}");
            assert_eq!(
                client.batch("rows 4").expect("answers").rows().len(),
                4,
                "{mode:?}"
            );
        }
    }
}

#[test]
fn attention_after_the_first_rows_came() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in [Mode::Plain, Mode::Full, Mode::Strict] {
        let mut client = server.client_by(mode);
        client.send_batch("rows 5; wait").expect("sends");
        let first = client.receive_packet().expect("a packet before the end");
        assert!(!first.is_empty());
        client.attention().expect("sends");
        client.receive_cancelled().expect("the end");
        assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
    }
}

#[test]
fn attention_in_the_same_segment_as_the_request() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in [Mode::Plain, Mode::Full] {
        let mut client = server.client_by(mode);
        let mut bytes = Vec::new();
        let mut writer = daruma_tds::packet::MessageWriter::new(PacketType::Batch, 4096, 0);
        daruma_tds::request::SqlBatch::new("wait", 0).encode(TdsVersion::V7_4, writer.buffer());
        writer.finish(&mut bytes);
        writer.set_packet_type(PacketType::Attention);
        writer.finish(&mut bytes);
        client.send_bytes(&bytes).expect("sends");
        client.receive_cancelled().expect("answers");
        assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
    }
}

#[test]
fn attention_with_nothing_running_is_answered() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    client.attention().expect("sends");
    assert!(
        client
            .receive()
            .expect("answers")
            .last_done()
            .is_attention()
    );
    client.batch("rows 1").expect("answers");
    client.attention().expect("sends");
    assert!(
        client
            .receive()
            .expect("answers")
            .last_done()
            .is_attention()
    );
    assert_eq!(client.batch("rows 7").expect("answers").rows().len(), 7);
}

#[test]
fn a_client_that_leaves_ends_its_statement() {
    let mut server = TestServer::start(EncryptionPolicy::On);
    for mode in [Mode::Plain, Mode::Full, Mode::Strict] {
        let mut client = server.client_by(mode);
        client.send_batch("rows 1; wait").expect("sends");
        client.receive_packet().expect("the statement runs");
        client.raw().shutdown(SocketShutdown::Both).expect("closes");
    }
    let listener = server.listener.take().expect("runs");
    assert!(
        listener.stop(Duration::from_secs(300)),
        "statements of lost clients end by themselves"
    );
}

#[test]
fn a_message_given_up_is_answered_by_an_error_done() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    client
        .send_bytes(&[0x01, 0x03, 0, 8, 0, 0, 1, 0])
        .expect("sends");
    let answer = client.receive().expect("answers");
    assert_eq!(answer.tokens.len(), 1);
    assert!(answer.last_done().is_error());
    assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
}

#[test]
fn reset_comes_before_the_request() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let answer = client
        .batch_with_reset("rows 1", Reset::Full)
        .expect("answers");
    assert!(matches!(
        answer.tokens.first(),
        Some(Token::EnvChange(EnvChange::ResetDone))
    ));
    let answer = client
        .batch_with_reset("resets", Reset::KeepTransaction)
        .expect("answers");
    assert_eq!(answer.infos()[0].text, "[false, true]");
}

#[test]
fn a_panic_ends_one_connection() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let (mut bystander, mut victim) = (server.client(), server.client());
    let answer = victim.batch("rows 1; panic").expect("answers");
    assert_eq!(answer.error_numbers(), [3624]);
    victim.wait_for_end();
    assert!(server.log().contains("as told"), "{}", server.log());
    assert_eq!(bystander.batch("rows 2").expect("answers").rows().len(), 2);
}

#[test]
fn a_value_that_cannot_be_sent_breaks_off_the_result() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let answer = client.batch("bad").expect("answers");
    assert_eq!(answer.error_numbers(), [682]);
    client.wait_for_end();
    assert!(
        server.log().contains("cannot send a value"),
        "{}",
        server.log()
    );
}

#[test]
fn broken_input_ends_its_own_connection_with_a_logged_reason() {
    let server = TestServer::start(EncryptionPolicy::On);
    let mut bystander = server.client();
    let before_login: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &[0x12, 1, 0, 4, 0, 0, 1, 0],
        &[0x12, 1, 0, 14, 0, 0, 1, 0, 0, 0xFF, 0xFF, 0, 6, 0xFF],
        &[0x10, 1, 0, 12, 0, 0, 1, 0, 0xFF, 0xFF, 0xFF, 0x7F],
        &[0x01, 1, 0, 10, 0, 0, 1, 0, 65, 0],
        &[0x16, 3, 1, 0, 2, 9, 9],
    ];
    for bytes in before_login {
        let mut client = Client::connect(server.address());
        client.raw().write_all(bytes).expect("sends");
        client.wait_for_end();
    }
    let after_login: [(PacketType, &[u8]); 4] = [
        (PacketType::Batch, &[3, 0, 0, 0]),
        (PacketType::Rpc, &[4, 0, 0, 0, 0xFF, 0xFF, 99, 0]),
        (PacketType::TransactionManager, &[4, 0, 0, 0, 77, 0]),
        (PacketType::Login, &[1, 2, 3]),
    ];
    for (packet_type, body) in after_login {
        let mut client = server.client();
        client.send(packet_type, body).expect("sends");
        client.wait_for_end();
    }
    assert_eq!(bystander.batch("rows 2").expect("answers").rows().len(), 2);
    let mut server = server;
    server.stop();
    let log = server.log();
    assert!(log.matches("17828").count() >= 4, "{log}");
    assert!(log.matches("4014").count() >= 4, "{log}");
}

#[test]
fn too_many_parameters_are_an_error_that_spares_the_connection() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let mut call = RpcCall::new(RpcTarget::Name("p".into()));
    for _ in 0..2101 {
        call = call.with("", DataType::Int, Value::Int(1));
    }
    assert_eq!(
        client.rpc(vec![call]).expect("answers").error_numbers(),
        [8003]
    );
    assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
}

#[test]
fn a_float_that_is_no_number_is_an_error_that_spares_the_connection() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let call = RpcCall::new(RpcTarget::Name("p".into()));
    let call = call.with("", DataType::Float, Value::Float(1.5));
    let mut body = Vec::new();
    let request = RpcRequest::new(call, 0);
    request
        .encode(TdsVersion::V7_4, &mut body)
        .expect("encodes");
    let at = body.len() - 8;
    body[at..].copy_from_slice(&f64::INFINITY.to_le_bytes());
    client.send(PacketType::Rpc, &body).expect("sends");
    assert_eq!(client.receive().expect("answers").error_numbers(), [8023]);
    assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
}

fn bulk_body(values: &[i32]) -> Vec<u8> {
    let columns = [Column::new(
        "n",
        DataType::Int,
        true,
        WireCollation::DEFAULT,
        TdsVersion::V7_4,
    )];
    let mut body = Vec::new();
    let encoder = BulkEncoder::start(&columns, TdsVersion::V7_4, &mut body);
    for n in values {
        encoder.row(&[Value::Int(*n)], &mut body).expect("encodes");
    }
    encoder.finish(&mut body);
    body
}

#[test]
fn bulk_load_streams_and_survives_its_errors() {
    let server = TestServer::start(EncryptionPolicy::On);
    for mode in [Mode::Plain, Mode::Full] {
        let mut client = server.client_by(mode);
        let values: Vec<i32> = (0..50_000).collect();
        client
            .send(PacketType::Bulk, &bulk_body(&values))
            .expect("sends");
        let answer = client.receive().expect("answers");
        assert_eq!(answer.last_done().count(), Some(50_000));
        assert_eq!(
            answer.infos()[0].text,
            format!("sum {}", 49_999_i64 * 25_000)
        );
        let mut refused = values.clone();
        refused[3] = -1;
        client
            .send(PacketType::Bulk, &bulk_body(&refused))
            .expect("sends");
        assert_eq!(client.receive().expect("answers").error_numbers(), [547]);
        assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
    }
}

#[test]
fn bulk_load_ended_by_attention_or_given_up() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    let body = bulk_body(&[1, 2, 3]);
    let mut packet = vec![0x07, 0, 0, (8 + body.len() - 5) as u8, 0, 0, 1, 0];
    packet.extend_from_slice(&body[..body.len() - 5]);
    client.send_bytes(&packet).expect("sends");
    client.attention().expect("sends");
    client.receive_cancelled().expect("answers");
    client.send_bytes(&packet).expect("sends");
    client
        .send_bytes(&[0x07, 0x03, 0, 8, 0, 0, 2, 0])
        .expect("sends");
    let answer = client.receive().expect("answers");
    assert!(answer.last_done().is_error() && !answer.last_done().is_attention());
    assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
}

#[test]
fn a_full_server_turns_clients_away() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut first = server.client();
    server.service.limit.store(1, Ordering::SeqCst);
    Client::connect(server.address()).wait_for_end();
    assert!(server.log().contains("17809"), "{}", server.log());
    assert_eq!(first.batch("rows 1").expect("answers").rows().len(), 1);
}

#[test]
fn a_client_that_never_logs_in_is_dropped() {
    let limits = Limits {
        login_timeout: Duration::from_millis(50),
        refusal_delay: Duration::ZERO,
        ..Limits::default()
    };
    let server = TestServer::with_limits(EncryptionPolicy::On, limits);
    let mut silent = Client::connect(server.address());
    silent.wait_for_end();
    let mut half = Client::connect(server.address());
    half.raw().write_all(&[0x12, 1, 0]).expect("sends");
    half.wait_for_end();
    let mut hello = Client::connect(server.address());
    hello.raw().write_all(&[0x16, 3, 1]).expect("sends");
    hello.wait_for_end();
    assert!(server.log().contains("17830"), "{}", server.log());
}

/// A client whose login waits, in the service or before its first request, unless its time is over before.
fn late(server: &TestServer, user: &str) -> std::io::Result<Client> {
    let mut client = Client::connect(server.address());
    client.prelogin(Encryption::NotSupported)?;
    let login = login(user, PASSWORD, TdsVersion::V7_4);
    let body = login.encode().expect("encodes");
    client.send(PacketType::Login, &body)?;
    Ok(client)
}

#[test]
fn a_login_that_waits_ends_with_its_time() {
    ends_with_its_time("late");
}

#[test]
fn what_runs_before_the_first_request_ends_with_the_time_of_the_login() {
    ends_with_its_time("slow");
}

fn ends_with_its_time(user: &str) {
    let mut login_timeout = Duration::from_millis(50);
    loop {
        let limits = Limits {
            login_timeout,
            refusal_delay: Duration::ZERO,
            ..Limits::default()
        };
        let server = TestServer::with_limits(EncryptionPolicy::Off, limits);
        if let Ok(mut client) = late(&server, user) {
            if let (Ok(answer), "slow") = (client.receive(), user) {
                assert_eq!(answer.error_numbers(), [17892]);
            }
            client.wait_for_end();
        }
        if server.service.late.load(Ordering::SeqCst) > 0 {
            return;
        }
        // On a busy machine the time was over before the login was read.
        login_timeout *= 2;
    }
}

#[test]
fn a_login_that_waits_ends_when_its_client_leaves() {
    let limits = Limits {
        login_timeout: Duration::from_secs(3_600),
        refusal_delay: Duration::ZERO,
        ..Limits::default()
    };
    let server = TestServer::with_limits(EncryptionPolicy::Off, limits);
    drop(late(&server, "late").expect("there is time"));
    let client = late(&server, "slow").expect("there is time");
    while server.service.late.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    drop(client);
    while !["'late'", "17892"].iter().all(|w| server.log().contains(w)) {
        std::thread::yield_now();
    }
}

#[test]
fn what_runs_before_the_first_request_does_not_keep_the_server_from_stopping() {
    let limits = Limits {
        login_timeout: Duration::from_secs(3_600),
        refusal_delay: Duration::ZERO,
        ..Limits::default()
    };
    let mut server = TestServer::with_limits(EncryptionPolicy::Off, limits);
    let mut client = late(&server, "slow").expect("there is time");
    while server.service.late.load(Ordering::SeqCst) < 1 {
        std::thread::yield_now();
    }
    server.stop();
    client.wait_for_end();
}

#[test]
fn a_session_can_ask_the_server_to_stop() {
    let mut server = TestServer::start(EncryptionPolicy::Off);
    let (mut client, mut idle) = (server.client(), server.client());
    let mut busy = server.client();
    busy.send_batch("wait").expect("sends");
    client.batch("stop").expect("answers");
    server.listener.as_ref().expect("runs").wait();
    server.stop();
    for client in [&mut client, &mut idle, &mut busy] {
        client.wait_for_end();
    }
}

#[test]
fn bulk_load_with_a_short_end_token() {
    let server = TestServer::start(EncryptionPolicy::Off);
    let mut client = server.client();
    // Some clients write the count of the last DONE in four bytes.
    let mut body = bulk_body(&[4, 5]);
    body.truncate(body.len() - 4);
    client.send(PacketType::Bulk, &body).expect("sends");
    let answer = client.receive().expect("answers");
    assert_eq!(
        (answer.infos()[0].text.as_str(), answer.last_done().count()),
        ("sum 9", Some(2))
    );
    assert_eq!(client.batch("rows 1").expect("answers").rows().len(), 1);
}
