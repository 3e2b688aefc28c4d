//! Log records: what they say, and how they are laid out.
//!
//! ```text
//! 0 length u32 | 4 kind u8 | 5 flags u8 | 6 transaction u48 | 12 previous record of the transaction u64 | 20 body
//! ```
//! A record is redone by applying its body to the pages it names, each guarded by its page LSN. `Ops` and the `Owned`
//! kinds also say how to take them back. Bodies are read with bounds checks: a damaged record is an error, no panic.

use crate::bytes::*;
use crate::delta::{self, Delta};
use crate::page::Head;
use crate::unit::{Decision, Unit};
use daruma_base::{Lsn, PageId, TxnId};

/// Length, kind, flags, transaction, previous record.
pub const RECORD_HEADER_BYTES: usize = 20;

/// Kind of a record. The numbers are on disk: docs/format.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Changes of leaf entries of one page by a user transaction.
    Ops = 1,
    /// Compensation: takes back (part of) an `Ops`; redo only.
    Clr = 2,
    /// System operation on one or more pages: splits, allocation, purging; redo only, complete in itself.
    System = 3,
    /// Pages allocated on behalf of a user transaction (blobs, new trees); undo frees them.
    Owned = 4,
    /// Intent to free a tree or blob once the transaction has committed; undo forgets it.
    Defer = 5,
    /// The transaction has committed, with the time; see `commit`.
    Commit = 6,
    /// Rollback is complete.
    End = 7,
    /// A part of a checkpoint: active transactions, pending frees, where redo starts.
    Checkpoint = 8,
    /// A deferred free was carried out; with the last of its page parts.
    FreeDone = 9,
    /// Compensation of `Owned` (the space is to be freed now) or `Defer` (the intent is forgotten).
    ClrSpace = 10,
    /// The transaction is rolled back in one step; what it wrote is reverted later (accelerated recovery).
    Abort = 11,
    /// Everything an aborted transaction wrote is reverted; the space it owned is to be freed now.
    Forget = 12,
    /// Entries of one leaf put back to their committed state; redo only.
    Revert = 13,
    /// A chunk of versions gets pages; with the allocation parts, and images of them if a recovery may need the versions. 14
    /// was the same without images.
    Versions = 17,
    /// Chunks of versions are dropped; with the allocation parts.
    VersionsFreed = 15,
    /// The transaction is part of one over several databases, and ends as the coordinator among them decides.
    Prepare = 16,
    /// A property of the database was changed (`properties`).
    Property = 18,
}

/// Flag of a record: its transaction runs under accelerated recovery, so it is never undone from the log by recovery.
pub const FLAG_ACCELERATED: u8 = 1;
/// Flag of a `Commit`: it decides for the prepared transactions of other databases too.
pub const FLAG_DECIDES: u8 = 2;

impl Kind {
    fn from_u8(v: u8) -> Option<Kind> {
        use Kind::*;
        [
            Ops,
            Clr,
            System,
            Owned,
            Defer,
            Commit,
            End,
            Checkpoint,
            FreeDone,
            ClrSpace,
            Abort,
            Forget,
            Revert,
            Versions,
            VersionsFreed,
            Prepare,
            Property,
        ]
        .into_iter()
        .find(|k| *k as u8 == v)
    }
}

/// Header and body of a record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Content of the record.
    pub kind: Kind,
    /// Its transaction runs under accelerated recovery.
    pub accelerated: bool,
    /// A commit that decides for other databases.
    pub decides: bool,
    /// Transaction of the record; none for system records.
    pub txn: TxnId,
    /// Its transaction's record before it; none for the first.
    pub previous: Lsn,
    /// By its kind.
    pub body: &'a [u8],
}

