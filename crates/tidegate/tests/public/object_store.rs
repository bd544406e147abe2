//! The test suite of the `object_store` crate for implementers, over each kind of store, and tests of behaviour that
//! the suite does not cover.

#![allow(clippy::unwrap_used)] // the shared helpers are test code as well

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::integration::put_get_attributes;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result, WriteMultipart, integration,
};
use tidegate::backend::gcs::{GcsCredentials, GcsSettings, GcsTransport};
use tidegate::backend::s3::{Credentials, S3Settings};
use tidegate::object_store::TidegateStore;
use tidegate::{ErrorKind, Tidegate};
use tidegate_dev::Server;

/// A store for one test, with its engine, server and directory.
struct Place {
    tide: Tidegate,
    store: TidegateStore,
    server: Option<Server>,
    directory: tempfile::TempDir,
}

async fn place(location: &str, over: GcsTransport) -> Place {
    let directory = tempfile::tempdir().unwrap();
    let mut tide = Tidegate::builder().memory(64 << 20);
    let (mut server, mut location) = (None, location.to_owned());
    if location.starts_with('/') {
        location = directory.path().to_str().unwrap().to_owned();
    } else if !location.starts_with("memory:") {
        let started = Server::builder().start().await.unwrap();
        started.create_bucket("bucket").unwrap();
        let (access, secret) = started.credentials();
        let s3 = S3Settings::default()
            .with_endpoint_url(started.endpoint())
            .with_region("us-east-1")
            .with_credentials(Credentials::fixed(access, secret, None));
        let gcs = GcsSettings::default()
            .with_endpoint_url(started.endpoint())
            .with_credentials(GcsCredentials::anonymous())
            .with_transport(over);
        tide = tide.s3(s3).gcs(gcs);
        server = Some(started);
    }
    let tide = tide.build().unwrap();
    let store = TidegateStore::new(tide.open(&location).await.unwrap());
    Place { tide, store, server, directory }
}

/// A store that hides the versions of its objects. If objects have versions, the suite expects to read a replaced
/// object by its version; but on Google Cloud Storage objects have versions even in a bucket that keeps only the
/// newest ones.
#[derive(Debug)]
struct Unversioned(TidegateStore);

impl fmt::Display for Unversioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Unversioned {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let mut got = self.0.get_opts(path, options).await?;
        got.meta.version = None;
        Ok(got)
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

/// Asserts that no session is left, and no memory is held.
async fn assert_clean(place: &Place) {
    assert!(place.tide.settled().await.is_empty());
    let sessions: Vec<_> = place.store.store().sessions("").try_collect().await.unwrap();
    assert!(sessions.is_empty(), "{sessions:?}");
    // A disk write that is under way when its upload is dropped runs to its end, and holds its memory until then.
    let all_back = async {
        while place.tide.usage().held > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(60), all_back).await.is_ok(),
        "{:?}",
        place.tide.usage()
    );
}

macro_rules! suite {
    ($($name:ident: $location:expr, $over:ident, $attributes:ident;)*) => { $(
        mod $name {
            use super::*;

            async fn place() -> Place {
                super::place($location, GcsTransport::$over).await
            }

            #[tokio::test]
            async fn objects_are_written_read_listed_and_removed() {
                let place = place().await;
                integration::put_get_delete_list(&place.store).await;
                integration::list_uses_directories_correctly(&place.store).await;
                integration::list_with_delimiter(&place.store).await;
                integration::list_with_offset_exclusivity(&place.store).await;
                let missing = integration::get_nonexistent_object(&place.store, None).await;
                assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
                assert_clean(&place).await;
            }

            #[tokio::test]
            async fn objects_are_copied_and_renamed() {
                let place = place().await;
                integration::rename_and_copy(&place.store).await;
                integration::copy_if_not_exists(&place.store).await;
                integration::copy_rename_nonexistent_object(&place.store).await;
                assert_clean(&place).await;
            }

            #[tokio::test]
            async fn what_is_renamed_or_copied_onto_itself_stays() {
                let place = place().await;
                super::nothing_is_lost_onto_itself(&place).await;
                assert_clean(&place).await;
            }

            #[tokio::test]
            async fn conditions_hold() {
                let place = place().await;
                integration::get_opts(&Unversioned(place.store.clone())).await;
                integration::put_opts(&place.store, true).await;
                $attributes(&place.store).await;
                assert_clean(&place).await;
            }

            #[tokio::test]
            async fn objects_come_in_parts() {
                let place = place().await;
                integration::stream_get(&place.store).await;
                integration::multipart_race_condition(&place.store, true).await;
                integration::multipart_out_of_order(&place.store).await;
                super::parts_are_pieces_of_one_stream(&place).await;
                super::what_is_given_up_is_not_there(&place).await;
                assert_clean(&place).await;
            }
        }
    )* };
}

