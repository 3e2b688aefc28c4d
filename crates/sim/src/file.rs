//! An open file of the simulated disk: every call counts, may be slow, may fail, may lie as far as disks do.

use crate::disk::{Content, SECTOR_BYTES, Shared};
use crate::fault::FaultKind;
use daruma_base::DiskFile;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a misdirected call may go instead: multiples of this.
const BLOCK_BYTES: u64 = 4096;

pub(crate) struct SimFile {
    pub content: Arc<Mutex<Content>>,
    pub shared: Arc<Shared>,
    pub exclusive: AtomicBool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.release();
    }
}

impl SimFile {
    /// Makes room for a file that will end at `end`.
    fn reserve(&self, content: &Content, end: usize) -> io::Result<()> {
        let by = end.saturating_sub(content.now.len()) as u64;
        let used = self.shared.used_bytes.load(Ordering::Relaxed);
        let capacity = self.shared.faults.lock().capacity_bytes;
        if by > 0 && capacity.is_some_and(|c| used + by > c) {
            self.shared.counts.add(FaultKind::DiskFull);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.shared.used_bytes.fetch_add(by, Ordering::Relaxed);
        Ok(())
    }

    /// Another place of the same file, for a call that loses its way. `None` when the file is too small.
    fn elsewhere(&self, file_len: usize, offset: u64, len: usize) -> Option<u64> {
        let places = (file_len as u64).checked_sub(len as u64)? / BLOCK_BYTES + 1;
        let place = self.shared.random.below(places) * BLOCK_BYTES;
        (place != offset).then_some(place)
    }

    fn flip(&self, content: &mut Content, buf: &mut [u8], offset: u64) {
        let rates = self.shared.faults.lock().rates;
        if rates.flipped_read == 0 {
            return;
        }
        let sticky = content.sticky_flips > 0 && content.sticky_at == offset;
        if sticky {
            content.sticky_flips -= 1;
        } else if self.shared.happens(rates.flipped_read) {
            // A passing fault, or one that outlives a few repetitions.
            content.sticky_flips = [0, 0, 8][self.shared.random.below(3) as usize];
            content.sticky_at = offset;
        } else {
            return;
        }
        let bit = self.shared.random.below(buf.len().max(1) as u64 * 8);
        if let Some(byte) = buf.get_mut(bit as usize / 8) {
            *byte ^= 1 << (bit % 8);
            self.shared.counts.add(FaultKind::FlippedRead);
        }
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let rates = self.shared.admit_read()?;
        let mut content = self.content.lock();
        self.shared.note(1, &content, offset, buf.len() as u64);
        let mut start = offset;
        if self.shared.happens(rates.misdirected_read)
            && let Some(place) = self.elsewhere(content.now.len(), offset, buf.len())
        {
            self.shared.counts.add(FaultKind::MisdirectedRead);
            start = place;
        }
        if !content.now.read(start as usize, buf) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.flip(&mut content, buf, offset);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.shared.alive()?;
        self.shared.photograph(&self.content, Some((offset, buf)));
        let verdict = self.shared.admit(FaultKind::WriteError);
        let mut content = self.content.lock();
        self.shared.note(2, &content, offset, buf.len() as u64);
        let end = offset as usize + buf.len();
        if verdict.is_err() {
            // What was under way may have arrived in part.
            if self.shared.alive().is_err() {
                content.in_flight = Some((offset, buf.into()));
            } else {
                content.half_written(&self.shared.random, offset, buf);
            }
        }
        let rates = verdict?;
        self.reserve(&content, end)?;
        if content.now.len() < end {
            content.now.resize(end);
        }
        let mut at = offset;
        if self.shared.happens(rates.misdirected_write)
            && let Some(place) = self.elsewhere(content.now.len(), offset, buf.len())
        {
            self.shared.counts.add(FaultKind::MisdirectedWrite);
            at = place;
        }
        content.now.write(at as usize, buf);
        content.pending.push((at, buf.into()));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.alive()?;
        self.shared.photograph(&self.content, None);
        let verdict = self.shared.admit(FaultKind::SyncError);
        let content = &mut *self.content.lock();
        self.shared.note(3, content, 0, 0);
        if verdict.is_err() && self.shared.alive().is_ok() {
            // A failed sync may have dropped any of the writes while reads still show them.
            content.pending.retain(|_| self.shared.random.below(2) == 0);
            content.has_dropped = true;
        }
        verdict?;
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        content.harden();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.shared.alive()?;
        Ok(self.content.lock().now.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.shared.alive()?;
        self.shared.photograph(&self.content, None);
        self.shared.admit(FaultKind::GrowError)?;
        let mut content = self.content.lock();
        self.shared.note(4, &content, len, 0);
        self.reserve(&content, len as usize)?;
        let cut = (content.now.len() as u64).saturating_sub(len);
        self.shared.used_bytes.fetch_sub(cut, Ordering::Relaxed);
        content.now.resize(len as usize);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.len()? < len {
            self.set_len(len)
        } else {
            Ok(())
        }
    }

    fn release(&self) {
        if self.exclusive.swap(false, Ordering::Relaxed) {
            self.content.lock().locked = false;
        }
    }
}

impl Content {
    /// A write that failed: any subset of its sectors was written, within the file as it was.
    fn half_written(&mut self, random: &crate::SimRandom, offset: u64, bytes: &[u8]) {
        for (i, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            let at = offset as usize + i * SECTOR_BYTES;
            if random.below(2) == 0 && at + sector.len() <= self.now.len() {
                self.now.write(at, sector);
                self.pending.push((at as u64, sector.into()));
            }
        }
    }

    /// Everything written so far survives from now on.
    fn harden(&mut self) {
        let len = self.now.len();
        self.durable.resize(self.durable.len().max(len));
        for (offset, bytes) in self.pending.drain(..) {
            match self.has_dropped {
                true => self.durable.write(offset as usize, &bytes),
                false => self.durable.share(&self.now, offset as usize, bytes.len()),
            }
        }
        self.durable.resize(len);
    }
}
