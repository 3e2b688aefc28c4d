//! Statements: the batch, blocks, and which grammar a first word calls for.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn batch(&mut self) -> Parse<Vec<Statement>> {
        let mut statements = Vec::new();
        self.eat_semicolons();
        while !self.at_end() {
            self.check_batch_place(statements.is_empty())?;
            let statement = match statements.is_empty() && self.at_bare_call() {
                true => self.bare_call()?,
                false => self.statement()?,
            };
            if matches!(
                statement.kind,
                StatementKind::CreateView(_) | StatementKind::CreateFunction(_)
            ) {
                self.expect_end()?;
            }
            statements.push(statement);
        }
        Ok(statements)
    }

    fn eat_semicolons(&mut self) {
        while self.eat_symbol(Symbol::Semicolon) {}
    }

    /// Modules must stand alone in their batch.
    fn check_batch_place(&self, first: bool) -> Parse<()> {
        if first {
            return Ok(());
        }
        match self.module_word(0) {
            Some(name) => Err(SyntaxError::must_start_batch(self.token(0).line, name)),
            None => Ok(()),
        }
    }

    /// The module which a CREATE or ALTER at this place is about, as messages call it.
    fn module_word(&self, ahead: usize) -> Option<&'static str> {
        let create = self.keyword_at(ahead) == K::CREATE;
        if !create && self.keyword_at(ahead) != K::ALTER {
            return None;
        }
        let or_alter = create && self.keyword_at(ahead + 1) == K::OR;
        Some(
            match self.keyword_at(ahead + if or_alter { 3 } else { 1 }) {
                K::PROC | K::PROCEDURE => "CREATE/ALTER PROCEDURE",
                K::VIEW if create => "CREATE VIEW",
                K::VIEW => "ALTER VIEW",
                K::FUNCTION if create => "CREATE FUNCTION",
                K::FUNCTION => "ALTER FUNCTION",
                K::TRIGGER if create => "CREATE TRIGGER",
                K::TRIGGER => "ALTER TRIGGER",
                K::SCHEMA if create => "CREATE SCHEMA",
                _ => return None,
            },
        )
    }

    /// A batch may begin with a procedure's name.
    fn at_bare_call(&self) -> bool {
        let label = self.symbol_at(1, Symbol::Colon);
        self.at_ident() && !label && !self.at_soft_statement()
    }

    /// Statements whose first word is not reserved.
    fn at_soft_statement(&self) -> bool {
        match self.keyword() {
            K::THROW => true,
            K::ENABLE | K::DISABLE => self.keyword_at(1) == K::TRIGGER,
            K::SEND => self.keyword_at(1) == K::ON,
            K::GET | K::MOVE => self.keyword_at(1) == K::CONVERSATION,
            K::RECEIVE => true,
            _ => false,
        }
    }

    fn bare_call(&mut self) -> Parse<Statement> {
        let first = self.mark();
        let execute = self.execute()?;
        let statement = Statement {
            span: self.span_from(first),
            kind: StatementKind::Execute(Box::new(execute)),
        };
        self.eat_semicolons();
        Ok(statement)
    }

    /// One statement with the semicolons after it.
    pub(super) fn statement(&mut self) -> Parse<Statement> {
        let first = self.mark();
        let kind = self.nested(Self::statement_kind)?;
        let span = self.span_from(first);
        self.eat_semicolons();
        Ok(Statement { span, kind })
    }

    /// Statements up to the word that closes the block.
    pub(super) fn statements_until(
        &mut self,
        closes: impl Fn(&Self) -> bool,
    ) -> Parse<Vec<Statement>> {
        let mut statements = Vec::new();
        self.eat_semicolons();
        while !closes(self) {
            if self.at_end() {
                return Err(self.unexpected());
            }
            if self.module_word(0).is_some() {
                return Err(self.unexpected_at(1));
            }
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    /// END closes a block, unless it ends a conversation.
    pub(super) fn at_block_end(&self) -> bool {
        self.at(K::END) && self.keyword_at(1) != K::CONVERSATION
    }

    /// The statements of a procedure or trigger run to the end of the batch.
    pub(super) fn module_statements(&mut self) -> Parse<Vec<Statement>> {
        self.statements_until(Self::at_end)
    }

    fn statement_kind(&mut self) -> Parse<StatementKind> {
        match self.kind() {
            TokenKind::Symbol(Symbol::LeftParen) => self.select_statement(With::default()),
            TokenKind::Symbol(Symbol::LeftBrace) => self.odbc_call(),
            TokenKind::Word(keyword) if keyword.is_reserved() => self.reserved_statement(keyword),
            TokenKind::Word(_) | TokenKind::Quoted => self.soft_statement(),
            _ => Err(self.unexpected()),
        }
    }

    fn reserved_statement(&mut self, keyword: K) -> Parse<StatementKind> {
        match keyword {
            K::SELECT => self.select_statement(With::default()),
            K::WITH => self.with_statement(),
            K::INSERT if self.keyword_at(1) == K::BULK => self.insert_bulk(),
            K::INSERT => self
                .insert(With::default())
                .map(|insert| StatementKind::Insert(Box::new(insert))),
            K::UPDATE if self.keyword_at(1) == K::STATISTICS => self.update_statistics(),
            K::UPDATE => self
                .update(With::default())
                .map(|update| StatementKind::Update(Box::new(update))),
            K::DELETE => self
                .delete(With::default())
                .map(|delete| StatementKind::Delete(Box::new(delete))),
            K::MERGE => self
                .merge_statement(With::default())
                .map(|merge| StatementKind::Merge(Box::new(merge))),
            K::TRUNCATE => self.truncate(),
            K::BULK => self.bulk_insert(),
            K::READTEXT | K::WRITETEXT | K::UPDATETEXT => self.text_pointer(),
            K::BEGIN => self.begin(),
            K::IF => self.if_statement(),
            K::WHILE => self.while_statement(),
            K::BREAK => self.word_statement(StatementKind::Break),
            K::CONTINUE => self.word_statement(StatementKind::Continue),
            K::GOTO => self.goto(),
            K::RETURN => self.return_statement(),
            K::RAISERROR => self.raise_error(),
            K::PRINT => self.print(),
            K::WAITFOR => self.wait_for(),
            K::EXEC | K::EXECUTE if self.keyword_at(1) == K::AS => self.execute_as(),
            K::EXEC | K::EXECUTE => {
                self.advance();
                Ok(StatementKind::Execute(Box::new(self.execute()?)))
            }
            K::DECLARE => self.declare(),
            K::SET => self.set(),
            K::OPEN => self.open(),
            K::FETCH => self.fetch(),
            K::CLOSE => self.close(),
            K::DEALLOCATE => self.deallocate(),
            K::COMMIT => self.commit(),
            K::ROLLBACK => self.rollback(),
            K::SAVE => self.save_transaction(),
            K::USE => self.use_database(),
            K::REVERT => self.revert(),
            K::CREATE => self.create(),
            K::ALTER => self.alter(),
            K::DROP => self.drop_statement(),
            K::BACKUP | K::DUMP => self.backup(),
            K::RESTORE | K::LOAD => self.restore(),
            K::GRANT | K::DENY | K::REVOKE => self.grant(),
            K::CHECKPOINT => self.checkpoint(),
            K::KILL => self.kill(),
            K::SHUTDOWN => self.shutdown(),
            K::RECONFIGURE => self.reconfigure(),
            K::DBCC => self.dbcc(),
            K::SETUSER => self.set_user(),
            K::END if self.keyword_at(1) == K::CONVERSATION => self.broker_statement("END"),
            _ => Err(self.unexpected()),
        }
    }

    fn soft_statement(&mut self) -> Parse<StatementKind> {
        if self.symbol_at(1, Symbol::Colon) {
            let label = self.ident()?;
            self.advance();
            return Ok(StatementKind::Label(label));
        }
        match self.keyword() {
            K::THROW => self.throw(),
            K::ENABLE | K::DISABLE if self.keyword_at(1) == K::TRIGGER => self.switch_trigger(),
            K::SEND if self.keyword_at(1) == K::ON => self.broker_statement("SEND"),
            K::RECEIVE if !self.symbol_at(1, Symbol::Dot) => self.broker_statement("RECEIVE"),
            K::GET if self.keyword_at(1) == K::CONVERSATION => self.broker_statement("GET"),
            K::MOVE if self.keyword_at(1) == K::CONVERSATION => self.broker_statement("MOVE"),
            _ => Err(self.unexpected()),
        }
    }

    fn word_statement(&mut self, kind: StatementKind) -> Parse<StatementKind> {
        self.advance();
        Ok(kind)
    }

    pub(super) fn select_statement(&mut self, with: With) -> Parse<StatementKind> {
        self.query_with(with)
            .map(|query| StatementKind::Select(Box::new(query)))
    }

    /// WITH begins a statement only at the start of a list or after a semicolon.
    fn with_statement(&mut self) -> Parse<StatementKind> {
        if !self.with_may_begin() {
            return Err(SyntaxError::with_needs_semicolon(self.token(0).line));
        }
        self.expect(K::WITH)?;
        let with = self.with_clause()?;
        match self.keyword() {
            K::INSERT => self
                .insert(with)
                .map(|insert| StatementKind::Insert(Box::new(insert))),
            K::UPDATE => self
                .update(with)
                .map(|update| StatementKind::Update(Box::new(update))),
            K::DELETE => self
                .delete(with)
                .map(|delete| StatementKind::Delete(Box::new(delete))),
            K::MERGE => self
                .merge_statement(with)
                .map(|merge| StatementKind::Merge(Box::new(merge))),
            _ => self.select_statement(with),
        }
    }

    /// Looks at the token before: nothing, a semicolon, a label, or a word that opens a statement.
    fn with_may_begin(&self) -> bool {
        let Some(before) = self
            .at
            .checked_sub(1)
            .and_then(|before| self.tokens.list.get(before))
        else {
            return true;
        };
        match before.kind {
            TokenKind::Symbol(Symbol::Semicolon | Symbol::Colon) => true,
            TokenKind::Word(K::BEGIN | K::ELSE | K::AS | K::TRY | K::CATCH) => true,
            // The condition of IF and WHILE may end with anything; a statement before would have ended its own list.
            _ => self.after_condition(),
        }
    }

    fn after_condition(&self) -> bool {
        self.condition_end == Some(self.at)
    }

    fn begin(&mut self) -> Parse<StatementKind> {
        match self.keyword_at(1) {
            K::TRAN | K::TRANSACTION | K::DISTRIBUTED => self.begin_transaction(),
            K::TRY => self.try_catch(),
            K::ATOMIC => self.atomic(),
            K::DIALOG | K::CONVERSATION => self.broker_statement("BEGIN"),
            _ => {
                self.advance();
                let body = self.statements_until(Self::at_block_end)?;
                if body.is_empty() {
                    return Err(self.unexpected());
                }
                self.expect(K::END)?;
                Ok(StatementKind::Block(body))
            }
        }
    }

    /// Statements of the service broker are kept as text.
    fn broker_statement(&mut self, verb: &str) -> Parse<StatementKind> {
        self.advance();
        self.other_ddl(verb)
    }

    fn atomic(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::BEGIN, K::ATOMIC])?;
        let options = self.optional_with_options()?;
        let body = self.statements_until(Self::at_block_end)?;
        self.expect(K::END)?;
        Ok(StatementKind::Atomic { options, body })
    }

    fn try_catch(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::BEGIN, K::TRY])?;
        let body = self.statements_until(Self::at_block_end)?;
        self.expect_words(&[K::END, K::TRY])?;
        self.eat_semicolons();
        self.expect_words(&[K::BEGIN, K::CATCH])?;
        let handler = self.statements_until(Self::at_block_end)?;
        self.expect_words(&[K::END, K::CATCH])?;
        Ok(StatementKind::TryCatch(TryCatch { body, handler }))
    }

    fn if_statement(&mut self) -> Parse<StatementKind> {
        self.expect(K::IF)?;
        let condition = self.condition()?;
        let then = Box::new(self.controlled_statement()?);
        let otherwise = if self.eat(K::ELSE) {
            Some(Box::new(self.controlled_statement()?))
        } else {
            None
        };
        Ok(StatementKind::If(If {
            condition,
            then,
            otherwise,
        }))
    }

    fn while_statement(&mut self) -> Parse<StatementKind> {
        self.expect(K::WHILE)?;
        let condition = self.condition()?;
        let body = Box::new(self.controlled_statement()?);
        Ok(StatementKind::While(While { condition, body }))
    }

    fn controlled_statement(&mut self) -> Parse<Statement> {
        self.condition_end = Some(self.at);
        if self.module_word(0).is_some() {
            return Err(self.unexpected_at(1));
        }
        self.statement()
    }
}
