//! Copies of a database on a disk that errs.

mod common;

use common::{DB, owner, specs};
use daruma_sim::{Faults, Rates, SimDisk};
use daruma_storage::*;
use std::sync::Arc;

const PAGE_BYTES: usize = 8192;

fn copied(db: &Arc<Database>) -> Result<Vec<(PageRun, Vec<u8>)>> {
    let copy = db.start_copy()?;
    let mut pages = Vec::new();
    for run in &copy.files()[0].runs {
        for page in run.first..run.first + run.count {
            let one = PageRun {
                first: page,
                count: 1,
            };
            let mut bytes = vec![0; PAGE_BYTES];
            copy.read(1, one, &mut bytes)?;
            pages.push((one, bytes));
        }
    }
    Ok(pages)
}

/// A page that a misdirected read found empty would be missing from the backup, and nobody would be told.
#[test]
fn a_read_that_loses_its_way_leaves_no_page_out_of_a_copy() {
    let disk = SimDisk::new(7);
    let config = EngineConfig {
        buffer_pool_pages: 256,
        ..EngineConfig::default()
    };
    let engine = Engine::new(daruma_sim::env(&disk, 7), config);
    let db = engine
        .create_database(DB, "t", specs(), Settings::default())
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("a tree");
    let rows = db.tree(tree).expect("the tree");
    for n in 0..500u32 {
        rows.insert(&txn, &n.to_be_bytes(), &[n as u8; 700])
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("all pages are on disk");
    let is_content = |bytes: &[u8]| bytes.iter().any(|b| *b != 0);
    let right = copied(&db).expect("a copy");
    assert!(right.iter().filter(|(_, bytes)| is_content(bytes)).count() > 30);
    for _ in 0..20 {
        disk.set_faults(Faults {
            rates: Rates {
                misdirected_read: 4_000,
                ..Rates::default()
            },
            ..Faults::default()
        });
        let found = copied(&db).expect("a copy");
        disk.set_faults(Faults::default());
        for ((run, found), (_, right)) in found.iter().zip(&right) {
            assert_eq!(is_content(found), is_content(right), "page {}", run.first);
        }
    }
}
