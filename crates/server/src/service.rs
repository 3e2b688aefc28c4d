//! Interface of the server behind the edge: logins, sessions and requests, without sockets.
//!
//! The edge knows this interface alone, so that tests of the dialogue bring a scripted service of their own.

use daruma_base::{CancelFlag, WaitRegistry};
use daruma_tds::login::Login7;
use daruma_tds::request::{RpcRequest, TransactionRequest};
use daruma_tds::token::Routing;
use daruma_tsql::error::SqlError;
pub use daruma_tsql::session::{BulkRows, LateCommit};
use daruma_tsql::sink::Sink;
use std::net::SocketAddr;

/// How a connection came in.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    pub client: SocketAddr,
    /// All traffic is encrypted, not the login alone.
    pub encrypted: bool,
    pub packet_bytes: usize,
}

/// A login that was turned down.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Messages to the client, in this order.
    pub messages: Vec<SqlError>,
    /// State of the last message in the error log; clients always get 1.
    pub state: u8,
    /// Reason for the error log, which the client must not learn.
    pub reason: String,
}

/// How the server was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    Orderly,
    /// As after a power failure, but at once.
    NoWait,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    Completed,
    /// An attention stopped it.
    Cancelled,
    /// The connection must be closed: fatal error, KILL, lost client.
    Disconnect,
}

/// Server as the edge needs it: logins, limits, the error log.
pub trait Service: Send + Sync {
    /// @@SERVERNAME, as messages to clients carry it.
    fn server_name(&self) -> &str;
    /// Writes to the error log. `source` is `Server`, `Logon` or `spid51`.
    fn write_log(&self, source: &str, text: &str);
    /// The same for an error that anybody can provoke without a login: by its number it is written now and then only.
    fn write_log_bounded(&self, source: &str, error: i32, texts: &[&str]) {
        let _any_number = error;
        texts.iter().for_each(|text| self.write_log(source, text));
    }
    /// Checks name and password and opens a session. May take its time; holds no lock while it hashes. `is_awaited` tells, where it waits
    /// for other sessions, whether the client still waits for it.
    fn log_in(
        &self,
        login: &Login7,
        connection: &ConnectionInfo,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Box<dyn ServiceSession>, Refusal>;
    /// How many connections may be open at a time; the next one is turned away.
    fn connections_max(&self) -> usize;
    /// Where waits for clients are counted, if they are.
    fn waits(&self) -> Option<&WaitRegistry>;
    /// How a session has asked the server to stop, if one has.
    fn shutdown_requested(&self) -> Option<Shutdown>;
    /// May a connection that has received `held` bytes of a request keep `wanted` more?
    fn has_room(&self, _held: usize, _wanted: usize) -> bool {
        true
    }
}

/// Session of one connection; lives and dies on its thread.
pub trait ServiceSession {
    /// @@SPID, which packets of the reply carry.
    fn spid(&self) -> i32;
    /// Set by the watcher when an attention comes or the client is gone.
    fn cancel_flag(&self) -> CancelFlag;
    /// The database the session begins in, for ENVCHANGE at login.
    fn database(&self) -> String;
    /// The language the session begins with, for ENVCHANGE at login.
    fn language(&self) -> String;
    /// Runs what stands between a login and its first request: the LOGON triggers. After a refusal the session must end.
    fn enter(&mut self) -> Result<(), Refusal> {
        Ok(())
    }
    /// Where the client should log in instead.
    fn route(&self) -> Option<Routing> {
        None
    }
    /// Runs SQL text; results, messages and errors go to `sink`.
    fn batch(&mut self, text: &str, sink: &mut dyn Sink) -> RequestEnd;
    /// Runs the calls of one request in order.
    fn rpc(&mut self, request: RpcRequest, sink: &mut dyn Sink) -> RequestEnd;
    /// Begins, ends or saves a transaction without a statement.
    fn transaction(&mut self, request: TransactionRequest, sink: &mut dyn Sink) -> RequestEnd;
    /// Says how to find out whether the client has closed the connection.
    fn watch_client(&self, _is_gone: Box<dyn Fn() -> bool + Send + Sync>) {}
    /// Loads the rows that follow an `INSERT BULK` batch. After an error the edge skips the rest of them.
    fn bulk(&mut self, rows: &mut dyn BulkRows, sink: &mut dyn Sink) -> RequestEnd;
    /// From now on a request may end before its last commit is hard; then [`ServiceSession::take_late_commit`] gives it, and
    /// the reply must wait for it.
    fn allow_late_commits(&mut self) {}
    /// The commit that the last request left late, once.
    fn take_late_commit(&mut self) -> Option<LateCommit> {
        None
    }
    /// Back to the state after login.
    fn reset(&mut self, keep_transaction: bool, sink: &mut dyn Sink) -> Result<(), SqlError>;
}
