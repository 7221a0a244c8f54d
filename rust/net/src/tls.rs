//! TLS 1.3 between hosts, with certificates that nobody has signed but their owners.
//!
//! Who the other end is, its certificate does not say: that both ends know the cluster's token, each proves
//! after the handshake, over what TLS exports for the connection ([`crate::token`]). A joiner also compares
//! the head's certificate with the fingerprint in its join string.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};

use crate::error::{JoinError, LinkError};

/// SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        let mut print = [0; 32];
        print.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref());
        Self(print)
    }
}

impl fmt::Display for Fingerprint {
    /// As in a join string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key pair and its certificate, made by the host itself.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> Result<Self, JoinError> {
        let made = rcgen::generate_simple_self_signed(["raymesh".to_owned()])
            .map_err(|error| JoinError::Certificate(error.to_string()))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key })
    }

    /// From what [`Self::to_der`] gave.
    #[must_use]
    pub fn from_der(certificate: Vec<u8>, key: Vec<u8>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// The certificate and the key (PKCS #8), to be kept as a secret.
    #[must_use]
    pub fn to_der(&self) -> (Vec<u8>, Vec<u8>) {
        (self.certificate.to_vec(), self.key.secret_pkcs8_der().to_vec())
    }

    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// For the acceptor's end.
    ///
    /// # Errors
    /// When the key does not fit the certificate.
    pub fn server(&self) -> Result<Arc<ServerConfig>, LinkError> {
        let config = ServerConfig::builder_with_provider(crypto())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                let key = PrivateKeyDer::Pkcs8(self.key.clone_key());
                builder.with_no_client_auth().with_single_cert(vec![self.certificate.clone()], key)
            })
            .map_err(|error| LinkError::Tls(error.to_string()))?;
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.fingerprint()).finish()
    }
}

/// For the dialer's end. What certificate it meets, [`crate::conn::Conn::fingerprint`] tells.
///
/// # Errors
/// Never with the provider that is built in.
pub fn client() -> Result<Arc<ClientConfig>, LinkError> {
    let provider = crypto();
    let verifier = AnyCertificate { provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| LinkError::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // A link that comes back proves itself anew.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// The name that certificates of hosts have.
pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from("raymesh").unwrap_or_else(|_| ServerName::from(std::net::Ipv4Addr::LOCALHOST))
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// Takes every certificate whose owner shows that they have the key.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
