//! The log in words: one line for each operation of a record, to see what the engine writes.
//!
//! Theory: a record is physiological. It names pages, and within them entries by their slot; one record may hold many
//! operations of one page, or parts for several pages, or facts of a checkpoint. So a record gives several lines, which
//! share its position and are numbered. Operations have the product's names where it has such an operation.
//!
//! The reader holds the log meanwhile. A record that cannot be read is an error that says where; the listing is
//! bounded, and says where it ended.
//!
//! Read next: `record`, which has the layout.

use super::LogHold;
use super::record::*;
use crate::api::TreeId;
use crate::database::Database;
use crate::delta::Delta;
use crate::error::{Result, StorageError};
use crate::page::{Head, PageType};
use daruma_base::{Lsn, PageId, TxnId};

/// Reason in `log_reuse_wait_desc` while the log is listed.
const REASON: &str = "LOG_SCAN";

/// One operation of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub lsn: Lsn,
    /// Of the operation within its record, from 1.
    pub number: u32,
    pub operation: &'static str,
    /// `None`: a leaf of the tree, so it depends on what the tree is.
    pub context: Option<&'static str>,
    pub txn: TxnId,
    /// Record of the same transaction before this one.
    pub previous: Lsn,
    pub record_bytes: usize,
    pub accelerated: bool,
    pub tree: Option<TreeId>,
    pub page: PageId,
    pub slot: Option<usize>,
    pub key: Vec<u8>,
    /// Bytes before and after the change, as far as the record has them.
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// Time of a commit, 0 for everything else.
    pub utc_100ns: i64,
    pub description: String,
}

/// Lines of a stretch of the log.
#[derive(Clone, Debug, Default)]
pub struct LogListing {
    pub lines: Vec<LogLine>,
    /// The listing is not complete: it goes on with this record.
    pub next: Option<Lsn>,
}

impl Database {
    /// The records from `start` up to and including `end`, in words; at most about `lines_max` of them. What was logged
    /// before the call is written first.
    pub fn describe_log(
        &self,
        start: Option<Lsn>,
        end: Option<Lsn>,
        lines_max: usize,
    ) -> Result<LogListing> {
        let hold = self.hold_from_first_block(start)?;
        self.flush_log()?;
        let (start, last) = (start.unwrap_or(Lsn::NONE), end.unwrap_or(Lsn::MAX));
        let end = self.hardened_lsn();
        let mut listing = LogListing::default();
        let mut writer = Writer::default();
        if hold.from() >= end {
            return Ok(listing);
        }
        let mut cursor = self.store().log.cursor(hold.from())?;
        while cursor.position() <= last
            && let Some(block) = cursor.next_before(end)?
        {
            let wanted = |lsn: &Lsn| *lsn >= start && *lsn <= last;
            for (lsn, bytes) in block.records().filter(|(lsn, _)| wanted(lsn)) {
                if writer.lines.len() >= lines_max {
                    listing.next = Some(lsn);
                    listing.lines = writer.lines;
                    return Ok(listing);
                }
                writer
                    .record(lsn, bytes)
                    .ok_or_else(|| self.unreadable(lsn))?;
            }
        }
        listing.lines = writer.lines;
        Ok(listing)
    }

    /// Holds the log from the beginning of a virtual log file on: a block begins there.
    fn hold_from_first_block(&self, start: Option<Lsn>) -> Result<LogHold> {
        loop {
            let first = self.store().log.min_lsn();
            let begins = self
                .vlfs()
                .into_iter()
                .filter(|v| v.active && v.sequence > 0);
            let begins = begins.map(|v| Lsn(v.start_lsn));
            let wanted = start.unwrap_or(Lsn::NONE);
            let from = begins.filter(|b| *b <= wanted && *b >= first).max();
            if let Some(hold) = self.hold_log(from.unwrap_or(first), REASON) {
                return Ok(hold);
            }
        }
    }

    fn unreadable(&self, lsn: Lsn) -> StorageError {
        StorageError::DamagedLog {
            path: self.log_path(),
            lsn,
            what: "unreadable record".into(),
        }
    }
}

