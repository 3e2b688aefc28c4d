//! INSERT, UPDATE and DELETE as written.

use super::fixture::*;
use crate::host::TriggerAction;
use daruma_catalog::ReferentialAction::*;
use daruma_value::{DataType, Value};

fn int(n: i32) -> Value {
    Value::Int(n)
}

fn text(s: &str) -> Value {
    Value::str(s)
}

/// `t (id int primary key, name varchar(10), n int)` with an index on `n`.
fn plain() -> TestHost {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(10), true)
        .column("n", INT, true)
        .primary(&[0])
        .index(&[2], false, false)
        .create(&host);
    host
}

fn column(host: &TestHost, table: &str, ordinal: usize) -> Vec<Value> {
    host.rows(table)
        .into_iter()
        .map(|r| r[ordinal].clone())
        .collect()
}

#[test]
fn values_are_inserted_and_converted() {
    let host = plain();
    assert_eq!(host.ok("insert t values (1, 'a', 10), (2, null, '20')"), 2);
    assert_eq!(host.ok("insert into t (n, id) values (30, 1 + 2)"), 1);
    assert_eq!(
        host.rows("t"),
        [
            [int(1), text("a"), int(10)],
            [int(2), Value::Null, int(20)],
            [int(3), Value::Null, int(30)]
        ]
    );
}

#[test]
fn shapes_that_do_not_match_are_refused() {
    let host = plain();
    assert_eq!(host.fails("insert t values (1, 'a')").number, 213);
    assert_eq!(host.fails("insert t (id, n) values (1)").number, 109);
    assert_eq!(host.fails("insert t (id) values (1, 2)").number, 110);
    assert_eq!(host.fails("insert t (id) values (1), (2, 3)").number, 10709);
    assert_eq!(host.fails("insert t (id, nope) values (1, 2)").number, 207);
    assert_eq!(
        host.fails("insert t (id, n, id) values (1, 2, 3)").number,
        264
    );
    assert_eq!(host.fails("insert t (id, n) select 1").number, 120);
    assert_eq!(host.fails("insert t (id) select 1, 2").number, 121);
    assert_eq!(host.fails("insert nope values (1)").number, 208);
    assert_eq!(host.fails("update t set nope = 1").number, 207);
    assert_eq!(host.fails("update t set n = 1, n = 2").number, 264);
}

#[test]
fn bad_values_are_refused_whole() {
    let host = plain();
    assert_eq!(
        host.fails("insert t values (1, 'a', 1), (2, 'b', 'x')")
            .number,
        245
    );
    assert_eq!(
        host.fails("insert t values (1, 'a', 1), (2, '12345678901', 2)")
            .number,
        2628
    );
    assert_eq!(host.fails("insert t values (null, 'a', 1)").number, 515);
    assert_eq!(
        host.fails("insert t values (1, 'a', 99999999999)").number,
        8115
    );
    assert!(host.rows("t").is_empty());
}

#[test]
fn defaults_fill_what_is_not_given() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .identity()
        .column("n", INT, false)
        .default("((7))")
        .column("name", varchar(10), true)
        .default("('x')")
        .primary(&[0])
        .create(&host);
    host.ok("insert t default values");
    host.ok("insert t (name) values ('a')");
    host.ok("insert t values (default, null)");
    assert_eq!(
        host.rows("t"),
        [
            [int(1), int(7), text("x")],
            [int(2), int(7), text("a")],
            [int(3), int(7), Value::Null]
        ]
    );
    assert_eq!(host.last_identity.get(), Some(3));
    host.ok("update t set n = default, name = default where id = 3");
    assert_eq!(host.rows("t")[2], [int(3), int(7), text("x")]);
}

