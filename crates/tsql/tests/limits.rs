//! Nesting on a connection's stack: as deep as the parser lets texts be, and no deeper.

mod common;

use common::Server;
use daruma_tsql::session::RequestEnd;

/// Beginning, what is repeated, the innermost part, what closes each level.
const NESTED: &[[&str; 4]] = &[
    ["SELECT ", "(", "1", ")"],
    ["SELECT ", "(SELECT ", "1", ")"],
    [
        "SELECT 1 FROM ",
        "(SELECT a FROM ",
        "(SELECT 1 AS a) x",
        ") x",
    ],
    ["SELECT ", "ABS(", "1", ")"],
    ["SELECT ", "CASE WHEN 1 = 1 THEN ", "1", " END"],
    ["SELECT 1 WHERE ", "NOT NOT (", "1 = 1", ")"],
    ["SELECT 1 WHERE ", "EXISTS (SELECT 1 WHERE ", "1 = 1", ")"],
    ["SELECT 1 WHERE ", "1 IN (SELECT 1 WHERE ", "1 = 1", ")"],
    ["", "BEGIN ", "SELECT 1", " END"],
    ["", "IF 1 = 1 ", "SELECT 1", ""],
    [
        "",
        "BEGIN TRY ",
        "SELECT 1",
        " END TRY BEGIN CATCH SELECT 2 END CATCH",
    ],
];

/// Runs a test on the stack that a connection's thread has.
fn on_connection_stack(work: fn()) {
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(work);
    assert!(thread.expect("a thread").join().is_ok());
}

fn text([start, open, core, close]: &[&str; 4], depth: usize) -> String {
    format!("{start}{}{core}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn what_stands_side_by_side_is_answered_at_every_length() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        for (set, rows) in [
            ("EXCEPT SELECT 2", 1),
            ("INTERSECT SELECT 1", 1),
            ("INTERSECT SELECT 2", 0),
        ] {
            let out = client.run(&format!("SELECT 1 {}", format!("{set} ").repeat(5_000)));
            assert!(
                out.contains(&format!("({rows} row")),
                "{set}: {}",
                &out[..out.len().min(300)]
            );
        }
        let inner = "SELECT 1 a".to_string();
        let nested = (0..10).fold(inner, |inner, level| {
            let each = |n| format!("SUM(a) OVER (ORDER BY a + {n})");
            let list: Vec<String> = (0..30).map(|n| each(100 * level + n)).collect();
            format!("SELECT {} AS a FROM ({inner}) t", list.join(" + "))
        });
        let out = client.run(&nested);
        assert!(out.contains("Msg 8623,"), "{}", &out[..out.len().min(300)]);
        for (windows, told) in [(100, "(1 row"), (1_000, "Msg 8623,")] {
            let each = |n| format!("SUM(a) OVER (ORDER BY a + {n})");
            let list: Vec<String> = (0..windows).map(each).collect();
            let out = client.run(&format!("SELECT {} FROM (SELECT 1 a) t", list.join(", ")));
            assert!(
                out.contains(told),
                "{windows}: {}",
                &out[..out.len().min(300)]
            );
        }
    });
}

#[test]
fn nesting_is_answered_at_every_depth() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        for nested in NESTED {
            assert!(!client.run(&text(nested, 5)).contains("Msg"), "{nested:?}");
            for depth in [20, 60, 90, 130, 190, 260, 1000, 20_000] {
                let out = client.run(&text(nested, depth));
                let refused = ["Msg 191,", "Msg 217,", "Msg 8623,", "Msg 125,"];
                let told = out.contains("1 row") || refused.iter().any(|m| out.contains(m));
                assert!(
                    told,
                    "{nested:?} {depth}: {}",
                    out.chars().take(300).collect::<String>()
                );
            }
        }
        assert!(client.run("SELECT 1").contains("1 row"));
    });
}

