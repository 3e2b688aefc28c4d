//! Rows, keys, foreign keys and builds without any expression.

use super::fixture::*;
use crate::dml::apply::{Applier, Change, OldRow};
use crate::dml::build;
use crate::dml::bulk::{BulkColumn, BulkTarget};
use crate::dml::effects::Effects;
use crate::dml::errors::Verb;
use crate::dml::expr::Evaluators;
use crate::dml::inserter::InsertOptions;
use crate::dml::target::Writable;
use crate::error::Result;
use crate::host::{Host, TableRef, TriggerAction};
use daruma_catalog::ReferentialAction::{self, *};
use daruma_storage::{Batch, Isolation, ScanSpec};
use daruma_value::{DataType, Len, Value};

fn int(n: i32) -> Value {
    Value::Int(n)
}

fn row(n: i32, text: &str) -> Vec<Value> {
    vec![int(n), Value::str(text)]
}

fn insert(host: &TestHost, table: &str, rows: &[Vec<Value>]) -> Result<u64> {
    let table = host.table(table);
    let columns = table
        .def
        .columns
        .iter()
        .filter(|c| c.computed.is_none() && !c.is_identity);
    let columns: Vec<_> = columns
        .map(|c| BulkColumn {
            name: c.name.clone(),
            data_type: c.data_type,
        })
        .collect();
    let target = BulkTarget::new(host, &table, &columns, InsertOptions::STATEMENT)?;
    let savepoint = host.txn.borrow().savepoint();
    let run = || {
        let mut bulk = target.begin(host)?;
        rows.iter().try_for_each(|r| bulk.push(&mut r.clone()))?;
        bulk.finish()
    };
    run().inspect_err(|_| host.txn.borrow().rollback_to(savepoint).unwrap())
}

/// Applies `f` to every row: a new row, or `None` to delete it.
fn change(
    host: &TestHost,
    name: &str,
    f: impl Fn(&[Value]) -> Option<Vec<Value>>,
) -> Result<usize> {
    let savepoint = host.txn.borrow().savepoint();
    change_rows(host, &host.table(name), f)
        .inspect_err(|_| host.txn.borrow().rollback_to(savepoint).unwrap())
}

fn change_rows(
    host: &TestHost,
    table: &TableRef,
    f: impl Fn(&[Value]) -> Option<Vec<Value>>,
) -> Result<usize> {
    let writable = Writable::prepare(host, table)?;
    let tree = writable.access.tree(writable.access.primary())?;
    let txn = host.begin_write(table)?;
    let mut scan = tree.scan(&txn.view(Isolation::Current), ScanSpec::all());
    let (mut batch, mut changes, mut deletes) = (Batch::new(), Vec::new(), false);
    while scan.next(&mut batch)? {
        for i in 0..batch.len() {
            let values = writable.decode(&Evaluators::new(host), batch.payload(i))?;
            let new = f(&values);
            if new.as_ref() != Some(&values) {
                deletes |= new.is_none();
                let payload = batch.payload(i).to_vec();
                let old = OldRow {
                    key: batch.key(i).to_vec(),
                    stamp: batch.stamp(i),
                    payload,
                    values,
                };
                changes.push(Change {
                    old: Some(old),
                    new,
                    ..Change::default()
                });
            }
        }
    }
    let all = vec![true; writable.width()];
    let touched = writable.touched_indexes(&all);
    let (action, verb) = if deletes {
        (TriggerAction::Delete, Verb::Delete)
    } else {
        (TriggerAction::Update, Verb::Update)
    };
    let mut effects = Effects::new(host, &writable, action, (!deletes).then_some(all))?;
    let mut done =
        Applier::new(host, &writable, txn, &touched).apply(changes.into(), &mut |_| Ok(None))?;
    done.parts(host, |part| effects.note(host, &writable, part, verb))?;
    effects.finish(host, &writable, verb, 0)?;
    Ok(done.len())
}

fn plus_one(values: &[Value]) -> Option<Vec<Value>> {
    let Value::Int(n) = values[0] else {
        panic!("no int")
    };
    let mut row = values.to_vec();
    row[0] = int(n + 1);
    Some(row)
}

#[test]
fn rows_and_index_entries_arrive_in_key_order() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .primary(&[0])
        .index(&[1], false, false)
        .create(&host);
    assert_eq!(
        insert(&host, "t", &[row(3, "a"), row(1, "c"), row(2, "b")]).unwrap(),
        3
    );
    assert_eq!(host.rows("t"), [row(1, "c"), row(2, "b"), row(3, "a")]);
    assert_eq!(
        host.index_keys("t", 1),
        [[Value::str("a")], [Value::str("b")], [Value::str("c")]]
    );
}

