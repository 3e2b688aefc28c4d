//! Lexer: batch text to tokens in one pass.
//!
//! Theory: every token is sixteen bytes that point into the text, so a batch of many megabytes costs memory in proportion
//! and no second look. Contents of strings and quoted names are unescaped only when the parser takes them.
//!
//! Invariants
//! 1. Token ranges are ascending, do not overlap, and lie on character boundaries.
//! 2. The last token is `End`.
//! 3. Comments (`--`, nested `/* */`) and white space leave no token.

use crate::error::SyntaxError;
use crate::keyword::Keyword;

/// Largest batch in bytes; a token's offsets fit 32 bits.
pub const BATCH_BYTES_MAX: usize = 1 << 30;
/// Most tokens of a batch. A tree takes about a hundred bytes for each, so that this bounds what a text makes the server hold
/// (some 500 MB); a script of 20 MB has fewer.
pub(crate) const TOKENS_MAX: usize = 4_000_000;
/// Room made for tokens before they are counted.
const TOKENS_GUESS_MAX: usize = 1 << 16;
/// Tokens between two questions whether there is memory for more.
const ASKED_EVERY: usize = 1 << 14;
/// Bytes of a batch that may be read once more because the meaning of double quotes changes: each change may make all that
/// follows another text.
const READ_AGAIN_BYTES_MAX: usize = 64 << 20;
/// Longest identifier in UTF-16 units, as `sysname` holds it.
const IDENTIFIER_UNITS_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An unquoted word; `Keyword::NONE` when the grammar does not know it.
    Word(Keyword),
    /// `[x]`, or `"x"` with QUOTED_IDENTIFIER on.
    Quoted,
    /// `'x'`, or `"x"` with QUOTED_IDENTIFIER off.
    String,
    NationalString,
    Integer,
    Decimal,
    Float,
    Money,
    Binary,
    /// `@x`
    Variable,
    /// `@@x`
    Global,
    /// `$action`, `$partition`
    Dollar,
    Symbol(Symbol),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    Comma,
    Semicolon,
    Dot,
    Colon,
    DoubleColon,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Ampersand,
    Pipe,
    DoublePipe,
    Caret,
    Tilde,
    Equal,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    NotEqual,
    NotLess,
    NotGreater,
    ShiftLeft,
    ShiftRight,
    PlusEqual,
    MinusEqual,
    StarEqual,
    SlashEqual,
    PercentEqual,
    AmpersandEqual,
    PipeEqual,
    DoublePipeEqual,
    CaretEqual,
    Bang,
    Question,
    /// Anything which no rule accepts; the parser reports it.
    Stray,
}

/// Tokens of a text as far as it can be read.
#[derive(Default)]
pub(crate) struct Tokens {
    pub list: Vec<Token>,
    /// Why the rest, behind the last token, cannot be read. Unclosed quotes and comments have the errors the product gives.
    pub errors: Vec<SyntaxError>,
    read_again_bytes: usize,
}

/// Says whether there is memory for more of a text's tokens and tree.
pub(crate) type HasRoom<'a> = Option<&'a dyn Fn() -> bool>;

impl Tokens {
    /// The tokens of a text; `quoted_identifier` says what double quotes mean.
    pub fn of(text: &str, quoted_identifier: bool, has_room: HasRoom<'_>) -> Tokens {
        let mut tokens = Tokens::default();
        if text.len() > BATCH_BYTES_MAX {
            tokens.errors = vec![SyntaxError::nested_too_deeply(1)];
            return tokens;
        }
        // A guess for scripts; a text that is one long literal has few tokens.
        tokens
            .list
            .reserve((text.len() / 6 + 1).min(TOKENS_GUESS_MAX));
        tokens.read(text, 0, 1, quoted_identifier, has_room);
        tokens
    }

    /// Reads the text again from the token at `from`, with double quotes meaning something else.
    pub fn read_again(
        &mut self,
        text: &str,
        from: usize,
        quoted_identifier: bool,
        has_room: HasRoom<'_>,
    ) {
        let Some(first) = self.list.get(from).copied() else {
            return;
        };
        let start = first.start as usize;
        self.read_again_bytes += text.len().saturating_sub(start);
        self.list.truncate(from);
        self.errors.clear();
        if self.read_again_bytes > READ_AGAIN_BYTES_MAX {
            self.end_here(first, vec![SyntaxError::nested_too_deeply(first.line)]);
            return;
        }
        self.read(text, start, first.line, quoted_identifier, has_room);
    }

