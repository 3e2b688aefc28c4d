//! Errors of the edge: while the server starts, and on one connection.

use daruma_tds::TdsError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A server that cannot start.
#[derive(Debug, Error)]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    ReadFile { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("{} holds no usable {what}", path.display())]
    BadPem { path: PathBuf, what: &'static str },
    #[error("the certificate and its key cannot be used: {0}")]
    Certificate(#[from] rustls::Error),
    #[error("a certificate cannot be made: {0}")]
    MakeCertificate(#[from] rcgen::Error),
    #[error("a certificate and its key must be given together")]
    HalfCertificate,
    #[error("{} is in use by another server", path.display())]
    InUse { path: PathBuf },
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
    #[error("the cluster that this server is a node of: {0}")]
    Cluster(#[from] daruma_cluster::ClusterError),
    #[error("{0}")]
    Engine(#[from] daruma_tsql::error::SqlError),
}

/// Why a connection ends before its time.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    /// The client closed its end between two messages: nothing to report.
    #[error("closed by the client")]
    Closed,
    /// The stream ended where more of a packet or message had to come.
    #[error("the stream ended in the middle of a message")]
    Cut,
    #[error("the client took no byte of its result for too long")]
    NotReading,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] TdsError),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("a message of type {found:#04x} where {expected} was expected")]
    UnexpectedMessage { expected: &'static str, found: u8 },
    #[error("the login was not complete in time")]
    LoginTimeout,
    #[error("the client library does not support the encryption that this server requires")]
    EncryptionRequired,
    #[error("the client requires encryption and this server offers none")]
    EncryptionUnavailable,
    /// The refusal has been sent and logged.
    #[error("the login was refused")]
    Refused,
}

impl ConnectionError {
    /// Does it tell of bytes that make no sense, rather than of a network or a client that went away?
    pub(crate) const fn is_protocol(&self) -> bool {
        matches!(
            self,
            ConnectionError::Protocol(_)
                | ConnectionError::UnexpectedMessage { .. }
                | ConnectionError::Cut
        )
    }
}
