//! Pass rate over every script of the repository; it may only rise. `golden/syntax/ratchet.txt` keeps the scripts which
//! are known to fail, one `path: batches` a line.

mod support;

use std::collections::BTreeMap;
use support::{batches, files_under, golden_dir, repository, round_trip};

#[test]
fn scripts_of_the_repository_parse() {
    let known = known_failures();
    let root = repository();
    let mut total = 0;
    let mut worse = Vec::new();
    for folder in ["golden", "tests", "bench", "crates", "docs"] {
        for path in files_under(&root.join(folder), "sql") {
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            let failures: Vec<String> = batches(&text)
                .iter()
                .inspect(|_| total += 1)
                .filter_map(|batch| round_trip(batch).err())
                .collect();
            let name = path
                .strip_prefix(&root)
                .unwrap_or(&path)
                .display()
                .to_string();
            if failures.len() > known.get(&name).copied().unwrap_or(0) {
                worse.push(format!(
                    "{name}: {} batches fail, first: {}",
                    failures.len(),
                    failures[0]
                ));
            }
        }
    }
    assert!(total > 0, "no script found");
    assert!(
        worse.is_empty(),
        "more failures than before:\n{}",
        worse.join("\n")
    );
}

fn known_failures() -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(golden_dir().join("ratchet.txt"))
        .expect("ratchet file is readable");
    let entry = |line: &str| {
        line.rsplit_once(": ")
            .and_then(|(path, count)| Some((path.to_owned(), count.parse().ok()?)))
    };
    text.lines().filter_map(entry).collect()
}
