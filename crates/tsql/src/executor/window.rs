//! Window functions over sorted input.
//!
//! Theory: the input comes partition by partition, in order; peers are rows equal in the order. Numbers, ranks and sums from
//! the first row to the present one need nothing but the row before: where all calls are such, rows stream through and
//! nothing is kept. Otherwise one partition is kept at a time, on disk when it is large, and each row's results are made
//! when the row is handed on: the functions look at rows near the present one, at the frame's ends or, once, at all.
//!
//! Aggregates over a frame that starts where the frame before did grow row by row. Of other frames counts and exact sums lose the
//! rows that left; what cannot lose rows is summed anew where the frame is narrow, and put together from blocks where it is wide
//! (`window_tree`). So no frame costs more than a few dozen rows for each row.

use super::accumulate::Accumulator;
use super::batch::RowBatch;
use super::context::Ctx;
use super::kept_rows::KeptRows;
use super::known_rows::KnownRows;
use super::operator::{Operator, build};
use super::plan::{AggregateCall, WindowNode, WindowStep};
use super::window_tree::{WIDE_ROWS, WindowTree, take_row};
use crate::binder::tree::{FrameEnd, WindowFrame, WindowFunction as W};
use crate::error::{Result, SqlError};
use daruma_value::compare::compare_nulls_first;
use daruma_value::{CollationId, Value};
use std::sync::Arc;

/// Window functions over input that is sorted by partition and order; most stream, the others keep a partition.
pub struct WindowOp {
    node: Arc<WindowNode>,
    input: Box<dyn Operator>,
    batch: RowBatch,
    at: usize,
    input_done: bool,
    /// Values that tell the present partition from the next.
    key: Vec<Value>,
    /// Values of the order that tell the present peers from the next.
    peer_key: Vec<Value>,
    calls: Vec<CallState>,
    kind: Kind,
}

enum Kind {
    /// No row is kept: number of the row in its partition, of the first of its peers, and of its group of peers.
    Streaming {
        row: usize,
        first: usize,
        group: i64,
    },
    Kept(Box<Kept>),
}

/// A partition that is being handed on.
#[derive(Default)]
struct Kept {
    rows: KeptRows,
    give: usize,
    /// First and last peer of the present row, and how many groups of peers there were before and with it.
    first: usize,
    last: usize,
    group: i64,
}

/// State of a call from row to row.
struct CallState {
    shape: Option<AggregateCall>,
    running: Option<Accumulator>,
    /// Frame and value of the row before.
    taken: Option<(usize, usize, Value)>,
    /// For wide frames that move.
    tree: Option<WindowTree>,
    /// IGNORE NULLS: the rows that have a value.
    known: Option<KnownRows>,
    /// NTILE: rows of a small bucket, and how many buckets are larger by one.
    buckets: Option<(usize, usize)>,
    /// PERCENTILE_CONT and PERCENTILE_DISC: the value of all rows of the partition.
    percentile: Option<Value>,
}

impl CallState {
    fn new(call: &WindowStep) -> CallState {
        let shape = match call.function {
            W::Aggregate(function) => Some(AggregateCall {
                function,
                arg: None,
                arg_type: call.arg_type,
                collation: call.collation,
                result: call.result,
                distinct: false,
                separator: None,
                order: Vec::new(),
            }),
            _ => None,
        };
        CallState {
            shape,
            running: None,
            taken: None,
            tree: None,
            known: None,
            buckets: None,
            percentile: None,
        }
    }

    /// Forgets the partition.
    fn restart(&mut self, cx: &Ctx<'_>) {
        self.running = None;
        self.taken = None;
        if let Some(tree) = self.tree.take() {
            tree.release(cx);
        }
        if let Some(known) = self.known.take() {
            known.release(cx);
        }
        self.buckets = None;
        self.percentile = None;
    }
}

impl WindowOp {
    /// The operator before its first row.
    pub fn new(node: Arc<WindowNode>, cx: &Ctx<'_>) -> Result<WindowOp> {
        let kind = match node.calls.iter().all(streams) {
            true => Kind::Streaming {
                row: 0,
                first: 0,
                group: 0,
            },
            false => Kind::Kept(Box::default()),
        };
        Ok(WindowOp {
            input: build(&node.input, cx)?,
            batch: RowBatch::new(),
            at: 0,
            input_done: false,
            key: Vec::new(),
            peer_key: Vec::new(),
            calls: node.calls.iter().map(CallState::new).collect(),
            kind,
            node,
        })
    }

