//! How a system procedure is described: parameters as one line of text, and a body of T-SQL or Rust.
//!
//! Theory: most procedures are queries over the system views with a documented column list, so their body is T-SQL,
//! run in the caller's session. `$.` before a name stands for the database the procedure was named in (`db..sp_help`)
//! or that a qualifier argument names; `@db` holds its name. What T-SQL cannot say is Rust.
//!
//! Grammar of parameters: `@name type [= default] [output]`, separated by semicolons; `NULL`, a number or a word.

use crate::error::Result;
use crate::instance::{SystemParameter, SystemProcedure};
use crate::session::SystemCall;
use crate::sysviews::{Rows, Shape, Source, default_value, parse_type};
use daruma_base::DatabaseId;
use daruma_value::{DataType, Value};
use std::sync::OnceLock;

pub(crate) struct Procedure {
    pub name: &'static str,
    pub parameters: &'static str,
    pub body: Body,
}

pub(crate) enum Body {
    /// T-SQL. Its result is 0.
    Text(&'static str),
    Native(fn(&SystemCall<'_, '_>) -> Result<i32>),
}

impl Procedure {
    /// A procedure whose body is T-SQL.
    pub const fn text(
        name: &'static str,
        parameters: &'static str,
        text: &'static str,
    ) -> Procedure {
        Procedure {
            name,
            parameters,
            body: Body::Text(text),
        }
    }

    /// A procedure whose body is a function; it returns the status.
    pub const fn native(
        name: &'static str,
        parameters: &'static str,
        run: fn(&SystemCall<'_, '_>) -> Result<i32>,
    ) -> Procedure {
        Procedure {
            name,
            parameters,
            body: Body::Native(run),
        }
    }
}

/// A procedure with its parameters parsed, on first use.
pub(crate) struct Registered {
    procedure: &'static Procedure,
    parameters: OnceLock<Vec<SystemParameter>>,
}

impl Registered {
    /// The procedure, its line of parameters not read yet.
    pub fn new(procedure: &'static Procedure) -> Registered {
        Registered {
            procedure,
            parameters: OnceLock::new(),
        }
    }
}

impl SystemProcedure for Registered {
    fn name(&self) -> &str {
        self.procedure.name
    }

    fn parameters(&self) -> &[SystemParameter] {
        self.parameters
            .get_or_init(|| parse(self.procedure.parameters))
    }

    fn takes_xml(&self) -> bool {
        self.procedure.name == super::xml::PREPARE
    }

    fn run(&self, call: &SystemCall<'_, '_>) -> Result<i32> {
        match self.procedure.body {
            Body::Native(run) => run(call),
            Body::Text(text) => run_text(text, self.parameters(), call),
        }
    }
}

/// Runs a T-SQL body with the call's arguments.
fn run_text(text: &str, parameters: &[SystemParameter], call: &SystemCall<'_, '_>) -> Result<i32> {
    let database = qualified_database(parameters, call);
    let mut values: Vec<(&str, DataType, Value)> = parameters
        .iter()
        .zip(&call.args)
        .map(|(p, value)| (p.name, p.data_type, value.clone()))
        .collect();
    values.push((
        "@db",
        DataType::SYSNAME,
        Value::str(database_name(call, database)),
    ));
    call.run(&in_database(text, call, database), &values)?;
    Ok(0)
}

/// Arguments that name the database whose objects are meant.
const QUALIFIERS: [&str; 5] = [
    "@table_qualifier",
    "@sp_qualifier",
    "@procedure_qualifier",
    "@pktable_qualifier",
    "@fktable_qualifier",
];

fn qualified_database(parameters: &[SystemParameter], call: &SystemCall<'_, '_>) -> DatabaseId {
    let named = parameters
        .iter()
        .zip(&call.args)
        .find_map(|(p, value)| match value {
            Value::Str(name) if QUALIFIERS.contains(&p.name) => {
                call.host().instance()?.database_named(name)
            }
            _ => None,
        });
    named.map_or(call.database, |entry| entry.id())
}

pub(crate) fn database_name(call: &SystemCall<'_, '_>, database: DatabaseId) -> String {
    let entry = call.host().instance().and_then(|i| i.database(database));
    entry.map_or(String::new(), |e| e.name())
}

/// Puts the database's name in the place of `$.`.
pub(crate) fn in_database(text: &str, call: &SystemCall<'_, '_>, database: DatabaseId) -> String {
    let prefix = match database == call.host().current_database() {
        true => String::new(),
        false => format!("{}.", quoted(&database_name(call, database))),
    };
    text.replace("$.", &prefix)
}

/// A name in brackets.
pub(crate) fn quoted(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

fn parse(description: &'static str) -> Vec<SystemParameter> {
    let lines = description
        .split(';')
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let parsed = lines.map(|line| {
        let parameter = parse_line(line);
        debug_assert!(parameter.is_some(), "bad parameter description: {line}");
        parameter
    });
    parsed.flatten().collect()
}

fn parse_line(line: &'static str) -> Option<SystemParameter> {
    let (line, output) = match line.strip_suffix(" output") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let (declared, default) = match line.split_once('=') {
        Some((declared, default)) => (declared.trim(), Some(default.trim())),
        None => (line.trim(), None),
    };
    let (name, type_name) = declared.split_once(' ')?;
    let data_type = parse_type(type_name.trim())?;
    let default = default.map(|text| match text {
        "NULL" => Value::Null,
        "''" => Value::str(""),
        text => default_value(text, data_type),
    });
    Some(SystemParameter {
        name,
        data_type,
        default,
        output,
    })
}

/// Sends a result set made by `fill`.
pub(crate) fn send(
    call: &SystemCall<'_, '_>,
    columns: &'static str,
    fill: impl FnOnce(&Source<'_>, &mut Rows<'_>) -> Result<()>,
) -> Result<()> {
    let shape = Shape::new(columns);
    let source = Source::new(call.host(), call.database, &[]);
    let rows = shape.fill(|rows| fill(&source, rows))?;
    call.rows(&shape.columns, &rows)
}

/// An argument as an integer, `None` for NULL.
pub(crate) fn integer(call: &SystemCall<'_, '_>, index: usize) -> Option<i64> {
    match call.arg(index) {
        Value::Bit(b) => Some(i64::from(*b)),
        Value::TinyInt(n) => Some(i64::from(*n)),
        Value::SmallInt(n) => Some(i64::from(*n)),
        Value::Int(n) => Some(i64::from(*n)),
        Value::BigInt(n) => Some(*n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        let list = parse(
            "@a nvarchar(10); @b int = 5; @c sysname = NULL; @d varchar(32) = Transaction; @e bit = 1 output; @f sysname = ''",
        );
        let names: Vec<&str> = list.iter().map(|p| p.name).collect();
        assert_eq!(names, ["@a", "@b", "@c", "@d", "@e", "@f"]);
        let defaults: Vec<Option<Value>> = list.iter().map(|p| p.default.clone()).collect();
        let expected = [
            None,
            Some(Value::Int(5)),
            Some(Value::Null),
            Some(Value::str("Transaction")),
            Some(Value::Bit(true)),
            Some(Value::str("")),
        ];
        assert_eq!(defaults, expected);
        assert!(list[4].output && !list[0].output);
    }
}
