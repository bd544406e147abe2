//! A certificate for servers on this machine.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::Result;

/// The names that a server here is reached by.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// A certificate for 127.0.0.1 and localhost with its key, and the authority that signed it, as PEM files.
///
/// There is an authority because some tools take no certificate that is its own; it signs this one and is lost.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The authority's certificate, for clients to trust.
    pub authority: PathBuf,
    /// The server's certificate.
    pub chain: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one, in three files in `folder`.
    ///
    /// # Errors
    /// Where the files cannot be written.
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
