//! Data files: reading and writing whole pages, the doublewrite area, growth.
//!
//! ```text
//! primary file: 0 file header | 1 allocation | 2, 3 boot (two copies) | 16 catalog root | 31 doublewrite header
//!               32..160 doublewrite images | 160.. allocated on demand; another allocation page every 64,000 pages
//! other files:  0 file header | 1 allocation | 8.. allocated on demand
//! ```
//! Theory of the doublewrite area: pages are written in batches, first side by side into the area and synced, then
//! to their places and synced. A crash can tear a page in one of the two places only, never in both. Chosen over page
//! images in the log because it costs no log and is written by the background flusher alone
//! (docs/decisions/2026-11-21-torn-pages.md).

mod boot;

pub use boot::{BOOT_PAGES, Boot, decode_boot, encode_boot, encode_epochs};

use crate::api::{FileInfo, FileSpec, Growth};
use crate::bytes::*;
use crate::epoch::Epochs;
use crate::error::{Result, StorageError};
use crate::meter::{Meter, metered};
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use crate::planted::{Bug, planted};
use crate::sync::{Mutex, RwLock};
use daruma_base::{DiskFile, Env, OpenMode, PageId, reached};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// First bytes of a data file's header page.
pub const FILE_MAGIC: u64 = 0x0041_4D55_5241_4444; // "DDARUMA\0"
/// 2: the log has versions from where they get pages on.
/// 4: the boot page has the epochs of the log.
pub const FORMAT_VERSION: u32 = 4;

/// What to say of a format that is not this release's, and what to do about it.
pub(crate) fn unsupported(kind: &str, found: u32, own: u32) -> String {
    let (age, instead) = match found > own {
        true => ("a newer", "it cannot be opened by an older one"),
        false => (
            "an older",
            "open it with that release and copy the data from there",
        ),
    };
    format!(
        "{kind} format {found} is not supported: this release has format {own}, {age} one wrote it; {instead}"
    )
}
/// Root of the tree that definitions are in: the same page in every database.
pub const CATALOG_ROOT: PageId = PageId::new(1, 16);
const DOUBLE_WRITE_HEADER: u32 = 31;
/// Pages of the doublewrite area, the most that are written between two syncs of it.
pub const DOUBLE_WRITE_PAGES: usize = 128;
/// Images in the doublewrite area have their checksum changed by this: old ones stay there, and a read that lands on
/// one by mistake must not take it for the page.
const AREA_SEAL: u32 = 0x5EA1_AAAA;
/// First page of file 1 that is not at a fixed place.
pub const FIRST_FREE_PRIMARY: u32 = 160;
/// First page of any other file that is not at a fixed place.
pub const FIRST_FREE_OTHER: u32 = 8;
/// A file grows by so many pages past its limits.
const PAST_LIMITS_PAGES: u64 = 32;
/// By how many in all where that is for what a transaction may do again and again: more than one statement ever needs.
pub const PAST_LIMITS_PAGES_MAX: u64 = 1_024;
/// Space that a file keeps which is made anew in its old place.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// How often a page is read before its damage is believed.
const READ_TRIES: usize = 4;
/// How often a page of the doublewrite area is: one that is taken for torn there is written over, and with it the only copy of a
/// page that is torn in place.
const AREA_READ_TRIES: usize = 16;
/// Smallest primary file: the fixed pages and one extent.
pub const DATA_FILE_PAGES_MIN: u64 = 256;

struct DataFile {
    spec: FileSpec,
    file: Arc<dyn DiskFile>,
    meter: Meter,
    size_pages: AtomicU64,
    /// The same without what it has grown past its limits since it was opened.
    common_pages: AtomicU64,
    /// Growth step and largest size, which ALTER DATABASE may change; those of `spec` are what the file was opened with.
    limits: Mutex<(Growth, Option<u64>)>,
    /// Held while it is synced, until the outcome is known to all.
    syncing: Mutex<()>,
    /// No page is allocated in it any more: it is to be emptied or removed.
    is_closed: AtomicBool,
}

