//! Hostile and odd input: no text may panic, recurse without bound, or print to something else.

mod support;

use daruma_syntax::{
    ParseOptions, parse_batch, parse_batch_within, parse_condition, parse_expression,
    parse_parameter_definitions, parse_type, print_batch,
};
use proptest::prelude::*;
use support::{files_under, golden_dir, round_trip};

const WORDS: &[&str] = &[
    "select",
    "from",
    "where",
    "group",
    "by",
    "order",
    "insert",
    "into",
    "values",
    "update",
    "set",
    "delete",
    "merge",
    "using",
    "on",
    "when",
    "matched",
    "then",
    "not",
    "and",
    "or",
    "in",
    "like",
    "between",
    "is",
    "null",
    "exists",
    "case",
    "end",
    "else",
    "begin",
    "tran",
    "commit",
    "rollback",
    "try",
    "catch",
    "if",
    "while",
    "declare",
    "exec",
    "create",
    "alter",
    "drop",
    "table",
    "index",
    "view",
    "proc",
    "as",
    "function",
    "returns",
    "trigger",
    "with",
    "union",
    "all",
    "top",
    "distinct",
    "join",
    "left",
    "cross",
    "apply",
    "over",
    "partition",
    "rows",
    "cast",
    "convert",
    "collate",
    "at",
    "time",
    "zone",
    "for",
    "xml",
    "path",
    "option",
    "cursor",
    "fetch",
    "open",
    "return",
    "goto",
    "print",
    "raiserror",
    "backup",
    "restore",
    "database",
    "to",
    "disk",
    "grant",
    "login",
    "dbcc",
    "int",
    "varchar",
    "max",
    "default",
    "primary",
    "key",
    "constraint",
    "check",
    "references",
    "a",
    "b",
    "t",
    "dbo",
    "@x",
    "@@rowcount",
    "#t",
    "[q]",
    "\"d\"",
    "'s'",
    "N'u'",
    "1",
    "1.5",
    "2e3",
    "$4",
    "0x1f",
    "(",
    ")",
    "(",
    ")",
    ",",
    ",",
    ".",
    ";",
    "=",
    "<",
    ">",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "~",
    ":",
    "::",
    "{",
    "}",
    "{fn",
    "$action",
    "--",
    "/*",
    "*/",
    "\n",
    "pivot",
    "unpivot",
    "openjson",
    "openxml",
    "contains",
    "iif",
    "coalesce",
    "nullif",
    "rollup",
    "grouping",
    "sets",
    "output",
    "inserted",
    "deleted",
    "next",
    "value",
    "offset",
    "only",
    "percent",
    "ties",
    "add",
    "column",
    "identity",
    "execute",
    "user",
    "off",
    "availability",
    "group",
    "replica",
    "endpoint",
    "event",
    "session",
    "target",
    "action",
    "where",
    "server",
    "state",
    "started",
    "waitfor",
    "delay",
];

fn parse_everywhere(text: &str) {
    for quoted_identifier in [true, false] {
        let options = ParseOptions { quoted_identifier };
        if let Ok(statements) = parse_batch(text, &options) {
            let printed = print_batch(&statements);
            let again = parse_batch(&printed, &options).unwrap_or_else(|errors| {
                panic!("{text:?} prints as {printed:?}, which fails: {}", errors[0])
            });
            assert_eq!(again, statements, "{text:?} prints as {printed:?}");
        }
        let _ = parse_expression(text, &options);
        let _ = parse_condition(text, &options);
        let _ = parse_type(text, &options);
        let _ = parse_parameter_definitions(text, &options);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn token_soup_never_panics(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        parse_everywhere(&words.join(" "));
    }

    #[test]
    fn soup_after_a_verb_never_panics(
        verb in prop::sample::select(&[
            "select a from t ", "create table t (a int ", "alter table t ", "create proc p as ", "merge t using u on 1=1 when ",
            "alter database x set ", "backup database x to disk = 'a' with ", "select 1 where ", "exec p ", "create index i on t ",
            "create event session s on server add event e ", "alter event session s on server ",
        ][..]),
        words in prop::collection::vec(prop::sample::select(WORDS), 0..12),
    ) {
        parse_everywhere(&format!("{verb}{}", words.join(" ")));
    }

    #[test]
    fn damaged_scripts_never_panic(
        script in prop::sample::select(scripts()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8), 1..4),
    ) {
        let mut words = words_of(&script);
        for (at, other, kind) in damage {
            if words.is_empty() {
                break;
            }
            let (at, other) = (at.index(words.len()), other.index(words.len()));
            match kind {
                0 => drop(words.remove(at)),
                1 => words.insert(at, words[other].clone()),
                2 => words.swap(at, other),
                _ => words.truncate(at),
            }
        }
        parse_everywhere(&words.join(" "));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,80}") {
        parse_everywhere(&text);
    }
}

