//! Signs requests with AWS Signature Version 4, as S3 requires.

use std::time::SystemTime;

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign as sigv4,
};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::backend::{Fault, FaultKind};

/// How a signature covers a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Signed {
    /// There is no body.
    Nothing,
    /// The signature covers these bytes.
    Text(Bytes),
    /// Not covered: the checksum protects the body.
    Unsigned,
    /// Not covered: the body is sent in chunks with a trailer.
    UnsignedTrailer,
    /// Covered by the body's SHA-256, in hex.
    Sha256(String),
}

impl Signed {
    fn signable(&self) -> SignableBody<'_> {
        match self {
            Self::Nothing => SignableBody::empty(),
            Self::Text(text) => SignableBody::Bytes(text),
            Self::Unsigned => SignableBody::UnsignedPayload,
            Self::UnsignedTrailer => SignableBody::StreamingUnsignedPayloadTrailer,
            Self::Sha256(hex) => SignableBody::Precomputed(hex.clone()),
        }
    }
}

/// Signs a request by adding headers; `url` must be exactly the URL that is sent.
pub(super) fn sign(
    method: &Method,
    url: &str,
    headers: &mut HeaderMap,
    body: &Signed,
    identity: &Identity,
    region: &str,
) -> Result<(), Fault> {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let params = SigningParams::builder()
        .identity(identity)
        .region(region)
        .name("s3")
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .map_err(cannot_sign)?
        .into();
    let named = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let request = SignableRequest::new(method.as_str(), url, named, body.signable()).map_err(cannot_sign)?;
    let (added, _) = sigv4(request, &params).map_err(cannot_sign)?.into_parts();
    let (added, _) = added.into_parts();
    for header in added {
        let mut value = HeaderValue::from_str(header.value()).map_err(cannot_sign)?;
        value.set_sensitive(header.sensitive());
        headers.insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}

fn cannot_sign(error: impl std::error::Error + Send + Sync + 'static) -> Fault {
    Fault::new(FaultKind::Invalid, "the request cannot be signed").with_source(error)
}
