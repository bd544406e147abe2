//! Google Cloud Storage. Objects use the JSON API; sessions of parts use the XML API, whose multipart uploads are
//! those of S3 with small differences. If gRPC is chosen, it replaces the JSON API (`grpc.rs`).
//!
//! Nothing is retried here. Every object has a CRC32C of its bytes. A request that creates an object sends the
//! checksum before the bytes, because the store accepts none after them; so the bytes of a file are read twice.
//!
//! Programs use the crate `tidegate`, which re-exports what they need. This crate is for Tidegate's own crates, and its items
//! may change with every version.

#![allow(rustdoc::private_intra_doc_links, reason = "the documentation is for those who change this crate")]

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};

use tidegate_core::backend::{
    AbortRule, Admin, Append, Appended, Attempt, Backend, Body, BucketFacts, Capabilities, Copied,
    CopySource, Entry, Fault, FaultKind, Feature, Held, Info, Lifecycle, Listing, OpenSession, PartOrigin,
    PartSource, Parts, Presign, Receipt, ServerCopy, Session, StoredPart, WriteOptions, not_removed,
    replaced,
};
use tidegate_core::memory::payload::{Payload, Unending};
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::object::Object;
use tidegate_http::answer::BodyKind;
use tidegate_http::confirm::confirmed;
use tidegate_http::download::ToldSize;
use tidegate_http::xml::address::{Addressing, BucketUrl as XmlAddress};
use tidegate_http::xml::sessions;
use tidegate_http::{checksum_of, download, proof, set};

mod address;
mod append;
mod buckets;
mod client;
mod copy;
mod create_only;
mod credentials;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(not(feature = "grpc"))]
#[path = "no_grpc.rs"]
mod grpc;
mod json;
mod list;
mod parts;
mod payer;
mod presign;
mod request;
mod resource;
mod scheme;
mod settings;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
#[cfg(test)]
mod tests;

pub use buckets::GcsBuckets;
pub use client::GcsClient;
pub use scheme::GcsScheme;
pub use settings::{GcsCredentials, GcsSettings, GcsTransport};
pub use tidegate_http::access_token::AccessToken;

use address::Address;
use client::GcsShared;
use fault::About;
use grpc::Grpc;
use request::{GcsContent, GcsRequest};
use resource::Resource;

/// The sessions that a listing leaves out, in one sentence for users.
const UNLISTED: &str = "Google Cloud Storage does not list resumable uploads, and ends them itself after a week: \
                        only those that the records name are shown";

const NO_RULES: &str = "lifecycle rules of Google Cloud Storage are not read or changed here yet";

/// One bucket. A clone is the same bucket.
#[derive(Clone, Debug)]
pub struct Gcs {
    bucket: GcsBucket,
    /// Set if the bucket is reached over gRPC.
    grpc: Option<Grpc>,
    info: Arc<Info>,
}

/// The client and the addresses that requests need.
#[derive(Clone, Debug)]
struct GcsBucket {
    shared: Arc<GcsShared>,
    /// The bucket's address in the JSON API.
    json: Arc<Address>,
    /// The bucket's address in the XML API.
    xml: Arc<XmlAddress>,
    facts: Arc<BucketFacts>,
}

impl sessions::ListsSessions for GcsBucket {
    fn address(&self) -> &XmlAddress {
        &self.xml
    }

    async fn document(&self, url: String, attempt: Attempt) -> Result<(HeaderMap, Bytes), Fault> {
        let (headers, body) =
            self.shared.ask(GcsRequest::new(Method::GET, url, About::Object, attempt)).await?;
        if matches!(BodyKind::of(&body), BodyKind::Xml(root) if root == "ListBucketResult") {
            // It lists the objects instead, as fake-gcs-server does.
            return Err(Fault::new(FaultKind::Unsupported, "the store has no uploads in parts"));
        }
        Ok((headers, body))
    }
}

impl Gcs {
    /// Opens a bucket over connections of its own; use [`GcsClient`] to share them between buckets. Sends nothing: a
    /// wrong bucket or missing credentials show at the first request.
    pub async fn connect(bucket: &str, settings: &GcsSettings) -> Result<Self, Fault> {
        GcsClient::connect(settings).await?.bucket(bucket)
    }

