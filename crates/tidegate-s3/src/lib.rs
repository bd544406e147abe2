//! Amazon S3, and stores that speak its protocol.
//!
//! Requests are signed with `aws-sigv4` and sent over HTTP/1.1. Nothing is retried here. The checksum of bytes in
//! memory is sent in a header; bytes of a file are streamed, and their checksum follows in a trailer.
//!
//! Programs use the crate `tidegate`, which re-exports what they need. This crate is for Tidegate's own crates, and its items
//! may change with every version.

#![allow(rustdoc::private_intra_doc_links, reason = "the documentation is for those who change this crate")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use http::{HeaderMap, Method, header};

use tidegate_core::backend::{
    AbortRule, Admin, Attempt, Backend, Body, BucketCheck, BucketFacts, BulkDelete, Capabilities, Copied,
    CopySource, Entry, Fault, FaultKind, Feature, FeatureSet, Held, Info, Lifecycle, Listing, OpenSession,
    Parts, Presign, ServerCopy, Session, Versioning, WriteOptions, not_removed, replaced,
};
use tidegate_core::memory::payload::Payload;
use tidegate_core::types::object::Object;
use tidegate_http::answer::BodyKind;
use tidegate_http::confirm::confirmed;
use tidegate_http::download::ToldSize;
use tidegate_http::xml::address::BucketUrl;
use tidegate_http::xml::sessions;
use tidegate_http::{Order, download, proof, set};

mod access_point;
mod attributes;
mod buckets;
mod bulk_delete;
mod client;
mod complete;
mod copy;
mod create_only;
mod credentials;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod lacking;
mod lifecycle;
mod list;
mod parts;
mod presign;
mod provider;
mod request;
mod rules;
mod scheme;
mod settings;
mod sign;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
#[cfg(test)]
mod tests;
mod versioning;

pub use buckets::S3Buckets;
pub use client::S3Client;
pub use provider::SigningKeys;
pub use scheme::S3Scheme;
pub use settings::{Credentials, S3Settings};
pub use tidegate_http::xml::address::Addressing;

use access_point::AccessPoint;
use client::S3Shared;
use request::S3Request;

/// One bucket of an S3 store. A clone refers to the same bucket.
#[derive(Clone, Debug)]
pub struct S3 {
    bucket: S3Bucket,
    info: Arc<Info>,
}

/// The fields of a bucket that a request needs.
#[derive(Clone, Debug)]
struct S3Bucket {
    shared: Arc<S3Shared>,
    address: Arc<BucketUrl>,
    /// The order in which the store lists keys.
    order: Order,
    /// What answers have told about the bucket.
    facts: Arc<BucketFacts>,
}

impl sessions::ListsSessions for S3Bucket {
    fn address(&self) -> &BucketUrl {
        &self.address
    }

    async fn document(&self, url: String, attempt: Attempt) -> Result<(HeaderMap, Bytes), Fault> {
        let encoding = "encoding-type=url&";
        let uses = if url.contains(encoding) { &[Feature::EncodedKeys][..] } else { &[] };
        let send = |without: FeatureSet| {
            let is_raw = without.contains(Feature::EncodedKeys);
            let url = if is_raw { url.replacen(encoding, "", 1) } else { url.clone() };
            self.shared.ask(self.request(Method::GET, url, attempt))
        };
        let (headers, body) = self.shared.adapted(uses, send).await?;
        if matches!(BodyKind::of(&body), BodyKind::Xml(root) if root == "ListBucketResult") {
            // Small servers list the objects instead.
            return Err(Fault::new(FaultKind::Unsupported, sessions::NOT_LISTED).with_answered(true));
        }
        Ok((headers, body))
    }

    fn region(&self) -> &str {
        &self.shared.region
    }

    fn is_minio(&self) -> bool {
        self.shared.facts.is_minio()
    }
}

/// "Directory bucket names must … end in the suffix `--x-s3`" ("Directory bucket naming rules").
fn is_directory_bucket(bucket: &str) -> bool {
    bucket.ends_with("--x-s3")
}

impl S3Bucket {
    /// A request to the bucket or to one of its objects.
    fn request(&self, method: Method, url: String, attempt: Attempt) -> S3Request {
        S3Request::new(method, url, self.facts.clone(), attempt)
    }
}

