//! Figures of a tree's pages: how full, how scattered, and how many entries are there for old snapshots only.
//!
//! Theory: the tree is walked from the root, one page latched at a time, so that nobody waits for the walk. A page that
//! splits or goes away meanwhile is counted as it was or not at all: figures, not facts. Each page's entries are copied
//! as heads; versions are looked up after the latch is gone.
//!
//! Read next: `check`, which proves what this only counts.

use super::{DEPTH_MAX, Tree};
use crate::database::Database;
use crate::error::Result;
use crate::page::{Head, PAGE_BYTES, Page, PageType};
use crate::status::TxnStatus;
use daruma_base::PageId;

/// Trees with fewer leaves are read whole even when a sample was asked for.
const SAMPLED_LEAVES_MIN: u64 = 10_000;
/// Of a sample, one leaf in so many is read.
const SAMPLE_STEP: u64 = 100;
/// Versions followed from one entry.
const CHAIN_MAX: usize = 100_000;

/// How much is read for the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FiguresMode {
    /// No leaves: pages and their order only.
    Limited,
    /// One leaf in a hundred, if there are many.
    Sampled,
    Detailed,
}

/// Figures of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelFigures {
    pub pages: u64,
    /// Runs of adjacent pages in key order.
    pub fragments: u64,
    /// Pages actually read; what follows is of these.
    pub pages_read: u64,
    pub used_bytes: u64,
    /// Entries that are not deleted.
    pub entries: u64,
    pub entry_bytes: u64,
    pub entry_bytes_min: u64,
    pub entry_bytes_max: u64,
    /// Deleted entries that nobody needs, and those that a snapshot, or the transaction's end, waits for.
    pub ghosts: u64,
    pub version_ghosts: u64,
    /// Versions reached from the entries, and their bytes.
    pub versions: u64,
    pub version_bytes: u64,
    /// Entries of aborted transactions, still to be reverted; entries of active ones.
    pub aborted_entries: u64,
    pub uncommitted_entries: u64,
}

/// Figures of a tree, by level, the leaves first.
#[derive(Clone, Debug, Default)]
pub struct TreeFigures {
    pub levels: Vec<LevelFigures>,
    /// Was only a sample of the leaves read?
    pub sampled: bool,
}

struct Walk {
    mode: FiguresMode,
    step: u64,
    last: Vec<PageId>,
    figures: TreeFigures,
    heads: Vec<(Head, usize)>,
}

impl Tree {
    /// Counts pages, entries and versions of the tree: of all pages, of those above the leaves, or of a sample.
    pub fn figures(&self, mode: FiguresMode) -> Result<TreeFigures> {
        let db = self.database()?;
        if mode != FiguresMode::Sampled {
            return self.walk(&db, mode, 1);
        }
        let limited = self.walk(&db, FiguresMode::Limited, 1)?;
        let leaves = limited.levels.first().map_or(0, |l| l.pages);
        let step = if leaves >= SAMPLED_LEAVES_MIN {
            SAMPLE_STEP
        } else {
            1
        };
        self.walk(&db, mode, step)
    }

    fn walk(&self, db: &Database, mode: FiguresMode, step: u64) -> Result<TreeFigures> {
        let mut walk = Walk {
            mode,
            step,
            last: Vec::new(),
            figures: TreeFigures::default(),
            heads: Vec::new(),
        };
        walk.figures.sampled = step > 1;
        self.walk_page(db, self.id.0, None, &mut walk)?;
        Ok(walk.figures)
    }

