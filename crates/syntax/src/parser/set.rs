//! SET: variables, cursors, and the options of the session.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

/// Options which are ON or OFF.
const SWITCHES: &[&str] = &[
    "ANSI_DEFAULTS",
    "ANSI_NULLS",
    "ANSI_NULL_DFLT_OFF",
    "ANSI_NULL_DFLT_ON",
    "ANSI_PADDING",
    "ANSI_WARNINGS",
    "ARITHABORT",
    "ARITHIGNORE",
    "CONCAT_NULL_YIELDS_NULL",
    "CURSOR_CLOSE_ON_COMMIT",
    "DISABLE_DEF_CNST_CHK",
    "FMTONLY",
    "FORCEPLAN",
    "IMPLICIT_TRANSACTIONS",
    "NO_BROWSETABLE",
    "NOCOUNT",
    "NOEXEC",
    "NUMERIC_ROUNDABORT",
    "PARSEONLY",
    "QUOTED_IDENTIFIER",
    "REMOTE_PROC_TRANSACTIONS",
    "RESULT_SET_CACHING",
    "SHOWPLAN_ALL",
    "SHOWPLAN_TEXT",
    "SHOWPLAN_XML",
    "XACT_ABORT",
];

/// Options which take a value.
const VALUES: &[&str] = &[
    "CONTEXT_INFO",
    "DATEFIRST",
    "DATEFORMAT",
    "DEADLOCK_PRIORITY",
    "FIPS_FLAGGER",
    "LANGUAGE",
    "LOCK_TIMEOUT",
    "QUERY_GOVERNOR_COST_LIMIT",
    "ROWCOUNT",
    "TEXTSIZE",
];

