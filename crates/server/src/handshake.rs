//! From an accepted socket to a session: first byte, PRELOGIN, TLS, LOGIN7, login response.
//!
//! | client begins with | policy off | on | required | strict |
//! |---|---|---|---|---|
//! | TLS (0x16) | refused | TDS 8.0 | TDS 8.0 | TDS 8.0 |
//! | PRELOGIN | plain | as the client wishes | encrypted or refused | refused |
//! | LOGIN7 (TDS 7.1) | plain | plain | refused | refused |
//!
//! Everything before the login response stands under one deadline and under the bound of a LOGIN7 message.

use crate::error::ConnectionError;
use crate::listener::Shared;
use crate::reply::server_message;
use crate::service::{ConnectionInfo, Refusal, ServiceSession};
use crate::tls::EncryptionPolicy;
use crate::watcher::Slot;
use crate::wire::Wire;
use daruma_tds::login::{Feature, Login7, feature_id};
use daruma_tds::packet::{Message, PACKET_BYTES_DEFAULT, PacketType, negotiate_packet_bytes};
use daruma_tds::prelogin::{
    Encryption, EncryptionPlan, Prelogin, ProductVersion, ServerEncryption, negotiate,
};
use daruma_tds::token::{
    Done, DoneKind, EnvChange, LoginAck, command, done_status, put_feature_ack,
};
use daruma_tds::{TdsError, TdsVersion, WireCollation};
use daruma_tsql::error::SqlError;
use daruma_tsql::instance::one_line;
use rustls::{ServerConfig, ServerConnection};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TLS_CLIENT_HELLO: u8 = 0x16;
/// For the answer to a login that triggers have refused.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Version that clients compare: SQL Server 2022.
const PRODUCT: ProductVersion = ProductVersion {
    major: 16,
    minor: 0,
    build: 4100,
    sub_build: 1,
};

/// A connection whose client is known.
pub(crate) struct LoggedIn {
    pub session: Box<dyn ServiceSession>,
    pub version: TdsVersion,
    pub info: ConnectionInfo,
}

pub(crate) fn establish(
    wire: &mut Wire,
    shared: &Shared,
    client: SocketAddr,
    slot: &Slot,
) -> Result<LoggedIn, ConnectionError> {
    let mut handshake = Handshake {
        wire,
        shared,
        client,
        slot,
        is_login_encrypted: false,
    };
    handshake
        .wire
        .transport
        .set_deadline(Instant::now() + shared.limits.login_timeout);
    let is_strict = handshake.begin()?;
    let login = handshake.read_login(is_strict)?;
    let logged_in = handshake.log_in(login, is_strict)?;
    wire.transport.end_deadline(shared.limits.send_timeout)?;
    Ok(logged_in)
}

struct Handshake<'a> {
    wire: &'a mut Wire,
    shared: &'a Shared,
    client: SocketAddr,
    slot: &'a Slot,
    /// TLS ends with the LOGIN7 message.
    is_login_encrypted: bool,
}

