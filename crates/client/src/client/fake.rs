//! A server for tests: speaks TDS, knows no SQL, answers requests as the test tells it.

use daruma_tds::login::Login7;
use daruma_tds::packet::{
    Message, MessageAssembler, MessageWriter, PACKET_BYTES_MAX, PacketReader, PacketType,
};
use daruma_tds::prelogin::{
    Encryption, EncryptionPlan, Prelogin, ProductVersion, ServerEncryption, negotiate,
};
use daruma_tds::request::{BulkDecoder, BulkEvent, SqlBatch};
use daruma_tds::token::{
    Column, Done, DoneKind, EnvChange, LoginAck, RowEncoder, ServerMessage, command, done_status,
    put_column_metadata,
};
use daruma_tds::{TdsVersion, WireCollation};
use daruma_value::{DataType, Value};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

const VERSION: TdsVersion = TdsVersion::V7_4;
/// The password that the stand-in server accepts.
pub const PASSWORD: &str = "right";

/// What a client asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Batch(String),
    Bulk {
        names: Vec<String>,
        rows: Vec<Vec<Value>>,
    },
    Attention,
}

/// Tokens of one reply.
#[derive(Default)]
pub struct Answer {
    bytes: Vec<u8>,
    /// No end: the statement still runs.
    running: bool,
}

impl Answer {
    /// Adds a result set.
    pub fn rows(mut self, columns: &[(&str, DataType)], rows: &[Vec<Value>]) -> Answer {
        let columns: Vec<Column> = columns
            .iter()
            .map(|(name, data_type)| {
                Column::new(*name, *data_type, true, WireCollation::DEFAULT, VERSION)
            })
            .collect();
        put_column_metadata(&columns, VERSION, &mut self.bytes);
        let encoder = RowEncoder::new(&columns, VERSION);
        for row in rows {
            encoder.encode(row, &mut self.bytes).expect("encodes");
        }
        let count = rows.len() as u64;
        Done::counted(DoneKind::Done, done_status::MORE, command::SELECT, count)
            .encode(VERSION, &mut self.bytes);
        self
    }

    /// Adds the count of a statement that changed rows.
    pub fn count(mut self, rows: u64) -> Answer {
        Done::counted(DoneKind::Done, done_status::MORE, command::INSERT, rows)
            .encode(VERSION, &mut self.bytes);
        self
    }

    /// Adds a message; of class 11 and above it is an error.
    pub fn message(mut self, number: i32, class: u8, text: &str) -> Answer {
        ServerMessage {
            number,
            state: 1,
            class,
            text: text.into(),
            server: "FAKE".into(),
            procedure: String::new(),
            line: 3,
        }
        .encode(VERSION, &mut self.bytes);
        self
    }

    /// Adds a change of the session's environment.
    pub fn env(mut self, change: &EnvChange) -> Answer {
        change.encode(VERSION, &mut self.bytes);
        self
    }

    /// Leaves the reply without an end, as of a statement that goes on.
    pub fn still_running(mut self) -> Answer {
        self.running = true;
        self
    }
}

/// Serves any number of clients, one after the other, on a port of its own; gives the port.
pub fn serve(
    tls: Option<Arc<ServerConfig>>,
    answer: impl FnMut(Request) -> Answer + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("an address").port();
    let mut answer = answer;
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            // A client that leaves in the middle is part of some tests.
            let _ = Connection::new(socket, tls.clone()).serve(&mut answer);
        }
    });
    port
}

/// A certificate for `localhost`, as PEM, and the settings that go with it.
pub fn certificate() -> (String, Arc<ServerConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).expect("makes");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let builder =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder
        .with_protocol_versions(&[&rustls::version::TLS12])
        .expect("a version");
    let config = builder
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate");
    (made.cert.pem(), Arc::new(config))
}

struct Connection {
    socket: TcpStream,
    config: Option<Arc<ServerConfig>>,
    tls: Option<ServerConnection>,
    packets: PacketReader,
    messages: MessageAssembler,
    writer: MessageWriter,
}

impl Connection {
    fn new(socket: TcpStream, config: Option<Arc<ServerConfig>>) -> Connection {
        Connection {
            socket,
            config,
            tls: None,
            packets: PacketReader::new(PACKET_BYTES_MAX),
            messages: MessageAssembler::new(1 << 26),
            writer: MessageWriter::new(PacketType::Reply, 4096, 51),
        }
    }