impl DataFile {
    fn pages_within_limits(&self) -> u64 {
        let common = self.common_pages.load(Ordering::Acquire);
        let (_, max_pages) = *self.limits.lock();
        max_pages.map_or(common, |max| common.min(max))
    }

    fn full(&self) -> StorageError {
        StorageError::FilegroupFull {
            filegroup: self.spec.filegroup,
            path: self.spec.path.clone(),
        }
    }
}

/// The data files of one database.
pub struct FileSet {
    env: Env,
    files: RwLock<Vec<Arc<DataFile>>>,
    /// Files that were here since the database was opened and are gone. A reader that is late may still look at a page that
    /// was freed in one of them: it finds an empty page, as it would find one that is somebody else's by now.
    gone: RwLock<Vec<u16>>,
    guid: u64,
    durable: bool,
    double_write: Mutex<Vec<u8>>,
    /// What the first sync, or write of pages, that failed said. The system tells of a lost write once, to whoever syncs next, and that may be
    /// somebody who only made a file longer: after it no sync of these files means anything.
    failure: OnceLock<String>,
    boot: boot::BootPage,
    grow: Mutex<()>,
}

/// File header and first allocation page of a new file.
pub fn first_pages(spec: &FileSpec, guid: u64) -> [Page; 2] {
    let mut header = Page::zeroed();
    header.format(
        PageId::new(spec.id, 0),
        PageType::FileHeader,
        0,
        PageId::NONE,
    );
    let b = &mut header.bytes_mut()[..];
    put_u64(b, HEADER_BYTES, FILE_MAGIC);
    put_u32(b, HEADER_BYTES + 8, FORMAT_VERSION);
    put_u16(b, HEADER_BYTES + 12, spec.filegroup);
    put_u64(b, HEADER_BYTES + 16, guid);
    header.seal();
    let first_free = if spec.id == 1 {
        FIRST_FREE_PRIMARY
    } else {
        FIRST_FREE_OTHER
    };
    let mut map = crate::alloc::new_bitmap(PageId::new(spec.id, 1), first_free);
    map.seal();
    [header, map]
}

fn io_error(action: &'static str, spec: &FileSpec) -> impl FnOnce(std::io::Error) -> StorageError {
    move |source| StorageError::Io {
        action,
        path: spec.path.clone(),
        source,
    }
}

