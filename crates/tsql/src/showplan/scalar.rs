//! Expressions and conditions as elements: `ScalarOperator` with what it computes inside, and as text at the top.
//!
//! Theory: tools read the text of the outermost element and the column references inside. What the schema has no element for is an
//! `Intrinsic`, a function of its operands.

use super::operators::Drawer;
use super::words::{column_at, constant, function_name};
use crate::access::IndexAccess;
use crate::binder::tree::ColId;
use crate::binder::with_stack;
use crate::executor::expr::{Cond, Expr, SubqueryCall};
use crate::executor::plan::{AggregateCall, LeafCond, ScanNode};
use daruma_syntax::ast::CompareOp;
use daruma_value::types::BinaryOp;

/// Deeper parts of an expression are not drawn; the text has them. Three elements a level leave room for operators around them in the
/// 128 levels that readers take.
const DEPTH_MAX: u32 = 32;
/// A longer operand is not repeated for each member of IN.
const REPEATED_CHARS_MAX: usize = 256;

/// What columns an expression's positions are.
#[derive(Clone, Copy)]
pub(super) enum Columns<'s> {
    /// Those of a row between operators.
    Row(&'s [ColId]),
    /// Those that a scan gives; its conditions name the table's columns.
    Scan(&'s [ColId], &'s [String]),
}

impl Columns<'_> {
    fn id(&self, slot: usize) -> Option<ColId> {
        let (Columns::Row(ids) | Columns::Scan(ids, _)) = self;
        ids.get(slot).copied()
    }
}

impl Drawer<'_, '_> {
    /// A condition in an element of this name.
    pub fn predicate(&mut self, element: &'static str, cond: &Cond, columns: Columns<'_>) {
        self.w.open(element);
        let text = self.cond_text(cond, columns);
        self.scalar(&text, |d| d.cond(cond, columns, 0));
        self.w.close();
    }

    /// Conditions that all hold: of a scan, on encoded rows and on decoded ones.
    pub fn conditions(
        &mut self,
        scan: &ScanNode,
        leaf: &[LeafCond],
        conds: &[&Cond],
        columns: Columns<'_>,
    ) {
        let Ok(index) = scan.access.index(scan.index) else {
            return;
        };
        let leaf_texts = leaf.iter().map(|l| self.words.leaf(l, scan, index));
        let cond_texts = conds.iter().map(|c| self.cond_text(c, columns));
        let texts: Vec<String> = leaf_texts.chain(cond_texts).collect();
        if texts.is_empty() {
            return;
        }
        self.w.open("Predicate");
        self.scalar(&texts.join(" AND "), |d| match (leaf, conds) {
            ([], [only]) => d.cond(only, columns, 0),
            ([only], []) => d.leaf(scan, index, only),
            _ => d.logical("AND", |d| {
                leaf.iter().for_each(|l| d.part(|d| d.leaf(scan, index, l)));
                conds.iter().for_each(|c| d.part(|d| d.cond(c, columns, 1)));
            }),
        });
        self.w.close();
    }

    fn leaf(&mut self, scan: &ScanNode, index: &IndexAccess, leaf: &LeafCond) {
        self.compare(compare_name(leaf.op), |d| {
            let name = column_at(scan, index, leaf.position);
            d.part(|d| d.identifier(|d| d.scan_column(scan, name)));
            d.part(|d| d.expr(&leaf.value, Columns::Row(&[]), 2));
        });
    }

    /// An expression with its text.
    pub fn operand(&mut self, expr: &Expr, columns: Columns<'_>) {
        let text = self.expr_text(expr, columns);
        self.scalar(&text, |d| d.expr(expr, columns, 0));
    }

    /// Several values where one could stand, with their text.
    pub fn operands(&mut self, list: &[Expr], columns: Columns<'_>) {
        let texts: Vec<String> = list.iter().map(|e| self.expr_text(e, columns)).collect();
        self.scalar(&texts.join(","), |d| match list {
            [] => d.constant(""),
            list => {
                d.w.open("ScalarExpressionList");
                d.parts(list, columns, 1);
                d.w.close();
            }
        });
    }

    /// NULL with its text.
    pub fn null(&mut self) {
        self.scalar("NULL", |d| d.constant("NULL"));
    }

    /// An aggregate with its text.
    pub fn aggregate_call(&mut self, call: &AggregateCall, schema: &[ColId]) {
        let columns = Columns::Row(schema);
        let arg = call.arg.as_ref();
        let inner = arg.map_or("*".into(), |e| self.expr_text(e, columns));
        let name = function_name(call);
        self.scalar(&format!("{name}({inner})"), |d| {
            d.w.open("Aggregate");
            let kind = name.strip_suffix(" DISTINCT").unwrap_or(&name);
            d.w.attribute("AggType", kind);
            d.w.flag("Distinct", call.distinct);
            if let Some(arg) = arg {
                d.part(|d| d.expr(arg, columns, 1));
            }
            d.w.close();
        });
    }

