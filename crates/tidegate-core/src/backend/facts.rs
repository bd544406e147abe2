//! What one server turns out to lack, or to do otherwise than its protocol says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::types::checksum::Algorithm;

/// Something that requests use, and that a server may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Feature {
    /// Answers with a range of an object, instead of the whole object. Without them, an object is read by one request,
    /// because each request returns the whole object.
    Ranges,
    /// Removals of many objects in one request.
    BulkDelete,
    /// Copies by the store itself, of objects or of parts.
    ServerCopy,
    /// Uploads in parts.
    Multipart,
    /// Uploads in parts beside sessions that bytes are appended to (Google's XML API).
    PartsBesideAppends,
    /// The position of a session that bytes are appended to.
    SessionPosition,
    /// A checksum that follows the bytes of a request, in a trailer (`aws-chunked`). Not used before the server has
    /// shown that it knows our checksums.
    Trailers,
    /// CRC-64/NVME checksums that requests bring and the store keeps.
    Crc64Nvme,
    /// CRC-32C checksums that requests bring and the store keeps.
    Crc32c,
    /// Checksums that the server compares with the bytes of the request that brings them (Azure; Azurite does not).
    ComparedChecksums,
    /// Checksums of ranges, sent with their bytes (Azure; Azurite does not).
    RangeChecksums,
    /// Signatures that do not cover the bytes of a request.
    UnsignedPayload,
    /// Keys of listings that are encoded, because XML can't express all of them.
    EncodedKeys,
    /// Listings of the second version of the protocol (ListObjectsV2).
    ListV2,
    /// Writes in one request, on the condition that the key has no object.
    CreateOnly,
    /// The same condition for the completion of an upload in parts.
    CreateOnlyParts,
    /// The same condition for copies that the store makes.
    CreateOnlyCopy,
    /// The description of a key before a create-only write, where the server may ignore the write's condition.
    CreateOnlyCheck,
    /// Removals of an object only if it is unchanged.
    ConditionalDelete,
    /// The header that asks for an object's checksum (S3: `x-amz-checksum-mode`).
    ChecksumMode,
    /// Checksums in the answers to parts that were sent with them, without which a completion does not name them.
    PartChecksums,
    /// Listings of unfinished uploads.
    ListSessions,
    /// Slashes at the beginning of a key (MinIO drops them).
    LeadingSlashes,
    /// Empty names within a key, as in `a//b` (versitygw drops them).
    EmptyNames,
    /// Bytes without their MD5 (`Content-MD5`), which some servers demand where object lock protects the objects.
    BytesWithoutMd5,
}