/// Creates a file for content that needs not survive. One that is there keeps its space, up to a bound: on a disk that is
/// full otherwise there may be no other.
pub fn create_in_place(env: &Env, path: &Path) -> std::io::Result<Arc<dyn DiskFile>> {
    if !env.disk.exists(path)? {
        return env.disk.open(path, OpenMode::CreateNew);
    }
    let file = env.disk.open(path, OpenMode::ReadWrite)?;
    let bytes = file.len()?;
    let kept = bytes.min(KEPT_BYTES_MAX);
    if kept < bytes {
        file.set_len(kept)?;
    }
    // Pages and blocks of an earlier life are intact, and could be taken for new ones.
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < kept {
        let piece = zeros.get(..(kept - at).min(1 << 20) as usize);
        let piece = piece.unwrap_or_default();
        file.write_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(file)
}

/// A page number would mean two pages.
fn two_of_one_id(spec: &FileSpec) -> StorageError {
    StorageError::BadFile {
        path: spec.path.clone(),
        what: format!("another file of the database has its number, {}", spec.id),
    }
}

impl FileSet {
    /// Makes the files of a new database. `durable` is false for tempdb, whose files are never synced.
    pub fn create(specs: &[FileSpec], boot: Boot, durable: bool, env: &Env) -> Result<FileSet> {
        let set = FileSet {
            env: env.clone(),
            files: RwLock::default(),
            gone: RwLock::default(),
            guid: boot.guid,
            durable,
            double_write: Mutex::default(),
            failure: OnceLock::new(),
            boot: boot::BootPage::new(boot, Epochs::new(&*env.random)),
            grow: Mutex::new(()),
        };
        for spec in specs {
            set.make_file(spec, !durable)?;
        }
        set.write_boot(|_| {})?;
        Ok(set)
    }

    /// Makes one more file for a database in use.
    pub fn create_file(&self, spec: &FileSpec) -> Result<()> {
        self.make_file(spec, false)
    }

    fn make_file(&self, spec: &FileSpec, may_be_there: bool) -> Result<()> {
        if self.files.read().iter().any(|f| f.spec.id == spec.id) {
            return Err(two_of_one_id(spec));
        }
        let file = match may_be_there {
            true => create_in_place(&self.env, &spec.path),
            false => self.env.disk.open(&spec.path, OpenMode::CreateNew),
        };
        let file = file.map_err(io_error("create", spec))?;
        let least = if spec.id == 1 {
            DATA_FILE_PAGES_MIN
        } else {
            u64::from(FIRST_FREE_OTHER) * 2
        };
        let size = spec.size_pages.max(least);
        file.allocate(size * PAGE_BYTES as u64)
            .map_err(io_error("allocate", spec))?;
        for (at, page) in first_pages(spec, self.guid).iter().enumerate() {
            file.write_at(page.bytes(), (at * PAGE_BYTES) as u64)
                .map_err(io_error("write", spec))?;
        }
        file.sync_data().map_err(io_error("sync", spec))?;
        if let Some(dir) = spec.path.parent() {
            self.env
                .disk
                .sync_dir(dir)
                .map_err(io_error("sync directory of", spec))?;
        }
        let (file, meter) = metered(file, &self.env.clock);
        self.gone.write().retain(|id| *id != spec.id);
        self.files.write().push(Arc::new(DataFile {
            spec: spec.clone(),
            file,
            meter,
            size_pages: AtomicU64::new(size),
            common_pages: AtomicU64::new(size),
            limits: Mutex::new((spec.growth, spec.max_pages)),
            syncing: Mutex::new(()),
            is_closed: AtomicBool::new(false),
        }));
        Ok(())
    }

    /// Opens the files and syncs them: a process that died may have left writes that are not on disk yet. A file of
    /// another database, or of another format, is an error.
    pub fn open(specs: &[FileSpec], env: &Env) -> Result<FileSet> {
        let mut files: Vec<Arc<DataFile>> = Vec::new();
        let mut guid = None;
        for spec in specs {
            if files.iter().any(|f| f.spec.id == spec.id) {
                return Err(two_of_one_id(spec));
            }
            let file = env
                .disk
                .open(&spec.path, OpenMode::ReadWrite)
                .map_err(io_error("open", spec))?;
            // A process that died may have left writes that the system still holds back: recovery would take their
            // pages for safe and let go of the log that could repeat them.
            file.sync_data().map_err(io_error("sync", spec))?;
            let len = file.len().map_err(io_error("measure", spec))?;
            let bad = |what: String| StorageError::BadFile {
                path: spec.path.clone(),
                what,
            };
            let mut header = Page::zeroed();
            if len < 2 * PAGE_BYTES as u64 {
                return Err(bad("not a data file: too short".into()));
            }
            file.read_at(header.bytes_mut(), 0)
                .map_err(io_error("read", spec))?;
            let b = &header.bytes()[..];
            if get_u64(b, HEADER_BYTES) != FILE_MAGIC
                || header.stored_checksum() != header.compute_checksum()
            {
                return Err(bad("not a data file, or its header is damaged".into()));
            }
            if get_u32(b, HEADER_BYTES + 8) != FORMAT_VERSION {
                let found = get_u32(b, HEADER_BYTES + 8);
                return Err(bad(unsupported("file", found, FORMAT_VERSION)));
            }
            if header.id() != PageId::new(spec.id, 0) {
                return Err(bad(format!(
                    "it calls itself file {} of the database",
                    header.id().file
                )));
            }
            if *guid.get_or_insert(get_u64(b, HEADER_BYTES + 16)) != get_u64(b, HEADER_BYTES + 16) {
                return Err(bad("the file belongs to another database".into()));
            }
            let size = len / PAGE_BYTES as u64;
            let (file, meter) = metered(file, &env.clock);
            files.push(Arc::new(DataFile {
                spec: spec.clone(),
                file,
                meter,
                size_pages: AtomicU64::new(size),
                common_pages: AtomicU64::new(size),
                limits: Mutex::new((spec.growth, spec.max_pages)),
                syncing: Mutex::new(()),
                is_closed: AtomicBool::new(false),
            }));
        }
        let guid = guid.unwrap_or_default();
        let set = FileSet {
            env: env.clone(),
            files: RwLock::new(files),
            gone: RwLock::default(),
            guid,
            durable: true,
            double_write: Mutex::default(),
            failure: OnceLock::new(),
            boot: boot::BootPage::default(),
            grow: Mutex::new(()),
        };
        set.read_boot()?;
        Ok(set)
    }

    /// Identity that every file's header names.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    fn file(&self, id: u16) -> Result<Arc<DataFile>> {
        let files = self.files.read();
        files
            .iter()
            .find(|f| f.spec.id == id)
            .cloned()
            .ok_or_else(|| StorageError::DamagedPage {
                page: PageId::new(id, 0),
                path: files
                    .first()
                    .map(|f| f.spec.path.clone())
                    .unwrap_or_default(),
                what: "no such file in the database".into(),
            })
    }

    /// The open file itself, for reading it past the buffer pool.
    pub fn handle(&self, id: u16) -> Result<Arc<dyn DiskFile>> {
        Ok(self.file(id)?.file.clone())
    }

    /// Where the file lies; empty for a file that does not exist.
    pub fn path(&self, id: u16) -> PathBuf {
        self.file(id)
            .map(|f| f.spec.path.clone())
            .unwrap_or_default()
    }

    /// The data files as they are now; the pages in use are counted elsewhere.
    pub fn infos(&self) -> Vec<FileInfo> {
        let files = self.files.read();
        let info = |f: &Arc<DataFile>| {
            let (growth, max_pages) = *f.limits.lock();
            FileInfo {
                spec: FileSpec {
                    growth,
                    max_pages,
                    ..f.spec.clone()
                },
                size_pages: f.size_pages.load(Ordering::Relaxed),
                used_pages: 0,
                io: f.meter.stats(),
            }
        };
        files.iter().map(info).collect()
    }

    /// Nothing will be written any more: others may open the files.
    pub fn release(&self) {
        self.files.read().iter().for_each(|f| f.file.release());
    }

    /// Files of a filegroup in which pages may be allocated.
    pub fn of_filegroup(&self, filegroup: u16) -> Vec<u16> {
        self.files
            .read()
            .iter()
            .filter(|f| f.spec.filegroup == filegroup && !f.is_closed.load(Ordering::Acquire))
            .map(|f| f.spec.id)
            .collect()
    }

    /// May no page be allocated in this file? To be asked again under the latch of the allocation page.
    pub fn is_closed(&self, id: u16) -> bool {
        self.file(id)
            .map_or(true, |f| f.is_closed.load(Ordering::Acquire))
    }

    /// Ends or allows allocation in a file. What it was before.
    pub fn set_closed(&self, id: u16, is_closed: bool) -> Result<bool> {
        Ok(self.file(id)?.is_closed.swap(is_closed, Ordering::AcqRel))
    }

    /// A file without content leaves the database. Others may open it, or delete it.
    pub fn forget_file(&self, id: u16) {
        self.gone.write().push(id);
        let mut files = self.files.write();
        files
            .iter()
            .filter(|f| f.spec.id == id)
            .for_each(|f| f.file.release());
        files.retain(|f| f.spec.id != id);
    }

    /// Was a file of this id here since the database was opened?
    pub fn is_gone(&self, id: u16) -> bool {
        self.gone.read().contains(&id)
    }

    /// Filegroup of a file, 1 for one that does not exist.
    pub fn filegroup_of(&self, file: u16) -> u16 {
        self.file(file).map_or(1, |f| f.spec.filegroup)
    }

    /// Size of a file, 0 for one that does not exist.
    pub fn size_pages(&self, file: u16) -> u64 {
        self.file(file)
            .map_or(0, |f| f.size_pages.load(Ordering::Acquire))
    }

    /// The same, without what it has grown past its limits.
    pub fn size_pages_within_limits(&self, file: u16) -> u64 {
        self.file(file).map_or(0, |f| f.pages_within_limits())
    }

    /// Reads a page and checks its checksum, identity and structure. An all-zero page is passed on as it is: it was
    /// allocated by the file system and never written. What fails is read again before it is believed: controllers
    /// and cables err for a moment more often than disks lose a page.
    pub fn read(&self, id: PageId, page: &mut Page) -> Result<()> {
        let mut result = self.read_once(id, page);
        for _ in 1..READ_TRIES {
            match &result {
                Err(StorageError::BadPage { .. } | StorageError::DamagedPage { .. }) => {}
                // Also what a read that lost its way finds.
                Ok(()) if page.is_zero() => {}
                _ => break,
            }
            reached!("read.again");
            result = self.read_once(id, page);
        }
        result
    }

    fn read_once(&self, id: PageId, page: &mut Page) -> Result<()> {
        let file = match self.file(id.file) {
            Err(_) if self.is_gone(id.file) => {
                page.bytes_mut().fill(0);
                return Ok(());
            }
            file => file?,
        };
        let at = u64::from(id.page) * PAGE_BYTES as u64;
        file.file
            .read_at(page.bytes_mut(), at)
            .map_err(io_error("read page of", &file.spec))?;
        if page.is_zero() {
            return Ok(());
        }
        let (expected, found) = (page.compute_checksum(), page.stored_checksum());
        if expected != found && !planted(Bug::IgnoreChecksum) {
            return Err(StorageError::BadPage {
                page: id,
                path: file.spec.path.clone(),
                expected,
                found,
            });
        }
        let damaged = |what: String| StorageError::DamagedPage {
            page: id,
            path: file.spec.path.clone(),
            what,
        };
        if page.id() != id {
            return Err(damaged(format!("it calls itself {}", page.id())));
        }
        page.validate().map_err(|what| damaged(what.into()))
    }

    /// Writes sealed pages durably: doublewrite area first, then in place. At most `DOUBLE_WRITE_PAGES`.
    pub fn write(&self, pages: &[Page]) -> Result<()> {
        assert!(pages.len() <= DOUBLE_WRITE_PAGES);
        if pages.is_empty() {
            return Ok(());
        }
        let mut area = self.double_write.lock();
        // What a failed write tore has its only good copy in the area, and so has what a failed sync may have lost: the area is
        // not written over any more.
        if let Some(cause) = self.failure.get() {
            let primary = self.file(1)?;
            let error = std::io::Error::other(cause.clone());
            return Err(io_error("write page of", &primary.spec)(error));
        }
        let result = self.write_batch(&mut area, pages);
        if let Err(error @ StorageError::Io { .. }) = &result {
            self.failure
                .get_or_init(|| format!("an earlier write failed: {error}"));
        }
        result
    }

    fn write_batch(&self, area: &mut Vec<u8>, pages: &[Page]) -> Result<()> {
        if self.durable && !planted(Bug::SkipDoublewrite) {
            self.write_area(area, pages)?;
        }
        let mut touched: Vec<u16> = Vec::new();
        for page in pages {
            let id = page.id();
            let file = self.file(id.file)?;
            let at = u64::from(id.page) * PAGE_BYTES as u64;
            file.file
                .write_at(page.bytes(), at)
                .map_err(io_error("write page of", &file.spec))?;
            if !touched.contains(&id.file) {
                touched.push(id.file);
            }
        }
        if self.durable {
            touched.iter().try_for_each(|id| self.sync_file(*id))?;
        }
        Ok(())
    }

    fn write_area(&self, area: &mut Vec<u8>, pages: &[Page]) -> Result<()> {
        let mut header = Page::zeroed();
        header.format(
            PageId::new(1, DOUBLE_WRITE_HEADER),
            PageType::DoubleWrite,
            0,
            PageId::NONE,
        );
        put_u16(
            &mut header.bytes_mut()[..],
            HEADER_BYTES,
            pages.len() as u16,
        );
        for (i, page) in pages.iter().enumerate() {
            put_u48(
                &mut header.bytes_mut()[..],
                HEADER_BYTES + 2 + i * 6,
                page.id().to_u64(),
            );
        }
        header.seal();
        area.clear();
        area.extend_from_slice(header.bytes());
        for page in pages {
            let at = area.len();
            area.extend_from_slice(page.bytes());
            put_u32(area, at, page.stored_checksum() ^ AREA_SEAL);
        }
        let primary = self.file(1)?;
        let at = u64::from(DOUBLE_WRITE_HEADER) * PAGE_BYTES as u64;
        primary
            .file
            .write_at(area, at)
            .map_err(io_error("write doublewrite area of", &primary.spec))?;
        self.sync_file(1)
    }

    /// Why nothing is written any more.
    pub fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    fn sync_file(&self, id: u16) -> Result<()> {
        self.sync(&*self.file(id)?)
    }

    /// One at a time of a file: the system tells of a write that it lost to one of those who sync, and the others must hear
    /// of that. Of other files it says nothing, so they need not wait.
    fn sync(&self, file: &DataFile) -> Result<()> {
        let _until_it_is_known = file.syncing.lock();
        let result = match self.failure.get() {
            Some(cause) => Err(std::io::Error::other(cause.clone())),
            None => file.file.sync_data(),
        };
        result.map_err(|error| {
            let cause = || format!("an earlier sync failed: {error}");
            self.failure.get_or_init(cause);
            io_error("sync", &file.spec)(error)
        })
    }

    /// Puts back pages that a crash tore in place, from the doublewrite area. Returns how many. The others of the batch are
    /// written once more.
    pub fn restore_torn(&self) -> Result<u64> {
        let primary = self.file(1)?;
        let mut header = Page::zeroed();
        let at = |page: u32| u64::from(page) * PAGE_BYTES as u64;
        // A page that fails its checksum, or is another one because the read lost its way, is read again: a passing error
        // here would leave a torn page torn for good.
        let read = |page: &mut Page, n: u32, expected: PageId| {
            for _ in 0..AREA_READ_TRIES {
                primary
                    .file
                    .read_at(page.bytes_mut(), at(n))
                    .map_err(io_error("read doublewrite area of", &primary.spec))?;
                if n != DOUBLE_WRITE_HEADER {
                    let sealed = page.stored_checksum() ^ AREA_SEAL;
                    put_u32(&mut page.bytes_mut()[..], 0, sealed);
                }
                if page.stored_checksum() == page.compute_checksum() && page.id() == expected {
                    break;
                }
            }
            Ok(())
        };
        let header_id = PageId::new(1, DOUBLE_WRITE_HEADER);
        read(&mut header, DOUBLE_WRITE_HEADER, header_id)?;
        let is_header =
            header.id() == header_id && header.page_type() == Some(PageType::DoubleWrite);
        if !is_header || header.stored_checksum() != header.compute_checksum() {
            // A torn area: no page was written in place yet.
            reached!("doublewrite.area.torn");
            return Ok(0);
        }
        let count = usize::from(get_u16(&header.bytes()[..], HEADER_BYTES)).min(DOUBLE_WRITE_PAGES);
        let (mut restored, mut again) = (0, Vec::new());
        for i in 0..count {
            let id = PageId::from_u64(get_u48(&header.bytes()[..], HEADER_BYTES + 2 + i * 6));
            let mut image = Page::zeroed();
            read(&mut image, DOUBLE_WRITE_HEADER + 1 + i as u32, id)?;
            if image.stored_checksum() != image.compute_checksum() || image.id() != id {
                continue;
            }
            if self.file(id.file).is_err() {
                // Of a file that was removed since. It was empty.
                reached!("doublewrite.page.of_removed_file");
                continue;
            }
            let mut home = Page::zeroed();
            let intact =
                u64::from(id.page) < self.size_pages(id.file) && self.read(id, &mut home).is_ok();
            if intact && home.bytes() == image.bytes() {
                // The sync of its place may have failed and dropped the write, which reads go on to show.
                let file = self.file(id.file)?;
                file.file
                    .write_at(image.bytes(), at(id.page))
                    .map_err(io_error("write page of", &file.spec))?;
                if !again.contains(&id.file) {
                    again.push(id.file);
                }
                continue;
            }
            if intact && !home.is_zero() {
                continue;
            }
            reached!("doublewrite.page.restored");
            self.ensure_size(id)?;
            let file = self.file(id.file)?;
            file.file
                .write_at(image.bytes(), at(id.page))
                .map_err(io_error("write page of", &file.spec))?;
            self.sync_file(id.file)?;
            restored += 1;
        }
        again.into_iter().try_for_each(|id| self.sync_file(id))?;
        Ok(restored)
    }

    // --- growth -------------------------------------------------------------------------------------------------

    /// Grows `file` by its growth step. Error 1105's ground when it may not or cannot.
    pub fn grow(&self, id: u16, seen_pages: u64) -> Result<()> {
        let _one_at_a_time = self.grow.lock();
        let file = self.file(id)?;
        let size = file.size_pages.load(Ordering::Acquire);
        if size > seen_pages {
            return Ok(());
        }
        let full = file.full();
        let (growth, max_pages) = *file.limits.lock();
        let step = match growth {
            Growth::Pages(0) | Growth::Percent(0) => return Err(full),
            Growth::Pages(pages) => u64::from(pages),
            Growth::Percent(percent) => (size * u64::from(percent) / 100).max(8),
        };
        let mut new_size = size + step;
        if let Some(max) = max_pages {
            new_size = new_size.min(max);
        }
        reached!("file.grown");
        if new_size <= size {
            return Err(full);
        }
        self.extend_or_full(&file, new_size)?;
        file.common_pages.store(new_size, Ordering::Release);
        Ok(())
    }

    /// Grows a file of a filegroup a little, whatever its limits say, by `pages_max` past them in all: for those who may take pages behind
    /// these (`alloc::Reach`).
    pub fn grow_past_limits(&self, filegroup: u16, pages_max: u64) -> Result<()> {
        let _one_at_a_time = self.grow.lock();
        let mut refused = None;
        for id in self.of_filegroup(filegroup) {
            let file = self.file(id)?;
            reached!("file.grown_past_its_limit");
            let size = file.size_pages.load(Ordering::Acquire) + PAST_LIMITS_PAGES;
            let past = size.saturating_sub(file.pages_within_limits());
            let grown = match past > pages_max {
                true => Err(file.full()),
                false => self.extend_or_full(&file, size),
            };
            match grown {
                Err(full @ StorageError::FilegroupFull { .. }) => {
                    refused.get_or_insert(full);
                }
                other => return other,
            }
        }
        Err(refused.unwrap_or_else(|| StorageError::no_file(filegroup)))
    }

    fn extend_or_full(&self, file: &DataFile, pages: u64) -> Result<()> {
        let full = file.full();
        if pages > u64::from(u32::MAX) {
            return Err(full);
        }
        self.extend(file, pages).map_err(|error| match error {
            StorageError::Io { source, .. } if crate::error::is_full(&source) => full,
            other => other,
        })
    }

    /// Makes `file` at least `pages` long and sets how it may grow from here.
    pub fn modify(&self, id: u16, pages: u64, growth: Growth, max: Option<u64>) -> Result<()> {
        let _one_at_a_time = self.grow.lock();
        let file = self.file(id)?;
        if pages > file.size_pages.load(Ordering::Acquire) {
            self.extend(&file, pages)?;
        }
        file.common_pages.fetch_max(pages, Ordering::AcqRel);
        *file.limits.lock() = (growth, max);
        Ok(())
    }

    fn extend(&self, file: &DataFile, pages: u64) -> Result<()> {
        let allocated = file.file.allocate(pages * PAGE_BYTES as u64);
        if allocated.is_err() {
            // What was allocated of it is room that others may need. Best effort: nothing counts on the length.
            let size = file.size_pages.load(Ordering::Acquire);
            let _ = file.file.set_len(size * PAGE_BYTES as u64);
        }
        allocated.map_err(io_error("grow", &file.spec))?;
        self.sync(file)?;
        file.size_pages.store(pages, Ordering::Release);
        Ok(())
    }

    /// Redo may meet a page of a file whose growth was lost.
    pub fn ensure_size(&self, id: PageId) -> Result<()> {
        let file = self.file(id.file)?;
        let needed = u64::from(id.page) + 1;
        if file.size_pages.load(Ordering::Acquire) < needed {
            reached!("redo.file.grown");
            self.extend(&file, needed)?;
            file.common_pages.fetch_max(needed, Ordering::AcqRel);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_sim::{Faults, Rates, SimDisk};

    fn tree_page(number: u32) -> Page {
        let mut page = Page::zeroed();
        let id = PageId::new(1, number);
        page.format(id, PageType::Tree, 0, id);
        page.seal();
        page
    }

    /// An error of reading that passes must not make recovery take the only good copy of a torn page for torn: it would be
    /// written over.
    #[test]
    fn a_torn_page_comes_back_although_its_copy_is_hard_to_read() {
        torn_pages_come_back_beside(Rates {
            flipped_read: 4_000,
            ..Rates::default()
        });
    }

    /// Also when what is read in its stead is another image of the area, or an intact page.
    #[test]
    fn a_torn_page_comes_back_although_reads_of_its_copy_lose_their_way() {
        torn_pages_come_back_beside(Rates {
            misdirected_read: 10_000,
            ..Rates::default()
        });
    }

    fn torn_pages_come_back_beside(rates: Rates) {
        let id = PageId::new(1, 201);
        for seed in 0..2_000 {
            let disk = SimDisk::new(seed);
            let env = daruma_sim::env(&disk, seed);
            let specs = [FileSpec::data(1, 1, "/t.mdf", 256)];
            let files = FileSet::create(&specs, Boot::default(), true, &env).expect("creates");
            files
                .write(&[tree_page(201), tree_page(202)])
                .expect("writes");
            drop(files);
            disk.flip("/t.mdf".as_ref(), 201 * PAGE_BYTES as u64 + 5_000, 1);
            let files = FileSet::open(&specs, &env).expect("opens");
            disk.set_faults(Faults {
                rates,
                ..Faults::default()
            });
            files.restore_torn().expect("reads");
            disk.set_faults(Faults::default());
            let read = files.read(id, &mut Page::zeroed());
            read.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }

    /// The write of a page fails in the middle, and others go on: what was torn has its only copy in the area.
    #[test]
    fn after_a_write_that_failed_the_area_is_not_written_over() {
        let specs = [FileSpec::data(1, 1, "/t.mdf", 256)];
        for seed in 0..200 {
            let disk = SimDisk::new(seed);
            let env = daruma_sim::env(&disk, seed);
            let files = FileSet::create(&specs, Boot::default(), true, &env).expect("creates");
            // Behind the area and its sync comes the first page, then the second.
            let second = disk.calls() + 3;
            disk.set_faults(Faults {
                fail_at: Some(second),
                ..Faults::default()
            });
            let written = files.write(&[tree_page(201), tree_page(202)]);
            assert!(written.is_err());
            disk.set_faults(Faults::default());
            assert!(files.write(&[tree_page(203)]).is_err(), "seed {seed}");
            drop(files);
            disk.crash();
            let files = FileSet::open(&specs, &env).expect("opens");
            files.restore_torn().expect("reads");
            for page in [201, 202] {
                let read = files.read(PageId::new(1, page), &mut Page::zeroed());
                read.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        }
    }

    #[test]
    fn a_sync_that_failed_for_growth_is_not_forgotten() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::data(1, 1, "/t.mdf", 256);
        let files = FileSet::create(&[spec], Boot::default(), true, &env).expect("creates");
        let growth_and_its_sync = disk.calls() + 1;
        disk.set_faults(Faults {
            fail_at: Some(growth_and_its_sync),
            ..Faults::default()
        });
        assert!(matches!(files.grow(1, 256), Err(StorageError::Io { .. })));
        disk.set_faults(Faults::default());
        let written = files.write(&[tree_page(201)]);
        assert!(written.is_err(), "what was written may be lost");
        assert!(files.write_boot(|_| {}).is_err());
    }
}
