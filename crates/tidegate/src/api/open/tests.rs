//! Stores that are reached by several accounts, from one engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use futures::TryStreamExt;
use tidegate_dev::{FaultRule, Knobs, Server};

use crate::backend::left_out;
use crate::settings::{
    AccessToken, Credentials, GcsCredentials, GcsSettings, GcsTransport, S3Settings, SigningKeys,
};
use crate::{ErrorKind, Strategy, Tidegate};

/// A server whose only account is `name`, with the bucket `bucket`.
async fn account(name: &str) -> (Server, S3Settings) {
    let server = Server::builder().credentials(name, format!("secret-of-{name}")).start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(name, format!("secret-of-{name}"), None));
    (server, settings)
}

#[tokio::test]
async fn two_accounts_share_one_budget() {
    let ((_ours, ours), (_theirs, theirs)) = (account("ours").await, account("theirs").await);
    let tide = Tidegate::builder().memory(8 << 20).s3(ours.clone()).build().unwrap();
    let first = tide.open("s3://bucket").await.unwrap();
    let second = tide.open("s3://bucket").s3(theirs.clone()).await.unwrap();
    first.put("k", "ours").await.unwrap();
    second.put("k", "theirs").await.unwrap();
    assert_eq!(first.get("k").await.unwrap().as_ref(), b"ours");
    assert_eq!(second.get("k").await.unwrap().as_ref(), b"theirs");

    let mut writers = Vec::new();
    for store in [&first, &second] {
        let mut writer = store.writer("part").await.unwrap();
        writer.write_bytes(vec![1; 300_000].into()).await.unwrap();
        writers.push(writer);
    }
    let usage = tide.usage();
    assert!(usage.held >= 600_000, "both writers hold memory of one budget: {usage:?}");
    for writer in writers {
        writer.abort().await.unwrap();
    }

    // The keys of one account open nothing of the other.
    let (access, settings) = (Credentials::fixed("ours", "secret-of-ours", None), theirs);
    let wrong = tide.open("s3://bucket").s3(settings.with_credentials(access)).await.unwrap();
    assert_eq!(wrong.get("k").await.unwrap_err().kind(), ErrorKind::Credentials);
}

#[tokio::test]
async fn a_view_of_an_engine_has_its_memory_and_other_accounts() {
    let ((_ours, ours), (_theirs, theirs)) = (account("ours").await, account("theirs").await);
    let tide = Tidegate::builder().memory(8 << 20).s3(ours).build().unwrap();
    let view = Tidegate::builder().memory(1 << 40).s3(theirs).build_on(&tide);
    view.create_bucket("s3://only-theirs").await.unwrap();
    let mine = tide.open("s3://only-theirs").await.unwrap();
    assert_eq!(mine.get("k").await.unwrap_err().kind(), ErrorKind::NoBucket);
    let store = view.open("s3://only-theirs").await.unwrap();
    let mut writer = store.writer("k").await.unwrap();
    writer.write_bytes(vec![1; 300_000].into()).await.unwrap();
    assert_eq!(tide.usage(), view.usage());
    assert!(tide.usage().held >= 300_000);
    writer.abort().await.unwrap();
    // In-memory stores of one name are the same in both.
    tide.open("memory://m").await.unwrap().put("k", "1").await.unwrap();
    assert_eq!(view.open("memory://m").await.unwrap().get("k").await.unwrap(), "1");
}

#[tokio::test]
async fn a_url_does_not_choose_a_profile_and_a_profile_alone_is_in_the_urls() {
    let (server, settings) = account("ours").await;
    let tide = Tidegate::builder().s3(settings.clone()).build().unwrap();
    for refused in [
        tide.open("s3://admin@bucket/k").await.map(drop).unwrap_err(),
        tide.open("s3://admin@bucket").s3(settings.clone()).await.map(drop).unwrap_err(),
        tide.create_bucket("s3://admin@other").await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("profile `admin`"), "{refused}");
    }
    // What was set before is not used, and this profile has no credentials.
    let settings = settings.with_profile_only("no-profile-of-this-name");
    let settings = settings.with_endpoint_url(server.endpoint()).with_region("us-east-1");
    let store = tide.open("s3://bucket/t").s3(settings).await.unwrap();
    assert_eq!(store.location(), "s3://no-profile-of-this-name@bucket/t");
    let error = store.get("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials, "{error}");
    assert!(error.to_string().contains("s3://no-profile-of-this-name@bucket/t/k"), "{error}");
}

