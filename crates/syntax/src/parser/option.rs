//! Option lists: `NAME = value`, in and out of parentheses.

use super::{Parse, Parser};
use crate::ast::{Expr, Ident, OptionItem, OptionValue};
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// Any word, reserved or not, in upper case.
    pub(super) fn word_upper(&mut self) -> Parse<String> {
        let token = self.token(0);
        let TokenKind::Word(_) = token.kind else {
            return Err(self.unexpected());
        };
        self.advance();
        Ok(self.text_of(token).to_ascii_uppercase())
    }

    /// `( item, item, ... )`. Commas may be missing between listener and replica options, so they are taken as optional
    /// nowhere else than there.
    pub(super) fn option_list(&mut self) -> Parse<Vec<OptionItem>> {
        self.nested(|parser| parser.paren_list(Self::option_item))
    }

    /// `WITH ( ... )` if it stands here.
    pub(super) fn optional_with_options(&mut self) -> Parse<Vec<OptionItem>> {
        if !(self.at(K::WITH) && self.symbol_at(1, Symbol::LeftParen)) {
            return Ok(Vec::new());
        }
        self.advance();
        self.option_list()
    }

    /// `WITH a, b = 1` without parentheses, as BACKUP, DBCC and UPDATE STATISTICS write it.
    pub(super) fn loose_options(&mut self) -> Parse<Vec<OptionItem>> {
        self.list(Self::loose_option)
    }

    /// One option without parentheses around the list: a single word, then `= value`, a number, or a list.
    pub(super) fn loose_option(&mut self) -> Parse<OptionItem> {
        let name = self.word_upper()?;
        if self.eat_equal() {
            let value = self.option_value()?;
            return Ok(OptionItem { name, value });
        }
        if self.at_symbol(Symbol::LeftParen) {
            return Ok(OptionItem {
                name,
                value: OptionValue::List(self.option_list()?),
            });
        }
        Ok(OptionItem {
            name,
            value: OptionValue::None,
        })
    }

    pub(super) fn option_value(&mut self) -> Parse<OptionValue> {
        let value = self.simple_value(false)?;
        self.qualified(value)
    }

    /// One option inside parentheses, where names and values may have several words.
    pub(super) fn option_item(&mut self) -> Parse<OptionItem> {
        if !matches!(self.kind(), TokenKind::Word(_)) {
            return self.nameless_item();
        }
        let mut name = self.word_upper()?;
        while matches!(self.kind(), TokenKind::Word(keyword) if !matches!(keyword, K::ON | K::OFF))
        {
            name.push(' ');
            name.push_str(&self.word_upper()?);
        }
        let value = if self.eat_equal() {
            let value = self.simple_value(true)?;
            self.qualified(value)?
        } else {
            self.value_without_equal()?
        };
        Ok(OptionItem { name, value })
    }

    /// `'x'`, `1 TO 3`, `[name]`: an item which is only a value.
    fn nameless_item(&mut self) -> Parse<OptionItem> {
        let value = self.simple_value(true)?;
        Ok(OptionItem {
            name: String::new(),
            value: self.qualified(value)?,
        })
    }

    fn value_without_equal(&mut self) -> Parse<OptionValue> {
        match self.kind() {
            TokenKind::Symbol(Symbol::LeftParen) => self.option_list().map(OptionValue::List),
            TokenKind::Symbol(Symbol::Comma | Symbol::RightParen) | TokenKind::End => {
                Ok(OptionValue::None)
            }
            _ => {
                let value = self.simple_value(true)?;
                self.qualified(value)
            }
        }
    }

    fn qualified(&mut self, value: OptionValue) -> Parse<OptionValue> {
        if !self.at_symbol(Symbol::LeftParen) || matches!(value, OptionValue::List(_)) {
            return Ok(value);
        }
        Ok(OptionValue::Qualified(Box::new(value), self.option_list()?))
    }

    /// A value. `wide` allows several words and units, which needs a closing parenthesis to end them.
    fn simple_value(&mut self, wide: bool) -> Parse<OptionValue> {
        let value = match self.kind() {
            TokenKind::Word(K::ON) if !wide || !matches!(self.kind_at(1), TokenKind::Word(_)) => {
                self.advance();
                OptionValue::On
            }
            TokenKind::Word(K::OFF) => {
                self.advance();
                OptionValue::Off
            }
            TokenKind::Word(K::NULL) => OptionValue::Expr(Expr::Literal(self.literal()?)),
            TokenKind::Word(word) if wide || may_be_value(word) => {
                OptionValue::Word(self.words(wide)?)
            }
            TokenKind::Quoted => self.quoted_value()?,
            TokenKind::Symbol(Symbol::LeftParen) => OptionValue::List(self.option_list()?),
            TokenKind::Symbol(Symbol::Minus | Symbol::Plus) => {
                OptionValue::Expr(self.signed_number()?)
            }
            TokenKind::Integer | TokenKind::Decimal => self.quantity(wide)?,
            _ => OptionValue::Expr(self.expr()?),
        };
        Ok(value)
    }

    fn words(&mut self, wide: bool) -> Parse<String> {
        let token = self.advance();
        let mut words = self.text_of(token).to_owned();
        while self.symbol_at(0, Symbol::Dot) && matches!(self.kind_at(1), TokenKind::Word(_)) {
            self.advance();
            let token = self.advance();
            words.push('.');
            words.push_str(self.text_of(token));
        }
        while wide && matches!(self.kind(), TokenKind::Word(_) | TokenKind::Quoted) {
            words.push(' ');
            // `CERTIFICATE [c]`: a name keeps its brackets.
            if self.kind() == TokenKind::Quoted {
                words.push_str(&self.ident()?.to_string());
                continue;
            }
            let token = self.advance();
            words.push_str(self.text_of(token));
        }
        Ok(words)
    }

    /// `[name]`, or `[a].[b]` joined by a dot.
    fn quoted_value(&mut self) -> Parse<OptionValue> {
        let mut ident: Ident = self.ident()?;
        while self.eat_symbol(Symbol::Dot) {
            ident.text.push('.');
            ident.text.push_str(&self.ident()?.text);
        }
        Ok(OptionValue::Name(ident))
    }

    /// `10`, `10 MB`, `5 PERCENT`, `10%`, `1 TO 3`.
    fn quantity(&mut self, wide: bool) -> Parse<OptionValue> {
        let token = self.advance();
        let amount = self.text_of(token).to_owned();
        if self.eat_symbol(Symbol::Percent) {
            return Ok(OptionValue::Quantity {
                amount,
                unit: "PERCENT".to_owned(),
            });
        }
        let unit_follows = matches!(self.kind(), TokenKind::Word(_)) && (wide || self.at_unit());
        if !unit_follows {
            self.at -= 1;
            return Ok(OptionValue::Expr(Expr::Literal(self.literal()?)));
        }
        let mut unit = self.word_upper()?;
        while wide && matches!(self.kind(), TokenKind::Word(_) | TokenKind::Integer) {
            let token = self.advance();
            unit.push(' ');
            unit.push_str(&self.text_of(token).to_ascii_uppercase());
        }
        Ok(OptionValue::Quantity { amount, unit })
    }

    fn at_unit(&self) -> bool {
        matches!(
            self.keyword(),
            K::KB
                | K::MB
                | K::GB
                | K::TB
                | K::PERCENT
                | K::ROWS
                | K::SECONDS
                | K::MINUTES
                | K::HOURS
                | K::DAYS
        )
    }
}

/// Outside parentheses a reserved word as a value is most likely the next statement.
fn may_be_value(word: K) -> bool {
    !word.is_reserved()
        || matches!(
            word,
            K::ALL
                | K::DEFAULT
                | K::EXTERNAL
                | K::FULL
                | K::PRIMARY
                | K::PUBLIC
                | K::SCHEMA
                | K::USER
        )
}