/// Makes lines of records. `None` from its functions means damage.
#[derive(Default)]
struct Writer {
    lines: Vec<LogLine>,
    /// The last record was a part of a checkpoint, and not its last.
    in_checkpoint: bool,
}

/// Where the lines of one record begin.
struct Base {
    line: LogLine,
}

impl Base {
    fn next(&mut self, operation: &'static str, context: Option<&'static str>) -> LogLine {
        self.line.number += 1;
        LogLine {
            operation,
            context,
            ..self.line.clone()
        }
    }
}

const NULL: Option<&str> = Some("LCX_NULL");

impl Writer {
    fn record(&mut self, lsn: Lsn, bytes: &[u8]) -> Option<()> {
        let record = Record::parse(bytes)?;
        let mut base = Base {
            line: LogLine {
                lsn,
                number: 0,
                operation: "",
                context: None,
                txn: record.txn,
                previous: record.previous,
                record_bytes: bytes.len(),
                accelerated: record.accelerated,
                tree: None,
                page: PageId::NONE,
                slot: None,
                key: Vec::new(),
                before: Vec::new(),
                after: Vec::new(),
                utc_100ns: 0,
                description: String::new(),
            },
        };
        let base = &mut base;
        let was_in_checkpoint = std::mem::replace(&mut self.in_checkpoint, false);
        match record.kind {
            Kind::Ops | Kind::Revert => self.operations(base, record.kind, record.body)?,
            Kind::Clr => {
                let (next, rest) = parse_clr(record.body)?;
                base.line.description = undo_text(next);
                self.operations(base, record.kind, rest)?;
            }
            Kind::System => self.parts(base, record.body)?,
            Kind::Owned => {
                let text = "becomes the transaction's; freed if it is rolled back";
                self.space(base, "LOP_OWN_SPACE", record.body, text)?;
                self.parts(base, parts_of(&record)?)?;
            }
            Kind::Defer => {
                let text = "is freed once the transaction has committed";
                self.space(base, "LOP_DEFER_FREE", record.body, text)?;
            }
            Kind::FreeDone => {
                self.space(base, "LOP_FREE_DONE", record.body, "has been freed")?;
                self.parts(base, parts_of(&record)?)?;
            }
            Kind::ClrSpace => {
                let (next, rest) = parse_clr(record.body)?;
                let (is_owned, space) = crate::undo::parse_clr_space(rest)?;
                let text = match is_owned {
                    true => "is no longer the transaction's",
                    false => "stays",
                };
                let text = format!("{text}; {}", undo_text(next));
                self.name_space(base, "LOP_UNDO_SPACE", space, &text);
            }
            Kind::Commit => {
                let time = record.body.get(..8).and_then(|b| b.try_into().ok());
                base.line.utc_100ns = time.map_or(0, i64::from_le_bytes);
                let (decision, earlier) = super::commit::parse_commit(&record)?;
                let earlier: Vec<String> = earlier.map(|id| id.0.to_string()).collect();
                let mut text = match earlier.len() {
                    0 => "committed".to_string(),
                    1..=16 => format!("committed, with its earlier ids {}", earlier.join(", ")),
                    n => format!("committed, with {n} earlier ids"),
                };
                if let Some(decision) = decision {
                    let others = decision.others.len();
                    text += &format!("; decides for {others} prepared in other databases");
                }
                self.simple(base, "LOP_COMMIT_XACT", text);
            }
            Kind::Prepare => {
                let time = record.body.get(..8).and_then(|b| b.try_into().ok());
                base.line.utc_100ns = time.map_or(0, i64::from_le_bytes);
                let (unit, _) = super::commit::parse_prepare(record.body)?;
                let text = format!(
                    "prepared: transaction {} of database {} decides",
                    unit.txn.0, unit.database
                );
                self.simple(base, "LOP_PREP_XACT", text);
            }
            Kind::Property => {
                let text = crate::properties::describe(&record)?;
                self.simple(base, "LOP_SET_PROPERTY", text);
            }
            Kind::End => {
                let text = "rolled back: every change was undone from the log";
                self.simple(base, "LOP_ABORT_XACT", text.into());
            }
            Kind::Abort => {
                let text = match Abort::parse(record.body).is_nested {
                    true => {
                        "rolled back by a mark, while the transaction goes on: what it wrote is reverted later"
                    }
                    false => "rolled back by a mark: what it wrote is reverted later",
                };
                self.simple(base, "LOP_ABORT_XACT", text.into());
            }
            Kind::Forget => {
                let (is_last, spaces) = parse_forget(record.body)?;
                let text = match is_last {
                    true => "everything is reverted, the transaction is forgotten",
                    false => "the transaction is about to be forgotten",
                };
                self.simple(
                    base,
                    "LOP_FORGET_XACT",
                    format!("{text}; {} spaces of its own to free", spaces.len()),
                );
            }
            Kind::Checkpoint => {
                let checkpoint = Checkpoint::parse(record.body)?;
                self.in_checkpoint = !checkpoint.is_last;
                self.checkpoint(base, &checkpoint, !was_in_checkpoint);
            }
            Kind::Versions => {
                let (chunk, pages, parts) = parse_versions(record.body)?;
                let mut line = base.next("LOP_PLACE_VERSIONS", Some("LCX_VERSIONS"));
                line.page = pages.first().copied().unwrap_or(PageId::NONE);
                line.description = format!(
                    "chunk {chunk} of versions, of the transaction, goes to {} pages",
                    pages.len()
                );
                self.lines.push(line);
                self.parts(base, parts)?;
            }
            Kind::VersionsFreed => {
                let (chunks, parts) = parse_versions_freed(record.body)?;
                let mut line = base.next("LOP_FREE_VERSIONS", Some("LCX_VERSIONS"));
                let names: Vec<String> = chunks.iter().take(16).map(u32::to_string).collect();
                line.description = format!(
                    "{} chunks of versions nobody needs: {}",
                    chunks.len(),
                    names.join(", ")
                );
                self.lines.push(line);
                self.parts(base, parts)?;
            }
        }
        Some(())
    }

