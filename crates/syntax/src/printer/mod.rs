//! Printer: trees back to T-SQL, through `Display`.
//!
//! Theory: the output is one valid spelling, not the one written: keywords in upper case, aliases with AS, parentheses
//! only where precedence needs them, `[brackets]` where a name was quoted. A semicolon ends every statement.
//!
//! Invariant: `parse(print(ast)) == ast` for every tree the parser makes, with QUOTED_IDENTIFIER on or off.
//!
//! Map: name, expr, condition, query, dml, statement (blocks and control flow), table, module, database, security, key, server, event.

mod condition;
mod control;
mod database;
mod dml;
mod event;
mod expr;
mod key;
mod module;
mod name;
mod option;
mod query;
mod security;
mod server;
mod source;
mod statement;
mod table;

use std::fmt::{self, Display, Formatter};

pub use statement::print_batch;

/// Items joined by `, `.
struct Commas<'a, T>(&'a [T]);

impl<T: Display> Display for Commas<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

/// ` (a, b)`, or nothing for an empty list.
struct Parens<'a, T>(&'a [T]);

impl<T: Display> Display for Parens<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", Commas(self.0))
        }
    }
}

/// A word and a value, or nothing: ` COLLATE x`.
struct Clause<'a, T>(&'a str, &'a Option<T>);

impl<T: Display> Display for Clause<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(value) => write!(f, " {} {value}", self.0),
            None => Ok(()),
        }
    }
}

/// ` word` if the flag is set.
struct Flag<'a>(&'a str, bool);

impl Display for Flag<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.1 {
            write!(f, " {}", self.0)
        } else {
            Ok(())
        }
    }
}

/// A string constant.
pub(crate) struct Quote<'a>(pub &'a str);

impl Display for Quote<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // A backslash before a line end would continue the line, so it is itself followed by such an end.
        let text = self
            .0
            .replace('\'', "''")
            .replace("\\\n", "\\\\\n\n")
            .replace("\\\r\n", "\\\\\r\n\r\n");
        write!(f, "'{text}'")
    }
}

fn switch(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}
