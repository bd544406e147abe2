//! Uploads that are lost between the check of a set and its intent.

use futures::future::join3;

use super::*;

/// A process whose requests take a millisecond, and that stalls before it writes an intent, for five seconds.
#[derive(Debug)]
struct Stalled;

#[async_trait]
impl Script for Stalled {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let is_intent = matches!(&call, Call::Put { key, .. } if key.starts_with(INTENTS));
        sleep(Duration::from_millis(if is_intent { 5000 } else { 1 })).await;
        below.send(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_was_given_up_between_the_check_and_the_intent_is_not_begun() -> Result<()> {
    for lost in 1..=3 {
        let memory = Memory::new("test");
        let store = process(&Scripted::new(memory.clone(), Slow));
        let late = process(&Scripted::new(memory, Stalled));
        // Objects that the set would overwrite are not its own.
        for key in ["t/0", "t/1", "t/2"] {
            store.put(key, "older").await?;
        }
        let manifest = prepare(&store, 3).await?;
        let given_up = store.manifest(POINTER, manifest.pending()[..lost].to_vec())?;
        let abandon = async {
            sleep(Duration::from_secs(2)).await;
            store.abandon_all(&given_up).await
        };
        let (refused, abandoned) = join(late.commit_all(&manifest), abandon).await;
        abandoned?;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SessionLost);
        assert!(refused.to_string().contains("the set was not begun"), "{refused}");
        assert_visible(&store, &["t/0", "t/1", "t/2"]).await?;
        assert!(matches!(store.find_set(POINTER).await?, SetProgress::NotBegun));
    }
    Ok(())
}

/// Two processes have checked the set, and both find the intent of one of them; uploads were given up before it was written.
#[tokio::test(start_paused = true)]
async fn of_a_set_that_two_processes_begin_too_late_neither_publishes_a_part() -> Result<()> {
    for (lost, delay) in (1..=2).flat_map(|lost| (0..10).map(move |delay| (lost, delay))) {
        let memory = Memory::new("test");
        let store = process(&Scripted::new(memory.clone(), Slow));
        let (one, other) =
            (process(&Scripted::new(memory.clone(), Stalled)), process(&Scripted::new(memory, Stalled)));
        let manifest = prepare(&store, 3).await?;
        let given_up = store.manifest(POINTER, manifest.pending()[..lost].to_vec())?;
        let abandon = async {
            sleep(Duration::from_secs(2)).await;
            store.abandon_all(&given_up).await
        };
        let second = async {
            sleep(Duration::from_millis(delay)).await;
            other.commit_all(&manifest).await
        };
        let (first, second, abandoned) = join3(one.commit_all(&manifest), second, abandon).await;
        abandoned?;
        for refused in [first.unwrap_err(), second.unwrap_err()] {
            assert_eq!(refused.kind(), ErrorKind::SessionLost, "{lost} lost, {delay} ms: {refused}");
        }
        assert_visible(&store, &[]).await?;
        assert!(matches!(store.find_set(POINTER).await?, SetProgress::NotBegun));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_set_that_has_lost_an_upload_stays_begun_once_another_one_is_published() -> Result<()> {
    let memory = Memory::new("test");
    let store = process(&Scripted::new(memory.clone(), Slow));
    let late = process(&Scripted::new(memory, Stalled));
    let manifest = prepare(&store, 3).await?;
    let meanwhile = async {
        sleep(Duration::from_secs(2)).await;
        store.abandon(&manifest.pending()[1]).await?;
        store.commit(&manifest.pending()[2]).await
    };
    let (refused, published) = join(late.commit_all(&manifest), meanwhile).await;
    published?;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SessionLost);
    assert!(refused.to_string().contains("the set was begun and cannot be completed"), "{refused}");
    assert!(matches!(store.find_set(POINTER).await?, SetProgress::Begun(begun) if begun == manifest));
    let ended = store.abandon_set(POINTER).await?;
    assert_eq!((ended.visible.len(), ended.abandoned.len()), (1, 2));
    assert_visible(&store, &["t/2"]).await
}

/// A process that ends what another one has begun to give up writes no claim of its own.
#[tokio::test(start_paused = true)]
async fn a_claim_is_ended_only_while_it_is_there() -> Result<()> {
    let bucket = bucket();
    let store = process(&bucket);
    let manifest = prepare(&store, 3).await?;
    let mut claimed = 0;
    for cut in 0..12 {
        let _ = timeout(Duration::from_millis(cut), process(&bucket).abandon_all(&manifest)).await;
        if matches!(store.find_set(POINTER).await?, SetProgress::BeingAbandoned(_)) {
            claimed += 1;
            store.end_abandoning(POINTER).await?;
            assert!(matches!(store.find_set(POINTER).await?, SetProgress::NotBegun));
            let refused = store.commit_all(&manifest).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::SessionLost, "{refused}");
        }
    }
    assert!(claimed > 0);
    // Neither without a set, nor with one that is begun or complete.
    store.end_abandoning(POINTER).await?;
    assert_visible(&store, &[]).await?;
    let other = store.prepare_all(POINTER, [upload(&store, "u").await?]).await?;
    store.claim(&other, Purpose::Publish).await?;
    store.abandon(&other.pending()[0]).await?;
    store.end_abandoning(POINTER).await?;
    assert!(matches!(store.find_set(POINTER).await?, SetProgress::Begun(_)));
    store.abandon_set(POINTER).await?;
    let last = store.prepare_all(POINTER, [upload(&store, "u").await?]).await?;
    store.commit_all(&last).await?;
    store.end_abandoning(POINTER).await?;
    assert!(matches!(store.find_set(POINTER).await?, SetProgress::Complete(_)));
    Ok(())
}
