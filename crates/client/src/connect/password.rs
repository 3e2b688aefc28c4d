//! Asking for a password at the terminal, without showing it.

use daruma_tds::login::Secret;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::history::MemHistory;
use rustyline::{ColorMode, Completer, Config, Editor, Helper, Hinter, Validator};
use std::borrow::Cow;
use std::io;
use unicode_width::UnicodeWidthStr;

#[derive(Completer, Helper, Hinter, Validator)]
struct Mask;

impl Highlighter for Mask {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned("*".repeat(line.width()))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

pub(super) fn ask(user: &str) -> io::Result<Secret> {
    let mut editor = Editor::<Mask, MemHistory>::with_history(Config::default(), MemHistory::new())
        .map_err(plain)?;
    editor.set_helper(Some(Mask));
    // Without colours the mask would not be drawn.
    editor.set_color_mode(ColorMode::Forced);
    editor.set_auto_add_history(false);
    editor
        .readline(&format!("Password for {user}: "))
        .map(Secret::new)
        .map_err(plain)
}

fn plain(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
