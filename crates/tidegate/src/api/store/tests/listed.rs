//! Listings that begin behind a key, as readers of a table's log make them.

use futures::stream;
use tidegate_dev::{Knobs, Server};

use super::*;
use crate::prefix::{Layout, Naming, PrefixedStore};
use crate::settings::{Credentials, GcsCredentials, GcsSettings, GcsTransport, S3Settings};

/// The transport and the server's name of a listing request.
const OVER: [(&str, GcsTransport, &str); 3] = [
    ("s3://bucket/log", GcsTransport::Http, "ListObjectsV2"),
    ("gs://bucket/log", GcsTransport::Http, "storage.objects.list"),
    ("gs://bucket/log", GcsTransport::Grpc, "storage.v2.ListObjects"),
];

/// A store whose listings have ten keys a page.
async fn served(location: &str, over: GcsTransport) -> (Server, Store) {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    server.set_knobs(Knobs { longest_page: Some(10), ..Knobs::default() });
    let (access, secret) = server.credentials();
    let s3 = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let gcs = GcsSettings::default()
        .with_endpoint_url(server.endpoint())
        .with_credentials(GcsCredentials::anonymous())
        .with_transport(over);
    let store = Tidegate::builder().s3(s3).gcs(gcs).build().unwrap().open(location).await.unwrap();
    (server, store)
}

async fn put(store: &Store, count: usize) {
    let puts = (0..count).map(|number| async move { store.put(key(number), "1").await.map(drop) });
    stream::iter(puts).buffer_unordered(32).try_collect::<()>().await.unwrap();
}

fn key(number: usize) -> String {
    format!("{number:05}.json")
}

#[tokio::test]
async fn the_last_keys_of_a_long_log_take_one_request() {
    for (location, over, operation) in OVER {
        let (server, store) = served(location, over).await;
        put(&store, 300).await;
        let before = server.counts().get(operation);
        let listed: Vec<Entry> = store.list("").start_after(key(290)).try_collect().await.unwrap();
        let listed: Vec<_> = listed.iter().map(Entry::key).collect();
        assert_eq!(listed, (291..300).map(key).collect::<Vec<_>>(), "{location} {over:?}");
        let asked = server.counts().get(operation) - before;
        assert!((1..=2).contains(&asked), "{location} {over:?}: {asked} requests, {:?}", server.counts());
    }
}

#[tokio::test]
async fn what_comes_before_or_behind_every_key_lists_all_or_nothing() {
    for (location, over, _) in OVER {
        let (_server, store) = served(location, over).await;
        put(&store, 12).await;
        let counted = async |after: String| {
            let listed: Vec<Entry> = store.list("0").start_after(after).try_collect().await.unwrap();
            listed.len()
        };
        let longest = key(3) + &"ü".repeat(2_000);
        for (after, count) in [(String::new(), 12), ("!".to_owned(), 12), (longest, 8), ("~".to_owned(), 0)] {
            assert_eq!(counted(after.clone()).await, count, "{location} {over:?} behind {after:.20}");
        }
    }
}

#[tokio::test]
async fn spread_keys_are_listed_from_there_too() {
    let (server, root) = served("s3://bucket/spread", GcsTransport::Http).await;
    let store = PrefixedStore::init(&root, Layout::new(Naming::Base2, 2).unwrap()).await.unwrap();
    put(store.store(), 300).await;
    let before = server.counts().get("ListObjectsV2");
    let listed: Vec<Entry> = store.list("").start_after(key(290)).try_collect().await.unwrap();
    let listed: Vec<_> = listed.iter().map(Entry::key).collect();
    assert_eq!(listed, (291..300).map(key).collect::<Vec<_>>());
    let asked = server.counts().get("ListObjectsV2") - before;
    assert!(asked <= 6, "{asked} requests for two prefixes and the layout's records");
}
