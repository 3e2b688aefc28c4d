//! Pass rate over a folder of scripts: how many batches parse and survive printing, and where the others stop.
//!
//! `cargo run -p daruma-syntax --example pass_rate -- FOLDER [SHOWN]`

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use support::{batches, files_under, round_trip};

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(folder) = args.next() else {
        eprintln!("usage: pass_rate FOLDER [SHOWN]");
        return;
    };
    let shown = args
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(40);
    let (mut passed, mut total, mut failures) = (0, 0, BTreeMap::<String, Vec<String>>::new());
    for path in files_under(Path::new(&folder), "sql") {
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        for batch in batches(&text) {
            total += 1;
            match round_trip(&batch) {
                Ok(()) => passed += 1,
                Err(error) => {
                    let message = error
                        .split(": ")
                        .nth(1)
                        .unwrap_or(&error)
                        .lines()
                        .next()
                        .unwrap_or("")
                        .to_owned();
                    let place = format!("{}: {}", path.display(), failing_line(&batch, &error));
                    failures.entry(message).or_default().push(place);
                }
            }
        }
    }
    println!("{passed} of {total} batches pass");
    let mut failures: Vec<_> = failures.into_iter().collect();
    failures.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    for (message, places) in failures.into_iter().take(shown) {
        println!("{:5}  {message}", places.len());
        for place in places.iter().take(6) {
            println!("       {place}");
        }
    }
}

/// The line of the batch which the error names.
fn failing_line<'a>(batch: &'a str, error: &str) -> &'a str {
    let line = error
        .split("Line ")
        .nth(1)
        .and_then(|rest| rest.split(':').next())
        .and_then(|line| line.parse::<usize>().ok());
    line.and_then(|line| batch.lines().nth(line - 1))
        .unwrap_or("")
        .trim()
}
