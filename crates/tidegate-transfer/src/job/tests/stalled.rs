//! Processes that are at work on a job while it ends, or while another process stalls in the middle of its work.

use futures::future::{join, join3};
use tidegate::store::SetProgress;

use super::interrupted::{expect_nothing_left, two_tasks};
use super::mortal::Bucket;
use super::*;

fn job(out: &Store) -> Job {
    Job::new(out, "a").unwrap()
}

#[tokio::test]
async fn files_that_are_opened_while_the_job_ends_leave_no_session() -> Result {
    let (mut without, mut with) = (0, 0);
    for (commits, offset) in (0..160).flat_map(|offset| [(true, offset), (false, offset)]) {
        let bucket = two_tasks().await;
        let (driver, executor) = (bucket.immortal(), bucket.immortal());
        let attempt = job(&executor.out).attempt("t2", "t2-0").await?;
        let end = async {
            let ended = match commits {
                true => job(&driver.out).commit().await.map(drop),
                false => job(&driver.out).abort().await.map(drop),
            };
            driver.kill();
            ended
        };
        let open = async {
            driver.steps(offset).await;
            let mut opened = Vec::new();
            for file in 0..6 {
                match attempt.writer(&format!("x/{file}"), |options| options).await {
                    Ok(writer) => opened.push(writer),
                    Err(error) if error.kind() == ErrorKind::Closed => break,
                    Err(error) => return Err(error),
                }
            }
            executor.kill();
            Ok(opened)
        };
        let (ended, opened) = join(end, open).await;
        let when = format!("commits: {commits}, offset {offset}");
        ended?;
        let opened = opened?;
        *if opened.is_empty() { &mut without } else { &mut with } += 1;
        drop(opened);
        executor.out.tide().settled().await;
        roll_forward(&bucket.immortal().out).await?;
        expect_nothing_left(&bucket, &when).await;
    }
    assert!(without > 20 && with > 20, "{without} without a file, {with} with some");
    Ok(())
}

/// An attempt lives on behind the end of its job, opens one more file, and dies anywhere.
#[tokio::test]
async fn a_file_that_is_opened_after_the_end_of_the_job_leaves_no_session_and_no_record() -> Result {
    for commits in [true, false] {
        for steps in 0.. {
            let bucket = two_tasks().await;
            let late = bucket.immortal();
            let attempt = job(&late.out).attempt("t2", "t2-0").await?;
            let driver = bucket.immortal().out;
            match commits {
                true => drop(job(&driver).commit().await?),
                false => drop(job(&driver).abort().await?),
            }
            late.die_in(steps);
            let opened = late.live(async |_| attempt.writer("0", |options| options).await.map(drop)).await;
            let when = format!("commits: {commits}, after {steps} steps: {opened:?}");
            assert_eq!(bucket.sessions().await, Vec::<String>::new(), "{when}");
            if let Some(refused) = opened {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed, "{when}");
                expect_nothing_left(&bucket, &when).await;
                assert!(steps > 5, "{when}");
                break;
            }
            // At most a record, which names no session.
            roll_forward(&driver).await?;
            expect_nothing_left(&bucket, &when).await;
        }
    }
    Ok(())
}

/// The record says that a session may be opened; it is, while the driver looks for that session or removes the record.
#[tokio::test]
async fn a_record_that_changes_while_the_job_ends_stays_until_its_session_is_ended() -> Result {
    for steps in 0..60 {
        let bucket = Bucket::new();
        let (driver, executor) = (bucket.immortal(), bucket.immortal());
        new_job(&bucket.immortal().out, "a").await;
        let attempt = job(&executor.out).attempt("t0", "t0-0").await?;
        let recorded = executor.steps_made() + 2;
        executor.stall_in(2);
        driver.stall_in(steps);
        let open = async {
            let opened = attempt.writer("0", |options| options).await;
            executor.kill();
            driver.go_on();
            opened
        };
        let end = async {
            executor.steps(recorded).await;
            let ended = job(&driver.out).abort().await;
            driver.kill();
            ended
        };
        let go_on = async {
            driver.steps(steps).await;
            executor.go_on();
        };
        let (opened, ended, ()) = join3(open, end, go_on).await;
        let when = format!("after {steps} steps: {ended:?}");
        ended?;
        assert!(opened.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Closed), "{when}");
        drop(opened);
        executor.out.tide().settled().await;
        roll_forward(&bucket.immortal().out).await?;
        expect_nothing_left(&bucket, &when).await;
    }
    Ok(())
}