    fn new(client: &GcsClient, bucket: &str) -> Result<Self, Fault> {
        let shared = client.shared.clone();
        let xml = XmlAddress::new(&shared.endpoint, bucket, Addressing::Path)?;
        let json = Address::new(shared.endpoint.url(), bucket);
        let capabilities = Capabilities {
            keeps_empty_names: true,
            // "Quotas & limits": the limits of S3, except for the largest object of one request.
            max_put: 5 << 40,
            // "Uploading a part with the same part number … overwrites" ("XML API multipart uploads").
            hedge: true,
            // "Request preconditions": a multipart upload has none.
            create_only_parts: false,
            append: Some(append::GRAIN),
            replaces: true,
            max_copy: 5 << 40,
            create_only_copy: true,
            checksum: Algorithm::Crc32c,
            // The JSON API sends `x-goog-meta-…` with no object's bytes; gRPC sends all metadata.
            metadata_with_bytes: shared.grpc.is_some(),
            ..Capabilities::default()
        };
        let grpc = match &shared.grpc {
            Some((channels, at)) => Some(Grpc::new(shared.clone(), channels.clone(), at.url(), bucket)?),
            None => None,
        };
        let facts = shared.facts.bucket(bucket);
        Ok(Self {
            grpc,
            info: Arc::new(Info::new(format!("gs://{bucket}"), shared.endpoint.url(), capabilities)),
            bucket: GcsBucket { shared, json: Arc::new(json), xml: Arc::new(xml), facts },
        })
    }

    /// The gRPC client for a session that began over gRPC; `None` for other sessions.
    fn grpc_of(&self, session: &Session) -> Result<Option<&Grpc>, Fault> {
        if !append::is_grpc(session) {
            return Ok(None);
        }
        self.grpc.as_ref().map(Some).ok_or_else(|| {
            let message = "the upload was begun over gRPC, and goes on over that only: choose it as the \
                           transport for Google Cloud Storage (feature `gcs-grpc`)";
            Fault::new(FaultKind::Unsupported, message)
        })
    }

    /// The query parameters of a request that creates an object.
    fn begin<'a>(
        upload_type: &'a str,
        key: &'a str,
        options: &'a WriteOptions,
    ) -> Vec<(&'static str, &'a str)> {
        let mut query = vec![("uploadType", upload_type), ("name", key)];
        query.extend(resource::condition(options).map(|generation| ("ifGenerationMatch", generation)));
        query.extend(resource::key_name(options).map(|key| ("kmsKeyName", key)));
        query
    }
}

/// The size of an object whose description has none, from the answer to a request for its first byte.
async fn size_of(bucket: &GcsBucket, object: &Object, attempt: Attempt) -> Result<u64, Fault> {
    let url = bucket.json.object(&object.key, &[("alt", "media")])?;
    let mut request = GcsRequest::new(Method::GET, url, About::Object, attempt);
    set(&mut request.headers, "range", Some(download::header(&(0..1))))?;
    set(&mut request.headers, "accept-encoding", Some("gzip"))?;
    let answer = bucket.shared.exchange(request).await?;
    let told = download::size_told(&answer.response)?;
    if told == ToldSize::Refused {
        return Err(bucket.shared.refused(answer).await);
    }
    let is_success = answer.response.status().is_success();
    let response = if is_success { proof::object(answer.response).await? } else { answer.response };
    download::not_replaced(object, &resource::from_headers(&object.key, response.headers()))?;
    match told {
        ToldSize::Size(size) => Ok(size),
        ToldSize::Counted => download::count(response).await,
        _ => Err(download::no_size()),
    }
}

#[async_trait]
impl Backend for Gcs {
    fn info(&self) -> &Info {
        &self.info
    }

