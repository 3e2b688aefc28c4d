//! Checking a database: what DBCC CHECKDB and the simulator ask after everything that happened.
//!
//! Theory: trees and blobs are reached from roots that the caller knows (storage knows the catalog tree and what waits
//! to be freed, nothing else). Walking them proves their structure and collects the pages they use; comparing those
//! with the allocation maps finds pages used twice, used but marked free, and marked but used by nobody. A page that
//! cannot be read is one finding and costs only what hangs on it.
//!
//! It runs while others work: readers and writers go on, and only a writer that would split or free a page of a tree waits until
//! that tree is walked. So a page is judged (is it marked as used?) when it is met in a tree or value that cannot go away at
//! that moment: later it may be free, or another's, and the allocator tells of pages that were freed. What only a database
//! at rest can answer (pages marked but unused) is answered only when nothing was logged between the beginning and the end.
//! It needs two bits for each page and one page for each level of a tree.
//!
//! Invariants checked of a tree: one level less with each step down; every key inside the separators above it and in
//! order; leaves chained in key order; writers and versions that have existed; every page used once.

mod finding;
#[cfg(test)]
mod tests;

pub use finding::{CheckReport, Finding, FindingKind, TreeSummary};

use crate::api::{BlobRef, TreeId};
use crate::blob;
use crate::database::Database;
use crate::datafile::{FIRST_FREE_OTHER, FIRST_FREE_PRIMARY};
use crate::log::record::Space;
use crate::page::{FLAG_DELETED, Page, PageType};
use crate::page_set::PageSet;
use crate::pause::pause;
use crate::sync::Mutex;
use crate::{alloc, api};
use daruma_base::{Lsn, PageId, TxnId};
use std::collections::HashMap;
use std::sync::Arc;

/// Findings kept; a database in ruins needs no longer list.
const FINDINGS_MAX: usize = 1_000;
const DEPTH_MAX: u8 = 24;
/// Longer than any version chain that a living snapshot explains.
const CHAIN_MAX: usize = 1_000_000;

/// Sees how far a check is.
pub trait CheckWatch {
    /// So many pages were looked at. False ends the check.
    fn goes_on(&self, pages: u64) -> bool;
}

/// A check of one database under way: give it every tree and blob, then [`Checker::finish`].
pub struct Checker<'a> {
    db: &'a Database,
    used: PageSet,
    /// Pages that were freed since they were met, or before.
    freed: Arc<Mutex<PageSet>>,
    /// Allocation bits as they were at the beginning.
    before: HashMap<PageId, Page>,
    /// Pages met that were marked as free then.
    marked_free: Vec<PageId>,
    began: Lsn,
    findings: Vec<Finding>,
    found: usize,
    watch: Option<&'a dyn CheckWatch>,
    stopped: bool,
    /// A page could not be read, so what hangs on it is not known.
    incomplete: bool,
}

/// Keys that a page may hold: from `low` to below `high`.
struct Range<'k> {
    low: &'k [u8],
    high: Option<&'k [u8]>,
    /// The page that says so, and the slot of `low` in it.
    parent: PageId,
    parent_slot: usize,
}

/// The walk of one tree.
struct Walk {
    root: PageId,
    summary: TreeSummary,
    /// The leaf before, and where it says the chain goes on.
    last_leaf: Option<(PageId, PageId)>,
}

