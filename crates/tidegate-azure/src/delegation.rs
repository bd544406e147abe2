//! Keys by which an identity signs URLs ("Get User Delegation Key").

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::sync::Mutex;

use super::client::AzureShared;
use super::presign::written;
use super::request::{AzureContent, AzureRequest};
use tidegate_core::backend::{Attempt, Fault, FaultKind};
use tidegate_http::set;
use tidegate_http::xml::document::{ElementStep, XmlPage};

/// How far this machine's clock may be ahead of Azure's: keys and what they sign are good from so long ago on, as
/// Azure's guide to shared access signatures asks for.
const CLOCKS_APART: Duration = Duration::from_secs(15 * 60);
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600 - 15 * 60);

/// A key of an identity.
#[derive(Default)]
pub(super) struct DelegationKey {
    pub(super) object: String,
    pub(super) tenant: String,
    pub(super) start: String,
    pub(super) expiry: String,
    pub(super) service: String,
    pub(super) version: String,
    pub(super) value: String,
    pub(super) expires: Option<SystemTime>,
}

/// The key of one account that was asked for last.
#[derive(Default)]
pub(super) struct DelegationKeys(Mutex<Option<Arc<DelegationKey>>>);

impl std::fmt::Debug for DelegationKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DelegationKeys")
    }
}

impl AzureShared {
    /// A key that is good until `expires`. Azure gives keys for at most seven days from their start.
    pub(super) async fn delegation_key(&self, expires: SystemTime) -> Result<Arc<DelegationKey>, Fault> {
        let mut kept = self.delegation.0.lock().await;
        let now = SystemTime::now();
        if expires > now + LONGEST {
            let message = "an identity signs URLs for at most 6 days, 23 hours and 45 minutes";
            return Err(Fault::new(FaultKind::Invalid, message));
        }
        let is_good = |key: &Arc<DelegationKey>| key.expires.is_some_and(|until| until >= expires);
        if let Some(key) = kept.as_ref().filter(|key| is_good(key)) {
            return Ok(key.clone());
        }
        let expires = now + LONGEST;
        let (start, expiry) = (written(now - CLOCKS_APART), written(expires));
        let document = format!("<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>");
        let url = self.endpoint.root(&[("restype", "service"), ("comp", "userdelegationkey")]);
        let request = AzureRequest::new(Method::POST, url, Attempt::FIRST);
        let mut request = request.with(AzureContent::Text(Bytes::from(document)));
        set(&mut request.headers, "content-type", Some("application/xml"))?;
        let (headers, body) = self.ask(request).await?;
        let key = Arc::new(DelegationKey { expires: Some(expires), ..read(&headers, &body)? });
        *kept = Some(key.clone());
        Ok(key)
    }
}

fn read(headers: &HeaderMap, body: &[u8]) -> Result<DelegationKey, Fault> {
    const NAMES: [&str; 7] =
        ["SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion", "Value"];
    let mut key = DelegationKey::default();
    let document = XmlPage::new(headers, body, "UserDelegationKey", "")?;
    document.each(&NAMES, |path, step| {
        if let ([name], ElementStep::Ends(text)) = (path, step) {
            let field = match *name {
                "SignedOid" => &mut key.object,
                "SignedTid" => &mut key.tenant,
                "SignedStart" => &mut key.start,
                "SignedExpiry" => &mut key.expiry,
                "SignedService" => &mut key.service,
                "SignedVersion" => &mut key.version,
                "Value" => &mut key.value,
                _ => return Ok(()),
            };
            *field = text.trim().to_owned();
        }
        Ok(())
    })?;
    // The error shows no part of the document, because it has the key in it.
    let all = [&key.object, &key.tenant, &key.start, &key.expiry, &key.service, &key.version, &key.value];
    if all.iter().any(|field| field.is_empty()) {
        let message = "the store's answer is no user delegation key: a field is missing";
        return Err(Fault::new(FaultKind::NotAStore, message));
    }
    Ok(key)
}
