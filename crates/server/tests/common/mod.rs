//! A TDS client for tests: plain, TLS inside PRELOGIN, TLS for the login alone, strict.

#![allow(dead_code, reason = "each test program uses its own part")]

pub mod gated;
pub mod scripted;

use daruma_server::program::{Program, ProgramOptions};
use daruma_server::{EncryptionPolicy, LogCompression};
use daruma_tds::TdsVersion;
use daruma_tds::login::{Login7, Secret};
use daruma_tds::packet::{MessageWriter, PACKET_BYTES_MAX, PacketReader, PacketType, Reset};
use daruma_tds::prelogin::{Encryption, Prelogin};
use daruma_tds::request::{RpcCall, RpcRequest, SqlBatch, TransactionRequest};
use daruma_tds::token::{Done, EnvChange, ReturnValue, ServerMessage, Token, TokenDecoder};
use daruma_value::Value;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// LOGIN7 without PRELOGIN.
    Bare,
    Plain,
    LoginOnly,
    Full,
    Strict,
}

pub struct Client {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    reader: PacketReader,
    writer: MessageWriter,
    pub version: TdsVersion,
    pub transaction: u64,
    pub prelogin_reply: Option<Encryption>,
}

/// Everything one reply said.
#[derive(Debug, Default)]
pub struct Answer {
    pub tokens: Vec<Token>,
}

