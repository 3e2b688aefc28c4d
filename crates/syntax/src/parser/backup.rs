//! BACKUP and RESTORE.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;

impl Parser<'_> {
    pub(super) fn backup(&mut self) -> Parse<StatementKind> {
        self.advance();
        let kind = match self.keyword() {
            K::DATABASE => BackupKind::Database,
            K::LOG | K::TRAN | K::TRANSACTION => BackupKind::Log,
            K::CERTIFICATE => return self.backup_certificate(),
            _ => return self.other_ddl("BACKUP"),
        };
        self.advance();
        let database = self.name_or_variable()?;
        let parts = self.database_parts()?;
        let devices = if self.eat(K::TO) {
            self.list(Self::backup_device)?
        } else {
            Vec::new()
        };
        let mut mirrors = Vec::new();
        while self.eat_words(&[K::MIRROR, K::TO]) {
            mirrors.push(self.list(Self::backup_device)?);
        }
        let options = if self.eat(K::WITH) {
            self.media_options(&mut Vec::new())?
        } else {
            Vec::new()
        };
        if devices.is_empty() && options.is_empty() {
            return Err(self.unexpected());
        }
        Ok(StatementKind::Backup(Box::new(Backup {
            kind,
            database,
            parts,
            devices,
            mirrors,
            options,
        })))
    }

    pub(super) fn restore(&mut self) -> Parse<StatementKind> {
        self.advance();
        let Some(kind) = self.restore_kind() else {
            return self.other_ddl("RESTORE");
        };
        self.advance();
        let named = matches!(kind, RestoreKind::Database | RestoreKind::Log);
        let database = if named {
            Some(self.name_or_variable()?)
        } else {
            None
        };
        let parts = if named {
            self.database_parts()?
        } else {
            Vec::new()
        };
        let devices = if self.eat(K::FROM) {
            self.list(Self::backup_device)?
        } else {
            Vec::new()
        };
        if !named && devices.is_empty() {
            return Err(self.unexpected());
        }
        let mut moves = Vec::new();
        let options = if self.eat(K::WITH) {
            self.media_options(&mut moves)?
        } else {
            Vec::new()
        };
        Ok(StatementKind::Restore(Box::new(Restore {
            kind,
            database,
            parts,
            devices,
            moves,
            options,
        })))
    }

    fn restore_kind(&self) -> Option<RestoreKind> {
        Some(match self.keyword() {
            K::DATABASE => RestoreKind::Database,
            K::LOG | K::TRAN | K::TRANSACTION => RestoreKind::Log,
            K::FILELISTONLY => RestoreKind::FileListOnly,
            K::HEADERONLY => RestoreKind::HeaderOnly,
            K::LABELONLY => RestoreKind::LabelOnly,
            K::REWINDONLY => RestoreKind::RewindOnly,
            K::VERIFYONLY => RestoreKind::VerifyOnly,
            _ => return None,
        })
    }

    fn name_or_variable(&mut self) -> Parse<NameOrVariable> {
        if self.at_variable() {
            return self.variable().map(NameOrVariable::Variable);
        }
        self.ident().map(NameOrVariable::Name)
    }

    /// `FILE = f, FILEGROUP = g, PAGE = '1:57', READ_WRITE_FILEGROUPS` before TO or FROM.
    fn database_parts(&mut self) -> Parse<Vec<DatabasePart>> {
        if !self.at_any(&[K::FILE, K::FILEGROUP, K::READ_WRITE_FILEGROUPS, K::PAGE]) {
            return Ok(Vec::new());
        }
        self.list(Self::database_part)
    }

    fn database_part(&mut self) -> Parse<DatabasePart> {
        let part = self.eat_any(&[K::FILE, K::FILEGROUP, K::READ_WRITE_FILEGROUPS, K::PAGE]);
        if part == Some(K::READ_WRITE_FILEGROUPS) {
            return Ok(DatabasePart::ReadWriteFilegroups);
        }
        if part.is_some() {
            self.expect_equal()?;
        }
        match part {
            Some(K::FILE) => self.option_value().map(DatabasePart::File),
            Some(K::FILEGROUP) => self.option_value().map(DatabasePart::Filegroup),
            Some(_) => self.option_value().map(DatabasePart::Page),
            None => Err(self.unexpected()),
        }
    }

    fn backup_device(&mut self) -> Parse<BackupDevice> {
        let medium = match self.keyword() {
            K::DISK => Some(BackupMedium::Disk),
            K::TAPE => Some(BackupMedium::Tape),
            K::URL => Some(BackupMedium::Url),
            K::VIRTUAL_DEVICE => Some(BackupMedium::VirtualDevice),
            K::DATABASE_SNAPSHOT => Some(BackupMedium::DatabaseSnapshot),
            _ => None,
        };
        match medium {
            Some(medium) => {
                self.advance();
                self.expect_equal()?;
                let path = if self.at_ident() {
                    self.device_name()?
                } else {
                    self.expr()?
                };
                Ok(BackupDevice::Physical { medium, path })
            }
            None => self.name_or_variable().map(BackupDevice::Logical),
        }
    }

    /// A bare name where a path may stand: the snapshot to go back to.
    fn device_name(&mut self) -> Parse<Expr> {
        self.ident().map(|name| {
            Expr::Literal(Literal::String {
                text: name.text,
                national: true,
            })
        })
    }

    fn media_options(&mut self, moves: &mut Vec<RestoreMove>) -> Parse<Vec<OptionItem>> {
        let mut options = Vec::new();
        loop {
            if self.eat(K::MOVE) {
                let logical = self.expr()?;
                self.expect(K::TO)?;
                moves.push(RestoreMove {
                    logical,
                    path: self.expr()?,
                });
            } else {
                options.push(self.loose_option()?);
                if self.eat(K::AFTER) {
                    let value = OptionValue::Expr(self.expr()?);
                    options.push(OptionItem {
                        name: "AFTER".to_owned(),
                        value,
                    });
                }
            }
            if !self.eat_comma() {
                return Ok(options);
            }
        }
    }
}
