//! Writing a media set: frames are dealt out to whichever family is free.
//!
//! Theory: a family gathers frames in a piece (a megabyte, more for object storage). A piece that is full goes into the queue
//! of writes, and whoever filled it goes on: several writes to one device are under way at once, and none of them is small.
//!
//! Invariants
//! 1. A file gets its name only after every family is whole and durable.
//! 2. Frames of a set are numbered without holes in each family; the index has an entry for each.

use crate::cipher::{Cipher, Encryption, Envelope};
use crate::codec::Compression;
use crate::device::{Device, Target};
use crate::error::{BackupError, Result};
use crate::frame::{FRAME_HEADER_BYTES, Header, IndexEntry, Kind, SEAL_BYTES, checksum_of};
use crate::media::open_device;
use crate::meta::{Directory, DirectoryEntry, FamilyManifest, MediaInfo, Random16, SetInfo};
use crate::queue::{Piece, WriteQueue};
use daruma_base::Env;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most device files of one backup.
pub const FAMILIES_MAX: usize = 64;
/// Writes under way: so many for each device file, at least and at most so many for all, and no more than fit into so many
/// bytes. A device that serves several requests at once wants a few of each; one that does not loses nothing by it.
const LANES_PER_FAMILY: usize = 8;
const LANES_MIN: usize = 16;
const LANES_MAX: usize = 64;
const LANES_BYTES: usize = 128 << 20;
const LANES_OF_LARGE_PIECES: usize = 4;

/// Where a backup goes.
#[derive(Clone)]
pub struct Destination {
    pub devices: Vec<Arc<dyn Device>>,
    /// Up to three further copies of every family.
    pub mirrors: Vec<Vec<Arc<dyn Device>>>,
    /// Replace what is there (INIT); otherwise go on behind it.
    pub overwrite: bool,
    /// Do not even look at what is there (FORMAT).
    pub format: bool,
}

/// Label of a new media set.
#[derive(Clone, Debug, Default)]
pub struct MediaLabel {
    pub name: Option<String>,
    pub description: Option<String>,
    pub software: String,
}

/// How hard to work.
#[derive(Clone)]
pub struct Tuning {
    pub compression: Compression,
    /// Bytes read and compressed at once.
    pub transfer_bytes: usize,
    pub block_bytes: u32,
    /// How many threads may compute at once.
    pub processors: usize,
    /// Writes under way at once; 0 chooses.
    pub buffers: usize,
    pub encryption: Option<Encryption>,
    /// The level of ZSTD is to be chosen while the backup runs.
    pub choose_level: bool,
    /// Store pages that are damaged as they are, instead of giving up (CONTINUE_AFTER_ERROR).
    pub keep_damaged: bool,
}

impl Tuning {
    /// The defaults of BACKUP on a machine with so many processors: ZSTD at its fastest, 1 MiB at once.
    pub fn new(processors: usize) -> Tuning {
        Tuning {
            compression: Compression::ZSTD_FAST,
            transfer_bytes: 1 << 20,
            block_bytes: 4096,
            processors,
            buffers: 0,
            encryption: None,
            choose_level: false,
            keep_damaged: false,
        }
    }

    /// Threads that read and compress: one reads while another computes.
    pub fn threads(&self) -> usize {
        2 * self.processors
    }

    /// How many pieces of so many bytes may be written at once.
    fn lanes(&self, families: usize, piece_bytes: usize) -> usize {
        if self.buffers > 0 {
            return self.buffers.min(LANES_MAX);
        }
        let most = (LANES_BYTES / piece_bytes.max(1)).max(LANES_OF_LARGE_PIECES);
        let wanted = (LANES_PER_FAMILY * families).clamp(LANES_MIN, LANES_MAX);
        wanted.min(most)
    }
}

struct Family {
    number: u16,
    device: String,
    targets: Vec<Arc<dyn Target>>,
    piece_bytes: usize,
    /// Pieces that are not written yet.
    unwritten: AtomicUsize,
    state: Mutex<FamilyState>,
}