suite! {
    memory: "memory://suite", Http, put_get_attributes;
    local: "/", Http, put_get_attributes;
    s3: "s3://bucket", Http, put_get_attributes;
    s3_below_a_prefix: "s3://bucket/some/prefix", Http, put_get_attributes;
    gcs_over_http: "gs://bucket", Http, put_head_attributes;
    gcs_over_grpc: "gs://bucket/some/prefix", Grpc, put_get_attributes;
}

/// Google's JSON API returns no user metadata with an object's bytes, so the suite's `put_get_attributes` can't pass;
/// `head` returns all attributes.
async fn put_head_attributes(store: &TidegateStore) {
    let attributes = Attributes::from_iter([
        (Attribute::CacheControl, "max-age=604800"),
        (Attribute::ContentLanguage, "en-US"),
        (Attribute::ContentType, "text/html; charset=utf-8"),
        (Attribute::Metadata("test_key".into()), "hello   world"),
    ]);
    let path = Path::from("attributes");
    store.put_opts(&path, "foo".into(), attributes.clone().into()).await.unwrap();
    let got = store.get_opts(&path, GetOptions::new().with_head(true)).await.unwrap();
    assert_eq!(got.attributes, attributes);
    let got = store.get(&path).await.unwrap();
    assert_eq!(got.attributes.get(&Attribute::ContentLanguage).map(AsRef::as_ref), Some("en-US"));
}

async fn nothing_is_lost_onto_itself(place: &Place) {
    let (store, path) = (&place.store, Path::from("d/a"));
    let missing = [store.rename(&path, &path).await, store.copy(&path, &path).await];
    assert!(missing.iter().all(|missing| matches!(missing, Err(Error::NotFound { .. }))), "{missing:?}");
    let written = store.put(&path, "bytes".into()).await.unwrap();
    store.rename(&path, &path).await.unwrap();
    store.rename_if_not_exists(&path, &path).await.unwrap();
    store.copy(&path, &path).await.unwrap();
    let exists = store.copy_if_not_exists(&path, &path).await;
    assert!(matches!(exists, Err(Error::AlreadyExists { .. })), "{exists:?}");
    let got = store.get(&path).await.unwrap();
    assert_eq!(
        (&got.meta.e_tag, &got.meta.version),
        (&written.e_tag, &written.version),
        "it was not touched"
    );
    assert_eq!(got.bytes().await.unwrap(), "bytes");
    // Copies by another path to the same place.
    let (store, within) = (store.store().clone(), store.store().within("d"));
    let copied = within.copy("a", &store, "d/a").await.unwrap();
    assert_eq!((copied.key.as_str(), copied.size), ("d/a", 5));
    let exists = store.copy("d/a", &within, "a").create_only().await.unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists, "{exists}");
    assert_eq!(store.head("d/a").await.unwrap().etag, got_etag(&within).await);
}

async fn got_etag(store: &tidegate::Store) -> Option<String> {
    store.head("a").await.unwrap().etag
}