/// The inputs of all golden files.
fn scripts() -> Vec<String> {
    let files = files_under(&golden_dir(), "sqlt").into_iter();
    let texts = files.map(|path| std::fs::read_to_string(path).expect("golden file is readable"));
    let cases = texts.flat_map(|text| text.split("\n===\n").map(str::to_owned).collect::<Vec<_>>());
    cases
        .filter_map(|case| case.split("\n---\n").next().map(str::to_owned))
        .collect()
}

/// Splits at blanks and around punctuation.
fn words_of(script: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for ch in script.chars() {
        if ch.is_alphanumeric() || "_@#$'\"[]\\".contains(ch) {
            words.last_mut().expect("never empty").push(ch);
        } else {
            words.push(ch.to_string());
            words.push(String::new());
        }
    }
    words.retain(|word| !word.trim().is_empty());
    words
}

fn error_number(text: &str) -> u32 {
    match parse_batch(text, &ParseOptions::default()) {
        Ok(_) => 0,
        Err(errors) => errors[0].number,
    }
}

#[test]
fn deep_nesting_is_refused_with_191() {
    let deep = 100_000;
    let wrap = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(deep), close.repeat(deep))
    };
    for text in [
        format!("select {}", wrap("(", "1", ")")),
        format!("select 1 where {}", wrap("(", "a = 1", ")")),
        format!("select {}", wrap("abs(", "1", ")")),
        format!("select {}", wrap("- ", "1", "")),
        format!("select {}", wrap("~ ", "1", "")),
        format!("select 1 where {}", wrap("not ", "a = 1", "")),
        format!("select * from {}", wrap("(", "t", ")")),
        format!("select * from {}", wrap("(select * from ", "t", ") x")),
        format!("select {}", wrap("(select ", "1", ")")),
        format!("select {}", wrap("case when 1 = 1 then ", "1", " end")),
        wrap("begin ", "select 1", " end"),
        wrap("if 1 = 1 ", "select 1", ""),
        wrap("while 1 = 1 ", "select 1", ""),
        wrap("(", "select 1", ")"),
        wrap("begin try ", "select 1", " end try begin catch end catch"),
        format!(
            "select * from a {} {}",
            "join b ".repeat(deep),
            "on 1 = 1 ".repeat(deep)
        ),
        format!("select a from t group by {}", wrap("rollup (", "a", ")")),
        format!(
            "alter index i on t rebuild with {}",
            wrap("(a = on ", "(b = 1)", ")")
        ),
        format!("create view v as {}", wrap("(", "select 1 a", ")")),
        format!("select {}1", "1 + ".repeat(deep)),
        format!("select a{}", " collate x".repeat(deep)),
        format!("select 1{}", " union select 1 except select 2".repeat(deep)),
        format!("select * from t{}", " cross join t".repeat(deep)),
        format!("with a as {} select 1", wrap("(select * from ", "t", " x)")),
    ] {
        let start: String = text.chars().take(40).collect();
        assert_eq!(error_number(&text), 191, "{start}");
    }
}

