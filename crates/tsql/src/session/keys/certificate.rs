//! CREATE, ALTER, DROP and BACKUP CERTIFICATE.

use super::{Execution, refused};
use crate::error::Result;
use crate::host::Host;
use crate::instance::keys;
use crate::messages;
use crate::session::access::check_policy;
use daruma_catalog::{CertificateDef, KeyEncryption, PrivateKeyDef, names_equal};
use daruma_syntax::ast::{
    AlterCertificate, BackupCertificate, CertificateSource, CreateCertificate, PrivateKeyClause,
};
use daruma_value::DataType;
use daruma_value::temporal::{self, DAYS_TO_1900, TICKS_PER_DAY};

/// The product's first id of a certificate that users make.
const FIRST_ID: i32 = 256;
const SUBJECT_CHARS_MAX: usize = 64;
const SECONDS_OF_DAY: i64 = 86_400;
/// Without EXPIRY_DATE a certificate is valid for a year.
const VALID_SECONDS: i64 = 365 * SECONDS_OF_DAY;
const DAYS_1900_TO_1970: i64 = 25_567;
/// `dbo`, who owns what nobody else was named for.
const DBO: i32 = 1;

impl Execution<'_> {
    pub(super) fn create_certificate(&self, create: &CreateCertificate) -> Result<()> {
        let name = create.name.text.as_str();
        if let Some(owner) = &create.owner
            && !names_equal(&owner.text, "dbo")
        {
            return Err(messages::not_supported(
                "CREATE CERTIFICATE .. AUTHORIZATION",
            ));
        }
        let taken = || messages::error(15232, &[&name]);
        if self.instance().hadr.certificate(name).is_some() {
            return Err(taken());
        }
        let (der, private_key) = match &create.source {
            CertificateSource::New {
                password,
                subject,
                start_date,
                expiry_date,
            } => {
                let dates = (start_date.as_deref(), expiry_date.as_deref());
                let (der, key) = self.new_certificate(subject, dates)?;
                let sealed = self.seal_key(&der, &key, password.as_deref())?;
                (der, Some(sealed))
            }
            CertificateSource::Existing {
                from,
                format,
                private_key,
            } => {
                not_pfx(format.as_deref())?;
                let der = keys::certificate_of(self.key_bytes(from)?)?;
                let key = private_key.as_ref();
                let key = key
                    .map(|clause| self.private_key_of(&der, clause))
                    .transpose()?;
                (der, key)
            }
        };
        self.warn_of_dates(&der)?;
        let certificates = &self.instance().hadr.certificates;
        certificates.create(FIRST_ID, |id| {
            if certificates
                .find(|c| names_equal(&c.name, name) || c.der == der)
                .is_some()
            {
                return Err(taken());
            }
            Ok(CertificateDef {
                id,
                name: name.to_string(),
                owner: DBO,
                der: der.clone(),
                private_key,
                active_for_begin_dialog: create.begin_dialog.unwrap_or(true),
                key_backed_up_utc: 0,
            })
        })?;
        Ok(())
    }

    fn new_certificate(
        &self,
        subject: &str,
        (start, expiry): (Option<&str>, Option<&str>),
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        if subject.is_empty() || subject.chars().count() > SUBJECT_CHARS_MAX {
            return Err(messages::error(15212, &[&SUBJECT_CHARS_MAX]));
        }
        let instance = self.instance();
        let start = match start {
            Some(text) => self.utc_seconds(text)?,
            None => instance.now_utc() / 10_000_000,
        };
        let end = match expiry {
            Some(text) => self.utc_seconds(text)?,
            None => start.saturating_add(VALID_SECONDS),
        };
        keys::make(instance.env().random.as_ref(), subject, start, end)
    }

    /// A date of CREATE CERTIFICATE, which is UTC, in seconds since 1970; error 241.
    fn utc_seconds(&self, text: &str) -> Result<i64> {
        let order = self.settings().dateformat;
        let parsed = temporal::parse(text, DataType::DateTime, order);
        let moment = parsed.map_err(|_| messages::error(241, &[]))?.moment;
        let days = i64::from(moment.days) - i64::from(DAYS_TO_1900) - DAYS_1900_TO_1970;
        let ticks = moment.ticks.saturating_mul(SECONDS_OF_DAY as u64) / TICKS_PER_DAY;
        Ok(days * SECONDS_OF_DAY + i64::try_from(ticks).unwrap_or(0))
    }

    /// 15213, 15214 and 15215 are warnings.
    fn warn_of_dates(&self, der: &[u8]) -> Result<()> {
        let text = keys::describe(der)?;
        let now = self.instance().now_utc() / 10_000_000;
        if text.not_after < text.not_before {
            self.message(messages::error(15213, &[]));
        }
        if text.not_after < now {
            self.message(messages::error(15214, &[]));
        }
        if text.not_before > now {
            self.message(messages::error(15215, &[]));
        }
        Ok(())
    }

    fn seal_key(&self, der: &[u8], key: &[u8], password: Option<&str>) -> Result<PrivateKeyDef> {
        let random = self.instance().env().random.clone();
        let owner = keys::key_owner(der);
        Ok(match password {
            Some(password) => {
                check_policy("", password)?;
                PrivateKeyDef {
                    sealed: keys::seal_by_password(random.as_ref(), &owner, password, key)?,
                    by: KeyEncryption::Password,
                }
            }
            None => PrivateKeyDef {
                sealed: keys::seal(random.as_ref(), &self.master_key()?, &owner, key)?,
                by: KeyEncryption::MasterKey,
            },
        })
    }

    /// PRIVATE KEY of CREATE and ALTER: a key from outside, which must be the certificate's.
    fn private_key_of(&self, der: &[u8], clause: &PrivateKeyClause) -> Result<PrivateKeyDef> {
        let bytes = clause.bytes.as_ref().ok_or_else(keys::invalid_file)?;
        let bytes = self.key_bytes(bytes)?;
        let key = keys::key_of_file(&bytes, clause.decryption_password.as_deref())?;
        keys::check_pair(der, &key)?;
        self.seal_key(der, &key, clause.encryption_password.as_deref())
    }

    /// The private key, opened: by the master key, or by the password given. Error 15556.
    pub(crate) fn private_key(
        &self,
        certificate: &CertificateDef,
        password: Option<&str>,
    ) -> Result<Vec<u8>> {
        let unusable = || messages::error(15556, &[&"certificate"]);
        let key = certificate.private_key.as_ref().ok_or_else(unusable)?;
        let owner = keys::key_owner(&certificate.der);
        match key.by {
            KeyEncryption::MasterKey => keys::open(&self.master_key()?, &owner, &key.sealed),
            KeyEncryption::Password => password
                .and_then(|password| keys::open_by_password(&owner, password, &key.sealed))
                .ok_or_else(unusable),
        }
    }

    pub(super) fn alter_certificate(&self, name: &str, change: &AlterCertificate) -> Result<()> {
        let hadr = &self.instance().hadr;
        let missing = || refused("alter", name);
        let certificate = hadr.certificate(name).ok_or_else(missing)?;
        let sealed = match change {
            AlterCertificate::RemovePrivateKey => None,
            // Another password for the key that is there.
            AlterCertificate::PrivateKey(clause) if clause.bytes.is_none() => {
                let key = self.private_key(&certificate, clause.decryption_password.as_deref())?;
                Some(self.seal_key(
                    &certificate.der,
                    &key,
                    clause.encryption_password.as_deref(),
                )?)
            }
            AlterCertificate::PrivateKey(clause) => {
                Some(self.private_key_of(&certificate.der, clause)?)
            }
            AlterCertificate::BeginDialog(_) => None,
        };
        let changed = hadr.certificates.change(certificate.id, |def| {
            match change {
                AlterCertificate::BeginDialog(on) => def.active_for_begin_dialog = *on,
                AlterCertificate::RemovePrivateKey => {
                    self.check_unused(def.id, "private key")?;
                    def.private_key = None;
                }
                _ => def.private_key = sealed,
            }
            Ok(())
        })?;
        changed.map(drop).ok_or_else(missing)
    }

    /// 15352 while an endpoint or a login stands on the certificate.
    fn check_unused(&self, id: i32, what: &str) -> Result<()> {
        let instance = self.instance();
        let of_endpoint = instance.hadr.endpoints.find(|e| e.certificate_id == id);
        // A login that this transaction drops may come back.
        let logins = [self.state.logins(), instance.logins.list()];
        let mut logins = logins.iter().flat_map(|list| list.all());
        let of_login = logins.any(|l| l.certificate_id == Some(id));
        match of_endpoint.is_some() || of_login {
            true => Err(messages::error(15352, &[&what])),
            false => Ok(()),
        }
    }

    pub(super) fn drop_certificate(&self, name: &str) -> Result<()> {
        let hadr = &self.instance().hadr;
        let missing = || refused("drop", name);
        let find = || hadr.certificate(name).ok_or_else(missing);
        // Nobody waits for logins because of what is not there.
        find()?;
        self.atomic(|| {
            // A login that is not committed yet stands on it as well.
            self.lock_logins()?;
            if !self.controls_keys() {
                return Err(missing());
            }
            let id = find()?.id;
            hadr.certificates.remove(id, || {
                // Its number may be another one's by now.
                match find()?.id == id {
                    true => self.check_unused(id, "certificate"),
                    false => Err(missing()),
                }
            })
        })
    }

    pub(super) fn backup_certificate(&self, backup: &BackupCertificate) -> Result<()> {
        not_pfx(backup.format.as_deref())?;
        let hadr = &self.instance().hadr;
        let name = backup.name.text.as_str();
        let found = hadr
            .certificate(name)
            .ok_or_else(|| refused("find", name))?;
        let Some(clause) = &backup.private_key else {
            return self.write_key_file(&backup.file, &found.der);
        };
        use daruma_syntax::ast::KeyBytes::File;
        let (Some(File(path)), Some(password)) = (&clause.bytes, &clause.encryption_password)
        else {
            return Err(messages::error(15240, &[&""]));
        };
        check_policy("", password)?;
        let key = self.private_key(&found, clause.decryption_password.as_deref())?;
        let random = self.instance().env().random.clone();
        let key = keys::key_file(random.as_ref(), password, &key)?;
        self.write_key_file(&backup.file, &found.der)?;
        self.write_key_file(path, &key)?;
        let now = self.instance().now_utc();
        hadr.certificates.change(found.id, |def| {
            def.key_backed_up_utc = now;
            Ok(())
        })?;
        Ok(())
    }
}

fn not_pfx(format: Option<&str>) -> Result<()> {
    match format {
        None => Ok(()),
        Some(_) => Err(messages::not_supported("FORMAT")),
    }
}
