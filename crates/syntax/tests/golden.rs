//! Golden files: input, then the printed form or the messages. Every accepted input must also survive print and parse.
//!
//! `BLESS=1 cargo test -p daruma-syntax --test golden` rewrites the expectations; review reads the difference.

mod support;

use daruma_syntax::{ParseOptions, parse_batch, print_batch};
use std::fmt::Write;
use std::fs;
use support::{batches, files_under, golden_dir};

#[test]
fn golden_files_hold() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = String::new();
    for path in files_under(&golden_dir(), "sqlt") {
        let text = fs::read_to_string(&path).expect("golden file is readable");
        let found: Vec<String> = text.split("\n===\n").map(render).collect();
        let found = found.join("\n===\n") + "\n";
        if bless {
            fs::write(&path, found).expect("golden file is writable");
        } else if found != text {
            writeln!(
                failures,
                "{}:\n{}",
                path.display(),
                first_difference(&text, &found)
            )
            .expect("string");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// The case with its expectation as it comes out now.
fn render(case: &str) -> String {
    let input = case.split("\n---\n").next().unwrap_or(case).trim_end();
    let options = ParseOptions {
        quoted_identifier: !input.starts_with("-- quoted_identifier off"),
    };
    let output = match parse_batch(input, &options) {
        Ok(statements) => {
            let printed = print_batch(&statements);
            match parse_batch(&printed, &options) {
                Ok(again) if again == statements => printed,
                Ok(_) => format!("{printed}ROUND TRIP DIFFERS"),
                Err(errors) => format!("{printed}ROUND TRIP FAILS {}", errors[0]),
            }
        }
        Err(errors) => errors.iter().map(|error| format!("{error}\n")).collect(),
    };
    format!("{input}\n---\n{}", output.trim_end())
}

fn first_difference(expected: &str, found: &str) -> String {
    let pairs = expected.lines().zip(found.lines()).enumerate();
    match pairs.into_iter().find(|(_, (left, right))| left != right) {
        Some((line, (left, right))) => {
            format!("line {}\n  expected {left}\n  found    {right}", line + 1)
        }
        None => "one is longer than the other".to_owned(),
    }
}

#[test]
fn scripts_of_the_articles_parse_and_print() {
    let mut count = 0;
    for path in files_under(&golden_dir().join("articles"), "sql") {
        let text = fs::read_to_string(&path).expect("script is readable");
        for batch in batches(&text) {
            support::round_trip(&batch)
                .unwrap_or_else(|error| panic!("{}: {error}\n{batch}", path.display()));
            count += 1;
        }
    }
    assert!(count >= 30, "only {count} batches found");
}