    fn serve(mut self, answer: &mut dyn FnMut(Request) -> Answer) -> io::Result<()> {
        self.log_in()?;
        loop {
            let message = self.receive()?;
            let request = request(&message);
            let acknowledges = request == Request::Attention;
            let mut reply = answer(request);
            if reply.running {
                self.writer.buffer().append(&mut reply.bytes);
                let mut out = Vec::new();
                self.writer.drain_partial(&mut out);
                self.write(&out)?;
                continue;
            }
            let end = if acknowledges {
                Done::attention()
            } else {
                Done::new(DoneKind::Done, done_status::FINAL, command::NONE)
            };
            end.encode(VERSION, &mut reply.bytes);
            self.reply(&reply.bytes)?;
        }
    }

    fn log_in(&mut self) -> io::Result<()> {
        let prelogin = Prelogin::decode(&self.receive()?.body).map_err(io::Error::other)?;
        let server = if self.config.is_some() {
            ServerEncryption::Optional
        } else {
            ServerEncryption::NoCertificate
        };
        let (told, plan) = negotiate(prelogin.encryption.unwrap_or(Encryption::Off), server);
        self.reply(&Prelogin::reply(ProductVersion::default(), told).encode())?;
        if matches!(plan, EncryptionPlan::Full | EncryptionPlan::LoginOnly) {
            self.handshake()?;
        }
        let login = Login7::decode(&self.receive()?.body).map_err(io::Error::other)?;
        if plan == EncryptionPlan::LoginOnly {
            self.tls = None;
        }
        let mut out = Vec::new();
        if login.password.reveal() != PASSWORD {
            let text = format!("Login failed for user '{}'.", login.user_name);
            ServerMessage {
                number: 18456,
                state: 1,
                class: 14,
                text,
                server: "FAKE".into(),
                line: 1,
                ..ServerMessage::default()
            }
            .encode(VERSION, &mut out);
            Done::new(DoneKind::Done, done_status::ERROR, command::NONE).encode(VERSION, &mut out);
            self.reply(&out)?;
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        EnvChange::Database {
            new: "master".into(),
            old: String::new(),
        }
        .encode(VERSION, &mut out);
        LoginAck {
            version: VERSION,
            program: LoginAck::PROGRAM.into(),
            major: 16,
            minor: 0,
            build: 1000,
        }
        .encode(&mut out);
        EnvChange::PacketSize {
            new: 8000,
            old: 4096,
        }
        .encode(VERSION, &mut out);
        Done::new(DoneKind::Done, done_status::FINAL, command::NONE).encode(VERSION, &mut out);
        self.reply(&out)?;
        self.writer.set_packet_bytes(8000);
        Ok(())
    }

    fn handshake(&mut self) -> io::Result<()> {
        let config = self.config.clone().ok_or(io::ErrorKind::InvalidInput)?;
        let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
        self.writer.set_packet_type(PacketType::Prelogin);
        while tls.is_handshaking() {
            let flight = self.receive()?.body;
            let mut flight = flight.as_slice();
            while !flight.is_empty() {
                tls.read_tls(&mut flight)?;
                tls.process_new_packets().map_err(io::Error::other)?;
            }
            let mut out = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
            self.reply(&out)?;
        }
        self.writer.set_packet_type(PacketType::Reply);
        self.tls = Some(tls);
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Message> {
        loop {
            while let Some(packet) = self.packets.next_packet().map_err(io::Error::other)? {
                if let Some(message) = self.messages.push(&packet).map_err(io::Error::other)? {
                    return Ok(message);
                }
            }
            let mut buffer = [0; 4096];
            let count = match &mut self.tls {
                None => self.socket.read(&mut buffer)?,
                Some(tls) => rustls::Stream::new(tls, &mut self.socket).read(&mut buffer)?,
            };
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.packets.feed(&buffer[..count]);
        }
    }

    fn reply(&mut self, payload: &[u8]) -> io::Result<()> {
        self.writer.buffer().extend_from_slice(payload);
        let mut out = Vec::new();
        self.writer.finish(&mut out);
        self.write(&out)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).write_all(bytes),
        }
    }
}

fn request(message: &Message) -> Request {
    match message.packet_type {
        PacketType::Batch => Request::Batch(
            SqlBatch::decode(&message.body, VERSION)
                .expect("a batch")
                .text,
        ),
        PacketType::Attention => Request::Attention,
        PacketType::Bulk => {
            let mut decoder = BulkDecoder::new(VERSION);
            decoder.feed(&message.body, true);
            let (mut names, mut rows) = (Vec::new(), Vec::new());
            while let Some(event) = decoder.next_event().expect("an event") {
                match event {
                    BulkEvent::Columns(columns) => {
                        names = columns.iter().map(|column| column.name.clone()).collect()
                    }
                    BulkEvent::Row(row) => rows.push(row),
                    BulkEvent::Done => {}
                }
            }
            Request::Bulk { names, rows }
        }
        other => panic!("a request of type {other:?}"),
    }
}