impl Answer {
    pub fn rows(&self) -> Vec<Vec<Value>> {
        self.tokens
            .iter()
            .filter_map(|t| {
                if let Token::Row(row) = t {
                    Some(row.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn errors(&self) -> Vec<ServerMessage> {
        self.tokens
            .iter()
            .filter_map(|t| {
                if let Token::Error(e) = t {
                    Some(e.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn error_numbers(&self) -> Vec<i32> {
        self.errors().iter().map(|e| e.number).collect()
    }

    pub fn infos(&self) -> Vec<ServerMessage> {
        self.tokens
            .iter()
            .filter_map(|t| {
                if let Token::Info(e) = t {
                    Some(e.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn dones(&self) -> Vec<Done> {
        self.tokens
            .iter()
            .filter_map(|t| {
                if let Token::Done(d) = t {
                    Some(*d)
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn env_changes(&self) -> Vec<EnvChange> {
        self.tokens
            .iter()
            .filter_map(|t| {
                if let Token::EnvChange(e) = t {
                    Some(e.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn return_values(&self) -> Vec<ReturnValue> {
        self.tokens
            .iter()
            .filter_map(|t| {
                if let Token::ReturnValue(v) = t {
                    Some(v.clone())
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn last_done(&self) -> Done {
        *self.dones().last().expect("a reply ends with DONE")
    }
}

/// Of `sa` in servers with [`program_options`].
pub const PASSWORD: &str = "Daruma-1!";

/// A small server of its own.
pub fn program_options(data_dir: &Path, encryption: EncryptionPolicy) -> ProgramOptions {
    ProgramOptions {
        data_dir: data_dir.to_path_buf(),
        listen: "127.0.0.1:0".into(),
        folders: Default::default(),
        server_name: None,
        trace_flags: Vec::new(),
        log_compression: LogCompression::default(),
        without_logon_triggers: false,
        sa_password: Some(PASSWORD.into()),
        memory_bytes: Some(64 << 20),
        encryption,
        certificate: None,
        limits: Vec::new(),
        log_echo: None,
    }
}

/// A small server, ready for connections.
pub fn start(data_dir: &Path) -> Program {
    Program::start(&program_options(data_dir, EncryptionPolicy::On)).expect("starts")
}

/// A plain connection of `sa` to master.
pub fn client(program: &Program) -> Client {
    client_in(program, Mode::Plain, "")
}

/// A connection of `sa` to a database; an empty name is the login's own.
pub fn client_in(program: &Program, mode: Mode, database: &str) -> Client {
    let mut login = login("sa", PASSWORD, TdsVersion::V7_4);
    login.database = database.into();
    let logged_in = Client::log_in(program.address(), mode, &login);
    logged_in.expect("logs in").0
}

/// Runs a batch that must not fail.
pub fn run(client: &mut Client, text: &str) -> Answer {
    let answer = client.batch(text).expect("answers");
    assert_eq!(answer.errors(), [], "{text}");
    answer
}

pub fn login(user: &str, password: &str, version: TdsVersion) -> Login7 {
    let mut login = Login7::new(version);
    login.user_name = user.into();
    login.password = Secret::new(password);
    login.app_name = "tests".into();
    login
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).expect("connects");
        socket.set_nodelay(true).expect("sets an option");
        Client {
            socket,
            tls: None,
            reader: PacketReader::new(PACKET_BYTES_MAX),
            writer: MessageWriter::new(PacketType::Prelogin, 4096, 0),
            version: TdsVersion::V7_4,
            transaction: 0,
            prelogin_reply: None,
        }
    }

    /// Connects and logs in; the answer is the login response.
    pub fn log_in(address: SocketAddr, mode: Mode, login: &Login7) -> io::Result<(Client, Answer)> {
        let mut client = Client::connect(address);
        client.version = login.version;
        if mode == Mode::Strict {
            client.strict_tls()?;
        }
        if mode != Mode::Bare {
            client.prelogin(match mode {
                Mode::Full | Mode::Strict => Encryption::On,
                Mode::LoginOnly => Encryption::Off,
                Mode::Plain | Mode::Bare => Encryption::NotSupported,
            })?;
        }
        if matches!(mode, Mode::Full | Mode::LoginOnly)
            && client.prelogin_reply != Some(Encryption::NotSupported)
        {
            client.wrapped_tls()?;
        }
        client.send(
            PacketType::Login,
            &login.encode().map_err(io::Error::other)?,
        )?;
        if mode == Mode::LoginOnly {
            client.tls = None;
        }
        let answer = client.receive()?;
        let packet_bytes = answer.env_changes().iter().find_map(|e| match e {
            EnvChange::PacketSize { new, .. } => usize::try_from(*new).ok(),
            _ => None,
        });
        client.writer.set_packet_bytes(packet_bytes.unwrap_or(4096));
        Ok((client, answer))
    }

    pub fn prelogin(&mut self, encryption: Encryption) -> io::Result<()> {
        let prelogin = Prelogin {
            encryption: Some(encryption),
            mars: Some(false),
            ..Prelogin::default()
        };
        self.send(PacketType::Prelogin, &prelogin.encode())?;
        let (_, body) = self.receive_message()?;
        let reply = Prelogin::decode(&body).expect("a PRELOGIN reply");
        self.prelogin_reply = reply.encryption;
        Ok(())
    }

    fn strict_tls(&mut self) -> io::Result<()> {
        let mut tls = client_tls(&[&rustls::version::TLS13], true);
        while tls.is_handshaking() {
            tls.complete_io(&mut self.socket)?;
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    fn wrapped_tls(&mut self) -> io::Result<()> {
        let mut tls = client_tls(&[&rustls::version::TLS12, &rustls::version::TLS13], false);
        loop {
            let mut flight = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut flight)?;
            }
            if !flight.is_empty() {
                self.send(PacketType::Prelogin, &flight)?;
            }
            if !tls.is_handshaking() {
                break;
            }
            let (packet_type, body) = self.receive_message()?;
            assert_eq!(
                packet_type,
                PacketType::Prelogin,
                "handshake records travel in PRELOGIN packets"
            );
            let mut body = body.as_slice();
            while !body.is_empty() {
                tls.read_tls(&mut body)?;
                tls.process_new_packets().map_err(io::Error::other)?;
            }
        }
        assert_eq!(
            tls.protocol_version(),
            Some(rustls::ProtocolVersion::TLSv1_2)
        );
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    pub fn raw(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub fn send(&mut self, packet_type: PacketType, body: &[u8]) -> io::Result<()> {
        self.send_with_reset(packet_type, body, None)
    }

    pub fn send_with_reset(
        &mut self,
        packet_type: PacketType,
        body: &[u8],
        reset: Option<Reset>,
    ) -> io::Result<()> {
        self.writer.set_packet_type(packet_type);
        self.writer.set_reset(reset);
        self.writer.buffer().extend_from_slice(body);
        let mut out = Vec::new();
        self.writer.finish(&mut out);
        self.send_bytes(&out)
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => {
                let mut stream = rustls::Stream::new(tls.as_mut(), &mut self.socket);
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        let count = match &mut self.tls {
            None => self.socket.read(&mut buffer)?,
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut self.socket).read(&mut buffer)?,
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.reader.feed(&buffer[..count]);
        Ok(())
    }

    fn receive_message(&mut self) -> io::Result<(PacketType, Vec<u8>)> {
        let mut body = Vec::new();
        loop {
            while let Some(packet) = self.reader.next_packet().expect("a packet") {
                body.extend_from_slice(packet.payload);
                if packet.header.is_last() {
                    return Ok((packet.header.packet_type, body));
                }
            }
            self.fill()?;
        }
    }

    /// One whole reply.
    pub fn receive(&mut self) -> io::Result<Answer> {
        let (packet_type, body) = self.receive_message()?;
        assert_eq!(packet_type, PacketType::Reply);
        let mut decoder = TokenDecoder::new(self.version);
        decoder.feed(&body, true);
        let mut answer = Answer::default();
        while let Some(token) = decoder.next_token().expect("a token") {
            match &token {
                Token::EnvChange(EnvChange::BeginTransaction { descriptor }) => {
                    self.transaction = *descriptor
                }
                Token::EnvChange(
                    EnvChange::CommitTransaction { .. } | EnvChange::RollbackTransaction { .. },
                ) => self.transaction = 0,
                _ => {}
            }
            answer.tokens.push(token);
        }
        self.version = decoder.version();
        let (last, others) = answer
            .dones()
            .split_last()
            .map(|(l, o)| (*l, o.to_vec()))
            .expect("a reply ends with DONE");
        assert!(!last.has_more(), "the last DONE is final");
        assert!(
            others.iter().all(|d| d.has_more()),
            "all other DONEs announce more"
        );
        assert!(
            matches!(answer.tokens.last(), Some(Token::Done(_))),
            "nothing follows the last DONE"
        );
        Ok(answer)
    }

    /// The next packet of a reply that may not be over.
    pub fn receive_packet(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(packet) = self.reader.next_packet().expect("a packet") {
                return Ok(packet.payload.to_vec());
            }
            self.fill()?;
        }
    }

    pub fn send_batch(&mut self, text: &str) -> io::Result<()> {
        let mut body = Vec::new();
        SqlBatch::new(text, self.transaction).encode(self.version, &mut body);
        self.send(PacketType::Batch, &body)
    }

    pub fn batch(&mut self, text: &str) -> io::Result<Answer> {
        self.send_batch(text)?;
        self.receive()
    }

    pub fn batch_with_reset(&mut self, text: &str, reset: Reset) -> io::Result<Answer> {
        let mut body = Vec::new();
        SqlBatch::new(text, self.transaction).encode(self.version, &mut body);
        self.send_with_reset(PacketType::Batch, &body, Some(reset))?;
        self.receive()
    }

    pub fn rpc(&mut self, calls: Vec<RpcCall>) -> io::Result<Answer> {
        let mut request = RpcRequest::new(
            RpcCall::new(daruma_tds::request::RpcTarget::Name(String::new())),
            self.transaction,
        );
        request.calls = calls;
        let mut body = Vec::new();
        request.encode(self.version, &mut body).expect("encodes");
        self.send(PacketType::Rpc, &body)?;
        self.receive()
    }

    pub fn transaction(&mut self, request: &TransactionRequest) -> io::Result<Answer> {
        let headers = daruma_tds::request::Headers::new(self.transaction);
        let mut body = Vec::new();
        request.encode(&headers, self.version, &mut body);
        self.send(PacketType::TransactionManager, &body)?;
        self.receive()
    }

    pub fn attention(&mut self) -> io::Result<()> {
        self.send(PacketType::Attention, &[])
    }

    /// The rest of a reply that was cut short, then the answer to the attention, which stands alone.
    pub fn receive_cancelled(&mut self) -> io::Result<Answer> {
        let answer = self.receive()?;
        let answered = self.receive()?;
        assert!(!answer.last_done().is_attention() && answered.last_done().is_attention());
        assert_eq!(answered.tokens.len(), 1);
        Ok(answer)
    }

    /// Waits for the server to close the connection.
    pub fn wait_for_end(&mut self) {
        while self.fill().is_ok() {}
    }
}

fn client_tls(
    versions: &[&'static rustls::SupportedProtocolVersion],
    strict: bool,
) -> ClientConnection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .expect("versions");
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    if strict {
        config.alpn_protocols = vec![b"tds/8.0".to_vec()];
    }
    ClientConnection::new(
        Arc::new(config),
        ServerName::try_from("localhost").expect("a name"),
    )
    .expect("a TLS client")
}

/// What clients do that were told to trust the server's certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