impl<'a> Record<'a> {
    /// `None` for damage.
    pub fn parse(bytes: &'a [u8]) -> Option<Record<'a>> {
        let mut r = Reader::new(bytes);
        let len = r.u32()? as usize;
        let kind = Kind::from_u8(r.u8()?)?;
        let flags = r.u8()?;
        let (txn, previous) = (TxnId(r.u48()?), Lsn(r.u64()?));
        Some(Record {
            kind,
            accelerated: flags & FLAG_ACCELERATED != 0,
            decides: flags & FLAG_DECIDES != 0,
            txn,
            previous,
            body: bytes.get(RECORD_HEADER_BYTES..len)?,
        })
    }
}

const RECORD_BYTES_USUAL: usize = 512;

/// Starts a record; the length is filled in by [`finish`].
pub fn start(out: &mut Vec<u8>, kind: Kind, txn: TxnId, previous: Lsn) {
    out.clear();
    // Most records fit, and need not grow step by step.
    out.reserve(RECORD_BYTES_USUAL);
    out.put_u32(0);
    out.put_u8(kind as u8);
    out.put_u8(0);
    out.put_u48(txn.0);
    out.put_u64(previous.0);
}

/// Says that the record's transaction runs under accelerated recovery.
pub fn mark_accelerated(out: &mut [u8]) {
    out[5] |= FLAG_ACCELERATED;
}

/// Says that the commit decides for other databases.
pub fn mark_deciding(out: &mut [u8]) {
    out[5] |= FLAG_DECIDES;
}

/// Fills in the length of a complete record.
pub fn finish(out: &mut [u8]) {
    let len = out.len() as u32;
    put_u32(out, 0, len);
}

/// The page parts in a record's body: behind what its kind puts first. `None` for damage and for kinds without parts.
pub fn parts_of<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    match record.kind {
        Kind::System => Some(record.body),
        Kind::Owned | Kind::FreeDone => record.body.get(SPACE_BYTES..),
        Kind::Versions => parse_versions(record.body).map(|(_, _, parts)| parts),
        Kind::VersionsFreed => parse_versions_freed(record.body).map(|(_, parts)| parts),
        _ => None,
    }
}

// --- leaf operations ------------------------------------------------------------------------------------------------

/// One change of a leaf entry as logged by `Ops` and `Clr`.
#[derive(Clone, Copy, Debug)]
pub enum LeafOp<'a> {
    Insert {
        slot: usize,
        key: &'a [u8],
        payload: &'a [u8],
    },
    /// New payload by delta; the entry then belongs to the record's transaction and has version `version`.
    Update {
        slot: usize,
        before: Head,
        version: u64,
        key: &'a [u8],
        delta: Delta<'a>,
    },
    /// Marks the entry deleted.
    Delete {
        slot: usize,
        before: Head,
        version: u64,
        key: &'a [u8],
    },
    /// Compensation: removes an inserted entry.
    Remove { slot: usize },
    /// Compensation: puts back head and payload.
    Restore {
        slot: usize,
        head: Head,
        delta: Delta<'a>,
    },
}

impl<'a> LeafOp<'a> {
    /// Key of the entry; a compensation names none.
    pub fn key(&self) -> Option<&'a [u8]> {
        match self {
            LeafOp::Insert { key, .. }
            | LeafOp::Update { key, .. }
            | LeafOp::Delete { key, .. } => Some(key),
            LeafOp::Remove { .. } | LeafOp::Restore { .. } => None,
        }
    }
}

const OP_INSERT: u8 = 1;
const OP_UPDATE: u8 = 2;
const OP_DELETE: u8 = 3;
const OP_REMOVE: u8 = 4;
const OP_RESTORE: u8 = 5;

fn put_head(out: &mut Vec<u8>, head: Head) {
    out.put_u8(head.flags);
    out.put_u48(head.writer.0);
    out.put_u48(head.version);
}

fn read_head(r: &mut Reader<'_>) -> Option<Head> {
    Some(Head {
        flags: r.u8()?,
        writer: TxnId(r.u48()?),
        version: r.u48()?,
    })
}

/// Builds the body of an `Ops` or `Clr` record.
pub struct OpsWriter<'a> {
    out: &'a mut Vec<u8>,
    count_at: usize,
    count: u16,
}

