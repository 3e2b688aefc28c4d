//! The decoders of pages and log blocks on bytes that nobody vouches for. Fuzzing calls these, nothing else does.
//!
//! Checksums stop damage long before; what is tried here is what a decoder does when they do not.

use crate::log::block::{self, BLOCK_HEADER_BYTES, Found, OpenBlock, RECORD_BYTES_MAX};
use crate::log::commit;
use crate::log::record::{self, Checkpoint, Kind, Ops, Record, Space};
use crate::page::{CAPACITY_BYTES, Head, PAGE_BYTES, Page, PageType};
use crate::{bytes::Reader, redo};
use daruma_base::{PageId, TxnId};

const LSN: u64 = 8192;
const INCARNATION: u32 = 3;

/// A page as it came from disk: once it is valid every access stays inside, and changes keep it valid.
pub fn page(bytes: &[u8]) {
    let mut page = Page::zeroed();
    let len = bytes.len().min(PAGE_BYTES);
    page.bytes_mut()[..len].copy_from_slice(&bytes[..len]);
    if page.validate().is_ok() && page.page_type() == Some(PageType::Tree) {
        walk(&page);
        copy(&page);
        if page.is_leaf() {
            change(page);
        }
    }
    let mut from_image = Page::zeroed();
    if from_image.read_image(&bytes[..len]) {
        assert_eq!(from_image.validate(), Ok(()), "an image makes a valid page");
    }
    crate::copy::check_pages(1, 0, bytes);
}

fn walk(page: &Page) {
    for slot in 0..page.slots() {
        let key = page.key(slot);
        if page.is_leaf() {
            let _ = (page.head(slot), page.payload(slot), page.search(key));
        } else {
            let _ = (page.child(slot), page.child_slot(key));
        }
    }
}

/// An image of the page holds the same entries.
fn copy(page: &Page) {
    let (mut image, mut copy) = (Vec::new(), Page::zeroed());
    page.write_image(&mut image);
    // Entries that overlap make an image longer than a page; the page cannot be told from a good one before.
    if copy.read_image(&image) {
        assert_eq!(copy.slots(), page.slots());
        assert!((0..page.slots()).all(|slot| copy.key(slot) == page.key(slot)));
    }
}

fn change(mut page: Page) {
    if page.fits(Page::leaf_entry_bytes(b"key", 7)) && page.free_bytes() <= CAPACITY_BYTES {
        page.insert_leaf(0, Head::default(), b"key", b"payload");
        page.remove(0);
    }
}

/// The bytes as the records of a log block whose checksum is right.
pub fn log(bytes: &[u8]) {
    // Bare bytes first: what is found where a block should be.
    let claimed = block::claimed_lsn(bytes).unwrap_or(LSN);
    let _ = block::inspect(bytes, claimed, INCARNATION);
    let mut open = OpenBlock::new(LSN, 0, Vec::new());
    open.push(&bytes[..bytes.len().min(RECORD_BYTES_MAX)]);
    let sealed = open.seal(INCARNATION, 0);
    let Found::Block { used, .. } = block::inspect(&sealed, LSN, INCARNATION) else {
        panic!("a sealed block is one");
    };
    let mut at = BLOCK_HEADER_BYTES;
    let mut page = leaf();
    while let Some(bytes) = sealed.get(..used).and_then(|b| block::record_at(b, at)) {
        at += bytes.len();
        if let Some(record) = Record::parse(bytes) {
            decode(&record, &mut page);
        }
    }
}

fn leaf() -> Page {
    let id = PageId::new(1, 7);
    let mut page = Page::zeroed();
    page.format(id, PageType::Tree, 0, id);
    for (slot, key) in [b"a", b"b", b"c"].into_iter().enumerate() {
        page.insert_leaf(slot, Head::default(), key, b"some payload of some length");
    }
    page
}

fn internal() -> Page {
    let id = PageId::new(1, 8);
    let mut page = Page::zeroed();
    page.format(id, PageType::Tree, 1, id);
    page.insert_internal(0, PageId::new(1, 7), b"");
    page.insert_internal(1, PageId::new(1, 9), b"m");
    page
}

fn bitmap() -> Page {
    let id = PageId::new(1, 2);
    let mut page = Page::zeroed();
    page.format(id, PageType::Allocation, 0, id);
    page
}

fn decode(record: &Record<'_>, page: &mut Page) {
    if let Some(parts) = record::parts_of(record) {
        for (id, action) in record::parts(parts).map_while(|part| part) {
            for mut other in [leaf(), internal(), bitmap()] {
                if redo::apply_part(&mut other, id, &action).is_ok() {
                    assert_valid(&other);
                }
            }
        }
    }
    match record.kind {
        Kind::Ops => apply(Ops::parse(record.body), page),
        Kind::Clr => apply(
            record::parse_clr(record.body).and_then(|(_, ops)| Ops::parse(ops)),
            page,
        ),
        Kind::Checkpoint => drop(Checkpoint::parse(record.body)),
        Kind::Commit => drop(commit::parse_commit(record).map(|(_, ids)| ids.count())),
        Kind::Prepare => drop(commit::parse_prepare(record.body).map(|(_, ids)| ids.count())),
        Kind::Property => drop(crate::properties::Property::parse(record.body)),
        Kind::Forget => drop(record::parse_forget(record.body)),
        Kind::Owned | Kind::Defer | Kind::ClrSpace | Kind::FreeDone => {
            let _ = Space::read(&mut Reader::new(record.body));
        }
        _ => {}
    }
}

fn apply(ops: Option<Ops<'_>>, page: &mut Page) {
    if let Some(ops) = ops
        && redo::apply_ops(page, &ops, TxnId(9)).is_err()
    {
        // Recovery gives a page up that a record does not fit; the next record finds a good one.
        *page = leaf();
    }
    assert_valid(page);
}

fn assert_valid(page: &Page) {
    assert_eq!(page.validate(), Ok(()), "what redo leaves is a valid page");
}
