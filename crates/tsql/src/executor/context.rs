//! One execution of a plan: what expressions and operators may ask while they run.
//!
//! Theory: everything that changes between executions is here, behind cells, so plans stay immutable. Parameters are the
//! columns that an outer row hands to operators below a nested loop or inside a subquery.

use super::batch::RowBatch;
use super::operator::{Operator, build};
use super::plan::Plan;
use crate::error::{Result, SqlError};
use crate::host::{Host, SessionSettings, TableRef, check_cancel};
use crate::messages;
use daruma_storage::IoCounters;
use daruma_value::Value;
use daruma_value::convert::ConvertContext;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Rows of work between two looks at the cancel flag.
const CANCEL_ROWS: u32 = 1024;
/// Subqueries, applied operators and functions may nest this deep at run time.
const DEPTH_MAX: u32 = 64;
/// What a statement may hold over its grant where nothing can be spilled: partitions of window functions, text being joined,
/// values of an IN subquery. Beyond that it ends with error 701.
const HELD_BYTES_MAX: i64 = 512 << 20;

pub struct Ctx<'h> {
    pub host: &'h dyn Host,
    pub plan: Arc<Plan>,
    pub settings: SessionSettings,
    pub convert: ConvertContext,
    params: RefCell<Vec<Value>>,
    variables: RefCell<Vec<Value>>,
    subplans: RefCell<Vec<SubplanState>>,
    work: RefCell<HashMap<u32, Rc<Vec<Vec<Value>>>>>,
    memory_left: Cell<i64>,
    ticks: Cell<u32>,
    depth: Cell<u32>,
    /// Warning 8153 is sent once.
    null_warned: Cell<bool>,
    /// Reads of each scan, told to the host at the end.
    reads: RefCell<Vec<(TableRef, IoCounters)>>,
}

/// A subquery between two evaluations.
#[derive(Default)]
pub struct SubplanState {
    pub operator: Option<Box<dyn Operator>>,
    pub batch: RowBatch,
    /// Results by the parameters they depend on.
    pub memo: HashMap<Vec<u8>, Value>,
    /// Values of an IN subquery that depends on nothing.
    pub set: Option<ValueSet>,
}

/// Values of a subquery as keys.
#[derive(Default)]
pub struct ValueSet {
    pub keys: HashSet<Vec<u8>>,
    pub has_null: bool,
    /// Approximate numbers: their keys do not meet those of exact ones.
    pub has_float: bool,
}

