//! Statement texts: fetched once each, masked before anything else sees them, and forgotten when nothing needs them.

use super::plan::DOCUMENT_BYTES_MAX;
use super::reading::{Request, StatementKey, text_row};
use daruma_syntax::mask::mask_literals;
use daruma_value::Value;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// Longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;
const HANDLES_MAX: usize = 500;
/// Stands at the head of every batch of the monitor.
const OWN: &str = "SELECT 'clock'";

/// Texts of running requests by session and start, and of cached statements by handle.
#[derive(Debug)]
pub struct Texts {
    mask: bool,
    requests: HashMap<(i64, i64), Arc<str>>,
    /// Whole texts as the server has them: offsets of statements point into them.
    handles: HashMap<Vec<u8>, String>,
}

impl Texts {
    /// No texts yet; `mask` replaces literals.
    pub fn new(mask: bool) -> Texts {
        Texts {
            mask,
            requests: HashMap::new(),
            handles: HashMap::new(),
        }
    }

    /// Is the text of this request known, be it empty?
    pub fn has(&self, session: i64, started: i64) -> bool {
        self.requests.contains_key(&(session, started))
    }

    /// The text of a request; `None` where it is unknown.
    pub fn get(&self, session: i64, started: i64) -> Option<Arc<str>> {
        let text = self.requests.get(&(session, started));
        text.filter(|text| !text.is_empty()).cloned()
    }

    /// Keeps the text of a request.
    pub fn keep(&mut self, session: i64, started: i64, text: &str) {
        let text = self.masked(text);
        self.requests.insert((session, started), text);
    }

    /// A text as it may be shown.
    pub fn masked(&self, text: &str) -> Arc<str> {
        match self.mask {
            true => cut(&mask_literals(text)).into(),
            false => cut(text).into(),
        }
    }

    /// Forgets the texts of requests that are gone.
    pub fn forget(&mut self, running: &[Request]) {
        if self.requests.len() > running.len() {
            self.requests
                .retain(|key, _| running.iter().any(|r| (r.session, r.started) == *key));
        }
    }

    /// Is it the handle of a batch of the monitor itself, as far as its text is known?
    pub fn is_own_handle(&self, handle: &[u8]) -> bool {
        self.handles.get(handle).is_none_or(|text| is_own(text))
    }

    /// Is the text behind a handle known?
    pub fn has_handle(&self, handle: &[u8]) -> bool {
        self.handles.contains_key(handle)
    }

    /// Keeps a text by its handle.
    pub fn keep_handle(&mut self, handle: Vec<u8>, text: String) {
        if self.handles.len() >= HANDLES_MAX {
            self.handles.clear();
        }
        self.handles.insert(handle, text);
    }

    /// The text of one statement of a batch, by its place in it.
    pub fn of_statement(&self, key: &StatementKey) -> Option<Arc<str>> {
        let (handle, start, end) = key;
        let text = self.handles.get(handle)?;
        if is_own(text) {
            return Some(text.as_str().into());
        }
        Some(self.masked(&statement(text, *start, *end)))
    }
}

/// Does the monitor itself send this?
pub fn is_own(text: &str) -> bool {
    text.starts_with(OWN)
}

/// The part of a text between two places in its UTF-16 form, counted in bytes; -1 is the end.
fn statement(text: &str, start: i64, end: i64) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    let place = |bytes: i64| usize::try_from(bytes / 2).ok();
    let from = place(start).unwrap_or(0).min(units.len());
    let to = place(end).filter(|_| end >= 0).unwrap_or(units.len());
    let part = units.get(from..to.clamp(from, units.len()));
    String::from_utf16_lossy(part.unwrap_or_default())
        .trim()
        .to_string()
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Asks for the texts behind handles; the answer numbers them.
pub fn batch<'a>(handles: impl Iterator<Item = &'a [u8]>) -> String {
    let mut batch = String::new();
    for (number, handle) in handles.enumerate() {
        if handle.is_empty() {
            continue;
        }
        let hex = hex(handle);
        let _ = writeln!(
            batch,
            "SELECT 'text', {number}, text FROM sys.dm_exec_sql_text(0x{hex});"
        );
    }
    batch
}

/// Asks for the plan of one statement of a batch; one that is too long comes as NULL.
pub fn plan_question(number: usize, plan: &[u8], statement: &StatementKey) -> String {
    let (_, start, end) = statement;
    format!(
        "SELECT 'plan', {number}, CASE WHEN DATALENGTH(query_plan) <= {DOCUMENT_BYTES_MAX} THEN query_plan END FROM \
         sys.dm_exec_text_query_plan(0x{}, {start}, {end});\n",
        hex(plan)
    )
}

fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The answer to [`batch`].
pub fn answers(rows: &[Vec<Value>]) -> HashMap<usize, String> {
    rows.iter().filter_map(|row| text_row(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_masked_when_they_come_in() {
        let mut texts = Texts::new(true);
        texts.keep(51, 7, "SELECT * FROM t WHERE name = 'secret' -- note");
        let kept = texts.get(51, 7).expect("kept");
        assert!(!kept.contains("secret") && !kept.contains("note"), "{kept}");
        texts.forget(&[]);
        assert!(!texts.has(51, 7));
    }

    #[test]
    fn statements_are_parts_of_batches() {
        assert_eq!(statement("SELECT 1; SELECT 2", 20, -1), "SELECT 2");
        assert_eq!(statement("SELECT 1; SELECT 2", 0, 16), "SELECT 1");
        assert_eq!(statement("short", 100, 50), "");
    }
}
