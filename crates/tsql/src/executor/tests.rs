//! Operators against each other: every way to run a query gives the same rows, in memory or on disk.

use crate::dml::tests::{INT, TableBuilder, TestHost, varchar};
use crate::executor::xml::parses;
use crate::host::Host;
use daruma_base::cancel::CancelReason;
use daruma_value::{DataType, Value};

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
        "SELECT t, id, GROUPING_ID(t, id), COUNT(*), SUM(k), COUNT(DISTINCT k) FROM a GROUP BY ROLLUP (t, id)",
        "SELECT k, t, id % 900, MAX(t), COUNT(*) FROM a GROUP BY CUBE (k, t, id % 900)",
        "SELECT id, k, GROUPING(id), MIN(t) FROM a GROUP BY GROUPING SETS ((id), (k, id), (id), ())",
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
fn set_operations_whose_keys_do_not_fit_change_nothing() {
    let host = host();
    // Keys of 4 kB; those of the left come twice, far from each other.
    let long = |table: &str, twice: &str| {
        format!(
            "SELECT REPLICATE('x', 4000) + CAST({table}.id AS varchar(9)) + ISNULL({table}.t, '') FROM {table} {twice}"
        )
    };
    let left = long("a", "CROSS JOIN (VALUES (1), (2)) v (n)");
    let (right, few) = (long("b", ""), long("b", "WHERE b.id < 20"));
    let queries = [
        format!("{left} EXCEPT {right}"),
        format!("{left} EXCEPT {few}"),
        format!("{left} INTERSECT {}", long("a", "WHERE a.id % 2 = 0")),
        format!("{left} INTERSECT {left}"),
        format!(
            "SELECT w.n, q.c FROM (VALUES (1), (2)) w (n) CROSS APPLY (SELECT COUNT(*) AS c FROM ({left} EXCEPT {}) z (s)) q",
            long("b", "WHERE b.id < 20 * w.n")
        ),
    ];
    let expected: Vec<Vec<String>> = queries.iter().map(|q| bag(&host, q)).collect();
    assert!(expected.iter().all(|rows| !rows.is_empty()));
    host.grant_bytes.set(10_000);
    for (query, expected) in queries.iter().zip(&expected) {
        assert!(bag(&host, query) == *expected, "{query}");
    }
}

/// Without a sort below them, so that a file is theirs; below a loop they start again.
#[test]
fn grouping_sets_and_percentages_that_do_not_fit_go_to_disk() {
    let host = host();
    let long = "SELECT a.id, a.k, v.n, REPLICATE('x', 300) + CAST(a.id % 2900 AS varchar(9)) AS s FROM a CROSS JOIN (VALUES (1), (2)) v (n)";
    let percent = "SELECT TOP (70) PERCENT id, REPLICATE('x', 900) + t AS s FROM a";
    let again = |query: &str| {
        format!(
            "SELECT w.n, q.c, q.m FROM (VALUES (1), (2)) w (n) CROSS APPLY (SELECT COUNT(*) AS c, MAX(z.s) AS m FROM ({query}) z) q"
        )
    };
    let queries = [
        format!(
            "SELECT s, k, GROUPING(s), GROUPING(k), COUNT(*), SUM(n), MIN(s) FROM ({long}) x GROUP BY CUBE (s, k)"
        ),
        format!("SELECT s, n, COUNT(DISTINCT id), MAX(id) FROM ({long}) x GROUP BY ROLLUP (s, n)"),
        format!(
            "SELECT s, k, COUNT(*) FROM ({long}) x GROUP BY GROUPING SETS ((s), (k), (s), (), ())"
        ),
        again(&format!(
            "SELECT x.s, COUNT(*) AS g FROM ({long}) x WHERE x.id % 3 < w.n GROUP BY ROLLUP (x.s, x.k)"
        )),
        format!("{percent} ORDER BY id"),
        again(&format!("{percent} WHERE id % 3 < w.n ORDER BY id")),
    ];
    for query in queries {
        host.grant_bytes.set(64 << 20);
        let before = host.fresh_id();
        let expected = bag(&host, &query);
        assert_eq!(host.fresh_id(), before + 1, "{query}: no file is needed");
        host.grant_bytes.set(10_000);
        assert!(bag(&host, &query) == expected, "{query}");
        assert!(host.fresh_id() > before + 2, "{query}: a file is used");
    }
}

/// Of two percentages, one after the other, each fits alone.
#[test]
fn a_percentage_gives_its_memory_back_with_its_last_row() {
    let host = host();
    let percent =
        "SELECT x.id, x.s FROM (SELECT TOP (70) PERCENT id, REPLICATE('x', 900) + t AS s FROM a) x";
    let expected = bag(&host, percent).len() * 2;
    host.grant_bytes.set(4_500_000);
    let before = host.fresh_id();
    let found = bag(&host, &format!("{percent} UNION ALL {percent}"));
    assert_eq!(found.len(), expected);
    assert_eq!(host.fresh_id(), before + 1, "no file is needed");
    host.grant_bytes.set(1_000_000);
    bag(&host, percent);
    assert!(host.fresh_id() > before + 2, "a file is used");
}

/// The keys alone would fit: the longest text of each group takes the memory.
#[test]
fn groups_of_long_extremes_go_to_disk() {
    let host = host();
    let query = "SELECT x.g, MAX(x.s), MIN(x.s), COUNT(*) FROM (SELECT id / 2 AS g, REPLICATE('x', 3000) + t AS s FROM a) x GROUP BY x.g";
    let before = host.fresh_id();
    let expected = bag(&host, query);
    assert_eq!(host.fresh_id(), before + 1, "no file is needed");
    host.grant_bytes.set(2_000_000);
    assert!(bag(&host, query) == expected);
    assert!(host.fresh_id() > before + 2, "a file is used");
}

