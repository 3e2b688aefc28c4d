//! Scripts that fill a new data folder before anybody else can reach the server.
//!
//! Theory: a server that listens on a free port of this machine runs them, as `sa`, in the order of their names, and stops; then the
//! server starts that everybody sees. A mark in the data folder stands from before the first script until after the last: scripts that
//! were cut off are not run a second time over what they left.

use daruma_cli::sql;
use daruma_server::program::{MadePassword, Program, ProgramOptions};
use daruma_server::{EncryptionPolicy, ServerError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The mark.
const PENDING_FILE: &str = "init-scripts.pending";
/// A folder that has it is not new.
const MASTER_FILE: &str = "master.mdf";

/// Why the scripts did not do their work.
#[derive(Debug, thiserror::Error)]
pub enum InitFailure {
    #[error("cannot read the scripts in {}: {source}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("cannot mark the data folder: {0}")]
    Mark(io::Error),
    #[error(
        "the scripts that fill a new data folder did not end: remove {} to begin anew, or {} to go on with what there is",
        data.display(), mark.display()
    )]
    CutOff { data: PathBuf, mark: PathBuf },
    #[error("{} failed with exit code {code}", script.display())]
    Script { script: PathBuf, code: i32 },
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Runs the scripts of `folder` if the data folder is new. A password that was made for it is given back: the start after it makes none.
pub fn run(options: &ProgramOptions, folder: &Path) -> Result<Option<MadePassword>, InitFailure> {
    let mark = options.data_dir.join(PENDING_FILE);
    if mark.exists() {
        let data = options.data_dir.clone();
        return Err(InitFailure::CutOff { data, mark });
    }
    if options.data_dir.join(MASTER_FILE).exists() {
        return Ok(None);
    }
    let scripts = scripts_of(folder).map_err(|source| InitFailure::Folder {
        folder: folder.to_path_buf(),
        source,
    })?;
    if scripts.is_empty() {
        return Ok(None);
    }
    fs::create_dir_all(&options.data_dir).map_err(InitFailure::Mark)?;
    fs::File::create(&mark)
        .and_then(|file| file.sync_all())
        .and_then(|()| sync_folder(&options.data_dir))
        .map_err(InitFailure::Mark)?;
    let made = run_all(options, &scripts)?;
    fs::remove_file(&mark)
        .and_then(|()| sync_folder(&options.data_dir))
        .map_err(InitFailure::Mark)?;
    Ok(made)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Files whose names end with `.sql`, in the order of their names.
fn scripts_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("sql"))
            && path.is_file()
        {
            scripts.push(path);
        }
    }
    scripts.sort();
    Ok(scripts)
}

fn run_all(
    options: &ProgramOptions,
    scripts: &[PathBuf],
) -> Result<Option<MadePassword>, InitFailure> {
    let alone = ProgramOptions {
        listen: "127.0.0.1:0".to_string(),
        encryption: EncryptionPolicy::On,
        // What it says of its readiness is not meant for those who wait for the server.
        log_echo: None,
        ..options.clone()
    };
    let program = Program::start(&alone)?;
    let made = program.made_password().cloned();
    let password = made.as_ref().map(MadePassword::text);
    let password = password.or(options.sa_password.as_deref());
    let address = program.address();
    let server = format!("{},{}", address.ip(), address.port());
    for script in scripts {
        eprintln!("running {}", script.display());
        let args = sql::SqlArgs::for_script(&server, password.unwrap_or_default(), script);
        match sql::exit_code_of(&args, "daruma") {
            0 => {}
            code => {
                let script = script.clone();
                program.stop()?;
                return Err(InitFailure::Script { script, code });
            }
        }
    }
    program.stop()?;
    Ok(made)
}
