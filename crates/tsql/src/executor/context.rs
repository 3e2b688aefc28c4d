//! One execution of a plan: what expressions and operators may ask while they run.
//!
//! Theory: everything that changes between executions is here, behind cells, so plans stay immutable. Parameters are the
//! columns that an outer row hands to operators below a nested loop or inside a subquery.

use super::batch::RowBatch;
use super::counts::ActualRows;
use super::kept_rows::KeptRows;
use super::memo::Memo;
use super::operator::{Operator, build};
use super::plan::Plan;
use super::value_set::ValueSet;
use super::xml::Documents;
use crate::error::{Result, SqlError};
use crate::host::{Host, SessionSettings, TableRef, check_cancel};
use crate::instance::Promise;
use crate::messages;
use daruma_base::memory::thread_bytes;
use daruma_storage::IoCounters;
use daruma_value::Value;
use daruma_value::convert::ConvertContext;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Rows of work between two looks at the cancel flag.
const CANCEL_ROWS: u32 = 1024;
/// Subqueries, applied operators and functions may nest this deep at run time.
const DEPTH_MAX: u32 = 64;
/// Bytes that a statement may hold over its grant where nothing can be spilled: text being joined, values of an IN subquery. Beyond
/// that, or when the server has no more memory, it ends with error 701.
const HELD_BYTES_MAX: i64 = 512 << 20;
/// Memory taken between two looks at what the server has left.
const LOOK_BYTES: i64 = 64 << 10;
/// Bytes that a statement may reserve before it spills where the server's memory is nearly used up.
const SHORT_GRANT_BYTES: i64 = 1 << 20;
/// Values from this size on are large: memory is asked for before they are built.
const LARGE_BYTES: usize = 64 << 10;
/// A thread that holds so much more than at the last look at the cancel flag looks again, however few rows that were.
const GROWN_BYTES: i64 = 1 << 20;
/// Where the grant is used up, so many bytes are enough to be spilled, however few rows they are.
pub const SPILLED_BYTES_MIN: usize = 1 << 20;

/// Rows that a step of a recursive query reads, maybe at several places.
pub type WorkRows = Rc<RefCell<KeptRows>>;

/// State that the operators of one execution share: parameters, variables, memory, time to check for a cancel.
pub struct Ctx<'h> {
    pub host: &'h dyn Host,
    pub plan: Arc<Plan>,
    /// Where the rows of operators are counted.
    pub actual: Option<Rc<ActualRows>>,
    pub settings: SessionSettings,
    pub convert: ConvertContext,
    params: RefCell<Vec<Param>>,
    /// Counts the parts of the plan that asked what they read (`begin_reads`).
    clock: Cell<u64>,
    /// The clock when something was read last that is another time by time.
    volatile_at: Cell<u64>,
    /// Trees of the texts that methods of `xml` were asked of last.
    pub documents: Documents,
    /// Grows with changes of variables.
    epoch: Cell<u64>,
    /// Grows with the steps of recursive queries; and the clock when one's rows were read last.
    work_epoch: Cell<u64>,
    work_read_at: Cell<u64>,
    variables: RefCell<Vec<Value>>,
    subplans: RefCell<Vec<SubplanState>>,
    /// Value of [`super::expr::Expr::Local`].
    local: RefCell<Value>,
    work: RefCell<HashMap<u32, WorkRows>>,
    grant_bytes: i64,
    memory_left: Cell<i64>,
    /// `memory_left` when the server's memory was last looked at, and what was seen.
    looked_at: Cell<i64>,
    is_short: Cell<bool>,
    ticks: Cell<u32>,
    /// Memory of the thread at the last look at the cancel flag.
    held_at_look: Cell<i64>,
    depth: Cell<u32>,
    /// Warning 8153 is sent once.
    null_warned: Cell<bool>,
    /// Reads of each scan, told to the host at the end.
    reads: RefCell<Vec<(TableRef, IoCounters)>>,
}

/// A column of a row further out, and when it was set and read last, by the clock of `begin_reads`.
#[derive(Clone)]
struct Param {
    value: Value,
    set_at: u64,
    read_at: Cell<u64>,
}

impl Param {
    fn new() -> Param {
        Param {
            value: Value::Null,
            set_at: 0,
            read_at: Cell::new(0),
        }
    }
}

/// What a part of a plan read from outside of itself while it ran. As long as that is the same, so are its rows.
pub struct Reads {
    params: Vec<(usize, Value)>,
    epoch: u64,
    /// When rows of a recursive query were read.
    work_epoch: Option<u64>,
    is_volatile: bool,
}

