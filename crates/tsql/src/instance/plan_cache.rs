//! Parsed batches and their plans, shared by all sessions.
//!
//! Theory: the key of a batch is its text, the setting that changes how it reads, and the database that it runs in: a text that
//! many databases have would lose its plans with each change of the database. A parsed batch keeps, statement by statement, the
//! last plan made for it with the key under which it is valid. Plans that depend on what only one session can see (temporary
//! tables, uncommitted definitions) are never stored.
//!
//! Invariants
//! 1. A plan is run only where its text means what it meant when the plan was made: the key holds everything that the
//!    meaning of a name or a type depends on.
//! 2. A plan is run only by principals who planned the text themselves and came to the same objects ([`NamedObjects`]), the
//!    principal that may do everything among them. So a key that lacks something costs time and shows nobody anything.
//!
//! The cache has two generations: when the young one is full it becomes the old one, and what nobody asked for since
//! then is forgotten. Both together are bounded by a part of the server's memory, and give way where a request finds none
//! ([`PlanCache::room`]).

use super::WorkMemory;
use crate::error::{Result, SqlError};
use crate::executor::KeptPlan;
use crate::session::{Suspect, may_hold_secrets, passed_over, quotes_set, suspects};
use daruma_base::memory::{for_all, thread_bytes};
use daruma_base::{DatabaseId, FastHash, FastHasher};
use daruma_syntax::ast::{Span, Statement};
use daruma_syntax::{ParseOptions, parse_batch_within};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// Memory of texts, trees and plans that one generation may hold, and batches.
const GENERATION_BYTES_MAX: usize = 64 << 20;
/// The same as a part of what the server may allocate besides pages, in percent.
const GENERATION_PERCENT: i64 = 12;
const GENERATION_BATCHES_MAX: usize = 4_096;
/// Longer texts are not worth keeping: they are scripts that run once.
const CACHED_TEXT_BYTES_MAX: usize = 256 << 10;
/// A plan takes about as much again as the tree that it is made of, and so do the columns that it is shown with.
const PLANNED_SIZE: usize = 3;

/// Everything that a plan depends on besides the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanKey {
    pub database: DatabaseId,
    pub catalog_version: u64,
    /// Settings that change results, packed.
    pub settings: u64,
    /// Types of the parameters, hashed: one text may run with different ones.
    pub parameters: u64,
    /// Meaning of names without a schema, packed; [`PlanKey::ANY_NAMES`] of a plan without such names.
    pub names: u64,
    /// As whom the session acts; 0 may do everything.
    pub principal: u64,
}

impl PlanKey {
    /// Of a plan in which no name depends on who resolves it.
    pub const ANY_NAMES: u64 = u64::MAX;

    /// Is a plan that was kept under `kept` right under this key? For whom it was checked is another question.
    fn fits(&self, kept: &PlanKey) -> bool {
        let names = [self.names, PlanKey::ANY_NAMES];
        self.catalog_version == kept.catalog_version
            && self.database == kept.database
            && self.settings == kept.settings
            && self.parameters == kept.parameters
            && names.contains(&kept.names)
    }
}

/// The objects that the names of a statement came to, hashed in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedObjects(u64);

impl NamedObjects {
    /// After one more name.
    #[must_use]
    pub fn and(self, database: DatabaseId, object: i32) -> NamedObjects {
        let mut hasher = FastHasher::default();
        (self.0, database.0, object).hash(&mut hasher);
        NamedObjects(hasher.finish())
    }
}

/// Principals that a plan remembers. One more, and it begins anew.
const CHECKED_MAX: usize = 256;

/// A plan and those who may run it.
struct Kept {
    key: PlanKey,
    objects: NamedObjects,
    plan: Arc<dyn KeptPlan>,
    /// Principals for whom it was checked, in order.
    checked: Vec<u64>,
    /// Place of its statement in the text; `None` for an expression.
    span: Option<Span>,
    /// How often a plan was made for this place.
    generation: u64,
}

impl Kept {
    fn is_checked_for(&self, principal: u64) -> bool {
        self.checked.binary_search(&principal).is_ok()
    }

