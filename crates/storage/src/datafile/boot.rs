//! The boot page: what recovery must know before it can read anything else.
//!
//! Two copies, both written and synced at every change, the one that recovery would not take first. So one of them is whole at
//! any crash; and when no crash came between, both say the same: losing one to damage loses nothing. An older copy alone would be
//! worse than none, for recovery from it ends where the log of then ended.

use super::{FileSet, io_error};
use crate::api::{Registration, Settings};
use crate::bytes::*;
use crate::epoch::{Epochs, HISTORY_BYTES};
use crate::error::{Result, StorageError};
use crate::log::CommitPoint;
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use crate::sync::{Mutex, RwLock};
use crate::{DelayedDurability, RecoveryModel};
use daruma_base::{Lsn, PageId, reached};
use std::sync::Arc;

/// The pages of file 1 that hold the two copies.
pub const BOOT_PAGES: [u32; 2] = [2, 3];

/// Facts that recovery must know before it can read anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Boot {
    pub sequence: u64,
    pub guid: u64,
    /// Block at which recovery begins to read.
    pub redo_start: Lsn,
    /// Last part of the last checkpoint.
    pub checkpoint: Lsn,
    /// The last stop was clean: nothing follows the checkpoint.
    pub clean: bool,
    pub settings: Settings,
    pub collation_version: u32,
    /// Where the next log backup begins; `Lsn::NONE` without a log chain.
    pub log_backup: Lsn,
    /// Newest commit before the last checkpoint.
    pub last_commit: CommitPoint,
    /// The log was on disk up to here when the page was written: one that ends before has lost something that was safe.
    pub hard: Lsn,
    /// The log is a copy of another node's: what its blocks say to be hard was so there, and `hard` is what this node has told to
    /// have.
    pub is_copy: bool,
    /// As whom the server knows the database; zeros before it was first opened under a registration.
    pub registered: Registration,
}

/// The boot page. Every transaction looks at it; who does waits for nobody who writes it.
#[derive(Default)]
pub(super) struct BootPage {
    /// As one copy at least has it on disk.
    now: RwLock<Boot>,
    /// With the next write at the latest, it is in the copies.
    epochs: RwLock<Arc<Epochs>>,
    /// Held while the copies are written.
    copies: Mutex<Copies>,
}

#[derive(Default)]
struct Copies {
    /// The one that is surely whole.
    whole: usize,
    /// The last that was used.
    sequence: u64,
}

impl BootPage {
    /// The content of a new database's boot page.
    pub fn new(boot: Boot, epochs: Epochs) -> BootPage {
        let page = BootPage::default();
        page.set(boot, epochs, 0);
        page
    }

    fn set(&self, boot: Boot, epochs: Epochs, whole: usize) {
        let sequence = boot.sequence;
        *self.copies.lock() = Copies { whole, sequence };
        *self.now.write() = boot;
        *self.epochs.write() = Arc::new(epochs);
    }
}

impl FileSet {
    /// The content as last written.
    pub fn boot(&self) -> Boot {
        *self.boot.now.read()
    }

    /// Who went on with the log where.
    pub fn epochs(&self) -> Arc<Epochs> {
        self.boot.epochs.read().clone()
    }

    /// Changes the history; it is durable with the next change of the boot page.
    pub fn change_epochs(&self, change: impl FnOnce(&mut Epochs)) {
        let mut epochs = self.boot.epochs.write();
        change(Arc::make_mut(&mut epochs));
    }

    /// Changes the boot page durably.
    pub fn write_boot(&self, change: impl FnOnce(&mut Boot)) -> Result<()> {
        let mut copies = self.boot.copies.lock();
        let mut new = self.boot();
        change(&mut new);
        // Also a try that fails has used its number: what it has written may come back.
        copies.sequence += 1;
        new.sequence = copies.sequence;
        let first = 1 - copies.whole;
        self.write_boot_copy(first, &new)?;
        copies.whole = first;
        *self.boot.now.write() = new;
        self.write_boot_copy(1 - first, &new)
    }