/// An operator below gives its memory back while the grouping above has rows on disk already.
#[test]
fn a_key_whose_rows_are_on_disk_is_one_group_when_memory_comes_back() {
    let host = host();
    let long = "SELECT REPLICATE('x', 2000) + CAST(a.id AS varchar(9)) AS s, v.n FROM a CROSS JOIN (VALUES (1), (2)) v (n)";
    let queries = [
        format!("SELECT s, COUNT(*) FROM (SELECT DISTINCT s, n FROM ({long}) x) z GROUP BY s"),
        format!(
            "SELECT s, SUM(c) FROM (SELECT s, n, COUNT(*) AS c FROM ({long}) x GROUP BY s, n) z GROUP BY s"
        ),
        format!("SELECT DISTINCT s FROM ({long}) x UNION SELECT s FROM ({long}) y"),
    ];
    let expected: Vec<Vec<String>> = queries.iter().map(|q| bag(&host, q)).collect();
    for grant in [10_000, 2_000_000, 4_000_000] {
        host.grant_bytes.set(grant);
        for (query, expected) in queries.iter().zip(&expected) {
            assert!(bag(&host, query) == *expected, "{grant}: {query}");
        }
    }
}

#[test]
fn a_loop_goes_on_with_the_row_that_it_was_at() {
    let host = host();
    // 1,500 rows of each `n`: a batch ends within those of the second. The filter above looks at rows of the first last.
    let text = "SELECT n, COUNT(*), MIN(id % 2), MAX(id % 2) FROM (SELECT TOP (100000) v.n, q.id FROM (VALUES (1), (2)) v (n)
        CROSS APPLY (SELECT id FROM a WHERE a.id % 2 = v.n % 2) q) z
        WHERE id > 2000 AND (id < 0 OR EXISTS (SELECT 1 FROM b WHERE b.id = z.n)) GROUP BY n ORDER BY n";
    let row = |n, count, odd| {
        vec![n, count, odd, odd]
            .into_iter()
            .map(Value::Int)
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&host, text), [row(1, 500, 1), row(2, 499, 0)]);
}

#[test]
fn what_does_not_look_at_the_row_around_it_runs_once() {
    let host = host();
    for (kind, query) in [
        (
            "hash",
            "SELECT COUNT(*) FROM a o CROSS APPLY (SELECT TOP (1) x.n FROM (VALUES (1), (2)) x (n) LEFT HASH JOIN b y ON x.n = y.k WHERE x.n < o.k) z",
        ),
        (
            "spool",
            "SELECT COUNT(*) FROM a o CROSS APPLY (SELECT TOP (1) x.id FROM (SELECT TOP (2) id FROM a) x INNER LOOP JOIN (SELECT COUNT(*) AS n FROM b) y ON x.id < y.n WHERE x.id < o.k) z",
        ),
    ] {
        let looks = host.looks.get();
        let found = rows(&host, query);
        let looks = host.looks.get() - looks;
        // 800 of the keys are above 0; read for each row around, 1,500 rows would make 4,400 looks.
        assert!(
            matches!(found.as_slice(), [row] if matches!(row.as_slice(), [Value::Int(n)] if *n > 2000)),
            "{kind}: {found:?}"
        );
        assert!(looks < 700, "{kind}: {looks}");
    }
}

#[test]
fn a_condition_that_goes_down_does_not_make_groups_for_each_row() {
    let host = host();
    let text =
        "SELECT COUNT(*) FROM a o LEFT JOIN (SELECT 1 AS c FROM b GROUP BY t HAVING MIN(k) > 890) g
        ON (o.k IS NULL OR g.c IS NOT NULL)";
    let looks = host.looks.get();
    let found = rows(&host, text);
    let looks = host.looks.get() - looks;
    assert!(
        matches!(found.as_slice(), [row] if matches!(row.as_slice(), [Value::Int(n)] if *n > 3000)),
        "{found:?}"
    );
    // 3,000 rows of `a`, and the groups of 1,500 rows of `b`, once.
    assert!(looks < 700, "{looks}");
}

#[test]
fn exists_that_no_join_can_be_is_asked_once_for_each_value() {
    let host = host();
    // The numbers are of 1,500 rows; 17 different values ask for them, of 20 * 3,000 rows.
    let text = "SELECT COUNT(*) FROM a o CROSS JOIN (SELECT TOP (20) id FROM b) y CROSS APPLY (SELECT o.id % 17 AS m) p WHERE EXISTS
        (SELECT ROW_NUMBER() OVER (ORDER BY id) AS n FROM b WHERE b.id >= 0 AND p.m > 3)";
    let looks = host.looks.get();
    assert_eq!(rows(&host, text), [[Value::Int(20 * 2292)]]);
    let looks = host.looks.get() - looks;
    assert!(looks < 800, "{looks}");
}

/// Looks at the cancel flag while the query runs, one for each 1,024 rows of work or so; its only number.
fn looks_of(host: &TestHost, sql: &str) -> (u64, Value) {
    let before = host.looks.get();
    let mut found = rows(host, sql);
    let value = found.pop().and_then(|mut row| row.pop());
    (host.looks.get() - before, value.expect("a number"))
}

/// A condition that looks at no row around it is known before the joins below it are made, of whatever kind they are.
#[test]
fn a_condition_without_a_row_around_it_is_asked_before_all_joins() {
    let host = host();
    for (joins, condition) in [
        // Made first, half of all pairs of 3,000 rows are 4,400 looks, and all of them twice as many.
        (
            "a x JOIN a y ON y.k >= x.id",
            "NOT EXISTS (SELECT 1 FROM b p CROSS JOIN b q WHERE p.k <> q.id)",
        ),
        ("a x CROSS JOIN a y", "NOT EXISTS (SELECT 1 FROM b)"),
        (
            "a x CROSS JOIN a y",
            "NOT EXISTS (SELECT DISTINCT x.id FROM b)",
        ),
        (
            "a x CROSS JOIN a y CROSS JOIN a z",
            "-1 IN (SELECT SUM(id) FROM b GROUP BY t)",
        ),
        (
            "a x FULL JOIN a y ON x.k = y.k CROSS JOIN a z",
            "1 NOT IN (SELECT id FROM b)",
        ),
    ] {
        let (looks, count) = looks_of(
            &host,
            &format!("SELECT COUNT(*) FROM {joins} WHERE {condition}"),
        );
        assert_eq!(count, Value::Int(0), "{joins}, {condition}");
        assert!(looks < 1_000, "{joins}, {condition}: {looks}");
    }
}