#[test]
fn identity_values_are_refused_or_wanted() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .identity()
        .column("n", INT, true)
        .primary(&[0])
        .create(&host);
    assert_eq!(host.fails("insert t (id, n) values (5, 1)").number, 544);
    let error = host.fails("insert t values (5, 1)");
    assert_eq!(error.number, 8101);
    assert_eq!(
        error.message,
        "An explicit value for the identity column in table 't' can only be specified when a column list is used and IDENTITY_INSERT is ON."
    );
    assert_eq!(host.fails("update t set id = 1").number, 8102);
    host.identity_insert.replace(Some("t".to_string()));
    host.ok("insert t (id, n) values (5, 1)");
    assert_eq!(host.fails("insert t (n) values (1)").number, 545);
    host.identity_insert.replace(None);
    host.ok("insert t (n) values (2)");
    assert_eq!(column(&host, "t", 0), [int(5), int(6)]);
}

#[test]
fn a_table_feeds_itself() {
    let host = plain();
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20)");
    assert_eq!(
        host.ok("insert t (id, name, n) select id + 2, name, n from t"),
        2
    );
    assert_eq!(
        host.ok("insert t (id, name, n) select id + 4, name, n from t"),
        4
    );
    assert_eq!(column(&host, "t", 0), (1..=8).map(int).collect::<Vec<_>>());
    assert_eq!(host.index_keys("t", 1).len(), 8);
    assert_eq!(host.ok("insert top (1) t (id) select id + 100 from t"), 1);
}

#[test]
fn rows_of_a_procedure_are_inserted() {
    let host = plain();
    host.exec_rows.replace(vec![
        vec![int(1), text("a"), text("5")],
        vec![int(2), Value::Null, int(6)],
    ]);
    assert_eq!(host.ok("insert t exec p"), 2);
    assert_eq!(host.rows("t")[0], [int(1), text("a"), int(5)]);
    host.exec_rows.replace(vec![vec![int(1)]]);
    assert_eq!(host.fails("insert t exec p").number, 213);
}

#[test]
fn computed_columns_follow() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("a", INT, false)
        .column("twice", INT, true)
        .computed("([a]*(2))", true)
        .column("thrice", INT, true)
        .computed("([a]*(3))", false)
        .primary(&[0])
        .index(&[1], false, false)
        .index(&[2], false, false)
        .create(&host);
    assert_eq!(host.ok("insert t values (1), (2)"), 2);
    assert_eq!(column(&host, "t", 1), [int(2), int(4)]);
    assert_eq!(host.index_keys("t", 2), [[int(3)], [int(6)]]);
    host.ok("update t set a = a + 10");
    assert_eq!(host.index_keys("t", 1), [[int(22)], [int(24)]]);
    assert_eq!(host.index_keys("t", 2), [[int(33)], [int(36)]]);
    assert_eq!(host.fails("insert t (a, twice) values (1, 1)").number, 271);
    assert_eq!(host.fails("update t set twice = 1").number, 271);
}

#[test]
fn row_versions_grow_with_every_change() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("v", DataType::RowVersion, false)
        .primary(&[0])
        .create(&host);
    host.ok("insert t (id) values (1), (2)");
    let before = column(&host, "t", 1);
    host.ok("update t set id = id where id = 1");
    let after = column(&host, "t", 1);
    assert!(before[0].as_bytes() < after[0].as_bytes());
    assert_eq!(before[1], after[1]);
    assert_eq!(host.fails("insert t (id, v) values (3, 0x01)").number, 273);
    assert_eq!(host.fails("update t set v = 0x01").number, 272);
}

#[test]
fn checks_are_tested_where_they_apply() {
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("qty", DataType::SmallInt, true)
        .primary(&[0])
        .check("CK_qty", "([qty]>(0))", Some(2))
        .create(&host);
    host.ok("insert t values (1, 1), (2, null)");
    let error = host.fails("insert t values (3, 0)");
    assert_eq!((error.number, error.class, error.state), (547, 16, 0));
    assert_eq!(
        error.message,
        "The INSERT statement conflicted with the CHECK constraint \"CK_qty\". The conflict occurred in database \"test\", table \"dbo.t\", column 'qty'."
    );
    assert_eq!(host.fails("update t set qty = qty - 1").number, 547);
    assert_eq!(host.ok("update t set qty = 32767 where id = 1"), 1);
    let error = host.fails("update t set qty = qty + 1");
    assert!(error.number == 220 || error.number == 8115, "{error}");
    assert_eq!(column(&host, "t", 1), [Value::SmallInt(32767), Value::Null]);
}

