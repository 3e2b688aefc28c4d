//! What sessions do: each call is one statement of one transaction, checked against the model as it goes.
//!
//! A statement that meets another transaction does not wait (there is one thread): it gets a lock timeout at once, is
//! taken back to its savepoint and tried again later, or its transaction gives up.

use crate::model::*;
use crate::report::Stats;
use daruma_sim::SimRandom;
use daruma_storage::*;
use std::ops::Bound as Edge;
use std::sync::Arc;

/// Rows of this length get no longer.
const ALTERED_BYTES_MAX: usize = 6_500;
/// Keys that transactions share the pages of.
const CROWD_KEYS: u64 = 80;
/// Longer values are read after recoveries only.
const BLOB_READ_BYTES_MAX: u64 = 80_000;

/// Why a statement did not end well.
#[derive(Debug)]
pub enum Failure {
    Storage(StorageError),
    /// The transaction is in another's way.
    Conflict,
    /// The database said something that the model denies.
    Wrong(String),
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Failure {
        match error {
            e if e.is_transient() => Failure::Conflict,
            e => Failure::Storage(e),
        }
    }
}

/// What a step came to; the error says whether it may happen or is a violation.
pub type Outcome<T = ()> = std::result::Result<T, Failure>;

fn wrong<T>(what: String) -> Outcome<T> {
    Err(Failure::Wrong(what))
}

/// Kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Transfer,
    Upsert,
    InsertMany,
    DeleteMany,
    UpdateMany,
    /// Neighbours become long, short or nothing: taking that back needs room.
    Reshape,
    /// The same of a few rows, between those of others.
    Crowd,
    /// A row with a value outside of it.
    PutBlob,
    Savepoint,
    BackToSavepoint,
    CreateTable,
    DropTable,
    BuildIndex,
    DropIndex,
    /// The rows move into new trees as they are.
    Rebuild,
    Truncate,
    /// The rows move into new trees, each of them longer.
    AlterColumn,
    Read,
    /// A snapshot looks at trees that were made after it.
    ReadYounger,
}

impl Act {
    fn some(random: &SimRandom) -> Act {
        match random.below(49) {
            0..=7 => Act::Transfer,
            8..=17 => Act::Upsert,
            18..=19 => Act::InsertMany,
            20 => Act::DeleteMany,
            21 => Act::UpdateMany,
            22..=24 => Act::Savepoint,
            25..=26 => Act::BackToSavepoint,
            27 => Act::CreateTable,
            28 => Act::DropTable,
            29 => Act::BuildIndex,
            30 => Act::DropIndex,
            31..=33 => Act::Reshape,
            34 => Act::Rebuild,
            35 => Act::Truncate,
            36 => Act::AlterColumn,
            37..=39 => Act::ReadYounger,
            _ => Act::Read,
        }
    }
}

/// What statements work with.
pub struct Ctx<'a> {
    pub db: &'a Arc<Database>,
    pub random: &'a SimRandom,
    pub history: &'a History,
    pub stats: &'a mut Stats,
    pub next_table: &'a mut u32,
    /// Transactions meet on few pages.
    pub crowded: bool,
}

/// A scan that goes on while others write.
pub struct Paused {
    scan: Scan,
    /// What it has found stays readable, values outside of rows as well.
    has_snapshot: bool,
    table: u32,
    expected: Vec<(Key, Row)>,
    found: Vec<(Key, Row)>,
}

/// A session's open transaction beside what it must see and leave.
pub struct Open {
    pub txn: Txn,
    pub number: u64,
    /// What a SNAPSHOT transaction saw first.
    snapshot: Option<State>,
    pub changes: Vec<Change>,
    points: Vec<(Savepoint, usize)>,
    pub left: u64,
    pub stuck: u32,
    bulky: bool,
    paused: Option<Paused>,
}

impl Open {
    /// Begins a transaction, one in four at SNAPSHOT.
    pub fn new(ctx: &mut Ctx<'_>, owner: &Arc<Owner>, number: u64) -> Open {
        let txn = ctx.db.begin(owner);
        let snapshot = (ctx.random.below(4) == 0).then(|| {
            drop(txn.view(Isolation::Snapshot));
            ctx.history.now().clone()
        });
        let bulky = ctx.random.below(8) == 0;
        Open {
            txn,
            number,
            snapshot,
            changes: Vec::new(),
            points: Vec::new(),
            left: 1 + ctx.random.below(if bulky { 12 } else { 6 }),
            stuck: 0,
            bulky,
            paused: None,
        }
    }

