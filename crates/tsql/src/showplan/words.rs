//! Columns, expressions and conditions of a plan as text, in the product's words.
//!
//! Theory: operators know positions and numbers only; the binder's list of columns gives them their names again. What is written
//! here stands in SHOWPLAN_TEXT, and as `ScalarString` in plans as XML.

use crate::access::IndexAccess;
use crate::binder::ColumnInfo;
use crate::binder::tree::ColId;
use crate::executor::expr::{Cond, Expr};
use crate::executor::plan::*;
use daruma_value::types::BinaryOp;
use daruma_value::{DataType, Value};

/// Placeholder of an operand that an expression looks at more than once.
const LOCAL: &str = "[Operand]";
/// Longer texts are not repeated for each member of IN.
const REPEATED_CHARS_MAX: usize = 256;

/// Names what the operators of a plan mean.
#[derive(Clone, Copy)]
pub(super) struct Words<'p> {
    pub plan: &'p Plan,
    pub columns: &'p [ColumnInfo],
}

impl Words<'_> {
    /// The column without its table.
    pub fn short_name(&self, id: ColId) -> String {
        match self.columns.get(id as usize) {
            Some(info) if !info.name.is_empty() => info.name.clone(),
            _ => format!("Expr{}", 1000 + id),
        }
    }

    /// The column with its table, each part in brackets.
    pub fn name(&self, id: ColId) -> String {
        match self.columns.get(id as usize) {
            Some(info) if !info.qualified.is_empty() && info.qualified.contains('.') => info
                .qualified
                .split('.')
                .map(|p| format!("[{p}]"))
                .collect::<Vec<_>>()
                .join("."),
            Some(info) if !info.name.is_empty() => format!("[{}]", info.name),
            _ => format!("[Expr{}]", 1000 + id),
        }
    }

    /// Columns, with commas between them.
    pub fn names(&self, ids: &[ColId]) -> String {
        ids.iter()
            .map(|id| self.name(*id))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// A comparison that is evaluated on encoded rows.
    pub fn leaf(&self, leaf: &LeafCond, scan: &ScanNode, index: &IndexAccess) -> String {
        format!(
            "{}{}{}",
            self.column(scan, column_at(scan, index, leaf.position)),
            leaf.op.text(),
            self.expr(&leaf.value, &[])
        )
    }

    /// A column of the table that is scanned.
    pub fn column(&self, scan: &ScanNode, name: &str) -> String {
        let table = &scan.access.table;
        if scan.alias != table.name {
            return format!("[{}].[{name}]", scan.alias);
        }
        format!(
            "[{}].[{}].[{}].[{name}]",
            table.database.name(),
            table.schema_name,
            table.name
        )
    }

    /// Columns that a scan gives; empty for keys and stamps.
    pub fn output_names(&self, scan: &ScanNode, index: &IndexAccess) -> Vec<String> {
        let of = |output: &ScanOutput| {
            let ordinal = match output {
                ScanOutput::Index(p) => index.carried.get(*p).copied(),
                ScanOutput::Table(p) => scan.access.primary().carried.get(*p).copied(),
                _ => None,
            };
            let name = ordinal
                .and_then(|o| scan.access.def().columns.get(o))
                .map_or("", |c| c.name.as_str());
            self.column(scan, name)
        };
        scan.outputs.iter().map(of).collect()
    }

    /// Conditions on the key that a seek meets.
    pub fn seek(&self, seek: &Seek, scan: &ScanNode, index: &IndexAccess) -> String {
        let name = |position: usize| {
            let column = index
                .key
                .get(position)
                .and_then(|k| scan.access.def().columns.get(k.ordinal));
            self.column(scan, column.map_or("", |c| c.name.as_str()))
        };
        let mut parts: Vec<String> = seek
            .equal
            .iter()
            .enumerate()
            .map(|(i, part)| match part {
                SeekKey::One(e) => format!("{}={}", name(i), self.expr(e, &[])),
                SeekKey::Null => format!("{}=NULL", name(i)),
                SeekKey::List(list) => {
                    let each: Vec<String> = list
                        .iter()
                        .map(|e| format!("{}={}", name(i), self.expr(e, &[])))
                        .collect();
                    each.join(" OR ")
                }
            })
            .collect();
        let next = name(seek.equal.len());
        if let Some(low) = &seek.low {
            parts.push(format!(
                "{next} {} {}",
                if low.inclusive { ">=" } else { ">" },
                self.expr(&low.value, &[])
            ));
        }
        if let Some(high) = &seek.high {
            parts.push(format!(
                "{next} {} {}",
                if high.inclusive { "<=" } else { "<" },
                self.expr(&high.value, &[])
            ));
        }
        parts.join(" AND ")
    }

    /// An expression over a row of these columns.
    pub fn expr(&self, expr: &Expr, schema: &[ColId]) -> String {
        let names: Vec<String> = schema.iter().map(|id| self.name(*id)).collect();
        self.expr_named(expr, &names)
    }

    /// A condition over a row of these columns.
    pub fn cond(&self, cond: &Cond, schema: &[ColId]) -> String {
        let names: Vec<String> = schema.iter().map(|id| self.name(*id)).collect();
        self.cond_named(cond, &names)
    }

    /// An expression over a row whose columns have these names.
    pub fn expr_named(&self, expr: &Expr, names: &[String]) -> String {
        let list = |args: &[Expr]| {
            args.iter()
                .map(|a| self.expr_named(a, names))
                .collect::<Vec<_>>()
                .join(",")
        };
        match expr {
            Expr::Const(value) => constant(value),
            Expr::Slot(slot) => names.get(*slot).cloned().unwrap_or_default(),
            Expr::Param(slot) => self.param_name(*slot),
            Expr::Variable(slot) => self
                .plan
                .variables
                .get(*slot)
                .map_or(String::new(), |v| format!("[{v}]")),
            Expr::Convert { input, to, .. } => {
                format!("CONVERT_IMPLICIT({to},{},0)", self.expr_named(input, names))
            }
            Expr::Arith {
                op, left, right, ..
            } => {
                format!(
                    "{}{}{}",
                    self.expr_named(left, names),
                    operator_text(*op),
                    self.expr_named(right, names)
                )
            }
            Expr::Concat { left, right, .. } => format!(
                "{}+{}",
                self.expr_named(left, names),
                self.expr_named(right, names)
            ),
            Expr::Negate(e, _) => format!("-{}", self.expr_named(e, names)),
            Expr::BitNot(e, _) => format!("~{}", self.expr_named(e, names)),
            Expr::Case { whens, otherwise } => {
                let mut text = String::from("CASE");
                for (when, then) in whens {
                    text.push_str(&format!(
                        " WHEN {} THEN {}",
                        self.cond_named(when, names),
                        self.expr_named(then, names)
                    ));
                }
                if let Some(otherwise) = otherwise {
                    text.push_str(&format!(" ELSE {}", self.expr_named(otherwise, names)));
                }
                text + " END"
            }
            Expr::Coalesce(args) => format!("isnull({})", list(args)),
            Expr::Call { function, args } => format!("{}({})", function.name(), list(args)),
            Expr::System { name, args } => format!("{name}({})", list(args)),
            Expr::UserFunction { name, args, .. } => format!("{}({})", name.dotted(), list(args)),
            Expr::NextValue(name) => format!("NEXT VALUE FOR {}", name.dotted()),
            Expr::Let { value, body } => {
                let value = self.expr_named(value, names);
                shared(&value, &self.expr_named(body, names))
            }
            Expr::Local => LOCAL.into(),
            Expr::Subquery(_) => "[Subquery]".into(),
            Expr::Cond(cond) => self.cond_named(cond, names),
            Expr::Deep(inner) => crate::binder::with_stack(|| self.expr_named(inner, names)),
        }
    }

    fn param_name(&self, slot: usize) -> String {
        self.plan
            .parameter_columns
            .get(slot)
            .map_or(String::new(), |id| self.name(*id))
    }

    /// A condition over a row whose columns have these names.
    pub fn cond_named(&self, cond: &Cond, names: &[String]) -> String {
        let list_text = |args: &[Expr]| {
            let each = args.iter().map(|a| self.expr_named(a, names));
            each.collect::<Vec<_>>().join(",")
        };
        let join = |parts: &[Cond], word: &str| {
            parts
                .iter()
                .map(|p| self.cond_named(p, names))
                .collect::<Vec<_>>()
                .join(word)
        };
        match cond {
            Cond::Const(value) => match value {
                Some(true) => "(1)".into(),
                _ => "(0)".into(),
            },
            Cond::Compare {
                op, left, right, ..
            } => {
                format!(
                    "{}{}{}",
                    self.expr_named(left, names),
                    op.text(),
                    self.expr_named(right, names)
                )
            }
            Cond::And(parts) => join(parts, " AND "),
            Cond::Or(parts) => format!("({})", join(parts, " OR ")),
            Cond::Not(inner) => format!("NOT ({})", self.cond_named(inner, names)),
            Cond::IsNull(e) => format!("{} IS NULL", self.expr_named(e, names)),
            Cond::IsDistinct(a, b, _) => {
                format!(
                    "{} IS DISTINCT FROM {}",
                    self.expr_named(a, names),
                    self.expr_named(b, names)
                )
            }
            Cond::Like { expr, pattern, .. } => {
                format!(
                    "{} like {}",
                    self.expr_named(expr, names),
                    self.expr_named(pattern, names)
                )
            }
            Cond::Let { value, body } => {
                let value = self.expr_named(value, names);
                shared(&value, &self.cond_named(body, names))
            }
            Cond::InList { expr, list, .. } => {
                let left = self.expr_named(expr, names);
                if left.len() > REPEATED_CHARS_MAX {
                    return format!("{left} IN ({})", list_text(list));
                }
                let each: Vec<String> = list
                    .iter()
                    .map(|e| format!("{left}={}", self.expr_named(e, names)))
                    .collect();
                format!("({})", each.join(" OR "))
            }
            Cond::InSet { expr, keys, .. } => format!(
                "{} IN ({} values)",
                self.expr_named(expr, names),
                keys.len()
            ),
            Cond::Exists(_) => "EXISTS [Subquery]".into(),
            Cond::Any { expr, op, .. } => format!(
                "{}{}ANY [Subquery]",
                self.expr_named(expr, names),
                op.text()
            ),
        }
    }
}

