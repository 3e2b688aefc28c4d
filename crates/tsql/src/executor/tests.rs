//! Operators against each other: every way to run a query gives the same rows, in memory or on disk.

use crate::dml::tests::{INT, TableBuilder, TestHost, varchar};
use crate::host::Host;
use daruma_base::cancel::CancelReason;
use daruma_value::Value;

/// Two tables with repeating and missing keys; `b` has an index on its key, `a` has none.
fn host() -> TestHost {
    let host = TestHost::new();
    TableBuilder::new("a")
        .column("id", INT, false)
        .column("k", INT, true)
        .column("t", varchar(40), false)
        .primary(&[0])
        .create(&host);
    TableBuilder::new("b")
        .column("id", INT, false)
        .column("k", INT, true)
        .column("t", varchar(40), false)
        .primary(&[0])
        .index(&[1], false, false)
        .index(&[2], false, false)
        .create(&host);
    for (table, rows, step) in [("a", 3000, 7), ("b", 1500, 11)] {
        for chunk in 0..rows / 100 {
            let values: Vec<String> = (chunk * 100..(chunk + 1) * 100)
                .map(|n| {
                    let key = if n % 17 == 0 {
                        "NULL".to_string()
                    } else {
                        (n * step % 900).to_string()
                    };
                    format!("({n}, {key}, 'text number {}')", n * 37 % 1000)
                })
                .collect();
            host.ok(&format!("INSERT INTO {table} VALUES {}", values.join(", ")));
        }
    }
    host
}

fn rows(host: &TestHost, sql: &str) -> Vec<Vec<Value>> {
    host.run(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).0
}

/// Rows without regard to their order.
fn bag(host: &TestHost, sql: &str) -> Vec<String> {
    let mut all: Vec<String> = rows(host, sql).iter().map(|r| format!("{r:?}")).collect();
    all.sort();
    all
}

#[test]
fn join_methods_agree() {
    let host = host();
    for (kind, columns) in [
        ("INNER", "a.id, b.id"),
        ("LEFT", "a.id, b.id"),
        ("RIGHT", "a.id, b.id"),
        ("FULL", "a.id, b.id"),
    ] {
        let sql = |hint: &str| {
            format!("SELECT {columns} FROM a {kind} {hint} JOIN b ON a.k = b.k AND a.id < b.id * 2")
        };
        let expected = bag(&host, &sql("HASH"));
        assert!(expected.len() > 1000, "{kind}");
        assert_eq!(bag(&host, &sql("MERGE")), expected, "{kind} merge");
        if kind != "FULL" {
            assert_eq!(bag(&host, &sql("LOOP")), expected, "{kind} loop");
        }
    }
}

#[test]
fn subqueries_agree_with_joins() {
    let host = host();
    let same = |x: &str, y: &str| assert_eq!(bag(&host, x), bag(&host, y), "{x} / {y}");
    same(
        "SELECT id FROM a WHERE k IN (SELECT k FROM b)",
        "SELECT DISTINCT a.id FROM a JOIN b ON a.k = b.k",
    );
    same(
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.id > a.id)",
        "SELECT DISTINCT a.id FROM a JOIN b ON a.k = b.k AND b.id > a.id",
    );
    same(
        "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
        "SELECT a.id FROM a LEFT JOIN b ON a.k = b.k WHERE b.id IS NULL AND a.k IS NOT NULL",
    );
    same(
        "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b)",
        "SELECT id FROM a WHERE 1 = 0",
    );
    same(
        "SELECT id, (SELECT COUNT(*) FROM b WHERE b.k = a.k) AS n FROM a",
        "SELECT a.id, COUNT(b.id) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.id",
    );
    same(
        "SELECT id FROM a WHERE k = 7 OR k = 14 OR k IS NULL",
        "SELECT id FROM a WHERE k IN (7, 14) UNION ALL SELECT id FROM a WHERE k IS NULL",
    );
    same(
        "SELECT MAX(k), MIN(k) FROM b",
        "SELECT (SELECT MAX(k) FROM b), (SELECT MIN(k) FROM b)",
    );
}

#[test]
fn small_grants_spill_and_change_nothing() {
    let host = host();
    let queries = [
        "SELECT id, t FROM a ORDER BY t, id DESC",
        "SELECT a.id, b.t FROM a LEFT HASH JOIN b ON a.k = b.k",
        "SELECT a.id, b.id FROM a FULL HASH JOIN b ON a.k = b.k",
        "SELECT t, id, COUNT(*), SUM(k) FROM a GROUP BY t, id",
        "SELECT DISTINCT t, id FROM a",
    ];
    let expected: Vec<Vec<String>> = queries.iter().map(|q| bag(&host, q)).collect();
    let sorted = rows(&host, queries[0]);
    host.grant_bytes.set(10_000);
    for (query, expected) in queries.iter().zip(&expected) {
        assert_eq!(&bag(&host, query), expected, "{query}");
    }
    assert_eq!(rows(&host, queries[0]), sorted);
}