    fn simple(&mut self, base: &mut Base, operation: &'static str, description: String) {
        let mut line = base.next(operation, NULL);
        line.description = description;
        self.lines.push(line);
    }

    fn space(
        &mut self,
        base: &mut Base,
        operation: &'static str,
        body: &[u8],
        text: &str,
    ) -> Option<()> {
        let space = Space::read(&mut crate::bytes::Reader::new(body))?;
        self.name_space(base, operation, space, text);
        Some(())
    }

    fn name_space(&mut self, base: &mut Base, operation: &'static str, space: Space, text: &str) {
        let mut line = base.next(operation, NULL);
        name_space(&mut line, space);
        line.description = format!("{} {text}", space_text(space));
        self.lines.push(line);
    }

    // --- entries of leaves --------------------------------------------------------------------------------------

    fn operations(&mut self, base: &mut Base, kind: Kind, body: &[u8]) -> Option<()> {
        let ops = Ops::parse(body)?;
        base.line.page = ops.page;
        base.line.tree = Some(TreeId(ops.tree));
        let prefix = std::mem::take(&mut base.line.description);
        for op in ops.iter() {
            let line = leaf_line(base, kind, op?, &prefix)?;
            self.lines.push(line);
        }
        Some(())
    }

    // --- parts of system operations -----------------------------------------------------------------------------

    fn parts(&mut self, base: &mut Base, body: &[u8]) -> Option<()> {
        for part in parts(body) {
            let (page, action) = part?;
            let mut line = part_line(base, &action);
            line.page = page;
            self.lines.push(line);
        }
        Some(())
    }

    // --- checkpoints --------------------------------------------------------------------------------------------

    fn checkpoint(&mut self, base: &mut Base, checkpoint: &Checkpoint, is_first: bool) {
        if is_first {
            let text = format!(
                "redo begins at {}, the next transaction is {}",
                checkpoint.redo_start, checkpoint.next_txn
            );
            self.simple(base, "LOP_BEGIN_CKPT", text);
        }
        for fact in &checkpoint.facts {
            let line = fact_line(base, fact);
            self.lines.push(line);
        }
        if checkpoint.is_last {
            self.simple(base, "LOP_END_CKPT", "the checkpoint is complete".into());
        }
    }
}

