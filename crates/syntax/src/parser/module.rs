//! Views, procedures, functions, triggers.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn create_view(&mut self, mode: DefineMode) -> Parse<StatementKind> {
        self.expect(K::VIEW)?;
        let name = self.object_name()?;
        let columns = self.optional_paren_list(Self::ident)?;
        let options = self.module_options(false)?;
        self.expect(K::AS)?;
        let query = self.inline_query()?;
        let check_option = self.eat_words(&[K::WITH, K::CHECK, K::OPTION]);
        Ok(StatementKind::CreateView(Box::new(CreateView {
            mode,
            name,
            columns,
            options,
            query,
            check_option,
        })))
    }

    /// A query which may stand in parentheses as a whole, with everything a query may hold inside them.
    fn inline_query(&mut self) -> Parse<Query> {
        if !self.at_symbol(Symbol::LeftParen) {
            return self.query();
        }
        self.nested(|parser| {
            parser.expect_open()?;
            let query = parser.inline_query()?;
            parser.expect_close()?;
            if parser.at_set_operator() {
                parser.query_after(query)
            } else {
                Ok(query)
            }
        })
    }

    pub(super) fn create_procedure(&mut self, mode: DefineMode) -> Parse<StatementKind> {
        self.advance();
        let name = self.object_name()?;
        let number = self.procedure_number()?;
        let parameters = self.procedure_parameters()?;
        let options = self.module_options(false)?;
        let for_replication = self.eat_words(&[K::FOR, K::REPLICATION]);
        self.expect(K::AS)?;
        let body = self.procedure_body()?;
        let procedure = CreateProcedure {
            mode,
            name,
            number,
            parameters,
            options,
            for_replication,
            body,
        };
        Ok(StatementKind::CreateProcedure(Box::new(procedure)))
    }

    fn procedure_parameters(&mut self) -> Parse<Vec<Parameter>> {
        if self.eat_symbol(Symbol::LeftParen) {
            if self.eat_symbol(Symbol::RightParen) {
                return Ok(Vec::new());
            }
            let parameters = self.list(Self::parameter)?;
            self.expect_close()?;
            return Ok(parameters);
        }
        if self.at_variable() {
            self.list(Self::parameter)
        } else {
            Ok(Vec::new())
        }
    }

    /// The statements of a procedure; there may be none.
    fn procedure_body(&mut self) -> Parse<ModuleBody> {
        if self.at_end() {
            return Ok(ModuleBody::Statements(Vec::new()));
        }
        self.module_body()
    }

    fn module_body(&mut self) -> Parse<ModuleBody> {
        if self.eat_words(&[K::EXTERNAL, K::NAME]) {
            return self.object_name().map(ModuleBody::External);
        }
        let statements = self.module_statements()?;
        if statements.is_empty() {
            return Err(self.unexpected());
        }
        Ok(ModuleBody::Statements(statements))
    }

    /// `WITH ENCRYPTION, SCHEMABINDING, EXECUTE AS OWNER, ...`. Functions have some of their own, and lack two of the others.
    fn module_options(&mut self, of_function: bool) -> Parse<ModuleOptions> {
        let mut options = ModuleOptions::default();
        if self.eat(K::WITH) {
            self.list(|parser| parser.module_option(&mut options, of_function))?;
        }
        Ok(options)
    }

    fn module_option(&mut self, options: &mut ModuleOptions, of_function: bool) -> Parse<()> {
        match self.keyword() {
            K::RECOMPILE | K::VIEW_METADATA if of_function => return Err(self.unknown_option()),
            K::RETURNS | K::CALLED | K::INLINE if !of_function => {
                return Err(self.unexpected_at(1));
            }
            K::ENCRYPTION => options.encryption = self.eat(K::ENCRYPTION),
            K::SCHEMABINDING => options.schema_binding = self.eat(K::SCHEMABINDING),
            K::RECOMPILE => options.recompile = self.eat(K::RECOMPILE),
            K::VIEW_METADATA => options.view_metadata = self.eat(K::VIEW_METADATA),
            K::NATIVE_COMPILATION => options.native_compilation = self.eat(K::NATIVE_COMPILATION),
            K::EXEC | K::EXECUTE => {
                self.advance();
                options.execute_as = Some(self.execute_context()?);
            }
            K::RETURNS => {
                self.expect_words(&[K::RETURNS, K::NULL, K::ON, K::NULL, K::INPUT])?;
                options.returns_null_on_null_input = Some(true);
            }
            K::CALLED => {
                self.expect_words(&[K::CALLED, K::ON, K::NULL, K::INPUT])?;
                options.returns_null_on_null_input = Some(false);
            }
            K::INLINE => {
                self.advance();
                self.expect_equal()?;
                options.inline = Some(self.expect_switch()?);
            }
            word if word.is_reserved() => return Err(self.unexpected()),
            _ => return Err(self.unknown_option()),
        }
        Ok(())
    }

    fn unknown_option(&self) -> SyntaxError {
        let token = self.token(0);
        match token.kind {
            TokenKind::Word(_) => SyntaxError::unknown_option(token.line, self.text_of(token)),
            _ => self.unexpected(),
        }
    }

    pub(super) fn create_function(&mut self, mode: DefineMode) -> Parse<StatementKind> {
        self.expect(K::FUNCTION)?;
        let name = self.object_name()?;
        self.expect_open()?;
        let parameters = if self.at_symbol(Symbol::RightParen) {
            Vec::new()
        } else {
            self.list(Self::parameter)?
        };
        self.expect_close()?;
        self.expect(K::RETURNS)?;
        let returns = self.function_returns()?;
        let options = self.module_options(true)?;
        if self.eat(K::ORDER) {
            self.skip_parenthesis()?;
        }
        self.eat(K::AS);
        let body = self.function_body(&returns)?;
        let function = CreateFunction {
            mode,
            name,
            parameters,
            returns,
            options,
            body,
        };
        Ok(StatementKind::CreateFunction(Box::new(function)))
    }

    fn function_returns(&mut self) -> Parse<FunctionReturns> {
        if self.at_variable() {
            let name = self.variable()?;
            self.expect(K::TABLE)?;
            return Ok(FunctionReturns::TableVariable {
                name,
                definition: self.table_definition()?,
            });
        }
        if !self.eat(K::TABLE) {
            return self.type_name().map(FunctionReturns::Scalar);
        }
        if self.at_symbol(Symbol::LeftParen) {
            return self
                .table_definition()
                .map(FunctionReturns::TableDefinition);
        }
        Ok(FunctionReturns::Table)
    }

    fn function_body(&mut self, returns: &FunctionReturns) -> Parse<FunctionBody> {
        if self.eat_words(&[K::EXTERNAL, K::NAME]) {
            return self.object_name().map(FunctionBody::External);
        }
        if *returns == FunctionReturns::Table {
            self.expect(K::RETURN)?;
            let query = self.inline_query()?;
            return Ok(FunctionBody::Query(Box::new(query)));
        }
        self.expect(K::BEGIN)?;
        let native = self.eat(K::ATOMIC);
        if native {
            self.optional_with_options()?;
        }
        let statements = self.statements_until(Self::at_block_end)?;
        self.expect(K::END)?;
        Ok(FunctionBody::Statements(statements))
    }

    pub(super) fn create_trigger(&mut self, mode: DefineMode) -> Parse<StatementKind> {
        self.expect(K::TRIGGER)?;
        let name = self.object_name()?;
        self.expect(K::ON)?;
        let on = self.trigger_scope()?;
        let options = self.module_options(false)?;
        let timing = match self.eat_any(&[K::FOR, K::AFTER, K::INSTEAD]) {
            Some(K::INSTEAD) => {
                self.expect(K::OF)?;
                TriggerTiming::InsteadOf
            }
            Some(_) => TriggerTiming::After,
            None => return Err(self.unexpected()),
        };
        let events = self.list(Self::word_upper)?;
        let append = self.eat_words(&[K::WITH, K::APPEND]);
        let not_for_replication = self.eat_words(&[K::NOT, K::FOR, K::REPLICATION]);
        self.expect(K::AS)?;
        let body = self.module_body()?;
        let trigger = CreateTrigger {
            mode,
            name,
            on,
            options,
            timing,
            events,
            append,
            not_for_replication,
            body,
        };
        Ok(StatementKind::CreateTrigger(Box::new(trigger)))
    }

    /// What a trigger hangs on: `DATABASE`, `ALL SERVER`, or an object.
    pub(super) fn trigger_scope(&mut self) -> Parse<TriggerScope> {
        if self.eat(K::DATABASE) {
            return Ok(TriggerScope::Database);
        }
        if self.eat_words(&[K::ALL, K::SERVER]) {
            return Ok(TriggerScope::AllServer);
        }
        self.object_name().map(TriggerScope::Object)
    }

    /// `ENABLE | DISABLE TRIGGER {names | ALL} ON scope`.
    pub(super) fn switch_trigger(&mut self) -> Parse<StatementKind> {
        let enable = self.at(K::ENABLE);
        self.advance();
        self.expect(K::TRIGGER)?;
        let triggers = if self.eat(K::ALL) {
            Vec::new()
        } else {
            self.list(Self::object_name)?
        };
        self.expect(K::ON)?;
        let on = self.trigger_scope()?;
        Ok(StatementKind::SwitchTrigger(SwitchTrigger {
            enable,
            triggers,
            on,
        }))
    }
}