/// Parts may have any size, also below the store's smallest part.
async fn parts_are_pieces_of_one_stream(place: &Place) {
    let path = Path::from("pieces");
    let bytes: Bytes = (0..9_000_000_u32).map(|at| (at ^ (at >> 8)) as u8).collect::<Vec<_>>().into();
    for sizes in [&[0, 1, 5_000_000, 7, 3_999_992][..], &[9_000_000], &[1, 2, 3]] {
        let mut upload = place.store.put_multipart(&path).await.unwrap();
        let (mut end, mut parts) = (0, Vec::new());
        for size in sizes {
            parts.push(upload.put_part(bytes.slice(end..end + size).into()));
            end += size;
        }
        // Only the last part is awaited, and that moves the other parts too.
        parts.pop().unwrap().await.unwrap();
        let written = upload.complete().await.unwrap();
        assert!(upload.complete().await.is_err() && upload.put_part("late".into()).await.is_err());
        let got = place.store.get(&path).await.unwrap();
        assert_eq!(got.meta.size, end as u64);
        if written.e_tag.is_some() {
            assert_eq!(got.meta.e_tag, written.e_tag);
        }
        assert!(got.bytes().await.unwrap() == bytes.slice(..end));
    }
    let upload = place.store.put_multipart(&path).await.unwrap();
    let mut writer = WriteMultipart::new_with_chunk_size(upload, 100_000);
    writer.write(&bytes);
    writer.finish().await.unwrap();
    assert!(place.store.get(&path).await.unwrap().bytes().await.unwrap() == bytes);
}

async fn what_is_given_up_is_not_there(place: &Place) {
    let path = Path::from("given up");
    let part = || PutPayload::from(Bytes::from(vec![7; 20 << 20]));
    let mut aborted = place.store.put_multipart(&path).await.unwrap();
    aborted.put_part(part()).await.unwrap();
    // A part that was begun, has not enough memory to finish, and is not awaited any more.
    let mut begun = aborted.put_part((0..100).map(|_| Bytes::from(vec![7; 1 << 20])).collect());
    assert!(futures::poll!(&mut begun).is_pending());
    aborted.abort().await.unwrap();
    aborted.abort().await.unwrap();
    assert!(aborted.complete().await.is_err());
    drop(begun);
    let mut dropped = place.store.put_multipart(&path).await.unwrap();
    dropped.put_part(part()).await.unwrap();
    drop(dropped);
    assert!(matches!(place.store.head(&path).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn an_empty_range_past_the_end_is_refused_at_once() {
    let place = place("s3://bucket", GcsTransport::Http).await;
    place.store.put(&Path::from("k"), "bytes".into()).await.unwrap();
    let store = place.tide.open("s3://bucket").await.unwrap();
    let error = store.reader("k").range(100..100).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::InvalidInput, 1), "{error}");
    assert_eq!(store.reader("k").range(5..5).await.unwrap().range(), 5..5);
}

#[tokio::test]
async fn tens_of_thousands_of_parts_may_stand_in_line() {
    let place = place("memory://bucket", GcsTransport::Http).await;
    let path = Path::from("k");
    let mut upload = place.store.put_multipart(&path).await.unwrap();
    let parts: Vec<_> = (0..50_000).map(|_| upload.put_part("x".into())).collect();
    for part in parts.into_iter().rev() {
        part.await.unwrap();
    }
    upload.complete().await.unwrap();
    assert_eq!(place.store.head(&path).await.unwrap().size, 50_000);
}

#[tokio::test]
async fn errors_are_of_their_kinds_and_keep_their_source() {
    let place = place("s3://bucket", GcsTransport::Http).await;
    let path = Path::from("k");
    place.store.put(&path, "a".into()).await.unwrap();
    let exists = place.store.put_opts(&path, "b".into(), PutMode::Create.into()).await.unwrap_err();
    let source = std::error::Error::source(&exists).unwrap();
    let source = source.downcast_ref::<tidegate::Error>().unwrap();
    assert_eq!(source.kind(), ErrorKind::AlreadyExists);
    let rules = vec![tidegate_dev::FaultRule::error("*", 403, "AccessDenied")];
    let knobs = tidegate_dev::Knobs { faults: rules, ..tidegate_dev::Knobs::default() };
    place.server.as_ref().unwrap().set_knobs(knobs);
    assert!(matches!(place.store.get(&path).await, Err(Error::PermissionDenied { .. })));
    let listed: Result<Vec<_>> = place.store.list(None).try_collect().await;
    assert!(matches!(listed, Err(Error::PermissionDenied { .. })), "{listed:?}");
    let removed = place.store.delete(&path).await;
    assert!(matches!(removed, Err(Error::PermissionDenied { .. })), "{removed:?}");
}

/// Each helper of the crate, with a completion that the store answers with an error.
#[tokio::test]
async fn the_error_of_a_completion_comes_through_the_helpers_of_the_crate() {
    use object_store::buffered::BufWriter;
    use tidegate_dev::{FaultRule, Knobs};
    use tokio::io::AsyncWriteExt;
    for (location, operation) in
        [("s3://bucket", "CompleteMultipartUpload"), ("gs://bucket", "CompleteMultipartUpload")]
    {
        for (status, code, kind) in [
            (412, "PreconditionFailed", ErrorKind::AlreadyExists),
            (403, "AccessDenied", ErrorKind::PermissionDenied),
            (400, "InvalidRequest", ErrorKind::InvalidInput),
        ] {
            let place = place(location, GcsTransport::Http).await;
            let (path, bytes) = (Path::from("k"), vec![7; 20 << 20]);
            let faults = vec![FaultRule::error(operation, status, code)];
            place.server.as_ref().unwrap().set_knobs(Knobs { faults, ..Knobs::default() });
            let mut writer = BufWriter::new(Arc::new(place.store.clone()), path.clone());
            writer.write_all(&bytes).await.unwrap();
            let error = writer.shutdown().await.unwrap_err();
            let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>()).unwrap();
            assert_eq!(kind_of(error), Some(kind), "{location} {error:?}");
            let mut writer = WriteMultipart::new(place.store.put_multipart(&path).await.unwrap());
            writer.write(&bytes);
            let error = writer.finish().await.unwrap_err();
            assert_eq!(kind_of(&error), Some(kind), "{location} {error:?}");
            place.server.as_ref().unwrap().set_knobs(Knobs::default());
            assert_clean(&place).await;
        }
    }
}

