//! What can go wrong between a client and its server.

use daruma_tds::TdsError;
use daruma_tds::token::ServerMessage;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A result whose error is a [`ClientError`].
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// What can go wrong between a client and a server.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("cannot connect to {server}: {source}")]
    Connect { server: String, source: io::Error },
    #[error("{server} is not a server name: expected host, host,port or tcp:host,port")]
    ServerName { server: String },
    #[error("named instances are not supported, give the port instead: -S {host},PORT")]
    NamedInstance { host: String },
    #[error("{server} did not answer the login within {seconds} seconds")]
    LoginTimeout { server: String, seconds: u64 },
    #[error("{server} does not encrypt connections. To connect without encryption add -N optional")]
    NoEncryption { server: String },
    #[error("{server} accepts encrypted connections only. Leave out -N optional")]
    EncryptionRequired { server: String },
    #[error(
        "{server} has a certificate that nothing vouches for. To trust it as it is add -C, or name its certificate with --ca FILE"
    )]
    UntrustedCertificate { server: String },
    #[error("TLS with {server}: {source}")]
    Tls {
        server: String,
        source: rustls::Error,
    },
    #[error("cannot read certificates from {}: {reason}", path.display())]
    CertificateFile { path: PathBuf, reason: String },
    #[error("{}", login_text(messages))]
    LoginRefused { messages: Vec<ServerMessage> },
    #[error(
        "{server} sends readers on to another server, and one server had sent them there already"
    )]
    RoutedTwice { server: String },
    #[error("{}", message_text(message))]
    Server { message: Box<ServerMessage> },
    #[error("the server closed the connection")]
    Closed,
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    #[error("the query ran longer than {seconds} seconds and was cancelled")]
    QueryTimeout { seconds: u64 },
    #[error("the query was cancelled")]
    Cancelled,
    #[error("the server's reply cannot be read: {0}")]
    Protocol(#[from] TdsError),
}

impl ClientError {
    /// Is the connection lost, so that only a new one helps?
    pub const fn is_fatal(&self) -> bool {
        !matches!(
            self,
            ClientError::Server { .. } | ClientError::QueryTimeout { .. } | ClientError::Cancelled
        )
    }

    /// The server's own message behind this error, if there is one.
    pub fn server_message(&self) -> Option<&ServerMessage> {
        match self {
            ClientError::Server { message } => Some(message),
            ClientError::LoginRefused { messages } => messages.last(),
            _ => None,
        }
    }
}

/// A message with its head line, as the product's tools print it.
pub fn message_text(message: &ServerMessage) -> String {
    let ServerMessage {
        number,
        class,
        state,
        server,
        procedure,
        line,
        text,
    } = message;
    let procedure = if procedure.is_empty() {
        String::new()
    } else {
        format!(", Procedure {procedure}")
    };
    format!(
        "Msg {number}, Level {class}, State {state}, Server {server}{procedure}, Line {line}\n{text}"
    )
}

fn login_text(messages: &[ServerMessage]) -> String {
    match messages {
        [] => "the server refused the login without a reason".into(),
        _ => messages
            .iter()
            .map(message_text)
            .collect::<Vec<_>>()
            .join("\n"),
    }
}
