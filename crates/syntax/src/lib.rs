//! T-SQL text to syntax trees and back: lexer, parser, abstract syntax, printer. Knows no catalog and resolves no names.
//!
//! Read next: ast (what a batch is made of), parser (how it is read), printer (how it is written).

pub mod ast;
mod error;
mod keyword;
mod lexer;
pub mod mask;
mod parser;
mod printer;

pub use error::SyntaxError;
pub use lexer::BATCH_BYTES_MAX;
pub use parser::{
    NESTING_MAX, ParseOptions, TREE_HEIGHT_MAX, named_objects, parse_batch, parse_batch_within,
    parse_condition, parse_event_predicate, parse_expression, parse_object_name,
    parse_parameter_definitions, parse_type, takes_next_value,
};
pub use printer::print_batch;
