//! Pages and versions put aside: where recovery keeps what may not be written yet when it has no frame left for it.
//!
//! Theory: a page with entries of a loser waits until their versions are on pages (`VersionStore::holds_back`), and redo
//! cannot give versions pages: what is allocated is known only at its end. With as many frames as before the crash such
//! pages fit into memory; with fewer they go to a scratch file, and so do the versions that redo rebuilds. When redo is
//! over the versions are placed, the pages are brought back, and both are written as at any other time. Versions that find no
//! page, in a full file on a full disk, leave all as it is until they are needed no more (`database::scarce`): the database is
//! in use meanwhile.
//!
//! Invariants
//! 1. Nothing depends on the file after a crash: a page put aside stays older on disk, and redo repeats it.
//! 2. A page is in a frame or here, never in both. Its frame has left the pool's table before it is put here, under the
//!    latch of this store, so that who misses it in the table finds it here.
//! 3. What is read back has the checksum of what was written.
//! 4. No page moves between a frame and this place while [`Aside::with_min_rec_lsn`] looks at both.

use crate::error::{Result, StorageError};
use crate::page::{PAGE_BYTES, Page};
use crate::sync::{Mutex, MutexGuard};
use crate::version::CHUNK_BYTES;
use daruma_base::{Disk, DiskFile, OpenMode, PageId, reached};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often a piece is read before its damage is believed.
const READ_TRIES: usize = 4;
/// Room for one chunk of versions.
const CHUNK_ROOM_BYTES: u64 = CHUNK_BYTES.next_multiple_of(PAGE_BYTES) as u64;

/// The place for pages and versions of one database while it is recovered.
#[derive(Default)]
pub struct Aside {
    /// May frames be emptied into it?
    is_open: AtomicBool,
    /// Is there anything in it? Spares those who miss a page the latch.
    is_used: AtomicBool,
    state: Mutex<Option<Scratch>>,
}

/// Notes of a page's frame besides the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameNotes {
    pub rec_lsn: u64,
    pub waits_for: Vec<u32>,
}

/// The scratch file and what is in it.
pub struct Scratch {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Created with the first piece.
    file: Option<Arc<dyn DiskFile>>,
    end: u64,
    pages: HashMap<u64, (Piece, FrameNotes)>,
    chunks: HashMap<u32, Piece>,
    free_pages: Vec<u64>,
    free_chunks: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Piece {
    at: u64,
    len: usize,
    sum: u32,
}

impl Aside {
    /// Takes room for so many pages on the disk: for those that change places with pages that come back.
    pub fn reserve(&self, pages: usize) -> Result<()> {
        let mut state = self.state.lock();
        let Some(scratch) = state.as_mut().filter(|_| self.is_open()) else {
            return Ok(());
        };
        self.is_used.store(true, Ordering::Release);
        while scratch.free_pages.len() < pages {
            let piece = scratch.append(Page::zeroed().bytes(), PAGE_BYTES as u64)?;
            scratch.free_pages.push(piece.at);
        }
        Ok(())
    }

    /// From here on pages may be put aside into the file at `path`. One that a crash left there goes; where it cannot,
    /// that matters only when the file is needed.
    pub fn open(&self, disk: &Arc<dyn Disk>, path: PathBuf) {
        remove(disk, &path);
        *self.state.lock() = Some(Scratch {
            disk: disk.clone(),
            path,
            file: None,
            end: 0,
            pages: HashMap::new(),
            chunks: HashMap::new(),
            free_pages: Vec::new(),
            free_chunks: Vec::new(),
        });
        self.is_open.store(true, Ordering::Release);
    }

    /// Does recovery run, so that pages may be put aside?
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Is anything in the scratch file?
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// No more pages come; those that are here can still be taken.
    pub fn shut(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Forgets what is here and removes the file. One that cannot be removed holds nothing that anybody needs: the next start removes it.
    pub fn close(&self) {
        self.shut();
        self.is_used.store(false, Ordering::Release);
        if let Some(Scratch {
            disk,
            path,
            file: Some(file),
            ..
        }) = self.state.lock().take()
        {
            file.release();
            drop(file);
            remove(&disk, &path);
        }
    }

    /// The latch under which frames are emptied; nothing when no page may be put aside.
    pub fn lock(&self) -> Option<AsideLock<'_>> {
        let state = self.state.lock();
        (self.is_open() && state.is_some()).then_some(AsideLock { aside: self, state })
    }

