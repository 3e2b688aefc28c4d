//! Cutting input into batches and commands.
//!
//! Theory: input comes line by line. A line that begins outside of strings, brackets and comments may be a command:
//! `GO [n]` alone on it, `:name ...`, or one of sqlcmd's bare words. Every other line belongs to the batch, after its
//! variables have been put in. Text inside comments is left as it is, so that a remark about `$(x)` needs no `x`.
//!
//! Invariant: lines reach the server unmoved, so the line numbers in its messages are those of the batch.

use super::variables::{Variables, is_name, unquoted};

/// Nested comments deeper than this are taken as this deep.
const COMMENT_DEPTH_MAX: u32 = 10_000;

/// Where in the text a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Code,
    String,
    Quoted,
    Bracket,
    Comment(u32),
}

/// A command of the shell that is no T-SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `:r FILE`
    Read(String),
    /// `:setvar NAME [VALUE]`; without a value the variable is removed.
    SetVar(String, Option<String>),
    ListVar,
    /// `:out` and `:error`: a file, `stdout` or `stderr`.
    Out(String),
    ErrorOut(String),
    /// `:on error exit`, `:on error ignore`
    OnErrorExit(bool),
    /// Throws the batch away.
    Reset,
    /// Shows the batch.
    List,
    Help,
    Quit,
    /// `:exit` without, with empty, or with a batch in parentheses.
    Exit(Option<String>),
    Connect(String),
    Timing,
    Format(String),
    Semicolon,
    Tables(String),
    /// Known to sqlcmd, not here.
    NotSupported(String),
    Wrong(String),
}

/// What a line of a script leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The line has joined the batch.
    More,
    Go {
        batch: String,
        count: u32,
    },
    Command(Command),
    /// A variable without a value, by name.
    Undefined(String),
    /// Not a count after GO.
    BadGo,
}

/// The batch being gathered.
#[derive(Debug, Default)]
pub struct Batcher {
    text: String,
    place: Place,
    /// Last byte of the batch that is neither blank nor comment.
    last: Option<u8>,
    terminator: Option<String>,
    pub substitute: bool,
}

impl Batcher {
    /// A batcher for scripts whose batches end at `terminator`; `substitute` replaces `$(NAME)`.
    pub fn new(terminator: &str, substitute: bool) -> Batcher {
        let terminator =
            Some(terminator.to_string()).filter(|word| !word.eq_ignore_ascii_case("GO"));
        Batcher {
            terminator,
            substitute,
            ..Batcher::default()
        }
    }

    /// Takes the next line.
    pub fn line(&mut self, line: &str, variables: &Variables) -> Step {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if self.place == Place::Code {
            if let Some(count) = self.go_count(line) {
                return match count {
                    Some(count) => Step::Go {
                        batch: self.take(),
                        count,
                    },
                    None => Step::BadGo,
                };
            }
            if let Some(step) = self.command(line, variables) {
                return step;
            }
        }
        match self.expand(line, variables) {
            Ok(expanded) => {
                self.place = advance(self.place, &expanded, &mut self.last).0;
                self.text.push_str(&expanded);
                self.text.push('\n');
                Step::More
            }
            Err(name) => Step::Undefined(name),
        }
    }

    /// What has been gathered, at the end of the input.
    pub fn take(&mut self) -> String {
        (self.place, self.last) = (Place::Code, None);
        std::mem::take(&mut self.text)
    }

    /// The batch so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Is there nothing of a batch yet?
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Lines of the batch so far.
    pub fn line_count(&self) -> usize {
        self.text.lines().count()
    }

    /// Does the batch end with a semicolon outside of strings and comments?
    pub fn ends_with_semicolon(&self) -> bool {
        self.place == Place::Code && self.last == Some(b';')
    }

