//! Whom a client believes: anyone, or the certificates in a file.
//!
//! A server made certificate signs itself, so a file with that very certificate is taken as it stands; a certificate
//! of an authority in the file vouches for others in the usual way.

use super::error::{ClientError, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    version,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ALPN_STRICT: &[u8] = b"tds/8.0";

/// Which server certificates a client accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any, without a look.
    Anyone,
    /// Those in this PEM file and those they vouch for.
    File(PathBuf),
    /// None; the error says what to do.
    Nobody,
}

/// `strict`: TLS begins on the bare socket; otherwise inside PRELOGIN packets, where TLS 1.3's late tickets have no place.
pub(super) fn config(trust: &Trust, strict: bool) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[_] = if strict {
        &[&version::TLS13, &version::TLS12]
    } else {
        &[&version::TLS12]
    };
    let verifier = Verifier::new(trust, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
    let builder = builder.map_err(|source| ClientError::Tls {
        server: "this program".into(),
        source,
    })?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    if strict {
        config.alpn_protocols = vec![ALPN_STRICT.to_vec()];
    }
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    anyone: bool,
    named: Vec<CertificateDer<'static>>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl Verifier {
    fn new(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Verifier> {
        let named = match trust {
            Trust::File(path) => read_certificates(path)?,
            Trust::Anyone | Trust::Nobody => Vec::new(),
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(named.iter().cloned());
        let authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .ok();
        Ok(Verifier {
            provider: Arc::clone(provider),
            anyone: *trust == Trust::Anyone,
            named,
            authorities,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.anyone || self.named.iter().any(|named| named == certificate) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(authorities) => {
                authorities.verify_server_cert(certificate, intermediates, name, ocsp, now)
            }
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let failed = |reason: String| ClientError::CertificateFile {
        path: path.to_path_buf(),
        reason,
    };
    let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(failed("no PEM certificate in it".into())),
        Err(error) => Err(failed(format!("{error:?}"))),
    }
}
