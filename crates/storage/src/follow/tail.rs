//! The tail of a secondary's log: what the primary does not have is cut off.
//!
//! Theory: whoever cuts must know that no page has anything of what goes. A secondary of which that is not known looks: every change
//! sets the position in its page, so the pages on disk say it themselves.

use super::Secondary;
use crate::database::Database;
use crate::error::Result;
use crate::page::{Page, PageType};
use daruma_base::{Lsn, PageId, reached};
use std::sync::atomic::Ordering;

/// What became of a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Cut {
    /// The log ends there.
    Done,
    /// Nothing was done: pages have what was to go. Why that is known.
    Needed(String),
}

impl Secondary {
    /// Takes away the log from `at` on, a block boundary, durably. Below `known` pages may have what they like; `at` below that, or
    /// none, has every page on disk looked at, and nothing is cut when one is newer, or damaged.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn cut_tail(&self, at: Lsn, known: Option<Lsn>) -> Result<Cut> {
        if self.applied() > at {
            return Ok(Cut::Needed("it is applied".into()));
        }
        if known.is_none_or(|known| at < known) {
            reached!("secondary.cut.looked");
            if let Some(why) = self.page_beyond(at)? {
                return Ok(Cut::Needed(why));
            }
        }
        self.db.cut_log_tail(at)?;
        self.floor.fetch_min(at.0, Ordering::AcqRel);
        Ok(Cut::Done)
    }

    /// What a page on disk has from `at` on. One that is damaged may have anything, and has to come from elsewhere as well.
    fn page_beyond(&self, at: Lsn) -> Result<Option<String>> {
        let files = &self.db.store().files;
        let mut page = Page::zeroed();
        for file in files.infos() {
            for number in 0..files.size_pages(file.spec.id) {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let id = PageId::new(file.spec.id, number);
                if crate::copy::is_made_anew(id) {
                    continue;
                }
                match files.read(id, &mut page) {
                    Err(error) if error.damaged_page().is_some() => {
                        return Ok(Some(error.to_string()));
                    }
                    read => read?,
                }
                let is_written = page.page_type().is_some_and(|t| t != PageType::Boot);
                if is_written && page.lsn() >= at {
                    return Ok(Some(format!("page {id:?} has it")));
                }
            }
        }
        Ok(None)
    }

    /// `told` is called, by the thread of redo, when readers see definitions that have changed: it may wake somebody and nothing
    /// else. Only the first call counts.
    pub fn on_new_definitions(&self, told: Box<dyn Fn() + Send + Sync>) {
        let _ = self.told_definitions.set(told);
    }
}

impl Database {
    /// Another node leads from now on: nothing is logged or acknowledged here any more, and what waits ends with an outcome that
    /// is not known.
    pub fn end_reign(&self) {
        self.store()
            .log
            .fence("another replica of its group leads the database");
    }
}