    /// A transaction whose statements are given by the caller.
    pub fn plain(ctx: &Ctx<'_>, owner: &Arc<Owner>, number: u64) -> Open {
        Open {
            txn: ctx.db.begin(owner),
            number,
            snapshot: None,
            changes: Vec::new(),
            points: Vec::new(),
            left: 0,
            stuck: 0,
            bulky: false,
            paused: None,
        }
    }

    fn visible(&self, ctx: &Ctx<'_>) -> State {
        let base = self.snapshot.as_ref().unwrap_or(ctx.history.now());
        base.with(&self.changes)
    }

    fn write_view(&self) -> ReadView {
        self.txn.view(match self.snapshot {
            Some(_) => Isolation::Snapshot,
            None => Isolation::Current,
        })
    }

    /// One statement of some kind, or a part of a scan.
    pub fn statement(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        if self.paused.is_some() {
            return self.go_on_reading(ctx);
        }
        let point = self.txn.savepoint();
        let act = match ctx.crowded && ctx.random.below(4) > 0 {
            true => Act::Crowd,
            false => Act::some(ctx.random),
        };
        self.act_after(ctx, act, point)
    }

    /// A statement; on failure everything it did is taken back.
    pub fn act(&mut self, ctx: &mut Ctx<'_>, act: Act) -> Outcome {
        let point = self.txn.savepoint();
        self.act_after(ctx, act, point)
    }

    fn act_after(&mut self, ctx: &mut Ctx<'_>, act: Act, point: Savepoint) -> Outcome {
        let changed = self.changes.len();
        let result = self.run(ctx, act);
        if result.is_err() && !matches!(result, Err(Failure::Wrong(_))) {
            self.changes.truncate(changed);
            self.txn.rollback_to(point)?;
        }
        result
    }

    fn run(&mut self, ctx: &mut Ctx<'_>, act: Act) -> Outcome {
        match act {
            Act::Transfer => self.transfer(ctx),
            Act::Upsert => self.upsert(ctx),
            Act::InsertMany => self.insert_many(ctx),
            Act::DeleteMany => self.delete_many(ctx),
            Act::UpdateMany => self.update_many(ctx),
            Act::Reshape => self.reshape(ctx),
            Act::Crowd => self.crowd(ctx),
            Act::PutBlob => self.put_blob(ctx),
            Act::Savepoint => {
                self.points.push((self.txn.savepoint(), self.changes.len()));
                Ok(())
            }
            Act::BackToSavepoint => self.back_to_savepoint(),
            Act::CreateTable => self.create_table(ctx),
            Act::DropTable => self.drop_table(ctx),
            Act::BuildIndex => self.build_index(ctx),
            Act::DropIndex => self.drop_index(ctx),
            Act::Rebuild => self.rebuild(ctx),
            Act::Truncate => self.truncate(ctx),
            Act::AlterColumn => self.alter_column(ctx),
            Act::Read => self.begin_reading(ctx),
            Act::ReadYounger => self.read_younger(ctx),
        }
    }

    fn back_to_savepoint(&mut self) -> Outcome {
        if let Some((point, changes)) = self.points.pop() {
            self.changes.truncate(changes);
            self.txn.rollback_to(point)?;
        }
        Ok(())
    }

    // --- writing ------------------------------------------------------------------------------------------------

    /// Locks a table for writing. A transaction whose snapshot knows it differently keeps away.
    fn enter(&self, ctx: &Ctx<'_>, state: &State, table: u32) -> Outcome {
        let resource = LockResource::Object(table as i32);
        ctx.db
            .lock(self.txn.owner(), resource, LockMode::IntentExclusive)?;
        let now = ctx.history.now().with(&self.changes);
        let same = match (state.tables.get(&table), now.tables.get(&table)) {
            (Some(a), Some(b)) => a.def == b.def,
            _ => false,
        };
        if same { Ok(()) } else { Err(Failure::Conflict) }
    }

