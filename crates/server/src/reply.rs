//! The sink of a request: results become tokens.
//!
//! Theory: every DONE but the last of a reply says that more follows, and whether one is the last is known only when
//! the next token or the end comes. So the newest DONE is held back until then.
//!
//! Invariant: once a write failed, nothing more is written and every call fails, which ends the session.

use crate::error::ConnectionError;
use crate::output::Output;
use crate::transport::Transport;
use daruma_base::{WaitKind, WaitRegistry};
use daruma_tds::token::{
    self, Column, RowEncoder, ServerMessage, column_flag, done_status, put_column_metadata,
};
use daruma_tds::types::TypeInfo;
use daruma_tds::{TdsVersion, WireCollation};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::sink::{Done, DoneKind, EnvChange, OutputColumn, Sink};
use daruma_value::Value;
use std::sync::Arc;
use std::time::Instant;

/// Severity of status information.
const STATUS_CLASS: u8 = 10;

/// State that all replies of a connection share.
pub(crate) struct ReplyContext<'a> {
    pub version: TdsVersion,
    pub server_name: &'a str,
    pub waits: Option<&'a WaitRegistry>,
}

pub(crate) struct Reply<'a> {
    context: &'a ReplyContext<'a>,
    output: &'a mut Output,
    /// Where full packets go before the end. Without it all is kept: the short reply to a bulk load, which reads meanwhile,
    /// and what must wait for a commit.
    transport: Option<&'a mut Transport>,
    tail: Tail,
    rows: Option<Arc<RowEncoder>>,
}

/// Results that this connection has begun lately, ready to be begun again: clients run the same statements over and over.
#[derive(Default)]
pub(crate) struct ResultShapes {
    known: Vec<ResultShape>,
    oldest: usize,
}

struct ResultShape {
    columns: Vec<OutputColumn>,
    metadata: Vec<u8>,
    rows: Arc<RowEncoder>,
}

const SHAPES_MAX: usize = 8;
/// Wider results are made anew each time: their rows cost more than their columns.
const SHAPE_COLUMNS_MAX: usize = 64;

impl ResultShapes {
    /// Appends the metadata of `columns`; gives what encodes their rows.
    fn begin(
        &mut self,
        columns: &[OutputColumn],
        version: TdsVersion,
        out: &mut Vec<u8>,
    ) -> Arc<RowEncoder> {
        if let Some(shape) = self.known.iter().find(|s| s.columns == columns) {
            out.extend_from_slice(&shape.metadata);
            return shape.rows.clone();
        }
        let wire: Vec<Column> = columns.iter().map(|c| wire_column(c, version)).collect();
        let start = out.len();
        put_column_metadata(&wire, version, out);
        let rows = Arc::new(RowEncoder::new(&wire, version));
        if columns.len() <= SHAPE_COLUMNS_MAX {
            self.keep(ResultShape {
                columns: columns.to_vec(),
                metadata: out.get(start..).unwrap_or_default().to_vec(),
                rows: rows.clone(),
            });
        }
        rows
    }

    fn keep(&mut self, shape: ResultShape) {
        if self.known.len() < SHAPES_MAX {
            self.known.push(shape);
        } else if let Some(place) = self.known.get_mut(self.oldest) {
            *place = shape;
            self.oldest = (self.oldest + 1) % SHAPES_MAX;
        }
    }
}

/// Tokens left to send when a request has ended.
#[derive(Default)]
pub(crate) struct Tail {
    held: Option<token::Done>,
    has_error: bool,
    /// The client is gone.
    pub failure: Option<ConnectionError>,
    /// A value that the wire cannot carry: a bug of ours, for the error log.
    pub unsendable: Option<String>,
}

impl<'a> Reply<'a> {
    fn type_info(&self, column: &OutputColumn) -> TypeInfo {
        TypeInfo::for_column(
            column.data_type,
            true,
            WireCollation::from(column.collation),
            self.context.version,
        )
    }

