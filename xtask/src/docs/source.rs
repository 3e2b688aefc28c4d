//! What the book is made of: the Markdown of the repository, and the files it links to, each at its own path.

use super::summary::{normal, titles};
use super::{told, write};
use std::fs;
use std::path::{Path, PathBuf};

/// Pages of the root that are in the book.
const ROOT_PAGES: [&str; 5] = [
    "README.md",
    "COMPAT.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
];

/// Copies the pages and what they link to.
pub fn copy(root: &Path, source: &Path) -> Result<(), String> {
    let mut pages: Vec<PathBuf> = ROOT_PAGES.iter().map(PathBuf::from).collect();
    for folder in ["docs", "docs/decisions"] {
        let path = root.join(folder);
        let entries = fs::read_dir(&path).map_err(told(&path))?;
        let names = entries.flatten().map(|e| e.file_name());
        let names = names.filter(|n| n.to_string_lossy().ends_with(".md") && n != "SUMMARY.md");
        pages.extend(names.map(|name| Path::new(folder).join(name)));
    }
    for page in &pages {
        let path = root.join(page);
        let text = fs::read_to_string(&path).map_err(told(&path))?;
        write(&source.join(page), &text)?;
        for target in files_linked(page, &text) {
            copy_file(root, source, &target)?;
        }
    }
    list_decisions(root, source)
}

/// Local targets of links that are no Markdown, seen from the root.
fn files_linked(page: &Path, text: &str) -> Vec<PathBuf> {
    let targets = text.split("](").skip(1).filter_map(|t| t.split(')').next());
    let local = targets.filter(|t| !t.contains("://") && !t.starts_with('#') && !t.is_empty());
    let paths = local.filter_map(|t| t.split('#').next());
    let others = paths.filter(|p| !p.ends_with(".md"));
    let folder = page.parent().unwrap_or(Path::new(""));
    others.map(|path| normal(&folder.join(path))).collect()
}

fn copy_file(root: &Path, source: &Path, file: &Path) -> Result<(), String> {
    let (from, to) = (root.join(file), source.join(file));
    if !from.is_file() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(told(folder))?;
    }
    fs::copy(&from, &to).map(|_| ()).map_err(told(&from))
}

/// The page that stands for the folder of the decisions.
fn list_decisions(root: &Path, source: &Path) -> Result<(), String> {
    let mut page = String::from(
        "# Decisions\n\nChoices with their reasons, by date; none is changed afterwards.\n\n",
    );
    for (file, title) in titles(&root.join("docs/decisions"))? {
        let date = file.get(..10).unwrap_or("");
        page.push_str(&format!("* {date}: [{title}]({file})\n"));
    }
    write(&source.join("docs/decisions/README.md"), &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_behind_links_are_seen_from_the_root() {
        let text = "[a](../packaging/a.yaml) [b](b.md#c) [c](https://d) [e](#f)";
        let linked = files_linked(Path::new("docs/p.md"), text);
        assert_eq!(linked, [PathBuf::from("packaging/a.yaml")]);
    }
}
