//! Moving the pages of a tree out of a file that is to be emptied.
//!
//! Theory: a page moves by one log record: the new place is taken and written, the pointers to the page (its parent's, its
//! left neighbour's) are changed, the old place is freed. A crash leaves it moved or not begun. Readers that stand between
//! two leaves notice as they do when a leaf is unlinked. The root stays: the catalog knows the tree by it.
//!
//! Latches: parent, left neighbour, page, allocation page of the new place, and that of the old one only if nobody has it.
//! Two allocation pages are latched in order elsewhere (`space::clear_bits`), and which file the new place is in is known too
//! late for that.

use super::shape::rename_page;
use super::{DEPTH_MAX, Tree};
use crate::alloc::bit_of;
use crate::database::Database;
use crate::error::Result;
use crate::log::AppendKind;
use crate::log::record::{self, Kind, PartsWriter};
use crate::page::{Page, PageType};
use daruma_base::{Lsn, PageId, TxnId, reached};

/// How far a tree has been moved: the level of the parents that are looked at, and the key from which on.
pub(crate) struct WayOut {
    level: u8,
    from: Vec<u8>,
}

impl Default for WayOut {
    fn default() -> WayOut {
        WayOut {
            level: 1,
            from: Vec::new(),
        }
    }
}

/// What [`Tree::move_one_out`] has done.
pub(crate) enum Onward {
    /// A page has moved.
    Moved,
    /// None yet.
    Looked,
    /// Nothing of the tree but its root is in the file.
    Over,
}

/// One step on the way along a level.
#[derive(Debug)]
enum Step {
    /// The tree is not so high.
    NoLevel,
    Moved,
    /// Another thread had the allocation page.
    Again,
    /// The parent that covers the key leads nowhere into the file; the next one begins here.
    Next(Vec<u8>),
    End,
}

/// A child in the file, and who points to it.
struct Place {
    parent: PageId,
    slot: usize,
    child: PageId,
    /// The leaf before it, if it is a leaf and not the first.
    left: Option<PageId>,
}

/// What a parent holds of the file.
enum Found {
    Child(Place),
    Step(Step),
}

impl Tree {
    /// Moves one page, but not the root, out of a closed file, or looks further on its way.
    pub(crate) fn move_one_out(
        &self,
        db: &Database,
        file: u16,
        way: &mut WayOut,
    ) -> Result<Onward> {
        if usize::from(way.level) >= DEPTH_MAX {
            return Ok(Onward::Over);
        }
        match self.move_next(db, file, way.level, &way.from)? {
            Step::NoLevel => return Ok(Onward::Over),
            Step::Moved => return Ok(Onward::Moved),
            Step::Again => crate::sync::yield_now(),
            Step::Next(key) => way.from = key,
            Step::End => {
                *way = WayOut {
                    level: way.level + 1,
                    from: Vec::new(),
                }
            }
        }
        Ok(Onward::Looked)
    }

    /// Moves the first page in the file whose parent is the page of `level` that covers `from`.
    fn move_next(&self, db: &Database, file: u16, level: u8, from: &[u8]) -> Result<Step> {
        // Parents do not change while it is held, so they need no latches from the root down.
        let _one_at_a_time = self.shape.lock();
        match self.find_child_in(db, file, level, from)? {
            Found::Child(place) => self.move_page(db, &place),
            Found::Step(step) => Ok(step),
        }
    }

    fn find_child_in(&self, db: &Database, file: u16, level: u8, from: &[u8]) -> Result<Found> {
        let mut page = self.read_page(db, self.id.0)?;
        if page.level() < level {
            return Ok(Found::Step(Step::NoLevel));
        }
        // Where the page's keys end, and the subtree that ends where they begin.
        let (mut end, mut before) = (None, None);
        for _ in 0..DEPTH_MAX {
            if page.level() == level {
                let is_in_file = |slot: &usize| page.child(*slot).file == file;
                let Some(slot) = (0..page.slots()).find(is_in_file) else {
                    return Ok(Found::Step(end.map_or(Step::End, Step::Next)));
                };
                let (parent, child) = (page.id(), page.child(slot));
                if slot > 0 {
                    before = Some(page.child(slot - 1));
                }
                let left = match (level, before) {
                    (1, Some(before)) => {
                        drop(page);
                        Some(self.last_leaf(db, before)?)
                    }
                    _ => None,
                };
                return Ok(Found::Child(Place {
                    parent,
                    slot,
                    child,
                    left,
                }));
            }
            let slot = page.child_slot(from);
            if slot > 0 {
                before = Some(page.child(slot - 1));
            }
            if slot + 1 < page.slots() {
                end = Some(page.key(slot + 1).to_vec());
            }
            page = self.read_page(db, page.child(slot))?;
        }
        Err(self.damaged(db, page.id(), "the tree is too deep"))
    }

    /// The last leaf below a page, or the page itself.
    fn last_leaf(&self, db: &Database, id: PageId) -> Result<PageId> {
        let mut page = self.read_page(db, id)?;
        for _ in 0..DEPTH_MAX {
            match page.slots().checked_sub(1) {
                Some(last) if !page.is_leaf() => page = self.read_page(db, page.child(last))?,
                _ => return Ok(page.id()),
            }
        }
        Err(self.damaged(db, page.id(), "the tree is too deep"))
    }

    fn move_page(&self, db: &Database, place: &Place) -> Result<Step> {
        let mut parent = self.write_page(db, place.parent)?;
        let left = place.left.map(|left| self.write_page(db, left));
        let mut left = left.transpose()?;
        let mut page = self.write_page(db, place.child)?;
        if left.as_ref().is_some_and(|l| l.next() != page.id()) {
            return Err(self.damaged(db, page.id(), "its left neighbour leads elsewhere"));
        }
        let mut space = db.choose_pages(page.id().file, 1)?;
        let id = space.pages[0];
        let (map, bit) = bit_of(page.id());
        let Some(mut bitmap) = db.pool().try_write(db.store(), map)? else {
            return Ok(Step::Again);
        };
        let mut new = db.pool().write_new(db.store(), id)?;
        reached!("tree.page.moved");
        let mut content = page.clone();
        rename_page(&mut content, id);
        let mut empty = Page::zeroed();
        empty.format(page.id(), PageType::Free, 0, PageId::NONE);
        let mut body = Vec::new();
        record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
        let mut parts = PartsWriter::new(&mut body);
        parts.image(&with_child(&parent, place.slot, id));
        if let Some(left) = &left {
            parts.set_next(left.id(), id);
        }
        parts.image(&empty);
        // Allocation pages in their order: so they are latched by whoever repeats this.
        if map < space.bitmap.location() {
            parts.bits(map, false, &[bit]);
            space.write_parts(&mut body);
        } else {
            space.write_parts(&mut body);
            PartsWriter::new(&mut body).bits(map, false, &[bit]);
        }
        PartsWriter::new(&mut body).image(&content);
        record::finish(&mut body);
        self.note_unlinked();
        let mut pages = vec![
            &mut space.bitmap,
            &mut new,
            &mut parent,
            &mut bitmap,
            &mut page,
        ];
        pages.extend(left.as_mut());
        db.apply_system(&body, &mut pages, AppendKind::System)?;
        db.shrink_notes().copy(place.child, id, db.txns().base());
        db.allocator().freed(place.child);
        Ok(Step::Moved)
    }
}

/// The same internal page with another child in a slot.
fn with_child(page: &Page, slot: usize, child: PageId) -> Page {
    let mut changed = page.clone();
    let key = page.key(slot).to_vec();
    changed.remove(slot);
    changed.insert_internal(slot, child, &key);
    changed
}