#[test]
fn duplicate_keys_are_told_with_constraint_index_and_values() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .primary(&[0])
        .index(&[1], true, true)
        .index(&[1, 0], true, false)
        .create(&host);
    insert(&host, "t", &[row(1, "a")]).unwrap();
    let error = insert(&host, "t", &[row(2, "b"), row(1, "c")]).unwrap_err();
    assert_eq!((error.number, error.class, error.state), (2627, 14, 1));
    assert_eq!(
        error.message,
        "Violation of PRIMARY KEY constraint 'PK_t_0'. Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (1)."
    );
    let error = insert(&host, "t", &[row(2, "A")]).unwrap_err();
    assert_eq!(
        error.message,
        "Violation of UNIQUE KEY constraint 'UQ_t_1'. Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (A)."
    );
    alter(&host, "t", |def| {
        def.indexes.remove(1);
    });
    let twice = [vec![int(5), Value::Null], vec![int(5), Value::Null]];
    alter(&host, "t", |def| def.indexes[0].key[0].column_id = 2);
    let error = insert(&host, "t", &twice).unwrap_err();
    assert_eq!(error.number, 2627, "two equal rows of one statement");
    assert!(error.message.ends_with("(<NULL>)."));
    assert_eq!(host.rows("t"), [row(1, "a")]);
}

#[test]
fn a_plain_unique_index_says_2601() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .index(&[0, 1], true, false)
        .create(&host);
    insert(&host, "t", &[row(1, "a")]).unwrap();
    let error = insert(&host, "t", &[row(1, "a")]).unwrap_err();
    assert_eq!(error.number, 2601);
    assert_eq!(
        error.message,
        "Cannot insert duplicate key row in object 'dbo.t' with unique index 'IX_t_1'. The duplicate key value is (1, a)."
    );
}

#[test]
fn keys_move_past_each_other() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .primary(&[0])
        .index(&[1], true, true)
        .create(&host);
    insert(&host, "t", &[row(1, "a"), row(2, "b"), row(3, "c")]).unwrap();
    assert_eq!(change(&host, "t", plus_one).unwrap(), 3);
    assert_eq!(host.rows("t"), [row(2, "a"), row(3, "b"), row(4, "c")]);
    let swap = |values: &[Value]| {
        let other = if values[1] == Value::str("a") {
            "b"
        } else {
            "a"
        };
        (values[1] != Value::str("c"))
            .then(|| vec![values[0].clone(), Value::str(other)])
            .or(Some(values.to_vec()))
    };
    assert_eq!(change(&host, "t", swap).unwrap(), 2);
    assert_eq!(host.rows("t"), [row(2, "b"), row(3, "a"), row(4, "c")]);
    assert_eq!(
        host.index_keys("t", 1),
        [[Value::str("a")], [Value::str("b")], [Value::str("c")]]
    );
    let error = change(&host, "t", |values| Some(vec![int(4), values[1].clone()])).unwrap_err();
    assert_eq!(error.number, 2627);
}

#[test]
fn deletes_take_index_entries_along() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .index(&[1], false, false)
        .create(&host);
    insert(&host, "t", &[row(1, "x"), row(2, "x"), row(3, "y")]).unwrap();
    assert_eq!(
        change(&host, "t", |v| (v[0] != int(2)).then(|| v.to_vec())).unwrap(),
        1
    );
    assert_eq!(host.rows("t"), [row(1, "x"), row(3, "y")]);
    assert_eq!(
        host.index_keys("t", 1),
        [[Value::str("x")], [Value::str("y")]]
    );
}

#[test]
fn null_is_refused_where_the_column_does() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .create(&host);
    let error = insert(&host, "t", &[vec![Value::Null, Value::Null]]).unwrap_err();
    assert_eq!((error.number, error.class, error.state), (515, 16, 2));
    assert_eq!(
        error.message,
        "Cannot insert the value NULL into column 'id', table 'test.dbo.t'; column does not allow nulls. INSERT fails."
    );
}

#[test]
fn text_that_does_not_fit_is_2628() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(3), true)
        .create(&host);
    let error = insert(&host, "t", &[row(1, "abcdef")]).unwrap_err();
    assert_eq!(error.number, 2628);
    assert_eq!(
        error.message,
        "String or binary data would be truncated in table 'test.dbo.t', column 'name'. Truncated value: 'abc'."
    );
    assert_eq!(
        insert(&host, "t", &[row(1, "abc   ")]).unwrap(),
        1,
        "blanks may go"
    );
}

