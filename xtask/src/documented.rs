//! Public items without documentation: `pub` functions, types, traits and constants of the crates.
//!
//! Fields and variants are left out: most say by their name what they are. Tests are left out as well.

use std::path::Path;

const ITEMS: [&str; 9] = [
    "fn ",
    "const fn ",
    "unsafe fn ",
    "struct ",
    "enum ",
    "trait ",
    "const ",
    "static ",
    "type ",
];

/// Is the file one whose public items are read by others: in `crates/*/src`, and no test?
pub(crate) fn applies(relative: &Path) -> bool {
    let mut parts = relative.iter().map(|p| p.to_string_lossy());
    parts.next().as_deref() == Some("crates")
        && parts.nth(1).as_deref() == Some("src")
        && !parts.any(|p| p == "tests" || p.ends_with("tests.rs"))
}

/// Line numbers and texts of the items that lack a sentence.
pub(crate) fn undocumented(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let end = lines
        .windows(2)
        .position(|pair| pair[0].starts_with("#[cfg(test)]") && opens_module(pair[1]));
    let lines = &lines[..end.unwrap_or(lines.len())];
    let is_item = |line: &str| {
        let rest = line.strip_prefix("pub ");
        rest.is_some_and(|rest| ITEMS.iter().any(|item| rest.starts_with(item)))
    };
    (0..lines.len())
        .filter(|at| is_item(lines[*at]) && !is_documented(&lines[..*at]))
        .map(|at| (at + 1, lines[at]))
        .collect()
}

fn opens_module(line: &str) -> bool {
    line.contains("mod ") && line.ends_with('{')
}

/// Does a doc comment stand at the end of `before`, with nothing but attributes behind it?
fn is_documented(before: &[&str]) -> bool {
    let mut in_attribute = false;
    for line in before.iter().rev() {
        match line {
            _ if line.starts_with("#[") => in_attribute = false,
            _ if in_attribute => {}
            // The end of an attribute over several lines.
            _ if line.ends_with(")]") => in_attribute = true,
            _ => return line.starts_with("///"),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_without_a_sentence_is_noticed() {
        let text = "//! Room.\n\n/// Said.\n#[derive(Debug)]\npub struct Said;\n\npub fn unsaid() {}\npub(crate) fn own() {}\n\
                    #[cfg(test)]\nmod tests {\n    pub fn helper() {}\n}\n";
        assert_eq!(undocumented(text), [(7, "pub fn unsaid() {}")]);
    }

    #[test]
    fn attributes_of_several_lines_are_passed_over() {
        let text = "//! Room.\n\n/// Said.\n#[derive(\n    Clone,\n)]\npub struct Said;\n";
        assert!(undocumented(text).is_empty());
    }

    #[test]
    fn tests_need_no_documentation() {
        assert!(applies(Path::new("crates/base/src/io.rs")));
        assert!(!applies(Path::new("crates/tsql/src/dml/tests/fixture.rs")));
        assert!(!applies(Path::new("crates/tds/src/login/tests.rs")));
        assert!(!applies(Path::new("crates/tsql/tests/common/mod.rs")));
    }
}
