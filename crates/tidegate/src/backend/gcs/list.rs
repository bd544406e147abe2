//! Listings of objects, page by page.

use std::collections::VecDeque;

use futures::stream::BoxStream;
use http::Method;
use serde::Deserialize;

use super::Bucket;
use super::fault::About;
use super::request::Request;
use super::resource::Resource;
use crate::backend::http::{Page, paged, stuck};
use crate::backend::{Entry, Fault, FaultKind};

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
    paged(None, move |token: Option<String>| {
        let (bucket, prefix) = (bucket.clone(), prefix.clone());
        async move {
            let mut query = vec![("fields", FIELDS), ("prefix", prefix.as_str())];
            if !recursive {
                query.push(("delimiter", "/"));
            }
            if let Some(token) = &token {
                query.push(("pageToken", token));
            }
            let request = Request::new(Method::GET, bucket.json.objects(&query), About::Bucket);
            let (_, body) = bucket.shared.ask(request).await?;
            let odd = || Fault::new(FaultKind::Transient, "the store's answer is not a listing");
            let page: Objects = serde_json::from_slice(&body).map_err(|error| odd().with_source(error))?;
            let next = match page.next_page_token.filter(|next| !next.is_empty()) {
                None => Page::End,
                next if next != token => Page::At(next),
                Some(_) => return Err(stuck()),
            };
            let mut entries = Vec::with_capacity(page.items.len() + page.prefixes.len());
            for item in page.items {
                let object = item.into_object().ok_or_else(odd)?;
                entries.push((object.key.clone(), Entry::Object(object)));
            }
            entries.extend(page.prefixes.into_iter().map(|prefix| (prefix.clone(), Entry::Prefix(prefix))));
            // Each list is in order; together they are made so, within the page.
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Ok((entries.into_iter().map(|(_, entry)| entry).collect::<VecDeque<_>>(), next))
        }
    })
}
