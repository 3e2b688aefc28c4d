//! Reports of the lab in the book: each `report.html` of a folder of `daruma lab`, shown as it is.

use super::{told, write};
use std::fs;
use std::path::Path;

/// Copies the reports of the folders in `folder`; the lines of the summary, if there are any.
pub fn copy(folder: Option<&Path>, source: &Path) -> Result<Option<String>, String> {
    let Some(folder) = folder else {
        return Ok(None);
    };
    let entries = fs::read_dir(folder).map_err(told(folder))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|e| e.path().join("report.html").is_file())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("{}: no folder has a report.html", folder.display()));
    }
    for name in &names {
        let from = folder.join(name).join("report.html");
        let text = fs::read_to_string(&from).map_err(told(&from))?;
        write(&source.join(format!("reports/{name}/report.html")), &text)?;
    }
    write(&source.join("reports/README.md"), &page(&names))?;
    Ok(Some(
        "- [Reports of the lab](reports/README.md)\n\n".to_string(),
    ))
}

fn page(names: &[String]) -> String {
    let mut page = String::from(
        "# Reports of the lab\n\nWhat `daruma lab` measured, with the published figures beside it ([how](../docs/lab.md)).\n",
    );
    for name in names {
        page.push_str(&format!(
            "\n## {name}\n\n[Alone](./{name}/report.html)\n\n<iframe src=\"./{name}/report.html\" title=\"{name}\" loading=\"lazy\" style=\"width:100%;height:80vh;border:0\"></iframe>\n"
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_reports_is_told_and_none_at_all_is_no_page() {
        let docs = crate::root().join("docs");
        let source = Path::new("/nonexistent");
        assert!(
            copy(Some(&docs), source)
                .unwrap_err()
                .contains("no folder has a report.html")
        );
        assert_eq!(copy(None, source), Ok(None));
    }

    #[test]
    fn each_report_is_shown() {
        let page = page(&["lab-adr".to_string()]);
        assert!(page.contains("src=\"./lab-adr/report.html\""), "{page}");
    }
}
