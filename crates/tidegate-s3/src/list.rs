//! Lists a bucket's objects, page by page.

use std::collections::VecDeque;

use http::{HeaderMap, Method};

use super::S3Bucket;
use tidegate_core::backend::{Entry, Fault, Feature, FeatureSet, Listing};
use tidegate_core::types::object::Object;
use tidegate_http::time::time;
use tidegate_http::xml::document::{ElementStep, XmlPage, filled, key, promised_flag};
use tidegate_http::{Entries, Order, PagePosition, mark_fresh, paged, stuck};

#[cfg(test)]
mod tests;

/// Elements read from a listing.
const NAMES: [&str; 13] = [
    "EncodingType",
    "IsTruncated",
    "NextContinuationToken",
    "Marker",
    "NextMarker",
    "Contents",
    "CommonPrefixes",
    "Prefix",
    "Key",
    "LastModified",
    "ETag",
    "Size",
    "StorageClass",
];

/// Where the next page of a listing begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextPage {
    /// At the token that the page before gave.
    Token(String),
    /// Behind this key, in the protocol's first version (ListObjects).
    Behind(String),
}

/// Objects and prefixes below `prefix`, in key order; directory buckets have no order, and cannot begin behind `after`.
pub(super) fn objects(
    bucket: S3Bucket,
    prefix: &str,
    recursive: bool,
    after: Option<&str>,
) -> Listing<Entry> {
    let prefix = prefix.to_owned();
    let after = after.filter(|_| bucket.order == Order::ByKey).map(str::to_owned);
    paged(None, bucket.order, move |begin: Option<NextPage>, attempt| {
        let (bucket, prefix, after) = (bucket.clone(), prefix.clone(), after.clone());
        async move {
            // "For directory buckets, only prefixes that end in a delimiter (/) are supported" (ListObjectsV2).
            let is_of_directories = bucket.order == Order::None;
            let asked =
                if is_of_directories { &prefix[..prefix.rfind('/').map_or(0, |at| at + 1)] } else { &prefix };
            let send = |without: FeatureSet| {
                let mut query = vec![("prefix", asked)];
                if !without.contains(Feature::EncodedKeys) {
                    query.push(("encoding-type", "url"));
                }
                if !recursive {
                    query.push(("delimiter", "/"));
                }
                match &begin {
                    Some(NextPage::Behind(key)) => query.push(("marker", key)),
                    None if without.contains(Feature::ListV2) => {
                        query.extend(after.as_deref().map(|after| ("marker", after)));
                    }
                    None => {
                        query.push(("list-type", "2"));
                        query.extend(after.as_deref().map(|after| ("start-after", after)));
                    }
                    Some(NextPage::Token(token)) => {
                        query.push(("list-type", "2"));
                        query.push(("continuation-token", token));
                    }
                }
                // A signature needs the query sorted by name.
                query.sort_unstable();
                bucket.shared.ask(bucket.request(Method::GET, bucket.address.bucket(&query), attempt))
            };
            let uses = match &begin {
                None => &[Feature::EncodedKeys, Feature::ListV2][..],
                Some(_) => &[Feature::EncodedKeys],
            };
            let (headers, body) = bucket.shared.adapted(uses, send).await?;
            let (mut entries, next) = read(&headers, &body, &bucket.shared.region)?;
            if is_of_directories {
                entries.retain(|entry| entry.key().starts_with(&prefix));
            }
            if matches!(next, Some(NextPage::Behind(_))) {
                // A server may also answer as if it had been asked in the first version.
                bucket.shared.facts.learn_lack(Feature::ListV2);
            }
            Ok((entries, next.map_or(PagePosition::End, |next| PagePosition::At(Some(next)))))
        }
    })
}

/// The entries of a page, and where the next page begins, if there is one.
pub(super) fn read(
    headers: &HeaderMap,
    body: &[u8],
    region: &str,
) -> Result<(VecDeque<Entry>, Option<NextPage>), Fault> {
    let (mut objects, mut prefixes) = (Entries::<Object>::default(), Entries::<String>::default());
    let (mut encoding, mut is_truncated, mut token) = (None, None, None);
    let (mut is_first_version, mut next_marker) = (false, None);
    let (mut object, mut has_prefix) = (Object::default(), false);
    let document = XmlPage::new(headers, body, "ListBucketResult", region)?;
    document.each(&NAMES, |path, step| {
        match (path, step) {
            (["EncodingType"], ElementStep::Ends(text)) => encoding = filled(text),
            (["IsTruncated"], ElementStep::Ends(text)) => is_truncated = promised_flag(text)?,
            (["NextContinuationToken"], ElementStep::Ends(text)) => token = filled(text),
            (["Marker"], ElementStep::Ends(_)) => is_first_version = true,
            (["NextMarker"], ElementStep::Ends(text)) => next_marker = filled(text),
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
            (["CommonPrefixes"], ElementStep::Begins) => has_prefix = false,
            (["CommonPrefixes", "Prefix"], ElementStep::Ends(text)) => {
                has_prefix = true;
                prefixes.push(text.to_owned())?;
            }
            (["CommonPrefixes"], ElementStep::Ends(_)) if !has_prefix => {
                return Err("it lists a prefix without its name".to_owned());
            }
            _ => {}
        }
        Ok(())
    })?;
    let encoding = encoding.as_deref();
    let mut objects = objects.into_vec();
    mark_fresh(headers, objects.iter_mut());
    let objects = objects.into_iter().map(|object| {
        let key = key(object.key, encoding)?;
        Ok(Entry::Object(Object { key, ..object }))
    });
    let prefixes = prefixes.into_vec().into_iter().map(|prefix| Ok(Entry::Prefix(key(prefix, encoding)?)));
    let mut entries = objects.chain(prefixes).collect::<Result<Vec<_>, Fault>>()?;
    // Objects and prefixes are each in order (except in directory buckets); merge them within the page.
    entries.sort_by(|a, b| a.key().cmp(b.key()));
    let next = match (document.promised("IsTruncated", is_truncated)?, token) {
        (false, _) => None,
        (true, None) if is_first_version || next_marker.is_some() => {
            // Only listings with a delimiter have a marker; the others go on behind the last key.
            let marker = next_marker.map(|marker| key(marker, encoding)).transpose()?;
            let last = || entries.last().map(|entry| entry.key().to_owned());
            Some(NextPage::Behind(marker.or_else(last).ok_or_else(stuck)?))
        }
        (true, None) => return Err(stuck()),
        (true, Some(token)) => Some(NextPage::Token(token)),
    };
    Ok((entries.into(), next))
}
