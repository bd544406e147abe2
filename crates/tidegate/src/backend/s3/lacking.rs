//! Requests to a server that lacks what they use: its refusal shows the lack, and the request goes out once more
//! without, in the same attempt.
//!
//! A refusal often does not say which feature it is about. So the features that a request uses are left out one after
//! the other, the likeliest first, and the endpoint is known to lack them only when the request has succeeded without.

use super::client::S3Shared;
use crate::backend::{Fault, FaultKind, Feature, FeatureSet};

impl S3Shared {
    /// Sends a request that may use the features `uses`. `send` builds and sends it without the features that it is
    /// given: those that the endpoint is known to lack, and those that earlier refusals of this request seem to be about.
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
        let mut left_out = Vec::new();
        loop {
            let fault = match send(without).await {
                Ok(answer) => {
                    for feature in left_out {
                        self.facts.learn_lack(feature);
                    }
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            let used = uses.iter().filter(|feature| !without.contains(**feature));
            let Some(feature) = lacking(used.copied(), &fault) else { return Err(fault) };
            tracing::debug!(?feature, %fault, "refused: once more without");
            without = without.and(feature);
            left_out.push(feature);
        }
    }
}

/// The feature among those that a request uses which the refusal of the request may be about: first one that the refusal
/// names.
fn lacking(used: impl Iterator<Item = Feature> + Clone, fault: &Fault) -> Option<Feature> {
    let said = format!("{} {}", fault.code, fault.message).to_ascii_lowercase();
    let is_about = |words: &[&str]| words.iter().any(|word| said.contains(word));
    // A checksum that does not match tells of damage.
    let is_damage = |feature| feature == Feature::Checksums && said.contains("match");
    let is_named = |feature: &Feature| is_refusal(fault) && is_about(words(*feature)) && !is_damage(*feature);
    if let Some(named) = used.clone().find(is_named) {
        return Some(named);
    }
    // Not implemented, and the refusal does not say what. Without a store's code it may be a proxy's.
    let is_about_other = is_about(&OTHERS) || ALL.iter().any(|feature| is_about(words(*feature)));
    let mut used = used;
    used.next().filter(|_| fault.kind == FaultKind::Unsupported && !fault.code.is_empty() && !is_about_other)
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

const ALL: [Feature; 5] =
    [Feature::Trailers, Feature::Checksums, Feature::UnsignedPayload, Feature::EncodedKeys, Feature::ListV2];

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
        Feature::Checksums => &["checksum", "crc64", "crc32", "algorithm", "mp-object-size", "malformedxml"],
        Feature::UnsignedPayload => &["unsigned", "content-sha256", "contentsha256"],
        Feature::EncodedKeys => &["encoding-type", "encodingtype", "encoding type"],
        Feature::ListV2 => &["list-type", "listtype", "listobjectsv2"],
        _ => &[],
    }
}

/// Words of a refusal that is about something that a request does not go without.
const OTHERS: [&str; 9] = [
    "if-none-match",
    "if-match",
    "tagging",
    "storage-class",
    "storageclass",
    "server-side-encryption",
    "acl",
    "object-lock",
    "uploads",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(used: &[Feature], kind: FaultKind, code: &str, message: &str) -> Option<Feature> {
        lacking(used.iter().copied(), &Fault::new(kind, message).with_code(code))
    }

    #[test]
    fn a_refusal_shows_what_is_lacking() {
        use FaultKind::{Credentials, Integrity, Invalid, Throttled, Unsupported};
        use Feature::{Checksums, EncodedKeys, ListV2, Trailers, UnsignedPayload};
        let put = [Trailers, Checksums, UnsignedPayload];
        let unnamed = "A header you provided implies functionality that is not implemented";
        for (used, kind, code, message, expected) in [
            (&put[..], Unsupported, "NotImplemented", unnamed, Some(Trailers)),
            (&put[1..], Unsupported, "NotImplemented", unnamed, Some(Checksums)),
            (&put, Unsupported, "NotImplemented", "…: x-amz-trailer", Some(Trailers)),
            (&put, Invalid, "InvalidArgument", "x-amz-content-sha256 must be a hash", Some(Trailers)),
            (
                &put[1..],
                Invalid,
                "InvalidArgument",
                "x-amz-content-sha256 must be a hash",
                Some(UnsignedPayload),
            ),
            (&put, Invalid, "InvalidRequest", "Checksum algorithm provided is unsupported", Some(Checksums)),
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
        ] {
            assert_eq!(named(used, kind, code, message), expected, "{code}: {message}");
        }
    }
}
