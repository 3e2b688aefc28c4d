//! `query_hash` and `query_plan_hash`: what statements, and plans, have in common that differ in their literals only.
//!
//! Theory: the product makes them of its trees. Here a query's is made of its words without literals, comments, white space and
//! case, and a plan's of its operators and the objects they read. Both are the same in every run of one build, and say nothing about
//! equality.

use super::{Picture, inputs, names, table_name};
use crate::binder::with_stack;
use crate::executor::plan::*;
use daruma_base::FastHasher;
use daruma_syntax::mask::mask_literals;
use std::hash::{Hash, Hasher};

/// Hash of a statement's text.
pub fn query_hash(statement: &str) -> u64 {
    let mut hasher = FastHasher::default();
    let masked = mask_literals(statement).to_lowercase();
    let mut last = ' ';
    let mut gap = false;
    for c in masked.chars() {
        if c.is_whitespace() {
            gap = true;
            continue;
        }
        // White space matters between words only.
        if gap && is_word(last) && is_word(c) {
            hasher.write_u32(u32::from(' '));
        }
        hasher.write_u32(u32::from(c));
        (last, gap) = (c, false);
    }
    hasher.finish()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$' | '?')
}

/// Hash of a statement's operators.
pub fn plan_hash(picture: &Picture<'_>) -> u64 {
    let mut hasher = FastHasher::default();
    if let Some(change) = &picture.change {
        change.names().hash(&mut hasher);
        change.object().hash(&mut hasher);
    }
    if let Some(words) = picture.source {
        node(&words.plan.root, &mut hasher);
        words
            .plan
            .subplans
            .iter()
            .for_each(|s| node(&s.node, &mut hasher));
    }
    hasher.finish()
}

fn node(of: &Node, hasher: &mut FastHasher) {
    names(of).hash(hasher);
    if let Op::Scan(scan) = &of.op
        && let Ok(index) = scan.access.index(scan.index)
    {
        table_name(&scan.access.table, &index.def).hash(hasher);
    }
    if let Op::Virtual(v) = &of.op {
        v.table.name().hash(hasher);
    }
    let below = inputs(of);
    below.len().hash(hasher);
    with_stack(|| below.into_iter().for_each(|n| node(n, hasher)));
}

#[cfg(test)]
mod tests {
    use super::query_hash;

    #[test]
    fn literals_and_layout_do_not_count() {
        let one = query_hash("SELECT a FROM t WHERE id = 1 AND b IN ('x', 2)");
        let other = query_hash("select  a\nfrom T where id=77 /* why */ and B in('y',3)");
        assert_eq!(one, other);
        assert_ne!(one, query_hash("SELECT a FROM t WHERE id = 1"));
        assert_ne!(
            query_hash("SELECT a b FROM t"),
            query_hash("SELECT ab FROM t")
        );
    }
}
