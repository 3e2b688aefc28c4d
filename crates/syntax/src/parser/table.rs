//! CREATE TABLE and ALTER TABLE: columns, constraints, storage.

use super::{Parse, Parser};
use crate::ast::*;
use crate::error::SyntaxError;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Parse<StatementKind> {
        self.expect(K::TABLE)?;
        let name = self.object_name()?;
        let mut as_kind = None;
        if self.eat(K::AS) {
            if !self.at_any(&[K::FILETABLE, K::NODE, K::EDGE]) {
                return Err(self.unexpected());
            }
            as_kind = Some(self.word_upper()?);
        }
        let definition = if self.at_symbol(Symbol::LeftParen) {
            self.table_definition()?
        } else {
            TableDefinition::default()
        };
        let columnless = matches!(as_kind.as_deref(), Some("FILETABLE" | "NODE" | "EDGE"));
        if definition.columns.is_empty() && !columnless {
            return Err(self.unexpected());
        }
        let mut table = CreateTable {
            name,
            definition,
            as_kind,
            storage: None,
            text_image_on: None,
            filestream_on: None,
            options: Vec::new(),
        };
        self.table_tail(&mut table)?;
        Ok(StatementKind::CreateTable(Box::new(table)))
    }

    fn table_tail(&mut self, table: &mut CreateTable) -> Parse<()> {
        loop {
            if self.eat(K::ON) {
                table.storage = Some(self.data_space()?);
            } else if self.eat(K::TEXTIMAGE_ON) {
                table.text_image_on = Some(self.filegroup_name()?);
            } else if self.eat(K::FILESTREAM_ON) {
                table.filestream_on = Some(self.filegroup_name()?);
            } else if self.at(K::WITH) && self.symbol_at(1, Symbol::LeftParen) {
                table.options.extend(self.optional_with_options()?);
            } else if table.as_kind.is_none()
                && self.at(K::AS)
                && matches!(self.keyword_at(1), K::NODE | K::EDGE)
            {
                self.advance();
                table.as_kind = Some(self.word_upper()?);
            } else {
                return Ok(());
            }
        }
    }

    /// A filegroup or partition scheme: a name, a string, or the word PRIMARY or DEFAULT.
    pub(super) fn filegroup_name(&mut self) -> Parse<Ident> {
        if self.at_any(&[K::PRIMARY, K::DEFAULT]) {
            return self.any_word();
        }
        self.ident_or_string()
    }

    pub(super) fn data_space(&mut self) -> Parse<DataSpace> {
        let name = self.filegroup_name()?;
        let column = if self.eat_symbol(Symbol::LeftParen) {
            let column = self.ident()?;
            self.expect_close()?;
            Some(column)
        } else {
            None
        };
        Ok(DataSpace { name, column })
    }

    /// `( columns, constraints, indexes )`; a comma before the closing parenthesis is allowed.
    pub(super) fn table_definition(&mut self) -> Parse<TableDefinition> {
        self.expect_open()?;
        let mut definition = TableDefinition::default();
        loop {
            self.table_element(&mut definition)?;
            let comma = self.eat_comma();
            if self.eat_symbol(Symbol::RightParen) {
                return Ok(definition);
            }
            if !comma && !self.at_table_constraint() {
                return Err(self.unexpected());
            }
        }
    }

    fn at_table_constraint(&self) -> bool {
        self.at_any(&[
            K::CONSTRAINT,
            K::PRIMARY,
            K::UNIQUE,
            K::FOREIGN,
            K::CHECK,
            K::INDEX,
        ])
    }

    fn table_element(&mut self, definition: &mut TableDefinition) -> Parse<()> {
        if self.at(K::INDEX) {
            definition.indexes.push(self.inline_index()?);
        } else if self.at_table_constraint()
            || self.at(K::DEFAULT)
            || self.at(K::CONNECTION) && !self.type_follows()
        {
            let constraint = self.table_constraint()?;
            definition.constraints.push(constraint);
        } else if self.at_words(&[K::PERIOD, K::FOR]) {
            definition.period = Some(self.period()?);
        } else {
            self.column_definition(definition)?;
        }
        Ok(())
    }

    /// A word which also names a column is one when a type comes next.
    fn type_follows(&self) -> bool {
        self.ident_at(1)
    }

    fn period(&mut self) -> Parse<(Ident, Ident)> {
        self.expect_words(&[K::PERIOD, K::FOR, K::SYSTEM_TIME])?;
        self.expect_open()?;
        let start = self.ident()?;
        self.expect_symbol(Symbol::Comma)?;
        let end = self.ident()?;
        self.expect_close()?;
        Ok((start, end))
    }

    fn column_definition(&mut self, definition: &mut TableDefinition) -> Parse<()> {
        let first = self.mark();
        let name = self.ident()?;
        let kind = if self.eat(K::AS) {
            let expr = self.expr()?;
            ColumnKind::Computed {
                expr,
                persisted: self.eat(K::PERSISTED),
            }
        } else if matches!(
            self.kind(),
            TokenKind::Symbol(Symbol::Comma | Symbol::RightParen)
        ) && name.is("timestamp")
        {
            ColumnKind::Untyped
        } else if matches!(
            self.kind(),
            TokenKind::Symbol(Symbol::Comma | Symbol::RightParen)
        ) {
            return Err(SyntaxError::new(
                173,
                self.token(0).line,
                format!(
                    "The definition for column '{}' must include a data type.",
                    name.text
                ),
            ));
        } else {
            ColumnKind::Data(self.type_name()?)
        };
        let mut column = ColumnDefinition {
            name,
            kind,
            nullable: None,
            identity: None,
            collation: None,
            default: None,
            constraints: Vec::new(),
            index: None,
            rowguidcol: false,
            sparse: false,
            filestream: false,
            hidden: false,
            generated: None,
            masked: None,
            column_set: false,
            encrypted: Vec::new(),
            span: self.span_from(first),
        };
        while self.column_option(&mut column, definition)? {}
        column.span = self.span_from(first);
        definition.columns.push(column);
        Ok(())
    }

    /// Reads one option of a column; false when there is none.
    fn column_option(
        &mut self,
        column: &mut ColumnDefinition,
        definition: &mut TableDefinition,
    ) -> Parse<bool> {
        match self.keyword() {
            K::NULL => {
                self.advance();
                column.nullable = Some(true);
            }
            K::NOT if self.keyword_at(1) == K::NULL => {
                column.nullable = self.optional_nullability()?;
            }
            K::NOT if self.at_words(&[K::NOT, K::FOR, K::REPLICATION]) => {
                self.expect_words(&[K::NOT, K::FOR, K::REPLICATION])?;
                match &mut column.identity {
                    Some(identity) => identity.not_for_replication = true,
                    None => return Err(self.unexpected()),
                }
            }
            K::IDENTITY => column.identity = Some(self.identity()?),
            K::COLLATE => column.collation = self.optional_collation()?,
            K::ROWGUIDCOL => column.rowguidcol = self.eat(K::ROWGUIDCOL),
            K::SPARSE => column.sparse = self.eat(K::SPARSE),
            K::FILESTREAM => column.filestream = self.eat(K::FILESTREAM),
            K::HIDDEN => column.hidden = self.eat(K::HIDDEN),
            K::PERSISTED => return self.late_persisted(column),
            K::COLUMN_SET => {
                self.expect_words(&[K::COLUMN_SET, K::FOR, K::ALL_SPARSE_COLUMNS])?;
                column.column_set = true;
            }
            K::GENERATED => column.generated = Some(self.generated()?),
            K::MASKED => column.masked = Some(self.mask()?),
            K::ENCRYPTED => {
                self.expect_words(&[K::ENCRYPTED, K::WITH])?;
                column.encrypted = self.option_list()?;
            }
            K::INDEX => column.index = Some(self.inline_index()?),
            K::CONSTRAINT
            | K::DEFAULT
            | K::PRIMARY
            | K::UNIQUE
            | K::CHECK
            | K::REFERENCES
            | K::FOREIGN => {
                self.column_constraint(column, definition)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn late_persisted(&mut self, column: &mut ColumnDefinition) -> Parse<bool> {
        match &mut column.kind {
            ColumnKind::Computed { persisted, .. } => *persisted = true,
            _ => return Err(self.unexpected()),
        }
        self.advance();
        Ok(true)
    }

    fn identity(&mut self) -> Parse<Identity> {
        self.expect(K::IDENTITY)?;
        let (mut seed, mut increment) = (None, None);
        if self.eat_symbol(Symbol::LeftParen) {
            seed = Some(self.signed_number()?);
            if self.eat_comma() {
                increment = Some(self.signed_number()?);
            }
            self.expect_close()?;
        }
        let not_for_replication = self.eat_words(&[K::NOT, K::FOR, K::REPLICATION]);
        Ok(Identity {
            seed,
            increment,
            not_for_replication,
        })
    }

    /// `GENERATED ALWAYS AS ROW START`: the words after AS.
    fn generated(&mut self) -> Parse<String> {
        self.expect_words(&[K::GENERATED, K::ALWAYS, K::AS])?;
        let subject = self.word_upper()?;
        let edge = self.word_upper()?;
        Ok(format!("{subject} {edge}"))
    }

    /// `MASKED WITH (FUNCTION = '..')`.
    fn mask(&mut self) -> Parse<String> {
        self.expect_words(&[K::MASKED, K::WITH])?;
        self.expect_open()?;
        self.expect(K::FUNCTION)?;
        self.expect_equal()?;
        let function = self.string()?;
        self.expect_close()?;
        Ok(function)
    }

    /// A constraint at a column. One that names its columns belongs to the table: the comma before it may be missing.
    fn column_constraint(
        &mut self,
        column: &mut ColumnDefinition,
        definition: &mut TableDefinition,
    ) -> Parse<()> {
        let first = self.mark();
        let name = if self.eat(K::CONSTRAINT) {
            Some(self.ident()?)
        } else {
            None
        };
        match self.keyword() {
            K::DEFAULT => column.default = Some(self.default_constraint(name)?),
            K::PRIMARY | K::UNIQUE => {
                let key = self.key_constraint()?;
                if key.columns.is_empty() {
                    column.constraints.push(ColumnConstraint {
                        name,
                        kind: ColumnConstraintKind::Key(key),
                    });
                } else {
                    let kind = TableConstraintKind::Key(key);
                    definition.constraints.push(TableConstraint {
                        name,
                        kind,
                        span: self.span_from(first),
                    });
                }
            }
            K::CHECK => {
                let (condition, not_for_replication) = self.check()?;
                let kind = ColumnConstraintKind::Check {
                    condition,
                    not_for_replication,
                };
                column.constraints.push(ColumnConstraint { name, kind });
            }
            K::FOREIGN if self.symbol_at(2, Symbol::LeftParen) => {
                let kind = self.foreign_key()?;
                definition.constraints.push(TableConstraint {
                    name,
                    kind,
                    span: self.span_from(first),
                });
            }
            _ => {
                self.eat_words(&[K::FOREIGN, K::KEY]);
                let kind = ColumnConstraintKind::References(self.references()?);
                column.constraints.push(ColumnConstraint { name, kind });
            }
        }
        Ok(())
    }

    fn default_constraint(&mut self, name: Option<Ident>) -> Parse<DefaultConstraint> {
        self.expect(K::DEFAULT)?;
        let expr = self.expr()?;
        let with_values = self.eat_words(&[K::WITH, K::VALUES]);
        Ok(DefaultConstraint {
            name,
            expr,
            with_values,
        })
    }

    /// `PRIMARY KEY | UNIQUE [CLUSTERED | NONCLUSTERED [HASH]] [(columns)] [WITH ..] [ON ..]`.
    fn key_constraint(&mut self) -> Parse<KeyConstraint> {
        let primary = self.eat(K::PRIMARY);
        self.expect(if primary { K::KEY } else { K::UNIQUE })?;
        let clustered = self.optional_clustered();
        let hash = self.eat(K::HASH);
        let columns = self.optional_paren_list(Self::index_column)?;
        let options = self.index_options()?;
        let storage = if self.eat(K::ON) {
            Some(self.data_space()?)
        } else {
            None
        };
        let not_enforced = self.eat_words(&[K::NOT, K::ENFORCED]);
        Ok(KeyConstraint {
            primary,
            clustered,
            hash,
            columns,
            options,
            storage,
            not_enforced,
        })
    }

    pub(super) fn optional_clustered(&mut self) -> Option<bool> {
        match self.eat_any(&[K::CLUSTERED, K::NONCLUSTERED]) {
            Some(K::CLUSTERED) => Some(true),
            Some(_) => Some(false),
            None => None,
        }
    }

    fn check(&mut self) -> Parse<(Condition, bool)> {
        self.expect(K::CHECK)?;
        let not_for_replication = self.eat_words(&[K::NOT, K::FOR, K::REPLICATION]);
        self.expect_open()?;
        let condition = self.condition()?;
        self.expect_close()?;
        Ok((condition, not_for_replication))
    }

    fn foreign_key(&mut self) -> Parse<TableConstraintKind> {
        self.expect_words(&[K::FOREIGN, K::KEY])?;
        let columns = self.ident_list()?;
        Ok(TableConstraintKind::ForeignKey {
            columns,
            references: self.references()?,
        })
    }

    fn references(&mut self) -> Parse<References> {
        self.expect(K::REFERENCES)?;
        let table = self.object_name()?;
        let columns = self.optional_paren_list(Self::ident)?;
        let mut references = References {
            table,
            columns,
            on_delete: None,
            on_update: None,
            not_for_replication: false,
        };
        loop {
            if self.eat_words(&[K::ON, K::DELETE]) {
                references.on_delete = Some(self.referential_action()?);
            } else if self.eat_words(&[K::ON, K::UPDATE]) {
                references.on_update = Some(self.referential_action()?);
            } else if self.eat_words(&[K::NOT, K::FOR, K::REPLICATION]) {
                references.not_for_replication = true;
            } else {
                return Ok(references);
            }
        }
    }

    fn referential_action(&mut self) -> Parse<ReferentialAction> {
        if self.eat(K::CASCADE) {
            return Ok(ReferentialAction::Cascade);
        }
        if self.eat_words(&[K::NO, K::ACTION]) {
            return Ok(ReferentialAction::NoAction);
        }
        if self.eat_words(&[K::SET, K::NULL]) {
            return Ok(ReferentialAction::SetNull);
        }
        self.expect_words(&[K::SET, K::DEFAULT])?;
        Ok(ReferentialAction::SetDefault)
    }

    fn table_constraint(&mut self) -> Parse<TableConstraint> {
        let first = self.mark();
        let name = if self.eat(K::CONSTRAINT) {
            Some(self.ident()?)
        } else {
            None
        };
        let kind = match self.keyword() {
            K::PRIMARY | K::UNIQUE => TableConstraintKind::Key(self.key_constraint()?),
            K::FOREIGN => self.foreign_key()?,
            K::CHECK => {
                let (condition, not_for_replication) = self.check()?;
                TableConstraintKind::Check {
                    condition,
                    not_for_replication,
                }
            }
            K::DEFAULT => self.default_for()?,
            K::CONNECTION => {
                self.advance();
                let open = self.mark();
                self.skip_parenthesis()?;
                TableConstraintKind::Connection(self.span_from(open).text(self.text).to_owned())
            }
            _ => return Err(self.unexpected()),
        };
        Ok(TableConstraint {
            name,
            kind,
            span: self.span_from(first),
        })
    }

    /// `DEFAULT expr FOR column [WITH VALUES]`.
    fn default_for(&mut self) -> Parse<TableConstraintKind> {
        self.expect(K::DEFAULT)?;
        let expr = self.expr()?;
        self.expect(K::FOR)?;
        let column = self.ident()?;
        let with_values = self.eat_words(&[K::WITH, K::VALUES]);
        Ok(TableConstraintKind::Default {
            expr,
            column,
            with_values,
        })
    }

    pub(super) fn alter_table(&mut self) -> Parse<StatementKind> {
        self.expect(K::TABLE)?;
        let name = self.object_name()?;
        let action = self.alter_table_action()?;
        Ok(StatementKind::AlterTable(Box::new(AlterTable {
            name,
            action,
        })))
    }

    fn alter_table_action(&mut self) -> Parse<AlterTableAction> {
        let validate = self.check_prefix();
        match self.keyword() {
            K::ADD => {
                self.advance();
                Ok(AlterTableAction::Add {
                    check: validate,
                    definition: self.added_elements()?,
                })
            }
            K::CHECK | K::NOCHECK => {
                let enable = self.advance().kind == TokenKind::Word(K::CHECK);
                self.expect(K::CONSTRAINT)?;
                let names = self.all_or_names()?;
                Ok(AlterTableAction::CheckConstraint {
                    validate,
                    enable,
                    names,
                })
            }
            _ if validate.is_some() => Err(self.unexpected()),
            K::ALTER => self.alter_column_or_index(),
            K::DROP => {
                self.advance();
                self.table_drops().map(AlterTableAction::Drop)
            }
            K::ENABLE | K::DISABLE => self.switch_in_table(),
            K::SWITCH => self.switch_partition(),
            K::SET => {
                self.advance();
                self.option_list().map(AlterTableAction::Set)
            }
            K::REBUILD => {
                self.advance();
                let partition = self.optional_partition()?;
                Ok(AlterTableAction::Rebuild {
                    partition,
                    options: self.optional_with_options()?,
                })
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `WITH CHECK` or `WITH NOCHECK`.
    fn check_prefix(&mut self) -> Option<bool> {
        if self.eat_words(&[K::WITH, K::CHECK]) {
            return Some(true);
        }
        self.eat_words(&[K::WITH, K::NOCHECK]).then_some(false)
    }

    fn added_elements(&mut self) -> Parse<TableDefinition> {
        let mut definition = TableDefinition::default();
        loop {
            self.table_element(&mut definition)?;
            if !self.eat_comma() {
                return Ok(definition);
            }
            self.eat(K::ADD);
        }
    }

    fn all_or_names(&mut self) -> Parse<Vec<Ident>> {
        if self.eat(K::ALL) {
            Ok(Vec::new())
        } else {
            self.list(Self::ident)
        }
    }

    fn alter_column_or_index(&mut self) -> Parse<AlterTableAction> {
        self.expect(K::ALTER)?;
        if self.eat(K::INDEX) {
            let name = self.ident()?;
            self.expect(K::REBUILD)?;
            return Ok(AlterTableAction::AlterIndex {
                name,
                options: self.optional_with_options()?,
            });
        }
        self.expect(K::COLUMN)?;
        let name = self.ident()?;
        let change = self.column_change()?;
        let options = self.optional_with_options()?;
        Ok(AlterTableAction::AlterColumn(AlterColumn {
            name,
            change,
            options,
        }))
    }

    fn column_change(&mut self) -> Parse<AlterColumnChange> {
        if let Some(word) = self.eat_any(&[K::ADD, K::DROP]) {
            let add = word == K::ADD;
            if add && self.at(K::MASKED) {
                let mask = Some(self.mask()?);
                return Ok(AlterColumnChange::Property {
                    add,
                    property: "MASKED".to_owned(),
                    mask,
                });
            }
            if self.eat_words(&[K::NOT, K::FOR, K::REPLICATION]) {
                let property = "NOT FOR REPLICATION".to_owned();
                return Ok(AlterColumnChange::Property {
                    add,
                    property,
                    mask: None,
                });
            }
            let property = self.word_upper()?;
            return Ok(AlterColumnChange::Property {
                add,
                property,
                mask: None,
            });
        }
        let data_type = self.type_name()?;
        let collation = self.optional_collation()?;
        let sparse = self.eat(K::SPARSE);
        let nullable = self.optional_nullability()?;
        Ok(AlterColumnChange::Type {
            data_type,
            collation,
            nullable,
            sparse,
        })
    }

    fn table_drops(&mut self) -> Parse<Vec<AlterTableDrop>> {
        let mut column = false;
        self.list(|parser| {
            if parser.at_words(&[K::PERIOD, K::FOR]) {
                parser.expect_words(&[K::PERIOD, K::FOR, K::SYSTEM_TIME])?;
                return Ok(AlterTableDrop::Period);
            }
            if parser.eat(K::COLUMN) {
                column = true;
            } else if parser.eat(K::CONSTRAINT) {
                column = false;
            }
            let if_exists = parser.eat_words(&[K::IF, K::EXISTS]);
            let name = parser.ident()?;
            if column {
                return Ok(AlterTableDrop::Column { name, if_exists });
            }
            let options = parser.optional_with_options()?;
            Ok(AlterTableDrop::Constraint {
                name,
                if_exists,
                options,
            })
        })
    }

    fn switch_in_table(&mut self) -> Parse<AlterTableAction> {
        let enable = self.advance().kind == TokenKind::Word(K::ENABLE);
        if self.eat(K::CHANGE_TRACKING) {
            return Ok(AlterTableAction::ChangeTracking {
                enable,
                options: self.optional_with_options()?,
            });
        }
        self.expect(K::TRIGGER)?;
        Ok(AlterTableAction::Trigger {
            enable,
            names: self.all_or_names()?,
        })
    }

    /// `SWITCH [PARTITION n] TO t [PARTITION n] [WITH (..)]`.
    fn switch_partition(&mut self) -> Parse<AlterTableAction> {
        self.expect(K::SWITCH)?;
        let partition = if self.eat(K::PARTITION) {
            Some(self.expr()?)
        } else {
            None
        };
        self.expect(K::TO)?;
        let target = self.object_name()?;
        let target_partition = if self.eat(K::PARTITION) {
            Some(self.expr()?)
        } else {
            None
        };
        let options = self.optional_with_options()?;
        Ok(AlterTableAction::Switch {
            partition,
            target,
            target_partition,
            options,
        })
    }

    /// `PARTITION = n`; `PARTITION = ALL` is the same as nothing.
    pub(super) fn optional_partition(&mut self) -> Parse<Option<Expr>> {
        if !self.eat(K::PARTITION) {
            return Ok(None);
        }
        self.expect_equal()?;
        if self.eat(K::ALL) {
            return Ok(None);
        }
        self.expr().map(Some)
    }
}
