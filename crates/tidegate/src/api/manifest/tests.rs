use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join;
use tokio::time::{sleep, timeout};

use super::*;
use crate::Tidegate;
use crate::backend::Fault;
use crate::backend::memory::Memory;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

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
fn process(backend: &Arc<Scripted<Slow>>) -> Store {
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
    let objects = process(&bucket).commit_all(&manifest).await?;
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
