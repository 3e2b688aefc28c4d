//! Log records: what they say, and how they are laid out.
//!
//! ```text
//! 0 length u32 | 4 kind u8 | 5 reserved u8 | 6 transaction u48 | 12 previous record of the transaction u64 | 20 body
//! ```
//! A record is redone by applying its body to the pages it names, each guarded by its page LSN. `Ops` and the `Owned`
//! kinds also say how to take them back. Bodies are read with bounds checks: a damaged record is an error, no panic.

use crate::bytes::*;
use crate::delta::{self, Delta};
use crate::page::Head;
use daruma_base::{Lsn, PageId, TxnId};

pub const RECORD_HEADER_BYTES: usize = 20;

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
    Commit = 6,
    /// Rollback is complete.
    End = 7,
    /// A part of a checkpoint: active transactions, pending frees, where redo starts.
    Checkpoint = 8,
    /// A deferred free was carried out; with the last of its page parts.
    FreeDone = 9,
    /// Compensation of `Owned` (the space is to be freed now) or `Defer` (the intent is forgotten).
    ClrSpace = 10,
}

impl Kind {
    fn from_u8(v: u8) -> Option<Kind> {
        use Kind::*;
        [
            Ops, Clr, System, Owned, Defer, Commit, End, Checkpoint, FreeDone, ClrSpace,
        ]
        .into_iter()
        .find(|k| *k as u8 == v)
    }
}

/// Header and body of a record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub kind: Kind,
    pub txn: TxnId,
    pub previous: Lsn,
    pub body: &'a [u8],
}

impl<'a> Record<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Record<'a>> {
        let mut r = Reader::new(bytes);
        let len = r.u32()? as usize;
        let kind = Kind::from_u8(r.u8()?)?;
        r.u8()?;
        let (txn, previous) = (TxnId(r.u48()?), Lsn(r.u64()?));
        Some(Record {
            kind,
            txn,
            previous,
            body: bytes.get(RECORD_HEADER_BYTES..len)?,
        })
    }
}

/// Starts a record; the length is filled in by [`finish`].
pub fn start(out: &mut Vec<u8>, kind: Kind, txn: TxnId, previous: Lsn) {
    out.clear();
    out.put_u32(0);
    out.put_u8(kind as u8);
    out.put_u8(0);
    out.put_u48(txn.0);
    out.put_u64(previous.0);
}

pub fn finish(out: &mut [u8]) {
    let len = out.len() as u32;
    put_u32(out, 0, len);
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

    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    fn begin(&mut self, code: u8, slot: usize) {
        self.count += 1;
        self.out.put_u8(code);
        self.out.put_u16(slot as u16);
    }

    pub fn insert(&mut self, slot: usize, key: &[u8], payload: &[u8]) {
        self.begin(OP_INSERT, slot);
        self.out.put_short(key);
        self.out.put_short(payload);
    }

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

    pub fn delete(&mut self, slot: usize, before: Head, version: u64, key: &[u8]) {
        self.begin(OP_DELETE, slot);
        put_head(self.out, before);
        self.out.put_u48(version);
        self.out.put_short(key);
    }

    pub fn remove(&mut self, slot: usize) {
        self.begin(OP_REMOVE, slot);
    }

    pub fn restore(&mut self, slot: usize, head: Head, old: &[u8], new: &[u8]) {
        self.begin(OP_RESTORE, slot);
        put_head(self.out, head);
        delta::write(old, new, self.out);
    }

    pub fn finish(self) {
        put_u16(self.out, self.count_at, self.count);
        finish(self.out);
    }
}

/// Parsed body of `Ops`, or of `Clr` after its undo position.
#[derive(Clone, Copy)]
pub struct Ops<'a> {
    pub page: PageId,
    pub tree: PageId,
    count: u16,
    reader: Reader<'a>,
}

impl<'a> Ops<'a> {
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
    pub lsn: Lsn,
    /// Operations of that record still to be undone; `u16::MAX` = all of them.
    pub remaining: u16,
}

