//! Statements that meet rows of another transaction: they wait, read again and decide anew.

use super::fixture::*;
use daruma_base::CancelFlag;
use daruma_storage::Owner;
use daruma_value::Value;

/// Runs `waiting` in a second session while the first has `open` uncommitted, commits once the second waits, and gives
/// the number of rows the second changed.
fn meet(host: &TestHost, open: &str, waiting: &'static str) -> u64 {
    host.ok(open);
    let shared = host.shared();
    let owner = Owner::new(2, CancelFlag::new());
    let (engine, second) = (shared.engine.clone(), owner.clone());
    let thread = std::thread::spawn(move || {
        let other = shared.session_of(owner);
        let count = other.ok(waiting);
        other.commit();
        count
    });
    while engine.blocked_by(&second).is_none() {
        assert!(!thread.is_finished(), "{waiting} did not wait for {open}");
        std::thread::yield_now();
    }
    host.commit();
    thread.join().unwrap()
}

fn numbers() -> TestHost {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("n", INT, true)
        .column("k", INT, true)
        .primary(&[0])
        .index(&[2], false, false)
        .create(&host);
    host.ok("insert t values (1, 10, 1), (2, 20, 2), (3, 30, 3)");
    host.commit();
    host
}

fn column(host: &TestHost, ordinal: usize) -> Vec<i32> {
    let number = |row: Vec<Value>| row[ordinal].as_i64().unwrap() as i32;
    host.rows("t").into_iter().map(number).collect()
}

#[test]
fn a_full_update_adds_to_what_was_committed() {
    let host = numbers();
    assert_eq!(
        meet(
            &host,
            "update t set n = n + 1 where id = 2",
            "update t set n = n + 100"
        ),
        3
    );
    assert_eq!(column(&host, 1), [110, 121, 130]);
    assert_eq!(
        meet(&host, "delete t where id = 2", "update t set n = n + 100"),
        2
    );
    assert_eq!(column(&host, 1), [210, 230]);
}

#[test]
fn a_row_that_no_longer_qualifies_is_left_alone() {
    let host = numbers();
    assert_eq!(
        meet(
            &host,
            "update t set n = 0 where id = 2",
            "update t set k = k + 10 where n >= 20"
        ),
        1
    );
    assert_eq!(column(&host, 2), [1, 2, 13]);
    assert_eq!(host.index_keys("t", 1).len(), 3);
    assert_eq!(
        meet(
            &host,
            "update t set n = 5 where id = 3",
            "delete t where n = 30"
        ),
        0
    );
    assert_eq!(column(&host, 0), [1, 2, 3]);
}

/// The row to be changed is waited for; what is read beside it is as of the statement's beginning.
#[test]
fn a_statement_over_several_tables_changes_the_newest_rows() {
    let host = numbers();
    let sql = "update t set n = n + (select max(x.k) from t x) where id > 1";
    assert_eq!(
        meet(&host, "update t set n = n + 1, k = 7 where id = 3", sql),
        2
    );
    assert_eq!(column(&host, 1), [10, 23, 34]);
}

#[test]
fn a_child_waits_for_the_parent_that_goes() {
    use daruma_catalog::ReferentialAction::NoAction;
    let host = TestHost::new();
    let parent = TableBuilder::new("p")
        .column("id", INT, false)
        .primary(&[0])
        .create(&host);
    TableBuilder::new("c")
        .column("p", INT, true)
        .foreign_key("FK", &[0], &parent, &[0], NoAction, NoAction)
        .create(&host);
    host.ok("insert p values (1), (2)");
    host.commit();
    host.ok("delete p where id = 1");
    let shared = host.shared();
    let owner = Owner::new(2, CancelFlag::new());
    let (engine, second) = (shared.engine.clone(), owner.clone());
    let thread =
        std::thread::spawn(move || shared.session_of(owner).fails("insert c values (1)").number);
    while engine.blocked_by(&second).is_none() {
        assert!(!thread.is_finished(), "the child did not wait");
        std::thread::yield_now();
    }
    host.commit();
    assert_eq!(thread.join().unwrap(), 547);
}
