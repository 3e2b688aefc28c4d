//! Indexes and statistics.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn index_column(&mut self) -> Parse<IndexColumn> {
        let name = self.ident()?;
        let descending = self.eat(K::DESC);
        if !descending {
            self.eat(K::ASC);
        }
        Ok(IndexColumn { name, descending })
    }

    /// `WITH (...)`, or the old form without parentheses: `WITH FILLFACTOR = 80, PAD_INDEX`.
    pub(super) fn index_options(&mut self) -> Parse<Vec<OptionItem>> {
        if self.at(K::WITH) && self.symbol_at(1, Symbol::LeftParen) {
            return self.optional_with_options();
        }
        let old = [
            K::FILLFACTOR,
            K::PAD_INDEX,
            K::DROP_EXISTING,
            K::IGNORE_DUP_KEY,
            K::SORT_IN_TEMPDB,
            K::STATISTICS_NORECOMPUTE,
        ];
        if self.at(K::WITH) && old.contains(&self.keyword_at(1)) {
            self.advance();
            return self.loose_options();
        }
        Ok(Vec::new())
    }

    fn optional_include(&mut self) -> Parse<Vec<Ident>> {
        if self.eat(K::INCLUDE) {
            self.ident_list()
        } else {
            Ok(Vec::new())
        }
    }

    fn optional_filter(&mut self) -> Parse<Option<Condition>> {
        if !self.eat(K::WHERE) {
            return Ok(None);
        }
        let start = self.at;
        let condition = self.condition()?;
        self.refuse_connectives(start)?;
        Ok(Some(condition))
    }

    /// A filter knows AND, comparisons, IN and IS [NOT] NULL only: syntax errors for the rest.
    fn refuse_connectives(&self, start: usize) -> Parse<()> {
        const REFUSED: [K; 5] = [K::OR, K::NOT, K::LIKE, K::BETWEEN, K::EXISTS];
        let tokens = self.tokens.list.get(start..self.at).unwrap_or_default();
        let mut before = K::NONE;
        for (i, token) in tokens.iter().enumerate() {
            let TokenKind::Word(word) = token.kind else {
                before = K::NONE;
                continue;
            };
            if REFUSED.contains(&word) && !(word == K::NOT && before == K::IS) {
                let next = tokens.get(i + 1).map(|t| t.kind);
                return Err(match next {
                    Some(TokenKind::Word(K::IN)) => SyntaxError::near(token.line, "NOT"),
                    _ => SyntaxError::near_keyword(token.line, self.text_of(*token)),
                });
            }
            before = word;
        }
        Ok(())
    }

    /// `INDEX ix ...` inside a table definition.
    pub(super) fn inline_index(&mut self) -> Parse<InlineIndex> {
        self.expect(K::INDEX)?;
        let name = self.ident()?;
        let unique = self.eat(K::UNIQUE);
        let clustered = self.optional_clustered();
        let columnstore = self.eat(K::COLUMNSTORE);
        let hash = self.eat(K::HASH);
        let columns = self.optional_paren_list(Self::index_column)?;
        let include = self.optional_include()?;
        let filter = self.optional_filter()?;
        let options = self.index_options()?;
        let storage = if self.eat(K::ON) {
            Some(self.data_space()?)
        } else {
            None
        };
        Ok(InlineIndex {
            name,
            unique,
            clustered,
            columnstore,
            hash,
            columns,
            include,
            filter,
            options,
            storage,
        })
    }

    pub(super) fn at_create_index(&self) -> bool {
        match self.keyword() {
            K::INDEX | K::UNIQUE | K::CLUSTERED | K::NONCLUSTERED | K::COLUMNSTORE => true,
            K::PRIMARY => self.keyword_at(1) == K::XML,
            K::XML | K::SPATIAL => self.keyword_at(1) == K::INDEX,
            _ => false,
        }
    }

    pub(super) fn create_index(&mut self) -> Parse<StatementKind> {
        let unique = self.eat(K::UNIQUE);
        let clustered = self.optional_clustered();
        let kind = self.index_kind()?;
        self.expect(K::INDEX)?;
        let name = self.ident()?;
        self.expect(K::ON)?;
        let table = self.object_name()?;
        let columns = if self.columnless(&kind) {
            Vec::new()
        } else {
            self.paren_list(Self::index_column)?
        };
        let mut index = CreateIndex {
            name,
            table,
            kind,
            unique,
            clustered,
            columns,
            include: self.optional_include()?,
            filter: None,
            options: Vec::new(),
            storage: None,
            filestream_on: None,
        };
        self.index_tail(&mut index)?;
        Ok(StatementKind::CreateIndex(Box::new(index)))
    }

    fn index_kind(&mut self) -> Parse<IndexKind> {
        if self.eat(K::COLUMNSTORE) {
            return Ok(IndexKind::Columnstore { order: Vec::new() });
        }
        let primary = self.eat(K::PRIMARY);
        if self.eat(K::XML) {
            return Ok(IndexKind::Xml {
                primary,
                using: None,
                purpose: None,
            });
        }
        if self.eat(K::SPATIAL) {
            return Ok(IndexKind::Spatial { using: None });
        }
        Ok(IndexKind::Rowstore)
    }

    /// A clustered columnstore index lists no columns.
    fn columnless(&self, kind: &IndexKind) -> bool {
        matches!(kind, IndexKind::Columnstore { .. }) && !self.at_symbol(Symbol::LeftParen)
    }

    fn index_tail(&mut self, index: &mut CreateIndex) -> Parse<()> {
        loop {
            match &mut index.kind {
                IndexKind::Columnstore { order } if self.at(K::ORDER) => {
                    self.advance();
                    *order = self.paren_list(Self::index_column)?;
                    continue;
                }
                IndexKind::Xml { using, purpose, .. } if self.at_words(&[K::USING, K::XML]) => {
                    self.expect_words(&[K::USING, K::XML, K::INDEX])?;
                    *using = Some(self.ident()?);
                    if self.eat(K::FOR) {
                        *purpose = Some(self.word_upper()?);
                    }
                    continue;
                }
                IndexKind::Spatial { using } if self.at(K::USING) => {
                    self.advance();
                    *using = Some(self.word_upper()?);
                    continue;
                }
                _ => {}
            }
            if self.at(K::WHERE) && index.clustered == Some(true) {
                return Err(SyntaxError::near(self.token(0).line, "WHERE"));
            }
            if self.at(K::WHERE) {
                index.filter = self.optional_filter()?;
            } else if self.at(K::WITH) && index.options.is_empty() {
                index.options = self.index_options()?;
                if index.options.is_empty() {
                    return Ok(());
                }
            } else if self.eat(K::ON) {
                index.storage = Some(self.data_space()?);
            } else if self.eat(K::FILESTREAM_ON) {
                index.filestream_on = Some(self.filegroup_name()?);
            } else {
                return Ok(());
            }
        }
    }

    pub(super) fn alter_index(&mut self) -> Parse<StatementKind> {
        self.expect(K::INDEX)?;
        let name = if self.eat(K::ALL) {
            None
        } else {
            Some(self.ident()?)
        };
        self.expect(K::ON)?;
        let table = self.object_name()?;
        let action = match self.keyword() {
            K::REBUILD => {
                self.advance();
                let partition = self.optional_partition()?;
                AlterIndexAction::Rebuild {
                    partition,
                    options: self.index_options()?,
                }
            }
            K::REORGANIZE => {
                self.advance();
                let partition = self.optional_partition()?;
                AlterIndexAction::Reorganize {
                    partition,
                    options: self.optional_with_options()?,
                }
            }
            K::DISABLE => self.index_action(AlterIndexAction::Disable),
            K::PAUSE => self.index_action(AlterIndexAction::Pause),
            K::ABORT => self.index_action(AlterIndexAction::Abort),
            K::RESUME => {
                self.advance();
                AlterIndexAction::Resume(self.optional_with_options()?)
            }
            K::SET => {
                self.advance();
                AlterIndexAction::Set(self.option_list()?)
            }
            _ => return Err(self.unexpected()),
        };
        Ok(StatementKind::AlterIndex(AlterIndex {
            name,
            table,
            action,
        }))
    }

    fn index_action(&mut self, action: AlterIndexAction) -> AlterIndexAction {
        self.advance();
        action
    }

    /// After DROP INDEX.
    pub(super) fn drop_index(&mut self) -> Parse<StatementKind> {
        let if_exists = self.eat_words(&[K::IF, K::EXISTS]);
        let indexes = self.list(Self::dropped_index)?;
        Ok(StatementKind::DropIndex(DropIndex { if_exists, indexes }))
    }

    fn dropped_index(&mut self) -> Parse<DropIndexItem> {
        let mut name = self.object_name()?;
        if self.eat(K::ON) {
            let table = self.object_name()?;
            let options = self.optional_with_options()?;
            return Ok(DropIndexItem {
                name: name.name,
                table,
                options,
            });
        }
        // The old form: the last part is the index, the parts before it the table.
        let Some(table) = name.schema.take() else {
            return Err(self.unexpected());
        };
        let index = std::mem::replace(&mut name.name, table);
        name.schema = name.database.take();
        name.database = name.server.take();
        Ok(DropIndexItem {
            name: index,
            table: name,
            options: Vec::new(),
        })
    }

    /// After CREATE.
    pub(super) fn create_statistics(&mut self) -> Parse<StatementKind> {
        self.expect(K::STATISTICS)?;
        let name = self.ident()?;
        self.expect(K::ON)?;
        let table = self.object_name()?;
        let columns = self.ident_list()?;
        let filter = self.optional_filter()?;
        let options = if self.eat(K::WITH) {
            self.list(Self::statistics_option)?
        } else {
            Vec::new()
        };
        Ok(StatementKind::CreateStatistics(CreateStatistics {
            name,
            table,
            columns,
            filter,
            options,
        }))
    }

    pub(super) fn update_statistics(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::UPDATE, K::STATISTICS])?;
        let table = self.object_name()?;
        let names = if self.at_symbol(Symbol::LeftParen) {
            self.ident_list()?
        } else if self.at_ident() && !self.symbol_at(1, Symbol::Colon) {
            vec![self.ident()?]
        } else {
            Vec::new()
        };
        let options = if self.eat(K::WITH) {
            self.list(Self::statistics_option)?
        } else {
            Vec::new()
        };
        Ok(StatementKind::UpdateStatistics(UpdateStatistics {
            table,
            names,
            options,
        }))
    }

    /// `FULLSCAN`, `SAMPLE 50 PERCENT`, `RESAMPLE ON PARTITIONS (1)`, `NORECOMPUTE`, `MAXDOP = 2`.
    fn statistics_option(&mut self) -> Parse<OptionItem> {
        if self.at(K::SAMPLE) && self.kind_at(1) == TokenKind::Integer {
            let name = self.word_upper()?;
            let token = self.advance();
            let amount = self.text_of(token).to_owned();
            let unit = self.word_upper()?;
            return Ok(OptionItem {
                name,
                value: OptionValue::Quantity { amount, unit },
            });
        }
        if self.at(K::RESAMPLE) && self.keyword_at(1) == K::ON {
            let name = self.word_upper()?;
            self.expect_words(&[K::ON, K::PARTITIONS])?;
            let partitions = OptionItem {
                name: "PARTITIONS".to_owned(),
                value: OptionValue::List(self.option_list()?),
            };
            return Ok(OptionItem {
                name,
                value: OptionValue::Qualified(Box::new(OptionValue::On), vec![partitions]),
            });
        }
        self.loose_option()
    }
}
