//! Reading a backup set: every frame checked against the index, the index against the description.
//!
//! Theory: the description of the set, the same in all families, holds the checksum of each family's index; the index
//! holds place and header checksum of every frame; the header holds the checksum of the payload. So one checked
//! description vouches for everything, and frames can be read in any order by several threads.

use crate::cipher::{Cipher, Secret};
use crate::codec::Decoder;
use crate::error::{BackupError, Result};
use crate::frame::{FRAME_HEADER_BYTES, Header, IndexEntry, Kind, checksum_of};
use crate::media::FamilyReader;
use crate::meta::{DirectoryEntry, SetInfo};
use crate::pump::{self, Crew, Tick};
use crate::tail::TailAligned;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that read, for each device file: a device that serves several requests at once wants a few of them; besides,
/// each of these threads waits for its turn to compute.
const READERS_PER_FAMILY: usize = 8;
const READERS_MIN: usize = 16;
const READERS_MAX: usize = 64;

/// A set whose description and indexes were read and checked.
pub struct SetReader {
    info: SetInfo,
    cipher: Option<Cipher>,
    families: Vec<Family>,
    takes_damage: bool,
}

struct Family {
    number: u16,
    copies: Vec<Arc<FamilyReader>>,
    index: Vec<IndexEntry>,
}

impl Family {
    /// Bytes to read at once.
    fn batch_bytes(&self) -> u64 {
        let each = self.copies.iter().map(|copy| copy.source.piece_bytes());
        each.max().unwrap_or(0)
    }
}

/// Adjacent frames of one family.
struct Batch {
    family: usize,
    first: usize,
    count: usize,
}

/// A frame's content.
pub struct Content<'a> {
    pub kind: Kind,
    pub plain: &'a [u8],
}

