//! A blocking TDS client: connect, log in, send batches, read what comes back, cancel, load in bulk.
//!
//! Theory: one request at a time. [`Client::batch`] sends it and gives a [`Reply`], from which [`Event`]s are pulled as
//! they arrive. A reply that is dropped half read is cancelled before the next request goes out.
//!
//! Cancelling: a flag that a signal handler may set, and a deadline, are looked at ten times a second while a reply is
//! awaited. Either sends an attention; the reply then ends with the server's acknowledgement and an error.
//!
//! Invariant: after an error for which [`ClientError::is_fatal`] is false the connection can go on.
//!
//! Read next: `reply`, `transport`, `login`.

mod bulk;
pub mod error;
mod login;
mod reply;
mod tls;
mod transport;

#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(test)]
mod tests;

pub use bulk::BulkLoad;
pub use error::{ClientError, Result, message_text};
pub use login::{EncryptionWish, Options};
pub use reply::{Event, Reply};
pub use tls::Trust;

use daruma_tds::TdsVersion;
use daruma_tds::packet::{MessageWriter, PacketType};
use daruma_tds::request::{RpcRequest, SqlBatch};
use daruma_tds::token::{EnvChange, ServerMessage};
use daruma_value::Value;
use reply::ReplyState;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use transport::Transport;

/// A connection, logged in. One request at a time: each call waits for the whole reply, or gives its rows one by one.
pub struct Client {
    transport: Transport,
    writer: MessageWriter,
    version: TdsVersion,
    /// Descriptor of the open transaction, 0 without one.
    transaction: u64,
    database: String,
    server_name: String,
    program: String,
    server_version: String,
    login_messages: Vec<ServerMessage>,
    packet_bytes: usize,
    reply: Option<ReplyState>,
    cancel: Arc<AtomicBool>,
    query_timeout: Option<Duration>,
    out: Vec<u8>,
}

impl Client {
    /// Connects and logs in.
    pub fn connect(options: &Options) -> Result<Client> {
        login::connect(options)
    }

    /// Sends `text` as one batch.
    pub fn batch(&mut self, text: &str) -> Result<Reply<'_>> {
        self.finish_last_reply()?;
        let mut body = Vec::new();
        SqlBatch::new(text, self.transaction).encode(self.version, &mut body);
        self.send(PacketType::Batch, &body)?;
        self.expect_reply();
        Ok(Reply::new(self))
    }

    /// Sends calls of procedures.
    pub fn call(&mut self, request: &RpcRequest) -> Result<Reply<'_>> {
        self.finish_last_reply()?;
        self.writer.set_packet_type(PacketType::Rpc);
        request.encode(self.version, self.writer.buffer())?;
        self.flush()?;
        self.expect_reply();
        Ok(Reply::new(self))
    }

    /// The reply that has not been read to its end, for whoever waits for several clients at once.
    pub fn reply(&mut self) -> Option<Reply<'_>> {
        self.reply.is_some().then(|| Reply::new(self))
    }

    /// Runs `text` to its end. The first error is the result; rows are dropped.
    pub fn execute(&mut self, text: &str) -> Result<()> {
        self.query(text).map(drop)
    }

    /// The rows of all results of `text`; the first error is the result.
    pub fn query(&mut self, text: &str) -> Result<Vec<Vec<Value>>> {
        let (mut rows, mut failure) = (Vec::new(), None);
        let mut reply = self.batch(text)?;
        while let Some(event) = reply.next_event()? {
            match event {
                Event::Row(row) => rows.push(row),
                Event::Message(message) if message.is_error() => {
                    failure.get_or_insert(ClientError::Server {
                        message: Box::new(message),
                    });
                }
                _ => {}
            }
        }
        failure.map_or(Ok(rows), Err)
    }

    /// Rows for the `INSERT BULK` statement that the server has just accepted.
    pub fn bulk(&mut self, columns: &[daruma_tds::token::Column]) -> Result<BulkLoad<'_>> {
        self.finish_last_reply()?;
        Ok(BulkLoad::start(self, columns))
    }

    /// When set, the flag cancels what runs; whoever waits for the reply clears it.
    pub fn set_cancel_flag(&mut self, flag: Arc<AtomicBool>) {
        self.cancel = flag;
    }

    /// Longest wait for a request, after which it is cancelled; `None` waits for ever.
    pub fn set_query_timeout(&mut self, timeout: Option<Duration>) {
        self.query_timeout = timeout;
    }

    /// The current database, as the server last named it.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Has the server told of a transaction that is open?
    pub const fn is_in_transaction(&self) -> bool {
        self.transaction != 0
    }

    /// The server as it was addressed.
    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// What the server calls itself, and its version as `16.0.1000`.
    pub fn program(&self) -> (&str, &str) {
        (&self.program, &self.server_version)
    }

    /// What the server said at login.
    pub fn login_messages(&self) -> &[ServerMessage] {
        &self.login_messages
    }

    /// Size of packets as agreed at login.
    pub const fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// The protocol version as agreed at login.
    pub const fn version(&self) -> TdsVersion {
        self.version
    }

    fn send(&mut self, packet_type: PacketType, body: &[u8]) -> Result<()> {
        self.writer.set_packet_type(packet_type);
        self.writer.buffer().extend_from_slice(body);
        self.flush()
    }

    /// Sends the message that was written.
    fn flush(&mut self) -> Result<()> {
        self.out.clear();
        self.writer.finish(&mut self.out);
        self.transport.write(&self.out)
    }

    fn expect_reply(&mut self) {
        self.reply = Some(ReplyState::new(self.version, self.query_timeout));
    }

    /// Cancels and reads away a reply that nobody read to its end.
    fn finish_last_reply(&mut self) -> Result<()> {
        if self.reply.is_none() {
            return Ok(());
        }
        let mut reply = Reply::new(self);
        reply.cancel()?;
        match reply.drain() {
            Err(ClientError::Cancelled) => Ok(()),
            other => other,
        }
    }

    fn note(&mut self, change: &EnvChange) {
        match change {
            EnvChange::BeginTransaction { descriptor } => self.transaction = *descriptor,
            EnvChange::CommitTransaction { .. }
            | EnvChange::RollbackTransaction { .. }
            | EnvChange::TransactionEnded { .. } => self.transaction = 0,
            EnvChange::Database { new, .. } => self.database.clone_from(new),
            EnvChange::PacketSize { new, .. } => {
                self.packet_bytes =
                    usize::try_from(*new).unwrap_or(daruma_tds::packet::PACKET_BYTES_DEFAULT);
                self.writer.set_packet_bytes(self.packet_bytes);
            }
            _ => {}
        }
    }
}

/// The socket, to wait for a reply together with those of other clients. Of no use under TLS, where bytes may wait inside.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}
