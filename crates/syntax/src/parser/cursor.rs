//! The parser's place in the token list: looking, taking, reporting, and the bounds on recursion.

use super::{NESTING_MAX, Parse, Parser, TREE_HEIGHT_MAX};
use crate::ast::Span;
use crate::error::SyntaxError;
use crate::keyword::Keyword;
use crate::lexer::{Symbol, Token, TokenKind, string_value, unescape};

/// Less than this left on the stack, and the next level of recursion gets a segment of its own.
const STACK_LEFT_MIN_BYTES: usize = 256 << 10;
const STACK_SEGMENT_BYTES: usize = 4 << 20;

const END: Token = Token {
    kind: TokenKind::End,
    start: 0,
    end: 0,
    line: 1,
};

impl<'a> Parser<'a> {
    pub(super) fn token(&self, ahead: usize) -> Token {
        self.tokens
            .list
            .get(self.at + ahead)
            .or(self.tokens.list.last())
            .copied()
            .unwrap_or(END)
    }

    pub(super) fn kind(&self) -> TokenKind {
        self.token(0).kind
    }

    pub(super) fn kind_at(&self, ahead: usize) -> TokenKind {
        self.token(ahead).kind
    }

    /// The keyword at the cursor; `NONE` for anything else.
    pub(super) fn keyword(&self) -> Keyword {
        self.keyword_at(0)
    }

    pub(super) fn keyword_at(&self, ahead: usize) -> Keyword {
        match self.kind_at(ahead) {
            TokenKind::Word(keyword) => keyword,
            _ => Keyword::NONE,
        }
    }

    pub(super) fn at(&self, keyword: Keyword) -> bool {
        self.kind() == TokenKind::Word(keyword)
    }

    pub(super) fn at_any(&self, keywords: &[Keyword]) -> bool {
        keywords.contains(&self.keyword())
    }

    /// True if exactly these words come next.
    pub(super) fn at_words(&self, keywords: &[Keyword]) -> bool {
        keywords
            .iter()
            .enumerate()
            .all(|(ahead, keyword)| self.kind_at(ahead) == TokenKind::Word(*keyword))
    }

    pub(super) fn at_symbol(&self, symbol: Symbol) -> bool {
        self.kind() == TokenKind::Symbol(symbol)
    }

    pub(super) fn symbol_at(&self, ahead: usize, symbol: Symbol) -> bool {
        self.kind_at(ahead) == TokenKind::Symbol(symbol)
    }

