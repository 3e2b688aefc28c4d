//! A page that is damaged on the disk of one server comes back from the other.

use crate::servers::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE_BYTES: usize = 8192;
/// Before it there are the pages of the file itself, and copies of pages that were written last.
const FIRST_PAGE: usize = 160;

/// A table of many pages, a group of two servers, everything on both disks.
fn prepare(root: &Path, alfa: &Server, bravo: &Server, mode: &str) {
    acquaint(root, &[alfa, bravo]);
    create_database(alfa);
    alfa.sql(
        "EXEC ('USE d; CREATE TABLE p (id int PRIMARY KEY, v char(400));
            INSERT p SELECT TOP 1000 n, CONCAT(''mark-'', FORMAT(n, ''0000'')) FROM
                (SELECT ROW_NUMBER() OVER (ORDER BY (SELECT 1)) AS n FROM sys.all_columns) AS s')",
    );
    create_group(root, alfa, bravo, mode);
    let wanted = match mode {
        "SYNCHRONOUS_COMMIT" => "SYNCHRONIZED",
        _ => "SYNCHRONIZING",
    };
    alfa.wait_for(OTHER_STATE, wanted);
    bravo.wait_for("SELECT COUNT(*) FROM d.dbo.p", "1000");
    alfa.sql("EXEC ('USE d; CHECKPOINT')");
}

/// The page of the database's file that a row is on.
fn page_of(file: &File, mark: &str) -> u64 {
    let bytes = file.metadata().expect("its length").len() as usize;
    let mut content = vec![0; bytes];
    file.read_exact_at(&mut content, 0).expect("reads");
    let pages = content.chunks(PAGE_BYTES).enumerate().skip(FIRST_PAGE);
    let has_it = |page: &[u8]| page.windows(mark.len()).any(|w| w == mark.as_bytes());
    let mut found = pages
        .filter(|(_, page)| has_it(page))
        .map(|(n, _)| n as u64);
    found.next().expect("a page with the row")
}

/// Overwrites a part of the page that a row is on, which nobody has in memory; the page's number.
fn damage(server: &Server, mark: &str) -> u64 {
    let path = server.folder.join("d.mdf");
    let path = match path.exists() {
        true => path,
        false => server.folder.join("data").join("d.mdf"),
    };
    let file = File::options().read(true).write(true).open(path);
    let file = file.expect("opens");
    let page = page_of(&file, mark);
    let at = page * PAGE_BYTES as u64 + 4000;
    file.write_all_at(&[0xA5; 64], at).expect("writes");
    server.sql("DBCC DROPCLEANBUFFERS");
    page
}

const MIDDLE: &str = "SELECT COUNT(*) FROM d.dbo.p WHERE id = 500";

fn row_of(page: u64, columns: &str, table: &str) -> String {
    format!(
        "SELECT {columns} FROM {table} WHERE database_id = DB_ID('d') AND file_id = 1 AND page_id = {page}"
    )
}

/// The first reader gets 824; the page comes back, and what happened can be seen.
fn is_repaired(server: &Server, page: u64, event: &str) {
    assert_eq!(server.error("master", MIDDLE), Some(824));
    server.wait_for(MIDDLE, "1");
    let repairs = "sys.dm_hadr_auto_page_repair";
    server.wait_for(&row_of(page, "page_status", repairs), "5");
    assert_eq!(
        server
            .value(&row_of(page, "error_type", repairs))
            .as_deref(),
        Some("2")
    );
    server.wait_for(&row_of(page, "event_type", "msdb.dbo.suspect_pages"), event);
    server.wait_for_log(&format!(
        "repaired physical page (1:{page}) in database \"d\""
    ));
    // What is read again comes from the disk.
    server.sql("DBCC DROPCLEANBUFFERS");
    server.wait_for("SELECT COUNT(*) FROM d.dbo.p", "1000");
}

#[test]
fn a_damaged_page_of_the_primary_comes_back_from_the_secondary() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (mut alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    prepare(root, &alfa, &bravo, "SYNCHRONOUS_COMMIT");
    let page = damage(&alfa, "mark-0500");
    is_repaired(&alfa, page, "5");
    alfa.sql("DBCC CHECKDB (d) WITH NO_INFOMSGS");

    // It takes changes as before, and is there after a crash.
    alfa.sql("UPDATE d.dbo.p SET v = 'changed' WHERE id = 500");
    let changed = "SELECT RTRIM(v) FROM d.dbo.p WHERE id = 500";
    bravo.wait_for(changed, "changed");
    alfa.kill();
    alfa.run();
    alfa.wait_for(changed, "changed");
    alfa.wait_for("SELECT COUNT(*) FROM d.dbo.p", "1000");
}

