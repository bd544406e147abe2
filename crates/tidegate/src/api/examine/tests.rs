use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use tidegate_dev::{FaultRule, Knobs, Server};

use super::*;
use crate::Tidegate;
use crate::backend::memory::Memory;
use crate::backend::samples::{raw_server, said};
use crate::backend::{Attempt, Backend, Body, Entry, Fault, Info, Listing, WriteOptions};
use crate::memory::payload::Payload;
use crate::settings::{Credentials, S3Settings};
use crate::types::object::Object;
use tidegate_s3::testkit::settings_for;

async fn found(store: &Store) -> Vec<(StoreFeature, FindingState)> {
    store.examine().map(|finding| (finding.feature, finding.state)).collect().await
}

fn of(found: &[(StoreFeature, FindingState)], feature: StoreFeature) -> &FindingState {
    &found.iter().find(|(found, _)| *found == feature).unwrap().1
}

#[tokio::test]
async fn a_whole_store_has_everything_and_nothing_is_left() {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let tide = Tidegate::builder().s3(settings_for(&server)).build().unwrap();
    let store = tide.open("s3://bucket/some/place").await.unwrap();
    let found = found(&store).await;
    let missing = [StoreFeature::Append, StoreFeature::Lifecycle];
    for (feature, state) in &found {
        let is_whole = matches!(state, FindingState::Works(_));
        assert_eq!(is_whole, !missing.contains(feature), "{feature}: {state:?}");
    }
    assert_eq!(left(&store).await, (0, 0));
}

/// The objects and unfinished uploads of a store.
async fn left(store: &Store) -> (usize, usize) {
    let objects = store.list("").try_collect::<Vec<_>>().await.unwrap();
    let sessions = store.sessions("").try_collect::<Vec<_>>().await.unwrap();
    (objects.len(), sessions.len())
}

#[tokio::test]
async fn a_missing_feature_is_told_from_a_broken_promise() {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let faults =
        ["CreateMultipartUpload", "CopyObject"].map(|name| FaultRule::error(name, 501, "NotImplemented"));
    let faults = faults.into();
    server.set_knobs(Knobs { no_checksums: true, faults, ..Knobs::default() });
    let tide = Tidegate::builder().s3(settings_for(&server)).build().unwrap();
    let store = tide.open("s3://bucket").await.unwrap();
    let found = found(&store).await;
    let state = |feature| of(&found, feature).name();
    assert_eq!([state(StoreFeature::Parts), state(StoreFeature::Copy)], ["missing"; 2], "{found:?}");
    assert_eq!([state(StoreFeature::Abort), state(StoreFeature::PartsCreateOnly)], ["untested"; 2]);
    assert_eq!(state(StoreFeature::Checksum), "broken");
    assert!(of(&found, StoreFeature::Checksum).text().contains("cp --verify"));
    assert_eq!([state(StoreFeature::Write), state(StoreFeature::CreateOnly)], ["works"; 2]);
    server.set_knobs(Knobs::default());
    assert_eq!(left(&store).await, (0, 0));
}

/// Tidegate itself asks for the key before it writes, and must not take its own refusal for the server's.
#[tokio::test]
async fn a_server_that_drops_metadata_and_ignores_create_only_is_found_out() {
    let (url, _) = raw_server(|head| match head.split(' ').next().unwrap() {
        "head" => format!("HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: {}\r\n\r\n", checks::SIZE),
        _ => said("200 OK", "etag: \"e\"\r\n", ""),
    })
    .await;
    let settings = S3Settings::default()
        .with_endpoint_url(url)
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed("a", "b", None));
    let tide = Tidegate::builder().s3(settings).build().unwrap();
    let store = tide.open("s3://bucket").await.unwrap();
    let found = found(&store).await;
    assert_eq!(of(&found, StoreFeature::CreateOnly).name(), "broken", "{found:?}");
}

/// s3rver neither lists unfinished uploads nor ends one.
#[tokio::test]
async fn an_upload_that_is_not_ended_breaks_no_other_check() {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let rule = |name: &str| FaultRule::error(name, 405, "MethodNotAllowed");
    let faults = ["ListMultipartUploads", "AbortMultipartUpload"].map(rule).into();
    server.set_knobs(Knobs { faults, ..Knobs::default() });
    let tide = Tidegate::builder().s3(settings_for(&server)).build().unwrap();
    let found = found(&tide.open("s3://bucket").await.unwrap()).await;
    let state = |feature| of(&found, feature).name();
    assert_eq!(
        [state(StoreFeature::Sessions), state(StoreFeature::Abort)],
        ["missing", "broken"],
        "{found:?}"
    );
    assert!(of(&found, StoreFeature::Abort).text().contains("does not end an upload"), "{found:?}");
    assert_eq!([state(StoreFeature::Parts), state(StoreFeature::Delete)], ["works"; 2], "{found:?}");
}

