//! Processes that die at each of their requests, and that are at work at the same time.

use futures::future::join;

use super::mortal::Bucket;
use super::*;

fn job(out: &Store) -> Job {
    Job::new(out, "a").unwrap()
}

/// Nothing is left of any job, in the work path, in `.tidegate/` or in a session.
pub(super) async fn expect_nothing_left(bucket: &Bucket, when: &str) {
    let (_, own) = bucket.keys().await;
    assert_eq!(own, Vec::<String>::new(), "{when}");
    assert_eq!(bucket.sessions().await, Vec::<String>::new(), "{when}");
}

/// The files of both tasks are there once, from one attempt each, and nothing is left.
async fn expect_all(bucket: &Bucket, when: &str) {
    let (visible, _) = bucket.keys().await;
    assert_eq!(visible, ["out/0", "out/1", "out/2", "out/_SUCCESS"], "{when}");
    for (key, name) in [("out/0", "0"), ("out/1", "1"), ("out/2", "2")] {
        let content = String::from_utf8(bucket.content(key).await).unwrap();
        assert!(content.ends_with(&format!("rows {name}")), "{when}: {content}");
    }
    expect_nothing_left(bucket, when).await;
}

/// A bucket with a job: two tasks are committed, and an executor died with a file closed and another one open.
pub(super) async fn two_tasks() -> Bucket {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0", "1"], "rows").await.unwrap();
    run_task(&job, "t1", "t1-0", &["2"], "rows").await.unwrap();
    let executor = bucket.immortal();
    let attempt = self::job(&executor.out).attempt("t1", "t1-1").await.unwrap();
    write(&attempt, "2", "rows").await.unwrap();
    let open = attempt.writer("3", |options| options).await.unwrap();
    executor.kill();
    drop((open, attempt));
    executor.out.tide().settled().await;
    assert_eq!(bucket.sessions().await.len(), 5);
    bucket
}

#[tokio::test]
async fn an_executor_that_dies_anywhere_leaves_nothing_behind_the_job() -> Result {
    let mut died = 0;
    for steps in 0.. {
        let bucket = Bucket::new();
        new_job(&bucket.immortal().out, "a").await;
        let work = async |out: Store| run_task(&job(&out), "t0", "t0-0", &["0", "1"], "first").await;
        let ended = bucket.process(steps).live(work).await;
        assert_eq!(bucket.keys().await.0, Vec::<String>::new(), "after {steps} steps");
        let out = bucket.immortal().out;
        if steps % 2 == 0 {
            job(&out).abort().await?;
            assert_eq!(bucket.keys().await.0, Vec::<String>::new(), "after {steps} steps");
            expect_nothing_left(&bucket, &format!("an abort after {steps} steps")).await;
        } else {
            run_task(&job(&out), "t0", "t0-1", &["0", "1"], "rows").await?;
            run_task(&job(&out), "t1", "t1-0", &["2"], "rows").await?;
            assert_eq!(job(&out).commit().await?.objects, 3);
            expect_all(&bucket, &format!("a commit after {steps} steps")).await;
        }
        died += u64::from(ended.is_none());
        if ended.is_some() {
            break;
        }
    }
    assert!(died > 30, "{died} deaths");
    Ok(())
}

#[tokio::test]
async fn a_driver_that_dies_anywhere_is_rolled_forward_or_its_job_given_up() -> Result {
    let (mut before, mut begun) = (0, 0);
    for steps in 0.. {
        let bucket = two_tasks().await;
        let ended = bucket.process(steps).live(async |out| job(&out).commit().await).await;
        let (visible, _) = bucket.keys().await;
        let out = bucket.immortal().out;
        let found = roll_forward(&out).await?;
        let when = format!("after {steps} steps");
        match found.first().map(|found| found.outcome.as_ref().unwrap()) {
            Some(JobOutcome::NotBegun) => {
                assert_eq!(visible, Vec::<String>::new(), "{when}");
                before += 1;
                if steps % 2 == 0 {
                    assert!(matches!(job(&out).abort().await?, JobAbort::Abandoned { .. }));
                    assert_eq!(bucket.keys().await.0, Vec::<String>::new(), "{when}");
                    expect_nothing_left(&bucket, &when).await;
                } else {
                    assert_eq!(job(&out).commit().await?.objects, 3, "{when}");
                    expect_all(&bucket, &when).await;
                }
            }
            Some(JobOutcome::Committed(committed)) => {
                begun += 1;
                assert_eq!(committed.objects, 3, "{when}");
                expect_all(&bucket, &when).await;
            }
            // The settings are gone, and the pointer is not; or all is done.
            Some(JobOutcome::Ended(_)) | None => expect_all(&bucket, &when).await,
        }
        if ended.is_some() {
            assert_eq!(job(&out).commit().await?.objects, 3, "{when}");
            break;
        }
    }
    assert!(before > 10 && begun > 20, "{before} before the intent, {begun} after");
    Ok(())
}

