//! CREATE DATABASE and ALTER DATABASE.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn create_database(&mut self) -> Parse<StatementKind> {
        self.expect(K::DATABASE)?;
        let mut database = CreateDatabase {
            name: self.ident()?,
            containment: None,
            filegroups: Vec::new(),
            log: Vec::new(),
            collation: None,
            options: Vec::new(),
            attach: None,
            snapshot_of: None,
        };
        while self.create_database_clause(&mut database)? {}
        Ok(StatementKind::CreateDatabase(Box::new(database)))
    }

    fn create_database_clause(&mut self, database: &mut CreateDatabase) -> Parse<bool> {
        if self.eat(K::CONTAINMENT) {
            self.expect_equal()?;
            database.containment = Some(self.word_upper()?);
        } else if self.eat(K::ON) {
            database.filegroups = self.filegroups()?;
        } else if self.eat_words(&[K::LOG, K::ON]) {
            database.log = self.list(Self::file_spec)?;
        } else if self.at(K::COLLATE) {
            database.collation = self.optional_collation()?;
        } else if self.eat_words(&[K::FOR, K::ATTACH]) {
            database.attach = Some(Attach::Attach);
        } else if self.eat_words(&[K::FOR, K::ATTACH_REBUILD_LOG]) {
            database.attach = Some(Attach::RebuildLog);
        } else if self.eat_words(&[K::AS, K::SNAPSHOT, K::OF]) {
            database.snapshot_of = Some(self.ident()?);
        } else if self.at(K::WITH) {
            self.advance();
            database.options = if self.at_symbol(Symbol::LeftParen) {
                self.option_list()?
            } else {
                self.list(Self::database_with_option)?
            };
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `TRUSTWORTHY ON`, `DB_CHAINING OFF`, `LEDGER = ON`, `DELAYED_DURABILITY = FORCED`.
    fn database_with_option(&mut self) -> Parse<OptionItem> {
        let name = self.word_upper()?;
        if self.at_symbol(Symbol::LeftParen) {
            return Ok(OptionItem {
                name,
                value: OptionValue::List(self.option_list()?),
            });
        }
        self.set_option_value(name)
    }

    fn filegroups(&mut self) -> Parse<Vec<FilegroupSpec>> {
        self.eat(K::PRIMARY);
        let mut groups = Vec::new();
        let mut current = FilegroupSpec {
            name: None,
            default: false,
            contains: None,
            files: Vec::new(),
        };
        loop {
            if self.eat(K::FILEGROUP) {
                let name = Some(self.filegroup_name()?);
                let next = FilegroupSpec {
                    name,
                    default: false,
                    contains: None,
                    files: Vec::new(),
                };
                groups.push(std::mem::replace(&mut current, next));
                if self.eat(K::CONTAINS) {
                    current.contains = Some(self.word_upper()?);
                }
                current.default = self.eat(K::DEFAULT);
            }
            current.files.push(self.file_spec()?);
            if !self.eat_comma() {
                break;
            }
        }
        groups.push(current);
        groups.retain(|group| group.name.is_some() || !group.files.is_empty());
        Ok(groups)
    }

    /// `(NAME = .., FILENAME = '..', SIZE = .., MAXSIZE = .., FILEGROWTH = .., OFFLINE)`.
    fn file_spec(&mut self) -> Parse<FileSpec> {
        self.expect_open()?;
        let mut file = FileSpec::default();
        self.list(|parser| parser.file_property(&mut file))?;
        self.expect_close()?;
        Ok(file)
    }

    fn file_property(&mut self, file: &mut FileSpec) -> Parse<()> {
        let property = self.keyword();
        self.word_upper()?;
        if property == K::OFFLINE {
            file.offline = true;
            return Ok(());
        }
        self.expect_equal()?;
        match property {
            K::NAME => file.name = Some(self.ident_or_string()?),
            K::NEWNAME => file.new_name = Some(self.ident_or_string()?),
            K::FILENAME => file.file_name = Some(self.string()?),
            K::SIZE => file.size = Some(self.file_size()?),
            K::MAXSIZE => file.max_size = Some(self.file_size()?),
            K::FILEGROWTH => file.file_growth = Some(self.file_size()?),
            _ => return Err(self.unexpected_at(0)),
        }
        Ok(())
    }

    fn file_size(&mut self) -> Parse<FileSize> {
        if self.eat(K::UNLIMITED) {
            return Ok(FileSize::Unlimited);
        }
        let count = u64::from(self.small_number()?);
        if self.eat_symbol(Symbol::Percent) {
            return Ok(FileSize::Percent(count));
        }
        Ok(
            match self.eat_any(&[K::KB, K::MB, K::GB, K::TB, K::PERCENT]) {
                Some(K::KB) => FileSize::Kilobytes(count),
                Some(K::GB) => FileSize::Gigabytes(count),
                Some(K::TB) => FileSize::Terabytes(count),
                Some(K::PERCENT) => FileSize::Percent(count),
                _ => FileSize::Megabytes(count),
            },
        )
    }

    pub(super) fn alter_database(&mut self) -> Parse<StatementKind> {
        self.expect(K::DATABASE)?;
        if self.at_words(&[K::SCOPED, K::CONFIGURATION]) {
            let action = self.scoped_configuration()?;
            return Ok(StatementKind::AlterDatabase(Box::new(AlterDatabase {
                name: None,
                action,
            })));
        }
        let name = if self.eat(K::CURRENT) {
            None
        } else {
            Some(self.ident()?)
        };
        let action = self.alter_database_action()?;
        Ok(StatementKind::AlterDatabase(Box::new(AlterDatabase {
            name,
            action,
        })))
    }

    fn scoped_configuration(&mut self) -> Parse<AlterDatabaseAction> {
        self.expect_words(&[K::SCOPED, K::CONFIGURATION])?;
        let secondary = self.eat_words(&[K::FOR, K::SECONDARY]);
        let clear = self.eat(K::CLEAR);
        if !clear {
            self.expect(K::SET)?;
        }
        let name = self.word_upper()?;
        let option = if clear && self.kind() == TokenKind::Binary {
            OptionItem {
                name,
                value: OptionValue::Expr(self.expr()?),
            }
        } else if clear {
            OptionItem {
                name,
                value: OptionValue::None,
            }
        } else {
            self.set_option_value(name)?
        };
        Ok(AlterDatabaseAction::ScopedConfiguration {
            secondary,
            clear,
            option,
        })
    }

    fn alter_database_action(&mut self) -> Parse<AlterDatabaseAction> {
        match self.keyword() {
            K::SET => {
                self.advance();
                self.set_database_options()
            }
            K::COLLATE => {
                self.advance();
                self.collation_name().map(AlterDatabaseAction::Collate)
            }
            K::ADD => {
                self.advance();
                self.add_to_database()
            }
            K::REMOVE => {
                self.advance();
                if self.eat(K::FILEGROUP) {
                    return self
                        .filegroup_name()
                        .map(AlterDatabaseAction::RemoveFilegroup);
                }
                self.expect(K::FILE)?;
                self.ident_or_string().map(AlterDatabaseAction::RemoveFile)
            }
            K::MODIFY => {
                self.advance();
                self.modify_database()
            }
            _ => Err(self.unexpected()),
        }
    }

    fn add_to_database(&mut self) -> Parse<AlterDatabaseAction> {
        if self.eat(K::FILEGROUP) {
            let name = self.filegroup_name()?;
            let contains = if self.eat(K::CONTAINS) {
                Some(self.word_upper()?)
            } else {
                None
            };
            return Ok(AlterDatabaseAction::AddFilegroup { name, contains });
        }
        if self.eat_words(&[K::LOG, K::FILE]) {
            return self
                .list(Self::file_spec)
                .map(AlterDatabaseAction::AddLogFile);
        }
        self.expect(K::FILE)?;
        let files = self.list(Self::file_spec)?;
        let filegroup = if self.eat_words(&[K::TO, K::FILEGROUP]) {
            Some(self.filegroup_name()?)
        } else {
            None
        };
        Ok(AlterDatabaseAction::AddFile { files, filegroup })
    }

    fn modify_database(&mut self) -> Parse<AlterDatabaseAction> {
        if self.eat(K::NAME) {
            self.expect_equal()?;
            return self.ident().map(AlterDatabaseAction::ModifyName);
        }
        if self.eat(K::FILE) {
            return self.file_spec().map(AlterDatabaseAction::ModifyFile);
        }
        if self.at_symbol(Symbol::LeftParen) {
            return self.option_list().map(AlterDatabaseAction::Modify);
        }
        self.expect(K::FILEGROUP)?;
        let name = self.filegroup_name()?;
        let change = match self.keyword() {
            K::DEFAULT => FilegroupChange::Default,
            K::READ_ONLY | K::READONLY => FilegroupChange::ReadOnly,
            K::READ_WRITE | K::READWRITE => FilegroupChange::ReadWrite,
            K::AUTOGROW_ALL_FILES => FilegroupChange::AutogrowAllFiles,
            K::AUTOGROW_SINGLE_FILE => FilegroupChange::AutogrowSingleFile,
            K::NAME => {
                self.advance();
                self.expect_equal()?;
                let change = FilegroupChange::Rename(self.filegroup_name()?);
                return Ok(AlterDatabaseAction::ModifyFilegroup { name, change });
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(AlterDatabaseAction::ModifyFilegroup { name, change })
    }

    fn set_database_options(&mut self) -> Parse<AlterDatabaseAction> {
        let options = self.list(Self::database_option)?;
        let termination = if self.eat(K::WITH) {
            Some(self.termination()?)
        } else {
            None
        };
        Ok(AlterDatabaseAction::Set {
            options,
            termination,
        })
    }

    fn termination(&mut self) -> Parse<Termination> {
        if self.eat(K::NO_WAIT) {
            return Ok(Termination::NoWait);
        }
        self.expect(K::ROLLBACK)?;
        if self.eat(K::IMMEDIATE) {
            return Ok(Termination::RollbackImmediate);
        }
        self.expect(K::AFTER)?;
        let seconds = self.small_number()?;
        self.eat(K::SECONDS);
        Ok(Termination::RollbackAfter { seconds })
    }

    fn database_option(&mut self) -> Parse<DatabaseOption> {
        let option = self.keyword();
        if option.is_reserved() {
            return Err(self.unexpected());
        }
        let unknown = self.unexpected();
        let name = self.word_upper()?;
        if let Some(option) = bare_database_option(option) {
            return Ok(option);
        }
        match option {
            K::HADR => return self.hadr().map(DatabaseOption::Hadr),
            K::ACCELERATED_DATABASE_RECOVERY => return self.accelerated_database_recovery(),
            K::READ_COMMITTED_SNAPSHOT => {
                return self
                    .switch_value()
                    .map(DatabaseOption::ReadCommittedSnapshot);
            }
            K::ALLOW_SNAPSHOT_ISOLATION => {
                return self
                    .switch_value()
                    .map(DatabaseOption::AllowSnapshotIsolation);
            }
            K::TARGET_RECOVERY_TIME => return self.target_recovery_time(),
            K::COMPATIBILITY_LEVEL => {
                self.expect_equal()?;
                return self.small_number().map(DatabaseOption::CompatibilityLevel);
            }
            K::RECOVERY | K::DELAYED_DURABILITY | K::PAGE_VERIFY => {
                self.eat_equal();
                return self.database_option_word(option);
            }
            _ => {}
        }
        match OTHER_OPTIONS.binary_search(&name.as_str()) {
            Ok(_) => self.set_option_value(name).map(DatabaseOption::Other),
            Err(_) => Err(unknown),
        }
    }

    fn database_option_word(&mut self, option: K) -> Parse<DatabaseOption> {
        let value = match (option, self.keyword()) {
            (K::RECOVERY, K::FULL) => DatabaseOption::Recovery(RecoveryModel::Full),
            (K::RECOVERY, K::SIMPLE) => DatabaseOption::Recovery(RecoveryModel::Simple),
            (K::RECOVERY, K::BULK_LOGGED) => DatabaseOption::Recovery(RecoveryModel::BulkLogged),
            (K::DELAYED_DURABILITY, K::DISABLED) => {
                DatabaseOption::DelayedDurability(DelayedDurability::Disabled)
            }
            (K::DELAYED_DURABILITY, K::ALLOWED) => {
                DatabaseOption::DelayedDurability(DelayedDurability::Allowed)
            }
            (K::DELAYED_DURABILITY, K::FORCED) => {
                DatabaseOption::DelayedDurability(DelayedDurability::Forced)
            }
            (K::PAGE_VERIFY, K::CHECKSUM) => DatabaseOption::PageVerify(PageVerify::Checksum),
            (K::PAGE_VERIFY, K::TORN_PAGE_DETECTION) => {
                DatabaseOption::PageVerify(PageVerify::TornPageDetection)
            }
            (K::PAGE_VERIFY, K::NONE_WORD) => DatabaseOption::PageVerify(PageVerify::None),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(value)
    }

    fn switch_value(&mut self) -> Parse<bool> {
        self.eat_equal();
        self.expect_switch()
    }

    fn accelerated_database_recovery(&mut self) -> Parse<DatabaseOption> {
        let on = self.switch_value()?;
        let mut version_store_filegroup = None;
        if self.eat_symbol(Symbol::LeftParen) {
            self.expect(K::PERSISTENT_VERSION_STORE_FILEGROUP)?;
            self.expect_equal()?;
            version_store_filegroup = Some(self.filegroup_name()?);
            self.expect_close()?;
        }
        Ok(DatabaseOption::AcceleratedDatabaseRecovery {
            on,
            version_store_filegroup,
        })
    }

    fn target_recovery_time(&mut self) -> Parse<DatabaseOption> {
        self.expect_equal()?;
        let count = self.small_number()?;
        let seconds = match self.eat_any(&[K::SECONDS, K::MINUTES]) {
            Some(K::MINUTES) => count.saturating_mul(60),
            Some(_) => count,
            None => return Err(self.unexpected()),
        };
        Ok(DatabaseOption::TargetRecoveryTime { seconds })
    }

    fn hadr(&mut self) -> Parse<HadrChange> {
        match self.eat_any(&[K::OFF, K::SUSPEND, K::RESUME, K::AVAILABILITY]) {
            Some(K::OFF) => Ok(HadrChange::Off),
            Some(K::SUSPEND) => Ok(HadrChange::Suspend),
            Some(K::RESUME) => Ok(HadrChange::Resume),
            Some(_) => {
                self.expect(K::GROUP)?;
                self.expect_equal()?;
                self.ident().map(HadrChange::Join)
            }
            None => Err(self.unexpected()),
        }
    }

    /// `NAME = value (list)`, `NAME ON (list)`, `NAME WORD`, `NAME (list)`, or the name alone.
    fn set_option_value(&mut self, mut name: String) -> Parse<OptionItem> {
        if matches!(name.as_str(), "PARTNER" | "WITNESS") && self.at(K::SAFETY) {
            name = format!("{name} {}", self.word_upper()?);
        }
        if self.at_symbol(Symbol::LeftParen) {
            return Ok(OptionItem {
                name,
                value: OptionValue::List(self.option_list()?),
            });
        }
        let worded = self.at_any(&[K::ON, K::OFF, K::FULL])
            || matches!(self.kind(), TokenKind::Word(word) if !word.is_reserved());
        let value = if self.eat_equal() || worded {
            self.option_value()?
        } else {
            OptionValue::None
        };
        if self.at(K::ALL) && value.is("CLEAR") {
            self.advance();
            return Ok(OptionItem {
                name,
                value: OptionValue::Word("CLEAR ALL".to_owned()),
            });
        }
        Ok(OptionItem { name, value })
    }
}

/// Further options of ALTER DATABASE SET, in order: those of SQL Server 2022, OPTIMIZED_LOCKING, and three of our own
/// (DELAYED_DURABILITY_KILOBYTES and _MILLISECONDS, PERSISTENT_VERSION_STORE_MAX_SIZE).
const OTHER_OPTIONS: [&str; 52] = [
    "ANSI_NULLS",
    "ANSI_NULL_DEFAULT",
    "ANSI_PADDING",
    "ANSI_WARNINGS",
    "ARITHABORT",
    "AUTOMATIC_TUNING",
    "AUTO_CLOSE",
    "AUTO_CREATE_STATISTICS",
    "AUTO_SHRINK",
    "AUTO_UPDATE_STATISTICS",
    "AUTO_UPDATE_STATISTICS_ASYNC",
    "CHANGE_TRACKING",
    "CONCAT_NULL_YIELDS_NULL",
    "CONTAINMENT",
    "CURSOR_CLOSE_ON_COMMIT",
    "CURSOR_DEFAULT",
    "DATA_RETENTION",
    "DATE_CORRELATION_OPTIMIZATION",
    "DB_CHAINING",
    "DEFAULT_FULLTEXT_LANGUAGE",
    "DEFAULT_LANGUAGE",
    "DELAYED_DURABILITY_KILOBYTES",
    "DELAYED_DURABILITY_MILLISECONDS",
    "DISABLE_BROKER",
    "ENABLE_BROKER",
    "ENCRYPTION",
    "ERROR_BROKER_CONVERSATIONS",
    "FILESTREAM",
    "HONOR_BROKER_PRIORITY",
    "MEMORY_OPTIMIZED_ELEVATE_TO_SNAPSHOT",
    "MIXED_PAGE_ALLOCATION",
    "NESTED_TRIGGERS",
    "NEW_BROKER",
    "NUMERIC_ROUNDABORT",
    "OPTIMIZED_LOCKING",
    "PARAMETERIZATION",
    "PARTNER",
    "PERSISTENT_LOG_BUFFER",
    "PERSISTENT_VERSION_STORE_MAX_SIZE",
    "QUERY_STORE",
    "QUOTED_IDENTIFIER",
    "RECURSIVE_TRIGGERS",
    "REMOTE_DATA_ARCHIVE",
    "SUPPLEMENTAL_LOGGING",
    "SUSPEND_FOR_SNAPSHOT_BACKUP",
    "TEMPORAL_HISTORY_RETENTION",
    "TORN_PAGE_DETECTION",
    "TRANSFORM_NOISE_WORDS",
    "TRUSTWORTHY",
    "TWO_DIGIT_YEAR_CUTOFF",
    "VARDECIMAL_STORAGE_FORMAT",
    "WITNESS",
];

/// Options which are a word without a value.
fn bare_database_option(option: K) -> Option<DatabaseOption> {
    Some(match option {
        K::SINGLE_USER => DatabaseOption::UserAccess(UserAccess::Single),
        K::RESTRICTED_USER => DatabaseOption::UserAccess(UserAccess::Restricted),
        K::MULTI_USER => DatabaseOption::UserAccess(UserAccess::Multi),
        K::ONLINE => DatabaseOption::State(DatabaseState::Online),
        K::OFFLINE => DatabaseOption::State(DatabaseState::Offline),
        K::EMERGENCY => DatabaseOption::State(DatabaseState::Emergency),
        K::READ_ONLY => DatabaseOption::ReadOnly(true),
        K::READ_WRITE => DatabaseOption::ReadOnly(false),
        _ => return None,
    })
}