    /// `GO`, `GO 5`, `GO -- remark`: the count, or `None` inside if it is no number.
    fn go_count(&self, line: &str) -> Option<Option<u32>> {
        let line = line.trim();
        let (word, rest) = line.split_at(
            line.find(|c: char| c.is_whitespace() || c == '-')
                .unwrap_or(line.len()),
        );
        if !word.eq_ignore_ascii_case(self.terminator.as_deref().unwrap_or("GO")) {
            return None;
        }
        let rest = rest.split_once("--").map_or(rest, |(rest, _)| rest).trim();
        match rest {
            "" => Some(Some(1)),
            number => Some(number.parse().ok()),
        }
    }

    fn command(&self, line: &str, variables: &Variables) -> Option<Step> {
        let trimmed = line.trim_start();
        let at_start = self.text.trim().is_empty();
        let named = trimmed.strip_prefix(':');
        let text = match (named, trimmed.strip_prefix('\\')) {
            (Some(rest), _) => rest,
            (None, Some(rest)) if at_start => rest,
            (None, None) if is_bare_command(trimmed) => trimmed,
            _ => return None,
        };
        Some(match self.expand(text.trim(), variables) {
            Ok(text) => Step::Command(parse_command(&text)),
            Err(name) => Step::Undefined(name),
        })
    }