#[derive(Default)]
struct FamilyState {
    piece: Vec<u8>,
    piece_offset: u64,
    piece_number: u32,
    begin: u64,
    index: Vec<IndexEntry>,
    bytes: u64,
    directory: Directory,
}

impl FamilyState {
    fn offset(&self) -> u64 {
        self.piece_offset + self.piece.len() as u64
    }

    fn push(&mut self, header: &[u8; FRAME_HEADER_BYTES], payload: &[u8]) {
        self.piece.extend_from_slice(header);
        self.piece.extend_from_slice(payload);
    }

    /// The piece as it is; the next one is gathered in `buffer`.
    fn take(&mut self, family: usize, buffer: Vec<u8>) -> Piece {
        let offset = self.piece_offset;
        let number = self.piece_number;
        let bytes = std::mem::replace(&mut self.piece, buffer);
        self.piece_offset += bytes.len() as u64;
        self.piece_number += 1;
        Piece {
            family,
            bytes,
            offset,
            number,
        }
    }
}

/// A backup set being written.
pub struct MediaWriter {
    families: Arc<Vec<Family>>,
    queue: WriteQueue,
    position: u32,
    set: Random16,
    cipher: Option<(Cipher, Envelope)>,
    turn: AtomicUsize,
    published: bool,
}

impl MediaWriter {
    /// Opens the devices and checks that the set may go there. Nothing is changed that counts.
    pub fn open(
        env: &Env,
        destination: &Destination,
        label: &MediaLabel,
        tuning: &Tuning,
    ) -> Result<MediaWriter> {
        let count = destination.devices.len();
        if count == 0 || count > FAMILIES_MAX {
            return Err(BackupError::Unusable(format!("{count} backup devices")));
        }
        if destination.mirrors.iter().any(|m| m.len() != count) {
            return Err(BackupError::Unusable(
                "every mirror needs as many devices as the backup".into(),
            ));
        }
        let existing = existing_media(destination)?;
        let set = Random16::new(env.random.as_ref());
        let encryption = tuning.encryption.as_ref();
        let cipher = encryption
            .map(|e| Cipher::create(env.random.as_ref(), e, set.short()))
            .transpose()?;
        let media = match &existing {
            Some((info, ..)) => info.clone(),
            None => MediaInfo {
                media: Random16::new(env.random.as_ref()),
                family: 1,
                families: count as u16,
                mirrors: destination.mirrors.len() as u16,
                name: label.name.clone(),
                description: label.description.clone(),
                created_utc: env.clock.utc_100ns(),
                block_bytes: tuning.block_bytes,
                compressed: tuning.compression != Compression::None,
                software: label.software.clone(),
            },
        };
        let mut opened = Opened(Vec::new());
        for at in 0..count {
            let before = existing.as_ref().and_then(|(_, _, ends)| ends.get(at));
            let family = open_family(&media, destination, at, before, tuning)?;
            opened.0.push(family);
        }
        let families = Arc::new(std::mem::take(&mut opened.0));
        let piece_bytes = families.iter().map(|f| f.piece_bytes).max().unwrap_or(0);
        let written = families.clone();
        Ok(MediaWriter {
            queue: WriteQueue::new(tuning.lanes(count, piece_bytes), move |piece| {
                written[piece.family].write(piece)
            }),
            families,
            position: existing.as_ref().map_or(1, |(_, next, _)| *next),
            set,
            cipher,
            turn: AtomicUsize::new(0),
            published: false,
        })
    }

    /// The writes under way.
    pub fn queue(&self) -> &WriteQueue {
        &self.queue
    }

    /// Position of the set in its media, from 1.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The set's identifier.
    pub fn set(&self) -> Random16 {
        self.set
    }

