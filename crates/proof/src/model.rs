//! What the database must hold: committed states, their order, and what a crash may take from the end.

use daruma_storage::{BlobRef, TreeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A key of a tree.
pub type Key = Vec<u8>;
/// A payload of a tree, shared between states.
pub type Row = Arc<Vec<u8>>;

/// Table with the accounts whose sum never changes.
pub const ACCOUNTS: u32 = 0;
/// Each transaction that writes leaves one row here: which of them survived is read from it.
pub const JOURNAL: u32 = 1;
/// Table with rows of all sizes, inserted, changed and deleted.
pub const ITEMS: u32 = 2;
/// Tables from here on are created and dropped.
pub const FIRST_FREE: u32 = 3;

/// Trees of a table, as its catalog row tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Def {
    pub primary: TreeId,
    pub indexes: Vec<TreeId>,
}

impl Def {
    /// The table's row in the catalog tree.
    pub fn encode(&self) -> Vec<u8> {
        let trees = std::iter::once(&self.primary).chain(&self.indexes);
        trees.flat_map(|t| t.0.to_u64().to_le_bytes()).collect()
    }

    /// The primary tree and then the indexes.
    pub fn trees(&self) -> impl Iterator<Item = TreeId> {
        std::iter::once(self.primary).chain(self.indexes.clone())
    }
}

/// Key of the table's row in the catalog tree.
pub fn catalog_key(table: u32) -> Key {
    [b"t".as_slice(), &table.to_be_bytes()].concat()
}

/// A table's trees and the rows that its primary tree must hold.
#[derive(Clone, Debug)]
pub struct Table {
    pub def: Def,
    pub rows: BTreeMap<Key, Row>,
}

/// All tables at one moment. Cheap to copy: tables are shared until changed.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub tables: BTreeMap<u32, Arc<Table>>,
}

/// One change of a state, as a committed transaction made it.
#[derive(Clone, Debug)]
pub enum Change {
    Put(u32, Key, Row),
    Delete(u32, Key),
    Define(u32, Def),
    /// All rows go.
    Clear(u32),
    Drop(u32),
}

impl State {
    /// Makes the change; one of a table that is not there does nothing.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(table, key, row) => {
                if let Some(table) = self.tables.get_mut(table) {
                    Arc::make_mut(table).rows.insert(key.clone(), row.clone());
                }
            }
            Change::Delete(table, key) => {
                if let Some(table) = self.tables.get_mut(table) {
                    Arc::make_mut(table).rows.remove(key);
                }
            }
            Change::Clear(table) => {
                if let Some(table) = self.tables.get_mut(table) {
                    Arc::make_mut(table).rows.clear();
                }
            }
            Change::Define(number, def) => {
                let table = self.tables.entry(*number).or_insert_with(|| {
                    Arc::new(Table {
                        def: def.clone(),
                        rows: BTreeMap::new(),
                    })
                });
                Arc::make_mut(table).def = def.clone();
            }
            Change::Drop(table) => {
                self.tables.remove(table);
            }
        }
    }

    /// A copy with the changes made.
    pub fn with(&self, changes: &[Change]) -> State {
        let mut state = self.clone();
        changes.iter().for_each(|c| state.apply(c));
        state
    }

    /// The row with this key, if the table and the row are there.
    pub fn row(&self, table: u32, key: &[u8]) -> Option<&Row> {
        self.tables.get(&table)?.rows.get(key)
    }
}

/// A commit in the order of commit records.
#[derive(Clone, Debug)]
pub struct Commit {
    pub number: u64,
    pub changes: Arc<Vec<Change>>,
    /// Acknowledged as durable, or known to be so since.
    pub hard: bool,
}

/// Everything committed since the last recovery, over the state it found.
#[derive(Clone, Debug, Default)]
pub struct History {
    base: State,
    commits: Vec<Commit>,
    now: State,
}

impl History {
    /// The state after the last commit.
    pub fn now(&self) -> &State {
        &self.now
    }

    /// A history that begins with this state, all of which must be there.
    pub fn from(state: State) -> History {
        History {
            base: state.clone(),
            commits: Vec::new(),
            now: state,
        }
    }

    /// Commits since the last recovery.
    pub fn commit_count(&self) -> usize {
        self.commits.len()
    }

    /// How many commits are known to be hard.
    pub fn hard(&self) -> usize {
        self.commits.iter().filter(|c| c.hard).count()
    }

    /// The same history when only the first `hard` commits were known to be hard: whether the others had begun is not known.
    pub fn as_of(&self, hard: usize) -> History {
        let mut past = self.clone();
        past.commits[hard..].iter_mut().for_each(|c| c.hard = false);
        past
    }

    /// Notes a commit. `hard` makes all before it hard as well: the log is one stream.
    pub fn commit(&mut self, number: u64, changes: Vec<Change>, hard: bool) {
        changes.iter().for_each(|c| self.now.apply(c));
        self.commits.push(Commit {
            number,
            changes: Arc::new(changes),
            hard,
        });
        if hard {
            self.harden();
        }
    }

