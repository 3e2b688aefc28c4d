//! Checking a database: what DBCC CHECKDB and the simulator ask after everything that happened.
//!
//! Theory: trees and blobs are reached from roots that the caller knows (storage knows the catalog tree and what waits
//! to be freed, nothing else). Walking them proves their structure and collects the pages they use; comparing those
//! with the allocation maps finds pages used twice, used but marked free, and marked but used by nobody. A page that
//! cannot be read is one finding and costs only what hangs on it.
//!
//! It runs while others work: a tree's shape is held still while it is walked. What only a database at rest can answer
//! (pages marked but unused) is answered only when nothing was logged between the beginning and the end.
//!
//! Invariants checked of a tree: one level less with each step down; every key inside the separators above it and in
//! order; leaves chained in key order; writers and versions that have existed; every page used once.

use crate::api::{BlobRef, TreeId};
use crate::blob;
use crate::database::Database;
use crate::datafile::{FIRST_FREE_OTHER, FIRST_FREE_PRIMARY};
use crate::error::StorageError;
use crate::log::record::Space;
use crate::page::{FLAG_DELETED, Page, PageType};
use crate::{alloc, api};
use daruma_base::{Lsn, PageId, TxnId};
use std::collections::HashMap;
use std::fmt;

/// Findings kept; a database in ruins needs no longer list.
const FINDINGS_MAX: usize = 1_000;
const DEPTH_MAX: u8 = 24;
/// Longer than any version chain that a living snapshot explains.
const CHAIN_MAX: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Checksum, identity or structure of one page.
    Page,
    /// Pages that do not fit together: levels, separators, order, chain.
    Linkage,
    /// An entry that cannot be what was stored.
    Entry,
    /// Page used by two owners, or used and marked free.
    Allocation,
    /// Page marked as used that nobody uses.
    Leak,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    pub page: PageId,
    /// Tree or blob it was found in.
    pub owner: Option<PageId>,
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at page {}: {}", self.kind, self.page, self.what)
    }
}

/// What a tree holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSummary {
    pub pages: u64,
    pub leaves: u64,
    /// Entries that are not deleted, of whatever transaction.
    pub entries: u64,
}

/// What a whole check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    pub findings: Vec<Finding>,
    /// Pages in use by trees and blobs.
    pub pages: u64,
    /// Nothing changed meanwhile, so that pages without an owner could be told.
    pub exact: bool,
}

/// A check of one database under way: give it every tree and blob, then [`Checker::finish`].
pub struct Checker<'a> {
    db: &'a Database,
    owners: HashMap<PageId, PageId>,
    /// Allocation bits as they were at the beginning.
    before: HashMap<PageId, Page>,
    began: Lsn,
    findings: Vec<Finding>,
}

/// Keys that a page may hold: from `low` to below `high`.
struct Range<'k> {
    low: &'k [u8],
    high: Option<&'k [u8]>,
}

/// The walk of one tree.
struct Walk {
    root: PageId,
    summary: TreeSummary,
    /// The leaf before, and where it says the chain goes on.
    last_leaf: Option<(PageId, PageId)>,
}

