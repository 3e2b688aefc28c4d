//! The interactive shell: prompt, history, completion, colours.
//!
//! Lines are typed one by one, as in sqlcmd, but the history holds whole batches: Up brings the last one back with all
//! its lines, to be changed and run again with Enter.

use super::script::Batcher;
use super::session::{Flow, Session};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Context, Editor, Helper, Hinter, Validator};
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

const HISTORY_ENTRIES: usize = 5000;
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);

/// Words worth completing and colouring, in alphabetical order.
const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "AND",
    "ANY",
    "APPLY",
    "AS",
    "ASC",
    "BACKUP",
    "BEGIN",
    "BETWEEN",
    "BREAK",
    "BY",
    "CASE",
    "CAST",
    "CATCH",
    "CHECK",
    "CHECKPOINT",
    "CLUSTERED",
    "COALESCE",
    "COLLATE",
    "COLUMN",
    "COMMIT",
    "CONSTRAINT",
    "CONTINUE",
    "CONVERT",
    "COUNT",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DECLARE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXEC",
    "EXECUTE",
    "EXISTS",
    "FETCH",
    "FOREIGN",
    "FROM",
    "FULL",
    "FUNCTION",
    "GROUP",
    "HAVING",
    "IDENTITY",
    "IF",
    "IN",
    "INDEX",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "KILL",
    "LEFT",
    "LIKE",
    "LOG",
    "MAX",
    "MERGE",
    "MIN",
    "NEXT",
    "NONCLUSTERED",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "ONLY",
    "OR",
    "ORDER",
    "OUTER",
    "OUTPUT",
    "OVER",
    "PARTITION",
    "PRIMARY",
    "PRINT",
    "PROCEDURE",
    "RAISERROR",
    "REFERENCES",
    "RESTORE",
    "RETURN",
    "RIGHT",
    "ROLLBACK",
    "ROW",
    "ROWS",
    "SAVE",
    "SCHEMA",
    "SELECT",
    "SET",
    "SUM",
    "TABLE",
    "THEN",
    "THROW",
    "TO",
    "TOP",
    "TRANSACTION",
    "TRIGGER",
    "TRUNCATE",
    "TRY",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USE",
    "VALUES",
    "VIEW",
    "WAITFOR",
    "WHEN",
    "WHERE",
    "WHILE",
    "WITH",
];

type Shared = Rc<RefCell<Session>>;

/// Runs until the user leaves; the exit code.
pub fn run(session: Session) -> Result<i32, ReadlineError> {
    let config = Config::builder()
        .max_history_size(HISTORY_ENTRIES)?
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let mut editor: Editor<Assistant, FileHistory> = Editor::with_config(config)?;
    let history = history_file();
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    greet(&session);
    let colour = session.layout.colour;
    let mut batcher = session.batcher();
    let session: Shared = Rc::new(RefCell::new(session));
    editor.set_helper(Some(Assistant {
        session: Rc::clone(&session),
        names: RefCell::new(None),
        colour,
    }));
    loop {
        let prompt = format!("{}> ", batcher.line_count() + 1);
        match editor.readline(&prompt) {
            Ok(input) => {
                let flow = enter(&input, &mut editor, &mut batcher, &session)?;
                if let Some(path) = &history {
                    save(&mut editor, path);
                }
                if let Flow::Exit(code) = flow {
                    return Ok(code);
                }
            }
            // Ctrl-C throws away what was typed.
            Err(ReadlineError::Interrupted) => drop(batcher.take()),
            Err(ReadlineError::Eof) => return Ok(0),
            Err(error) => return Err(error),
        }
    }
}

/// What was typed or taken from the history, which may be several lines.
fn enter(
    input: &str,
    editor: &mut Editor<Assistant, FileHistory>,
    batcher: &mut Batcher,
    session: &Shared,
) -> Result<Flow, ReadlineError> {
    let lines: Vec<&str> = if input.is_empty() {
        vec![""]
    } else {
        input.lines().collect()
    };
    for line in lines {
        let before = batcher.text().to_string();
        let flow = session.borrow_mut().line(batcher, line);
        if batcher.is_empty() {
            let batch = format!("{before}{line}");
            if !batch.trim().is_empty() {
                editor.add_history_entry(batch)?;
            }
            if let Some(helper) = editor.helper() {
                helper.names.replace(None);
            }
        }
        match flow {
            Ok(Flow::Continue) => {}
            Ok(exit) => return Ok(exit),
            Err(error) => return Err(ReadlineError::Io(error)),
        }
    }
    Ok(Flow::Continue)
}

fn greet(session: &Session) {
    let Some(client) = &session.client else {
        return;
    };
    let (program, version) = client.program();
    let bold = |text: &str| {
        if session.layout.colour {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    };
    println!(
        "{} {version} at {}, database {}",
        bold(program),
        client.server_name(),
        bold(client.database())
    );
    println!("Type a batch, then GO on a line of its own. :help lists the commands, exit leaves.");
}

/// In the place for state that may be lost.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.or_else(home)?.join("daruma/sql_history"))
}

/// A history that cannot be kept is no reason to stop anybody.
fn save(editor: &mut Editor<Assistant, FileHistory>, path: &PathBuf) {
    if let Some(directory) = path.parent() {
        let _ = std::fs::create_dir_all(directory);
    }
    let _ = editor.save_history(path);
}