impl Feature {
    /// The feature that a store keeps checksums of this algorithm.
    pub fn kept(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Crc64Nvme => Self::Crc64Nvme,
            Algorithm::Crc32c => Self::Crc32c,
        }
    }

    /// The message for users if an endpoint lacks the feature. The endpoint's address is its subject.
    fn lack(self) -> FeatureLack {
        use FeatureLack::{Replaced, Unkept};
        match self {
            Self::Ranges => {
                Replaced("returns whole objects instead of ranges: each object is read by one request")
            }
            Self::BulkDelete => {
                Replaced("has no removals of many objects in one request: they are removed one by one")
            }
            Self::ServerCopy => Replaced("makes no copies itself: their bytes go through this machine"),
            Self::Multipart => Replaced("has no uploads in parts: each object is sent in one request"),
            Self::PartsBesideAppends => Replaced(
                "has no uploads in parts: a large object goes through a resumable upload, one chunk after the other",
            ),
            Self::SessionPosition => Replaced(
                "does not tell how much of an unfinished upload it has: after a lost answer, or when a journal is \
                 resumed, all bytes are sent again",
            ),
            Self::Trailers => Replaced(
                "does not accept a checksum after the bytes (aws-chunked): each file is read twice, first for its checksum",
            ),
            Self::Crc64Nvme => Unkept(
                "keeps no CRC-64/NVME of objects: the SHA-256 of each request protects the bytes on their way, nothing \
                 afterwards (the store may keep CRC-32C: `--checksum crc32c`)",
            ),
            Self::Crc32c => Unkept(
                "keeps no CRC-32C of objects: the SHA-256 of each request protects the bytes on their way, nothing \
                 afterwards",
            ),
            Self::ComparedChecksums => Unkept(
                "does not compare the bytes that it gets with their checksums: damage on the way shows only when they are \
                 read back",
            ),
            Self::RangeChecksums => Replaced(
                "sends no checksums with the bytes of a range: a download is compared with the checksum of the whole object",
            ),
            Self::UnsignedPayload => Replaced(
                "demands that signatures cover the bytes: each file is read twice, first for its SHA-256",
            ),
            Self::EncodedKeys => {
                Replaced("does not encode the keys of listings: keys are taken as they stand in its XML")
            }
            Self::ListV2 => Replaced("lists objects in the protocol's first version only (ListObjects)"),
            Self::CreateOnly | Self::CreateOnlyParts => Unkept(
                "may ignore create-only (If-None-Match, ifGenerationMatch): Tidegate first checks that the key is free, but can replace the \
                 object of a simultaneous writer (`tidegate doctor` can tell)",
            ),
            Self::CreateOnlyCopy => Unkept(
                "may ignore create-only in copies (ifGenerationMatch): Tidegate first checks that the key is free, but can \
                 replace the object of a simultaneous writer",
            ),
            Self::CreateOnlyCheck => Unkept(
                "may ignore create-only (If-None-Match, ifGenerationMatch), and does not let these credentials read the key to check \
                 that it is free (403): a write can replace an object",
            ),
            Self::ChecksumMode => Replaced(
                "does not tell the checksums of objects (it refuses x-amz-checksum-mode): of what is read, the size is compared",
            ),
            Self::PartChecksums => Replaced(
                "does not answer with the checksums of parts: a completion names the parts by their ETags",
            ),
            Self::BytesWithoutMd5 => Replaced(
                "demands the MD5 of all bytes (Content-MD5): each file is read twice, first for its MD5",
            ),
            Self::LeadingSlashes => {
                Replaced("drops slashes at the beginning of keys: copies of trees refuse such keys")
            }
            Self::EmptyNames => {
                Replaced("drops empty names in keys (a//b): copies of trees refuse such keys")
            }
            Self::ListSessions => Replaced(
                "does not list unfinished uploads: `sessions` and `sweep` find only those that this machine's records name",
            ),
            Self::ConditionalDelete => Unkept(
                "removes without a condition (If-Match): Tidegate first checks that the object is unchanged, but can \
                 remove one that replaces it in the same moment",
            ),
        }
    }

    /// The text of the message for users, without the endpoint's address.
    pub fn notice(self) -> &'static str {
        match self.lack() {
            FeatureLack::Replaced(notice) | FeatureLack::Unkept(notice) => notice,
        }
    }

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// What the lack of a feature comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeatureLack {
    /// Something else does the same: worth knowing, no more.
    Replaced(&'static str),
    /// A promise of Tidegate cannot be kept.
    Unkept(&'static str),
}

/// Some features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureSet(u32);

impl FeatureSet {
    /// Whether the feature is one of them.
    pub fn contains(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// These features and one more.
    #[must_use]
    pub fn and(self, feature: Feature) -> Self {
        Self(self.0 | feature.bit())
    }
}

/// The facts of one endpoint. They are learned from its answers, once for all who send requests there.
#[derive(Debug, Default)]
pub struct Facts {
    endpoint: String,
    /// The features that the server lacks, as in a [`FeatureSet`].
    lacks: AtomicU32,
    /// The features that the server has shown to have.
    has: AtomicU32,
    is_minio: AtomicBool,
    /// The most parts of an upload; 0 if no answer has told a number.
    max_parts: AtomicU32,
    buckets: Mutex<BTreeMap<String, Arc<BucketFacts>>>,
    /// Held while the server is asked what it does with empty names in keys.
    pub empty_names: tokio::sync::Mutex<()>,
}

impl Facts {
    fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), ..Self::default() }
    }

    /// Whether an answer of the server has shown that it lacks a feature.
    pub fn lacks(&self, feature: Feature) -> bool {
        self.lacking().contains(feature)
    }

    /// The features that the server lacks, as far as its answers have shown.
    pub fn lacking(&self) -> FeatureSet {
        FeatureSet(self.lacks.load(Relaxed))
    }

    /// Whether an answer of the server has shown that it has a feature. Kept only of features whose lack would not
    /// show, or not for certain.
    pub fn has(&self, feature: Feature) -> bool {
        FeatureSet(self.has.load(Relaxed)).contains(feature)
    }

    /// An answer shows that the server has a feature whose lack would not show.
    pub fn learn_has(&self, feature: Feature) {
        if !self.has(feature) {
            self.has.fetch_or(feature.bit(), Relaxed);
            self.lacks.fetch_and(!feature.bit(), Relaxed);
        }
    }

    /// Records that the server lacks a feature, as an answer has shown. The first call for a feature returns true and
    /// emits the tracing event `tidegate::lacks`, which names the feature and its replacement.
    pub fn learn_lack(&self, feature: Feature) -> bool {
        let is_new = self.lacks.fetch_or(feature.bit(), Relaxed) & feature.bit() == 0;
        if is_new {
            let (notice, is_unkept) = match feature.lack() {
                FeatureLack::Replaced(notice) => (notice, false),
                FeatureLack::Unkept(notice) => (notice, true),
            };
            tracing::debug!(target: "tidegate::lacks", at = self.endpoint, notice, is_unkept, "a feature is lacking");
        }
        is_new
    }

    /// A request for a range was answered, with that range or with the whole object.
    pub fn answered_range(&self, is_ignored: bool) {
        if is_ignored {
            self.learn_lack(Feature::Ranges);
        } else if self.lacks(Feature::Ranges) {
            self.lacks.fetch_and(!Feature::Ranges.bit(), Relaxed);
        }
    }

    /// The facts of one bucket.
    pub fn bucket(&self, bucket: &str) -> Arc<BucketFacts> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.entry(bucket.to_owned()).or_default().clone()
    }

    /// The most parts of an upload, if the refusal of a part has told it.
    pub fn max_parts(&self) -> Option<u32> {
        Some(self.max_parts.load(Relaxed)).filter(|most| *most > 0)
    }

    /// The refusal of a part tells the most parts of an upload.
    pub fn learn_max_parts(&self, most: u32) {
        self.max_parts.store(most, Relaxed);
    }

    /// Whether the server is MinIO, which lists and ends unfinished uploads in its own way.
    pub fn is_minio(&self) -> bool {
        self.is_minio.load(Relaxed)
    }

    /// An answer shows that the server is MinIO.
    pub fn answered_as_minio(&self) {
        self.is_minio.store(true, Relaxed);
    }
}

