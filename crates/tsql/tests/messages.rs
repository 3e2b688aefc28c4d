//! The table of messages against the sources and the tests: what is raised is in the table, and the number of messages
//! that no test has seen may only fall.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Messages that no golden file and no test names. Lower it when a test is added.
const UNTESTED: usize = 38;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(dir: &Path, list: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => files(&path, list),
            false => list.push(path),
        }
    }
}

/// Every number of three to five digits in a text; digits may be grouped by `_`.
fn numbers(text: &str) -> BTreeSet<i32> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map(|word| word.replace('_', ""))
        .filter(|word| (3..=5).contains(&word.len()))
        .filter_map(|word| word.parse().ok())
        .collect()
}

fn is_test(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains("/tests/") || text.ends_with("tests.rs")
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut list = Vec::new();
    files(&root().join("crates"), &mut list);
    let rust = list
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rs"));
    rust.filter_map(|p| Some((p.clone(), std::fs::read_to_string(p).ok()?)))
        .collect()
}

#[test]
fn messages_without_a_test_become_fewer() {
    let mut seen = BTreeSet::new();
    let mut golden = Vec::new();
    files(&root().join("golden"), &mut golden);
    for path in golden {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let shown = text.lines().filter(|l| l.contains("Msg "));
        shown.for_each(|line| seen.extend(numbers(line)));
    }
    for (path, text) in sources() {
        if is_test(&path) && !path.ends_with("tsql/tests/messages.rs") {
            seen.extend(numbers(&text));
        }
    }
    let all = daruma_tsql::messages::all().iter().map(|m| m.number);
    let untested: Vec<i32> = all.filter(|n| !seen.contains(n)).collect();
    let count = untested.len();
    assert!(
        count <= UNTESTED,
        "{count} messages without a test, {UNTESTED} before: {untested:?}"
    );
}

/// A number that is not in the table would be shown as `Error n.`
#[test]
fn what_is_raised_is_in_the_table() {
    let mut missing = Vec::new();
    for (path, text) in sources().iter().filter(|(p, _)| !is_test(p)) {
        for call in ["messages::error(", "messages::error_state("] {
            for (at, _) in text.match_indices(call) {
                let rest = text.get(at + call.len()..).unwrap_or_default().trim_start();
                let digits: String = rest
                    .chars()
                    .take_while(|c| c.is_ascii_digit() || *c == '_')
                    .filter(char::is_ascii_digit)
                    .collect();
                let number = digits.parse().unwrap_or(0);
                if number != 0 && daruma_tsql::messages::find(number).is_none() {
                    missing.push((number, path.clone()));
                }
            }
        }
    }
    assert!(
        missing.is_empty(),
        "raised but not in the table: {missing:?}"
    );
}