    /// Inserts, changes or (with `None`) deletes a row and its index entries.
    fn put(
        &mut self,
        ctx: &mut Ctx<'_>,
        state: &mut State,
        table: u32,
        key: &[u8],
        new: Option<Row>,
    ) -> Outcome {
        let Some(def) = state.tables.get(&table).map(|t| t.def.clone()) else {
            return Err(Failure::Conflict);
        };
        let old = state.row(table, key).cloned();
        self.put_entry(
            ctx,
            def.primary,
            key,
            old.as_deref().map(Vec::as_slice),
            new.as_deref().map(Vec::as_slice),
        )?;
        for (i, index) in def.indexes.iter().enumerate() {
            let before = old.as_ref().map(|r| index_entry(i, key, r));
            let after = new.as_ref().map(|r| index_entry(i, key, r));
            if before == after {
                continue;
            }
            if let Some((k, v)) = &before {
                self.put_entry(ctx, *index, k, Some(v), None)?;
            }
            if let Some((k, v)) = &after {
                self.put_entry(ctx, *index, k, None, Some(v))?;
            }
        }
        if old.is_none() && new.is_none() {
            // Nothing was written: another may still write it first.
            return Ok(());
        }
        let blob_of = |row: &Option<Row>| row.as_ref().and_then(|r| decode_row(r)?.blob);
        if let Some((blob, _)) = blob_of(&old)
            && blob_of(&new).map(|b| b.0) != Some(blob)
        {
            ctx.db.free_blob(&self.txn, blob)?;
        }
        let change = match new {
            Some(row) => Change::Put(table, key.to_vec(), row),
            None => Change::Delete(table, key.to_vec()),
        };
        state.apply(&change);
        self.changes.push(change);
        Ok(())
    }

