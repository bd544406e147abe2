//! TLS: what the server shows to its clients, and how long they have to agree with it.

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

/// How long a client has for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What an encrypted private key has in its text (RFC 7468, section 11; RFC 1421 for those of old).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// How much is read from a socket at once: what is above asks for 4 KiB at a time.
const READ_AHEAD: usize = 64 * 1024;

/// A certificate and the private key that belongs to it: what a server needs to speak TLS 1.2 and 1.3.
///
/// A client that offers both HTTP/1.1 and HTTP/2 is given HTTP/1.1, which is all that S3 speaks. Those of gRPC
/// offer nothing but HTTP/2.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    /// The server's own, and those behind it.
    chain: Arc<[CertificateDer<'static>]>,
    /// How long a client has to agree.
    handshake: Duration,
}

/// Why a certificate or its key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The text of the certificate, for this reason.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The text of the private key, for this reason.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// Neither of them is to blame.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

impl Tls {
    /// Takes texts in PEM: the server's certificate, followed by those that lead from it to its authority, if any;
    /// and its private key (PKCS #8, PKCS #1 or SEC 1, not encrypted; RSA, ECDSA on P-256 or P-384, or Ed25519).
    ///
    /// # Errors
    ///
    /// Where one of the texts is not PEM or has not in it what it should, or where the key is not that of the
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
        // The first of these that a client offers is taken.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        Ok(Self { config: Arc::new(config), chain: chain.into(), handshake: HANDSHAKE })
    }

    /// Whether a client that trusts these certificates trusts the server: they lead from the server's to one that has
    /// signed itself, which may be the server's.
    #[must_use]
    pub fn has_authority(&self) -> bool {
        let all: Vec<_> = self.chain.iter().filter_map(|der| EndEntityCert::try_from(der).ok()).collect();
        let mut at = all.first();
        // A chain is no longer than there are certificates, whatever they say of each other.
        for _ in &all {
            let Some(certificate) = at else { return false };
            if certificate.issuer() == certificate.subject() {
                return true;
            }
            at = all.iter().find(|other| other.subject() == certificate.issuer());
        }
        false
    }

    /// Whether the server's certificate names this address: at one that it does not name, clients refuse it.
    #[must_use]
    pub fn names(&self, address: IpAddr) -> bool {
        let name = ServerName::from(address);
        self.certificate().is_some_and(|own| own.verify_is_valid_for_subject_name(&name).is_ok())
    }

    /// The server's own, which was parsed before.
    fn certificate(&self) -> Option<EndEntityCert<'_>> {
        self.chain.first().and_then(|der| EndEntityCert::try_from(der).ok())
    }

    /// Agrees with a client, in a limited time.
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
