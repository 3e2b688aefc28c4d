//! Window functions over sorted input: one partition in memory at a time.
//!
//! Theory: peers are rows equal in the order. Ranking functions need only positions and peers. Aggregates over a frame
//! that starts at the beginning grow row by row; other frames are summed anew for each row, which is fine for the small
//! frames they usually are.

use super::accumulate::Accumulator;
use super::batch::RowBatch;
use super::context::Ctx;
use super::operator::{Operator, build};
use super::plan::{AggregateCall, WindowNode, WindowStep};
use super::spill::row_bytes;
use crate::binder::tree::{FrameEnd, WindowFrame, WindowFunction as W};
use crate::error::{Result, SqlError};
use daruma_value::compare::compare_nulls_first;
use daruma_value::{CollationId, Value};
use std::sync::Arc;

pub struct WindowOp {
    node: Arc<WindowNode>,
    input: Box<dyn Operator>,
    batch: RowBatch,
    at: usize,
    input_done: bool,
    partition: RowBatch,
    /// Memory of the partition's rows, taken from the statement.
    held_bytes: usize,
    /// Results of the partition, call by call.
    results: Vec<Vec<Value>>,
    give: usize,
}

impl WindowOp {
    pub fn new(node: Arc<WindowNode>, cx: &Ctx<'_>) -> Result<WindowOp> {
        Ok(WindowOp {
            input: build(&node.input, cx)?,
            node,
            batch: RowBatch::new(),
            at: 0,
            input_done: false,
            partition: RowBatch::new(),
            held_bytes: 0,
            results: Vec::new(),
            give: 0,
        })
    }

    /// Reads the rows of the next partition.
    fn gather(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        cx.release(std::mem::take(&mut self.held_bytes));
        self.partition.reset(self.node.input.schema.len());
        self.give = 0;
        loop {
            if self.at >= self.batch.len() {
                self.at = 0;
                if self.input_done || !self.input.next(cx, &mut self.batch)? {
                    self.input_done = true;
                    self.batch.reset(0);
                    return Ok(!self.partition.is_empty());
                }
            }
            cx.tick(1)?;
            let row = self.batch.row(self.at);
            if !self.partition.is_empty() && !same(self.partition.row(0), row, &self.node.partition)
            {
                return Ok(true);
            }
            let bytes = row_bytes(row);
            cx.hold(bytes)?;
            self.held_bytes += bytes;
            self.partition.push_slice(row);
            self.at += 1;
        }
    }

    fn compute(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let peers = Peers::new(&self.partition, &self.node.order);
        let mut results = Vec::with_capacity(self.node.calls.len());
        for call in &self.node.calls {
            results.push(run(
                call,
                &self.partition,
                &peers,
                !self.node.order.is_empty(),
                cx,
            )?);
        }
        self.results = results;
        Ok(())
    }
}

fn same(a: &[Value], b: &[Value], columns: &[(usize, CollationId)]) -> bool {
    columns
        .iter()
        .all(|(at, collation)| match (a.get(*at), b.get(*at)) {
            (Some(x), Some(y)) => compare_nulls_first(x, y, *collation).is_eq(),
            _ => false,
        })
}

/// First and last row of each row's peers.
struct Peers {
    first: Vec<usize>,
    last: Vec<usize>,
}

impl Peers {
    fn new(rows: &RowBatch, order: &[(usize, CollationId)]) -> Peers {
        let n = rows.len();
        let mut first = vec![0; n];
        let mut last = vec![n.saturating_sub(1); n];
        for i in 1..n {
            first[i] = if same(rows.row(i - 1), rows.row(i), order) {
                first[i - 1]
            } else {
                i
            };
        }
        for i in (0..n.saturating_sub(1)).rev() {
            last[i] = if first[i + 1] == first[i] {
                last[i + 1]
            } else {
                i
            };
        }
        Peers { first, last }
    }
}

