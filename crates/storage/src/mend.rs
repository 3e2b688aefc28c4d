//! Damaged pages of an open database that a copy of it has whole: asking, answering, putting in place.
//!
//! Theory: whoever meets a damaged page knows a position that is above every change it ever had. A copy that has redone everything
//! below that position has the page as it was; if nothing at or above the position has changed it there, its content is what was
//! lost. The position of a primary is the end of its log, that of a secondary is how far it has redone.
//!
//! | content | done |
//! |---|---|
//! | of another page, damaged, of no page | refused |
//! | changed at the position or above it | refused: it is newer than what belongs here, and redo would pass it by |
//! | of a page that was written meanwhile | left alone |
//!
//! Pages that tell where others are (allocation), headers and boot pages are not mended: they are made anew, or mirrored.
//!
//! Read next: `buffer::repair`.

use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::page::{PAGE_BYTES, Page};
use crate::roll::PageRoll;
use daruma_base::{Lsn, PageId, reached};

/// What is to be done about a page that somebody could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mending {
    /// A copy has to be asked. [`Database::end_mending`] ends it.
    Wanted,
    /// It can be read.
    Needless,
    /// Such a page is not taken from copies.
    Impossible,
}

impl Database {
    /// Looks at a page that somebody could not read, and begins to wait for its content. Whoever asks takes the position afterwards.
    pub fn begin_mending(&self, page: PageId) -> Result<Mending> {
        if !PageRoll::is_restorable(page) {
            return Ok(Mending::Impossible);
        }
        let repairs = &self.store().repairs;
        repairs.begin(page);
        let damaged = self.pool().is_damaged(self.store(), page);
        match damaged {
            Ok(true) => Ok(Mending::Wanted),
            Ok(false) => {
                repairs.end(page);
                Ok(Mending::Needless)
            }
            Err(error) => {
                repairs.end(page);
                Err(error)
            }
        }
    }

    /// The page is waited for no more.
    pub fn end_mending(&self, page: PageId) {
        self.store().repairs.end(page);
    }

    /// A page as it is here, for a copy that lost it. `None` where something at `below` or above it has changed it, or there is none.
    pub fn page_below(&self, page: PageId, below: Lsn) -> Result<Option<Vec<u8>>> {
        if !PageRoll::is_restorable(page) {
            return Ok(None);
        }
        let mut copy = self.pool().read(self.store(), page)?.clone();
        if copy.id() != page || copy.lsn() >= below {
            return Ok(None);
        }
        copy.seal();
        Ok(Some(copy.bytes().to_vec()))
    }

    /// Puts a copy's content in the place of a damaged page. `below`: the position that the copy was asked with. False where the page
    /// needs it no more. Product error 824 for content that is refused.
    pub fn mend(&self, page: PageId, content: &[u8], below: Lsn) -> Result<bool> {
        let content = self.checked(page, content, below)?;
        self.pool().repair(self.store(), &content)
    }

    fn checked(&self, page: PageId, content: &[u8], below: Lsn) -> Result<Page> {
        let refused = |what: &str| StorageError::DamagedPage {
            page,
            path: self.store().files.path(page.file),
            what: format!("the content of a copy is refused: {what}"),
        };
        let bytes: &[u8; PAGE_BYTES] = content.try_into().map_err(|_| refused("its length"))?;
        let mut copy = Page::zeroed();
        copy.bytes_mut().copy_from_slice(bytes);
        if copy.compute_checksum() != copy.stored_checksum() {
            return Err(refused("its checksum is wrong"));
        }
        if copy.id() != page || !PageRoll::is_restorable(page) {
            return Err(refused("it is another page"));
        }
        if copy.lsn() >= below {
            reached!("mend.newer");
            return Err(refused("it is newer than what is known here"));
        }
        copy.validate().map_err(refused)?;
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Engine, EngineConfig, FileSpec, Isolation, Owner, Settings, TreeId};
    use daruma_base::DatabaseId;
    use daruma_sim::SimDisk;
    use std::sync::Arc;

    const PATH: &str = "/t.mdf";

    struct Bench {
        db: Arc<Database>,
        tree: TreeId,
        page: PageId,
    }

    fn files() -> Vec<FileSpec> {
        vec![
            FileSpec::data(1, 1, PATH, 256),
            FileSpec::log("/t_log.ldf", 256),
        ]
    }

    impl Bench {
        /// A table with one row, written.
        fn new() -> Bench {
            let disk = SimDisk::new(1);
            let engine = Engine::new(daruma_sim::env(&disk, 1), EngineConfig::default());
            let db = engine
                .create_database(DatabaseId(5), "t", files(), Settings::default())
                .expect("creates");
            let txn = db.begin(&Owner::new(1, Default::default()));
            let tree = db.create_tree(&txn, 1).expect("creates");
            txn.commit(Durability::Full).expect("commits");
            let bench = Bench {
                db,
                tree,
                page: tree.0,
            };
            bench.insert(b"kept");
            bench.rest();
            bench
        }

        fn insert(&self, key: &[u8]) {
            let txn = self.db.begin(&Owner::new(1, Default::default()));
            let tree = self.db.tree(self.tree).expect("a tree");
            tree.insert(&txn, key, &[1; 100]).expect("inserts");
            txn.commit(Durability::Full).expect("commits");
        }

