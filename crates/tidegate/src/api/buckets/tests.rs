//! Buckets of S3 and of Google.

use std::time::{Duration, SystemTime};

use tidegate_dev::{FaultRule, Knobs, Server};

use super::*;
use crate::settings::{Credentials, GcsCredentials, GcsSettings, RetryPolicy, S3Settings};

/// A server, and an engine that reaches it by both protocols.
async fn served() -> (Server, Tidegate) {
    let server = Server::builder().start().await.unwrap();
    let (access, secret) = server.credentials();
    let s3 = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let gcs = GcsSettings::default()
        .with_endpoint_url(server.endpoint())
        .with_project("project")
        .with_credentials(GcsCredentials::anonymous());
    let retry = RetryPolicy { first_pause: Duration::from_millis(1), ..RetryPolicy::default() };
    (server, Tidegate::builder().s3(s3).gcs(gcs).retry(retry).build().unwrap())
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

async fn names(tide: &Tidegate, scheme: &str) -> Vec<String> {
    tide.buckets(scheme).map_ok(|bucket| bucket.name).try_collect().await.unwrap()
}

async fn lives_and_goes(scheme: &str) {
    let (_server, tide) = served().await;
    let root = format!("{scheme}://");
    let bucket = format!("{root}a-bucket");
    assert!(names(&tide, &root).await.is_empty());
    assert_eq!(kind(tide.remove_bucket(&bucket).await), ErrorKind::NoBucket);
    let store = tide.open(&bucket).await.unwrap();
    assert_eq!(kind(store.head("k").await), ErrorKind::NoBucket);
    tide.create_bucket(&bucket).await.unwrap();
    tide.create_bucket(format!("{root}other/")).await.unwrap();
    assert_eq!(names(&tide, &root).await, ["a-bucket", "other"]);
    assert_eq!(names(&tide, scheme).await, ["a-bucket", "other"]);
    let listed: Vec<BucketEntry> = tide.buckets(&root).try_collect().await.unwrap();
    let age = SystemTime::now().duration_since(listed[0].created.unwrap()).unwrap_or_default();
    assert!(age < Duration::from_secs(600), "{age:?}");

    let again = tide.create_bucket(&bucket).await.unwrap_err();
    assert_eq!((again.kind(), again.operation()), (ErrorKind::AlreadyExists, Operation::CreateBucket));
    assert!(!again.to_string().contains("create-only"), "{again}");
    store.put("k", "1").await.unwrap();
    let full = tide.remove_bucket(&bucket).await.unwrap_err();
    assert_eq!((full.kind(), full.object()), (ErrorKind::NotEmpty, bucket.as_str()));
    store.delete("k").await.unwrap();
    assert_eq!(kind(store.head("k").await), ErrorKind::NotFound);
    tide.remove_bucket(&bucket).await.unwrap();
    assert_eq!(names(&tide, &root).await, ["other"]);
    // The facts of the removed bucket are forgotten.
    assert_eq!(kind(store.head("k").await), ErrorKind::NoBucket);
    for wrong in ["A_b", "x"] {
        assert_eq!(
            kind(tide.create_bucket(format!("{root}{wrong}")).await),
            ErrorKind::InvalidInput,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_bucket_of_s3_lives_and_goes() {
    lives_and_goes("s3").await;
}

#[tokio::test]
async fn a_bucket_of_google_lives_and_goes() {
    lives_and_goes("gs").await;
}

#[tokio::test]
async fn a_lost_answer_is_no_failure_and_no_guess() {
    for (scheme, create, remove) in
        [("s3", "CreateBucket", "DeleteBucket"), ("gs", "storage.buckets.insert", "storage.buckets.delete")]
    {
        let (server, tide) = served().await;
        let bucket = format!("{scheme}://a-bucket");
        let lose = |operation: &str| {
            let faults = vec![FaultRule::lose_answer(operation).times(1)];
            server.set_knobs(Knobs { faults, ..Knobs::default() });
        };
        lose(create);
        let error = tide.create_bucket(&bucket).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Uncertain, 2), "{error}");
        assert_eq!(names(&tide, scheme).await, ["a-bucket"]);
        let store = tide.open(&bucket).await.unwrap();
        store.put("k", "1").await.unwrap();
        store.delete("k").await.unwrap();
        lose(remove);
        tide.remove_bucket(&bucket).await.unwrap();
        assert_eq!(kind(store.head("k").await), ErrorKind::NoBucket, "{scheme}");
        assert!(names(&tide, scheme).await.is_empty());
    }
}

#[tokio::test]
async fn a_bucket_that_was_there_is_certain_also_after_a_refused_attempt() {
    for (scheme, create) in [("s3", "CreateBucket"), ("gs", "storage.buckets.insert")] {
        let (server, tide) = served().await;
        let bucket = format!("{scheme}://a-bucket");
        tide.create_bucket(&bucket).await.unwrap();
        let faults = vec![FaultRule::error(create, 503, "SlowDown").times(1)];
        server.set_knobs(Knobs { faults, ..Knobs::default() });
        let error = tide.create_bucket(&bucket).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::AlreadyExists, 2), "{error}");
    }
}

#[tokio::test]
async fn a_bucket_that_a_policy_forbids_is_denied() {
    let (server, tide) = served().await;
    let faults = vec![FaultRule::error("storage.buckets.insert", 412, "conditionNotMet").times(1)];
    server.set_knobs(Knobs { faults, ..Knobs::default() });
    assert_eq!(kind(tide.create_bucket("gs://a-bucket").await), ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn what_is_no_bucket_is_refused() {
    let (server, tide) = served().await;
    for location in ["s3://bucket/key", "gs://bucket/a/b", "s3://"] {
        assert_eq!(kind(tide.create_bucket(location).await), ErrorKind::InvalidInput, "{location}");
        assert_eq!(kind(tide.remove_bucket(location).await), ErrorKind::InvalidInput, "{location}");
    }
    for location in ["/tmp/directory", "file:///tmp/directory", "memory://name"] {
        assert_eq!(kind(tide.create_bucket(location).await), ErrorKind::Unsupported, "{location}");
        assert_eq!(kind(tide.remove_bucket(location).await), ErrorKind::Unsupported, "{location}");
    }
    let listed = async |scheme: &str| kind(tide.buckets(scheme).try_collect::<Vec<_>>().await);
    for scheme in ["", "://", "s3://bucket", "/tmp", "unknown://"] {
        assert_eq!(listed(scheme).await, ErrorKind::InvalidInput, "{scheme}");
    }
    for scheme in ["file://", "memory://"] {
        assert_eq!(listed(scheme).await, ErrorKind::Unsupported, "{scheme}");
    }
    assert_eq!(server.counts().total(), 0);
}

#[tokio::test]
async fn a_throttled_listing_of_buckets_is_made_again() {
    let (server, tide) = served().await;
    let faults = vec![FaultRule::error("ListBuckets", 503, "SlowDown").times(2)];
    server.set_knobs(Knobs { faults, ..Knobs::default() });
    assert!(names(&tide, "s3").await.is_empty());
    assert_eq!(server.counts().get("ListBuckets"), 3);
}