/// Whether there is a row is known with the first one, and so is that one of them answers.
#[test]
fn a_subquery_with_distinct_ends_at_the_row_that_answers() {
    let host = host();
    for condition in [
        "NOT EXISTS (SELECT DISTINCT q.k + o.id FROM b q CROSS JOIN b r WHERE q.id + r.id >= o.id)",
        "o.id > ALL (SELECT DISTINCT o.id + q.id * 0 FROM b q CROSS JOIN b r WHERE q.id + r.id >= 0)",
    ] {
        let text = format!("SELECT COUNT(*) FROM b o WHERE o.id < 100 AND {condition}");
        let (looks, count) = looks_of(&host, &text);
        assert_eq!(count, Value::Int(0), "{condition}");
        assert!(looks < 1_000, "{condition}: {looks}");
    }
}

/// NOT IN below OR that looks at a row around it is a set of values for each value of that row, not a run for each row.
#[test]
fn not_in_below_or_runs_once_for_each_value_around_it() {
    let host = host();
    // 17 values around it, of 3,000 rows; each set takes all of two tables.
    let text = "SELECT COUNT(*) FROM a x FULL JOIN b y ON y.id = x.id CROSS APPLY (SELECT ISNULL(y.id, x.id) % 17 AS m) p
        WHERE y.id BETWEEN y.id + 1 AND y.k OR x.k NOT IN
        (SELECT q.k FROM a q FULL JOIN b r ON r.id = q.id WHERE q.k IS NOT NULL AND r.id % 17 = p.m)";
    let (looks, count) = looks_of(&host, text);
    assert!(matches!(count, Value::Int(n) if n > 1000), "{count:?}");
    // Run for each row they would be 3,000 times four and more.
    assert!(looks < 1_000, "{looks}");
}

/// What it reads of the row around it may have fewer values than the columns that it is computed from.
#[test]
fn a_subquery_runs_once_for_each_value_computed_around_it() {
    let host = host();
    for (condition, least) in [
        (
            "p.k NOT IN (SELECT q.k FROM a q WHERE q.k IS NOT NULL AND q.id % 10 = p.id % 10)",
            0,
        ),
        (
            "p.k + 900 IN (SELECT q.k FROM a q WHERE q.id % 10 = p.id % 10 AND q.k > 0)",
            0,
        ),
        (
            "EXISTS (SELECT 1 FROM a q WHERE q.id % 10 = p.id % 10 AND q.k > 9000)",
            0,
        ),
        (
            "p.id < (SELECT COUNT(*) FROM a q WHERE q.id % 10 = p.id % 10 AND p.id % 3 > 0)",
            200,
        ),
        (
            "p.k + 900 = ANY (SELECT q.k FROM a q WHERE q.k >= 0 AND q.id IN
                (SELECT r.id FROM a r WHERE r.id % 10 = p.id % 10 AND r.k + q.k > 0))",
            0,
        ),
    ] {
        let (looks, count) = looks_of(
            &host,
            &format!("SELECT COUNT(*) FROM a p WHERE p.id < 0 OR {condition}"),
        );
        let Value::Int(count) = count else {
            panic!("{condition}: {count:?}");
        };
        assert!(
            (least..least + 100).contains(&count),
            "{condition}: {count}"
        );
        // Run for each of 3,000 rows they read 9,000,000 rows, of which 1,000 or so are a look.
        assert!(looks < 400, "{condition}: {looks}");
    }
}

/// NULL among the values, no values at all, and a NULL that is looked for, in turn for the values around.
#[test]
fn not_in_by_a_computed_value_keeps_its_three_answers() {
    let host = host();
    // Around 7 all values are NULL, around 9 and 0 there is none.
    let among = "q.id < 9 AND q.id > 0 OR q.id = 17";
    let asked = format!(
        "SELECT id FROM a p WHERE p.id < 0 OR p.k NOT IN (SELECT CASE q.id WHEN 7 THEN NULL ELSE q.k END FROM b q
            WHERE ({among}) AND q.id % 10 = p.id % 10)"
    );
    let joined = format!(
        "SELECT p.id FROM a p LEFT JOIN (SELECT q.id % 10 AS m, COUNT(*) AS n, COUNT(CASE q.id WHEN 7 THEN NULL ELSE q.k END) AS k
            FROM b q WHERE {among} GROUP BY q.id % 10) g ON g.m = p.id % 10
            LEFT JOIN b same ON same.id = p.id % 10 AND same.k = p.k
            WHERE g.n IS NULL OR g.n = g.k AND p.k IS NOT NULL AND same.id IS NULL"
    );
    let found = bag(&host, &asked);
    assert_eq!(found, bag(&host, &joined));
    assert!(found.len() > 2000 && found.len() < 2900, "{}", found.len());
}

/// What a subquery would never evaluate does not fail because its answers are remembered by it; what it evaluates does.
#[test]
fn a_value_around_a_subquery_fails_where_it_is_evaluated() {
    let host = host();
    let text = |rows: &str| {
        format!(
            "SELECT COUNT(*) FROM a p WHERE p.id < 0 OR p.k NOT IN
                (SELECT q.k FROM b q WHERE q.id < {rows} AND q.k + 0 = 100 / p.id)"
        )
    };
    let (_, count) = looks_of(&host, &text("0"));
    assert_eq!(count, Value::Int(3000));
    let error = host.run(&text("9")).expect_err("a division by zero");
    assert_eq!(error.number, 8134);
}