#[tokio::test]
async fn a_driver_that_begins_again_completes_what_the_one_before_has_begun() -> Result {
    let (mut open, mut begun) = (0, 0);
    for steps in 0.. {
        let bucket = two_tasks().await;
        let ended = bucket.process(steps).live(async |out| job(&out).commit().await).await;
        let (out, when) = (bucket.immortal().out, format!("after {steps} steps"));
        let refused = job(&out).set_up().await.err().map(|error| error.kind());
        let is_begun = refused.is_some();
        assert_eq!(refused, is_begun.then_some(ErrorKind::Closed), "{when}");
        *if is_begun { &mut begun } else { &mut open } += 1;
        let found = job(&out).set_up().complete_begun(true).await?;
        if let [found] = &found[..] {
            assert_eq!(found.id, job(&out).id(), "{when}");
            assert!(matches!(&found.outcome, Ok(JobOutcome::Committed(done)) if done.objects == 3), "{when}");
            expect_all(&bucket, &when).await;
        }
        assert_eq!(found.len(), usize::from(is_begun), "{when}");
        assert_eq!(job(&out).commit().await?.objects, 3, "{when}");
        expect_all(&bucket, &when).await;
        if ended.is_some() {
            break;
        }
    }
    assert!(open > 10 && begun > 20, "{open} before the intent, {begun} after");
    Ok(())
}

#[tokio::test]
async fn all_jobs_of_a_directory_are_given_up_or_none() -> Result {
    let (mut given_up, mut kept) = (0, 0);
    for steps in 0.. {
        let bucket = two_tasks().await;
        let out = bucket.immortal().out;
        let other = Job::new(&out, "b")?;
        other.set_up().await?;
        let attempt = other.attempt("t", "t-0").await?;
        attempt.writer("other", |options| options).await?.close().await?;
        attempt.commit().await?;
        let ended = bucket.process(steps).live(async |out| job(&out).commit().await).await;
        let when = format!("after {steps} steps");
        match give_up_all(&out).await {
            Ok(found) => {
                assert!(found.iter().any(|found| found.id == "b"), "{when}");
                expect_nothing_left(&bucket, &when).await;
                given_up += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed, "{when}");
                assert_eq!(job(&out).commit().await?.objects, 3, "{when}");
                assert_eq!(other.commit().await?.objects, 1, "{when}");
                kept += 1;
            }
        }
        if ended.is_some() {
            break;
        }
    }
    assert!(given_up > 10 && kept > 10, "{given_up} given up, {kept} kept");
    Ok(())
}

#[tokio::test]
async fn an_abort_that_dies_anywhere_is_repeated() -> Result {
    for steps in 0.. {
        let bucket = two_tasks().await;
        let ended = bucket.process(steps).live(async |out| job(&out).abort().await).await;
        let out = bucket.immortal().out;
        match roll_forward(&out).await?.pop().map(|found| found.outcome) {
            Some(Ok(JobOutcome::NotBegun)) => drop(job(&out).abort().await?),
            Some(Ok(JobOutcome::Ended(_))) | None => {}
            other => panic!("after {steps} steps: {other:?}"),
        }
        assert_eq!(bucket.keys().await.0, Vec::<String>::new(), "after {steps} steps");
        expect_nothing_left(&bucket, &format!("after {steps} steps")).await;
        if ended.is_some() {
            break;
        }
    }
    Ok(())
}

#[tokio::test]
async fn two_drivers_publish_one_set() -> Result {
    for offset in 0..120 {
        let bucket = two_tasks().await;
        let (one, other) = (bucket.immortal(), bucket.immortal());
        let first = async {
            let committed = job(&one.out).commit().await;
            one.kill();
            committed
        };
        let second = async {
            one.steps(offset).await;
            job(&other.out).commit().await
        };
        let (first, second) = join(first, second).await;
        assert_eq!((first?.objects, second?.objects), (3, 3), "offset {offset}");
        expect_all(&bucket, &format!("offset {offset}")).await;
    }
    Ok(())
}

