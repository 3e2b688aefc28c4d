//! TOP, OFFSET and FETCH.

use super::batch::RowBatch;
use super::context::Ctx;
use super::kept_rows::KeptRows;
use super::operator::{Operator, build};
use super::plan::TopNode;
use crate::error::{Result, SqlError};
use daruma_value::Value;
use daruma_value::compare::compare_nulls_first;
use std::sync::Arc;

/// Passes over the offset and gives the wanted number of rows.
pub struct TopOp {
    node: Arc<TopNode>,
    input: Box<dyn Operator>,
    batch: RowBatch,
    state: Option<Limits>,
    last: Vec<Value>,
    /// All rows, when a percentage of them is wanted, and the next of them.
    gathered: Option<(KeptRows, usize)>,
}

struct Limits {
    skip: u64,
    left: u64,
    /// Only ties of the last row may still pass.
    ties: bool,
    done: bool,
}

impl TopOp {
    /// The operator before its first row; its counts are evaluated with that.
    pub fn new(node: Arc<TopNode>, cx: &Ctx<'_>) -> Result<TopOp> {
        Ok(TopOp {
            input: build(&node.input, cx)?,
            node,
            batch: RowBatch::new(),
            state: None,
            last: Vec::new(),
            gathered: None,
        })
    }

    fn limits(&mut self, cx: &Ctx<'_>) -> Result<Limits> {
        let skip = match &self.node.offset {
            Some(offset) => match offset.eval(&[], cx)?.as_i64() {
                Some(n) if n >= 0 => n as u64,
                _ => {
                    return Err(bad_count(
                        "The offset specified in a OFFSET clause may not be negative.",
                        10742,
                    ));
                }
            },
            None => 0,
        };
        let left = match &self.node.count {
            None => u64::MAX,
            Some(count) if self.node.percent => self.percent(count.eval(&[], cx)?.as_f64(), cx)?,
            Some(count) => match count.eval(&[], cx)?.as_i64() {
                Some(n) if n > 0 || n == 0 && self.node.offset.is_none() => n as u64,
                _ if self.node.offset.is_some() => {
                    return Err(bad_count(
                        "The number of rows provided for a FETCH clause must be greater then zero.",
                        10744,
                    ));
                }
                Some(_) => {
                    return Err(bad_count(
                        "A TOP N or FETCH rowcount value may not be negative.",
                        127,
                    ));
                }
                None => {
                    return Err(bad_count(
                        "A TOP or FETCH clause contains an invalid value.",
                        1014,
                    ));
                }
            },
        };
        Ok(Limits {
            skip,
            left,
            ties: false,
            done: left == 0,
        })
    }

    /// Rows that a percentage stands for, rounded up; needs them all first.
    fn percent(&mut self, percent: Option<f64>, cx: &Ctx<'_>) -> Result<u64> {
        let percent = match percent {
            Some(p) if (0.0..=100.0).contains(&p) => p,
            _ => return Err(bad_count("Percent values must be between 0 and 100.", 1031)),
        };
        let mut all = KeptRows::of(self.node.input.schema.len());
        let mut batch = RowBatch::new();
        while self.input.next(cx, &mut batch)? {
            cx.tick(batch.len() as u32)?;
            batch.rows().try_for_each(|row| all.add(row, cx))?;
        }
        all.finish()?;
        let rows = all.len();
        self.gathered = Some((all, 0));
        Ok((rows as f64 * percent / 100.0).ceil() as u64)
    }

    fn pull(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        let Some((all, at)) = &mut self.gathered else {
            return self.input.next(cx, &mut self.batch);
        };
        self.batch.reset(self.node.input.schema.len());
        while *at < all.len() && !self.batch.is_full() {
            cx.tick(1)?;
            self.batch.push_slice(all.row(*at)?);
            *at += 1;
        }
        Ok(!self.batch.is_empty())
    }

    /// Gives the memory of gathered rows back.
    fn let_go(&mut self, cx: &Ctx<'_>) {
        if let Some((mut all, _)) = self.gathered.take() {
            all.clear(self.node.input.schema.len(), cx);
        }
    }

    fn is_tie(&self, row: &[Value]) -> bool {
        let equal = |(at, collation): &(usize, daruma_value::CollationId)| match (
            row.get(*at),
            self.last.get(*at),
        ) {
            (Some(a), Some(b)) => compare_nulls_first(a, b, *collation).is_eq(),
            _ => false,
        };
        self.node.ties.as_ref().is_some_and(|t| t.iter().all(equal))
    }
}

fn bad_count(text: &str, number: i32) -> SqlError {
    SqlError::new(number, 15, 1, text)
}

impl Operator for TopOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.input.schema.len());
        let mut limits = match self.state.take() {
            Some(limits) => limits,
            None => self.limits(cx)?,
        };
        while out.is_empty() && !limits.done {
            if !self.pull(cx)? {
                limits.done = true;
                break;
            }
            for index in 0..self.batch.len() {
                if limits.skip > 0 {
                    limits.skip -= 1;
                    continue;
                }
                let row = self.batch.row(index);
                if limits.ties {
                    if !self.is_tie(row) {
                        limits.done = true;
                        break;
                    }
                    out.push_slice(row);
                    continue;
                }
                out.push_slice(row);
                limits.left -= 1;
                if limits.left == 0 {
                    if self.node.ties.is_none() {
                        limits.done = true;
                        break;
                    }
                    limits.ties = true;
                    self.last = row.to_vec();
                }
            }
        }
        if limits.done {
            self.let_go(cx);
        }
        self.state = Some(limits);
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.state = None;
        self.let_go(cx);
        self.input.rewind(cx)
    }
}