    /// Puts the variables in.
    fn expand(&self, line: &str, variables: &Variables) -> Result<String, String> {
        if !self.substitute || !line.contains("$(") {
            return Ok(line.into());
        }
        let (mut out, mut rest, mut place) = (String::with_capacity(line.len()), line, self.place);
        while let Some(at) = rest.find("$(") {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let (next, in_line_comment) = advance(place, before, &mut None);
            place = next;
            let name = from
                .strip_prefix("$(")
                .and_then(|from| from.split_once(')'))
                .map(|(name, _)| name);
            match name.filter(|name| is_name(name)) {
                Some(name) if !in_line_comment && !matches!(place, Place::Comment(_)) => {
                    out.push_str(&variables.get(name).ok_or(name)?);
                    rest = from.get(name.len() + 3..).unwrap_or_default();
                }
                _ if in_line_comment => {
                    out.push_str(from);
                    return Ok(out);
                }
                _ => {
                    out.push_str("$(");
                    rest = from.get(2..).unwrap_or_default();
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The place after `text`, and whether a `--` comment is open there. `last` becomes the last byte of code.
fn advance(mut place: Place, text: &str, last: &mut Option<u8>) -> (Place, bool) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let before = place;
        place = match (place, byte, bytes.get(at + 1)) {
            (Place::Code, b'-', Some(b'-')) => return (place, true),
            (Place::Code, b'/', Some(b'*')) => Place::Comment(1),
            (Place::Comment(depth), b'/', Some(b'*')) => {
                Place::Comment((depth + 1).min(COMMENT_DEPTH_MAX))
            }
            (Place::Comment(0 | 1), b'*', Some(b'/')) => Place::Code,
            (Place::Comment(depth), b'*', Some(b'/')) => Place::Comment(depth - 1),
            (Place::Code, b'\'', _) => Place::String,
            (Place::Code, b'"', _) => Place::Quoted,
            (Place::Code, b'[', _) => Place::Bracket,
            (Place::Bracket, b']', Some(b']')) => {
                at += 1;
                Place::Bracket
            }
            // A doubled quote ends and begins again, which comes to the same.
            (Place::String, b'\'', _) | (Place::Quoted, b'"', _) | (Place::Bracket, b']', _) => {
                Place::Code
            }
            (place, _, _) => place,
        };
        let in_comment = matches!(before, Place::Comment(_)) || matches!(place, Place::Comment(_));
        if !in_comment && !byte.is_ascii_whitespace() {
            *last = Some(*byte);
        }
        at += if in_comment && before != place { 2 } else { 1 };
    }
    (place, false)
}

fn is_bare_command(line: &str) -> bool {
    let word = line
        .split([' ', '\t', '(', ';'])
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    match word.as_str() {
        "exit" => true,
        "quit" | "reset" | "ed" => line.trim_end().len() == word.len(),
        _ => line.starts_with("!!"),
    }
}

fn parse_command(text: &str) -> Command {
    if let Some(rest) = text.strip_prefix("!!") {
        return Command::NotSupported(format!("!!{rest}"));
    }
    let (word, rest) = text.split_at(
        text.find(|c: char| c.is_whitespace() || c == '(')
            .unwrap_or(text.len()),
    );
    let (word, rest) = (word.to_ascii_lowercase(), rest.trim());
    let wrong = || Command::Wrong(format!(":{text}"));
    match (word.as_str(), rest) {
        ("r", "") | ("setvar", "") | ("out", "") | ("error", "") | ("connect", "") => wrong(),
        ("r", path) => Command::Read(unquoted(path).into()),
        ("setvar", rest) => match rest.split_once(char::is_whitespace) {
            Some((name, value)) if is_name(name) => {
                Command::SetVar(name.into(), Some(unquoted(value.trim()).into()))
            }
            None if is_name(rest) => Command::SetVar(rest.into(), None),
            _ => wrong(),
        },
        ("listvar", "") => Command::ListVar,
        ("out", path) => Command::Out(unquoted(path).into()),
        ("error", path) => Command::ErrorOut(unquoted(path).into()),
        ("on", rest) => match rest
            .to_ascii_lowercase()
            .split_whitespace()
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["error", "exit"] => Command::OnErrorExit(true),
            ["error", "ignore"] => Command::OnErrorExit(false),
            _ => wrong(),
        },
        ("reset", "") => Command::Reset,
        ("list", "") => Command::List,
        ("help" | "?", _) => Command::Help,
        ("quit" | "q", "") => Command::Quit,
        ("exit", "" | ";") => Command::Exit(None),
        ("exit", rest) => match rest
            .strip_prefix('(')
            .and_then(|rest| rest.trim_end().strip_suffix(')'))
        {
            Some(batch) => Command::Exit(Some(batch.trim().into())),
            None => wrong(),
        },
        ("connect", rest) => Command::Connect(rest.into()),
        ("timing" | "time", _) => Command::Timing,
        ("format", name) => Command::Format(name.to_ascii_lowercase()),
        ("semicolon", _) => Command::Semicolon,
        ("d" | "tables", pattern) => Command::Tables(pattern.into()),
        ("ed" | "serverlist" | "perftrace" | "xml", _) => Command::NotSupported(format!(":{word}")),
        _ => wrong(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches and commands of a script, one line each.
    fn steps(script: &str) -> Vec<String> {
        let mut variables = Variables::default();
        variables.set("db", "Sales");
        variables.set("quote", "'");
        let mut batcher = Batcher::new("GO", true);
        let mut seen = Vec::new();
        for line in script.lines() {
            match batcher.line(line, &variables) {
                Step::More => {}
                Step::Go { batch, count } => {
                    seen.push(format!("{count} x {}", batch.trim_end().replace('\n', "|")))
                }
                other => seen.push(format!("{other:?}")),
            }
        }
        if !batcher.is_empty() {
            seen.push(format!(
                "rest {}",
                batcher.take().trim_end().replace('\n', "|")
            ));
        }
        seen
    }

    #[test]
    fn go_ends_batches() {
        assert_eq!(
            steps("select 1\nGO\nselect 2\n  go 3 \nselect 3"),
            ["1 x select 1", "3 x select 2", "rest select 3"]
        );
        assert_eq!(steps("a\ngo -- remark\nb\nGO 2--twice"), ["1 x a", "2 x b"]);
        assert_eq!(steps("go x"), ["BadGo"]);
        assert_eq!(
            steps("goto done\ngone\nselect 1 go"),
            ["rest goto done|gone|select 1 go"]
        );
    }

    #[test]
    fn go_inside_strings_brackets_and_comments_is_text() {
        assert_eq!(steps("select 'a\nGO\n'\nGO"), ["1 x select 'a|GO|'"]);
        assert_eq!(
            steps("select 'it''s\nGO\n'\nGO"),
            ["1 x select 'it''s|GO|'"]
        );
        assert_eq!(steps("select [a]]\nGO\n]\nGO"), ["1 x select [a]]|GO|]"]);
        assert_eq!(steps("select \"x\nGO\n\"\nGO"), ["1 x select \"x|GO|\""]);
        assert_eq!(
            steps("/* /* \nGO\n */ \nGO\n*/\nGO"),
            ["1 x /* /* |GO| */ |GO|*/"]
        );
        assert_eq!(steps("-- it's\nGO"), ["1 x -- it's"]);
        assert_eq!(
            steps("select '/*'\nGO\nselect '--' + '\nGO\n'"),
            ["1 x select '/*'", "rest select '--' + '|GO|'"]
        );
    }

    #[test]
    fn variables_are_put_in_except_in_comments() {
        assert_eq!(
            steps("use $(db) -- $(none)\nGO"),
            ["1 x use Sales -- $(none)"]
        );
        assert_eq!(
            steps("select '$(DB)', $(action), $(\nGO"),
            ["Undefined(\"action\")", "1 x "]
        );
        assert_eq!(
            steps("/* $(none) */ select $(db)\nGO"),
            ["1 x /* $(none) */ select Sales"]
        );
        assert_eq!(
            steps("select $(no way) + $(db)\nGO"),
            ["1 x select $(no way) + Sales"]
        );
        // The text of a variable takes part in what a string is.
        assert_eq!(steps("select $(quote)a\nGO\n'\nGO"), ["1 x select 'a|GO|'"]);
    }

    #[test]
    fn commands() {
        let command = |line: &str| match Batcher::new("GO", true).line(line, &Variables::default())
        {
            Step::Command(command) => command,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(command(":r \"a b.sql\""), Command::Read("a b.sql".into()));
        assert_eq!(
            command("  :SETVAR x \"1 2\""),
            Command::SetVar("x".into(), Some("1 2".into()))
        );
        assert_eq!(command(":setvar x"), Command::SetVar("x".into(), None));
        assert_eq!(
            command(":exit(select 3)"),
            Command::Exit(Some("select 3".into()))
        );
        assert_eq!(command("EXIT"), Command::Exit(None));
        assert_eq!(command("exit()"), Command::Exit(Some(String::new())));
        assert_eq!(command("quit"), Command::Quit);
        assert_eq!(command(":on error exit"), Command::OnErrorExit(true));
        assert_eq!(command("!!ls"), Command::NotSupported("!!ls".into()));
        assert_eq!(command("\\timing"), Command::Timing);
        assert_eq!(command(":nonsense"), Command::Wrong(":nonsense".into()));
    }

    #[test]
    fn commands_inside_strings_are_text() {
        assert_eq!(
            steps("select '\n:quit\nexit\n'\nGO"),
            ["1 x select '|:quit|exit|'"]
        );
    }

    #[test]
    fn another_terminator() {
        let mut batcher = Batcher::new("run", false);
        assert_eq!(batcher.line("GO", &Variables::default()), Step::More);
        assert_eq!(
            batcher.line("RUN 2", &Variables::default()),
            Step::Go {
                batch: "GO\n".into(),
                count: 2
            }
        );
    }

    #[test]
    fn a_semicolon_at_the_end() {
        let ends = |text: &str| {
            let mut batcher = Batcher::new("GO", true);
            for line in text.lines() {
                batcher.line(line, &Variables::default());
            }
            batcher.ends_with_semicolon()
        };
        assert!(ends("select 1;"));
        assert!(ends("select 1; -- done"));
        assert!(ends("select 1; /* done */ "));
        assert!(ends("select 'a''b';"));
        assert!(!ends("select ';"));
        assert!(!ends("select 1 -- ;"));
        assert!(!ends("select 1; /* open"));
        assert!(!ends("select ';'"));
    }
}