    /// One entry of one tree, from what the model says it is to what it shall be.
    fn put_entry(
        &mut self,
        ctx: &mut Ctx<'_>,
        tree: TreeId,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Outcome {
        let tree = ctx.db.tree(tree)?;
        let found = tree.get(&self.write_view(), key)?;
        ctx.stats.reads_checked += 1;
        if found.as_ref().map(|e| e.payload.as_slice()) != old {
            return wrong(format!(
                "transaction {} read {:?} where {:?} should be, key {} of tree {:?}",
                self.number,
                found.map(|e| short(&e.payload)),
                old.map(short),
                key_text(key),
                tree.id()
            ));
        }
        let outcome = match (found, new) {
            (None, Some(new)) => match tree.insert(&self.txn, key, new) {
                Err(StorageError::DuplicateKey { .. }) if self.snapshot.is_some() => {
                    return Err(Failure::Conflict);
                }
                other => {
                    other?;
                    WriteOutcome::Done
                }
            },
            (Some(entry), Some(new)) => tree.update(&self.txn, key, entry.stamp, new)?,
            (Some(entry), None) => tree.delete(&self.txn, key, entry.stamp)?,
            (None, None) => WriteOutcome::Done,
        };
        match outcome {
            WriteOutcome::Done => Ok(()),
            _ if self.snapshot.is_some() => Err(Failure::Conflict),
            other => wrong(format!(
                "a write of the newest state was refused: {other:?}"
            )),
        }
    }

    fn transfer(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let mut state = self.visible(ctx);
        self.enter(ctx, &state, ACCOUNTS)?;
        let Some(accounts) = state.tables.get(&ACCOUNTS) else {
            return wrong("the table of accounts is gone".into());
        };
        let count = accounts.rows.len() as u64;
        let pick = |n: u64| accounts.rows.iter().nth(n as usize);
        let (from, to) = (ctx.random.below(count), ctx.random.below(count));
        let (Some((a, a_row)), Some((b, b_row))) = (pick(from), pick(to)) else {
            return wrong("an account is gone".into());
        };
        if a == b {
            return Ok(());
        }
        let amount = ctx.random.below(100) as i64;
        let (a, b) = (a.clone(), b.clone());
        let (a_new, b_new) = (
            moved(ctx.random, a_row, -amount),
            moved(ctx.random, b_row, amount),
        );
        self.put(ctx, &mut state, ACCOUNTS, &a, Some(a_new))?;
        self.put(ctx, &mut state, ACCOUNTS, &b, Some(b_new))
    }

    /// A table that may be filled and emptied freely.
    fn free_table(&self, ctx: &Ctx<'_>, state: &State) -> Option<u32> {
        let tables: Vec<u32> = state
            .tables
            .keys()
            .copied()
            .filter(|t| *t >= ITEMS)
            .collect();
        let at = ctx.random.below(tables.len().max(1) as u64) as usize;
        tables.get(at).copied()
    }

    fn upsert(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let mut state = self.visible(ctx);
        let Some(table) = self.free_table(ctx, &state) else {
            return Ok(());
        };
        self.enter(ctx, &state, table)?;
        for _ in 0..1 + ctx.random.below(4) {
            let key = item_key(ctx.random);
            let new = if ctx.random.below(3) == 0 {
                None
            } else {
                Some(self.new_row(ctx)?)
            };
            self.put(ctx, &mut state, table, &key, new)?;
        }
        Ok(())
    }

    fn new_row(&self, ctx: &Ctx<'_>) -> Outcome<Row> {
        let random = ctx.random;
        let blob = if random.below(25) == 0 {
            let len = match random.below(20) {
                0 => 12_000_000,
                1..=5 => 200_000,
                _ => 9_000,
            };
            let (seed, len) = (random.next(), random.below(len) as usize);
            let blob = ctx.db.put_blob(&self.txn, &blob_bytes(seed, len))?;
            Some((blob, seed))
        } else {
            None
        };
        Ok(random_row(random, blob))
    }

    fn put_blob(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let mut state = self.visible(ctx);
        self.enter(ctx, &state, ITEMS)?;
        let (seed, len) = (ctx.random.next(), 9_000 + ctx.random.below(60_000));
        let bytes = blob_bytes(seed, len as usize);
        let blob = ctx.db.put_blob(&self.txn, &bytes)?;
        let row = random_row(ctx.random, Some((blob, seed)));
        let key = item_key(ctx.random);
        self.put(ctx, &mut state, ITEMS, &key, Some(row))
    }

    fn insert_many(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let state = self.visible(ctx);
        let Some(table) = self.free_table(ctx, &state) else {
            return Ok(());
        };
        self.enter(ctx, &state, table)?;
        let count = 10 + ctx.random.below(if self.bulky { 700 } else { 40 });
        let start = ctx.random.below(100_000);
        let stride = 1 + ctx.random.below(3);
        let mut rows: Vec<(Key, Row)> = (0..count)
            .map(|i| {
                (
                    many_key(start + i * stride),
                    random_row_sized(ctx.random, 60),
                )
            })
            .filter(|(k, _)| state.row(table, k).is_none())
            .collect();
        rows.sort();
        rows.dedup_by(|a, b| a.0 == b.0);
        let Some(def) = state.tables.get(&table).map(|t| t.def.clone()) else {
            return Ok(());
        };
        self.insert_sorted(
            ctx,
            def.primary,
            rows.iter().map(|(k, r)| (k.clone(), r.to_vec())).collect(),
        )?;
        for (i, index) in def.indexes.iter().enumerate() {
            let entries = rows.iter().map(|(k, r)| index_entry(i, k, r)).collect();
            self.insert_sorted(ctx, *index, entries)?;
        }
        let changes = rows.into_iter().map(|(k, r)| Change::Put(table, k, r));
        self.changes.extend(changes);
        Ok(())
    }

    fn insert_sorted(
        &mut self,
        ctx: &Ctx<'_>,
        tree: TreeId,
        mut entries: Vec<(Key, Vec<u8>)>,
    ) -> Outcome {
        entries.sort();
        let mut batch = Batch::new();
        entries
            .iter()
            .for_each(|(k, v)| batch.push(k, v, Stamp::default()));
        match ctx.db.tree(tree)?.insert_batch(&self.txn, &batch) {
            Err(StorageError::DuplicateKey { .. }) if self.snapshot.is_some() => {
                Err(Failure::Conflict)
            }
            other => Ok(other?),
        }
    }

    fn some_keys(&self, ctx: &Ctx<'_>, state: &State, table: u32, most: u64) -> Vec<Key> {
        let Some(table) = state.tables.get(&table) else {
            return Vec::new();
        };
        let skip = ctx.random.below(table.rows.len().max(1) as u64) as usize;
        let take = 1 + ctx.random.below(most) as usize;
        table.rows.keys().skip(skip).take(take).cloned().collect()
    }

    fn delete_many(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let mut state = self.visible(ctx);
        let Some(table) = self.free_table(ctx, &state) else {
            return Ok(());
        };
        self.enter(ctx, &state, table)?;
        for key in self.some_keys(ctx, &state, table, 300) {
            self.put(ctx, &mut state, table, &key, None)?;
        }
        Ok(())
    }

    fn reshape(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let mut state = self.visible(ctx);
        let Some(table) = self.free_table(ctx, &state) else {
            return Ok(());
        };
        self.enter(ctx, &state, table)?;
        for key in self.some_keys(ctx, &state, table, 12) {
            let new = match ctx.random.below(4) {
                0 => None,
                1 => Some(random_row_sized(ctx.random, 3_000)),
                _ => Some(random_row_sized(ctx.random, 2)),
            };
            self.put(ctx, &mut state, table, &key, new)?;
        }
        Ok(())
    }

    fn crowd(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let mut state = self.visible(ctx);
        let Some(table) = self.free_table(ctx, &state) else {
            return Ok(());
        };
        self.enter(ctx, &state, table)?;
        for _ in 0..1 + ctx.random.below(3) {
            let key = format!("k{:05}", ctx.random.below(CROWD_KEYS)).into_bytes();
            let filler = [2, 400, 3_000][ctx.random.below(3) as usize];
            let new = random_row_sized(ctx.random, filler);
            self.put(ctx, &mut state, table, &key, Some(new))?;
        }
        Ok(())
    }

    /// Many rows of one tree in one call; then their index entries.
    fn update_many(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let mut state = self.visible(ctx);
        let Some(table) = self.free_table(ctx, &state) else {
            return Ok(());
        };
        self.enter(ctx, &state, table)?;
        let keys = self.some_keys(ctx, &state, table, 120);
        let Some(def) = state.tables.get(&table).map(|t| t.def.clone()) else {
            return Ok(());
        };
        let tree = ctx.db.tree(def.primary)?;
        let view = self.write_view();
        let (mut batch, mut rows) = (UpdateBatch::new(), Vec::new());
        for key in keys {
            let Some(entry) = tree.get(&view, &key)? else {
                return wrong(format!("row {key:02x?} of table {table} is missing"));
            };
            let mut new = entry.payload.clone();
            if let Some(tag) = new.first_mut() {
                *tag = tag.wrapping_add(1);
            }
            batch.push(&key, entry.stamp, &new);
            rows.push((key, Arc::new(entry.payload), Arc::new(new)));
        }
        let mut refused = Vec::new();
        tree.update_batch(&self.txn, &batch, &mut refused)?;
        if !refused.is_empty() {
            return Err(Failure::Conflict);
        }
        for (key, old, new) in rows {
            for (i, index) in def.indexes.iter().enumerate() {
                let (before, after) = (index_entry(i, &key, &old), index_entry(i, &key, &new));
                if before != after {
                    self.put_entry(ctx, *index, &before.0, Some(&before.1), None)?;
                    self.put_entry(ctx, *index, &after.0, None, Some(&after.1))?;
                }
            }
            let change = Change::Put(table, key, new);
            state.apply(&change);
            self.changes.push(change);
        }
        Ok(())
    }

    // --- definitions --------------------------------------------------------------------------------------------

    fn define(&mut self, ctx: &mut Ctx<'_>, table: u32, old: Option<Def>, new: Def) -> Outcome {
        let (old, bytes) = (old.map(|d| d.encode()), new.encode());
        let catalog = ctx.db.catalog_tree();
        self.put_entry(
            ctx,
            catalog,
            &catalog_key(table),
            old.as_deref(),
            Some(&bytes),
        )?;
        self.changes.push(Change::Define(table, new));
        Ok(())
    }

    /// A table with so many indexes, defined in the catalog tree.
    pub fn create_table_with(&mut self, ctx: &mut Ctx<'_>, table: u32, indexes: usize) -> Outcome {
        let primary = ctx.db.create_tree(&self.txn, 1)?;
        let mut def = Def {
            primary,
            indexes: Vec::new(),
        };
        for _ in 0..indexes {
            def.indexes.push(ctx.db.create_tree(&self.txn, 1)?);
        }
        self.define(ctx, table, None, def)
    }

    /// The accounts whose sum never changes, each with 1,000.
    pub fn fill_accounts(&mut self, ctx: &mut Ctx<'_>, count: u64) -> Outcome {
        let mut state = self.visible(ctx);
        for n in 0..count {
            let fields = Fields {
                tag: (n % 5) as u8,
                amount: 1000,
                blob: None,
            };
            let row = Arc::new(encode_row(fields, &[b'a'; 40]));
            self.put(ctx, &mut state, ACCOUNTS, &account_key(n), Some(row))?;
        }
        Ok(())
    }

    fn create_table(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        if self.snapshot.is_some() || ctx.history.now().tables.len() > 9 {
            return Ok(());
        }
        let table = *ctx.next_table;
        *ctx.next_table += 1;
        let resource = LockResource::Object(table as i32);
        ctx.db.lock(self.txn.owner(), resource, LockMode::SchM)?;
        self.create_table_with(ctx, table, ctx.random.below(3) as usize)?;
        let mut state = self.visible(ctx);
        for _ in 0..ctx.random.below(20) {
            let row = self.new_row(ctx)?;
            self.put(ctx, &mut state, table, &item_key(ctx.random), Some(row))?;
        }
        Ok(())
    }

    /// A table that may be redefined, locked against everyone else, and how it looks now.
    fn exclusive(&self, ctx: &Ctx<'_>, mode: LockMode) -> Outcome<Option<(u32, Arc<Table>)>> {
        if self.snapshot.is_some() {
            return Ok(None);
        }
        let state = self.visible(ctx);
        let Some(table) = self.free_table(ctx, &state) else {
            return Ok(None);
        };
        let resource = LockResource::Object(table as i32);
        ctx.db.lock(self.txn.owner(), resource, mode)?;
        Ok(state.tables.get(&table).map(|t| (table, t.clone())))
    }

    fn drop_table(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some((number, table)) = self.exclusive(ctx, LockMode::SchM)? else {
            return Ok(());
        };
        if number < FIRST_FREE {
            return Ok(());
        }
        self.free_blobs(ctx, &table)?;
        for tree in table.def.trees() {
            ctx.db.drop_tree(&self.txn, tree)?;
        }
        let old = table.def.encode();
        let catalog = ctx.db.catalog_tree();
        self.put_entry(ctx, catalog, &catalog_key(number), Some(&old), None)?;
        self.changes.push(Change::Drop(number));
        Ok(())
    }

    fn build_index(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some((number, table)) = self.exclusive(ctx, LockMode::SharedIntentExclusive)? else {
            return Ok(());
        };
        if table.def.indexes.len() > 3 {
            return Ok(());
        }
        let tree = ctx.db.create_tree(&self.txn, 1)?;
        let at = table.def.indexes.len();
        let rows = self.rows_now(ctx, &table)?;
        let entries = rows.iter().map(|(k, r)| index_entry(at, k, r)).collect();
        self.insert_sorted(ctx, tree, entries)?;
        let mut def = table.def.clone();
        def.indexes.push(tree);
        self.define(ctx, number, Some(table.def.clone()), def)
    }

    /// All rows of a table that nobody else may change, as whoever moves them reads them.
    fn rows_now(&self, ctx: &Ctx<'_>, table: &Table) -> Outcome<Vec<(Key, Row)>> {
        let view = self.txn.view(Isolation::Current);
        let mut scan = ctx.db.tree(table.def.primary)?.scan(&view, ScanSpec::all());
        let (mut batch, mut rows) = (Batch::new(), Vec::new());
        while scan.next(&mut batch)? {
            rows.extend(entries_of(&batch));
        }
        let expected: Vec<(Key, Row)> = owned(table.rows.iter());
        if rows != expected {
            return wrong(format!(
                "a reader of all rows to move {}",
                first_difference(&rows, &expected)
            ));
        }
        Ok(rows)
    }

    /// New trees with these rows take the place of the table's own.
    fn remake(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u32,
        table: &Table,
        rows: &[(Key, Row)],
    ) -> Outcome {
        let mut def = Def {
            primary: ctx.db.create_tree(&self.txn, 1)?,
            indexes: Vec::new(),
        };
        let entries = rows.iter().map(|(k, r)| (k.clone(), r.to_vec()));
        self.insert_sorted(ctx, def.primary, entries.collect())?;
        for i in 0..table.def.indexes.len() {
            let index = ctx.db.create_tree(&self.txn, 1)?;
            let entries = rows.iter().map(|(k, r)| index_entry(i, k, r)).collect();
            self.insert_sorted(ctx, index, entries)?;
            def.indexes.push(index);
        }
        for tree in table.def.trees() {
            ctx.db.drop_tree(&self.txn, tree)?;
        }
        self.define(ctx, number, Some(table.def.clone()), def)
    }

    fn rebuild(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some((number, table)) = self.exclusive(ctx, LockMode::SchM)? else {
            return Ok(());
        };
        let rows = self.rows_now(ctx, &table)?;
        self.remake(ctx, number, &table, &rows)
    }

    fn truncate(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some((number, table)) = self.exclusive(ctx, LockMode::SchM)? else {
            return Ok(());
        };
        self.free_blobs(ctx, &table)?;
        self.remake(ctx, number, &table, &[])?;
        self.changes.push(Change::Clear(number));
        Ok(())
    }

    fn alter_column(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some((number, table)) = self.exclusive(ctx, LockMode::SchM)? else {
            return Ok(());
        };
        let by = 1 + ctx.random.below(12) as usize;
        let mut rows = self.rows_now(ctx, &table)?;
        for (_, row) in rows.iter_mut().filter(|(_, r)| r.len() < ALTERED_BYTES_MAX) {
            let mut longer = row.to_vec();
            longer.resize(row.len() + by, b'n');
            *row = Arc::new(longer);
        }
        self.remake(ctx, number, &table, &rows)?;
        let changes = rows.into_iter().map(|(k, r)| Change::Put(number, k, r));
        self.changes.extend(changes);
        Ok(())
    }

    fn free_blobs(&self, ctx: &Ctx<'_>, table: &Table) -> Outcome {
        let rows = table.rows.values();
        for blob in rows.filter_map(|r| Some(decode_row(r)?.blob?.0)) {
            ctx.db.free_blob(&self.txn, blob)?;
        }
        Ok(())
    }

    fn drop_index(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some((number, table)) = self.exclusive(ctx, LockMode::SchM)? else {
            return Ok(());
        };
        let mut def = table.def.clone();
        let Some(tree) = def.indexes.pop() else {
            return Ok(());
        };
        ctx.db.drop_tree(&self.txn, tree)?;
        self.define(ctx, number, Some(table.def.clone()), def)
    }

    // --- reading ------------------------------------------------------------------------------------------------

    fn begin_reading(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let state = self.visible(ctx);
        let tables: Vec<(&u32, &Arc<Table>)> = state.tables.iter().collect();
        let at = ctx.random.below(tables.len().max(1) as u64) as usize;
        let Some((number, table)) = tables.get(at) else {
            return Ok(());
        };
        let isolation = match (&self.snapshot, ctx.random.below(8)) {
            (Some(_), _) => Isolation::Snapshot,
            (None, 0) => Isolation::ReadCommitted,
            (None, 1) => Isolation::RepeatableRead,
            (None, 2) => Isolation::Serializable,
            (None, _) => Isolation::ReadCommittedSnapshot,
        };
        let (low, high) = (item_key(ctx.random), item_key(ctx.random));
        let whole = ctx.random.below(2) == 0 || low >= high;
        let direction = if ctx.random.below(2) == 0 {
            Direction::Forward
        } else {
            Direction::Backward
        };
        let (spec, edges) = if whole {
            (ScanSpec::all(), (Edge::Unbounded, Edge::Unbounded))
        } else {
            let spec = ScanSpec {
                low: Bound::Included(low.clone()),
                high: Bound::Excluded(high.clone()),
                direction,
            };
            (spec, (Edge::Included(low), Edge::Excluded(high)))
        };
        let mut expected = owned(table.rows.range(edges));
        let spec = ScanSpec { direction, ..spec };
        if direction == Direction::Backward {
            expected.reverse();
        }
        let view = self.txn.view(isolation);
        let scan = ctx.db.tree(table.def.primary)?.scan(&view, spec);
        self.paused = Some(Paused {
            scan,
            has_snapshot: matches!(
                isolation,
                Isolation::Snapshot | Isolation::ReadCommittedSnapshot
            ),
            table: **number,
            expected,
            found: Vec::new(),
        });
        // A locking scan sees what is newest as it goes: no use in stopping on the way.
        let locking = matches!(
            isolation,
            Isolation::ReadCommitted | Isolation::RepeatableRead | Isolation::Serializable
        );
        while locking && self.paused.is_some() {
            self.go_on_reading(ctx)?;
        }
        Ok(())
    }

    fn go_on_reading(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some(mut paused) = self.paused.take() else {
            return Ok(());
        };
        let mut batch = Batch::new();
        if paused.scan.next(&mut batch)? {
            paused.found.extend(entries_of(&batch));
            self.paused = Some(paused);
            return Ok(());
        }
        ctx.stats.reads_checked += paused.found.len() as u64;
        if paused.found != paused.expected {
            return wrong(format!(
                "transaction {} scanned table {} and {}",
                self.number,
                paused.table,
                first_difference(&paused.found, &paused.expected)
            ));
        }
        self.read_blobs(ctx, &paused)
    }

    /// Some values of rows that a snapshot has found, whoever has freed them since.
    fn read_blobs(&self, ctx: &Ctx<'_>, paused: &Paused) -> Outcome {
        let fields = paused.found.iter().filter_map(|(_, r)| decode_row(r)?.blob);
        let small = fields.filter(|(blob, _)| blob.bytes < BLOB_READ_BYTES_MAX);
        for (blob, seed) in small.take(if paused.has_snapshot { 2 } else { 0 }) {
            let bytes = ctx.db.get_blob(blob)?;
            if !is_blob(seed, blob.bytes as usize, &bytes) {
                return wrong(format!(
                    "transaction {} read another value outside of a row of table {}",
                    self.number, paused.table
                ));
            }
        }
        Ok(())
    }

    /// Trees older than a snapshot hold what it sees; of those made since it must be told that they are younger.
    fn read_younger(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let Some(snapshot) = &self.snapshot else {
            return Ok(());
        };
        let known: Vec<TreeId> = snapshot
            .tables
            .values()
            .flat_map(|t| t.def.trees())
            .collect();
        let now = ctx.history.now().tables.values();
        let younger = now
            .flat_map(|t| t.def.trees())
            .filter(|t| !known.contains(t));
        let view = self.txn.view(Isolation::Snapshot);
        for tree in younger {
            let mut scan = ctx.db.tree(tree)?.scan(&view, ScanSpec::all());
            match scan.next(&mut Batch::new()) {
                Err(StorageError::YoungerThanSnapshot) => ctx.stats.younger_refused += 1,
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    return wrong(format!(
                        "transaction {} read tree {tree:?}, which is younger than its snapshot",
                        self.number
                    ));
                }
            }
        }
        Ok(())
    }

