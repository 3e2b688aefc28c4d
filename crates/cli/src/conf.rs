//! `daruma conf`: the configuration file, with the names and the format of mssql-conf.

use crate::settings::{
    self, CONF_FILE, ConfFile, PRODUCT_CONF_FILE, PRODUCT_PROGRAM, TABLE, named, unknown,
};
use clap::{Args, Subcommand};
use daruma_cli::aligned::print_aligned;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show and change the configuration file, with mssql-conf's names
#[derive(Args, Debug)]
pub struct ConfArgs {
    /// The file [default: /etc/daruma/daruma.conf; where that is not, and /opt/mssql/bin/sqlservr is this program, as in the
    /// container, /var/opt/mssql/mssql.conf]
    #[arg(long, value_name = "FILE", env = "DARUMA_CONF", global = true)]
    config: Option<PathBuf>,

    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Give a setting a value
    Set {
        /// As SECTION.NAME
        name: String,
        value: String,
    },
    /// Show one setting, those of a section, or all that the file has
    Get { name: Option<String> },
    /// Take a setting out of the file
    Unset { name: String },
    /// List all settings that there are
    List,
}

/// Runs the command.
pub fn run(args: &ConfArgs) -> ExitCode {
    let path = args.config.clone().unwrap_or_else(default_file);
    let done = match &args.action {
        Action::Set { name, value } => set(&path, name, value),
        Action::Get { name } => get(&path, name.as_deref()),
        Action::Unset { name } => unset(&path, name),
        Action::List => {
            list();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma conf: {error}");
            ExitCode::FAILURE
        }
    }
}

/// SQL Server's file is ours only where SQL Server's program is this one, as in the container: on a machine that has SQL Server itself
/// the file is its own, and `--config` has to name it.
fn default_file() -> PathBuf {
    let this = std::env::current_exe();
    let is_product = this.is_ok_and(|this| is_one_file(&this, Path::new(PRODUCT_PROGRAM)));
    PathBuf::from(match !settings::is_there(CONF_FILE) && is_product {
        true => PRODUCT_CONF_FILE,
        false => CONF_FILE,
    })
}

/// Are both names of the same file, by links of either kind?
fn is_one_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino()));
    matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

fn set(path: &Path, name: &str, value: &str) -> Result<(), String> {
    let value = value.trim();
    if value.is_empty() || value.contains(['\n', '\r']) {
        return Err(format!("{name} needs a value of one line"));
    }
    let notes = named(name)
        .ok_or_else(|| unknown(name))?
        .check(name, value)?;
    let mut file = ConfFile::read_or_begin(path)?;
    file.set(name, value);
    file.write()?;
    notes.iter().for_each(|note| println!("{note}"));
    told(path);
    Ok(())
}

fn unset(path: &Path, name: &str) -> Result<(), String> {
    let mut file = ConfFile::read_or_begin(path)?;
    if !file.unset(name) {
        return Err(format!("{}: {name} is not set", path.display()));
    }
    file.write()?;
    told(path);
    Ok(())
}

/// The settings are valid as they stand alone; the server sees them together.
fn told(path: &Path) {
    println!(
        "{} is changed; the server reads it at its next start",
        path.display()
    );
    let seen = ConfFile::read(path)
        .and_then(|file| settings::read(Some(&file), |_| None, std::iter::empty()));
    if let Err(error) = seen {
        println!("as it is now it would not start: {error}");
    }
}

fn get(path: &Path, name: Option<&str>) -> Result<(), String> {
    let file = ConfFile::read_or_begin(path)?;
    let wanted = name.unwrap_or_default().to_ascii_lowercase();
    let is_wanted = |entry: &str| {
        wanted.is_empty() || entry == wanted || entry.starts_with(&format!("{wanted}."))
    };
    let found: Vec<_> = file.entries().filter(|(n, _)| is_wanted(n)).collect();
    for (name, value) in &found {
        println!("{name} = {value}");
    }
    if !found.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let is_section = |s: &settings::Setting| {
        let section = s.name.split_once('.').map(|(section, _)| section);
        section == Some(wanted.as_str())
    };
    match named(&wanted).is_some() || TABLE.iter().any(is_section) {
        true => Err(format!("{}: {wanted} is not set", path.display())),
        false => Err(unknown(&wanted)),
    }
}

fn list() {
    let line = |name: &str, variables: &[&str], about: &str| {
        [name.to_string(), variables.join(", "), about.to_string()]
    };
    let mut lines = vec![line("setting", &["variable"], "meaning")];
    let all = TABLE.iter();
    lines.extend(all.map(|setting| line(setting.name, setting.variables, setting.about)));
    print_aligned(&lines);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_file_and_not_by_its_name() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("daruma"), "program").expect("writes");
        std::fs::copy(path("daruma"), path("another")).expect("copies");
        std::fs::hard_link(path("daruma"), path("hard")).expect("links");
        std::os::unix::fs::symlink("daruma", path("soft")).expect("links");
        for (name, is_one) in [
            ("hard", true),
            ("soft", true),
            ("another", false),
            ("none", false),
        ] {
            assert_eq!(is_one_file(&path("daruma"), &path(name)), is_one, "{name}");
        }
    }
}
