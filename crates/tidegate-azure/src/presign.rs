//! Presigned URLs: shared access signatures of one blob ("Create a service SAS", "Create a user delegation SAS"), in
//! the form of version 2020-12-06 and later.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use time::OffsetDateTime;

use super::AzureContainer;
use super::delegation::DelegationKey;
use super::sign::hmac;
use tidegate_core::backend::{Fault, FaultKind, Presign, PresignedRequest};
use tidegate_http::xml::address::with_query;

#[cfg(test)]
mod tests;

/// A user delegation key, which signs for identities, lives for seven days.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// The version of the signature.
const VERSION: &str = "2024-11-04";

#[async_trait]
impl Presign for AzureContainer {
    fn longest(&self) -> Duration {
        LONGEST
    }

    fn headers(&self, request: PresignedRequest) -> &'static [(&'static str, &'static str)] {
        match request {
            PresignedRequest::Get => &[],
            PresignedRequest::Put => &[("x-ms-blob-type", "BlockBlob")],
        }
    }

    async fn presign(
        &self,
        request: PresignedRequest,
        key: &str,
        expires: Duration,
    ) -> Result<String, Fault> {
        self.presigned(request, key, expires).await
    }
}

impl AzureContainer {
    /// A URL with a shared access signature for one blob. The account's key signs it, or a key that Azure gives to the
    /// identity, for at most 6 days, 23 hours and 45 minutes. A PUT needs the header `x-ms-blob-type: BlockBlob`.
    pub(super) async fn presigned(
        &self,
        request: PresignedRequest,
        key: &str,
        expires: Duration,
    ) -> Result<String, Fault> {
        let url = self.url.blob(key, &[])?;
        let expires = SystemTime::now() + expires;
        let grant = |expires| BlobGrant {
            permissions: match request {
                PresignedRequest::Get => "r",
                PresignedRequest::Put => "cw",
            },
            expiry: written(expires),
            resource: format!("/blob/{}/{}/{key}", self.shared.account, self.name),
            protocol: if url.starts_with("https:") { "https" } else { "https,http" },
        };
        let keyring = &self.shared.keyring;
        if let Some(key) = keyring.key() {
            return grant(expires).signed_by_account(&url, key);
        }
        if !keyring.has_tokens() {
            let message = "only the account's key or an identity can sign URLs, and the credentials are neither: a \
                           shared access signature cannot sign another one";
            return Err(Fault::new(FaultKind::Credentials, message));
        }
        let key = self.shared.delegation_key(expires).await?;
        grant(expires).signed_by_identity(&url, &key)
    }
}

/// What a signature allows.
struct BlobGrant {
    permissions: &'static str,
    expiry: String,
    /// The blob, as `/blob/account/container/key`, not percent-encoded.
    resource: String,
    protocol: &'static str,
}

impl BlobGrant {
    fn signed_by_account(&self, url: &str, key: &[u8]) -> Result<String, Fault> {
        let Self { permissions, expiry, resource, protocol } = self;
        // No start, identifier or address; after the kind of the resource, no snapshot, encryption scope or headers.
        let to_sign =
            format!("{permissions}\n\n{expiry}\n{resource}\n\n\n{protocol}\n{VERSION}\nb\n\n\n\n\n\n\n");
        let signature = hmac(key, &to_sign)?;
        Ok(with_query(
            url.to_owned(),
            &[
                ("sv", VERSION),
                ("spr", protocol),
                ("se", expiry),
                ("sr", "b"),
                ("sp", permissions),
                ("sig", &signature),
            ],
        ))
    }

    fn signed_by_identity(&self, url: &str, key: &DelegationKey) -> Result<String, Fault> {
        let Self { permissions, expiry, resource, protocol } = self;
        let DelegationKey { object, tenant, start, expiry: until, service, version, value, .. } = key;
        // No start; after the key's fields, no other users' identifiers, correlation or address.
        let to_sign = format!(
            "{permissions}\n\n{expiry}\n{resource}\n{object}\n{tenant}\n{start}\n{until}\n{service}\n{version}\n\n\n\n\n\
             {protocol}\n{VERSION}\nb\n\n\n\n\n\n\n"
        );
        let value = STANDARD.decode(value).map_err(|_| {
            Fault::new(FaultKind::NotAStore, "the user delegation key that the store gave is not base64")
        })?;
        let signature = hmac(&value, &to_sign)?;
        Ok(with_query(
            url.to_owned(),
            &[
                ("sv", VERSION),
                ("spr", protocol),
                ("se", expiry),
                ("skoid", object),
                ("sktid", tenant),
                ("skt", start),
                ("ske", until),
                ("sks", service),
                ("skv", version),
                ("sr", "b"),
                ("sp", permissions),
                ("sig", &signature),
            ],
        ))
    }
}

/// A time in the form of signatures: `2026-11-27T10:15:00Z`.
pub(super) fn written(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}
