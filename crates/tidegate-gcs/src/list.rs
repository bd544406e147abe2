//! Lists a bucket's objects, page by page.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

use http::{HeaderMap, Method};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::GcsBucket;
use super::fault::{About, document};
use super::request::GcsRequest;
use super::resource::NOTHING;
use tidegate_core::backend::{Entry, Fault, Listing};
use tidegate_core::types::object::Object;
use tidegate_http::answer::not_a_store;
use tidegate_http::time::time;
use tidegate_http::{Entries, LONGEST_TEXT, Order, PagePosition, mark_fresh, paged};

#[cfg(test)]
mod tests;

/// The fields requested of each page.
const FIELDS: &str =
    "kind,nextPageToken,prefixes,items(name,size,etag,generation,timeCreated,crc32c,storageClass)";

/// Objects and prefixes below `prefix` from the key `start` on, in key order.
pub(super) fn objects(bucket: GcsBucket, prefix: &str, recursive: bool, start: &str) -> Listing<Entry> {
    let (prefix, start) = (prefix.to_owned(), start.to_owned());
    paged(String::new(), Order::ByKey, move |token: String, attempt| {
        let (bucket, prefix, start) = (bucket.clone(), prefix.clone(), start.clone());
        async move {
            let mut query = vec![("fields", FIELDS), ("prefix", prefix.as_str())];
            if !recursive {
                query.push(("delimiter", "/"));
            }
            if !start.is_empty() {
                query.push(("startOffset", &start));
            }
            if !token.is_empty() {
                query.push(("pageToken", &token));
            }
            let request = GcsRequest::new(Method::GET, bucket.json.objects(&query), About::Bucket, attempt);
            let (headers, body) = bucket.shared.ask(request).await?;
            read(&headers, &body)
        }
    })
}

/// The entries of a page, and the position of the next one.
pub(super) fn read(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(VecDeque<Entry>, PagePosition<String>), Fault> {
    let listing: JsonPage = document(headers, body, About::Bucket, "a listing")?;
    // Everything else is left out where it is empty, so only the kind tells an empty listing from no listing. Some
    // emulators have no kinds.
    let is_listing = match listing.kind.as_deref() {
        Some(kind) => kind == "storage#objects",
        None => {
            let has_entries = !(listing.items.is_empty() && listing.prefixes.is_empty());
            has_entries && listing.items.iter().all(|item| item.size.is_some())
        }
    };
    if !is_listing {
        return Err(not_a_store("a listing", headers, body));
    }
    let mut objects: Vec<_> = listing.items.into_iter().map(Item::into_object).collect();
    mark_fresh(headers, objects.iter_mut());
    let prefixes = listing.prefixes.into_iter().map(|Text(prefix)| prefix).collect();
    Ok((entries(objects, prefixes), next(listing.token.unwrap_or_default())))
}

/// Merges a page's objects and prefixes, which are each in order.
pub(super) fn entries(objects: Vec<Object>, prefixes: Vec<String>) -> VecDeque<Entry> {
    let objects = objects.into_iter().map(Entry::Object);
    let mut entries: Vec<_> = objects.chain(prefixes.into_iter().map(Entry::Prefix)).collect();
    entries.sort_by(|a, b| a.key().cmp(b.key()));
    entries.into()
}

/// The position of the next page.
pub(super) fn next(token: String) -> PagePosition<String> {
    if token.is_empty() { PagePosition::End } else { PagePosition::At(token) }
}

/// A page of a listing. An empty page has nothing but its kind.
#[derive(Debug, Default)]
struct JsonPage {
    kind: Option<String>,
    items: Vec<Item>,
    prefixes: Vec<Text>,
    token: Option<String>,
}

impl<'de> Deserialize<'de> for JsonPage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = JsonPage;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a listing")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonPage, A::Error> {
                let mut listing = JsonPage::default();
                while let Some(Text(name)) = map.next_key()? {
                    match name.as_str() {
                        "kind" => listing.kind = text(map.next_value()?),
                        "items" => listing.items = some(map.next_value()?),
                        "prefixes" => listing.prefixes = some(map.next_value()?),
                        "nextPageToken" => listing.token = text(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(listing)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

fn text(text: Option<Text>) -> Option<String> {
    text.map(|Text(text)| text).filter(|text| !text.is_empty())
}

fn some<T>(bounded: Option<Bounded<T>>) -> Vec<T> {
    bounded.map(|Bounded(some)| some).unwrap_or_default()
}

/// An object of a listing, with only the fields that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    name: Text,
    size: Option<Text>,
    etag: Option<Text>,
    generation: Option<Text>,
    time_created: Option<Text>,
    crc32c: Option<Text>,
    storage_class: Option<Text>,
}

impl Item {
    fn into_object(self) -> Object {
        let crc32c = text(self.crc32c);
        let size = self.size.and_then(|Text(size)| size.trim().parse().ok());
        // Google's storage-testbench leaves out the size of empty objects.
        let size = size.or((crc32c.as_deref() == Some(NOTHING)).then_some(0));
        let mut object = Object {
            key: self.name.0,
            size: size.unwrap_or_default(),
            size_is_unknown: size.is_none(),
            etag: text(self.etag),
            version: text(self.generation),
            modified: self.time_created.and_then(|Text(created)| time(&created)),
            crc32c,
            ..Object::default()
        };
        object.attributes.storage_class = text(self.storage_class);
        object
    }
}

/// A text of bounded length, or a number or flag: servers differ in how they write fields.
#[derive(Debug)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                if text.len() > LONGEST_TEXT {
                    return Err(E::custom(format!("a text of more than {LONGEST_TEXT} bytes")));
                }
                Ok(Text(text.to_owned()))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Text, E> {
                Ok(Text(flag.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }

        deserializer.deserialize_any(Scalar)
    }
}

/// A list of bounded length.
#[derive(Debug)]
struct Bounded<T>(Vec<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for List<T> {
            type Value = Bounded<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bounded<T>, A::Error> {
                let mut entries = Entries::default();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry).map_err(A::Error::custom)?;
                }
                Ok(Bounded(entries.into_vec()))
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}