/// Of two drivers, one has read no tasks, and the other one reads those that were committed since.
#[tokio::test]
async fn a_driver_that_stalls_with_no_tasks_agrees_with_the_next_one() -> Result {
    let (mut empty, mut whole) = (0, 0);
    for steps in 0..80 {
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        new_job(&out, "a").await;
        let stalled = bucket.immortal();
        stalled.stall_in(steps);
        let first = async {
            let committed = job(&stalled.out).commit().await;
            stalled.kill();
            committed
        };
        let next = async {
            stalled.steps(steps).await;
            let late = run_task(&job(&out), "t0", "t0-0", &["0"], "rows").await;
            let committed = job(&out).commit().await;
            stalled.go_on();
            (late, committed)
        };
        let (first, (late, next)) = join(first, next).await;
        let when = format!("after {steps} steps: {first:?}, {late:?}, {next:?}");
        let objects = next?.objects;
        assert_eq!(first?.objects, objects, "{when}");
        let success: serde_json::Value = serde_json::from_slice(&out.get(SUCCESS).await?).unwrap();
        assert_eq!((&success["job"], &success["files"]), (&"a".into(), &objects.into()), "{when}");
        let (visible, _) = bucket.keys().await;
        match objects {
            0 => empty += 1,
            _ => whole += 1,
        }
        let files: &[&str] = if objects == 0 { &["out/_SUCCESS"] } else { &["out/0", "out/_SUCCESS"] };
        assert_eq!(visible, files, "{when}");
        assert_eq!(late.is_ok(), objects == 1, "{when}");
        expect_nothing_left(&bucket, &when).await;
    }
    assert!(empty > 5 && whole > 5, "{empty} without files, {whole} with one");
    Ok(())
}

/// A process has found that uploads are being given up; before it goes on, another one begins to publish a set.
#[tokio::test]
async fn a_set_that_is_begun_meanwhile_is_not_ended_with_a_claim() -> Result {
    for steps in 0..24 {
        let bucket = Bucket::new();
        let out = bucket.immortal().out;
        let driver = new_job(&out, "a").await;
        run_task(&driver, "t0", "t0-0", &["0", "1"], "rows").await?;
        let mut lost = out.writer("lost").await?;
        lost.write_bytes("lost".into()).await?;
        let lost = out.manifest(&driver.pointer(), [lost.prepare().await?])?;
        for dies_after in 0.. {
            bucket.process(dies_after).live(async |out| out.abandon_all(&lost).await).await;
            if matches!(out.find_set(&driver.pointer()).await?, SetProgress::BeingAbandoned(_)) {
                break;
            }
        }
        let stalled = bucket.immortal();
        stalled.stall_in(steps);
        let look = async {
            let state = job(&stalled.out).state().await;
            stalled.kill();
            state
        };
        let begin = async {
            stalled.steps(steps).await;
            let files = driver.read_tasks().await?.unwrap().into_iter().flat_map(|task| task.files);
            let pending: Vec<_> = files.map(|file| file.pending).collect();
            // The set can't be completed, so `abandon_set` would end it.
            out.abandon(&pending[1]).await?;
            driver.unclaimed_set().await?;
            let intent = format!(".tidegate/manifests/out/{}", driver.pointer());
            let set = out.manifest(&driver.pointer(), pending)?;
            bucket.root().put(intent, set.to_json()).create_only().await?;
            stalled.go_on();
            Ok::<_, JobError>(())
        };
        let (state, begun) = join(look, begin).await;
        begun?;
        state?;
        assert!(
            matches!(out.find_set(&driver.pointer()).await?, SetProgress::Begun(_)),
            "after {steps} steps"
        );
        assert_eq!(bucket.sessions().await, ["out/0"], "after {steps} steps");
    }
    Ok(())
}