impl Reads {
    /// Adds what was read further on, while all that is outside was the same.
    pub fn add(&mut self, more: Reads) {
        for (slot, value) in more.params {
            if self.params.iter().all(|(known, _)| *known != slot) {
                self.params.push((slot, value));
            }
        }
        self.work_epoch = self.work_epoch.or(more.work_epoch);
        self.is_volatile |= more.is_volatile;
    }
}

/// A subquery between two evaluations.
#[derive(Default)]
pub struct SubplanState {
    pub operator: Option<Box<dyn Operator>>,
    pub batch: RowBatch,
    /// Results by the parameters they depend on.
    pub memo: Memo,
    /// What is known of the values of an IN subquery, by the parameters they depend on.
    pub sets: HashMap<Vec<u8>, Known>,
    /// Memory of the sets of one that depends on some.
    pub set_bytes: usize,
}

/// What is known of the values of a subquery under some parameters.
pub enum Known {
    /// It has run under them, and its values were not kept.
    Asked,
    /// They are too many to be kept.
    TooMany,
    Values(ValueSet),
}

/// Values of the variables that a plan reads.
fn variables_of(plan: &Plan, host: &dyn Host) -> Result<Vec<Value>> {
    let mut variables = Vec::with_capacity(plan.variables.len());
    for name in &plan.variables {
        variables.push(host.variable(name)?);
    }
    Ok(variables)
}

/// Most plans have no parameters and no subqueries: nothing is called for them.
#[inline]
fn several<T>(count: usize, make: impl Fn() -> T) -> Vec<T> {
    match count {
        0 => Vec::new(),
        count => (0..count).map(|_| make()).collect(),
    }
}

