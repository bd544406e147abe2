//! Every method against a server: the embedded one, or the store at `TIDEGATE_TEST_ENDPOINT` with the
//! credentials and region of the environment.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use tidegate_dev::{Action, Fault as Rule, Knobs, Server};

use super::*;
use crate::budget::{Budget, Slab};
use crate::object::Encryption;
use crate::payload::{Ring, SourceFile};

const MIB: usize = 1 << 20;

/// A bucket for one test.
struct Place {
    store: S3,
    server: Option<Server>,
}

async fn place() -> Place {
    place_with(|settings| settings).await
}

async fn place_with(change: impl FnOnce(S3Settings) -> S3Settings) -> Place {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if let Ok(endpoint) = std::env::var("TIDEGATE_TEST_ENDPOINT") {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let bucket = format!("s3-backend-{}-{count}", std::process::id());
        let settings = change(S3Settings::default().with_endpoint_url(endpoint));
        let store = S3::connect(&bucket, &settings).await.unwrap();
        let create = Request::new(Method::PUT, store.bucket.address.bucket(&[]));
        store.bucket.shared.ask(create).await.unwrap();
        return Place { store, server: None };
    }
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let settings = change(settings_for(&server));
    let store = S3::connect("bucket", &settings).await.unwrap();
    Place { store, server: Some(server) }
}

fn settings_for(server: &Server) -> S3Settings {
    let (access, secret) = server.credentials();
    S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None))
}

fn bytes_of(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn in_memory(data: &[u8]) -> Payload {
    memory_of(data, Algorithm::Crc64Nvme)
}

fn memory_of(data: &[u8], algorithm: Algorithm) -> Payload {
    let pieces = data.chunks(100_000).map(Bytes::copy_from_slice).collect();
    Payload::from_memory(pieces, Checksum::of(algorithm, data))
}

/// A file, and payloads that are read from it through two small slabs.
struct OnDisk {
    file: tempfile::NamedTempFile,
    source: Arc<SourceFile>,
    ring: Ring,
}

impl OnDisk {
    async fn new(data: &[u8]) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(data).unwrap();
        let source = Arc::new(SourceFile::open(file.path()).unwrap());
        let budget = Budget::new(1 << 20, 64 << 10);
        let slabs = vec![Slab::new(budget.lease(64 << 10).await), Slab::new(budget.lease(64 << 10).await)];
        Self { file, source, ring: Ring::new(slabs) }
    }

    fn payload(&self, range: Range<usize>) -> Payload {
        self.payload_of(range, Algorithm::Crc64Nvme)
    }

    fn payload_of(&self, range: Range<usize>, algorithm: Algorithm) -> Payload {
        let len = range.len() as u64;
        Payload::from_file(self.source.clone(), range.start as u64, len, self.ring.clone(), algorithm)
    }
}

async fn read_back(store: &S3, key: &str, range: Option<Range<u64>>) -> Vec<u8> {
    let body = store.get(key, range).await.unwrap();
    let expected = body.range.end - body.range.start;
    let pieces: Vec<Bytes> = body.stream.try_collect().await.unwrap();
    let all = pieces.concat();
    assert_eq!(all.len() as u64, expected);
    all
}

async fn kind<T>(answer: impl Future<Output = Result<T, Fault>>) -> (FaultKind, String) {
    match answer.await {
        Ok(_) => panic!("it succeeded"),
        Err(fault) => (fault.kind, fault.message),
    }
}

