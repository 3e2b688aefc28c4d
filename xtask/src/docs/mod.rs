//! `cargo xtask docs [--program FILE] [--reports DIR] [--out DIR]`: the documentation as a book, from docs/SUMMARY.md.
//!
//! Theory: the book is made of the repository's own Markdown, where it lies, and of a reference that nobody writes: commands and
//! settings are what the program says of itself, views, server options and messages are what a server answers that is started for it.
//! Both are put into one folder, in the repository's own order so that links stay right, and mdBook makes pages of it. Then every
//! link is followed (`links`).
//!
//! A file of docs/ that the summary does not name is an error, and so is a page of the reference that nothing was written for.

mod links;
mod reference;
mod reports;
mod source;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask docs [--program FILE] [--reports DIR] [--out DIR]";
const MDBOOK: &str = "mdbook: cargo install mdbook --locked --version 0.5.4 --root target/tools";
const BOOK: &str = "[book]\ntitle = \"Daruma\"\nlanguage = \"en\"\nsrc = \"src\"\n\n[output.html]\nno-section-label = true\n\n[output.html.print]\nenable = false\n";

/// The command, with its arguments.
pub fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    match Options::parse(arguments).and_then(|options| make(&options)) {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("docs: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    program: Option<PathBuf>,
    /// Folders of `daruma lab`, each with its `report.html`.
    reports: Option<PathBuf>,
    out: PathBuf,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            program: None,
            reports: None,
            out: target_folder().join("book"),
        };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or(USAGE)?;
            let path = std::path::absolute(&value).map_err(|e| format!("{value}: {e}"))?;
            match argument.as_str() {
                "--program" => options.program = Some(path),
                "--reports" => options.reports = Some(path),
                "--out" => options.out = path,
                _ => return Err(USAGE.to_string()),
            }
        }
        Ok(options)
    }
}

/// Makes the book; tells where it is.
fn make(options: &Options) -> Result<String, String> {
    let tool = mdbook()?;
    let program = program(options)?;
    let root = crate::root();
    let source = options.out.join("src");
    if source.exists() {
        fs::remove_dir_all(&source).map_err(told(&source))?;
    }
    source::copy(&root, &source)?;
    reference::write(&program, &options.out, &source)?;
    let reports = reports::copy(options.reports.as_deref(), &source)?;
    let summary = summary::of_book(&root, &reports)?;
    write(&source.join("SUMMARY.md"), &summary)?;
    write(&options.out.join("book.toml"), BOOK)?;
    let html = options.out.join("html");
    let mut command = Command::new(tool);
    command
        .arg("build")
        .arg(&options.out)
        .arg("--dest-dir")
        .arg(&html);
    let status = command.status().map_err(|e| format!("mdbook: {e}"))?;
    if !status.success() {
        return Err("mdbook failed".to_string());
    }
    let checked = links::check(&html)?;
    Ok(format!(
        "{checked} links lead somewhere: {}",
        html.join("index.html").display()
    ))
}

fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(folder).unwrap_or_else(|_| crate::root()),
        None => crate::root().join("target"),
    }
}

/// mdBook from `target/tools`, or from wherever it is installed.
fn mdbook() -> Result<PathBuf, String> {
    let own = target_folder().join("tools/bin/mdbook");
    let tool = if own.is_file() {
        own
    } else {
        PathBuf::from("mdbook")
    };
    let answers = Command::new(&tool).arg("--version").output();
    match answers.is_ok_and(|output| output.status.success()) {
        true => Ok(tool),
        false => Err(format!("the book needs\n  {MDBOOK}")),
    }
}

/// The program that is asked, the one that was named or the newest that was built.
fn program(options: &Options) -> Result<PathBuf, String> {
    if let Some(program) = &options.program {
        return Ok(program.clone());
    }
    let built = ["release", "debug"].map(|p| target_folder().join(p).join("daruma"));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|m| m.modified()).ok();
    let newest = built.into_iter().filter(|p| p.is_file()).max_by_key(age);
    newest.ok_or_else(|| "the reference is asked of the program: cargo build -p daruma".to_string())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(told(folder))?;
    }
    fs::write(path, text).map_err(told(path))
}

/// An error with the path it is about.
fn told(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}