#[tokio::test]
async fn of_a_commit_and_an_abort_one_wins() -> Result {
    let (mut committed, mut aborted) = (0, 0);
    for offset in 0..200 {
        let bucket = two_tasks().await;
        let (driver, other) = (bucket.immortal(), bucket.immortal());
        // Each comes first in half of the cases.
        let (commit_at, abort_at) = if offset < 100 { (offset, 0) } else { (0, offset - 100) };
        let commit = async {
            other.steps(commit_at).await;
            let commit = job(&driver.out).commit().await;
            driver.kill();
            commit
        };
        let abort = async {
            driver.steps(abort_at).await;
            let abort = job(&other.out).abort().await;
            other.kill();
            abort
        };
        let (commit, abort) = join(commit, abort).await;
        let when = format!("offset {offset}: {commit:?}, {abort:?}");
        let out = bucket.immortal().out;
        for found in roll_forward(&out).await? {
            if matches!(found.outcome, Ok(JobOutcome::NotBegun)) {
                job(&out).abort().await?;
            }
        }
        if bucket.keys().await.0.is_empty() {
            aborted += 1;
            assert!(commit.is_err(), "{when}");
            expect_nothing_left(&bucket, &when).await;
        } else {
            committed += 1;
            assert!(!matches!(abort, Ok(JobAbort::Abandoned { .. })), "{when}");
            expect_all(&bucket, &when).await;
        }
    }
    assert!(committed > 20 && aborted > 20, "{committed} committed, {aborted} aborted");
    Ok(())
}

#[tokio::test]
async fn an_attempt_that_commits_while_the_job_does_counts_or_comes_too_late_and_leaves_nothing() -> Result {
    let (mut counts, mut unread, mut refused) = (0, 0, 0);
    for offset in 0..120 {
        let bucket = two_tasks().await;
        let (driver, executor) = (bucket.immortal(), bucket.immortal());
        let late = job(&executor.out).attempt("t1", "t1-2").await?;
        write(&late, "2", "late rows").await?;
        let commit = async {
            let commit = job(&driver.out).commit().await;
            driver.kill();
            commit
        };
        let late = async {
            driver.steps(offset).await;
            late.commit().await
        };
        let (commit, late) = join(commit, late).await;
        let when = format!("offset {offset}: {commit:?}, {late:?}");
        assert_eq!(commit.unwrap().objects, 3, "{when}");
        match late {
            Ok(()) => match &*bucket.content("out/2").await {
                b"late rows 2" => counts += 1,
                // The driver had read the tasks.
                other => {
                    unread += 1;
                    assert_eq!(other, b"rows 2", "{when}");
                }
            },
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind(), ErrorKind::Closed, "{when}");
                assert_eq!(bucket.content("out/2").await, b"rows 2", "{when}");
            }
        }
        expect_all(&bucket, &when).await;
    }
    assert!(counts > 2 && unread > 0 && refused > 20, "{counts} counted, {unread} not, {refused} refused");
    Ok(())
}

/// The driver died between the pointer and the end of the job.
#[tokio::test]
async fn an_attempt_that_comes_too_late_and_dies_anywhere_is_ended_with_the_job() -> Result {
    let is_complete =
        async |bucket: &Bucket| bucket.keys().await.1.iter().any(|key| key.ends_with("commit.json"));
    let mut driver_steps = 0;
    for steps in 0.. {
        let bucket = two_tasks().await;
        let executor = bucket.immortal();
        let late = job(&executor.out).attempt("t1", "t1-2").await?;
        write(&late, "2", "late rows").await?;
        while !is_complete(&bucket).await {
            driver_steps += 1;
            assert!(driver_steps < 1000, "no driver died between the pointer and the end");
            if bucket.process(driver_steps).live(async |out| job(&out).commit().await).await.is_some() {
                driver_steps = 0;
            }
        }
        executor.die_in(steps);
        let ended = executor.live(async |_| late.commit().await).await;
        assert!(!matches!(ended, Some(Ok(()))), "after {steps} steps");
        let found = roll_forward(&bucket.immortal().out).await?;
        assert!(matches!(&found[0].outcome, Ok(JobOutcome::Committed(_))), "after {steps} steps: {found:?}");
        expect_all(&bucket, &format!("after {steps} steps")).await;
        if ended.is_some() {
            break;
        }
    }
    Ok(())
}
