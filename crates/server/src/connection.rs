//! One connection from login to end: requests in, replies out.
//!
//! | message | answer |
//! |---|---|
//! | batch, call, transaction request | tokens, last DONE |
//! | the same, then an attention | tokens as far as they came, last DONE; then DONE with the attention bit alone |
//! | attention with nothing running | DONE with the attention bit |
//! | message given up by its sender | DONE with the error bit |
//! | bulk load | DONE with the count |
//! | anything that makes no sense | error where possible, end of the connection, a line in the log |

use crate::bulk::{BulkEnd, BulkSource};
use crate::error::ConnectionError;
use crate::handshake::{self, LoggedIn};
use crate::late::LateReply;
use crate::listener::Shared;
use crate::reply::{Reply, ReplyContext, Tail};
use crate::service::{RequestEnd, ServiceSession};
use crate::watcher::Slot;
use crate::wire::{Incoming, OwnedPacket, Wire};
use daruma_tds::packet::{Message, PacketType, Reset};
use daruma_tds::request::{PARAMETERS_MAX, RpcRequest, SqlBatch, TransactionRequest};
use daruma_tds::token::{Done, DoneKind, command, done_status};
use daruma_tds::{TdsError, TdsVersion};
use daruma_tsql::error::SqlError;
use daruma_tsql::sink::Sink;
use std::any::Any;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Body of a connection's thread.
pub(crate) fn serve(socket: Arc<TcpStream>, client: SocketAddr, slot: &Slot, shared: &Shared) {
    let mut wire = Wire::new(socket);
    match handshake::establish(&mut wire, shared, client, slot) {
        Ok(logged_in) => run(&mut wire, logged_in, slot, shared),
        Err(error) => {
            if let Some((number, text)) = handshake::failure_text(&error, client) {
                let service = &shared.service;
                service.write_log_bounded("Logon", number, &[&text]);
            }
        }
    }
    wire.transport.close();
}

fn run(wire: &mut Wire, logged_in: LoggedIn, slot: &Slot, shared: &Shared) {
    let LoggedIn {
        mut session,
        version,
        info,
    } = logged_in;
    let spid = session.spid();
    let socket = wire.transport.clear_socket();
    let late = socket.map(|socket| LateReply::new(socket, &shared.service, spid));
    if late.is_some() {
        session.allow_late_commits();
    }
    wire.bound_by(shared.service.clone());
    session.watch_client(slot.hang_up());
    let context = ReplyContext {
        version,
        server_name: shared.service.server_name(),
        waits: shared.service.waits(),
    };
    let mut connection = Connection {
        wire,
        session,
        slot,
        shared,
        context: &context,
        late,
    };
    let ended = connection.run();
    connection.settle();
    if let Some(reason) = ended.err().and_then(|error| end_text(&error)) {
        let text = format!("{reason} [CLIENT: {}]", info.client.ip());
        shared.service.write_log(&format!("spid{spid}"), &text);
    }
    // Ending a session rolls back: code that may fail as any request may.
    let session = connection.session;
    if catch_unwind(AssertUnwindSafe(|| drop(session))).is_err() {
        shared.service.write_log(
            &format!("spid{spid}"),
            "The session did not end in good order.",
        );
    }
}

/// The error log's words for a session that its client did not end in good order. `None`: the client just went away.
fn end_text(error: &ConnectionError) -> Option<String> {
    match error {
        ConnectionError::NotReading => Some(format!("The session is ended: {error}.")),
        ConnectionError::Io(io) if !is_departure(io.kind()) => Some(format!(
            "Error: 4014, Severity: 20, State: 14.\nA fatal error occurred while reading the input stream from the network. The session will be terminated. {io}."
        )),
        error if error.is_protocol() => Some(format!(
            "Error: 4014, Severity: 20, State: 11.\nA fatal error occurred while reading the input stream from the network. The session will be terminated. {error}."
        )),
        _ => None,
    }
}

/// What a socket says when its client has gone.
fn is_departure(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
            | ErrorKind::TimedOut
            | ErrorKind::UnexpectedEof
    )
}

struct Connection<'a> {
    wire: &'a mut Wire,
    session: Box<dyn ServiceSession>,
    slot: &'a Slot,
    shared: &'a Shared,
    context: &'a ReplyContext<'a>,
    /// `None` where replies need this thread: under TLS.
    late: Option<Arc<LateReply>>,
}

/// Goes the connection on?
type Next = Result<bool, ConnectionError>;

/// A request that could be decoded.
enum Request {
    Batch(String),
    Rpc(RpcRequest),
    Transaction(TransactionRequest),
}

