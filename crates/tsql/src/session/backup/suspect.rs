//! `msdb.dbo.suspect_pages`: pages that could not be read, and what became of them.
//!
//! | event | when |
//! |---|---|
//! | 1 | a page that is not what it should be (824 without a wrong checksum) |
//! | 2 | a wrong checksum |
//! | 4 | the page was restored, or given back by the primary of an availability group |
//! | 5 | the page was given back to the primary by another replica |
//!
//! 3 (torn) and 7 (deallocated by DBCC) do not occur: a torn page shows as a wrong checksum, DBCC repairs nothing.
//! One row for a page, 1,000 at most; DROP DATABASE removes the rows of a database. A row that cannot be written is told in the
//! error log: the error that it is about goes its way.

use super::history::run;
use crate::error::DamagedPage;
use crate::instance::Instance;
use daruma_base::{DatabaseId, PageId};
use parking_lot::ReentrantMutex;
use std::cell::Cell;
use std::sync::Arc;

/// The product's own limit.
const ROWS_MAX: usize = 1_000;
const MISREAD: u8 = 1;
const BAD_CHECKSUM: u8 = 2;
const RESTORED: u8 = 4;
const REPAIRED: u8 = 5;
/// `error_type` of `dm_hadr_auto_page_repair`.
const TYPE_MISREAD: i16 = 1;
const TYPE_CHECKSUM: i16 = 2;

/// One writer at a time. A damaged page that the writing itself meets is not written.
pub(crate) type SuspectPages = ReentrantMutex<Cell<bool>>;

/// A page, and whether its checksum is what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuspectPage {
    pub page: PageId,
    pub checksum: bool,
}

impl SuspectPage {
    /// The row of `suspect_pages` that a damaged page becomes.
    pub fn of(damaged: &DamagedPage) -> SuspectPage {
        SuspectPage {
            page: damaged.page,
            checksum: damaged.is_checksum,
        }
    }

    fn event(&self) -> u8 {
        match self.checksum {
            true => BAD_CHECKSUM,
            false => MISREAD,
        }
    }
}

/// Pages of a database that could not be read.
pub(crate) fn note(instance: &Arc<Instance>, database: u16, pages: &[SuspectPage]) {
    if pages.is_empty() {
        return;
    }
    let each = pages.iter().take(ROWS_MAX).map(|suspect| {
        let (file, page, event) = (suspect.page.file, suspect.page.page, suspect.event());
        format!(
            "UPDATE dbo.suspect_pages SET event_type = {event}, error_count = error_count + 1, last_update_date = GETDATE()
             WHERE database_id = {database} AND file_id = {file} AND page_id = {page}
             IF @@ROWCOUNT = 0 AND (SELECT COUNT(*) FROM dbo.suspect_pages) < {ROWS_MAX}
                 INSERT dbo.suspect_pages (database_id, file_id, page_id, event_type, error_count)
                 VALUES ({database}, {file}, {page}, {event}, 1)\n"
        )
    });
    write(instance, &each.collect::<String>());
    // Once it is noted: the repair notes its end in the same row.
    let service = instance.hadr.service();
    for suspect in pages.iter().take(ROWS_MAX) {
        let error_type = match suspect.checksum {
            true => TYPE_CHECKSUM,
            false => TYPE_MISREAD,
        };
        service.page_is_damaged(DatabaseId(database), suspect.page, error_type);
    }
}

impl Instance {
    /// A page of a database could not be read by what no session waits for.
    pub fn page_was_damaged(
        self: &Arc<Self>,
        database: DatabaseId,
        page: PageId,
        is_checksum: bool,
    ) {
        let suspect = SuspectPage {
            page,
            checksum: is_checksum,
        };
        note(self, database.0, &[suspect]);
    }

    /// A page that could not be read was given back by another replica of its availability group.
    pub fn page_was_repaired(
        self: &Arc<Self>,
        database: DatabaseId,
        page: PageId,
        is_primary: bool,
    ) {
        let event = match is_primary {
            true => REPAIRED,
            false => RESTORED,
        };
        let change = format!(
            "UPDATE dbo.suspect_pages SET event_type = {event}, last_update_date = GETDATE()
             WHERE event_type < {RESTORED} AND database_id = {} AND file_id = {} AND page_id = {}",
            database.0, page.file, page.page
        );
        write(self, &change);
    }
}

/// These pages of a database were restored; `None` for all of them.
pub(super) fn restored(instance: &Arc<Instance>, database: u16, pages: Option<&[PageId]>) {
    let set = format!(
        "UPDATE dbo.suspect_pages SET event_type = {RESTORED}, last_update_date = GETDATE()
         WHERE event_type < {RESTORED} AND database_id = {database}"
    );
    match pages {
        None => write(instance, &set),
        Some(pages) => {
            let each = pages.iter();
            let each =
                each.map(|p| format!("{set} AND file_id = {} AND page_id = {}\n", p.file, p.page));
            write(instance, &each.collect::<String>());
        }
    }
}

/// The database is gone.
pub(crate) fn forget(instance: &Arc<Instance>, database: u16) {
    write(
        instance,
        &format!("DELETE dbo.suspect_pages WHERE database_id = {database}"),
    );
}

/// Changes the table. A session that keeps it locked is not waited for: an error is waiting to be told, and it may be this
/// session that has the lock.
fn write(instance: &Arc<Instance>, changes: &str) {
    let busy = instance.suspect_pages.lock();
    if busy.replace(true) {
        return;
    }
    let batch = format!(
        "SET NOCOUNT ON SET XACT_ABORT ON SET LOCK_TIMEOUT 0 BEGIN TRANSACTION\n{changes}\nCOMMIT"
    );
    if let Err(error) = run(instance, &batch) {
        let text = format!("msdb.dbo.suspect_pages could not be written: {error}");
        instance.log.write("Server", &text);
    }
    busy.set(false);
}