    /// Leaves the mark by which the transaction is known after a crash.
    pub fn sign(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        if self.changes.is_empty() {
            return Ok(());
        }
        let mut state = ctx.history.now().with(&self.changes);
        // A snapshot does not matter for a key that nobody else writes.
        let row = random_row_sized(ctx.random, 8);
        let key = journal_key(self.number);
        let point = self.txn.savepoint();
        let result = self.put(ctx, &mut state, JOURNAL, &key, Some(row));
        if result.is_err() && !matches!(result, Err(Failure::Wrong(_))) {
            self.txn.rollback_to(point)?;
        }
        result
    }
}

fn owned<'r>(rows: impl Iterator<Item = (&'r Key, &'r Row)>) -> Vec<(Key, Row)> {
    rows.map(|(k, r)| (k.clone(), r.clone())).collect()
}

fn entries_of(batch: &Batch) -> impl Iterator<Item = (Key, Row)> {
    (0..batch.len()).map(|i| (batch.key(i).to_vec(), Arc::new(batch.payload(i).to_vec())))
}

/// A key as text, without its padding.
pub fn key_text(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    text.trim_end_matches('.').escape_default().to_string()
}

/// The first bytes of a payload and its length, for messages.
pub fn short(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(24)];
    format!("{} bytes {shown:02x?}", bytes.len())
}