impl<'a> Checker<'a> {
    /// A check that has looked at nothing. The log is flushed first, so that its own reads write none.
    pub fn new(db: &'a Database) -> Checker<'a> {
        // Reading may evict pages, and writing those would close the open block of the log: that is no activity. A log that
        // cannot be written has told so to whom it concerns.
        let _ = db.flush_log();
        let mut checker = Checker {
            db,
            used: PageSet::default(),
            freed: db.allocator().watch_freed(),
            before: HashMap::new(),
            marked_free: Vec::new(),
            began: db.log_stats().end_lsn,
            findings: Vec::new(),
            found: 0,
            watch: None,
            stopped: false,
            incomplete: false,
        };
        checker.before = checker.read_maps();
        checker
    }

    /// Reports to `watch`, which may end the check.
    pub fn watched(mut self, watch: &'a dyn CheckWatch) -> Checker<'a> {
        self.watch = Some(watch);
        self
    }

    /// Did `watch` end the check?
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Findings since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    fn find(&mut self, kind: FindingKind, page: PageId, owner: Option<PageId>) {
        self.found += 1;
        if self.found <= FINDINGS_MAX {
            self.findings.push(Finding { kind, page, owner });
        }
    }

    fn read(&mut self, id: PageId, owner: Option<PageId>) -> Option<Page> {
        match self.db.pool().read(self.db.store(), id) {
            Ok(page) => Some((*page).clone()),
            Err(error) => {
                self.incomplete = true;
                self.find(FindingKind::unreadable(error), id, owner);
                None
            }
        }
    }

    /// Notes that `owner`, which nobody can take away at this moment, uses the page. False when someone else does already, or the
    /// check shall end.
    fn claim(&mut self, page: PageId, owner: PageId) -> bool {
        if self.stopped {
            return false;
        }
        let size = self.db.store().files.size_pages(page.file);
        if u64::from(page.page) >= size {
            let kind = FindingKind::Unreadable {
                test: "page inside its file".to_string(),
                expected: size.try_into().unwrap_or(u32::MAX),
                found: page.page,
            };
            self.incomplete = true;
            self.find(kind, page, Some(owner));
            return false;
        }
        let has_been_freed = self.freed.lock().remove(page);
        if !self.used.insert(page) && !has_been_freed {
            let named = self.db.pool().read(self.db.store(), page);
            let other = named.map_or(PageId::NONE, |p| p.tree());
            self.find(FindingKind::UsedTwice { other }, page, Some(owner));
            return false;
        }
        if self.is_marked_free(page) && self.marked_free.len() < FINDINGS_MAX {
            self.marked_free.push(page);
        }
        self.stopped = self.watch.is_some_and(|w| !w.goes_on(self.used.len()));
        !self.stopped
    }

    /// Is the page marked as free? One that was marked as used at the beginning, and has an owner, is not looked up again.
    fn is_marked_free(&self, page: PageId) -> bool {
        let (map, bit) = alloc::bit_of(page);
        let is_free = |map: &Page| map.is_zero() || !alloc::get_bit(map, bit);
        // One that cannot be read was told of at the beginning, or will be at the end.
        self.before.get(&map).is_some_and(is_free)
            && (self.db.pool().read(self.db.store(), map)).is_ok_and(|map| is_free(&map))
    }

    // --- trees --------------------------------------------------------------------------------------------------

    /// Checks one tree, reads every page of it, and notes them as used.
    pub fn tree(&mut self, id: TreeId) -> TreeSummary {
        let mut walk = Walk {
            root: id.0,
            summary: TreeSummary::default(),
            last_leaf: None,
        };
        let Ok(tree) = self.db.tree(id) else {
            return walk.summary;
        };
        let _still = tree.hold_shape();
        let all = Range {
            low: &[],
            high: None,
            parent: PageId::NONE,
            parent_slot: 0,
        };
        self.subtree(&mut walk, id.0, None, all, 0);
        if let Some((leaf, next)) = walk.last_leaf
            && !next.is_none()
            && !self.stopped
        {
            let expected = PageId::NONE;
            self.find(FindingKind::Chain { next, expected }, leaf, Some(id.0));
        }
        walk.summary
    }

    fn subtree(
        &mut self,
        walk: &mut Walk,
        id: PageId,
        level: Option<u8>,
        range: Range<'_>,
        depth: u8,
    ) {
        if !self.claim(id, walk.root) {
            return;
        }
        walk.summary.pages += 1;
        let page = self.read(id, Some(walk.root));
        let Some(page) = page.filter(|page| self.belongs(walk, page, id, level, depth)) else {
            // Its chain is unknown: the next leaf is not held against it.
            walk.last_leaf = None;
            return;
        };
        self.keys(walk, &page, &range);
        if page.is_leaf() {
            self.leaf(walk, &page);
        } else {
            self.children(walk, &page, &range, depth);
        }
    }

    /// Is it a page of the tree, at the level that the one above asks for?
    fn belongs(
        &mut self,
        walk: &Walk,
        page: &Page,
        id: PageId,
        level: Option<u8>,
        depth: u8,
    ) -> bool {
        let expected = level.unwrap_or(page.level());
        if page.page_type() != Some(PageType::Tree) || page.tree() != walk.root {
            self.incomplete = true;
            self.find(FindingKind::Foreign, id, Some(walk.root));
        } else if expected != page.level() || depth > DEPTH_MAX {
            let found = page.level();
            self.incomplete = true;
            self.find(FindingKind::Level { found, expected }, id, Some(walk.root));
        } else {
            return true;
        }
        false
    }

    /// Order of the keys, and their place between the separators above.
    fn keys(&mut self, walk: &Walk, page: &Page, range: &Range<'_>) {
        let first = usize::from(!page.is_leaf());
        for slot in 0..page.slots() {
            let key = page.key(slot);
            let kind = if slot > first && page.key(slot - 1) >= key {
                FindingKind::KeyOrder { slot }
            } else if slot >= first && (key < range.low || range.high.is_some_and(|h| key >= h)) {
                FindingKind::KeyRange {
                    slot,
                    level: page.level(),
                    parent: range.parent,
                    parent_slot: range.parent_slot,
                }
            } else if key.len() > api::KEY_BYTES_MAX || (slot < first && !key.is_empty()) {
                let what = format!("a key of {} bytes", key.len());
                FindingKind::Entry { slot, what }
            } else {
                continue;
            };
            self.find(kind, page.id(), Some(walk.root));
        }
    }

    fn children(&mut self, walk: &mut Walk, page: &Page, range: &Range<'_>, depth: u8) {
        let Some(below) = page.level().checked_sub(1) else {
            return;
        };
        for slot in 0..page.slots() {
            let low = if slot == 0 { range.low } else { page.key(slot) };
            let high = if slot + 1 < page.slots() {
                Some(page.key(slot + 1))
            } else {
                range.high
            };
            let child = Range {
                low,
                high,
                parent: page.id(),
                parent_slot: slot,
            };
            self.subtree(walk, page.child(slot), Some(below), child, depth + 1);
        }
    }

    fn leaf(&mut self, walk: &mut Walk, page: &Page) {
        walk.summary.leaves += 1;
        if let Some((before, next)) = walk.last_leaf
            && next != page.id()
        {
            let expected = page.id();
            self.find(
                FindingKind::Chain { next, expected },
                before,
                Some(walk.root),
            );
        }
        walk.last_leaf = Some((page.id(), page.next()));
        for slot in 0..page.slots() {
            let head = page.head(slot);
            walk.summary.entries += u64::from(!head.is_deleted());
            let what =
                if head.flags & !FLAG_DELETED != 0 || head.writer.0 >= self.db.txns().next_id() {
                    format!(
                        "flags {} and writer {}, which does not exist",
                        head.flags, head.writer.0
                    )
                } else if !self.chain_ends(head.writer, head.version) {
                    "its versions do not end".to_string()
                } else {
                    continue;
                };
            self.find(
                FindingKind::Entry { slot, what },
                page.id(),
                Some(walk.root),
            );
        }
    }

    /// Follows an entry's versions as far as a reader might: to a writer everyone sees, or to the first version.
    fn chain_ends(&self, mut writer: TxnId, mut version: u64) -> bool {
        for _ in 0..CHAIN_MAX {
            if version == 0 || self.db.txns().is_settled(writer) {
                return true;
            }
            let Ok(Some(older)) = self.db.version(version) else {
                return true;
            };
            (writer, version) = (older.head.writer, older.head.version);
        }
        false
    }

    /// Pages used by the trees and blobs given so far.
    pub fn pages(&self) -> Vec<PageId> {
        self.used.iter().collect()
    }

    // --- blobs --------------------------------------------------------------------------------------------------

    /// Checks a value that a row refers to, and notes its pages as used. The caller holds the view that shows the row.
    pub fn blob(&mut self, blob: BlobRef) {
        let owner = Some(blob.first);
        let mut index = blob.first;
        let mut pages = 0u64;
        while !index.is_none() && self.claim(index, blob.first) {
            let Some(page) = self.blob_page(blob, index) else {
                return;
            };
            for data in blob::listed(&page) {
                pages += 1;
                if self.claim(data, blob.first) {
                    self.blob_page(blob, data);
                }
            }
            index = page.next();
        }
        let bytes = blob.bytes;
        if pages != bytes.div_ceil(blob::DATA_BYTES as u64) && !self.stopped {
            self.find(FindingKind::BlobLength { bytes, pages }, blob.first, owner);
        }
    }

    fn blob_page(&mut self, blob: BlobRef, id: PageId) -> Option<Page> {
        let page = self.read(id, Some(blob.first))?;
        if page.page_type() != Some(PageType::Blob) || page.tree() != blob.first {
            self.incomplete = true;
            self.find(FindingKind::Foreign, id, Some(blob.first));
            return None;
        }
        Some(page)
    }

    // --- allocation ---------------------------------------------------------------------------------------------

    fn map_ids(&self) -> Vec<(PageId, u32)> {
        let mut ids = Vec::new();
        for info in self.db.store().files.infos() {
            let size = self.db.store().files.size_pages(info.spec.id) as u32;
            for first in (0..size).step_by(alloc::INTERVAL_PAGES as usize) {
                if first + 1 < size {
                    let limit = (size - first).min(alloc::INTERVAL_PAGES);
                    ids.push((PageId::new(info.spec.id, first + 1), limit));
                }
            }
        }
        ids
    }

    fn read_maps(&mut self) -> HashMap<PageId, Page> {
        let ids = self.map_ids();
        ids.into_iter()
            .filter_map(|(id, _)| Some((id, self.read(id, None)?)))
            .collect()
    }

    /// Space that waits to be freed belongs to nobody else. It may be half freed, so only its pages are collected.
    fn waiting_space(&mut self) {
        for page in self.db.version_pages() {
            self.used.insert(page);
        }
        for space in self.db.pending_spaces() {
            let (Space::Tree(root) | Space::Blob(root)) = space;
            let mut todo = vec![root];
            while let Some(id) = todo.pop() {
                if !self.used.insert(id) {
                    continue;
                }
                let Some(page) = self.read(id, Some(root)) else {
                    continue;
                };
                let kind = page.page_type();
                match space {
                    Space::Tree(_) if kind == Some(PageType::Tree) && !page.is_leaf() => {
                        todo.extend((0..page.slots()).map(|s| page.child(s)));
                    }
                    Space::Blob(_) if kind == Some(PageType::Blob) && page.level() == 0 => {
                        todo.extend(blob::listed(&page));
                        todo.extend(Some(page.next()).filter(|n| !n.is_none()));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Compares what is used with the allocation maps. Every tree and blob must have been given.
    pub fn finish(mut self) -> CheckReport {
        if self.stopped {
            return self.report(false);
        }
        for page in std::mem::take(&mut self.marked_free) {
            let (map, _) = alloc::bit_of(page);
            self.find(FindingKind::MarkedFree { map }, page, None);
        }
        // First: whoever ends hands over what he leaves before that.
        let at_rest =
            self.db.active_transactions().is_empty() && self.db.aborted().map.lock().is_empty();
        self.waiting_space();
        pause("check.spaces_met");
        let maps = self.read_maps();
        // Last: nothing of the above has changed while it was looked at. What another node is about to free is not known here.
        let still = at_rest && !self.db.is_secondary() && self.db.log_stats().end_lsn == self.began;
        let exact = still && !self.incomplete;
        if exact {
            self.unused(&maps);
        }
        self.report(exact)
    }

    fn report(mut self, exact: bool) -> CheckReport {
        self.findings.sort_by_key(|f| (f.page.file, f.page.page));
        CheckReport {
            pages: self.used.len(),
            findings: self.findings,
            exact,
        }
    }

    fn unused(&mut self, maps: &HashMap<PageId, Page>) {
        for (id, limit) in self.map_ids() {
            let Some(map) = maps.get(&id).filter(|m| !m.is_zero()) else {
                continue;
            };
            let first = id.page - 1;
            let reserved = match (first, id.file) {
                (0, 1) => FIRST_FREE_PRIMARY,
                (0, _) => FIRST_FREE_OTHER,
                _ => 2,
            };
            for bit in reserved..limit {
                let page = PageId::new(id.file, first + bit);
                if alloc::get_bit(map, bit as u16) && !self.used.contains(page) {
                    self.find(FindingKind::Leak { map: id }, page, None);
                }
            }
        }
    }
}
