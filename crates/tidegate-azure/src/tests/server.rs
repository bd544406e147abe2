//! What Azure's blobs have and other stores' objects have not, on a server.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::TryStreamExt;

use super::*;
use tidegate::{ErrorKind, Tidegate};
use tidegate_core::testkit::samples::{bytes_of, memory_of};
use tidegate_core::testkit::scripted::{Answer, Below, Call, Script, Scripted};

const KIB: usize = 1 << 10;

fn engine() -> Tidegate {
    Tidegate::builder().part_size(64 * KIB as u64).build().unwrap()
}

fn payload(bytes: &[u8]) -> Payload {
    memory_of(bytes, Algorithm::Crc64Nvme)
}

async fn write(store: &tidegate::Store, key: &str, bytes: Vec<u8>) -> tidegate::Result<Object> {
    let mut writer = store.writer(key).await?;
    writer.write_bytes(Bytes::from(bytes)).await?;
    writer.finish().await
}

#[tokio::test]
#[ignore = "needs a server, which `scripts/test --only behaviour` starts"]
async fn tags_and_tiers_come_back_however_a_blob_is_written() {
    let store = new_container().await;
    let mut options = WriteOptions::default();
    options.attributes.tags = [("team 1".into(), "a=b/c+d".into()), ("x".into(), "".into())].into();
    options.attributes.storage_class = Some("Cool".into());
    store.put("put", payload(b"bytes"), &options, Attempt::FIRST).await.unwrap();
    let session = Parts::open(&store, "parts", &options, PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    let part = store.part(&session, 1, 0, payload(b"bytes").into(), Attempt::FIRST).await.unwrap();
    store.complete(&session, &[part], None, &options, Attempt::FIRST).await.unwrap();
    let face = engine().store(Arc::new(store.clone()));
    face.copy("put", &face, "copy").await.unwrap();
    for key in ["put", "parts", "copy"] {
        let head = store.head(key, Attempt::FIRST).await.unwrap();
        assert_eq!((head.tag_count, head.attributes.storage_class.as_deref()), (2, Some("Cool")), "{key}");
        assert_eq!(store.tags(key, Attempt::FIRST).await.unwrap(), options.attributes.tags, "{key}");
    }
    let plain = store.put("plain", payload(b""), &WriteOptions::default(), Attempt::FIRST).await.unwrap();
    let head = store.head("plain", Attempt::FIRST).await.unwrap();
    assert_eq!((plain.size, head.attributes.storage_class), (0, None));
    options.attributes.storage_class = Some("Warm".into());
    let fault = store.put("put", payload(b""), &options, Attempt::FIRST).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Invalid, "{fault}");
}