impl<'a> OpsWriter<'a> {
    /// Continues a record begun with [`start`] (and, for `Clr`, its undo position).
    pub fn new(out: &'a mut Vec<u8>, page: PageId, tree: PageId) -> OpsWriter<'a> {
        out.put_u48(page.to_u64());
        out.put_u48(tree.to_u64());
        let count_at = out.len();
        out.put_u16(0);
        OpsWriter {
            out,
            count_at,
            count: 0,
        }
    }

    /// Bytes of the record so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Operations so far.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    fn begin(&mut self, code: u8, slot: usize) {
        self.count += 1;
        self.out.put_u8(code);
        self.out.put_u16(slot as u16);
    }

    /// A new entry.
    pub fn insert(&mut self, slot: usize, key: &[u8], payload: &[u8]) {
        self.begin(OP_INSERT, slot);
        self.out.put_short(key);
        self.out.put_short(payload);
    }

    /// Another payload. `version` is where the state before is kept; 0 when the transaction had changed the entry before.
    pub fn update(
        &mut self,
        slot: usize,
        before: Head,
        version: u64,
        key: &[u8],
        old: &[u8],
        new: &[u8],
    ) {
        self.begin(OP_UPDATE, slot);
        put_head(self.out, before);
        self.out.put_u48(version);
        self.out.put_short(key);
        delta::write(old, new, self.out);
    }

    /// A mark on the entry; arguments as of [`OpsWriter::update`].
    pub fn delete(&mut self, slot: usize, before: Head, version: u64, key: &[u8]) {
        self.begin(OP_DELETE, slot);
        put_head(self.out, before);
        self.out.put_u48(version);
        self.out.put_short(key);
    }

    /// Takes an insert back.
    pub fn remove(&mut self, slot: usize) {
        self.begin(OP_REMOVE, slot);
    }

    /// Puts head and payload back.
    pub fn restore(&mut self, slot: usize, head: Head, old: &[u8], new: &[u8]) {
        self.begin(OP_RESTORE, slot);
        put_head(self.out, head);
        delta::write(old, new, self.out);
    }

    /// Fills in the count, and the length of the record.
    pub fn finish(self) {
        put_u16(self.out, self.count_at, self.count);
        finish(self.out);
    }
}

/// Parsed body of `Ops`, or of `Clr` after its undo position.
#[derive(Clone, Copy)]
pub struct Ops<'a> {
    /// The leaf that the operations changed.
    pub page: PageId,
    /// Root of its tree.
    pub tree: PageId,
    count: u16,
    reader: Reader<'a>,
}

impl<'a> Ops<'a> {
    /// `None` for damage of the head; that of an operation is met when it is read.
    pub fn parse(body: &'a [u8]) -> Option<Ops<'a>> {
        let mut reader = Reader::new(body);
        let (page, tree) = (
            PageId::from_u64(reader.u48()?),
            PageId::from_u64(reader.u48()?),
        );
        let count = reader.u16()?;
        Some(Ops {
            page,
            tree,
            count,
            reader,
        })
    }

    /// The operations in order; `None` as an item means damage.
    pub fn iter(&self) -> impl Iterator<Item = Option<LeafOp<'a>>> + use<'a> {
        let mut reader = self.reader;
        (0..self.count).map(move |_| read_op(&mut reader))
    }
}

fn read_op<'a>(r: &mut Reader<'a>) -> Option<LeafOp<'a>> {
    let code = r.u8()?;
    let slot = usize::from(r.u16()?);
    Some(match code {
        OP_INSERT => LeafOp::Insert {
            slot,
            key: r.short()?,
            payload: r.short()?,
        },
        OP_UPDATE => LeafOp::Update {
            slot,
            before: read_head(r)?,
            version: r.u48()?,
            key: r.short()?,
            delta: delta::read(r)?,
        },
        OP_DELETE => LeafOp::Delete {
            slot,
            before: read_head(r)?,
            version: r.u48()?,
            key: r.short()?,
        },
        OP_REMOVE => LeafOp::Remove { slot },
        OP_RESTORE => LeafOp::Restore {
            slot,
            head: read_head(r)?,
            delta: delta::read(r)?,
        },
        _ => return None,
    })
}

