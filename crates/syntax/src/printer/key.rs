//! Certificates and master keys.

use super::{Clause, Quote, switch};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for KeyStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            KeyStatement::CreateMasterKey { password } => {
                f.write_str("CREATE MASTER KEY")?;
                by_password(f, "ENCRYPTION", password.as_deref())
            }
            KeyStatement::AlterMasterKey(change) => write!(f, "ALTER MASTER KEY {change}"),
            KeyStatement::OpenMasterKey { password } => {
                f.write_str("OPEN MASTER KEY")?;
                by_password(f, "DECRYPTION", Some(password))
            }
            KeyStatement::CloseMasterKey => f.write_str("CLOSE MASTER KEY"),
            KeyStatement::CreateCertificate(certificate) => certificate.fmt(f),
            KeyStatement::AlterCertificate { name, change } => {
                write!(f, "ALTER CERTIFICATE {name} {change}")
            }
            KeyStatement::BackupCertificate(backup) => {
                let file = Quote(&backup.file);
                write!(f, "BACKUP CERTIFICATE {} TO FILE = {file}", backup.name)?;
                with_private_key(f, backup.format.as_deref(), backup.private_key.as_ref())
            }
        }
    }
}

fn by_password(f: &mut Formatter<'_>, verb: &str, password: Option<&str>) -> fmt::Result {
    match password {
        Some(password) => write!(f, " {verb} BY PASSWORD = {}", Quote(password)),
        None => Ok(()),
    }
}

impl Display for AlterMasterKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AlterMasterKey::Regenerate { force, password } => {
                let force = if *force { "FORCE " } else { "" };
                write!(f, "{force}REGENERATE WITH")?;
                by_password(f, "ENCRYPTION", Some(password))
            }
            AlterMasterKey::Encryption { add, by } => {
                f.write_str(if *add { "ADD" } else { "DROP" })?;
                match by {
                    KeyProtector::ServiceMasterKey => {
                        f.write_str(" ENCRYPTION BY SERVICE MASTER KEY")
                    }
                    KeyProtector::Password(password) => {
                        by_password(f, "ENCRYPTION", Some(password))
                    }
                }
            }
        }
    }
}

impl Display for CreateCertificate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let owner = Clause("AUTHORIZATION", &self.owner);
        write!(f, "CREATE CERTIFICATE {}{owner}", self.name)?;
        match &self.source {
            CertificateSource::New {
                password,
                subject,
                start_date,
                expiry_date,
            } => {
                by_password(f, "ENCRYPTION", password.as_deref())?;
                write!(f, " WITH SUBJECT = {}", Quote(subject))?;
                for (name, date) in [("START_DATE", start_date), ("EXPIRY_DATE", expiry_date)] {
                    if let Some(date) = date {
                        write!(f, ", {name} = {}", Quote(date))?;
                    }
                }
            }
            CertificateSource::Existing {
                from,
                format,
                private_key,
            } => {
                write!(f, " FROM {from}")?;
                with_private_key(f, format.as_deref(), private_key.as_ref())?;
            }
        }
        match self.begin_dialog {
            Some(on) => write!(f, " ACTIVE FOR BEGIN_DIALOG = {}", switch(on)),
            None => Ok(()),
        }
    }
}

fn with_private_key(
    f: &mut Formatter<'_>,
    format: Option<&str>,
    key: Option<&PrivateKeyClause>,
) -> fmt::Result {
    match (format, key) {
        (None, None) => Ok(()),
        (None, Some(key)) => write!(f, " WITH {key}"),
        (Some(format), None) => write!(f, " WITH FORMAT = {}", Quote(format)),
        (Some(format), Some(key)) => write!(f, " WITH FORMAT = {}, {key}", Quote(format)),
    }
}

impl Display for KeyBytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            KeyBytes::File(path) => write!(f, "FILE = {}", Quote(path)),
            KeyBytes::Binary(digits) => write!(f, "BINARY = 0x{digits}"),
        }
    }
}

impl Display for PrivateKeyClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let passwords = [
            ("DECRYPTION", &self.decryption_password),
            ("ENCRYPTION", &self.encryption_password),
        ];
        let shown = passwords.into_iter().filter_map(|(verb, password)| {
            let password = password.as_deref()?;
            Some(format!("{verb} BY PASSWORD = {}", Quote(password)))
        });
        let parts = self.bytes.iter().map(ToString::to_string).chain(shown);
        let parts: Vec<String> = parts.collect();
        write!(f, "PRIVATE KEY ({})", parts.join(", "))
    }
}

impl Display for AlterCertificate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AlterCertificate::RemovePrivateKey => f.write_str("REMOVE PRIVATE KEY"),
            AlterCertificate::PrivateKey(key) => write!(f, "WITH {key}"),
            AlterCertificate::BeginDialog(on) => {
                write!(f, "WITH ACTIVE FOR BEGIN_DIALOG = {}", switch(*on))
            }
        }
    }
}
