//! Makes S3's signature, for the few requests that the benchmark itself sends.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;

use crate::Result;

/// The credentials and the region to sign for.
#[derive(Clone, Debug)]
pub struct Signer {
    /// Access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
    /// Region to sign for.
    pub region: String,
}

impl Signer {
    /// The headers that sign a request to `url`; the signature does not cover the body.
    pub fn sign(&self, method: &str, url: &str) -> Result<Vec<(String, String)>> {
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let identity = Credentials::new(&self.access_key, &self.secret_key, None, None, "bench").into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            .time(SystemTime::now())
            .settings(settings)
            .build()?
            .into();
        let request = SignableRequest::new(method, url, std::iter::empty(), SignableBody::UnsignedPayload)?;
        let (added, _) = sign(request, &params)?.into_parts();
        let (headers, _) = added.into_parts();
        Ok(headers.iter().map(|header| (header.name().to_owned(), header.value().to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_signed_in_its_headers() {
        let signer = Signer {
            access_key: "key".to_owned(),
            secret_key: "secret".to_owned(),
            region: "somewhere".to_owned(),
        };
        let headers = signer.sign("PUT", "http://127.0.0.1:1/bucket/key").unwrap();
        let of =
            |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        assert_eq!(of("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
        assert!(of("authorization").unwrap().contains("/somewhere/s3/aws4_request"));
        assert!(of("authorization").unwrap().contains("SignedHeaders=host;"));
    }
}
