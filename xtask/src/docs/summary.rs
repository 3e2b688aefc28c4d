//! The table of contents: docs/SUMMARY.md with its paths as the book has them, the reference and the decisions in their places.

use super::reference::PAGES;
use std::fs;
use std::path::{Component, Path, PathBuf};

const REFERENCE: &str = "<!-- reference -->";
const DECISIONS: &str = "<!-- decisions -->";

/// The summary of the book; `reports` is a page of its own if there are any.
pub fn of_book(root: &Path, reports: &Option<String>) -> Result<String, String> {
    let text = read(root)?;
    let absent = absent(root, &text);
    if !absent.is_empty() {
        return Err(format!(
            "docs/SUMMARY.md does not name {}",
            absent.join(", ")
        ));
    }
    let reference: String = PAGES
        .iter()
        .map(|page| format!("- [{}](reference/{})\n", page.title, page.file))
        .collect();
    let moved: String = text.lines().map(|line| moved(line) + "\n").collect();
    let evidence = reports.iter().map(String::as_str).collect::<String>();
    Ok(moved
        .replace(REFERENCE, reference.trim_end())
        .replace("# Inside\n", &format!("{evidence}# Inside\n"))
        .replace(DECISIONS, decisions(root)?.trim_end()))
}

fn read(root: &Path) -> Result<String, String> {
    let path = root.join("docs/SUMMARY.md");
    fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Files of docs/ that the summary does not name.
fn absent(root: &Path, summary: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join("docs"))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    let pages = names.filter(|n| n.ends_with(".md") && n != "SUMMARY.md");
    let mut absent: Vec<String> = pages
        .filter(|name| !summary.contains(&format!("]({name})")))
        .collect();
    absent.sort();
    absent
}

/// A line with its path seen from the root of the repository.
fn moved(line: &str) -> String {
    let Some((before, rest)) = line.split_once("](") else {
        return line.to_string();
    };
    let path = normal(&Path::new("docs").join(rest.trim_end_matches(')')));
    format!("{before}]({})", path.display())
}

/// The path without `..`.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The decisions by date, below a page that lists them.
fn decisions(root: &Path) -> Result<String, String> {
    let mut lines = String::from("- [Decisions](docs/decisions/README.md)\n");
    for (file, title) in titles(&root.join("docs/decisions"))? {
        lines.push_str(&format!("  - [{title}](docs/decisions/{file})\n"));
    }
    Ok(lines)
}

/// Files of a folder with their first heading, in the order of their names.
pub fn titles(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut titles = Vec::new();
    for path in entries.flatten().map(|e| e.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "README.md" || !name.ends_with(".md") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        let heading = text.lines().find_map(|l| l.strip_prefix("# "));
        titles.push((name.to_string(), heading.unwrap_or(&name).to_string()));
    }
    titles.sort();
    Ok(titles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_repository_and_of_the_reference_is_in_the_book() {
        let summary = of_book(&crate::root(), &None).expect("a summary");
        for wanted in [
            "(README.md)",
            "(COMPAT.md)",
            "(docs/tour.md)",
            "(docs/decisions/README.md)",
        ] {
            assert!(summary.contains(wanted), "{wanted} in {summary}");
        }
        for page in PAGES {
            assert!(summary.contains(page.file), "{}", page.file);
        }
        assert!(!summary.contains("<!--"), "{summary}");
    }

    #[test]
    fn a_page_that_is_not_in_the_summary_is_told() {
        let absent = absent(&crate::root(), "[Ten minutes](tour.md)");
        assert!(absent.contains(&"durability.md".to_string()), "{absent:?}");
        assert!(!absent.contains(&"tour.md".to_string()), "{absent:?}");
    }

    #[test]
    fn paths_are_seen_from_the_root() {
        assert_eq!(moved("- [A](a.md)"), "- [A](docs/a.md)");
        assert_eq!(moved("[R](../README.md)"), "[R](README.md)");
        assert_eq!(moved("# Start"), "# Start");
    }
}
