//! SHOWPLAN_TEXT and SHOWPLAN_ALL: a plan in the product's words.

use crate::binder::ColumnInfo;
use crate::binder::tree::ColId;
use crate::executor::expr::{Cond, Expr};
use crate::executor::plan::*;
use daruma_catalog::IndexKind;
use daruma_syntax::ast::CompareOp;
use daruma_value::types::BinaryOp;
use daruma_value::{DataType, Value};

/// One line of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownLine {
    pub text: String,
    pub physical: &'static str,
    pub logical: String,
    pub argument: String,
    pub rows: f64,
    pub cost: f64,
    pub depth: usize,
    /// Position of the operator above; `None` for the root.
    pub parent: Option<usize>,
}

/// Placeholder of an operand that an expression looks at more than once.
const LOCAL: &str = "[Operand]";
/// Longer texts are not repeated for each member of IN.
const REPEATED_CHARS_MAX: usize = 256;

/// Writes a plan as the lines of SHOWPLAN.
pub struct Shower<'p> {
    pub plan: &'p Plan,
    pub columns: &'p [ColumnInfo],
    lines: Vec<ShownLine>,
}

/// The lines of the plan and of its subplans, from the root.
pub fn lines(plan: &Plan, columns: &[ColumnInfo]) -> Vec<ShownLine> {
    let mut shower = Shower {
        plan,
        columns,
        lines: Vec::new(),
    };
    shower.node(&plan.root, None, 1);
    for subplan in &plan.subplans {
        shower.node(&subplan.node, Some(0), 2);
    }
    shower.finish()
}

struct Shown {
    physical: &'static str,
    logical: String,
    argument: String,
}

