//! Backup files.

use daruma_backup::{Device, MediaSet, Result, Source, Target, verify};
use std::io;
use std::sync::Arc;

const HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 4] = b"DBK1";

/// Bytes as a device file: its label, its sets, and everything in them. Checksums are put right first, or nothing behind
/// them would ever be reached.
pub fn backup(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend(&mut bytes);
    let device: Arc<dyn Device> = Arc::new(Memory(Arc::new(bytes)));
    let _ = read(&device);
}

fn read(device: &Arc<dyn Device>) -> Result<()> {
    let media = MediaSet::open_any(std::slice::from_ref(device))?;
    for position in media.positions() {
        media.set_info(position)?;
        let set = media.set(position)?;
        verify(&set, 1, &mut |_| Ok(()))?;
    }
    Ok(())
}

/// Sets the checksums of every header that begins as one should, and of its payload.
fn mend(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = find(bytes, at) {
        let end = found + HEADER_BYTES;
        let Some(header) = bytes.get(found..end) else {
            return;
        };
        let length = header.get(36..40).and_then(|b| b.try_into().ok());
        let length = u32::from_le_bytes(length.unwrap_or_default()) as usize;
        let payload = bytes
            .get(end..end.saturating_add(length))
            .unwrap_or_default();
        let sum = crc32c::crc32c(payload);
        let next = end + payload.len();
        put(bytes, found + 40, sum);
        let sum = crc32c::crc32c(bytes.get(found + 8..end).unwrap_or_default());
        put(bytes, found + 4, sum);
        at = next;
    }
}

fn find(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let at = rest.windows(MAGIC.len()).position(|w| w == MAGIC)?;
    Some(from + at)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// A device that can only be read.
struct Memory(Arc<Vec<u8>>);

impl Device for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn device_type(&self) -> u8 {
        2
    }

    fn exists(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn source(&self) -> io::Result<Arc<dyn Source>> {
        Ok(Arc::new(Memory(self.0.clone())))
    }

    fn create(&self) -> io::Result<Arc<dyn Target>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn append(&self, _: u64) -> io::Result<Arc<dyn Target>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Source for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.0.get(start..start.saturating_add(buf.len()));
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
