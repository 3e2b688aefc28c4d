//! FROM: tables, functions, derived tables, joins, APPLY and PIVOT.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

/// What stood inside a parenthesis of FROM.
enum Parenthesized {
    Query(Query),
    Source(TableSource),
}

impl Parser<'_> {
    pub(super) fn table_source(&mut self) -> Parse<TableSource> {
        self.nested(|parser| {
            let first = parser.source_primary()?;
            parser.joins_after(first)
        })
    }

    fn joins_after(&mut self, mut left: TableSource) -> Parse<TableSource> {
        while self.at_join() {
            left = self.join_step(left)?;
            self.grow()?;
        }
        Ok(left)
    }

    fn at_join(&self) -> bool {
        match self.keyword() {
            K::JOIN | K::INNER | K::CROSS | K::OUTER | K::FULL | K::PIVOT | K::UNPIVOT => true,
            // LEFT and RIGHT are functions too, though not here.
            K::LEFT | K::RIGHT => true,
            _ => false,
        }
    }

    fn join_step(&mut self, left: TableSource) -> Parse<TableSource> {
        if self.eat_words(&[K::CROSS, K::JOIN]) {
            let right = self.source_primary()?;
            let join = Join {
                kind: JoinKind::Cross,
                hint: None,
                left,
                right,
                on: None,
            };
            return Ok(TableSource::Join(Box::new(join)));
        }
        if self.at_words(&[K::CROSS, K::APPLY]) || self.at_words(&[K::OUTER, K::APPLY]) {
            let outer = self.eat(K::OUTER);
            if !outer {
                self.advance();
            }
            self.advance();
            let right = Box::new(self.source_primary()?);
            return Ok(TableSource::Apply {
                left: Box::new(left),
                right,
                outer,
            });
        }
        if self.eat(K::PIVOT) {
            return self.pivot(left);
        }
        if self.eat(K::UNPIVOT) {
            return self.unpivot(left);
        }
        let (kind, hint) = self.join_kind()?;
        let right = self.nested(|parser| {
            let right = parser.source_primary()?;
            parser.joins_after(right)
        });
        let right = right?;
        self.expect(K::ON)?;
        let on = Some(self.condition()?);
        Ok(TableSource::Join(Box::new(Join {
            kind,
            hint,
            left,
            right,
            on,
        })))
    }

    fn join_kind(&mut self) -> Parse<(JoinKind, Option<JoinHint>)> {
        let kind = match self.eat_any(&[K::INNER, K::LEFT, K::RIGHT, K::FULL]) {
            Some(K::LEFT) => JoinKind::Left,
            Some(K::RIGHT) => JoinKind::Right,
            Some(K::FULL) => JoinKind::Full,
            _ => JoinKind::Inner,
        };
        if kind != JoinKind::Inner {
            self.eat(K::OUTER);
        }
        let hint = match self.eat_any(&[K::LOOP, K::HASH, K::MERGE, K::REMOTE]) {
            Some(K::LOOP) => Some(JoinHint::Loop),
            Some(K::HASH) => Some(JoinHint::Hash),
            Some(K::MERGE) => Some(JoinHint::Merge),
            Some(_) => Some(JoinHint::Remote),
            None => None,
        };
        self.expect(K::JOIN)?;
        Ok((kind, hint))
    }

    fn source_primary(&mut self) -> Parse<TableSource> {
        match self.kind() {
            TokenKind::Symbol(Symbol::LeftParen) => self.nested(Self::parenthesized_source),
            TokenKind::Symbol(Symbol::LeftBrace) => self.odbc_outer_join(),
            TokenKind::Symbol(Symbol::DoubleColon) => {
                let first = self.mark();
                self.advance();
                let name = self.object_name()?;
                let call = self.function_call(name, first, true)?;
                self.table_function(call)
            }
            TokenKind::Variable => self.variable_source(),
            TokenKind::Word(K::OPENROWSET | K::OPENQUERY | K::OPENDATASOURCE | K::OPENXML) => {
                self.rowset().map(TableSource::Rowset)
            }
            TokenKind::Word(
                K::CONTAINSTABLE
                | K::FREETEXTTABLE
                | K::SEMANTICKEYPHRASETABLE
                | K::SEMANTICSIMILARITYTABLE
                | K::SEMANTICSIMILARITYDETAILSTABLE,
            ) => self.full_text_table(),
            _ => self.named_source(),
        }
    }

    /// `{ oj a LEFT OUTER JOIN b ON .. }`
    fn odbc_outer_join(&mut self) -> Parse<TableSource> {
        self.expect_symbol(Symbol::LeftBrace)?;
        self.expect(K::OJ)?;
        let source = self.table_source()?;
        self.expect_symbol(Symbol::RightBrace)?;
        Ok(source)
    }

    fn parenthesized_source(&mut self) -> Parse<TableSource> {
        let first = self.mark();
        match self.keyword_at(1) {
            K::VALUES => return self.values_source(),
            K::INSERT | K::UPDATE | K::DELETE | K::MERGE => return self.modification_source(),
            _ => {}
        }
        match self.parenthesis()? {
            Parenthesized::Query(query) => self.derived(query, first),
            Parenthesized::Source(source) => Ok(source),
        }
    }

    fn derived(&mut self, query: Query, first: crate::lexer::Token) -> Parse<TableSource> {
        let (alias, columns) = self.alias_with_columns()?;
        Ok(TableSource::Derived {
            query: Box::new(query),
            alias,
            columns,
            span: self.span_from(first),
        })
    }

    /// A parenthesis holds a query or a joined table; a second one inside may be the left branch of either.
    fn parenthesis(&mut self) -> Parse<Parenthesized> {
        let first = self.mark();
        self.expect_open()?;
        let inner = if self.at_query() {
            Parenthesized::Query(self.query()?)
        } else if self.at_symbol(Symbol::LeftParen) && !self.keyword_at(1).eq(&K::VALUES) {
            match self.nested(Self::parenthesis)? {
                Parenthesized::Query(query) if self.at_set_operator() => {
                    Parenthesized::Query(self.query_after(query)?)
                }
                Parenthesized::Query(query) if self.at_symbol(Symbol::RightParen) => {
                    Parenthesized::Query(query)
                }
                Parenthesized::Query(query) => {
                    let source = self.derived(query, first)?;
                    Parenthesized::Source(self.joins_after(source)?)
                }
                Parenthesized::Source(source) => Parenthesized::Source(self.joins_after(source)?),
            }
        } else {
            Parenthesized::Source(self.table_source()?)
        };
        self.expect_close()?;
        Ok(inner)
    }

    fn values_source(&mut self) -> Parse<TableSource> {
        let first = self.mark();
        self.expect_open()?;
        self.expect(K::VALUES)?;
        let rows = self.list(Self::value_row)?;
        self.expect_close()?;
        let (alias, columns) = self.alias_with_columns()?;
        Ok(TableSource::Values {
            rows,
            alias,
            columns,
            span: self.span_from(first),
        })
    }

    pub(super) fn value_row(&mut self) -> Parse<Vec<Expr>> {
        self.paren_list(Self::expr_or_default)
    }

    fn modification_source(&mut self) -> Parse<TableSource> {
        self.expect_open()?;
        let statement = Box::new(self.data_modification()?);
        self.expect_close()?;
        let (alias, columns) = self.alias_with_columns()?;
        Ok(TableSource::Modification {
            statement,
            alias,
            columns,
        })
    }

    fn alias_with_columns(&mut self) -> Parse<(Option<Ident>, Vec<Ident>)> {
        let alias = self.optional_alias()?;
        let columns = match alias {
            Some(_) => self.optional_paren_list(Self::ident)?,
            None => Vec::new(),
        };
        Ok((alias, columns))
    }

    fn variable_source(&mut self) -> Parse<TableSource> {
        let first = self.mark();
        let name = self.variable()?;
        let span = self.span_from(first);
        if self.eat_symbol(Symbol::Dot) {
            let method = self.ident()?;
            let args = self.call_args()?;
            let (alias, columns) = self.alias_with_columns()?;
            return Ok(TableSource::MethodRows {
                target: Expr::Variable { name, span },
                method,
                args,
                alias,
                columns,
            });
        }
        let alias = self.source_alias()?;
        let hints = self.optional_table_hints()?;
        Ok(TableSource::Variable {
            name,
            alias,
            hints,
            span,
        })
    }

    /// An alias after a table; USING begins the source of a MERGE.
    fn source_alias(&mut self) -> Parse<Option<Ident>> {
        if self.at(K::USING) || (self.at(K::WINDOW) && self.keyword_at(2) == K::AS) {
            return Ok(None);
        }
        self.optional_alias()
    }

    fn named_source(&mut self) -> Parse<TableSource> {
        let first = self.mark();
        let name = self.object_name()?;
        if self.at_symbol(Symbol::LeftParen) && !self.at_old_hints() {
            if name.is_bare() && name.name.is("CHANGETABLE") {
                return self.change_table(name, first);
            }
            let call = self.function_call(name, first, false)?;
            return self.table_function(call);
        }
        let mut table = TableRef {
            name,
            alias: None,
            hints: Vec::new(),
            sample: None,
            system_time: None,
        };
        if self.at_words(&[K::FOR, K::SYSTEM_TIME]) {
            table.system_time = Some(self.system_time()?);
        }
        table.hints = self.optional_table_hints()?;
        table.alias = self.source_alias()?;
        if self.eat(K::TABLESAMPLE) {
            table.sample = Some(self.table_sample()?);
            if table.alias.is_none() {
                table.alias = self.source_alias()?;
            }
        }
        if table.hints.is_empty() {
            table.hints = self.optional_table_hints()?;
        }
        Ok(TableSource::Table(table))
    }

    fn table_function(&mut self, call: FunctionCall) -> Parse<TableSource> {
        let schema = if self.at(K::WITH)
            && self.symbol_at(1, Symbol::LeftParen)
            && call.name.name.is("OPENJSON")
        {
            self.advance();
            self.paren_list(Self::schema_column)?
        } else {
            Vec::new()
        };
        let (alias, columns) = self.alias_with_columns()?;
        let hints = self.optional_table_hints()?;
        Ok(TableSource::Function(TableFunction {
            call,
            alias,
            columns,
            schema,
            hints,
        }))
    }

    /// `CHANGETABLE(CHANGES t, version)`: the word becomes the first argument.
    fn change_table(&mut self, name: ObjectName, first: crate::lexer::Token) -> Parse<TableSource> {
        self.expect_open()?;
        let word = self.ident()?;
        let table = self.column_ref()?;
        let word = ColumnRef {
            table: None,
            name: word,
            span: table.span,
        };
        let mut args = vec![Expr::Column(word), Expr::Column(table)];
        while self.eat_comma() {
            args.push(self.expr()?);
        }
        self.expect_close()?;
        let call = FunctionCall {
            name,
            args,
            star: false,
            distinct: false,
            within_group: Vec::new(),
            nulls: None,
            over: None,
            odbc: false,
            system: false,
            span: self.span_from(first),
        };
        self.table_function(call)
    }

    /// `CONTAINSTABLE(t, columns, 'search', LANGUAGE n, top)`; `*` arrives as a column of that name.
    fn full_text_table(&mut self) -> Parse<TableSource> {
        let first = self.mark();
        let name = ObjectName::bare(self.any_word()?);
        self.expect_open()?;
        let mut args = vec![Expr::Column(self.column_ref()?)];
        while self.eat_comma() {
            let star = self.mark();
            if self.eat_symbol(Symbol::Star) {
                let name = Ident {
                    text: "*".to_owned(),
                    quoted: false,
                };
                args.push(Expr::Column(ColumnRef {
                    table: None,
                    name,
                    span: self.span_from(star),
                }));
            } else if self.at_symbol(Symbol::LeftParen) && self.ident_at(1) {
                args.extend(
                    self.paren_list(Self::column_ref)?
                        .into_iter()
                        .map(Expr::Column),
                );
            } else {
                self.eat(K::LANGUAGE);
                args.push(self.expr()?);
            }
        }
        self.expect_close()?;
        let call = FunctionCall {
            name,
            args,
            star: false,
            distinct: false,
            within_group: Vec::new(),
            nulls: None,
            over: None,
            odbc: false,
            system: false,
            span: self.span_from(first),
        };
        self.table_function(call)
    }

    fn system_time(&mut self) -> Parse<SystemTime> {
        self.expect_words(&[K::FOR, K::SYSTEM_TIME])?;
        if self.eat(K::ALL) {
            return Ok(SystemTime::All);
        }
        if self.eat_words(&[K::AS, K::OF]) {
            return self.sum().map(SystemTime::AsOf);
        }
        if self.eat(K::BETWEEN) {
            let low = self.sum()?;
            self.expect(K::AND)?;
            return Ok(SystemTime::Between(low, self.sum()?));
        }
        if self.eat(K::FROM) {
            let low = self.sum()?;
            self.expect(K::TO)?;
            return Ok(SystemTime::FromTo(low, self.sum()?));
        }
        self.expect_words(&[K::CONTAINED, K::IN])?;
        self.expect_open()?;
        let low = self.expr()?;
        self.expect_symbol(Symbol::Comma)?;
        let high = self.expr()?;
        self.expect_close()?;
        Ok(SystemTime::ContainedIn(low, high))
    }

    fn table_sample(&mut self) -> Parse<TableSample> {
        let system = self.eat(K::SYSTEM);
        self.expect_open()?;
        let amount = self.expr()?;
        let unit = if self.eat(K::ROWS) {
            SampleUnit::Rows
        } else {
            SampleUnit::Percent
        };
        self.eat(K::PERCENT);
        self.expect_close()?;
        let repeatable = if self.eat(K::REPEATABLE) {
            self.expect_open()?;
            let seed = self.expr()?;
            self.expect_close()?;
            Some(seed)
        } else {
            None
        };
        Ok(TableSample {
            system,
            amount,
            unit,
            repeatable,
        })
    }

    /// `PIVOT (SUM(x) FOR c IN ([a], [b])) AS p`
    fn pivot(&mut self, source: TableSource) -> Parse<TableSource> {
        self.expect_open()?;
        let first = self.mark();
        let name = self.object_name()?;
        let aggregate = self.function_call(name, first, false)?;
        self.expect(K::FOR)?;
        let column = self.column_ref()?;
        self.expect(K::IN)?;
        let values = self.ident_list()?;
        self.expect_close()?;
        let alias = self.source_alias()?;
        Ok(TableSource::Pivot(Box::new(Pivot {
            source,
            aggregate,
            column,
            values,
            alias,
        })))
    }

    /// `UNPIVOT (v FOR c IN (a, b)) AS u`
    fn unpivot(&mut self, source: TableSource) -> Parse<TableSource> {
        self.expect_open()?;
        let value = self.ident()?;
        self.expect(K::FOR)?;
        let column = self.ident()?;
        self.expect(K::IN)?;
        let columns = self.paren_list(Self::column_ref)?;
        self.expect_close()?;
        let alias = self.source_alias()?;
        Ok(TableSource::Unpivot(Box::new(Unpivot {
            source,
            value,
            column,
            columns,
            alias,
        })))
    }

    pub(super) fn rowset(&mut self) -> Parse<Rowset> {
        match self.eat_any(&[K::OPENQUERY, K::OPENROWSET, K::OPENDATASOURCE, K::OPENXML]) {
            Some(K::OPENQUERY) => self.open_query(),
            Some(K::OPENROWSET) => self.open_rowset(),
            Some(K::OPENDATASOURCE) => self.open_data_source(),
            Some(_) => self.open_xml(),
            None => Err(self.unexpected()),
        }
    }

    fn open_query(&mut self) -> Parse<Rowset> {
        self.expect_open()?;
        let server = self.ident()?;
        self.expect_symbol(Symbol::Comma)?;
        let query = self.string()?;
        self.expect_close()?;
        let (alias, columns) = self.alias_with_columns()?;
        Ok(Rowset::OpenQuery {
            server,
            query,
            alias,
            columns,
        })
    }

    fn open_rowset(&mut self) -> Parse<Rowset> {
        let args = self.paren_list(Self::rowset_arg)?;
        let schema = if self.at(K::WITH) && self.symbol_at(1, Symbol::LeftParen) {
            self.advance();
            self.paren_list(Self::schema_column)?
        } else {
            Vec::new()
        };
        let (alias, columns) = self.alias_with_columns()?;
        Ok(Rowset::OpenRowset {
            args,
            schema,
            alias,
            columns,
        })
    }

    fn rowset_arg(&mut self) -> Parse<RowsetArg> {
        if self.eat(K::BULK) {
            let files = if self.at_symbol(Symbol::LeftParen) {
                self.paren_list(Self::string)?
            } else {
                vec![self.string()?]
            };
            return Ok(RowsetArg::Bulk(files));
        }
        if self.at_string() && self.symbol_at(1, Symbol::Semicolon) {
            let mut pieces = vec![self.string()?];
            while self.eat_symbol(Symbol::Semicolon) {
                pieces.push(self.string()?);
            }
            return Ok(RowsetArg::Connection(pieces));
        }
        if self.at_string() || self.at_variable() || self.kind() == TokenKind::Integer {
            return self.expr().map(RowsetArg::Value);
        }
        if self.symbol_at(1, Symbol::Equal) {
            return self.option_item().map(RowsetArg::Option);
        }
        if matches!(
            self.keyword(),
            K::SINGLE_BLOB | K::SINGLE_CLOB | K::SINGLE_NCLOB
        ) {
            return self.word_upper().map(RowsetArg::Word);
        }
        self.object_name().map(RowsetArg::Object)
    }

    fn open_data_source(&mut self) -> Parse<Rowset> {
        self.expect_open()?;
        let provider = self.string()?;
        self.expect_symbol(Symbol::Comma)?;
        let init = self.string()?;
        self.expect_close()?;
        self.expect_symbol(Symbol::Dot)?;
        let name = self.object_name()?;
        let alias = self.source_alias()?;
        Ok(Rowset::OpenDataSource {
            provider,
            init,
            name,
            alias,
        })
    }

    fn open_xml(&mut self) -> Parse<Rowset> {
        let args = self.expr_list()?;
        let (mut schema, mut table) = (Vec::new(), None);
        if self.eat(K::WITH) {
            if self.at_symbol(Symbol::LeftParen) {
                schema = self.paren_list(Self::schema_column)?;
            } else {
                table = Some(self.object_name()?);
            }
        }
        let alias = self.source_alias()?;
        Ok(Rowset::OpenXml {
            args,
            schema,
            table,
            alias,
        })
    }

    fn schema_column(&mut self) -> Parse<SchemaColumn> {
        let name = self.ident()?;
        let data_type = self.type_name()?;
        let collation = self.optional_collation()?;
        let path = if self.at_string() {
            Some(self.string()?)
        } else {
            None
        };
        let as_json = self.eat_words(&[K::AS, K::JSON]);
        Ok(SchemaColumn {
            name,
            data_type,
            collation,
            path,
            as_json,
        })
    }
}