impl Connection<'_> {
    fn run(&mut self) -> Result<(), ConnectionError> {
        loop {
            let incoming = self.wire.next()?;
            self.settle();
            let goes_on = match incoming {
                Incoming::Message(message) => self.message(message)?,
                Incoming::Bulk(first, reset) => self.bulk(first, reset)?,
            };
            if self.shared.service.shutdown_requested().is_some() {
                self.shared.wake_for_shutdown();
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Until the last reply is out, nothing may be written to the client or done in the session.
    fn settle(&self) {
        if let Some(late) = &self.late {
            late.settle();
        }
    }

    /// Ends a request: sends its reply, now or when its commit is hard.
    fn send_reply(&mut self) -> Next {
        if let Some(late) = &self.late
            && let Some(commit) = self.session.take_late_commit()
        {
            late.send_after(commit, &mut self.wire.output);
            return Ok(true);
        }
        self.wire.finish_reply()?;
        Ok(true)
    }

    fn version(&self) -> TdsVersion {
        self.context.version
    }

    fn message(&mut self, message: Message) -> Next {
        if message.ignored {
            return self.answer(Done::new(DoneKind::Done, done_status::ERROR, command::NONE));
        }
        // The decoded body is as large again, and is there beside it.
        let bytes = message.body.len();
        if message.dropped || !self.shared.service.has_room(bytes, bytes) {
            return self.refuse_for_memory();
        }
        let request = match message.packet_type {
            PacketType::Attention => return self.answer(Done::attention()),
            PacketType::Batch => {
                SqlBatch::decode(&message.body, self.version()).map(|b| Request::Batch(b.text))
            }
            PacketType::Rpc => RpcRequest::decode(&message.body, self.version()).map(Request::Rpc),
            PacketType::TransactionManager => {
                TransactionRequest::decode(&message.body, self.version())
                    .map(|(_, request)| Request::Transaction(request))
            }
            other => {
                return Err(ConnectionError::UnexpectedMessage {
                    expected: "a request",
                    found: other as u8,
                });
            }
        };
        let reset = message.reset;
        match request {
            Ok(request) => self.request(request, reset),
            Err(error) => self.undecodable(error, message.packet_type),
        }
    }

    fn request(&mut self, request: Request, reset: Option<Reset>) -> Next {
        let running = self.shared.watcher.begin_request(self.slot);
        if self.wire.input.has_attention(&mut self.wire.transport)? {
            running.cancel();
        }
        let Wire {
            transport, output, ..
        } = &mut *self.wire;
        let mut reply = Reply::new(self.context, output, Some(transport));
        let session = &mut self.session;
        let ended = caught(|| {
            if !reset_session(session.as_mut(), reset, &mut reply) {
                return RequestEnd::Disconnect;
            }
            match request {
                Request::Batch(text) => session.batch(&text, &mut reply),
                Request::Rpc(request) => session.rpc(request, &mut reply),
                Request::Transaction(request) => session.transaction(request, &mut reply),
            }
        });
        if let Err(panic) = &ended {
            self.shared
                .service
                .write_log(&format!("spid{}", session.spid()), panic);
            let _ = reply.message(&assertion_failed());
        }
        let tail = reply.into_tail();
        drop(running);
        self.finish(tail, ended.unwrap_or(RequestEnd::Disconnect))
    }

    fn finish(&mut self, mut tail: Tail, ended: RequestEnd) -> Next {
        if let Some(text) = tail.unsendable.take() {
            self.shared
                .service
                .write_log(&format!("spid{}", self.session.spid()), &text);
        }
        if let Some(failure) = tail.failure.take() {
            return Err(failure);
        }
        let version = self.version();
        match ended {
            RequestEnd::Completed => tail.finish(version, self.wire.output.tokens()),
            RequestEnd::Disconnect => {
                tail.finish(version, self.wire.output.tokens());
                self.wire.finish_reply()?;
                return Ok(false);
            }
            RequestEnd::Cancelled => {
                let message = self.wire.next_message("an attention")?;
                if message.packet_type != PacketType::Attention {
                    let found = message.packet_type as u8;
                    return Err(ConnectionError::UnexpectedMessage {
                        expected: "an attention",
                        found,
                    });
                }
                return self.finish_cancelled(tail);
            }
        }
        self.send_reply()
    }

    /// The reply ends as it is, and the attention is answered by a message of its own: clients read two, whether the
    /// request was stopped or had just come to its end.
    fn finish_cancelled(&mut self, tail: Tail) -> Next {
        if let Some(commit) = self.session.take_late_commit()
            && let Err(error) = commit.wait()
        {
            let text = format!("The session is ended: {}", error.message);
            let source = format!("spid{}", self.session.spid());
            self.shared.service.write_log(&source, &text);
            return Ok(false);
        }
        tail.finish(self.version(), self.wire.output.tokens());
        self.wire.finish_reply()?;
        self.answer(Done::attention())
    }

    fn bulk(&mut self, first: OwnedPacket, reset: Option<Reset>) -> Next {
        let running = self.shared.watcher.begin_request(self.slot);
        running.reads_socket();
        let Wire {
            transport,
            input,
            output,
        } = &mut *self.wire;
        let mut source = BulkSource::new(self.context.version, first, input, transport);
        let mut reply = Reply::new(self.context, output, None);
        let session = &mut self.session;
        let ended = caught(
            || match reset_session(session.as_mut(), reset, &mut reply) {
                true => session.bulk(&mut source, &mut reply),
                false => RequestEnd::Disconnect,
            },
        );
        if let Err(panic) = &ended {
            self.shared
                .service
                .write_log(&format!("spid{}", session.spid()), panic);
            let _ = reply.message(&assertion_failed());
        }
        let tail = reply.into_tail();
        drop(running);
        let end = source.drain()?;
        self.finish_bulk(tail, ended.unwrap_or(RequestEnd::Disconnect), end)
    }

    fn finish_bulk(&mut self, tail: Tail, ended: RequestEnd, end: BulkEnd) -> Next {
        let version = self.version();
        match end {
            BulkEnd::Attention => return self.finish_cancelled(tail),
            BulkEnd::GivenUp => {
                let refused = Done::new(DoneKind::Done, done_status::ERROR, command::NONE);
                refused.encode(version, self.wire.output.tokens());
            }
            BulkEnd::Complete => return self.finish(tail, ended),
        }
        let goes_on = self.send_reply()?;
        Ok(goes_on && ended != RequestEnd::Disconnect)
    }

    fn answer(&mut self, done: Done) -> Next {
        done.encode(self.version(), self.wire.output.tokens());
        self.wire.finish_reply()?;
        Ok(true)
    }

    /// 701: the request was read, but not kept.
    fn refuse_for_memory(&mut self) -> Next {
        let told = SqlError::new(
            701,
            17,
            123,
            "There is insufficient system memory in resource pool 'default' to run this query.",
        );
        let mut reply = Reply::new(self.context, &mut self.wire.output, None);
        let _ = reply.message(&told);
        let tail = reply.into_tail();
        self.finish(tail, RequestEnd::Completed)
    }

    /// The client hears what was wrong; after anything but too many parameters, or a value that its type does not have, the
    /// stream cannot be trusted.
    fn undecodable(&mut self, error: TdsError, packet_type: PacketType) -> Next {
        let is_too_many = matches!(
            error,
            TdsError::TooLong {
                limit: PARAMETERS_MAX,
                ..
            }
        );
        let is_no_value = matches!(error, TdsError::OutOfRange { .. });
        let is_harmless = is_too_many || is_no_value && packet_type == PacketType::Rpc;
        let told = match (packet_type, &error) {
            (PacketType::Rpc, TdsError::OutOfRange { expected }) => SqlError::new(
                8023,
                16,
                1,
                format!(
                    "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. The supplied value is not a valid instance of data type {expected}. Check the source data for invalid values. An example of an invalid value is data of numeric type with scale greater than precision."
                ),
            ),
            _ if is_too_many => SqlError::new(
                8003,
                16,
                1,
                format!(
                    "The incoming request has too many parameters. The server supports a maximum of {PARAMETERS_MAX} parameters. Reduce the number of parameters and resend the request."
                ),
            ),
            (PacketType::Rpc, _) => SqlError::new(
                8009,
                16,
                1,
                format!(
                    "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. {error}."
                ),
            ),
            _ => SqlError::new(
                4002,
                16,
                1,
                format!(
                    "The incoming tabular data stream (TDS) protocol stream is incorrect. {error}."
                ),
            ),
        };
        let mut reply = Reply::new(self.context, &mut self.wire.output, None);
        let _ = reply.message(&told);
        let tail = reply.into_tail();
        tail.finish(self.context.version, self.wire.output.tokens());
        self.wire.finish_reply()?;
        if is_harmless {
            Ok(true)
        } else {
            Err(error.into())
        }
    }
}

/// True when the request may go on.
fn reset_session(
    session: &mut dyn ServiceSession,
    reset: Option<Reset>,
    reply: &mut Reply<'_>,
) -> bool {
    let Some(reset) = reset else { return true };
    match session.reset(reset == Reset::KeepTransaction, reply) {
        Ok(()) => true,
        Err(error) => {
            let _ = reply.message(&error);
            false
        }
    }
}

/// Runs a request; a panic becomes a line for the error log.
fn caught(work: impl FnOnce() -> RequestEnd) -> Result<RequestEnd, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(panic.as_ref()))
}

/// A panic in the words of the error log.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "Error: 3624, Severity: 20, State: 1.\nA system assertion check has failed: {}",
        text.unwrap_or_default()
    )
}

fn assertion_failed() -> SqlError {
    SqlError::new(
        3624,
        20,
        1,
        "A system assertion check has failed. Check the SQL Server error log for details.",
    )
}
