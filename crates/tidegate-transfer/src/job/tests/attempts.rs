//! Attempts that are given up, that fail and are repeated, and that come too late.

use futures::future::join;
use tidegate::store::SetProgress;

use super::mortal::Bucket;
use super::*;

fn job(out: &Store) -> Job {
    Job::new(out, "a").unwrap()
}

/// These files are visible, from attempts with these words, and nothing else is left.
async fn expect_only(bucket: &Bucket, files: &[(&str, &str)], when: &str) {
    let (visible, own) = bucket.keys().await;
    let mut keys: Vec<&str> = files.iter().map(|(key, _)| *key).chain(["out/_SUCCESS"]).collect();
    keys.sort_unstable();
    assert_eq!((visible, own), (keys.into_iter().map(str::to_owned).collect(), Vec::new()), "{when}");
    for (key, word) in files {
        let content = String::from_utf8(bucket.content(key).await).unwrap();
        assert!(content.starts_with(word), "{when}: {content}");
    }
    assert_eq!(bucket.sessions().await, Vec::<String>::new(), "{when}");
}

#[tokio::test]
async fn an_attempt_is_committed_again_after_any_error_of_the_store() -> Result {
    let mut failed = 0;
    for steps in 0.. {
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        let driver = new_job(&out, "a").await;
        let executor = bucket.immortal();
        let attempt = job(&executor.out).attempt("t0", "t0-0").await?;
        write(&attempt, "0", "rows").await?;
        executor.fail_in(steps);
        let first = attempt.commit().await;
        let when = format!("after {steps} steps: {first:?}");
        if let Err(error) = &first {
            failed += 1;
            assert_ne!(error.kind(), ErrorKind::Closed, "{when}");
            attempt.commit().await?;
        }
        assert_eq!(driver.commit().await?.objects, 1, "{when}");
        expect_only(&bucket, &[("out/0", "rows")], &when).await;
        if !executor.has_failed() {
            break;
        }
    }
    assert!(failed > 6, "{failed}");
    Ok(())
}

/// An attempt that comes too late has the set's pointer for a moment, and may die then.
#[tokio::test]
async fn a_pointer_that_a_dead_process_has_claimed_ends_no_healthy_attempt() -> Result {
    let mut claimed = 0;
    for steps in 0.. {
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        let driver = new_job(&out, "a").await;
        let attempt = driver.attempt("t0", "t0-0").await?;
        write(&attempt, "0", "rows").await?;
        let mut lost = out.writer("lost").await?;
        lost.write_bytes("lost".into()).await?;
        let lost = out.manifest(&driver.pointer(), [lost.prepare().await?])?;
        let ended = bucket.process(steps).live(async |out| out.abandon_all(&lost).await).await;
        if matches!(out.find_set(&driver.pointer()).await?, SetProgress::BeingAbandoned(_)) {
            claimed += 1;
            // Each sees the claim first in one of three cases.
            match steps % 3 {
                0 => {}
                1 => assert!(matches!(roll_forward(&out).await?[0].outcome, Ok(JobOutcome::NotBegun))),
                _ => assert_eq!(driver.abort_attempt("t0", "other").await?, AttemptAbort::Abandoned(0)),
            }
        }
        attempt.commit().await?;
        assert_eq!(driver.commit().await?.objects, 1, "after {steps} steps");
        if ended.is_some() {
            expect_only(&bucket, &[("out/0", "rows")], &format!("after {steps} steps")).await;
            break;
        }
    }
    assert!(claimed > 2, "{claimed}");
    Ok(())
}

