//! Rows of a bulk load, decoded while they arrive.

use crate::error::ConnectionError;
use crate::service::BulkRows;
use crate::transport::Transport;
use crate::wire::{Input, OwnedPacket};
use daruma_tds::packet::PacketType;
use daruma_tds::request::{BulkDecoder, BulkEvent};
use daruma_tds::token::Column;
use daruma_tds::{TdsError, TdsVersion};
use daruma_tsql::dml::bulk::BulkColumn;
use daruma_tsql::error::SqlError;
use daruma_value::Value;

/// How the client's side of the load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkEnd {
    /// The last packet has been read.
    Complete,
    /// The client sent an attention instead of the rest.
    Attention,
    /// The client gave the message up with its last packet.
    GivenUp,
}

pub(crate) struct BulkSource<'a> {
    input: &'a mut Input,
    transport: &'a mut Transport,
    decoder: BulkDecoder,
    end: Option<BulkEnd>,
    /// The client's own end of the rows was read; what is left of the message means nothing.
    is_over: bool,
    failure: Option<ConnectionError>,
}

impl<'a> BulkSource<'a> {
    pub(crate) fn new(
        version: TdsVersion,
        first: OwnedPacket,
        input: &'a mut Input,
        transport: &'a mut Transport,
    ) -> BulkSource<'a> {
        let mut source = BulkSource {
            input,
            transport,
            decoder: BulkDecoder::new(version),
            end: None,
            is_over: false,
            failure: None,
        };
        source.take(&first);
        source
    }

    fn take(&mut self, packet: &OwnedPacket) {
        match packet.header.packet_type {
            PacketType::Attention => self.end = Some(BulkEnd::Attention),
            PacketType::Bulk if packet.is_given_up() => self.end = Some(BulkEnd::GivenUp),
            PacketType::Bulk => {
                let last = packet.header.is_last();
                self.decoder.feed(&packet.payload, last);
                self.end = last.then_some(BulkEnd::Complete);
            }
            other => {
                let expected = "more of a bulk load";
                self.failure = Some(ConnectionError::UnexpectedMessage {
                    expected,
                    found: other as u8,
                });
            }
        }
    }

    /// The next event; `None` at the end, whatever kind of end it is.
    fn next_event(&mut self) -> Result<Option<BulkEvent>, ConnectionError> {
        loop {
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if matches!(self.end, Some(BulkEnd::Attention | BulkEnd::GivenUp)) {
                return Ok(None);
            }
            if self.is_over {
                return Ok(None);
            }
            if let Some(event) = self.decoder.next_event()? {
                self.is_over = event == BulkEvent::Done;
                return Ok(Some(event));
            }
            if self.end.is_some() {
                return Ok(None);
            }
            self.read_packet()?;
        }
    }

    fn read_packet(&mut self) -> Result<(), ConnectionError> {
        let packet = self
            .input
            .next_packet(self.transport)?
            .ok_or(ConnectionError::Cut)?;
        self.take(&packet);
        Ok(())
    }

    fn event(&mut self) -> Result<Option<BulkEvent>, SqlError> {
        match self.next_event() {
            Ok(None) if matches!(self.end, Some(BulkEnd::Attention | BulkEnd::GivenUp)) => {
                Err(cancelled())
            }
            Ok(event) => Ok(event),
            Err(error) => {
                let told = broken(&error);
                self.failure = Some(error);
                Err(told)
            }
        }
    }

    /// Reads what the server did not want any more, so that the client can read the reply.
    pub(crate) fn drain(mut self) -> Result<BulkEnd, ConnectionError> {
        loop {
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if let Some(end) = self.end {
                return Ok(end);
            }
            let packet = self
                .input
                .next_packet(self.transport)?
                .ok_or(ConnectionError::Cut)?;
            match packet.header.packet_type {
                PacketType::Bulk if !packet.is_given_up() => {
                    self.end = packet.header.is_last().then_some(BulkEnd::Complete)
                }
                _ => self.take(&packet),
            }
        }
    }
}

impl BulkRows for BulkSource<'_> {
    fn columns(&mut self) -> Result<Vec<BulkColumn>, SqlError> {
        match self.event()? {
            Some(BulkEvent::Columns(columns)) => Ok(columns.iter().map(bulk_column).collect()),
            _ => Ok(Vec::new()),
        }
    }

    fn next(&mut self) -> Result<Option<Vec<Value>>, SqlError> {
        match self.event()? {
            Some(BulkEvent::Row(row)) => Ok(Some(row)),
            _ => Ok(None),
        }
    }
}

fn bulk_column(column: &Column) -> BulkColumn {
    BulkColumn {
        name: column.name.clone(),
        data_type: column.data_type(),
    }
}

fn cancelled() -> SqlError {
    SqlError::new(3617, 16, 1, "Query was cancelled by the client.")
}

/// The product's words for rows that cannot be read.
fn broken(error: &ConnectionError) -> SqlError {
    match error {
        ConnectionError::Protocol(TdsError::InColumn { column, .. }) => {
            let text = format!(
                "Received an invalid column length from the bcp client for colid {}.",
                column + 1
            );
            SqlError::new(4815, 16, 1, text)
        }
        _ => SqlError::new(
            4804,
            16,
            1,
            "While reading current row from host, a premature end-of-message was encountered--an incoming data stream was interrupted when the server expected to see more data. The host program may have terminated. Ensure that you are using a supported client application programming interface (API).",
        ),
    }
}
