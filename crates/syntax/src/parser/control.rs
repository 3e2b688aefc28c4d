//! Control flow, declarations, cursors, transactions, and statements about the session.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, Token, TokenKind};

impl Parser<'_> {
    pub(super) fn goto(&mut self) -> Parse<StatementKind> {
        self.expect(K::GOTO)?;
        self.ident().map(StatementKind::Goto)
    }

    pub(super) fn return_statement(&mut self) -> Parse<StatementKind> {
        self.expect(K::RETURN)?;
        let value = if self.at_expr() {
            Some(self.expr()?)
        } else {
            None
        };
        Ok(StatementKind::Return(value))
    }

    /// True if an expression can begin here, and nothing else: a label does not count.
    fn at_expr(&self) -> bool {
        match self.kind() {
            TokenKind::Word(keyword) if keyword.is_reserved() => matches!(
                keyword,
                K::NULL
                    | K::CASE
                    | K::COALESCE
                    | K::CONVERT
                    | K::TRY_CONVERT
                    | K::NULLIF
                    | K::LEFT
                    | K::RIGHT
                    | K::USER
                    | K::CURRENT_USER
                    | K::SESSION_USER
                    | K::SYSTEM_USER
                    | K::CURRENT_TIMESTAMP
            ),
            TokenKind::Word(_) | TokenKind::Quoted => {
                !self.symbol_at(1, Symbol::Colon)
                    && (!self.at(K::THROW) || self.symbol_at(1, Symbol::Dot))
            }
            TokenKind::Symbol(symbol) => matches!(
                symbol,
                Symbol::LeftParen
                    | Symbol::Minus
                    | Symbol::Plus
                    | Symbol::Tilde
                    | Symbol::LeftBrace
                    | Symbol::DoubleColon
            ),
            TokenKind::End => false,
            _ => true,
        }
    }

    pub(super) fn throw(&mut self) -> Parse<StatementKind> {
        self.expect(K::THROW)?;
        if !matches!(self.kind(), TokenKind::Integer | TokenKind::Variable) {
            return Ok(StatementKind::Throw(None));
        }
        let number = self.expr()?;
        self.expect_symbol(Symbol::Comma)?;
        let message = self.expr()?;
        self.expect_symbol(Symbol::Comma)?;
        let state = self.expr()?;
        Ok(StatementKind::Throw(Some(Throw {
            number,
            message,
            state,
        })))
    }

    pub(super) fn raise_error(&mut self) -> Parse<StatementKind> {
        self.expect(K::RAISERROR)?;
        if !self.eat_symbol(Symbol::LeftParen) {
            return self.old_raise_error();
        }
        let message = self.expr()?;
        self.expect_symbol(Symbol::Comma)?;
        let severity = Some(self.expr()?);
        self.expect_symbol(Symbol::Comma)?;
        let state = Some(self.expr()?);
        let mut args = Vec::new();
        while self.eat_comma() {
            args.push(self.expr()?);
        }
        self.expect_close()?;
        let mut raise = RaisError {
            message,
            severity,
            state,
            args,
            log: false,
            no_wait: false,
            set_error: false,
        };
        if self.eat(K::WITH) {
            self.raise_options(&mut raise)?;
        }
        Ok(StatementKind::RaisError(raise))
    }

    /// `RAISERROR 50001 'text'`: the number is the only argument, the text the message.
    fn old_raise_error(&mut self) -> Parse<StatementKind> {
        let number = self.expr()?;
        self.eat_comma();
        let message = self.expr()?;
        let raise = RaisError {
            message,
            severity: None,
            state: None,
            args: vec![number],
            log: false,
            no_wait: false,
            set_error: false,
        };
        Ok(StatementKind::RaisError(raise))
    }

    fn raise_options(&mut self, raise: &mut RaisError) -> Parse<()> {
        self.list(|parser| {
            match parser.eat_any(&[K::LOG, K::NOWAIT, K::SETERROR]) {
                Some(K::LOG) => raise.log = true,
                Some(K::NOWAIT) => raise.no_wait = true,
                Some(_) => raise.set_error = true,
                None => return Err(parser.unexpected()),
            }
            Ok(())
        })?;
        Ok(())
    }

    pub(super) fn print(&mut self) -> Parse<StatementKind> {
        self.expect(K::PRINT)?;
        self.expr().map(StatementKind::Print)
    }

    pub(super) fn wait_for(&mut self) -> Parse<StatementKind> {
        self.expect(K::WAITFOR)?;
        if self.eat(K::DELAY) {
            return self
                .expr()
                .map(|delay| StatementKind::WaitFor(WaitFor::Delay(delay)));
        }
        if self.eat(K::TIME) {
            return self
                .expr()
                .map(|time| StatementKind::WaitFor(WaitFor::Time(time)));
        }
        let first = self.mark();
        self.skip_parenthesis()?;
        if self.eat_comma() {
            self.expect(K::TIMEOUT)?;
            self.expr()?;
        }
        let text = self.span_from(first).text(self.text).to_owned();
        Ok(StatementKind::WaitFor(WaitFor::Broker(text)))
    }

    /// Passes over `( ... )` with whatever is inside.
    pub(super) fn skip_parenthesis(&mut self) -> Parse<()> {
        self.expect_open()?;
        let mut open = 1;
        while open > 0 {
            match self.kind() {
                TokenKind::Symbol(Symbol::LeftParen) => open += 1,
                TokenKind::Symbol(Symbol::RightParen) => open -= 1,
                TokenKind::End => return Err(self.unexpected()),
                _ => {}
            }
            self.advance();
        }
        Ok(())
    }

    pub(super) fn declare(&mut self) -> Parse<StatementKind> {
        self.expect(K::DECLARE)?;
        if !self.at_variable() {
            return self.declare_cursor();
        }
        let mut declarations = self.list(Self::declaration)?;
        match declarations.pop() {
            Some(Declaration {
                name,
                kind: DeclarationKind::Table(definition),
                span,
            }) if declarations.is_empty() => Ok(StatementKind::DeclareTable(DeclareTable {
                name,
                definition: *definition,
                span,
            })),
            last => {
                declarations.extend(last);
                Ok(StatementKind::Declare(declarations))
            }
        }
    }

    fn declaration(&mut self) -> Parse<Declaration> {
        let first = self.mark();
        let name = self.variable()?;
        self.eat(K::AS);
        let kind = if self.eat(K::CURSOR) {
            DeclarationKind::Cursor
        } else if self.at(K::TABLE) {
            self.advance();
            DeclarationKind::Table(Box::new(self.table_definition()?))
        } else {
            let data_type = self.type_name()?;
            // Natively compiled modules declare nullability; it means nothing to a variable.
            self.optional_nullability()?;
            let value = if self.eat_equal() {
                Some(self.expr()?)
            } else {
                None
            };
            DeclarationKind::Scalar { data_type, value }
        };
        Ok(Declaration {
            name,
            kind,
            span: self.span_from(first),
        })
    }

    fn declare_cursor(&mut self) -> Parse<StatementKind> {
        let name = self.ident()?;
        let (mut insensitive, mut scroll) = (false, None);
        loop {
            if self.eat(K::INSENSITIVE) {
                insensitive = true;
            } else if self.eat(K::SCROLL) {
                scroll = Some(CursorScroll::Scroll);
            } else {
                break;
            }
        }
        self.expect(K::CURSOR)?;
        let mut definition = self.cursor_definition()?;
        definition.scroll = definition.scroll.or(scroll);
        Ok(StatementKind::DeclareCursor(Box::new(DeclareCursor {
            name,
            insensitive,
            definition,
        })))
    }

    /// After CURSOR: options, FOR, the query, and FOR UPDATE.
    pub(super) fn cursor_definition(&mut self) -> Parse<CursorDefinition> {
        let (mut scope, mut scroll, mut kind, mut concurrency, mut type_warning) =
            (None, None, None, None, false);
        let mut words = Vec::new();
        while !self.at(K::FOR) {
            let word = self.keyword();
            self.refuse_conflict(&words)?;
            words.push(self.token(0));
            match word {
                K::LOCAL => scope = Some(CursorScope::Local),
                K::GLOBAL => scope = Some(CursorScope::Global),
                K::FORWARD_ONLY => scroll = Some(CursorScroll::ForwardOnly),
                K::SCROLL => scroll = Some(CursorScroll::Scroll),
                K::STATIC | K::INSENSITIVE => kind = Some(CursorKind::Static),
                K::KEYSET => kind = Some(CursorKind::Keyset),
                K::DYNAMIC => kind = Some(CursorKind::Dynamic),
                K::FAST_FORWARD => kind = Some(CursorKind::FastForward),
                K::READ_ONLY => concurrency = Some(CursorConcurrency::ReadOnly),
                K::SCROLL_LOCKS => concurrency = Some(CursorConcurrency::ScrollLocks),
                K::OPTIMISTIC => concurrency = Some(CursorConcurrency::Optimistic),
                K::TYPE_WARNING => type_warning = true,
                _ => return Err(self.unexpected()),
            }
            self.advance();
        }
        self.expect(K::FOR)?;
        let query = self.query()?;
        let update = self.cursor_update()?;
        Ok(CursorDefinition {
            scope,
            scroll,
            kind,
            concurrency,
            type_warning,
            query,
            update,
        })
    }

    /// Error 1048 for an option that contradicts one before it. Those of one list exclude each other.
    fn refuse_conflict(&self, before: &[Token]) -> Parse<()> {
        let exclusive: [&[K]; 7] = [
            &[K::LOCAL, K::GLOBAL],
            &[K::FORWARD_ONLY, K::SCROLL],
            &[K::STATIC, K::KEYSET, K::DYNAMIC, K::FAST_FORWARD],
            &[K::READ_ONLY, K::SCROLL_LOCKS, K::OPTIMISTIC],
            &[K::FAST_FORWARD, K::SCROLL],
            &[K::FAST_FORWARD, K::SCROLL_LOCKS, K::OPTIMISTIC],
            &[K::STATIC, K::SCROLL_LOCKS],
        ];
        let word = self.keyword();
        let excludes = |other: &&Token| match other.kind {
            TokenKind::Word(other) if other != word => exclusive
                .iter()
                .any(|list| list.contains(&word) && list.contains(&other)),
            _ => false,
        };
        let Some(other) = before.iter().find(excludes) else {
            return Ok(());
        };
        let text = |token: Token| self.text_of(token).to_uppercase();
        let (first, second) = (text(*other), text(self.token(0)));
        let message = format!("Conflicting cursor options {first} and {second}.");
        Err(SyntaxError::new(1048, self.token(0).line, message))
    }

    fn cursor_update(&mut self) -> Parse<Option<CursorUpdate>> {
        if !self.eat(K::FOR) {
            return Ok(None);
        }
        if self.eat(K::READ_ONLY) || self.eat_words(&[K::READ, K::ONLY]) {
            return Ok(Some(CursorUpdate::ReadOnly));
        }
        self.expect(K::UPDATE)?;
        let columns = if self.eat(K::OF) {
            self.list(Self::ident)?
        } else {
            Vec::new()
        };
        Ok(Some(CursorUpdate::Update(columns)))
    }

    pub(super) fn cursor_ref(&mut self) -> Parse<CursorRef> {
        if self.at_variable() {
            return self.variable().map(CursorRef::Variable);
        }
        let global = self.at(K::GLOBAL) && self.ident_at(1);
        if global {
            self.advance();
        }
        Ok(CursorRef::Name {
            name: self.ident()?,
            global,
        })
    }

    pub(super) fn open(&mut self) -> Parse<StatementKind> {
        self.expect(K::OPEN)?;
        match self.keyword() {
            K::MASTER if self.keyword_at(1) == K::KEY => return self.open_master_key(),
            K::SYMMETRIC if self.keyword_at(1) == K::KEY => return self.other_ddl("OPEN"),
            _ => {}
        }
        self.cursor_ref().map(StatementKind::Open)
    }

    pub(super) fn close(&mut self) -> Parse<StatementKind> {
        self.expect(K::CLOSE)?;
        match self.keyword() {
            K::MASTER if self.keyword_at(1) == K::KEY => return self.close_master_key(),
            K::SYMMETRIC if self.keyword_at(1) == K::KEY => return self.other_ddl("CLOSE"),
            _ if self.at_words(&[K::ALL, K::SYMMETRIC]) => return self.other_ddl("CLOSE"),
            _ => {}
        }
        self.cursor_ref().map(StatementKind::Close)
    }

    pub(super) fn deallocate(&mut self) -> Parse<StatementKind> {
        self.expect(K::DEALLOCATE)?;
        self.eat(K::CURSOR);
        self.cursor_ref().map(StatementKind::Deallocate)
    }

    pub(super) fn fetch(&mut self) -> Parse<StatementKind> {
        self.expect(K::FETCH)?;
        let direction = self.fetch_direction()?;
        let cursor = self.cursor_ref()?;
        let into = if self.eat(K::INTO) {
            self.list(Self::variable)?
        } else {
            Vec::new()
        };
        Ok(StatementKind::Fetch(Fetch {
            direction,
            cursor,
            into,
        }))
    }

    fn fetch_direction(&mut self) -> Parse<FetchDirection> {
        let from_follows = self.keyword_at(1) == K::FROM;
        let direction = match self.keyword() {
            K::NEXT if from_follows => FetchDirection::Next,
            K::PRIOR if from_follows => FetchDirection::Prior,
            K::FIRST if from_follows => FetchDirection::First,
            K::LAST if from_follows => FetchDirection::Last,
            K::ABSOLUTE => {
                self.advance();
                let row = self.expr()?;
                self.expect(K::FROM)?;
                return Ok(FetchDirection::Absolute(row));
            }
            K::RELATIVE => {
                self.advance();
                let rows = self.expr()?;
                self.expect(K::FROM)?;
                return Ok(FetchDirection::Relative(rows));
            }
            _ => {
                self.eat(K::FROM);
                return Ok(FetchDirection::Next);
            }
        };
        self.advance();
        self.advance();
        Ok(direction)
    }

    pub(super) fn begin_transaction(&mut self) -> Parse<StatementKind> {
        self.expect(K::BEGIN)?;
        let distributed = self.eat(K::DISTRIBUTED);
        if self.eat_any(&[K::TRAN, K::TRANSACTION]).is_none() {
            return Err(self.unexpected());
        }
        let name = self.optional_transaction_name()?;
        let mark = if self.eat_words(&[K::WITH, K::MARK]) {
            Some(if self.at_string() {
                self.string()?
            } else {
                String::new()
            })
        } else {
            None
        };
        Ok(StatementKind::BeginTransaction(BeginTransaction {
            distributed,
            name,
            mark,
        }))
    }

    fn optional_transaction_name(&mut self) -> Parse<Option<TransactionName>> {
        if self.at_variable() {
            return self
                .variable()
                .map(|name| Some(TransactionName::Variable(name)));
        }
        let next_statement = self.symbol_at(1, Symbol::Colon) || self.at(K::THROW);
        if !self.at_ident() || next_statement {
            return Ok(None);
        }
        self.ident().map(|name| Some(TransactionName::Name(name)))
    }

    pub(super) fn commit(&mut self) -> Parse<StatementKind> {
        self.expect(K::COMMIT)?;
        let name = if self.eat_any(&[K::TRAN, K::TRANSACTION]).is_some() {
            self.optional_transaction_name()?
        } else {
            self.eat(K::WORK);
            None
        };
        let mut delayed_durability = None;
        if self.at(K::WITH) && self.symbol_at(1, Symbol::LeftParen) {
            self.advance();
            self.expect_open()?;
            self.expect(K::DELAYED_DURABILITY)?;
            self.expect_equal()?;
            delayed_durability = Some(self.expect_switch()?);
            self.expect_close()?;
        }
        Ok(StatementKind::Commit(Commit {
            name,
            delayed_durability,
        }))
    }

    pub(super) fn rollback(&mut self) -> Parse<StatementKind> {
        self.expect(K::ROLLBACK)?;
        if self.eat_any(&[K::TRAN, K::TRANSACTION]).is_some() {
            return self
                .optional_transaction_name()
                .map(StatementKind::Rollback);
        }
        self.eat(K::WORK);
        Ok(StatementKind::Rollback(None))
    }

    pub(super) fn save_transaction(&mut self) -> Parse<StatementKind> {
        self.expect(K::SAVE)?;
        if self.eat_any(&[K::TRAN, K::TRANSACTION]).is_none() {
            return Err(self.unexpected());
        }
        match self.optional_transaction_name()? {
            Some(name) => Ok(StatementKind::SaveTransaction(name)),
            None => Err(self.unexpected()),
        }
    }

    pub(super) fn use_database(&mut self) -> Parse<StatementKind> {
        self.expect(K::USE)?;
        self.ident().map(StatementKind::Use)
    }

    pub(super) fn execute_as(&mut self) -> Parse<StatementKind> {
        self.advance();
        if matches!(self.keyword_at(1), K::OWNER | K::SELF) {
            // Only modules run as those.
            self.advance();
            return Err(self.unexpected());
        }
        let context = self.execute_context()?;
        let (mut no_revert, mut cookie) = (false, None);
        if self.eat(K::WITH) {
            if self.eat_words(&[K::NO, K::REVERT]) {
                no_revert = true;
            } else {
                self.expect_words(&[K::COOKIE, K::INTO])?;
                cookie = Some(self.variable()?);
            }
        }
        Ok(StatementKind::ExecuteAs(ExecuteAs {
            context,
            no_revert,
            cookie,
        }))
    }

    /// `AS CALLER | SELF | OWNER | 'name' | LOGIN = x | USER = x`.
    pub(super) fn execute_context(&mut self) -> Parse<ExecuteContext> {
        self.expect(K::AS)?;
        if self.at_string() {
            return self.string().map(ExecuteContext::Name);
        }
        match self.eat_any(&[K::CALLER, K::SELF, K::OWNER, K::LOGIN, K::USER]) {
            Some(K::CALLER) => Ok(ExecuteContext::Caller),
            Some(K::SELF) => Ok(ExecuteContext::SelfUser),
            Some(K::OWNER) => Ok(ExecuteContext::Owner),
            Some(kind) => {
                self.expect_equal()?;
                let name = self.expr()?;
                Ok(if kind == K::LOGIN {
                    ExecuteContext::Login(name)
                } else {
                    ExecuteContext::User(name)
                })
            }
            None => self.ident().map(|name| ExecuteContext::Name(name.text)),
        }
    }

    pub(super) fn revert(&mut self) -> Parse<StatementKind> {
        self.expect(K::REVERT)?;
        let mut cookie = None;
        if self.eat_words(&[K::WITH, K::COOKIE]) {
            self.expect_equal()?;
            cookie = Some(self.variable()?);
        }
        Ok(StatementKind::Revert { cookie })
    }

    /// The forerunner of EXECUTE AS.
    pub(super) fn set_user(&mut self) -> Parse<StatementKind> {
        self.expect(K::SETUSER)?;
        if !self.at_string() && !self.at_variable() {
            return Ok(StatementKind::Revert { cookie: None });
        }
        let name = self.expr()?;
        self.eat_words(&[K::WITH, K::NORESET]);
        let context = ExecuteContext::User(name);
        Ok(StatementKind::ExecuteAs(ExecuteAs {
            context,
            no_revert: false,
            cookie: None,
        }))
    }
}
