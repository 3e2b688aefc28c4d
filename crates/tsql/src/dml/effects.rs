//! Consequences of changed rows: foreign keys in both directions, cascades, triggers.
//!
//! Theory: each table that a statement touches, directly or by cascade, gathers its effects while rows are written and
//! finishes once: parents of new keys, children of removed keys, then cascades, deepest first, and its triggers last.

use super::apply::{Applier, Change, OldRow};
use super::changes::Changes;
use super::errors::Verb;
use super::expr::Evaluators;
use super::foreign::{
    self, Cascade, CascadeAction, ChildLookups, FoundRow, ParentLookups, RemovedKey,
};
use super::target::Writable;
use crate::access::damaged;
use crate::error::Result;
use crate::executor::RowGatherer;
use crate::host::{Host, Images, TriggerAction};
use daruma_storage::Isolation;
use daruma_value::Value;
use std::sync::Arc;

/// Columns of which none is changed: a list of them says no for those that it lacks.
const NO_COLUMNS: &[bool] = &[];

/// Rows before and after, for triggers.
#[derive(Default)]
struct Gathered {
    inserted: RowGatherer,
    deleted: RowGatherer,
}

/// Consequences of a change of rows: parents that must be there, children to follow, rows for triggers.
pub struct Effects {
    action: TriggerAction,
    changed: Option<Vec<bool>>,
    parents: ParentLookups,
    children: ChildLookups,
    images: Option<Gathered>,
    /// Checks that are asked when rows are written.
    checks: bool,
    /// Rows of the whole statement, where it does more than this.
    statement_rows: Option<u64>,
}

impl Effects {
    /// `changed`: the columns an update can change; `None` for inserts and deletes.
    pub fn new(
        host: &dyn Host,
        table: &Writable,
        action: TriggerAction,
        changed: Option<Vec<bool>>,
    ) -> Result<Effects> {
        let is = |wanted| action == wanted;
        let parent_columns = if is(TriggerAction::Delete) {
            Some(NO_COLUMNS)
        } else {
            changed.as_deref()
        };
        let child_columns = if is(TriggerAction::Insert) {
            Some(NO_COLUMNS)
        } else {
            changed.as_deref()
        };
        Ok(Effects {
            action,
            parents: ParentLookups::new(host, table.table(), parent_columns)?,
            children: ChildLookups::new(host, table.table(), child_columns)?,
            images: host
                .has_triggers(table.table(), action)
                .then(Gathered::default),
            changed,
            checks: !is(TriggerAction::Delete) && table.has_late_checks(),
            statement_rows: None,
        })
    }

    /// Without foreign keys (bulk load that does not check them).
    pub fn unchecked(host: &dyn Host, table: &Writable, fire_triggers: bool) -> Result<Effects> {
        Ok(Effects {
            action: TriggerAction::Insert,
            parents: ParentLookups::new(host, table.table(), Some(NO_COLUMNS))?,
            children: ChildLookups::new(host, table.table(), Some(NO_COLUMNS))?,
            images: (fire_triggers && host.has_triggers(table.table(), TriggerAction::Insert))
                .then(Gathered::default),
            changed: None,
            checks: false,
            statement_rows: None,
        })
    }

    /// Part of a statement (MERGE) that changes so many rows in all.
    pub fn of_statement(mut self, rows: u64) -> Effects {
        self.statement_rows = Some(rows);
        self
    }

    /// Leaves the triggers out, for BULK INSERT without FIRE_TRIGGERS.
    pub fn without_triggers(mut self) -> Effects {
        self.images = None;
        self
    }

    /// Will triggers see the rows?
    pub fn has_images(&self) -> bool {
        self.images.is_some()
    }

    /// Does nothing follow, so that changed rows need not be shown to `note`?
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.children.is_empty() && self.images.is_none() && !self.checks
    }

    /// Notes rows that were inserted: their parents are looked for, triggers see them.
    pub fn note_inserted(
        &mut self,
        host: &dyn Host,
        table: &Writable,
        rows: &[Vec<Value>],
        verb: Verb,
    ) -> Result<()> {
        if self.checks {
            let evaluators = Evaluators::new(host);
            for row in rows {
                table.check_late(&evaluators, row, None, verb)?;
            }
        }
        if !self.parents.is_empty() {
            rows.iter().try_for_each(|row| self.parents.note(row))?;
            self.parents.relieve(host, table.table(), verb)?;
        }
        if let Some(images) = &mut self.images {
            rows.iter()
                .try_for_each(|row| images.inserted.add(row, host))?;
        }
        Ok(())
    }

    /// Notes rows that were changed or deleted, with what they were.
    pub fn note(
        &mut self,
        host: &dyn Host,
        table: &Writable,
        changes: &[Change],
        verb: Verb,
    ) -> Result<()> {
        if self.checks {
            let evaluators = Evaluators::new(host);
            for new in changes.iter().filter_map(|c| c.new.as_ref()) {
                table.check_late(&evaluators, new, self.changed.as_deref(), verb)?;
            }
        }
        for change in changes {
            if let Some(new) = &change.new {
                self.parents.note(new)?;
            }
            self.children.note(host, table, change)?;
            if let Some(images) = &mut self.images {
                if let Some(new) = &change.new {
                    images.inserted.add(new, host)?;
                }
                if let Some(old) = &change.old {
                    images.deleted.add(&old.values, host)?;
                }
            }
        }
        self.parents.relieve(host, table.table(), verb)
    }

    /// All rows are written.
    pub fn finish(self, host: &dyn Host, table: &Writable, verb: Verb, depth: usize) -> Result<()> {
        let Effects {
            action,
            changed,
            mut parents,
            children,
            images,
            statement_rows,
            checks: _,
        } = self;
        parents.finish(host, table.table(), verb)?;
        for cascade in children.finish(host, table, verb)? {
            run_cascade(host, cascade, verb, depth + 1)?;
        }
        let Some(gathered) = images else {
            return Ok(());
        };
        let images = Images {
            inserted: Arc::new(gathered.inserted.finish()?),
            deleted: Arc::new(gathered.deleted.finish()?),
        };
        // A cascade that found no row fires nothing; the statement's own table always fires.
        if depth > 0 && images.inserted.is_empty() && images.deleted.is_empty() {
            return Ok(());
        }
        let columns = table.access.def().columns.iter().enumerate();
        let is_changed = |ordinal: usize| {
            changed
                .as_ref()
                .is_none_or(|c| c.get(ordinal).copied().unwrap_or(false))
        };
        let updated: Vec<_> = columns
            .filter(|(o, _)| is_changed(*o))
            .map(|(_, c)| c.id)
            .collect();
        let own = images.inserted.len().max(images.deleted.len()) as u64;
        let rows = statement_rows.unwrap_or(own);
        host.fire_triggers(table.table(), action, images, &updated, rows)
    }
}

