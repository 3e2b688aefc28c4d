//! The client's reading of a reply: a stream of tokens, decoded as it arrives.

use super::column::{ColumnLayout, decode_columns};
use super::done::decode_done;
use super::row::{decode_nbc_row, decode_row};
use super::table::{decode_col_info, decode_order, decode_table_names};
use super::{
    ColInfo, Column, Done, DoneKind, EnvChange, LoginAck, ReturnValue, ServerMessage,
    token_byte as b,
};
use crate::login::Feature;
use crate::wire::{Reader, Window};
use crate::{Result, TdsError, TdsVersion};
use daruma_value::Value;
use std::sync::Arc;

/// A row may hold several values of 2 GiB, but no sane one does.
const TOKEN_BYTES_MAX: usize = (2 << 30) + (64 << 20);

/// What a server's reply consists of.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// The columns of the rows that follow; empty when the server was told to leave them out.
    Columns(Arc<[Column]>),
    Row(Vec<Value>),
    Done(Done),
    /// Class above 10.
    Error(ServerMessage),
    /// Class 10 and below.
    Info(ServerMessage),
    EnvChange(EnvChange),
    LoginAck(LoginAck),
    FeatureAck(Vec<Feature>),
    ReturnStatus(i32),
    ReturnValue(ReturnValue),
    Order(Vec<u16>),
    TableNames(Vec<Vec<String>>),
    ColInfo(Vec<ColInfo>),
    SessionState(Vec<u8>),
    Sspi(Vec<u8>),
    FedAuthInfo(Vec<u8>),
}

/// Turns the payloads of reply packets into tokens.
#[derive(Debug)]
pub struct TokenDecoder {
    version: TdsVersion,
    columns: Arc<[Column]>,
    window: Window,
}

impl TokenDecoder {
    /// A decoder at the beginning of a reply.
    pub fn new(version: TdsVersion) -> TokenDecoder {
        TokenDecoder {
            version,
            columns: Arc::from([]),
            window: Window::default(),
        }
    }

    /// The version LOGINACK named decides the layout of what follows; `next_token` sees to that itself.
    pub const fn version(&self) -> TdsVersion {
        self.version
    }

    /// Adds the payload of a packet; `last` when the packet ends the message.
    pub fn feed(&mut self, payload: &[u8], last: bool) {
        self.window.feed(payload, last);
    }

    /// The whole message has been fed and read.
    pub fn is_finished(&self) -> bool {
        self.window.is_finished()
    }

    /// The next token, if it has arrived. Call until `None` after each `feed`.
    pub fn next_token(&mut self) -> Result<Option<Token>> {
        let (version, columns) = (self.version, &self.columns);
        let token = self.window.attempt(TOKEN_BYTES_MAX, |reader| {
            decode_token(reader, version, columns)
        })?;
        match &token {
            Some(Token::Columns(columns)) => self.columns = Arc::clone(columns),
            Some(Token::LoginAck(ack)) => self.version = ack.version,
            _ => {}
        }
        Ok(token)
    }
}

fn decode_token(
    reader: &mut Reader<'_>,
    version: TdsVersion,
    columns: &Arc<[Column]>,
) -> Result<Token> {
    Ok(match reader.u8("token")? {
        b::COL_METADATA => {
            let columns = decode_columns(reader, ColumnLayout::Result(version))?;
            Token::Columns(columns.unwrap_or_default().into())
        }
        b::ROW => Token::Row(decode_row(columns, reader)?),
        b::NBC_ROW => Token::Row(decode_nbc_row(columns, reader)?),
        b::DONE => Token::Done(decode_done(DoneKind::Done, version, reader)?),
        b::DONE_PROC => Token::Done(decode_done(DoneKind::Proc, version, reader)?),
        b::DONE_IN_PROC => Token::Done(decode_done(DoneKind::InProc, version, reader)?),
        b::ERROR => Token::Error(ServerMessage::decode(version, reader)?),
        b::INFO => Token::Info(ServerMessage::decode(version, reader)?),
        b::ENV_CHANGE => Token::EnvChange(EnvChange::decode(reader)?),
        b::LOGIN_ACK => Token::LoginAck(LoginAck::decode(reader)?),
        b::FEATURE_EXT_ACK => Token::FeatureAck(Feature::decode_list(reader)?),
        b::RETURN_STATUS => Token::ReturnStatus(reader.i32("RETURNSTATUS")?),
        b::RETURN_VALUE => Token::ReturnValue(ReturnValue::decode(version, reader)?),
        b::ORDER => Token::Order(decode_order(reader)?),
        b::TAB_NAME => Token::TableNames(decode_table_names(version, reader)?),
        b::COL_INFO => Token::ColInfo(decode_col_info(reader)?),
        b::SESSION_STATE => Token::SessionState(long_content(reader)?),
        b::FED_AUTH_INFO => Token::FedAuthInfo(long_content(reader)?),
        b::SSPI => Token::Sspi(reader.us_varbyte("SSPI")?.to_vec()),
        found => {
            let expected = "a token of TDS 7.1 to 7.4";
            return Err(TdsError::Unexpected {
                what: "token",
                expected,
                found: found.into(),
            });
        }
    })
}

fn long_content(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let length = usize::try_from(reader.u32("token length")?).unwrap_or(usize::MAX);
    Ok(reader.take(length, "token")?.to_vec())
}
