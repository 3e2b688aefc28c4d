//! Media sets: the device files that belong together, and the backup sets they hold.
//!
//! | found in a file | done |
//! |---|---|
//! | a tail at the end | its directory says which sets there are |
//! | no tail at the end, but one further in | an append was killed: the sets before it count, the rest does not |
//! | no tail at all | not a whole backup: refused |
//! | no label at the start | not a backup, or one whose first bytes name another format: refused |
//! | a set whose description names formats of a later release | refused before the rest of the description is read |
//! | one whose files are of an older format than this release opens | described; refused where its content is asked for |

use crate::cipher::Secret;
use crate::device::{Device, Source};
use crate::error::{BackupError, Result};
use crate::frame::{FRAME_HEADER_BYTES, Header, Kind};
use crate::meta::{Directory, DirectoryEntry, MediaInfo, SetInfo};
use crate::origin::{OriginOnly, other_medium};
use crate::reader::SetReader;
use std::sync::Arc;

/// One device file, opened.
pub struct FamilyReader {
    pub device: String,
    pub source: Arc<dyn Source>,
    pub info: MediaInfo,
    pub directory: Directory,
    /// End of the last tail: what lies behind does not count.
    pub valid_bytes: u64,
}

impl FamilyReader {
    /// A failed read of this family as an error.
    pub fn io(&self, source: std::io::Error) -> BackupError {
        BackupError::Io {
            action: "read",
            device: self.device.clone(),
            source,
        }
    }

    /// An error: what was read is no backup.
    pub fn malformed(&self, what: &str) -> BackupError {
        BackupError::Malformed {
            device: self.device.clone(),
            what: what.to_string(),
        }
    }

    /// An error: what was read was a backup once.
    pub fn damaged(&self, what: impl Into<String>) -> BackupError {
        BackupError::Damaged {
            device: self.device.clone(),
            what: what.into(),
        }
    }

    /// Header and stored payload of the frame at `offset`, both checked.
    pub fn frame(&self, offset: u64, kind: Kind) -> Result<(Header, Vec<u8>)> {
        let found = read_frame(self.source.as_ref(), offset).map_err(|e| self.io(e))?;
        match found {
            Some((header, payload)) if header.kind == kind => Ok((header, payload)),
            _ => Err(self.damaged(format!("no {kind:?} frame at offset {offset}"))),
        }
    }

    fn entry(&self, position: u32) -> Option<&DirectoryEntry> {
        self.directory.sets.iter().find(|s| s.position == position)
    }
}

/// `None` when there is no intact frame.
fn read_frame(source: &dyn Source, offset: u64) -> std::io::Result<Option<(Header, Vec<u8>)>> {
    let len = source.len()?;
    let Some(header) = read_header(source, offset, len)? else {
        return Ok(None);
    };
    let mut payload = vec![0; header.stored_bytes as usize];
    source.read_at(&mut payload, offset + FRAME_HEADER_BYTES as u64)?;
    Ok((crc32c::crc32c(&payload) == header.payload_checksum).then_some((header, payload)))
}

/// A header whose payload also lies within the file.
fn read_header(source: &dyn Source, offset: u64, len: u64) -> std::io::Result<Option<Header>> {
    let payload_at = offset.saturating_add(FRAME_HEADER_BYTES as u64);
    if payload_at > len {
        return Ok(None);
    }
    let mut bytes = [0; FRAME_HEADER_BYTES];
    source.read_at(&mut bytes, offset)?;
    let header = Header::decode(&bytes);
    Ok(header.filter(|h| u64::from(h.stored_bytes) <= len - payload_at))
}

/// `None` when there are fewer.
fn first_bytes(source: &dyn Source) -> std::io::Result<Option<[u8; 4]>> {
    let mut first = [0; 4];
    if source.len()? < first.len() as u64 {
        return Ok(None);
    }
    source.read_at(&mut first, 0)?;
    Ok(Some(first))
}

/// Opens a device and reads its label and directory.
pub fn open_device(device: &dyn Device) -> Result<FamilyReader> {
    let name = device.name().to_string();
    let source = device.source().map_err(|source| BackupError::Open {
        device: name.clone(),
        source,
    })?;
    let malformed = |what: &str| BackupError::Malformed {
        device: name.clone(),
        what: what.to_string(),
    };
    let io = |source| BackupError::Io {
        action: "read",
        device: name.clone(),
        source,
    };
    if let Some(refused) = first_bytes(source.as_ref())
        .map_err(io)?
        .and_then(other_medium)
    {
        return Err(refused);
    }
    let (header, label) = read_frame(source.as_ref(), 0)
        .map_err(io)?
        .filter(|(h, _)| h.kind == Kind::Media)
        .ok_or_else(|| malformed("it does not begin with a media label"))?;
    let info: MediaInfo =
        serde_json::from_slice(&label).map_err(|_| malformed("its label is unreadable"))?;
    if info.family != header.family || info.family == 0 || info.family > info.families {
        return Err(malformed("its label contradicts itself"));
    }
    let (tail, valid_bytes) = find_tail(source.as_ref())
        .map_err(io)?
        .ok_or_else(|| malformed("the backup was not finished, or its end is missing"))?;
    let mut family = FamilyReader {
        device: name.clone(),
        source,
        info,
        directory: Directory::default(),
        valid_bytes,
    };
    let (header, payload) = family.frame(tail.number, Kind::Directory)?;
    if header.family != family.info.family {
        return Err(malformed("its directory belongs to another family"));
    }
    family.directory =
        serde_json::from_slice(&payload).map_err(|_| malformed("its directory is unreadable"))?;
    Ok(family)
}

