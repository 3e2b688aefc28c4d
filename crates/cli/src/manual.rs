//! `daruma completion` and `daruma manual`: completion for shells, man pages and pages of the book (`reference`), made from the
//! definitions of the commands.

mod reference;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print completion for a shell
#[derive(Args, Debug)]
pub struct CompletionArgs {
    shell: Shell,
}

/// Write man pages into a folder: one for the program and one for each command
#[derive(Args, Debug)]
pub struct ManualArgs {
    folder: PathBuf,

    /// Write the pages of the book's reference instead: commands.md and settings.md
    #[arg(long)]
    markdown: bool,
}

/// Prints the completion of the program `P`.
pub fn complete<P: CommandFactory>(args: &CompletionArgs) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut P::command(), "daruma", &mut text);
    match io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the pages of the program `P`, and that of sqlcmd.
pub fn write<P: CommandFactory>(args: &ManualArgs) -> ExitCode {
    let written = fs::create_dir_all(&args.folder).and_then(|()| match args.markdown {
        true => reference::write(P::command(), &args.folder),
        false => pages(P::command(), "daruma", &args.folder)
            .and_then(|()| pages(daruma_cli::sql::as_sqlcmd(), "sqlcmd", &args.folder)),
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("daruma: {}: {error}", args.folder.display());
            ExitCode::FAILURE
        }
    }
}

fn pages(command: Command, name: &str, folder: &Path) -> io::Result<()> {
    // clap keeps names for as long as the process lives, which is as long as this takes.
    let leaked: &'static str = Box::leak(name.to_string().into_boxed_str());
    let command = command.name(leaked).disable_help_subcommand(true);
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    fs::write(folder.join(format!("{name}.1")), page)?;
    for part in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        pages(part.clone(), &format!("{name}-{}", part.get_name()), folder)?;
    }
    Ok(())
}