        /// Everything is on disk, and nothing in memory.
        fn rest(&self) {
            while self.db.background_step().expect("goes on") {}
            self.db.checkpoint().expect("writes");
            while self.db.background_step().expect("goes on") {}
            self.db
                .pool()
                .flush(self.db.store(), Lsn::MAX, usize::MAX)
                .expect("writes");
            self.db.pool().drop_clean();
        }

        fn write(&self, at: u64, bytes: &[u8]) {
            let at = u64::from(self.page.page) * PAGE_BYTES as u64 + at;
            let file = self.db.store().files.handle(1).expect("is open");
            file.write_at(bytes, at).expect("writes");
        }

        fn has(&self, key: &[u8]) -> crate::Result<bool> {
            let txn = self.db.begin(&Owner::new(2, Default::default()));
            let view = txn.view(Isolation::ReadCommittedSnapshot);
            let found = self.db.tree(self.tree)?.get(&view, key);
            found.map(|f| f.is_some())
        }

        /// Its page as a copy has it, and a position above all its changes.
        fn copy(&self) -> (Vec<u8>, Lsn) {
            let below = self.db.sync_blocks().expect("syncs");
            let copy = self.db.page_below(self.page, below).expect("reads");
            self.rest();
            (copy.expect("old enough"), below)
        }

        fn damage(&self) {
            self.write(100, &[0xA5; 64]);
            self.db.pool().drop_clean();
            assert!(self.has(b"kept").is_err());
        }
    }

    #[test]
    fn a_damaged_page_is_what_the_copy_says_and_stays_so() {
        let bench = Bench::new();
        let (copy, below) = bench.copy();
        assert_eq!(
            bench.db.begin_mending(bench.page).expect("reads"),
            Mending::Needless
        );
        assert!(!bench.db.mend(bench.page, &copy, below).expect("looks"));
        bench.damage();
        assert_eq!(
            bench.db.begin_mending(bench.page).expect("reads"),
            Mending::Wanted
        );
        assert!(bench.db.mend(bench.page, &copy, below).expect("mends"));
        assert!(bench.has(b"kept").expect("reads"));
        // It is on disk, and not in memory alone.
        bench.db.pool().drop_clean();
        assert!(bench.has(b"kept").expect("reads"));
        bench.insert(b"more");
        assert!(bench.has(b"more").expect("reads"));
    }

    /// Zeros pass for a page that was never written, until somebody looks for a tree there.
    #[test]
    fn a_page_of_zeros_is_damaged() {
        let bench = Bench::new();
        let (copy, below) = bench.copy();
        bench.write(0, &[0; PAGE_BYTES]);
        assert!(bench.has(b"kept").is_err());
        assert_eq!(
            bench.db.begin_mending(bench.page).expect("reads"),
            Mending::Wanted
        );
        assert!(bench.db.mend(bench.page, &copy, below).expect("mends"));
        bench.db.pool().drop_clean();
        assert!(bench.has(b"kept").expect("reads"));
    }

    #[test]
    fn a_page_that_was_written_meanwhile_is_left_alone() {
        let bench = Bench::new();
        let (old, below) = bench.copy();
        bench.damage();
        bench.db.begin_mending(bench.page).expect("reads");
        assert!(bench.db.mend(bench.page, &old, below).expect("mends"));
        bench.insert(b"more");
        bench.rest();
        // Damaged anew, with a content that nobody asked for since.
        bench.damage();
        assert!(!bench.db.mend(bench.page, &old, below).expect("looks"));
        assert!(bench.has(b"kept").is_err());
    }

    #[test]
    fn content_that_is_not_the_page_as_it_was_is_refused() {
        let bench = Bench::new();
        let (good, below) = bench.copy();
        bench.damage();
        bench.db.begin_mending(bench.page).expect("reads");
        let refused = |page: PageId, content: &[u8], below: Lsn| {
            let error = bench.db.mend(page, content, below).expect_err("is refused");
            error.to_string()
        };
        let short = good.get(..PAGE_BYTES - 1).expect("a part");
        assert!(refused(bench.page, short, below).contains("length"));
        let mut flipped = good.clone();
        flipped[PAGE_BYTES - 1] ^= 1;
        assert!(refused(bench.page, &flipped, below).contains("checksum"));
        let beside = PageId::new(1, bench.page.page + 1);
        assert!(refused(beside, &good, below).contains("another page"));
        assert!(refused(bench.page, &[0; PAGE_BYTES], below).contains("refused"));
        // Newer than what was known when it was asked for.
        assert!(refused(bench.page, &good, Lsn(1)).contains("newer"));
        assert!(bench.has(b"kept").is_err());
        assert!(bench.db.mend(bench.page, &good, below).expect("mends"));
    }

    #[test]
    fn a_copy_gives_no_page_that_was_changed_later() {
        let bench = Bench::new();
        let (_, below) = bench.copy();
        bench.insert(b"more");
        let newer = bench.db.page_below(bench.page, below).expect("reads");
        assert_eq!(newer, None);
    }

    #[test]
    fn pages_of_the_file_itself_are_not_mended() {
        let bench = Bench::new();
        for page in [0, 1, 2, 3, 31, 40] {
            let page = PageId::new(1, page);
            let found = bench.db.begin_mending(page).expect("looks");
            assert_eq!(found, Mending::Impossible, "{page}");
            assert_eq!(bench.db.page_below(page, Lsn::MAX).expect("looks"), None);
        }
    }
}