impl Shower<'_> {
    /// Draws the tree: a bar for each level that has more branches to come.
    fn finish(mut self) -> Vec<ShownLine> {
        let last_child: Vec<bool> = (0..self.lines.len())
            .map(|i| {
                let parent = self.lines[i].parent;
                !self.lines.iter().skip(i + 1).any(|l| l.parent == parent)
            })
            .collect();
        for i in 0..self.lines.len() {
            let mut bars = Vec::new();
            let mut at = self.lines[i].parent;
            while let Some(p) = at {
                bars.push(if last_child[p] { "     " } else { "  |  " });
                at = self.lines[p].parent;
            }
            bars.reverse();
            let line = &self.lines[i];
            let head = if line.physical == line.logical {
                line.physical.to_string()
            } else {
                format!("{}({})", line.physical, line.logical)
            };
            let argument = &line.argument;
            // These two say nothing more by their logical name.
            let plain = line.physical == line.logical
                || matches!(line.physical, "Stream Aggregate" | "Sort" | "Index Spool");
            let body = if argument.is_empty() {
                head
            } else if plain {
                format!("{}({argument})", line.physical)
            } else {
                format!("{}({}, {argument})", line.physical, line.logical)
            };
            self.lines[i].text = format!("{}  |--{body}", bars.concat());
        }
        self.lines
    }

    fn node(&mut self, node: &Node, parent: Option<usize>, depth: usize) {
        let shown = self.describe(node);
        self.lines.push(ShownLine {
            text: String::new(),
            physical: shown.physical,
            logical: shown.logical,
            argument: shown.argument,
            rows: node.rows,
            cost: node.cost * 1e-5,
            depth,
            parent,
        });
        let own = self.lines.len() - 1;
        for input in inputs(node) {
            self.node(input, Some(own), depth + 1);
        }
    }

    fn name(&self, id: ColId) -> String {
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

    fn names(&self, ids: &[ColId]) -> String {
        ids.iter()
            .map(|id| self.name(*id))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn describe(&self, node: &Node) -> Shown {
        let same = |name: &'static str, argument: String| Shown {
            physical: name,
            logical: name.to_string(),
            argument,
        };
        match &node.op {
            Op::One | Op::Values(_) | Op::Empty => same("Constant Scan", String::new()),
            Op::Scan(scan) => self.scan(scan),
            Op::Virtual(v) => same(
                "Table-valued function",
                format!("OBJECT:([{}])", v.table.name()),
            ),
            Op::Filter(f) => same(
                "Filter",
                format!(
                    "{}:({})",
                    if f.startup { "STARTUP EXPR" } else { "WHERE" },
                    self.cond(&f.condition, &f.input.schema)
                ),
            ),
            Op::Compute(c) => {
                let defined = node.schema.iter().zip(&c.items);
                let parts: Vec<String> = defined
                    .map(|(id, e)| format!("{}={}", self.name(*id), self.expr(e, &c.input.schema)))
                    .collect();
                same("Compute Scalar", format!("DEFINE:({})", parts.join(", ")))
            }
            Op::NestedLoop(j) => {
                let outer: Vec<ColId> = j
                    .bind
                    .iter()
                    .filter_map(|(p, _)| j.outer.schema.get(*p).copied())
                    .collect();
                let argument = match (&j.on, outer.is_empty()) {
                    (Some(on), _) => {
                        let schema: Vec<ColId> = j
                            .outer
                            .schema
                            .iter()
                            .chain(&j.inner.schema)
                            .copied()
                            .collect();
                        format!("WHERE:({})", self.cond(on, &schema))
                    }
                    (None, false) => format!("OUTER REFERENCES:({})", self.names(&outer)),
                    (None, true) => String::new(),
                };
                Shown {
                    physical: "Nested Loops",
                    logical: join_name(j.kind).into(),
                    argument,
                }
            }
            Op::HashJoin(j) => {
                let keys = |exprs: &[Expr], schema: &[ColId]| {
                    exprs
                        .iter()
                        .map(|e| self.expr(e, schema))
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                let argument = format!(
                    "HASH:({})=({})",
                    keys(&j.build_keys, &j.build.schema),
                    keys(&j.probe_keys, &j.probe.schema)
                );
                Shown {
                    physical: "Hash Match",
                    logical: join_name(j.kind).into(),
                    argument,
                }
            }
            Op::MergeJoin(j) => {
                let keys = |at: &[usize], schema: &[ColId]| {
                    at.iter()
                        .filter_map(|p| schema.get(*p))
                        .map(|id| self.name(*id))
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                let argument = format!(
                    "MERGE:({})=({})",
                    keys(&j.left_keys, &j.left.schema),
                    keys(&j.right_keys, &j.right.schema)
                );
                Shown {
                    physical: "Merge Join",
                    logical: join_name(j.kind).into(),
                    argument,
                }
            }
            Op::Aggregate(a) => self.aggregate(a, node),
            Op::Sort(s) => {
                let keys: Vec<String> = s
                    .keys
                    .iter()
                    .filter_map(|k| s.input.schema.get(k.position).map(|id| (id, k.descending)))
                    .map(|(id, d)| format!("{} {}", self.name(*id), if d { "DESC" } else { "ASC" }))
                    .collect();
                let limit: Vec<String> = s
                    .limit
                    .iter()
                    .map(|l| self.expr(l, &[]))
                    .map(
                        |text| match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
                            Some(number) => number.to_string(),
                            None => text,
                        },
                    )
                    .collect();
                let (logical, top) = match limit.as_slice() {
                    [] => ("Sort", String::new()),
                    parts => ("TopN Sort", format!("TOP {}, ", parts.join("+"))),
                };
                Shown {
                    physical: "Sort",
                    logical: logical.into(),
                    argument: format!("{top}ORDER BY:({})", keys.join(", ")),
                }
            }
            Op::Top(t) => {
                let count = t
                    .count
                    .as_ref()
                    .map(|c| self.expr(c, &[]))
                    .unwrap_or_default();
                let percent = if t.percent { " PERCENT" } else { "" };
                same("Top", format!("TOP EXPRESSION:({count}{percent})"))
            }
            Op::Window(w) => {
                let made = node
                    .schema
                    .iter()
                    .skip(w.input.schema.len())
                    .copied()
                    .collect::<Vec<_>>();
                same(
                    "Window Aggregate",
                    format!("DEFINE:({})", self.names(&made)),
                )
            }
            Op::Concat(_) => same("Concatenation", String::new()),
            Op::SetHash(s) => Shown {
                physical: "Hash Match",
                logical: if s.except {
                    "Left Anti Semi Join"
                } else {
                    "Left Semi Join"
                }
                .into(),
                argument: String::new(),
            },
            Op::Recursive(_) => Shown {
                physical: "Index Spool",
                logical: "Lazy Spool".into(),
                argument: "WITH STACK".into(),
            },
            Op::WorkTable(_) => Shown {
                physical: "Table Spool",
                logical: "Lazy Spool".into(),
                argument: String::new(),
            },
        }
    }

    fn aggregate(&self, a: &AggregateNode, node: &Node) -> Shown {
        let keys: Vec<ColId> = a
            .keys
            .iter()
            .filter_map(|p| a.input.schema.get(*p).copied())
            .collect();
        if a.distinct {
            let (physical, logical) = if a.stream {
                ("Stream Aggregate", "Aggregate")
            } else {
                ("Hash Match", "Aggregate")
            };
            let word = if a.stream { "GROUP BY" } else { "HASH" };
            return Shown {
                physical,
                logical: logical.into(),
                argument: format!("{word}:({})", self.names(&keys)),
            };
        }
        let calls: Vec<String> = node
            .schema
            .iter()
            .skip(keys.len() + usize::from(a.sets.is_some()))
            .zip(&a.aggregates)
            .map(|(id, c)| {
                let arg = c
                    .arg
                    .as_ref()
                    .map_or("*".into(), |e| self.expr(e, &a.input.schema));
                format!("{}={}({arg})", self.name(*id), function_name(c))
            })
            .collect();
        let mut parts = Vec::new();
        if !keys.is_empty() {
            parts.push(format!(
                "{}:({})",
                if a.stream { "GROUP BY" } else { "HASH" },
                self.names(&keys)
            ));
        }
        if !calls.is_empty() {
            parts.push(format!("DEFINE:({})", calls.join(", ")));
        }
        Shown {
            physical: if a.stream {
                "Stream Aggregate"
            } else {
                "Hash Match"
            },
            logical: "Aggregate".into(),
            argument: parts.join(" "),
        }
    }

    fn scan(&self, scan: &ScanNode) -> Shown {
        let table = &scan.access.table;
        let Ok(index) = scan.access.index(scan.index) else {
            return Shown {
                physical: "Table Scan",
                logical: "Table Scan".into(),
                argument: String::new(),
            };
        };
        let physical = match (index.def.kind, scan.seek.is_some()) {
            (IndexKind::Heap, _) => "Table Scan",
            (IndexKind::Clustered, false) => "Clustered Index Scan",
            (IndexKind::Clustered, true) => "Clustered Index Seek",
            (IndexKind::Nonclustered, false) => "Index Scan",
            (IndexKind::Nonclustered, true) => "Index Seek",
        };
        let mut object = format!(
            "[{}].[{}].[{}]",
            table.database.name(),
            table.schema_name,
            table.name
        );
        if let Some(name) = &index.def.name
            && index.def.kind != IndexKind::Heap
        {
            object.push_str(&format!(".[{name}]"));
        }
        if scan.alias != table.name {
            object.push_str(&format!(" AS [{}]", scan.alias));
        }
        let mut argument = format!("OBJECT:({object})");
        if let Some(seek) = &scan.seek {
            argument.push_str(&format!(", SEEK:({})", self.seek(seek, scan, index)));
        }
        let schema: Vec<ColId> = Vec::new();
        let mut conditions: Vec<String> = scan
            .leaf
            .iter()
            .map(|l| {
                let ordinal = index.carried.get(l.position).copied();
                let name = ordinal
                    .and_then(|o| scan.access.def().columns.get(o))
                    .map_or("", |c| c.name.as_str());
                format!(
                    "{}{}{}",
                    self.column(scan, name),
                    compare_text(l.op),
                    self.expr(&l.value, &schema)
                )
            })
            .collect();
        let outputs = self.output_names(scan, index);
        for filter in scan.filter.iter().chain(&scan.lookup_filter) {
            conditions.push(self.cond_named(filter, &outputs));
        }
        if !conditions.is_empty() {
            argument.push_str(&format!(", WHERE:({})", conditions.join(" AND ")));
        }
        if scan.seek.is_some() || scan.backward {
            argument.push_str(if scan.backward {
                " ORDERED BACKWARD"
            } else {
                " ORDERED FORWARD"
            });
        }
        if scan.lookup {
            argument.push_str(" LOOKUP");
        }
        Shown {
            physical,
            logical: physical.to_string(),
            argument,
        }
    }

    fn column(&self, scan: &ScanNode, name: &str) -> String {
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

    fn output_names(&self, scan: &ScanNode, index: &crate::access::IndexAccess) -> Vec<String> {
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

    fn seek(&self, seek: &Seek, scan: &ScanNode, index: &crate::access::IndexAccess) -> String {
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

    fn expr(&self, expr: &Expr, schema: &[ColId]) -> String {
        let names: Vec<String> = schema.iter().map(|id| self.name(*id)).collect();
        self.expr_named(expr, &names)
    }

    fn cond(&self, cond: &Cond, schema: &[ColId]) -> String {
        let names: Vec<String> = schema.iter().map(|id| self.name(*id)).collect();
        self.cond_named(cond, &names)
    }

    fn expr_named(&self, expr: &Expr, names: &[String]) -> String {
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

    fn cond_named(&self, cond: &Cond, names: &[String]) -> String {
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
                    compare_text(*op),
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
                compare_text(*op)
            ),
        }
    }
}

/// An expression with the operand that it looks at more than once.
fn shared(value: &str, body: &str) -> String {
    format!("({body} WITH {LOCAL}={value})")
}

fn inputs(node: &Node) -> Vec<&Node> {
    match &node.op {
        Op::Filter(n) => vec![&n.input],
        Op::Compute(n) => vec![&n.input],
        Op::NestedLoop(n) => vec![&n.outer, &n.inner],
        // The product shows the build side first.
        Op::HashJoin(n) => vec![&n.build, &n.probe],
        Op::MergeJoin(n) => vec![&n.left, &n.right],
        Op::Aggregate(n) => vec![&n.input],
        Op::Sort(n) => vec![&n.input],
        Op::Top(n) => vec![&n.input],
        Op::Window(n) => vec![&n.input],
        Op::Concat(n) => n.iter().collect(),
        Op::SetHash(n) => vec![&n.left, &n.right],
        Op::Recursive(n) => vec![&n.anchor, &n.step],
        _ => Vec::new(),
    }
}

fn join_name(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "Inner Join",
        JoinKind::Left => "Left Outer Join",
        JoinKind::Full => "Full Outer Join",
        JoinKind::Semi => "Left Semi Join",
        JoinKind::Anti => "Left Anti Semi Join",
    }
}

fn function_name(call: &AggregateCall) -> String {
    let name = format!("{:?}", call.function).to_uppercase();
    if call.distinct {
        format!("{name} DISTINCT")
    } else {
        name
    }
}

fn compare_text(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Equal => "=",
        CompareOp::NotEqual => "<>",
        CompareOp::Less => "<",
        CompareOp::LessOrEqual | CompareOp::NotGreater => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterOrEqual | CompareOp::NotLess => ">=",
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
fn constant(value: &Value) -> String {
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
