//! `sys.sp_persistent_version_cleanup`: row versions are cleaned now.
//!
//! | `@clean_option` | the product | here |
//! |---|---|---|
//! | 0 | everything | everything |
//! | 1 | off-row versions, by what is known of their pages | versions of settled transactions, dropped whole |
//! | 2 | off-row versions, each page visited | the same, and each page that is left is read and checked |
//! | 3 | in-row versions | rows of aborted transactions are put back, deleted rows go |
//! | 4 | internal | refused |
//!
//! `@scanallpages` visits every leaf of every table and index as well, versioned or not.

use super::define::{Procedure, integer};
use crate::error::Result;
use crate::instance::OpenDatabase;
use crate::messages;
use crate::session::{Securable, SystemCall};
use daruma_catalog::ObjectKind;
use daruma_storage::{CleanScope, TreeId};

pub(super) const PROCEDURES: &[Procedure] = &[Procedure::native(
    "sp_persistent_version_cleanup",
    "@dbname sysname = NULL; @scanallpages bit = 0; @clean_option int = 0",
    version_cleanup,
)];

/// Rounds after which cleaning gives up on others who make new work all the time.
const STEPS_MAX: u32 = 10_000_000;

fn version_cleanup(call: &SystemCall<'_, '_>) -> Result<i32> {
    let instance = call.execution.instance();
    let database = match call.text(0) {
        Some(name) => instance
            .database_named(&name)
            .ok_or_else(|| messages::error(911, &[&name]))?
            .id(),
        None => call.database,
    };
    let execution = call.execution;
    if !execution.is_unlimited() && !execution.may(database, "ALTER", Securable::Database) {
        return Err(messages::error(15247, &[]));
    }
    let option = integer(call, 2).unwrap_or(0);
    let scope = match option {
        0 => CleanScope::All,
        1 | 2 => CleanScope::OffRow,
        3 => CleanScope::InRow,
        _ => return Err(messages::error(15021, &[&"@clean_option"])),
    };
    let open = instance.open_database(database)?;
    if integer(call, 1) == Some(1) {
        scan_all_pages(call, &open)?;
    }
    for _ in 0..STEPS_MAX {
        call.execution.check_cancel()?;
        if !open.storage.clean(scope)? {
            break;
        }
    }
    if option == 2 {
        for chunk in open.storage.version_chunks() {
            call.execution.check_cancel()?;
            open.storage.visit_versions(chunk)?;
        }
    }
    Ok(0)
}

fn scan_all_pages(call: &SystemCall<'_, '_>, open: &OpenDatabase) -> Result<()> {
    for tree in trees(open) {
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            call.execution.check_cancel()?;
            from = open.storage.sweep_tree(tree, &key)?;
        }
    }
    Ok(())
}

/// The catalog's tree, and those of tables and indexes.
fn trees(open: &OpenDatabase) -> Vec<TreeId> {
    let mut trees = vec![open.storage.catalog_tree()];
    for object in open.catalog.current().objects() {
        if let ObjectKind::Table(def) = &object.kind {
            trees.extend(def.indexes.iter().map(|index| index.tree));
        }
    }
    trees
}
