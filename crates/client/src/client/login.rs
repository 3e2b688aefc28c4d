//! From an address to a session: PRELOGIN, TLS, LOGIN7 and the login response.

use super::transport::{Deadline, Transport};
use super::{Client, ClientError, Result, Trust};
use daruma_tds::TdsVersion;
use daruma_tds::login::{Login7, Secret};
use daruma_tds::packet::{MessageWriter, PACKET_BYTES_DEFAULT, PacketType};
use daruma_tds::prelogin::{Encryption, Prelogin, ProductVersion};
use daruma_tds::token::{EnvChange, Routing, Token, TokenDecoder};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How much encryption a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EncryptionWish {
    /// The login alone, and not even that if the server cannot; its certificate is not looked at.
    Optional,
    #[default]
    Mandatory,
    /// TLS before the first packet (TDS 8.0).
    Strict,
}

/// Everything needed to log in, and to do so again.
#[derive(Clone, Debug)]
pub struct Options {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Secret,
    /// Empty: the login's default.
    pub database: String,
    pub encryption: EncryptionWish,
    pub trust: Trust,
    pub login_timeout: Option<Duration>,
    pub query_timeout: Option<Duration>,
    /// 0 leaves the choice to the server.
    pub packet_bytes: u32,
    pub app_name: String,
    pub workstation: String,
    pub read_only: bool,
}

impl Options {
    /// A connection as `sa` to this server, with the defaults of everything else.
    pub fn new(host: impl Into<String>, port: u16) -> Options {
        Options {
            host: host.into(),
            port,
            user: "sa".into(),
            password: Secret::default(),
            database: String::new(),
            encryption: EncryptionWish::default(),
            trust: Trust::Nobody,
            login_timeout: Some(Duration::from_secs(15)),
            query_timeout: None,
            packet_bytes: 0,
            app_name: "daruma".into(),
            workstation: String::new(),
            read_only: false,
        }
    }

    /// As `-S` takes it.
    pub fn server(&self) -> String {
        format!("{},{}", self.host, self.port)
    }
}

/// Logs in, where the server sends its readers if it does so (read-only routing).
pub(super) fn connect(options: &Options) -> Result<Client> {
    let (client, route) = log_in(options)?;
    let Some(route) = route else {
        return Ok(client);
    };
    drop(client);
    let there = Options {
        host: route.server,
        port: route.port,
        ..options.clone()
    };
    match log_in(&there)? {
        (client, None) => Ok(client),
        (_, Some(_)) => Err(ClientError::RoutedTwice {
            server: there.server(),
        }),
    }
}

fn log_in(options: &Options) -> Result<(Client, Option<Routing>)> {
    let server = options.server();
    let limit = options.login_timeout;
    let deadline = Deadline {
        at: limit.map(|limit| Instant::now() + limit),
        seconds: limit.map_or(0, |l| l.as_secs()),
        server: &server,
    };
    let patience = limit.unwrap_or(Duration::from_secs(600));
    let transport = Transport::connect(&options.host, options.port, patience);
    let transport = transport.map_err(|source| ClientError::Connect {
        server: server.clone(),
        source,
    })?;
    let mut client = Client {
        transport,
        writer: MessageWriter::new(PacketType::Prelogin, PACKET_BYTES_DEFAULT, 0),
        version: if options.encryption == EncryptionWish::Strict {
            TdsVersion::V8_0
        } else {
            TdsVersion::V7_4
        },
        transaction: 0,
        database: String::new(),
        server_name: server.clone(),
        program: String::new(),
        server_version: String::new(),
        login_messages: Vec::new(),
        packet_bytes: PACKET_BYTES_DEFAULT,
        reply: None,
        cancel: Arc::new(AtomicBool::new(false)),
        query_timeout: options.query_timeout,
        out: Vec::new(),
    };
    let login_only = client.agree_on_encryption(options, deadline)?;
    client.send_login(options)?;
    if login_only {
        client.transport.end_tls();
    }
    let route = client.read_login_response(deadline)?;
    Ok((client, route))
}