/// A value that is another each time is not remembered, whatever the subquery reads of the row around it.
#[test]
fn what_is_new_each_time_is_made_for_each_row_around() {
    let host = host();
    for read in ["p.id % 10", "p.k", "p.id"] {
        let text = format!(
            "SELECT COUNT(DISTINCT z.n) FROM (SELECT CASE WHEN p.id >= 0 THEN
                (SELECT TOP (1) NEWID() FROM b q WHERE q.id + 9000 >= ISNULL({read}, 0)) END AS n FROM a p) z"
        );
        assert_eq!(looks_of(&host, &text).1, Value::Int(3000), "{read}");
    }
}

/// Values that are equal to a comparison are not the same to a subquery that gives them.
#[test]
fn answers_are_remembered_by_all_of_a_value() {
    let host = host();
    for (one, other) in [
        ("CAST('a' AS varchar(9))", "CAST('a  ' AS varchar(9))"),
        ("CAST('a' AS nvarchar(9))", "CAST('a  ' AS nvarchar(9))"),
        ("0x01", "0x0100"),
    ] {
        let text = format!(
            "SELECT CASE WHEN p.i > 0 THEN (SELECT TOP (1) CASE WHEN q.id >= 0 THEN p.v END FROM b q) END, p.v
                FROM (VALUES (1, {one}), (2, {other})) p (i, v) ORDER BY p.i"
        );
        let found = rows(&host, &text);
        assert_eq!(found.len(), 2);
        for row in found {
            let shown: Vec<String> = row.iter().map(|value| format!("{value:?}")).collect();
            assert!(
                matches!(shown.as_slice(), [given, own] if given == own),
                "{other}: {shown:?}"
            );
        }
    }
}

/// Whether a comparison holds for any or all values of a subquery is known by the least and the greatest of them.
#[test]
fn any_and_all_look_at_the_ends_of_the_values() {
    let host = host();
    for (condition, expected) in [
        ("x.id + 9000 > ALL (SELECT y.id FROM a y)", 3000),
        ("x.id + 9000 <= ANY (SELECT y.id FROM a y)", 0),
        (
            "x.id < ALL (SELECT y.id + 100 FROM a y WHERE y.id < x.id * 0 + 3000)",
            100,
        ),
        ("NOT x.id >= SOME (SELECT y.id + 100 FROM a y)", 100),
        ("x.id * 0 = ALL (SELECT y.id * 0 FROM a y)", 3000),
        ("x.id * 0 <> ANY (SELECT y.id * 0 FROM a y)", 0),
        (
            "CAST(x.id AS float) + 0.5 NOT IN (SELECT CAST(y.k AS float) FROM a y WHERE y.k IS NOT NULL)",
            3000,
        ),
    ] {
        let (looks, count) = looks_of(
            &host,
            &format!("SELECT COUNT(*) FROM a x WHERE {condition}"),
        );
        assert_eq!(count, Value::Int(expected), "{condition}");
        // Compared one by one they are 9,000,000 pairs.
        assert!(looks < 100, "{condition}: {looks}");
    }
}

/// `left op ANY (set)`, or ALL, in three values.
fn quantified(op: &str, all: bool, left: Option<i32>, set: &[Option<i32>]) -> &'static str {
    let compared = set.iter().map(|right| {
        let (left, right) = (left?, (*right)?);
        Some(match op {
            "=" => left == right,
            "<>" => left != right,
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        })
    });
    // What decides for one value decides for all of them.
    let decides = Some(!all);
    let compared: Vec<Option<bool>> = compared.collect();
    let answer = if compared.contains(&decides) {
        decides
    } else if compared.contains(&None) {
        None
    } else {
        Some(all)
    };
    match answer {
        Some(true) => "true",
        Some(false) => "false",
        None => "unknown",
    }
}

/// Asked once, asked again and by the set of values: the same three answers.
#[test]
fn any_and_all_keep_their_three_answers() {
    let host = host();
    let sets: [&[Option<i32>]; 7] = [
        &[],
        &[Some(2)],
        &[Some(1), Some(3)],
        &[None],
        &[Some(2), None],
        &[Some(3), None, Some(1)],
        &[Some(2), Some(2)],
    ];
    let lefts = [Some(2), None, Some(1), Some(3), Some(2), Some(4), None];
    let shown = |value: &Option<i32>| value.map_or("NULL".to_string(), |n| n.to_string());
    let of_left: Vec<String> = lefts
        .iter()
        .enumerate()
        .map(|(at, left)| format!("({at}, {})", shown(left)))
        .collect();
    let of_set: Vec<String> = sets
        .iter()
        .enumerate()
        .flat_map(|(at, set)| set.iter().map(move |n| format!("({at}, {})", shown(n))))
        .collect();
    for data_type in ["int", "float", "decimal(9, 2)", "varchar(9)"] {
        for op in ["=", "<>", "<", "<=", ">", ">="] {
            for word in ["ANY", "ALL"] {
                for (at, set) in sets.iter().enumerate() {
                    let condition = format!(
                        "CAST(l.n AS {data_type}) {op} {word} (SELECT CAST(s.n AS {data_type})
                            FROM (VALUES {}) s (g, n) WHERE s.g = {at} + l.i * 0)",
                        of_set.join(", ")
                    );
                    let text = format!(
                        "SELECT CASE WHEN {condition} THEN 'true' WHEN NOT {condition} THEN 'false' ELSE 'unknown' END
                            FROM (VALUES {}) l (i, n) ORDER BY l.i",
                        of_left.join(", ")
                    );
                    let found: Vec<Value> = rows(&host, &text).into_iter().flatten().collect();
                    let expected: Vec<Value> = lefts
                        .iter()
                        .map(|left| Value::str(quantified(op, word == "ALL", *left, set)))
                        .collect();
                    assert_eq!(found, expected, "{text}");
                }
            }
        }
    }
}

