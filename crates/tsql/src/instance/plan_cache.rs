//! Parsed batches and their plans, shared by all sessions.
//!
//! Theory: the key of a batch is its text and the setting that changes how it reads. A parsed batch keeps, statement by
//! statement, the last plan made for it with the key under which it is valid. Plans that depend on what only one
//! session can see (temporary tables, uncommitted definitions) are never stored.
//!
//! The cache has two generations: when the young one is full it becomes the old one, and what nobody asked for since
//! then is forgotten.

use crate::error::{Result, SqlError};
use crate::session::{Suspect, suspects};
use daruma_base::DatabaseId;
use daruma_syntax::ast::Statement;
use daruma_syntax::{ParseOptions, parse_batch};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of batch text that one generation may hold, and batches.
const GENERATION_BYTES_MAX: usize = 8 << 20;
const GENERATION_BATCHES_MAX: usize = 4_096;
/// Longer texts are not worth keeping: they are scripts that run once.
const CACHED_TEXT_BYTES_MAX: usize = 256 << 10;

/// What a plan depends on besides the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanKey {
    pub database: DatabaseId,
    pub catalog_version: u64,
    /// Settings that change results, packed.
    pub settings: u64,
    /// Types of the parameters, hashed: one text may run with different ones.
    pub parameters: u64,
}

pub type CachedPlan = Arc<dyn Any + Send + Sync>;

/// A parsed batch or module.
pub struct Batch {
    pub text: Arc<str>,
    pub statements: Vec<Statement>,
    /// Variables that something outside must declare, or that are declared twice.
    pub suspects: Vec<Suspect>,
    plans: Mutex<HashMap<usize, (PlanKey, CachedPlan)>>,
}

impl Batch {
    pub fn new(text: Arc<str>, statements: Vec<Statement>) -> Batch {
        let suspects = suspects(&text, &statements);
        Batch {
            text,
            statements,
            suspects,
            plans: Mutex::default(),
        }
    }

    /// The plan kept under `place`: where a statement starts, or where an expression lies in memory (they outlive the
    /// batch's plans and never move).
    pub fn plan(&self, place: usize, key: PlanKey) -> Option<CachedPlan> {
        let plans = self.plans.lock();
        plans
            .get(&place)
            .filter(|(k, _)| *k == key)
            .map(|(_, plan)| plan.clone())
    }

    pub fn keep_plan(&self, place: usize, key: PlanKey, plan: CachedPlan) {
        self.plans.lock().insert(place, (key, plan));
    }

    pub fn forget_plans(&self) {
        self.plans.lock().clear();
    }
}

#[derive(Default)]
pub struct PlanCache {
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<(Arc<str>, bool), Arc<Batch>>,
    old: HashMap<(Arc<str>, bool), Arc<Batch>>,
    young_bytes: usize,
}

impl PlanCache {
    /// The parsed batch; the syntax errors when it cannot be parsed.
    pub fn batch(
        &self,
        text: &str,
        options: &ParseOptions,
    ) -> std::result::Result<Arc<Batch>, Vec<SqlError>> {
        let key = (Arc::from(text), options.quoted_identifier);
        if let Some(batch) = self.generations.lock().find(&key) {
            return Ok(batch);
        }
        let statements = parse_batch(text, options)
            .map_err(|errors| errors.iter().map(syntax_error).collect::<Vec<_>>())?;
        let batch = Arc::new(Batch::new(key.0.clone(), statements));
        if text.len() <= CACHED_TEXT_BYTES_MAX {
            self.generations.lock().insert(key, batch.clone());
        }
        Ok(batch)
    }

    /// DBCC FREEPROCCACHE.
    pub fn clear(&self) {
        *self.generations.lock() = Generations::default();
    }

    pub fn len(&self) -> usize {
        let generations = self.generations.lock();
        generations.young.len() + generations.old.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Generations {
    fn find(&mut self, key: &(Arc<str>, bool)) -> Option<Arc<Batch>> {
        if let Some(batch) = self.young.get(key) {
            return Some(batch.clone());
        }
        let batch = self.old.remove(key)?;
        self.insert(key.clone(), batch.clone());
        Some(batch)
    }

    fn insert(&mut self, key: (Arc<str>, bool), batch: Arc<Batch>) {
        self.young_bytes += key.0.len();
        self.young.insert(key, batch);
        if self.young_bytes > GENERATION_BYTES_MAX || self.young.len() > GENERATION_BATCHES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
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