fn run(
    call: &WindowStep,
    rows: &RowBatch,
    peers: &Peers,
    ordered: bool,
    cx: &Ctx<'_>,
) -> Result<Vec<Value>> {
    let n = rows.len();
    let each = |f: &dyn Fn(usize) -> Value| (0..n).map(f).collect::<Vec<_>>();
    Ok(match call.function {
        W::RowNumber => each(&|i| Value::BigInt(i as i64 + 1)),
        W::Rank => each(&|i| Value::BigInt(peers.first[i] as i64 + 1)),
        W::DenseRank => {
            let mut rank = 0;
            (0..n)
                .map(|i| {
                    rank += i64::from(peers.first[i] == i);
                    Value::BigInt(rank)
                })
                .collect()
        }
        W::PercentRank => each(&|i| {
            Value::Float(if n > 1 {
                peers.first[i] as f64 / (n - 1) as f64
            } else {
                0.0
            })
        }),
        W::CumeDist => each(&|i| Value::Float((peers.last[i] + 1) as f64 / n as f64)),
        W::NTile => ntile(call, rows, cx)?,
        W::Lag | W::Lead => shifted(call, rows, cx)?,
        W::FirstValue | W::LastValue => edge(call, rows, peers, ordered, cx)?,
        W::Aggregate(_) => aggregate(call, rows, peers, ordered, cx)?,
    })
}

fn ntile(call: &WindowStep, rows: &RowBatch, cx: &Ctx<'_>) -> Result<Vec<Value>> {
    let n = rows.len();
    let buckets = match call.args.first() {
        Some(arg) => arg.eval(rows.row(0), cx)?.as_i64().unwrap_or(0),
        None => 0,
    };
    if buckets <= 0 {
        return Err(SqlError::new(
            4196,
            16,
            1,
            "The function 'NTILE' takes only a positive int or bigint expression as its input.",
        ));
    }
    let buckets = (buckets as usize).min(n.max(1));
    let (small, larger) = (n / buckets, n % buckets);
    let bucket = |i: usize| {
        let in_larger = larger * (small + 1);
        if i < in_larger {
            i / (small + 1)
        } else {
            larger + (i - in_larger) / small.max(1)
        }
    };
    Ok((0..n)
        .map(|i| Value::BigInt(bucket(i) as i64 + 1))
        .collect())
}

fn shifted(call: &WindowStep, rows: &RowBatch, cx: &Ctx<'_>) -> Result<Vec<Value>> {
    let n = rows.len();
    let mut out = Vec::with_capacity(n);
    for i in 0..n {
        let row = rows.row(i);
        let offset = match call.args.get(1) {
            Some(arg) => match arg.eval(row, cx)?.as_i64() {
                Some(offset) if offset >= 0 => offset as usize,
                _ => {
                    return Err(SqlError::new(
                        8730,
                        16,
                        1,
                        "Offset parameter for Lag and Lead functions cannot be a negative value.",
                    ));
                }
            },
            None => 1,
        };
        let target = if call.function == W::Lag {
            i.checked_sub(offset)
        } else {
            i.checked_add(offset).filter(|t| *t < n)
        };
        out.push(match (target, call.args.first(), call.args.get(2)) {
            (Some(target), Some(arg), _) => arg.eval(rows.row(target), cx)?,
            (None, _, Some(default)) => default.eval(row, cx)?,
            _ => Value::Null,
        });
    }
    Ok(out)
}

/// First and last row (inclusive) of the frame of row `i`; `None` when it is empty.
fn frame_of(
    frame: Option<&WindowFrame>,
    i: usize,
    n: usize,
    peers: &Peers,
    ordered: bool,
) -> Option<(usize, usize)> {
    let Some(frame) = frame else {
        return Some(if ordered {
            (0, peers.last[i])
        } else {
            (0, n - 1)
        });
    };
    let start = match frame.start {
        FrameEnd::UnboundedPreceding => 0,
        FrameEnd::Preceding(k) => i.saturating_sub(k as usize),
        FrameEnd::CurrentRow if frame.rows => i,
        FrameEnd::CurrentRow => peers.first[i],
        FrameEnd::Following(k) => i.checked_add(k as usize)?,
        FrameEnd::UnboundedFollowing => return None,
    };
    let end = match frame.end {
        FrameEnd::UnboundedPreceding => return None,
        FrameEnd::Preceding(k) => i.checked_sub(k as usize)?,
        FrameEnd::CurrentRow if frame.rows => i,
        FrameEnd::CurrentRow => peers.last[i],
        FrameEnd::Following(k) => i.saturating_add(k as usize).min(n - 1),
        FrameEnd::UnboundedFollowing => n - 1,
    };
    (start <= end && start < n).then_some((start, end))
}