    /// The rest, from this token on, cannot be read.
    fn end_here(&mut self, at: Token, errors: Vec<SyntaxError>) {
        self.errors = errors;
        self.list.push(Token {
            kind: TokenKind::End,
            end: at.start,
            ..at
        });
    }

    fn read(
        &mut self,
        text: &str,
        at: usize,
        line: u32,
        quoted_identifier: bool,
        has_room: HasRoom<'_>,
    ) {
        let mut lexer = Lexer {
            text,
            bytes: text.as_bytes(),
            at,
            line,
            quoted_identifier,
        };
        loop {
            let (start, line) = (lexer.at as u32, lexer.line);
            let count = self.list.len();
            let is_full = count == TOKENS_MAX
                || count.is_multiple_of(ASKED_EVERY)
                    && has_room.is_some_and(|has_room| !has_room());
            let token = match is_full {
                true => Err(vec![SyntaxError::insufficient_memory(line)]),
                false => lexer.next_token(),
            };
            match token {
                Ok(token) => {
                    self.list.push(token);
                    if token.kind == TokenKind::End {
                        return;
                    }
                }
                Err(errors) => {
                    let (kind, end) = (TokenKind::End, start);
                    let at = Token {
                        kind,
                        start,
                        end,
                        line,
                    };
                    return self.end_here(at, errors);
                }
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
    quoted_identifier: bool,
}

type Lexed<T> = Result<T, Vec<SyntaxError>>;

impl<'a> Lexer<'a> {
    fn next_token(&mut self) -> Lexed<Token> {
        self.skip_blanks()?;
        let (start, line) = (self.at, self.line);
        let kind = match self.peek(0) {
            None => TokenKind::End,
            Some(byte) => self.token_starting_with(byte)?,
        };
        Ok(Token {
            kind,
            start: start as u32,
            end: self.at as u32,
            line,
        })
    }

    fn token_starting_with(&mut self, byte: u8) -> Lexed<TokenKind> {
        match byte {
            b'\'' => self.string(1, TokenKind::String),
            b'N' | b'n' if self.peek(1) == Some(b'\'') => self.string(2, TokenKind::NationalString),
            b'"' if !self.quoted_identifier => self.string(1, TokenKind::String),
            b'"' => self.quoted(b'"'),
            b'[' => self.quoted(b']'),
            b'0'..=b'9' => Ok(self.number()),
            b'.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => Ok(self.number()),
            b'@' => self.variable(),
            b'$' => self.dollar(),
            _ if is_word_start(self.peek_char()) => self.word(),
            _ if is_currency(self.peek_char()) => Ok(self.money()),
            _ => Ok(TokenKind::Symbol(self.symbol())),
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn peek_char(&self) -> char {
        match self.peek(0) {
            Some(byte) if byte.is_ascii() => byte as char,
            Some(_) => self
                .text
                .get(self.at..)
                .and_then(|rest| rest.chars().next())
                .unwrap_or('\0'),
            None => '\0',
        }
    }

    fn skip_blanks(&mut self) -> Lexed<()> {
        loop {
            match self.peek(0) {
                Some(b'\n') => {
                    self.line += 1;
                    self.at += 1;
                }
                Some(0..=b' ') => self.at += 1,
                Some(b'-') if self.peek(1) == Some(b'-') => self.skip_line(),
                Some(b'/') if self.peek(1) == Some(b'*') => self.skip_comment()?,
                Some(byte) if !byte.is_ascii() => {
                    let ch = self.peek_char();
                    if !ch.is_whitespace() && ch != '\u{feff}' && ch != '\u{200b}' {
                        return Ok(());
                    }
                    self.at += ch.len_utf8();
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Lexed<()> {
        let line = self.line;
        let mut open = 0u32;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    open += 1;
                    self.at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    open -= 1;
                    self.at += 2;
                    if open == 0 {
                        return Ok(());
                    }
                }
                (Some(byte), _) => {
                    self.line += u32::from(byte == b'\n');
                    self.at += 1;
                }
                (None, _) => return Err(vec![SyntaxError::unclosed_comment(line)]),
            }
        }
    }

    /// Runs to the closing quote; a doubled one stands for itself.
    fn run_quoted(&mut self, close: u8) -> Lexed<()> {
        let (start, line) = (self.at, self.line);
        loop {
            match self.peek(0) {
                Some(byte) if byte == close => {
                    self.at += 1;
                    if self.peek(0) != Some(close) {
                        return Ok(());
                    }
                    self.at += 1;
                }
                Some(byte) => {
                    self.line += u32::from(byte == b'\n');
                    self.at += 1;
                }
                None => {
                    let content = self.text.get(start..).unwrap_or("");
                    return Err(vec![
                        SyntaxError::unclosed_quote(line, content),
                        SyntaxError::near(line, content),
                    ]);
                }
            }
        }
    }

    fn string(&mut self, prefix_bytes: usize, kind: TokenKind) -> Lexed<TokenKind> {
        let close = if self.peek(0) == Some(b'"') {
            b'"'
        } else {
            b'\''
        };
        self.at += prefix_bytes;
        self.run_quoted(close)?;
        Ok(kind)
    }

    fn quoted(&mut self, close: u8) -> Lexed<TokenKind> {
        let (start, line) = (self.at, self.line);
        self.at += 1;
        self.run_quoted(close)?;
        let content = unescape(
            self.text.get(start + 1..self.at - 1).unwrap_or(""),
            close as char,
        );
        self.check_identifier(&content, line)?;
        Ok(TokenKind::Quoted)
    }

    fn check_identifier(&self, content: &str, line: u32) -> Lexed<()> {
        if content.len() > IDENTIFIER_UNITS_MAX
            && content.encode_utf16().count() > IDENTIFIER_UNITS_MAX
        {
            return Err(vec![SyntaxError::identifier_too_long(line, content)]);
        }
        Ok(())
    }

    fn run_word(&mut self) {
        loop {
            match self.peek(0) {
                Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'@' | b'#' | b'$') => {
                    self.at += 1
                }
                Some(byte) if !byte.is_ascii() => {
                    let ch = self.peek_char();
                    if !ch.is_alphanumeric() && !is_combining(ch) {
                        return;
                    }
                    self.at += ch.len_utf8();
                }
                _ => return,
            }
        }
    }

    fn word(&mut self) -> Lexed<TokenKind> {
        let start = self.at;
        self.run_word();
        let word = self.text.get(start..self.at).unwrap_or("");
        self.check_identifier(word, self.line)?;
        Ok(TokenKind::Word(Keyword::find(word)))
    }

    fn variable(&mut self) -> Lexed<TokenKind> {
        let start = self.at;
        let kind = if self.peek(1) == Some(b'@') {
            TokenKind::Global
        } else {
            TokenKind::Variable
        };
        self.run_word();
        self.check_identifier(self.text.get(start..self.at).unwrap_or(""), self.line)?;
        Ok(kind)
    }

    fn dollar(&mut self) -> Lexed<TokenKind> {
        if self
            .peek(1)
            .is_some_and(|next| next.is_ascii_alphabetic() || next == b'_')
        {
            self.at += 1;
            self.run_word();
            return Ok(TokenKind::Dollar);
        }
        Ok(self.money())
    }

    fn money(&mut self) -> TokenKind {
        self.at += self.peek_char().len_utf8();
        let blanks = self
            .bytes
            .iter()
            .skip(self.at)
            .take_while(|byte| **byte == b' ')
            .count();
        if self.peek(blanks).is_some_and(|next| next.is_ascii_digit()) {
            self.at += blanks;
        }
        self.run_digits();
        if self.peek(0) == Some(b'.') {
            self.at += 1;
            self.run_digits();
        }
        TokenKind::Money
    }

    fn run_digits(&mut self) {
        while self.peek(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> TokenKind {
        if self.peek(0) == Some(b'0') && matches!(self.peek(1), Some(b'x' | b'X')) {
            return self.binary();
        }
        let mut kind = TokenKind::Integer;
        self.run_digits();
        if self.peek(0) == Some(b'.') {
            kind = TokenKind::Decimal;
            self.at += 1;
            self.run_digits();
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) && self.exponent_follows() {
            kind = TokenKind::Float;
            self.at += 1;
            if matches!(self.peek(0), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.run_digits();
        }
        kind
    }

    /// `1e5` and `1e+5` are floats, and so is a bare `1e`; `1em` is a number beside a name.
    fn exponent_follows(&self) -> bool {
        match self.peek(1) {
            Some(b'0'..=b'9') => true,
            Some(b'+' | b'-') => self.peek(2).is_some_and(|next| next.is_ascii_digit()),
            Some(byte) => !(byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()),
            None => true,
        }
    }

    /// A backslash before a line end continues the constant on the next line.
    fn binary(&mut self) -> TokenKind {
        self.at += 2;
        loop {
            match (self.peek(0), self.peek(1), self.peek(2)) {
                (Some(byte), _, _) if byte.is_ascii_hexdigit() => self.at += 1,
                (Some(b'\\'), Some(b'\n'), _) => {
                    self.line += 1;
                    self.at += 2;
                }
                (Some(b'\\'), Some(b'\r'), Some(b'\n')) => {
                    self.line += 1;
                    self.at += 3;
                }
                _ => return TokenKind::Binary,
            }
        }
    }

    fn symbol(&mut self) -> Symbol {
        let first = self.peek_char();
        let (symbol, bytes) = match (first, self.peek(1)) {
            ('(', _) => (Symbol::LeftParen, 1),
            (')', _) => (Symbol::RightParen, 1),
            ('{', _) => (Symbol::LeftBrace, 1),
            ('}', _) => (Symbol::RightBrace, 1),
            (',', _) => (Symbol::Comma, 1),
            (';', _) => (Symbol::Semicolon, 1),
            ('.', _) => (Symbol::Dot, 1),
            (':', Some(b':')) => (Symbol::DoubleColon, 2),
            (':', _) => (Symbol::Colon, 1),
            ('+', Some(b'=')) => (Symbol::PlusEqual, 2),
            ('+', _) => (Symbol::Plus, 1),
            ('-', Some(b'=')) => (Symbol::MinusEqual, 2),
            ('-', _) => (Symbol::Minus, 1),
            ('*', Some(b'=')) => (Symbol::StarEqual, 2),
            ('*', _) => (Symbol::Star, 1),
            ('/', Some(b'=')) => (Symbol::SlashEqual, 2),
            ('/', _) => (Symbol::Slash, 1),
            ('%', Some(b'=')) => (Symbol::PercentEqual, 2),
            ('%', _) => (Symbol::Percent, 1),
            ('&', Some(b'=')) => (Symbol::AmpersandEqual, 2),
            ('&', _) => (Symbol::Ampersand, 1),
            ('|', Some(b'=')) => (Symbol::PipeEqual, 2),
            ('|', Some(b'|')) if self.peek(2) == Some(b'=') => (Symbol::DoublePipeEqual, 3),
            ('|', Some(b'|')) => (Symbol::DoublePipe, 2),
            ('|', _) => (Symbol::Pipe, 1),
            ('^', Some(b'=')) => (Symbol::CaretEqual, 2),
            ('^', _) => (Symbol::Caret, 1),
            ('~', _) => (Symbol::Tilde, 1),
            ('=', _) => (Symbol::Equal, 1),
            ('<', Some(b'=')) => (Symbol::LessOrEqual, 2),
            ('<', Some(b'>')) => (Symbol::NotEqual, 2),
            ('<', Some(b'<')) => (Symbol::ShiftLeft, 2),
            ('<', _) => (Symbol::Less, 1),
            ('>', Some(b'=')) => (Symbol::GreaterOrEqual, 2),
            ('>', Some(b'>')) => (Symbol::ShiftRight, 2),
            ('>', _) => (Symbol::Greater, 1),
            ('!', Some(b'=')) => (Symbol::NotEqual, 2),
            ('!', Some(b'<')) => (Symbol::NotLess, 2),
            ('!', Some(b'>')) => (Symbol::NotGreater, 2),
            ('!', _) => (Symbol::Bang, 1),
            ('?', _) => (Symbol::Question, 1),
            (other, _) => (Symbol::Stray, other.len_utf8()),
        };
        self.at += bytes;
        symbol
    }
}

fn is_word_start(ch: char) -> bool {
    ch.is_ascii_alphabetic() || ch == '_' || ch == '#' || (!ch.is_ascii() && ch.is_alphabetic())
}

fn is_combining(ch: char) -> bool {
    matches!(
        ch,
        '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{203f}' | '\u{2040}'
    )
}

fn is_currency(ch: char) -> bool {
    matches!(
        ch,
        '\u{a2}'..='\u{a5}' | '\u{9f2}' | '\u{9f3}' | '\u{e3f}' | '\u{17db}' | '\u{20a0}'..='\u{20b1}' | '\u{fdfc}'
        | '\u{fe69}' | '\u{ff04}' | '\u{ffe0}' | '\u{ffe1}' | '\u{ffe5}' | '\u{ffe6}'
    )
}

/// Halves doubled closing quotes.
pub(crate) fn unescape(content: &str, close: char) -> String {
    let mut text = String::with_capacity(content.len());
    let mut chars = content.chars();
    while let Some(ch) = chars.next() {
        text.push(ch);
        if ch == close {
            chars.next();
        }
    }
    text
}

/// The value of a string constant: quotes halved, and a backslash with the line end after it dropped.
pub(crate) fn string_value(content: &str, close: char) -> String {
    if !content.contains(close) && !content.contains("\\\n") && !content.contains("\\\r\n") {
        return content.to_owned();
    }
    unescape(content, close)
        .replace("\\\r\n", "")
        .replace("\\\n", "")
}
