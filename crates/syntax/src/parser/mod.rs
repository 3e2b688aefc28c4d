//! Parser: tokens to trees by recursive descent, with one token of lookahead as the rule and a few more for names.
//!
//! Theory: T-SQL needs no semicolons, so a statement ends where its grammar can go no further; reserved words make that
//! clear. The parser never backtracks, so its time grows with the text. It stops at the first error, as the product
//! does for most batches, and says what the product says: 102 near a token, 156 near a keyword.
//!
//! Invariants
//! 1. Recursion is at most `NESTING_MAX` deep and no tree is higher than `TREE_HEIGHT_MAX`; beyond that is error 191.
//! 2. A list of branches (AND, UNION ALL, VALUES) adds no height, whatever its length.
//! 3. `Statement::span` covers the first to the last token of the statement.
//!
//! Map: cursor (tokens), name, expr, condition, query, source (FROM), hint, dml, statement (dispatch and blocks), control, set,
//! table, index, module, object, database, backup, security, server, event, option. Tests: tests/, golden/syntax.

mod backup;
mod condition;
mod control;
mod cursor;
mod database;
mod dml;
mod event;
mod execute;
mod expr;
mod hint;
mod index;
mod key;
mod module;
mod name;
mod object;
mod option;
mod query;
mod security;
mod server;
mod set;
mod source;
mod statement;
mod table;

use crate::ast::{Expr, ObjectName, Parameter, Statement, TypeName};
use crate::error::SyntaxError;
use crate::lexer::Tokens;

/// Deepest recursion of the parser: blocks, parentheses, subqueries, CASE and the like.
pub const NESTING_MAX: u32 = 200;
/// Greatest height of a tree, chains of left-associative operators included.
pub const TREE_HEIGHT_MAX: u32 = 800;

/// What the session decides about reading text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    /// On: `"x"` is a name. Off: it is a string.
    pub quoted_identifier: bool,
}

impl Default for ParseOptions {
    fn default() -> ParseOptions {
        ParseOptions {
            quoted_identifier: true,
        }
    }
}

/// Parses a batch. The errors come in the order in which the client should see them.
pub fn parse_batch(text: &str, options: &ParseOptions) -> Result<Vec<Statement>, Vec<SyntaxError>> {
    run(text, options, Parser::batch)
}

/// As [`parse_batch`], for texts of any size: `has_room` is asked now and then whether there is memory for more of the tree;
/// error 701 when there is none.
pub fn parse_batch_within(
    text: &str,
    options: &ParseOptions,
    has_room: &dyn Fn() -> bool,
) -> Result<Vec<Statement>, Vec<SyntaxError>> {
    run_within(text, options, Some(has_room), Parser::batch)
}

/// Parses a data type alone: `decimal(10, 2)`.
pub fn parse_type(text: &str, options: &ParseOptions) -> Result<TypeName, Vec<SyntaxError>> {
    run(text, options, Parser::type_name)
}

/// Parses a scalar expression alone, such as a stored default.
pub fn parse_expression(text: &str, options: &ParseOptions) -> Result<Expr, Vec<SyntaxError>> {
    run(text, options, Parser::expr)
}

/// Parses a condition alone, such as a stored CHECK constraint or index filter.
pub fn parse_condition(
    text: &str,
    options: &ParseOptions,
) -> Result<crate::ast::Condition, Vec<SyntaxError>> {
    run(text, options, Parser::condition)
}

/// Parses the predicate of an event alone, as it is stored.
pub fn parse_event_predicate(
    text: &str,
    options: &ParseOptions,
) -> Result<crate::ast::EventPredicate, Vec<SyntaxError>> {
    run(text, options, Parser::event_predicate)
}

/// Parses the parameter definitions of `sp_executesql`: `@a int, @b nvarchar(10) OUTPUT`. Blank text defines none.
pub fn parse_parameter_definitions(
    text: &str,
    options: &ParseOptions,
) -> Result<Vec<Parameter>, Vec<SyntaxError>> {
    run(text, options, Parser::parameter_definitions)
}

/// The names of objects in a batch, in the order of the text: of tables and the like, in EXEC, in calls of functions. Names
/// of types and of columns are not among them. What cannot be read names nothing.
pub fn named_objects(text: &str, options: &ParseOptions) -> Vec<crate::ast::ObjectName> {
    let read = |parser: &mut Parser<'_>| {
        parser.names = Some(Vec::new());
        parser.batch()?;
        Ok(parser.names.take().unwrap_or_default())
    };
    run(text, options, read).unwrap_or_default()
}

/// Does a batch take values from sequences? What cannot be read takes none.
pub fn takes_next_value(text: &str, options: &ParseOptions) -> bool {
    let read = |parser: &mut Parser<'_>| {
        parser.batch()?;
        Ok(parser.takes_next_value)
    };
    run(text, options, read).unwrap_or(false)
}

/// Parses a name of one to four parts, as `OBJECT_ID` and `sp_rename` take it.
pub fn parse_object_name(
    text: &str,
    options: &ParseOptions,
) -> Result<crate::ast::ObjectName, Vec<SyntaxError>> {
    run(text, options, Parser::object_name)
}

fn run<'a, T>(
    text: &'a str,
    options: &ParseOptions,
    parse: impl FnOnce(&mut Parser<'a>) -> Parse<T>,
) -> Result<T, Vec<SyntaxError>> {
    run_within(text, options, None, parse)
}

fn run_within<'a, T>(
    text: &'a str,
    options: &ParseOptions,
    has_room: Option<&'a dyn Fn() -> bool>,
    parse: impl FnOnce(&mut Parser<'a>) -> Parse<T>,
) -> Result<T, Vec<SyntaxError>> {
    let mut parser = Parser {
        text,
        tokens: Tokens::of(text, options.quoted_identifier, has_room),
        quoted_identifier: options.quoted_identifier,
        in_module: false,
        at: 0,
        depth: 0,
        height: 0,
        condition_end: None,
        names: None,
        takes_next_value: false,
        has_room,
        until_asked: ASKED_EVERY,
    };
    let tree = parse(&mut parser).and_then(|tree| parser.expect_end().map(|()| tree));
    match parser.tokens.errors.is_empty() {
        true => tree.map_err(|error| vec![error]),
        false => Err(parser.tokens.errors),
    }
}

type Parse<T> = Result<T, SyntaxError>;

struct Parser<'a> {
    text: &'a str,
    tokens: Tokens,
    /// What double quotes mean from here on.
    quoted_identifier: bool,
    /// The text of a module is read under one setting.
    in_module: bool,
    at: usize,
    depth: u32,
    /// Height of the highest tree built so far on the current level of recursion.
    height: u32,
    /// Where the condition of the last IF or WHILE ended: a statement with common table expressions may begin there.
    condition_end: Option<usize>,
    /// Names of objects read so far, if somebody asks for them.
    names: Option<Vec<ObjectName>>,
    /// NEXT VALUE FOR was read.
    takes_next_value: bool,
    /// Is there memory for more?
    has_room: Option<&'a dyn Fn() -> bool>,
    /// Expressions until it is asked again.
    until_asked: u32,
}

/// Expressions from one look at the memory to the next.
const ASKED_EVERY: u32 = 256;