    fn send_value(&mut self, token: token::ReturnValue) -> Result<()> {
        let version = self.context.version;
        let encoded = token.encode(version, self.tokens()?);
        encoded.map_err(|error| self.unsendable(&error))?;
        self.send_if_full()
    }

    pub(crate) fn new(
        context: &'a ReplyContext<'a>,
        output: &'a mut Output,
        transport: Option<&'a mut Transport>,
    ) -> Reply<'a> {
        Reply {
            context,
            output,
            transport,
            tail: Tail::default(),
            rows: None,
        }
    }

    pub(crate) fn into_tail(self) -> Tail {
        self.tail
    }

    /// The buffer for the next token, after the DONE that is now known not to be the last.
    fn tokens(&mut self) -> Result<&mut Vec<u8>> {
        if self.tail.failure.is_some() {
            return Err(client_gone());
        }
        let tokens = self.output.tokens();
        self.tail
            .put_held(done_status::MORE, self.context.version, tokens);
        Ok(tokens)
    }

    fn send_if_full(&mut self) -> Result<()> {
        match self.output.is_full() {
            true => self.send(Output::send_full),
            false => Ok(()),
        }
    }

    /// Waits here are for a client that does not read fast enough.
    fn send(
        &mut self,
        send: fn(&mut Output, &mut Transport) -> std::result::Result<(), ConnectionError>,
    ) -> Result<()> {
        let Some(transport) = self.transport.as_deref_mut() else {
            return Ok(());
        };
        let begun = Instant::now();
        let sent = send(self.output, transport);
        if let Some(waits) = self.context.waits {
            waits.record(WaitKind::AsyncNetworkIo, begun.elapsed());
        }
        sent.map_err(|error| {
            self.tail.failure = Some(error);
            client_gone()
        })
    }

    /// A value that does not fit its column is an error of ours: the client learns that the result broke off.
    fn unsendable(&mut self, what: &dyn std::fmt::Display) -> SqlError {
        let text = format!("The server cannot send a value of this result: {what}.");
        let error = SqlError::new(682, 22, 1, text.clone());
        self.tail.unsendable.get_or_insert(text);
        let _ = self.message(&error);
        error
    }
}

impl Sink for Reply<'_> {
    fn columns(&mut self, columns: &[OutputColumn]) -> Result<()> {
        self.tokens()?;
        let (tokens, shapes) = self.output.tokens_and_shapes();
        self.rows = Some(shapes.begin(columns, self.context.version, tokens));
        Ok(())
    }

    fn hidden_columns(&mut self, columns: usize, hidden: usize) -> Result<()> {
        // The token counts columns in a byte; clients find the last one by its place.
        let Ok(count) = u8::try_from(columns) else {
            return Ok(());
        };
        let info = |column: u8| token::ColInfo {
            column,
            table: 0,
            status: match usize::from(column) + hidden > columns {
                true => token::col_info_status::EXPRESSION | token::col_info_status::HIDDEN,
                false => token::col_info_status::EXPRESSION,
            },
            base_name: None,
        };
        let infos: Vec<token::ColInfo> = (1..=count).map(info).collect();
        token::put_col_info(&infos, self.tokens()?);
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.tokens()?;
        let encoded = match &self.rows {
            Some(rows) => rows
                .encode(values, self.output.tokens())
                .map_err(|e| e.to_string()),
            None => Err("a row before its columns".to_string()),
        };
        match encoded {
            Ok(()) => self.send_if_full(),
            Err(error) => Err(self.unsendable(&error)),
        }
    }

    fn done(&mut self, done: Done) -> Result<()> {
        self.tokens()?;
        let mut status = done_status::FINAL;
        if done.error {
            status |= done_status::ERROR;
        }
        if done.in_transaction {
            status |= done_status::IN_TRANSACTION;
        }
        let kind = match done.kind {
            DoneKind::Statement => token::DoneKind::Done,
            DoneKind::InProcedure => token::DoneKind::InProc,
            DoneKind::Procedure => token::DoneKind::Proc,
        };
        self.tail.held = Some(match done.row_count {
            Some(count) => token::Done::counted(kind, status, done.command, count),
            None => token::Done::new(kind, status, done.command),
        });
        self.rows = None;
        self.send_if_full()
    }

    fn message(&mut self, message: &SqlError) -> Result<()> {
        let message = server_message(message, self.context.server_name);
        let version = self.context.version;
        message.encode(version, self.tokens()?);
        self.tail.has_error |= message.is_error();
        self.send_if_full()
    }

    fn env_change(&mut self, change: EnvChange) -> Result<()> {
        let version = self.context.version;
        wire_env_change(change).encode(version, self.tokens()?);
        Ok(())
    }

    fn return_status(&mut self, status: i32) -> Result<()> {
        token::put_return_status(status, self.tokens()?);
        Ok(())
    }

    fn return_value(
        &mut self,
        ordinal: u16,
        name: &str,
        column: &OutputColumn,
        value: &Value,
    ) -> Result<()> {
        let type_info = self.type_info(column);
        self.send_value(token::ReturnValue::output(
            ordinal,
            name,
            type_info,
            value.clone(),
        ))
    }

    fn function_value(&mut self, column: &OutputColumn, value: &Value) -> Result<()> {
        let type_info = self.type_info(column);
        self.send_value(token::ReturnValue::of_function(type_info, value.clone()))
    }

    fn flush(&mut self) -> Result<()> {
        self.tokens()?;
        self.send(Output::send_now)
    }

    fn hold_back(&mut self) {
        self.transport = None;
    }
}