#[tokio::test]
async fn put_from_memory_and_from_a_file() {
    let place = place().await;
    for len in [0, 1, 300_000, 3 * MIB + 7] {
        let data = bytes_of(len);
        let sum = Checksum::of(Algorithm::Crc64Nvme, &data);
        let on_disk = OnDisk::new(&data).await;
        for (key, payload) in [("m", in_memory(&data)), ("f", on_disk.payload(0..len))] {
            let object = place.store.put(key, payload.clone(), &WriteOptions::default()).await.unwrap();
            assert_eq!((object.size, object.key.as_str()), (len as u64, key));
            assert!(object.etag.is_some());
            assert_ne!(object.matches(&sum), Some(false));
            let head = place.store.head(key).await.unwrap();
            assert_eq!((head.size, &head.etag, head.matches(&sum)), (len as u64, &object.etag, Some(true)));
            assert_eq!(head.attributes.content_encoding, None, "the framing is not the object's encoding");
            assert!(read_back(&place.store, key, None).await == data);
            // Again, its checksum known by now: a header, no trailer.
            place.store.put(key, payload, &WriteOptions::default()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn other_ways_to_guard_the_bytes() {
    let data = bytes_of(2 * MIB + 1);
    let on_disk = OnDisk::new(&data).await;
    for (checksum, trailers, sha256) in [
        (Algorithm::Crc32c, true, false),
        (Algorithm::Crc32c, false, true),
        (Algorithm::Crc64Nvme, false, false),
        (Algorithm::Crc64Nvme, true, true),
    ] {
        let place = place_with(|settings| {
            settings.with_checksum(checksum).with_trailers(trailers).with_payload_sha256(sha256)
        })
        .await;
        let sum = Checksum::of(checksum, &data);
        for payload in [memory_of(&data, checksum), on_disk.payload_of(0..data.len(), checksum)] {
            place.store.put("k", payload, &WriteOptions::default()).await.unwrap();
            assert_eq!(place.store.head("k").await.unwrap().matches(&sum), Some(true));
        }
        let session = place.store.open("parts", &WriteOptions::default()).await.unwrap();
        let part =
            place.store.part(&session, 1, 0, on_disk.payload_of(0..data.len(), checksum)).await.unwrap();
        let object = place.store.complete(&session, &[part], &sum, &WriteOptions::default()).await.unwrap();
        assert_eq!(object.matches(&sum), Some(true));
    }
}

#[tokio::test]
async fn a_session_becomes_an_object() {
    let place = place().await;
    let store = &place.store;
    let data = bytes_of(5 * MIB + 1000);
    let on_disk = OnDisk::new(&data).await;
    let options = WriteOptions { token: Some("writer-1".into()), ..WriteOptions::default() };
    let session = store.open("a/b", &options).await.unwrap();
    let open: Vec<OpenSession> = store.sessions("a/b").try_collect().await.unwrap();
    assert_eq!(open.iter().map(|open| &open.session).collect::<Vec<_>>(), [&session]);
    assert!(open[0].started.is_some());
    // Out of order, and the first sent twice.
    let second = store.part(&session, 2, 5 << 20, in_memory(&data[5 * MIB..])).await.unwrap();
    store.part(&session, 1, 0, on_disk.payload(0..5 * MIB)).await.unwrap();
    let first = store.part(&session, 1, 0, on_disk.payload(0..5 * MIB)).await.unwrap();
    assert_eq!(first.checksum, Checksum::of(Algorithm::Crc64Nvme, &data[..5 * MIB]));
    let whole = first.checksum.then(&second.checksum);
    let parts = [first, second];

    let wrong = Checksum::of(Algorithm::Crc64Nvme, &data[1..]);
    let (refused, said) = kind(store.complete(&session, &parts, &wrong, &options)).await;
    assert!(matches!(refused, FaultKind::Integrity | FaultKind::Invalid), "{said}");
    assert_eq!(kind(store.head("a/b")).await.0, FaultKind::NotFound);

    let object = store.complete(&session, &parts, &whole, &options).await.unwrap();
    assert_eq!((object.size, object.matches(&whole)), (data.len() as u64, Some(true)));
    let head = store.head("a/b").await.unwrap();
    assert_eq!((head.size, &head.etag, head.matches(&whole)), (object.size, &object.etag, Some(true)));
    assert_eq!(head.token.as_deref(), Some("writer-1"));
    assert!(head.attributes.metadata.is_empty());
    assert!(read_back(store, "a/b", None).await == data);
    assert_eq!(store.sessions("").try_collect::<Vec<_>>().await.unwrap(), []);
    let (gone, said) = kind(store.part(&session, 3, 0, in_memory(b"late"))).await;
    assert_eq!(gone, FaultKind::NoSession, "{said}");
}

#[tokio::test]
async fn an_aborted_session_is_gone() {
    let place = place().await;
    let session = place.store.open("k", &WriteOptions::default()).await.unwrap();
    place.store.part(&session, 1, 0, in_memory(b"x")).await.unwrap();
    place.store.abort(&session).await.unwrap();
    assert_eq!(kind(place.store.part(&session, 2, 0, in_memory(b"x"))).await.0, FaultKind::NoSession);
    assert_eq!(kind(place.store.head("k")).await.0, FaultKind::NotFound);
    if place.server.is_some() {
        // MinIO answers the second abort as if there were a session.
        assert_eq!(kind(place.store.abort(&session)).await.0, FaultKind::NoSession);
    }
}

#[tokio::test]
async fn create_only_is_the_stores_own_condition() {
    let place = place().await;
    let store = &place.store;
    let only = WriteOptions { create_only: true, ..WriteOptions::default() };
    let data = bytes_of(6 * MIB);
    let on_disk = OnDisk::new(&data).await;
    store.put("put", in_memory(b"1"), &only).await.unwrap();
    let (refused, said) = kind(store.put("put", in_memory(b"2"), &only)).await;
    assert_eq!(refused, FaultKind::Exists, "{said}");
    // Refused while the body is on its way, over and over.
    for _ in 0..10 {
        let (refused, said) = kind(store.put("put", on_disk.payload(0..data.len()), &only)).await;
        assert_eq!(refused, FaultKind::Exists, "{said}");
    }
    assert_eq!(read_back(store, "put", None).await, b"1");

    for expected in [None, Some(FaultKind::Exists)] {
        let session = store.open("parts", &only).await.unwrap();
        let part = store.part(&session, 1, 0, in_memory(b"part")).await.unwrap();
        let whole = part.checksum;
        let answer = store.complete(&session, &[part], &whole, &only).await;
        assert_eq!(answer.err().map(|fault| fault.kind), expected);
        if expected.is_some() {
            store.abort(&session).await.unwrap();
        }
    }
}

#[tokio::test]
async fn odd_keys_are_themselves() {
    let place = place().await;
    let keys = [
        "sp ace/a+b",
        "100%/%2F/%20",
        "naïve/日本/😀.txt",
        "q?x=1&y=2#frag",
        "-._~!$'()*,:;@=[]{}<>|^`\"",
        "...",
        "a/.hidden/..b",
        "trailing.",
    ];
    for key in keys {
        place.store.put(key, in_memory(key.as_bytes()), &WriteOptions::default()).await.unwrap();
        assert_eq!(read_back(&place.store, key, None).await, key.as_bytes(), "{key}");
        let session = place.store.open(key, &WriteOptions::default()).await.unwrap();
        place.store.abort(&session).await.unwrap();
    }
    let mut listed = names(&place.store, "", true).await;
    listed.sort();
    let mut expected: Vec<_> = keys.map(str::to_owned).into();
    expected.sort();
    assert_eq!(listed, expected);
    for key in keys {
        place.store.delete(key).await.unwrap();
    }
    assert_eq!(names(&place.store, "", true).await, [""; 0]);
    // MinIO keeps objects as files and takes neither empty segments nor a leading slash.
    if place.server.is_some() {
        for key in ["/lead", "a//b", "dir/", "\\back", "tab\tnew\nline"] {
            place.store.put(key, in_memory(key.as_bytes()), &WriteOptions::default()).await.unwrap();
            assert_eq!(read_back(&place.store, key, None).await, key.as_bytes(), "{key}");
        }
    }
    for key in ["", "a/../b", "./a", ".."] {
        assert_eq!(kind(place.store.head(key)).await.0, FaultKind::Invalid, "{key}");
    }
}

async fn names(store: &S3, prefix: &str, recursive: bool) -> Vec<String> {
    let entries: Vec<Entry> = store.list(prefix, recursive).try_collect().await.unwrap();
    let name = |entry| match entry {
        Entry::Object(object) => object.key,
        Entry::Prefix(prefix) => prefix,
    };
    entries.into_iter().map(name).collect()
}

#[tokio::test]
async fn listings_go_over_pages() {
    let place = place().await;
    let count = 1003;
    let puts = stream::iter((0..count).map(|at| {
        let store = place.store.clone();
        async move { store.put(&format!("many/{at:04}"), in_memory(b"x"), &WriteOptions::default()).await }
    }));
    puts.buffer_unordered(16).try_collect::<Vec<_>>().await.unwrap();
    place.store.put("many.txt", in_memory(b"xyz"), &WriteOptions::default()).await.unwrap();
    let all = names(&place.store, "many/", true).await;
    assert_eq!(all, (0..count).map(|at| format!("many/{at:04}")).collect::<Vec<_>>());
    assert_eq!(names(&place.store, "", false).await, ["many.txt", "many/"]);
    assert_eq!(names(&place.store, "none", false).await, [""; 0]);
    let entries: Vec<Entry> = place.store.list("many.", true).try_collect().await.unwrap();
    let [Entry::Object(object)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(object.size, 3);
    assert!(object.modified.is_some() && object.etag.is_some());
}

#[tokio::test]
async fn ranges_are_what_was_asked_for() {
    let place = place().await;
    let data = bytes_of(1000);
    place.store.put("k", in_memory(&data), &WriteOptions::default()).await.unwrap();
    for (asked, got) in [(0..10, 0..10), (990..2000, 990..1000), (5..5, 5..5), (0..1000, 0..1000)] {
        let body = place.store.get("k", Some(asked.clone())).await.unwrap();
        assert_eq!((body.range, body.object.size), (got.clone(), 1000));
        let expected = &data[got.start as usize..got.end as usize];
        assert_eq!(read_back(&place.store, "k", Some(asked)).await, expected);
    }
    let (refused, said) = kind(place.store.get("k", Some(1000..1001))).await;
    assert_eq!(refused, FaultKind::Invalid, "{said}");
}

#[tokio::test]
async fn attributes_come_back() {
    let place = place().await;
    let mut options = WriteOptions { token: Some("t".into()), ..WriteOptions::default() };
    let attributes = &mut options.attributes;
    attributes.content_type = Some("application/x-thing; v=1".into());
    attributes.cache_control = Some("max-age=60".into());
    attributes.content_encoding = Some("gzip".into());
    attributes.content_disposition = Some("attachment; filename=\"a b.txt\"".into());
    attributes.metadata = [("owner".into(), "me and  you".into()), ("n-2".into(), "1".into())].into();
    let data = bytes_of(100_000);
    let on_disk = OnDisk::new(&data).await;
    for key in ["memory", "file", "parts"] {
        match key {
            "memory" => drop(place.store.put(key, in_memory(&data), &options).await.unwrap()),
            "file" => drop(place.store.put(key, on_disk.payload(0..data.len()), &options).await.unwrap()),
            _ => {
                let session = place.store.open(key, &options).await.unwrap();
                let part = place.store.part(&session, 1, 0, on_disk.payload(0..data.len())).await.unwrap();
                let whole = part.checksum;
                place.store.complete(&session, &[part], &whole, &options).await.unwrap();
            }
        }
        let mut head = place.store.head(key).await.unwrap();
        head.attributes.storage_class = None;
        assert_eq!(head.attributes.content_type, options.attributes.content_type, "{key}");
        assert_eq!(head.attributes, options.attributes, "{key}");
        assert_eq!(head.token.as_deref(), Some("t"));
        let body = place.store.get(key, None).await.unwrap();
        assert_eq!(body.object.attributes.metadata, options.attributes.metadata);
    }
    options.attributes.tags = [("team".into(), "a b".into())].into();
    options.attributes.storage_class = Some("REDUCED_REDUNDANCY".into());
    place.store.put("tagged", in_memory(&data), &options).await.unwrap();
    let head = place.store.head("tagged").await.unwrap();
    assert_eq!(head.attributes.storage_class.as_deref(), Some("REDUCED_REDUNDANCY"));
}

#[tokio::test]
async fn encryption_is_asked_for() {
    let mut options = WriteOptions::default();
    options.attributes.encryption = Some(Encryption::Managed);
    let headers = attributes::to_headers(&options).unwrap();
    assert_eq!(headers["x-amz-server-side-encryption"], "AES256");
}

#[tokio::test]
async fn a_source_that_changes_is_the_sources_fault() {
    let place = place().await;
    let data = bytes_of(4 * MIB);
    for attempt in 0..5 {
        let on_disk = OnDisk::new(&data).await;
        let payload = on_disk.payload(0..data.len());
        on_disk.file.as_file().set_len(MIB as u64).unwrap();
        let (refused, said) = kind(place.store.put("k", payload, &WriteOptions::default())).await;
        assert_eq!(refused, FaultKind::Source, "{attempt}: {said}");
        assert!(said.contains("the source was"), "{said}");
    }
    assert_eq!(kind(place.store.head("k")).await.0, FaultKind::NotFound);
    // The client is none the worse for it.
    place.store.put("k", in_memory(&data), &WriteOptions::default()).await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_told_apart() {
    let place = place().await;
    let store = &place.store;
    assert_eq!(kind(store.get("none", None)).await.0, FaultKind::NotFound);
    assert_eq!(kind(store.head("none")).await.0, FaultKind::NotFound);
    store.delete("none").await.unwrap();
    let client = S3Client { shared: store.bucket.shared.clone() };
    let missing = client.bucket("there-is-no-such-bucket").unwrap();
    let (refused, said) = kind(missing.put("k", in_memory(b"x"), &WriteOptions::default())).await;
    assert_eq!(refused, FaultKind::NoBucket, "{said}");
    assert_eq!(kind(missing.list("", true).try_next()).await.0, FaultKind::NoBucket);
    let session = Session { key: "k".into(), id: "none".into() };
    assert_eq!(kind(store.part(&session, 1, 0, in_memory(b"x"))).await.0, FaultKind::NoSession);
}

#[tokio::test]
async fn wrong_credentials_are_named() {
    let place = place().await;
    for (access, part) in [("nobody", "does not know the access key"), ("", "signature is refused")] {
        let mut settings = place.store.bucket.shared.settings.clone();
        let known = match &place.server {
            Some(server) => server.credentials().0.to_owned(),
            None => std::env::var("AWS_ACCESS_KEY_ID").unwrap(),
        };
        let access = if access.is_empty() { known } else { access.to_owned() };
        settings = settings.with_credentials(Credentials::fixed(access, "wrong-secret", None));
        let store = S3::connect("bucket", &settings).await.unwrap();
        let (refused, said) = kind(store.put("k", in_memory(b"x"), &WriteOptions::default())).await;
        assert_eq!(refused, FaultKind::Credentials, "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn a_store_that_is_not_there() {
    let settings = S3Settings::default()
        .with_endpoint_url("http://127.0.0.1:1")
        .with_credentials(Credentials::anonymous());
    let store = S3::connect("b", &settings).await.unwrap();
    let (refused, said) = kind(store.head("k")).await;
    assert_eq!((refused, said.as_str()), (FaultKind::Transient, "connection refused by 127.0.0.1:1"));
}

#[tokio::test]
async fn faults_of_the_server_are_classified() {
    let Place { store, server: Some(server) } = place().await else { return };
    let on_disk = OnDisk::new(&bytes_of(8 * MIB)).await;
    let slow_down = Action::Error { status: 503, code: "SlowDown".into(), retry_after: Some(3) };
    let failed = Action::Error { status: 500, code: "InternalError".into(), retry_after: None };
    for (action, expected, after) in [
        (slow_down, FaultKind::Throttled, Some(3)),
        (failed, FaultKind::Transient, None),
        (Action::LoseAnswer, FaultKind::Transient, None),
        (Action::ResetRequest { after_bytes: 0 }, FaultKind::Transient, None),
    ] {
        let rule = Rule::new("PutObject", action.clone());
        server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
        for payload in [in_memory(b"x"), on_disk.payload(0..8 * MIB)] {
            let fault = store.put("k", payload, &WriteOptions::default()).await.unwrap_err();
            assert_eq!(fault.kind, expected, "{action:?}: {}", fault.message);
            assert_eq!(fault.retry_after, after.map(Duration::from_secs));
        }
    }
    server.set_knobs(Knobs::default());
    store.put("k", in_memory(b"x"), &WriteOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_completion_that_fails_after_its_status_is_a_fault() {
    let Place { store, server: Some(server) } = place().await else { return };
    let session = store.open("k", &WriteOptions::default()).await.unwrap();
    let part = store.part(&session, 1, 0, in_memory(b"x")).await.unwrap();
    let parts = [part.clone()];
    let rule = Rule::new("CompleteMultipartUpload", Action::ErrorIn200 { code: "InternalError".into() });
    server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
    let (refused, said) =
        kind(store.complete(&session, &parts, &part.checksum, &WriteOptions::default())).await;
    assert_eq!(refused, FaultKind::Transient, "{said}");
    assert!(said.contains("InternalError"), "{said}");
    server.set_knobs(Knobs::default());
    store.complete(&session, &parts, &part.checksum, &WriteOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_body_that_ends_early_is_a_fault() {
    let Place { store, server: Some(server) } = place().await else { return };
    store.put("k", in_memory(&bytes_of(2 * MIB)), &WriteOptions::default()).await.unwrap();
    let rule = Rule::new("GetObject", Action::ResetResponse { after_bytes: 1 << 20 });
    server.set_knobs(Knobs { faults: vec![rule], ..Knobs::default() });
    let body = store.get("k", None).await.unwrap();
    let (cut, said) = kind(body.stream.try_collect::<Vec<_>>()).await;
    assert_eq!(cut, FaultKind::Transient, "{said}");
}