impl UndoNext {
    pub const ALL: u16 = u16::MAX;

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

/// Builds the parts of a `System` or `Owned` record.
pub struct PartsWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> PartsWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> PartsWriter<'a> {
        PartsWriter { out }
    }

    fn begin(&mut self, page: PageId, code: u8) {
        self.out.put_u48(page.to_u64());
        self.out.put_u8(code);
    }

    pub fn image(&mut self, page: &crate::page::Page) {
        self.begin(page.id(), PART_IMAGE);
        let len_at = self.out.len();
        self.out.put_u16(0);
        page.write_image(self.out);
        let len = self.out.len() - len_at - 2;
        put_u16(self.out, len_at, len as u16);
    }

    pub fn truncate(&mut self, page: PageId, count: usize, next: PageId) {
        self.begin(page, PART_TRUNCATE);
        self.out.put_u16(count as u16);
        self.out.put_u48(next.to_u64());
    }

    pub fn internal_insert(&mut self, page: PageId, slot: usize, child: PageId, key: &[u8]) {
        self.begin(page, PART_INTERNAL_INSERT);
        self.out.put_u16(slot as u16);
        self.out.put_u48(child.to_u64());
        self.out.put_short(key);
    }

    pub fn internal_remove(&mut self, page: PageId, slot: usize) {
        self.begin(page, PART_INTERNAL_REMOVE);
        self.out.put_u16(slot as u16);
    }

    pub fn set_next(&mut self, page: PageId, next: PageId) {
        self.begin(page, PART_SET_NEXT);
        self.out.put_u48(next.to_u64());
    }

    pub fn bits(&mut self, page: PageId, set: bool, indexes: &[u16]) {
        self.begin(page, if set { PART_SET_BITS } else { PART_CLEAR_BITS });
        self.put_u16s(indexes);
    }

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

/// What an `Owned` or `Defer` record owns or frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    Tree(PageId),
    Blob(PageId),
}

impl Space {
    pub fn write(self, out: &mut Vec<u8>) {
        let (code, page) = match self {
            Space::Tree(p) => (1, p),
            Space::Blob(p) => (2, p),
        };
        out.put_u8(code);
        out.put_u48(page.to_u64());
    }

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

/// An active transaction as a checkpoint records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveTxn {
    pub id: TxnId,
    pub first: Lsn,
    pub last: Lsn,
    /// What it will free when it commits.
    pub defers: Vec<Space>,
}

/// One part of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub redo_start: Lsn,
    pub next_txn: u64,
    pub is_last: bool,
    pub active: Vec<ActiveTxn>,
    pub pending_frees: Vec<Space>,
}

/// Encoded bytes after which a checkpoint goes on in another part, so that a part fits a block.
pub const CHECKPOINT_PART_BYTES: usize = 48 << 10;
/// Encoded size of an active transaction without its deferred frees.
pub const ACTIVE_TXN_BYTES: usize = 26;

impl Checkpoint {
    pub fn write(&self, out: &mut Vec<u8>) {
        start(out, Kind::Checkpoint, TxnId::NONE, Lsn::NONE);
        out.put_u64(self.redo_start.0);
        out.put_u64(self.next_txn);
        out.put_u8(u8::from(self.is_last));
        out.put_u32(self.active.len() as u32);
        for t in &self.active {
            out.put_u48(t.id.0);
            out.put_u64(t.first.0);
            out.put_u64(t.last.0);
            out.put_u32(t.defers.len() as u32);
            t.defers.iter().for_each(|s| s.write(out));
        }
        out.put_u32(self.pending_frees.len() as u32);
        self.pending_frees.iter().for_each(|s| s.write(out));
        finish(out);
    }

    pub fn parse(body: &[u8]) -> Option<Checkpoint> {
        let mut r = Reader::new(body);
        let mut c = Checkpoint {
            redo_start: Lsn(r.u64()?),
            next_txn: r.u64()?,
            is_last: r.u8()? != 0,
            ..Checkpoint::default()
        };
        for _ in 0..r.u32()? {
            let (id, first, last) = (TxnId(r.u48()?), Lsn(r.u64()?), Lsn(r.u64()?));
            let defers = (0..r.u32()?)
                .map(|_| Space::read(&mut r))
                .collect::<Option<Vec<Space>>>()?;
            c.active.push(ActiveTxn {
                id,
                first,
                last,
                defers,
            });
        }
        for _ in 0..r.u32()? {
            c.pending_frees.push(Space::read(&mut r)?);
        }
        Some(c)
    }
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