fn family(
    host: &TestHost,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
    indexed: bool,
) {
    let parent = TableBuilder::new("p")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .primary(&[0])
        .create(host);
    let child = TableBuilder::new("c")
        .column("id", INT, false)
        .column("p_id", INT, true)
        .primary(&[0]);
    let child = if indexed {
        child.index(&[1], false, false)
    } else {
        child
    };
    child
        .foreign_key("FK_c_p", &[1], &parent, &[0], on_delete, on_update)
        .create(host);
    insert(host, "p", &[row(1, "a"), row(2, "b")]).unwrap();
    insert(
        host,
        "c",
        &[
            vec![int(10), int(1)],
            vec![int(11), int(1)],
            vec![int(12), int(2)],
            vec![int(13), Value::Null],
        ],
    )
    .unwrap();
}

#[test]
fn foreign_keys_hold_in_both_directions() {
    for indexed in [false, true] {
        let host = TestHost::new();
        family(&host, NoAction, NoAction, indexed);
        let error = insert(&host, "c", &[vec![int(20), int(9)]]).unwrap_err();
        assert_eq!((error.number, error.class, error.state), (547, 16, 0));
        assert_eq!(
            error.message,
            "The INSERT statement conflicted with the FOREIGN KEY constraint \"FK_c_p\". The conflict occurred in database \"test\", table \"dbo.p\", column 'id'."
        );
        let error = change(&host, "p", |v| (v[0] != int(1)).then(|| v.to_vec())).unwrap_err();
        assert_eq!(
            error.message,
            "The DELETE statement conflicted with the REFERENCE constraint \"FK_c_p\". The conflict occurred in database \"test\", table \"dbo.c\", column 'p_id'."
        );
        let error = change(&host, "p", |v| {
            if v[0] == int(2) {
                Some(row(7, "b"))
            } else {
                Some(v.to_vec())
            }
        })
        .unwrap_err();
        assert!(
            error
                .message
                .starts_with("The UPDATE statement conflicted with the REFERENCE constraint")
        );
        let error = change(&host, "c", |v| Some(vec![v[0].clone(), int(5)])).unwrap_err();
        assert!(
            error
                .message
                .starts_with("The UPDATE statement conflicted with the FOREIGN KEY constraint")
        );
        assert_eq!(
            change(&host, "p", |v| Some(row(
                if v[0] == int(1) { 2 } else { 1 },
                "swapped"
            )))
            .unwrap(),
            2
        );
        assert_eq!(host.rows("c").len(), 4);
    }
}

#[test]
fn deletes_cascade() {
    for indexed in [false, true] {
        let host = TestHost::new();
        family(&host, Cascade, NoAction, indexed);
        host.triggers
            .borrow_mut()
            .push(("c".to_string(), TriggerAction::Delete));
        assert_eq!(
            change(&host, "p", |v| (v[0] != int(1)).then(|| v.to_vec())).unwrap(),
            1
        );
        assert_eq!(
            host.rows("c"),
            [vec![int(12), int(2)], vec![int(13), Value::Null]]
        );
        let fired = host.fired.borrow();
        assert_eq!((fired.len(), fired[0].deleted.len()), (1, 2));
    }
}

#[test]
fn updates_cascade() {
    let host = TestHost::new();
    family(&host, NoAction, Cascade, true);
    assert_eq!(change(&host, "p", plus_one).unwrap(), 2);
    let named: Vec<_> = host.rows("c").into_iter().map(|r| r[1].clone()).collect();
    assert_eq!(named, [int(2), int(2), int(3), Value::Null]);
    assert_eq!(host.index_keys("c", 1).len(), 4);
}

#[test]
fn removed_keys_become_null() {
    let host = TestHost::new();
    family(&host, SetNull, SetNull, true);
    change(&host, "p", |v| (v[0] != int(1)).then(|| v.to_vec())).unwrap();
    let named: Vec<_> = host.rows("c").into_iter().map(|r| r[1].clone()).collect();
    assert_eq!(named, [Value::Null, Value::Null, int(2), Value::Null]);
}

#[test]
fn rows_may_refer_to_rows_of_the_same_statement() {
    let host = TestHost::new();
    let shape = || {
        TableBuilder::new("t")
            .column("id", INT, false)
            .column("boss", INT, true)
            .primary(&[0])
    };
    let table = shape().create(&host);
    alter(&host, "t", |def| {
        let own = shape().foreign_key("FK_boss", &[1], &table, &[0], NoAction, NoAction);
        own.with(|made| def.foreign_keys.append(&mut made.foreign_keys));
    });
    insert(&host, "t", &[vec![int(1), int(2)], vec![int(2), int(1)]]).unwrap();
    let error = insert(&host, "t", &[vec![int(3), int(9)]]).unwrap_err();
    assert!(error.message.starts_with(
        "The INSERT statement conflicted with the FOREIGN KEY SAME TABLE constraint \"FK_boss\"."
    ));
    assert_eq!(change(&host, "t", |_| None).unwrap(), 2);
}

