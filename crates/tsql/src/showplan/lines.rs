//! SHOWPLAN_TEXT and SHOWPLAN_ALL: a plan as lines.

use super::words::{Words, function_name};
use super::{
    COST_UNIT, Picture, defined, inputs, joined, names, outer_references, table_name, taken,
};
use crate::binder::tree::ColId;
use crate::executor::expr::Expr;
use crate::executor::plan::*;
use crate::executor::{Actual, ActualRows};

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
    /// What it did, if that was counted.
    pub actual: Option<Actual>,
    /// Position of the operator above; `None` for the root.
    pub parent: Option<usize>,
}

/// Writes a plan as the lines of SHOWPLAN.
struct Shower<'p> {
    words: Words<'p>,
    actual: Option<&'p ActualRows>,
    lines: Vec<ShownLine>,
}

/// The operators of a statement. That which writes the rows stands above the plan that finds them.
pub(super) fn all(picture: &Picture<'_>) -> Vec<ShownLine> {
    let below = picture.source.map(|words| lines(words, picture.actual));
    let mut below = below.unwrap_or_default();
    let Some(change) = &picture.change else {
        return below;
    };
    for line in &mut below {
        line.text.insert_str(0, "     ");
        line.depth += 1;
        line.parent = Some(line.parent.map_or(0, |p| p + 1));
    }
    let [physical, logical] = change.names();
    let argument = format!("OBJECT:({})", change.object());
    let first = ShownLine {
        text: format!("  |--{physical}({argument})"),
        physical,
        logical: logical.to_string(),
        argument,
        rows: below.first().map_or(1.0, |l| l.rows),
        cost: below.first().map_or(0.0, |l| l.cost),
        depth: 1,
        actual: picture.actual.map(ActualRows::of_change),
        parent: None,
    };
    std::iter::once(first).chain(below).collect()
}

