//! Walks what a command covers, table by table, and reports what storage and rows say.

use super::report::{Place, Report};
use super::words::{self, Named};
use crate::dml::row_check::{RowCheck, RowFinding, RowSink};
use crate::error::{Result, SqlError};
use crate::host::{TableKind, TableRef};
use crate::instance::{DatabaseEntry, OpenDatabase, TEMPDB};
use crate::session::SystemCall;
use crate::sysviews::partition_id;
use daruma_base::PageId;
use daruma_catalog::{DatabaseCatalog, IndexDef, Object, ObjectKind, TableDef};
use daruma_storage::{
    BlobRef, CheckWatch, Checker, Database, Durability, Finding, FindingKind, Isolation, LockMode,
    LockResource, Owner, Txn,
};
use std::sync::Arc;

/// The catalog's own tree, under the name and id of the product's table of objects.
const CATALOG_NAME: &str = "sys.sysschobjs";
const CATALOG_ID: i32 = 34;
/// Pages between two looks at the cancel flag.
const PAGES_BETWEEN_TICKS: u64 = 64;

/// How much of a database is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything, and the allocation pages.
    Database,
    /// Everything for the sake of the allocation pages, whose errors alone are told.
    Allocation,
    Filegroup(u16),
    Table,
}

/// Cancel, and how far the check is for `dm_exec_requests`.
pub(super) struct Progress<'c, 'e, 'a> {
    call: &'c SystemCall<'e, 'a>,
    open: OpenDatabase,
    pages: u64,
}

impl<'c, 'e, 'a> Progress<'c, 'e, 'a> {
    /// `command` is what the view shows.
    pub fn new(
        call: &'c SystemCall<'e, 'a>,
        entry: &DatabaseEntry,
        command: &'static str,
    ) -> Result<Progress<'c, 'e, 'a>> {
        let open = entry.open()?;
        let files = open.storage.files();
        let data = files.iter().filter(|f| f.spec.filegroup != 0);
        let pages = data.map(|f| f.used_pages).sum::<u64>().max(1);
        call.execution.session_activity().lock().command = command;
        Ok(Progress { call, open, pages })
    }
}

impl CheckWatch for Progress<'_, '_, '_> {
    fn goes_on(&self, pages: u64) -> bool {
        if !pages.is_multiple_of(PAGES_BETWEEN_TICKS) {
            return true;
        }
        let percent = (pages as f64 * 100.0 / self.pages as f64).min(100.0);
        let activity = self.call.execution.session_activity();
        activity.lock().percent_complete = percent as f32;
        self.call.execution.check_cancel().is_ok()
    }
}

impl Drop for Progress<'_, '_, '_> {
    fn drop(&mut self) {
        self.call
            .execution
            .session_activity()
            .lock()
            .percent_complete = 0.0;
    }
}

pub(super) struct Check<'r, 'c, 'e, 'a> {
    call: &'c SystemCall<'e, 'a>,
    report: &'r mut Report<'c, 'e, 'a>,
    open: &'r OpenDatabase,
    checker: Checker<'r>,
    scope: Scope,
}

impl<'r, 'c, 'e, 'a> Check<'r, 'c, 'e, 'a> {
    /// A check of this scope that tells what it finds to `report`.
    pub fn new(
        progress: &'r Progress<'c, 'e, 'a>,
        report: &'r mut Report<'c, 'e, 'a>,
        scope: Scope,
    ) -> Check<'r, 'c, 'e, 'a> {
        Check {
            call: progress.call,
            report,
            open: &progress.open,
            checker: Checker::new(&progress.open.storage).watched(progress),
            scope,
        }
    }

    /// The tree of definitions and the values moved out of it.
    pub fn catalog_tree(&mut self) -> Result<()> {
        let place = Place {
            object: CATALOG_ID,
            index: 1,
            ..Place::default()
        };
        self.report.begin(CATALOG_NAME)?;
        let summary = self.checker.tree(self.open.storage.catalog_tree());
        let is_sound = self.tell(place)?;
        if is_sound {
            let txn = self.reader();
            let view = txn.view(Isolation::Snapshot);
            let checker = &mut self.checker;
            self.open.catalog.blobs(&view, &mut |b| checker.blob(b))?;
            txn.commit(Durability::Delayed)?;
            self.tell(place)?;
        }
        let size = (summary.entries, summary.leaves);
        let name = CATALOG_NAME;
        self.report.end(name, name, CATALOG_ID, size)
    }