fn edge(
    call: &WindowStep,
    rows: &RowBatch,
    peers: &Peers,
    ordered: bool,
    cx: &Ctx<'_>,
) -> Result<Vec<Value>> {
    let n = rows.len();
    let Some(arg) = call.args.first() else {
        return Ok(vec![Value::Null; n]);
    };
    let mut out = Vec::with_capacity(n);
    for i in 0..n {
        let Some((start, end)) = frame_of(call.frame.as_ref(), i, n, peers, ordered) else {
            out.push(Value::Null);
            continue;
        };
        let mut found = Value::Null;
        let first = call.function == W::FirstValue;
        for step in 0..=(end - start) {
            found = arg.eval(rows.row(if first { start + step } else { end - step }), cx)?;
            if !call.ignore_nulls || !found.is_null() {
                break;
            }
        }
        out.push(found);
    }
    Ok(out)
}

fn aggregate(
    call: &WindowStep,
    rows: &RowBatch,
    peers: &Peers,
    ordered: bool,
    cx: &Ctx<'_>,
) -> Result<Vec<Value>> {
    let W::Aggregate(function) = call.function else {
        return Ok(Vec::new());
    };
    let n = rows.len();
    let shape = AggregateCall {
        function,
        arg: None,
        arg_type: call.arg_type,
        collation: call.collation,
        result: call.result,
        distinct: false,
        separator: None,
        order: Vec::new(),
    };
    let mut values: Vec<Option<Value>> = Vec::with_capacity(n);
    for i in 0..n {
        values.push(
            call.args
                .first()
                .map(|a| a.eval(rows.row(i), cx))
                .transpose()?,
        );
    }
    let mut out = Vec::with_capacity(n);
    let mut running = Accumulator::new(&shape);
    let mut taken: Option<(usize, usize, Value)> = None;
    for i in 0..n {
        let Some((start, end)) = frame_of(call.frame.as_ref(), i, n, peers, ordered) else {
            out.push(Accumulator::new(&shape).finish(&shape)?);
            continue;
        };
        let from = match &taken {
            Some((s, e, value)) if *s == start && *e == end => {
                out.push(value.clone());
                continue;
            }
            Some((s, e, _)) if *s == start && *e < end => e + 1,
            _ => {
                running = Accumulator::new(&shape);
                start
            }
        };
        for (j, value) in values.iter().enumerate().take(end + 1).skip(from) {
            cx.tick(1)?;
            running.add(&shape, value.as_ref(), rows.row(j), cx)?;
        }
        let value = running.finish(&shape)?;
        taken = Some((start, end, value.clone()));
        out.push(value);
    }
    Ok(out)
}

impl Operator for WindowOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.input.schema.len() + self.node.calls.len());
        loop {
            while self.give < self.partition.len() && !out.is_full() {
                let index = self.give;
                self.give += 1;
                for value in self.partition.row(index) {
                    out.put(value.clone());
                }
                for result in &mut self.results {
                    out.put(
                        result
                            .get_mut(index)
                            .map_or(Value::Null, |v| std::mem::replace(v, Value::Null)),
                    );
                }
                out.finish_row();
            }
            if out.is_full() {
                return Ok(true);
            }
            if !self.gather(cx)? {
                return Ok(!out.is_empty());
            }
            self.compute(cx)?;
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.input_done = false;
        self.batch.reset(0);
        self.at = 0;
        self.partition.reset(0);
        self.give = 0;
        self.input.rewind(cx)
    }
}
