//! Pages of the book's reference that the program knows itself: its commands and its settings, as Markdown.
//!
//! Theory: the text of a command is its own `--help`, in a block, so that a page cannot say anything else. The settings are the lines
//! of the table that the server reads. Views and messages are asked of a running server by `cargo xtask docs`.

use crate::settings::TABLE;
use clap::Command;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

/// Columns that a block of the book has room for.
const HELP_WIDTH: usize = 96;

/// Writes `commands.md` and `settings.md`.
pub fn write(program: Command, folder: &Path) -> io::Result<()> {
    fs::write(folder.join("commands.md"), commands(program))?;
    fs::write(folder.join("settings.md"), settings())
}

fn commands(program: Command) -> String {
    let mut page = String::from("# Commands\n\nWhat each command says with `--help`.\n");
    let program = program.term_width(HELP_WIDTH).disable_help_subcommand(true);
    command(program, "daruma", &mut page);
    page
}

fn command(mut it: Command, name: &str, page: &mut String) {
    let help = it.clone().bin_name(name).render_long_help().to_string();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end());
    it.build();
    for part in it.get_subcommands().filter(|c| !c.is_hide_set()) {
        command(
            part.clone().term_width(HELP_WIDTH),
            &format!("{name} {}", part.get_name()),
            page,
        );
    }
}

fn settings() -> String {
    let mut page = String::from(
        "# Settings\n\nSettings of `daruma serve`, in its file (`daruma conf`) and in the environment. \
         [What they do in the place of SQL Server's container](../docs/container.md).\n\n\
         | In the file | Variable | Meaning |\n|---|---|---|\n",
    );
    for setting in TABLE {
        let variables = setting.variables.iter().map(|name| code(name));
        let variables: Vec<String> = variables.collect();
        let (name, variables) = (code(setting.name), variables.join(", "));
        let _ = writeln!(
            page,
            "| {name} | {variables} | {} |",
            setting.about.replace('|', "\\|")
        );
    }
    page
}

fn code(name: &str) -> String {
    match name.is_empty() {
        true => String::new(),
        false => format!("`{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn each_setting_has_a_line() {
        let page = settings();
        for setting in TABLE {
            assert!(page.contains(setting.about), "{}", setting.about);
            let names = setting.variables.iter().chain([&setting.name]);
            names.for_each(|name| assert!(page.contains(&code(name)), "{name}"));
        }
    }

    #[test]
    fn commands_have_their_help_and_hidden_ones_are_left_out() {
        let inner = Command::new("inner").arg(Arg::new("deep").long("deep"));
        let shown = Command::new("shown").subcommand(inner);
        let hidden = Command::new("hidden").hide(true);
        let page = commands(Command::new("daruma").subcommands([shown, hidden]));
        assert!(page.contains("\n## daruma shown inner\n"), "{page}");
        assert!(
            page.contains("Usage: daruma shown inner [OPTIONS]"),
            "{page}"
        );
        assert!(page.contains("--deep"), "{page}");
        assert!(!page.contains("hidden"), "{page}");
    }
}