impl<'h> Ctx<'h> {
    pub fn new(plan: Arc<Plan>, host: &'h dyn Host) -> Result<Ctx<'h>> {
        let settings = host.settings();
        let mut variables = Vec::with_capacity(plan.variables.len());
        for name in &plan.variables {
            variables.push(host.variable(name)?);
        }
        let convert = ConvertContext {
            date_format: settings.dateformat,
            ..ConvertContext::default()
        };
        Ok(Ctx {
            host,
            settings,
            convert,
            params: RefCell::new(vec![Value::Null; plan.parameters]),
            variables: RefCell::new(variables),
            subplans: RefCell::new(
                (0..plan.subplans.len())
                    .map(|_| SubplanState::default())
                    .collect(),
            ),
            work: RefCell::default(),
            memory_left: Cell::new(i64::try_from(host.memory_grant_bytes()).unwrap_or(i64::MAX)),
            ticks: Cell::new(0),
            depth: Cell::new(0),
            null_warned: Cell::new(false),
            reads: RefCell::default(),
            plan,
        })
    }

    /// A variable that subqueries may read has another value: what they gave before counts no more.
    pub fn forget_subqueries(&self) {
        for state in self.subplans.borrow_mut().iter_mut() {
            state.memo.clear();
            state.set = None;
        }
    }

    #[inline]
    pub fn param(&self, slot: usize) -> Value {
        self.params
            .borrow()
            .get(slot)
            .cloned()
            .unwrap_or(Value::Null)
    }

    #[inline]
    pub fn set_param(&self, slot: usize, value: Value) {
        if let Some(place) = self.params.borrow_mut().get_mut(slot) {
            *place = value;
        }
    }

    #[inline]
    pub fn variable(&self, slot: usize) -> Value {
        self.variables
            .borrow()
            .get(slot)
            .cloned()
            .unwrap_or(Value::Null)
    }

    pub fn set_variable(&self, slot: usize, value: Value) {
        if let Some(place) = self.variables.borrow_mut().get_mut(slot) {
            *place = value;
        }
    }

    /// To be called for every row, or for a bunch of them with their number.
    #[inline]
    pub fn tick(&self, rows: u32) -> Result<()> {
        let ticks = self.ticks.get() + rows;
        if ticks < CANCEL_ROWS {
            self.ticks.set(ticks);
            return Ok(());
        }
        self.ticks.set(0);
        check_cancel(self.host)
    }

    /// Number under which a scan counts its reads. Nothing is counted unless the session asked for it.
    pub fn register_scan(&self, table: &TableRef) -> usize {
        if !self.settings.statistics_io {
            return usize::MAX;
        }
        let mut reads = self.reads.borrow_mut();
        reads.push((table.clone(), IoCounters::default()));
        reads.len() - 1
    }

    #[inline]
    pub fn count_reads(&self, scan: usize, reads: IoCounters) {
        if let Some((_, sum)) = self.reads.borrow_mut().get_mut(scan) {
            sum.logical_reads += reads.logical_reads;
            sum.physical_reads += reads.physical_reads;
        }
    }

    /// Takes memory from the grant; false when it is used up and the operator should spill.
    pub fn reserve(&self, bytes: usize) -> bool {
        let left = self.memory_left.get() - i64::try_from(bytes).unwrap_or(i64::MAX);
        self.memory_left.set(left);
        left >= 0
    }

    /// Takes memory for what has to stay in memory.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        match self.reserve(bytes) || self.memory_left.get() >= -HELD_BYTES_MAX {
            true => Ok(()),
            false => Err(messages::error(701, &[&"default"])),
        }
    }

    pub fn release(&self, bytes: usize) {
        self.memory_left
            .set(self.memory_left.get() + i64::try_from(bytes).unwrap_or(0));
    }

    /// Warning 8153, once for each statement.
    pub fn warn_null_eliminated(&self) {
        if self.settings.ansi_warnings && !self.null_warned.replace(true) {
            self.host.message(SqlError::new(
                8153,
                10,
                1,
                "Warning: Null value is eliminated by an aggregate or other SET operation.",
            ));
        }
    }

    pub fn work_rows(&self, id: u32) -> Rc<Vec<Vec<Value>>> {
        self.work.borrow().get(&id).cloned().unwrap_or_default()
    }

    pub fn set_work_rows(&self, id: u32, rows: Vec<Vec<Value>>) -> Option<Rc<Vec<Vec<Value>>>> {
        self.work.borrow_mut().insert(id, Rc::new(rows))
    }

    /// Runs `f` on the state of a subquery with its operator ready at the first row.
    pub fn with_subplan<T>(
        &self,
        id: usize,
        f: impl FnOnce(&mut SubplanState) -> Result<T>,
    ) -> Result<T> {
        if self.depth.get() >= DEPTH_MAX {
            return Err(crate::binder::too_complex());
        }
        self.depth.set(self.depth.get() + 1);
        let taken = self
            .subplans
            .borrow_mut()
            .get_mut(id)
            .map(std::mem::take)
            .unwrap_or_default();
        let mut state = taken;
        let result = f(&mut state);
        if let Some(place) = self.subplans.borrow_mut().get_mut(id) {
            *place = state;
        }
        self.depth.set(self.depth.get() - 1);
        result
    }

    /// Makes the subquery's operator, or starts the one it has again.
    pub fn restart(&self, id: usize, state: &mut SubplanState) -> Result<()> {
        match &mut state.operator {
            Some(operator) => operator.rewind(self),
            None => {
                let Some(subplan) = self.plan.subplans.get(id) else {
                    return Err(crate::binder::too_complex());
                };
                state.operator = Some(build(&subplan.node, self)?);
                Ok(())
            }
        }
    }
}

impl Drop for Ctx<'_> {
    fn drop(&mut self) {
        for (table, reads) in self.reads.borrow().iter() {
            self.host
                .count_scan(table, reads.logical_reads, reads.physical_reads);
        }
    }
}
