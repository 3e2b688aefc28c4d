//! Byte deltas between an old and a new payload: what the log keeps of an update.
//!
//! Format: count u8, then per segment: offset u16 (in the old payload), old_len u16, new_len u16, old bytes, new
//! bytes. Segments ascend and do not overlap. A delta can be applied forwards (redo) and backwards (undo).

use crate::bytes::{Put, Reader};

/// Equal runs shorter than a segment head are cheaper to copy than to skip.
const GAP_BYTES_MIN: usize = 7;
const SEGMENTS_MAX: usize = 255;

/// Appends the delta from `old` to `new`.
pub fn write(old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    let prefix = common_prefix(old, new);
    let suffix = common_suffix(&old[prefix..], &new[prefix..]);
    let (old_mid, new_mid) = (
        &old[prefix..old.len() - suffix],
        &new[prefix..new.len() - suffix],
    );
    let count_at = out.len();
    out.put_u8(0);
    let mut count = 0usize;
    let mut segment = |from: usize, old_to: usize, new_to: usize, out: &mut Vec<u8>| {
        out.put_u16((prefix + from) as u16);
        out.put_u16((old_to - from) as u16);
        out.put_u16((new_to - from) as u16);
        out.extend_from_slice(&old_mid[from..old_to]);
        out.extend_from_slice(&new_mid[from..new_to]);
        count += 1;
        count
    };
    // Positions agree up to the place where lengths begin to differ, which the trimmed suffix puts at the end.
    let shared = old_mid.len().min(new_mid.len());
    let mut start = None;
    let mut at = 0;
    let mut segments = 0;
    while at < shared && segments + 2 < SEGMENTS_MAX {
        if old_mid[at] != new_mid[at] {
            start.get_or_insert(at);
            at += 1;
            continue;
        }
        let run = common_prefix(&old_mid[at..shared], &new_mid[at..shared]);
        if let Some(from) = start
            && run >= GAP_BYTES_MIN
        {
            segments = segment(from, at, at, out);
            start = None;
        }
        at += run;
    }
    // The rest, from the last open difference on, goes into one segment.
    let from = start.unwrap_or(at.min(shared));
    if from < old_mid.len() || from < new_mid.len() {
        segment(from, old_mid.len(), new_mid.len(), out);
    }
    out[count_at] = count as u8;
}

/// Reads one delta from `reader` and checks its shape.
pub fn read<'a>(reader: &mut Reader<'a>) -> Option<Delta<'a>> {
    let count = usize::from(reader.u8()?);
    let start = *reader;
    let mut len = 0;
    for _ in 0..count {
        let (_, old, new) = (
            reader.u16()?,
            usize::from(reader.u16()?),
            usize::from(reader.u16()?),
        );
        reader.take(old)?;
        reader.take(new)?;
        len += 6 + old + new;
    }
    let mut whole = start;
    Some(Delta {
        count,
        bytes: whole.take(len)?,
    })
}

/// A delta in its encoded form.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Delta<'a> {
    /// New payload from the old one. `None` when the delta does not fit the payload.
    pub fn apply(&self, old: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut reader = Reader::new(self.bytes);
        let mut at = 0;
        for _ in 0..self.count {
            let (offset, old_len, new_len) = (
                usize::from(reader.u16()?),
                usize::from(reader.u16()?),
                usize::from(reader.u16()?),
            );
            reader.take(old_len)?;
            out.extend_from_slice(old.get(at..offset)?);
            out.extend_from_slice(reader.take(new_len)?);
            at = offset + old_len;
        }
        out.extend_from_slice(old.get(at..)?);
        Some(())
    }

    /// Offset in the old payload, old bytes and new bytes of each segment.
    pub fn segments(&self) -> Option<Vec<(usize, &'a [u8], &'a [u8])>> {
        let mut reader = Reader::new(self.bytes);
        let segment = |_| {
            let offset = usize::from(reader.u16()?);
            let (old, new) = (usize::from(reader.u16()?), usize::from(reader.u16()?));
            Some((offset, reader.take(old)?, reader.take(new)?))
        };
        (0..self.count).map(segment).collect()
    }

    /// Old payload from the new one.
    pub fn revert(&self, new: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut reader = Reader::new(self.bytes);
        let (mut old_at, mut new_at) = (0, 0);
        for _ in 0..self.count {
            let (offset, old_len, new_len) = (
                usize::from(reader.u16()?),
                usize::from(reader.u16()?),
                usize::from(reader.u16()?),
            );
            let equal = offset.checked_sub(old_at)?;
            out.extend_from_slice(new.get(new_at..new_at + equal)?);
            out.extend_from_slice(reader.take(old_len)?);
            reader.take(new_len)?;
            old_at = offset + old_len;
            new_at += equal + new_len;
        }
        out.extend_from_slice(new.get(new_at..)?);
        Some(())
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut at = 0;
    while at + 8 <= len {
        let (x, y) = (word(a, at), word(b, at));
        if x != y {
            return at + ((x ^ y).trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < len && a[at] == b[at] {
        at += 1;
    }
    at
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut done = 0;
    while done + 8 <= len {
        let next = done + 8;
        let (x, y) = (word(a, a.len() - next), word(b, b.len() - next));
        if x != y {
            return done + ((x ^ y).leading_zeros() / 8) as usize;
        }
        done = next;
    }
    while done < len && a[a.len() - 1 - done] == b[b.len() - 1 - done] {
        done += 1;
    }
    done
}

#[inline]
fn word(b: &[u8], at: usize) -> u64 {
    crate::bytes::get_u64(b, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(old: &[u8], new: &[u8]) -> usize {
        let mut bytes = Vec::new();
        write(old, new, &mut bytes);
        let mut reader = Reader::new(&bytes);
        let delta = read(&mut reader).expect("well-formed");
        assert!(reader.is_empty());
        let mut out = Vec::new();
        delta.apply(old, &mut out).expect("applies");
        assert_eq!(out, new);
        out.clear();
        delta.revert(new, &mut out).expect("reverts");
        assert_eq!(out, old);
        bytes.len()
    }

    #[test]
    fn an_inserted_byte_costs_one_byte() {
        let old = b"0123456789abcdefghij-4911-403C-98".to_vec();
        let mut new = old.clone();
        new.insert(20, b'x');
        assert_eq!(check(&old, &new), 1 + 6 + 1);
    }

    #[test]
    fn distant_changes_are_separate_segments() {
        let old = vec![7u8; 200];
        let mut new = old.clone();
        new[10] = 1;
        new[150] = 2;
        assert_eq!(check(&old, &new), 1 + 2 * (6 + 2));
    }

    proptest! {
        #[test]
        fn round_trip(old in proptest::collection::vec(0u8..3, 0..600), new in proptest::collection::vec(0u8..3, 0..600)) {
            check(&old, &new);
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), base in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(delta) = read(&mut Reader::new(&bytes)) {
                let _ = delta.apply(&base, &mut Vec::new());
                let _ = delta.revert(&base, &mut Vec::new());
            }
        }
    }
}