    /// Envelope of the key, for the description.
    pub fn envelope(&self) -> Option<&Envelope> {
        self.cipher.as_ref().map(|(_, envelope)| envelope)
    }

    /// Says what is to come, for a reader of a backup that was killed.
    pub fn begin(&self, info: &SetInfo) -> Result<()> {
        let payload = json(info)?;
        for family in self.families.iter() {
            let header = self.header(Kind::SetBegin, family, &payload);
            family.state.lock().push(&header.encode(), &payload);
        }
        Ok(())
    }

    fn header(&self, kind: Kind, family: &Family, payload: &[u8]) -> Header {
        Header::plain(
            kind,
            family.number,
            self.position,
            self.set.short(),
            payload,
        )
    }

    /// Adds a frame to the family that has least to do. `range` is what the index says it holds. Whether it could be written
    /// shows later: see [`WriteQueue::has_failed`].
    pub fn add(
        &self,
        kind: Kind,
        codec: Compression,
        plain_bytes: usize,
        stored: &[u8],
        items: u32,
        range: (u64, u64),
    ) -> Result<()> {
        let at = self.freest();
        let family = &self.families[at];
        let mut header = Header {
            codec,
            plain_bytes: plain_bytes as u32,
            items,
            ..self.header(kind, family, stored)
        };
        let full = {
            let mut state = family.state.lock();
            header.number = state.index.len() as u64;
            let offset = state.offset();
            let encoded = self.push(&mut state, &mut header, stored)?;
            state.index.push(IndexEntry {
                offset,
                stored_bytes: stored.len() as u32,
                header_checksum: checksum_of(&encoded),
                kind,
                items,
                first: range.0,
                last: range.1,
            });
            state.bytes += (FRAME_HEADER_BYTES + stored.len()) as u64;
            (state.piece.len() >= family.piece_bytes)
                .then(|| state.take(at, self.queue.buffer(family.piece_bytes * 2)))
        };
        if let Some(piece) = full {
            self.push_piece(piece);
        }
        Ok(())
    }

    fn push_piece(&self, piece: Piece) {
        let unwritten = &self.families[piece.family].unwritten;
        unwritten.fetch_add(1, Ordering::AcqRel);
        self.queue.push(piece);
    }

    /// Adds a frame to the piece, encrypted if the set is: its number is known here only, and part of the seal.
    fn push(
        &self,
        state: &mut FamilyState,
        header: &mut Header,
        stored: &[u8],
    ) -> Result<[u8; FRAME_HEADER_BYTES]> {
        let Some((cipher, _)) = &self.cipher else {
            let encoded = header.encode();
            state.push(&encoded, stored);
            return Ok(encoded);
        };
        let mut payload = stored.to_vec();
        cipher.seal(header, &mut payload)?;
        header.payload_checksum = crc32c::crc32c(&payload);
        let encoded = header.encode();
        state.push(&encoded, &payload);
        Ok(encoded)
    }

    fn freest(&self) -> usize {
        let count = self.families.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let in_turn = (0..count).map(|n| (turn + n) % count);
        in_turn
            .min_by_key(|at| self.families[*at].unwritten.load(Ordering::Acquire))
            .unwrap_or(0)
    }

    /// Bytes of all frames so far, as stored.
    pub fn stored_bytes(&self) -> u64 {
        self.families.iter().map(|f| f.state.lock().bytes).sum()
    }

