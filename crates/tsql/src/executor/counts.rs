//! Rows that operators gave, counted where SET STATISTICS XML or PROFILE asks for them.
//!
//! Theory: an operator that is counted is wrapped when its plan is opened. Where nobody asks there is no wrapper, and nothing is
//! counted. A counter is found by its node's place in memory: plans do not move, and outlive what runs them.

use super::batch::RowBatch;
use super::columns::ColumnBatch;
use super::context::Ctx;
use super::operator::Operator;
use super::plan::Node;
use crate::error::Result;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// What an operator did in one execution of its statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actual {
    /// Rows given, in all executions.
    pub rows: u64,
    /// Times it was started and asked for rows.
    pub executions: u64,
    /// Times it was asked for more than it had.
    pub ends: u64,
}

/// What the operators of a statement did.
#[derive(Default)]
pub struct ActualRows {
    by_place: RefCell<HashMap<usize, Rc<Cell<Actual>>>>,
    /// Rows that a data change wrote.
    pub written: Cell<u64>,
}

impl ActualRows {
    /// Of one operator; nothing of one that was never opened.
    pub(crate) fn of(&self, node: &Node) -> Actual {
        let counters = self.by_place.borrow();
        counters
            .get(&place(node))
            .map_or_else(Actual::default, |c| c.get())
    }

    /// Of the operator that writes.
    pub(crate) fn of_change(&self) -> Actual {
        Actual {
            rows: self.written.get(),
            executions: 1,
            ends: 1,
        }
    }

    fn counter(&self, node: &Node) -> Rc<Cell<Actual>> {
        let mut counters = self.by_place.borrow_mut();
        counters.entry(place(node)).or_default().clone()
    }
}

fn place(node: &Node) -> usize {
    std::ptr::from_ref(node) as usize
}

/// Counts what the operator within gives.
pub(super) struct CountedOp {
    inner: Box<dyn Operator>,
    counter: Rc<Cell<Actual>>,
    /// It was asked since it was started.
    is_asked: bool,
}

impl CountedOp {
    /// The operator of a node, counted.
    pub fn new(inner: Box<dyn Operator>, node: &Node, actual: &ActualRows) -> CountedOp {
        CountedOp {
            inner,
            counter: actual.counter(node),
            is_asked: false,
        }
    }

    fn note(&mut self, rows: usize, has_more: bool) {
        let mut actual = self.counter.get();
        actual.executions += u64::from(!self.is_asked);
        actual.rows += rows as u64;
        actual.ends += u64::from(!has_more);
        self.is_asked = true;
        self.counter.set(actual);
    }
}

impl Operator for CountedOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        let has_more = self.inner.next(cx, out)?;
        self.note(out.len(), has_more);
        Ok(has_more)
    }

    fn next_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        let has_more = self.inner.next_columns(cx, out)?;
        self.note(if has_more { out.len() } else { 0 }, has_more);
        Ok(has_more)
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.is_asked = false;
        self.inner.rewind(cx)
    }
}
