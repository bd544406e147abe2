//! Requests to a server that lacks what they use: its refusal shows the lack, and the request goes out once more
//! without, in the same attempt.
//!
//! A refusal often does not say which feature it is about. So the features that a request uses are left out one after
//! the other, the likeliest first. When the request has succeeded, the endpoint is known to lack the last feature that
//! was left out, without which the request succeeded, and those that refusals have named.

use async_trait::async_trait;
use futures::TryStreamExt;

use super::client::S3Shared;
use super::request::S3Request;
use super::{S3Bucket, list};
use tidegate_core::backend::{Attempt, Fault, FaultKind, Feature, FeatureSet, OpenSession, Pages};
use tidegate_http::{Response, set};

impl S3Shared {
    /// Sends a request that may use the features `uses`. `send` builds and sends it without the features that it is
    /// given: those that the endpoint is known to lack, and those that earlier refusals of this request seem to be
    /// about.
    pub(super) async fn adapted<T, F>(
        &self,
        uses: &[Feature],
        mut send: impl FnMut(FeatureSet) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        if self.endpoint.is_aws() {
            // Amazon S3 lacks nothing: a refusal is about something else, or a proxy's.
            return send(FeatureSet::default()).await;
        }
        let mut without = self.facts.lacking();
        let (mut named, mut last) = (Vec::new(), None);
        loop {
            let fault = match send(without).await {
                Ok(answer) => {
                    for feature in named.into_iter().chain(last) {
                        self.facts.learn_lack(feature);
                    }
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            let used = uses.iter().copied().filter(|feature| !without.contains(*feature));
            let feature = match suspect(used, &fault) {
                None => return Err(fault),
                Some(Suspect::Named(feature)) => {
                    named.push(feature);
                    feature
                }
                Some(Suspect::Guessed(feature)) => feature,
            };
            tracing::debug!(?feature, %fault, "refused: once more without");
            without = without.and(feature);
            last = Some(feature);
        }
    }
}

impl S3Shared {
    /// Whether a refusal says that the server does not have requests of this kind. It does not if it is about an
    /// attribute of the object or a condition. Without a store's code, it may be a proxy's.
    pub(super) fn has_no_such_request(&self, fault: &Fault) -> bool {
        let said = fault.message.to_ascii_lowercase();
        let is_lacking = fault.kind == FaultKind::Unsupported || fault.code == "MethodNotAllowed";
        is_lacking
            && !fault.code.is_empty()
            && !self.endpoint.is_aws()
            && !OTHERS.iter().any(|word| said.contains(word))
    }
}

impl S3Shared {
    /// Sends a request that describes or reads an object, and asks for the object's checksum. A server that refuses
    /// the question (Backblaze B2) is asked without it: HTTP has no body in the refusal of a HEAD, so each refusal
    /// that gives no reason may be about it. A single refusal without a reason may also be a proxy's of that moment,
    /// and proves nothing: the question is asked once more first.
    pub(super) async fn send_for_checksum(&self, request: S3Request) -> Result<Response, Fault> {
        if self.facts.lacks(Feature::ChecksumMode) {
            return self.send(request).await;
        }
        let mut asking = request.clone();
        set(&mut asking.headers, "x-amz-checksum-mode", Some("ENABLED"))?;
        let is_about = |fault: &Fault| !self.endpoint.is_aws() && may_be_about_checksums(fault);
        let mut answered = self.send(asking.clone()).await;
        if answered.as_ref().is_err_and(|fault| is_about(fault) && fault.code.is_empty()) {
            answered = self.send(asking).await;
        }
        let fault = match answered {
            Err(fault) if is_about(&fault) => fault,
            answered => return answered,
        };
        tracing::debug!(%fault, "refused: once more without the question for a checksum");
        let answered = self.send(request).await;
        // An object that is missing is an answer too.
        if answered.as_ref().map_or_else(|fault| fault.kind == FaultKind::NotFound, |_| true) {
            self.facts.learn_lack(Feature::ChecksumMode);
        }
        answered
    }
}

/// The unfinished uploads of a server that may not list them: its first answer shows that, and then there are none.
pub(super) struct UnknownSessions {
    pages: Box<dyn Pages<OpenSession>>,
    bucket: S3Bucket,
    has_begun: bool,
}

impl UnknownSessions {
    pub(super) fn new(pages: Box<dyn Pages<OpenSession>>, bucket: S3Bucket) -> Self {
        Self { pages, bucket, has_begun: false }
    }
}

/// Whether the fault of the first page shows that the server does not list unfinished uploads. A page that is no object
/// store's may be that of a proxy; not if the same bucket lists its objects.
async fn has_no_listing(bucket: &S3Bucket, fault: &Fault, attempt: Attempt) -> bool {
    match fault.kind {
        FaultKind::Unsupported => true,
        FaultKind::NotAStore => {
            let objects = list::objects(bucket.clone(), "", false, None);
            objects.items(attempt).try_next().await.is_ok()
        }
        _ => bucket.shared.has_no_such_request(fault),
    }
}

#[async_trait]
impl Pages<OpenSession> for UnknownSessions {
    async fn next(&mut self, attempt: Attempt) -> Result<Option<Vec<OpenSession>>, Fault> {
        match self.pages.next(attempt).await {
            Err(fault) if !self.has_begun && has_no_listing(&self.bucket, &fault, attempt).await => {
                tracing::debug!(%fault, "the server does not list unfinished uploads");
                self.bucket.shared.facts.learn_lack(Feature::ListSessions);
                Ok(None)
            }
            page => {
                self.has_begun |= page.is_ok();
                page
            }
        }
    }
}

/// Whether a refusal may be about the question for a checksum.
fn may_be_about_checksums(fault: &Fault) -> bool {
    let said = fault.message.to_ascii_lowercase();
    matches!(fault.kind, FaultKind::Invalid | FaultKind::Unsupported)
        && (said.contains("checksum")
            || matches!(fault.code.as_str(), "" | "InvalidArgument" | "InvalidRequest" | "NotImplemented"))
}

/// A feature that a refusal may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    /// The refusal names it.
    Named(Feature),
    /// The refusal names nothing, and the request uses it.
    Guessed(Feature),
}

/// The feature among those that a request uses which the server may have refused.
fn suspect(used: impl Iterator<Item = Feature> + Clone, fault: &Fault) -> Option<Suspect> {
    let said = format!("{} {}", fault.code, fault.message).to_ascii_lowercase();
    let is_about = |words: &[&str]| words.iter().any(|word| said.contains(word));
    // A checksum that does not match, or that cannot be read, tells of damage.
    let tells_damage = said.contains("match") || matches!(fault.code.as_str(), "BadDigest" | "InvalidDigest");
    let is_damage = |feature| CHECKSUMS.contains(&feature) && tells_damage;
    // "Content-MD5 OR x-amz-checksum- HTTP header is required": it was not our checksum that was refused.
    let wants_md5 =
        used.clone().any(|feature| feature == Feature::BytesWithoutMd5) && is_about(&["content-md5"]);
    let is_named = |feature: &Feature| {
        is_refusal(fault)
            && is_about(words(*feature))
            && !is_damage(*feature)
            && (!wants_md5 || *feature == Feature::BytesWithoutMd5)
    };
    if let Some(named) = used.clone().find(is_named) {
        return Some(Suspect::Named(named));
    }
    // Not implemented, and the refusal does not say what. Without a store's code it may be a proxy's.
    let is_about_other =
        is_about(&["uploads"]) || is_about(&OTHERS) || ALL.iter().any(|feature| is_about(words(*feature)));
    let mut used = used.filter(|feature| *feature != Feature::BytesWithoutMd5);
    let is_unnamed = fault.kind == FaultKind::Unsupported && !fault.code.is_empty() && !is_about_other;
    used.next().filter(|_| is_unnamed).map(Suspect::Guessed)
}

/// Whether an answer refuses the request as it is, and has certainly not carried it out.
fn is_refusal(fault: &Fault) -> bool {
    match fault.kind {
        FaultKind::Unsupported | FaultKind::Invalid => true,
        // The server took the name of the framing for the SHA-256 of the body.
        FaultKind::Integrity => fault.code.starts_with("XAmzContentSHA256"),
        // Some servers sign other headers than those of a framed body.
        FaultKind::Credentials => fault.code == "SignatureDoesNotMatch",
        _ => false,
    }
}

const CHECKSUMS: [Feature; 2] = [Feature::Crc64Nvme, Feature::Crc32c];

const ALL: [Feature; 6] = [
    Feature::Trailers,
    Feature::Crc64Nvme,
    Feature::Crc32c,
    Feature::UnsignedPayload,
    Feature::EncodedKeys,
    Feature::ListV2,
];

/// Words of a refusal, in lower case, that is about a feature.
fn words(feature: Feature) -> &'static [&'static str] {
    match feature {
        Feature::Trailers => &[
            "trailer",
            "aws-chunked",
            "content-encoding",
            "content encoding",
            "decoded-content-length",
            "missingcontentlength",
            "streaming",
            "content-sha256",
            "contentsha256",
            "signaturedoesnotmatch",
        ],
        Feature::Crc64Nvme | Feature::Crc32c => {
            &["checksum", "crc64", "crc32", "algorithm", "mp-object-size", "malformedxml"]
        }
        Feature::BytesWithoutMd5 => &["content-md5"],
        Feature::UnsignedPayload => &["unsigned", "content-sha256", "contentsha256"],
        Feature::EncodedKeys => &["encoding-type", "encodingtype", "encoding type"],
        Feature::ListV2 => &["list-type", "listtype", "listobjectsv2"],
        _ => &[],
    }
}