/// Where undo goes on after a `Clr`: at operation `index` (exclusive, counting down) of the record at `lsn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoNext {
    /// The record; none when nothing is left.
    pub lsn: Lsn,
    /// Operations of that record still to be undone; `u16::MAX` = all of them.
    pub remaining: u16,
}

impl UndoNext {
    /// For `remaining`: nothing of the record was undone yet.
    pub const ALL: u16 = u16::MAX;

    /// See [`parse_clr`].
    pub fn write(self, out: &mut Vec<u8>) {
        out.put_u64(self.lsn.0);
        out.put_u16(self.remaining);
    }
}

/// Splits the body of a `Clr` or `ClrSpace` into its undo position and the rest.
pub fn parse_clr(body: &[u8]) -> Option<(UndoNext, &[u8])> {
    let mut r = Reader::new(body);
    let next = UndoNext {
        lsn: Lsn(r.u64()?),
        remaining: r.u16()?,
    };
    Some((next, body.get(10..)?))
}

// --- system operations ----------------------------------------------------------------------------------------------

/// One page's part of a `System` or `Owned` record.
#[derive(Clone, Copy, Debug)]
pub enum PageAction<'a> {
    Image(&'a [u8]),
    /// An image, compressed.
    PackedImage(&'a [u8]),
    /// Keep the first `count` entries and set the next page.
    Truncate {
        count: usize,
        next: PageId,
    },
    InternalInsert {
        slot: usize,
        child: PageId,
        key: &'a [u8],
    },
    InternalRemove {
        slot: usize,
    },
    SetNext(PageId),
    /// Set or clear bits of an allocation page.
    Bits {
        set: bool,
        indexes: &'a [u8],
    },
    /// Remove entries, given in descending order.
    RemoveSlots {
        slots: &'a [u8],
    },
}

const PART_IMAGE: u8 = 1;
const PART_TRUNCATE: u8 = 2;
const PART_INTERNAL_INSERT: u8 = 3;
const PART_INTERNAL_REMOVE: u8 = 4;
const PART_SET_NEXT: u8 = 5;
const PART_SET_BITS: u8 = 6;
const PART_CLEAR_BITS: u8 = 7;
const PART_REMOVE_SLOTS: u8 = 8;
const PART_PACKED_IMAGE: u8 = 9;

impl PageAction<'_> {
    /// Does the page get new content altogether, whatever it was?
    pub fn is_image(&self) -> bool {
        matches!(self, PageAction::Image(_) | PageAction::PackedImage(_))
    }
}

/// Builds the parts of a `System` or `Owned` record.
pub struct PartsWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> PartsWriter<'a> {
    /// Goes on with a record begun with [`start`].
    pub fn new(out: &'a mut Vec<u8>) -> PartsWriter<'a> {
        PartsWriter { out }
    }

    fn begin(&mut self, page: PageId, code: u8) {
        self.out.put_u48(page.to_u64());
        self.out.put_u8(code);
    }

    /// The whole page, without what is free in the middle of it.
    pub fn image(&mut self, page: &crate::page::Page) {
        self.begin(page.id(), PART_IMAGE);
        let len_at = self.out.len();
        self.out.put_u16(0);
        page.write_image(self.out);
        let len = self.out.len() - len_at - 2;
        put_u16(self.out, len_at, len as u16);
    }

    /// As `image`, compressed if that makes it shorter.
    pub fn packed_image(&mut self, page: &crate::page::Page) {
        let mut plain = Vec::with_capacity(crate::page::PAGE_BYTES);
        page.write_image(&mut plain);
        let packed = lz4_flex::block::compress(&plain);
        if packed.len() >= plain.len() {
            return self.image(page);
        }
        self.begin(page.id(), PART_PACKED_IMAGE);
        self.out.put_short(&packed);
    }

    /// The first `count` entries stay; `next` follows the page.
    pub fn truncate(&mut self, page: PageId, count: usize, next: PageId) {
        self.begin(page, PART_TRUNCATE);
        self.out.put_u16(count as u16);
        self.out.put_u48(next.to_u64());
    }

    /// A child with its separator.
    pub fn internal_insert(&mut self, page: PageId, slot: usize, child: PageId, key: &[u8]) {
        self.begin(page, PART_INTERNAL_INSERT);
        self.out.put_u16(slot as u16);
        self.out.put_u48(child.to_u64());
        self.out.put_short(key);
    }

    /// A child goes.
    pub fn internal_remove(&mut self, page: PageId, slot: usize) {
        self.begin(page, PART_INTERNAL_REMOVE);
        self.out.put_u16(slot as u16);
    }

    /// Another page follows.
    pub fn set_next(&mut self, page: PageId, next: PageId) {
        self.begin(page, PART_SET_NEXT);
        self.out.put_u48(next.to_u64());
    }

    /// Pages of an allocation page are taken (`set`) or freed, by their numbers within it.
    pub fn bits(&mut self, page: PageId, set: bool, indexes: &[u16]) {
        self.begin(page, if set { PART_SET_BITS } else { PART_CLEAR_BITS });
        self.put_u16s(indexes);
    }

    /// Entries of a leaf go, the last first.
    pub fn remove_slots(&mut self, page: PageId, slots: &[u16]) {
        self.begin(page, PART_REMOVE_SLOTS);
        self.put_u16s(slots);
    }

    fn put_u16s(&mut self, values: &[u16]) {
        self.out.put_u16((values.len() * 2) as u16);
        values.iter().for_each(|v| self.out.put_u16(*v));
    }
}

