//! Listings of objects, page by page.

use std::collections::VecDeque;
use std::time::SystemTime;

use aws_smithy_types::date_time::Format;
use futures::stream::BoxStream;
use http::Method;

use super::request::Request;
use super::xml::{self, ListBucketResult};
use super::{Bucket, fault};
use crate::backend::http::{Page, paged, stuck};
use crate::backend::{Entry, Fault};
use crate::object::Object;

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
            let mut query = vec![("list-type", "2"), ("encoding-type", "url"), ("prefix", prefix.as_str())];
            if !recursive {
                query.push(("delimiter", "/"));
            }
            if let Some(token) = &token {
                query.push(("continuation-token", token));
            }
            // A signature lists a query by name.
            query.sort_unstable();
            let request = Request::new(Method::GET, bucket.address.bucket(&query));
            let (headers, body) = bucket.shared.ask(request).await?;
            let region = &bucket.shared.region;
            let result: ListBucketResult = fault::document(&headers, &body, "ListBucketResult", region)?;
            let next = match (result.is_truncated, &result.next_continuation_token) {
                (false, _) => Page::End,
                (true, next) if *next != token && next.is_some() => Page::At(next.clone()),
                (true, _) => return Err(stuck()),
            };
            Ok((entries(result)?, next))
        }
    })
}

fn entries(result: ListBucketResult) -> Result<VecDeque<Entry>, Fault> {
    let encoding = result.encoding_type.as_deref();
    let mut entries = Vec::with_capacity(result.contents.len() + result.common_prefixes.len());
    for contents in result.contents {
        let mut object = Object { key: xml::key(&contents.key, encoding)?, ..Object::default() };
        object.size = contents.size;
        object.etag = contents.etag;
        object.modified = contents.last_modified.as_deref().and_then(time);
        object.attributes.storage_class = contents.storage_class;
        entries.push((object.key.clone(), Entry::Object(object)));
    }
    for common in result.common_prefixes {
        let prefix = xml::key(&common.prefix, encoding)?;
        entries.push((prefix.clone(), Entry::Prefix(prefix)));
    }
    // Each list is in order (directory buckets excepted); together they are made so, within the page.
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// A time as listings have it.
pub(in crate::backend) fn time(text: &str) -> Option<SystemTime> {
    aws_smithy_types::DateTime::from_str(text, Format::DateTime).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_prefixes_are_in_one_order() {
        let body = b"<ListBucketResult><IsTruncated>false</IsTruncated>\
            <Contents><Key>a</Key><Size>1</Size><LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents>\
            <Contents><Key>c</Key><Size>2</Size></Contents>\
            <CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes></ListBucketResult>";
        let entries = entries(xml::read(body).unwrap().unwrap()).unwrap();
        let names: Vec<_> = entries
            .iter()
            .map(|entry| match entry {
                Entry::Object(object) => object.key.as_str(),
                Entry::Prefix(prefix) => prefix,
            })
            .collect();
        assert_eq!(names, ["a", "b/", "c"]);
        assert!(matches!(&entries[0], Entry::Object(object) if object.modified.is_some()));
    }
}