impl<'a> Checker<'a> {
    pub fn new(db: &'a Database) -> Checker<'a> {
        let mut checker = Checker {
            db,
            owners: HashMap::new(),
            before: HashMap::new(),
            began: db.log_stats().end_lsn,
            findings: Vec::new(),
        };
        checker.before = checker.read_maps();
        checker
    }

    fn find(&mut self, kind: FindingKind, page: PageId, owner: Option<PageId>, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding {
                kind,
                page,
                owner,
                what,
            });
        }
    }

    fn read(&mut self, id: PageId, owner: Option<PageId>) -> Option<Page> {
        match self.db.pool().read(self.db.store(), id) {
            Ok(page) => Some((*page).clone()),
            Err(error) => {
                self.find(FindingKind::Page, id, owner, error.to_string());
                None
            }
        }
    }

    /// Notes that `owner` uses the page. False when someone else does already.
    fn claim(&mut self, page: PageId, owner: PageId) -> bool {
        match self.owners.insert(page, owner) {
            None => true,
            Some(other) => {
                let what = format!("used by {other} and by {owner}");
                self.find(FindingKind::Allocation, page, Some(owner), what);
                false
            }
        }
    }

    // --- trees --------------------------------------------------------------------------------------------------

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
        };
        self.subtree(&mut walk, id.0, None, all, 0);
        if let Some((leaf, next)) = walk.last_leaf
            && !next.is_none()
        {
            let what = format!("the last leaf is followed by page {next}");
            self.find(FindingKind::Linkage, leaf, Some(id.0), what);
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
        let Some(page) = self.read(id, Some(walk.root)) else {
            // What its chain says is unknown: the next leaf is not held against it.
            walk.last_leaf = None;
            return;
        };
        let mut wrong = |what: String| self.find(FindingKind::Linkage, id, Some(walk.root), what);
        if page.page_type() != Some(PageType::Tree) || page.tree() != walk.root {
            walk.last_leaf = None;
            return wrong(format!(
                "a page of type {:?} of tree {} where one of tree {} should be",
                page.page_type(),
                page.tree(),
                walk.root
            ));
        }
        if level.is_some_and(|l| l != page.level()) || depth > DEPTH_MAX {
            walk.last_leaf = None;
            return wrong(format!("level {} under level {level:?} + 1", page.level()));
        }
        self.keys(walk, &page, &range);
        if page.is_leaf() {
            self.leaf(walk, &page);
        } else {
            self.children(walk, &page, &range, depth);
        }
    }

    /// Order of the keys, and their place between the separators above.
    fn keys(&mut self, walk: &Walk, page: &Page, range: &Range<'_>) {
        let first = usize::from(!page.is_leaf());
        for slot in 0..page.slots() {
            let key = page.key(slot);
            let ordered = slot <= first || page.key(slot - 1) < key;
            let inside = slot < first || (key >= range.low && range.high.is_none_or(|h| key < h));
            if !ordered || !inside || key.len() > api::KEY_BYTES_MAX {
                let what = format!(
                    "the key in slot {slot} is {}",
                    match (ordered, inside) {
                        (false, _) => "not above the one before",
                        (_, false) => "outside the separators above the page",
                        _ => "too long",
                    }
                );
                self.find(FindingKind::Linkage, page.id(), Some(walk.root), what);
            }
        }
        if !page.is_leaf() && page.slots() > 0 && !page.key(0).is_empty() {
            let what = "the first separator is not empty".to_string();
            self.find(FindingKind::Linkage, page.id(), Some(walk.root), what);
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
            let child = Range { low, high };
            self.subtree(walk, page.child(slot), Some(below), child, depth + 1);
        }
    }

    fn leaf(&mut self, walk: &mut Walk, page: &Page) {
        walk.summary.leaves += 1;
        if let Some((before, next)) = walk.last_leaf
            && next != page.id()
        {
            let what = format!(
                "followed by page {next} in the chain but by page {} in the tree",
                page.id()
            );
            self.find(FindingKind::Linkage, before, Some(walk.root), what);
        }
        walk.last_leaf = Some((page.id(), page.next()));
        for slot in 0..page.slots() {
            let head = page.head(slot);
            walk.summary.entries += u64::from(!head.is_deleted());
            if head.flags & !FLAG_DELETED != 0 || head.writer.0 >= self.db.txns().next_id() {
                let what = format!(
                    "slot {slot} has flags {} and writer {}, which does not exist",
                    head.flags, head.writer.0
                );
                self.find(FindingKind::Entry, page.id(), Some(walk.root), what);
            } else if !self.chain_ends(head.writer, head.version) {
                let what = format!("the versions of slot {slot} do not end");
                self.find(FindingKind::Entry, page.id(), Some(walk.root), what);
            }
        }
    }

    /// Follows an entry's versions as far as a reader might: to a writer everyone sees, or to the first version.
    fn chain_ends(&self, mut writer: TxnId, mut version: u64) -> bool {
        for _ in 0..CHAIN_MAX {
            if version == 0 || writer < self.db.txns().base() {
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
        let mut pages: Vec<PageId> = self.owners.keys().copied().collect();
        pages.sort_unstable_by_key(|p| (p.file, p.page));
        pages
    }

    // --- blobs --------------------------------------------------------------------------------------------------

    pub fn blob(&mut self, blob: BlobRef) {
        let mut index = blob.first;
        let mut pages = 0u64;
        while !index.is_none() && self.claim(index, blob.first) {
            let Some(page) = self.read(index, Some(blob.first)) else {
                return;
            };
            if page.page_type() != Some(PageType::Blob) || page.tree() != blob.first {
                let what = "not a page of its blob".to_string();
                return self.find(FindingKind::Linkage, index, Some(blob.first), what);
            }
            for data in blob::listed(&page) {
                pages += 1;
                if self.claim(data, blob.first) {
                    self.blob_data(blob, data);
                }
            }
            index = page.next();
        }
        if pages != blob.bytes.div_ceil(blob::DATA_BYTES as u64) {
            let what = format!("{} bytes in {pages} pages", blob.bytes);
            self.find(FindingKind::Linkage, blob.first, Some(blob.first), what);
        }
    }

    fn blob_data(&mut self, blob: BlobRef, id: PageId) {
        if let Some(page) = self.read(id, Some(blob.first))
            && (page.page_type() != Some(PageType::Blob) || page.tree() != blob.first)
        {
            let what = "not a page of its blob".to_string();
            self.find(FindingKind::Linkage, id, Some(blob.first), what);
        }
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
            self.owners.insert(page, page);
        }
        for space in self.db.pending_spaces() {
            let (Space::Tree(root) | Space::Blob(root)) = space;
            let mut todo = vec![root];
            while let Some(id) = todo.pop() {
                if self.owners.contains_key(&id) {
                    continue;
                }
                self.owners.insert(id, root);
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
        self.waiting_space();
        let at_rest = self.db.active_transactions().is_empty();
        let exact = at_rest && self.db.log_stats().end_lsn == self.began;
        let after = self.read_maps();
        let used: Vec<(PageId, PageId)> = self.owners.iter().map(|(p, o)| (*p, *o)).collect();
        for (page, owner) in used {
            let (map, bit) = alloc::bit_of(page);
            let marked = |maps: &HashMap<PageId, Page>| {
                maps.get(&map)
                    .is_none_or(|m| !m.is_zero() && alloc::get_bit(m, bit))
            };
            if !marked(&self.before) && !marked(&after) {
                let what = format!("used by {owner} but marked as free");
                self.find(FindingKind::Allocation, page, Some(owner), what);
            }
        }
        if exact {
            self.unused(&after);
        }
        self.findings.sort_by_key(|f| (f.page.file, f.page.page));
        CheckReport {
            pages: self.owners.len() as u64,
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
                if alloc::get_bit(map, bit as u16) && !self.owners.contains_key(&page) {
                    let what = "marked as used, but nobody uses it".to_string();
                    self.find(FindingKind::Leak, page, None, what);
                }
            }
        }
    }
}

/// Does the error say that a page or the log is damaged, rather than that the database may not be used?
impl StorageError {
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            StorageError::BadPage { .. }
                | StorageError::DamagedPage { .. }
                | StorageError::DamagedLog { .. }
        )
    }
}
