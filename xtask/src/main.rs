//! `cargo xtask tidy`: checks of the repository itself (also run as a test). `cargo xtask sim ...`: builds and runs the
//! simulation (crates/proof). `cargo xtask fuzz TARGET [--minutes N]`: coverage-guided fuzzing (fuzz/, docs/fuzzing.md).
//! `cargo xtask dist`: a release ([`dist`], docs/packages.md). `cargo xtask docs`: the documentation as a book ([`docs`]).
//!
//! * every Rust file begins with a header that says what it is;
//! * every public item of a crate has a sentence of documentation (`documented`);
//! * crates depend on each other only downwards, along the arrows of ARCHITECTURE.md;
//! * links between Markdown files lead somewhere.

mod dist;
mod docs;
mod documented;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rooms from the bottom up. A crate may depend on rooms of lower rank only.
const RANKS: &[(&str, u32)] = &[
    ("daruma-base", 0),
    ("daruma-quorum", 0),
    ("daruma-value", 0),
    ("daruma-syntax", 0),
    ("daruma-platform", 1),
    ("daruma-sim", 1),
    ("daruma-tds", 1),
    ("daruma-xml", 1),
    ("daruma-client", 2),
    ("daruma-storage", 2),
    ("daruma-backup", 3),
    ("daruma-proof", 3),
    ("daruma-group", 3),
    ("daruma-catalog", 3),
    ("daruma-cluster", 4),
    ("daruma-object", 4),
    ("daruma-tsql", 4),
    ("daruma-fuzz", 5),
    ("daruma-server", 5),
    ("daruma-lab", 5),
    ("daruma-monitor", 4),
    ("daruma", 6),
    ("daruma-differential", 6),
];

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy_up(),
        Some("sim") => simulate(),
        Some("fuzz") => fuzz(),
        Some("dist") => dist::run(std::env::args().skip(2)),
        Some("docs") => docs::run(std::env::args().skip(2)),
        _ => {
            eprintln!(
                "usage: cargo xtask tidy | sim [--runs N] [--seed S] [--mode M] [--minutes M] [--threads T] [--every-io] | fuzz TARGET [--minutes N] | dist [--target TRIPLE] [--out DIR] [--twice] | docs [--program FILE] [--reports DIR] [--out DIR]"
            );
            ExitCode::from(2)
        }
    }
}

/// Optimized, with every assertion and with probes.
fn simulate() -> ExitCode {
    let status = std::process::Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["run", "--quiet", "--profile", "sim"])
        .args(["--package", "daruma-proof", "--features", "probes", "--"])
        .args(std::env::args().skip(2))
        .status();
    ended(status)
}

/// libFuzzer needs the nightly toolchain and `cargo install cargo-fuzz`. What it finds stays in `fuzz/artifacts`; inputs that
/// reach new code are gathered in `fuzz/target`, not in the small corpus of the repository.
fn fuzz() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let Some(target) = arguments.next() else {
        eprintln!(
            "usage: cargo xtask fuzz TARGET [--minutes N]; targets are listed in docs/fuzzing.md"
        );
        return ExitCode::from(2);
    };
    let minutes = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--minutes"), Some(count)) => count.parse().unwrap_or(5),
        _ => 5_u64,
    };
    if let Err(needed) = can_fuzz(&target) {
        eprintln!("{needed}");
        return ExitCode::from(2);
    }
    let gathered = root().join("fuzz/target/corpus").join(&target);
    if let Err(error) = fs::create_dir_all(&gathered) {
        eprintln!("{}: {error}", gathered.display());
        return ExitCode::FAILURE;
    }
    let status = std::process::Command::new("cargo")
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(root().join("fuzz"))
        .args(["+nightly", "fuzz", "run", "--sanitizer", "none", &target])
        .arg(gathered)
        .arg(format!("corpus/{target}"))
        .args(["--", "-max_len=16384", "-timeout=20"])
        .arg(format!("-max_total_time={}", minutes * 60))
        .status();
    ended(status)
}

