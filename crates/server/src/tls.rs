//! Certificates and TLS settings.
//!
//! TDS 7.x carries the handshake inside PRELOGIN packets, where TLS 1.3's tickets would come too late to be wrapped:
//! it is capped at TLS 1.2. TDS 8.0 begins with TLS on the bare socket and names itself by ALPN.
//!
//! Without a certificate from outside the server makes one at its first start and keeps it in the data folder.

use crate::error::ServerError;
use daruma_tds::prelogin::ServerEncryption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ALPN: &[u8] = b"tds/8.0";
pub(crate) const CERTIFICATE_FILE: &str = "daruma-cert.pem";
pub(crate) const KEY_FILE: &str = "daruma-key.pem";

/// How much encryption the server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EncryptionPolicy {
    /// No TLS at all; clients that insist on it leave.
    Off,
    /// The client decides; the login is encrypted unless it refuses.
    #[default]
    On,
    /// Everything is encrypted; clients without TLS are turned away.
    Required,
    /// TDS 8.0 alone.
    Strict,
}

/// Certificate and policy with which the edge speaks TLS.
#[derive(Clone)]
pub struct TlsSettings {
    pub policy: EncryptionPolicy,
    configs: Option<Configs>,
}

#[derive(Clone)]
struct Configs {
    wrapped: Arc<ServerConfig>,
    strict: Arc<ServerConfig>,
}

impl TlsSettings {
    /// A server that speaks no TLS.
    pub const fn off() -> TlsSettings {
        TlsSettings {
            policy: EncryptionPolicy::Off,
            configs: None,
        }
    }

    /// With this certificate chain and key, both in PEM files.
    pub fn from_files(
        policy: EncryptionPolicy,
        certificate: &Path,
        key: &Path,
    ) -> Result<TlsSettings, ServerError> {
        if policy == EncryptionPolicy::Off {
            return Ok(TlsSettings::off());
        }
        let chain = read_chain(certificate)?;
        let key = read_key(key)?;
        let wrapped = config(&[&version::TLS12], &chain, &key)?;
        let mut strict = config(&[&version::TLS13, &version::TLS12], &chain, &key)?;
        strict.alpn_protocols = vec![ALPN.to_vec()];
        let configs = Configs {
            wrapped: Arc::new(wrapped),
            strict: Arc::new(strict),
        };
        Ok(TlsSettings {
            policy,
            configs: Some(configs),
        })
    }

    /// With the certificate kept in `directory`, made now if there is none yet.
    pub fn from_directory(
        policy: EncryptionPolicy,
        directory: &Path,
        names: &[String],
    ) -> Result<TlsSettings, ServerError> {
        if policy == EncryptionPolicy::Off {
            return Ok(TlsSettings::off());
        }
        let (certificate, key) = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
        if !certificate.exists() || !key.exists() {
            make_certificate(&certificate, &key, names)?;
        }
        TlsSettings::from_files(policy, &certificate, &key)
    }

    /// The server's side of the negotiation in PRELOGIN.
    pub(crate) const fn server_encryption(&self) -> ServerEncryption {
        match (self.policy, &self.configs) {
            (EncryptionPolicy::Off, _) | (_, None) => ServerEncryption::NoCertificate,
            (EncryptionPolicy::On, Some(_)) => ServerEncryption::Optional,
            (EncryptionPolicy::Required | EncryptionPolicy::Strict, Some(_)) => {
                ServerEncryption::Forced
            }
        }
    }

    /// For a handshake inside PRELOGIN packets.
    pub(crate) fn wrapped(&self) -> Option<Arc<ServerConfig>> {
        self.configs.as_ref().map(|c| c.wrapped.clone())
    }

    /// For a handshake on the bare socket.
    pub(crate) fn strict(&self) -> Option<Arc<ServerConfig>> {
        self.configs.as_ref().map(|c| c.strict.clone())
    }
}

fn config(
    versions: &[&'static SupportedProtocolVersion],
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<ServerConfig, ServerError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain.to_vec(), key.clone_key())?;
    // Resumption saves little beside a slow password hash.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let bytes = read_file(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(ServerError::BadPem {
            path: path.to_path_buf(),
            what: "certificate",
        }),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, ServerError> {
    let bytes = read_file(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| ServerError::BadPem {
        path: path.to_path_buf(),
        what: "private key",
    })
}

fn read_file(path: &Path) -> Result<Vec<u8>, ServerError> {
    fs::read(path).map_err(|source| ServerError::ReadFile {
        path: path.to_path_buf(),
        source,
    })
}

/// The key is written first: a certificate without its key would be kept for ever.
fn make_certificate(certificate: &Path, key: &Path, names: &[String]) -> Result<(), ServerError> {
    let mut subjects = vec![
        "localhost".to_string(),
        "127.0.0.1".to_string(),
        "::1".to_string(),
    ];
    subjects.extend(names.iter().filter(|n| is_host_name(n)).cloned());
    subjects.dedup();
    let made = rcgen::generate_simple_self_signed(subjects)?;
    write_private(key, made.signing_key.serialize_pem().as_bytes())?;
    write_private(certificate, made.cert.pem().as_bytes())
}

fn is_host_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    !name.is_empty() && name.chars().all(allowed) && name != "localhost"
}

/// Writes a file that its owner alone can read, to the disk. Whatever lies there, a link too, is replaced and not written through: it
/// would keep its mode.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    let failed = |source: io::Error| ServerError::WriteFile {
        path: PathBuf::from(path),
        source,
    };
    remove(path)?;
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = opened.map_err(failed)?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), ServerError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(ServerError::WriteFile {
            path: PathBuf::from(path),
            source,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_made_certificate_is_private_and_used_again() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let policy = EncryptionPolicy::On;
        let first =
            TlsSettings::from_directory(policy, dir.path(), &["box.example".into(), "a b".into()])
                .expect("makes");
        assert_eq!(first.server_encryption(), ServerEncryption::Optional);
        let certificate = fs::read(dir.path().join(CERTIFICATE_FILE)).expect("reads");
        let mode = fs::metadata(dir.path().join(KEY_FILE))
            .expect("exists")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        TlsSettings::from_directory(policy, dir.path(), &[]).expect("reads");
        assert_eq!(
            fs::read(dir.path().join(CERTIFICATE_FILE)).expect("reads"),
            certificate
        );
    }

    /// What somebody else put there is neither written through nor read by more people than may.
    #[test]
    fn a_made_key_replaces_what_lies_at_its_place() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (key, other) = (dir.path().join(KEY_FILE), dir.path().join("other"));
        let made = || {
            TlsSettings::from_directory(EncryptionPolicy::On, dir.path(), &[]).expect("makes");
            let about = fs::symlink_metadata(&key).expect("exists");
            assert!(about.is_file());
            assert_eq!(about.permissions().mode() & 0o777, 0o600);
            // The next one is made anew.
            fs::remove_file(dir.path().join(CERTIFICATE_FILE)).expect("removes");
        };
        fs::write(&key, "open").expect("writes");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("sets the mode");
        made();
        fs::write(&other, "kept").expect("writes");
        fs::remove_file(&key).expect("removes");
        std::os::unix::fs::symlink(&other, &key).expect("links");
        made();
        assert_eq!(fs::read(&other).expect("reads"), b"kept");
    }

    #[test]
    fn files_without_certificates_are_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("empty.pem");
        fs::write(&path, "nothing").expect("writes");
        let refused = TlsSettings::from_files(EncryptionPolicy::Required, &path, &path).err();
        assert!(matches!(
            refused,
            Some(ServerError::BadPem {
                what: "certificate",
                ..
            })
        ));
    }
}