/// What no join makes cheaper is asked before the row is joined to others, and once for each value that it reads of it.
#[test]
fn a_condition_that_compares_all_pairs_is_asked_before_the_joins() {
    let host = host();
    // 3,000 rows are joined to 30,000, and each of these is compared with 1,500.
    for condition in [
        "NOT EXISTS (SELECT 1 FROM b q WHERE q.id + 9000 < x.id % 20)",
        "x.id + 9000 > ALL (SELECT q.id FROM b q)",
        "x.id + 9000 > ALL (SELECT q.id FROM b q WHERE q.k > x.id % 20)",
        "-1 - x.id NOT IN (SELECT TOP (1000) q.id FROM b q WHERE q.k >= x.id % 20 ORDER BY q.k)",
        "ABS(x.id) NOT IN (SELECT -1 - q.k FROM b q WHERE q.k + 9000 > x.id % 20)",
    ] {
        let text = format!(
            "SELECT COUNT(*) FROM a x JOIN a y ON y.k = x.k JOIN a z ON z.k = y.k WHERE {condition}"
        );
        let (looks, count) = looks_of(&host, &text);
        assert!(
            matches!(count, Value::Int(n) if n > 20_000),
            "{condition}: {count:?}"
        );
        assert!(looks < 1_000, "{condition}: {looks}");
    }
}

/// However many rows without a value lie between, each row looks at one.
#[test]
fn windows_that_ignore_nulls_pass_by_long_runs_of_them() {
    let host = host();
    for call in [
        "LAG(v, 1, -5)",
        "LEAD(v, 2, -5)",
        "FIRST_VALUE(v)",
        "LAST_VALUE(v)",
    ] {
        let frame = match call.contains("_VALUE") {
            true => "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            false => "",
        };
        let text = format!(
            "SELECT COUNT(*) FROM (SELECT {call} IGNORE NULLS OVER (ORDER BY id {frame}) AS x
                FROM (SELECT id, CASE WHEN id IN (7, 2990) THEN id END AS v FROM a) r) z WHERE x IS NOT NULL"
        );
        let (looks, count) = looks_of(&host, &text);
        assert!(
            matches!(count, Value::Int(n) if n > 2_000),
            "{call}: {count:?}"
        );
        assert!(looks < 100, "{call}: {looks}");
    }
}

/// Three subqueries within each other below OR, the innermost of which looks at the outermost row.
#[test]
fn subqueries_within_subqueries_run_once_for_each_value_around_them() {
    let host = host();
    let text = "SELECT COUNT(*) FROM b o CROSS APPLY (SELECT o.id % 5 AS m) p WHERE o.id % 20 = ANY
        (SELECT x.id FROM a x WHERE x.id >= p.m AND x.id < 20 AND (x.k IN
            (SELECT y.k FROM b y WHERE y.id >= x.id AND y.id < 40 AND y.k NOT IN
                (SELECT z.k FROM a z WHERE z.k IS NOT NULL AND z.id < 30 INTERSECT SELECT w.k FROM b w WHERE w.id % 5 = p.m))
            OR x.id % 2 = 0))";
    let (looks, count) = looks_of(&host, text);
    assert!(matches!(count, Value::Int(n) if n > 100), "{count:?}");
    // 5 values around the first, 20 rows in each, and sets of 30 and 300 rows.
    assert!(looks < 2_000, "{looks}");
}

/// Groups, windows and sorts below a loop or in a subquery do not begin anew for each row around them that they do not look at.
#[test]
fn what_is_made_whole_below_a_loop_is_made_once() {
    let host = host();
    let groups = "(SELECT id % 5 AS m, COUNT(*) AS n FROM b GROUP BY id % 5) g";
    for (query, expected) in [
        (
            format!(
                "SELECT SUM(z.n) FROM a o CROSS APPLY (SELECT TOP (1) g.n + o.id * 0 AS n FROM {groups} ORDER BY g.m, o.id) z"
            ),
            3000 * 300,
        ),
        (
            "SELECT SUM(z.r) FROM a o CROSS APPLY (SELECT MAX(w.r) AS r FROM
                (SELECT id % 5 AS m, ROW_NUMBER() OVER (ORDER BY id % 5) AS r FROM b GROUP BY id % 5) w WHERE w.m <= o.id % 5) z"
                .to_string(),
            600 * 15,
        ),
        (
            "SELECT COUNT(*) FROM a o OUTER APPLY (SELECT d.m FROM (SELECT DISTINCT TOP (100) id % 5 AS m FROM b) d WHERE d.m = o.id % 10) z
                WHERE z.m IS NOT NULL"
                .to_string(),
            1500,
        ),
        (
            "SELECT COUNT(*) FROM a o CROSS APPLY (SELECT d.m FROM (SELECT id % 5 AS m FROM b EXCEPT SELECT 1) d WHERE d.m >= o.id % 5) z"
                .to_string(),
            600 * (4 + 3 + 3 + 2 + 1),
        ),
        (
            format!(
                "SELECT COUNT(*) FROM a o WHERE o.id * 2 IN (SELECT g.m + o.id FROM {groups})"
            ),
            5,
        ),
    ] {
        let (looks, found) = looks_of(&host, &query);
        assert_eq!(found.as_i64(), Some(expected), "{query}");
        // Made for each of 3,000 rows they read 1,500 rows each time: 4,400 looks.
        assert!(looks < 200, "{query}: {looks}");
    }
}

