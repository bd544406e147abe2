//! Lists, creates and removes the buckets of an S3 endpoint.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, header};
use quick_xml::escape::escape;

use super::client::S3Shared;
use super::request::{S3Content, S3Request};
use super::{S3Client, is_directory_bucket};
use tidegate_core::backend::{Attempt, BucketEntry, Buckets, Fault, FaultKind, Listing};
use tidegate_http::answer::{BodyKind, not_a_store};
use tidegate_http::time::time;
use tidegate_http::xml::address::{BucketUrl, with_query};
use tidegate_http::xml::complete::NAMESPACE;
use tidegate_http::xml::document::{ElementStep, XmlPage, filled};
use tidegate_http::xml::fault;
use tidegate_http::{Entries, Order, PagePosition, paged, proof, set};

#[cfg(test)]
mod tests;

/// Buckets of one page. Without this limit S3 gives all on one page, and refuses accounts with more than 10,000.
const PAGE: &str = "1000";

/// Elements read from a listing.
const NAMES: [&str; 5] = ["Buckets", "Bucket", "Name", "CreationDate", "ContinuationToken"];

/// The buckets of an S3 endpoint.
#[derive(Clone, Debug)]
pub struct S3Buckets {
    shared: Arc<S3Shared>,
}

impl S3Client {
    /// The buckets of this endpoint.
    pub fn buckets(&self) -> S3Buckets {
        S3Buckets { shared: self.shared.clone() }
    }
}

impl S3Buckets {
    fn address(&self, bucket: &str) -> Result<String, Fault> {
        let shared = &self.shared;
        Ok(BucketUrl::new(&shared.endpoint, bucket, shared.settings.addressing)?.bucket(&[]))
    }
}

#[async_trait]
impl Buckets for S3Buckets {
    fn endpoint(&self) -> &str {
        self.shared.endpoint.url()
    }

    fn list(&self) -> Listing<BucketEntry> {
        let shared = self.shared.clone();
        paged(None, Order::None, move |token: Option<String>, attempt| {
            let shared = shared.clone();
            async move {
                // A signature needs the query sorted by name.
                let token = token.as_deref().map(|token| ("continuation-token", token));
                let query: Vec<_> = token.into_iter().chain([("max-buckets", PAGE)]).collect();
                let url = shared.endpoint.root(&query);
                let request = S3Request::new(Method::GET, url, Arc::default(), attempt);
                let (headers, body) = shared.ask(request).await?;
                let (buckets, next) = page(&headers, &body, &shared.region)?;
                Ok((buckets, next.map_or(PagePosition::End, |next| PagePosition::At(Some(next)))))
            }
        })
    }

    async fn create(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault> {
        let shared = &self.shared;
        if is_directory_bucket(bucket) {
            let message = "a directory bucket (`--x-s3`) is created for one zone: use AWS's own tools";
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let address = self.address(bucket)?;
        let mut request = S3Request::new(Method::PUT, address, shared.facts.bucket(bucket), attempt);
        if let Some(document) = configuration(&shared.region) {
            set(&mut request.headers, "content-type", Some("application/xml"))?;
            request = request.with(S3Content::Text(Bytes::from(document)));
        }
        let (headers, body) = shared.ask(request).await?;
        fault::no_error(&headers, &body, &shared.region)?;
        let is_due = proof::is_stores(&headers) || headers.contains_key(header::LOCATION);
        if is_due && !proof::is_page(&headers, &body) {
            return Ok(());
        }
        if body.trim_ascii().is_empty() && self.is_there(bucket, attempt).await? {
            return Ok(());
        }
        Err(not_a_store("word that the bucket was created", &headers, &body))
    }

    async fn remove(&self, bucket: &str, attempt: Attempt) -> Result<(), Fault> {
        // Nothing is to be learned of the bucket from a success: it does not exist any more.
        let request = S3Request::new(Method::DELETE, self.address(bucket)?, Arc::default(), attempt);
        let removed = self.shared.remove(request).await.map_err(|mut fault| {
            if fault.kind == FaultKind::NotFound {
                fault.kind = FaultKind::NoBucket;
            }
            fault
        });
        // An earlier attempt whose answer was lost may have removed the bucket.
        if removed.as_ref().map_or_else(|fault| fault.kind == FaultKind::NoBucket, |()| true) {
            self.shared.facts.bucket(bucket).was_removed();
        }
        removed
    }
}

impl S3Buckets {
    /// Whether the store shows that it has the bucket: small servers answer the creation of a bucket with a bare 200,
    /// and some of them a HEAD too.
    async fn is_there(&self, bucket: &str, attempt: Attempt) -> Result<bool, Fault> {
        let (shared, address) = (&self.shared, self.address(bucket)?);
        let request = |method, url| S3Request::new(method, url, shared.facts.bucket(bucket), attempt);
        let there = match shared.send(request(Method::HEAD, address.clone())).await {
            Ok(there) => there,
            Err(fault) if matches!(fault.kind, FaultKind::NotFound | FaultKind::NoBucket) => {
                return Ok(false);
            }
            Err(fault) => return Err(fault),
        };
        if proof::is_stores(there.headers()) {
            return Ok(true);
        }
        let (_, body) = shared.ask(request(Method::GET, with_query(address, &[("max-keys", "1")]))).await?;
        Ok(matches!(BodyKind::of(&body), BodyKind::Xml(root) if root == "ListBucketResult"))
    }
}

/// The document of a request that creates a bucket in `region`; none for the first region, which has no constraint
/// ("If you don't specify a Region, the bucket is created in … us-east-1", CreateBucket).
fn configuration(region: &str) -> Option<String> {
    (region != "us-east-1").then(|| {
        let region = escape(region);
        format!(
            "<CreateBucketConfiguration xmlns=\"{NAMESPACE}\"><LocationConstraint>{region}</LocationConstraint>\
             </CreateBucketConfiguration>"
        )
    })
}

/// The buckets of a page, and the token of the next page, if there is one.
pub(super) fn page(
    headers: &HeaderMap,
    body: &[u8],
    region: &str,
) -> Result<(VecDeque<BucketEntry>, Option<String>), Fault> {
    let (mut buckets, mut next) = (Entries::<BucketEntry>::default(), None);
    let (mut bucket, mut has_buckets) = (BucketEntry::new("", None), None);
    let document = XmlPage::new(headers, body, "ListAllMyBucketsResult", region)?;
    document.each(&NAMES, |path, step| {
        match (path, step) {
            (["ContinuationToken"], ElementStep::Ends(text)) => next = filled(text),
            (["Buckets"], ElementStep::Ends(_)) => has_buckets = Some(()),
            (["Buckets", "Bucket"], ElementStep::Begins) => bucket = BucketEntry::new("", None),
            (["Buckets", "Bucket", "Name"], ElementStep::Ends(text)) => {
                text.trim().clone_into(&mut bucket.name)
            }
            (["Buckets", "Bucket", "CreationDate"], ElementStep::Ends(text)) => bucket.created = time(text),
            (["Buckets", "Bucket"], ElementStep::Ends(_)) if bucket.name.is_empty() => {
                return Err("it lists a bucket without a name".to_owned());
            }
            (["Buckets", "Bucket"], ElementStep::Ends(_)) => buckets.push(bucket.clone())?,
            _ => {}
        }
        Ok(())
    })?;
    document.promised("Buckets", has_buckets)?;
    Ok((buckets.into_vec().into(), next))
}