/// The lines of the plan and of its subplans, from the root.
fn lines(words: Words<'_>, actual: Option<&ActualRows>) -> Vec<ShownLine> {
    let mut shower = Shower {
        words,
        actual,
        lines: Vec::new(),
    };
    shower.node(&words.plan.root, None, 1);
    for subplan in &words.plan.subplans {
        shower.node(&subplan.node, Some(0), 2);
    }
    shower.finish()
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
        let [physical, logical] = names(node);
        self.lines.push(ShownLine {
            text: String::new(),
            physical,
            logical: logical.to_string(),
            argument: self.argument(node),
            rows: node.rows,
            cost: node.cost * COST_UNIT,
            depth,
            actual: self.actual.map(|a| a.of(node)),
            parent,
        });
        let own = self.lines.len() - 1;
        for input in inputs(node) {
            self.node(input, Some(own), depth + 1);
        }
    }

    /// What the operator works on.
    fn argument(&self, node: &Node) -> String {
        let words = &self.words;
        match &node.op {
            Op::One | Op::Values(_) | Op::Empty | Op::Concat(_) | Op::WorkTable(_) => String::new(),
            Op::SetHash(_) | Op::Keep(_) => String::new(),
            Op::Scan(scan) => self.scan(scan),
            Op::Virtual(v) => format!("OBJECT:([{}])", v.table.name()),
            Op::Filter(f) => {
                let word = if f.startup { "STARTUP EXPR" } else { "WHERE" };
                format!("{word}:({})", words.cond(&f.condition, &f.input.schema))
            }
            Op::Compute(c) => {
                let defined = node.schema.iter().zip(&c.items).map(|(id, e)| {
                    format!("{}={}", words.name(*id), words.expr(e, &c.input.schema))
                });
                format!("DEFINE:({})", listed(defined))
            }
            Op::NestedLoop(j) => self.nested_loop(j),
            Op::HashJoin(j) => {
                let keys = |exprs: &[Expr], schema: &[ColId]| {
                    listed(exprs.iter().map(|e| words.expr(e, schema)))
                };
                format!(
                    "HASH:({})=({})",
                    keys(&j.build_keys, &j.build.schema),
                    keys(&j.probe_keys, &j.probe.schema)
                )
            }
            Op::MergeJoin(j) => {
                let keys = |at: &[usize], schema: &[ColId]| words.names(&taken(schema, at));
                format!(
                    "MERGE:({})=({})",
                    keys(&j.left_keys, &j.left.schema),
                    keys(&j.right_keys, &j.right.schema)
                )
            }
            Op::Aggregate(a) => self.aggregate(a, node),
            Op::Sort(s) => self.sort(s),
            Op::Top(t) => {
                let count = t.count.as_ref().map(|c| words.expr(c, &[]));
                let percent = if t.percent { " PERCENT" } else { "" };
                format!("TOP EXPRESSION:({}{percent})", count.unwrap_or_default())
            }
            Op::Window(w) => {
                let made = node.schema.get(w.input.schema.len()..);
                format!("DEFINE:({})", words.names(made.unwrap_or_default()))
            }
            Op::Recursive(_) => "WITH STACK".into(),
        }
    }

    fn nested_loop(&self, j: &NestedLoopNode) -> String {
        let outer = outer_references(j);
        match &j.on {
            Some(on) => format!("WHERE:({})", self.words.cond(on, &joined(j))),
            None if outer.is_empty() => String::new(),
            None => format!("OUTER REFERENCES:({})", self.words.names(&outer)),
        }
    }

    fn sort(&self, s: &SortNode) -> String {
        let keys = s.keys.iter().filter_map(|k| {
            let id = s.input.schema.get(k.position)?;
            let direction = if k.descending { "DESC" } else { "ASC" };
            Some(format!("{} {direction}", self.words.name(*id)))
        });
        let order = format!("ORDER BY:({})", listed(keys));
        let bare = |text: String| match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
            Some(number) => number.to_string(),
            None => text,
        };
        let limit: Vec<String> = s
            .limit
            .iter()
            .map(|l| bare(self.words.expr(l, &[])))
            .collect();
        match limit.as_slice() {
            [] => order,
            parts => format!("TOP {}, {order}", parts.join("+")),
        }
    }

    fn aggregate(&self, a: &AggregateNode, node: &Node) -> String {
        let keys = taken(&a.input.schema, &a.keys);
        let word = if a.stream { "GROUP BY" } else { "HASH" };
        let grouped = format!("{word}:({})", self.words.names(&keys));
        if a.distinct {
            return grouped;
        }
        let calls: Vec<String> = defined(a, node)
            .map(|(id, c)| {
                let arg = c.arg.as_ref();
                let arg = arg.map_or("*".into(), |e| self.words.expr(e, &a.input.schema));
                format!("{}={}({arg})", self.words.name(id), function_name(c))
            })
            .collect();
        let mut parts = Vec::new();
        if !keys.is_empty() {
            parts.push(grouped);
        }
        if !calls.is_empty() {
            parts.push(format!("DEFINE:({})", calls.join(", ")));
        }
        parts.join(" ")
    }

    fn scan(&self, scan: &ScanNode) -> String {
        let Ok(index) = scan.access.index(scan.index) else {
            return String::new();
        };
        let mut object = table_name(&scan.access.table, &index.def);
        if scan.alias != scan.access.table.name {
            object.push_str(&format!(" AS [{}]", scan.alias));
        }
        let mut argument = format!("OBJECT:({object})");
        if let Some(seek) = &scan.seek {
            argument.push_str(&format!(", SEEK:({})", self.words.seek(seek, scan, index)));
        }
        let leaf = scan.leaf.iter().map(|l| self.words.leaf(l, scan, index));
        let mut conditions: Vec<String> = leaf.collect();
        let outputs = self.words.output_names(scan, index);
        for filter in scan.filter.iter().chain(&scan.lookup_filter) {
            conditions.push(self.words.cond_named(filter, &outputs));
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
        argument
    }
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