/// A row that a join repeats is shown to an inner side that reads it as often; its rows are made for the first of them, or the second.
#[test]
fn an_inner_side_is_made_once_for_a_row_that_comes_again_in_turn() {
    let host = host();
    let around = "(SELECT TOP (100) id FROM b ORDER BY id) o";
    let inner = "CROSS APPLY (SELECT COUNT(*) AS n FROM b r WHERE r.id % 100 >= o.id % 100) z";
    let repeated = format!(
        "SELECT SUM(z.n) FROM {around} OUTER APPLY (SELECT TOP (50) q.id FROM b q WHERE q.id >= o.id ORDER BY q.id) y {inner}"
    );
    let (looks, sum) = looks_of(&host, &repeated);
    let (_, once) = looks_of(&host, &format!("SELECT SUM(z.n) FROM {around} {inner}"));
    let (sum, once) = (sum.as_i64(), once.as_i64());
    assert_eq!(sum, once.map(|n| n * 50));
    // Made for each of 5,000 rows it reads 7,500,000.
    assert!(looks < 1_000, "{looks}");
}

/// Who wants only the first rows of what is kept for all rows around it does not wait for the rest.
#[test]
fn rows_that_are_kept_are_made_as_far_as_they_are_wanted() {
    let host = host();
    for condition in [
        // The first rows answer.
        "EXISTS (SELECT q.k FROM b q CROSS JOIN b r WHERE q.id + r.id >= o.id)",
        "NOT EXISTS (SELECT q.k FROM b q CROSS JOIN b r WHERE q.id + r.id - 10 > o.id)",
    ] {
        let text = format!("SELECT COUNT(*) FROM b o WHERE o.id < 100 AND {condition}");
        let (looks, count) = looks_of(&host, &text);
        let expected = if condition.starts_with("NOT") { 0 } else { 100 };
        assert_eq!(count, Value::Int(expected), "{condition}");
        assert!(looks < 100, "{condition}: {looks}");
    }
}

/// What gives its first rows before it has read all its input does not read it all because it is asked again; the kept rows grow in turn,
/// in memory and on disk.
#[test]
fn what_gives_its_first_rows_at_once_is_kept_as_far_as_it_is_wanted() {
    let host = host();
    let number = "SELECT ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) AS r FROM a q CROSS JOIN a r";
    let rest = "SELECT q.id AS r FROM a q CROSS JOIN a r EXCEPT SELECT -1";
    for (query, expected) in [
        (
            format!(
                "SELECT SUM(x.r) FROM (VALUES (3), (2), (4), (2)) o (q) CROSS APPLY (SELECT TOP (o.q) n.r FROM ({number}) n) x"
            ),
            6 + 3 + 10 + 3,
        ),
        (
            format!(
                "SELECT SUM(x.r) FROM (VALUES (9000), (3000), (20000), (2), (20000)) o (q)
                    CROSS APPLY (SELECT TOP (o.q) n.r FROM ({number}) n) x"
            ),
            9000 * 9001 / 2 + 3000 * 3001 / 2 + 20000 * 20001 + 3,
        ),
        (
            format!(
                "SELECT COUNT(*) FROM (VALUES (3), (2), (4), (2)) o (q) WHERE EXISTS (SELECT TOP (o.q) n.r FROM ({rest}) n)"
            ),
            4,
        ),
        (
            format!(
                "SELECT SUM(x.r) FROM (VALUES (3), (2), (4), (2)) o (q) CROSS APPLY (SELECT TOP (o.q) n.r FROM ({rest}) n) x"
            ),
            3 + 1 + 6 + 1,
        ),
        (
            "SELECT SUM(x.id) FROM (VALUES (3), (2), (4), (2)) o (q)
                CROSS APPLY (SELECT TOP (o.q) n.id FROM (SELECT DISTINCT TOP (9000000) q.id FROM a q CROSS JOIN a r ORDER BY q.id) n) x"
                .to_string(),
            3 + 1 + 6 + 1,
        ),
    ] {
        for grant in [64 << 20, 10_000] {
            host.grant_bytes.set(grant);
            let (looks, found) = looks_of(&host, &query);
            assert_eq!(found.as_i64(), Some(expected), "{query}");
            // All pairs of 3,000 rows are 9,000 looks.
            assert!(looks < 500, "{query}: {looks}");
        }
    }
}

#[test]
fn what_looks_at_the_row_around_it_runs_again() {
    let host = host();
    for (apply, join) in [
        (
            "SELECT o.id, z.n FROM b o CROSS APPLY (SELECT COUNT(*) AS n FROM a x INNER HASH JOIN (SELECT k FROM b WHERE b.id < o.id % 5) y ON x.k = y.k) z WHERE o.id < 100",
            "SELECT o.id, (SELECT COUNT(*) FROM a x, b y WHERE x.k = y.k AND y.id < o.id % 5) FROM b o WHERE o.id < 100",
        ),
        (
            "SELECT o.id, z.n FROM b o CROSS APPLY (SELECT COUNT(*) AS n FROM (SELECT TOP (9) id FROM a) x INNER LOOP JOIN (SELECT COUNT(*) AS m FROM b WHERE b.id < o.id % 7) y ON x.id < y.m) z WHERE o.id < 100",
            "SELECT o.id, o.id % 7 FROM b o WHERE o.id < 100",
        ),
    ] {
        let found = bag(&host, apply);
        assert_eq!(found.len(), 100);
        assert_eq!(found, bag(&host, join), "{apply}");
    }
}

/// `host`, and a table whose rows come in groups: 3 groups of 2,000, and 1,000 of one row.
fn host_with_groups() -> TestHost {
    let host = host();
    TableBuilder::new("c")
        .column("g", INT, false)
        .column("id", INT, false)
        .column("t", varchar(40), false)
        .primary(&[0, 1])
        .create(&host);
    for chunk in 0..70 {
        let values: Vec<String> = (chunk * 100..(chunk + 1) * 100)
            .map(|n| match n < 6000 {
                true => format!("({}, {n}, 'text {}')", n / 2000 * 10, n % 1500),
                false => format!("({n}, {n}, 'text {n}')"),
            })
            .collect();
        host.ok(&format!("INSERT INTO c VALUES {}", values.join(", ")));
    }
    host
}

