//! Changing the shape of a tree: splits, purging of dead entries, unlinking of empty leaves.
//!
//! Each change is one log record over all pages it touches, so a crash leaves it done or not begun. The tree's `shape`
//! latch admits one at a time; pages are latched from the root down, the allocation page last, but for pages that are new. The parts
//! of a record stand in this order, in which whoever repeats it latches them.

use super::{DEPTH_MAX, Tree};
use crate::alloc::bit_of;
use crate::api::KEY_BYTES_MAX;
use crate::buffer::PageWrite;
use crate::database::Database;
use crate::error::Result;
use crate::log::AppendKind;
use crate::log::record::{self, Kind, PartsWriter};
use crate::page::{INTERNAL_HEAD_BYTES, Page, PageType};
use daruma_base::{Lsn, PageId, TxnId, reached};

/// Room that an internal page must have so that a child can be split under it.
const SEPARATOR_ROOM_BYTES: usize = INTERNAL_HEAD_BYTES + KEY_BYTES_MAX + 2;

impl Tree {
    /// Makes room for `bytes` in the leaf that covers `key`: by dropping dead entries, else by splitting. The caller
    /// then looks for its leaf again. `kind` is `Completion` in a rollback, which must not fail in a full log, and has what
    /// the leaf keeps (`room`).
    pub(crate) fn make_room(
        &self,
        db: &Database,
        key: &[u8],
        bytes: usize,
        kind: AppendKind,
    ) -> Result<()> {
        let _one_at_a_time = self.shape.lock();
        {
            let mut leaf = self.leaf_write(db, key)?;
            let has_room = |leaf: &Page, bytes| match kind {
                AppendKind::Completion => Ok(leaf.free_bytes() >= bytes),
                _ => self.has_room(db, leaf, bytes),
            };
            if has_room(&leaf, bytes)? {
                return Ok(());
            }
            if self.purge(db, &mut leaf, kind)?
                && has_room(&leaf, bytes.max(crate::page::CAPACITY_BYTES / 8))?
            {
                return Ok(());
            }
            if kind == AppendKind::Completion {
                // Only in a file from before there was kept room.
                reached!("tree.split.to_take_back");
            }
        }
        let mut page = self.write_page(db, self.id.0)?;
        if page.is_leaf() || page.free_bytes() < SEPARATOR_ROOM_BYTES {
            page = self.grow_root(db, page, kind)?;
        }
        for _ in 0..DEPTH_MAX {
            let slot = page.child_slot(key);
            let mut child = self.write_page(db, page.child(slot))?;
            if child.is_leaf() {
                return self.split(db, &mut page, slot, &mut child, key, kind);
            }
            if child.free_bytes() < SEPARATOR_ROOM_BYTES {
                self.split(db, &mut page, slot, &mut child, key, kind)?;
                let slot = page.child_slot(key);
                if page.child(slot) != child.id() {
                    let right = page.child(slot);
                    drop(child);
                    child = self.write_page(db, right)?;
                }
            }
            page = child;
        }
        Err(self.damaged(db, page.id(), "the tree is too deep"))
    }

