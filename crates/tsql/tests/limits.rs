//! Nesting on a connection's stack: as deep as the parser lets texts be, and no deeper.

mod common;

use common::Server;

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

fn text([start, open, core, close]: &[&str; 4], depth: usize) -> String {
    format!("{start}{}{core}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn nesting_is_answered_at_every_depth() {
    let work = || {
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
    };
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(work);
    assert!(thread.expect("a thread").join().is_ok());
}

#[test]
fn a_statement_that_holds_too_much_ends_alone() {
    let server = Server::new();
    let mut client = server.connect();
    let text = "SELECT LEN(STRING_AGG(REPLICATE(CAST('x' AS varchar(max)), 1000000), ',')) FROM \
                (SELECT TOP (2000) 1 AS a FROM sys.all_columns a CROSS JOIN sys.all_columns b) t";
    let out = client.run(text);
    assert!(out.contains("Msg 701, Level 17"), "{out}");
    assert!(client.run("SELECT 1").contains("1 row"));
}
