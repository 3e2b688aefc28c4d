//! Writers for counted strings and for structures whose length comes first.

use super::text;

/// Writes as much of `content` as the count can express; callers check limits where loss would matter.
pub(crate) fn put_b_varchar(out: &mut Vec<u8>, content: &str) {
    let at = out.len();
    out.push(0);
    let units = text::put_utf16_limited(out, content, usize::from(u8::MAX));
    if let Some(count) = out.get_mut(at) {
        *count = u8::try_from(units).unwrap_or(u8::MAX);
    }
}

pub(crate) fn put_us_varchar(out: &mut Vec<u8>, content: &str) {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    let units = text::put_utf16_limited(out, content, usize::from(u16::MAX));
    patch_u16(out, at, units);
}

pub(crate) fn put_b_varbyte(out: &mut Vec<u8>, content: &[u8]) {
    let count = u8::try_from(content.len()).unwrap_or(u8::MAX);
    out.push(count);
    out.extend(content.iter().take(usize::from(count)));
}

pub(crate) fn put_us_varbyte(out: &mut Vec<u8>, content: &[u8]) {
    let count = u16::try_from(content.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend(content.iter().take(usize::from(count)));
}

/// Leaves room for a u16 length; `end_u16_length` fills it in.
pub(crate) fn start_u16_length(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    at
}

pub(crate) fn end_u16_length(out: &mut [u8], at: usize) {
    let length = out.len() - at - 2;
    debug_assert!(
        length <= usize::from(u16::MAX),
        "token of {length} bytes in a u16 length"
    );
    patch_u16(out, at, length);
}

fn patch_u16(out: &mut [u8], at: usize, number: usize) {
    let bytes = u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes();
    if let Some(room) = out.get_mut(at..at + 2) {
        room.copy_from_slice(&bytes);
    }
}