    fn join(&mut self, principal: u64) {
        if self.checked.len() >= CHECKED_MAX {
            self.checked.clear();
        }
        if let Err(at) = self.checked.binary_search(&principal) {
            self.checked.insert(at, principal);
        }
    }
}

/// A plan as the views of the cache show it.
pub struct ShownPlan {
    pub database: DatabaseId,
    pub span: Span,
    pub generation: u64,
    pub plan: Arc<dyn KeptPlan>,
}

/// A parsed batch or module.
pub struct Batch {
    pub text: Arc<str>,
    /// Names the text: handles of texts and plans are made of it.
    pub hash: u64,
    /// It came with sp_executesql or was prepared.
    pub is_prepared: AtomicBool,
    uses: AtomicU64,
    pub statements: Vec<Statement>,
    /// Memory of text and tree.
    bytes: usize,
    /// Variables that something outside must declare, or that are declared twice.
    pub suspects: Vec<Suspect>,
    /// Where the DECLAREs stand that control may pass over, first to last.
    pub passed_over: Vec<usize>,
    /// QUOTED_IDENTIFIER when the text has been read, if the text sets it.
    pub quotes_set: Option<bool>,
    plans: RwLock<HashMap<usize, Kept, FastHash>>,
}

impl Batch {
    /// `bytes`: memory of the statements.
    pub fn new(text: Arc<str>, statements: Vec<Statement>, bytes: usize) -> Batch {
        let suspects = suspects(&text, &statements);
        Batch {
            hash: text_hash(&text),
            is_prepared: AtomicBool::new(false),
            uses: AtomicU64::new(0),
            bytes: bytes + text.len(),
            text,
            quotes_set: quotes_set(&statements),
            passed_over: passed_over(&statements),
            statements,
            suspects,
            plans: RwLock::default(),
        }
    }

    /// A batch without statements, for frames that have no text.
    pub fn empty() -> Arc<Batch> {
        static EMPTY: LazyLock<Arc<Batch>> =
            LazyLock::new(|| Arc::new(Batch::new(Arc::from(""), Vec::new(), 0)));
        EMPTY.clone()
    }

    /// The plan kept under `place`: where a statement starts, or where an expression lies in memory (they outlive the
    /// batch's plans and never move).
    pub fn plan<P: KeptPlan>(&self, place: usize, key: PlanKey) -> Option<Arc<P>> {
        let plans = self.plans.read();
        let kept = plans.get(&place)?;
        let is_right = key.fits(&kept.key) && kept.is_checked_for(key.principal);
        if !is_right || kept.plan.is_outdated() {
            return None;
        }
        kept.plan.clone().into_any().downcast().ok()
    }

    /// Keeps a plan that was checked for the key's principal, or joins the principal to those of an equal plan that is
    /// there already. Gives the one that is kept.
    pub fn keep_plan<P: KeptPlan>(
        &self,
        place: usize,
        key: PlanKey,
        objects: NamedObjects,
        span: Option<Span>,
        plan: Arc<P>,
    ) -> Arc<P> {
        let mut plans = self.plans.write();
        if let Some(kept) = plans.get_mut(&place)
            && key.fits(&kept.key)
            && kept.objects == objects
            && !kept.plan.is_outdated()
            && let Ok(same) = kept.plan.clone().into_any().downcast()
        {
            kept.join(key.principal);
            return same;
        }
        let generation = plans.get(&place).map_or(1, |k| k.generation + 1);
        let kept = Kept {
            key,
            objects,
            plan: plan.clone(),
            checked: vec![key.principal],
            span,
            generation,
        };
        plans.insert(place, kept);
        plan
    }

    /// Plans of its statements, in their order.
    pub fn shown_plans(&self) -> Vec<ShownPlan> {
        let plans = self.plans.read();
        let shown = |kept: &Kept| {
            Some(ShownPlan {
                database: kept.key.database,
                span: kept.span?,
                generation: kept.generation,
                plan: kept.plan.clone(),
            })
        };
        let mut list: Vec<ShownPlan> = plans.values().filter_map(shown).collect();
        list.sort_by_key(|p| p.span.start);
        list
    }

