//! Planner: from the bound tree to a physical plan.
//!
//! Theory: `rewrite` changes the tree by rules that are always right; then each operator is made physical from the top
//! down, told which columns are needed above and which order would be welcome. Row counts come from the trees
//! themselves, selectivities from statistics of columns (guesses where there are none), uniqueness from unique indexes;
//! costs are in rows read.
//!
//! Read next: `rewrite`, `physical`, `access_path`, `join_order`.

mod access_path;
mod compile;
mod cost;
mod estimate;
mod grouping;
pub mod growth;
mod implication;
mod join_order;
mod joins;
mod ordering;
mod physical;
mod remembered;
pub mod rewrite;
mod sets;

pub(crate) use cost::LOOKUP as LOOKUP_COST;

use crate::binder::ColumnInfo;
use crate::binder::tree::*;
use crate::error::Result;
use crate::executor::plan::{Node, Plan, Subplan};
use crate::host::Host;
use daruma_value::CollationId;
use std::collections::HashMap;
use std::sync::Arc;

/// Turns a bound tree into a plan; one for each statement.
pub struct Planner<'c> {
    pub columns: &'c [ColumnInfo],
    host: &'c dyn Host,
    parameters: HashMap<ColId, usize>,
    variables: Vec<Arc<str>>,
    subplans: Vec<Subplan>,
    /// Depth of the expression being compiled.
    depth: u32,
    /// Right sides of joins within right sides of joins.
    join_levels: u32,
    /// Different windows above what is planned.
    windows: usize,
    /// What is planned runs again for rows around it.
    is_repeated: bool,
    /// Collations of the columns made here; their numbers follow the binder's.
    extra: Vec<CollationId>,
    /// Columns of tables, and what is known of those that were asked for.
    base: HashMap<ColId, estimate::BaseColumn>,
    inputs: Vec<growth::Input>,
    /// Operators planned, alternatives included.
    planned: u32,
}

/// Alternatives multiply with each level of a query: beyond this many operators it is refused (8623).
const PLANNED_MAX: u32 = 1 << 20;

/// A planned query.
pub struct Planned {
    pub plan: Plan,
    /// Position of each asked-for column in the rows.
    pub output: Vec<usize>,
}

impl<'c> Planner<'c> {
    /// `columns` is the binder's list, by column number.
    pub fn new(columns: &'c [ColumnInfo], host: &'c dyn Host) -> Planner<'c> {
        Planner {
            columns,
            host,
            parameters: HashMap::new(),
            variables: Vec::new(),
            subplans: Vec::new(),
            extra: Vec::new(),
            depth: 0,
            join_levels: 0,
            windows: 0,
            is_repeated: false,
            base: HashMap::new(),
            inputs: Vec::new(),
            planned: 0,
        }
    }

    /// Plans `rel` so that its rows hold `outputs`.
    pub fn plan(mut self, rel: Rel, outputs: &[ColId]) -> Result<Planned> {
        let rel = self.rewritten(rel)?;
        let required: ColSet = outputs.iter().copied().collect();
        let root = self.node(&rel, &required)?;
        let position = |id: &ColId| {
            root.schema
                .iter()
                .position(|c| c == id)
                .unwrap_or(usize::MAX)
        };
        let output = outputs.iter().map(position).collect();
        Ok(Planned {
            plan: self.finish(root),
            output,
        })
    }

    /// The plan with this root, and the subplans and parameters that were found on the way.
    pub fn finish(self, root: Node) -> Plan {
        let mut parameter_columns = vec![0; self.parameters.len()];
        for (id, slot) in &self.parameters {
            if let Some(place) = parameter_columns.get_mut(*slot) {
                *place = *id;
            }
        }
        Plan {
            root,
            parameters: self.parameters.len(),
            parameter_columns,
            variables: self.variables,
            subplans: self.subplans,
            inputs: self.inputs,
        }
    }

    /// The tree, rewritten.
    pub(crate) fn rewritten(&self, rel: Rel) -> Result<Rel> {
        let rewriter = rewrite::Rewriter::new(self.columns, self.host);
        let rel = rewriter.rel(rel);
        rewriter.end().map(|()| rel)
    }

    pub(crate) fn rewrite_scalar(&self, scalar: &mut Scalar) -> Result<()> {
        let rewriter = rewrite::Rewriter::new(self.columns, self.host);
        rewriter.scalar(scalar);
        rewriter.end()
    }

    /// Slot through which an outer column is read.
    fn parameter(&mut self, id: ColId) -> usize {
        let next = self.parameters.len();
        *self.parameters.entry(id).or_insert(next)
    }

    pub(crate) fn variable(&mut self, name: &Arc<str>) -> usize {
        match self.variables.iter().position(|v| v == name) {
            Some(known) => known,
            None => {
                self.variables.push(name.clone());
                self.variables.len() - 1
            }
        }
    }

    fn collation(&self, id: ColId) -> CollationId {
        let id = id as usize;
        match self.columns.get(id) {
            Some(column) => column.ty.collation,
            None => {
                let made = self.extra.get(id - self.columns.len());
                debug_assert!(made.is_some(), "a column that nobody made");
                made.copied().unwrap_or(CollationId::DEFAULT)
            }
        }
    }
}