    /// Moves the root's content into a new child, so that the child can be split under the root.
    fn grow_root<'a>(
        &self,
        db: &'a Database,
        mut root: PageWrite<'a>,
        kind: AppendKind,
    ) -> Result<PageWrite<'a>> {
        reached!("tree.root.grown");
        let mut space = db.choose_pages_for(kind, self.id.0.file, 1)?;
        let id = space.pages[0];
        let mut child = db.pool().write_new(db.store(), id)?;
        let mut moved = root.clone();
        rename_page(&mut moved, id);
        let mut new_root = Page::zeroed();
        new_root.format(self.id.0, PageType::Tree, root.level() + 1, self.id.0);
        new_root.insert_internal(0, id, &[]);
        let mut body = Vec::new();
        record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
        PartsWriter::new(&mut body).image(&new_root);
        space.write_parts(&mut body);
        PartsWriter::new(&mut body).image(&moved);
        record::finish(&mut body);
        db.apply_system(&body, &mut [&mut root, &mut space.bitmap, &mut child], kind)?;
        db.shrink_notes().copy(root.id(), id, db.txns().base());
        self.add_pages(1);
        Ok(root)
    }

    /// Splits `page`, which is child `slot` of `parent`, so that `key` finds room.
    fn split<'a>(
        &self,
        db: &'a Database,
        parent: &mut PageWrite<'a>,
        slot: usize,
        page: &mut PageWrite<'a>,
        key: &[u8],
        kind: AppendKind,
    ) -> Result<()> {
        if !page.is_leaf() {
            reached!("tree.internal.split");
        }
        let at = split_point(page, key);
        let separator = separator(page, at, key);
        let mut space = db.choose_pages_for(kind, page.id().file, 1)?;
        let id = space.pages[0];
        let mut right = db.pool().write_new(db.store(), id)?;
        let content = right_half(page, id, at);
        let mut body = Vec::new();
        record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
        let mut parts = PartsWriter::new(&mut body);
        parts.internal_insert(parent.id(), slot + 1, id, &separator);
        parts.truncate(
            page.id(),
            at,
            if page.is_leaf() { id } else { PageId::NONE },
        );
        space.write_parts(&mut body);
        PartsWriter::new(&mut body).image(&content);
        record::finish(&mut body);
        db.apply_system(
            &body,
            &mut [parent, page, &mut space.bitmap, &mut right],
            kind,
        )?;
        if right.slots() > 0 && right.is_leaf() {
            db.shrink_notes().copy(page.id(), id, db.txns().base());
        }
        self.add_pages(1);
        Ok(())
    }

    /// Removes entries that were deleted by transactions everyone sees. True when there were any.
    fn purge(&self, db: &Database, leaf: &mut PageWrite<'_>, kind: AppendKind) -> Result<bool> {
        let dead = |s: &usize| {
            let head = leaf.head(*s);
            head.is_deleted() && db.txns().is_settled(head.writer)
        };
        let slots: Vec<u16> = (0..leaf.slots())
            .rev()
            .filter(dead)
            .map(|s| s as u16)
            .collect();
        if slots.is_empty() {
            return Ok(false);
        }
        reached!("tree.leaf.purged");
        let mut body = Vec::new();
        record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
        PartsWriter::new(&mut body).remove_slots(leaf.id(), &slots);
        record::finish(&mut body);
        db.apply_system(&body, &mut [leaf], kind)?;
        Ok(true)
    }

    /// Cleans the leaf that covers `key`: purges what is dead and unlinks the leaf if nothing is left. False when
    /// dead entries had to stay because someone may still see them.
    pub(crate) fn clean(&self, db: &Database, key: &[u8]) -> Result<bool> {
        let _one_at_a_time = self.shape.lock();
        self.clean_alone(db, key)
    }

    /// As `clean`; `None` while somebody else keeps or changes the shape of the tree, which a check of a large one does for long.
    pub(crate) fn clean_at_once(&self, db: &Database, key: &[u8]) -> Result<Option<bool>> {
        let Some(_one_at_a_time) = self.shape.try_lock() else {
            return Ok(None);
        };
        self.clean_alone(db, key).map(Some)
    }

    /// The caller holds `shape`.
    fn clean_alone(&self, db: &Database, key: &[u8]) -> Result<bool> {
        {
            let mut leaf = self.leaf_write(db, key)?;
            self.purge(db, &mut leaf, AppendKind::System)?;
            if leaf.slots() > 0 || leaf.id() == self.id.0 {
                return Ok((0..leaf.slots()).all(|s| !leaf.head(s).is_deleted()));
            }
        }
        self.unlink_empty(db, key)?;
        Ok(true)
    }

    /// Takes an empty leaf out of the chain and frees it. The first child of a parent stays, for its left neighbour is under
    /// another parent; when it is the last one it goes together with the parent. So a queue, whose rows go at the left,
    /// does not leave an empty leaf behind for each parent.
    fn unlink_empty(&self, db: &Database, key: &[u8]) -> Result<()> {
        let mut parent = self.write_page(db, self.id.0)?;
        for _ in 0..DEPTH_MAX {
            if parent.is_leaf() {
                return Ok(());
            }
            let slot = parent.child_slot(key);
            if parent.level() > 1 {
                let child = self.write_page(db, parent.child(slot))?;
                parent = child;
                continue;
            }
            if slot == 0 {
                drop(parent);
                return self.unlink_lone(db, key);
            }
            let mut left = self.write_page(db, parent.child(slot - 1))?;
            let mut page = self.write_page(db, parent.child(slot))?;
            if page.slots() > 0 || left.next() != page.id() {
                return Ok(());
            }
            reached!("tree.leaf.unlinked");
            let (map, bit) = bit_of(page.id());
            let mut bitmap = db.pool().write(db.store(), map)?;
            let mut body = Vec::new();
            record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
            let mut parts = PartsWriter::new(&mut body);
            parts.internal_remove(parent.id(), slot);
            parts.set_next(left.id(), page.next());
            parts.image(&freed_page(page.id()));
            parts.bits(map, false, &[bit]);
            record::finish(&mut body);
            self.note_unlinked();
            db.apply_system(
                &body,
                &mut [&mut parent, &mut left, &mut page, &mut bitmap],
                AppendKind::System,
            )?;
            db.allocator().freed(page.id());
            self.add_pages(-1);
            if parent.slots() > 1 || left.slots() > 0 {
                return Ok(());
            }
            // What stayed because it was the first is the last now.
            drop((bitmap, page, left, parent));
            return self.unlink_lone(db, key);
        }
        Err(self.damaged(db, parent.id(), "the tree is too deep"))
    }

    /// Takes an empty leaf out of the chain together with its parent that has no other, and frees both. The first parent
    /// under its own one stays.
    fn unlink_lone(&self, db: &Database, key: &[u8]) -> Result<()> {
        let mut above = self.write_page(db, self.id.0)?;
        for _ in 0..DEPTH_MAX {
            if above.level() < 2 {
                return Ok(());
            }
            let slot = above.child_slot(key);
            if above.level() > 2 {
                let child = self.write_page(db, above.child(slot))?;
                above = child;
                continue;
            }
            if slot == 0 {
                return Ok(());
            }
            let before = self.write_page(db, above.child(slot - 1))?;
            let mut parent = self.write_page(db, above.child(slot))?;
            if parent.slots() > 1 || before.slots() == 0 {
                return Ok(());
            }
            let mut left = self.write_page(db, before.child(before.slots() - 1))?;
            drop(before);
            let mut page = self.write_page(db, parent.child(0))?;
            if page.slots() > 0 || left.next() != page.id() {
                return Ok(());
            }
            reached!("tree.parent.unlinked");
            let mut freed = [bit_of(parent.id()), bit_of(page.id())];
            freed.sort();
            let [(first, _), (second, _)] = freed;
            let mut body = Vec::new();
            record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
            let mut parts = PartsWriter::new(&mut body);
            parts.internal_remove(above.id(), slot);
            parts.image(&freed_page(parent.id()));
            parts.set_next(left.id(), page.next());
            parts.image(&freed_page(page.id()));
            let mut bitmap = db.pool().write(db.store(), first)?;
            let mut other;
            let mut latched = vec![&mut above, &mut parent, &mut left, &mut page, &mut bitmap];
            if first == second {
                parts.bits(first, false, &freed.map(|(_, bit)| bit));
            } else {
                other = db.pool().write(db.store(), second)?;
                latched.push(&mut other);
                freed
                    .iter()
                    .for_each(|(map, bit)| parts.bits(*map, false, &[*bit]));
            }
            record::finish(&mut body);
            self.note_unlinked();
            db.apply_system(&body, &mut latched, AppendKind::System)?;
            db.allocator().freed(parent.id());
            db.allocator().freed(page.id());
            self.add_pages(-2);
            return Ok(());
        }
        Err(self.damaged(db, above.id(), "the tree is too deep"))
    }
}