/// The last tail and where it ends.
fn find_tail(source: &dyn Source) -> std::io::Result<Option<(Header, u64)>> {
    let len = source.len()?;
    let at_end = match len.checked_sub(FRAME_HEADER_BYTES as u64) {
        Some(at) => read_header(source, at, len)?,
        None => None,
    };
    if let Some(tail) = at_end.filter(|h| h.kind == Kind::Tail) {
        return Ok(Some((tail, len)));
    }
    let (mut at, mut found) = (0, None);
    while let Some(header) = read_header(source, at, len)? {
        at += FRAME_HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        if header.kind == Kind::Tail {
            found = Some((header, at));
        }
    }
    Ok(found)
}

/// All families of a media set.
pub struct MediaSet {
    label: MediaInfo,
    /// By family; a family may be there several times (mirrors).
    families: Vec<Vec<Arc<FamilyReader>>>,
}

impl MediaSet {
    /// Opens devices in any order and checks that they are one complete media set.
    pub fn open(devices: &[Arc<dyn Device>]) -> Result<MediaSet> {
        let media = MediaSet::open_any(devices)?;
        media.check_complete()?;
        Ok(media)
    }

    /// As `open`, but some families may be missing: enough to read descriptions.
    pub fn open_any(devices: &[Arc<dyn Device>]) -> Result<MediaSet> {
        let readers = devices.iter().map(|d| open_device(d.as_ref()));
        MediaSet::assemble(readers.collect::<Result<Vec<_>>>()?)
    }

    fn assemble(readers: Vec<FamilyReader>) -> Result<MediaSet> {
        let Some(first) = readers.first().map(|r| r.info.clone()) else {
            return Err(BackupError::Unusable("no backup device is named".into()));
        };
        let mut families: Vec<Vec<Arc<FamilyReader>>> =
            (0..first.families).map(|_| Vec::new()).collect();
        for reader in readers {
            let (device, number) = (reader.device.clone(), reader.info.family);
            if reader.info.media != first.media || reader.info.families != first.families {
                return Err(BackupError::ForeignFamily { device });
            }
            let repeated = BackupError::RepeatedFamily {
                device,
                family: number,
            };
            match families.get_mut(usize::from(number) - 1) {
                Some(list) if list.len() <= usize::from(first.mirrors) => {
                    list.push(Arc::new(reader))
                }
                _ => return Err(repeated),
            }
        }
        Ok(MediaSet {
            label: first,
            families,
        })
    }

    /// Is every family there? Descriptions can be read from any of them, contents from all.
    fn check_complete(&self) -> Result<()> {
        let found = self.families.iter().filter(|f| !f.is_empty()).count() as u16;
        let expected = self.label.families;
        match found < expected {
            true => Err(BackupError::FamiliesMissing { expected, found }),
            false => Ok(()),
        }
    }

    /// The label of the device named first.
    pub fn info(&self) -> &MediaInfo {
        &self.label
    }

    /// Positions of the sets.
    pub fn positions(&self) -> Vec<u32> {
        let family = self.families.iter().flatten().next();
        let sets = family.map(|f| f.directory.sets.as_slice());
        sets.unwrap_or_default()
            .iter()
            .map(|s| s.position)
            .collect()
    }

    /// The description of a set, from the first device on which it is intact.
    pub fn set_info(&self, position: u32) -> Result<SetInfo> {
        let mut failure = None;
        for family in self.families.iter().flatten() {
            match info_in(family, position) {
                Ok(info) => return Ok(info),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| BackupError::Unusable("no backup device is named".into())))
    }

    /// A set that is not encrypted, ready to be read.
    pub fn set(&self, position: u32) -> Result<SetReader> {
        self.unlock(position, None)
    }

    /// A set, ready to be read: with its key if it is encrypted.
    pub fn unlock(&self, position: u32, secret: Option<&Secret>) -> Result<SetReader> {
        self.check_complete()?;
        let info = self.set_info(position)?;
        info.origin.check()?;
        let mut entries = Vec::new();
        for copies in &self.families {
            let mut places = Vec::new();
            for family in copies {
                let entry = family
                    .entry(position)
                    .filter(|e| e.set == info.set)
                    .ok_or_else(|| BackupError::NoSet {
                        device: family.device.clone(),
                        position,
                    })?;
                places.push((family.clone(), *entry));
            }
            entries.push(places);
        }
        SetReader::open(info, entries, secret)
    }
}

fn info_in(family: &FamilyReader, position: u32) -> Result<SetInfo> {
    let entry = family.entry(position).ok_or_else(|| BackupError::NoSet {
        device: family.device.clone(),
        position,
    })?;
    let (header, payload) = family.frame(entry.end, Kind::SetEnd)?;
    let unreadable = |_| family.malformed("the description of a set is unreadable");
    let first: OriginOnly = serde_json::from_slice(&payload).map_err(unreadable)?;
    first.origin.check_description()?;
    let info: SetInfo = serde_json::from_slice(&payload).map_err(unreadable)?;
    let same = info.set == entry.set
        && header.set == entry.set.short()
        && header.position == position
        && info.position == position;
    same.then_some(info)
        .ok_or_else(|| family.damaged("the description belongs to another set"))
}