impl Handshake<'_> {
    /// TDS 8.0 or 7.x? True for the former, with TLS in place.
    fn begin(&mut self) -> Result<bool, ConnectionError> {
        let first = self.wire.transport.peek()?.ok_or(ConnectionError::Closed)?;
        if first == TLS_CLIENT_HELLO {
            let config = self
                .shared
                .tls
                .strict()
                .ok_or(ConnectionError::EncryptionUnavailable)?;
            self.wire.transport.accept_tls(config)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn read_login(&mut self, is_strict: bool) -> Result<Login7, ConnectionError> {
        let mut message = self.wire.next_message("PRELOGIN or LOGIN7")?;
        let server = self.shared.tls.server_encryption();
        if message.packet_type == PacketType::Prelogin {
            self.prelogin(&message, is_strict, server)?;
            message = self.wire.next_message("LOGIN7")?;
        } else if !is_strict && server == ServerEncryption::Forced {
            return Err(ConnectionError::EncryptionRequired);
        }
        if self.is_login_encrypted {
            self.wire.transport.decrypt();
        }
        match message.packet_type {
            PacketType::Login => Ok(Login7::decode(&message.body)?),
            other => Err(ConnectionError::UnexpectedMessage {
                expected: "LOGIN7",
                found: other as u8,
            }),
        }
    }

    fn prelogin(
        &mut self,
        message: &Message,
        is_strict: bool,
        server: ServerEncryption,
    ) -> Result<(), ConnectionError> {
        let prelogin = Prelogin::decode(&message.body)?;
        let wish = prelogin.encryption.unwrap_or(Encryption::NotSupported);
        if is_strict {
            // TLS is there already: the option means nothing, and clients expect no more than their own wish.
            let (reply, _) = negotiate(wish, ServerEncryption::Optional);
            return self.reply_prelogin(reply);
        }
        if self.shared.tls.policy == EncryptionPolicy::Strict {
            self.reply_prelogin(Encryption::Required)?;
            return Err(ConnectionError::EncryptionRequired);
        }
        let (reply, plan) = negotiate(wish, server);
        self.reply_prelogin(reply)?;
        match (plan, self.shared.tls.wrapped()) {
            (EncryptionPlan::Full, Some(config)) => self.wrapped_tls(config),
            (EncryptionPlan::LoginOnly, Some(config)) => {
                self.is_login_encrypted = true;
                self.wrapped_tls(config)
            }
            (EncryptionPlan::Refused, Some(_)) => Err(ConnectionError::EncryptionRequired),
            // A client that wanted encryption may leave now, or go on in clear.
            _ => Ok(()),
        }
    }

    fn reply_prelogin(&mut self, encryption: Encryption) -> Result<(), ConnectionError> {
        let body = Prelogin::reply(PRODUCT, encryption).encode();
        self.wire.output.tokens().extend_from_slice(&body);
        self.wire.finish_reply()
    }

    /// The handshake of TDS 7.x: records travel as bodies of PRELOGIN packets, both ways, until it is done.
    fn wrapped_tls(&mut self, config: Arc<ServerConfig>) -> Result<(), ConnectionError> {
        let mut tls = ServerConnection::new(config)?;
        while tls.is_handshaking() {
            let message = self.wire.next_message("a TLS handshake")?;
            if message.packet_type != PacketType::Prelogin {
                let found = message.packet_type as u8;
                return Err(ConnectionError::UnexpectedMessage {
                    expected: "a TLS handshake",
                    found,
                });
            }
            let processed = take_records(&mut tls, &message.body);
            self.send_records(&mut tls)?;
            processed?;
        }
        take_records(&mut tls, &self.wire.input.take_unread())?;
        self.wire.transport.encrypt(tls);
        Ok(())
    }

    /// Also carries the alert that tells a client why its handshake failed.
    fn send_records(&mut self, tls: &mut ServerConnection) -> Result<(), ConnectionError> {
        if !tls.wants_write() {
            return Ok(());
        }
        let output = &mut self.wire.output;
        output.set_packet_type(PacketType::Prelogin);
        while tls.wants_write() {
            tls.write_tls(output.tokens())?;
        }
        output.finish(&mut self.wire.transport)?;
        output.set_packet_type(PacketType::Reply);
        Ok(())
    }

    fn log_in(&mut self, login: Login7, is_strict: bool) -> Result<LoggedIn, ConnectionError> {
        let version = match login.version {
            TdsVersion::V8_0 if !is_strict => TdsVersion::V7_4,
            version => version,
        };
        let info = ConnectionInfo {
            client: self.client,
            encrypted: self.wire.transport.is_encrypted(),
            packet_bytes: negotiate_packet_bytes(login.packet_bytes),
        };
        let transport = &self.wire.transport;
        let is_awaited = || transport.is_awaited();
        let service = &self.shared.service;
        let begun = service.log_in(&login, &info, &is_awaited);
        let begun = begun.and_then(|session| self.enter(session, info.encrypted));
        match begun {
            Ok(session) => {
                self.accept(&login, session.as_ref(), version, info.packet_bytes)?;
                Ok(LoggedIn {
                    session,
                    version,
                    info,
                })
            }
            Err(refusal) => {
                std::thread::sleep(self.shared.limits.refusal_delay);
                self.refuse(&refusal, version)?;
                Err(ConnectionError::Refused)
            }
        }
    }

    /// What runs before the first request is stopped as requests are, and when the login's time is over.
    fn enter(
        &mut self,
        mut session: Box<dyn ServiceSession>,
        encrypted: bool,
    ) -> Result<Box<dyn ServiceSession>, Refusal> {
        self.slot.set_session(session.cancel_flag(), encrypted);
        let running = self.shared.watcher.begin_request(self.slot);
        running.until(self.wire.transport.deadline());
        let entered = session.enter();
        if entered.is_err() {
            self.slot.end_session();
            // It may have taken all the time there was.
            let delay = self.shared.limits.refusal_delay;
            let deadline = Instant::now() + delay + ANSWER_TIME;
            self.wire.transport.set_deadline(deadline);
        }
        drop(running);
        entered.map(|()| session)
    }

    /// The login response, in the product's order.
    fn accept(
        &mut self,
        login: &Login7,
        session: &dyn ServiceSession,
        version: TdsVersion,
        packet_bytes: usize,
    ) -> Result<(), ConnectionError> {
        let spid = u16::try_from(session.spid()).unwrap_or(0);
        self.wire.set_session(PACKET_BYTES_DEFAULT, spid);
        let (database, language) = (session.database(), session.language());
        let server = self.shared.service.server_name();
        let out = self.wire.output.tokens();
        EnvChange::Database {
            new: database.clone(),
            old: "master".to_string(),
        }
        .encode(version, out);
        info(
            5701,
            2,
            format!("Changed database context to '{database}'."),
            server,
        )
        .encode(version, out);
        EnvChange::Collation {
            new: WireCollation::DEFAULT,
            old: None,
        }
        .encode(version, out);
        EnvChange::Language {
            new: language.clone(),
            old: String::new(),
        }
        .encode(version, out);
        info(
            5703,
            1,
            format!("Changed language setting to {language}."),
            server,
        )
        .encode(version, out);
        let ack = LoginAck {
            version,
            program: LoginAck::PROGRAM.to_string(),
            major: PRODUCT.major,
            minor: PRODUCT.minor,
            build: PRODUCT.build,
        };
        ack.encode(out);
        let [new, old] =
            [packet_bytes, PACKET_BYTES_DEFAULT].map(|bytes| u32::try_from(bytes).unwrap_or(0));
        EnvChange::PacketSize { new, old }.encode(version, out);
        // The last that the client reads: it hangs up then.
        if let Some(route) = session.route() {
            EnvChange::Routing(route).encode(version, out);
        }
        if version.has_features() && !login.features.is_empty() {
            put_feature_ack(&acknowledged(login), out);
        }
        Done::new(DoneKind::Done, done_status::FINAL, command::NONE).encode(version, out);
        self.wire.finish_reply()?;
        self.wire.set_session(packet_bytes, spid);
        Ok(())
    }

    fn refuse(&mut self, refusal: &Refusal, version: TdsVersion) -> Result<(), ConnectionError> {
        let service = &self.shared.service;
        if let Some(last) = refusal.messages.last() {
            let error = format!(
                "Error: {}, Severity: {}, State: {}.",
                last.number, last.class, refusal.state
            );
            // Both name what the client sent.
            let (told, reason) = (one_line(&last.message), one_line(&refusal.reason));
            let text = format!("{told} Reason: {reason} [CLIENT: {}]", self.client.ip());
            service.write_log_bounded("Logon", last.number, &[&error, &text]);
        }
        let out = self.wire.output.tokens();
        for message in &refusal.messages {
            server_message(message, service.server_name()).encode(version, out);
        }
        Done::new(DoneKind::Done, done_status::ERROR, command::NONE).encode(version, out);
        self.wire.finish_reply()
    }
}

fn take_records(tls: &mut ServerConnection, mut bytes: &[u8]) -> Result<(), ConnectionError> {
    while !bytes.is_empty() {
        tls.read_tls(&mut bytes)?;
        tls.process_new_packets()?;
    }
    Ok(())
}

/// Of what was asked for, what the server has. Clients leave a server that offers more.
fn acknowledged(login: &Login7) -> Vec<Feature> {
    let utf8 = login.feature(feature_id::UTF8_SUPPORT);
    utf8.map(|_| Feature {
        id: feature_id::UTF8_SUPPORT,
        data: vec![1],
    })
    .into_iter()
    .collect()
}

fn info(number: i32, state: u8, text: String, server: &str) -> daruma_tds::token::ServerMessage {
    let mut message = SqlError::new(number, 0, state, text);
    message.line = 1;
    server_message(&message, server)
}

/// The error log's words for a connection that ended before it was one. `None`: not worth a line.
pub(crate) fn failure_text(error: &ConnectionError, client: SocketAddr) -> Option<(i32, String)> {
    let client = client.ip();
    let (number, state, text) = match error {
        ConnectionError::Closed | ConnectionError::Refused => return None,
        ConnectionError::Protocol(TdsError::UnsupportedVersion { .. }) => (
            17832,
            11,
            format!("The login packet used to open the connection is structurally invalid; the connection has been closed. {error}."),
        ),
        ConnectionError::Protocol(_) | ConnectionError::UnexpectedMessage { .. } => (
            17828,
            4,
            format!("The prelogin packet used to open the connection is structurally invalid; the connection has been closed. {error}."),
        ),
        ConnectionError::EncryptionRequired => (
            17835,
            1,
            "Encryption is required to connect to this server but the client library does not support encryption; the connection has been closed.".to_string(),
        ),
        ConnectionError::EncryptionUnavailable => {
            (17835, 2, "The client requires encryption, which this server does not offer; the connection has been closed.".to_string())
        }
        ConnectionError::LoginTimeout
        | ConnectionError::NotReading
        | ConnectionError::Cut
        | ConnectionError::Io(_)
        | ConnectionError::Tls(_) => {
            (17830, 102, format!("A network error occurred while establishing a connection; the connection has been closed. {error}."))
        }
    };
    let text = format!("Error: {number}, Severity: 20, State: {state}.\n{text} [CLIENT: {client}]");
    Some((number, text))
}