#[derive(Helper, Hinter, Validator)]
struct Assistant {
    session: Shared,
    /// Of tables, views, procedures and columns; asked for when Tab is first pressed after a batch.
    names: RefCell<Option<Vec<String>>>,
    colour: bool,
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..at).unwrap_or_default();
        let start = typed
            .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '@' | '#')))
            .map_or(0, |at| at + 1);
        let start = if typed.is_char_boundary(start) {
            start
        } else {
            at
        };
        let word = typed.get(start..).unwrap_or_default().to_lowercase();
        if word.is_empty() && !typed.ends_with('.') {
            return Ok((start, Vec::new()));
        }
        let begins = |name: &&str| name.to_lowercase().starts_with(&word);
        let lower = typed
            .get(start..)
            .is_some_and(|word| word.chars().all(|c| !c.is_uppercase()));
        let keywords = KEYWORDS.iter().copied().filter(begins).map(|word| {
            if lower {
                word.to_lowercase()
            } else {
                word.to_string()
            }
        });
        let mut names = self.names.borrow_mut();
        let names = names.get_or_insert_with(|| self.ask_names());
        let mut found: Vec<String> = names
            .iter()
            .map(String::as_str)
            .filter(begins)
            .map(quoted_if_needed)
            .collect();
        if !typed.ends_with('.') {
            found.extend(keywords);
        }
        found.dedup();
        Ok((
            start,
            found
                .into_iter()
                .map(|name| Pair {
                    display: name.clone(),
                    replacement: name,
                })
                .collect(),
        ))
    }
}

impl Assistant {
    /// None rather than a wait if the server is busy.
    fn ask_names(&self) -> Vec<String> {
        const QUERY: &str = "SELECT name FROM sys.schemas UNION SELECT name FROM sys.objects WHERE type IN ('U', 'V', 'P') \
            UNION SELECT c.name FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id WHERE o.type IN ('U', 'V') \
            UNION SELECT name FROM sys.databases";
        let Ok(mut session) = self.session.try_borrow_mut() else {
            return Vec::new();
        };
        let timeout = session.options.query_timeout;
        let Some(client) = &mut session.client else {
            return Vec::new();
        };
        client.set_query_timeout(Some(NAMES_TIMEOUT));
        let rows = client.query(QUERY).unwrap_or_default();
        client.set_query_timeout(timeout);
        rows.iter()
            .filter_map(|row| row.first())
            .map(daruma_client::value::text)
            .collect()
    }
}

fn quoted_if_needed(name: &str) -> String {
    let plain = name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$'));
    let reserved = KEYWORDS
        .binary_search(&name.to_uppercase().as_str())
        .is_ok();
    if plain && !reserved {
        name.into()
    } else {
        format!("[{}]", name.replace(']', "]]"))
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.colour {
            Cow::Owned(coloured(line))
        } else {
            Cow::Borrowed(line)
        }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        if self.colour {
            Cow::Owned(format!("\x1b[2m{prompt}\x1b[0m"))
        } else {
            Cow::Borrowed(prompt)
        }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.colour && kind != CmdKind::MoveCursor
    }
}

/// Keywords bold, strings green, comments dim.
fn coloured(line: &str) -> String {
    let mut out = String::with_capacity(line.len() * 2);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (length, code) = match first {
            '\'' => (
                rest.get(1..)
                    .and_then(|r| r.find('\''))
                    .map_or(rest.len(), |at| at + 2),
                Some("32"),
            ),
            '-' if rest.starts_with("--") => (rest.find('\n').unwrap_or(rest.len()), Some("2")),
            '/' if rest.starts_with("/*") => {
                (rest.find("*/").map_or(rest.len(), |at| at + 2), Some("2"))
            }
            c if c.is_alphabetic() || matches!(c, '_' | '@' | '#') => {
                let length = rest
                    .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$')))
                    .unwrap_or(rest.len());
                let word = rest.get(..length).unwrap_or_default().to_uppercase();
                (
                    length,
                    KEYWORDS
                        .binary_search(&word.as_str())
                        .is_ok()
                        .then_some("1;34"),
                )
            }
            c => (c.len_utf8(), None),
        };
        let (token, after) = rest.split_at(length);
        match code {
            Some(code) => out.extend(["\x1b[", code, "m", token, "\x1b[0m"]),
            None => out.push_str(token),
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn colours_leave_the_text_alone() {
        for line in [
            "select 'it''s' -- done",
            "SELECT [a] FROM #t /* x */ WHERE ü = '",
            "@@version",
            "",
            "select 'ä",
            "/*",
        ] {
            let mut plain = coloured(line);
            for code in ["\x1b[32m", "\x1b[2m", "\x1b[1;34m", "\x1b[0m"] {
                plain = plain.replace(code, "");
            }
            assert_eq!(plain, line);
        }
        assert_eq!(coloured("select 1"), "\x1b[1;34mselect\x1b[0m 1");
    }

    #[test]
    fn names_are_quoted_where_needed() {
        assert_eq!(quoted_if_needed("Person"), "Person");
        assert_eq!(quoted_if_needed("group"), "[group]");
        assert_eq!(quoted_if_needed("a b]"), "[a b]]]");
    }
}