impl Parser<'_> {
    pub(super) fn set(&mut self) -> Parse<StatementKind> {
        self.expect(K::SET)?;
        let statement = match self.keyword() {
            _ if self.at_variable() => self.set_variable()?,
            K::TRANSACTION => self.set_isolation()?,
            K::IDENTITY_INSERT => {
                self.advance();
                let table = self.object_name()?;
                SetStatement::IdentityInsert {
                    table,
                    on: self.expect_switch()?,
                }
            }
            K::STATISTICS => {
                self.advance();
                let options = self.list(Self::word_upper)?;
                SetStatement::Statistics {
                    options,
                    on: self.expect_switch()?,
                }
            }
            K::OFFSETS => {
                self.advance();
                let keywords = self.list(Self::word_upper)?;
                SetStatement::Offsets {
                    keywords,
                    on: self.expect_switch()?,
                }
            }
            _ => self.set_option()?,
        };
        Ok(StatementKind::Set(statement))
    }

    fn set_variable(&mut self) -> Parse<SetStatement> {
        let first = self.mark();
        let name = self.variable()?;
        if self.eat_symbol(Symbol::Dot) {
            return self.set_member(name);
        }
        let op = self.expect_assign_op()?;
        if op == AssignOp::Set && self.at(K::CURSOR) {
            self.advance();
            return Ok(SetStatement::Cursor {
                name,
                definition: Box::new(self.cursor_definition()?),
            });
        }
        let value = self.expr()?;
        Ok(SetStatement::Variable {
            name,
            op,
            value,
            span: self.span_from(first),
        })
    }

    fn set_member(&mut self, name: String) -> Parse<SetStatement> {
        let member = self.ident()?;
        if self.at_symbol(Symbol::LeftParen) {
            return Ok(SetStatement::Method {
                name,
                method: member,
                args: self.call_args()?,
            });
        }
        self.expect_equal()?;
        Ok(SetStatement::Property {
            name,
            property: member,
            value: self.expr()?,
        })
    }

    fn set_isolation(&mut self) -> Parse<SetStatement> {
        self.expect_words(&[K::TRANSACTION, K::ISOLATION, K::LEVEL])?;
        let level = match self.eat_any(&[K::READ, K::REPEATABLE, K::SNAPSHOT, K::SERIALIZABLE]) {
            Some(K::READ) => match self.eat_any(&[K::COMMITTED, K::UNCOMMITTED]) {
                Some(K::COMMITTED) => IsolationLevel::ReadCommitted,
                Some(_) => IsolationLevel::ReadUncommitted,
                None => return Err(self.unexpected()),
            },
            Some(K::REPEATABLE) => {
                self.expect(K::READ)?;
                IsolationLevel::RepeatableRead
            }
            Some(K::SNAPSHOT) => IsolationLevel::Snapshot,
            Some(_) => IsolationLevel::Serializable,
            None => return Err(self.unexpected()),
        };
        Ok(SetStatement::TransactionIsolation(level))
    }

    fn set_option(&mut self) -> Parse<SetStatement> {
        let token = self.token(0);
        let option = self.word_upper()?;
        if VALUES.contains(&option.as_str()) {
            self.refuse_number(&option)?;
            return Ok(SetStatement::Value {
                option,
                value: self.set_value()?,
            });
        }
        let mut options = vec![self.known_switch(option, token)?];
        while self.eat_comma() {
            let token = self.token(0);
            let option = self.word_upper()?;
            options.push(self.known_switch(option, token)?);
        }
        let on = self.expect_switch()?;
        let quotes =
            |option: &String| matches!(option.as_str(), "QUOTED_IDENTIFIER" | "ANSI_DEFAULTS");
        if options.iter().any(quotes) {
            self.switch_quotes(on);
        }
        Ok(SetStatement::Switch { options, on })
    }

    /// The rest of a batch is read under the new setting, whether the statement will run or not; that of a module is not.
    fn switch_quotes(&mut self, quoted_identifier: bool) {
        if self.in_module || self.quoted_identifier == quoted_identifier {
            return;
        }
        self.quoted_identifier = quoted_identifier;
        self.tokens
            .read_again(self.text, self.at, quoted_identifier, self.has_room);
    }

    /// These options take a written integer: errors 102 and 1080 for another number, and where there is room for none at all.
    fn refuse_number(&self, option: &str) -> Parse<()> {
        let is_negative = self.at_symbol(Symbol::Minus);
        let token = self.token(usize::from(is_negative));
        let text = self.text_of(token);
        let is_int = token.kind == TokenKind::Integer && text.parse::<i32>().is_ok();
        let is_number = matches!(
            token.kind,
            TokenKind::Integer | TokenKind::Decimal | TokenKind::Float | TokenKind::Money
        );
        match option {
            "LOCK_TIMEOUT" if !is_int => Err(SyntaxError::near_option(token.line, option)),
            "QUERY_GOVERNOR_COST_LIMIT" if !is_number => {
                Err(SyntaxError::near_option(token.line, option))
            }
            "ROWCOUNT" if is_negative => Err(self.unexpected()),
            "TEXTSIZE" if self.at_variable() => Err(self.unexpected()),
            "ROWCOUNT" | "TEXTSIZE" if is_number && !is_int => {
                Err(SyntaxError::not_an_int(token.line, text))
            }
            _ => Ok(()),
        }
    }

    /// Error 195 for a name that is none, with a state that says what is behind it; without a value it is any word, 102.
    fn known_switch(&self, option: String, token: crate::lexer::Token) -> Parse<String> {
        if SWITCHES.contains(&option.as_str()) {
            return Ok(option);
        }
        let text = self.text_of(token);
        let state = match self.kind() {
            TokenKind::Word(K::ON | K::OFF) | TokenKind::Symbol(Symbol::Comma) => 5,
            TokenKind::Word(word) if word.is_reserved() => {
                return Err(SyntaxError::near(token.line, text));
            }
            TokenKind::End | TokenKind::Symbol(Symbol::Semicolon) => {
                return Err(SyntaxError::near(token.line, text));
            }
            _ => 7,
        };
        Err(SyntaxError::unknown_set_option(token.line, text, state))
    }

    fn set_value(&mut self) -> Parse<SetValue> {
        match self.kind() {
            TokenKind::Word(K::NULL) => self.expr().map(SetValue::Expr),
            TokenKind::Word(_) | TokenKind::Quoted => self.any_word().map(SetValue::Word),
            _ => self.expr().map(SetValue::Expr),
        }
    }
}
