//! What the test programs share: finding files, splitting scripts, printing and parsing again.
#![allow(dead_code, reason = "each test program uses its part")]

use daruma_syntax::{ParseOptions, parse_batch, print_batch};
use std::path::{Path, PathBuf};

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn golden_dir() -> PathBuf {
    repository().join("golden/syntax")
}

/// Files with this extension below a folder, in a stable order.
pub fn files_under(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Batches of a script: the client splits at lines with `GO` and maybe a count, outside strings and block comments.
pub fn batches(script: &str) -> Vec<String> {
    let mut batches = vec![String::new()];
    let mut inside = Inside::Text;
    for line in script.lines() {
        let mut words = line.split_whitespace();
        let go = words
            .next()
            .is_some_and(|word| word.trim_end_matches(';').eq_ignore_ascii_case("go"));
        if inside == Inside::Text
            && go
            && words
                .next()
                .is_none_or(|count| count.parse::<u32>().is_ok())
        {
            batches.push(String::new());
        } else if let Some(batch) = batches.last_mut() {
            batch.push_str(line);
            batch.push('\n');
            inside = inside.after(line);
        }
    }
    batches.retain(|batch| !batch.trim().is_empty());
    batches
}

#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Text,
    String(char),
    Comment(usize),
}

impl Inside {
    fn after(mut self, line: &str) -> Inside {
        let mut rest = line.chars().peekable();
        while let Some(ch) = rest.next() {
            let next = rest.peek().copied();
            self = match (self, ch, next) {
                (Inside::Text, '-', Some('-')) => return self,
                (Inside::Text, '/', Some('*')) => rest.next().map_or(self, |_| Inside::Comment(1)),
                (Inside::Text, '\'' | '"', _) => Inside::String(ch),
                (Inside::Text, '[', _) => Inside::String(']'),
                (Inside::String(close), _, _) if ch == close => Inside::Text,
                (Inside::Comment(depth), '/', Some('*')) => {
                    rest.next().map_or(self, |_| Inside::Comment(depth + 1))
                }
                (Inside::Comment(1), '*', Some('/')) => rest.next().map_or(self, |_| Inside::Text),
                (Inside::Comment(depth), '*', Some('/')) => {
                    rest.next().map_or(self, |_| Inside::Comment(depth - 1))
                }
                (state, _, _) => state,
            };
        }
        self
    }
}

/// Parses, prints, and parses again; the error says which step failed.
pub fn round_trip(batch: &str) -> Result<(), String> {
    let options = ParseOptions::default();
    let statements = parse_batch(batch, &options).map_err(|errors| errors[0].to_string())?;
    let printed = print_batch(&statements);
    let again = parse_batch(&printed, &options)
        .map_err(|errors| format!("printed form: {}\n{printed}", errors[0]))?;
    if again == statements {
        Ok(())
    } else {
        Err(format!("printed form means something else:\n{printed}"))
    }
}
