//! Certificates by fingerprint.
//!
//! Theory: a certificate is a name for a key. An administrator who configures a group hands each replica the fingerprints of the others (a join
//! token, CREATE CERTIFICATE FROM FILE), so names, authorities and dates in it say nothing more and are not looked at: who
//! shall be shut out is unpinned. The handshake proves that the peer has the key.

use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

const ALPN: &[u8] = b"daruma-group/1";

/// SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A certificate or key that TLS cannot be spoken with.
#[derive(Debug, thiserror::Error)]
#[error("TLS with this certificate: {0}")]
pub struct PinError(#[from] Error);

/// This replica's certificate and its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Identity {
        Identity {
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
        }
    }
}

impl Identity {
    /// With this certificate and key.
    pub fn new(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Identity {
        Identity { certificate, key }
    }

    /// What others pin.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// For connections that come in.
    pub(super) fn server(&self, pinned: Vec<Fingerprint>) -> Result<ServerConfig, PinError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pins = Arc::new(Pins::new(
            pinned,
            provider.signature_verification_algorithms,
        ));
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
        let builder = builder.with_client_cert_verifier(pins);
        let mut config =
            builder.with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }

    /// For a connection to one with one of these certificates.
    pub(super) fn client(&self, pinned: Vec<Fingerprint>) -> Result<ClientConfig, PinError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pins = Arc::new(Pins::new(
            pinned,
            provider.signature_verification_algorithms,
        ));
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
        let builder = builder.dangerous().with_custom_certificate_verifier(pins);
        let mut config =
            builder.with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }
}

#[derive(Debug)]
struct Pins {
    pinned: Vec<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pins {
    fn new(pinned: Vec<Fingerprint>, algorithms: WebPkiSupportedAlgorithms) -> Pins {
        Pins { pinned, algorithms }
    }

    fn check(&self, certificate: &[u8]) -> Result<(), Error> {
        match self.pinned.contains(&Fingerprint::of(certificate)) {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    /// TLS 1.2 is not offered.
    fn refuse() -> Error {
        Error::General("TLS 1.2 is not spoken between replicas".into())
    }
}

impl ServerCertVerifier for Pins {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Pins::refuse())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Pins {
    /// Whom this replica would trust is nobody's business.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(certificate)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Pins::refuse())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