#[tokio::test]
async fn a_refused_listing_of_unfinished_uploads_breaks_no_other_check() {
    for (status, code) in [(403, "AccessDenied"), (404, "NoSuchKey"), (400, "InvalidArgument")] {
        let server = Server::builder().start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        let faults = vec![FaultRule::error("ListMultipartUploads", status, code)];
        server.set_knobs(Knobs { faults, ..Knobs::default() });
        let tide = Tidegate::builder().s3(settings_for(&server)).build().unwrap();
        let found = found(&tide.open("s3://bucket").await.unwrap()).await;
        let state = |feature| of(&found, feature).name();
        assert_eq!(state(StoreFeature::Sessions), "missing", "{code}: {found:?}");
        assert!(found.iter().all(|(_, state)| state.name() != "broken"), "{code}: {found:?}");
    }
}

/// A refusal without a reason may be about anything: not about a token.
#[tokio::test]
async fn a_bare_refusal_is_not_explained() {
    let (url, _) =
        raw_server(|head| match head.starts_with("get /bucket/?") || head.starts_with("get /bucket?") {
            true => {
                said("200 OK", "", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
            }
            false => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
        })
        .await;
    let settings = S3Settings::default()
        .with_endpoint_url(url)
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed("a", "b", None));
    let tide = Tidegate::builder().s3(settings).build().unwrap();
    let found = found(&tide.open("s3://bucket").await.unwrap()).await;
    assert_eq!(of(&found, StoreFeature::List).name(), "works", "{found:?}");
    let text = of(&found, StoreFeature::Write).text();
    assert!(text.contains("the store does not say why (HTTP 400)") && !text.contains("token"), "{text}");
}

#[tokio::test]
async fn a_store_that_may_not_be_written_says_so_once() {
    let server = Server::builder().start().await.unwrap();
    let tide = Tidegate::builder().s3(settings_for(&server)).build().unwrap();
    let found = found(&tide.open("s3://no-such-bucket").await.unwrap()).await;
    let count = |name: &str| found.iter().filter(|(_, state)| state.name() == name).count();
    assert!(of(&found, StoreFeature::List).text().contains("bucket"), "{found:?}");
    assert_eq!((count("works"), count("broken")), (0, 3), "{found:?}");
}

#[tokio::test]
async fn a_disk_and_memory_keep_every_promise() {
    let directory = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().build().unwrap();
    for url in [directory.path().to_str().unwrap(), "memory://store"] {
        let found = found(&tide.open(url).await.unwrap()).await;
        let is_broken = |(_, state): &(_, FindingState)| {
            matches!(state, FindingState::Broken(_) | FindingState::Untested(_))
        };
        assert!(!found.iter().any(is_broken), "{found:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
}

/// A store in memory whose listings ignore the prefix.
#[derive(Debug)]
struct ListsAll(Memory);

#[async_trait]
impl Backend for ListsAll {
    fn info(&self) -> &Info {
        self.0.info()
    }

    async fn put(
        &self,
        key: &str,
        payload: Payload,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.0.put(key, payload, options, attempt).await
    }

    async fn head(&self, key: &str, attempt: Attempt) -> Result<Object, Fault> {
        self.0.head(key, attempt).await
    }

    async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        same: Option<&Object>,
        attempt: Attempt,
    ) -> Result<Body, Fault> {
        self.0.get(key, range, same, attempt).await
    }

    async fn delete(&self, key: &str, same: Option<&Object>, attempt: Attempt) -> Result<(), Fault> {
        self.0.delete(key, same, attempt).await
    }

    fn list(&self, _prefix: &str, recursive: bool) -> Listing<Entry> {
        self.0.list("", recursive)
    }
}

#[tokio::test]
async fn objects_of_others_stay_where_listings_ignore_the_prefix() {
    let tide = Tidegate::builder().build().unwrap();
    let store = tide.store(Arc::new(ListsAll(Memory::new("bucket"))));
    store.put("precious", "bytes").await.unwrap();
    let found = found(&store).await;
    assert_eq!(of(&found, StoreFeature::List).name(), "broken", "{found:?}");
    assert_eq!(of(&found, StoreFeature::Delete).name(), "broken", "{found:?}");
    assert_eq!(store.get("precious").await.unwrap().as_ref(), b"bytes");
}