fn undo_text(next: UndoNext) -> String {
    match (next.lsn, next.remaining) {
        (Lsn::NONE, _) => "compensation, the last one".to_string(),
        (lsn, UndoNext::ALL) => format!("compensation, next {lsn}"),
        (lsn, left) => format!("compensation, next {lsn}, {left} operations"),
    }
}

fn leaf_line(base: &mut Base, kind: Kind, op: LeafOp<'_>, prefix: &str) -> Option<LogLine> {
    let mut line = base.next(leaf_operation(kind, &op), None);
    let what = match op {
        LeafOp::Insert { slot, key, payload } => {
            line.slot = Some(slot);
            line.key = key.to_vec();
            line.after = payload.to_vec();
            format!("key of {} bytes, row of {} bytes", key.len(), payload.len())
        }
        LeafOp::Update {
            slot,
            before,
            version,
            key,
            delta,
        } => {
            line.slot = Some(slot);
            line.key = key.to_vec();
            let changed = changes(&mut line, delta)?;
            let kept = version_text(version);
            format!("{changed}; {}{kept}", head_text(before))
        }
        LeafOp::Delete {
            slot,
            before,
            version,
            key,
        } => {
            line.slot = Some(slot);
            line.key = key.to_vec();
            line.context = Some("LCX_MARK_AS_GHOST");
            let kept = version_text(version);
            format!("the row is marked deleted; {}{kept}", head_text(before))
        }
        LeafOp::Remove { slot } => {
            line.slot = Some(slot);
            "the inserted row goes".to_string()
        }
        LeafOp::Restore { slot, head, delta } => {
            line.slot = Some(slot);
            let changed = changes(&mut line, delta)?;
            format!("the row before is put back, {changed}; {}", head_text(head))
        }
    };
    line.description = match prefix {
        "" => what,
        prefix => format!("{prefix}: {what}"),
    };
    Some(line)
}

