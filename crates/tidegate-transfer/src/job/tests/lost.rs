//! Files whose writers are lost or fail: the attempt is not committed without them, unless they were discarded.

use std::time::Duration;

use tidegate::Store;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::interrupted::expect_nothing_left;
use super::mortal::{Bucket, Process};
use super::*;

/// The attempt refuses its commit, and names this file.
async fn expect_refused(attempt: &TaskAttempt, key: &str, when: &str) {
    let refused = attempt.commit().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{when}: {refused}");
    assert!(refused.object().ends_with(&format!("/out/{key}")), "{when}: {refused}");
    assert!(refused.to_string().contains("was not closed: write it again"), "{when}: {refused}");
}

/// The file is written once more: then the attempt is committed, and has both files.
async fn expect_whole_at_last(out: &Store, attempt: &TaskAttempt, when: &str) -> Result {
    write(attempt, "1", "again").await?;
    attempt.commit().await?;
    let committed = Job::new(out, "a")?.commit().await?;
    assert_eq!(committed.objects, 2, "{when}");
    assert_eq!(out.get("1").await?.as_ref(), b"again 1", "{when}");
    out.tide().settled().await;
    Ok(())
}

async fn begun(out: &Store) -> Result<TaskAttempt> {
    let attempt = Job::new(out, "a")?.attempt("t0", "t0-0").await?;
    write(&attempt, "0", "rows").await?;
    Ok(attempt)
}

#[tokio::test]
async fn an_attempt_is_not_committed_without_a_file_whose_writer_was_dropped() -> Result {
    let out = out().await;
    new_job(&out, "a").await;
    let attempt = begun(&out).await?;
    let mut writer = attempt.writer("1", |options| options).await?;
    writer.write_bytes("rows".into()).await?;
    drop(writer);
    for _ in 0..2 {
        expect_refused(&attempt, "1", "dropped").await;
    }
    // It fails to open, and is missing still.
    assert!(attempt.writer("1", |options| options.strategy(tidegate::Strategy::Journal)).await.is_err());
    expect_refused(&attempt, "1", "not opened").await;
    expect_whole_at_last(&out, &attempt, "dropped").await?;
    assert_eq!((keys(&out).await.len(), sessions(&out).await), (3, 0));
    Ok(())
}

#[tokio::test]
async fn an_attempt_is_not_committed_without_a_file_that_failed() -> Result {
    let (mut refused, mut unopened) = (0, 0);
    for steps in 0.. {
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        new_job(&out, "a").await;
        let executor = bucket.immortal();
        let attempt = begun(&executor.out).await?;
        executor.fail_in(steps);
        let opened = attempt.writer("1", |options| options).await;
        let when = format!("after {steps} steps: {opened:?}");
        let Ok(mut writer) = opened else {
            // Nobody had a writer.
            attempt.commit().await?;
            unopened += 1;
            continue;
        };
        let written = async {
            writer.write_bytes("rows".into()).await?;
            writer.close().await
        };
        if written.await.is_err() {
            refused += 1;
            expect_refused(&attempt, "1", &when).await;
            expect_whole_at_last(&executor.out, &attempt, &when).await?;
        }
        if !executor.has_failed() {
            executor.fail_in(u64::MAX / 2);
            attempt.commit().await?;
            break;
        }
    }
    assert!(refused > 3 && unopened > 6, "{refused} refused, {unopened} not opened");
    Ok(())
}

#[tokio::test]
async fn an_attempt_is_not_committed_without_a_file_whose_close_was_cancelled() -> Result {
    let mut cancelled = 0;
    for steps in 0.. {
        let bucket = Bucket::new();
        new_job(&bucket.immortal().out, "a").await;
        let executor = bucket.immortal();
        let attempt = begun(&executor.out).await?;
        let mut writer = attempt.writer("1", |options| options).await?;
        writer.write_bytes("rows".into()).await?;
        let until = executor.steps_made() + steps;
        let closed = tokio::select! {
            biased;
            () = executor.steps(until) => None,
            closed = writer.close() => Some(closed),
        };
        if let Some(closed) = closed {
            closed?;
            attempt.commit().await?;
            break;
        }
        cancelled += 1;
        let when = format!("after {steps} steps");
        expect_refused(&attempt, "1", &when).await;
        expect_whole_at_last(&executor.out, &attempt, &when).await?;
    }
    assert!(cancelled > 3, "{cancelled}");
    Ok(())
}

