//! Where the stream ends in the file: after recovery, after a restore, and where a copy's tail is cut off. A crash in the midst of any of
//! these leaves the old end or the new one.

use super::super::hold::Need;
use super::vlf::{Filled, Vlf};
use super::{CHECKPOINT, HEADER_BYTES, LogFile};
use crate::error::{Result, StorageError};
use crate::planted::{Bug, planted};
use daruma_base::{Lsn, reached};

impl LogFile {
    /// Continues after recovery: the stream ends at `end`. VLFs wholly below `keep_from` become free.
    pub fn resume(&mut self, end: u64, keep_from: u64) -> Result<u64> {
        // A VLF opened after the end of the good stream holds nothing. Of what the crash has left in it, blocks may pass for some of
        // another node, should that be followed later: it is written with zeros before it is used.
        for vlf in &mut self.vlfs {
            if vlf.sequence > 0 && vlf.start_lsn >= end {
                reached!("log.vlf.beyond_end");
                *vlf = Vlf::unused(vlf.offset, vlf.size, true);
                self.handle.write(&vlf.header(), vlf.offset)?;
            }
        }
        self.handle.sync()?;
        // The stream goes on in a fresh VLF with a new incarnation: what the crash left behind the end stays behind.
        self.current = None;
        self.incarnation += 1;
        self.truncate(Need {
            from: Lsn(keep_from),
            reason: CHECKPOINT,
        });
        if self.next_free().is_none() {
            self.resume_within(end)?;
        }
        Ok(end)
    }

    /// Goes on in the VLF in which the stream ends, with the incarnation that it has: the disk may be full, and each restart
    /// would take one more. Zeros take the place of what the crash left behind the end.
    fn resume_within(&mut self, end: u64) -> Result<()> {
        let order = |i: &usize| (self.vlfs[*i].start_lsn, self.vlfs[*i].sequence);
        let used = (0..self.vlfs.len()).filter(|i| self.vlfs[*i].sequence > 0);
        let Some(index) = used.max_by_key(order) else {
            return Ok(());
        };
        let vlf = &self.vlfs[index];
        assert!(vlf.start_lsn < end, "a VLF behind the end is in use");
        let from = end - vlf.start_lsn;
        if vlf.unwritten || from > vlf.readable() || !end.is_multiple_of(HEADER_BYTES) {
            return Ok(());
        }
        reached!("log.vlf.resumed");
        let start = vlf.offset + HEADER_BYTES;
        if !planted(Bug::ResumeUnzeroed) {
            let zeros = self.handle.write_zeros(start + from, start + vlf.usable());
            let written = zeros.and_then(|()| self.handle.sync());
            written.map_err(|error| self.or_full(error))?;
        }
        if vlf.held > 0 {
            self.vlfs[index].held = 0;
            let vlf = &self.vlfs[index];
            self.handle.write(&vlf.header(), vlf.offset)?;
            self.handle.sync()?;
        }
        self.current = Some(index);
        self.incarnation = self.vlfs[index].incarnation;
        Ok(())
    }

    /// Ends the stream at `end`, durably and whatever lies behind; a crash before it is done leaves one or the other. It goes on
    /// in a fresh VLF.
    pub fn cut_at(&mut self, end: u64) -> Result<()> {
        let handle = self.handle();
        let _alone = handle.alone();
        self.hold_up_to(end)?;
        let mut beyond: Vec<usize> = (0..self.vlfs.len())
            .filter(|i| self.vlfs[*i].sequence > 0 && self.vlfs[*i].start_lsn >= end)
            .collect();
        // The one that begins at the end, if there is one, goes first: with its header the stream has ended there.
        beyond.sort_by_key(|i| self.vlfs[*i].start_lsn);
        for index in beyond {
            let vlf = &mut self.vlfs[index];
            // Its blocks could pass for some that will have the same positions: it is written with zeros before it is used.
            *vlf = Vlf::unused(vlf.offset, vlf.size, true);
            self.handle.write(&vlf.header(), vlf.offset)?;
            self.handle.sync()?;
        }
        self.current = None;
        let used = self.vlfs.iter().filter(|v| v.sequence > 0);
        self.incarnation = used.map(|v| v.incarnation).max().unwrap_or(1);
        Ok(())
    }

    /// The VLF in which the byte before `end` lies says that it holds nothing behind.
    fn hold_up_to(&mut self, end: u64) -> Result<()> {
        let before = self.vlfs.iter().enumerate();
        let before = before.filter(|(_, v)| v.sequence > 0 && v.start_lsn < end);
        let newest = before.max_by_key(|(_, v)| (v.start_lsn, v.sequence));
        let Some(index) = newest.map(|(index, _)| index) else {
            return Ok(());
        };
        let vlf = &mut self.vlfs[index];
        let held = end - vlf.start_lsn;
        if held > vlf.readable() {
            return Err(self.shorter_than(end));
        }
        if vlf.held != held {
            vlf.held = held;
            self.handle.write(&vlf.header(), vlf.offset)?;
        }
        self.handle.sync()
    }

    /// Ends the stream at `end`, in its VLF and in the file. The VLF that ends there, if it is the last of the file.
    pub(super) fn end_at(&mut self, end: u64) -> Result<Option<Filled>> {
        let is_beyond = |v: &Vlf| v.sequence > 0 && v.start_lsn >= end;
        while self.vlfs.last().is_some_and(is_beyond) {
            reached!("restore.section.left");
            self.vlfs.pop();
        }
        let mut changed: Vec<usize> = Vec::new();
        for (index, vlf) in self.vlfs.iter_mut().enumerate() {
            if is_beyond(vlf) {
                *vlf = Vlf::unused(vlf.offset, vlf.size, vlf.unwritten);
                changed.push(index);
            }
        }
        let used = self.vlfs.iter().enumerate().filter(|(_, v)| v.sequence > 0);
        let newest = used.max_by_key(|(_, v)| (v.start_lsn, v.sequence));
        let Some(newest) = newest.map(|(index, _)| index) else {
            return Err(self.shorter_than(end));
        };
        let vlf = &mut self.vlfs[newest];
        let held = end - vlf.start_lsn;
        if held > vlf.readable() {
            return Err(self.shorter_than(end));
        }
        if vlf.held != held {
            vlf.held = held;
            changed.push(newest);
        }
        for index in changed {
            let vlf = &self.vlfs[index];
            self.handle.write(&vlf.header(), vlf.offset)?;
        }
        let len = self.size_bytes();
        let file = &self.handle.file;
        file.set_len(len)
            .and_then(|()| file.sync_data())
            .map_err(|e| self.handle.error("shorten log", e))?;
        let vlf = &self.vlfs[newest];
        let is_last = newest + 1 == self.vlfs.len();
        Ok(is_last.then_some(Filled {
            offset: vlf.offset,
            size: vlf.size,
            sequence: vlf.sequence,
            start_lsn: vlf.start_lsn,
            incarnation: vlf.incarnation,
            held,
        }))
    }

    fn shorter_than(&self, end: u64) -> StorageError {
        StorageError::DamagedLog {
            path: self.handle.path().clone(),
            lsn: Lsn(end),
            what: "the log file does not reach as far as it was restored".into(),
        }
    }
}