#[tokio::test]
async fn a_late_attempt_removes_its_manifest_where_answers_name_no_version() -> Result {
    let bucket = Bucket::new();
    let late = bucket.without_versions();
    let driver = new_job(&bucket.immortal().out, "a").await;
    let attempt = job(&late.out).attempt("t0", "t0-0").await?;
    write(&attempt, "0", "rows").await?;
    driver.commit().await?;
    assert_eq!(attempt.commit().await.unwrap_err().kind(), ErrorKind::Closed);
    expect_nothing_left(&bucket, "a late attempt").await;
    Ok(())
}

/// An upload of another job on the same key, which waits for its commit or which a process of this machine is at work on.
#[tokio::test]
async fn the_end_of_a_job_spares_uploads_of_others_on_its_keys() -> Result {
    let (bucket, records) = (Bucket::new(), tempfile::tempdir().unwrap());
    let out = bucket.immortal().out;
    let recording = bucket.recording_in(records.path());
    let (ours, theirs) = (new_job(&out, "a").await, new_job(&out, "b").await);
    let closed = theirs.attempt("t0", "t0-0").await?;
    write(&closed, "0", "theirs").await?;
    closed.commit().await?;
    let live = Job::new(&recording.out, "b")?.attempt("t1", "t1-0").await?;
    let _open = live.writer("0", |options| options).await?;
    // Nothing tells of this upload that it is another one's.
    let unknown = theirs.attempt("t2", "t2-0").await?;
    let _unknown = unknown.writer("0", |options| options).await?;
    let opening = record::UploadRecord { key: "0".to_owned(), state: record::UploadState::Opening };
    out.put("__tidegate_a/attempts/t0/t0-0/0.json", opening.to_json()).await?;
    assert_eq!(bucket.sessions().await.len(), 3);
    // It ends uploads by what it knows of this machine's processes.
    let aborted = Job::new(&bucket.recording_in(records.path()).out, ours.id())?.abort().await?;
    assert_eq!(aborted, JobAbort::Abandoned { uploads: 1, visible: 0, unreadable: Vec::new() });
    assert_eq!(bucket.sessions().await, ["out/0", "out/0"]);
    assert_eq!(theirs.commit().await?.objects, 1);
    assert_eq!(bucket.content("out/0").await, b"theirs 0");
    Ok(())
}

/// A driver has read all manifests; then one is there that nobody can read, and the job is given up while the driver goes on.
#[tokio::test]
async fn an_abort_beside_a_manifest_that_cannot_be_read_tears_no_set() -> Result {
    let (mut all, mut none) = (0, 0);
    // The driver has read the manifests after 15 steps, and the abort looks at the records after 18 or more.
    let before = 15;
    for (after, more) in
        (18..28).step_by(2).flat_map(|after| (8..24).step_by(2).map(move |more| (after, more)))
    {
        let bucket = two_tasks().await;
        let (driver, aborting) = (bucket.immortal(), bucket.immortal());
        driver.stall_in(before);
        let commit = async {
            let committed = job(&driver.out).commit().await;
            driver.kill();
            aborting.go_on();
            committed
        };
        let abort = async {
            driver.steps(before).await;
            bucket.immortal().out.put("__tidegate_a/tasks/t9/late.json", "{}").await?;
            aborting.stall_in(after);
            let aborted = job(&aborting.out).abort().await;
            aborting.kill();
            driver.go_on();
            aborted
        };
        let go_on = async {
            driver.steps(before).await;
            aborting.steps(after).await;
            driver.stall_in(more);
            driver.steps(before + more).await;
            aborting.go_on();
        };
        let (committed, aborted, ()) = join3(commit, abort, go_on).await;
        let visible = bucket.keys().await.0.iter().filter(|key| !key.ends_with("_SUCCESS")).count();
        let when = format!("after {after} and {more} steps: {committed:?}, {aborted:?}");
        assert!(visible == 0 || visible == 3, "{visible} {when}");
        *if visible == 0 { &mut none } else { &mut all } += 1;
    }
    assert!(all > 3 && none > 3, "{all} whole, {none} without a file");
    Ok(())
}