#[tokio::test]
async fn settings_of_another_kind_of_store_are_refused() {
    let tide = Tidegate::builder().build().unwrap();
    for location in ["gs://bucket", "memory://m", "/tmp"] {
        let error = tide.open(location).s3(S3Settings::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[tokio::test]
async fn a_provider_of_the_callers_own_gives_the_keys() {
    let (_server, settings) = account("ours").await;
    let tide = Tidegate::builder().build().unwrap();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let provided = Credentials::provided(move || {
        counted.fetch_add(1, Relaxed);
        async { Ok(SigningKeys::new("ours", "secret-of-ours")) }
    });
    let store = tide.open("s3://bucket").s3(settings.clone().with_credentials(provided)).await.unwrap();
    assert_eq!(asked.load(Relaxed), 0, "opening a store asks for nothing");
    store.put("k", "1").await.unwrap();
    assert_eq!(store.get("k").await.unwrap(), "1");
    assert_eq!(asked.load(Relaxed), 1);

    let locked = Credentials::provided(|| async { Err("the vault is locked".into()) });
    let store = tide.open("s3://bucket").s3(settings.with_credentials(locked)).await.unwrap();
    let error = store.get("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(error.to_string().contains("the vault is locked"), "{error}");
}

#[tokio::test]
async fn a_provider_of_the_callers_own_gives_the_access_token_and_another_when_it_is_refused() {
    let server = Server::builder().auto_create_buckets(true).start().await.unwrap();
    let refused = FaultRule::error("storage.objects.insert", 401, "authError").times(1);
    server.set_knobs(Knobs { faults: vec![refused], ..Knobs::default() });
    let tide = Tidegate::builder().build().unwrap();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let provided = GcsCredentials::provided(move || {
        counted.fetch_add(1, Relaxed);
        async { Ok(AccessToken::new("token")) }
    });
    let settings = GcsSettings::default().with_endpoint_url(server.endpoint());
    let store = tide.open("gs://bucket").gcs(settings.clone().with_credentials(provided)).await.unwrap();
    assert_eq!(asked.load(Relaxed), 0, "opening a store asks for nothing");
    store.put("k", "1").await.unwrap();
    assert_eq!(store.get("k").await.unwrap(), "1");
    assert_eq!(asked.load(Relaxed), 2);

    let locked = GcsCredentials::provided(|| async { Err("the vault is locked".into()) });
    let store = tide.open("gs://bucket").gcs(settings.with_credentials(locked)).await.unwrap();
    let error = store.get("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Credentials);
    assert!(error.to_string().contains("the vault is locked"), "{error}");
}

#[tokio::test]
async fn a_provider_of_access_tokens_that_panics_is_an_error_of_credentials_at_once() {
    let server = Server::builder().auto_create_buckets(true).start().await.unwrap();
    let tide = Tidegate::builder().part_size(5 << 20).build().unwrap();
    let settings = GcsSettings::default().with_endpoint_url(server.endpoint());
    for transport in [GcsTransport::Http, GcsTransport::Grpc] {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let provided = GcsCredentials::provided(move || {
            counted.fetch_add(1, Relaxed);
            async { panic!("no vault") }
        });
        let settings = settings.clone().with_credentials(provided).with_transport(transport);
        let store = tide.open("gs://bucket").gcs(settings).await.unwrap();
        let large = async |strategy| {
            let mut writer = store.writer("k").strategy(strategy).await?;
            writer.write_bytes(vec![7; 12 << 20].into()).await?;
            writer.finish().await
        };
        let errors = [
            store.put("k", "1").await.err(),
            store.get("k").await.err(),
            store.head("k").await.err(),
            store.delete("k").await.err(),
            store.list("").try_next().await.err(),
            store.copy("k", &store, "copy").await.err(),
            large(Strategy::Parallel).await.err(),
            large(Strategy::Chunked).await.err(),
        ];
        let requests = errors.len() as u32;
        for error in errors {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Credentials, "{error}");
            assert!(error.to_string().contains("the provider panicked: no vault"), "{error}");
        }
        assert!(asked.load(Relaxed) <= 3 * requests, "{asked:?} of {requests}");
    }
}

#[tokio::test]
async fn a_build_without_a_cloud_names_the_feature() {
    let s3 = left_out::s3::S3Scheme::new(left_out::s3::S3Settings::default());
    let gcs = left_out::gcs::GcsScheme::new(left_out::gcs::GcsSettings::default());
    assert_eq!(s3.settings(), &left_out::s3::S3Settings::default());
    assert_eq!(gcs.settings(), &left_out::gcs::GcsSettings::default());
    let azure = left_out::azure::AzureScheme::new(left_out::azure::AzureSettings::default());
    assert_eq!(azure.settings(), &left_out::azure::AzureSettings::default());
    let tide = Tidegate::builder().scheme("s3", s3).scheme("gs", gcs).scheme("az", azure).build().unwrap();
    for (url, feature) in [("s3://bucket/key", "s3"), ("gs://bucket", "gcs"), ("az://bucket", "azure")] {
        let refused = tide.open(url).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let wanted = format!("this build of Tidegate has no {feature}: enable the feature `{feature}`");
        assert!(refused.to_string().contains(&wanted), "{refused}");
    }
    let refused = tide.create_bucket("s3://bucket").await.unwrap_err();
    assert!(refused.to_string().contains("enable the feature `s3`"), "{refused}");
}
