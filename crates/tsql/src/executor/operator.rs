//! Operators: the interface, how a plan becomes operators, and the simple ones.
//!
//! Theory: each operator pulls batches from its inputs. `rewind` starts it again with the parameters as they are then,
//! which is how nested loops and subqueries run their inner sides without building them anew. Batches come as rows or as
//! columns, as the reader likes it; `columns` says who likes what.

use super::aggregate::AggregateOp;
use super::batch::RowBatch;
use super::columns::ColumnBatch;
use super::context::Ctx;
use super::counts::CountedOp;
use super::expr::{Cond, Expr};
use super::hash_join::HashJoinOp;
use super::keep::KeepOp;
use super::merge_join::MergeJoinOp;
use super::nested_loop::NestedLoopOp;
use super::plan::*;
use super::recursive::{RecursiveOp, WorkTableOp};
use super::scan::ScanOp;
use super::set_hash::SetHashOp;
use super::shared_rows::ReadBlock;
use super::sort::SortOp;
use super::top::TopOp;
use super::vector;
use super::window::WindowOp;
use crate::error::Result;
use crate::host::LazyRows;
use daruma_value::Value;
use std::sync::Arc;

/// One node at work: pulled batch by batch, and started again by `reset`.
pub trait Operator {
    /// Replaces the content of `out` with the next rows; false at the end, with `out` empty.
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool>;
    /// As `next`, column by column. An operator is read one way or the other.
    fn next_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        self.next_turned(cx, out)
    }
    /// Rows, turned around.
    fn next_turned(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        let mut rows = std::mem::take(&mut out.rows);
        let more = self.next(cx, &mut rows)?;
        out.take_rows(&mut rows);
        out.rows = rows;
        Ok(more)
    }
    /// Starts again.
    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()>;
}

/// The operators of a node and of everything below it, counted if the host asks for that.
pub fn build(node: &Node, cx: &Ctx<'_>) -> Result<Box<dyn Operator>> {
    let operator = made(node, cx)?;
    Ok(match &cx.actual {
        None => operator,
        Some(actual) => Box::new(CountedOp::new(operator, node, actual)),
    })
}

fn made(node: &Node, cx: &Ctx<'_>) -> Result<Box<dyn Operator>> {
    let width = node.schema.len();
    Ok(match &node.op {
        Op::One => Box::new(OneOp {
            done: false,
            rows: 1,
        }),
        Op::Empty => Box::new(OneOp {
            done: false,
            rows: 0,
        }),
        Op::Scan(scan) => Box::new(ScanOp::new(scan.clone(), cx)?),
        Op::Virtual(scan) if scan.table.gathered().is_some() => Box::new(SharedOp {
            node: scan.clone(),
            read: ReadBlock::default(),
            block: 0,
            at: 0,
        }),
        Op::Virtual(scan) if !scan.args.is_empty() => Box::new(FunctionOp {
            node: scan.clone(),
            rows: None,
        }),
        Op::Virtual(scan) => Box::new(VirtualOp {
            node: scan.clone(),
            rows: None,
            at: 0,
        }),
        Op::Values(rows) => Box::new(ValuesOp {
            rows: rows.clone(),
            at: 0,
            width,
        }),
        Op::Filter(filter) => Box::new(FilterOp {
            input: build(&filter.input, cx)?,
            node: filter.clone(),
            batch: RowBatch::new(),
            decided: None,
        }),
        Op::Compute(compute) => Box::new(ComputeOp {
            input: build(&compute.input, cx)?,
            node: compute.clone(),
            batch: RowBatch::new(),
            at: 0,
            columns: ColumnBatch::default(),
            width,
        }),
        Op::NestedLoop(join) => Box::new(NestedLoopOp::new(join.clone(), cx)?),
        Op::HashJoin(join) => Box::new(HashJoinOp::new(join.clone(), cx)?),
        Op::MergeJoin(join) => Box::new(MergeJoinOp::new(join.clone(), cx)?),
        Op::Aggregate(aggregate) => Box::new(AggregateOp::new(aggregate.clone(), cx)?),
        Op::Sort(sort) => Box::new(SortOp::new(sort.clone(), width, cx)?),
        Op::Top(top) => Box::new(TopOp::new(top.clone(), cx)?),
        Op::Window(window) => Box::new(WindowOp::new(window.clone(), cx)?),
        Op::Concat(inputs) => {
            let inputs = inputs
                .iter()
                .map(|i| build(i, cx))
                .collect::<Result<Vec<_>>>()?;
            Box::new(ConcatOp { inputs, at: 0 })
        }
        Op::Keep(keep) => Box::new(KeepOp::new(keep.clone(), cx)?),
        Op::SetHash(set) => Box::new(SetHashOp::new(set.clone(), cx)?),
        Op::Recursive(recursive) => Box::new(RecursiveOp::new(recursive.clone(), width, cx)?),
        Op::WorkTable(id) => Box::new(WorkTableOp::new(*id, width)),
    })
}

