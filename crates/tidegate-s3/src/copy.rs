//! Copies by the store: an object in one request, or ranges of an object as parts.
//!
//! The store copies only the bytes, and the tags if none are given. Attributes are sent again, so that the copy has
//! its own writer's token, which identifies the copy if the answer is lost.

use std::collections::BTreeMap;
use std::ops::Range;

use http::{HeaderMap, Method, header};

use super::request::S3Request;
use super::{S3, S3Client, complete};
use tidegate_core::backend::{
    Attempt, Backend as _, CopySource, Fault, FaultKind, Feature, Receipt, Session, WriteOptions,
    check_range, gone, gone_or_other, same_or_replaced,
};
use tidegate_core::types::object::Object;
use tidegate_http::confirm::confirmed;
use tidegate_http::xml::complete::told;
use tidegate_http::xml::{address, fault, messages};
use tidegate_http::{LONGEST_REFUSAL, read, set};

/// The bucket of the source.
fn bucket_of<'a>(scheme: &str, from: &'a CopySource) -> Result<&'a str, Fault> {
    let bucket = from.location.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    bucket.ok_or_else(|| {
        let message = format!("{} is no bucket of this store", from.location);
        Fault::new(FaultKind::Invalid, message)
    })
}

impl S3 {
    /// Adds the source to a copy request, with the condition that it is still the same object.
    fn copies(&self, mut request: S3Request, from: &CopySource) -> Result<S3Request, Fault> {
        let bucket = bucket_of(self.bucket.shared.settings.scheme, from)?;
        let headers = &mut request.headers;
        set(headers, "x-amz-copy-source", Some(address::source(bucket, &from.key)))?;
        set(headers, "x-amz-copy-source-if-match", from.object.strong_tag())?;
        Ok(request.of_much_work())
    }

    /// Checks that the source is still the described object, if its ETag could not be a condition of the copy.
    async fn check_source(&self, from: &CopySource, attempt: Attempt) -> Result<(), Fault> {
        if from.object.strong_tag().is_some() {
            return Ok(());
        }
        let client = S3Client { shared: self.bucket.shared.clone() };
        let bucket = client.bucket(bucket_of(self.bucket.shared.settings.scheme, from)?)?;
        same_or_replaced(bucket.head(&from.key, attempt).await.map_err(gone)?, Some(&from.object)).map(drop)
    }

    /// Sends a copy request. As with a completion, the body says whether it succeeded, not the status.
    async fn copied(
        &self,
        request: S3Request,
        root: &str,
    ) -> Result<(HeaderMap, messages::WriteResult), Fault> {
        let sent = self.bucket.shared.ask(request).await.map_err(|mut fault| {
            // A server that knows no copies misses the bytes.
            if self.bucket.shared.has_no_such_request(&fault) || fault.code == "MissingContentLength" {
                self.bucket.shared.facts.learn_lack(Feature::ServerCopy);
                fault.kind = FaultKind::Unsupported;
            }
            fault
        });
        let (headers, body) = sent.map_err(gone_or_other)?;
        let region = &self.bucket.shared.region;
        let result = told(&headers, &body, root, region).map_err(gone_or_other)?;
        Ok((headers, result))
    }

    pub(super) async fn copy_whole(
        &self,
        from: &CopySource,
        key: &str,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        if options.create_only {
            // S3 has had a condition for this since 2025, but compatible stores ignore it.
            let message = "a copy in one request is made whether or not the key has an object";
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let mut request = self.copies(self.begin(Method::PUT, key, &[], options, attempt)?, from)?;
        set(&mut request.headers, "x-amz-metadata-directive", Some("REPLACE"))?;
        // Without this header the tags are copied. Stores that do not know the header have no tags.
        let replaces_tags = !from.keeps_tags || !options.attributes.tags.is_empty();
        let retags = replaces_tags.then_some("REPLACE");
        set(&mut request.headers, "x-amz-tagging-directive", retags)?;
        let (headers, result) = self.copied(request, "CopyObjectResult").await?;
        self.check_source(from, attempt).await?;
        let object = complete::into_object(result, key, &headers);
        let checksum = from.checksum(self.info.capabilities.checksum);
        let object =
            confirmed(self, object, from.object.size, checksum.as_ref(), options, attempt, || {}).await;
        Ok(Object { token: options.token.clone(), attributes: options.attributes.clone(), ..object })
    }

    pub(super) async fn copy_range(
        &self,
        session: &Session,
        number: u32,
        from: &CopySource,
        range: Range<u64>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        check_range(from, &range)?;
        let number_text = number.to_string();
        let query = [("partNumber", number_text.as_str()), ("uploadId", session.id.as_str())];
        let mut request = self.copies(self.request(Method::PUT, &session.key, &query, attempt)?, from)?;
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        set(&mut request.headers, "x-amz-copy-source-range", Some(bytes))?;
        let copied = self.copied(request, "CopyPartResult").await;
        let (_, result) = copied.map_err(|fault| self.past_max_parts(fault, number))?;
        self.check_source(from, attempt).await?;
        // `copied` accepts only results with an ETag.
        let etag = result.etag.unwrap_or_default();
        Ok(Receipt { number, size: range.end - range.start, etag, checksum: None })
    }

    pub(super) async fn read_tags(
        &self,
        key: &str,
        attempt: Attempt,
    ) -> Result<BTreeMap<String, String>, Fault> {
        let request = self.request(Method::GET, key, &[("tagging", "")], attempt)?;
        match self.bucket.shared.send(request).await {
            Ok(mut response) => {
                let headers = std::mem::take(response.headers_mut());
                // The object itself: the server does not know the question, and so has no tags.
                let is_object = headers.contains_key(header::ETAG);
                let body = match read(response, LONGEST_REFUSAL).await {
                    Err(fault) if is_object && fault.kind == FaultKind::Unsupported => {
                        return Ok(BTreeMap::new());
                    }
                    body => body?,
                };
                let region = &self.bucket.shared.region;
                match fault::document::<messages::Tagging>(&headers, &body, "Tagging", region) {
                    Err(fault) if is_object && fault.kind == FaultKind::NotAStore => Ok(BTreeMap::new()),
                    tagging => {
                        let tags = tagging?.tag_set.tags.into_iter();
                        Ok(tags.map(|tag| (tag.key, tag.value)).collect())
                    }
                }
            }
            // A store without tags (Cloudflare R2).
            Err(fault) if fault.kind == FaultKind::Unsupported => Ok(BTreeMap::new()),
            Err(fault) => {
                let message = format!("the object's tags, which a copy keeps, cannot be read: {fault}");
                Err(Fault { message, ..fault })
            }
        }
    }
}