impl Client {
    /// PRELOGIN and the handshake. True: the encryption ends with the login.
    fn agree_on_encryption(&mut self, options: &Options, deadline: Deadline<'_>) -> Result<bool> {
        let Options { host, trust, .. } = options;
        if options.encryption == EncryptionWish::Strict {
            self.transport.strict_tls(host, trust, deadline)?;
            self.prelogin(Encryption::On, deadline)?;
            return Ok(false);
        }
        let optional = options.encryption == EncryptionWish::Optional;
        let wish = if optional {
            Encryption::Off
        } else {
            Encryption::On
        };
        match (self.prelogin(wish, deadline)?, optional) {
            (Encryption::NotSupported, true) => Ok(false),
            (Encryption::NotSupported, false) => Err(ClientError::NoEncryption {
                server: options.server(),
            }),
            (Encryption::Off, true) => {
                self.transport.wrapped_tls(host, &Trust::Anyone, deadline)?;
                Ok(true)
            }
            // The server insists; who asked for no check of the certificate gets none.
            (_, true) => self
                .transport
                .wrapped_tls(host, &Trust::Anyone, deadline)
                .map(|()| false),
            (_, false) => self
                .transport
                .wrapped_tls(host, trust, deadline)
                .map(|()| false),
        }
    }

    fn prelogin(&mut self, wish: Encryption, deadline: Deadline<'_>) -> Result<Encryption> {
        let version = ProductVersion {
            major: 16,
            ..ProductVersion::default()
        };
        let prelogin = Prelogin {
            version,
            encryption: Some(wish),
            thread_id: Some(Some(std::process::id())),
            mars: Some(false),
            ..Prelogin::default()
        };
        self.send(PacketType::Prelogin, &prelogin.encode())?;
        let body = self.transport.read_message(deadline)?;
        Ok(Prelogin::decode(&body)?
            .encryption
            .unwrap_or(Encryption::NotSupported))
    }

    fn send_login(&mut self, options: &Options) -> Result<()> {
        let mut login = Login7::new(self.version);
        login.packet_bytes = options.packet_bytes;
        login.client_pid = std::process::id();
        login.host_name.clone_from(&options.workstation);
        login.user_name.clone_from(&options.user);
        login.password.clone_from(&options.password);
        login.app_name.clone_from(&options.app_name);
        login.server_name.clone_from(&options.host);
        login.library_name = "daruma".into();
        login.database.clone_from(&options.database);
        if options.read_only {
            login.type_flags |= daruma_tds::login::type_flag::READ_ONLY_INTENT;
        }
        self.send(PacketType::Login, &login.encode()?)
    }

    fn read_login_response(&mut self, deadline: Deadline<'_>) -> Result<Option<Routing>> {
        let mut decoder = TokenDecoder::new(self.version);
        let mut granted = false;
        let mut route = None;
        loop {
            while let Some(token) = decoder.next_token()? {
                match token {
                    Token::LoginAck(ack) => {
                        granted = true;
                        self.version = ack.version;
                        self.program = ack.program.trim_end_matches('\0').into();
                        self.server_version = format!("{}.{}.{}", ack.major, ack.minor, ack.build);
                    }
                    Token::Error(message) | Token::Info(message) => {
                        self.login_messages.push(message)
                    }
                    Token::EnvChange(EnvChange::Routing(to)) => route = Some(to),
                    Token::EnvChange(change) => self.note(&change),
                    _ => {}
                }
            }
            if decoder.is_finished() {
                break;
            }
            match self.transport.next_packet()? {
                Some(packet) => decoder.feed(packet.payload, packet.header.is_last()),
                None => {
                    deadline.check()?;
                    match self.transport.fill() {
                        Err(ClientError::Closed) if !self.login_messages.is_empty() => break,
                        other => other.map(drop)?,
                    }
                }
            }
        }
        if granted {
            return Ok(route);
        }
        let mut messages = std::mem::take(&mut self.login_messages);
        messages.retain(daruma_tds::token::ServerMessage::is_error);
        Err(ClientError::LoginRefused { messages })
    }
}
