//! Plans of statements as short trees of text, made of the server's XML.
//!
//! Theory: whoever looks for the reason of a slow statement wants the operators, their order, their objects and what the planner
//! expected; the document around them is a hundred times longer. The tree is readable where it is stored. Of the document's
//! constants only predicates come through, and those masked like any text.
//!
//! Invariant: what a server sends never makes it longer than [`BYTES_MAX`]; what is no plan gives none.

use super::texts::Texts;
use super::xml::attribute;
use std::fmt::Write;

/// Longest tree that is kept, in bytes.
const BYTES_MAX: usize = 32 * 1024;
/// Longest document that is asked for, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// Deepest indent, longest line.
const DEPTH_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 300;

/// The tree of a document, if it has one.
pub fn tree(document: &str, texts: &Texts) -> Option<String> {
    let mut tree = Tree {
        text: String::new(),
        depth: 0,
        has_object: true,
        in_predicate: false,
        texts,
    };
    for element in document.split('<').skip(1) {
        let head = element.split_once('>').map_or(element, |(head, _)| head);
        tree.element(head);
        if tree.text.len() > BYTES_MAX {
            tree.text.push_str("..\n");
            break;
        }
    }
    (!tree.text.is_empty()).then_some(tree.text)
}

struct Tree<'t> {
    text: String,
    depth: usize,
    /// Has the operator at hand named its object?
    has_object: bool,
    in_predicate: bool,
    texts: &'t Texts,
}

impl Tree<'_> {
    fn element(&mut self, head: &str) {
        let name_end = head.find(|c: char| c.is_whitespace() || c == '/');
        let name = head.get(..name_end.filter(|end| *end > 0).unwrap_or(head.len()));
        match name.unwrap_or_default() {
            "RelOp" => {
                self.operator(head);
                self.depth += usize::from(!head.ends_with('/'));
                self.has_object = false;
                self.in_predicate = false;
            }
            "/RelOp" => {
                self.depth = self.depth.saturating_sub(1);
                self.has_object = true;
            }
            "Object" if !self.has_object => self.object(head),
            "Predicate" | "SeekPredicates" => self.in_predicate = self.depth > 0,
            "/Predicate" | "/SeekPredicates" => self.in_predicate = false,
            "ScalarOperator" if self.in_predicate => self.predicate(head),
            "Warnings" => self.line(&format!("warning: {}", rest(head, "Warnings"))),
            "MissingIndex" => self.missing_index(head),
            _ => {}
        }
    }

    fn operator(&mut self, head: &str) {
        let Some(physical) = attribute(head, "PhysicalOp") else {
            return;
        };
        let mut line = physical.clone();
        if let Some(logical) = attribute(head, "LogicalOp").filter(|l| *l != physical) {
            // Writing to a string cannot fail.
            let _ = write!(line, " ({logical})");
        }
        if let Some(rows) = number(head, "EstimateRows") {
            let _ = write!(line, ", {} rows", short(rows));
        }
        if let Some(cost) = number(head, "EstimatedTotalSubtreeCost") {
            let _ = write!(line, ", cost {}", short(cost));
        }
        self.line(&line);
    }

    fn object(&mut self, head: &str) {
        self.has_object = true;
        let parts = ["Database", "Schema", "Table", "Index"].map(|part| attribute(head, part));
        let named: Vec<String> = parts.into_iter().flatten().collect();
        if !named.is_empty() {
            self.line(&format!("on {}", named.join(".")));
        }
    }

    fn predicate(&mut self, head: &str) {
        if let Some(text) = attribute(head, "ScalarString").filter(|text| !text.is_empty()) {
            // What is inside says the same again, in pieces.
            self.in_predicate = false;
            let text = self.texts.masked(&text);
            self.line(&format!("where {}", text.replace(['\n', '\r'], " ")));
        }
    }

    fn missing_index(&mut self, head: &str) {
        let parts = ["Database", "Schema", "Table"].map(|part| attribute(head, part));
        let named: Vec<String> = parts.into_iter().flatten().collect();
        self.line(&format!("an index is missing on {}", named.join(".")));
    }

    fn line(&mut self, text: &str) {
        let indent = self.depth.min(DEPTH_MAX) * 2;
        self.text.extend(std::iter::repeat_n(' ', indent));
        self.text.extend(text.chars().take(LINE_CHARS_MAX));
        self.text.push('\n');
    }
}