#[tokio::test]
async fn an_attempt_that_was_given_up_is_never_committed() -> Result {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    let driver = new_job(&out, "a").await;
    let zombie = driver.attempt("t0", "zombie").await?;
    write(&zombie, "0", "zombie").await?;
    run_task(&driver, "t0", "second", &["0"], "second").await?;
    assert_eq!(driver.abort_attempt("t0", "zombie").await?, AttemptAbort::Abandoned(1));
    // It lives on.
    write(&zombie, "1", "zombie").await?;
    for _ in 0..2 {
        assert_eq!(zombie.commit().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(bucket.sessions().await, ["out/0"]);
    }
    assert_eq!(driver.abort_attempt("t0", "zombie").await?, AttemptAbort::Abandoned(0));
    assert_eq!(driver.commit().await?.objects, 1);
    expect_only(&bucket, &[("out/0", "second")], "at the end").await;
    Ok(())
}

#[tokio::test]
async fn an_attempt_that_is_withdrawn_leaves_the_place_to_the_one_before() -> Result {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    let driver = new_job(&out, "a").await;
    run_task(&driver, "t0", "first", &["0"], "first").await?;
    let second = driver.attempt("t0", "second").await?;
    write(&second, "0", "second").await?;
    second.commit().await?;
    for _ in 0..2 {
        assert_eq!(driver.abort_attempt("t0", "second").await?, AttemptAbort::LeftToJob);
        assert_eq!(second.commit().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(bucket.sessions().await.len(), 2);
    }
    let committed = driver.commit().await?;
    assert_eq!((committed.objects, committed.abandoned), (1, 1));
    expect_only(&bucket, &[("out/0", "first")], "at the end").await;
    Ok(())
}

#[tokio::test]
async fn of_an_attempts_commit_and_its_abort_one_wins() -> Result {
    let (mut committed, mut aborted) = (0, 0);
    for offset in 0..80 {
        let bucket = Bucket::new();
        let (executor, driver) = (bucket.immortal(), bucket.immortal());
        let driver_job = new_job(&driver.out, "a").await;
        run_task(&driver_job, "t0", "t0-0", &["0"], "first").await?;
        let attempt = job(&executor.out).attempt("t0", "t0-1").await?;
        write(&attempt, "0", "second").await?;
        // Each comes first in half of the cases.
        let (commit_at, abort_at) = if offset < 40 { (0, offset) } else { (offset - 40, 0) };
        let (commit_at, abort_at) = (driver.steps_made() + commit_at, executor.steps_made() + abort_at);
        let abort = async {
            executor.steps(abort_at).await;
            let abort = driver_job.abort_attempt("t0", "t0-1").await;
            // Whoever waits for a later step goes on.
            driver.kill();
            abort
        };
        let commit = async {
            driver.steps(commit_at).await;
            let commit = attempt.commit().await;
            executor.kill();
            commit
        };
        let (commit, abort) = join(commit, abort).await;
        let when = format!("offset {offset}: {commit:?}, {abort:?}");
        match (commit, abort?) {
            (Ok(()), AttemptAbort::LeftToJob) => committed += 1,
            (Err(error), AttemptAbort::Abandoned(_)) if error.kind() == ErrorKind::Closed => aborted += 1,
            other => panic!("{when}: {other:?}"),
        }
        // The other attempt is not touched.
        assert_eq!(job(&bucket.immortal().out).commit().await?.objects, 1, "{when}");
        expect_only(&bucket, &[("out/0", "first")], &when).await;
    }
    assert!(committed > 5 && aborted > 5, "{committed} committed, {aborted} aborted");
    Ok(())
}

#[tokio::test]
async fn an_attempt_is_named_by_its_task_too() -> Result {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    let job = new_job(&out, "a").await;
    for task in ["t0", "t1"] {
        run_task(&job, task, "0", &[task], task).await?;
    }
    let lost = job.attempt("t2", "0").await?;
    write(&lost, "t2", "lost").await?;
    assert_eq!(job.abort_attempt("t2", "0").await?, AttemptAbort::Abandoned(1));
    assert_eq!(job.commit().await?.objects, 2);
    expect_only(&bucket, &[("out/t0", "t0"), ("out/t1", "t1")], "at the end").await;
    Ok(())
}

#[tokio::test]
async fn an_attempt_whose_manifest_nobody_can_read_is_not_given_up() -> Result {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    let key = "__tidegate_a/tasks/t0/t0-0.json";
    let whole = out.get(key).await?;
    out.put(key, "torn").await?;
    assert_eq!(job.abort_attempt("t0", "t0-0").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(bucket.sessions().await.len(), 1);
    out.put(key, whole).await?;
    assert_eq!(job.commit().await?.objects, 1);
    Ok(())
}

/// The driver read the manifest before the attempt wrote its last file.
#[tokio::test]
async fn a_late_attempt_gives_up_what_the_set_does_not_have_and_nothing_else() -> Result {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    let job = new_job(&out, "a").await;
    let attempt = job.attempt("t0", "t0-0").await?;
    write(&attempt, "0", "rows").await?;
    attempt.commit().await?;
    let mut last = attempt.writer("1", |options| options).await?;
    let files = job.read_tasks().await?.unwrap().into_iter().flat_map(|task| task.files);
    let set = out.manifest(&job.pointer(), files.map(|file| file.pending))?;
    bucket.root().put(format!(".tidegate/manifests/out/{}", job.pointer()), set.to_json()).await?;
    last.write_bytes("rows".into()).await?;
    last.close().await?;
    for _ in 0..2 {
        assert_eq!(attempt.commit().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(bucket.sessions().await, ["out/0"]);
        let records = bucket.keys().await.1.into_iter().filter(|key| key.contains("/attempts/"));
        assert_eq!(records.count(), 1);
    }
    assert_eq!(job.commit().await?.objects, 1);
    expect_only(&bucket, &[("out/0", "rows")], "at the end").await;
    Ok(())
}

#[test]
fn a_session_that_was_opened_long_after_a_record_is_not_its_own() {
    let written = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let started = |seconds: i64| match u64::try_from(seconds) {
        Ok(later) => written + std::time::Duration::from_secs(later),
        Err(_) => written - std::time::Duration::from_secs(seconds.unsigned_abs()),
    };
    let may_be = |seconds| clean_up::may_be_of(written, started(seconds));
    assert!(may_be(0) && may_be(-1) && may_be(13 * 60));
    assert!(!may_be(-10) && !may_be(16 * 60) && !may_be(86_400));
}