#[test]
fn a_statement_that_holds_too_much_ends_alone() {
    let server = Server::new();
    let mut client = server.connect();
    let text = "SELECT LEN(STRING_AGG(REPLICATE(CAST('x' AS varchar(max)), 1000000), ',')) FROM \
                (SELECT TOP (2000) 1 AS a FROM sys.all_columns a CROSS JOIN sys.all_columns b) t";
    let out = client.run(text);
    assert!(out.contains("Msg 701, Level 17"), "{out}");
    let refused = server.instance.memory.exhaustion().1;
    assert!(
        refused > 0,
        "groups with FAILURE_CONDITION_LEVEL 4 hear of it"
    );
    assert!(client.run("SELECT 1").contains("1 row"));
    assert_eq!(server.instance.memory.exhaustion().1, refused);
}

/// What each level of these texts repeats must not double what is made of it: beginning, how a level wraps the one below,
/// and what stands innermost.
const GROWING: &[(&str, fn(&str, usize) -> String, &str)] = &[
    (
        "BETWEEN",
        |inner, _| format!("CASE WHEN {inner} + 1 BETWEEN 0 AND 9 THEN 1 ELSE 0 END"),
        "1",
    ),
    (
        "BETWEEN over a subquery",
        |inner, _| format!("(SELECT 1 WHERE {inner} BETWEEN 0 AND 1)"),
        "1",
    ),
    (
        "simple CASE",
        |inner, _| format!("CASE {inner} + 1 WHEN 7 THEN 2 WHEN 8 THEN 3 ELSE 1 END"),
        "1",
    ),
    (
        "NULLIF",
        |inner, n| format!("NULLIF({inner} + 1, -{n})"),
        "1",
    ),
    (
        "CHOOSE",
        |inner, _| format!("CHOOSE({inner}, 1, 2, 3)"),
        "1",
    ),
    (
        "IN a list",
        |inner, _| format!("CASE WHEN {inner} + 1 IN (1, 2.5, '3', 4) THEN 1 ELSE 0 END"),
        "1",
    ),
    (
        "NOT IN a subquery",
        |inner, _| format!("(SELECT 1 WHERE {inner} NOT IN (SELECT 5 UNION ALL SELECT 6))"),
        "1",
    ),
];

#[test]
fn operands_that_are_looked_at_twice_do_not_double_with_each_level() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        for (what, wrap, core) in GROWING {
            let mut text = (*core).to_string();
            for level in 0..40 {
                text = wrap(&text, level);
            }
            let out = client.run(&format!("SELECT {text} AS a"));
            assert!(
                out.contains("1 row"),
                "{what}: {}",
                out.chars().take(300).collect::<String>()
            );
            let shown = client.run(&format!(
                "SET SHOWPLAN_TEXT ON\nGO\nSELECT {text} AS a\nGO\nSET SHOWPLAN_TEXT OFF"
            ));
            assert!(shown.len() < 200_000, "{what}: {} bytes", shown.len());
        }
    });
}

/// Common table expressions, each over the one before.
fn chain(levels: usize, first: &str, next: fn(usize) -> String) -> String {
    let mut text = format!("WITH c1 AS ({first})");
    for level in 2..=levels {
        text.push_str(&format!(", c{level} AS ({})", next(level - 1)));
    }
    text
}

#[test]
fn conditions_do_not_double_on_their_way_down() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        let objects = "SELECT object_id + object_id AS a FROM sys.objects";
        let texts = [
            chain(31, objects, |n| format!("SELECT a + a AS a FROM c{n}"))
                + " SELECT COUNT(*) FROM c31 WHERE a / 2 > 0 OR a / 3 > 1",
            chain(31, objects, |n| {
                format!("SELECT a % 7 + a % 3 + a % 2 AS a FROM c{n}")
            }) + " SELECT COUNT(*) FROM c31 WHERE a > 0",
        ];
        let out = client.run(&texts[1]);
        assert!(out.contains("1 row"), "{out}");
        let out = client.run(&texts[0]);
        assert!(out.contains("1 row") || out.contains("Msg 8115"), "{out}");
        // The same as a correlated scalar subquery, which becomes a join with a grouped one.
        let mut nested =
            "SELECT SUM(c.column_id) AS a FROM sys.columns c WHERE c.object_id = o.object_id"
                .to_string();
        for _ in 0..30 {
            nested = format!("SELECT a % 7 + a % 3 + a % 2 AS a FROM ({nested}) t");
        }
        let out = client.run(&format!(
            "SELECT COUNT(v) FROM (SELECT ({nested}) AS v FROM sys.objects o) t"
        ));
        assert!(out.contains("1 row"), "{out}");
    });
}

