//! TLS: what the server shows to its clients, and how long they have to agree with it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::BufReader;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::shaping::ShapedStream;

/// How long a client has for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How much is read from a socket at once: what is above asks for 4 KiB at a time.
const READ_AHEAD: usize = 64 * 1024;

/// A certificate and the private key that belongs to it: what a server needs to speak TLS 1.2 and 1.3.
///
/// A client that offers both HTTP/1.1 and HTTP/2 is given HTTP/1.1, which is all that S3 speaks. Those of gRPC
/// offer nothing but HTTP/2.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

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
    /// and its private key (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// # Errors
    ///
    /// Where one of the texts is not PEM or has not in it what it should, or where the key is another
    /// certificate's.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(format!("it is not PEM: {error}")))?;
        if chain.is_empty() {
            return Err(TlsError::Certificate("there is no certificate in it".to_owned()));
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
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InvalidCertificate(why) => TlsError::Certificate(why.to_string()),
                rustls::Error::InconsistentKeys(_) => TlsError::Key("it is not the certificate's".to_owned()),
                error => TlsError::Key(error.to_string()),
            })?;
        // The first of these that a client offers is taken.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Agrees with a client, in a limited time.
    pub(crate) async fn handshake(
        &self,
        stream: ShapedStream,
    ) -> io::Result<TlsStream<BufReader<ShapedStream>>> {
        let stream = BufReader::with_capacity(READ_AHEAD, stream);
        let accepting = TlsAcceptor::from(Arc::clone(&self.0)).accept(stream);
        tokio::time::timeout(HANDSHAKE, accepting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