    /// One table with its indexes.
    pub fn table(&mut self, object: &Arc<Object>) -> Result<()> {
        let _stable = Stable::new(self.call, &self.open.storage, object.id)?;
        // The last holder of the lock may have changed or dropped it.
        let catalog = self.open.catalog.current();
        let Some(object) = catalog.object(object.id) else {
            return Ok(());
        };
        let ObjectKind::Table(def) = &object.kind else {
            return Ok(());
        };
        if let Scope::Filegroup(id) = self.scope
            && !def.indexes.iter().any(|i| i.filegroup == id)
        {
            return Ok(());
        }
        let table = table_ref(&self.open.storage, &catalog, object, def);
        self.report.begin(&shown_name(&table))?;
        let (sound, leaves) = self.trees(&table)?;
        let rows = self.rows(&table, sound)?;
        let name = shown_name(&table);
        self.report
            .end(&name, &table.name, object.id, (rows, leaves))
    }

    /// Structure of every tree of a table: which are sound, and the pages of the first.
    fn trees(&mut self, table: &TableRef) -> Result<(Vec<bool>, u64)> {
        let (mut sound, mut leaves) = (Vec::new(), 0);
        for (position, index) in table.def.indexes.iter().enumerate() {
            let is_left_out = position > 0
                && (self.report.options.no_index && !self.is_whole()
                    || matches!(self.scope, Scope::Filegroup(id) if id != index.filegroup));
            if is_left_out {
                sound.push(false);
                continue;
            }
            let summary = self.checker.tree(index.tree);
            sound.push(self.tell(place_of(table, index))?);
            if position == 0 {
                leaves = summary.leaves;
            }
        }
        Ok((sound, leaves))
    }

    /// Are the allocation pages compared, so that every page must be met?
    fn is_whole(&self) -> bool {
        matches!(self.scope, Scope::Database | Scope::Allocation)
    }

    fn rows(&mut self, table: &TableRef, sound: Vec<bool>) -> Result<u64> {
        let physical = self.report.options.physical_only || self.scope == Scope::Allocation;
        let txn = self.reader();
        let view = txn.view(Isolation::Snapshot);
        let check = RowCheck::new(self.call.host(), table, view, sound)?;
        let mut findings = RowFindings { check: self, table };
        let rows = match physical {
            true => check.blobs(&mut findings)?,
            false => check.run(&mut findings)?,
        };
        txn.commit(Durability::Delayed)?;
        // The last values were looked at, but not told.
        if let Some(primary) = table.def.primary() {
            self.tell(place_of(table, primary))?;
        }
        Ok(rows)
    }

    /// A transaction that only reads, of nobody's session.
    fn reader(&self) -> Txn {
        let owner = &self.call.execution.instance().system_owner;
        self.open.storage.begin(owner)
    }

    /// Reports what was found since the last call; true when that is nothing.
    fn tell(&mut self, place: Place) -> Result<bool> {
        if self.checker.is_stopped() {
            self.call.execution.check_cancel()?;
        }
        let findings = self.checker.take_findings();
        for finding in &findings {
            self.tell_one(finding, place)?;
        }
        Ok(findings.is_empty())
    }

    fn tell_one(&mut self, finding: &Finding, place: Place) -> Result<()> {
        self.report.note_suspect(finding);
        let is_allocation = finding.kind.is_allocation();
        if self.scope == Scope::Allocation && !is_allocation {
            return Ok(());
        }
        let place = Place {
            page: finding.page,
            ..place
        };
        let other = match finding.kind {
            FindingKind::UsedTwice { other } => owner_place(self.open, other),
            _ => Place::default(),
        };
        let messages = words::finding(finding, place, other, self.report.database_id());
        self.report.error(messages, place, is_allocation)
    }

    /// The allocation pages, when everything that uses pages was met.
    pub fn finish(self) -> Result<()> {
        // Nobody but the session knows of its temporary tables.
        if !self.is_whole() || self.open.storage.id() == TEMPDB {
            return Ok(());
        }
        let Check {
            report, checker, ..
        } = self;
        report.begin_rest();
        for finding in checker.finish().findings {
            report.note_suspect(&finding);
            let place = Place {
                page: finding.page,
                ..Place::default()
            };
            let none = Place::default();
            let messages = words::finding(&finding, place, none, report.database_id());
            report.error(messages, place, finding.kind.is_allocation())?;
        }
        report.end_rest()
    }
}

/// Takes findings in the rows of a table, and checks the values that they refer to.
struct RowFindings<'s, 'r, 'c, 'e, 'a, 't> {
    check: &'s mut Check<'r, 'c, 'e, 'a>,
    table: &'t TableRef,
}

impl RowFindings<'_, '_, '_, '_, '_, '_> {
    fn index(&self, position: usize) -> Result<&IndexDef> {
        let found = self.table.def.indexes.get(position);
        found.ok_or_else(|| crate::access::damaged("no such index"))
    }

