//! CREATE, ALTER and DROP: which object is meant, and the small schema objects.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};
use crate::printer::Quote;

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Parse<StatementKind> {
        self.expect(K::CREATE)?;
        let mode = if self.eat_words(&[K::OR, K::ALTER]) {
            DefineMode::CreateOrAlter
        } else {
            DefineMode::Create
        };
        if let Some(kind) = self.define_module(mode)? {
            return Ok(kind);
        }
        if mode == DefineMode::CreateOrAlter {
            return Err(self.unexpected());
        }
        match self.keyword() {
            K::TABLE => self.create_table(),
            K::DATABASE if self.at_words(&[K::DATABASE, K::SCOPED]) => self.credential(false),
            K::DATABASE
                if self.keyword_at(1) == K::AUDIT || self.keyword_at(1) == K::ENCRYPTION =>
            {
                self.other_ddl("CREATE")
            }
            K::DATABASE => self.create_database(),
            K::SCHEMA => self.create_schema(),
            K::TYPE => self.create_type(),
            K::SEQUENCE => self.create_sequence(),
            K::SYNONYM => self.create_synonym(),
            K::STATISTICS => self.create_statistics(),
            K::LOGIN => self.create_login(),
            K::USER => self.create_user(),
            K::ROLE => self.create_role(false),
            K::SERVER if self.keyword_at(1) == K::ROLE => {
                self.advance();
                self.create_role(true)
            }
            K::APPLICATION => self.application_role(false),
            K::CREDENTIAL => self.credential(false),
            K::XML if self.keyword_at(1) == K::SCHEMA => self.xml_schema_collection(false),
            K::ENDPOINT => self.endpoint(false),
            K::EVENT if self.keyword_at(1) == K::SESSION => self.create_event_session(),
            K::AVAILABILITY => self.create_availability_group(),
            K::MASTER if self.keyword_at(1) == K::KEY => self.create_master_key(),
            K::CERTIFICATE if !self.at_foreign_certificate() => self.create_certificate(),
            _ if self.at_create_index() => self.create_index(),
            _ => self.other_ddl("CREATE"),
        }
    }

    pub(super) fn alter(&mut self) -> Parse<StatementKind> {
        self.expect(K::ALTER)?;
        if let Some(kind) = self.define_module(DefineMode::Alter)? {
            return Ok(kind);
        }
        match self.keyword() {
            K::TABLE => self.alter_table(),
            K::INDEX => self.alter_index(),
            K::DATABASE
                if self.at_words(&[K::DATABASE, K::SCOPED])
                    && self.keyword_at(2) == K::CREDENTIAL =>
            {
                self.credential(true)
            }
            K::DATABASE
                if self.keyword_at(1) == K::AUDIT || self.keyword_at(1) == K::ENCRYPTION =>
            {
                self.other_ddl("ALTER")
            }
            K::DATABASE => self.alter_database(),
            K::SCHEMA => self.alter_schema(),
            K::SEQUENCE => self.alter_sequence(),
            K::LOGIN => self.alter_login(),
            K::USER => self.alter_user(),
            K::ROLE => self.alter_role(false),
            K::SERVER if self.keyword_at(1) == K::ROLE => {
                self.advance();
                self.alter_role(true)
            }
            K::APPLICATION => self.application_role(true),
            K::CREDENTIAL => self.credential(true),
            K::AUTHORIZATION => self.alter_authorization(),
            K::XML if self.keyword_at(1) == K::SCHEMA => self.xml_schema_collection(true),
            K::ENDPOINT => self.endpoint(true),
            K::EVENT if self.keyword_at(1) == K::SESSION => self.alter_event_session(),
            K::AVAILABILITY => self.alter_availability_group(),
            K::MASTER if self.keyword_at(1) == K::KEY => self.alter_master_key(),
            K::CERTIFICATE => self.alter_certificate(),
            _ => self.other_ddl("ALTER"),
        }
    }

    fn define_module(&mut self, mode: DefineMode) -> Parse<Option<StatementKind>> {
        let outside = std::mem::replace(&mut self.in_module, true);
        let module = self.module(mode);
        self.in_module = outside;
        module
    }

    fn module(&mut self, mode: DefineMode) -> Parse<Option<StatementKind>> {
        match self.keyword() {
            K::VIEW => self.create_view(mode).map(Some),
            K::PROC | K::PROCEDURE => self.create_procedure(mode).map(Some),
            K::FUNCTION => self.create_function(mode).map(Some),
            K::TRIGGER => self.create_trigger(mode).map(Some),
            _ => Ok(None),
        }
    }

    /// DDL without a tree of its own: its words, and its text up to what must be another statement.
    pub(super) fn other_ddl(&mut self, verb: &str) -> Parse<StatementKind> {
        let first = self.at.saturating_sub(1);
        if matches!(verb, "CREATE" | "ALTER" | "DROP") && self.keyword() == K::NONE {
            return Err(self.unexpected());
        }
        let mut what = verb.to_owned();
        while let TokenKind::Word(word) = self.kind()
            && !matches!(word, K::NONE | K::IF)
            && what.split(' ').count() < 4
        {
            what.push(' ');
            what.push_str(&self.word_upper()?);
        }
        self.eat_words(&[K::IF, K::EXISTS]);
        self.skip_to_statement()?;
        let text = self.text_since(first);
        Ok(StatementKind::OtherDdl(OtherDdl { what, text }))
    }

    /// The text from a token to here. Strings in double quotes get single ones, so that the text means the same whatever
    /// QUOTED_IDENTIFIER is when it is read again.
    fn text_since(&self, first: usize) -> String {
        let tokens = self.tokens.list.get(first..self.at).unwrap_or(&[]);
        let mut text = String::new();
        let mut end = tokens.first().map_or(0, |t| t.start);
        for token in tokens {
            let blank = self.text.get(end as usize..token.start as usize);
            text.push_str(blank.unwrap_or(""));
            let written = self.text_of(*token);
            match token.kind == TokenKind::String && written.starts_with('"') {
                true => text.push_str(&Quote(&self.content_of(*token)).to_string()),
                false => text.push_str(written),
            }
            end = token.end;
        }
        text
    }

    fn skip_to_statement(&mut self) -> Parse<()> {
        loop {
            match self.kind() {
                TokenKind::End | TokenKind::Symbol(Symbol::Semicolon) => return Ok(()),
                TokenKind::Symbol(Symbol::LeftParen) => self.skip_parenthesis()?,
                TokenKind::Symbol(Symbol::RightParen) => return Err(self.unexpected()),
                TokenKind::Word(K::EXECUTE | K::EXEC) if self.keyword_at(1) == K::AS => {
                    self.advance();
                }
                TokenKind::Word(K::MERGE) if self.keyword_at(1) == K::RANGE => {
                    self.advance();
                }
                TokenKind::Word(word) if opens_statement(word) => return Ok(()),
                _ => {
                    self.advance();
                }
            }
        }
    }

    fn create_schema(&mut self) -> Parse<StatementKind> {
        self.expect(K::SCHEMA)?;
        let name = if self.at(K::AUTHORIZATION) {
            None
        } else {
            Some(self.ident()?)
        };
        let owner = if self.eat(K::AUTHORIZATION) {
            Some(self.ident()?)
        } else {
            None
        };
        let mut elements = Vec::new();
        while self.at_any(&[K::GRANT, K::DENY, K::REVOKE]) || self.at_schema_element() {
            elements.push(self.statement_without_semicolons()?);
        }
        Ok(StatementKind::CreateSchema(CreateSchema {
            name,
            owner,
            elements,
        }))
    }

    fn at_schema_element(&self) -> bool {
        self.at(K::CREATE) && matches!(self.keyword_at(1), K::TABLE | K::VIEW)
    }

    fn statement_without_semicolons(&mut self) -> Parse<Statement> {
        let statement = self.statement()?;
        while self.at.checked_sub(1).is_some_and(|last| {
            self.tokens
                .list
                .get(last)
                .is_some_and(|token| token.kind == TokenKind::Symbol(Symbol::Semicolon))
        }) {
            self.at -= 1;
        }
        Ok(statement)
    }

    fn alter_schema(&mut self) -> Parse<StatementKind> {
        self.expect(K::SCHEMA)?;
        let name = self.ident()?;
        self.expect(K::TRANSFER)?;
        let class = self.optional_class()?;
        let object = self.object_name()?;
        Ok(StatementKind::AlterSchema(AlterSchema {
            name,
            class,
            object,
        }))
    }

    fn create_type(&mut self) -> Parse<StatementKind> {
        self.expect(K::TYPE)?;
        let name = self.object_name()?;
        let kind = if self.eat(K::FROM) {
            let base = self.type_name()?;
            let mut nullable = self.optional_nullability()?;
            let default = if self.eat(K::DEFAULT) {
                Some(self.expr()?)
            } else {
                None
            };
            nullable = nullable.or(self.optional_nullability()?);
            TypeKind::Alias {
                base,
                nullable,
                default,
            }
        } else if self.eat_words(&[K::EXTERNAL, K::NAME]) {
            TypeKind::External(self.object_name()?)
        } else {
            self.expect_words(&[K::AS, K::TABLE])?;
            let definition = self.table_definition()?;
            TypeKind::Table {
                definition,
                options: self.optional_with_options()?,
            }
        };
        Ok(StatementKind::CreateType(CreateType { name, kind }))
    }

    fn create_sequence(&mut self) -> Parse<StatementKind> {
        self.expect(K::SEQUENCE)?;
        let name = self.object_name()?;
        let data_type = if self.eat(K::AS) {
            Some(self.type_name()?)
        } else {
            None
        };
        let options = self.sequence_options()?;
        Ok(StatementKind::CreateSequence(CreateSequence {
            name,
            data_type,
            options,
        }))
    }

    fn alter_sequence(&mut self) -> Parse<StatementKind> {
        self.expect(K::SEQUENCE)?;
        let name = self.object_name()?;
        let options = self.sequence_options()?;
        Ok(StatementKind::AlterSequence(AlterSequence {
            name,
            options,
        }))
    }

    fn sequence_options(&mut self) -> Parse<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.sequence_option()? {
            options.push(option);
        }
        Ok(options)
    }

    fn sequence_option(&mut self) -> Parse<Option<SequenceOption>> {
        let option = if self.eat_words(&[K::START, K::WITH]) {
            SequenceOption::StartWith(self.signed_number()?)
        } else if self.eat(K::RESTART) {
            let value = if self.eat(K::WITH) {
                Some(self.signed_number()?)
            } else {
                None
            };
            SequenceOption::Restart(value)
        } else if self.eat_words(&[K::INCREMENT, K::BY]) {
            SequenceOption::IncrementBy(self.signed_number()?)
        } else if self.eat(K::MINVALUE) {
            SequenceOption::MinValue(Some(self.signed_number()?))
        } else if self.eat(K::MAXVALUE) {
            SequenceOption::MaxValue(Some(self.signed_number()?))
        } else if self.eat_words(&[K::NO, K::MINVALUE]) {
            SequenceOption::MinValue(None)
        } else if self.eat_words(&[K::NO, K::MAXVALUE]) {
            SequenceOption::MaxValue(None)
        } else if self.eat(K::CYCLE) {
            SequenceOption::Cycle(true)
        } else if self.eat_words(&[K::NO, K::CYCLE]) {
            SequenceOption::Cycle(false)
        } else if self.eat_words(&[K::NO, K::CACHE]) {
            SequenceOption::Cache(SequenceCache::None)
        } else if self.eat(K::CACHE) {
            let sized = self.kind() == TokenKind::Integer;
            SequenceOption::Cache(if sized {
                SequenceCache::Size(self.signed_number()?)
            } else {
                SequenceCache::Default
            })
        } else {
            return Ok(None);
        };
        Ok(Some(option))
    }

    fn create_synonym(&mut self) -> Parse<StatementKind> {
        self.expect(K::SYNONYM)?;
        let name = self.object_name()?;
        self.expect(K::FOR)?;
        let target = self.object_name()?;
        Ok(StatementKind::CreateSynonym(CreateSynonym { name, target }))
    }

    fn xml_schema_collection(&mut self, add: bool) -> Parse<StatementKind> {
        self.expect_words(&[K::XML, K::SCHEMA, K::COLLECTION])?;
        let name = self.object_name()?;
        self.expect(if add { K::ADD } else { K::AS })?;
        let schema = self.expr()?;
        Ok(StatementKind::CreateXmlSchemaCollection(
            CreateXmlSchemaCollection { name, add, schema },
        ))
    }

    pub(super) fn drop_statement(&mut self) -> Parse<StatementKind> {
        self.expect(K::DROP)?;
        if self.eat(K::INDEX) {
            return self.drop_index();
        }
        if self.at_words(&[K::EVENT, K::SESSION]) {
            return self.drop_event_session();
        }
        let Some(kind) = self.drop_kind() else {
            return self.other_ddl("DROP");
        };
        let if_exists = self.eat_words(&[K::IF, K::EXISTS]);
        let names = if kind == DropKind::MasterKey {
            Vec::new()
        } else {
            self.list(Self::dropped_name)?
        };
        let scope = if kind == DropKind::Trigger && self.eat(K::ON) {
            Some(self.trigger_scope()?)
        } else {
            None
        };
        let mut options = Vec::new();
        if kind == DropKind::Assembly && self.eat_words(&[K::WITH, K::NO, K::DEPENDENTS]) {
            options.push(OptionItem {
                name: "NO DEPENDENTS".to_owned(),
                value: OptionValue::None,
            });
        }
        Ok(StatementKind::Drop(Drop {
            kind,
            if_exists,
            names,
            scope,
            options,
        }))
    }

    /// A name; logins and users may be quoted as strings nowhere, so an identifier it is.
    fn dropped_name(&mut self) -> Parse<ObjectName> {
        let name = self.object_name()?;
        self.procedure_number()?;
        Ok(name)
    }

    /// Takes the words which say what is dropped.
    fn drop_kind(&mut self) -> Option<DropKind> {
        let kinds: &[(&[K], DropKind)] = &[
            (&[K::TABLE], DropKind::Table),
            (&[K::VIEW], DropKind::View),
            (&[K::PROC], DropKind::Procedure),
            (&[K::PROCEDURE], DropKind::Procedure),
            (&[K::FUNCTION], DropKind::Function),
            (&[K::TRIGGER], DropKind::Trigger),
            (&[K::TYPE], DropKind::Type),
            (&[K::SCHEMA], DropKind::Schema),
            (&[K::SEQUENCE], DropKind::Sequence),
            (&[K::SYNONYM], DropKind::Synonym),
            (&[K::STATISTICS], DropKind::Statistics),
            (&[K::DEFAULT], DropKind::Default),
            (&[K::RULE], DropKind::Rule),
            (&[K::AGGREGATE], DropKind::Aggregate),
            (&[K::ASSEMBLY], DropKind::Assembly),
            (
                &[K::XML, K::SCHEMA, K::COLLECTION],
                DropKind::XmlSchemaCollection,
            ),
            (&[K::PARTITION, K::FUNCTION], DropKind::PartitionFunction),
            (&[K::PARTITION, K::SCHEME], DropKind::PartitionScheme),
            (&[K::LOGIN], DropKind::Login),
            (&[K::USER], DropKind::User),
            (&[K::ROLE], DropKind::Role),
            (&[K::SERVER, K::ROLE], DropKind::ServerRole),
            (&[K::APPLICATION, K::ROLE], DropKind::ApplicationRole),
            (&[K::CREDENTIAL], DropKind::Credential),
            (&[K::CERTIFICATE], DropKind::Certificate),
            (&[K::MASTER, K::KEY], DropKind::MasterKey),
            (&[K::SYMMETRIC, K::KEY], DropKind::SymmetricKey),
            (&[K::ASYMMETRIC, K::KEY], DropKind::AsymmetricKey),
            (&[K::ENDPOINT], DropKind::Endpoint),
            (&[K::AVAILABILITY, K::GROUP], DropKind::AvailabilityGroup),
        ];
        for (words, kind) in kinds {
            if self.eat_words(words) {
                return Some(kind.clone());
            }
        }
        let other_database = matches!(self.keyword_at(1), K::SCOPED | K::AUDIT | K::ENCRYPTION);
        if self.at(K::DATABASE) && !other_database {
            self.advance();
            return Some(DropKind::Database);
        }
        None
    }
}

/// Reserved words which can only begin the next statement.
fn opens_statement(word: K) -> bool {
    matches!(
        word,
        K::SELECT
            | K::INSERT
            | K::DELETE
            | K::DECLARE
            | K::EXEC
            | K::EXECUTE
            | K::IF
            | K::ELSE
            | K::END
            | K::WHILE
            | K::PRINT
            | K::CREATE
            | K::ALTER
            | K::USE
            | K::RETURN
            | K::BEGIN
            | K::COMMIT
            | K::ROLLBACK
            | K::TRUNCATE
            | K::MERGE
            | K::RAISERROR
            | K::GOTO
            | K::WAITFOR
            | K::BACKUP
            | K::RESTORE
            | K::DBCC
    )
}