/// In words, where two lists of rows first differ.
pub fn first_difference(found: &[(Key, Row)], expected: &[(Key, Row)]) -> String {
    let at = found
        .iter()
        .zip(expected)
        .position(|(a, b)| a != b)
        .unwrap_or(found.len().min(expected.len()));
    let show = |rows: &[(Key, Row)]| {
        rows.get(at)
            .map(|(k, r)| format!("{} = {}", key_text(k), short(r)))
            .unwrap_or_else(|| "the end".into())
    };
    format!(
        "found {} rows instead of {}; at row {at} found {} instead of {}",
        found.len(),
        expected.len(),
        show(found),
        show(expected)
    )
}

fn moved(random: &SimRandom, row: &[u8], by: i64) -> Row {
    let Some(mut fields) = decode_row(row) else {
        return Arc::new(row.to_vec());
    };
    fields.amount += by;
    let len = random.below(300) as usize;
    Arc::new(encode_row(fields, &vec![b'm'; len]))
}

/// A random row with less than `filler` bytes at its end.
pub fn random_row_sized(random: &SimRandom, filler: u64) -> Row {
    let fields = Fields {
        tag: random.below(5) as u8,
        amount: random.below(1000) as i64,
        blob: None,
    };
    let filler = vec![b'f'; random.below(filler) as usize];
    Arc::new(encode_row(fields, &filler))
}

fn random_row(random: &SimRandom, blob: Option<(BlobRef, u64)>) -> Row {
    let fields = Fields {
        tag: random.below(5) as u8,
        amount: random.below(1000) as i64,
        blob,
    };
    let len = match random.below(12) {
        0 => 3000 + random.below(3000),
        1 => 700,
        _ => random.below(150),
    };
    let filler: Vec<u8> = (0..len).map(|i| (random.next() >> (i % 8)) as u8).collect();
    Arc::new(encode_row(fields, &filler))
}

/// One of some hundred keys of very different lengths.
fn item_key(random: &SimRandom) -> Key {
    let n = random.below(400);
    let mut key = format!("k{:05}", n * 7919 % 400).into_bytes();
    let long = if n.is_multiple_of(50) { 1500 } else { n % 90 };
    key.resize(7 + long as usize, b'.');
    key
}

fn many_key(n: u64) -> Key {
    format!("m{n:08}").into_bytes()
}

fn account_key(n: u64) -> Key {
    format!("account{n:04}").into_bytes()
}