/// The parts of a record body; `None` as an item means damage and ends the iteration.
pub fn parts(body: &[u8]) -> impl Iterator<Item = Option<(PageId, PageAction<'_>)>> {
    let mut reader = Reader::new(body);
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || reader.is_empty() {
            return None;
        }
        let part = read_part(&mut reader);
        failed = part.is_none();
        Some(part)
    })
}

fn read_part<'a>(r: &mut Reader<'a>) -> Option<(PageId, PageAction<'a>)> {
    let page = PageId::from_u64(r.u48()?);
    let action = match r.u8()? {
        PART_IMAGE => PageAction::Image(r.short()?),
        PART_PACKED_IMAGE => PageAction::PackedImage(r.short()?),
        PART_TRUNCATE => PageAction::Truncate {
            count: usize::from(r.u16()?),
            next: PageId::from_u64(r.u48()?),
        },
        PART_INTERNAL_INSERT => PageAction::InternalInsert {
            slot: usize::from(r.u16()?),
            child: PageId::from_u64(r.u48()?),
            key: r.short()?,
        },
        PART_INTERNAL_REMOVE => PageAction::InternalRemove {
            slot: usize::from(r.u16()?),
        },
        PART_SET_NEXT => PageAction::SetNext(PageId::from_u64(r.u48()?)),
        PART_SET_BITS => PageAction::Bits {
            set: true,
            indexes: r.short()?,
        },
        PART_CLEAR_BITS => PageAction::Bits {
            set: false,
            indexes: r.short()?,
        },
        PART_REMOVE_SLOTS => PageAction::RemoveSlots { slots: r.short()? },
        _ => return None,
    };
    Some((page, action))
}

/// The u16 values of a `Bits` or `RemoveSlots` part.
pub fn u16s(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks_exact(2).map(|c| get_u16(c, 0))
}

/// Space that an `Owned` or `Defer` record owns or frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    Tree(PageId),
    Blob(PageId),
}

impl Space {
    /// As [`Space::read`] takes it.
    pub fn write(self, out: &mut Vec<u8>) {
        let (code, page) = match self {
            Space::Tree(p) => (1, p),
            Space::Blob(p) => (2, p),
        };
        out.put_u8(code);
        out.put_u48(page.to_u64());
    }

    /// `None` for damage.
    pub fn read(r: &mut Reader<'_>) -> Option<Space> {
        let code = r.u8()?;
        let page = PageId::from_u64(r.u48()?);
        match code {
            1 => Some(Space::Tree(page)),
            2 => Some(Space::Blob(page)),
            _ => None,
        }
    }
}

/// Encoded size of a [`Space`].
pub const SPACE_BYTES: usize = 7;

// --- checkpoints ----------------------------------------------------------------------------------------------------

