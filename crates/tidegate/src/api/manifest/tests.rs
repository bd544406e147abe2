mod checked_again;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::join;
use tokio::time::{sleep, timeout};

use super::intent::{INTENTS, Pointer, Purpose};
use super::*;
use crate::backend::memory::Memory;
use crate::backend::{Fault, FaultKind};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::object::Object;
use crate::upload::PrepareBuilder;
use crate::{Store, Tidegate};

/// A store whose requests take a millisecond.
#[derive(Debug)]
struct Slow;

#[async_trait]
impl Script for Slow {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        sleep(Duration::from_millis(1)).await;
        below.send(call).await
    }
}

/// The bucket as another process sees it.
fn process<S: Script + 'static>(backend: &Arc<Scripted<S>>) -> Store {
    Tidegate::builder().build().unwrap().store(backend.clone())
}

fn bucket() -> Arc<Scripted<Slow>> {
    Scripted::new(Memory::new("test"), Slow)
}

const POINTER: &str = "t/pointer.json";

async fn prepare(store: &Store, count: usize) -> Result<Manifest> {
    let mut uploads = Vec::new();
    for number in 0..count {
        let mut writer = store.writer(format!("t/{number}")).await?;
        writer.write_bytes(format!("rows of {number}").into()).await?;
        uploads.push(writer.prepare());
    }
    let manifest = store.prepare_all(POINTER, uploads).await?;
    Manifest::from_json(&manifest.to_json())
}

/// The keys of objects that are not Tidegate's own, and those that are.
async fn keys(store: &Store) -> Result<(Vec<String>, Vec<String>)> {
    let listed: Vec<Result<crate::Entry>> = store.list("").collect().await;
    let keys: Result<Vec<String>> =
        listed.into_iter().map(|entry| entry.map(|entry| entry.key().to_owned())).collect();
    Ok(keys?.into_iter().partition(|key| !key.starts_with(".tidegate/")))
}

#[tokio::test(start_paused = true)]
async fn a_set_is_published_with_its_pointer_last() -> Result<()> {
    let bucket = bucket();
    let manifest = prepare(&process(&bucket), 3).await?;
    assert_eq!(keys(&process(&bucket)).await?.0, Vec::<String>::new());
    let objects: Vec<Object> = process(&bucket).commit_all(&manifest).await?;
    assert_eq!(objects.iter().map(|object| &*object.key).collect::<Vec<_>>(), ["t/0", "t/1", "t/2"]);
    let (visible, own) = keys(&process(&bucket)).await?;
    assert_eq!((visible.len(), own), (4, Vec::new()));
    let pointer: Pointer = serde_json::from_slice(&process(&bucket).get(POINTER).await?).unwrap();
    assert_eq!((pointer.objects.len(), &*pointer.objects[1].key, pointer.objects[1].size), (3, "t/1", 9));
    // Again, and from the store alone.
    assert_eq!(process(&bucket).commit_all(&manifest).await?.len(), 3);
    assert!(process(&bucket).roll_forward(POINTER).await?.is_none());
    let refused = process(&bucket).abandon_all(&manifest).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    Ok(())
}