    /// Memory that the batch takes while it is kept, plans included.
    pub fn kept_bytes(&self) -> usize {
        self.bytes * PLANNED_SIZE
    }

    /// Times the text was asked for.
    pub fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }
}

/// Batches by text, with their plans: two generations, the older of which is dropped when the younger is full.
pub struct PlanCache {
    generations: RwLock<Generations>,
    memory: Arc<WorkMemory>,
}

#[derive(Default)]
struct Generations {
    young: Texts,
    old: Texts,
    young_bytes: usize,
}

/// Batches by text, apart by the meaning of double quotes and by database.
#[derive(Default)]
struct Texts(HashMap<Place, HashMap<Arc<str>, Arc<Batch>>>);

/// Whether double quotes are of names, and the database that a text begins to run in.
type Place = (bool, DatabaseId);

impl PlanCache {
    /// An empty cache; trees are made as far as `memory` has room.
    pub fn new(memory: Arc<WorkMemory>) -> PlanCache {
        PlanCache {
            generations: RwLock::default(),
            memory,
        }
    }

    /// The parsed batch, for this database; the syntax errors when it cannot be parsed.
    pub fn batch(
        &self,
        text: &str,
        options: &ParseOptions,
        database: DatabaseId,
    ) -> std::result::Result<Arc<Batch>, Vec<SqlError>> {
        let place = (options.quoted_identifier, database);
        if let Some(batch) = self.generations.read().young.get(text, place) {
            batch.uses.fetch_add(1, Ordering::Relaxed);
            return Ok(batch.clone());
        }
        if let Some(batch) = self.generations.write().rejuvenate(text, place) {
            batch.uses.fetch_add(1, Ordering::Relaxed);
            return Ok(batch);
        }
        let before = thread_bytes();
        let has_room = || {
            let held = thread_bytes() - before;
            self.room(|memory| memory.has_room(held, 0).then_some(()))
                .is_some()
        };
        let statements = parse_batch_within(text, options, &has_room)
            .map_err(|errors| errors.iter().map(syntax_error).collect::<Vec<_>>())?;
        let bytes = usize::try_from(thread_bytes() - before).unwrap_or(0);
        let batch = Arc::new(Batch::new(Arc::from(text), statements, bytes));
        batch.uses.store(1, Ordering::Relaxed);
        let most = self.generation_bytes();
        let is_small = text.len() <= CACHED_TEXT_BYTES_MAX && batch.kept_bytes() <= most / 2;
        // Texts that are kept are shown to whoever may see the server's state.
        if is_small && !may_hold_secrets(&batch.statements) {
            let mut generations = self.generations.write();
            generations.insert(place, batch.clone());
            generations.turn(most);
        }
        Ok(batch)
    }

    /// Asks for memory; where there is none, once more after what is kept here has been given back.
    pub fn room<T>(&self, ask: impl Fn(&Arc<WorkMemory>) -> Option<T>) -> Option<T> {
        ask(&self.memory).or_else(|| match self.give_back() {
            true => ask(&self.memory),
            false => None,
        })
    }

    /// Gives back what is kept here; was there anything?
    pub fn give_back(&self) -> bool {
        let has_some = !self.is_empty();
        if has_some {
            self.clear();
        }
        has_some
    }

    /// Memory that one generation may hold.
    fn generation_bytes(&self) -> usize {
        let part = |bound: i64| bound / 100 * GENERATION_PERCENT;
        let part = self.memory.bound().map(part);
        let part = part.and_then(|bytes| usize::try_from(bytes).ok());
        part.map_or(GENERATION_BYTES_MAX, |bytes| {
            bytes.min(GENERATION_BYTES_MAX)
        })
    }

