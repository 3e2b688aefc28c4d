//! Links of the book, followed: each file is there, and each place in it.
//!
//! Only what begins with a scheme (`https:`) is not followed, so that the check needs no network.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Number of links, or which of them lead nowhere.
pub fn check(html: &Path) -> Result<usize, String> {
    let mut files = Vec::new();
    crate::collect(html, &mut files);
    // The page for wrong addresses has its links from the root of a site.
    files.retain(|f| f.extension().is_some_and(|e| e == "html") && !f.ends_with("404.html"));
    let mut pages = HashMap::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        pages.insert(super::summary::normal(&file), text);
    }
    let places: HashMap<&PathBuf, HashSet<&str>> = pages
        .iter()
        .map(|(file, text)| (file, values(text, "id").collect()))
        .collect();
    let mut count = 0;
    let mut dead = Vec::new();
    for (file, text) in &pages {
        for target in values(text, "href").chain(values(text, "src")) {
            if is_foreign(target) {
                continue;
            }
            count += 1;
            if !leads_somewhere(file, target, &places) {
                let file = file.strip_prefix(html).unwrap_or(file);
                dead.push(format!("{}: {target}", file.display()));
            }
        }
    }
    dead.sort();
    match dead.is_empty() {
        true => Ok(count),
        false => Err(format!("links that lead nowhere\n  {}", dead.join("\n  "))),
    }
}

/// Values of an attribute, in the order of the text.
fn values<'t>(text: &'t str, attribute: &str) -> impl Iterator<Item = &'t str> {
    let start = format!(" {attribute}=\"");
    let parts: Vec<&str> = text.split(start.as_str()).skip(1).collect();
    parts.into_iter().filter_map(|rest| rest.split('"').next())
}

fn is_foreign(target: &str) -> bool {
    let scheme = target.split(['/', '#', '?']).next().unwrap_or("");
    scheme.contains(':') || target.is_empty()
}

fn leads_somewhere(file: &Path, target: &str, places: &HashMap<&PathBuf, HashSet<&str>>) -> bool {
    let (path, place) = target.split_once('#').unwrap_or((target, ""));
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut reached = match path {
        "" => file.to_path_buf(),
        path => super::summary::normal(&folder.join(path)),
    };
    if reached.is_dir() {
        reached.push("index.html");
    }
    match (places.get(&reached), place) {
        (_, "") => reached.exists(),
        (Some(ids), place) => ids.contains(place),
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(name: &str, pages: &[(&str, &str)]) -> Result<usize, String> {
        let folder =
            std::env::temp_dir().join(format!("daruma-links-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).expect("a folder");
        for (file, text) in pages {
            fs::write(folder.join(file), text).expect("a page");
        }
        let checked = check(&folder);
        fs::remove_dir_all(&folder).expect("it goes");
        checked
    }

    #[test]
    fn pages_places_and_folders_are_found() {
        let checked = book(
            "good",
            &[
                (
                    "index.html",
                    r#"<a href="a/b.html#here"></a><a href="a"></a><a href="https://x/y"></a>"#,
                ),
                (
                    "a/b.html",
                    r##"<h1 id="here"></h1><a href="#here"></a><a href="../index.html"></a>"##,
                ),
                ("a/index.html", ""),
            ],
        );
        assert_eq!(checked, Ok(4));
    }

    #[test]
    fn what_leads_nowhere_is_told_with_its_page() {
        let told = book(
            "bad",
            &[
                (
                    "index.html",
                    r#"<a href="c.html"></a><a href="a/b.html#gone"></a><img src="d.png">"#,
                ),
                ("a/b.html", ""),
            ],
        );
        let told = told.unwrap_err();
        for wanted in [
            "index.html: c.html",
            "index.html: a/b.html#gone",
            "index.html: d.png",
        ] {
            assert!(told.contains(wanted), "{told}");
        }
    }
}
