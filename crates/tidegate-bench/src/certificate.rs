//! Makes a certificate for servers on this machine.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::Result;

/// The names of a server on this machine.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// PEM files of a certificate for 127.0.0.1 and localhost, its key, and the authority that signed it.
///
/// Some tools reject a self-signed certificate, so an authority signs this one; the authority's key is
/// discarded.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The authority's certificate, for clients to trust.
    pub authority: PathBuf,
    /// The server's certificate.
    pub chain: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Makes a certificate, in three files in `folder`.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn make(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tidegate-bench authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);

        let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
        params.distinguished_name.push(DnType::CommonName, "tidegate-bench server");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;

        let write = |name: &str, text: String| -> Result<PathBuf> {
            let path = std::path::absolute(folder)?.join(name);
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            authority: write("authority.pem", authority.pem())?,
            chain: write("certificate.pem", certificate.pem())?,
            key: write("key.pem", key.serialize_pem())?,
        })
    }
}