#[test]
fn what_groups_keep_of_their_rows_goes_to_disk() {
    let host = host_with_groups();
    // With each query: are there more values than a sorter keeps in memory in any case?
    let queries = [
        (
            "SELECT COUNT(DISTINCT id), SUM(DISTINCT CAST(id AS bigint) * 256), COUNT(*), AVG(DISTINCT g) FROM c",
            true,
        ),
        (
            "SELECT id % 3, COUNT(DISTINCT id), SUM(DISTINCT g), COUNT(DISTINCT t), COUNT(*) FROM c GROUP BY id % 3",
            true,
        ),
        (
            "SELECT g, COUNT(DISTINCT t), SUM(DISTINCT id / 2), MAX(id) FROM c GROUP BY g",
            false,
        ),
        (
            "SELECT g, STRING_AGG(CAST(t AS varchar(max)), ',') WITHIN GROUP (ORDER BY t DESC, id) FROM c GROUP BY g",
            false,
        ),
        (
            "SELECT id % 3, STRING_AGG(CAST(t AS varchar(max)), ',') WITHIN GROUP (ORDER BY id) FROM c GROUP BY id % 3",
            true,
        ),
        (
            "SELECT STRING_AGG(CAST(t AS varchar(max)), '') FROM c WITH (INDEX(1))",
            true,
        ),
        (
            "SELECT id % 2, id % 3, COUNT(DISTINCT t) FROM c GROUP BY ROLLUP (id % 2, id % 3)",
            true,
        ),
    ];
    for (query, many) in queries {
        host.grant_bytes.set(64 << 20);
        let before = host.fresh_id();
        let expected = bag(&host, query);
        assert_eq!(host.fresh_id(), before + 1, "{query}: no file is needed");
        host.grant_bytes.set(10_000);
        assert_eq!(bag(&host, query), expected, "{query}");
        assert_eq!(
            host.fresh_id() > before + 2,
            many,
            "{query}: a file is used"
        );
    }
}

#[test]
fn rows_read_again_go_to_disk() {
    let host = host();
    let queries = [
        "WITH r AS (SELECT id, 0 AS n FROM a UNION ALL SELECT id + 1, n + 1 FROM r WHERE n < 3) SELECT n, COUNT(*), SUM(id) FROM r GROUP BY n",
        "WITH r AS (SELECT id, 0 AS n FROM a UNION ALL SELECT r.id, n + 1 FROM r JOIN b ON b.id = r.id WHERE n < 3) SELECT n, COUNT(*) FROM r GROUP BY n",
        "SELECT COUNT(*), SUM(x.id) FROM (SELECT id FROM b WHERE id < 20) x LEFT LOOP JOIN a ON a.k + x.id > 900",
    ];
    for query in queries {
        host.grant_bytes.set(64 << 20);
        let before = host.fresh_id();
        let expected = bag(&host, query);
        assert_eq!(host.fresh_id(), before + 1, "{query}: no file is needed");
        host.grant_bytes.set(10_000);
        assert_eq!(bag(&host, query), expected, "{query}");
        assert!(host.fresh_id() > before + 2, "{query}: a file is used");
    }
}

/// What a window function makes of the rows of a frame: key, which may be missing, and text.
type OfFrame = fn(&[(Option<i32>, String)]) -> Value;

fn keys(rows: &[(Option<i32>, String)]) -> impl Iterator<Item = i32> {
    rows.iter().filter_map(|(k, _)| *k)
}

fn float_sum(rows: &[(Option<i32>, String)]) -> Value {
    let sum: f64 = keys(rows).map(|k| f64::from(k) / 4.0).sum();
    keys(rows).next().map_or(Value::Null, |_| Value::Float(sum))
}

const OF_FRAMES: [(&str, OfFrame); 6] = [
    ("COUNT(k)", |rows| Value::Int(keys(rows).count() as i32)),
    ("SUM(k)", |rows| {
        keys(rows)
            .reduce(|a, b| a + b)
            .map_or(Value::Null, Value::Int)
    }),
    ("SUM(CAST(k AS float) / 4)", float_sum),
    ("MIN(k)", |rows| {
        keys(rows).min().map_or(Value::Null, Value::Int)
    }),
    ("MAX(k)", |rows| {
        keys(rows).max().map_or(Value::Null, Value::Int)
    }),
    ("MIN(t)", |rows| {
        rows.iter()
            .map(|(_, t)| t)
            .min()
            .map_or(Value::Null, Value::str)
    }),
];

