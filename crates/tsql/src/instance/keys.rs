//! Certificates and what their private keys are encrypted with.
//!
//! Theory: a private key is PKCS #8, sealed with AES-256-GCM. The key of that is the master key of master, or made of a
//! password by PBKDF2. The master key itself is kept sealed with the service master key, and with each of its passwords, so
//! that master can be moved to another server. A certificate that is made here has an ECDSA key (P-256): that is what the
//! library makes; keys of RSA come from outside.

use super::hadr::EndpointIdentity;
use super::{Instance, MasterKey};
use crate::error::{Result, SqlError};
use crate::messages;
use daruma_base::Random;
use daruma_catalog::{CertificateDef, EndpointDef, KeyEncryption};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SerialNumber};
use ring::pbkdf2;
use std::num::NonZeroU32;
use x509_parser::prelude::{FromDer, X509Certificate};

/// What makes guessing a password slow.
const ROUNDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(209_999);
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// A certificate or key is never longer.
pub(crate) const DER_BYTES_MAX: usize = 32_768;
/// First line of a file with a private key that a password protects.
const SEALED_LINE: &str = "DARUMA ENCRYPTED PRIVATE KEY 1";

/// What the master key of master is sealed for.
pub(crate) const MASTER_KEY_OWNER: &str = "master key of master";
/// Number of its row.
pub(crate) const MASTER_KEY_ID: i32 = 1;

/// What a private key of a certificate is sealed for: the certificate itself, so that it opens beside no other.
pub(crate) fn key_owner(der: &[u8]) -> String {
    thumbprint(der).iter().map(|b| format!("{b:02x}")).collect()
}

impl Instance {
    /// The master key of master, opened by the service master key; error 15581 when that cannot be.
    pub(crate) fn master_key_bytes(&self) -> Result<Vec<u8>> {
        let def = self.hadr.master_key.by_id(MASTER_KEY_ID);
        let sealed = def.and_then(|def| def.by_service.clone());
        let bytes = sealed.and_then(|sealed| {
            let service = MasterKey::load(self.env(), self.data_dir()).ok()?;
            open(&service, MASTER_KEY_OWNER, &sealed).ok()
        });
        bytes.ok_or_else(|| messages::error(15581, &[]))
    }

    /// How an endpoint proves who it is and whom it believes: logins with a certificate and CONNECT on it. Errors 15556 and
    /// 15581 when its private key cannot be opened.
    pub fn endpoint_identity(&self, endpoint: &EndpointDef) -> Result<EndpointIdentity> {
        let unusable = || messages::error(15556, &[&"certificate"]);
        let certificate = self.hadr.certificates.by_id(endpoint.certificate_id);
        let certificate = certificate.ok_or_else(unusable)?;
        let key = certificate.private_key.as_ref();
        let key = key.filter(|key| key.by == KeyEncryption::MasterKey);
        let sealed = &key.ok_or_else(unusable)?.sealed;
        let master = MasterKey::from_bytes(&self.master_key_bytes()?)?;
        Ok(EndpointIdentity {
            private_key: open(&master, &key_owner(&certificate.der), sealed)?,
            certificate: certificate.der.clone(),
            peers: self.endpoint_peers(endpoint.id),
        })
    }

    /// The service learns who the endpoint is, and who may connect to it.
    pub(crate) fn tell_endpoint(&self, endpoint: &EndpointDef) -> Result<()> {
        let identity = self.endpoint_identity(endpoint)?;
        self.hadr.service().set_endpoint(Some((endpoint, identity)))
    }

    /// Logins or their rights changed, and that is committed: the service learns who may connect from now on.
    pub(super) fn tell_peers(&self) {
        let endpoints = &self.hadr.endpoints;
        // While nobody changes or drops it: the service is told last what is so.
        let told = endpoints.unchanged(|| match endpoints.find(|_| true) {
            // Where its key does not open any more, it goes on with what it has, but not with those who may connect no more.
            Some(endpoint) => self.tell_endpoint(&endpoint).inspect_err(|_| {
                self.hadr
                    .service()
                    .set_peers(&self.endpoint_peers(endpoint.id))
            }),
            None => Ok(()),
        });
        if let Err(error) = told {
            let text = format!(
                "The endpoint could not be begun anew with the logins that may connect to it now: {}",
                error.message
            );
            self.log.write("Server", &text);
        }
    }

