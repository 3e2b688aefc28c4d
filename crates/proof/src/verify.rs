//! The checkers: after a recovery, what is there must be what the model says, in every tree, blob and allocation map.

use crate::model::*;
use crate::report::Stats;
use crate::session::{first_difference, short};
use daruma_base::PageId;
use daruma_storage::*;
use std::collections::BTreeSet;
use std::sync::Arc;

type Checked<T = ()> = std::result::Result<T, String>;

/// An owner that nobody else is.
const READER: u64 = 9_999;
/// Rounds of background work after which nothing may be left to do.
const ROUNDS_MAX: usize = 10_000;

fn read_all(
    db: &Arc<Database>,
    tree: TreeId,
    direction: Direction,
) -> daruma_storage::Result<Vec<(Key, Row)>> {
    let txn = db.begin(&Owner::new(READER, Default::default()));
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let spec = ScanSpec {
        direction,
        ..ScanSpec::all()
    };
    let mut scan = db.tree(tree)?.scan(&view, spec);
    let (mut batch, mut rows) = (Batch::new(), Vec::new());
    while scan.next(&mut batch)? {
        rows.extend(
            (0..batch.len()).map(|i| (batch.key(i).to_vec(), Arc::new(batch.payload(i).to_vec()))),
        );
    }
    Ok(rows)
}

fn dump(db: &Arc<Database>, tree: TreeId) -> Checked<Vec<(Key, Row)>> {
    let told = |e: StorageError| format!("tree {:?} cannot be read: {e}", tree);
    read_all(db, tree, Direction::Forward).map_err(told)
}

/// What a tree must hold, in the order of its keys.
type Expected<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Is the tree what it must be, read in both directions?
fn is_equal(db: &Arc<Database>, tree: TreeId, expected: &Expected<'_>) -> Checked<bool> {
    let told = |e: StorageError| format!("tree {:?} cannot be read: {e}", tree);
    let txn = db.begin(&Owner::new(READER, Default::default()));
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let mut batch = Batch::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let spec = ScanSpec {
            direction,
            ..ScanSpec::all()
        };
        let mut scan = db.tree(tree).map_err(told)?.scan(&view, spec);
        let mut at = 0;
        while scan.next(&mut batch).map_err(told)? {
            for i in 0..batch.len() {
                let wanted = match direction {
                    Direction::Forward => expected.get(at),
                    Direction::Backward => expected.iter().nth_back(at),
                };
                if wanted != Some(&(batch.key(i), batch.payload(i))) {
                    return Ok(false);
                }
                at += 1;
            }
        }
        if at != expected.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Says where the tree is not what it must be.
fn check(db: &Arc<Database>, what: &str, tree: TreeId, expected: &Expected<'_>) -> Checked {
    if is_equal(db, tree, expected)? {
        return Ok(());
    }
    let owned = |(k, r): &(&[u8], &[u8])| (k.to_vec(), Arc::new(r.to_vec()));
    let expected: Vec<(Key, Row)> = expected.iter().map(owned).collect();
    compare(what, &dump(db, tree)?, &expected)?;
    let told = |e: StorageError| format!("tree {:?} cannot be read: {e}", tree);
    let mut backward = read_all(db, tree, Direction::Backward).map_err(told)?;
    backward.reverse();
    compare(&format!("{what}, backwards"), &backward, &expected)?;
    Err(format!("{what} differed, and does not any more"))
}

fn compare(what: &str, found: &[(Key, Row)], expected: &[(Key, Row)]) -> Checked {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {}", first_difference(found, expected)))
}

/// Which transactions left their mark, read through the catalog as it is on disk.
pub fn survivors(db: &Arc<Database>) -> Checked<BTreeSet<u64>> {
    let catalog = dump(db, db.catalog_tree())?;
    let row = catalog.iter().find(|(k, _)| *k == catalog_key(JOURNAL));
    let Some(root) = row.and_then(|(_, r)| Some(u64::from_le_bytes(r.get(..8)?.try_into().ok()?)))
    else {
        return Err("the journal is missing from the catalog".into());
    };
    let rows = dump(db, TreeId(PageId::from_u64(root)))?;
    rows.iter()
        .map(|(k, _)| journal_number(k).ok_or_else(|| format!("journal key {k:02x?}")))
        .collect()
}

/// Everything in the database against the model.
pub fn content(db: &Arc<Database>, state: &State, stats: &mut Stats) -> Checked {
    let defs: Vec<(Key, Vec<u8>)> = state
        .tables
        .iter()
        .map(|(n, t)| (catalog_key(*n), t.def.encode()))
        .collect();
    check(db, "the catalog", db.catalog_tree(), &slices(&defs))?;
    for (number, table) in &state.tables {
        table_content(db, *number, table, stats)?;
    }
    let accounts = state.tables.get(&ACCOUNTS).map(|t| t.rows.values());
    let sum: i64 = accounts
        .into_iter()
        .flatten()
        .filter_map(|r| Some(decode_row(r)?.amount))
        .sum();
    if sum != crate::world::ACCOUNTS_SUM {
        return Err(format!("the accounts add up to {sum}"));
    }
    Ok(())
}

fn slices(entries: &[(Key, Vec<u8>)]) -> Expected<'_> {
    entries.iter().map(|(k, v)| (&k[..], &v[..])).collect()
}