impl<'h> Ctx<'h> {
    // Inlined: every statement and condition makes one, and it is too large to be handed over by copies.
    /// Reads the variables that the plan names, once, at the statement's start.
    #[inline]
    pub fn new(plan: Arc<Plan>, host: &'h dyn Host) -> Result<Ctx<'h>> {
        let variables = variables_of(&plan, host)?;
        let settings = host.settings();
        let convert = ConvertContext {
            date_format: settings.dateformat,
            ..ConvertContext::default()
        };
        let grant = i64::try_from(host.memory_grant_bytes()).unwrap_or(i64::MAX);
        Ok(Ctx {
            host,
            actual: host.actual_rows(),
            settings,
            convert,
            params: RefCell::new(several(plan.parameters, Param::new)),
            clock: Cell::new(1),
            volatile_at: Cell::new(0),
            documents: Documents::default(),
            epoch: Cell::new(0),
            work_epoch: Cell::new(0),
            work_read_at: Cell::new(0),
            variables: RefCell::new(variables),
            subplans: RefCell::new(several(plan.subplans.len(), SubplanState::default)),
            local: RefCell::new(Value::Null),
            work: RefCell::default(),
            grant_bytes: grant,
            memory_left: Cell::new(grant),
            looked_at: Cell::new(grant),
            is_short: Cell::new(false),
            ticks: Cell::new(0),
            held_at_look: Cell::new(thread_bytes()),
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
            state.sets.clear();
            self.release(std::mem::take(&mut state.set_bytes));
        }
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Value of a slot that an outer row set; NULL before.
    #[inline]
    pub fn param(&self, slot: usize) -> Value {
        let params = self.params.borrow();
        params.get(slot).map_or(Value::Null, |param| {
            param.read_at.set(self.clock.get());
            param.value.clone()
        })
    }

    /// Sets a slot before the inner side starts again.
    #[inline]
    pub fn set_param(&self, slot: usize, value: Value) {
        if let Some(place) = self.params.borrow_mut().get_mut(slot) {
            place.value = value;
            place.set_at = self.clock.get();
        }
    }

    /// Begins to watch what is read from outside; give the result to `end_reads`.
    pub fn begin_reads(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// What was read from outside since.
    pub fn end_reads(&self, begun: u64) -> Reads {
        let params = self.params.borrow();
        // What was also set since belongs to a loop within.
        let from_outside = |p: &Param| p.read_at.get() >= begun && p.set_at < begun;
        let read = params.iter().enumerate().filter(|(_, p)| from_outside(p));
        Reads {
            params: read.map(|(slot, p)| (slot, p.value.clone())).collect(),
            epoch: self.epoch.get(),
            work_epoch: (self.work_read_at.get() >= begun).then(|| self.work_epoch.get()),
            is_volatile: self.volatile_at.get() >= begun,
        }
    }

    /// Would whoever read that read the same again? Counts as reading it.
    pub fn reads_the_same(&self, reads: &Reads) -> bool {
        let same = |(slot, value): &(usize, Value)| self.param(*slot) == *value;
        let same_work = match reads.work_epoch {
            Some(epoch) => {
                self.work_read_at.set(self.clock.get());
                epoch == self.work_epoch.get()
            }
            None => true,
        };
        let same_params = reads.params.iter().all(same);
        !reads.is_volatile && reads.epoch == self.epoch.get() && same_work && same_params
    }

    /// To be called when a value is made that is another each time.
    pub fn note_volatile(&self) {
        self.volatile_at.set(self.clock.get());
    }

    /// Value of a variable as this execution sees it.
    #[inline]
    pub fn variable(&self, slot: usize) -> Value {
        self.variables
            .borrow()
            .get(slot)
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// Assigns as `SELECT @v = ..` does row by row; the session's variable follows at the end.
    pub fn set_variable(&self, slot: usize, value: Value) {
        self.epoch.set(self.epoch.get() + 1);
        if let Some(place) = self.variables.borrow_mut().get_mut(slot) {
            *place = value;
        }
    }

    /// The value that a node keeps for its own expression.
    #[inline]
    pub fn local(&self) -> Value {
        self.local.borrow().clone()
    }

    /// Runs `f` with a value that stands for the operand around it.
    pub fn with_local<T>(&self, value: Value, f: impl FnOnce() -> T) -> T {
        let outer = self.local.replace(value);
        let result = f();
        self.local.replace(outer);
        result
    }

    /// To be called for every row, or for a bunch of them with their number.
    #[inline]
    pub fn tick(&self, rows: u32) -> Result<()> {
        let ticks = self.ticks.get() + rows;
        let held = thread_bytes();
        if ticks < CANCEL_ROWS && held - self.held_at_look.get() < GROWN_BYTES {
            self.ticks.set(ticks);
            return Ok(());
        }
        self.ticks.set(0);
        self.held_at_look.set(held);
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

    /// Adds the pages that a scan read.
    #[inline]
    pub fn count_reads(&self, scan: usize, reads: IoCounters) {
        if let Some((_, sum)) = self.reads.borrow_mut().get_mut(scan) {
            sum.logical_reads += reads.logical_reads;
            sum.physical_reads += reads.physical_reads;
        }
    }

    /// Takes memory from the grant; false when it is used up, or the server's memory nearly is, and the operator should spill.
    pub fn reserve(&self, bytes: usize) -> bool {
        let left = self.memory_left.get() - i64::try_from(bytes).unwrap_or(i64::MAX);
        self.memory_left.set(left);
        if (left - self.looked_at.get()).abs() >= LOOK_BYTES {
            self.looked_at.set(left);
            self.is_short.set(self.host.memory_is_short());
        }
        let taken = self.grant_bytes - left;
        left >= 0 && !(self.is_short.get() && taken >= SHORT_GRANT_BYTES)
    }

    /// Takes memory for what has to stay in memory.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        let before = self.looked_at.get();
        self.reserve(bytes);
        if self.looked_at.get() != before {
            self.host.check_memory(0)?;
        }
        match self.memory_left.get() >= -HELD_BYTES_MAX {
            true => Ok(()),
            false => Err(messages::error(701, &[&"default"])),
        }
    }

    /// To be called before a value of about `bytes` is built; the memory is the caller's until the promise is dropped.
    #[inline]
    pub fn promise(&self, bytes: usize) -> Result<Option<Promise>> {
        match bytes < LARGE_BYTES {
            true => Ok(None),
            false => self.host.promise_memory(bytes),
        }
    }

    /// Gives memory of the grant back, in bytes.
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

    /// Rows of the step before of a recursive query; none before the first.
    pub fn work_rows(&self, id: u32) -> WorkRows {
        self.work_read_at.set(self.clock.get());
        self.work.borrow().get(&id).cloned().unwrap_or_default()
    }

    /// Gives back the rows that were there.
    pub fn set_work_rows(&self, id: u32, rows: KeptRows) -> Option<WorkRows> {
        self.work_epoch.set(self.work_epoch.get() + 1);
        let rows = Rc::new(RefCell::new(rows));
        self.work.borrow_mut().insert(id, rows)
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
