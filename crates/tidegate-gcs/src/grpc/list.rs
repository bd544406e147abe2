//! Lists a bucket's objects over gRPC, page by page.

use bytes::Bytes;
use prost::Message;

use super::{Grpc, convert, proto};
use crate::fault::About;
use crate::list;
use tidegate_core::backend::{Entry, Fault, FaultKind, Listing};
use tidegate_core::types::object::Object;
use tidegate_http::{Entries, LONGEST_TEXT, Order, paged};

/// The fields requested for each object.
const FIELDS: [&str; 7] = ["name", "size", "etag", "generation", "create_time", "checksums", "storage_class"];

/// A `ListObjectsResponse` with undecoded objects: decoded all at once, they take some hundred times their bytes on
/// the wire.
#[derive(Clone, PartialEq, Message)]
struct GrpcPage {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    objects: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    prefixes: Vec<Bytes>,
    #[prost(string, tag = "3")]
    next_page_token: String,
}

/// A `google.storage.v2.Object` with the requested fields.
#[derive(Clone, PartialEq, Message)]
struct GrpcObject {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "3")]
    generation: i64,
    #[prost(string, tag = "5")]
    storage_class: String,
    #[prost(int64, tag = "6")]
    size: i64,
    #[prost(message, optional, tag = "14")]
    create_time: Option<prost_types::Timestamp>,
    #[prost(message, optional, tag = "16")]
    checksums: Option<proto::ObjectChecksums>,
    #[prost(string, tag = "27")]
    etag: String,
}

fn wrong(why: &str) -> Fault {
    Fault::new(FaultKind::NotAStore, format!("the answer is not a listing of an object store's: {why}"))
}

/// Refuses a text that is empty or too long.
fn bounded(text: &str) -> Result<(), Fault> {
    match text {
        "" => Err(wrong("it has an entry without a name")),
        text if text.len() > LONGEST_TEXT => {
            Err(wrong(&format!("it has a name of more than {LONGEST_TEXT} bytes")))
        }
        _ => Ok(()),
    }
}

impl GrpcPage {
    /// Decodes the entries of the page.
    fn read(&self) -> Result<(Vec<Object>, Vec<String>), Fault> {
        let (mut objects, mut prefixes) = (Entries::default(), Entries::default());
        for object in &self.objects {
            let listed = GrpcObject::decode(object.clone()).map_err(|error| wrong(&error.to_string()))?;
            bounded(&listed.name)?;
            objects.push(listed.into_object()?).map_err(|why| wrong(&why))?;
        }
        for prefix in &self.prefixes {
            let prefix = std::str::from_utf8(prefix).map_err(|error| wrong(&error.to_string()))?;
            bounded(prefix)?;
            prefixes.push(prefix.to_owned()).map_err(|why| wrong(&why))?;
        }
        Ok((objects.into_vec(), prefixes.into_vec()))
    }
}

impl GrpcObject {
    fn into_object(self) -> Result<Object, Fault> {
        let Self { name, generation, storage_class, size, create_time, checksums, etag } = self;
        convert::listed(proto::Object {
            name,
            generation,
            storage_class,
            size,
            create_time,
            checksums,
            etag,
            ..proto::Object::default()
        })
    }
}

impl Grpc {
    pub(crate) fn list(&self, prefix: &str, recursive: bool, start: &str) -> Listing<Entry> {
        let (grpc, prefix, start) = (self.clone(), prefix.to_owned(), start.to_owned());
        paged(String::new(), Order::ByKey, move |token: String, attempt| {
            let (grpc, prefix, start) = (grpc.clone(), prefix.clone(), start.clone());
            async move {
                let request = proto::ListObjectsRequest {
                    parent: grpc.bucket.to_string(),
                    prefix,
                    delimiter: if recursive { String::new() } else { "/".to_owned() },
                    lexicographic_start: start,
                    page_token: token,
                    read_mask: Some(prost_types::FieldMask {
                        paths: FIELDS.iter().map(|&field| field.to_owned()).collect(),
                    }),
                    ..proto::ListObjectsRequest::default()
                };
                let page: GrpcPage = grpc.caller.ask("ListObjects", About::Bucket, &request, attempt).await?;
                let (objects, prefixes) = page.read()?;
                Ok((list::entries(objects, prefixes), list::next(page.next_page_token)))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(objects: &[proto::Object], prefixes: &[&str]) -> Result<(Vec<Object>, Vec<String>), Fault> {
        let answer = proto::ListObjectsResponse {
            objects: objects.to_vec(),
            prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
            next_page_token: "t".to_owned(),
        };
        let page = GrpcPage::decode(&*answer.encode_to_vec()).unwrap();
        assert_eq!(page.next_page_token, "t");
        page.read()
    }

    fn named(name: &str) -> proto::Object {
        proto::Object { name: name.to_owned(), ..proto::Object::default() }
    }

    #[test]
    fn a_page_says_what_the_messages_of_the_protocol_say() {
        let described = proto::Object {
            size: 7,
            generation: 3,
            etag: "e".to_owned(),
            storage_class: "STANDARD".to_owned(),
            create_time: Some(prost_types::Timestamp { seconds: 5, nanos: 0 }),
            checksums: Some(proto::ObjectChecksums { crc32c: Some(9), ..Default::default() }),
            ..named("k")
        };
        let (objects, prefixes) = page(&[described.clone(), named("z")], &["p/"]).unwrap();
        assert_eq!(objects[0], convert::object(described).unwrap());
        // Of what is left out, a message has the value that it stands for.
        assert_eq!(objects[1].known_size(), Some(0));
        assert_eq!(prefixes, ["p/"]);
    }

    #[test]
    fn a_page_is_bounded() {
        let many = page(&vec![named("k"); 10_001], &[]).unwrap_err();
        assert_eq!(many.kind, FaultKind::NotAStore);
        assert!(many.message.contains("10000 entries"), "{}", many.message);
        assert!(page(&[], &["p/"; 10_001]).unwrap_err().message.contains("10000 entries"));
        assert!(page(&[named(&"k".repeat(9_000))], &[]).is_err());
        assert!(page(&[named("")], &[]).is_err());
        assert!(page(&[proto::Object { size: -1, ..named("k") }], &[]).is_err());
    }
}
