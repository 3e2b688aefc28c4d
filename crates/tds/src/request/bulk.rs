//! Bulk load: COLMETADATA, rows without end, DONE. Decoded while it arrives.

use crate::token::{
    Column, ColumnLayout, Done, DoneKind, RowEncoder, decode_columns, decode_nbc_row, decode_row,
    put_columns, token_byte as b,
};
use crate::wire::{Reader, Window};
use crate::{Result, TdsError, TdsVersion};
use daruma_value::Value;
use std::sync::Arc;

const ROW_BYTES_MAX: usize = (2 << 30) + (64 << 20);

/// What a bulk load brings, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum BulkEvent {
    Columns(Arc<[Column]>),
    Row(Vec<Value>),
    /// The client's own end: feed nothing more.
    Done,
}

/// Turns the payloads of bulk packets into rows.
#[derive(Debug)]
pub struct BulkDecoder {
    version: TdsVersion,
    columns: Option<Arc<[Column]>>,
    window: Window,
    ended: bool,
}

impl BulkDecoder {
    /// A decoder at the beginning of a bulk load.
    pub fn new(version: TdsVersion) -> BulkDecoder {
        BulkDecoder {
            version,
            columns: None,
            window: Window::default(),
            ended: false,
        }
    }

    /// Adds the payload of a packet; `last` when the packet ends the message.
    pub fn feed(&mut self, payload: &[u8], last: bool) {
        // What follows the end has no meaning.
        let payload = if self.ended { &[] } else { payload };
        self.window.feed(payload, last);
    }

    /// The whole message has been fed and read. A message without a single event cancels the load.
    pub fn is_finished(&self) -> bool {
        self.window.is_finished()
    }

    /// The next event, if it has arrived. Call until `None` after each `feed`.
    pub fn next_event(&mut self) -> Result<Option<BulkEvent>> {
        let (version, columns) = (self.version, self.columns.as_deref());
        let event = self.window.attempt(ROW_BYTES_MAX, |reader| {
            decode_event(reader, version, columns)
        })?;
        if let Some(BulkEvent::Columns(columns)) = &event {
            self.columns = Some(Arc::clone(columns));
        }
        self.ended |= matches!(event, Some(BulkEvent::Done));
        Ok(event)
    }
}

fn decode_event(
    reader: &mut Reader<'_>,
    version: TdsVersion,
    columns: Option<&[Column]>,
) -> Result<BulkEvent> {
    Ok(match (reader.u8("bulk token")?, columns) {
        (b::COL_METADATA, None) => {
            let columns = decode_columns(reader, ColumnLayout::Bulk(version))?;
            BulkEvent::Columns(columns.unwrap_or_default().into())
        }
        (b::ROW, Some(columns)) => BulkEvent::Row(decode_row(columns, reader)?),
        (b::NBC_ROW, Some(columns)) => BulkEvent::Row(decode_nbc_row(columns, reader)?),
        (b::DONE, _) => {
            // Clients differ in how wide they make its fields, and nothing in them matters.
            reader.take_rest();
            BulkEvent::Done
        }
        (found, None) => {
            let expected = "COLMETADATA";
            return Err(TdsError::Unexpected {
                what: "first bulk token",
                expected,
                found: found.into(),
            });
        }
        (found, Some(_)) => {
            let expected = "ROW, NBCROW or DONE";
            return Err(TdsError::Unexpected {
                what: "bulk token",
                expected,
                found: found.into(),
            });
        }
    })
}

/// Writes a bulk load as a client: `start`, `row` as often as needed, `finish`.
#[derive(Clone, Debug)]
pub struct BulkEncoder {
    version: TdsVersion,
    rows: RowEncoder,
}

impl BulkEncoder {
    /// Appends the columns, and gives the encoder of their rows.
    pub fn start(columns: &[Column], version: TdsVersion, out: &mut Vec<u8>) -> BulkEncoder {
        put_columns(columns, ColumnLayout::Bulk(version), out);
        BulkEncoder {
            version,
            rows: RowEncoder::without_bitmap(columns),
        }
    }

    /// Appends one row. On failure `out` is as before.
    pub fn row(&self, row: &[Value], out: &mut Vec<u8>) -> Result<()> {
        self.rows.encode(row, out)
    }

    /// Appends the end of the load.
    pub fn finish(&self, out: &mut Vec<u8>) {
        Done::new(DoneKind::Done, 0, 0).encode(self.version, out);
    }
}
