//! Partially length-prefixed data: a total or "unknown", then chunks, then an empty chunk.

use crate::wire::Reader;
use crate::{Result, TdsError};
use std::borrow::Cow;

const NULL: u64 = u64::MAX;
const UNKNOWN_LENGTH: u64 = u64::MAX - 1;

/// The bytes of one value; borrowed when they came in one chunk. `None` is NULL.
pub(super) fn decode<'a>(reader: &mut Reader<'a>) -> Result<Option<Cow<'a, [u8]>>> {
    let total = reader.u64("PLP length")?;
    if total == NULL {
        return Ok(None);
    }
    let mut bytes: Cow<'a, [u8]> = Cow::Borrowed(&[]);
    loop {
        let length = usize::try_from(reader.u32("PLP chunk length")?).unwrap_or(usize::MAX);
        if length == 0 {
            break;
        }
        let chunk = reader.take(length, "PLP chunk")?;
        if bytes.is_empty() {
            bytes = Cow::Borrowed(chunk);
        } else {
            bytes.to_mut().extend_from_slice(chunk);
        }
        if total != UNKNOWN_LENGTH && bytes.len() as u64 > total {
            return Err(wrong_total(bytes.len()));
        }
    }
    if total != UNKNOWN_LENGTH && bytes.len() as u64 != total {
        return Err(wrong_total(bytes.len()));
    }
    Ok(Some(bytes))
}

fn wrong_total(found: usize) -> TdsError {
    TdsError::Unexpected {
        what: "PLP chunks",
        expected: "the length given before",
        found: found as u64,
    }
}

pub(super) fn put_null(out: &mut Vec<u8>) {
    out.extend_from_slice(&NULL.to_le_bytes());
}

/// Room for the total and for the length of a single chunk; with an empty value the latter is the terminator.
pub(super) const HEAD_BYTES: usize = 12;

/// Completes a value whose bytes stand in `out` behind `HEAD_BYTES` of room at `at`.
pub(super) fn finish(out: &mut Vec<u8>, at: usize) -> Result<()> {
    let found = out.len() - at - HEAD_BYTES;
    let limit = i32::MAX as usize;
    let length = u32::try_from(found).ok().filter(|_| found <= limit);
    let length = length.ok_or(TdsError::TooLong {
        what: "max value",
        limit,
        found,
    })?;
    if let Some(room) = out.get_mut(at..at + HEAD_BYTES) {
        let (total, chunk) = room.split_at_mut(8);
        total.copy_from_slice(&u64::from(length).to_le_bytes());
        chunk.copy_from_slice(&length.to_le_bytes());
    }
    if length > 0 {
        out.extend_from_slice(&[0; 4]);
    }
    Ok(())
}