fn kind_of(error: &Error) -> Option<ErrorKind> {
    Some(std::error::Error::source(error)?.downcast_ref::<tidegate::Error>()?.kind())
}

#[tokio::test]
async fn an_update_of_nothing_that_the_store_could_know_sends_nothing() {
    for location in ["memory://bucket", "s3://bucket", "gs://bucket"] {
        let place = place(location, GcsTransport::Http).await;
        let path = Path::from("k");
        let written = place.store.put(&path, "old".into()).await.unwrap();
        let mut versions = vec![object_store::UpdateVersion { e_tag: None, version: None }];
        // The field by which this store identifies an object is missing.
        versions.push(match location {
            "gs://bucket" => object_store::UpdateVersion { e_tag: written.e_tag, version: None },
            _ => object_store::UpdateVersion { e_tag: None, version: Some("1".to_owned()) },
        });
        if location == "s3://bucket" {
            versions
                .push(object_store::UpdateVersion { e_tag: Some("W/\"weak\"".to_owned()), version: None });
        }
        let server = place.server.as_ref();
        server.iter().for_each(|server| server.reset_counts());
        for version in versions {
            let error =
                place.store.put_opts(&path, "new".into(), PutMode::Update(version).into()).await.unwrap_err();
            assert_eq!(kind_of(&error), Some(ErrorKind::InvalidInput), "{location}: {error:?}");
        }
        assert!(server.is_none_or(|server| server.counts().total() == 0), "{location}");
        assert_eq!(place.store.get(&path).await.unwrap().bytes().await.unwrap(), "old");
    }
}

/// With links, one file has two paths; a rename from one path to the other must not remove the file.
#[tokio::test]
async fn a_rename_to_the_same_file_by_another_way_removes_nothing() {
    let place = place("/", GcsTransport::Http).await;
    let root = place.directory.path();
    place.store.put(&Path::from("real/a"), "a".into()).await.unwrap();
    std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
    std::os::unix::fs::symlink(root.join("real/a"), root.join("to-a")).unwrap();
    std::fs::hard_link(root.join("real/a"), root.join("real/b")).unwrap();
    let read = async |key: &str| place.store.get(&Path::from(key)).await.unwrap().bytes().await.unwrap();
    place.store.rename(&Path::from("real/a"), &Path::from("link/a")).await.unwrap();
    place.store.rename(&Path::from("link/a"), &Path::from("real/a")).await.unwrap();
    assert_eq!(read("real/a").await, "a");
    // Two hard links to one file.
    place.store.rename(&Path::from("real/a"), &Path::from("real/b")).await.unwrap();
    assert_eq!(read("real/b").await, "a");
    place.store.copy(&Path::from("real/b"), &Path::from("real/a")).await.unwrap();
    // A write to the link writes the file.
    place.store.rename(&Path::from("real/a"), &Path::from("to-a")).await.unwrap();
    assert_eq!(read("to-a").await, "a");
    assert_eq!(read("real/a").await, "a");
}