/// Something a restart has to know that the log behind the checkpoint may no longer say: states of transactions, and
/// what stands for the operations that have no versions (the sLog): spaces owned and deferred, and where to look for
/// what a transaction wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A transaction that has not ended.
    Txn {
        id: TxnId,
        first: Lsn,
        last: Lsn,
        accelerated: bool,
        /// Rolled back, and to be reverted.
        aborted: bool,
        abort: Abort,
    },
    /// Freed when the transaction commits.
    Defer { id: TxnId, space: Space },
    /// Freed when the transaction has been rolled back.
    Owned { id: TxnId, space: Space },
    /// The transaction wrote between these keys of the tree.
    Work {
        id: TxnId,
        tree: PageId,
        low: Vec<u8>,
        high: Vec<u8>,
    },
    /// To be freed as soon as possible.
    Pending(Space),
    /// The transaction is prepared: its coordinator decides.
    Prepared { id: TxnId, unit: Unit },
    /// A commit for several databases which some of them may not have on disk yet.
    Decision(Decision),
    /// A chunk of versions on pages.
    Versions {
        chunk: u32,
        id: TxnId,
        pages: Vec<PageId>,
    },
}

/// One part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Block at which recovery begins to read.
    pub redo_start: Lsn,
    /// The id to be given next.
    pub next_txn: u64,
    /// With it the checkpoint is complete.
    pub is_last: bool,
    /// State that a restart has to know.
    pub facts: Vec<Fact>,
}

/// Encoded bytes after which a checkpoint goes on in another part, so that a part fits a block.
pub const CHECKPOINT_PART_BYTES: usize = 48 << 10;

const FACT_TXN: u8 = 1;
const FACT_DEFER: u8 = 2;
const FACT_OWNED: u8 = 3;
const FACT_WORK: u8 = 4;
const FACT_PENDING: u8 = 5;
const FACT_VERSIONS: u8 = 6;
const FACT_PREPARED: u8 = 7;
const FACT_DECISION: u8 = 8;