    fn expr_text(&self, expr: &Expr, columns: Columns<'_>) -> String {
        match columns {
            Columns::Row(schema) => self.words.expr(expr, schema),
            Columns::Scan(_, names) => self.words.expr_named(expr, names),
        }
    }

    fn cond_text(&self, cond: &Cond, columns: Columns<'_>) -> String {
        match columns {
            Columns::Row(schema) => self.words.cond(cond, schema),
            Columns::Scan(_, names) => self.words.cond_named(cond, names),
        }
    }

    fn scalar(&mut self, text: &str, inside: impl FnOnce(&mut Self)) {
        self.w.open("ScalarOperator");
        self.w.attribute("ScalarString", text);
        inside(self);
        self.w.close();
    }

    /// A part of an expression, without a text of its own.
    fn part(&mut self, inside: impl FnOnce(&mut Self)) {
        self.w.open("ScalarOperator");
        inside(self);
        self.w.close();
    }

    fn within(
        &mut self,
        element: &'static str,
        attribute: (&str, &str),
        inside: impl FnOnce(&mut Self),
    ) {
        self.w.open(element);
        self.w.attribute(attribute.0, attribute.1);
        inside(self);
        self.w.close();
    }

    fn logical(&mut self, operation: &str, inside: impl FnOnce(&mut Self)) {
        self.within("Logical", ("Operation", operation), inside);
    }

    fn compare(&mut self, operation: &str, inside: impl FnOnce(&mut Self)) {
        self.within("Compare", ("CompareOp", operation), inside);
    }

    fn intrinsic(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.within("Intrinsic", ("FunctionName", name), inside);
    }

    fn constant(&mut self, text: &str) {
        self.w.empty("Const", &[("ConstValue", text)]);
    }

    fn identifier(&mut self, column: impl FnOnce(&mut Self)) {
        self.w.open("Identifier");
        column(self);
        self.w.close();
    }

    fn named(&mut self, name: &str) {
        self.identifier(|d| d.w.empty("ColumnReference", &[("Column", name)]));
    }