    fn named<'n>(&'n self, index: &'n IndexDef) -> Named<'n> {
        Named {
            table: &self.table.name,
            object: self.table.object_id,
            index: index.name.as_deref().unwrap_or_default(),
            index_id: index.id,
        }
    }

    /// Where a row or an entry lies.
    fn locate(&self, index: &IndexDef, key: &[u8]) -> Result<(PageId, usize)> {
        let tree = self.table.database.tree(index.tree)?;
        Ok(tree.locate(key)?.unwrap_or_default())
    }

    fn place(&self, position: usize, key: &[u8]) -> Result<Place> {
        let index = self.index(position)?;
        let (page, slot) = self.locate(index, key)?;
        Ok(Place {
            page,
            slot,
            ..place_of(self.table, index)
        })
    }

    fn words(&self, finding: &RowFinding) -> Result<(Vec<SqlError>, Place)> {
        Ok(match finding {
            RowFinding::MissingEntry {
                index,
                row,
                identified_by,
                values,
            } => {
                let place = self.place(0, row)?;
                let named = self.named(self.index(*index)?);
                let at = (place.page, place.slot);
                (
                    words::missing_entry(named, at, identified_by, values),
                    place,
                )
            }
            RowFinding::ExtraEntry {
                index,
                key,
                identified_by,
                values,
            } => {
                let place = self.place(*index, key)?;
                let named = self.named(self.index(*index)?);
                let at = (place.page, place.slot);
                (words::extra_entry(named, at, identified_by, values), place)
            }
            RowFinding::BadValue { row, column } => {
                let place = self.place(0, row)?;
                (words::bad_value(place, &self.table.def, *column), place)
            }
            RowFinding::UnexpectedNull { row, column } => {
                let place = self.place(0, row)?;
                (
                    words::unexpected_null(place, &self.table.def, *column),
                    place,
                )
            }
        })
    }
}

impl RowSink for RowFindings<'_, '_, '_, '_, '_, '_> {
    fn blob(&mut self, index: usize, blob: BlobRef) -> Result<()> {
        self.check.checker.blob(blob);
        let place = place_of(self.table, self.index(index)?);
        self.check.tell(place).map(|_| ())
    }

    fn found(&mut self, finding: RowFinding) -> Result<()> {
        let (messages, place) = self.words(&finding)?;
        self.check.report.error(messages, place, false)
    }
}

fn place_of(table: &TableRef, index: &IndexDef) -> Place {
    Place {
        object: table.object_id,
        index: index.id,
        partition: partition_id(index),
        ..Place::default()
    }
}

/// The index with this root.
fn owner_place(open: &OpenDatabase, root: PageId) -> Place {
    let catalog = open.catalog.current();
    let found = catalog.objects().find_map(|object| {
        let ObjectKind::Table(def) = &object.kind else {
            return None;
        };
        let index = def.indexes.iter().find(|i| i.tree.0 == root)?;
        Some(Place {
            object: object.id,
            index: index.id,
            partition: partition_id(index),
            ..Place::default()
        })
    });
    found.unwrap_or_default()
}

fn table_ref(
    database: &Arc<Database>,
    catalog: &DatabaseCatalog,
    object: &Object,
    def: &Arc<TableDef>,
) -> TableRef {
    let schema = catalog.schema(object.schema_id);
    TableRef {
        database: database.clone(),
        object_id: object.id,
        schema_name: schema.map_or(String::new(), |s| s.name.clone()),
        name: object.name.clone(),
        def: def.clone(),
        kind: TableKind::User,
        table_type: None,
    }
}

/// The schema is told unless it is the usual one.
fn shown_name(table: &TableRef) -> String {
    match table.schema_name.as_str() {
        "dbo" | "" => table.name.clone(),
        schema => format!("{schema}.{}", table.name),
    }
}

/// Keeps a table's definition in place while it is checked.
struct Stable<'s> {
    database: &'s Arc<Database>,
    owner: Arc<Owner>,
    resource: LockResource,
}

impl<'s> Stable<'s> {
    fn new(
        call: &SystemCall<'_, '_>,
        database: &'s Arc<Database>,
        object: i32,
    ) -> Result<Stable<'s>> {
        let owner = call.execution.owner().clone();
        let resource = LockResource::Object(object);
        database.lock(&owner, resource.clone(), LockMode::SchS)?;
        Ok(Stable {
            database,
            owner,
            resource,
        })
    }
}

impl Drop for Stable<'_> {
    fn drop(&mut self) {
        let Stable {
            database,
            owner,
            resource,
        } = self;
        database.unlock(owner, resource, LockMode::SchS);
    }
}
