//! ALL_HEADERS: the transaction a request belongs to (7.2 and later).

use crate::wire::Reader;
use crate::{Result, TdsError, TdsVersion};

const QUERY_NOTIFICATION: u16 = 1;
const TRANSACTION: u16 = 2;
const TRACE_ACTIVITY: u16 = 3;

const HEADERS_MAX: usize = 16;

/// ALL_HEADERS of a request, as far as they mean something here.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Headers {
    /// 0 for autocommit; otherwise what ENVCHANGE gave at the beginning of the transaction.
    pub transaction: u64,
    /// Requests of the connection that are not answered, this one counted: 1 without MARS.
    pub outstanding_requests: u32,
    /// Activity id (16 bytes) and sequence.
    pub trace_activity: Option<Vec<u8>>,
    /// The request to be told of changes, undecoded.
    pub query_notification: Option<Vec<u8>>,
}

impl Headers {
    /// The usual headers: one request, in this transaction.
    pub fn new(transaction: u64) -> Headers {
        Headers {
            transaction,
            outstanding_requests: 1,
            ..Headers::default()
        }
    }

    /// Reads the headers off the front of a request; older versions have none.
    pub(crate) fn decode(reader: &mut Reader<'_>, version: TdsVersion) -> Result<Headers> {
        let mut headers = Headers::default();
        if !version.has_wide_fields() {
            return Ok(headers);
        }
        let mut content = sized(reader, 4, "ALL_HEADERS")?;
        for _ in 0..HEADERS_MAX {
            if content.is_empty() {
                return Ok(headers);
            }
            let mut header = sized(&mut content, 6, "header")?;
            match header.u16("header type")? {
                TRANSACTION => {
                    headers.transaction = header.u64("transaction descriptor")?;
                    headers.outstanding_requests = header.u32("outstanding requests")?;
                }
                QUERY_NOTIFICATION => {
                    headers.query_notification = Some(header.take_rest().to_vec())
                }
                TRACE_ACTIVITY => headers.trace_activity = Some(header.take_rest().to_vec()),
                _ => {}
            }
        }
        match content.remaining() {
            0 => Ok(headers),
            _ => Err(TdsError::TooLong {
                what: "ALL_HEADERS",
                limit: HEADERS_MAX,
                found: HEADERS_MAX + 1,
            }),
        }
    }

    pub(crate) fn encode(&self, version: TdsVersion, out: &mut Vec<u8>) {
        if !version.has_wide_fields() {
            return;
        }
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut transaction = self.transaction.to_le_bytes().to_vec();
        transaction.extend_from_slice(&self.outstanding_requests.to_le_bytes());
        put_header(TRANSACTION, &transaction, out);
        if let Some(data) = &self.query_notification {
            put_header(QUERY_NOTIFICATION, data, out);
        }
        if let Some(data) = &self.trace_activity {
            put_header(TRACE_ACTIVITY, data, out);
        }
        let total = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
        if let Some(room) = out.get_mut(at..at + 4) {
            room.copy_from_slice(&total.to_le_bytes());
        }
    }
}

fn put_header(kind: u16, data: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(data.len() + 6).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(data);
}

/// A structure whose 32-bit length counts itself and is at least `least`.
fn sized<'a>(reader: &mut Reader<'a>, least: u32, what: &'static str) -> Result<Reader<'a>> {
    let length = reader.u32(what)?;
    if length < least {
        let expected = "a length that counts itself";
        return Err(TdsError::Unexpected {
            what,
            expected,
            found: length.into(),
        });
    }
    reader.sub(usize::try_from(length - 4).unwrap_or(usize::MAX), what)
}