#[test]
fn arguments_of_nested_inline_functions_do_not_double_without_end() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        let mut refused = false;
        client.run("CREATE FUNCTION f1 (@a int) RETURNS TABLE AS RETURN SELECT @a + @a AS a");
        for n in 2..=30 {
            let below = n - 1;
            let out = client.run(&format!(
            "CREATE FUNCTION f{n} (@a int) RETURNS TABLE AS RETURN SELECT a FROM f{below}(@a % 3 + @a % 2)"
        ));
            refused = refused || out.contains("Msg 8623, Level 16");
        }
        let out = client.run("SELECT a FROM f10(1)");
        assert!(out.contains("1 row"), "{out}");
        assert!(refused);
    });
}

#[test]
fn a_long_list_does_not_copy_what_is_looked_for() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        let sum = vec!["object_id"; 300].join(" % 7 + ");
        let members: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let members = members.join(",");
        let text = format!("SELECT COUNT(*) FROM sys.objects WHERE {sum} IN ({members})");
        assert!(client.run(&text).contains("1 row"));
        // Members of several types: a chain of comparisons.
        let text = format!(
            "SELECT COUNT(*) FROM sys.objects WHERE CAST({sum} AS varchar(20)) IN ({members}, 'x')"
        );
        let out = client.run(&text);
        assert!(
            out.contains("1 row") || out.contains("Msg 245"),
            "{}",
            &out[..out.len().min(300)]
        );
    });
}

#[test]
fn goto_turns_a_loop_in_blocks_of_any_depth() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        let text = "DECLARE @i int = 0; GOTO a; BEGIN BEGIN a: SET @i += 1; IF @i < 200000 GOTO a END SET @i += 1000000 END \
                    SELECT @i AS i";
        let out = client.run(text);
        assert!(out.contains("1200000"), "{out}");
    });
}

#[test]
fn blocks_nest_in_modules_that_nest() {
    on_connection_stack(|| {
        let server = Server::new();
        let mut client = server.connect();
        let (begin, end) = ("BEGIN ".repeat(190), " END".repeat(190));
        client.run(&format!(
            "CREATE PROCEDURE p @n int AS {begin} IF @n > 1 BEGIN SET @n -= 1 EXEC p @n END ELSE SELECT 'innermost' AS a {end}"
        ));
        let out = client.run("EXEC p 32");
        assert!(out.contains("innermost"), "{out}");
        assert!(client.run("EXEC p 33").contains("Msg 217,"));
    });
}

/// Each of these compares for hours.
const LONG_SEARCHES: &[&str] = &[
    "SELECT CASE WHEN @x LIKE '%' + REPLICATE('a', 3000) + 'b%' THEN 1 ELSE 0 END",
    "SELECT COUNT(*) FROM (VALUES (@x)) v(x) WHERE x NOT LIKE '%' + REPLICATE('[a-z]', 1500) + 'b%'",
    "SELECT PATINDEX('%a%b%', @x)",
];

#[test]
fn a_long_search_ends_when_nobody_wants_it() {
    for search in LONG_SEARCHES {
        let server = Server::new();
        let mut client = server.connect();
        let cancel = client.session.cancel_flag();
        let started = || !server.instance.global_temps.lock().is_empty();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !started() {
                    std::thread::yield_now();
                }
                cancel.set(daruma_base::cancel::CancelReason::Attention);
            });
            client.run(&format!(
                "DECLARE @x varchar(max) = REPLICATE(CAST('a' AS varchar(max)), 20000000); \
                 CREATE TABLE ##started (id int); {search}"
            ));
        });
        assert_eq!(client.ended, RequestEnd::Cancelled, "{search}");
        assert!(client.run("SELECT 1").contains("1 row"), "{search}");
    }
}