impl Tail {
    fn put_held(&mut self, more: u16, version: TdsVersion, out: &mut Vec<u8>) {
        if let Some(mut done) = self.held.take() {
            done.status |= more;
            done.encode(version, out);
        }
    }

    /// The last token of a request.
    pub(crate) fn finish(mut self, version: TdsVersion, out: &mut Vec<u8>) {
        if self.held.is_none() {
            let status = if self.has_error {
                done_status::ERROR
            } else {
                done_status::FINAL
            };
            self.held = Some(token::Done::new(
                token::DoneKind::Done,
                status,
                token::command::NONE,
            ));
        }
        self.put_held(done_status::FINAL, version, out);
    }
}

fn client_gone() -> SqlError {
    SqlError::new(
        4014,
        20,
        11,
        "A fatal error occurred while writing to the network.",
    )
}

pub(crate) fn server_message(message: &SqlError, server_name: &str) -> ServerMessage {
    ServerMessage {
        number: message.number,
        state: message.state,
        // The product's own conversion, which old client libraries rely on: 10 is no severity of an error.
        class: if message.class == STATUS_CLASS {
            0
        } else {
            message.class
        },
        text: message.message.clone(),
        server: server_name.to_string(),
        procedure: message.procedure.clone().unwrap_or_default(),
        line: u32::try_from(message.line).unwrap_or(0),
    }
}

fn wire_column(column: &OutputColumn, version: TdsVersion) -> Column {
    let collation = WireCollation::from(column.collation);
    let mut wire = Column::new(
        column.name.clone(),
        column.data_type,
        column.nullable,
        collation,
        version,
    );
    if column.identity {
        wire.flags |= column_flag::IDENTITY;
    }
    if column.computed {
        wire.flags &= !column_flag::UPDATABLE_UNKNOWN;
        wire.flags |= column_flag::COMPUTED;
    }
    wire
}

fn wire_env_change(change: EnvChange) -> token::EnvChange {
    use token::EnvChange as Wire;
    match change {
        EnvChange::Database { new, old } => Wire::Database { new, old },
        EnvChange::Language { new, old } => Wire::Language { new, old },
        EnvChange::BeginTransaction(descriptor) => Wire::BeginTransaction { descriptor },
        EnvChange::CommitTransaction(descriptor) => Wire::CommitTransaction { descriptor },
        EnvChange::RollbackTransaction(descriptor) => Wire::RollbackTransaction { descriptor },
        EnvChange::ResetDone => Wire::ResetDone,
    }
}