    /// DBCC FREEPROCCACHE. What others have made is no gain of the request that clears it.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *self.generations.write());
        for_all(|| drop(kept));
    }

    /// Memory of what is kept, roughly.
    pub fn bytes(&self) -> usize {
        self.all().iter().map(|batch| batch.kept_bytes()).sum()
    }

    /// Every batch that is kept.
    pub fn all(&self) -> Vec<Arc<Batch>> {
        let generations = self.generations.read();
        let texts = [&generations.young, &generations.old];
        let maps = texts.into_iter().flat_map(|t| t.0.values());
        maps.flat_map(HashMap::values).cloned().collect()
    }

    /// Batches kept.
    pub fn len(&self) -> usize {
        let generations = self.generations.read();
        generations.young.len() + generations.old.len()
    }

    /// Is none kept?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Generations {
    /// Takes a batch of the old generation over into the young one.
    fn rejuvenate(&mut self, text: &str, place: Place) -> Option<Arc<Batch>> {
        let batch = self.old.0.get_mut(&place)?.remove(text)?;
        self.insert(place, batch.clone());
        Some(batch)
    }

    fn insert(&mut self, place: Place, batch: Arc<Batch>) {
        self.young_bytes += batch.kept_bytes();
        let texts = self.young.0.entry(place).or_default();
        texts.insert(batch.text.clone(), batch);
    }

    /// The young generation becomes the old one when it is full.
    fn turn(&mut self, bytes_max: usize) {
        if self.young_bytes > bytes_max || self.young.len() > GENERATION_BATCHES_MAX {
            let young = std::mem::take(&mut self.young);
            let old = std::mem::replace(&mut self.old, young);
            self.young_bytes = 0;
            for_all(|| drop(old));
        }
    }
}

impl Texts {
    fn get(&self, text: &str, place: Place) -> Option<&Arc<Batch>> {
        self.0.get(&place)?.get(text)
    }

    fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }
}

fn text_hash(text: &str) -> u64 {
    FastHash::default().hash_one(text)
}

/// A syntax error as message.
pub fn syntax_error(error: &daruma_syntax::SyntaxError) -> SqlError {
    let number = i32::try_from(error.number).unwrap_or(102);
    let mut sql = SqlError::new(number, error.severity, error.state, error.message.clone());
    sql.line = i32::try_from(error.line).unwrap_or(i32::MAX);
    sql
}

/// First of the syntax errors of a fragment.
pub fn first_syntax_error(errors: &[daruma_syntax::SyntaxError]) -> SqlError {
    errors
        .first()
        .map_or_else(|| crate::messages::error(102, &[&""]), syntax_error)
}

/// Parses a fragment of stored text with QUOTED_IDENTIFIER ON.
pub fn parsed<T>(result: std::result::Result<T, Vec<daruma_syntax::SyntaxError>>) -> Result<T> {
    result.map_err(|errors| first_syntax_error(&errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_of(cache: &PlanCache, text: &str) -> std::result::Result<Arc<Batch>, Vec<SqlError>> {
        cache.batch(text, &ParseOptions::default(), DatabaseId(5))
    }

    fn kept_after_100_texts(memory: Arc<WorkMemory>) -> usize {
        let cache = PlanCache::new(memory);
        for n in 0..100 {
            let text = format!("SELECT {n} AS c");
            assert!(batch_of(&cache, &text).is_ok());
        }
        cache.len()
    }

    #[test]
    fn texts_have_a_part_of_the_memory() {
        assert_eq!(kept_after_100_texts(WorkMemory::new(None)), 100);
        assert_eq!(kept_after_100_texts(WorkMemory::new(Some(1))), 0);
    }

    #[test]
    fn what_is_kept_gives_way_and_is_no_gain_of_who_asks() {
        // Far above what this process allocates itself.
        let cache = PlanCache::new(WorkMemory::new(Some(100 << 30)));
        let text = format!("SELECT 1{}", ", 1".repeat(10_000));
        let batch = batch_of(&cache, &text);
        assert!(batch.is_ok_and(|b| b.kept_bytes() > 1 << 20));
        assert!(cache.room(|_| Some(())).is_some() && cache.len() == 1);
        let before = thread_bytes();
        assert!(cache.room(|_| None::<()>).is_none());
        assert!(cache.is_empty());
        assert!((thread_bytes() - before).abs() < 1 << 16);
    }
}
