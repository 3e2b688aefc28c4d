//! JSON_MODIFY: the text with one value replaced, inserted, appended or left out.

use super::path::{Path, Step, follow};
use super::scan::{Kind, Node, parse_container};
use super::write::put_key;
use crate::ValueError;

/// `value` is JSON already; `None` is NULL, which takes a key away unless the path is strict.
pub fn modify(text: &str, path: &Path, value: Option<&str>) -> Result<String, ValueError> {
    let root = parse_container(text)?;
    let target = follow(root, &path.steps);
    if path.is_strict && target.is_none() {
        return Err(ValueError::new(13608, 2, &[]));
    }
    if path.is_append {
        return append(text, path, root, target, value);
    }
    let Some((last, parents)) = path.steps.split_last() else {
        return Err(ValueError::new(13619, 1, &[&2, &"JSON_MODIFY"]));
    };
    let parent = follow(root, parents);
    match (target, value, last) {
        (Some(node), None, Step::Key(_)) if !path.is_strict => {
            Ok(without(text, parent.unwrap_or(root), node))
        }
        (Some(node), value, _) => Ok(spliced(
            text,
            node.start,
            node.end(),
            value.unwrap_or("null"),
        )),
        (None, Some(value), Step::Key(key)) => Ok(match parent {
            Some(object) if object.kind == Kind::Object => {
                let mut member = String::new();
                put_key(&mut member, key);
                member.push_str(value);
                inserted(text, object, &member)
            }
            _ => text.to_string(),
        }),
        _ => Ok(text.to_string()),
    }
}

/// Behind the values of the array; one that is not there is made. 13624 where something else is.
fn append(
    text: &str,
    path: &Path,
    root: Node<'_>,
    target: Option<Node<'_>>,
    value: Option<&str>,
) -> Result<String, ValueError> {
    let value = value.unwrap_or("null");
    match target {
        Some(array) if array.kind == Kind::Array => Ok(inserted(text, array, value)),
        Some(_) if path.is_strict => Err(ValueError::new(13624, 2, &[])),
        Some(_) => Ok(text.to_string()),
        None => {
            let list = format!("[{value}]");
            let plain = Path {
                is_append: false,
                ..path.clone()
            };
            match plain.steps.is_empty() || root.kind != Kind::Object {
                true => Ok(text.to_string()),
                false => modify(text, &plain, Some(&list)),
            }
        }
    }
}

fn spliced(text: &str, from: usize, to: usize, new: &str) -> String {
    let (head, tail) = (text.get(..from), text.get(to..));
    [head.unwrap_or_default(), new, tail.unwrap_or_default()].concat()
}

/// A further value at the end of an object or array.
fn inserted(text: &str, container: Node<'_>, new: &str) -> String {
    let last = match container.kind {
        Kind::Object => container.members().map(|(_, node)| node).last(),
        _ => container.elements().last(),
    };
    match last {
        Some(last) => spliced(text, last.end(), last.end(), &format!(",{new}")),
        None => {
            let at = container.end() - 1;
            spliced(text, at, at, new)
        }
    }
}

/// A member of an object goes with one of the commas beside it.
fn without(text: &str, object: Node<'_>, node: Node<'_>) -> String {
    let mut before = None;
    let mut after = None;
    for (_, other) in object.members() {
        if other.start < node.start {
            before = Some(other);
        } else if other.start > node.start && after.is_none() {
            after = Some(other);
        }
    }
    match (before, after) {
        (Some(before), _) => spliced(text, before.end(), node.end(), ""),
        (None, after) => {
            let from = object.start + 1;
            let mut to = node.end();
            if after.is_some() {
                let rest = text.get(to..).unwrap_or_default();
                to += rest.find(',').map_or(0, |comma| comma + 1);
            }
            spliced(text, from, to, "")
        }
    }
}