#[test]
fn updates_find_change_and_count_rows() {
    let host = plain();
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)");
    assert_eq!(
        host.ok("update t set n = n + 1, name = 'x' + name where id > 1"),
        2
    );
    assert_eq!(host.rows("t")[2], [int(3), text("xc"), int(31)]);
    assert_eq!(host.index_keys("t", 1), [[int(10)], [int(21)], [int(31)]]);
    assert_eq!(host.ok("update t set id = id + 1"), 3);
    assert_eq!(column(&host, "t", 0), [int(2), int(3), int(4)]);
    assert_eq!(host.ok("update t set n += 1 where n >= 21"), 2);
    assert_eq!(host.index_keys("t", 1), [[int(10)], [int(22)], [int(32)]]);
    assert_eq!(host.ok("update top (1) t set name = null"), 1);
    assert_eq!(host.ok("update t set n = 0 where id = 99"), 0);
}

#[test]
fn a_growing_key_is_not_met_twice() {
    let host = plain();
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)");
    assert_eq!(host.ok("update t set n = n + 100 where n > 5"), 3);
    assert_eq!(column(&host, "t", 2), [int(110), int(120), int(130)]);
}

#[test]
fn updates_read_other_tables() {
    let host = plain();
    TableBuilder::new("s")
        .column("id", INT, false)
        .column("v", INT, true)
        .create(&host);
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20)");
    host.ok("insert s values (1, 100), (1, 101), (3, 300)");
    assert_eq!(
        host.ok("update t set n = s.v from t join s on s.id = t.id"),
        1
    );
    assert!(matches!(host.rows("t")[0][2], Value::Int(100 | 101)));
    assert_eq!(
        host.ok("update x set n = (select count(*) from s) from t x where x.id = 2"),
        1
    );
    assert_eq!(host.rows("t")[1][2], int(3));
    assert_eq!(host.ok("update t set n = (select max(n) from t)"), 2);
    assert_eq!(host.ok("delete t from t join s on s.id = t.id"), 1);
    assert_eq!(column(&host, "t", 0), [int(2)]);
}

#[test]
fn variables_take_values_on_the_way() {
    let host = plain();
    host.variables
        .borrow_mut()
        .insert("@v".to_string(), (INT, int(0)));
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)");
    assert_eq!(host.ok("update t set @v = n = @v + n"), 3);
    assert_eq!(column(&host, "t", 2), [int(10), int(30), int(60)]);
    assert_eq!(host.variables.borrow()["@v"].1, int(60));
}

#[test]
fn deletes_find_and_count_rows() {
    let host = plain();
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)");
    assert_eq!(host.ok("delete from t where n = 20"), 1);
    assert_eq!(host.index_keys("t", 1), [[int(10)], [int(30)]]);
    assert_eq!(host.ok("delete top (1) t"), 1);
    assert_eq!(host.ok("delete t"), 1);
    assert!(host.index_keys("t", 1).is_empty());
}

#[test]
fn output_shows_rows_before_and_after() {
    let host = plain();
    let (rows, _) = host.run("insert t output inserted.id, inserted.n * 2 as twice values (1, 'a', 10), (2, 'b', 20)").unwrap();
    assert_eq!(rows, [[int(1), int(20)], [int(2), int(40)]]);
    let (rows, _) = host
        .run("update t set n = n + 1 output deleted.n, inserted.n where id = 1")
        .unwrap();
    assert_eq!(rows, [[int(10), int(11)]]);
    let (rows, _) = host.run("delete t output deleted.* where id = 2").unwrap();
    assert_eq!(rows, [[int(2), text("b"), int(20)]]);
}