struct OneOp {
    done: bool,
    rows: usize,
}

impl Operator for OneOp {
    fn next(&mut self, _: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(0);
        if self.done || self.rows == 0 {
            return Ok(false);
        }
        self.done = true;
        out.finish_row();
        Ok(true)
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        self.done = false;
        Ok(())
    }
}

struct VirtualOp {
    node: Arc<VirtualNode>,
    rows: Option<Vec<Vec<Value>>>,
    at: usize,
}

impl Operator for VirtualOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.columns.len());
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let (table, database) = (&self.node.table, self.node.database);
                self.rows.insert(table.rows(cx.host, database, &[])?)
            }
        };
        while let Some(row) = rows.get(self.at)
            && !out.is_full()
        {
            cx.tick(1)?;
            out.push(
                self.node
                    .columns
                    .iter()
                    .map(|c| row.get(*c).cloned().unwrap_or(Value::Null)),
            );
            self.at += 1;
        }
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        // Within a statement a view shows the same rows.
        self.at = 0;
        Ok(())
    }
}

/// Calls a table function, anew for each row that its arguments are of.
struct FunctionOp {
    node: Arc<VirtualNode>,
    rows: Option<LazyRows>,
}

impl FunctionOp {
    fn call(&self, cx: &Ctx<'_>) -> Result<LazyRows> {
        if let Some(nodes) = self.node.table.nodes() {
            return nodes.of_document(&self.node.args, cx);
        }
        let args = self.node.args.iter().map(|a| a.eval(&[], cx));
        let args = args.collect::<Result<Vec<_>>>()?;
        let (table, database) = (&self.node.table, self.node.database);
        table.stream(cx.host, database, &args)
    }
}

impl Operator for FunctionOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.columns.len());
        let mut rows = match self.rows.take() {
            Some(rows) => rows,
            None => self.call(cx)?,
        };
        while !out.is_full()
            && let Some(row) = rows.next()
        {
            cx.tick(1)?;
            let row = row?;
            let value = |c: &usize| row.get(*c).cloned().unwrap_or(Value::Null);
            out.push(self.node.columns.iter().map(value));
        }
        self.rows = Some(rows);
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        self.rows = None;
        Ok(())
    }
}

/// Reads a table whose rows were gathered before.
struct SharedOp {
    node: Arc<VirtualNode>,
    read: ReadBlock,
    block: usize,
    /// Row of the block that comes next.
    at: usize,
}

impl Operator for SharedOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.columns.len());
        let Some(rows) = self.node.table.gathered() else {
            return Ok(false);
        };
        while let Some(block) = rows.block(self.block, &mut self.read)? {
            while self.at < block.len() && !out.is_full() {
                cx.tick(1)?;
                let row = block.row(self.at);
                let value = |c: &usize| row.get(*c).cloned().unwrap_or(Value::Null);
                out.push(self.node.columns.iter().map(value));
                self.at += 1;
            }
            if out.is_full() {
                break;
            }
            (self.block, self.at) = (self.block + 1, 0);
        }
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        (self.block, self.at) = (0, 0);
        Ok(())
    }
}

struct ValuesOp {
    rows: Arc<Vec<Vec<Expr>>>,
    at: usize,
    width: usize,
}

impl Operator for ValuesOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width);
        while !out.is_full() {
            let Some(row) = self.rows.get(self.at) else {
                break;
            };
            for expr in row {
                let value = expr.eval(&[], cx)?;
                out.put(value);
            }
            out.finish_row();
            self.at += 1;
        }
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        self.at = 0;
        Ok(())
    }
}

struct FilterOp {
    input: Box<dyn Operator>,
    node: Arc<FilterNode>,
    batch: RowBatch,
    /// Outcome of a condition that is checked before any row.
    decided: Option<bool>,
}

impl FilterOp {
    /// A condition on no row, decided once.
    fn starts(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        Ok(match self.decided {
            Some(pass) => pass,
            None => *self.decided.insert(self.node.condition.accepts(&[], cx)?),
        })
    }
}