fn run_cascade(host: &dyn Host, cascade: Cascade, verb: Verb, depth: usize) -> Result<()> {
    foreign::check_depth(depth)?;
    let table = Writable::prepare(host, &cascade.child)?;
    let txn = host.begin_write(&cascade.child)?;
    let mut changed = vec![false; table.width()];
    cascade.ordinals.iter().for_each(|o| changed[*o] = true);
    table.widen(&mut changed);
    let deletes = cascade.action == CascadeAction::Delete;
    let touched = if deletes {
        Vec::new()
    } else {
        table.touched_indexes(&changed)
    };

    let evaluators = Evaluators::new(host);
    let new_row = |removed: &RemovedKey, old: OldRow| -> Result<Change> {
        let new = if deletes {
            None
        } else {
            Some(cascaded_row(
                host,
                &evaluators,
                &table,
                &cascade,
                removed,
                &old,
                &changed,
                verb,
            )?)
        };
        Ok(Change {
            old: Some(old),
            new,
            ..Change::default()
        })
    };
    let mut changes = Changes::default();
    cascade.keys.parts(&mut |part| {
        let keys: Vec<&[Value]> = part.iter().map(|removed| removed.old.as_slice()).collect();
        let mut found = |n: usize, row: FoundRow| {
            let old = OldRow {
                key: row.key.to_vec(),
                stamp: row.stamp,
                payload: row.payload.to_vec(),
                values: table.decode(&evaluators, row.payload)?,
            };
            let removed = part.get(n).ok_or_else(|| damaged("cascade without key"))?;
            changes.add(new_row(removed, old)?, host)?;
            Ok(true)
        };
        foreign::find_children(host, &cascade.child, &cascade.ordinals, &keys, &mut found)?;
        Ok(true)
    })?;

    let tree = table.access.tree(table.access.primary())?;
    let mut again = |key: &[u8]| -> Result<Option<Change>> {
        let Some(entry) = tree.get(&txn.view(Isolation::Current), key)? else {
            return Ok(None);
        };
        let values = table.decode(&evaluators, &entry.payload)?;
        let old = OldRow {
            key: key.to_vec(),
            stamp: entry.stamp,
            payload: entry.payload,
            values,
        };
        let removed = cascade
            .keys
            .named_by(&table.access, &cascade.ordinals, &old.values)?;
        removed.map(|removed| new_row(&removed, old)).transpose()
    };
    table.access.note_update(Some(&touched))?;
    let mut done = Applier::new(host, &table, txn.clone(), &touched).apply(changes, &mut again)?;
    let action = if deletes {
        TriggerAction::Delete
    } else {
        TriggerAction::Update
    };
    let mut effects = Effects::new(host, &table, action, (!deletes).then(|| changed.clone()))?;
    done.parts(host, |part| effects.note(host, &table, part, verb))?;
    effects.finish(host, &table, verb, depth)
}

/// A child row with its foreign key columns following the parent.
fn cascaded_row<'a>(
    host: &dyn Host,
    evaluators: &Evaluators<'a>,
    table: &'a Writable,
    cascade: &Cascade,
    removed: &RemovedKey,
    old: &OldRow,
    changed: &[bool],
    verb: Verb,
) -> Result<Vec<Value>> {
    let mut row = old.values.clone();
    for (i, ordinal) in cascade.ordinals.iter().enumerate() {
        let value = match cascade.action {
            CascadeAction::Follow => removed
                .new
                .as_ref()
                .and_then(|new| new.get(i))
                .cloned()
                .unwrap_or(Value::Null),
            CascadeAction::SetDefault => table.default_value(evaluators, *ordinal)?,
            CascadeAction::SetNull | CascadeAction::Delete => Value::Null,
        };
        *row.get_mut(*ordinal)
            .ok_or_else(|| damaged("row too short"))? = value;
    }
    renew_rowversion(host, table, &mut row)?;
    table.complete(evaluators, &mut row, Some(changed), verb, true)?;
    Ok(row)
}

/// Every change of a row gives it a new row version.
pub fn renew_rowversion(host: &dyn Host, table: &Writable, row: &mut [Value]) -> Result<()> {
    if let Some(place) = table.rowversion.and_then(|ordinal| row.get_mut(ordinal)) {
        let version = host.next_rowversion(table.access.database())?;
        *place = Value::Bytes(version.to_be_bytes().to_vec());
    }
    Ok(())
}
