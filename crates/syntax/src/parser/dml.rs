//! INSERT, UPDATE, DELETE, MERGE, TRUNCATE, BULK INSERT, INSERT BULK, and the text pointer statements.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// A changing statement inside FROM.
    pub(super) fn data_modification(&mut self) -> Parse<DataModification> {
        self.nested(|parser| match parser.keyword() {
            K::INSERT => parser.insert(With::default()).map(DataModification::Insert),
            K::UPDATE => parser.update(With::default()).map(DataModification::Update),
            K::DELETE => parser.delete(With::default()).map(DataModification::Delete),
            _ => parser.merge(With::default()).map(DataModification::Merge),
        })
    }

    pub(super) fn insert(&mut self, with: With) -> Parse<Insert> {
        self.expect(K::INSERT)?;
        let top = self.optional_top()?;
        self.eat(K::INTO);
        let target = self.dml_target()?;
        let columns = self.insert_columns()?;
        let output = self.optional_output()?;
        let mut source = self.insert_source()?;
        // OPTION belongs to the whole statement, though it stands behind the query.
        let options = match &mut source {
            InsertSource::Query(query) => std::mem::take(&mut query.options),
            _ => self.query_options()?,
        };
        Ok(Insert {
            with,
            top,
            target,
            columns,
            output,
            source,
            options,
        })
    }

    fn dml_target(&mut self) -> Parse<DmlTarget> {
        if self.at_variable() {
            let first = self.mark();
            return Ok(DmlTarget::Variable {
                name: self.variable()?,
                span: self.span_from(first),
            });
        }
        if self.at_any(&[K::OPENQUERY, K::OPENROWSET, K::OPENDATASOURCE]) {
            return Ok(DmlTarget::Rowset(Box::new(self.rowset()?)));
        }
        let name = self.object_name()?;
        let hints = self.optional_table_hints()?;
        Ok(DmlTarget::Table { name, hints })
    }

    /// A parenthesis before the source holds columns unless it opens a query.
    fn insert_columns(&mut self) -> Parse<Vec<ColumnRef>> {
        let query_follows = matches!(self.keyword_at(1), K::SELECT | K::WITH)
            || self.symbol_at(1, Symbol::LeftParen);
        if !self.at_symbol(Symbol::LeftParen) || query_follows {
            return Ok(Vec::new());
        }
        self.paren_list(Self::column_ref)
    }

    fn insert_source(&mut self) -> Parse<InsertSource> {
        match self.keyword() {
            K::VALUES => {
                self.advance();
                self.list(Self::value_row).map(InsertSource::Values)
            }
            K::DEFAULT => {
                self.expect_words(&[K::DEFAULT, K::VALUES])?;
                Ok(InsertSource::DefaultValues)
            }
            K::EXEC | K::EXECUTE => {
                self.advance();
                Ok(InsertSource::Execute(Box::new(self.execute()?)))
            }
            _ => Ok(InsertSource::Query(Box::new(self.query()?))),
        }
    }

    /// `OUTPUT items INTO target (columns) OUTPUT items`.
    fn optional_output(&mut self) -> Parse<Option<Output>> {
        if !self.eat(K::OUTPUT) {
            return Ok(None);
        }
        let items = self.list(Self::select_item)?;
        if !self.eat(K::INTO) {
            return Ok(Some(Output { into: None, items }));
        }
        let target = if self.at_variable() {
            OutputTarget::Variable(self.variable()?)
        } else {
            OutputTarget::Table(self.object_name()?)
        };
        let query_follows = matches!(self.keyword_at(1), K::SELECT | K::WITH);
        let columns = if self.at_symbol(Symbol::LeftParen) && !query_follows {
            self.ident_list()?
        } else {
            Vec::new()
        };
        let into = Some(OutputInto {
            items,
            target,
            columns,
        });
        let items = if self.eat(K::OUTPUT) {
            self.list(Self::select_item)?
        } else {
            Vec::new()
        };
        Ok(Some(Output { into, items }))
    }

    pub(super) fn update(&mut self, with: With) -> Parse<Update> {
        self.expect(K::UPDATE)?;
        let top = self.optional_top()?;
        let target = self.dml_target()?;
        self.expect(K::SET)?;
        let assignments = self.list(Self::assignment)?;
        let output = self.optional_output()?;
        let from = self.optional_from()?;
        let filter = self.optional_dml_filter()?;
        let options = self.query_options()?;
        Ok(Update {
            with,
            top,
            target,
            assignments,
            output,
            from,
            filter,
            options,
        })
    }

    fn optional_from(&mut self) -> Parse<Vec<TableSource>> {
        if self.eat(K::FROM) {
            self.list(Self::table_source)
        } else {
            Ok(Vec::new())
        }
    }

    fn optional_dml_filter(&mut self) -> Parse<Option<DmlFilter>> {
        if !self.eat(K::WHERE) {
            return Ok(None);
        }
        if self.eat_words(&[K::CURRENT, K::OF]) {
            return self
                .cursor_ref()
                .map(|cursor| Some(DmlFilter::CurrentOf(cursor)));
        }
        self.condition()
            .map(|condition| Some(DmlFilter::Where(condition)))
    }

    fn assignment(&mut self) -> Parse<Assignment> {
        if self.at_variable() {
            return self.variable_assignment();
        }
        if self.kind() == TokenKind::Dollar {
            let column = self.column_ref()?;
            let op = self.expect_assign_op()?;
            return Ok(Assignment::Column {
                column,
                op,
                value: self.expr_or_default()?,
            });
        }
        let first = self.mark();
        let mut parts = self.name_parts()?;
        if self.at_symbol(Symbol::LeftParen) && parts.len() > 1 {
            let Some(Some(method)) = parts.pop() else {
                return Err(self.unexpected());
            };
            let column = self.column_of(parts, first)?;
            return Ok(Assignment::Method {
                column,
                method,
                args: self.call_args()?,
            });
        }
        let column = self.column_of(parts, first)?;
        let op = self.expect_assign_op()?;
        let value = self.expr_or_default()?;
        Ok(Assignment::Column { column, op, value })
    }

    fn variable_assignment(&mut self) -> Parse<Assignment> {
        let variable = self.variable()?;
        let op = self.expect_assign_op()?;
        if op == AssignOp::Set && self.column_assignment_follows() {
            let column = self.column_ref()?;
            let op = self.expect_assign_op()?;
            let value = self.expr_or_default()?;
            return Ok(Assignment::Both {
                variable,
                column,
                op,
                value,
            });
        }
        Ok(Assignment::Variable {
            variable,
            op,
            value: self.expr()?,
        })
    }

    /// True for `name =` and `a.b +=`, which no scalar can begin with.
    fn column_assignment_follows(&self) -> bool {
        let mut ahead = 0;
        while self.ident_at(ahead) {
            ahead += 1;
            if !self.symbol_at(ahead, Symbol::Dot) {
                return self.assign_op_at(ahead).is_some();
            }
            ahead += 1;
        }
        false
    }

    pub(super) fn delete(&mut self, with: With) -> Parse<Delete> {
        self.expect(K::DELETE)?;
        let top = self.optional_top()?;
        self.eat(K::FROM);
        let target = self.dml_target()?;
        let output = self.optional_output()?;
        let from = self.optional_from()?;
        let filter = self.optional_dml_filter()?;
        let options = self.query_options()?;
        Ok(Delete {
            with,
            top,
            target,
            output,
            from,
            filter,
            options,
        })
    }

    pub(super) fn merge(&mut self, with: With) -> Parse<Merge> {
        self.expect(K::MERGE)?;
        let top = self.optional_top()?;
        self.eat(K::INTO);
        let target = self.dml_target()?;
        let alias = if self.at(K::USING) {
            None
        } else {
            self.optional_alias()?
        };
        self.expect(K::USING)?;
        let source = self.table_source()?;
        self.expect(K::ON)?;
        let on = self.condition()?;
        let mut clauses = Vec::new();
        while self.eat(K::WHEN) {
            clauses.push(self.merge_clause()?);
        }
        if clauses.is_empty() {
            return Err(self.unexpected());
        }
        let output = self.optional_output()?;
        let options = self.query_options()?;
        Ok(Merge {
            with,
            top,
            target,
            alias,
            source,
            on,
            clauses,
            output,
            options,
        })
    }

    /// MERGE is the one statement which must end with a semicolon.
    pub(super) fn merge_statement(&mut self, with: With) -> Parse<Merge> {
        let merge = self.merge(with)?;
        if self.at_symbol(Symbol::Semicolon) {
            return Ok(merge);
        }
        Err(SyntaxError::merge_needs_semicolon(self.token(0).line))
    }

    fn merge_clause(&mut self) -> Parse<MergeClause> {
        let when = self.merge_when()?;
        let condition = if self.eat(K::AND) {
            Some(self.condition()?)
        } else {
            None
        };
        self.expect(K::THEN)?;
        Ok(MergeClause {
            when,
            condition,
            action: self.merge_action()?,
        })
    }

    fn merge_when(&mut self) -> Parse<MergeWhen> {
        if self.eat(K::MATCHED) {
            return Ok(MergeWhen::Matched);
        }
        self.expect_words(&[K::NOT, K::MATCHED])?;
        if self.eat_words(&[K::BY, K::SOURCE]) {
            return Ok(MergeWhen::NotMatchedBySource);
        }
        if self.eat(K::BY) {
            self.expect(K::TARGET)?;
        }
        Ok(MergeWhen::NotMatchedByTarget)
    }

    fn merge_action(&mut self) -> Parse<MergeAction> {
        match self.eat_any(&[K::UPDATE, K::DELETE, K::INSERT]) {
            Some(K::UPDATE) => {
                self.expect(K::SET)?;
                self.list(Self::assignment).map(MergeAction::Update)
            }
            Some(K::DELETE) => Ok(MergeAction::Delete),
            Some(_) => {
                let columns = self.optional_paren_list(Self::column_ref)?;
                if self.eat_words(&[K::DEFAULT, K::VALUES]) {
                    return Ok(MergeAction::Insert {
                        columns,
                        values: None,
                    });
                }
                self.expect(K::VALUES)?;
                Ok(MergeAction::Insert {
                    columns,
                    values: Some(self.value_row()?),
                })
            }
            None => Err(self.unexpected()),
        }
    }

    pub(super) fn truncate(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::TRUNCATE, K::TABLE])?;
        let table = self.object_name()?;
        let mut partitions = Vec::new();
        if self.at(K::WITH) && self.symbol_at(1, Symbol::LeftParen) {
            self.advance();
            self.expect_open()?;
            self.expect(K::PARTITIONS)?;
            partitions = self.paren_list(|parser| {
                let low = parser.expr()?;
                let high = if parser.eat(K::TO) {
                    Some(parser.expr()?)
                } else {
                    None
                };
                Ok((low, high))
            })?;
            self.expect_close()?;
        }
        Ok(StatementKind::Truncate(Truncate { table, partitions }))
    }

    pub(super) fn bulk_insert(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::BULK, K::INSERT])?;
        let table = self.object_name()?;
        self.expect(K::FROM)?;
        let file = self.string()?;
        let (options, order) = self.bulk_options()?;
        Ok(StatementKind::BulkInsert(BulkInsert {
            table,
            file,
            options,
            order,
        }))
    }

    pub(super) fn insert_bulk(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::INSERT, K::BULK])?;
        let table = self.object_name()?;
        let columns = self.optional_paren_list(|parser| {
            let name = parser.ident()?;
            // Clients leave the type of a timestamp column to its name.
            let data_type = if matches!(
                parser.kind(),
                TokenKind::Symbol(Symbol::Comma | Symbol::RightParen)
            ) {
                TypeName::bare("timestamp")
            } else {
                parser.type_name()?
            };
            let collation = parser.optional_collation()?;
            Ok(InsertBulkColumn {
                name,
                data_type,
                collation,
            })
        })?;
        let (options, order) = self.bulk_options()?;
        Ok(StatementKind::InsertBulk(InsertBulk {
            table,
            columns,
            options,
            order,
        }))
    }

    fn bulk_options(&mut self) -> Parse<(Vec<OptionItem>, Vec<OrderItem>)> {
        let (mut options, mut order) = (Vec::new(), Vec::new());
        if !(self.at(K::WITH) && self.symbol_at(1, Symbol::LeftParen)) {
            return Ok((options, order));
        }
        self.advance();
        self.expect_open()?;
        loop {
            if self.eat(K::ORDER) {
                order = self.paren_list(Self::order_item)?;
            } else {
                options.push(self.option_item()?);
            }
            if !self.eat_comma() {
                break;
            }
        }
        self.expect_close()?;
        Ok((options, order))
    }

    /// `READTEXT t.c @ptr 0 10 HOLDLOCK`, `WRITETEXT t.c @ptr WITH LOG 'x'`, `UPDATETEXT t.c @ptr 0 NULL 'x'`.
    pub(super) fn text_pointer(&mut self) -> Parse<StatementKind> {
        let verb = match self.advance().kind {
            TokenKind::Word(K::READTEXT) => TextVerb::Read,
            TokenKind::Word(K::WRITETEXT) => TextVerb::Write,
            _ => TextVerb::Update,
        };
        let bulk = self.eat(K::BULK);
        let column = self.column_ref()?;
        let pointer = self.text_argument()?;
        let (mut args, mut with_log) = (Vec::new(), false);
        loop {
            if self.eat_words(&[K::WITH, K::LOG]) {
                with_log = true;
                self.eat_comma();
            } else if self.at_text_argument() {
                args.push(self.text_argument()?);
                self.eat_comma();
            } else {
                break;
            }
        }
        let hold_lock = self.eat(K::HOLDLOCK);
        Ok(StatementKind::TextPointer(TextPointer {
            verb,
            bulk,
            column,
            pointer,
            args,
            with_log,
            hold_lock,
        }))
    }

    fn at_text_argument(&self) -> bool {
        matches!(
            self.kind(),
            TokenKind::Variable
                | TokenKind::Integer
                | TokenKind::String
                | TokenKind::NationalString
                | TokenKind::Binary
                | TokenKind::Word(K::NULL)
        )
    }

    fn text_argument(&mut self) -> Parse<Expr> {
        if self.at_variable() {
            let token = self.advance();
            return Ok(Expr::Variable {
                name: self.text_of(token).to_owned(),
                span: self.span_from(token),
            });
        }
        self.literal().map(Expr::Literal)
    }
}