#[test]
fn ignored_duplicates_leave_the_others() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(20), true)
        .primary(&[0])
        .index(&[1], true, false)
        .create(&host);
    alter(&host, "t", |def| def.indexes[1].ignore_dup_key = true);
    assert_eq!(
        insert(&host, "t", &[row(1, "a"), row(2, "a"), row(3, "b")]).unwrap(),
        2
    );
    assert_eq!(host.rows("t"), [row(1, "a"), row(3, "b")]);
    let messages = host.messages.borrow();
    assert_eq!((messages.len(), messages[0].number), (1, 3604));
}

#[test]
fn identity_values_are_made_and_noted() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .identity()
        .column("name", varchar(20), true)
        .primary(&[0])
        .create(&host);
    insert(&host, "t", &[vec![Value::str("a")], vec![Value::str("b")]]).unwrap();
    assert_eq!(host.rows("t"), [row(1, "a"), row(2, "b")]);
    assert_eq!(host.last_identity.get(), Some(2));
    host.identity_insert.replace(Some("t".to_string()));
    assert_eq!(
        insert(&host, "t", &[vec![Value::str("c")]])
            .unwrap_err()
            .number,
        545
    );
}

#[test]
fn an_index_is_built_over_old_rows_in_memory_and_spilled() {
    for grant in [64 << 20, 0] {
        let host = TestHost::new();
        TableBuilder::new("t")
            .column("id", INT, false)
            .column("name", varchar(60), true)
            .primary(&[0])
            .create(&host);
        let filler = "x".repeat(40);
        let rows: Vec<_> = (0..5000)
            .map(|n| row(n, &format!("{:04}{filler}", (n * 7919) % 5000)))
            .collect();
        insert(&host, "t", &rows).unwrap();
        host.grant_bytes.set(grant);
        let tree = host.database.create_tree(&host.txn.borrow(), 1).unwrap();
        alter(&host, "t", |def| {
            let mut index = def.indexes[0].clone();
            index.id = 2;
            index.name = Some("IX".to_string());
            index.kind = daruma_catalog::IndexKind::Nonclustered;
            index.constraint = None;
            index.tree = tree;
            index.key[0].column_id = 2;
            def.indexes.push(index);
        });
        build::build_index(&host, &host.table("t"), 2).unwrap();
        let keys = host.index_keys("t", 1);
        assert_eq!(keys.len(), 5000);
        assert!(keys.windows(2).all(|w| w[0][0].as_str() < w[1][0].as_str()));
    }
}

/// Every row takes the primary key of the next one and the name of the one opposite, in memory and on disk.
#[test]
fn rows_that_take_each_others_keys_may_be_more_than_memory_holds() {
    const ROWS: i32 = 12_000;
    let name = |n: i32| format!("{n:05}{}", "x".repeat(300));
    for grant in [256 << 20, 0] {
        let host = TestHost::new();
        TableBuilder::new("t")
            .column("id", INT, false)
            .column("name", varchar(400), false)
            .column("other", INT, false)
            .column("long", DataType::VarChar(Len::MAX), true)
            .primary(&[0])
            .index(&[1], true, false)
            .index(&[2], false, false)
            .create(&host);
        let long = |n: i32| match n % 100 {
            0 => Value::str(format!("{n}{}", "y".repeat(9_000))),
            _ => Value::Null,
        };
        let rows: Vec<_> = (1..=ROWS)
            .map(|n| vec![int(n), Value::str(name(n)), int(n), long(n)])
            .collect();
        insert(&host, "t", &rows).unwrap();
        host.grant_bytes.set(grant);
        let sql = format!(
            "update t set id = id + 1, other = -other, \
             name = right('0000' + cast({ROWS} + 1 - id as varchar(9)), 5) + substring(name, 6, 400)"
        );
        assert_eq!(host.run(&sql).unwrap().1, ROWS as u64);
        let expected: Vec<_> = (1..=ROWS)
            .map(|n| {
                let name = Value::str(name(ROWS + 1 - n));
                vec![int(n + 1), name, int(-n), long(n)]
            })
            .collect();
        assert_eq!(host.rows("t"), expected);
        let names = host.index_keys("t", 1);
        assert_eq!(names.len(), ROWS as usize);
        assert!(
            names
                .windows(2)
                .all(|w| w[0][0].as_str() < w[1][0].as_str())
        );
        assert_eq!(host.index_keys("t", 2).len(), ROWS as usize);

        // Two rows far from each other get one name: nothing is changed.
        let clash = format!(
            "update t set id = id + 1, name = iif(id > {ROWS}, (select name from t where id = 2), name)"
        );
        assert_eq!(host.run(&clash).unwrap_err().number, 2601);
        assert_eq!(host.rows("t"), expected);
    }
}

