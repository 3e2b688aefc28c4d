//! EXEC: procedures, text, arguments, and parameter definitions.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// After EXEC, or the bare call at the start of a batch.
    pub(super) fn execute(&mut self) -> Parse<Execute> {
        if self.at_symbol(Symbol::LeftParen) {
            return self.execute_text();
        }
        let status = if self.at_variable() && self.symbol_at(1, Symbol::Equal) {
            let status = self.variable()?;
            self.advance();
            Some(status)
        } else {
            None
        };
        let target = if self.at_variable() {
            ExecuteTarget::Variable(self.variable()?)
        } else {
            let name = self.object_name()?;
            let number = self.procedure_number()?;
            ExecuteTarget::Procedure { name, number }
        };
        let args = if self.at_argument() {
            self.list(Self::execute_arg)?
        } else {
            Vec::new()
        };
        let mut execute = Execute {
            status,
            target,
            args,
            recompile: false,
            result_sets: None,
        };
        self.execute_options(&mut execute)?;
        Ok(execute)
    }

    /// `;2` right after a procedure's name.
    pub(super) fn procedure_number(&mut self) -> Parse<Option<u32>> {
        if self.at_symbol(Symbol::Semicolon) && self.kind_at(1) == TokenKind::Integer {
            self.advance();
            return self.small_number().map(Some);
        }
        Ok(None)
    }

    fn execute_text(&mut self) -> Parse<Execute> {
        self.expect_open()?;
        let text = self.expr()?;
        let mut args = Vec::new();
        while self.eat_comma() {
            args.push(self.execute_arg()?);
        }
        self.expect_close()?;
        let as_user = if self.at(K::AS) && matches!(self.keyword_at(1), K::USER | K::LOGIN) {
            self.advance();
            let login = self.advance().kind == TokenKind::Word(K::LOGIN);
            self.expect_equal()?;
            Some(AsPrincipal {
                login,
                name: self.expr()?,
            })
        } else {
            None
        };
        let at = if self.at(K::AT) && self.ident_at(1) {
            self.advance();
            Some(self.ident()?)
        } else {
            None
        };
        let target = ExecuteTarget::Text { text, as_user, at };
        let mut execute = Execute {
            status: None,
            target,
            args,
            recompile: false,
            result_sets: None,
        };
        self.execute_options(&mut execute)?;
        Ok(execute)
    }

    fn at_argument(&self) -> bool {
        match self.kind() {
            TokenKind::Word(keyword) if keyword.is_reserved() => {
                matches!(keyword, K::NULL | K::DEFAULT)
            }
            TokenKind::Word(_) | TokenKind::Quoted => !self.symbol_at(1, Symbol::Colon),
            TokenKind::Symbol(symbol) => {
                matches!(symbol, Symbol::Minus | Symbol::Plus | Symbol::LeftBrace)
            }
            TokenKind::End => false,
            _ => true,
        }
    }

    fn execute_arg(&mut self) -> Parse<ExecuteArg> {
        let name = if self.at_variable() && self.symbol_at(1, Symbol::Equal) {
            let name = self.variable()?;
            self.advance();
            Some(name)
        } else {
            None
        };
        let value = self.execute_value()?;
        let output = self.eat_any(&[K::OUTPUT, K::OUT]).is_some();
        Ok(ExecuteArg {
            name,
            value,
            output,
        })
    }

    /// A constant, a variable, DEFAULT, or a bare word, which is a string.
    fn execute_value(&mut self) -> Parse<Expr> {
        match self.kind() {
            TokenKind::Word(K::DEFAULT) => self.expr_or_default(),
            TokenKind::Word(K::NULL) => self.literal().map(Expr::Literal),
            TokenKind::Word(keyword) if keyword.is_reserved() => Err(self.unexpected()),
            TokenKind::Word(_) | TokenKind::Quoted => {
                let first = self.mark();
                let parts = self.name_parts()?;
                let name = self.object_name_of(parts, first)?;
                Ok(Expr::Literal(Literal::String {
                    text: name.dotted(),
                    national: true,
                }))
            }
            TokenKind::Symbol(Symbol::Minus | Symbol::Plus) => self.signed_number(),
            TokenKind::Variable | TokenKind::Global => Ok(self.variable_expr()),
            TokenKind::Symbol(Symbol::LeftBrace) => self.odbc_escape(),
            _ => self.literal().map(Expr::Literal),
        }
    }

    fn execute_options(&mut self, execute: &mut Execute) -> Parse<()> {
        if !(self.at(K::WITH) && matches!(self.keyword_at(1), K::RECOMPILE | K::RESULT)) {
            return Ok(());
        }
        self.advance();
        self.list(|parser| {
            if parser.eat(K::RECOMPILE) {
                execute.recompile = true;
                return Ok(());
            }
            parser.expect_words(&[K::RESULT, K::SETS])?;
            execute.result_sets = Some(parser.result_sets()?);
            Ok(())
        })?;
        Ok(())
    }

    fn result_sets(&mut self) -> Parse<ResultSets> {
        if self.eat(K::UNDEFINED) {
            return Ok(ResultSets::Undefined);
        }
        if self.eat(K::NONE_WORD) {
            return Ok(ResultSets::None);
        }
        self.paren_list(Self::result_set).map(ResultSets::Defined)
    }

    fn result_set(&mut self) -> Parse<ResultSet> {
        if !self.eat(K::AS) {
            return self.paren_list(Self::result_column).map(ResultSet::Columns);
        }
        match self.eat_any(&[K::OBJECT, K::TYPE, K::FOR]) {
            Some(K::OBJECT) => self.object_name().map(ResultSet::AsObject),
            Some(K::TYPE) => self.object_name().map(ResultSet::AsType),
            Some(_) => self.expect(K::XML).map(|()| ResultSet::AsForXml),
            None => Err(self.unexpected()),
        }
    }

    fn result_column(&mut self) -> Parse<ResultColumn> {
        let name = self.ident()?;
        let data_type = self.type_name()?;
        let collation = self.optional_collation()?;
        let nullable = self.optional_nullability()?;
        Ok(ResultColumn {
            name,
            data_type,
            collation,
            nullable,
        })
    }

    /// NULL or NOT NULL if written.
    pub(super) fn optional_nullability(&mut self) -> Parse<Option<bool>> {
        if self.eat(K::NULL) {
            return Ok(Some(true));
        }
        if self.at_words(&[K::NOT, K::NULL]) {
            self.advance();
            self.advance();
            return Ok(Some(false));
        }
        Ok(None)
    }

    /// `{call p (args)}` and `{? = call p}`.
    pub(super) fn odbc_call(&mut self) -> Parse<StatementKind> {
        self.expect_symbol(Symbol::LeftBrace)?;
        let status = if self.at_variable() && self.symbol_at(1, Symbol::Equal) {
            let status = self.variable()?;
            self.advance();
            Some(status)
        } else {
            None
        };
        self.expect(K::CALL)?;
        let name = self.object_name()?;
        let number = self.procedure_number()?;
        let mut args = Vec::new();
        if self.eat_symbol(Symbol::LeftParen) && !self.eat_symbol(Symbol::RightParen) {
            args = self.list(Self::execute_arg)?;
            self.expect_close()?;
        }
        self.expect_symbol(Symbol::RightBrace)?;
        let target = ExecuteTarget::Procedure { name, number };
        let execute = Execute {
            status,
            target,
            args,
            recompile: false,
            result_sets: None,
        };
        Ok(StatementKind::Execute(Box::new(execute)))
    }

    pub(super) fn parameter_definitions(&mut self) -> Parse<Vec<Parameter>> {
        if self.at_end() {
            return Ok(Vec::new());
        }
        if self.at_symbol(Symbol::LeftParen) {
            return self.paren_list(Self::parameter);
        }
        self.list(Self::parameter)
    }

    /// `@p [AS] type [VARYING] [NULL | NOT NULL] [= default] [OUT | OUTPUT] [READONLY]`.
    pub(super) fn parameter(&mut self) -> Parse<Parameter> {
        let name = self.variable()?;
        self.eat(K::AS);
        let data_type = if self.eat(K::CURSOR) {
            ParameterType::Cursor {
                varying: self.eat(K::VARYING),
            }
        } else {
            ParameterType::Named(self.type_name()?)
        };
        self.eat(K::VARYING);
        let mut parameter = Parameter {
            name,
            data_type,
            nullable: None,
            default: None,
            output: false,
            read_only: false,
        };
        loop {
            if parameter.nullable.is_none() && self.at_any(&[K::NULL, K::NOT]) {
                parameter.nullable = self.optional_nullability()?;
                if parameter.nullable.is_none() {
                    return Err(self.unexpected());
                }
            } else if parameter.default.is_none() && self.eat_equal() {
                parameter.default = Some(self.parameter_default()?);
            } else if self.eat_any(&[K::OUTPUT, K::OUT]).is_some() {
                parameter.output = true;
            } else if self.eat(K::READONLY) {
                parameter.read_only = true;
            } else {
                return Ok(parameter);
            }
        }
    }

    /// A constant; a bare word stands for the string, as in a call.
    fn parameter_default(&mut self) -> Parse<Expr> {
        if self.at_ident() && !self.symbol_at(1, Symbol::LeftParen) {
            return self.execute_value();
        }
        self.expr()
    }
}
