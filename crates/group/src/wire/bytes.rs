//! Integers, strings and sets in bodies: reading returns errors, writing cannot fail.

use super::WireError;
use crate::commit::{Epoch, EpochId, HISTORY_MAX, History, Record, ReplicaId, Replicas};
use daruma_base::Lsn;

/// A body that is read from the front.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(WireError::Body("length"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn u128(&mut self) -> Result<u128, WireError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(super) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Body("flag")),
        }
    }

    pub(super) fn lsn(&mut self) -> Result<Lsn, WireError> {
        Ok(Lsn(self.u64()?))
    }

    pub(super) fn text(&mut self, bytes_max: usize) -> Result<String, WireError> {
        let length = usize::from(self.u16()?);
        if length > bytes_max || length > self.0.len() {
            return Err(WireError::Body("length of a text"));
        }
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        let text = std::str::from_utf8(taken).map_err(|_| WireError::Body("text"))?;
        Ok(text.to_owned())
    }

    pub(super) fn replica(&mut self) -> Result<ReplicaId, WireError> {
        ReplicaId::new(self.u8()?).ok_or(WireError::Body("replica"))
    }

    pub(super) fn replicas(&mut self) -> Result<Replicas, WireError> {
        Replicas::from_bits(self.u16()?).ok_or(WireError::Body("set of replicas"))
    }

    pub(super) fn epoch(&mut self) -> Result<EpochId, WireError> {
        Ok(EpochId {
            number: self.u64()?,
            id: self.u128()?,
        })
    }

    pub(super) fn history(&mut self) -> Result<History, WireError> {
        let count = usize::from(self.u16()?);
        if count > HISTORY_MAX {
            return Err(WireError::Body("history"));
        }
        let mut epochs = Vec::with_capacity(count);
        for _ in 0..count {
            let name = self.epoch()?;
            let start = self.lsn()?;
            epochs.push(Epoch { name, start });
        }
        History::new(epochs).ok_or(WireError::Body("history"))
    }

    pub(super) fn record(&mut self) -> Result<Record, WireError> {
        Ok(Record {
            epoch: self.epoch()?,
            primary: self.replica()?,
            members: self.replicas()?,
            sequence: self.u64()?,
        })
    }
}

/// A body that is written.
pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn u128(&mut self, value: u128) {
        self.bytes(&value.to_le_bytes());
    }

    pub(super) fn lsn(&mut self, value: Lsn) {
        self.u64(value.0);
    }

    /// A text that is too long is cut at a character.
    pub(super) fn text(&mut self, text: &str, bytes_max: usize) {
        let mut end = text.len().min(bytes_max);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.u16(end as u16);
        self.bytes(&text.as_bytes()[..end]);
    }

    pub(super) fn epoch(&mut self, epoch: EpochId) {
        self.u64(epoch.number);
        self.u128(epoch.id);
    }

    pub(super) fn history(&mut self, history: &History) {
        self.u16(history.epochs().len() as u16);
        for epoch in history.epochs() {
            self.epoch(epoch.name);
            self.lsn(epoch.start);
        }
    }

    pub(super) fn record(&mut self, record: &Record) {
        self.epoch(record.epoch);
        self.u8(record.primary.number());
        self.u16(record.members.bits());
        self.u64(record.sequence);
    }
}