#[tokio::test]
async fn an_attempt_goes_on_without_a_file_that_was_discarded() -> Result {
    let bucket = Bucket::new();
    let executor = bucket.immortal();
    new_job(&executor.out, "a").await;
    let attempt = begun(&executor.out).await?;
    attempt.writer("1", |options| options).await?.abort().await?;
    // The store refuses to end the upload: the job ends it.
    let writer = attempt.writer("2", |options| options).await?;
    executor.fail_in(0);
    assert!(writer.abort().await.is_err());
    // After its writer has failed, and before.
    let lost = attempt.writer("3", |options| options).await?;
    let discard = lost.discarder();
    drop(lost);
    expect_refused(&attempt, "3", "dropped").await;
    discard.discard();
    let unwanted = attempt.writer("4", |options| options).await?;
    unwanted.discarder().discard();
    assert!(attempt.commit().await.is_err(), "it is open");
    drop(unwanted);
    // Of an earlier writer of the key, and of a closed file.
    let again = attempt.writer("3", |options| options).await?;
    drop(again);
    discard.discard();
    expect_refused(&attempt, "3", "another writer").await;
    let mut closed = attempt.writer("3", |options| options).await?;
    let late = closed.discarder();
    closed.write_bytes("rows".into()).await?;
    closed.close().await?;
    late.discard();
    attempt.commit().await?;
    executor.out.tide().settled().await;
    assert_eq!(Job::new(&executor.out, "a")?.commit().await?.objects, 2);
    super::interrupted::expect_nothing_left(&bucket, "at the end").await;
    assert_eq!(bucket.keys().await.0, ["out/0", "out/3", "out/_SUCCESS"]);
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_discarded_does_not_count_if_its_writer_closes() -> Result {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    new_job(&out, "a").await;
    let attempt = begun(&out).await?;
    let mut writer = attempt.writer("1", |options| options).await?;
    writer.write_bytes("rows".into()).await?;
    writer.discarder().discard();
    let refused = writer.close().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    assert!(refused.object().ends_with("/out/1"), "{refused}");
    assert_eq!(bucket.sessions().await, ["out/0"]);
    // The key is free.
    attempt.writer("1", |options| options).await?.abort().await?;
    attempt.commit().await?;
    assert_eq!(Job::new(&out, "a")?.commit().await?.objects, 1);
    super::interrupted::expect_nothing_left(&bucket, "at the end").await;
    Ok(())
}

/// The driver has published the job, and died before its end.
#[tokio::test]
async fn a_late_attempt_that_misses_a_file_leaves_nothing() -> Result {
    for is_dropped in [true, false] {
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        let job = new_job(&out, "a").await;
        let attempt = begun(&out).await?;
        let mut writer = Some(attempt.writer("1", |options| options).await?);
        if is_dropped {
            writer = None;
            out.tide().settled().await;
        }
        out.commit_all(&out.manifest(&job.pointer(), [])?).await?;
        for _ in 0..2 {
            let refused = attempt.commit().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed, "{is_dropped}: {refused}");
            assert_eq!(bucket.sessions().await, Vec::<String>::new(), "{is_dropped}");
        }
        let records = bucket.keys().await.1.into_iter().filter(|key| key.contains("/attempts/"));
        assert_eq!(records.count(), 0, "{is_dropped}");
        if let Some(writer) = writer {
            assert!(writer.close().await.is_err());
        }
        job.commit().await?;
        out.tide().settled().await;
        super::interrupted::expect_nothing_left(&bucket, "at the end").await;
    }
    Ok(())
}

/// Cancels the open or the close of a file after so many steps. The request that is in flight then goes on. False if the call
/// has ended before.
async fn cancel(executor: &Process, attempt: &TaskAttempt, closes: bool, steps: u64) -> Result<bool> {
    let opened = match closes {
        false => None,
        true => Some(attempt.writer("1", |options| options).await?),
    };
    let cancelled_at = executor.steps_made() + steps;
    executor.stall_in(steps);
    let call = async {
        match opened {
            None => attempt.writer("1", |options| options).await.map(drop),
            Some(writer) => writer.close().await.map(drop),
        }
    };
    let cancelled = async {
        executor.steps(cancelled_at).await;
        // The next request stalls.
        yield_now().await;
        yield_now().await;
    };
    tokio::select! {
        biased;
        ended = call => ended.map(|()| false),
        () = cancelled => Ok(true),
    }
}

/// The executor dies right after the commit, and nothing of the cancelled call is left: it was undone before.
#[tokio::test]
async fn the_attempt_waits_for_what_a_cancelled_call_has_in_flight() -> Result {
    for (closes, commits) in [(false, true), (true, true), (false, false), (true, false)] {
        let when = format!("closes: {closes}, commits: {commits}");
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        let job = new_job(&out, "a").await;
        let executor = bucket.immortal();
        let attempt = begun(&executor.out).await?;
        let opened = match closes {
            false => None,
            true => Some(attempt.writer("1", |options| options).await?),
        };
        let discard = opened.as_ref().map(TaskWriter::discarder);
        executor.hold_records();
        let call = async {
            match opened {
                None => attempt.writer("1", |options| options).await.map(drop),
                Some(writer) => writer.close().await.map(drop),
            }
        };
        tokio::select! {
            ended = call => panic!("{when}: {ended:?}"),
            () = executor.record_is_held() => {}
        }
        discard.iter().for_each(FileDiscard::discard);
        let end = async {
            match commits {
                true => attempt.commit().await,
                false => attempt.abort().await.map(drop),
            }
        };
        let mut end = std::pin::pin!(end);
        assert!(
            timeout(Duration::from_millis(20), &mut end).await.is_err(),
            "{when}: a request is in flight"
        );
        executor.release_records();
        end.await?;
        executor.kill();
        assert_eq!(job.commit().await?.objects, u64::from(commits), "{when}");
        expect_nothing_left(&bucket, &when).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_cancelled_call_whose_request_arrives_behind_the_end_of_the_job_leaves_nothing() -> Result {
    for closes in [false, true] {
        for steps in 0.. {
            let bucket = Bucket::new();
            let out = bucket.immortal().out;
            new_job(&out, "a").await;
            let executor = bucket.immortal();
            let attempt = begun(&executor.out).await?;
            let when = format!("closes: {closes}, after {steps} steps");
            if !cancel(&executor, &attempt, closes, steps).await? {
                assert!(steps > 5, "{when}");
                break;
            }
            Job::new(&out, "a")?.abort().await?;
            executor.go_on();
            executor.out.tide().settled().await;
            expect_nothing_left(&bucket, &when).await;
        }
    }
    Ok(())
}