#[tokio::test]
async fn a_version_that_is_not_there_any_more_is_not_another() {
    let place = place("gs://bucket", GcsTransport::Http).await;
    let path = Path::from("k");
    let old = place.store.put(&path, "old".into()).await.unwrap();
    let now = place.store.put(&path, "new".into()).await.unwrap();
    let of = |version: Option<String>| GetOptions::new().with_version(version);
    let read = place.store.get_opts(&path, of(now.version)).await.unwrap();
    assert_eq!(read.bytes().await.unwrap(), "new");
    let read = place.store.get_opts(&path, of(old.version)).await;
    assert!(matches!(read, Err(Error::NotSupported { .. })), "{read:?}");
}

#[tokio::test]
async fn tags_are_written_and_kept_by_copies() {
    let place = place("s3://bucket", GcsTransport::Http).await;
    let mut tags = object_store::TagSet::default();
    tags.push("team", "a b&c");
    let (from, to) = (Path::from("from"), Path::from("to"));
    place.store.put_opts(&from, "a".into(), tags.into()).await.unwrap();
    place.store.copy(&from, &to).await.unwrap();
    let server = place.server.as_ref().unwrap();
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    let backend = tidegate::backend::s3::S3::connect("bucket", &settings).await.unwrap();
    let kept =
        tidegate::backend::Admin::tags(&backend, "to", tidegate::backend::Attempt::FIRST).await.unwrap();
    assert_eq!(kept, [("team".to_owned(), "a b&c".to_owned())].into());
}

#[tokio::test]
async fn hundreds_of_uploads_share_a_small_memory() {
    let tide = Tidegate::builder().memory(16 << 20).build().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(TidegateStore::new(tide.open("memory://many").await.unwrap()));
    let uploads = futures::stream::iter(0..300).map(|number: u32| {
        let store = store.clone();
        async move {
            let path = Path::from(format!("k/{number:03}"));
            let mut upload = store.put_multipart(&path).await?;
            for piece in 0..40_u8 {
                upload.put_part(Bytes::from(vec![piece; 10_000]).into()).await?;
            }
            upload.complete().await
        }
    });
    let done: Result<Vec<_>> = uploads.buffer_unordered(300).try_collect().await;
    assert_eq!(done.unwrap().len(), 300);
    let listed: Vec<ObjectMeta> = store.list(None).try_collect().await.unwrap();
    assert!(listed.len() == 300 && listed.iter().all(|meta| meta.size == 400_000));
    assert!(tide.usage().peak <= 16 << 20);
}

#[tokio::test]
async fn an_update_whose_answer_is_lost_is_one_update() {
    for (location, operation) in [("s3://bucket", "PutObject"), ("gs://bucket", "storage.objects.insert")] {
        let place = place(location, GcsTransport::Http).await;
        let path = Path::from("k");
        let first = place.store.put(&path, "first".into()).await.unwrap();
        let faults = vec![tidegate_dev::FaultRule::lose_answer(operation).times(1)];
        let knobs = tidegate_dev::Knobs { faults, ..tidegate_dev::Knobs::default() };
        place.server.as_ref().unwrap().set_knobs(knobs);
        let of_first = || PutMode::Update(first.clone().into());
        let second = place.store.put_opts(&path, "second".into(), of_first().into()).await.unwrap();
        let stale = place.store.put_opts(&path, "third".into(), of_first().into()).await;
        assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
        let got = place.store.get(&path).await.unwrap();
        assert_eq!((&got.meta.e_tag, &got.meta.version), (&second.e_tag, &second.version));
        assert_eq!(got.bytes().await.unwrap(), "second");
    }
}