    /// Everything so far was made durable.
    pub fn harden(&mut self) {
        self.commits.iter_mut().for_each(|c| c.hard = true);
    }

    /// A crash left the transactions `found`: which prefix of history is that? Says what is wrong when it is none.
    pub fn survive(&mut self, found: &BTreeSet<u64>) -> Result<usize, String> {
        let kept = self
            .commits
            .iter()
            .take_while(|c| found.contains(&c.number))
            .count();
        if let Some(lost) = self.commits[kept..].iter().find(|c| c.hard) {
            return Err(format!(
                "the acknowledged commit of transaction {} is lost",
                lost.number
            ));
        }
        if let Some(hole) = self.commits[kept..]
            .iter()
            .find(|c| found.contains(&c.number))
        {
            return Err(format!(
                "transaction {} survived but an earlier commit did not",
                hole.number
            ));
        }
        let before = self.base.tables.get(&JOURNAL);
        let ours: BTreeSet<u64> = self.commits[..kept].iter().map(|c| c.number).collect();
        let is_known = |n: u64| {
            ours.contains(&n) || before.is_some_and(|t| t.rows.contains_key(&journal_key(n)))
        };
        if let Some(extra) = found.iter().find(|n| !is_known(**n)) {
            return Err(format!(
                "transaction {extra} never committed but is there after recovery"
            ));
        }
        if kept == self.commits.len() {
            self.base = self.now.clone();
        } else {
            let changes = self.commits[..kept].iter().flat_map(|c| c.changes.iter());
            changes.for_each(|c| self.base.apply(c));
            self.now = self.base.clone();
        }
        self.commits.clear();
        Ok(kept)
    }
}

/// Key of a transaction's row in the journal.
pub fn journal_key(number: u64) -> Key {
    number.to_be_bytes().to_vec()
}

/// The transaction whose row in the journal has this key.
pub fn journal_number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

/// Rows: tag u8 | amount i64 | blob flag u8 | blob reference 16 bytes | seed of the blob u64 | filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    pub tag: u8,
    pub amount: i64,
    pub blob: Option<(BlobRef, u64)>,
}

const ROW_HEAD_BYTES: usize = 34;

/// A row of these fields, `filler` at its end.
pub fn encode_row(fields: Fields, filler: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(ROW_HEAD_BYTES + filler.len());
    row.push(fields.tag);
    row.extend_from_slice(&fields.amount.to_le_bytes());
    row.push(u8::from(fields.blob.is_some()));
    let (reference, seed) = fields
        .blob
        .map_or(([0; 16], 0), |(b, seed)| (b.to_bytes(), seed));
    row.extend_from_slice(&reference);
    row.extend_from_slice(&seed.to_le_bytes());
    row.extend_from_slice(filler);
    row
}

/// The fields of a row; `None` for bytes that no session wrote.
pub fn decode_row(row: &[u8]) -> Option<Fields> {
    let amount = i64::from_le_bytes(row.get(1..9)?.try_into().ok()?);
    let reference: [u8; 16] = row.get(10..26)?.try_into().ok()?;
    let seed = u64::from_le_bytes(row.get(26..34)?.try_into().ok()?);
    let blob = (*row.get(9)? == 1).then(|| (BlobRef::from_bytes(reference), seed));
    Some(Fields {
        tag: *row.first()?,
        amount,
        blob,
    })
}

/// The bytes of a blob follow from its seed.
pub fn blob_bytes(seed: u64, len: usize) -> Vec<u8> {
    let random = daruma_sim::SimRandom::new(seed);
    let mut bytes = vec![0; len];
    daruma_base::Random::fill(&random, &mut bytes);
    bytes
}

/// Are these the bytes of that blob?
pub fn is_blob(seed: u64, len: usize, bytes: &[u8]) -> bool {
    let random = daruma_sim::SimRandom::new(seed);
    let mut made = [0; 4096];
    bytes.len() == len
        && bytes.chunks(made.len()).all(|chunk| {
            daruma_base::Random::fill(&random, &mut made[..chunk.len()]);
            made[..chunk.len()] == *chunk
        })
}

/// Entry of index number `index` for a row: by tag, by amount, by length.
pub fn index_entry(index: usize, key: &[u8], row: &[u8]) -> (Key, Vec<u8>) {
    let fields = decode_row(row);
    let mut entry = match (index % 3, fields) {
        (0, Some(f)) => vec![f.tag],
        (1, Some(f)) => ((f.amount as u64) ^ (1 << 63)).to_be_bytes().to_vec(),
        _ => (row.len() as u16).to_be_bytes().to_vec(),
    };
    entry.extend_from_slice(key);
    (entry, key.to_vec())
}