/// What an element says behind its name.
fn rest<'h>(head: &'h str, name: &str) -> &'h str {
    let rest = head.strip_prefix(name).unwrap_or_default();
    rest.trim_end_matches('/').trim()
}

fn number(head: &str, name: &str) -> Option<f64> {
    attribute(head, name)?.parse().ok()
}

/// Four digits that matter.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 || size >= 1_000.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ if size >= 1.0 => format!("{value:.1}"),
        _ if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"<?xml version="1.0"?><ShowPlanXML xmlns="x"><BatchSequence><Batch><Statements><StmtSimple StatementText="SELECT planted-secret" StatementSubTreeCost="0.5"><QueryPlan><MissingIndexes><MissingIndexGroup Impact="9"><MissingIndex Database="[shop]" Schema="[dbo]" Table="[t]"/></MissingIndexGroup></MissingIndexes><RelOp NodeId="0" PhysicalOp="Nested Loops" LogicalOp="Inner Join" EstimateRows="12.5" EstimatedTotalSubtreeCost="0.0125"><OutputList/><Warnings NoJoinPredicate="1"/><NestedLoops><RelOp NodeId="1" PhysicalOp="Clustered Index Seek" LogicalOp="Clustered Index Seek" EstimateRows="1" EstimatedTotalSubtreeCost="0.003"><IndexScan><Object Database="[shop]" Schema="[dbo]" Table="[a &lt; b]" Index="[PK]"/><SeekPredicates><SeekPredicateNew><ScalarOperator ScalarString="[t].[id]=(42)"><Const ConstValue="(42)"/><ScalarOperator ScalarString="(42)"/></ScalarOperator></SeekPredicateNew></SeekPredicates><Predicate><ScalarOperator ScalarString="[t].[name]='planted-secret'"/></Predicate></IndexScan></RelOp><RelOp NodeId="2" PhysicalOp="Table Scan" LogicalOp="Table Scan" EstimateRows="5000"/></NestedLoops></RelOp></QueryPlan></StmtSimple></Statements></Batch></BatchSequence></ShowPlanXML>"#;

    #[test]
    fn operators_objects_and_predicates_without_literals() {
        let found = tree(DOCUMENT, &Texts::new(true)).expect("a tree");
        assert_eq!(
            found,
            "an index is missing on [shop].[dbo].[t]\n\
             Nested Loops (Inner Join), 12.5 rows, cost 0.0125\n  \
             warning: NoJoinPredicate=\"1\"\n  \
             Clustered Index Seek, 1 rows, cost 0.0030\n    \
             on [shop].[dbo].[a < b].[PK]\n    \
             where [t].[id]=(?)\n    \
             where [t].[name]=?\n  \
             Table Scan, 5000 rows\n"
        );
        let shown = tree(DOCUMENT, &Texts::new(false)).expect("a tree");
        assert!(
            shown.contains("where [t].[name]='planted-secret'"),
            "{shown}"
        );
        assert!(!shown.contains("StatementText"));
    }

    #[test]
    fn what_is_no_plan_has_no_tree_and_a_huge_one_is_cut() {
        for document in [
            "",
            "<",
            "<RelOp",
            "<a><RelOp/></a>",
            "</RelOp></RelOp>",
            "plain",
        ] {
            assert_eq!(tree(document, &Texts::new(true)), None, "{document}");
        }
        let deep =
            "<RelOp PhysicalOp=\"Sort\"><Predicate><ScalarOperator ScalarString=\"x &gt; 1\">"
                .repeat(20_000);
        let found = tree(&deep, &Texts::new(true)).expect("a tree");
        assert!(found.len() < BYTES_MAX + 1_000 && found.ends_with("..\n"));
    }
}
