//! T-SQL text to syntax trees and back: lexer, parser, abstract syntax, printer. Knows no catalog and resolves no names.
//!
//! Read next: ast (what a batch is made of), parser (how it is read), printer (how it is written).

pub mod ast;