/// What is missing, and how to get it.
fn can_fuzz(target: &str) -> Result<(), String> {
    let targets = targets();
    if !targets.iter().any(|t| t == target) {
        return Err(format!(
            "there is no target '{target}'; there are {}",
            targets.join(", ")
        ));
    }
    let answers = |arguments: &[&str]| {
        let mut command = std::process::Command::new("cargo");
        // From outside of a toolchain's own cargo, so that `+nightly` is understood.
        command.args(arguments).env_remove("RUSTUP_TOOLCHAIN");
        command.output().is_ok_and(|output| output.status.success())
    };
    let needed = [
        (
            &["+nightly", "--version"],
            "the nightly toolchain: rustup toolchain install nightly --profile minimal",
        ),
        (
            &["fuzz", "--version"],
            "cargo-fuzz: cargo install cargo-fuzz --locked",
        ),
    ];
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(arguments, _)| !answers(*arguments))
        .map(|(_, how)| *how)
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "fuzzing guided by coverage needs\n  {}\nwithout them: cargo test -p daruma-fuzz",
            missing.join("\n  ")
        )),
    }
}

/// Names of the targets, from the files of fuzz/fuzz_targets.
fn targets() -> Vec<String> {
    let entries = fs::read_dir(root().join("fuzz/fuzz_targets"));
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some(e.path().file_stem()?.to_str()?.to_string()))
        .collect();
    names.sort();
    names
}

fn ended(status: std::io::Result<std::process::ExitStatus>) -> ExitCode {
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tidy_up() -> ExitCode {
    let problems = tidy(&root());
    problems.iter().for_each(|p| eprintln!("{p}"));
    if problems.is_empty() {
        println!("tidy");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

fn tidy(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(root, &mut files);
    let mut problems = Vec::new();
    for file in &files {
        let Ok(text) = fs::read_to_string(file) else {
            continue;
        };
        let name = file.strip_prefix(root).unwrap_or(file).display();
        match file.extension().and_then(|e| e.to_str()) {
            Some("rs") if !text.starts_with("//!") => {
                problems.push(format!("{name}: no header (//! ...)"));
            }
            Some("rs") if documented::applies(file.strip_prefix(root).unwrap_or(file)) => {
                let lines = documented::undocumented(&text);
                problems.extend(lines.iter().map(|(line, item)| {
                    format!("{name}:{line}: public, without documentation: {item}")
                }));
            }
            Some("md") => problems.extend(dead_links(file, &text)),
            _ if file.ends_with("Cargo.toml") => problems.extend(upward_arrows(&text)),
            _ => {}
        }
    }
    problems
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            let skipped =
                name.starts_with('.') || name.starts_with("target") || name == "node_modules";
            if !skipped {
                collect(&path, files);
            }
        } else {
            files.push(path);
        }
    }
}

/// Dependencies of a crate that do not point down.
fn upward_arrows(manifest: &str) -> Vec<String> {
    let rank = |name: &str| RANKS.iter().find(|(n, _)| *n == name).map(|(_, r)| *r);
    let own = manifest
        .lines()
        .find_map(|l| l.strip_prefix("name = \""))
        .map(|n| n.trim_end_matches('"'));
    let Some((own, own_rank)) = own.and_then(|n| Some((n, rank(n)?))) else {
        return Vec::new();
    };
    let normal = manifest.split("[dependencies]").nth(1).unwrap_or("");
    let normal = normal.split("\n[").next().unwrap_or("");
    let names = normal
        .lines()
        .filter_map(|l| l.split(['.', ' ', '=']).next());
    names
        .filter(|n| rank(n).is_some_and(|r| r >= own_rank))
        .map(|n| format!("{own} must not depend on {n}: arrows point down"))
        .collect()
}

fn dead_links(file: &Path, text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|t| t.split(')').next());
    let local = targets.filter(|t| !t.contains("://") && !t.starts_with('#') && !t.is_empty());
    local
        .map(|t| t.split('#').next().unwrap_or(t))
        .filter(|t| !file.parent().is_some_and(|dir| dir.join(t).exists()))
        .map(|t| format!("{}: link to {t} leads nowhere", file.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        assert_eq!(tidy(&root()), Vec::<String>::new());
    }

    #[test]
    fn an_unknown_fuzzing_target_is_answered_by_the_known_ones() {
        let told = can_fuzz("nope").unwrap_err();
        assert!(
            told.contains("parser") && told.contains("tds_server"),
            "{told}"
        );
    }

    #[test]
    fn an_upward_arrow_is_noticed() {
        let manifest = "[package]\nname = \"daruma-storage\"\n\n[dependencies]\ndaruma-tsql.workspace = true\n";
        assert_eq!(upward_arrows(manifest).len(), 1);
    }
}