/// Words of a refusal that is about something that a request does not go without.
const OTHERS: [&str; 11] = [
    "if-none-match",
    "if-match",
    "tagging",
    "storage-class",
    "storageclass",
    "server-side-encryption",
    "acl",
    "object-lock",
    "encryption",
    "kms",
    "storage class",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(used: &[Feature], kind: FaultKind, code: &str, message: &str) -> Option<Feature> {
        suspect(used.iter().copied(), &Fault::new(kind, message).with_code(code))
            .map(|suspect| match suspect {
                Suspect::Named(feature) | Suspect::Guessed(feature) => feature,
            })
    }

    #[test]
    fn a_refusal_shows_what_is_lacking() {
        use FaultKind::{Credentials, Integrity, Invalid, Throttled, Unsupported};
        use Feature::{BytesWithoutMd5, Crc64Nvme, EncodedKeys, ListV2, Trailers, UnsignedPayload};
        let put = [Trailers, Crc64Nvme, UnsignedPayload];
        let unnamed = "A header you provided implies functionality that is not implemented";
        for (used, kind, code, message, expected) in [
            (&put[..], Unsupported, "NotImplemented", unnamed, Some(Trailers)),
            (&put[1..], Unsupported, "NotImplemented", unnamed, Some(Crc64Nvme)),
            (&put, Unsupported, "NotImplemented", "…: x-amz-trailer", Some(Trailers)),
            (&put, Invalid, "InvalidArgument", "x-amz-content-sha256 must be a hash", Some(Trailers)),
            (
                &put[1..],
                Invalid,
                "InvalidArgument",
                "x-amz-content-sha256 must be a hash",
                Some(UnsignedPayload),
            ),
            (&put, Invalid, "InvalidDigest", "The checksum value that you specified is not valid", None),
            (&put, Invalid, "InvalidRequest", "Checksum algorithm provided is unsupported", Some(Crc64Nvme)),
            (&put, Invalid, "MissingContentLength", "You must provide the length", Some(Trailers)),
            (&put, Integrity, "XAmzContentSHA256Mismatch", "It does not match", Some(Trailers)),
            (&put, Credentials, "SignatureDoesNotMatch", "refused", Some(Trailers)),
            (&[EncodedKeys, ListV2], Invalid, "InvalidArgument", "encoding-type", Some(EncodedKeys)),
            (&[EncodedKeys, ListV2], Unsupported, "NotImplemented", "list-type=2", Some(ListV2)),
            // About something else, or nothing that is left out.
            (&put, Unsupported, "NotImplemented", "If-None-Match", None),
            (&put, Unsupported, "NotImplemented", "…: x-amz-tagging", None),
            (&put[1..], Credentials, "SignatureDoesNotMatch", "refused", None),
            (&put, Integrity, "BadDigest", "the checksum is another", None),
            (&put, Invalid, "InvalidRequest", "The checksum does not match the bytes", None),
            (&put, Unsupported, "", "Not Implemented", None),
            (&put, Invalid, "InvalidStorageClass", "no such class", None),
            (&put, Throttled, "SlowDown", "trailer", None),
            (&[], Unsupported, "NotImplemented", unnamed, None),
            (&[BytesWithoutMd5], Unsupported, "NotImplemented", unnamed, None),
            (
                &[Crc64Nvme, BytesWithoutMd5],
                Invalid,
                "InvalidRequest",
                "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock",
                Some(BytesWithoutMd5),
            ),
        ] {
            assert_eq!(named(used, kind, code, message), expected, "{code}: {message}");
        }
    }
}
