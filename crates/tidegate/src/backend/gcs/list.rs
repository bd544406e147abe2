//! Listings of objects, page by page.

use std::collections::VecDeque;

use futures::stream::BoxStream;
use http::Method;
use serde::Deserialize;

use super::Bucket;
use super::fault::{About, document};
use super::request::Request;
use super::resource::Resource;
use crate::backend::http::{Page, paged, stuck};
use crate::backend::{Entry, Fault, FaultKind};
use crate::object::Object;

/// What is asked for of each object.
const FIELDS: &str =
    "nextPageToken,prefixes,items(name,size,etag,generation,timeCreated,crc32c,storageClass)";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Objects {
    items: Vec<Resource>,
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

/// Objects and prefixes below `prefix`, in key order.
pub(super) fn objects(
    bucket: Bucket,
    prefix: &str,
    recursive: bool,
) -> BoxStream<'static, Result<Entry, Fault>> {
    let prefix = prefix.to_owned();
    paged(String::new(), move |token: String| {
        let (bucket, prefix) = (bucket.clone(), prefix.clone());
        async move {
            let mut query = vec![("fields", FIELDS), ("prefix", prefix.as_str())];
            if !recursive {
                query.push(("delimiter", "/"));
            }
            if !token.is_empty() {
                query.push(("pageToken", &token));
            }
            let request = Request::new(Method::GET, bucket.json.objects(&query), About::Bucket);
            let (headers, body) = bucket.shared.ask(request).await?;
            let odd = || Fault::new(FaultKind::Transient, "the store's answer is not a listing");
            let page: Objects = document(&headers, &body, About::Bucket, "a listing")?;
            let objects = page.items.into_iter().map(|item| item.into_object().ok_or_else(odd));
            let objects = objects.collect::<Result<_, _>>()?;
            Ok((entries(objects, page.prefixes), next(page.next_page_token.unwrap_or_default(), &token)?))
        }
    })
}

/// What is on a page. Each list is in order; together they are made so.
pub(super) fn entries(objects: Vec<Object>, prefixes: Vec<String>) -> VecDeque<Entry> {
    let objects = objects.into_iter().map(|object| (object.key.clone(), Entry::Object(object)));
    let prefixes = prefixes.into_iter().map(|prefix| (prefix.clone(), Entry::Prefix(prefix)));
    let mut entries: Vec<_> = objects.chain(prefixes).collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Where a listing goes on behind the page that is at `token`.
pub(super) fn next(next: String, token: &str) -> Result<Page<String>, Fault> {
    match next {
        next if next.is_empty() => Ok(Page::End),
        next if next != token => Ok(Page::At(next)),
        _ => Err(stuck()),
    }
}