/// Cut off at every millisecond: before the intent nothing is visible; from it on any process ends with all.
#[tokio::test(start_paused = true)]
async fn wherever_it_is_cut_off_another_process_ends_with_all_or_nothing() -> Result<()> {
    let (mut before, mut between) = (0, 0);
    for cut in 0..60 {
        let bucket = bucket();
        let manifest = prepare(&process(&bucket), 20).await?;
        let cut_off = timeout(Duration::from_millis(cut), process(&bucket).commit_all(&manifest)).await;
        let (visible, own) = keys(&process(&bucket)).await?;
        let has_intent = own.iter().any(|key| key.starts_with(INTENTS));
        if visible.contains(&POINTER.to_owned()) {
            assert_eq!(visible.len(), 21, "the pointer comes last");
        }
        if cut_off.is_err() && !has_intent && visible.is_empty() {
            before += 1;
            process(&bucket).abandon_all(&manifest).await?;
            assert_eq!(keys(&process(&bucket)).await?, (Vec::new(), Vec::new()));
            continue;
        }
        between += usize::from(has_intent);
        let ended = process(&bucket).roll_forward(POINTER).await?;
        assert_eq!(ended.is_some(), has_intent, "cut at {cut} ms");
        let (visible, own) = keys(&process(&bucket)).await?;
        assert_eq!((visible.len(), own.len()), (21, 0), "cut at {cut} ms");
    }
    assert!(before > 0 && between > 2, "{before} {between}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_two_sets_with_one_pointer_one_is_published() -> Result<()> {
    for delay in 0..12 {
        let bucket = bucket();
        let (one, other) = (process(&bucket), process(&bucket));
        let first = prepare(&one, 2).await?;
        let mut writer = other.writer("u/0").await?;
        writer.write_bytes("other rows".into()).await?;
        let second = other.prepare_all(POINTER, [writer.prepare()]).await?;
        let late = async {
            sleep(Duration::from_millis(delay)).await;
            other.commit_all(&second).await
        };
        let (first_ended, second_ended) = join(one.commit_all(&first), late).await;
        assert_eq!(first_ended?.len(), 2);
        assert_eq!(second_ended.unwrap_err().kind(), ErrorKind::AlreadyExists, "after {delay} ms");
        other.abandon_all(&second).await?;
        let (visible, own) = keys(&one).await?;
        assert_eq!((visible, own.len()), (vec!["t/0".into(), "t/1".into(), POINTER.into()], 0));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_commit_one_set_at_once_agree() -> Result<()> {
    for delay in 0..12 {
        let bucket = bucket();
        let (one, other) = (process(&bucket), process(&bucket));
        let manifest = prepare(&one, 4).await?;
        let late = async {
            sleep(Duration::from_millis(delay)).await;
            other.commit_all(&manifest).await
        };
        let (first, second) = join(one.commit_all(&manifest), late).await;
        assert_eq!((first?.len(), second?.len()), (4, 4));
        assert_eq!(keys(&one).await?.0.len(), 5);
    }
    Ok(())
}

#[tokio::test]
async fn a_set_without_uploads_has_its_pointer_alone() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let set = store.manifest(POINTER, [])?;
    assert_eq!((Manifest::from_json(&set.to_json())?, set.url()), (set.clone(), ""));
    store.claim(&set, Purpose::Publish).await?;
    assert!(matches!(store.find_set(POINTER).await?, SetProgress::Begun(begun) if begun == set));
    let other = prepare(&store, 1).await?;
    assert_eq!(store.commit_all(&other).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(store.roll_forward(POINTER).await?, Some(Vec::new()));
    assert_visible(&store, &[POINTER]).await?;
    assert!(matches!(store.find_set(POINTER).await?, SetProgress::Complete(objects) if objects.is_empty()));
    Ok(())
}

#[tokio::test]
async fn sets_that_make_no_sense_are_refused() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    assert_eq!(Manifest::new("p", []).unwrap_err().kind(), ErrorKind::InvalidInput);
    let manifest = prepare(&store, 2).await?;
    let twice = [manifest.pending()[0].clone(), manifest.pending()[0].clone()];
    assert_eq!(Manifest::new("p", twice).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(
        Manifest::new("t/1", manifest.pending().to_vec()).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let other = manifest.to_json().replace("\"set\":\"", "\"set\":\"0");
    assert_eq!(Manifest::from_json(&other).unwrap_err().kind(), ErrorKind::InvalidInput);
    store.abandon_all(&manifest).await?;
    assert_eq!(store.commit_all(&manifest).await.unwrap_err().kind(), ErrorKind::SessionLost);
    Ok(())
}

async fn upload(store: &Store, key: &str) -> Result<PrepareBuilder> {
    let mut writer = store.writer(key).await?;
    writer.write_bytes(format!("rows of {key}").into()).await?;
    Ok(writer.prepare())
}

/// Nothing is visible but these keys, and no intent is there.
async fn assert_visible(store: &Store, expected: &[&str]) -> Result<()> {
    let (visible, own) = keys(store).await?;
    assert_eq!(visible, expected);
    assert!(!own.iter().any(|key| key.starts_with(INTENTS)), "{own:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_set_with_a_lost_upload_is_refused_before_anything_is_visible() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let manifest = prepare(&store, 3).await?;
    store.abandon(&manifest.pending()[1]).await?;
    let refused = store.commit_all(&manifest).await.unwrap_err();
    assert_eq!((refused.kind(), refused.object()), (ErrorKind::SessionLost, "memory://test/t/1"));
    assert!(refused.to_string().contains("the set was not begun"), "{refused}");
    assert_visible(&store, &[]).await?;
    assert_eq!(store.roll_forward(POINTER).await.unwrap_err().kind(), ErrorKind::NotFound);
    store.abandon_all(&manifest).await?;
    // The pointer is free.
    let other = store.prepare_all(POINTER, [upload(&store, "u").await?]).await?;
    store.commit_all(&other).await?;
    assert_visible(&store, &[POINTER, "u"]).await
}

#[tokio::test(start_paused = true)]
async fn a_set_with_a_condition_that_fails_is_refused_before_anything_is_visible() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let before = store.put("old", "version 1").await?;
    let mut create = store.writer("new").create_only().await?;
    create.write_bytes("created".into()).await?;
    let mut replace = store.writer("old").replaces(before).await?;
    replace.write_bytes("version 2".into()).await?;
    let uploads = [upload(&store, "t/0").await?, create.prepare(), replace.prepare()];
    let manifest = store.prepare_all(POINTER, uploads).await?;
    store.put("new", "another writer's").await?;
    let refused = store.commit_all(&manifest).await.unwrap_err();
    assert_eq!((refused.kind(), refused.object()), (ErrorKind::AlreadyExists, "memory://test/new"));
    assert_visible(&store, &["new", "old"]).await?;
    store.delete("new").await?;
    let version = store.put("old", "another writer's").await?;
    let refused = store.commit_all(&manifest).await.unwrap_err();
    assert_eq!((refused.kind(), refused.object()), (ErrorKind::Replaced, "memory://test/old"));
    assert_visible(&store, &["old"]).await?;
    store.delete_if_unchanged("old", &version).await?;
    assert_eq!(store.commit_all(&manifest).await.unwrap_err().kind(), ErrorKind::Replaced);
    store.abandon_all(&manifest).await?;
    assert_eq!(keys(&store).await?, (Vec::new(), Vec::new()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_set_of_another_bucket_is_refused_before_its_intent() -> Result<()> {
    let (bucket, other) = (bucket(), Scripted::new(Memory::new("other"), Slow));
    let manifest = prepare(&process(&bucket), 2).await?;
    let store = process(&other);
    assert_eq!(store.commit_all(&manifest).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(keys(&store).await?, (Vec::new(), Vec::new()));
    Ok(())
}

/// Leaves a set behind of whose 20 uploads some are visible: a process died in the middle.
async fn cut_off_in_the_middle(bucket: &Arc<Scripted<Slow>>) -> Result<(Manifest, Vec<String>)> {
    let store = process(bucket);
    let mut uploads = Vec::new();
    for number in 0..100 {
        uploads.push(upload(&store, &format!("t/{number:03}")).await?);
    }
    let manifest = store.prepare_all(POINTER, uploads).await?;
    for cut in 0..100 {
        let _ = timeout(Duration::from_millis(cut), process(bucket).commit_all(&manifest)).await;
        let (visible, own) = keys(&store).await?;
        if !visible.is_empty() {
            assert!(visible.len() < 100 && own.iter().any(|key| key.starts_with(INTENTS)), "{visible:?}");
            return Ok((manifest, visible));
        }
    }
    panic!("no cut is in the middle");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_loses_an_upload_after_its_intent_says_so_and_can_be_ended() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let (manifest, visible) = cut_off_in_the_middle(&bucket).await?;
    assert_eq!(store.abandon_all(&manifest).await.unwrap_err().kind(), ErrorKind::Closed);
    let can_be_completed = store.abandon_set(POINTER).await.unwrap_err();
    assert_eq!(can_be_completed.kind(), ErrorKind::Closed, "{can_be_completed}");
    assert_eq!(keys(&store).await?.0, visible, "nothing was given up");
    let lost = manifest.pending().iter().find(|pending| !visible.iter().any(|key| key == pending.key()));
    let lost = lost.expect("not all are visible");
    store.abandon(lost).await?;
    for _ in 0..2 {
        let refused = store.roll_forward(POINTER).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SessionLost);
        assert!(refused.object().ends_with(lost.key()), "{refused}");
        assert!(refused.to_string().contains("tidegate abandon --manifest"), "{refused}");
        assert_eq!(keys(&store).await?.0, visible, "no more is published of a set that cannot be completed");
    }
    let ended = store.abandon_set(POINTER).await?;
    let keys_of =
        |pending: &[Pending]| pending.iter().map(|pending| pending.key().to_owned()).collect::<Vec<_>>();
    assert_eq!(keys_of(&ended.visible), visible);
    assert_eq!(ended.abandoned.len() + visible.len(), 100);
    assert_eq!(keys(&store).await?, (visible.clone(), Vec::new()));
    assert_eq!(store.abandon_set(POINTER).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.commit_all(&manifest).await.unwrap_err().kind(), ErrorKind::SessionLost);
    let other = store.prepare_all(POINTER, [upload(&store, "u").await?]).await?;
    store.commit_all(&other).await?;
    assert!(store.exists(POINTER).await?);
    Ok(())
}

/// A store that is publishing its objects for another process: it shows neither parts nor objects before a completion has
/// waited for that.
#[derive(Debug)]
struct Publishing;

#[async_trait]
impl Script for Publishing {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::StoredParts { .. } => Err(Fault::new(FaultKind::NoSession, "no such upload")),
            call => below.send(call).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_was_begun_is_completed_while_the_store_shows_no_parts() -> Result<()> {
    let memory = Memory::new("test");
    let (slow, publishing) = (Scripted::new(memory.clone(), Slow), Scripted::new(memory, Publishing));
    let (manifest, visible) = cut_off_in_the_middle(&slow).await?;
    let store = process(&publishing);
    let completed = store.roll_forward(POINTER).await?;
    assert_eq!(completed.map(|objects| objects.len()), Some(manifest.pending().len()));
    assert!(visible.len() < 100 && keys(&store).await?.0.len() == 101);
    // What is not begun may be refused: nobody is publishing it.
    let other = store.prepare_all("other", [upload(&store, "u").await?]).await?;
    let refused = store.commit_all(&other).await.unwrap_err();
    assert!(refused.to_string().contains("the set was not begun"), "{refused}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_set_that_was_begun_is_not_given_up_while_the_store_shows_no_parts() -> Result<()> {
    let memory = Memory::new("test");
    let (slow, publishing) = (Scripted::new(memory.clone(), Slow), Scripted::new(memory, Publishing));
    let (manifest, _) = cut_off_in_the_middle(&slow).await?;
    let refused = process(&publishing).abandon_set(POINTER).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    assert_eq!(process(&slow).commit_all(&manifest).await?.len(), 100);
    Ok(())
}

/// At every moment, one of both succeeds and the other fails, or neither changes anything; never is a part of the set visible.
#[tokio::test(start_paused = true)]
async fn a_set_is_published_or_given_up_whoever_comes_first() -> Result<()> {
    let (mut published, mut given_up) = (0, 0);
    for delay in 0..30_i64 {
        let bucket = bucket();
        let (one, other) = (process(&bucket), process(&bucket));
        let manifest = prepare(&one, 8).await?;
        let after = |wait: i64| sleep(Duration::from_millis(wait.max(0).unsigned_abs()));
        let commit = async {
            after(10 - delay).await;
            one.commit_all(&manifest).await
        };
        let abandon = async {
            after(delay - 10).await;
            other.abandon_all(&manifest).await
        };
        let (committed, abandoned) = join(commit, abandon).await;
        let (visible, own) = keys(&one).await?;
        match (committed, abandoned) {
            (Ok(objects), Err(refused)) => {
                assert_eq!((objects.len(), visible.len(), refused.kind()), (8, 9, ErrorKind::Closed));
                published += 1;
            }
            (Err(refused), Ok(())) => {
                assert_eq!((refused.kind(), visible.len()), (ErrorKind::SessionLost, 0), "{refused}");
                given_up += 1;
            }
            both => panic!("{both:?} after {delay} ms"),
        }
        assert_eq!(own, Vec::<String>::new(), "after {delay} ms");
    }
    assert!(published > 0 && given_up > 0, "{published} {given_up}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_given_up_is_not_published() -> Result<()> {
    for cut in 0..12 {
        let bucket = bucket();
        let store = process(&bucket);
        let manifest = prepare(&store, 3).await?;
        let _ = timeout(Duration::from_millis(cut), process(&bucket).abandon_all(&manifest)).await;
        let intent = store.read_intent(POINTER).await?;
        if intent.is_none() {
            continue;
        }
        assert_eq!(intent.map(|intent| intent.purpose), Some(Purpose::Abandon));
        let refused = store.commit_all(&manifest).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SessionLost, "{refused}");
        assert_eq!(store.roll_forward(POINTER).await.unwrap_err().kind(), ErrorKind::Closed);
        let other = store.prepare_all(POINTER, [upload(&store, "u").await?]).await?;
        assert_eq!(store.commit_all(&other).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        if cut % 2 == 0 {
            assert_eq!(store.abandon_set(POINTER).await?.abandoned.len(), 3);
        } else {
            store.abandon_all(&manifest).await?;
        }
        assert_visible(&store, &[]).await?;
        store.commit_all(&other).await?;
        return Ok(());
    }
    panic!("no cut is in the middle");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_nobody_has_begun_is_not_taken_for_complete() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    assert_eq!(store.roll_forward(POINTER).await.unwrap_err().kind(), ErrorKind::NotFound);
    store.put(POINTER, "no pointer").await?;
    assert_eq!(store.roll_forward(POINTER).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let manifest = prepare(&store, 2).await?;
    assert_eq!(store.commit_all(&manifest).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_visible(&store, &[POINTER]).await
}

/// A process that is late removes only the intent that it has read.
#[tokio::test(start_paused = true)]
async fn the_intent_of_another_set_is_not_removed() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let first = prepare(&store, 2).await?;
    let other = store.prepare_all(POINTER, [upload(&store, "u").await?]).await?;
    let claimed = |claim| match claim {
        intent::Claim::New(intent) | intent::Claim::Held(intent) => intent,
        intent::Claim::Taken(there) => panic!("{there:?}"),
    };
    let late = claimed(store.claim(&first, Purpose::Publish).await?);
    store.remove_intent(&late).await?;
    claimed(store.claim(&other, Purpose::Publish).await?);
    store.remove_intent(&late).await?;
    assert!(store.read_intent(POINTER).await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_was_prepared_of_a_set_that_fails_or_is_dropped_is_abandoned() -> Result<()> {
    for cut in 0..40 {
        let bucket = bucket();
        let store = process(&bucket);
        let mut uploads = Vec::new();
        for number in 0..70 {
            uploads.push(upload(&store, &format!("t/{number}")).await?);
        }
        let prepared = timeout(Duration::from_millis(cut), store.prepare_all(POINTER, uploads)).await;
        assert!(store.tide().settled().await.is_empty());
        if prepared.is_ok() {
            assert!(cut > 3, "no cut is in the middle");
            return Ok(());
        }
        let open: Vec<_> = crate::backend::Backend::admin(&*bucket).unwrap().sessions("").collect().await;
        assert!(open.is_empty(), "cut at {cut} ms: {open:?}");
    }
    panic!("no cut is at the end");
}

#[tokio::test(start_paused = true)]
async fn what_was_prepared_of_a_set_with_an_upload_that_fails_is_abandoned() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let mut cut_short = store.writer("t/1").exact_size(100).await?;
    cut_short.write_bytes("fewer bytes".into()).await?;
    let uploads = [upload(&store, "t/0").await?, cut_short.prepare(), upload(&store, "t/2").await?];
    let failed = store.prepare_all(POINTER, uploads).await.unwrap_err();
    assert!(failed.object().ends_with("t/1"), "{failed}");
    store.tide().settled().await;
    let open: Vec<_> = crate::backend::Backend::admin(&*bucket).unwrap().sessions("").collect().await;
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(keys(&store).await?, (Vec::new(), Vec::new()));
    Ok(())
}

/// The uploads of a set that is being published are in another manifest too: giving that up must not take them.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_begun_keeps_the_uploads_that_it_shares() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let begun = prepare(&store, 2).await?;
    let alone = upload(&store, "u").await?.await?;
    let other = store.manifest(POINTER, [begun.pending()[0].clone(), alone.clone()])?;
    assert!(matches!(store.find_set(POINTER).await?, SetProgress::NotBegun));
    assert!(matches!(store.claim(&begun, Purpose::Publish).await?, intent::Claim::New(_)));
    assert!(matches!(store.find_set(POINTER).await?, SetProgress::Begun(set) if set == begun));
    assert_eq!(store.abandon_all(&other).await.unwrap_err().kind(), ErrorKind::Closed);
    // One that shares none is given up beside it.
    store.abandon_all(&store.manifest(POINTER, [alone])?).await?;
    assert_eq!(store.commit_all(&begun).await?.len(), 2);
    let SetProgress::Complete(objects) = store.find_set(POINTER).await? else { panic!("not complete") };
    assert_eq!(objects.iter().map(|object| &*object.key).collect::<Vec<_>>(), ["t/0", "t/1"]);
    // Below a prefix, the pointer is relative to it.
    let below = store.within("t");
    assert!(matches!(below.find_set("pointer.json").await?, SetProgress::Complete(_)));
    assert_eq!(below.manifest("pointer.json", begun.pending().to_vec())?, begun);
    store.put("t/none.json", "{}").await?;
    assert_eq!(store.find_set("t/none.json").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    Ok(())
}