/// What is allowed must be safe to walk: at the limit everything still parses, prints and compares.
#[test]
fn the_limits_leave_room() {
    round_trip(&format!("select {}1{}", "(1 + ".repeat(90), ")".repeat(90)))
        .expect("90 parentheses");
    round_trip(&format!("select {}", vec!["'x'"; 500].join(" + ")))
        .expect("500 concatenated strings");
    round_trip(&vec!["select 1"; 5_000].join(" union all ")).expect("5,000 branches");
    round_trip(&format!(
        "select 1 where {}",
        vec!["a = 1"; 20_000].join(" or ")
    ))
    .expect("20,000 alternatives");
    round_trip(&format!(
        "insert t values {}",
        vec!["(1, 'x')"; 20_000].join(", ")
    ))
    .expect("20,000 rows");
    round_trip(&format!("select {}", vec!["a"; 4_096].join(", "))).expect("4,096 columns");
    round_trip(&format!(
        "select * from t{}",
        " join t on 1 = 1".repeat(255)
    ))
    .expect("256 tables");
    round_trip(&format!("{}select 1", "if 1 = 1 select 2 else ".repeat(90)))
        .expect("90 branches of else if");
}

/// A batch of some megabytes; quadratic work would not end.
#[test]
fn a_large_batch_is_read_in_one_pass() {
    let statement =
        "insert into dbo.t (a, b) values (1, N'some text with ''quotes'' inside'); /* note */\n";
    let text = statement.repeat(40_000);
    let statements = parse_batch(&text, &ParseOptions::default()).expect("batch parses");
    assert_eq!(statements.len(), 40_000);
    assert_eq!(statements[39_999].span.line, 40_000);
    assert_eq!(
        statements[39_999].span.text(&text),
        statement
            .split(';')
            .next()
            .expect("text before the semicolon")
    );
}

#[test]
fn a_batch_is_not_read_again_without_end() {
    let switches = "SET QUOTED_IDENTIFIER OFF SET QUOTED_IDENTIFIER ON ";
    let few = switches.repeat(500) + "SELECT \"a\" FROM t";
    assert!(parse_batch(&few, &ParseOptions::default()).is_ok());
    // Each switch makes all that follows another text.
    assert_eq!(error_number(&switches.repeat(50_000)), 191);
}

#[test]
fn memory_is_asked_for_while_a_text_is_cut_into_words() {
    let asked = std::cell::Cell::new(0);
    let has_room = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    // That the first word begins no statement shows only when all words have been cut.
    let text = ") ".to_string() + &", 1".repeat(500_000);
    let errors = parse_batch_within(&text, &ParseOptions::default(), &has_room);
    let errors = errors.expect_err("there is none");
    assert_eq!(errors[0].number, 701);
}

#[test]
fn lines_and_spans_point_into_the_batch() {
    let text = "select 1\n\n  update t\n set a = 'x\ny' where b = 2;\nif 1 = 1\n  select 3\n";
    let statements = parse_batch(text, &ParseOptions::default()).expect("batch parses");
    let found: Vec<_> = statements
        .iter()
        .map(|statement| (statement.span.line, statement.span.text(text)))
        .collect();
    assert_eq!(
        found,
        [
            (1, "select 1"),
            (3, "update t\n set a = 'x\ny' where b = 2"),
            (6, "if 1 = 1\n  select 3")
        ]
    );
}

#[test]
fn parameter_definitions_are_read() {
    let options = ParseOptions::default();
    let parse = |text: &str| parse_parameter_definitions(text, &options);
    let found = parse("@a int, @b nvarchar(max) OUTPUT, @c dbo.T readonly, @d decimal(10,2) = 1")
        .expect("definitions parse");
    let printed: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        [
            "@a int",
            "@b nvarchar(max) OUTPUT",
            "@c dbo.T READONLY",
            "@d decimal(10, 2) = 1"
        ]
    );
    assert_eq!(parse("  ").expect("blank text defines none"), []);
    assert_eq!(parse("@a").expect_err("type is missing")[0].number, 102);
    assert_eq!(
        parse("@a int select 1").expect_err("text after the list")[0].number,
        156
    );
}