#[tokio::test]
#[ignore = "needs a server, which `scripts/test --only behaviour` starts"]
async fn another_writers_commit_ends_the_upload_with_session_lost() {
    let store = new_container().await;
    let (tide, other) = (engine(), engine());
    let face = tide.store(Arc::new(store.clone()));
    let data = bytes_of(200 * KIB);
    let mut writer = face.writer("k").await.unwrap();
    writer.write_bytes(Bytes::from(data.clone())).await.unwrap();
    while store.sessions("").try_collect::<Vec<_>>().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    write(&other.store(Arc::new(store.clone())), "k", vec![7; 200 * KIB]).await.unwrap();
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    assert_eq!(face.get("k").await.unwrap(), vec![7; 200 * KIB]);
    // The next upload of the key has nothing of it.
    write(&face, "k", data.clone()).await.unwrap();
    assert_eq!(face.get("k").await.unwrap(), data);
    assert!(tide.settled().await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server, which `scripts/test --only behaviour` starts"]
async fn blocks_of_another_program_do_not_keep_ours_from_being_sent() {
    let store = new_container().await;
    let face = engine().store(Arc::new(store.clone()));
    for length in [16, 24, 36, 48, 64] {
        let id = STANDARD.encode(vec![b'0'; length]);
        let url = store.container.url.blob("k", &[("blockid", &id), ("comp", "block")]).unwrap();
        let request = AzureRequest::new(Method::PUT, url, Attempt::FIRST);
        let content = request::AzureContent::Text(Bytes::from_static(b"theirs"));
        store.container.shared.ask(request.with(content)).await.unwrap();
        let data = bytes_of(100 * KIB + length);
        write(&face, "k", data.clone()).await.unwrap();
        assert_eq!(face.get("k").await.unwrap(), data);
    }
}

#[tokio::test]
#[ignore = "needs a server, which `scripts/test --only behaviour` starts"]
async fn sessions_are_shown_and_nothing_is_swept() {
    let store = new_container().await;
    let face = engine().store(Arc::new(store.clone()));
    let session =
        Parts::open(&store, "a/k", &WriteOptions::default(), PartOrigin::Sent, Attempt::FIRST).await.unwrap();
    store.part(&session, 1, 0, payload(b"bytes").into(), Attempt::FIRST).await.unwrap();
    let id = STANDARD.encode([b'0'; 24]);
    let url = store.container.url.blob("b", &[("blockid", &id), ("comp", "block")]).unwrap();
    let request = AzureRequest::new(Method::PUT, url, Attempt::FIRST);
    let content = request::AzureContent::Text(Bytes::from_static(b"theirs"));
    store.container.shared.ask(request.with(content)).await.unwrap();
    face.put("empty", Bytes::new()).await.unwrap();
    let open: Vec<_> = face.unfinished("").try_collect().await.unwrap();
    let shown: Vec<_> = open
        .iter()
        .map(|found| (&*found.open.session.key, found.held.as_ref().map(|held| held.bytes)))
        .collect();
    // What another program has sent cannot be taken apart.
    assert_eq!(shown, [("a/k", Some(5)), ("b", None)]);
    assert_eq!(open[0].open.session.id, session.id);
    let error = face.sweep("").older_than(std::time::Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("a week after"), "{error}");
    let error = face.abort_session(&session).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(face.unlisted_sessions().is_some());
}

#[tokio::test]
#[ignore = "needs a server, which `scripts/test --only behaviour` starts"]
async fn a_removal_never_takes_snapshots_with_it() {
    let store = new_container().await;
    let face = engine().store(Arc::new(store.clone()));
    face.put("k", Bytes::from_static(b"bytes")).await.unwrap();
    let url = store.container.url.blob("k", &[("comp", "snapshot")]).unwrap();
    store.container.shared.ask(AzureRequest::new(Method::PUT, url, Attempt::FIRST)).await.unwrap();
    let error = face.delete("k").await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::InvalidInput, 1), "{error}");
    assert!(error.to_string().contains("--delete-snapshots only"), "{error}");
    assert_eq!(face.get("k").await.unwrap(), b"bytes"[..]);
}

/// Loses the answers of the first completions, which are carried out.
#[derive(Debug)]
struct LosesCompletions(AtomicUsize);

#[async_trait]
impl Script for LosesCompletions {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let is_lost =
            matches!(call, Call::Complete { .. } | Call::Put { .. }) && self.0.fetch_add(1, Relaxed) == 0;
        let answer = below.send(call).await?;
        if is_lost { Err(Fault::new(FaultKind::Transient, "the connection was closed")) } else { Ok(answer) }
    }
}

#[tokio::test]
#[ignore = "needs a server, which `scripts/test --only behaviour` starts"]
async fn a_commit_whose_answer_was_lost_is_known_by_its_token() {
    let store = new_container().await;
    for (key, size) in [("parts", 200 * KIB), ("put", 5), ("nothing", 0)] {
        for create_only in [true, false] {
            let face = engine().store(Scripted::new(store.clone(), LosesCompletions(AtomicUsize::new(0))));
            let key = format!("{key}-{create_only}");
            let writer = face.writer(&key);
            let writer = if create_only { writer.create_only() } else { writer };
            let mut writer = writer.await.unwrap();
            writer.write_bytes(Bytes::from(bytes_of(size))).await.unwrap();
            assert_eq!(writer.finish().await.unwrap().size, size as u64, "{key}");
            assert_eq!(face.get(&key).await.unwrap(), bytes_of(size));
        }
    }
}