    fn parts<'e>(
        &mut self,
        list: impl IntoIterator<Item = &'e Expr>,
        columns: Columns<'_>,
        depth: u32,
    ) {
        for expr in list {
            self.part(|d| d.expr(expr, columns, depth));
        }
    }

    /// What stands inside of the expression's `ScalarOperator`.
    fn expr(&mut self, expr: &Expr, columns: Columns<'_>, depth: u32) {
        if depth > DEPTH_MAX {
            return self.constant("...");
        }
        let next = depth + 1;
        match expr {
            Expr::Const(value) => self.constant(&constant(value)),
            Expr::Slot(slot) => match columns.id(*slot) {
                Some(id) => self.identifier(|d| d.column(id)),
                None => self.constant(""),
            },
            Expr::Param(slot) => match self.words.plan.parameter_columns.get(*slot) {
                Some(id) => self.identifier(|d| d.column(*id)),
                None => self.constant(""),
            },
            Expr::Variable(slot) => {
                let name = self.words.plan.variables.get(*slot);
                self.named(name.map_or("", |n| n));
            }
            Expr::Convert { input, to, .. } => {
                self.within("Convert", ("DataType", &to.to_string()), |d| {
                    d.w.attribute("Style", "0");
                    d.w.flag("Implicit", true);
                    d.parts([&**input], columns, next);
                });
            }
            Expr::Arith {
                op, left, right, ..
            } => self.arithmetic(arithmetic_name(*op), &[left, right], columns, next),
            Expr::Concat { left, right, .. } => {
                self.arithmetic("ADD", &[left, right], columns, next);
            }
            Expr::Negate(e, _) => self.arithmetic("MINUS", &[e], columns, next),
            Expr::BitNot(e, _) => self.arithmetic("BIT_NOT", &[e], columns, next),
            Expr::Case { whens, otherwise } => {
                self.case(whens, otherwise.as_deref(), columns, next);
            }
            Expr::Coalesce(args) => self.intrinsic("isnull", |d| d.parts(args, columns, next)),
            Expr::Call { function, args } => {
                self.intrinsic(&function.name(), |d| d.parts(args, columns, next));
            }
            Expr::System { name, args } => {
                self.intrinsic(name, |d| d.parts(args, columns, next));
            }
            Expr::UserFunction { name, args, .. } => {
                let name = name.dotted();
                self.within("UserDefinedFunction", ("FunctionName", &name), |d| {
                    d.parts(args, columns, next);
                });
            }
            Expr::NextValue(name) => {
                self.intrinsic(&format!("NEXT VALUE FOR {}", name.dotted()), |_| {});
            }
            Expr::Let { value, body } => {
                self.w.open("ScalarExpressionList");
                self.parts([&**body, &**value], columns, next);
                self.w.close();
            }
            Expr::Local => self.named("Operand"),
            Expr::Subquery(call) => self.subquery(call),
            Expr::Cond(cond) => self.cond(cond, columns, next),
            Expr::Deep(inner) => with_stack(|| self.expr(inner, columns, next)),
        }
    }

    fn arithmetic(
        &mut self,
        operation: &str,
        operands: &[&Expr],
        columns: Columns<'_>,
        depth: u32,
    ) {
        self.within("Arithmetic", ("Operation", operation), |d| {
            d.parts(operands.iter().copied(), columns, depth);
        });
    }

    /// One IF in the ELSE of the other.
    fn case(
        &mut self,
        whens: &[(Cond, Expr)],
        otherwise: Option<&Expr>,
        columns: Columns<'_>,
        depth: u32,
    ) {
        let Some(((when, then), rest)) = whens.split_first() else {
            return match otherwise {
                Some(expr) => self.expr(expr, columns, depth),
                None => self.constant("NULL"),
            };
        };
        if depth > DEPTH_MAX {
            return self.constant("...");
        }
        self.w.open("IF");
        self.w.open("Condition");
        self.part(|d| d.cond(when, columns, depth + 1));
        self.w.close();
        self.w.open("Then");
        self.parts([then], columns, depth + 1);
        self.w.close();
        self.w.open("Else");
        self.part(|d| d.case(rest, otherwise, columns, depth + 1));
        self.w.close();
        self.w.close();
    }

    /// The column that a subquery gives: its plan stands beside the operator's input.
    fn subquery(&mut self, call: &SubqueryCall) {
        let plan = self.words.plan.subplans.get(call.subplan);
        let column = plan.and_then(|p| p.node.schema.get(call.column)).copied();
        match column {
            Some(id) => self.identifier(|d| d.column(id)),
            None => self.named("Subquery"),
        }
    }

    /// What stands inside of the condition's `ScalarOperator`.
    fn cond(&mut self, cond: &Cond, columns: Columns<'_>, depth: u32) {
        if depth > DEPTH_MAX {
            return self.constant("...");
        }
        let next = depth + 1;
        match cond {
            Cond::Const(value) => self.constant(if *value == Some(true) { "(1)" } else { "(0)" }),
            Cond::Compare {
                op, left, right, ..
            } => self.compare(compare_name(*op), |d| d.parts([left, right], columns, next)),
            Cond::And(parts) => self.junction("AND", parts, columns, next),
            Cond::Or(parts) => self.junction("OR", parts, columns, next),
            Cond::Not(inner) => {
                self.logical("NOT", |d| d.part(|d| d.cond(inner, columns, next)));
            }
            Cond::IsNull(e) => self.logical("IS NULL", |d| d.parts([e], columns, next)),
            Cond::IsDistinct(a, b, _) => {
                self.compare("IS NOT", |d| d.parts([a, b], columns, next));
            }
            Cond::Like { expr, pattern, .. } => {
                self.intrinsic("like", |d| d.parts([expr, pattern], columns, next));
            }
            Cond::InList { expr, list, .. } => self.in_list(expr, list, columns, next),
            Cond::InSet { expr, .. } => self.intrinsic("IN", |d| d.parts([expr], columns, next)),
            Cond::Exists(_) => self.intrinsic("EXISTS", |_| {}),
            Cond::Any { call, op, expr, .. } => {
                self.intrinsic(&format!("{} ANY", op.text()), |d| {
                    d.parts([expr], columns, next);
                    d.part(|d| d.subquery(call));
                });
            }
            Cond::Let { value, body } => {
                self.w.open("ScalarExpressionList");
                self.part(|d| d.cond(body, columns, next));
                self.parts([value], columns, next);
                self.w.close();
            }
        }
    }

    fn junction(&mut self, operation: &str, parts: &[Cond], columns: Columns<'_>, depth: u32) {
        match parts {
            [] => self.constant(if operation == "AND" { "(1)" } else { "(0)" }),
            parts => self.logical(operation, |d| {
                for cond in parts {
                    d.part(|d| d.cond(cond, columns, depth));
                }
            }),
        }
    }

    fn in_list(&mut self, expr: &Expr, list: &[Expr], columns: Columns<'_>, depth: u32) {
        if list.is_empty() || self.expr_text(expr, columns).len() > REPEATED_CHARS_MAX {
            let all = std::iter::once(expr).chain(list);
            return self.intrinsic("IN", |d| d.parts(all, columns, depth));
        }
        self.logical("OR", |d| {
            for member in list {
                d.part(|d| d.compare("EQ", |d| d.parts([expr, member], columns, depth + 1)));
            }
        });
    }
}

fn compare_name(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Equal => "EQ",
        CompareOp::NotEqual => "NE",
        CompareOp::Less => "LT",
        CompareOp::LessOrEqual | CompareOp::NotGreater => "LE",
        CompareOp::Greater => "GT",
        CompareOp::GreaterOrEqual | CompareOp::NotLess => "GE",
    }
}

fn arithmetic_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "ADD",
        BinaryOp::Subtract => "SUB",
        BinaryOp::Multiply => "MULT",
        BinaryOp::Divide => "DIV",
        BinaryOp::Modulo => "MOD",
        BinaryOp::BitAnd => "BIT_AND",
        BinaryOp::BitOr => "BIT_OR",
        BinaryOp::BitXor => "BIT_XOR",
    }
}