    fn endpoint_peers(&self, endpoint: i32) -> Vec<Vec<u8>> {
        let logins = self.logins.all().into_iter();
        let admitted = logins.filter(|l| crate::session::may_connect_to_endpoint(l, endpoint));
        let certificate = |id| self.hadr.certificates.by_id(id);
        let found = admitted.filter_map(|l| certificate(l.certificate_id?));
        found
            .map(|c: std::sync::Arc<CertificateDef>| c.der.clone())
            .collect()
    }
}

/// What a certificate says, as `sys.certificates` shows it.
pub(crate) struct CertificateText {
    pub subject: String,
    pub issuer: String,
    pub serial_number: String,
    /// UTC, in seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
    pub key_bits: i32,
}

/// Reads a certificate; 15208 when it is none.
pub(crate) fn describe(der: &[u8]) -> Result<CertificateText> {
    let (_, read) = X509Certificate::from_der(der).map_err(|_| invalid_file())?;
    let serial: String = read
        .raw_serial()
        .iter()
        .map(|b| format!("{b:02x} "))
        .collect();
    let key = read.public_key();
    let key_bits = key.parsed().map_or(0, |k| k.key_size());
    Ok(CertificateText {
        subject: read.subject().to_string(),
        issuer: read.issuer().to_string(),
        serial_number: serial.trim_end().to_string(),
        not_before: read.validity().not_before.timestamp(),
        not_after: read.validity().not_after.timestamp(),
        key_bits: i32::try_from(key_bits).unwrap_or(0),
    })
}

/// SHA-1 of a certificate, by which the product names it.
pub(crate) fn thumbprint(der: &[u8]) -> Vec<u8> {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, der);
    digest.as_ref().to_vec()
}

/// A certificate's bytes, of DER or of PEM; 15208 when they are none.
pub(crate) fn certificate_of(bytes: Vec<u8>) -> Result<Vec<u8>> {
    let (rest, _) = X509Certificate::from_der(&bytes).map_err(|_| invalid_file())?;
    let len = bytes.len() - rest.len();
    let mut der = bytes;
    der.truncate(len);
    Ok(der)
}

/// A self-signed certificate and its private key. Times are UTC, in seconds since 1970.
pub(crate) fn make(
    random: &dyn Random,
    subject: &str,
    not_before: i64,
    not_after: i64,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let failed = |_: rcgen::Error| messages::error(15297, &[]);
    let time = |at: i64| {
        let at = jiff::Timestamp::from_second(at).ok();
        at.map(|at| at.to_zoned(jiff::tz::TimeZone::UTC))
            .ok_or_else(|| messages::error(15297, &[]))
    };
    let date = |at: i64| -> Result<_> {
        let at = time(at)?;
        let base = rcgen::date_time_ymd(i32::from(at.year()), at.month() as u8, at.day() as u8);
        let seconds =
            i64::from(at.hour()) * 3_600 + i64::from(at.minute()) * 60 + i64::from(at.second());
        Ok(base + std::time::Duration::from_secs(seconds.unsigned_abs()))
    };
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, subject);
    params.distinguished_name = name;
    params.not_before = date(not_before)?;
    params.not_after = date(not_after)?;
    let mut serial = [0; 16];
    random.fill(&mut serial);
    if let Some(first) = serial.first_mut() {
        // Positive, and never shortened.
        *first = *first & 0x7f | 0x40;
    }
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let key = KeyPair::generate().map_err(failed)?;
    let made = params.self_signed(&key).map_err(failed)?;
    Ok((made.der().to_vec(), key.serialize_der()))
}

/// Fails with 15297 unless the private key (PKCS #8) is the certificate's.
pub(crate) fn check_pair(der: &[u8], private_key: &[u8]) -> Result<()> {
    let pair = KeyPair::try_from(private_key).map_err(|_| invalid_file())?;
    let (_, read) = X509Certificate::from_der(der).map_err(|_| invalid_file())?;
    use rcgen::PublicKeyData;
    match read.public_key().subject_public_key.data.as_ref() == pair.der_bytes() {
        true => Ok(()),
        false => Err(messages::error(15297, &[])),
    }
}

/// Seals a secret with a password.
pub(crate) fn seal_by_password(
    random: &dyn Random,
    owner: &str,
    password: &str,
    secret: &[u8],
) -> Result<String> {
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt);
    let sealed = password_key(password, &salt)?.seal(random, owner, &hex(secret))?;
    Ok(format!("{}:{sealed}", hex(&salt)))
}

