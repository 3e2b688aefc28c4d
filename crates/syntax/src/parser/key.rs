//! Certificates and master keys.

use super::{Parse, Parser};
use crate::ast::*;
use crate::keyword::Keyword as K;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn create_master_key(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::MASTER, K::KEY])?;
        let password = match self.at(K::ENCRYPTION) {
            true => Some(self.by_password(K::ENCRYPTION)?),
            false => None,
        };
        Ok(StatementKind::Key(KeyStatement::CreateMasterKey {
            password,
        }))
    }

    pub(super) fn alter_master_key(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::MASTER, K::KEY])?;
        let force = self.eat(K::FORCE);
        let change = if self.eat(K::REGENERATE) {
            self.expect(K::WITH)?;
            AlterMasterKey::Regenerate {
                force,
                password: self.by_password(K::ENCRYPTION)?,
            }
        } else {
            let verb = match force {
                true => None,
                false => self.eat_any(&[K::ADD, K::DROP]),
            };
            let add = verb.ok_or_else(|| self.unexpected())? == K::ADD;
            AlterMasterKey::Encryption {
                add,
                by: self.key_protector()?,
            }
        };
        Ok(StatementKind::Key(KeyStatement::AlterMasterKey(change)))
    }

    fn key_protector(&mut self) -> Parse<KeyProtector> {
        if self.keyword_at(2) == K::SERVICE {
            self.expect_words(&[K::ENCRYPTION, K::BY, K::SERVICE, K::MASTER, K::KEY])?;
            return Ok(KeyProtector::ServiceMasterKey);
        }
        self.by_password(K::ENCRYPTION).map(KeyProtector::Password)
    }

    pub(super) fn open_master_key(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::MASTER, K::KEY])?;
        let password = self.by_password(K::DECRYPTION)?;
        Ok(StatementKind::Key(KeyStatement::OpenMasterKey { password }))
    }

    pub(super) fn close_master_key(&mut self) -> Parse<StatementKind> {
        self.expect_words(&[K::MASTER, K::KEY])?;
        Ok(StatementKind::Key(KeyStatement::CloseMasterKey))
    }

    /// `ENCRYPTION BY PASSWORD = 'p'`, or DECRYPTION.
    fn by_password(&mut self, verb: K) -> Parse<String> {
        self.expect_words(&[verb, K::BY, K::PASSWORD])?;
        self.expect_equal()?;
        self.string()
    }

    pub(super) fn create_certificate(&mut self) -> Parse<StatementKind> {
        self.expect(K::CERTIFICATE)?;
        let name = self.ident()?;
        let owner = match self.eat(K::AUTHORIZATION) {
            true => Some(self.ident()?),
            false => None,
        };
        let source = match self.eat(K::FROM) {
            true => self.existing_certificate()?,
            false => self.new_certificate()?,
        };
        let begin_dialog = match self.at(K::ACTIVE) {
            true => Some(self.begin_dialog()?),
            false => None,
        };
        Ok(StatementKind::Key(KeyStatement::CreateCertificate(
            CreateCertificate {
                name,
                owner,
                source,
                begin_dialog,
            },
        )))
    }

    /// A certificate of an assembly or a signed program.
    pub(super) fn at_foreign_certificate(&self) -> bool {
        self.keyword_at(2) == K::FROM && !matches!(self.keyword_at(3), K::FILE | K::BINARY)
    }

    fn begin_dialog(&mut self) -> Parse<bool> {
        self.expect_words(&[K::ACTIVE, K::FOR, K::BEGIN_DIALOG])?;
        self.expect_equal()?;
        match self.eat_any(&[K::ON, K::OFF]) {
            Some(word) => Ok(word == K::ON),
            None => Err(self.unexpected()),
        }
    }

    fn new_certificate(&mut self) -> Parse<CertificateSource> {
        let password = match self.at(K::ENCRYPTION) {
            true => Some(self.by_password(K::ENCRYPTION)?),
            false => None,
        };
        self.expect_words(&[K::WITH, K::SUBJECT])?;
        self.expect_equal()?;
        let subject = self.string()?;
        let (mut start_date, mut expiry_date) = (None, None);
        while self.eat_comma() {
            let slot = match self.eat_any(&[K::START_DATE, K::EXPIRY_DATE]) {
                Some(K::START_DATE) => &mut start_date,
                Some(_) => &mut expiry_date,
                None => return Err(self.unexpected()),
            };
            self.expect_equal()?;
            *slot = Some(self.string()?);
        }
        Ok(CertificateSource::New {
            password,
            subject,
            start_date,
            expiry_date,
        })
    }

    fn existing_certificate(&mut self) -> Parse<CertificateSource> {
        let from = self.key_bytes()?;
        let (format, private_key) = self.with_private_key()?;
        Ok(CertificateSource::Existing {
            from,
            format,
            private_key,
        })
    }

    /// `FILE = 'path'` or `BINARY = 0x..`.
    fn key_bytes(&mut self) -> Parse<KeyBytes> {
        let word = self.eat_any(&[K::FILE, K::BINARY]);
        let word = word.ok_or_else(|| self.unexpected())?;
        self.expect_equal()?;
        if word == K::FILE {
            return self.string().map(KeyBytes::File);
        }
        if self.kind() != TokenKind::Binary {
            return Err(self.unexpected());
        }
        let token = self.advance();
        let digits = self.text_of(token).get(2..).unwrap_or("");
        Ok(KeyBytes::Binary(digits.to_ascii_uppercase()))
    }

    /// `WITH [FORMAT = 'PFX',] PRIVATE KEY (..)`, if it stands here.
    fn with_private_key(&mut self) -> Parse<(Option<String>, Option<PrivateKeyClause>)> {
        let (mut format, mut key) = (None, None);
        if !self.eat(K::WITH) {
            return Ok((format, key));
        }
        if self.eat(K::FORMAT) {
            self.expect_equal()?;
            format = Some(self.string()?);
            if !self.eat_comma() {
                return Ok((format, key));
            }
        }
        key = Some(self.private_key()?);
        Ok((format, key))
    }

    fn private_key(&mut self) -> Parse<PrivateKeyClause> {
        self.expect_words(&[K::PRIVATE, K::KEY])?;
        let mut key = PrivateKeyClause {
            bytes: None,
            decryption_password: None,
            encryption_password: None,
        };
        self.paren_list(|parser| {
            match parser.keyword() {
                K::DECRYPTION => {
                    key.decryption_password = Some(parser.by_password(K::DECRYPTION)?);
                }
                K::ENCRYPTION => {
                    key.encryption_password = Some(parser.by_password(K::ENCRYPTION)?);
                }
                _ => key.bytes = Some(parser.key_bytes()?),
            }
            Ok(())
        })?;
        Ok(key)
    }

    pub(super) fn alter_certificate(&mut self) -> Parse<StatementKind> {
        self.expect(K::CERTIFICATE)?;
        let name = self.ident()?;
        let change = if self.eat_words(&[K::REMOVE, K::PRIVATE, K::KEY]) {
            AlterCertificate::RemovePrivateKey
        } else {
            self.expect(K::WITH)?;
            match self.at(K::ACTIVE) {
                true => AlterCertificate::BeginDialog(self.begin_dialog()?),
                false => AlterCertificate::PrivateKey(self.private_key()?),
            }
        };
        Ok(StatementKind::Key(KeyStatement::AlterCertificate {
            name,
            change,
        }))
    }

    pub(super) fn backup_certificate(&mut self) -> Parse<StatementKind> {
        self.expect(K::CERTIFICATE)?;
        let name = self.ident()?;
        self.expect_words(&[K::TO, K::FILE])?;
        self.expect_equal()?;
        let file = self.string()?;
        let (format, private_key) = self.with_private_key()?;
        Ok(StatementKind::Key(KeyStatement::BackupCertificate(
            BackupCertificate {
                name,
                file,
                format,
                private_key,
            },
        )))
    }
}
