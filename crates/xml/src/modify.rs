//! The statements of modify: what is to be changed is gathered first, then the document is written with it.

use crate::ast::{Change, Expr, Part, Place};
use crate::document::{Builder, Document, Kind, Name, NodeId, ROOT};
use crate::eval::{Item, Run};
use crate::write::{Changes, Writer};
use crate::{Meter, Result, error};
use std::collections::HashSet;

/// The holder of what is inserted: the element behind the document node.
const HOLDER: NodeId = 1;

#[derive(Default)]
struct Edits {
    deleted: HashSet<NodeId>,
    value: Option<(NodeId, String)>,
    insert: Option<Insert>,
}

struct Insert {
    place: Place,
    at: NodeId,
    /// An element with the attributes and children that are inserted.
    holder: Document,
}

impl Insert {
    fn holder_if(&self, at: NodeId, place: Place) -> Option<(&Document, NodeId)> {
        (self.at == at && self.place == place).then_some((&self.holder, HOLDER))
    }
}

impl Edits {
    fn inserted(&self, at: NodeId, place: Place) -> Option<(&Document, NodeId)> {
        self.insert.as_ref().and_then(|i| i.holder_if(at, place))
    }
}

impl Changes for Edits {
    fn is_deleted(&self, node: NodeId) -> bool {
        self.deleted.contains(&node)
    }

    fn value(&self, node: NodeId) -> Option<&str> {
        let (at, value) = self.value.as_ref()?;
        (*at == node).then_some(value)
    }

    fn before(&self, node: NodeId) -> Option<(&Document, NodeId)> {
        self.inserted(node, Place::Before)
    }

    fn after(&self, node: NodeId) -> Option<(&Document, NodeId)> {
        self.inserted(node, Place::After)
    }

    fn first_in(&self, node: NodeId) -> Option<(&Document, NodeId)> {
        self.inserted(node, Place::First)
    }

    fn last_in(&self, node: NodeId) -> Option<(&Document, NodeId)> {
        let found = self.inserted(node, Place::Into);
        found.or_else(|| self.inserted(node, Place::Last))
    }

    fn attributes_of(&self, node: NodeId) -> Option<(&Document, NodeId)> {
        let inside = |i: &&Insert| !matches!(i.place, Place::Before | Place::After);
        let insert = self.insert.as_ref().filter(inside)?;
        (insert.at == node).then_some((&insert.holder, HOLDER))
    }
}

/// The document after the change.
pub(crate) fn apply(change: &Change, run: &Run<'_>, meter: &dyn Meter) -> Result<String> {
    let mut edits = Edits::default();
    match change {
        Change::Insert {
            what,
            place,
            target,
        } => edits.insert = insert(what, *place, target, run)?,
        Change::Delete(what) => {
            for item in run.top(what, ROOT)? {
                if let Item::Node(0, id) = item {
                    edits.deleted.insert(id);
                }
            }
        }
        Change::Replace { target, with } => {
            let target = own_node(target, run, "replace value of")?;
            if let Some(at) = target {
                let with = [Part::Expr(with.clone())];
                let value = run.joined(&with, None)?;
                edits.value = Some((at, value));
            }
        }
    }
    let mut writer = Writer::new(meter);
    writer.changed(&run.document(0), ROOT, Some(&edits))?;
    writer.finish()
}

/// The node of the document that an expression names.
fn own_node(target: &Expr, run: &Run<'_>, verb: &str) -> Result<Option<NodeId>> {
    match run.top(target, ROOT)?.first() {
        Some(Item::Node(0, id)) => Ok(Some(*id)),
        Some(_) => error(2359, &[&verb]),
        None => Ok(None),
    }
}

fn insert(what: &Expr, place: Place, target: &Expr, run: &Run<'_>) -> Result<Option<Insert>> {
    let Some(at) = own_node(target, run, "insert")? else {
        return Ok(None);
    };
    let document = run.document(0);
    let mut builder = Builder::new();
    builder.start(&Name::default());
    let mut rest = Vec::new();
    for item in run.top(what, ROOT)? {
        match item {
            Item::Node(of, id) if run.document(of).kind(id) == Kind::Attribute => {
                let from = run.document(of);
                let name = from.name(id).cloned().unwrap_or_default();
                let is_known = document.attributes(at).any(|n| {
                    let known = document.name(n);
                    known.is_some_and(|k| k.local == name.local && k.namespace == name.namespace)
                });
                if document.kind(at) != Kind::Element {
                    return error(2396, &[]);
                }
                if matches!(place, Place::Before | Place::After) {
                    return error(2258, &[&name.local]);
                }
                if is_known || !builder.attribute(&name, from.value(id)) {
                    return error(6308, &[&name.local]);
                }
            }
            other => rest.push(other),
        }
    }
    run.put(&rest, &mut builder)?;
    let holder = builder.finish();
    Ok(Some(Insert { place, at, holder }))
}