impl S3 {
    /// A bucket with its own connections; use [`S3Client`] to share connections between buckets. Sends nothing: a
    /// wrong bucket or missing credentials show at the first request.
    pub async fn connect(bucket: &str, settings: &S3Settings) -> Result<Self, Fault> {
        S3Client::connect(settings).await?.bucket(bucket)
    }

    fn new(client: &S3Client, bucket: &str) -> Result<Self, Fault> {
        let shared = client.shared.clone();
        let settings = &shared.settings;
        if is_directory_bucket(bucket) && shared.endpoint.is_aws() {
            let message = "directory buckets (S3 Express One Zone) need sessions and hosts of their zone, which Tidegate \
                           does not have: use a general purpose bucket";
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let access_point = AccessPoint::of(bucket)?;
        let address = match &access_point {
            Some(access_point) => access_point.address(&shared.endpoint)?,
            None => BucketUrl::new(&shared.endpoint, bucket, settings.addressing)?,
        };
        // "For directory buckets, the order of the keys is not lexicographical" (ListObjectsV2).
        let order = if is_directory_bucket(bucket) { Order::None } else { Order::ByKey };
        let is_r2 = shared.endpoint.host().ends_with("r2.cloudflarestorage.com");
        let default = Capabilities::default();
        let max_parts = settings.max_parts.or(shared.facts.max_parts()).unwrap_or(default.max_parts);
        let capabilities = Capabilities {
            max_parts: max_parts.clamp(1, default.max_parts),
            equal_parts: settings.equal_parts.unwrap_or(is_r2),
            // "If you upload a new part using the same part number …, the previously uploaded part is
            // overwritten" (UploadPart).
            hedge: true,
            replaces: true,
            // "You can copy … up to 5 GB in size using this API" (CopyObject).
            max_copy: 5 << 30,
            copy_parts: true,
            lists_in_key_order: order == Order::ByKey,
            keeps_empty_names: shared.endpoint.is_aws(),
            checksum: settings.checksum,
            ..default
        };
        let location = format!("{}://{bucket}", settings.scheme);
        let mut info = Info::new(location, shared.endpoint.url(), capabilities);
        info.profile = settings.profile.only().map(str::to_owned);
        let info = Arc::new(info);
        let facts = shared.facts.bucket(bucket);
        if let Some(access_point) = &access_point {
            facts.learn_region(&access_point.region);
        }
        Ok(Self { info, bucket: S3Bucket { shared, address: Arc::new(address), order, facts } })
    }

    fn request(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        attempt: Attempt,
    ) -> Result<S3Request, Fault> {
        Ok(self.bucket.request(method, self.bucket.address.object(key, query)?, attempt))
    }

    /// Builds the request that begins an object: a PUT, or the opening of a session.
    fn begin(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<S3Request, Fault> {
        let mut request = self.request(method, key, query, attempt)?;
        request.headers = attributes::to_headers(options)?;
        Ok(request)
    }

    /// A description of an object that was just written with a checksum has none.
    fn keeps_no_checksum(&self) {
        if !self.bucket.shared.endpoint.is_aws() {
            self.bucket.shared.facts.learn_lack(self.kept_checksums());
        }
    }

    /// The feature that the server keeps checksums of the objects' algorithm.
    fn kept_checksums(&self) -> Feature {
        Feature::kept(self.info.capabilities.checksum)
    }

    /// Whether the server refuses the condition of a removal, and the refusal is the server's own.
    fn has_no_conditional_delete(&self, fault: &Fault) -> bool {
        fault.kind == FaultKind::Unsupported
            && !fault.code.is_empty()
            && !self.bucket.shared.endpoint.is_aws()
    }

    /// Whether the refusal of a HEAD may have a reason that the caller needs. A store that refuses path-style addresses
    /// may answer 403, as to a caller who may not read; not once it has answered a request about the bucket.
    fn needs_reason(&self, fault: &Fault) -> bool {
        let shared = &self.bucket.shared;
        let may_refuse_address = || {
            !shared.endpoint.is_aws()
                && shared.settings.addressing != Addressing::VirtualHost
                && self.bucket.facts.is_worth_asking()
        };
        match fault.kind {
            FaultKind::Invalid => true,
            FaultKind::Denied => may_refuse_address(),
            _ => false,
        }
    }

    /// The reason for the refusal of a HEAD, which has no body: the refusal of a GET names it, as for an object that is
    /// encrypted with a key of the customer.
    async fn explained(&self, fault: Fault, key: &str, attempt: Attempt) -> Fault {
        let asked = async {
            let mut request = self.request(Method::GET, key, &[], attempt)?;
            set(&mut request.headers, "range", Some(download::header(&(0..1))))?;
            self.bucket.shared.send(request).await
        };
        match asked.await {
            Err(reason) if !reason.code.is_empty() => reason,
            _ => fault,
        }
    }

    /// The size of an object whose headers do not give it. Tries the answer to a request for the first byte, then a
    /// listing, then counts the object's bytes.
    async fn size_of(&self, object: &Object, attempt: Attempt) -> Result<u64, Fault> {
        let mut request = self.request(Method::GET, &object.key, &[], attempt)?;
        set(&mut request.headers, "range", Some(download::header(&(0..1))))?;
        let answer = self.bucket.shared.exchange(request).await?;
        let told = download::size_told(&answer.response)?;
        if told == ToldSize::Refused {
            return Err(self.bucket.shared.refused(answer).await);
        }
        let is_success = answer.response.status().is_success();
        let response = if is_success { proof::object(answer.response).await? } else { answer.response };
        let there = attributes::from_headers(&object.key, response.headers());
        download::not_replaced(object, &there)?;
        if let ToldSize::Size(size) = told {
            return Ok(size);
        }
        let listed = list::objects(self.bucket.clone(), &object.key, true, None).try_next().await;
        match listed {
            Ok(Some(Entry::Object(there))) if there.key == object.key => {
                download::not_replaced(object, &there)?;
                there.known_size().ok_or_else(download::no_size)
            }
            _ if told == ToldSize::Counted => download::count(response).await,
            Ok(_) => Err(download::no_size()),
            Err(fault) => Err(download::no_size().with_source(fault)),
        }
    }
}

#[async_trait]
impl Backend for S3 {
    fn info(&self) -> &Info {
        &self.info
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        self.bucket.address.object(key, &[])?;
        let Some(options) = options else { return Ok(()) };
        complete::check_condition(options)?;
        attributes::to_headers(options).map(|_| ())
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        let mut request = self.begin(Method::PUT, key, &[], options, attempt)?;
        complete::condition(&mut request.headers, options)?;
        self.check_vacant(key, Feature::CreateOnly, options, attempt).await?;
        let sent = self.bucket.shared.upload(request, payload).await;
        let unmet = |fault| self.unmet(fault, Feature::CreateOnly, options);
        let (headers, checksum) = sent.map_err(unmet)?;
        let object = attributes::from_headers(key, &headers);
        let object = confirmed(self, object, checksum.covers(), Some(&checksum), options, attempt, || {
            self.keeps_no_checksum()
        })
        .await;
        Ok(Object { token: options.token.clone(), attributes: options.attributes.clone(), ..object })
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        let request = self.request(Method::HEAD, key, &[], attempt)?;
        let answered = match self.bucket.shared.send_for_checksum(request).await {
            Err(fault) if fault.code.is_empty() && self.needs_reason(&fault) => {
                return Err(self.explained(fault, key, attempt).await);
            }
            answered => answered?,
        };
        let response = proof::object(answered).await?;
        let headers = response.headers();
        let mut object = attributes::from_headers(key, headers);
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        object.size = match length.and_then(|length| length.trim().parse().ok()) {
            Some(size) => size,
            None => self.size_of(&object, attempt).await?,
        };
        Ok(object)
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        if let Some(range) = range.clone().filter(Range::is_empty) {
            return download::nothing(self.head(key, attempt).await?, range, same);
        }
        let mut request = self.request(Method::GET, key, &[], attempt)?;
        set(&mut request.headers, "range", range.as_ref().map(download::header))?;
        set(&mut request.headers, "if-match", same.and_then(Object::strong_tag))?;
        let response = self.bucket.shared.send_for_checksum(request).await.map_err(replaced(same))?;
        let response = proof::object(response).await?;
        let object = attributes::from_headers(key, response.headers());
        download::body(object, response, range, same, self.head(key, attempt)).await
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        list::objects(self.bucket.clone(), prefix, recursive, None)
    }

    fn list_after(&self, prefix: &str, recursive: bool, after: &str) -> Listing<Entry> {
        list::objects(self.bucket.clone(), prefix, recursive, Some(after))
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        let tag = same.and_then(Object::strong_tag);
        let mut request = self.request(Method::DELETE, key, &[], attempt)?;
        set(&mut request.headers, "if-match", tag)?;
        match self.bucket.shared.remove(request).await {
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(()),
            Err(fault) if tag.is_some() && self.has_no_conditional_delete(&fault) => {
                self.bucket.shared.facts.learn_lack(Feature::ConditionalDelete);
                self.delete(key, None, attempt).await
            }
            // SeaweedFS finds the condition unmet where there is no object.
            Err(fault) if fault.kind == FaultKind::Exists && tag.is_some() => {
                match self.head(key, attempt).await {
                    Err(gone) if gone.kind == FaultKind::NotFound => Ok(()),
                    _ => Err(not_removed(fault, same)),
                }
            }
            removed => removed.map_err(|fault| not_removed(fault, same)),
        }
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        Some(self)
    }

    fn bucket_check(&self) -> Option<&dyn BucketCheck> {
        self.bucket.facts.is_worth_asking().then_some(self)
    }

    fn bulk_delete(&self) -> Option<&dyn BulkDelete> {
        (!self.bucket.shared.facts.lacks(Feature::BulkDelete)).then_some(self)
    }

    fn presigning(&self) -> Option<&dyn Presign> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl BucketCheck for S3 {
    /// The answer to a HEAD has no body, so it does not say what is missing.
    async fn is_bucket_missing(&self, attempt: Attempt) -> Result<bool, Fault> {
        let request = self.bucket.request(Method::HEAD, self.bucket.address.bucket(&[]), attempt);
        match self.bucket.shared.send(request).await {
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(true),
            Err(fault) => {
                if fault.kind == FaultKind::Denied {
                    self.bucket.facts.may_not_be_asked();
                }
                Err(fault)
            }
            Ok(_) => Ok(false),
        }
    }
}

#[async_trait]
impl ServerCopy for S3 {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        _cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        self.copy_whole(from, key, options, attempt).await.map(|object| Copied::Whole(Box::new(object)))
    }
}

#[async_trait]
impl Admin for S3 {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        let shared = &self.bucket.shared;
        match sessions::list(self.bucket.clone(), prefix) {
            Listing::Pages(_) if shared.facts.lacks(Feature::ListSessions) => Listing::empty(),
            Listing::Pages(pages) if !shared.endpoint.is_aws() => {
                Listing::Pages(Box::new(lacking::UnknownSessions::new(pages, self.bucket.clone())))
            }
            listing => listing,
        }
    }

    fn unlisted_sessions(&self) -> Option<&'static str> {
        let facts = &self.bucket.shared.facts;
        let minio = || facts.is_minio().then_some(sessions::MINIO);
        facts.lacks(Feature::ListSessions).then_some(sessions::NOT_LISTED).or_else(minio)
    }

    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
        sessions::held(&self.bucket, session, attempt).await
    }

    async fn lifecycle(&self, attempt: Attempt) -> Result<Lifecycle, Fault> {
        lifecycle::get(&self.bucket, attempt).await
    }

    async fn add_abort_rule(&self, to: &Lifecycle, rule: &AbortRule, attempt: Attempt) -> Result<(), Fault> {
        lifecycle::put(&self.bucket, to, rule, attempt).await
    }

    async fn versioning(&self, attempt: Attempt) -> Result<Versioning, Fault> {
        versioning::get(&self.bucket, attempt).await
    }

    async fn tags(&self, key: &str, attempt: Attempt) -> Result<BTreeMap<String, String>, Fault> {
        self.read_tags(key, attempt).await
    }
}