    /// Makes sure that a row of the input is at hand; false at the end.
    fn ready(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        while self.at >= self.batch.len() {
            self.at = 0;
            if self.input_done || !self.input.next(cx, &mut self.batch)? {
                self.input_done = true;
                self.batch.reset(0);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles the next batch of the input, where no row is kept.
    fn stream(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        if !self.ready(cx)? {
            return Ok(false);
        }
        let Kind::Streaming { row, first, group } = &mut self.kind else {
            return Ok(false);
        };
        let node = &self.node;
        for index in self.at..self.batch.len() {
            cx.tick(1)?;
            let values = self.batch.row(index);
            let begins = *row == 0 || !is_same(&self.key, values, &node.partition);
            if begins {
                keep_key(&mut self.key, values, &node.partition);
                (*row, *group) = (0, 0);
                self.calls.iter_mut().for_each(|c| c.restart(cx));
            }
            if begins || !is_same(&self.peer_key, values, &node.order) {
                keep_key(&mut self.peer_key, values, &node.order);
                *first = *row;
                *group += 1;
            }
            *row += 1;
            for (call, state) in node.calls.iter().zip(&mut self.calls) {
                out.put(streamed(call, state, values, (*row, *first, *group), cx)?);
            }
            // Results come behind the row's own values, which are moved when nobody looks at them any more.
            let results = out.open_row().len();
            let own = self.batch.row_mut(index).iter_mut();
            own.for_each(|v| out.put(std::mem::replace(v, Value::Null)));
            out.open_row_mut().rotate_left(results);
            out.finish_row();
        }
        self.at = self.batch.len();
        Ok(true)
    }

    /// Keeps the rows of the next partition; false when there is none.
    fn gather(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        self.calls.iter_mut().for_each(|c| c.restart(cx));
        let width = self.node.input.schema.len();
        if let Kind::Kept(kept) = &mut self.kind {
            kept.rows.clear(width, cx);
            (kept.give, kept.first, kept.last, kept.group) = (0, 0, 0, 0);
        }
        let mut begun = false;
        while self.ready(cx)? {
            cx.tick(1)?;
            let row = self.batch.row(self.at);
            if !begun {
                keep_key(&mut self.key, row, &self.node.partition);
                begun = true;
            } else if !is_same(&self.key, row, &self.node.partition) {
                break;
            }
            if let Kind::Kept(kept) = &mut self.kind {
                kept.rows.add(row, cx)?;
            }
            self.at += 1;
        }
        if let Kind::Kept(kept) = &mut self.kind {
            kept.rows.finish()?;
        }
        Ok(begun)
    }

    /// Hands on rows of the partition at hand.
    fn give(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        let Kind::Kept(kept) = &mut self.kind else {
            return Ok(());
        };
        while kept.give < kept.rows.len() && !out.is_full() {
            cx.tick(1)?;
            let index = kept.give;
            kept.give += 1;
            kept.find_peers(index, &mut self.peer_key, &self.node.order, cx)?;
            for value in kept.rows.row(index)? {
                out.put(value.clone());
            }
            for (call, state) in self.node.calls.iter().zip(&mut self.calls) {
                out.put(kept.result(call, state, index, !self.node.order.is_empty(), cx)?);
            }
            out.finish_row();
        }
        Ok(())
    }
}

/// Does the function need no row but the present one and what was made of those before?
fn streams(call: &WindowStep) -> bool {
    let grows = |frame: &WindowFrame| {
        frame.rows
            && frame.start == FrameEnd::UnboundedPreceding
            && frame.end == FrameEnd::CurrentRow
    };
    match call.function {
        W::RowNumber | W::Rank | W::DenseRank => true,
        W::Aggregate(_) => call.frame.as_ref().is_some_and(grows),
        _ => false,
    }
}

/// Result of such a function; `place`: number of the row, of the first of its peers (from 0) and of its group.
fn streamed(
    call: &WindowStep,
    state: &mut CallState,
    row: &[Value],
    place: (usize, usize, i64),
    cx: &Ctx<'_>,
) -> Result<Value> {
    let (number, first, group) = place;
    Ok(match (call.function, &state.shape) {
        (W::Rank, _) => Value::BigInt(first as i64 + 1),
        (W::DenseRank, _) => Value::BigInt(group),
        (W::Aggregate(_), Some(shape)) => {
            let value = call.args.first().map(|a| a.eval(row, cx)).transpose()?;
            let running = state.running.get_or_insert_with(|| Accumulator::new(shape));
            running.add(shape, value.as_ref(), row, cx)?;
            running.finish(shape)?
        }
        _ => Value::BigInt(number as i64),
    })
}

/// Has the row these values in the columns?
fn is_same(key: &[Value], row: &[Value], columns: &[(usize, CollationId)]) -> bool {
    key.iter()
        .zip(columns)
        .all(|(known, (at, collation))| match row.get(*at) {
            Some(value) => compare_nulls_first(known, value, *collation).is_eq(),
            None => false,
        })
}

fn keep_key(key: &mut Vec<Value>, row: &[Value], columns: &[(usize, CollationId)]) {
    key.clear();
    key.extend(
        columns
            .iter()
            .map(|(at, _)| row.get(*at).cloned().unwrap_or(Value::Null)),
    );
}

impl Kept {
    /// Finds the peers of a row, which follows the one before.
    fn find_peers(
        &mut self,
        index: usize,
        key: &mut Vec<Value>,
        order: &[(usize, CollationId)],
        cx: &Ctx<'_>,
    ) -> Result<()> {
        if index > 0 && index <= self.last {
            return Ok(());
        }
        self.first = index;
        self.group += 1;
        if order.is_empty() {
            self.last = self.rows.len().saturating_sub(1);
            return Ok(());
        }
        keep_key(key, self.rows.row(index)?, order);
        self.last = index;
        while self.last + 1 < self.rows.len() && is_same(key, self.rows.row(self.last + 1)?, order)
        {
            cx.tick(1)?;
            self.last += 1;
        }
        Ok(())
    }

    fn result(
        &mut self,
        call: &WindowStep,
        state: &mut CallState,
        index: usize,
        ordered: bool,
        cx: &Ctx<'_>,
    ) -> Result<Value> {
        let n = self.rows.len();
        Ok(match call.function {
            W::RowNumber => Value::BigInt(index as i64 + 1),
            W::Rank => Value::BigInt(self.first as i64 + 1),
            W::DenseRank => Value::BigInt(self.group),
            W::PercentRank => Value::Float(match n {
                0 | 1 => 0.0,
                n => self.first as f64 / (n - 1) as f64,
            }),
            W::CumeDist => Value::Float((self.last + 1) as f64 / n as f64),
            W::NTile => self.ntile(call, state, index, cx)?,
            W::Lag | W::Lead => self.shifted(call, state, index, cx)?,
            W::PercentileCont | W::PercentileDisc => match &state.percentile {
                Some(known) => known.clone(),
                None => state.percentile.insert(self.percentile(call, cx)?).clone(),
            },
            W::FirstValue | W::LastValue => self.edge(call, state, index, ordered, cx)?,
            W::Aggregate(_) => self.aggregate(call, state, index, ordered, cx)?,
        })
    }

    fn ntile(
        &mut self,
        call: &WindowStep,
        state: &mut CallState,
        index: usize,
        cx: &Ctx<'_>,
    ) -> Result<Value> {
        let n = self.rows.len();
        let (small, larger) = match state.buckets {
            Some(known) => known,
            None => {
                let buckets = match call.args.first() {
                    Some(arg) => arg.eval(self.rows.row(0)?, cx)?.as_i64().unwrap_or(0),
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
                let buckets = usize::try_from(buckets).unwrap_or(usize::MAX).min(n.max(1));
                *state.buckets.insert((n / buckets, n % buckets))
            }
        };
        let in_larger = larger * (small + 1);
        let bucket = match index < in_larger {
            true => index / (small + 1),
            false => larger + (index - in_larger) / small.max(1),
        };
        Ok(Value::BigInt(bucket as i64 + 1))
    }

    /// The value at a fraction of the partition's rows, which are in the order of the value: of those whose value is not NULL, and
    /// these lie together.
    fn percentile(&mut self, call: &WindowStep, cx: &Ctx<'_>) -> Result<Value> {
        let (Some(value), Some(fraction)) = (call.args.first(), call.args.get(1)) else {
            return Ok(Value::Null);
        };
        let n = self.rows.len();
        let fraction = fraction.eval(self.rows.row(0)?, cx)?.as_f64();
        let fraction = fraction.filter(|f| (0.0..=1.0).contains(f));
        let fraction = fraction.ok_or_else(|| crate::messages::error(8727, &[]))?;
        let (mut first, mut known) = (None, 0);
        for at in 0..n {
            cx.tick(1)?;
            if !value.eval(self.rows.row(at)?, cx)?.is_null() {
                first.get_or_insert(at);
                known += 1;
            }
        }
        let Some(first) = first else {
            return Ok(Value::Null);
        };
        if call.function == W::PercentileDisc {
            let at = first + place_of(fraction, known);
            return value.eval(self.rows.row(at)?, cx);
        }
        let place = fraction * (known - 1) as f64;
        let below = place.floor() as usize;
        let above = (place.ceil() as usize).min(known - 1);
        let low = value.eval(self.rows.row(first + below)?, cx)?.as_f64();
        let high = value.eval(self.rows.row(first + above)?, cx)?.as_f64();
        let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(0.0));
        Ok(Value::Float(low + (place - below as f64) * (high - low)))
    }

    /// The rows that have a value, found at the first row of a partition.
    fn known<'s>(
        &mut self,
        call: &WindowStep,
        state: &'s mut CallState,
        cx: &Ctx<'_>,
    ) -> Result<&'s KnownRows> {
        Ok(match &mut state.known {
            Some(known) => known,
            none => none.insert(KnownRows::new(&mut self.rows, call, cx)?),
        })
    }

    fn shifted(
        &mut self,
        call: &WindowStep,
        state: &mut CallState,
        index: usize,
        cx: &Ctx<'_>,
    ) -> Result<Value> {
        let n = self.rows.len();
        let offset = match call.args.get(1) {
            Some(arg) => match arg.eval(self.rows.row(index)?, cx)?.as_i64() {
                Some(offset) if offset >= 0 => usize::try_from(offset).unwrap_or(usize::MAX),
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
        let Some(arg) = call.args.first() else {
            return Ok(Value::Null);
        };
        // The offset counts the rows that have a value.
        let target = match (call.ignore_nulls && offset > 0, call.function) {
            (true, function) => {
                let known = self.known(call, state, cx)?;
                let number = match function {
                    W::Lag => known.before(index).checked_sub(offset),
                    _ => known.before(index + 1).checked_add(offset - 1),
                };
                number.and_then(|number| known.row(number))
            }
            (false, W::Lag) => index.checked_sub(offset),
            (false, _) => index.checked_add(offset).filter(|t| *t < n),
        };
        let found = match target {
            Some(target) => Some(arg.eval(self.rows.row(target)?, cx)?),
            None => None,
        };
        match (found, call.args.get(2)) {
            (Some(value), _) => Ok(value),
            (None, Some(default)) => default.eval(self.rows.row(index)?, cx),
            (None, None) => Ok(Value::Null),
        }
    }

    /// First and last row (inclusive) of the frame of a row; `None` when it is empty.
    fn frame(
        &self,
        frame: Option<&WindowFrame>,
        index: usize,
        ordered: bool,
    ) -> Option<(usize, usize)> {
        let n = self.rows.len();
        let Some(frame) = frame else {
            return Some((0, if ordered { self.last } else { n - 1 }));
        };
        let start = match frame.start {
            FrameEnd::UnboundedPreceding => 0,
            FrameEnd::Preceding(k) => index.saturating_sub(k as usize),
            FrameEnd::CurrentRow if frame.rows => index,
            FrameEnd::CurrentRow => self.first,
            FrameEnd::Following(k) => index.checked_add(k as usize)?,
            FrameEnd::UnboundedFollowing => return None,
        };
        let end = match frame.end {
            FrameEnd::UnboundedPreceding => return None,
            FrameEnd::Preceding(k) => index.checked_sub(k as usize)?,
            FrameEnd::CurrentRow if frame.rows => index,
            FrameEnd::CurrentRow => self.last,
            FrameEnd::Following(k) => index.saturating_add(k as usize).min(n - 1),
            FrameEnd::UnboundedFollowing => n - 1,
        };
        (start <= end && start < n).then_some((start, end))
    }

    fn edge(
        &mut self,
        call: &WindowStep,
        state: &mut CallState,
        index: usize,
        ordered: bool,
        cx: &Ctx<'_>,
    ) -> Result<Value> {
        let frame = self.frame(call.frame.as_ref(), index, ordered);
        let (Some(arg), Some((start, end))) = (call.args.first(), frame) else {
            return Ok(Value::Null);
        };
        let at = match (call.ignore_nulls, call.function) {
            (false, W::FirstValue) => Some(start),
            (false, _) => Some(end),
            (true, function) => {
                let known = self.known(call, state, cx)?;
                let number = match function {
                    W::FirstValue => Some(known.before(start)),
                    _ => known.before(end + 1).checked_sub(1),
                };
                let row = number.and_then(|number| known.row(number));
                row.filter(|row| (start..=end).contains(row))
            }
        };
        match at {
            Some(at) => arg.eval(self.rows.row(at)?, cx),
            None => Ok(Value::Null),
        }
    }

    fn aggregate(
        &mut self,
        call: &WindowStep,
        state: &mut CallState,
        index: usize,
        ordered: bool,
        cx: &Ctx<'_>,
    ) -> Result<Value> {
        let frame = self.frame(call.frame.as_ref(), index, ordered);
        let CallState {
            shape: Some(shape),
            running,
            taken,
            tree,
            ..
        } = state
        else {
            return Ok(Value::Null);
        };
        let Some((start, end)) = frame else {
            return Accumulator::new(shape).finish(shape);
        };
        let mut from = start;
        match (&*taken, &mut *running) {
            (Some((s, e, value)), _) if *s == start && *e == end => return Ok(value.clone()),
            (Some((s, e, _)), Some(_)) if *s == start && *e < end => from = e + 1,
            (Some((s, e, _)), Some(sum))
                if sum.can_take_out() && slides((*s, *e), (start, end)) =>
            {
                for at in *s..start {
                    cx.tick(1)?;
                    let row = self.rows.row(at)?;
                    let value = call.args.first().map(|a| a.eval(row, cx)).transpose()?;
                    sum.take_out(shape, value.as_ref())?;
                }
                from = e + 1;
            }
            (Some(_), _) if end - start >= WIDE_ROWS => {
                let tree = match tree {
                    Some(tree) => tree,
                    none => none.insert(WindowTree::new(&mut self.rows, call, shape, cx)?),
                };
                *running = Some(tree.over(start..end + 1, &mut self.rows, call, shape, cx)?);
                from = end + 1;
            }
            _ => *running = None,
        }
        let sum = running.get_or_insert_with(|| Accumulator::new(shape));
        for at in from..=end {
            take_row(sum, &mut self.rows, at, call, shape, cx)?;
        }
        let value = sum.finish(shape)?;
        *taken = Some((start, end, value.clone()));
        Ok(value)
    }
}

/// Place (from 0) of the first of so many rows up to which at least the fraction of them lies.
fn place_of(fraction: f64, rows: usize) -> usize {
    let share = |rows_to_there: usize| rows_to_there as f64 / rows as f64;
    // The product may be a little off what the quotient is.
    let mut count = ((fraction * rows as f64) as usize).clamp(1, rows);
    while count > 1 && share(count - 1) >= fraction {
        count -= 1;
    }
    while count < rows && share(count) < fraction {
        count += 1;
    }
    count - 1
}

/// Is a frame sooner made from the one before, by rows that leave at its start and come at its end, than anew?
fn slides(before: (usize, usize), now: (usize, usize)) -> bool {
    let ((s, e), (start, end)) = (before, now);
    s <= start && e <= end && start <= e && (start - s) + (end - e) <= end - start
}

impl Operator for WindowOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.input.schema.len() + self.node.calls.len());
        if matches!(self.kind, Kind::Streaming { .. }) {
            return self.stream(cx, out);
        }
        loop {
            self.give(cx, out)?;
            if out.is_full() {
                return Ok(true);
            }
            if !self.gather(cx)? {
                return Ok(!out.is_empty());
            }
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.input_done = false;
        self.batch.reset(0);
        self.at = 0;
        match &mut self.kind {
            Kind::Streaming { row, .. } => *row = 0,
            Kind::Kept(kept) => {
                kept.rows.clear(self.node.input.schema.len(), cx);
                kept.give = 0;
            }
        }
        self.input.rewind(cx)
    }
}
