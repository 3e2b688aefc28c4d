//! Applying log records to pages: the one code path for doing and for redoing.
//!
//! A change is first logged, then applied to the latched pages by the same functions that recovery calls, so what
//! redo does is what was done. Errors mean a damaged page or log; they never leave a page half-read out of bounds.

use crate::alloc;
use crate::log::record::{LeafOp, Ops, PageAction, u16s};
use crate::page::{FLAG_DELETED, Head, PAGE_BYTES, Page, PageType};
use daruma_base::{PageId, TxnId};

/// A record that does not fit its page is damage: the text says how.
pub type Applied = std::result::Result<(), &'static str>;

/// Applies the operations of an `Ops` or `Clr` record of transaction `txn` to its leaf.
pub fn apply_ops(page: &mut Page, ops: &Ops<'_>, txn: TxnId) -> Applied {
    if page.page_type() != Some(PageType::Tree) || !page.is_leaf() {
        return Err("a leaf operation on a page that is no leaf");
    }
    let mut scratch = Vec::new();
    ops.iter()
        .try_for_each(|op| apply_op(page, op.ok_or("damaged leaf operation")?, txn, &mut scratch))
}

fn apply_op(page: &mut Page, op: LeafOp<'_>, txn: TxnId, scratch: &mut Vec<u8>) -> Applied {
    let slots = page.slots();
    let there = |slot: usize| {
        if slot < slots {
            Ok(())
        } else {
            Err("slot out of range")
        }
    };
    match op {
        LeafOp::Insert { slot, key, payload } => {
            if slot > slots || key.len() > crate::api::KEY_BYTES_MAX {
                return Err("slot out of range");
            }
            if !page.fits(Page::leaf_entry_bytes(key, payload.len())) {
                return Err("no room for an inserted entry");
            }
            page.insert_leaf(
                slot,
                Head {
                    flags: 0,
                    writer: txn,
                    version: 0,
                },
                key,
                payload,
            );
        }
        LeafOp::Update {
            slot,
            version,
            delta,
            ..
        } => {
            there(slot)?;
            scratch.clear();
            delta
                .apply(page.payload(slot), scratch)
                .ok_or("a delta does not fit its entry")?;
            replace(
                page,
                slot,
                Head {
                    flags: 0,
                    writer: txn,
                    version,
                },
                scratch,
            )?;
        }
        LeafOp::Delete { slot, version, .. } => {
            there(slot)?;
            page.set_head(
                slot,
                Head {
                    flags: FLAG_DELETED,
                    writer: txn,
                    version,
                },
            );
        }
        LeafOp::Remove { slot } => {
            there(slot)?;
            page.remove(slot);
        }
        LeafOp::Restore { slot, head, delta } => {
            there(slot)?;
            scratch.clear();
            delta
                .apply(page.payload(slot), scratch)
                .ok_or("a delta does not fit its entry")?;
            replace(page, slot, head, scratch)?;
        }
    }
    Ok(())
}

fn replace(page: &mut Page, slot: usize, head: Head, payload: &[u8]) -> Applied {
    let old = page.entry_bytes(slot);
    let new = old - page.payload(slot).len() + payload.len();
    if !page.fits_resized(old, new) {
        return Err("no room for a replaced entry");
    }
    page.replace_leaf(slot, head, payload);
    Ok(())
}

/// Applies one page's part of a system record.
pub fn apply_part(page: &mut Page, id: PageId, action: &PageAction<'_>) -> Applied {
    let is_tree = page.page_type() == Some(PageType::Tree);
    match action {
        PageAction::Image(image) => {
            if !page.read_image(image) || page.id() != id {
                return Err("damaged page image");
            }
        }
        PageAction::PackedImage(packed) => {
            let mut image = [0; PAGE_BYTES];
            let unpacked = lz4_flex::block::decompress_into(packed, &mut image);
            let image = unpacked.ok().and_then(|len| image.get(..len));
            if !image.is_some_and(|image| page.read_image(image)) || page.id() != id {
                return Err("damaged page image");
            }
        }
        PageAction::Truncate { count, next } => {
            if !is_tree || *count == 0 && !page.is_leaf() {
                return Err("entries cut off a page that has none to spare");
            }
            page.truncate(*count);
            page.set_next(*next);
        }
        PageAction::InternalInsert { slot, child, key } => {
            if !is_tree
                || page.is_leaf()
                || *slot > page.slots()
                || !page.fits(key.len() + crate::page::INTERNAL_HEAD_BYTES)
            {
                return Err("no room for a separator");
            }
            page.insert_internal(*slot, *child, key);
        }
        PageAction::InternalRemove { slot } => {
            let is_last = page.slots() == 1;
            if !is_tree || page.is_leaf() || is_last || *slot >= page.slots() {
                return Err("slot out of range");
            }
            page.remove(*slot);
        }
        PageAction::SetNext(next) => page.set_next(*next),
        PageAction::Bits { set, indexes } => {
            for bit in u16s(indexes) {
                if is_tree || u32::from(bit) >= alloc::INTERVAL_PAGES {
                    return Err("allocation bit out of range");
                }
                alloc::set_bit(page, bit, *set);
            }
        }
        PageAction::RemoveSlots { slots } => {
            for slot in u16s(slots) {
                if !is_tree || !page.is_leaf() || usize::from(slot) >= page.slots() {
                    return Err("slot out of range");
                }
                page.remove(usize::from(slot));
            }
        }
    }
    Ok(())
}
