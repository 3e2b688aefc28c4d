//! JSON paths: `[append] [lax | strict] $.key."another key"[0]`.

use super::scan::{Kind, Node};
use super::unexpected;
use crate::ValueError;

/// One step from a value to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// A path that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// What is not found is an error.
    pub is_strict: bool,
    /// JSON_MODIFY: the value is put behind those of an array.
    pub is_append: bool,
    pub steps: Vec<Step>,
}

/// What a path leads to; `None` where nothing is.
pub type Found<'a> = Option<Node<'a>>;

impl Path {
    /// Reads a path: 13607 at the first character that does not belong there.
    pub fn parse(text: &str) -> Result<Path, ValueError> {
        Reader { text, at: 0 }
            .path()
            .map_err(|at| unexpected(13607, text, at))
    }

    /// Follows the path from a value.
    pub fn find<'a>(&self, root: Node<'a>) -> Found<'a> {
        follow(root, &self.steps)
    }

    /// As `find`; nothing found is 13608 when the path is strict.
    pub fn look<'a>(&self, root: Node<'a>) -> Result<Found<'a>, ValueError> {
        match self.find(root) {
            None if self.is_strict => Err(ValueError::new(13608, 1, &[])),
            found => Ok(found),
        }
    }
}

pub(super) fn follow<'a>(root: Node<'a>, steps: &[Step]) -> Found<'a> {
    steps.iter().try_fold(root, |node, step| match step {
        Step::Key(key) if node.kind == Kind::Object => node.member(key),
        Step::Index(at) if node.kind == Kind::Array => node.elements().nth(*at),
        _ => None,
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    /// A word that a blank or the path itself follows.
    fn word(&mut self, word: &str) -> bool {
        self.blanks();
        let is_it = self
            .rest()
            .strip_prefix(word)
            .is_some_and(|rest| rest.starts_with(' '));
        if is_it {
            self.at += word.len();
        }
        is_it
    }

    fn path(mut self) -> Result<Path, usize> {
        let is_append = self.word("append");
        let is_strict = self.word("strict");
        if !is_strict {
            self.word("lax");
        }
        self.blanks();
        if !self.rest().starts_with('$') {
            return Err(self.at);
        }
        self.at += 1;
        let mut steps = Vec::new();
        loop {
            let step = match self.rest().bytes().next() {
                None => break,
                Some(b' ') if self.rest().trim_end_matches(' ').is_empty() => break,
                Some(b'.') => self.key()?,
                Some(b'[') => self.index()?,
                Some(_) => return Err(self.at),
            };
            steps.push(step);
        }
        Ok(Path {
            is_strict,
            is_append,
            steps,
        })
    }

    fn key(&mut self) -> Result<Step, usize> {
        self.at += 1;
        if self.rest().starts_with('"') {
            return self.quoted_key();
        }
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let rest = self.rest();
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let key = rest.get(..len).unwrap_or_default().to_string();
        if key.is_empty() {
            return Err(self.at);
        }
        self.at += len;
        Ok(Step::Key(key))
    }

    /// Two quotes, or one behind a backslash, stand for one.
    fn quoted_key(&mut self) -> Result<Step, usize> {
        self.at += 1;
        let mut key = String::new();
        loop {
            let mut chars = self.rest().chars();
            let (Some(c), next) = (chars.next(), chars.next()) else {
                return Err(self.at);
            };
            self.at += c.len_utf8();
            match (c, next) {
                ('"', _) => return Ok(Step::Key(key)),
                ('\\', Some(escaped @ ('"' | '\\'))) => {
                    self.at += 1;
                    key.push(escaped);
                }
                _ => key.push(c),
            }
        }
    }

    fn index(&mut self) -> Result<Step, usize> {
        self.at += 1;
        let start = self.at;
        let len = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let index = self.rest().get(..len).unwrap_or_default().parse();
        self.at += len;
        match (index, self.rest().starts_with(']')) {
            (Ok(index), true) => {
                self.at += 1;
                Ok(Step::Index(index))
            }
            (Err(_), _) if len > 0 => Err(start),
            _ => Err(self.at),
        }
    }
}
