//! Where results and messages go: standard output, standard error, files.

use std::fs::File;
use std::io::{self, BufWriter, Stderr, Stdout, Write};

/// A destination, as `-o`, `:out` and `:error` name it.
pub enum Sink {
    Stdout(BufWriter<Stdout>),
    Stderr(Stderr),
    File(BufWriter<File>),
    #[cfg(test)]
    Memory(std::sync::Arc<std::sync::Mutex<Vec<u8>>>),
}

impl Sink {
    /// Standard output, through a buffer.
    pub fn stdout() -> Sink {
        Sink::Stdout(BufWriter::with_capacity(64 * 1024, io::stdout()))
    }

    /// `stdout`, `stderr` or the name of a file, which is made anew.
    pub fn named(name: &str) -> io::Result<Sink> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "stdout" => Sink::stdout(),
            "stderr" => Sink::Stderr(io::stderr()),
            _ => Sink::File(BufWriter::new(File::create(name)?)),
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(out) => out.write(bytes),
            Sink::Stderr(out) => out.write(bytes),
            Sink::File(out) => out.write(bytes),
            #[cfg(test)]
            Sink::Memory(out) => out
                .lock()
                .map_err(|_| io::Error::other("poisoned"))?
                .write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(out) => out.flush(),
            Sink::Stderr(out) => out.flush(),
            Sink::File(out) => out.flush(),
            #[cfg(test)]
            Sink::Memory(_) => Ok(()),
        }
    }
}

/// Which messages leave the results' way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Redirect {
    #[default]
    None,
    /// `-r0`: errors go to standard error.
    Errors,
    /// `-r1`: so does what PRINT says.
    All,
}

/// Results and messages of a session.
pub struct Output {
    pub results: Sink,
    /// Set by `:error`.
    pub errors: Option<Sink>,
    pub redirect: Redirect,
    /// Errors in red.
    pub colour: bool,
}

impl Output {
    /// A line of the server's or of our own.
    pub fn message(
        &mut self,
        text: &str,
        is_error: bool,
        keep_from_results: bool,
    ) -> io::Result<()> {
        let red = is_error && self.colour;
        let line = if red {
            format!("\x1b[31m{text}\x1b[0m\n")
        } else {
            format!("{text}\n")
        };
        let away = keep_from_results
            || match self.redirect {
                Redirect::None => false,
                Redirect::Errors => is_error,
                Redirect::All => true,
            };
        self.results.flush()?;
        match &mut self.errors {
            Some(errors) if is_error => {
                errors.write_all(line.as_bytes())?;
                errors.flush()
            }
            _ if away => io::stderr().write_all(line.as_bytes()),
            _ => self.results.write_all(line.as_bytes()),
        }
    }
}