    /// Gives back a page, which is here no more, and sets where its redo begins in `rec_lsn`. `None` when it is not here.
    pub fn take_page(
        &self,
        id: PageId,
        page: &mut Page,
        rec_lsn: &AtomicU64,
    ) -> Result<Option<FrameNotes>> {
        if !self.is_used() {
            return Ok(None);
        }
        let mut state = self.state.lock();
        let Some(scratch) = state.as_mut() else {
            return Ok(None);
        };
        let Some((piece, notes)) = scratch.pages.get(&id.to_u64()).cloned() else {
            return Ok(None);
        };
        scratch.read(piece, page.bytes_mut())?;
        rec_lsn.store(notes.rec_lsn, Ordering::Release);
        scratch.pages.remove(&id.to_u64());
        scratch.free_pages.push(piece.at);
        Ok(Some(notes))
    }

    /// Any page that is here.
    pub fn next_page(&self) -> Option<PageId> {
        let state = self.state.lock();
        let id = state.as_ref()?.pages.keys().next().copied();
        id.map(PageId::from_u64)
    }

    /// Tells `look` the oldest position at which redo of a page here begins. No page comes or goes until it returns.
    pub fn with_min_rec_lsn<R>(&self, look: impl FnOnce(Option<u64>) -> R) -> R {
        let state = self.state.lock();
        let pages = state.iter().flat_map(|scratch| scratch.pages.values());
        look(pages.map(|(_, notes)| notes.rec_lsn).min())
    }

    /// Puts the bytes of a chunk of versions aside.
    pub fn put_chunk(&self, id: u32, bytes: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let Some(scratch) = state.as_mut() else {
            return Ok(());
        };
        self.is_used.store(true, Ordering::Release);
        let piece = match scratch.free_chunks.last().copied() {
            Some(at) => scratch.write(at, bytes)?,
            None => scratch.append(bytes, CHUNK_ROOM_BYTES)?,
        };
        scratch.free_chunks.pop();
        scratch.chunks.insert(id, piece);
        Ok(())
    }

    /// Gives back the bytes of a chunk, which are here no more. `None` when they are not here.
    pub fn take_chunk(&self, id: u32) -> Result<Option<Vec<u8>>> {
        if !self.is_used() {
            return Ok(None);
        }
        let mut state = self.state.lock();
        let Some(scratch) = state.as_mut() else {
            return Ok(None);
        };
        let Some(piece) = scratch.chunks.get(&id).copied() else {
            return Ok(None);
        };
        let mut bytes = vec![0; piece.len];
        scratch.read(piece, &mut bytes)?;
        scratch.chunks.remove(&id);
        scratch.free_chunks.push(piece.at);
        Ok(Some(bytes))
    }

    /// The bytes of a chunk, which stay here. `None` when they are not here.
    pub fn read_chunk(&self, id: u32) -> Result<Option<Vec<u8>>> {
        let state = self.state.lock();
        let Some(scratch) = state.as_ref() else {
            return Ok(None);
        };
        let Some(piece) = scratch.chunks.get(&id).copied() else {
            return Ok(None);
        };
        let mut bytes = vec![0; piece.len];
        scratch.read(piece, &mut bytes).map(|()| Some(bytes))
    }

    /// Are versions here?
    pub fn has_chunks(&self) -> bool {
        self.is_used() && self.state.lock().iter().any(|s| !s.chunks.is_empty())
    }
}

impl Aside {
    /// Bytes of versions that are here.
    #[cfg(test)]
    pub fn chunk_bytes(&self) -> u64 {
        let state = self.state.lock();
        let chunks = state.iter().flat_map(|s| s.chunks.values());
        chunks.map(|piece| piece.len as u64).sum()
    }

    /// The bytes of a chunk, if they are here, are of no use any more.
    pub fn forget_chunk(&self, id: u32) {
        if !self.is_used() {
            return;
        }
        let mut state = self.state.lock();
        if let Some(scratch) = state.as_mut()
            && let Some(piece) = scratch.chunks.remove(&id)
        {
            scratch.free_chunks.push(piece.at);
        }
    }
}

/// See [`Aside::lock`].
pub struct AsideLock<'a> {
    aside: &'a Aside,
    state: MutexGuard<'a, Option<Scratch>>,
}

impl AsideLock<'_> {
    /// Keeps a changed page in the scratch file, with the notes of its frame.
    pub fn put_page(&mut self, id: PageId, page: &Page, notes: FrameNotes) -> Result<()> {
        let Some(scratch) = self.state.as_mut() else {
            return Ok(());
        };
        reached!("aside.page");
        self.aside.is_used.store(true, Ordering::Release);
        let piece = match scratch.free_pages.last().copied() {
            Some(at) => scratch.write(at, page.bytes())?,
            None => scratch.append(page.bytes(), PAGE_BYTES as u64)?,
        };
        scratch.free_pages.pop();
        scratch.pages.insert(id.to_u64(), (piece, notes));
        Ok(())
    }
}