impl SetReader {
    pub(crate) fn open(
        info: SetInfo,
        places: Vec<Vec<(Arc<FamilyReader>, DirectoryEntry)>>,
        secret: Option<&Secret>,
    ) -> Result<SetReader> {
        let cipher = Cipher::unlock(info.encryption.as_ref(), secret, info.set.short())?;
        let mut families = Vec::new();
        for (at, copies) in places.into_iter().enumerate() {
            let (mut index, mut failure) = (None, None);
            let mut intact = Vec::new();
            for (family, entry) in copies {
                match read_index(&info, cipher.as_ref(), at, &family, &entry) {
                    Ok(read) => {
                        index = Some(read);
                        intact.push(family);
                    }
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            match (index, failure) {
                (Some(index), _) => families.push(Family {
                    number: at as u16 + 1,
                    copies: intact,
                    index,
                }),
                (None, Some(error)) => return Err(error),
                (None, None) => {
                    return Err(BackupError::Unusable("a family without a device".into()));
                }
            }
        }
        Ok(SetReader {
            info,
            cipher,
            families,
            takes_damage: false,
        })
    }

    /// The set's description.
    pub fn info(&self) -> &SetInfo {
        &self.info
    }

    /// Media families that the set is striped over.
    pub fn families(&self) -> usize {
        self.families.len()
    }

    /// Damaged pages that the description names are taken as they are (CONTINUE_AFTER_ERROR).
    pub fn take_damage(mut self) -> SetReader {
        self.takes_damage = true;
        self
    }

    /// May the contents be used?
    pub(crate) fn check_undamaged(&self) -> Result<()> {
        match self.info.damaged && !self.takes_damage {
            true => Err(BackupError::DamagedSet),
            false => Ok(()),
        }
    }

    pub(crate) fn is_known_damage(&self, file: u16, page: u32) -> bool {
        self.info.damaged_pages.binary_search(&(file, page)).is_ok()
    }

    /// Bytes of all frames as stored.
    fn stored_bytes(&self) -> u64 {
        let entries = self.families.iter().flat_map(|f| &f.index);
        entries.map(|e| u64::from(e.stored_bytes)).sum()
    }

    /// Batches of all families, taken in turn, so that every device has work.
    fn batches(&self) -> Vec<Batch> {
        let mut lists: Vec<_> = self
            .families
            .iter()
            .enumerate()
            .map(|(at, f)| batches_of(at, &f.index, f.batch_bytes()).into_iter())
            .collect();
        let mut all = Vec::new();
        loop {
            let round: Vec<Batch> = lists.iter_mut().filter_map(Iterator::next).collect();
            if round.is_empty() {
                return all;
            }
            all.extend(round);
        }
    }

    /// Reads, checks and decompresses every frame, on several threads and in no order, and hands it to `apply`.
    pub fn for_each(
        &self,
        processors: usize,
        tick: Tick<'_>,
        apply: impl Fn(Content<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let batches = self.batches();
        let next = AtomicUsize::new(0);
        let readers = (READERS_PER_FAMILY * self.families.len()).clamp(READERS_MIN, READERS_MAX);
        let threads = readers.min(batches.len()) + processors;
        let total = self.stored_bytes();
        pump::run(threads, processors, total, tick, &mut || {}, |crew| {
            let mut decoder = Decoder::new();
            let mut buffer = TailAligned::default();
            while !crew.is_stopped() {
                let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    return Ok(());
                };
                let bytes = self.read_batch(batch, &mut buffer)?;
                let stored = bytes.len() as u64;
                self.decode(batch, bytes, &mut decoder, Some(crew), &apply)?;
                crew.add_done(stored);
            }
            Ok(())
        })
    }

    /// The frames of one kind in order of what they hold, one after the other. `false` from `apply` ends it.
    pub fn in_order(
        &self,
        kind: Kind,
        apply: impl FnMut(Content<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.in_order_where(kind, |_, _| true, apply)
    }

    /// As `in_order`, frames that the index shows to hold nothing of interest left out.
    pub fn in_order_where(
        &self,
        kind: Kind,
        may_hold: impl Fn(u64, u64) -> bool,
        mut apply: impl FnMut(Content<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut order: Vec<(u64, usize, usize)> = Vec::new();
        for (family, f) in self.families.iter().enumerate() {
            let of_kind = f.index.iter().enumerate();
            let of_kind = of_kind.filter(|(_, e)| e.kind == kind && may_hold(e.first, e.last));
            order.extend(of_kind.map(|(at, e)| (e.first, family, at)));
        }
        order.sort_unstable();
        let mut decoder = Decoder::new();
        let mut buffer = TailAligned::default();
        for (_, family, first) in order {
            let batch = Batch {
                family,
                first,
                count: 1,
            };
            let bytes = self.read_batch(&batch, &mut buffer)?;
            let mut go_on = true;
            self.decode(&batch, bytes, &mut decoder, None, |content| {
                go_on = apply(content)?;
                Ok(())
            })?;
            if !go_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the bytes of a batch from the first copy of the family in which they are intact.
    fn read_batch<'b>(&self, batch: &Batch, buffer: &'b mut TailAligned) -> Result<&'b mut [u8]> {
        let family = &self.families[batch.family];
        let entries = &family.index[batch.first..batch.first + batch.count];
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(&mut []);
        };
        let len = last.offset + frame_bytes(last) - first.offset;
        let bytes = buffer.space(len as usize);
        let mut failure = None;
        for copy in &family.copies {
            let read = copy.source.read_at(bytes, first.offset);
            let outcome = read
                .map_err(|e| copy.io(e))
                .and_then(|()| self.check_batch(family, batch, bytes, copy));
            match outcome {
                Ok(()) => return Ok(bytes),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| BackupError::Unusable("a family without a device".into())))
    }

    fn check_batch(
        &self,
        family: &Family,
        batch: &Batch,
        bytes: &[u8],
        copy: &FamilyReader,
    ) -> Result<()> {
        let mut rest = bytes;
        for at in batch.first..batch.first + batch.count {
            let entry = &family.index[at];
            let bad = |what: &str| copy.damaged(format!("{what} at offset {}", entry.offset));
            let header = Header::decode(rest).ok_or_else(|| bad("damaged frame header"))?;
            let raw = rest
                .get(..FRAME_HEADER_BYTES)
                .and_then(|h| h.try_into().ok());
            let own = raw.map(checksum_of) == Some(entry.header_checksum)
                && header.kind == entry.kind
                && header.set == self.info.set.short()
                && header.position == self.info.position
                && header.family == family.number
                && header.number == at as u64
                && header.stored_bytes == entry.stored_bytes;
            if !own {
                return Err(bad("a frame that does not belong there"));
            }
            let payload = rest
                .get(FRAME_HEADER_BYTES..frame_bytes(entry) as usize)
                .ok_or_else(|| bad("a frame cut short"))?;
            if crc32c::crc32c(payload) != header.payload_checksum {
                return Err(bad("a frame with a wrong checksum"));
            }
            rest = rest.get(frame_bytes(entry) as usize..).unwrap_or_default();
        }
        Ok(())
    }

    /// Decrypts and decompresses the frames of a batch, with a permit of the crew if there is one; what `apply` does needs
    /// none, because it may wait for a device.
    fn decode(
        &self,
        batch: &Batch,
        bytes: &mut [u8],
        decoder: &mut Decoder,
        crew: Option<&Crew>,
        mut apply: impl FnMut(Content<'_>) -> Result<()>,
    ) -> Result<()> {
        let family = &self.families[batch.family];
        let mut rest = bytes;
        for entry in &family.index[batch.first..batch.first + batch.count] {
            let bad = || {
                let device = family.copies.first().map(|c| c.device.clone());
                BackupError::Damaged {
                    device: device.unwrap_or_default(),
                    what: format!("a frame that cannot be read at offset {}", entry.offset),
                }
            };
            let header = Header::decode(rest).ok_or_else(bad)?;
            let (frame, behind) = rest
                .split_at_mut_checked(frame_bytes(entry) as usize)
                .ok_or_else(bad)?;
            rest = behind;
            let stored = frame.get_mut(FRAME_HEADER_BYTES..).ok_or_else(bad)?;
            let permit = crew.map(Crew::permit);
            let opened = self.cipher.as_ref().is_none_or(|c| c.open(&header, stored));
            let stored = opened.then_some(&*stored).ok_or_else(bad)?;
            let plain = decoder
                .decode(header.codec, stored, header.plain_bytes as usize)
                .ok_or_else(bad)?;
            drop(permit);
            apply(Content {
                kind: header.kind,
                plain,
            })?;
        }
        Ok(())
    }
}

fn frame_bytes(entry: &IndexEntry) -> u64 {
    FRAME_HEADER_BYTES as u64 + u64::from(entry.stored_bytes)
}

fn read_index(
    info: &SetInfo,
    cipher: Option<&Cipher>,
    at: usize,
    family: &FamilyReader,
    entry: &DirectoryEntry,
) -> Result<Vec<IndexEntry>> {
    let (header, _) = family.frame(entry.begin, Kind::SetBegin)?;
    if header.set != info.set.short() {
        return Err(family.damaged("the beginning of the set belongs to another"));
    }
    // The description in every family must be the one that was read.
    let (header, payload) = family.frame(entry.end, Kind::SetEnd)?;
    if cipher.is_some_and(|c| !c.vouches_for(&payload, &header.seal)) {
        return Err(family.damaged("the description was not written with this key"));
    }
    let own: Option<SetInfo> = serde_json::from_slice(&payload).ok();
    if own.as_ref() != Some(info) {
        return Err(family.damaged("the families describe different sets"));
    }
    let (header, payload) = family.frame(entry.index, Kind::Index)?;
    let manifest = info.manifest.get(at);
    let vouched = manifest.is_some_and(|m| m.index_checksum == header.payload_checksum);
    let belongs = header.set == info.set.short() && usize::from(header.family) == at + 1;
    let index = IndexEntry::read_all(&payload)
        .filter(|_| vouched && belongs)
        .ok_or_else(|| family.damaged("the index of the set is damaged"))?;
    if manifest.is_none_or(|m| m.frames != index.len() as u64) {
        return Err(family.damaged("frames are missing in the index of the set"));
    }
    let within = |e: &IndexEntry| {
        e.offset
            .checked_add(frame_bytes(e))
            .is_some_and(|end| end <= entry.index)
    };
    if !index.iter().all(within) {
        return Err(family.damaged("the index of the set leads out of it"));
    }
    Ok(index)
}

/// Adjacent frames of a family, together up to `most` bytes.
fn batches_of(family: usize, index: &[IndexEntry], most: u64) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut bytes = 0;
    for (at, entry) in index.iter().enumerate() {
        let adjacent = at > 0
            && index
                .get(at - 1)
                .is_some_and(|before| before.offset + frame_bytes(before) == entry.offset);
        match batches.last_mut() {
            Some(batch) if adjacent && bytes + frame_bytes(entry) <= most => {
                batch.count += 1;
                bytes += frame_bytes(entry);
            }
            _ => {
                batches.push(Batch {
                    family,
                    first: at,
                    count: 1,
                });
                bytes = frame_bytes(entry);
            }
        }
    }
    batches
}
