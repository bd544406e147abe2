//! Presigned URLs of Google Cloud Storage ("V4 signing process").

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::Method;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use url::Url;

use super::Gcs;
use tidegate_core::backend::{Fault, FaultKind, Presign, PresignedRequest};
use tidegate_http::xml::address::with_query;

#[cfg(test)]
mod tests;

/// "The longest expiration value is 604800 seconds (7 days)" ("Signed URLs").
const LONGEST: Duration = Duration::from_secs(604_800);

const ALGORITHM: &str = "GOOG4-RSA-SHA256";

#[async_trait]
impl Presign for Gcs {
    fn longest(&self) -> Duration {
        LONGEST
    }

    async fn presign(
        &self,
        request: PresignedRequest,
        key: &str,
        expires: Duration,
    ) -> Result<String, Fault> {
        let url = self.bucket.xml.object(key, &[])?;
        let signer = self.bucket.shared.keyring.signer().await?;
        let payer = self.bucket.shared.payer.as_ref().map(|payer| payer.project.as_str());
        let unsigned = UnsignedUrl::new(
            &tidegate_http::method(request),
            &url,
            signer.email(),
            SystemTime::now(),
            expires,
            payer,
        )?;
        match signer.sign(unsigned.to_sign.clone()).await {
            Ok(signature) => Ok(unsigned.signed(&signature)),
            Err(fault) => {
                self.bucket.shared.keyring.forget_signer(&signer).await;
                Err(fault)
            }
        }
    }
}

/// A URL with all of its query but the signature.
#[derive(Debug)]
struct UnsignedUrl {
    url: String,
    /// The text that is signed.
    to_sign: String,
}

impl UnsignedUrl {
    /// `url` has no query. `payer` is the project that pays.
    fn new(
        method: &Method,
        url: &str,
        email: &str,
        time: SystemTime,
        expires: Duration,
        payer: Option<&str>,
    ) -> Result<Self, Fault> {
        let cannot = |why: &str| Fault::new(FaultKind::Invalid, format!("the URL cannot be signed: {why}"));
        let parsed = Url::parse(url).map_err(|error| cannot(&error.to_string()).with_source(error))?;
        let host = parsed.host_str().ok_or_else(|| cannot("it has no host"))?;
        let host = parsed.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let (_, path) = url
            .split_once("://")
            .and_then(|(_, rest)| rest.split_once('/'))
            .ok_or_else(|| cannot("it has no path"))?;
        let now = OffsetDateTime::from(time);
        let date = format!("{:04}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
        let time = format!("{date}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
        let scope = format!("{date}/auto/storage/goog4_request");
        let credential = format!("{email}/{scope}");
        let expires = expires.as_secs().to_string();
        // The order is that of the names: the signature needs it.
        let query = [
            ("X-Goog-Algorithm", ALGORITHM),
            ("X-Goog-Credential", &credential),
            ("X-Goog-Date", &time),
            ("X-Goog-Expires", &expires),
            ("X-Goog-SignedHeaders", "host"),
        ];
        let query: Vec<_> = query.into_iter().chain(payer.map(|project| ("userProject", project))).collect();
        let encoded = with_query(String::new(), &query);
        let encoded = encoded.trim_start_matches('?');
        let canonical = format!("{method}\n/{path}\n{encoded}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
        let digest = hex(&Sha256::digest(canonical.as_bytes()));
        let to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{digest}");
        Ok(Self { url: format!("{url}?{encoded}"), to_sign })
    }

    fn signed(self, signature: &[u8]) -> String {
        format!("{}&X-Goog-Signature={}", self.url, hex(signature))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