impl Scratch {
    /// A piece at the end of the file, which has `room` for it and others after it.
    fn append(&mut self, bytes: &[u8], room: u64) -> Result<Piece> {
        let piece = self.write(self.end, bytes)?;
        self.end += room;
        Ok(piece)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<Piece> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = self.disk.open(&self.path, OpenMode::CreatePrivate);
                let file = file.map_err(|e| self.failed("create", e))?;
                self.file = Some(file.clone());
                file
            }
        };
        file.write_at(bytes, at)
            .map_err(|e| self.failed("write", e))?;
        Ok(Piece {
            at,
            len: bytes.len(),
            sum: crc32c::crc32c(bytes),
        })
    }

    /// Fills `out`, whose length is the piece's.
    fn read(&self, piece: Piece, out: &mut [u8]) -> Result<()> {
        for _ in 0..READ_TRIES {
            if let Some(file) = &self.file {
                file.read_at(out, piece.at)
                    .map_err(|e| self.failed("read", e))?;
            }
            if crc32c::crc32c(out) == piece.sum {
                return Ok(());
            }
        }
        Err(StorageError::BadFile {
            path: self.path.clone(),
            what: format!("what was put aside at {} came back damaged", piece.at),
        })
    }

    fn failed(&self, action: &'static str, source: io::Error) -> StorageError {
        StorageError::Io {
            action,
            path: self.path.clone(),
            source,
        }
    }
}

/// Best effort, as the callers say.
fn remove(disk: &Arc<dyn Disk>, path: &std::path::Path) {
    if matches!(disk.exists(path), Ok(true)) {
        let _ = disk.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_sim::SimDisk;
    use std::path::Path;

    const PATH: &str = "/t.mdf.aside";

    fn page(number: u32) -> (PageId, Page) {
        let id = PageId::new(1, number);
        let mut page = Page::zeroed();
        page.format(id, crate::page::PageType::Tree, 0, id);
        (id, page)
    }

    #[test]
    fn what_is_put_aside_comes_back_once_and_its_room_is_used_again() {
        let disk: Arc<dyn Disk> = SimDisk::new(1);
        disk.open(Path::new(PATH), OpenMode::CreateNew)
            .expect("left by a crash");
        let aside = Aside::default();
        assert!(
            aside.lock().is_none(),
            "nothing goes aside before it is open"
        );
        aside.open(&disk, PATH.into());
        assert!(!disk.exists(Path::new(PATH)).expect("looks"));
        let mut blank = Page::zeroed();
        for round in 0..3u64 {
            for number in 200..210 {
                let (id, page) = page(number);
                let notes = FrameNotes {
                    rec_lsn: 1_000 + round * 100 + u64::from(number),
                    waits_for: vec![number],
                };
                let mut lock = aside.lock().expect("is open");
                lock.put_page(id, &page, notes).expect("writes");
            }
            aside.put_chunk(7, &[round as u8; 300]).expect("writes");
            let oldest = aside.with_min_rec_lsn(|oldest| oldest);
            assert_eq!(oldest, Some(1_200 + round * 100));
            for number in 200..210 {
                let (id, page) = page(number);
                let rec_lsn = AtomicU64::new(0);
                let mut take = || aside.take_page(id, &mut blank, &rec_lsn);
                let notes = take().expect("reads").expect("is here");
                assert_eq!(take().expect("looks"), None);
                assert_eq!(notes.waits_for, [number]);
                assert_eq!(rec_lsn.into_inner(), notes.rec_lsn);
                assert_eq!(blank.bytes(), page.bytes());
            }
            let versions = aside.read_chunk(7).expect("reads");
            assert_eq!(versions, Some(vec![round as u8; 300]));
            let versions = aside.take_chunk(7).expect("reads");
            assert_eq!(versions, Some(vec![round as u8; 300]));
            assert_eq!(aside.take_chunk(7).expect("looks"), None);
            assert_eq!(aside.read_chunk(7).expect("looks"), None);
        }
        let file = disk.open(Path::new(PATH), OpenMode::ReadOnly);
        let room = 10 * PAGE_BYTES as u64 + CHUNK_ROOM_BYTES;
        assert!(file.and_then(|f| f.len()).expect("a length") <= room);
        let (id, kept) = page(300);
        let mut lock = aside.lock().expect("is open");
        lock.put_page(id, &kept, FrameNotes::default())
            .expect("writes");
        drop(lock);
        let taken = aside.take_page(id, &mut Page::zeroed(), &AtomicU64::new(0));
        assert!(taken.expect("reads").is_some());
        assert_eq!(aside.next_page(), None);
        aside.close();
        assert!(!disk.exists(Path::new(PATH)).expect("looks"));
    }
}
