//! Signs requests with AWS Signature Version 4, as S3 requires.

use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign as sigv4,
};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use tidegate_core::backend::{Fault, FaultKind};
use tidegate_http::xml::address::with_query;

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
    let mut settings = settings();
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

/// What S3 asks of every signature: the path as it is sent.
fn settings() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings
}

/// Signs a URL for requests without headers of S3's own and with any body, from `time` on. `url` has no query.
pub(super) fn presigned(
    method: &Method,
    url: &str,
    identity: &Identity,
    region: &str,
    time: SystemTime,
    expires: Duration,
) -> Result<String, Fault> {
    let mut settings = settings();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(expires);
    let params = SigningParams::builder()
        .identity(identity)
        .region(region)
        .name("s3")
        .time(time)
        .settings(settings)
        .build()
        .map_err(cannot_sign)?
        .into();
    let body = SignableBody::UnsignedPayload;
    let request =
        SignableRequest::new(method.as_str(), url, std::iter::empty(), body).map_err(cannot_sign)?;
    let (added, _) = sigv4(request, &params).map_err(cannot_sign)?.into_parts();
    let (_, added) = added.into_parts();
    let query: Vec<(&str, &str)> = added.iter().map(|(name, value)| (*name, value.as_ref())).collect();
    Ok(with_query(url.to_owned(), &query))
}

fn cannot_sign(error: impl std::error::Error + Send + Sync + 'static) -> Fault {
    Fault::new(FaultKind::Invalid, "the request cannot be signed").with_source(error)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use aws_credential_types::Credentials;

    use super::*;

    /// The example of "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)".
    #[test]
    fn a_presigned_url_is_that_of_awss_example() {
        let (key, secret) = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let identity = Identity::from(Credentials::new(key, secret, None, None, "example"));
        let time = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let url = "https://examplebucket.s3.amazonaws.com/test.txt";
        let day = Duration::from_secs(86_400);
        let signed = presigned(&Method::GET, url, &identity, "us-east-1", time, day).unwrap();
        let expected = "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
            &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
            &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
            &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert_eq!(signed, expected);
    }
}