impl Fact {
    /// Encoded size, or a little more.
    pub fn encoded_bytes(&self) -> usize {
        match self {
            Fact::Work { low, high, .. } => 20 + low.len() + high.len(),
            Fact::Versions { pages, .. } => 20 + 2 * pages.len(),
            Fact::Decision(decision) => 20 + 8 * decision.others.len(),
            _ => 34,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Fact::Txn {
                id,
                first,
                last,
                accelerated,
                aborted,
                abort,
            } => {
                out.put_u8(FACT_TXN);
                out.put_u48(id.0);
                out.put_u64(first.0);
                out.put_u64(last.0);
                let has_abort = *abort != Abort::default();
                out.put_u8(
                    u8::from(*accelerated) | u8::from(*aborted) << 1 | u8::from(has_abort) << 2,
                );
                if has_abort {
                    abort.write(out);
                }
            }
            Fact::Defer { id, space } | Fact::Owned { id, space } => {
                let defer = matches!(self, Fact::Defer { .. });
                out.put_u8(if defer { FACT_DEFER } else { FACT_OWNED });
                out.put_u48(id.0);
                space.write(out);
            }
            Fact::Work {
                id,
                tree,
                low,
                high,
            } => {
                out.put_u8(FACT_WORK);
                out.put_u48(id.0);
                out.put_u48(tree.to_u64());
                out.put_short(low);
                out.put_short(high);
            }
            Fact::Pending(space) => {
                out.put_u8(FACT_PENDING);
                space.write(out);
            }
            Fact::Versions { chunk, id, pages } => {
                out.put_u8(FACT_VERSIONS);
                out.put_u48(id.0);
                write_versions(out, *chunk, pages);
            }
            Fact::Prepared { id, unit } => {
                out.put_u8(FACT_PREPARED);
                out.put_u48(id.0);
                unit.write(out);
            }
            Fact::Decision(decision) => {
                out.put_u8(FACT_DECISION);
                out.put_u48(decision.txn.0);
                decision.write(out);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Fact> {
        let code = r.u8()?;
        Some(match code {
            FACT_TXN => {
                let (id, first, last) = (TxnId(r.u48()?), Lsn(r.u64()?), Lsn(r.u64()?));
                let flags = r.u8()?;
                Fact::Txn {
                    id,
                    first,
                    last,
                    accelerated: flags & 1 != 0,
                    aborted: flags & 2 != 0,
                    abort: match flags & 4 != 0 {
                        true => Abort::read(r)?,
                        false => Abort::default(),
                    },
                }
            }
            FACT_DEFER => Fact::Defer {
                id: TxnId(r.u48()?),
                space: Space::read(r)?,
            },
            FACT_OWNED => Fact::Owned {
                id: TxnId(r.u48()?),
                space: Space::read(r)?,
            },
            FACT_WORK => Fact::Work {
                id: TxnId(r.u48()?),
                tree: PageId::from_u64(r.u48()?),
                low: r.short()?.to_vec(),
                high: r.short()?.to_vec(),
            },
            FACT_PENDING => Fact::Pending(Space::read(r)?),
            FACT_VERSIONS => {
                let id = TxnId(r.u48()?);
                let (chunk, pages) = read_versions(r)?;
                Fact::Versions { chunk, id, pages }
            }
            FACT_PREPARED => Fact::Prepared {
                id: TxnId(r.u48()?),
                unit: Unit::read(r)?,
            },
            FACT_DECISION => {
                let txn = TxnId(r.u48()?);
                Fact::Decision(Decision::read(r, txn)?)
            }
            _ => return None,
        })
    }
}

impl Checkpoint {
    /// A whole record.
    pub fn write(&self, out: &mut Vec<u8>) {
        start(out, Kind::Checkpoint, TxnId::NONE, Lsn::NONE);
        out.put_u64(self.redo_start.0);
        out.put_u64(self.next_txn);
        out.put_u8(u8::from(self.is_last));
        out.put_u32(self.facts.len() as u32);
        self.facts.iter().for_each(|f| f.write(out));
        finish(out);
    }

    /// `None` for damage.
    pub fn parse(body: &[u8]) -> Option<Checkpoint> {
        let mut r = Reader::new(body);
        let mut c = Checkpoint {
            redo_start: Lsn(r.u64()?),
            next_txn: r.u64()?,
            is_last: r.u8()? != 0,
            ..Checkpoint::default()
        };
        for _ in 0..r.u32()? {
            c.facts.push(Fact::read(&mut r)?);
        }
        Some(c)
    }
}

/// Facts about a transaction that was, or may be, rolled back by a mark: the body of an `Abort` record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abort {
    /// When it began, 0 when that is not known.
    pub begun_utc_100ns: i64,
    /// Part of a transaction that went on: what lay behind a savepoint, or a failed statement.
    pub is_nested: bool,
}

impl Abort {
    /// Body of an `Abort` record; in facts as well.
    pub fn write(self, out: &mut Vec<u8>) {
        out.put_u64(self.begun_utc_100ns as u64);
        out.put_u8(u8::from(self.is_nested));
    }

    fn read(r: &mut Reader<'_>) -> Option<Abort> {
        Some(Abort {
            begun_utc_100ns: r.u64()? as i64,
            is_nested: r.u8()? != 0,
        })
    }

    /// Of a record's body; it was empty once.
    pub fn parse(body: &[u8]) -> Abort {
        Abort::read(&mut Reader::new(body)).unwrap_or_default()
    }
}

// --- versions -------------------------------------------------------------------------------------------------------

/// Begins the body of a `Versions` record: a chunk and its pages, in ascending order and of one allocation page. The
/// allocation parts follow.
pub fn write_versions(out: &mut Vec<u8>, chunk: u32, pages: &[PageId]) {
    let first = pages.first().copied().unwrap_or(PageId::NONE);
    out.put_u32(chunk);
    out.put_u48(first.to_u64());
    out.put_u8(pages.len() as u8);
    for page in pages.iter().skip(1) {
        out.put_u16((page.page - first.page) as u16);
    }
}

fn read_versions(r: &mut Reader<'_>) -> Option<(u32, Vec<PageId>)> {
    let (chunk, first) = (r.u32()?, PageId::from_u64(r.u48()?));
    let mut pages = vec![first];
    for _ in 1..r.u8()? {
        let page = first.page.checked_add(u32::from(r.u16()?))?;
        pages.push(PageId::new(first.file, page));
    }
    Some((chunk, pages))
}

/// Chunk, pages, and the parts of a `Versions` record.
pub fn parse_versions(body: &[u8]) -> Option<(u32, Vec<PageId>, &[u8])> {
    let (chunk, pages) = read_versions(&mut Reader::new(body))?;
    let parts = body.get(11 + 2 * (pages.len() - 1)..)?;
    Some((chunk, pages, parts))
}

/// Begins the body of a `VersionsFreed` record; the allocation parts follow.
pub fn write_versions_freed(out: &mut Vec<u8>, chunks: &[u32]) {
    out.put_u16(chunks.len() as u16);
    chunks.iter().for_each(|c| out.put_u32(*c));
}

/// Chunks and parts of a `VersionsFreed` record.
pub fn parse_versions_freed(body: &[u8]) -> Option<(Vec<u32>, &[u8])> {
    let mut r = Reader::new(body);
    let count = usize::from(r.u16()?);
    let chunks = (0..count).map(|_| r.u32()).collect::<Option<Vec<u32>>>()?;
    Some((chunks, body.get(2 + 4 * count..)?))
}

/// Body of a `Forget` record: spaces the transaction owned, in as many records as it takes, the last one marked.
pub fn write_forget(out: &mut Vec<u8>, is_last: bool, spaces: &[Space]) {
    out.put_u8(u8::from(is_last));
    out.put_u32(spaces.len() as u32);
    spaces.iter().for_each(|s| s.write(out));
}

/// Is it the last part, and the spaces to free. `None` for damage.
pub fn parse_forget(body: &[u8]) -> Option<(bool, Vec<Space>)> {
    let mut r = Reader::new(body);
    let is_last = r.u8()? != 0;
    let spaces = (0..r.u32()?)
        .map(|_| Space::read(&mut r))
        .collect::<Option<_>>()?;
    Some((is_last, spaces))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn damaged_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(record) = Record::parse(&bytes) {
                let _ = Checkpoint::parse(record.body);
                let _ = parse_clr(record.body);
                let _ = parse_forget(record.body);
                let _ = parse_versions(record.body);
                let _ = parse_versions_freed(record.body);
                let _ = crate::log::commit::parse_prepare(record.body);
                parts(record.body).for_each(drop);
                if let Some(ops) = Ops::parse(record.body) { ops.iter().for_each(drop); }
            }
            parts(&bytes).for_each(drop);
            if let Some(ops) = Ops::parse(&bytes) { ops.iter().for_each(drop); }
        }
    }