    pub(super) fn at_end(&self) -> bool {
        self.kind() == TokenKind::End
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.token(0);
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    pub(super) fn eat(&mut self, keyword: Keyword) -> bool {
        let found = self.at(keyword);
        if found {
            self.at += 1;
        }
        found
    }

    /// Takes all of these words or none.
    pub(super) fn eat_words(&mut self, keywords: &[Keyword]) -> bool {
        let found = self.at_words(keywords);
        if found {
            self.at += keywords.len();
        }
        found
    }

    /// Takes the word at the cursor if it is one of these.
    pub(super) fn eat_any(&mut self, keywords: &[Keyword]) -> Option<Keyword> {
        let keyword = self.keyword();
        keywords.contains(&keyword).then(|| {
            self.at += 1;
            keyword
        })
    }

    pub(super) fn eat_symbol(&mut self, symbol: Symbol) -> bool {
        let found = self.at_symbol(symbol);
        if found {
            self.at += 1;
        }
        found
    }

    pub(super) fn eat_comma(&mut self) -> bool {
        self.eat_symbol(Symbol::Comma)
    }

    pub(super) fn eat_equal(&mut self) -> bool {
        self.eat_symbol(Symbol::Equal)
    }

    pub(super) fn expect(&mut self, keyword: Keyword) -> Parse<()> {
        if self.eat(keyword) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(super) fn expect_words(&mut self, keywords: &[Keyword]) -> Parse<()> {
        keywords
            .iter()
            .try_for_each(|keyword| self.expect(*keyword))
    }

    pub(super) fn expect_symbol(&mut self, symbol: Symbol) -> Parse<()> {
        if self.eat_symbol(symbol) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(super) fn expect_open(&mut self) -> Parse<()> {
        self.expect_symbol(Symbol::LeftParen)
    }

    pub(super) fn expect_close(&mut self) -> Parse<()> {
        self.expect_symbol(Symbol::RightParen)
    }

    pub(super) fn expect_equal(&mut self) -> Parse<()> {
        self.expect_symbol(Symbol::Equal)
    }

    pub(super) fn expect_end(&mut self) -> Parse<()> {
        if self.at_end() {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// `ON` or `OFF`.
    pub(super) fn expect_switch(&mut self) -> Parse<bool> {
        if self.eat(Keyword::ON) {
            return Ok(true);
        }
        self.expect(Keyword::OFF).map(|()| false)
    }

    /// `item, item, ...`
    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_comma() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `( item, item, ... )`
    pub(super) fn paren_list<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        self.expect_open()?;
        let items = self.list(item)?;
        self.expect_close()?;
        Ok(items)
    }

    /// The list in parentheses if one stands here, else nothing.
    pub(super) fn optional_paren_list<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        if self.at_symbol(Symbol::LeftParen) {
            self.paren_list(item)
        } else {
            Ok(Vec::new())
        }
    }

    /// The error for the token at the cursor. At the end of the batch it names the last token, as the product does.
    pub(super) fn unexpected(&self) -> SyntaxError {
        self.unexpected_at(0)
    }

    pub(super) fn unexpected_at(&self, ahead: usize) -> SyntaxError {
        let token = self.token(ahead);
        match token.kind {
            TokenKind::Word(Keyword::WITH) => SyntaxError::with_needs_semicolon(token.line),
            TokenKind::Word(keyword) if keyword.is_reserved() => {
                SyntaxError::near_keyword(token.line, self.text_of(token))
            }
            TokenKind::End => {
                let last = self.last_token();
                SyntaxError::near(last.line, &self.content_of(last))
            }
            _ => SyntaxError::near(token.line, &self.content_of(token)),
        }
    }

    /// The token before the end of the batch.
    pub(super) fn last_token(&self) -> Token {
        let last = self.tokens.list.len().checked_sub(2);
        last.and_then(|last| self.tokens.list.get(last))
            .copied()
            .unwrap_or(END)
    }

    pub(super) fn text_of(&self, token: Token) -> &'a str {
        self.text
            .get(token.start as usize..token.end as usize)
            .unwrap_or("")
    }

    /// Token text without its quotes.
    pub(super) fn content_of(&self, token: Token) -> String {
        let text = self.text_of(token);
        let inner = |prefix_bytes: usize| {
            text.get(prefix_bytes..text.len().saturating_sub(1))
                .unwrap_or("")
        };
        match token.kind {
            TokenKind::Quoted => unescape(inner(1), if text.starts_with('[') { ']' } else { '"' }),
            TokenKind::String => {
                string_value(inner(1), if text.starts_with('"') { '"' } else { '\'' })
            }
            TokenKind::NationalString => string_value(inner(2), '\''),
            _ => text.to_owned(),
        }
    }

    /// Offset of the next token, to open a span with.
    pub(super) fn mark(&self) -> Token {
        self.token(0)
    }

    /// The span from `first` to the last token taken.
    pub(super) fn span_from(&self, first: Token) -> Span {
        Span {
            start: first.start as usize,
            end: self.last_end().max(first.start as usize),
            line: first.line,
        }
    }

    fn last_end(&self) -> usize {
        self.at
            .checked_sub(1)
            .and_then(|last| self.tokens.list.get(last))
            .map_or(0, |token| token.end as usize)
    }

    /// Runs one level of recursion deeper and accounts for the height of what it built.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= NESTING_MAX {
            return Err(SyntaxError::nested_too_deeply(self.token(0).line));
        }
        self.until_asked -= 1;
        if self.until_asked == 0 {
            self.until_asked = super::ASKED_EVERY;
            self.ask_for_room()?;
        }
        self.depth += 1;
        let outer = std::mem::take(&mut self.height);
        // Frames differ in size between builds; a thread with little room left goes on in a new stack segment.
        let tree = stacker::maybe_grow(STACK_LEFT_MIN_BYTES, STACK_SEGMENT_BYTES, || parse(self))?;
        self.depth -= 1;
        self.height = outer.max(self.height + 1);
        Ok(tree)
    }

    #[cold]
    fn ask_for_room(&self) -> Parse<()> {
        match self.has_room {
            Some(has_room) if !has_room() => {
                Err(SyntaxError::insufficient_memory(self.token(0).line))
            }
            _ => Ok(()),
        }
    }

    /// A left-associative operator puts one more node on top of what stands so far.
    pub(super) fn grow(&mut self) -> Parse<()> {
        self.height += 1;
        if self.height > TREE_HEIGHT_MAX {
            return Err(SyntaxError::nested_too_deeply(self.token(0).line));
        }
        Ok(())
    }
}
