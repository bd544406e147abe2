//! Pending uploads on stores that fail: lost answers, stores without sessions, and texts that are no pending uploads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use proptest::prelude::*;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::*;
use crate::backend::{Fault, FaultKind};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::upload::Pending;

/// What becomes of the request that publishes the object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Publication {
    CarriedOut,
    AnswerLost,
    NeverArrives,
}

/// A store that loses requests, and may have no sessions.
#[derive(Debug)]
struct Lossy {
    has_parts: bool,
    /// The fates of publications in order; the last one is that of all further ones.
    fates: Vec<Publication>,
    publications: AtomicUsize,
}

impl Lossy {
    fn store(tide: &Tidegate, has_parts: bool, fates: &[Publication]) -> Store {
        let capabilities = Capabilities {
            min_part: 4 * KIB,
            max_copy: 1 << 30,
            create_only_copy: true,
            ..Capabilities::default()
        };
        let script = Self { has_parts, fates: fates.to_vec(), publications: AtomicUsize::new(0) };
        tide.store(Scripted::new(Memory::new("test").with_capabilities(capabilities), script))
    }
}

#[async_trait]
impl Script for Lossy {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::Open { .. } if !self.has_parts => {
                Err(Fault::new(FaultKind::Unsupported, "there are no uploads in parts").with_answered(true))
            }
            Call::Complete { .. } | Call::Copy { .. } => {
                let at = self.publications.fetch_add(1, Relaxed).min(self.fates.len() - 1);
                let lost = || Fault::new(FaultKind::Transient, "the connection was closed");
                match self.fates[at] {
                    Publication::CarriedOut => below.send(call).await,
                    Publication::AnswerLost => below.send(call).await.and(Err(lost())),
                    Publication::NeverArrives => Err(lost()),
                }
            }
            call => below.send(call).await,
        }
    }
}

/// A pending upload that another process has read.
async fn prepared(store: &Store, size: u64) -> Result<Pending> {
    let mut writer = store.writer("k").create_only().await?;
    writer.write_bytes(data(size)).await?;
    let pending = writer.prepare().await?;
    Pending::from_json(&pending.to_json())
}

