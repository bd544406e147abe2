//! Lists a bucket's objects, page by page.

use std::collections::VecDeque;

use http::{HeaderMap, Method};

use super::S3Bucket;
use crate::backend::http::{Entries, PagePosition, paged, stuck};
use crate::backend::time::time;
use crate::backend::xml::document::{ElementStep, XmlPage, filled, flag, key};
use crate::backend::{Entry, Fault, Listing};
use crate::types::object::Object;

#[cfg(test)]
mod tests;

/// Elements read from a listing.
const NAMES: [&str; 11] = [
    "EncodingType",
    "IsTruncated",
    "NextContinuationToken",
    "Contents",
    "CommonPrefixes",
    "Prefix",
    "Key",
    "LastModified",
    "ETag",
    "Size",
    "StorageClass",
];

/// Objects and prefixes below `prefix`, in key order; directory buckets have no order.
pub(super) fn objects(bucket: S3Bucket, prefix: &str, recursive: bool) -> Listing<Entry> {
    let prefix = prefix.to_owned();
    paged(None, bucket.order, move |token: Option<String>, attempt| {
        let (bucket, prefix) = (bucket.clone(), prefix.clone());
        async move {
            let mut query = vec![("list-type", "2"), ("encoding-type", "url"), ("prefix", prefix.as_str())];
            if !recursive {
                query.push(("delimiter", "/"));
            }
            if let Some(token) = &token {
                query.push(("continuation-token", token));
            }
            // A signature needs the query sorted by name.
            query.sort_unstable();
            let request = bucket.request(Method::GET, bucket.address.bucket(&query), attempt);
            let (headers, body) = bucket.shared.ask(request).await?;
            let (entries, next) = read(&headers, &body, &bucket.shared.region)?;
            Ok((entries, next.map_or(PagePosition::End, |next| PagePosition::At(Some(next)))))
        }
    })
}

/// The entries of a page, and the token of the next page, if there is one.
pub(super) fn read(
    headers: &HeaderMap,
    body: &[u8],
    region: &str,
) -> Result<(VecDeque<Entry>, Option<String>), Fault> {
    let (mut objects, mut prefixes) = (Entries::<Object>::default(), Entries::<String>::default());
    let (mut encoding, mut is_truncated, mut token) = (None, None, None);
    let mut object = Object::default();
    let document = XmlPage::new(headers, body, "ListBucketResult", region)?;
    document.each(&NAMES, |path, step| {
        match (path, step) {
            (["EncodingType"], ElementStep::Ends(text)) => encoding = filled(text),
            (["IsTruncated"], ElementStep::Ends(text)) => is_truncated = Some(flag(text)?),
            (["NextContinuationToken"], ElementStep::Ends(text)) => token = filled(text),
            (["Contents"], ElementStep::Begins) => {
                object = Object { size_is_unknown: true, ..Object::default() }
            }
            (["Contents", "Key"], ElementStep::Ends(text)) => text.clone_into(&mut object.key),
            (["Contents", "LastModified"], ElementStep::Ends(text)) => object.modified = time(text),
            (["Contents", "ETag"], ElementStep::Ends(text)) => object.etag = filled(text),
            (["Contents", "StorageClass"], ElementStep::Ends(text)) => {
                object.attributes.storage_class = filled(text);
            }
            (["Contents", "Size"], ElementStep::Ends(text)) => {
                if let Ok(size) = text.trim().parse() {
                    (object.size, object.size_is_unknown) = (size, false);
                }
            }
            (["Contents"], ElementStep::Ends(_)) if object.key.is_empty() => {
                return Err("it lists an object without a key".to_owned());
            }
            (["Contents"], ElementStep::Ends(_)) => objects.push(std::mem::take(&mut object))?,
            (["CommonPrefixes", "Prefix"], ElementStep::Ends(text)) => prefixes.push(text.to_owned())?,
            _ => {}
        }
        Ok(())
    })?;
    let next = match (is_truncated, token) {
        (Some(false), _) | (None, None) => None,
        (Some(true), None) => return Err(stuck()),
        (_, next) => next,
    };
    let encoding = encoding.as_deref();
    let objects = objects.into_vec().into_iter().map(|object| {
        let key = key(object.key, encoding)?;
        Ok(Entry::Object(Object { key, ..object }))
    });
    let prefixes = prefixes.into_vec().into_iter().map(|prefix| Ok(Entry::Prefix(key(prefix, encoding)?)));
    let mut entries = objects.chain(prefixes).collect::<Result<Vec<_>, Fault>>()?;
    // Objects and prefixes are each in order (except in directory buckets); merge them within the page.
    entries.sort_by(|a, b| a.key().cmp(b.key()));
    Ok((entries.into(), next))
}