    /// Counts the page and what hangs on it. `level`: what it must be, or it was used for something else meanwhile.
    fn walk_page(
        &self,
        db: &Database,
        id: PageId,
        level: Option<usize>,
        walk: &mut Walk,
    ) -> Result<()> {
        let page = db.pool().read(db.store(), id)?;
        let own = page.page_type() == Some(PageType::Tree) && page.tree() == self.id.0;
        let found = usize::from(page.level());
        if !own || level.is_some_and(|l| l != found) || found >= DEPTH_MAX {
            return Ok(());
        }
        if level != Some(0) {
            walk.count_page(found, id);
        }
        walk.count_entries(found, &page);
        if found == 0 {
            drop(page);
            return walk.judge_entries(db);
        }
        let children: Vec<PageId> = (0..page.slots()).map(|s| page.child(s)).collect();
        drop(page);
        for child in children {
            if found > 1 {
                self.walk_page(db, child, Some(found - 1), walk)?;
                continue;
            }
            walk.count_page(0, child);
            let number = walk.figures.levels[0].pages;
            if walk.mode != FiguresMode::Limited && number.is_multiple_of(walk.step) {
                self.walk_page(db, child, Some(0), walk)?;
            }
        }
        Ok(())
    }
}

impl Walk {
    fn count_page(&mut self, level: usize, id: PageId) {
        if self.figures.levels.len() <= level {
            self.figures
                .levels
                .resize(level + 1, LevelFigures::default());
            self.last.resize(level + 1, PageId::NONE);
        }
        let last = std::mem::replace(&mut self.last[level], id);
        let adjacent = last.file == id.file && last.page.checked_add(1) == Some(id.page);
        let figures = &mut self.figures.levels[level];
        figures.pages += 1;
        figures.fragments += u64::from(last.is_none() || !adjacent);
    }

    /// Sizes of the entries; the heads of a leaf are kept for [`Walk::judge_entries`].
    fn count_entries(&mut self, level: usize, page: &Page) {
        self.heads.clear();
        let figures = &mut self.figures.levels[level];
        figures.pages_read += 1;
        figures.used_bytes += page.used_bytes().min(PAGE_BYTES) as u64;
        for slot in 0..page.slots() {
            let bytes = page.entry_bytes(slot);
            if level == 0 {
                self.heads.push((page.head(slot), bytes));
            } else {
                figures.count_entry(bytes as u64);
            }
        }
    }

    fn judge_entries(&mut self, db: &Database) -> Result<()> {
        let heads = std::mem::take(&mut self.heads);
        let figures = &mut self.figures.levels[0];
        for (head, bytes) in &heads {
            figures.judge(db, *head, *bytes as u64)?;
        }
        self.heads = heads;
        Ok(())
    }
}

impl LevelFigures {
    fn count_entry(&mut self, bytes: u64) {
        self.entry_bytes_min = match self.entries {
            0 => bytes,
            _ => self.entry_bytes_min.min(bytes),
        };
        self.entry_bytes_max = self.entry_bytes_max.max(bytes);
        self.entry_bytes += bytes;
        self.entries += 1;
    }

    fn judge(&mut self, db: &Database, head: Head, bytes: u64) -> Result<()> {
        let settled = db.txns().is_settled(head.writer);
        match (head.is_deleted(), settled) {
            (false, _) => self.count_entry(bytes),
            (true, true) => self.ghosts += 1,
            (true, false) => self.version_ghosts += 1,
        }
        if settled {
            return Ok(());
        }
        match db.txns().status(head.writer) {
            TxnStatus::Aborted => self.aborted_entries += 1,
            TxnStatus::Active | TxnStatus::Awaited(_) => self.uncommitted_entries += 1,
            TxnStatus::Committed(_) => {}
        }
        let (mut at, mut writer) = (head.version, head.writer);
        for _ in 0..CHAIN_MAX {
            // Behind a settled writer nobody looks any further, and its locator may be stale.
            if at == 0 || db.txns().is_settled(writer) {
                break;
            }
            let Some(version) = db.version(at)? else {
                break;
            };
            self.versions += 1;
            self.version_bytes += crate::version::version_bytes(&version);
            (at, writer) = (version.head.version, version.head.writer);
        }
        Ok(())
    }
}