    /// Writes indexes and the description, makes everything durable, and gives the files their names.
    pub fn finish(mut self, info: &mut SetInfo) -> Result<()> {
        let mut indexes = Vec::new();
        info.manifest.clear();
        for family in self.families.iter() {
            let state = family.state.lock();
            let mut index = Vec::new();
            state.index.iter().for_each(|e| e.write(&mut index));
            info.manifest.push(FamilyManifest {
                frames: state.index.len() as u64,
                bytes: state.bytes,
                index_checksum: crc32c::crc32c(&index),
            });
            indexes.push(index);
        }
        // Devices may have been named in another order than when the media set was formatted.
        let mut order: Vec<usize> = (0..self.families.len()).collect();
        order.sort_by_key(|at| self.families[*at].number);
        info.manifest = order.iter().map(|at| info.manifest[*at]).collect();
        let description = json(info)?;
        let seal = match &self.cipher {
            Some((cipher, _)) => cipher.sign(&description)?,
            None => [0; SEAL_BYTES],
        };
        for (at, index) in indexes.iter().enumerate() {
            self.close_family(at, index, &description, &seal)?;
        }
        self.queue.close()?;
        std::thread::scope(|scope| {
            let sealing: Vec<_> = self
                .families
                .iter()
                .map(|f| scope.spawn(move || f.seal()))
                .collect();
            sealing.into_iter().try_for_each(|s| {
                s.join()
                    .unwrap_or_else(|_| Err(BackupError::Unusable("a thread panicked".into())))
            })
        })?;
        self.families.iter().try_for_each(Family::check)?;
        self.published = true;
        self.families.iter().try_for_each(Family::publish)
    }

    fn close_family(
        &self,
        at: usize,
        index: &[u8],
        description: &[u8],
        seal: &[u8; SEAL_BYTES],
    ) -> Result<()> {
        let family = &self.families[at];
        let mut state = family.state.lock();
        let index_at = state.offset();
        let header = self.header(Kind::Index, family, index);
        state.push(&header.encode(), index);
        let end = state.offset();
        let header = Header {
            seal: *seal,
            ..self.header(Kind::SetEnd, family, description)
        };
        state.push(&header.encode(), description);
        let entry = DirectoryEntry {
            position: self.position,
            set: self.set,
            begin: state.begin,
            index: index_at,
            end,
        };
        state.directory.sets.push(entry);
        let directory_at = state.offset();
        let directory = json(&state.directory)?;
        let header = self.header(Kind::Directory, family, &directory);
        state.push(&header.encode(), &directory);
        let tail = Header {
            number: directory_at,
            ..self.header(Kind::Tail, family, &[])
        };
        state.push(&tail.encode(), &[]);
        let piece = state.take(at, Vec::new());
        drop(state);
        self.push_piece(piece);
        Ok(())
    }
}

impl Drop for MediaWriter {
    fn drop(&mut self) {
        self.queue.discard();
        if !self.published {
            self.families.iter().for_each(Family::abort);
        }
    }
}

/// Families opened so far: should a later one fail, nothing of them is left.
struct Opened(Vec<Family>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.iter().for_each(Family::abort);
    }
}

fn open_family(
    media: &MediaInfo,
    destination: &Destination,
    at: usize,
    before: Option<&Existing>,
    tuning: &Tuning,
) -> Result<Family> {
    let device = &destination.devices[at];
    let number = before.map_or(at as u16 + 1, |e| e.family);
    let mut family = Family {
        number,
        device: device.name().to_string(),
        targets: Vec::new(),
        piece_bytes: device.piece_bytes().max(tuning.transfer_bytes),
        unwritten: AtomicUsize::new(0),
        state: Mutex::default(),
    };
    let copies = std::iter::once(device).chain(destination.mirrors.iter().map(|m| &m[at]));
    for copy in copies {
        let target = match before {
            Some(existing) => copy.append(existing.valid_bytes),
            None => copy.create(),
        };
        let target = target.map_err(|source| BackupError::Open {
            device: copy.name().to_string(),
            source,
        });
        match target {
            Ok(target) => family.targets.push(target),
            Err(error) => {
                family.abort();
                return Err(error);
            }
        }
    }
    let state = family.state.get_mut();
    match before {
        Some(existing) => {
            state.piece_offset = existing.valid_bytes;
            state.directory = existing.directory.clone();
        }
        None => {
            let label = MediaInfo {
                family: number,
                ..media.clone()
            };
            let label = json(&label)?;
            let header = Header::plain(Kind::Media, number, 0, 0, &label);
            state.push(&header.encode(), &label);
        }
    }
    state.begin = state.offset();
    Ok(family)
}

