//! Certificates and the master key of master: CREATE, ALTER, DROP, BACKUP, OPEN and CLOSE.
//!
//! Theory: certificates are there for endpoints, and those are the server's; so they live in master and in no other database.
//! A private key is encrypted by the master key or by a password. Files are read whole and bounded, and never the server's own.

mod certificate;
mod master_key;

use super::access::Securable;
use super::execution::Execution;
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::keys::{DER_BYTES_MAX, from_hex, invalid_file};
use crate::instance::{MASTER, absolute};
use crate::messages;
use daruma_base::OpenMode;
use daruma_syntax::ast::{self, DropKind, KeyBytes, KeyStatement};
use std::path::{Path, PathBuf};

impl Execution<'_> {
    /// Errors 15247 and 15151.
    pub(crate) fn may_run_key(&self, statement: &KeyStatement) -> Result<()> {
        match statement {
            _ if self.controls_keys() => Ok(()),
            KeyStatement::AlterCertificate { name, .. } => Err(refused("alter", &name.text)),
            KeyStatement::BackupCertificate(backup) => Err(refused("find", &backup.name.text)),
            _ => Err(messages::error(15247, &[])),
        }
    }

    /// The same of DROP, for one name.
    pub(crate) fn may_drop_key(&self, kind: &DropKind, name: &str) -> Result<()> {
        match kind {
            _ if self.controls_keys() => Ok(()),
            DropKind::MasterKey => Err(messages::error(15247, &[])),
            _ => Err(refused("drop", name)),
        }
    }

    pub(crate) fn run_key(&self, statement: &KeyStatement) -> Result<()> {
        self.may_run_key(statement)?;
        self.in_master()?;
        match statement {
            KeyStatement::CreateMasterKey { password } => {
                self.create_master_key(password.as_deref())
            }
            KeyStatement::AlterMasterKey(change) => self.alter_master_key(change),
            KeyStatement::OpenMasterKey { password } => self.open_master_key(password),
            KeyStatement::CloseMasterKey => self.close_master_key(),
            KeyStatement::CreateCertificate(create) => self.create_certificate(create),
            KeyStatement::AlterCertificate { name, change } => {
                self.alter_certificate(&name.text, change)
            }
            KeyStatement::BackupCertificate(backup) => self.backup_certificate(backup),
        }
    }

    /// DROP CERTIFICATE and DROP MASTER KEY.
    pub(crate) fn drop_keys(&self, drop: &ast::Drop) -> Result<()> {
        if drop.kind == DropKind::MasterKey {
            self.may_drop_key(&drop.kind, "")?;
            self.in_master()?;
            return self.drop_master_key();
        }
        drop.names.iter().try_for_each(|name| {
            let name = &name.name.text;
            let may = self.may_drop_key(&drop.kind, name);
            let dropped = may
                .and_then(|()| self.in_master())
                .and_then(|()| self.drop_certificate(name));
            match dropped {
                Err(error) if drop.if_exists && error.number == 15151 => Ok(()),
                other => other,
            }
        })
    }

    fn controls_keys(&self) -> bool {
        self.may(self.current_database(), "CONTROL", Securable::Database)
    }

    fn in_master(&self) -> Result<()> {
        match self.current_database() == MASTER {
            true => Ok(()),
            false => Err(messages::not_supported(
                "certificates and master keys outside of master",
            )),
        }
    }

    fn key_path(&self, path: &str) -> PathBuf {
        absolute(Path::new(path), self.instance().data_dir())
    }

    /// The bytes that a statement names; 15208 when they cannot be had or are too many.
    fn key_bytes(&self, from: &KeyBytes) -> Result<Vec<u8>> {
        let path = match from {
            KeyBytes::Binary(digits) => {
                let bytes = from_hex(digits).filter(|b| b.len() <= DER_BYTES_MAX);
                return bytes.ok_or_else(invalid_file);
            }
            KeyBytes::File(path) => self.key_path(path),
        };
        let instance = self.instance();
        let read = || {
            instance.refuse_owned(&path)?;
            let file = instance.env().disk.open(&path, OpenMode::ReadOnly)?;
            let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
            if len > DER_BYTES_MAX {
                return Err(std::io::ErrorKind::FileTooLarge.into());
            }
            let mut bytes = vec![0; len];
            file.read_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        read().map_err(|_: std::io::Error| invalid_file())
    }

    /// Writes a new file that only the server's own user may read; 15240 when it is there or cannot be written.
    fn write_key_file(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let failed = || messages::error(15240, &[&path]);
        let instance = self.instance();
        let full = self.key_path(path);
        let _claim = instance
            .claim_files(std::slice::from_ref(&full), &[])
            .map_err(|_| failed())?;
        let disk = &instance.env().disk;
        let file = disk.open(&full, OpenMode::CreatePrivate);
        let file = file.map_err(|_| failed())?;
        let written = file
            .write_at(bytes, 0)
            .and_then(|()| file.sync_data())
            .and_then(|()| disk.sync_dir(full.parent().unwrap_or(Path::new("/"))));
        written.map_err(|_| {
            // Half a file is no backup; that it stays behind is said by the error.
            let _ = disk.remove(&full);
            failed()
        })
    }
}

/// Error 15151 about a certificate.
fn refused(verb: &str, name: &str) -> SqlError {
    messages::error(15151, &[&verb, &"certificate", &name])
}