/// An expression with the operand that it looks at more than once.
fn shared(value: &str, body: &str) -> String {
    format!("({body} WITH {LOCAL}={value})")
}

pub(super) fn function_name(call: &AggregateCall) -> String {
    let name = format!("{:?}", call.function).to_uppercase();
    if call.distinct {
        format!("{name} DISTINCT")
    } else {
        name
    }
}

fn operator_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
    }
}

/// Numbers in parentheses, text in quotes, as the product shows constants.
pub(super) fn constant(value: &Value) -> String {
    let text = daruma_value::convert::convert(
        value,
        value.natural_type(),
        DataType::NVARCHAR_MAX,
        None,
        &daruma_value::convert::ConvertContext::default(),
    );
    let text = match text {
        Ok(Value::Str(s)) => s.to_string(),
        _ => String::new(),
    };
    match value {
        Value::Null => "NULL".into(),
        Value::Str(_) => format!("'{text}'"),
        Value::Bytes(b) => format!(
            "0x{}",
            b.iter().map(|b| format!("{b:02X}")).collect::<String>()
        ),
        v if v.as_f64().is_some() => format!("({text})"),
        _ => format!("'{text}'"),
    }
}

/// Name of the column at a position of the index's rows.
pub(super) fn column_at<'p>(scan: &'p ScanNode, index: &IndexAccess, position: usize) -> &'p str {
    let ordinal = index.carried.get(position).copied();
    let column = ordinal.and_then(|o| scan.access.def().columns.get(o));
    column.map_or("", |c| c.name.as_str())
}
