//! Reads a bucket's lifecycle rules, and adds one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use md5::{Digest as _, Md5};

use super::request::S3Content;
use super::{S3Bucket, rules};
use tidegate_core::backend::{AbortRule, Attempt, Fault, FaultKind, Lifecycle, LifecycleRule};
use tidegate_http::answer::{BodyKind, not_a_store};
use tidegate_http::xml::fault;
use tidegate_http::{proof, set};

/// This setting is not in the document: a PUT without this header loses it.
const DEFAULT_MINIMUM: &str = "x-amz-transition-default-minimum-object-size";

/// Reads the bucket's rules.
pub(super) async fn get(bucket: &S3Bucket, attempt: Attempt) -> Result<Lifecycle, Fault> {
    let request = bucket.request(Method::GET, bucket.address.bucket(&[("lifecycle", "")]), attempt);
    let (headers, body) = match bucket.shared.ask(request).await {
        Ok(answer) => answer,
        // `NoSuchLifecycleConfiguration`.
        Err(fault) if fault.kind == FaultKind::NotFound && fault.answered => return Ok(Lifecycle::default()),
        Err(fault) if fault.kind == FaultKind::Unsupported => {
            // The store's message is about headers and does not help; its error code does.
            let code = fault.message.rfind(" (").map_or("", |code| &fault.message[code..]);
            let message = format!("the store has no lifecycle rules{code}");
            return Err(Fault { message, ..fault });
        }
        Err(fault) => return Err(fault),
    };
    if matches!(BodyKind::of(&body), BodyKind::Xml(root) if root == "ListBucketResult") {
        // Small servers list the objects instead.
        return Err(
            Fault::new(FaultKind::Unsupported, "the store has no lifecycle rules").with_answered(true)
        );
    }
    fault::promised(&headers, &body, "LifecycleConfiguration", &bucket.shared.region)?;
    let document = String::from_utf8(body.to_vec()).map_err(|error| {
        let message = "the store's lifecycle rules are not UTF-8";
        Fault::new(FaultKind::Unsupported, message).with_source(error)
    })?;
    let minimum = headers.get(DEFAULT_MINIMUM).and_then(|minimum| minimum.to_str().ok()).map(str::to_owned);
    Ok(Lifecycle { rules: rules::rules(&document)?, document, default_minimum: minimum })
}

/// Whether a rule of the bucket is the one that was added.
fn has_rule(there: &LifecycleRule, rule: &AbortRule) -> bool {
    there.id.as_deref() == Some(&*rule.id)
        && there.abort_after_days == Some(rule.days)
        && there.prefix == rule.prefix
}

/// Writes the rules of `to` with one more.
pub(super) async fn put(
    bucket: &S3Bucket,
    to: &Lifecycle,
    rule: &AbortRule,
    attempt: Attempt,
) -> Result<(), Fault> {
    let document = rules::with_rule(&to.document, rule)?;
    let mut request = bucket.request(Method::PUT, bucket.address.bucket(&[("lifecycle", "")]), attempt);
    // S3 requires a checksum of this request's body, and every compatible store accepts this one.
    let digest = STANDARD.encode(Md5::digest(document.as_bytes()));
    set(&mut request.headers, "content-md5", Some(digest))?;
    set(&mut request.headers, "content-type", Some("application/xml"))?;
    set(&mut request.headers, DEFAULT_MINIMUM, to.default_minimum.as_ref())?;
    match bucket.shared.ask(request.with(S3Content::Text(Bytes::from(document)))).await.and_then(
        |(headers, body)| {
            fault::no_error(&headers, &body, &bucket.shared.region)?;
            Ok((headers, body))
        },
    ) {
        Ok((headers, _)) if proof::is_stores(&headers) => Ok(()),
        // This answer alone proves nothing: read the rules back.
        Ok((headers, body)) => {
            match get(bucket, attempt).await?.rules.iter().any(|there| has_rule(there, rule)) {
                true => Ok(()),
                false => Err(not_a_store("word that the rules were changed", &headers, &body)),
            }
        }
        Err(fault) if matches!(fault.kind, FaultKind::Invalid | FaultKind::Unsupported) => {
            let message = if bucket.shared.facts.is_minio() {
                "MinIO takes no rule that only aborts incomplete uploads, and no rule was changed; it removes \
                 them itself after 24 hours unless its setting `api stale_uploads_expiry` says otherwise"
                    .to_owned()
            } else {
                let said = &fault.message;
                format!(
                    "the store refuses a rule that only aborts incomplete uploads, and no rule was changed: {said}"
                )
            };
            Err(Fault { kind: FaultKind::Unsupported, message, ..fault })
        }
        Err(fault) => Err(fault),
    }
}
