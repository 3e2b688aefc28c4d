//! Certificates and the master key of a database.

use super::Ident;

/// Statements about certificates and the master key. DROP is a [`super::Drop`].
#[derive(Clone, Debug, PartialEq)]
pub enum KeyStatement {
    /// `CREATE MASTER KEY [ENCRYPTION BY PASSWORD = 'p']`.
    CreateMasterKey {
        password: Option<String>,
    },
    AlterMasterKey(AlterMasterKey),
    /// `OPEN MASTER KEY DECRYPTION BY PASSWORD = 'p'`.
    OpenMasterKey {
        password: String,
    },
    CloseMasterKey,
    CreateCertificate(CreateCertificate),
    AlterCertificate {
        name: Ident,
        change: AlterCertificate,
    },
    BackupCertificate(BackupCertificate),
}

/// What an ALTER MASTER KEY does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterMasterKey {
    /// `[FORCE] REGENERATE WITH ENCRYPTION BY PASSWORD = 'p'`.
    Regenerate { force: bool, password: String },
    /// `ADD` and `DROP ENCRYPTION BY ..`.
    Encryption { add: bool, by: KeyProtector },
}

/// What a key is encrypted with.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyProtector {
    ServiceMasterKey,
    Password(String),
}

/// `CREATE CERTIFICATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateCertificate {
    pub name: Ident,
    pub owner: Option<Ident>,
    pub source: CertificateSource,
    /// `ACTIVE FOR BEGIN_DIALOG = ON | OFF`.
    pub begin_dialog: Option<bool>,
}

/// Where a certificate comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum CertificateSource {
    /// `[ENCRYPTION BY PASSWORD = 'p'] WITH SUBJECT = 's' [, START_DATE = 'd'] [, EXPIRY_DATE = 'd']`.
    New {
        password: Option<String>,
        subject: String,
        start_date: Option<String>,
        expiry_date: Option<String>,
    },
    /// `FROM FILE = 'path'` or `FROM BINARY = 0x..`, with or without its private key.
    Existing {
        from: KeyBytes,
        /// `FORMAT = 'PFX'`.
        format: Option<String>,
        private_key: Option<PrivateKeyClause>,
    },
}

/// Bytes of a certificate or key: a file's, or written out.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyBytes {
    File(String),
    /// Digits after `0x`.
    Binary(String),
}

/// `PRIVATE KEY (FILE = 'path', DECRYPTION BY PASSWORD = 'p', ENCRYPTION BY PASSWORD = 'q')`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivateKeyClause {
    /// Absent where ALTER CERTIFICATE only changes the password.
    pub bytes: Option<KeyBytes>,
    pub decryption_password: Option<String>,
    pub encryption_password: Option<String>,
}

/// What an ALTER CERTIFICATE does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterCertificate {
    RemovePrivateKey,
    PrivateKey(PrivateKeyClause),
    BeginDialog(bool),
}

/// `BACKUP CERTIFICATE c TO FILE = 'path' [WITH PRIVATE KEY (..)]`.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupCertificate {
    pub name: Ident,
    pub file: String,
    /// `FORMAT = 'PFX'`.
    pub format: Option<String>,
    pub private_key: Option<PrivateKeyClause>,
}
