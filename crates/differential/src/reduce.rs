//! A statement that differs, made as simple as it can be while it differs in the same way.
//!
//! The tree of choices is changed, never the statement (see `draw`): a part is emptied, replaced by a part of the same kind
//! inside it, or taken out of its list; a number becomes 0 or half. Whatever still differs is the new start.

use crate::draw::{Choice, Part};
use std::time::{Duration, Instant};

/// The simplest tree found within `limit` that `differs`; it gives the tree as it was used.
pub fn reduced(
    mut tree: Part,
    limit: Duration,
    mut differs: impl FnMut(Part) -> Option<Part>,
) -> Part {
    let begun = Instant::now();
    let mut at = 0;
    loop {
        let candidates = simpler(&tree);
        let count = candidates.len();
        let mut improved = false;
        // Goes on where the last round stopped, so that no part waits for all others.
        for step in 0..count {
            if begun.elapsed() > limit {
                return tree;
            }
            let n = (at + step) % count;
            let Some(used) = candidates.get(n).and_then(|c| differs(c.clone())) else {
                continue;
            };
            if weight(&used) < weight(&tree) {
                tree = used;
                improved = true;
                at = n;
                break;
            }
        }
        if !improved {
            return tree;
        }
    }
}

/// Fewer choices are simpler, then smaller numbers.
fn weight(part: &Part) -> (usize, u64) {
    let (mut count, mut sum) = (1, 0);
    for choice in &part.choices {
        match choice {
            Choice::Value(value) => {
                count += 1;
                sum += u64::from(*value);
            }
            Choice::Part(inner) => {
                let (c, s) = weight(inner);
                count += c;
                sum += s;
            }
        }
    }
    (count, sum)
}

/// All trees one step simpler, the largest steps first.
fn simpler(tree: &Part) -> Vec<Part> {
    let mut paths = Vec::new();
    collect(tree, &mut Vec::new(), &mut paths);
    paths.sort_by_key(|path| std::cmp::Reverse(part_at(tree, path).map_or(0, |p| weight(p).0)));
    let mut out = Vec::new();
    for path in &paths {
        let Some(part) = part_at(tree, path) else {
            continue;
        };
        if !part.choices.is_empty() && !path.is_empty() {
            out.push(replaced(
                tree,
                path,
                Part {
                    choices: Vec::new(),
                    ..part.clone()
                },
            ));
        }
        for inner in inner_of_same_kind(part) {
            out.push(replaced(tree, path, inner));
        }
        if part.label == "list" {
            for n in 0..part.choices.len() {
                let mut fewer = part.clone();
                fewer.choices.remove(n);
                out.push(replaced(tree, path, fewer));
            }
        }
    }
    for path in &paths {
        let Some(part) = part_at(tree, path) else {
            continue;
        };
        for (n, choice) in part.choices.iter().enumerate() {
            let Choice::Value(value) = choice else {
                continue;
            };
            for smaller in [0, value / 2, value.saturating_sub(1)] {
                if smaller < *value {
                    let mut changed = part.clone();
                    changed.choices[n] = Choice::Value(smaller);
                    out.push(replaced(tree, path, changed));
                }
            }
        }
    }
    out
}

fn collect(part: &Part, path: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
    out.push(path.clone());
    for (n, choice) in part.choices.iter().enumerate() {
        if let Choice::Part(inner) = choice {
            path.push(n);
            collect(inner, path, out);
            path.pop();
        }
    }
}

fn part_at<'a>(tree: &'a Part, path: &[usize]) -> Option<&'a Part> {
    path.iter()
        .try_fold(tree, |part, n| match part.choices.get(*n) {
            Some(Choice::Part(inner)) => Some(inner),
            _ => None,
        })
}

fn replaced(tree: &Part, path: &[usize], with: Part) -> Part {
    let mut out = tree.clone();
    let mut place = &mut out;
    for n in path {
        match place.choices.get_mut(*n) {
            Some(Choice::Part(inner)) => place = inner,
            _ => return out,
        }
    }
    *place = with;
    out
}

/// The nearest parts inside of the same kind.
fn inner_of_same_kind(part: &Part) -> Vec<Part> {
    let mut out = Vec::new();
    let mut open: Vec<&Part> = vec![part];
    while let Some(next) = open.pop() {
        for choice in &next.choices {
            if let Choice::Part(inner) = choice {
                match inner.label == part.label && part.label != "item" && part.label != "list" {
                    true => out.push(inner.clone()),
                    false => open.push(inner),
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    /// A random list of numbers; "differs" when it has one above 50.
    fn numbers(draw: &mut Draw) -> Vec<u32> {
        draw.open("list");
        let count = draw.items(1, 20);
        let out = (0..count)
            .map(|_| {
                draw.open("item");
                let n = draw.below(100);
                draw.close();
                n
            })
            .collect();
        draw.close();
        out
    }

    #[test]
    fn what_is_not_needed_goes() {
        let mut draw = Draw::fresh(7);
        let first = numbers(&mut draw);
        assert!(first.len() > 1 && first.iter().any(|n| *n > 50));
        let tree = reduced(draw.tree(), Duration::from_secs(10), |tree| {
            let mut draw = Draw::again(tree);
            let list = numbers(&mut draw);
            list.iter().any(|n| *n > 50).then(|| draw.tree())
        });
        assert_eq!(numbers(&mut Draw::again(tree)), [51]);
    }
}
