//! Golden SQL: `golden/sql/<area>/*.sqlt` holds batches and what a client sees.
//!
//! A file is a list of cases separated by `===` lines; a case is a batch, a line `---`, and the expected output. All
//! cases of a file run in one session, in a database of its own. Lines that begin with `## ` are comments.
//! `DARUMA_BLESS=1` rewrites the expectations.

mod common;

use common::Server;
use std::path::{Path, PathBuf};

struct Case {
    comments: String,
    batch: String,
    expected: String,
}

#[test]
fn golden_files_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/sql");
    let wanted = std::env::var("DARUMA_GOLDEN").unwrap_or_default();
    let bless = std::env::var("DARUMA_BLESS").is_ok();
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    files.retain(|f| f.to_string_lossy().contains(&wanted));
    assert!(
        !files.is_empty(),
        "no golden files under {}",
        root.display()
    );
    let failures: Vec<String> = files.iter().filter_map(|file| check(file, bless)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => collect(&path, files),
            false if path.extension().is_some_and(|e| e == "sqlt") => files.push(path),
            false => {}
        }
    }
}

/// Runs a file; gives a description of the differences.
fn check(file: &Path, bless: bool) -> Option<String> {
    let text = std::fs::read_to_string(file).expect("read golden file");
    let cases = parse(&text);
    let server = Server::new();
    let mut client = server.connect();
    let created = client.run("CREATE DATABASE golden");
    assert_eq!(created, "", "create database");
    client.run("USE golden");
    let mut written = Vec::new();
    let mut failures = String::new();
    for case in &cases {
        let actual = client.run(&case.batch);
        if actual.trim_end() != case.expected.trim_end() {
            failures += &format!(
                "{}:\n{}\n--- expected\n{}\n--- found\n{}\n",
                file.display(),
                case.batch,
                case.expected,
                actual
            );
        }
        written.push(format!("{}{}\n---\n{}", case.comments, case.batch, actual));
    }
    if bless {
        std::fs::write(file, written.join("===\n")).expect("write golden file");
        return None;
    }
    (!failures.is_empty()).then_some(failures)
}

fn parse(text: &str) -> Vec<Case> {
    text.split("\n===\n")
        .flat_map(|part| part.strip_prefix("===\n").or(Some(part)))
        .map(case)
        .collect()
}

fn case(text: &str) -> Case {
    let (source, expected) = match text.split_once("\n---\n") {
        Some((source, expected)) => (source, expected),
        None => (text.trim_end().trim_end_matches("\n---"), ""),
    };
    let (comments, batch): (Vec<&str>, Vec<&str>) =
        source.lines().partition(|l| l.starts_with("## "));
    let comments = comments.iter().map(|c| format!("{c}\n")).collect();
    Case {
        comments,
        batch: batch.join("\n"),
        expected: expected.to_string(),
    }
}
