//! Sets up TLS: the trusted certificates and the order of cipher suites.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CipherSuite, ClientConfig, RootCertStore};

use tidegate_core::backend::{Fault, FaultKind};

/// TLS that trusts `roots` and offers `protocol` (ALPN).
pub fn config(roots: RootCertStore, protocol: &str) -> Result<ClientConfig, Fault> {
    let mut ring = rustls::crypto::ring::default_provider();
    // If the server lets us choose: with 128-bit keys an upload takes a twelfth less CPU time.
    ring.cipher_suites.sort_by_key(|suite| !is_aes_128(suite.suite()));
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring))
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::new(FaultKind::Invalid, "TLS cannot be set up").with_source(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    Ok(config)
}

fn is_aes_128(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

/// The system's certificate authorities and those of a bundle.
pub fn roots(bundle: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::debug!(%error, "some of the system's certificates cannot be read");
    }
    roots.add_parsable_certificates(native.certs);
    roots.add_parsable_certificates(bundle.iter().cloned());
    roots
}

/// The certificates of a PEM file.
pub fn read_bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let wrong = |why: String| Fault::new(FaultKind::Invalid, format!("CA bundle {} {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(format!("is not PEM: {error}")))?;
    for certificate in &certificates {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| wrong(format!("has a certificate that cannot be used: {error}")))?;
    }
    if certificates.is_empty() {
        return Err(wrong("has no certificate in it".to_owned()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_with_128_bits_is_offered_first_and_nothing_is_left_out() {
        let config = config(RootCertStore::empty(), "http/1.1").unwrap();
        let suites: Vec<_> =
            config.crypto_provider().cipher_suites.iter().map(|suite| suite.suite()).collect();
        assert_eq!(suites[0], CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert!(suites[..3].iter().all(|suite| is_aes_128(*suite)), "{suites:?}");
        assert_eq!(suites.len(), rustls::crypto::ring::default_provider().cipher_suites.len());
    }
}