/// The facts of one bucket, learned once for all who send requests there.
#[derive(Debug, Default)]
pub struct BucketFacts {
    /// The bucket exists, or the caller may not ask whether it does.
    is_settled: AtomicBool,
    /// The region that the bucket turned out to be in, where it is another one than the endpoint's.
    region: Mutex<Option<Arc<str>>>,
    /// The features that the bucket's server has shown to have, where another server may have the endpoint's other
    /// buckets.
    has: AtomicU32,
}

impl BucketFacts {
    /// Whether an answer about this bucket has shown that its server has a feature.
    pub fn has(&self, feature: Feature) -> bool {
        FeatureSet(self.has.load(Relaxed)).contains(feature)
    }

    /// An answer about this bucket shows that its server has a feature.
    pub fn learn_has(&self, feature: Feature) {
        self.has.fetch_or(feature.bit(), Relaxed);
    }

    /// The region that the bucket turned out to be in, where it is another one than the endpoint's.
    pub fn region(&self) -> Option<Arc<str>> {
        self.region.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An answer, or the bucket's name, tells the region of the bucket.
    pub fn learn_region(&self, region: &str) {
        *self.region.lock().unwrap_or_else(PoisonError::into_inner) = Some(region.into());
    }

    /// Whether a request about the bucket can tell something new.
    pub fn is_worth_asking(&self) -> bool {
        !self.is_settled.load(Relaxed)
    }

    /// A request succeeded, so the bucket exists.
    pub fn answered(&self) {
        self.is_settled.store(true, Relaxed);
    }

    /// The bucket was removed.
    pub fn was_removed(&self) {
        self.is_settled.store(false, Relaxed);
    }

    /// The store does not let the caller ask about the bucket.
    pub fn may_not_be_asked(&self) {
        self.is_settled.store(true, Relaxed);
    }
}

/// The facts of all endpoints that one engine reaches. A clone is the same collection.
#[derive(Clone, Debug, Default)]
pub struct KnownFacts(Arc<Mutex<BTreeMap<String, Arc<Facts>>>>);

impl KnownFacts {
    /// The facts of one endpoint, by the address in [`Info::endpoint`](super::Info::endpoint).
    pub fn of(&self, endpoint: &str) -> Arc<Facts> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(endpoint.to_owned()).or_insert_with(|| Arc::new(Facts::new(endpoint))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_learned_once_for_all_of_an_endpoint() {
        let known = KnownFacts::default();
        assert!(known.of("http://a").learn_lack(Feature::BulkDelete));
        assert!(!known.of("http://a").learn_lack(Feature::BulkDelete));
        assert!(known.of("http://a").lacks(Feature::BulkDelete));
        assert!(
            !known.of("http://a").lacks(Feature::Ranges) && !known.of("http://b").lacks(Feature::BulkDelete)
        );
    }

    #[test]
    fn a_server_that_serves_ranges_again_is_asked_for_them() {
        let facts = Facts::default();
        for is_ignored in [false, true, true, false] {
            facts.answered_range(is_ignored);
            assert_eq!(facts.lacks(Feature::Ranges), is_ignored);
        }
    }
}