async fn own_keys(store: &Store) -> usize {
    store.list(".tidegate/").count().await
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_commit_is_settled_by_asking() -> Result<()> {
    use Publication::{AnswerLost, CarriedOut, NeverArrives};
    for has_parts in [true, false] {
        for fates in
            [&[CarriedOut][..], &[AnswerLost], &[NeverArrives, CarriedOut], &[NeverArrives, AnswerLost]]
        {
            let tide = engine();
            let store = Lossy::store(&tide, has_parts, fates);
            let pending = prepared(&store, PART).await?;
            assert!(!store.exists("k").await?);
            assert_eq!((store.list("").count().await, own_keys(&store).await), (1, 1));
            for _ in 0..3 {
                let object = store.commit(&pending).await?;
                assert_eq!(
                    (object.size, object.token.as_deref()),
                    (PART, Some(pending.token())),
                    "{fates:?}"
                );
            }
            assert_eq!(stored(&store, "k").await, data(PART));
            assert_eq!((own_keys(&store).await, store.sessions("").count().await), (0, 0));
        }
    }
    Ok(())
}

/// The price of publishing later, in requests. Each engine asks for the bucket's lifecycle rules once.
#[tokio::test]
async fn what_is_published_later_takes_few_requests_more() -> Result<()> {
    for (size, now, later) in [(100, 1, 6), (PART, 1, 6), (3 * PART, 5, 8)] {
        let requests = |tide: &Tidegate| tide.progress().snapshot().requests;
        let tide = engine();
        let mut writer = store(&tide).writer("k").await?;
        writer.write_bytes(data(size)).await?;
        writer.finish().await?;
        assert_eq!(requests(&tide), now, "{size}");
        let tide = engine();
        let store = store(&tide);
        let first = prepared(&store, 1).await?;
        store.commit(&first).await?;
        store.delete("k").await?;
        let before = requests(&tide);
        let pending = prepared(&store, size).await?;
        store.commit(&pending).await?;
        assert_eq!(requests(&tide) - before, later, "{size}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_request_is_lost_can_be_repeated() -> Result<()> {
    let tide = engine();
    for has_parts in [true, false] {
        let lost = [vec![Publication::NeverArrives; 40], vec![Publication::CarriedOut]].concat();
        let store = Lossy::store(&tide, has_parts, &lost);
        let pending = prepared(&store, 100).await?;
        let mut failed = 0;
        let object = loop {
            match store.commit(&pending).await {
                Ok(object) => break object,
                // Nothing is lost by it: the upload is as it was.
                Err(error) => {
                    assert!(!matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Closed), "{error}")
                }
            }
            failed += 1;
        };
        assert!(failed > 0);
        assert_eq!((object.size, own_keys(&store).await), (100, 0));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_without_sessions_publishes_a_copy_of_a_hidden_object() -> Result<()> {
    let tide = engine();
    let store = Lossy::store(&tide, false, &[Publication::CarriedOut]);
    let pending = prepared(&store, PART).await?;
    store.put("k", "other").await?;
    assert_eq!(store.commit(&pending).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(own_keys(&store).await, 1, "it can be committed when the key is free");
    store.abandon(&pending).await?;
    assert_eq!(store.commit(&pending).await.unwrap_err().kind(), ErrorKind::SessionLost);
    assert_eq!((stored(&store, "k").await, own_keys(&store).await), (Bytes::from("other"), 0));
    // More than one request holds.
    let mut writer = store.writer("large").await?;
    let refused = async {
        writer.write_bytes(data(3 * PART)).await?;
        writer.prepare().await
    };
    assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_nothing_but(&tide, &store, &["k"]).await;
    Ok(())
}

async fn assert_nothing_but(tide: &Tidegate, store: &Store, keys: &[&str]) {
    tide.settled().await;
    let listed: Vec<_> = store.list("").map(|entry| entry.unwrap().key().to_owned()).collect().await;
    assert_eq!(listed, keys, "no record is left either");
    assert_eq!((own_keys(store).await, store.sessions("").count().await), (0, 0));
}

#[tokio::test]
async fn a_writer_that_is_dropped_while_it_prepares_leaves_nothing() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut writer = store.writer("k").await?;
    writer.write_bytes(data(3 * PART)).await?;
    drop(writer.prepare());
    assert_nothing(&tide, &store).await;
    let mut writer = store.writer("k").exact_size(5).await?;
    writer.write_bytes(data(4)).await?;
    assert_eq!(writer.prepare().await.unwrap_err().kind(), ErrorKind::Source);
    assert_nothing(&tide, &store).await;
    Ok(())
}

/// A store that holds the write of a record until it is released.
#[derive(Debug, Default)]
struct HoldsRecords {
    held: Arc<Notify>,
    released: Arc<Notify>,
}

#[async_trait]
impl Script for HoldsRecords {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let is_record = matches!(&call, Call::Put { key, .. } if key.starts_with(".tidegate/"));
        if is_record {
            self.held.notify_one();
            self.released.notified().await;
        }
        below.send(call).await
    }
}

#[tokio::test]
async fn a_record_whose_request_is_in_flight_when_its_writer_is_dropped_is_removed() -> Result<()> {
    let tide = engine();
    let script = HoldsRecords::default();
    let (held, released) = (script.held.clone(), script.released.clone());
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    let store = tide.store(Scripted::new(Memory::new("test").with_capabilities(capabilities), script));
    let mut writer = store.writer("k").await?;
    writer.write_bytes(data(3 * PART)).await?;
    tokio::select! {
        prepared = writer.prepare() => panic!("{prepared:?}"),
        () = held.notified() => {}
    }
    let settled = tide.settled();
    tokio::pin!(settled);
    assert!(
        timeout(Duration::from_millis(50), &mut settled).await.is_err(),
        "the request is in flight still"
    );
    released.notify_one();
    settled.await;
    assert_nothing(&tide, &store).await;
    Ok(())
}

#[tokio::test]
async fn another_bucket_or_checksum_is_refused_before_any_request() -> Result<()> {
    let tide = engine();
    let here = store(&tide);
    let pending = prepared(&here, 10).await?;
    let elsewhere = tide.store(Arc::new(Memory::new("elsewhere")));
    for refused in [elsewhere.commit(&pending).await.map(drop), elsewhere.abandon(&pending).await] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("memory://test"), "{error}");
    }
    // A prefix of the bucket is the same bucket; the object's key is that of the bucket if it is outside of the prefix.
    let object = here.within("other/").commit(&pending).await?;
    assert_eq!(object.key, "k");
    Ok(())
}

const SECRET: &str = "https://storage.googleapis.com/upload?upload_id=SECRET";

#[tokio::test]
async fn an_address_that_is_a_secret_is_shown_nowhere() -> Result<()> {
    let pending = prepared(&store(&engine()), 10).await?;
    let mut json: serde_json::Value = serde_json::from_str(&pending.to_json()).unwrap();
    json["bytes"] = serde_json::json!({"kind": "append", "id": SECRET, "tail": {"inline": ""}});
    let pending = Pending::from_json(&json.to_string())?;
    let session = crate::backend::Session { key: "k".to_owned(), id: SECRET.to_owned() };
    for shown in [format!("{pending:?}"), format!("{session:?}"), format!("{:#?}", vec![session])] {
        assert!(!shown.contains("SECRET") && shown.contains("secret"), "{shown}");
    }
    json["bytes"]["tail"] = serde_json::json!(SECRET);
    let broken = json.to_string();
    for text in [&*broken, &broken[..broken.len() - 9], SECRET] {
        let error = Pending::from_json(text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(error.kind() == ErrorKind::InvalidInput && !shown.contains("SECRET"), "{shown}");
    }
    Ok(())
}

proptest! {
    /// A text from anywhere gives an error or a pending upload that is whole, never a panic.
    #[test]
    fn a_changed_text_is_refused_or_whole(at in any::<prop::sample::Index>(), with in any::<char>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pending = runtime.block_on(prepared(&store(&engine()), 3 * PART + 5)).unwrap();
        let mut text: Vec<char> = pending.to_json().chars().collect();
        let at = at.index(text.len());
        text[at] = with;
        if let Ok(read) = Pending::from_json(&text.into_iter().collect::<String>()) {
            prop_assert_eq!(read.size(), pending.size());
            prop_assert_eq!(read.checksum(), pending.checksum());
        }
    }
}

#[tokio::test]
async fn a_text_of_a_later_version_is_refused_with_that_reason() -> Result<()> {
    let pending = prepared(&store(&engine()), 10).await?;
    let later = pending.to_json().replace("\"version\":1", "\"version\":2");
    let error = Pending::from_json(&later).unwrap_err().to_string();
    assert!(error.contains("later version"), "{error}");
    Ok(())
}