#[test]
fn output_fills_tables() {
    let host = plain();
    TableBuilder::new("log")
        .column("id", INT, false)
        .column("was", varchar(10), true)
        .create(&host);
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20)");
    assert_eq!(
        host.ok("update t set n = 0 output inserted.id, deleted.name into log"),
        2
    );
    host.ok("delete t output deleted.id into log (id) where id = 2");
    assert_eq!(
        host.rows("log"),
        [
            [int(1), text("a")],
            [int(2), text("b")],
            [int(2), Value::Null]
        ]
    );
}

#[test]
fn triggers_see_each_statement_once() {
    let host = plain();
    host.triggers.borrow_mut().extend([
        ("t".to_string(), TriggerAction::Insert),
        ("t".to_string(), TriggerAction::Update),
        ("t".to_string(), TriggerAction::Delete),
    ]);
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20)");
    host.ok("update t set n = 5 where id = 1");
    host.ok("delete t where id = 77");
    let fired = host.fired.borrow();
    assert_eq!(fired.len(), 3);
    assert_eq!((fired[0].inserted.len(), fired[0].deleted.len()), (2, 0));
    assert_eq!(fired[1].deleted, [[int(1), text("a"), int(10)]]);
    assert_eq!(fired[1].inserted, [[int(1), text("a"), int(5)]]);
    assert_eq!(fired[1].updated, [3]);
    assert_eq!(
        (fired[2].action, fired[2].deleted.len()),
        (TriggerAction::Delete, 0)
    );
    drop(fired);
    assert_eq!(host.fails("delete t output deleted.id").number, 334);
}

#[test]
fn cascades_follow_statements() {
    let host = TestHost::new();
    let parent = TableBuilder::new("p")
        .column("id", INT, false)
        .primary(&[0])
        .create(&host);
    TableBuilder::new("c")
        .column("id", INT, false)
        .column("p", INT, true)
        .primary(&[0])
        .foreign_key("FK", &[1], &parent, &[0], Cascade, Cascade)
        .create(&host);
    host.ok("insert p values (1), (2)");
    host.ok("insert c values (1, 1), (2, 2)");
    assert_eq!(host.ok("update p set id = id + 10"), 2);
    assert_eq!(column(&host, "c", 1), [int(11), int(12)]);
    assert_eq!(host.ok("delete p where id = 11"), 1);
    assert_eq!(column(&host, "c", 0), [int(2)]);
    assert_eq!(host.fails("insert c values (9, 9)").number, 547);
}

#[test]
fn filtered_indexes_hold_what_they_ask_for() {
    let host = plain();
    alter(&host, "t", |def| {
        def.indexes[1].filter = Some("([n]>(15))".to_string())
    });
    host.ok("insert t values (1, 'a', 10), (2, 'b', 20)");
    assert_eq!(host.index_keys("t", 1), [[int(20)]]);
    host.ok("update t set n = n + 10");
    assert_eq!(host.index_keys("t", 1), [[int(20)], [int(30)]]);
    host.ok("update t set n = n - 10 where id = 1");
    host.ok("delete t where id = 2");
    assert!(host.index_keys("t", 1).is_empty());
}

/// Columns of the benchmark's statement.
fn orders() -> TestHost {
    let host = TestHost::new();
    TableBuilder::new("d")
        .column("OrderID", INT, false)
        .column("Tracking", DataType::NVarChar(daruma_value::Len(25)), true)
        .column("Qty", DataType::SmallInt, false)
        .column("Price", DataType::Money, false)
        .column("Discount", DataType::Money, false)
        .primary(&[0])
        .check("CK_qty", "([Qty]>(0))", Some(3))
        .check("CK_price", "([Price]>=(0.00))", Some(4))
        .check("CK_discount", "([Discount]>=(0.00))", Some(5))
        .create(&host);
    host.ok("insert d select 1, 'AB-1', 1, 10, 0 union all select 2, null, 2, 20.5, 0.25");
    host
}

