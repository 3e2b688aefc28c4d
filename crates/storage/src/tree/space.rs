//! Freeing a whole tree, in steps that can be repeated after a crash at any point.
//!
//! Each step frees all children of one page just above the leaves and turns that page into an empty leaf, in one
//! record. When only the root is left, it is freed together with the record that ends the deferred free.

use super::{DEPTH_MAX, Tree};
use crate::alloc::bit_of;
use crate::buffer::PageWrite;
use crate::database::Database;
use crate::error::Result;
use crate::log::AppendKind;
use crate::log::record::{self, Kind, PartsWriter, Space};
use crate::page::{Page, PageType};
use crate::pause::pause;
use daruma_base::{Lsn, PageId, TxnId, reached};
use std::collections::BTreeMap;

impl Tree {
    /// Frees every page. No one may use the tree any more.
    pub(crate) fn free_all(&self, db: &Database) -> Result<()> {
        let _one_at_a_time = self.shape.lock();
        while let Some(above_leaves) = self.first_above_leaves(db)? {
            self.free_children(db, above_leaves)?;
        }
        free_last_page(db, self.id.0, Space::Tree(self.id.0), &[])
    }

    /// The leftmost page of level 1, or the lowest page whose children are all leaves by now.
    fn first_above_leaves(&self, db: &Database) -> Result<Option<PageId>> {
        let mut page = self.read_page(db, self.id.0)?;
        for _ in 0..DEPTH_MAX {
            if page.is_leaf() {
                return Ok(None);
            }
            let mut deeper = None;
            for slot in 0..page.slots() {
                let child = self.read_page(db, page.child(slot))?;
                if !child.is_leaf() {
                    deeper = Some(child);
                    break;
                }
            }
            match deeper {
                Some(child) => page = child,
                None => return Ok(Some(page.id())),
            }
        }
        Err(self.damaged(db, page.id(), "the tree is too deep"))
    }

    fn free_children(&self, db: &Database, id: PageId) -> Result<()> {
        reached!("tree.freed.in_steps");
        let mut page = self.write_page(db, id)?;
        let children: Vec<PageId> = (0..page.slots()).map(|s| page.child(s)).collect();
        let mut empty = Page::zeroed();
        empty.format(id, PageType::Tree, 0, self.id.0);
        let mut body = Vec::new();
        record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
        PartsWriter::new(&mut body).image(&empty);
        let mut maps = clear_bits(db, &mut body, &children)?;
        record::finish(&mut body);
        let mut pages: Vec<&mut PageWrite<'_>> = maps.iter_mut().collect();
        pages.push(&mut page);
        db.apply_system(&body, &mut pages, AppendKind::System)?;
        children.iter().for_each(|c| db.allocator().freed(*c));
        Ok(())
    }
}

/// Adds the parts that free `pages` to a record; their allocation pages, latched in order.
pub(crate) fn clear_bits<'a>(
    db: &'a Database,
    body: &mut Vec<u8>,
    pages: &[PageId],
) -> Result<Vec<PageWrite<'a>>> {
    let mut by_map: BTreeMap<(u16, u32), Vec<u16>> = BTreeMap::new();
    for page in pages {
        let (map, bit) = bit_of(*page);
        by_map.entry((map.file, map.page)).or_default().push(bit);
    }
    let mut maps = Vec::new();
    for ((file, page), bits) in by_map {
        let map = PageId::new(file, page);
        maps.push(db.pool().write(db.store(), map)?);
        PartsWriter::new(body).bits(map, false, &bits);
    }
    Ok(maps)
}

/// Frees `others` and finally `first`, with the record that says the deferred free of `space` is done.
pub(crate) fn free_last_page(
    db: &Database,
    first: PageId,
    space: Space,
    others: &[PageId],
) -> Result<()> {
    // None behind the record may tell that the space is still to be freed.
    let _no_checkpoint = db.no_checkpoint();
    let mut page = db.pool().write(db.store(), first)?;
    let mut empty = Page::zeroed();
    empty.format(first, PageType::Free, 0, PageId::NONE);
    let mut body = Vec::new();
    record::start(&mut body, Kind::FreeDone, TxnId::NONE, Lsn::NONE);
    space.write(&mut body);
    PartsWriter::new(&mut body).image(&empty);
    let all: Vec<PageId> = others.iter().copied().chain([first]).collect();
    let mut maps = clear_bits(db, &mut body, &all)?;
    record::finish(&mut body);
    let mut pages: Vec<&mut PageWrite<'_>> = maps.iter_mut().collect();
    pages.push(&mut page);
    db.apply_system(&body, &mut pages, AppendKind::System)?;
    pause("pending.freed");
    db.end_pending(space);
    all.iter().for_each(|p| db.allocator().freed(*p));
    Ok(())
}