fn table_content(db: &Arc<Database>, number: u32, table: &Table, stats: &mut Stats) -> Checked {
    let expected: Expected<'_> = table.rows.iter().map(|(k, r)| (&k[..], &r[..])).collect();
    stats.rows_checked += expected.len() as u64;
    let primary = table.def.primary;
    check(db, &format!("table {number}"), primary, &expected)?;
    for (i, index) in table.def.indexes.iter().enumerate() {
        let mut entries: Vec<(Key, Vec<u8>)> =
            expected.iter().map(|(k, r)| index_entry(i, k, r)).collect();
        entries.sort_unstable();
        let what = format!("index {i} of table {number}");
        check(db, &what, *index, &slices(&entries))?;
    }
    for (key, row) in &expected {
        let Some((blob, seed)) = decode_row(row).and_then(|f| f.blob) else {
            continue;
        };
        let bytes = db
            .get_blob(blob)
            .map_err(|e| format!("blob of {} in table {number}: {e}", short(key)))?;
        if !is_blob(seed, blob.bytes as usize, &bytes) {
            return Err(format!("blob of {} in table {number} differs", short(key)));
        }
    }
    Ok(())
}

fn walk(db: &Database, state: &State) -> (Vec<PageId>, CheckReport) {
    let mut checker = Checker::new(db);
    checker.tree(db.catalog_tree());
    for table in state.tables.values() {
        table.def.trees().for_each(|tree| {
            checker.tree(tree);
        });
        let blobs = table
            .rows
            .values()
            .filter_map(|r| Some(decode_row(r)?.blob?.0));
        blobs.for_each(|b| checker.blob(b));
    }
    (checker.pages(), checker.finish())
}

/// Structure and allocation of a database at rest, once the background has done what there was to do. Returns the
/// pages in use.
pub fn structure(db: &Arc<Database>, state: &State, stats: &mut Stats) -> Checked<Vec<PageId>> {
    let mut rounds = 0;
    while db
        .background_step()
        .map_err(|e| format!("background work without faults: {e}"))?
    {
        rounds += 1;
        if rounds > ROUNDS_MAX {
            return Err("background work does not end".into());
        }
    }
    let (pages, report) = walk(db, state);
    stats.full_checks += 1;
    if let Some(first) = report.findings.first() {
        return Err(format!(
            "{} findings, the first: {first}",
            report.findings.len()
        ));
    }
    if !report.exact {
        return Err("the check met activity in a database at rest".into());
    }
    Ok(pages)
}

/// Only the structure of the trees, while sessions are in the middle of their work.
pub fn structure_under_way(db: &Database, state: &State) -> Checked {
    let mut checker = Checker::new(db);
    checker.tree(db.catalog_tree());
    for table in state.tables.values() {
        table.def.trees().for_each(|tree| {
            checker.tree(tree);
        });
    }
    // Blobs were not given, so pages without a known owner say nothing.
    let findings = checker.finish().findings;
    let is_leak = |f: &&Finding| matches!(f.kind, FindingKind::Leak { .. });
    match findings.iter().find(|f| !is_leak(f)) {
        None => Ok(()),
        Some(finding) => Err(format!("while sessions work: {finding}")),
    }
}

/// One page was damaged behind the engine's back: the check must name it, and nothing else may suffer.
pub fn damaged(db: &Arc<Database>, state: &State, page: PageId) -> Checked {
    let (_, report) = walk(db, state);
    if !report.findings.iter().any(|f| f.page == page) {
        return Err(format!("a damaged page {page} was not found by the check"));
    }
    for (number, table) in &state.tables {
        for (key, row) in &table.rows {
            row_or_damage(db, *number, table, key, row)?;
        }
    }
    Ok(())
}

/// The right row or an error, never something else.
fn row_or_damage(db: &Arc<Database>, number: u32, table: &Table, key: &[u8], row: &Row) -> Checked {
    let txn = db.begin(&Owner::new(READER, Default::default()));
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let found = db.tree(table.def.primary).and_then(|t| t.get(&view, key));
    match found {
        Err(error) if error.is_damage() => return Ok(()),
        Ok(Some(entry)) if entry.payload == **row => {}
        other => {
            return Err(format!(
                "beside a damaged page, row {} of table {number} reads {other:?}",
                short(key)
            ));
        }
    }
    let Some((blob, seed)) = decode_row(row).and_then(|f| f.blob) else {
        return Ok(());
    };
    match db.get_blob(blob) {
        Err(error) if error.is_damage() => Ok(()),
        Ok(bytes) if is_blob(seed, blob.bytes as usize, &bytes) => Ok(()),
        _ => Err(format!(
            "a blob of table {number} is wrong beside a damaged page"
        )),
    }
}