    fn check(&self, key: &str, options: Option<&WriteOptions>) -> Result<(), Fault> {
        address::check(key)?;
        options.map_or(Ok(()), |options| resource::to_headers(options).map(|_| ()))
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.check(key, Some(options))?;
        let learn = |fault: &Fault| self.learn_from(fault, Feature::CreateOnly, options);
        if let Some(grpc) = &self.grpc {
            self.check_vacant(key, Feature::CreateOnly, options, attempt).await?;
            return grpc.put(key, payload, options, attempt).await.inspect_err(learn);
        }
        let checksum = checksum_of(&payload).await?;
        let mut resource = Resource::new(key, options);
        resource.crc32c = Some(checksum.base64());
        // Random, and so long that no bytes contain it by chance.
        let boundary = format!("tidegate-{:032x}", fastrand::u128(..));
        let mut head =
            format!("--{boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n").into_bytes();
        head.extend(resource.to_json()?);
        let media = resource::content_type(options);
        head.extend(format!("\r\n--{boundary}\r\ncontent-type: {media}\r\n\r\n").into_bytes());
        let tail = format!("\r\n--{boundary}--\r\n");
        let url = self.bucket.json.uploads(&Self::begin("multipart", key, options));
        let mut request = GcsRequest::new(Method::POST, url, About::Bucket, attempt);
        set(&mut request.headers, "content-type", Some(format!("multipart/related; boundary={boundary}")))?;
        let request = request.with(GcsContent::Between(head.into(), payload, tail.into()));
        self.check_vacant(key, Feature::CreateOnly, options, attempt).await?;
        let sent = self.bucket.shared.ask(request).await;
        let (headers, body) = sent.inspect_err(learn)?;
        match Resource::read(&headers, &body, About::Bucket)? {
            (object, Some(size)) => Ok(Object { size, ..object }),
            (object, None) => {
                let object = Object { key: key.to_owned(), ..object };
                Ok(confirmed(self, object, checksum.covers(), Some(&checksum), options, attempt, || {}).await)
            }
        }
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        if let Some(grpc) = &self.grpc {
            address::check(key)?;
            return grpc.head(key, attempt).await;
        }
        let request =
            GcsRequest::new(Method::GET, self.bucket.json.object(key, &[])?, About::Object, attempt);
        let (headers, body) = self.bucket.shared.ask(request).await?;
        let (object, size) = Resource::read(&headers, &body, About::Object)?;
        let object = Object { key: key.to_owned(), ..object };
        let size = match size {
            Some(size) => size,
            None => size_of(&self.bucket, &object, attempt).await?,
        };
        Ok(Object { size, ..object })
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        if let Some(grpc) = &self.grpc {
            address::check(key)?;
            return grpc.get(key, range, same, attempt).await;
        }
        if let Some(range) = range.clone().filter(Range::is_empty) {
            return download::nothing(self.head(key, attempt).await?, range, same);
        }
        let mut query = vec![("alt", "media")];
        query.extend(same.and_then(|same| Some(("ifGenerationMatch", same.version.as_deref()?))));
        let url = self.bucket.json.object(key, &query)?;
        // Ask for the bytes as they are stored. A compressed object would be decompressed for a client that does not
        // accept gzip ("Transcoding of gzip-compressed files"), with another size and other ranges; an uncompressed
        // one may be compressed for a client that does.
        for accepted in ["gzip", "identity"] {
            let mut request = GcsRequest::new(Method::GET, url.clone(), About::Object, attempt);
            set(&mut request.headers, "range", range.as_ref().map(download::header))?;
            set(&mut request.headers, "accept-encoding", Some(accepted))?;
            let response = self.bucket.shared.send(request).await.map_err(replaced(same))?;
            let response = proof::object(response).await?;
            if resource::is_transcoded(response.headers(), download::total(&response)) {
                continue;
            }
            let object = resource::from_headers(key, response.headers());
            return download::body(object, response, range, same, self.head(key, attempt)).await;
        }
        let message = "the store sends the object only packed or unpacked, and not as it is stored";
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    fn list(&self, prefix: &str, recursive: bool) -> Listing<Entry> {
        if let Some(grpc) = &self.grpc {
            return grpc.list(prefix, recursive, "");
        }
        list::objects(self.bucket.clone(), prefix, recursive, "")
    }

    fn list_after(&self, prefix: &str, recursive: bool, after: &str) -> Listing<Entry> {
        if let Some(grpc) = &self.grpc {
            return grpc.list(prefix, recursive, after);
        }
        list::objects(self.bucket.clone(), prefix, recursive, after)
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        if let Some(grpc) = &self.grpc {
            address::check(key)?;
            return grpc.delete(key, same, attempt).await;
        }
        let condition = same.and_then(|same| Some(("ifGenerationMatch", same.version.as_deref()?)));
        let url = self.bucket.json.object(key, condition.as_slice())?;
        match self.bucket.shared.remove(GcsRequest::new(Method::DELETE, url, About::Object, attempt)).await {
            Err(fault) if fault.kind == FaultKind::NotFound => Ok(()),
            removed => removed.map_err(|fault| not_removed(fault, same)),
        }
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }

    fn appending(&self) -> Option<&dyn Append> {
        Some(self)
    }

    fn server_copy(&self) -> Option<&dyn ServerCopy> {
        Some(self)
    }

    fn presigning(&self) -> Option<&dyn Presign> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Parts for Gcs {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        _origin: PartOrigin,
        attempt: Attempt,
    ) -> Result<Session, Fault> {
        self.check(key, Some(options))?;
        parts::open(&self.bucket, key, options, attempt).await
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        _offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        match source {
            PartSource::Bytes(payload) => parts::part(&self.bucket, session, number, payload, attempt).await,
            PartSource::CopyOf(..) => {
                let message = "the XML API of Google Cloud Storage copies no parts";
                Err(Fault::new(FaultKind::Unsupported, message))
            }
        }
    }

    async fn stored_parts(&self, session: &Session, attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        sessions::parts(&self.bucket, session, attempt).await
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        if resource::condition(options).is_some() {
            let message = "a multipart upload of Google Cloud Storage has no conditions";
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let object = parts::complete(&self.bucket, session, parts, attempt).await?;
        let size = parts.iter().map(|part| part.size).sum();
        let object = confirmed(self, object, size, checksum, options, attempt, || {}).await;
        Ok(Object { token: options.token.clone(), attributes: options.attributes.clone(), ..object })
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        parts::abort(&self.bucket, session, attempt).await
    }
}

#[async_trait]
impl Append for Gcs {
    async fn open(&self, key: &str, options: &WriteOptions, attempt: Attempt) -> Result<Session, Fault> {
        self.check(key, Some(options))?;
        self.check_vacant(key, Feature::CreateOnlyParts, options, attempt).await?;
        let opened = match &self.grpc {
            Some(grpc) => grpc.open(key, options, attempt).await,
            None => append::open(&self.bucket, key, options, attempt).await,
        };
        opened.inspect_err(|fault| self.learn_from(fault, Feature::CreateOnlyParts, options))
    }

    async fn append(
        &self,
        session: &Session,
        offset: u64,
        payload: Payload,
        whole: Option<&Checksum>,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        let sent = match self.grpc_of(session)? {
            Some(grpc) => grpc.append(session, offset, payload, whole, attempt).await,
            None => append::append(&self.bucket, session, offset, payload, whole, attempt).await,
        };
        sent.inspect_err(|fault| self.learn_from_session(fault))
    }

    async fn stream(
        &self,
        session: &Session,
        offset: u64,
        bytes: Unending,
        attempt: Attempt,
    ) -> Result<Appended, Fault> {
        match self.grpc_of(session)? {
            Some(grpc) => grpc.stream(session, offset, bytes, attempt).await,
            None => append::stream(&self.bucket, session, offset, bytes, attempt).await,
        }
    }

    async fn position(&self, session: &Session, attempt: Attempt) -> Result<Appended, Fault> {
        match self.grpc_of(session)? {
            Some(grpc) => grpc.position(session, attempt).await,
            None => append::stands(&self.bucket, session, attempt).await,
        }
    }

    async fn abort(&self, session: &Session, attempt: Attempt) -> Result<(), Fault> {
        match self.grpc_of(session)? {
            Some(grpc) => grpc.abort(session, attempt).await,
            None => append::cancel(&self.bucket, session, attempt).await,
        }
    }

    fn tells_position(&self, session: &Session) -> bool {
        append::tells_position(session)
    }

    fn has(&self, session: &Session) -> bool {
        append::is_appended(session) || append::is_grpc(session)
    }
}

#[async_trait]
impl ServerCopy for Gcs {
    async fn copy(
        &self,
        from: &CopySource,
        key: &str,
        cursor: Option<&str>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Copied, Fault> {
        address::check(key)?;
        resource::check(options)?;
        let source = copy::bucket(from)?;
        self.check_vacant(key, Feature::CreateOnlyCopy, options, attempt).await?;
        let copied = match &self.grpc {
            Some(grpc) => grpc.copy(source, from, key, cursor, options, attempt).await,
            None => copy::rewrite(&self.bucket, source, from, key, cursor, options, attempt).await,
        };
        copied.inspect_err(|fault| self.learn_from(fault, Feature::CreateOnlyCopy, options))
    }
}

#[async_trait]
impl Admin for Gcs {
    fn sessions(&self, prefix: &str) -> Listing<OpenSession> {
        parts::sessions(&self.bucket, prefix)
    }

    fn unlisted_sessions(&self) -> Option<&'static str> {
        Some(UNLISTED)
    }

    async fn held(&self, session: &Session, attempt: Attempt) -> Result<Held, Fault> {
        if self.has(session) {
            return append::held(self.position(session, attempt).await?);
        }
        sessions::held(&self.bucket, session, attempt).await
    }

    async fn lifecycle(&self, _attempt: Attempt) -> Result<Lifecycle, Fault> {
        Err(Fault::new(FaultKind::Unsupported, NO_RULES))
    }

    async fn add_abort_rule(
        &self,
        _to: &Lifecycle,
        _rule: &AbortRule,
        _attempt: Attempt,
    ) -> Result<(), Fault> {
        Err(Fault::new(FaultKind::Unsupported, NO_RULES))
    }
}
