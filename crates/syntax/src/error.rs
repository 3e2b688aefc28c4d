//! Syntax errors with the product's numbers and wording.

use thiserror::Error;

/// An error of the lexer or parser. Severity is 15 for all of them but 701.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Msg {number}, Level {severity}, State {state}, Line {line}: {message}")]
pub struct SyntaxError {
    pub number: u32,
    pub severity: u8,
    pub state: u8,
    /// 1-based line in the batch.
    pub line: u32,
    pub message: String,
}

/// Longest piece of source text which a message quotes.
const QUOTED_CHARS_MAX: usize = 128;

impl SyntaxError {
    pub(crate) fn new(number: u32, line: u32, message: impl Into<String>) -> SyntaxError {
        SyntaxError {
            number,
            severity: 15,
            state: 1,
            line,
            message: message.into(),
        }
    }

    pub(crate) fn near(line: u32, found: &str) -> SyntaxError {
        SyntaxError::new(
            102,
            line,
            format!("Incorrect syntax near '{}'.", shorten(found)),
        )
    }

    pub(crate) fn near_keyword(line: u32, keyword: &str) -> SyntaxError {
        SyntaxError::new(
            156,
            line,
            format!("Incorrect syntax near the keyword '{keyword}'."),
        )
    }

    pub(crate) fn unclosed_quote(line: u32, content: &str) -> SyntaxError {
        let message = format!(
            "Unclosed quotation mark after the character string '{}'.",
            shorten(content)
        );
        SyntaxError::new(105, line, message)
    }

    pub(crate) fn unclosed_comment(line: u32) -> SyntaxError {
        SyntaxError::new(113, line, "Missing end comment mark '*/'.")
    }

    pub(crate) fn identifier_too_long(line: u32, identifier: &str) -> SyntaxError {
        let start = shorten(identifier);
        SyntaxError::new(
            103,
            line,
            format!(
                "The identifier that starts with '{start}' is too long. Maximum length is 128."
            ),
        )
    }

    pub(crate) fn nested_too_deeply(line: u32) -> SyntaxError {
        let message = "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.";
        SyntaxError::new(191, line, message)
    }

    /// The product's words for a query that its memory does not hold.
    pub(crate) fn insufficient_memory(line: u32) -> SyntaxError {
        let message =
            "There is insufficient system memory in resource pool 'default' to run this query.";
        SyntaxError {
            severity: 17,
            state: 123,
            ..SyntaxError::new(701, line, message)
        }
    }

    pub(crate) fn empty_name(line: u32) -> SyntaxError {
        let message = "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a name. \
                       For other statements, look for empty alias names. Aliases defined as \"\" or [] are not allowed. \
                       Change the alias to a valid name.";
        SyntaxError::new(1038, line, message)
    }

    pub(crate) fn with_needs_semicolon(line: u32) -> SyntaxError {
        let message = "Incorrect syntax near the keyword 'with'. If this statement is a common table expression, an xmlnamespaces \
                       clause or a change tracking context clause, the previous statement must be terminated with a semicolon.";
        SyntaxError::new(319, line, message)
    }

    pub(crate) fn cte_needs_semicolon(line: u32, found: &str) -> SyntaxError {
        let message = format!(
            "Incorrect syntax near '{}'. If this is intended to be a common table expression, you need to explicitly terminate \
             the previous statement with a semi-colon.",
            shorten(found)
        );
        SyntaxError::new(336, line, message)
    }

    pub(crate) fn merge_needs_semicolon(line: u32) -> SyntaxError {
        SyntaxError::new(
            10713,
            line,
            "A MERGE statement must be terminated by a semi-colon (;).",
        )
    }

    pub(crate) fn not_a_condition(line: u32, found: &str) -> SyntaxError {
        let message = format!(
            "An expression of non-boolean type specified in a context where a condition is expected, near '{}'.",
            shorten(found)
        );
        SyntaxError::new(4145, line, message)
    }

    pub(crate) fn must_start_batch(line: u32, statement: &str) -> SyntaxError {
        SyntaxError::new(
            111,
            line,
            format!("'{statement}' must be the first statement in a query batch."),
        )
    }

    pub(crate) fn too_many_prefixes(line: u32, name: &str, prefixes_max: usize) -> SyntaxError {
        let message = format!(
            "The object name '{name}' contains more than the maximum number of prefixes. The maximum is {prefixes_max}."
        );
        SyntaxError::new(117, line, message)
    }

    pub(crate) fn unknown_table_hint(line: u32, hint: &str) -> SyntaxError {
        let message = format!(
            "\"{}\" is not a recognized table hints option. If it is intended as a parameter to a table-valued function or to the \
             CHANGETABLE function, ensure that your database compatibility mode is set to 90.",
            shorten(hint)
        );
        SyntaxError::new(321, line, message)
    }

    pub(crate) fn unknown_use_hint(line: u32, hint: &str) -> SyntaxError {
        SyntaxError::new(
            10715,
            line,
            format!("'{}' is not a valid hint.", shorten(hint)),
        )
    }

    /// An option of a module.
    pub(crate) fn unknown_option(line: u32, option: &str) -> SyntaxError {
        SyntaxError::new(
            195,
            line,
            format!("'{}' is not a recognized option.", shorten(option)),
        )
    }

    /// A number that no `int` holds, or that is none, where the grammar has an integer.
    pub(crate) fn not_an_int(line: u32, number: &str) -> SyntaxError {
        SyntaxError::new(
            1080,
            line,
            format!("The integer value {} is out of range.", shorten(number)),
        )
    }

    /// An option of SET that has no room for what is behind it.
    pub(crate) fn near_option(line: u32, option: &str) -> SyntaxError {
        SyntaxError {
            state: 3,
            ..SyntaxError::near(line, option)
        }
    }

    pub(crate) fn unknown_set_option(line: u32, option: &str, state: u8) -> SyntaxError {
        let message = format!("'{}' is not a recognized SET option.", shorten(option));
        SyntaxError {
            state,
            ..SyntaxError::new(195, line, message)
        }
    }
}

fn shorten(text: &str) -> &str {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