    fn write_boot_copy(&self, copy: usize, boot: &Boot) -> Result<()> {
        let number = BOOT_PAGES[copy];
        let mut page = Page::zeroed();
        page.format(PageId::new(1, number), PageType::Boot, 0, PageId::NONE);
        encode_boot(boot, &mut page);
        encode_epochs(&self.epochs(), &mut page);
        page.seal();
        let primary = self.file(1)?;
        primary
            .file
            .write_at(page.bytes(), u64::from(number) * PAGE_BYTES as u64)
            .map_err(io_error("write boot page of", &primary.spec))?;
        if self.durable {
            self.sync_file(1)?;
        }
        Ok(())
    }

    pub(super) fn read_boot(&self) -> Result<()> {
        let mut best: Option<(Boot, Epochs, usize)> = None;
        let mut failure = None;
        for (whole, number) in BOOT_PAGES.into_iter().enumerate() {
            let mut page = Page::zeroed();
            match self.read(PageId::new(1, number), &mut page) {
                Ok(()) if page.page_type() == Some(PageType::Boot) => {
                    let boot = decode_boot(&page);
                    if best
                        .as_ref()
                        .is_none_or(|(best, ..)| best.sequence < boot.sequence)
                    {
                        best = Some((boot, decode_epochs(&page), whole));
                    }
                }
                Ok(()) => {}
                Err(error) => {
                    reached!("boot.copy.damaged");
                    failure = Some(error)
                }
            }
        }
        let no_boot = || StorageError::BadFile {
            path: self.path(1),
            what: "no intact boot page".into(),
        };
        let (boot, epochs, whole) = best.ok_or_else(|| failure.unwrap_or_else(no_boot))?;
        self.boot.set(boot, epochs, whole);
        Ok(())
    }
}

/// Writes the content into a page; docs/format.md has the layout.
pub fn encode_boot(boot: &Boot, page: &mut Page) {
    let b = &mut page.bytes_mut()[HEADER_BYTES..];
    put_u64(b, 0, boot.sequence);
    put_u64(b, 8, boot.guid);
    put_u64(b, 16, boot.checkpoint.0);
    b[24] = u8::from(boot.clean);
    let s = &boot.settings;
    b[25] = u8::from(s.accelerated_recovery);
    b[26] = u8::from(s.read_committed_snapshot);
    b[27] = u8::from(s.allow_snapshot);
    b[28] = s.delayed_durability as u8;
    b[29] = s.recovery_model as u8;
    b[30] = u8::from(s.read_only);
    b[31] = u8::from(s.optimized_locking);
    put_u32(b, 32, s.target_recovery_seconds);
    put_u32(b, 36, boot.collation_version);
    put_u64(b, 40, boot.redo_start.0);
    put_u64(b, 48, boot.log_backup.0);
    put_u32(b, 56, s.delayed_milliseconds);
    put_u32(b, 60, s.delayed_kilobytes);
    put_u64(b, 64, boot.last_commit.lsn.0);
    put_u64(b, 72, boot.last_commit.utc_100ns as u64);
    put_u16(b, 80, s.version_store_filegroup);
    put_u32(b, 84, s.version_store_megabytes);
    put_u64(b, 88, boot.hard.0);
    put_u64(b, 96, boot.registered.created_utc as u64);
    put_u16(b, 104, boot.registered.database);
    b[106] = u8::from(boot.is_copy);
}

/// Where the history begins, behind what copies keep of the page.
const EPOCHS_AT: usize = HEADER_BYTES + crate::rebuild::BOOT_BYTES;

/// Writes the history into a boot page.
pub fn encode_epochs(epochs: &Epochs, page: &mut Page) {
    epochs.write(&mut page.bytes_mut()[EPOCHS_AT..EPOCHS_AT + HISTORY_BYTES]);
}

/// Reads it from a page whose checksum is right.
pub fn decode_epochs(page: &Page) -> Epochs {
    Epochs::read(&page.bytes()[EPOCHS_AT..EPOCHS_AT + HISTORY_BYTES])
}

