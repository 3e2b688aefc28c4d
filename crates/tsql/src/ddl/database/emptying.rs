//! DBCC SHRINKFILE EMPTYFILE: what a file holds goes to the other files of its filegroup.
//!
//! Theory: from the beginning to the next start of the server no page is allocated in the file. Pages of trees are moved one
//! by one, each by a record of its own, beside those who read and write (`Tree::move_one_out`). What is known by its place (roots
//! of trees, values too long for a page) cannot be moved: what it belongs to is written anew, by ALTER INDEX or ALTER TABLE
//! REBUILD. A stop between two steps leaves less to be done.

use crate::error::Result;
use crate::instance::{DatabaseEntry, OpenDatabase};
use crate::messages;
use crate::session::Execution;
use daruma_catalog::{FileDef, Object, ObjectKind, TableDef};
use daruma_storage::{FileContent, StorageError};

/// The file of a database that is current. `run` runs statements.
pub(crate) fn empty_file(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    file: &FileDef,
    run: &dyn Fn(&str) -> Result<()>,
) -> Result<()> {
    if ex.state.trancount.get() > 0 {
        return Err(messages::error(8920, &[&"DBCC SHRINKFILE"]));
    }
    let open = entry.open()?;
    let _no_backup = entry
        .backup
        .try_lock()
        .ok_or_else(|| messages::error(3023, &[]))?;
    let not_all = || messages::error(2555, &[&file.logical_name]);
    if file.id <= 2 {
        return Err(not_all());
    }
    let storage = &open.storage;
    let was_closed = storage.close_file(file.id, true)?;
    let emptying = Emptying {
        ex,
        open: &open,
        file,
        run,
    };
    let emptied = emptying.move_all();
    let is_full = matches!(&emptied, Err(e) if FILEGROUP_FULL.contains(&e.number));
    if emptied.is_ok() && storage.content_pages(file.id)? == 0 {
        return Ok(());
    }
    if is_full || !storage.has_room_beside(file.id) {
        storage.close_file(file.id, was_closed)?;
        return Err(messages::error(2556, &[]));
    }
    emptied.and_then(|()| Err(not_all()))
}

/// No page can be had.
const FILEGROUP_FULL: [i32; 2] = [1101, 1105];

struct Emptying<'e, 'a> {
    ex: &'e Execution<'a>,
    open: &'e OpenDatabase,
    file: &'e FileDef,
    run: &'e dyn Fn(&str) -> Result<()>,
}

impl Emptying<'_, '_> {
    fn move_all(&self) -> Result<()> {
        super::files::clean(self.ex, self.open)?;
        if !self.open.storage.has_room_beside(self.file.id) {
            return Ok(());
        }
        let content = self.content()?;
        for tree in &content.trees {
            self.stoppable(|check| {
                let owner = &self.ex.state.entry.owner;
                let storage = &self.open.storage;
                storage
                    .move_tree_out(*tree, self.file.id, owner, check)
                    .map(|_| ())
            })?;
        }
        for statement in self.rebuilds(&content) {
            (self.run)(&statement)?;
            super::files::clean(self.ex, self.open)?;
        }
        // Catalog rows that the rebuilds wrote are elsewhere already: the file is closed.
        for statement in self.rewrites(&content) {
            if self.open.storage.content_pages(self.file.id)? == 0 {
                break;
            }
            (self.run)(&statement)?;
            super::files::clean(self.ex, self.open)?;
        }
        Ok(())
    }

    fn content(&self) -> Result<FileContent> {
        let mut content = FileContent::default();
        self.stoppable(|check| {
            content = self.open.storage.file_content(self.file.id, check)?;
            Ok(())
        })?;
        Ok(content)
    }

    /// Runs a step of the storage's that a cancel ends.
    fn stoppable(
        &self,
        step: impl FnOnce(&mut dyn FnMut() -> daruma_storage::Result<()>) -> daruma_storage::Result<()>,
    ) -> Result<()> {
        let mut cancelled = Ok(());
        let done = step(&mut || {
            cancelled = self.ex.check_cancel();
            match cancelled {
                Ok(()) => Ok(()),
                Err(_) => Err(StorageError::Cancelled),
            }
        });
        cancelled?;
        Ok(done?)
    }

    /// Statements that write trees anew whose root is in the file.
    fn rebuilds(&self, content: &FileContent) -> Vec<String> {
        let mut statements = Vec::new();
        self.each_table(|name, table| {
            let has_root = |at: usize| {
                let tree = table.indexes.get(at).map(|index| index.tree);
                tree.is_some_and(|tree| content.roots.contains(&tree))
            };
            // One that is disabled stays so when the table is written anew, and not when it is rebuilt itself.
            let rows = |at: usize| at == 0 || table.indexes.get(at).is_some_and(|i| i.disabled);
            let count = table.indexes.len();
            if (0..count).any(|at| has_root(at) && rows(at)) {
                statements.push(format!("ALTER TABLE {name} REBUILD"));
                return;
            }
            let own = table
                .indexes
                .iter()
                .enumerate()
                .filter(|(at, _)| has_root(*at));
            let quoted = own.filter_map(|(_, index)| index.name.as_deref().map(quoted));
            statements.extend(quoted.map(|index| format!("ALTER INDEX {index} ON {name} REBUILD")));
        });
        statements
    }

    /// Statements that write long values anew. Whose they are the pages do not say.
    fn rewrites(&self, content: &FileContent) -> Vec<String> {
        let mut statements = Vec::new();
        if content.blob_pages > 0 {
            self.each_table(|name, _| statements.push(format!("ALTER TABLE {name} REBUILD")));
        }
        statements
    }

    fn each_table(&self, mut each: impl FnMut(String, &TableDef)) {
        let catalog = self.open.catalog.current();
        let name = |object: &Object| {
            let schema = catalog
                .schema(object.schema_id)
                .map_or("dbo", |s| s.name.as_str());
            format!("{}.{}", quoted(schema), quoted(&object.name))
        };
        for object in catalog.objects() {
            if let ObjectKind::Table(table) = &object.kind {
                each(name(object), table);
            }
        }
    }
}

fn quoted(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}