#[test]
fn wide_frames_that_move_cost_what_narrow_ones_do() {
    let host = host();
    let all: Vec<(Option<i32>, String)> = rows(&host, "SELECT k, t FROM a ORDER BY id")
        .into_iter()
        .map(|row| match row.as_slice() {
            [k, Value::Str(t)] => (k.as_i64().map(|k| k as i32), t.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    let n = all.len() as i64;
    // Frames, and their first and last row for the row at a place.
    type Ends = fn(i64, i64) -> (i64, i64);
    let frames: [(&str, Ends); 5] = [
        ("1200 PRECEDING AND 1300 FOLLOWING", |at, _| {
            (at - 1200, at + 1300)
        }),
        ("CURRENT ROW AND UNBOUNDED FOLLOWING", |at, n| (at, n - 1)),
        ("1900 PRECEDING AND 40 PRECEDING", |at, _| {
            (at - 1900, at - 40)
        }),
        ("300 FOLLOWING AND 2100 FOLLOWING", |at, _| {
            (at + 300, at + 2100)
        }),
        ("3 PRECEDING AND 1 FOLLOWING", |at, _| (at - 3, at + 1)),
    ];
    for grant in [64 << 20, 10_000] {
        host.grant_bytes.set(grant);
        for (frame, ends) in frames {
            for (call, of_frame) in OF_FRAMES {
                let looks = host.looks.get();
                let found = rows(
                    &host,
                    &format!(
                        "SELECT {call} OVER (ORDER BY id ROWS BETWEEN {frame}) FROM a ORDER BY id"
                    ),
                );
                let looks = host.looks.get() - looks;
                // A look for each 1,024 rows of work: of 3,000 rows each, 3,000 would make 8,800.
                assert!(looks < 1000, "{call} over {frame}: {looks}");
                for (at, row) in (0..n).zip(&found) {
                    let (first, last) = ends(at, n);
                    let (first, end) = (first.max(0), (last + 1).clamp(0, n));
                    let inside = all.get(first as usize..end as usize).unwrap_or_default();
                    assert_eq!(row, &[of_frame(inside)], "{call} over {frame}, row {at}");
                }
            }
        }
    }
}

#[test]
fn spread_over_wide_frames_is_that_of_its_rows() {
    let host = host();
    let query = |frame: &str| {
        let text = format!(
            "SELECT VARP(k) OVER (ORDER BY id ROWS BETWEEN {frame}) FROM a WHERE id < 900 ORDER BY id"
        );
        rows(&host, &text)
    };
    // From behind, the same rows come one by one.
    let text = "SELECT VARP(k) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) FROM a WHERE id < 900 ORDER BY id";
    let expected = rows(&host, text);
    for (found, expected) in query("CURRENT ROW AND UNBOUNDED FOLLOWING")
        .iter()
        .zip(&expected)
    {
        match (found.as_slice(), expected.as_slice()) {
            ([Value::Float(a)], [Value::Float(b)]) => {
                assert!((a - b).abs() <= b.abs() * 1e-9, "{a} {b}")
            }
            (a, b) => assert_eq!(a, b),
        }
    }
}

#[test]
fn a_full_join_below_a_condition_on_one_side_is_an_outer_join_of_it() {
    let host = host();
    let full = |condition: &str| {
        format!(
            "SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND b.id % 2 = 0 WHERE {condition}"
        )
    };
    for (condition, same, operator) in [
        ("b.id = 8", "ISNULL(b.id, 0) = 8", "Left Outer Join"),
        ("a.id = 8", "ISNULL(a.id, 0) = 8", "Left Outer Join"),
        (
            "a.id < 500 AND b.id < 700",
            "ISNULL(a.id, 999) < 500 AND ISNULL(b.id, 999) < 700",
            "Inner Join",
        ),
        (
            "b.id < 9 AND a.id IS NULL",
            "ISNULL(b.id, 10) < 9 AND a.id IS NULL",
            "Left Outer Join",
        ),
        (
            "a.id + b.id < 300",
            "ISNULL(a.id + b.id, 300) < 300",
            "Inner Join",
        ),
        (
            "b.id IS NULL OR b.id = 3",
            "ISNULL(b.id, 3) = 3",
            "Full Outer Join",
        ),
    ] {
        let plan = shown(&host, &full(condition));
        assert!(plan.contains(operator), "{condition}: {plan}");
        assert!(
            shown(&host, &full(same)).contains("Full Outer Join"),
            "{same}"
        );
        let found = bag(&host, &full(condition));
        assert!(!found.is_empty(), "{condition}");
        assert_eq!(found, bag(&host, &full(same)), "{condition}");
    }
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

/// The plan as SHOWPLAN_TEXT shows it.
fn shown(host: &TestHost, sql: &str) -> String {
    let options = daruma_syntax::ParseOptions::default();
    let batch = daruma_syntax::parse_batch(sql, &options).expect("parse");
    match &batch[0].kind {
        daruma_syntax::ast::StatementKind::Select(query) => {
            let plan = super::prepare_select(query, host).expect("plan");
            plan.picture().text().join("\n")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fixed_column_needs_no_sort() {
    let host = host();
    let plan = |sql: &str| shown(&host, sql);
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

/// One tree serves all the nodes of a document, however many rows have a part of it.
#[test]
fn a_document_is_read_once() {
    let host = TestHost::new();
    TableBuilder::new("o")
        .column("id", INT, false)
        .column("d", DataType::Xml, true)
        .primary(&[0])
        .create(&host);
    let lines = "<line><part>1</part><part>2</part></line>".repeat(50);
    for id in 0..3 {
        let sql = format!("INSERT INTO o VALUES ({id}, '<order n=\"{id}\">{lines}</order>')");
        host.ok(&sql);
    }
    parses::take();
    let lines = "FROM o CROSS APPLY o.d.nodes('/order/line') AS l(n)";
    let sql = format!(
        "SELECT p.n.value('.', 'int'), l.n.value('../@n', 'int'), o.d.value('(/order/@n)[1]', 'int') {lines} CROSS APPLY \
         l.n.nodes('part') AS p(n)"
    );
    assert_eq!(rows(&host, &sql).len(), 300);
    assert_eq!(parses::take(), 3);
    let sql = format!("SELECT COUNT(*) {lines} WHERE l.n.exist('part[. = 2]') = 1");
    assert_eq!(rows(&host, &sql), vec![vec![Value::Int(150)]]);
    assert_eq!(parses::take(), 3);
    // More documents than are kept, and not in the order of their nodes.
    for id in 3..200 {
        host.ok(&format!(
            "INSERT INTO o VALUES ({id}, '<order n=\"{id}\"><line/></order>')"
        ));
    }
    let sql = "SELECT o.id, l.n.value('../@n', 'int') FROM o CROSS APPLY o.d.nodes('/order/line[1]') AS l(n) ORDER BY o.id % 7, o.id";
    let found = rows(&host, sql);
    assert_eq!(found.len(), 200);
    assert!(found.iter().all(|row| row[0] == row[1]), "{found:?}");
}
