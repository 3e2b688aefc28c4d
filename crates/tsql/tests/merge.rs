//! MERGE does what its clauses say: random ones leave a table as separate statements leave a copy of it.
//!
//! `DARUMA_MERGE_SEED=17` repeats one run.

mod common;

use common::{Client, Server};
use daruma_base::Random;
use daruma_sim::SimRandom;

const RUNS: u64 = 40;

fn below(random: &SimRandom, limit: u64) -> u64 {
    random.u64() % limit
}

fn fill(c: &mut Client, random: &SimRandom, table: &str) {
    let rows: Vec<String> = (0..40)
        .filter(|_| below(random, 2) == 0)
        .map(|k| {
            let value = below(random, 5);
            format!(
                "({k}, {})",
                if value == 4 {
                    "NULL".to_string()
                } else {
                    value.to_string()
                }
            )
        })
        .collect();
    c.done(&format!("DELETE {table}"));
    if !rows.is_empty() {
        c.done(&format!("INSERT {table} (k, v) VALUES {}", rows.join(", ")));
    }
}

/// A condition over the columns of one side, which may be unknown.
fn condition(random: &SimRandom, side: &str) -> String {
    let n = below(random, 4);
    match below(random, 3) {
        0 => format!("{side}.v > {n}"),
        1 => format!("{side}.k % 3 <> {}", n % 3),
        _ => format!("NOT ({side}.v = {n})"),
    }
}

/// The clauses, and the statements that do the same to `b` when `s` is the source; those of matched rows first.
fn clauses(random: &SimRandom) -> (String, Vec<String>) {
    let (mut merge, mut alone) = (String::new(), Vec::new());
    if below(random, 3) > 0 {
        let (when, then) = (condition(random, "s"), condition(random, "t"));
        merge += &format!(" WHEN MATCHED AND {when} THEN DELETE");
        merge += &format!(" WHEN MATCHED AND {then} THEN UPDATE SET v = s.v + 10, n += 1");
        alone.push(format!(
            "UPDATE t SET n = CASE WHEN {when} THEN -1 ELSE n + 1 END, v = s.v + 10
             FROM b t JOIN s ON t.k = s.k WHERE {when} OR {then}"
        ));
        alone.push("DELETE b WHERE n = -1".to_string());
    }
    if below(random, 3) > 0 {
        let when = condition(random, "t");
        merge += &format!(" WHEN NOT MATCHED BY SOURCE AND {when} THEN UPDATE SET v = NULL, n = 7");
        alone.push(format!(
            "UPDATE t SET v = NULL, n = 7 FROM b t WHERE {when} AND k NOT IN (SELECT k FROM s)"
        ));
    }
    if below(random, 3) > 0 || merge.is_empty() {
        let when = condition(random, "s");
        merge += &format!(" WHEN NOT MATCHED AND {when} THEN INSERT (k, v) VALUES (s.k, s.v)");
        // What was deleted above was matched.
        alone.insert(
            0,
            format!(
                "INSERT b (k, v, n) SELECT k, v, 100 FROM s WHERE {when} AND k NOT IN (SELECT k FROM b)"
            ),
        );
    }
    (merge, alone)
}

#[test]
fn a_merge_does_what_separate_statements_do() {
    let chosen = std::env::var("DARUMA_MERGE_SEED");
    let chosen: Option<u64> = chosen.ok().and_then(|s| s.parse().ok());
    let server = Server::new();
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    let mut c = server.connect_to("d");
    for table in ["a", "b"] {
        c.done(&format!(
            "CREATE TABLE {table} (k int NOT NULL PRIMARY KEY, v int, n int NOT NULL DEFAULT 100)"
        ));
    }
    c.done("CREATE INDEX a_v ON a (v) INCLUDE (n); CREATE INDEX a_f ON a (n) WHERE v > 1");
    c.done("CREATE TABLE s (k int NOT NULL, v int)");
    for seed in chosen.map_or(0..RUNS, |seed| seed..seed + 1) {
        let random = SimRandom::new(seed);
        fill(&mut c, &random, "a");
        c.done("DELETE b; INSERT b SELECT * FROM a");
        fill(&mut c, &random, "s");
        let (merge, alone) = clauses(&random);
        let before = c.run("SELECT * FROM a ORDER BY k; SELECT * FROM s ORDER BY k");
        let merge = format!("MERGE a AS t USING s ON t.k = s.k{merge};");
        c.done(&merge);
        // New rows of `b` must not be matched by what follows: they wait in a table of their own.
        let (inserts, changes): (Vec<&String>, Vec<&String>) =
            alone.iter().partition(|s| s.starts_with("INSERT"));
        c.done("SELECT k, v, n INTO w FROM b WHERE 1 = 0");
        for insert in inserts {
            c.done(&insert.replace("INSERT b", "INSERT w"));
        }
        for change in changes {
            c.done(change);
        }
        c.done("INSERT b SELECT * FROM w; DROP TABLE w");
        let query = |table| format!("SELECT k, v, n FROM {table} ORDER BY k");
        let (merged, expected) = (c.run(&query("a")), c.run(&query("b")));
        assert_eq!(merged, expected, "seed {seed}: {merge}\n{before}");
        let checked = c.run("DBCC CHECKTABLE (a) WITH NO_INFOMSGS");
        assert_eq!(checked, "", "seed {seed}: {merge}");
    }
}