impl Operator for FilterOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        if self.node.startup {
            if !self.starts(cx)? {
                out.reset(self.node.input.schema.len());
                return Ok(false);
            }
            return self.input.next(cx, out);
        }
        out.reset(self.node.input.schema.len());
        while out.is_empty() {
            if !self.input.next(cx, &mut self.batch)? {
                return Ok(false);
            }
            for index in 0..self.batch.len() {
                cx.tick(1)?;
                if self.node.condition.accepts(self.batch.row(index), cx)? {
                    let row = self.batch.row_mut(index);
                    out.push(row.iter_mut().map(|v| std::mem::replace(v, Value::Null)));
                }
            }
        }
        Ok(true)
    }

    fn next_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        if self.node.startup {
            if !self.starts(cx)? {
                out.reset(self.node.input.schema.len());
                return Ok(false);
            }
            return self.input.next_columns(cx, out);
        }
        while self.input.next_columns(cx, out)? {
            cx.tick(out.len() as u32)?;
            let mut rows: Vec<u32> = (0..out.len() as u32).collect();
            vector::filter(&self.node.condition, out, cx, &mut rows)?;
            out.keep(&rows);
            if !out.is_empty() {
                return Ok(true);
            }
        }
        out.reset(self.node.input.schema.len());
        Ok(false)
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.decided = None;
        self.input.rewind(cx)
    }
}

struct ComputeOp {
    input: Box<dyn Operator>,
    node: Arc<ComputeNode>,
    batch: RowBatch,
    /// Row of the batch that comes next.
    at: usize,
    columns: ColumnBatch,
    width: usize,
}

impl ComputeOp {
    /// Adds what is made of a row to `out`.
    fn put(&mut self, index: usize, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        for item in &self.node.items {
            let value = item.eval(self.batch.row(index), cx)?;
            out.put(value);
        }
        // Values kept are moved; a column kept twice cannot be, so the planner keeps each once.
        let row = self.batch.row_mut(index);
        for position in &self.node.keep {
            let value = row
                .get_mut(*position)
                .map_or(Value::Null, |v| std::mem::replace(v, Value::Null));
            out.put(value);
        }
        out.finish_row();
        Ok(())
    }
}

impl Operator for ComputeOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width);
        if self.at >= self.batch.len() {
            self.at = 0;
            if !self.input.next(cx, &mut self.batch)? {
                return Ok(false);
            }
        }
        // What is made of short rows may be long: the rest of the batch waits then.
        while self.at < self.batch.len() && !out.is_full() {
            cx.tick(1)?;
            self.put(self.at, cx, out)?;
            self.at += 1;
        }
        Ok(true)
    }

    fn next_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        if self.node.is_long {
            return self.next_turned(cx, out);
        }
        out.reset(self.width);
        if !self.input.next_columns(cx, &mut self.columns)? {
            return Ok(false);
        }
        let len = self.columns.len();
        cx.tick(len as u32)?;
        for (position, item) in self.node.items.iter().enumerate() {
            let made = vector::eval(item, &self.columns, cx)?.into_column(len);
            if let Some(place) = out.column_mut(position) {
                *place = made;
            }
        }
        let computed = self.node.items.len();
        for (position, from) in self.node.keep.iter().enumerate() {
            if let (Some(place), Some(kept)) = (
                out.column_mut(computed + position),
                self.columns.column_mut(*from),
            ) {
                std::mem::swap(place, kept);
            }
        }
        out.set_len(len);
        Ok(true)
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.at = 0;
        self.batch.reset(0);
        self.input.rewind(cx)
    }
}

struct ConcatOp {
    inputs: Vec<Box<dyn Operator>>,
    at: usize,
}

impl Operator for ConcatOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        while let Some(input) = self.inputs.get_mut(self.at) {
            if input.next(cx, out)? {
                return Ok(true);
            }
            self.at += 1;
        }
        out.reset(0);
        Ok(false)
    }

    fn next_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        while let Some(input) = self.inputs.get_mut(self.at) {
            if input.next_columns(cx, out)? {
                return Ok(true);
            }
            self.at += 1;
        }
        out.reset(0);
        Ok(false)
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.at = 0;
        self.inputs.iter_mut().try_for_each(|i| i.rewind(cx))
    }
}

/// Conditions that hold for no row at all need no input.
pub fn never(condition: &Cond) -> bool {
    matches!(condition, Cond::Const(Some(false) | None))
}