/// Each row is found twice, and more keys than memory may hold are remembered: the first counts, under MERGE it is an error.
#[test]
fn rows_that_are_found_again_may_be_more_than_memory_holds() {
    const ROWS: i32 = 6_000;
    for grant in [256 << 20, 0] {
        let host = TestHost::new();
        TableBuilder::new("t")
            .column("name", varchar(400), false)
            .column("id", INT, false)
            .column("other", INT, false)
            .primary(&[0])
            .create(&host);
        TableBuilder::new("twice")
            .column("id", INT, false)
            .column("v", INT, false)
            .create(&host);
        let name = |n: i32| Value::str(format!("{n:05}{}", "x".repeat(300)));
        let rows: Vec<_> = (0..ROWS).map(|n| vec![name(n), int(n), int(0)]).collect();
        insert(&host, "t", &rows).unwrap();
        let rows: Vec<_> = (0..2 * ROWS)
            .map(|n| vec![int(n % ROWS), int(1 + n / ROWS)])
            .collect();
        insert(&host, "twice", &rows).unwrap();
        host.grant_bytes.set(grant);
        let update = "update t set other = v from t join twice on twice.id = t.id";
        assert_eq!(host.run(update).unwrap().1, ROWS as u64);
        let others = |host: &TestHost| -> Vec<Value> {
            host.rows("t")
                .into_iter()
                .map(|row| row[2].clone())
                .collect()
        };
        assert!(others(&host).iter().all(|v| *v == int(1) || *v == int(2)));
        let merge = |filter: &str| {
            format!(
                "merge t using (select id, v from twice {filter}) as s on s.id = t.id \
                 when matched then update set other = 7;"
            )
        };
        assert_eq!(host.run(&merge("")).unwrap_err().number, 8672);
        assert!(!others(&host).contains(&int(7)));
        assert_eq!(host.run(&merge("where v = 1")).unwrap().1, ROWS as u64);
        assert!(others(&host).iter().all(|v| *v == int(7)));
        let delete = "delete t from t join twice on twice.id = t.id";
        assert_eq!(host.run(delete).unwrap().1, ROWS as u64);
        assert!(host.rows("t").is_empty());
    }
}

#[test]
fn a_unique_index_over_equal_rows_is_1505() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(60), true)
        .create(&host);
    insert(&host, "t", &[row(1, "a"), row(2, "b"), row(3, "A")]).unwrap();
    let made = TableBuilder::new("u")
        .column("id", INT, false)
        .column("name", varchar(60), true)
        .index(&[1], true, false)
        .create(&host);
    alter(&host, "t", |def| {
        def.indexes.push(made.def.indexes[1].clone())
    });
    let error = build::build_index(&host, &host.table("t"), 2).unwrap_err();
    assert_eq!((error.number, error.class), (1505, 16));
    assert_eq!(
        error.message,
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name 'dbo.t' and the index name 'IX_u_1'. The duplicate key value is (A)."
    );
}

#[test]
fn a_table_is_rebuilt_under_another_key() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(60), true)
        .create(&host);
    insert(&host, "t", &[row(3, "a"), row(1, "b"), row(2, "c")]).unwrap();
    let to = TableBuilder::new("t2")
        .column("id", INT, false)
        .column("name", varchar(60), true)
        .primary(&[0])
        .create(&host);
    assert_eq!(
        build::rebuild_rows(&host, &host.table("t"), &to).unwrap(),
        3
    );
    assert_eq!(host.rows("t2"), [row(1, "b"), row(2, "c"), row(3, "a")]);
}

#[test]
fn foreign_keys_are_validated_over_old_rows() {
    let host = TestHost::new();
    family(&host, NoAction, NoAction, false);
    assert!(build::validate_foreign_key(&host, &host.table("c"), 0).is_ok());
    alter(&host, "c", |def| def.foreign_keys[0].disabled = true);
    insert(&host, "c", &[vec![int(20), int(9)]]).unwrap();
    let error = build::validate_foreign_key(&host, &host.table("c"), 0).unwrap_err();
    assert!(
        error
            .message
            .starts_with("The ALTER TABLE statement conflicted with the FOREIGN KEY constraint")
    );
}
