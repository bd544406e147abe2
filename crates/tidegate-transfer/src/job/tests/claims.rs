//! Processes that hold the pointer of a job's set while they give up uploads, and jobs that are set up anew meanwhile.

use std::time::{Duration, Instant};

use futures::future::join;
use tidegate::store::SetProgress;

use super::interrupted::expect_nothing_left;
use super::mortal::Bucket;
use super::*;

fn job(out: &Store) -> Job {
    Job::new(out, "a").unwrap()
}

/// A job with a committed attempt, and with uploads that a process that is dead was giving up.
async fn claimed() -> Result<Bucket> {
    let bucket = Bucket::new();
    let out = bucket.immortal().out;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    let mut lost = out.writer("lost").await?;
    lost.write_bytes("lost".into()).await?;
    let lost = out.manifest(&job.pointer(), [lost.prepare().await?])?;
    for steps in 0.. {
        bucket.process(steps).live(async |out| out.abandon_all(&lost).await).await;
        if is_claimed(&bucket).await? {
            break;
        }
    }
    Ok(bucket)
}

async fn is_claimed(bucket: &Bucket) -> Result<bool> {
    let out = bucket.immortal().out;
    Ok(matches!(out.find_set(&job(&out).pointer()).await?, SetProgress::BeingAbandoned(_)))
}

#[tokio::test]
async fn a_claim_is_waited_for_before_it_is_ended() -> Result {
    let bucket = claimed().await?;
    let begun = Instant::now();
    assert_eq!(job(&bucket.immortal().out).state().await?, work_path::JobState::Open);
    let least: Duration = (0..5).map(work_path::pause_after).sum::<Duration>() / 2;
    assert!(begun.elapsed() >= least && !is_claimed(&bucket).await?);
    Ok(())
}

#[tokio::test]
async fn the_uploads_of_a_job_that_is_being_given_up_are_left_to_its_abort() -> Result {
    let bucket = claimed().await?;
    let out = bucket.immortal().out;
    let job = job(&out);
    let attempt = job.attempt("t1", "t1-0").await?;
    job.enter(work_path::JobPhase::BeingAborted).await?;
    assert_eq!(attempt.commit().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(job.abort_attempt("t1", "t1-1").await?, AttemptAbort::Abandoned(0));
    assert!(is_claimed(&bucket).await?);
    assert!(matches!(job.abort().await?, JobAbort::Abandoned { .. }));
    expect_nothing_left(&bucket, "at the end").await;
    Ok(())
}

/// A process finds that uploads are being given up, and the job ends before it goes on; then it dies.
#[tokio::test]
async fn a_process_that_finds_a_claim_leaves_none_behind_the_job() -> Result {
    for (steps, more) in (0..36).flat_map(|steps| (1..4).map(move |more| (steps, more))) {
        let bucket = claimed().await?;
        let stalled = bucket.immortal();
        stalled.stall_in(steps);
        stalled.die_in(steps + more);
        let look = async {
            stalled.live(async |out| job(&out).state().await).await;
            stalled.kill();
        };
        let end = async {
            stalled.steps(steps).await;
            let ended = job(&bucket.immortal().out).abort().await;
            stalled.go_on();
            ended
        };
        join(look, end).await.1?;
        expect_nothing_left(&bucket, &format!("after {steps} steps and {more}")).await;
    }
    Ok(())
}

/// A late attempt has left a record and a manifest; while these are removed, a job of the same id is set up, which has the same
/// task and attempt.
#[tokio::test]
async fn a_job_that_is_set_up_while_what_is_left_is_removed_keeps_all_it_has() -> Result {
    let mut removed = 0;
    for steps in 0..60 {
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        let earlier = new_job(&out, "a").await;
        run_task(&earlier, "t0", "t0-0", &["0"], "rows").await?;
        let manifest = earlier.manifest_key("t0", "t0-0");
        let left = out.get(&manifest).await?;
        earlier.abort().await?;
        out.put(&manifest, left).await?;
        let opening = record::UploadRecord { key: "0".to_owned(), state: record::UploadState::Opening };
        out.put("__tidegate_a/attempts/t0/late/0.json", opening.to_json()).await?;
        let stalled = bucket.immortal();
        stalled.stall_in(steps);
        let remove = async {
            let removed = roll_forward(&stalled.out).await;
            stalled.kill();
            removed
        };
        let set_up = async {
            stalled.steps(steps).await;
            let job = new_job(&out, "a").await;
            run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
            stalled.go_on();
            Ok::<_, JobError>(job)
        };
        let (found, job) = join(remove, set_up).await;
        let (found, job) = (found?, job?);
        let outcome = found.first().map(|job| &job.outcome);
        removed += usize::from(matches!(outcome, Some(Ok(JobOutcome::Ended(JobAbort::Removed { .. })))));
        assert_eq!(job.commit().await?.objects, 1, "after {steps} steps: {found:?}");
        expect_nothing_left(&bucket, &format!("after {steps} steps")).await;
    }
    assert!(removed > 4, "{removed}");
    Ok(())
}

/// A directory of another program may have the name of a work path.
#[tokio::test]
async fn what_is_no_record_of_a_job_is_no_jobs() -> Result {
    let out = out().await;
    let foreign =
        ["__tidegate_notes/attempts/a/b/c.json", "__tidegate_notes/n1", "__tidegate_notes/tasks/a/b.json"];
    for key in foreign {
        out.put(key, "{\"version\":1}").await?;
    }
    let job = Job::new(&out, "notes")?;
    assert_eq!(job.abort().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(roll_forward(&out).await?.is_empty() && give_up_all(&out).await?.is_empty());
    assert_eq!(job.commit().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(keys(&out).await, foreign);
    // Beside them, what a late attempt has left is removed.
    let opening = record::UploadRecord { key: "0".to_owned(), state: record::UploadState::Opening };
    out.put("__tidegate_notes/attempts/t0/late/0.json", opening.to_json()).await?;
    assert!(matches!(job.abort().await?, JobAbort::Removed { .. }));
    assert_eq!(keys(&out).await, foreign);
    Ok(())
}

/// Somebody has removed the pointer of a complete set by hand.
#[tokio::test]
async fn a_job_that_was_ending_ends_without_its_pointer() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    job.enter(work_path::JobPhase::Ending).await?;
    assert_eq!(job.abort().await?, JobAbort::Begun);
    assert_eq!(job.commit().await?, CommittedJob::default());
    assert_eq!(keys(&out).await, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_job_ends_where_no_object_is_replaced_on_condition() -> Result {
    let bucket = Bucket::new();
    let out = bucket.without_versions().out;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    assert_eq!(job.commit().await?.objects, 1);
    expect_nothing_left(&bucket, "at the end").await;
    Ok(())
}