fn leaf_operation(kind: Kind, op: &LeafOp<'_>) -> &'static str {
    match (kind, op) {
        (Kind::Revert, LeafOp::Remove { .. }) => "LOP_REVERT_INSERT",
        (Kind::Revert, _) => "LOP_REVERT_ROW",
        (_, LeafOp::Insert { .. }) => "LOP_INSERT_ROWS",
        (_, LeafOp::Update { .. } | LeafOp::Restore { .. }) => "LOP_MODIFY_ROW",
        (_, LeafOp::Delete { .. } | LeafOp::Remove { .. }) => "LOP_DELETE_ROWS",
    }
}

/// Fills what was there before and after, and says where.
fn changes(line: &mut LogLine, delta: Delta<'_>) -> Option<String> {
    let mut places = Vec::new();
    for (offset, old, new) in delta.segments()? {
        line.before.extend_from_slice(old);
        line.after.extend_from_slice(new);
        places.push(format!("{} by {} at {offset}", old.len(), new.len()));
    }
    Some(match places.len() {
        0 => "no bytes change".to_string(),
        1..=8 => format!("bytes replaced: {}", places.join(", ")),
        n => format!("bytes replaced in {n} places"),
    })
}

fn head_text(head: Head) -> String {
    let deleted = if head.is_deleted() { " (deleted)" } else { "" };
    format!("written before by transaction {}{deleted}", head.writer.0)
}

fn version_text(version: u64) -> String {
    match version {
        0 => String::new(),
        v => format!(", version at {}:{}", v >> 16, v & 0xFFFF),
    }
}

fn part_line(base: &mut Base, action: &PageAction<'_>) -> LogLine {
    let (operation, context, text): (_, _, String) = match action {
        PageAction::Image(image) => {
            let context = match image.get(4) {
                Some(t) if *t == PageType::Tree as u8 => None,
                Some(t) if *t == PageType::Versions as u8 => Some("LCX_VERSIONS"),
                _ => Some("LCX_BLOB"),
            };
            let text = format!("the page as a whole, {} bytes", image.len());
            ("LOP_FORMAT_PAGE", context.or(Some("LCX_INDEX_PAGE")), text)
        }
        // Pages of versions only.
        PageAction::PackedImage(packed) => (
            "LOP_FORMAT_PAGE",
            Some("LCX_VERSIONS"),
            format!("the page as a whole, compressed to {} bytes", packed.len()),
        ),
        PageAction::Truncate { count, next } => (
            "LOP_DELETE_SPLIT",
            Some("LCX_INDEX_PAGE"),
            format!("the first {count} entries stay, next page {next}"),
        ),
        PageAction::InternalInsert { child, key, .. } => (
            "LOP_INSERT_ROWS",
            Some("LCX_INDEX_INTERIOR"),
            format!("child {child}, key of {} bytes", key.len()),
        ),
        PageAction::InternalRemove { .. } => (
            "LOP_DELETE_ROWS",
            Some("LCX_INDEX_INTERIOR"),
            "a child goes".into(),
        ),
        PageAction::SetNext(next) => (
            "LOP_MODIFY_HEADER",
            Some("LCX_HEADER"),
            format!("next page {next}"),
        ),
        PageAction::Bits { set, indexes } => {
            let count = u16s(indexes).count();
            let first: Vec<String> = u16s(indexes).take(8).map(|i| i.to_string()).collect();
            let more = if count > 8 { ", ..." } else { "" };
            let (operation, text) = match set {
                true => ("LOP_SET_BITS", "allocated"),
                false => ("LOP_CLEAR_BITS", "freed"),
            };
            (
                operation,
                Some("LCX_ALLOCATION"),
                format!("{count} pages {text}: bits {}{more}", first.join(", ")),
            )
        }
        PageAction::RemoveSlots { slots } => (
            "LOP_EXPUNGE_ROWS",
            None,
            format!("{} deleted entries go", u16s(slots).count()),
        ),
    };
    let mut line = base.next(operation, context);
    line.slot = match action {
        PageAction::InternalInsert { slot, .. } | PageAction::InternalRemove { slot } => {
            Some(*slot)
        }
        PageAction::RemoveSlots { slots } => u16s(slots).last().map(usize::from),
        _ => None,
    };
    if let PageAction::InternalInsert { key, .. } = action {
        line.key = key.to_vec();
    }
    line.description = text;
    line
}

fn fact_line(base: &mut Base, fact: &Fact) -> LogLine {
    let operation = match fact {
        Fact::Txn { .. } => "LOP_XACT_CKPT",
        Fact::Versions { .. } => "LOP_VERSIONS_CKPT",
        Fact::Prepared { .. } | Fact::Decision(_) => "LOP_XACT_CKPT",
        Fact::Defer { .. } | Fact::Owned { .. } | Fact::Work { .. } | Fact::Pending(_) => {
            "LOP_SLOG_CKPT"
        }
    };
    let mut line = base.next(operation, NULL);
    line.description = match fact {
        Fact::Txn {
            id,
            first,
            last,
            accelerated,
            aborted,
            ..
        } => {
            line.txn = *id;
            line.accelerated = *accelerated;
            let state = match aborted {
                true => "aborted, to be reverted",
                false => "active",
            };
            format!("{state}, first record {first}, last {last}")
        }
        Fact::Defer { id, space } => {
            line.txn = *id;
            name_space(&mut line, *space);
            format!("{} is freed if it commits", space_text(*space))
        }
        Fact::Owned { id, space } => {
            line.txn = *id;
            name_space(&mut line, *space);
            format!("{} is freed if it is rolled back", space_text(*space))
        }
        Fact::Work {
            id,
            tree,
            low,
            high,
        } => {
            line.txn = *id;
            line.tree = Some(TreeId(*tree));
            line.before = low.clone();
            line.after = high.clone();
            "wrote between these two keys".to_string()
        }
        Fact::Pending(space) => {
            name_space(&mut line, *space);
            format!("{} waits to be freed", space_text(*space))
        }
        Fact::Prepared { id, unit } => {
            line.txn = *id;
            let (txn, database) = (unit.txn.0, unit.database);
            format!("prepared: transaction {txn} of database {database} decides")
        }
        Fact::Decision(decision) => {
            line.txn = decision.txn;
            let others = decision.others.len();
            format!("committed; {others} databases may not have it on disk")
        }
        Fact::Versions { chunk, id, pages } => {
            line.txn = *id;
            line.page = pages.first().copied().unwrap_or(PageId::NONE);
            format!("chunk {chunk} of versions is on {} pages", pages.len())
        }
    };
    line
}

fn name_space(line: &mut LogLine, space: Space) {
    match space {
        Space::Tree(root) => {
            line.tree = Some(TreeId(root));
            line.page = root;
        }
        Space::Blob(first) => line.page = first,
    }
}

fn space_text(space: Space) -> String {
    match space {
        Space::Tree(root) => format!("tree {root}"),
        Space::Blob(first) => format!("large value {first}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8]) -> Option<Vec<LogLine>> {
        let mut writer = Writer::default();
        writer.record(Lsn(4096), bytes)?;
        Some(writer.lines)
    }

    fn update() -> Vec<u8> {
        let mut out = Vec::new();
        start(&mut out, Kind::Ops, TxnId(7), Lsn(40));
        let mut ops = OpsWriter::new(&mut out, PageId::new(1, 9), PageId::new(1, 8));
        ops.insert(0, b"key", b"row");
        let before = Head {
            flags: 0,
            writer: TxnId(3),
            version: 0,
        };
        ops.update(1, before, 5 << 16, b"kez", b"old row", b"new row");
        ops.finish();
        out
    }

    #[test]
    fn a_record_gives_a_line_per_operation() {
        let lines = lines(&update()).expect("readable");
        let of = |at: usize| (lines[at].operation, lines[at].number, lines[at].slot);
        assert_eq!(of(0), ("LOP_INSERT_ROWS", 1, Some(0)));
        assert_eq!(of(1), ("LOP_MODIFY_ROW", 2, Some(1)));
        assert_eq!(
            (lines[1].before.as_slice(), lines[1].after.as_slice()),
            (&b"old"[..], &b"new"[..])
        );
        assert_eq!(
            lines[1].description,
            "bytes replaced: 3 by 3 at 0; written before by transaction 3, version at 5:0"
        );
    }

    #[test]
    fn a_checkpoint_has_a_beginning_and_an_end_whatever_the_number_of_its_parts() {
        let part = |is_last| {
            let mut out = Vec::new();
            let facts = vec![Fact::Pending(Space::Tree(PageId::new(1, 8)))];
            Checkpoint {
                is_last,
                facts,
                ..Checkpoint::default()
            }
            .write(&mut out);
            out
        };
        let mut writer = Writer::default();
        writer.record(Lsn(1), &part(false)).expect("readable");
        writer.record(Lsn(2), &part(true)).expect("readable");
        let names: Vec<_> = writer.lines.iter().map(|l| l.operation).collect();
        assert_eq!(
            names,
            [
                "LOP_BEGIN_CKPT",
                "LOP_SLOG_CKPT",
                "LOP_SLOG_CKPT",
                "LOP_END_CKPT"
            ]
        );
    }

    proptest! {
        #[test]
        fn damaged_records_are_refused_and_never_panic(
            at in 0usize..80, byte in any::<u8>(), kind in 0u8..17, cut in 0usize..80,
        ) {
            let mut bytes = update();
            bytes[4] = kind;
            if at >= 4 && let Some(b) = bytes.get_mut(at) {
                *b = byte;
            }
            let _ = lines(&bytes);
            bytes.truncate(bytes.len().saturating_sub(cut));
            let _ = lines(&bytes);
        }

        #[test]
        fn any_bytes_are_lines_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 20..200)) {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            for kind in 0..17 {
                bytes[4] = kind;
                let _ = lines(&bytes);
            }
        }
    }
}
