//! The network edge: sockets, TLS, login and the TDS dialogue around a SQL engine.
//!
//! Theory: one OS thread and one blocking socket for each connection, since handing a request to another thread and
//! back costs more than a point query. A statement that runs cannot look at its socket, so a single watcher thread
//! looks at the sockets of all statements that have run for a while: bytes there are an attention, an end of file is a
//! client that left. What runs behind the edge is a [`Service`]; [`engine::EngineService`] is the real one.
//!
//! Life of a connection
//! | step | room |
//! |---|---|
//! | accept, count, thread | [`listener`] |
//! | first byte, PRELOGIN, TLS, LOGIN7, login response | `handshake`, `transport`, `tls` |
//! | requests, reset, attention, bulk load | `connection` |
//! | results as tokens | `reply` |
//! | replies that wait for a commit | `late` |
//! | cancel, KILL, lost clients | `watcher` |
//! | credentials, sessions, calls | [`engine`] |
//! | start and stop of it all | [`program`] |
//! | password of `sa` | `administrator` |
//! | availability groups | [`hadr`] |
//! | freed memory back to the system | `freed` |
//!
//! Invariants
//! 1. Bytes from a client end at most that client's connection, with the reason in the error log.
//! 2. A panic while a request runs ends that connection; nothing else notices.
//! 3. No reply is left without its last packet while the connection stands.
//! 4. A password never reaches a log, an error text or a debug print.
//!
//! Read next: `connection`, `handshake`, `service`.

mod administrator;
mod bulk;
mod cloud;
mod cluster;
mod connection;
pub mod engine;
pub mod error;
mod freed;
pub mod hadr;
mod handshake;
mod late;
pub mod listener;
mod output;
pub mod password;
pub mod program;
mod reply;
pub mod service;
pub mod tls;
mod transport;
mod watcher;
mod wire;

/// Which release's defaults the compression of log to replicas follows.
pub use daruma_group::compress::Defaults as LogCompression;
pub use error::ServerError;
pub use listener::{Limits, Listener, Waker};
pub use service::{
    BulkRows, ConnectionInfo, Refusal, RequestEnd, Service, ServiceSession, Shutdown,
};
pub use tls::{EncryptionPolicy, TlsSettings};