/// Zero is what a boot page has that was written before there was the setting.
fn or_default(stored: u32, default: u32) -> u32 {
    if stored == 0 { default } else { stored }
}

/// Reads a page whose checksum is right.
pub fn decode_boot(page: &Page) -> Boot {
    let b = &page.bytes()[HEADER_BYTES..];
    Boot {
        sequence: get_u64(b, 0),
        guid: get_u64(b, 8),
        checkpoint: Lsn(get_u64(b, 16)),
        redo_start: Lsn(get_u64(b, 40)),
        clean: b[24] != 0,
        settings: Settings {
            accelerated_recovery: b[25] != 0,
            read_committed_snapshot: b[26] != 0,
            allow_snapshot: b[27] != 0,
            delayed_durability: match b[28] {
                1 => DelayedDurability::Allowed,
                2 => DelayedDurability::Forced,
                _ => DelayedDurability::Disabled,
            },
            recovery_model: match b[29] {
                0 => RecoveryModel::Full,
                1 => RecoveryModel::BulkLogged,
                _ => RecoveryModel::Simple,
            },
            read_only: b[30] != 0,
            target_recovery_seconds: get_u32(b, 32),
            delayed_milliseconds: or_default(
                get_u32(b, 56),
                Settings::default().delayed_milliseconds,
            ),
            delayed_kilobytes: or_default(get_u32(b, 60), Settings::default().delayed_kilobytes),
            version_store_filegroup: get_u16(b, 80).max(1),
            version_store_megabytes: get_u32(b, 84),
            optimized_locking: b[31] != 0,
        },
        collation_version: get_u32(b, 36),
        log_backup: Lsn(get_u64(b, 48)),
        last_commit: CommitPoint {
            lsn: Lsn(get_u64(b, 64)),
            utc_100ns: get_u64(b, 72) as i64,
        },
        hard: Lsn(get_u64(b, 88)),
        registered: Registration {
            created_utc: get_u64(b, 96) as i64,
            database: get_u16(b, 104),
        },
        is_copy: b[106] != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FileSpec;
    use daruma_sim::SimDisk;

    /// Every transaction looks at the settings, and takes new pages.
    #[test]
    fn neither_settings_nor_other_files_wait_for_a_sync() {
        let env = daruma_sim::env(&SimDisk::new(1), 1);
        let specs = [
            FileSpec::data(1, 1, "/t.mdf", 256),
            FileSpec::data(3, 2, "/t.ndf", 32),
        ];
        let boot = Boot {
            guid: 7,
            ..Boot::default()
        };
        let files = FileSet::create(&specs, boot, true, &env).expect("creates");
        let checkpoint = files.boot.copies.lock();
        let primary = files.file(1).expect("is there");
        let flush = primary.syncing.lock();
        assert_eq!(files.boot().guid, 7);
        files.grow(3, files.size_pages(3)).expect("grows");
        assert!(files.failure().is_none());
        drop((flush, checkpoint));
    }

    /// Its log does not say where epochs begin.
    #[test]
    fn a_file_of_the_format_before_is_refused_by_its_number() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::data(1, 1, "/t.mdf", 256);
        let boot = Boot {
            guid: 7,
            ..Boot::default()
        };
        let specs = std::slice::from_ref(&spec);
        drop(FileSet::create(specs, boot, true, &env).expect("creates"));
        let file = env.disk.open(&spec.path, daruma_base::OpenMode::ReadWrite);
        let file = file.expect("opens");
        let mut header = Page::zeroed();
        file.read_at(header.bytes_mut(), 0).expect("reads");
        let old = super::super::FORMAT_VERSION - 1;
        put_u32(&mut header.bytes_mut()[..], HEADER_BYTES + 8, old);
        header.seal();
        file.write_at(header.bytes(), 0).expect("writes");
        drop(file);
        let refused = FileSet::open(specs, &env).err().expect("is refused");
        let said = refused.to_string();
        assert!(said.contains("file format 3 is not supported"), "{said}");
    }
}