#[test]
fn seeks_agree_with_scans() {
    let host = host();
    for condition in [
        "k = 33",
        "k = 33.0",
        "k > 880",
        "k >= 880 AND k < 890",
        "k > 879.5",
        "k <= 3.5",
        "k < 99999999999",
        "k > 99999999999",
        "k IN (1, 5, 5, 900, NULL)",
        "k IS NULL",
        "k BETWEEN 10 AND 12 OR k = 800",
        "id = 77",
        "id > 1490",
        "t LIKE 'text number 99%'",
        "t LIKE 'TEXT%7'",
        "t LIKE 'text number 5'",
        "t = 'Text Number 12 '",
        "t >= 'text number 98' AND t < N'text number 99'",
    ] {
        let seek = bag(&host, &format!("SELECT id FROM b WHERE {condition}"));
        let scan = bag(
            &host,
            &format!("SELECT id FROM b WITH (INDEX(0)) WHERE {condition}"),
        );
        assert_eq!(seek, scan, "{condition}");
        assert!(
            !condition.starts_with('t') || !seek.is_empty(),
            "{condition}"
        );
        if condition.starts_with('t') {
            continue;
        }
        // The same over an expression, which no index can answer.
        let hidden = condition
            .replace("k ", "(k + 0) ")
            .replace("id ", "(id + 0) ");
        assert_eq!(
            seek,
            bag(&host, &format!("SELECT id FROM b WHERE {hidden}")),
            "{hidden}"
        );
    }
}

#[test]
fn top_over_an_index_is_the_start_of_the_sort() {
    let host = host();
    for order in ["k, id", "k DESC, id DESC", "id DESC", "t, id"] {
        let all = rows(&host, &format!("SELECT id FROM b ORDER BY {order}"));
        let top = rows(&host, &format!("SELECT TOP 25 id FROM b ORDER BY {order}"));
        assert_eq!(top, all[..25], "{order}");
        let page = rows(
            &host,
            &format!("SELECT id FROM b ORDER BY {order} OFFSET 100 ROWS FETCH NEXT 10 ROWS ONLY"),
        );
        assert_eq!(page, all[100..110], "{order}");
    }
}

#[test]
fn a_fixed_column_needs_no_sort() {
    let host = host();
    let plan = |sql: &str| {
        let batch = daruma_syntax::parse_batch(sql, &daruma_syntax::ParseOptions::default())
            .expect("parse");
        match &batch[0].kind {
            daruma_syntax::ast::StatementKind::Select(query) => super::prepare_select(query, &host)
                .expect("plan")
                .show_text()
                .join("\n"),
            other => panic!("{other:?}"),
        }
    };
    assert!(!plan("SELECT TOP 5 id, k FROM b WHERE k = 3 ORDER BY k, id").contains("Sort"));
    assert!(!plan("SELECT id, COUNT(*) FROM b WHERE id = 3 GROUP BY id").contains("Hash"));
    let by_key = rows(&host, "SELECT id FROM b WHERE k = 33 ORDER BY k, id");
    assert_eq!(
        by_key,
        rows(&host, "SELECT id FROM b WHERE k + 0 = 33 ORDER BY id")
    );
}

#[test]
fn a_cancelled_query_ends() {
    let host = host();
    host.cancel().set(CancelReason::Attention);
    assert_eq!(
        host.fails("SELECT COUNT(*) FROM a CROSS JOIN a x CROSS JOIN a y")
            .number,
        3617
    );
}

#[test]
fn deep_expressions_are_bound_and_run() {
    let host = host();
    let sum = vec!["1"; 700].join(" + ");
    assert_eq!(
        rows(&host, &format!("SELECT {sum}")),
        vec![vec![Value::Int(700)]]
    );
    let nested = format!("SELECT {}1{}", "(SELECT ".repeat(25), ")".repeat(25));
    assert_eq!(rows(&host, &nested), vec![vec![Value::Int(1)]]);
    let branches = vec!["id = 3"; 2000].join(" OR ");
    assert_eq!(
        rows(&host, &format!("SELECT id FROM b WHERE {branches}")),
        vec![vec![Value::Int(3)]]
    );
}
