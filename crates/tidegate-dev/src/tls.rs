//! TLS: the server's certificate and key, and the time limit for handshakes.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::BufReader;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use webpki::EndEntityCert;

use crate::shaping::ShapedStream;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Appears in the text of an encrypted private key (RFC 7468, section 11; RFC 1421 for old keys).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// The size of a socket read: rustls asks for only 4 KiB at a time.
const READ_AHEAD: usize = 64 * 1024;

/// A certificate and its private key, which a server needs to speak TLS 1.2 and 1.3.
///
/// A client that offers both HTTP/1.1 and HTTP/2 gets HTTP/1.1, the only version that S3 speaks. gRPC clients
/// offer only HTTP/2.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    /// The server's certificate, followed by its issuers.
    chain: Arc<[CertificateDer<'static>]>,
    /// How long a client may take for its handshake.
    handshake: Duration,
}

/// Why a certificate or its key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificate's text is not usable, for this reason.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The private key's text is not usable, for this reason.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// TLS failed for another reason.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

impl Tls {
    /// Takes PEM texts: the server's certificate, followed by the certificates from its issuer up to its
    /// authority, if any; and the private key (PKCS #8, PKCS #1 or SEC 1, not encrypted; RSA, ECDSA on P-256 or
    /// P-384, or Ed25519).
    ///
    /// # Errors
    ///
    /// If one of the texts is not PEM or lacks its certificate or key, or if the key does not belong to the
    /// first certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(format!("it is not PEM: {error}")))?;
        if chain.is_empty() {
            return Err(TlsError::Certificate("there is no certificate in it".to_owned()));
        }
        for (place, certificate) in chain.iter().enumerate() {
            EndEntityCert::try_from(certificate).map_err(|error| {
                TlsError::Certificate(format!("number {} in it cannot be read: {error}", place + 1))
            })?;
        }
        if key.windows(ENCRYPTED.len()).any(|text| text == ENCRYPTED) {
            return Err(TlsError::Key("it is encrypted: give one without a passphrase".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsError::Key("there is no private key in it".to_owned()),
            error => TlsError::Key(format!("it is not PEM: {error}")),
        })?;
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain.clone(), key)
            .map_err(|error| match error {
                rustls::Error::InvalidCertificate(why) => TlsError::Certificate(why.to_string()),
                rustls::Error::InconsistentKeys(_) => {
                    TlsError::Key("it is not that of the first certificate".to_owned())
                }
                error => TlsError::Key(format!(
                    "{error}; what is taken is RSA, ECDSA on P-256 or P-384, and Ed25519"
                )),
            })?;
        // The server chooses the first of these that the client offers.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        Ok(Self { config: Arc::new(config), chain: chain.into(), handshake: HANDSHAKE })
    }

    /// Whether a client that trusts these certificates trusts the server: they lead from the server's
    /// certificate to a self-signed one, which may be the server's own.
    #[must_use]
    pub fn has_authority(&self) -> bool {
        let all: Vec<_> = self.chain.iter().filter_map(|der| EndEntityCert::try_from(der).ok()).collect();
        let mut at = all.first();
        // A chain cannot be longer than the number of certificates: this stops a cycle.
        for _ in &all {
            let Some(certificate) = at else { return false };
            if certificate.issuer() == certificate.subject() {
                return true;
            }
            at = all.iter().find(|other| other.subject() == certificate.issuer());
        }
        false
    }

    /// Whether the server's certificate names this address; clients refuse the server at any other address.
    #[must_use]
    pub fn names(&self, address: IpAddr) -> bool {
        let name = ServerName::from(address);
        self.certificate().is_some_and(|own| own.verify_is_valid_for_subject_name(&name).is_ok())
    }

    /// The server's certificate; it parsed before.
    fn certificate(&self) -> Option<EndEntityCert<'_>> {
        self.chain.first().and_then(|der| EndEntityCert::try_from(der).ok())
    }

    /// Performs the handshake with a client, within a time limit.
    pub(crate) async fn handshake(
        &self,
        stream: ShapedStream,
    ) -> io::Result<TlsStream<BufReader<ShapedStream>>> {
        let stream = BufReader::with_capacity(READ_AHEAD, stream);
        let accepting = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream);
        tokio::time::timeout(self.handshake, accepting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