#[test]
fn a_damaged_page_that_readers_of_the_secondary_meet_comes_back_from_the_primary() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    prepare(root, &alfa, &bravo, "ASYNCHRONOUS_COMMIT");
    // Restart points write what redo has changed.
    let held = "SELECT COUNT(*) FROM d.dbo.p";
    bravo.wait_for(held, "1000");
    let page = damage(&bravo, "mark-0500");
    is_repaired(&bravo, page, "4");
    alfa.sql("UPDATE d.dbo.p SET v = 'changed' WHERE id = 500");
    bravo.wait_for("SELECT RTRIM(v) FROM d.dbo.p WHERE id = 500", "changed");
}

#[test]
fn without_another_replica_a_damaged_page_stays_damaged() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, mut bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    prepare(root, &alfa, &bravo, "ASYNCHRONOUS_COMMIT");
    bravo.kill();
    alfa.wait_for(OTHER_STATE, "NOT SYNCHRONIZING");
    let page = damage(&alfa, "mark-0500");
    assert_eq!(alfa.error("master", MIDDLE), Some(824));
    let status = row_of(page, "page_status", "sys.dm_hadr_auto_page_repair");
    alfa.wait_for(&status, "6");
    assert_eq!(alfa.error("master", MIDDLE), Some(824));

    // The other one comes back: whoever meets the page next has it asked for again.
    bravo.run();
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZING");
    alfa.wait_for(MIDDLE, "1");
    alfa.wait_for(&status, "5");
}

#[test]
fn redo_waits_for_a_damaged_page_until_the_primary_gives_it() {
    let root = tempfile::tempdir().expect("temporary directory");
    let root = root.path();
    let (alfa, mut bravo) = (Server::start(root, "ALFA"), Server::start(root, "BRAVO"));
    prepare(root, &alfa, &bravo, "ASYNCHRONOUS_COMMIT");
    let page = damage(&bravo, "mark-0500");
    // Nobody has read it there when redo comes to it.
    alfa.sql("UPDATE d.dbo.p SET v = CONCAT('changed ', id) WHERE id BETWEEN 490 AND 510; DELETE d.dbo.p WHERE id = 700");
    let changed = "SELECT RTRIM(v) FROM d.dbo.p WHERE id = 500";
    bravo.wait_for(changed, "changed 500");
    bravo.wait_for("SELECT COUNT(*) FROM d.dbo.p", "999");
    bravo.wait_for(
        &row_of(page, "page_status", "sys.dm_hadr_auto_page_repair"),
        "5",
    );
    bravo.wait_for(&row_of(page, "event_type", "msdb.dbo.suspect_pages"), "4");
    bravo.wait_for_log("Redo of database 'd' has ended");
    alfa.sql("UPDATE d.dbo.p SET v = 'again' WHERE id = 500");
    bravo.wait_for(changed, "again");

    // The same at a restart, and the copy may lead afterwards.
    alfa.sql("EXEC ('USE d; CHECKPOINT')");
    bravo.kill();
    let path = bravo.folder.join("d.mdf");
    let file = File::options().read(true).write(true).open(path);
    let at = page * PAGE_BYTES as u64 + 4000;
    file.expect("opens")
        .write_all_at(&[0xA5; 64], at)
        .expect("writes");
    alfa.sql("UPDATE d.dbo.p SET v = 'third' WHERE id BETWEEN 490 AND 510");
    bravo.run();
    bravo.wait_for(changed, "third");
    alfa.sql(
        "ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'ALFA' WITH (AVAILABILITY_MODE = SYNCHRONOUS_COMMIT);
         ALTER AVAILABILITY GROUP g MODIFY REPLICA ON 'BRAVO' WITH (AVAILABILITY_MODE = SYNCHRONOUS_COMMIT)",
    );
    alfa.wait_for(OTHER_STATE, "SYNCHRONIZED");
    bravo.sql("ALTER AVAILABILITY GROUP g FAILOVER");
    bravo.wait_for(OWN_ROLE, "PRIMARY");
    bravo.wait_for(changed, "third");
    bravo.sql("DBCC CHECKDB (d) WITH NO_INFOMSGS");
}