/// The image of a page that is of no tree any more: nobody may take it for one of this again.
fn freed_page(id: PageId) -> Page {
    let mut page = Page::zeroed();
    page.format(id, PageType::Free, 0, PageId::NONE);
    page
}

/// Makes a copy of a page that of another place.
pub(super) fn rename_page(page: &mut Page, id: PageId) {
    let bytes = page.bytes_mut();
    crate::bytes::put_u16(&mut bytes[..], 16, id.file);
    crate::bytes::put_u32(&mut bytes[..], 20, id.page);
}

/// Index of the first entry that moves right.
fn split_point(page: &PageWrite<'_>, key: &[u8]) -> usize {
    let n = page.slots();
    let ascending = page.is_leaf() && page.next().is_none() && n > 0 && key > page.key(n - 1);
    if ascending {
        // Keys that only grow fill each page before they take the next.
        return n;
    }
    if let Some(at) = end_of_run(page, key) {
        reached!("tree.split.behind_a_run");
        return at;
    }
    if n < 2 {
        return if n == 1 && page.is_leaf() && key > page.key(0) {
            1
        } else {
            0
        };
    }
    let half = page.used_bytes() / 2;
    let mut bytes = 0;
    for slot in 0..n {
        bytes += page.entry_bytes(slot) + 2;
        if bytes >= half {
            return (slot + 1).clamp(1, n - 1);
        }
    }
    n / 2
}

/// Where `key` goes on with entries that were inserted one behind the other: what stays left there is full for good.
fn end_of_run(page: &PageWrite<'_>, key: &[u8]) -> Option<usize> {
    if !page.is_leaf() {
        return None;
    }
    let slot = page.search(key).err()?;
    (slot > 0 && page.run().goes_on_at(slot, page.slots())).then_some(slot)
}

/// Shortest key that is above everything staying left and not above anything moving right.
fn separator(page: &Page, at: usize, key: &[u8]) -> Vec<u8> {
    let right = if at < page.slots() { page.key(at) } else { key };
    if !page.is_leaf() || at == 0 {
        return right.to_vec();
    }
    let left = page.key(at - 1);
    let shared = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right[..(shared + 1).min(right.len())].to_vec()
}

/// The page that takes the entries from `at` on.
fn right_half(page: &Page, id: PageId, at: usize) -> Page {
    let mut right = Page::zeroed();
    right.format(id, PageType::Tree, page.level(), page.tree());
    for slot in at..page.slots() {
        let to = slot - at;
        if page.is_leaf() {
            let entry = page.leaf(slot);
            right.insert_leaf(to, entry.head, entry.key, entry.payload);
        } else {
            // The first child of an internal page covers everything below its second separator.
            let key = if to == 0 { &[] } else { page.key(slot) };
            right.insert_internal(to, page.child(slot), key);
        }
    }
    right.set_next(page.next());
    right
}