/// The secret that was sealed with a password; `None` when it is another one.
pub(crate) fn open_by_password(owner: &str, password: &str, sealed: &str) -> Option<Vec<u8>> {
    let (salt, sealed) = sealed.split_once(':')?;
    let key = password_key(password, &from_hex(salt)?).ok()?;
    from_hex(&key.open(owner, sealed).ok()?)
}

/// Seals a secret with a master key.
pub(crate) fn seal(
    random: &dyn Random,
    key: &MasterKey,
    owner: &str,
    secret: &[u8],
) -> Result<String> {
    key.seal(random, owner, &hex(secret))
}

/// The secret that was sealed with a master key.
pub(crate) fn open(key: &MasterKey, owner: &str, sealed: &str) -> Result<Vec<u8>> {
    from_hex(&key.open(owner, sealed)?).ok_or_else(|| messages::error(15466, &[]))
}

/// A fresh key of the length that master keys have.
pub(crate) fn fresh_key(random: &dyn Random) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    random.fill(&mut key);
    key
}

fn password_key(password: &str, salt: &[u8]) -> Result<MasterKey> {
    let mut key = [0; KEY_BYTES];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, ROUNDS, salt, password.as_bytes(), &mut key);
    MasterKey::from_bytes(&key)
}

/// What BACKUP CERTIFICATE writes of a private key.
pub(crate) fn key_file(random: &dyn Random, password: &str, key: &[u8]) -> Result<Vec<u8>> {
    let sealed = seal_by_password(random, SEALED_LINE, password, key)?;
    Ok(format!("{SEALED_LINE}\n{sealed}\n").into_bytes())
}

/// The private key of such a file, or PKCS #8 in DER as it is; errors 15208 and 15465.
pub(crate) fn key_of_file(bytes: &[u8], password: Option<&str>) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok();
    let sealed = text.and_then(|t| t.strip_prefix(SEALED_LINE));
    match (sealed, password) {
        (Some(sealed), Some(password)) => open_by_password(SEALED_LINE, password, sealed.trim())
            .ok_or_else(|| messages::error(15465, &[])),
        (Some(_), None) => Err(messages::error(15465, &[])),
        (None, _) => Ok(bytes.to_vec()),
    }
}

pub(crate) fn invalid_file() -> SqlError {
    messages::error(15208, &[])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

/// Bytes of digits; `None` when they are none.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    digits.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_sim::SimRandom;

    #[test]
    fn a_certificate_that_was_made_says_what_was_asked_for() {
        let random = SimRandom::new(1);
        let (der, key) = make(&random, "Replica 1", 1_700_000_000, 1_900_000_000).expect("made");
        let text = describe(&der).expect("reads");
        assert!(text.subject.contains("Replica 1") && text.issuer == text.subject);
        assert_eq!(
            (text.not_before, text.not_after),
            (1_700_000_000, 1_900_000_000)
        );
        assert_eq!(text.key_bits, 256);
        assert_eq!(thumbprint(&der).len(), 20);
        check_pair(&der, &key).expect("belongs together");
        let (other, _) = make(&random, "x", 1, 2).expect("made");
        assert_eq!(check_pair(&other, &key).map_err(|e| e.number), Err(15297));
        assert_eq!(
            check_pair(&der, b"no key").map_err(|e| e.number),
            Err(15208)
        );
        let mut longer = der.clone();
        longer.extend_from_slice(b"tail");
        assert_eq!(certificate_of(longer).expect("reads"), der);
        for end in 0..der.len() {
            let cut = der.get(..end).map(<[u8]>::to_vec).expect("shorter");
            assert!(certificate_of(cut).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn a_key_file_opens_with_its_password_only() {
        let random = SimRandom::new(2);
        let file = key_file(&random, "Geheim-1", b"key").expect("writes");
        assert_eq!(key_of_file(&file, Some("Geheim-1")).expect("opens"), b"key");
        assert_eq!(
            key_of_file(&file, Some("other")).map_err(|e| e.number),
            Err(15465)
        );
        assert_eq!(key_of_file(&file, None).map_err(|e| e.number), Err(15465));
        assert_eq!(
            key_of_file(b"\x30\x01", None).expect("as it is"),
            b"\x30\x01"
        );
    }
}