impl Family {
    fn io(&self, source: std::io::Error) -> BackupError {
        BackupError::Io {
            action: "write",
            device: self.device.clone(),
            source,
        }
    }

    fn write(&self, piece: &Piece) -> Result<()> {
        let mut targets = self.targets.iter();
        let written = targets
            .try_for_each(|t| t.write(&piece.bytes, piece.offset, piece.number))
            .map_err(|e| self.io(e));
        self.unwritten.fetch_sub(1, Ordering::AcqRel);
        written
    }

    fn abort(&self) {
        self.targets.iter().for_each(|t| t.abort());
    }

    fn seal(&self) -> Result<()> {
        let len = self.state.lock().offset();
        let mut targets = self.targets.iter();
        targets
            .try_for_each(|t| t.seal(len))
            .map_err(|e| self.io(e))
    }

    fn check(&self) -> Result<()> {
        let mut targets = self.targets.iter();
        targets.try_for_each(|t| t.check()).map_err(|e| self.io(e))
    }

    fn publish(&self) -> Result<()> {
        let mut targets = self.targets.iter();
        targets
            .try_for_each(|t| t.publish())
            .map_err(|e| self.io(e))
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| BackupError::Unusable(format!("description: {e}")))
}

struct Existing {
    family: u16,
    valid_bytes: u64,
    directory: Directory,
}

/// FORMAT makes a new medium of an old one, not of a file of somebody's.
fn refuse_foreign(device: &dyn Device) -> Result<()> {
    let replaceable = device.is_replaceable();
    let replaceable = replaceable.map_err(|source| BackupError::Open {
        device: device.name().to_string(),
        source,
    })?;
    match replaceable {
        true => Ok(()),
        false => Err(BackupError::Malformed {
            device: device.name().to_string(),
            what: "it is no backup, and not empty".to_string(),
        }),
    }
}

/// The media set to go on with: its label, the next position, and where each device ends. `None` for a new one.
fn existing_media(destination: &Destination) -> Result<Option<(MediaInfo, u32, Vec<Existing>)>> {
    let devices = &destination.devices;
    let mut there = Vec::new();
    for device in devices {
        let exists = device.exists().map_err(|source| BackupError::Open {
            device: device.name().to_string(),
            source,
        })?;
        there.push(exists);
    }
    if destination.format || !there.contains(&true) {
        let all = devices.iter().chain(destination.mirrors.iter().flatten());
        all.map(AsRef::as_ref).try_for_each(refuse_foreign)?;
        return Ok(None);
    }
    let count = devices.len() as u16;
    let mut media: Option<MediaInfo> = None;
    let mut ends = Vec::new();
    for (device, exists) in devices.iter().zip(there) {
        if !exists {
            if destination.overwrite {
                continue;
            }
            return Err(BackupError::Open {
                device: device.name().to_string(),
                source: std::io::ErrorKind::NotFound.into(),
            });
        }
        let family = open_device(device.as_ref())?;
        if family.info.families != count {
            return Err(BackupError::FamilyCount {
                device: family.device,
                expected: family.info.families,
                found: count,
            });
        }
        if !destination.overwrite && media.as_ref().is_some_and(|m| m.media != family.info.media) {
            return Err(BackupError::ForeignFamily {
                device: family.device,
            });
        }
        media.get_or_insert_with(|| family.info.clone());
        ends.push(Existing {
            family: family.info.family,
            valid_bytes: family.valid_bytes,
            directory: family.directory,
        });
    }
    if destination.overwrite {
        return Ok(None);
    }
    let last = ends.iter().flat_map(|e| &e.directory.sets);
    let next = last.map(|s| s.position).max().unwrap_or(0) + 1;
    Ok(media.map(|m| (m, next, ends)))
}