#[test]
fn full_table_updates_take_the_short_way_and_agree() {
    let host = orders();
    let up = "update d set Tracking = 'x' + Tracking, Qty = Qty + 1, Price = Price + 1, Discount = Discount + 1";
    let down = "update d set Tracking = substring(Tracking, 2, 100), Qty = Qty - 1, Price = Price - 1, Discount = Discount - 1";
    let before = host.rows("d");
    assert_eq!(host.ok(up), 2);
    assert_eq!(
        host.rows("d"),
        [
            [
                int(1),
                text("xAB-1"),
                Value::SmallInt(2),
                Value::Money(110_000),
                Value::Money(10_000)
            ],
            [
                int(2),
                Value::Null,
                Value::SmallInt(3),
                Value::Money(215_000),
                Value::Money(12_500)
            ],
        ]
    );
    assert_eq!(host.ok(down), 2);
    assert_eq!(host.rows("d"), before);
    let error = host.fails(down);
    assert_eq!(error.number, 547);
    assert!(error.message.contains("\"CK_qty\""), "{error}");
    assert_eq!(host.rows("d"), before);
    assert_eq!(
        host.fails(
            "update d set Tracking = 'a text of more than twenty-five characters' + Tracking"
        )
        .number,
        2628
    );
    assert_eq!(host.fails("update d set Qty = null").number, 515);
}

#[test]
fn files_are_loaded() {
    use daruma_base::{Disk, OpenMode};
    use daruma_syntax::{ParseOptions, ast::StatementKind, parse_batch};
    use std::path::Path;
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(5), true)
        .default("('none')")
        .column("twice", INT, true)
        .computed("([id]*(2))", false)
        .create(&host);
    let load = |sql: &str| {
        let batch = parse_batch(sql, &ParseOptions::default()).unwrap();
        let StatementKind::BulkInsert(ast) = &batch[0].kind else {
            panic!("no BULK INSERT")
        };
        crate::dml::bulk::FileImport::open(ast, &host)?.run(&host)
    };
    let write = |path: &str, content: &[u8]| {
        host.disk
            .create_dir_all(Path::new(path).parent().unwrap())
            .unwrap();
        host.disk
            .open(Path::new(path), OpenMode::CreateNew)
            .unwrap()
            .write_at(content, 0)
            .unwrap();
    };
    write(
        "/in/a.csv",
        b"id,name,twice\r\n1,\"a,b\",\r\n2,,0\r\nx,c,\r\n3,toolong,\r\n",
    );
    assert_eq!(
        load("bulk insert t from '/in/a.csv' with (format = 'CSV', firstrow = 2)").unwrap(),
        2
    );
    assert_eq!(column(&host, "t", 1), [text("a,b"), text("none")]);
    let numbers: Vec<_> = host.messages.borrow().iter().map(|m| m.number).collect();
    assert_eq!(numbers, [4864, 4863]);
    let error =
        load("bulk insert t from '/in/a.csv' with (format = 'CSV', firstrow = 2, maxerrors = 1)")
            .unwrap_err();
    assert_eq!(error.number, 4865);
    assert_eq!(
        load("bulk insert t from '/in/none.csv'")
            .unwrap_err()
            .number,
        4860
    );
    host.messages.borrow_mut().clear();
    write("/in/c.csv", b"99999999999,a,\n,b,\n7,\"x\"y,\n8,c,\n");
    let loaded = load("bulk insert t from '/in/c.csv' with (format = 'CSV')");
    assert_eq!(loaded.unwrap(), 1);
    let numbers: Vec<_> = host.messages.borrow().iter().map(|m| m.number).collect();
    assert_eq!(numbers, [4867, 4869, 4879]);
    write("/in/b.txt", b"1\ta\t\n2\tb");
    assert_eq!(
        load("bulk insert t from '/in/b.txt'").unwrap_err().number,
        4832
    );
}

