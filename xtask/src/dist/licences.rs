//! Licences of everything in the program: whether each may be in it, and their texts.

use super::graph::{Graph, Part};
use std::collections::BTreeMap;
use std::fs;

/// Licences that ask for no more than that their text comes along.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Beginnings of the names of files with licences, in capitals.
const FILES: [&str; 4] = ["LICEN", "COPYING", "NOTICE", "UNLICENSE"];

/// A list of the parts with their licences, then the texts, each once. `Err` names the parts that may not be in the program.
pub fn text(graph: &Graph) -> Result<String, String> {
    let refused: Vec<String> = graph
        .parts
        .values()
        .filter(|part| !is_allowed(&part.licence))
        .map(|part| format!("{} {}: '{}'", part.name, part.version, part.licence))
        .collect();
    if !refused.is_empty() {
        return Err(format!(
            "licences that are not in the list of xtask/src/dist/licences.rs:\n  {}",
            refused.join("\n  ")
        ));
    }
    let mut text = String::from(
        "The program is linked from these parts, and from the standard library of Rust (MIT OR Apache-2.0) with musl (MIT).\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    texts.insert(
        include_str!("musl.txt").trim().to_string(),
        vec!["musl".to_string()],
    );
    for part in graph.parts.values() {
        let name = format!("{} {}", part.name, part.version);
        let found = texts_of(part)?;
        let none = if found.is_empty() && part.checksum.is_some() {
            ", without a text in its package"
        } else {
            ""
        };
        text.push_str(&format!("{name} ({}){none}\n", part.licence));
        for licence in found {
            let users = texts.entry(licence).or_default();
            if users.last() != Some(&name) {
                users.push(name.clone());
            }
        }
    }
    for (licence, users) in &texts {
        text.push_str(&format!(
            "\n{}\n{}\n\n{licence}\n",
            "=".repeat(80),
            users.join(", ")
        ));
    }
    Ok(text)
}

/// Texts in the folder of a crate.
fn texts_of(part: &Part) -> Result<Vec<String>, String> {
    let failed = |e| format!("{}: {e}", part.folder.display());
    let mut paths = Vec::new();
    // Sources of others that a crate brings along lie deeper, with notices of their own.
    let mut folders = vec![part.folder.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().to_uppercase();
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() && name != "TARGET" {
                folders.push(entry.path());
            } else if kind.is_file() && FILES.iter().any(|begin| name.starts_with(begin)) {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    let read = |path| fs::read(path).map_err(failed);
    paths
        .iter()
        .map(|path| Ok(String::from_utf8_lossy(&read(path)?).trim().to_string()))
        .collect()
}

/// May a part with this licence be in the program? Of OR one side is enough, of AND both are needed; a slash is an old OR.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let allowed = either(&words, &mut at);
    allowed && at == words.len()
}

fn either(words: &[&str], at: &mut usize) -> bool {
    let mut allowed = both(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        // Both sides are read, whatever the first says.
        allowed |= both(words, at);
    }
    allowed
}

fn both(words: &[&str], at: &mut usize) -> bool {
    let mut allowed = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        allowed &= one(words, at);
    }
    allowed
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if *word == "(" {
        let allowed = either(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return allowed && closed;
    }
    let mut licence = (*word).to_string();
    if words.get(*at) == Some(&"WITH") {
        licence.push_str(&format!(" WITH {}", words.get(*at + 1).unwrap_or(&"")));
        *at += 2;
    }
    ALLOWED.contains(&licence.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "GPL-3.0 OR",
            "MIT MIT",
            "GPL-2.0 WITH Classpath-exception-2.0",
            "()",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
