//! The subqueries that an operator evaluates for its rows.

use crate::binder::with_stack;
use crate::executor::expr::{Cond, Expr, SubqueryCall};
use crate::executor::plan::*;

/// A subquery where it stands in an expression.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Its place among the plan's.
    pub subplan: usize,
    /// Position of the wanted column.
    pub column: usize,
    /// Only whether there is a row, or one that compares, is asked.
    pub is_test: bool,
}

impl Call {
    /// Of a subplan, wherever it is asked.
    pub fn of(subplan: usize) -> Call {
        Call {
            subplan,
            column: 0,
            is_test: false,
        }
    }
}

/// Calls in the expressions of an operator, not of its inputs.
pub(super) fn calls(node: &Node) -> Vec<Call> {
    let mut found = Found(Vec::new());
    match &node.op {
        Op::Values(rows) => rows.iter().for_each(|row| found.exprs(row)),
        Op::Scan(scan) => found.scan(scan),
        Op::Virtual(v) => found.exprs(&v.args),
        Op::Filter(f) => found.cond(&f.condition),
        Op::Compute(c) => found.exprs(&c.items),
        Op::NestedLoop(j) => found.conds(&j.on),
        Op::HashJoin(j) => {
            found.exprs(&j.probe_keys);
            found.exprs(&j.build_keys);
            found.conds(&j.residual);
        }
        Op::MergeJoin(j) => found.conds(&j.residual),
        Op::Aggregate(a) => found.exprs(a.aggregates.iter().filter_map(|c| c.arg.as_ref())),
        Op::Sort(s) => found.exprs(&s.limit),
        Op::Top(t) => found.exprs(t.count.iter().chain(&t.offset)),
        Op::Window(w) => w.calls.iter().for_each(|c| found.exprs(&c.args)),
        Op::One
        | Op::Empty
        | Op::Concat(_)
        | Op::SetHash(_)
        | Op::Keep(_)
        | Op::Recursive(_)
        | Op::WorkTable(_) => {}
    }
    found.0
}

struct Found(Vec<Call>);

impl Found {
    fn scan(&mut self, scan: &ScanNode) {
        if let Some(seek) = &scan.seek {
            for key in &seek.equal {
                match key {
                    SeekKey::One(value) => self.expr(value),
                    SeekKey::List(values) => self.exprs(values),
                    SeekKey::Null => {}
                }
            }
            self.exprs(seek.low.iter().chain(&seek.high).map(|b| &b.value));
        }
        self.exprs(scan.leaf.iter().map(|l| &l.value));
        self.conds(scan.filter.iter().chain(&scan.lookup_filter));
    }

    fn exprs<'e>(&mut self, list: impl IntoIterator<Item = &'e Expr>) {
        list.into_iter().for_each(|e| self.expr(e));
    }

    fn conds<'e>(&mut self, list: impl IntoIterator<Item = &'e Cond>) {
        list.into_iter().for_each(|c| self.cond(c));
    }

    fn call(&mut self, call: &SubqueryCall, is_test: bool) {
        self.exprs(call.bind.iter().map(|(e, _)| e));
        self.0.push(Call {
            subplan: call.subplan,
            column: call.column,
            is_test,
        });
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(_)
            | Expr::Slot(_)
            | Expr::Param(_)
            | Expr::Variable(_)
            | Expr::NextValue(_)
            | Expr::Local => {}
            Expr::Convert { input, style, .. } => {
                self.expr(input);
                self.exprs(style.as_deref());
            }
            Expr::Arith { left, right, .. } | Expr::Concat { left, right, .. } => {
                self.exprs([&**left, &**right]);
            }
            Expr::Negate(e, _) | Expr::BitNot(e, _) => self.expr(e),
            Expr::Case { whens, otherwise } => {
                for (when, then) in whens {
                    self.cond(when);
                    self.expr(then);
                }
                self.exprs(otherwise.as_deref());
            }
            Expr::Coalesce(args)
            | Expr::Call { args, .. }
            | Expr::System { args, .. }
            | Expr::UserFunction { args, .. } => self.exprs(args),
            Expr::Let { value, body } => self.exprs([&**value, &**body]),
            Expr::Subquery(call) => self.call(call, false),
            Expr::Cond(cond) => self.cond(cond),
            Expr::Deep(inner) => with_stack(|| self.expr(inner)),
        }
    }

    fn cond(&mut self, cond: &Cond) {
        match cond {
            Cond::Const(_) => {}
            Cond::Compare { left, right, .. } | Cond::IsDistinct(left, right, _) => {
                self.exprs([left, right]);
            }
            Cond::And(parts) | Cond::Or(parts) => self.conds(parts),
            Cond::Not(inner) => self.cond(inner),
            Cond::IsNull(e) => self.expr(e),
            Cond::Like {
                expr,
                pattern,
                escape,
                ..
            } => {
                self.exprs([expr, pattern]);
                self.exprs(escape);
            }
            Cond::InList { expr, list, .. } => {
                self.expr(expr);
                self.exprs(list);
            }
            Cond::InSet { expr, .. } => self.expr(expr),
            Cond::Exists(call) => self.call(call, true),
            Cond::Any {
                call, expr, value, ..
            } => {
                self.exprs([expr, value]);
                self.call(call, true);
            }
            Cond::Let { value, body } => {
                self.expr(value);
                self.cond(body);
            }
        }
    }
}