    #[test]
    fn ops_read_back_what_was_written() {
        let mut out = Vec::new();
        start(&mut out, Kind::Ops, TxnId(77), Lsn(5));
        let mut w = OpsWriter::new(&mut out, PageId::new(1, 9), PageId::new(1, 16));
        w.insert(3, b"key", b"payload");
        w.update(
            4,
            Head {
                flags: 0,
                writer: TxnId(5),
                version: 6,
            },
            8,
            b"k",
            b"old value",
            b"new value",
        );
        w.finish();
        let record = Record::parse(&out).expect("parses");
        assert_eq!(
            (record.kind, record.txn, record.previous),
            (Kind::Ops, TxnId(77), Lsn(5))
        );
        let ops: Vec<_> = Ops::parse(record.body).expect("ops").iter().collect();
        assert!(matches!(
            ops[0],
            Some(LeafOp::Insert {
                slot: 3,
                key: b"key",
                payload: b"payload"
            })
        ));
        let Some(LeafOp::Update { delta, before, .. }) = ops[1] else {
            panic!("update")
        };
        let mut new = Vec::new();
        delta.apply(b"old value", &mut new).expect("fits");
        assert_eq!(
            (new.as_slice(), before.writer),
            (&b"new value"[..], TxnId(5))
        );
    }
}