#[test]
fn format_files_choose_fields_and_error_files_keep_what_was_refused() {
    use daruma_base::{Disk, OpenMode};
    use daruma_syntax::{ParseOptions, ast::StatementKind, parse_batch};
    use std::path::Path;
    let host = TestHost::new();
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("name", varchar(5), true)
        .column("extra", INT, true)
        .create(&host);
    let load = |sql: &str| {
        let batch = parse_batch(sql, &ParseOptions::default()).unwrap();
        let StatementKind::BulkInsert(ast) = &batch[0].kind else {
            panic!("no BULK INSERT")
        };
        crate::dml::bulk::FileImport::open(ast, &host)?.run(&host)
    };
    host.disk.create_dir_all(Path::new("/in")).unwrap();
    let write = |path: &str, content: &[u8]| {
        let file = host.disk.open(Path::new(path), OpenMode::CreateNew);
        file.unwrap().write_at(content, 0).unwrap();
    };
    let read = |path: &str| {
        let file = host.disk.open(Path::new(path), OpenMode::ReadOnly).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    write("/in/a.txt", b"a;skipped;1\nb;skipped;x\nc;skipped;3\n");
    let format = b"14.0\n3\n1 SQLCHAR 0 9 \";\" 2 name \"\"\n2 SQLCHAR 0 9 \";\" 0 none \"\"\n3 SQLCHAR 0 9 \"\\n\" 1 id \"\"\n";
    write("/in/a.fmt", format);
    let with = "with (formatfile = '/in/a.fmt', errorfile = '/in/bad')";
    let loaded = load(&format!("bulk insert t from '/in/a.txt' {with}"));
    assert_eq!(loaded.unwrap(), 2);
    assert_eq!(column(&host, "t", 0), [int(1), int(3)]);
    assert_eq!(column(&host, "t", 1), [text("a"), text("c")]);
    assert_eq!(read("/in/bad"), "b;skipped;x\n");
    let told = read("/in/bad.Error.Txt");
    assert!(
        told.starts_with("Row 2 File Offset 12 ErrorFile Offset 0 - HRESULT 0x80020005: "),
        "{told}"
    );
    // The files of an earlier load are not overwritten.
    let again = load(&format!("bulk insert t from '/in/a.txt' {with}"));
    assert_eq!(again.unwrap_err().number, 4861);
    let missing = load("bulk insert t from '/in/a.txt' with (formatfile = '/in/none')");
    assert_eq!(missing.unwrap_err().number, 4860);
    let bad = [
        ("14.0\nmany\n", 4822),
        ("14.0\n1\n2 SQLCHAR 0 4 \"\" 1 id \"\"\n", 4823),
        ("14.0\n1\n1 SQLINT 0 4 \"\" 1 id \"\"\n", 4824),
        ("14.0\n1\n1 SQLCHAR 3 4 \"\" 1 id \"\"\n", 4825),
        ("14.0\n1\n1 SQLCHAR 0 x \"\" 1 id \"\"\n", 4826),
        ("14.0\n1\n1 SQLCHAR 0 0 \"\" 1 id \"\"\n", 4827),
        ("14.0\n1\n1 SQLCHAR 0 4 \"\" 9 id \"\"\n", 4828),
        ("<BCPFORMAT><RECORD", 4862),
    ];
    for (format, number) in bad {
        let path = format!("/in/{number}.fmt");
        write(&path, format.as_bytes());
        let refused = load(&format!(
            "bulk insert t from '/in/a.txt' with (formatfile = '{path}')"
        ));
        assert_eq!(refused.unwrap_err().number, number);
    }
}
