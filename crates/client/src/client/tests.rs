//! The client against a server that answers as told.

use super::fake::{Answer, PASSWORD, Request, certificate, serve};
use super::{Client, ClientError, EncryptionWish, Event, Options, Trust};
use daruma_tds::WireCollation;
use daruma_tds::login::Secret;
use daruma_tds::token::{Column, EnvChange};
use daruma_value::{DataType, Len, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

fn options(port: u16) -> Options {
    Options {
        password: Secret::new(PASSWORD),
        encryption: EncryptionWish::Optional,
        ..Options::new("localhost", port)
    }
}

fn connect(answer: impl FnMut(Request) -> Answer + Send + 'static) -> Client {
    Client::connect(&options(serve(None, answer))).expect("connects")
}

#[test]
fn a_batch_and_its_events() {
    let mut client = connect(|request| {
        assert_eq!(request, Request::Batch("select 1".into()));
        let rows = [
            vec![Value::Int(1), Value::Null],
            vec![Value::Null, Value::str("x")],
        ];
        Answer::default()
            .message(0, 0, "hello")
            .rows(
                &[("a", DataType::Int), ("b", DataType::VarChar(Len(5)))],
                &rows,
            )
            .count(7)
    });
    assert_eq!(client.database(), "master");
    assert_eq!(client.program(), ("Microsoft SQL Server", "16.0.1000"));
    assert_eq!(client.packet_bytes(), 8000);
    let mut reply = client.batch("select 1").expect("sends");
    let mut seen = Vec::new();
    while let Some(event) = reply.next_event().expect("reads") {
        seen.push(match event {
            Event::Columns(columns) => columns
                .iter()
                .map(|column| column.name.clone())
                .collect::<Vec<_>>()
                .join(","),
            Event::Row(row) => format!("{row:?}"),
            Event::Message(message) => message.text,
            Event::Done(done) => format!("{:?}", done.count()),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(
        seen,
        [
            "hello",
            "a,b",
            "[Int(1), Null]",
            "[Null, Str(\"x\")]",
            "Some(2)",
            "Some(7)",
            "None"
        ]
    );
}

#[test]
fn errors_leave_the_connection_usable() {
    let mut client = connect(|request| match request {
        Request::Batch(text) if text == "bad" => {
            Answer::default().message(208, 16, "Invalid object name 'bad'.")
        }
        _ => Answer::default().rows(&[("n", DataType::Int)], &[vec![Value::Int(5)]]),
    });
    let error = client.query("bad").expect_err("an error");
    assert!(!error.is_fatal());
    assert_eq!(
        error.to_string(),
        "Msg 208, Level 16, State 1, Server FAKE, Line 3\nInvalid object name 'bad'."
    );
    assert_eq!(client.query("good").expect("rows"), [[Value::Int(5)]]);
}

#[test]
fn long_replies_and_long_batches_come_through() {
    let mut client = connect(|request| {
        let Request::Batch(text) = request else {
            panic!("a batch")
        };
        let row = vec![Value::Int(text.len() as i32), Value::str("y".repeat(9000))];
        Answer::default().rows(
            &[("n", DataType::Int), ("t", DataType::NVARCHAR_MAX)],
            &vec![row; 50],
        )
    });
    let rows = client.query(&"x".repeat(100_000)).expect("rows");
    assert_eq!((rows.len(), &rows[49][0]), (50, &Value::Int(100_000)));
}

#[test]
fn the_database_and_the_transaction_are_followed() {
    let mut client = connect(|request| match request {
        Request::Batch(text) if text == "use" => Answer::default().env(&EnvChange::Database {
            new: "Sales".into(),
            old: "master".into(),
        }),
        Request::Batch(text) if text == "begin" => {
            Answer::default().env(&EnvChange::BeginTransaction { descriptor: 9 })
        }
        _ => Answer::default().env(&EnvChange::CommitTransaction { descriptor: 9 }),
    });
    client.execute("use").expect("runs");
    assert_eq!(client.database(), "Sales");
    client.execute("begin").expect("runs");
    assert!(client.is_in_transaction());
    client.execute("commit").expect("runs");
    assert!(!client.is_in_transaction());
}

/// Runs until an attention comes, then says how often it was asked to.
fn endless() -> impl FnMut(Request) -> Answer + Send + 'static {
    |request| match request {
        Request::Batch(text) if text == "endless" => Answer::default()
            .rows(&[("n", DataType::Int)], &[vec![Value::Int(1)]])
            .still_running(),
        _ => Answer::default(),
    }
}

#[test]
fn the_flag_cancels_and_is_cleared() {
    let mut client = connect(endless());
    let flag = Arc::new(AtomicBool::new(false));
    client.set_cancel_flag(Arc::clone(&flag));
    let mut reply = client.batch("endless").expect("sends");
    assert!(matches!(reply.next_event(), Ok(Some(Event::Columns(_)))));
    flag.store(true, Ordering::Relaxed);
    assert!(matches!(reply.drain(), Err(ClientError::Cancelled)));
    assert!(!flag.load(Ordering::Relaxed));
    client.execute("next").expect("runs");
}

#[test]
fn a_query_timeout_cancels() {
    let mut client = connect(endless());
    client.set_query_timeout(Some(Duration::from_millis(1)));
    assert!(matches!(
        client.query("endless"),
        Err(ClientError::QueryTimeout { .. })
    ));
    client.set_query_timeout(None);
    client.execute("next").expect("runs");
}

#[test]
fn a_dropped_reply_is_cancelled_by_the_next_request() {
    let mut client = connect(endless());
    assert!(matches!(
        client.batch("endless").expect("sends").next_event(),
        Ok(Some(Event::Columns(_)))
    ));
    client.execute("next").expect("runs");
}

#[test]
fn bulk_load_sends_rows_in_packets() {
    let (sender, receiver) = channel();
    let mut client = connect(move |request| match request {
        Request::Bulk { names, rows } => {
            let count = rows.len() as u64;
            sender.send((names, rows)).expect("sends");
            Answer::default().count(count)
        }
        _ => Answer::default(),
    });
    client
        .execute("INSERT BULK t (a int, b nvarchar(50))")
        .expect("accepts");
    let version = client.version();
    let columns =
        [("a", DataType::Int), ("b", DataType::NVarChar(Len(50)))].map(|(name, data_type)| {
            Column::new(name, data_type, true, WireCollation::DEFAULT, version)
        });
    let mut load = client.bulk(&columns).expect("begins");
    for number in 0..5000 {
        load.row(&[Value::Int(number), Value::str(format!("row {number}"))])
            .expect("sends");
    }
    load.row(&[Value::Null, Value::Null]).expect("sends");
    assert_eq!(load.finish().expect("finishes"), 5001);
    let (names, rows) = receiver.recv().expect("rows");
    assert_eq!(names, ["a", "b"]);
    assert_eq!(rows[4999], [Value::Int(4999), Value::str("row 4999")]);
    assert_eq!(rows[5000], [Value::Null, Value::Null]);
}

#[test]
fn a_wrong_password_is_refused_with_the_servers_words() {
    let port = serve(None, |_| Answer::default());
    let wrong = Options {
        password: Secret::new("wrong"),
        ..options(port)
    };
    let error = Client::connect(&wrong).err().expect("an error");
    assert_eq!(
        error.to_string(),
        "Msg 18456, Level 14, State 1, Server FAKE, Line 1\nLogin failed for user 'sa'."
    );
}

#[test]
fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    assert!(matches!(
        Client::connect(&options(port)),
        Err(ClientError::Connect { .. })
    ));
}

#[test]
fn trust_decides_about_certificates() {
    let (pem, config) = certificate();
    let port = serve(Some(config), |_| {
        Answer::default().rows(&[("n", DataType::Int)], &[vec![Value::Int(5)]])
    });
    let with = |trust| Options {
        encryption: EncryptionWish::Mandatory,
        trust,
        ..options(port)
    };
    let error = Client::connect(&with(Trust::Nobody))
        .err()
        .expect("an error");
    assert!(error.to_string().contains("add -C"), "{error}");
    let mut client = Client::connect(&with(Trust::Anyone)).expect("connects");
    assert_eq!(client.query("q").expect("rows"), [[Value::Int(5)]]);
    drop(client);
    let directory = std::env::temp_dir().join(format!("daruma-ca-{}-{port}", std::process::id()));
    std::fs::write(&directory, pem).expect("writes");
    let client = Client::connect(&with(Trust::File(directory.clone())));
    std::fs::remove_file(&directory).expect("removes");
    assert_eq!(
        client.expect("connects").query("q").expect("rows"),
        [[Value::Int(5)]]
    );
    let (other, _) = certificate();
    std::fs::write(&directory, other).expect("writes");
    let refused = Client::connect(&with(Trust::File(directory.clone())));
    std::fs::remove_file(&directory).expect("removes");
    assert!(matches!(refused, Err(ClientError::Tls { .. })));
}

#[test]
fn the_login_alone_is_encrypted_on_request() {
    let (_, config) = certificate();
    let port = serve(Some(config), |_| {
        Answer::default().rows(&[("n", DataType::Int)], &[vec![Value::Int(5)]])
    });
    let mut client = Client::connect(&options(port)).expect("connects");
    assert_eq!(client.query("q").expect("rows"), [[Value::Int(5)]]);
}

#[test]
fn mandatory_encryption_needs_a_server_that_can() {
    let port = serve(None, |_| Answer::default());
    let mandatory = Options {
        encryption: EncryptionWish::Mandatory,
        ..options(port)
    };
    assert!(matches!(
        Client::connect(&mandatory),
        Err(ClientError::NoEncryption { .. })
    ));
}
