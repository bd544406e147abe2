mod attempts;
mod claims;
mod interrupted;
mod limits;
mod lost;
mod mortal;
mod stalled;
mod stores;

use futures::TryStreamExt;
use tidegate::{Entry, ErrorKind, Store, Tidegate};

use super::*;

/// An output directory in memory, as other processes see it too.
async fn out() -> Store {
    Tidegate::builder().memory(64 << 20).build().unwrap().open("memory://jobs").await.unwrap().within("out")
}

/// Writes files, each with `content` and its key, and commits the attempt.
async fn run_task(job: &Job, task: &str, attempt: &str, keys: &[&str], content: &str) -> Result {
    let attempt = job.attempt(task, attempt).await?;
    for key in keys {
        write(&attempt, key, content).await?;
    }
    attempt.commit().await
}

async fn write(attempt: &TaskAttempt, key: &str, content: &str) -> Result {
    let mut writer = attempt.writer(key, |options| options).await?;
    writer.write_bytes(format!("{content} {key}").into()).await?;
    let checksum = writer.close().await?;
    assert_eq!(checksum.covers(), (content.len() + 1 + key.len()) as u64);
    Ok(())
}

/// The keys below the output directory.
async fn keys(out: &Store) -> Vec<String> {
    let entries: Vec<Entry> = out.list("").try_collect().await.unwrap();
    entries.into_iter().map(|entry| entry.key().to_owned()).collect()
}

async fn sessions(out: &Store) -> usize {
    out.sessions("").try_collect::<Vec<_>>().await.unwrap().len()
}

async fn new_job(out: &Store, id: &str) -> Job {
    let job = Job::new(out, id).unwrap();
    job.set_up().await.unwrap();
    job
}

#[tokio::test]
async fn the_files_of_a_job_become_visible_with_its_commit() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["x/0", "x/1"], "rows").await?;
    run_task(&job, "t1", "t1-0", &["x/2"], "rows").await?;
    assert!(keys(&out).await.iter().all(|key| key.starts_with("__tidegate_a/")));
    let committed = job.commit().await?;
    assert_eq!((committed.objects, committed.bytes, committed.abandoned), (3, 24, 0));
    assert_eq!(keys(&out).await, ["_SUCCESS", "x/0", "x/1", "x/2"]);
    assert_eq!(out.get("x/2").await?.as_ref(), b"rows x/2");
    let success: serde_json::Value = serde_json::from_slice(&out.get(SUCCESS).await?).unwrap();
    assert_eq!((&success["files"], &success["bytes"], &success["job"]), (&3.into(), &24.into(), &"a".into()));
    assert_eq!(success["objects"][0]["key"], "out/x/0");
    // Again, from `_SUCCESS` alone.
    let again = Job::new(&out, "a")?.commit().await?;
    assert_eq!((again.objects, again.bytes), (3, 24));
    // Its id is used up: a roll-forward would take a new job for this one.
    assert_eq!(job.set_up().await.unwrap_err().kind(), ErrorKind::Closed);
    // Another job's `_SUCCESS` says nothing of this one.
    new_job(&out, "b").await.commit().await?;
    assert_eq!(job.commit().await.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn the_last_attempt_that_commits_counts_and_the_others_are_abandoned() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "first", &["0", "1"], "first").await?;
    run_task(&job, "t0", "second", &["0"], "second").await?;
    // Speculative, and not committed: one file closed, one open.
    let third = job.attempt("t0", "third").await?;
    write(&third, "0", "third").await?;
    let open = third.writer("2", |options| options).await?;
    let committed = job.commit().await?;
    assert_eq!((committed.objects, committed.abandoned), (1, 4));
    assert_eq!(keys(&out).await, ["0", "_SUCCESS"]);
    assert_eq!(out.get("0").await?.as_ref(), b"second 0");
    assert_eq!(sessions(&out).await, 0);
    // The open file can't be closed any more, and its attempt is refused.
    assert!(open.close().await.is_err());
    assert_eq!(third.commit().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((keys(&out).await.len(), sessions(&out).await), (2, 0));
    Ok(())
}

#[tokio::test]
async fn a_zombie_is_refused_and_leaves_nothing() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    let zombie = job.attempt("t0", "zombie").await?;
    write(&zombie, "0", "zombie").await?;
    run_task(&job, "t0", "second", &["0"], "second").await?;
    job.commit().await?;
    // It writes on.
    assert_eq!(write(&zombie, "1", "zombie").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((keys(&out).await.len(), sessions(&out).await), (2, 0));
    assert_eq!(zombie.commit().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((keys(&out).await, sessions(&out).await), (vec!["0".to_owned(), "_SUCCESS".to_owned()], 0));
    assert_eq!(job.attempt("t0", "late").await.unwrap_err().kind(), ErrorKind::Closed);
    // What one has left that died while it opened a file, the next roll-forward removes.
    let job = new_job(&out, "b").await;
    run_task(&job, "t0", "zombie", &["1"], "zombie").await?;
    let task = job.read_tasks().await?.unwrap().remove(0);
    let record = out.get(&task.files[0].record).await?;
    job.abort().await?;
    out.put(&task.files[0].record, record).await?;
    let found = roll_forward(&out).await?;
    assert!(
        matches!(&found[0].outcome, Ok(JobOutcome::Ended(JobAbort::Removed { uploads: 1, .. }))),
        "{found:?}"
    );
    assert_eq!((keys(&out).await.len(), sessions(&out).await), (2, 0));
    Ok(())
}

#[tokio::test]
async fn an_aborted_job_leaves_nothing() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0", "1"], "rows").await?;
    let attempt = job.attempt("t1", "t1-0").await?;
    write(&attempt, "2", "rows").await?;
    let _open = attempt.writer("3", |options| options).await?;
    assert_eq!(sessions(&out).await, 4);
    let aborted = Job::new(&out, "a")?.abort().await?;
    assert_eq!(aborted, JobAbort::Abandoned { uploads: 4, visible: 0, unreadable: Vec::new() });
    assert_eq!((keys(&out).await, sessions(&out).await), (Vec::new(), 0));
    assert_eq!(job.abort().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(job.commit().await.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn an_attempt_is_aborted_by_any_process_and_goes_on_counting_only_if_it_committed() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    let attempt = job.attempt("t0", "t0-0").await?;
    write(&attempt, "0", "rows").await?;
    let writer = attempt.writer("1", |options| options).await?;
    assert_eq!(attempt.commit().await.unwrap_err().kind(), ErrorKind::InvalidInput);
    writer.abort().await?;
    assert_eq!(attempt.writer("0", |options| options).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(Job::new(&out, "a")?.abort_attempt("t0", "t0-0").await?, AttemptAbort::Abandoned(1));
    assert_eq!(sessions(&out).await, 0);
    run_task(&job, "t0", "t0-1", &["0"], "rows").await?;
    assert_eq!(job.attempt("t0", "t0-1").await?.abort().await?, AttemptAbort::LeftToJob);
    let committed = job.commit().await?;
    assert_eq!((committed.objects, committed.abandoned), (0, 1));
    assert_eq!((keys(&out).await, sessions(&out).await), (vec!["_SUCCESS".to_owned()], 0));
    Ok(())
}

#[tokio::test]
async fn jobs_of_one_directory_do_not_meet() -> Result {
    let out = out().await;
    let (a, b) = (new_job(&out, "a").await, new_job(&out, "b").await);
    run_task(&a, "t0", "t0-0", &["a/0"], "rows").await?;
    run_task(&b, "t0", "t0-0", &["b/0"], "rows").await?;
    let (of_a, of_b) = futures::future::join(a.commit(), b.commit()).await;
    assert_eq!((of_a?.objects, of_b?.objects), (1, 1));
    assert_eq!(keys(&out).await, ["_SUCCESS", "a/0", "b/0"]);
    Ok(())
}

#[tokio::test]
async fn a_job_that_ends_late_does_not_hide_a_later_one() -> Result {
    let out = out().await;
    let (a, b) = (new_job(&out, "a").await, new_job(&out, "b").await);
    run_task(&a, "t0", "t0-0", &["a/0"], "rows").await?;
    b.commit().await?;
    let text: serde_json::Value = serde_json::from_slice(&out.get(SUCCESS).await?).unwrap();
    for (later, last) in [(10, "b"), (-10, "c")] {
        let mut text = text.clone();
        text["created"] = (text["created"].as_i64().unwrap() + later).into();
        out.put(SUCCESS, text.to_string()).await?;
        if last == "b" {
            assert_eq!(a.commit().await?.objects, 1);
        } else {
            assert_eq!(new_job(&out, "c").await.commit().await?.objects, 0);
        }
        assert_eq!(last_completed(&out).await?.as_deref(), Some(last));
    }
    assert_eq!(keys(&out).await, ["_SUCCESS", "a/0"]);
    Ok(())
}

#[tokio::test]
async fn an_abort_that_is_overtaken_by_a_commit_says_so() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    let settings = job.settings().await?.unwrap();
    job.commit().await?;
    job.enter(work_path::JobPhase::BeingAborted).await?;
    assert_eq!(keys(&out).await, ["0", "_SUCCESS"]);
    // As if the abort had found the settings before.
    job.write(&job.settings_key(), settings.to_json()).await?;
    assert_eq!(job.abort().await?, JobAbort::Begun);
    assert_eq!(keys(&out).await, ["0", "_SUCCESS"]);
    Ok(())
}

#[tokio::test]
async fn what_is_no_manifest_of_a_task_keeps_the_job_from_its_commit() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    let whole = out.get("__tidegate_a/tasks/t0/t0-0.json").await?;
    let of_another_job = String::from_utf8_lossy(&whole).replace("\"job\":\"a\"", "\"job\":\"b\"");
    let later = String::from_utf8_lossy(&whole).replacen("\"version\":1", "\"version\":2", 1);
    for text in [&whole[..whole.len() / 2], b"", b"{}", of_another_job.as_bytes(), later.as_bytes(), &whole] {
        // The last is whole, and that of another task.
        out.put("__tidegate_a/tasks/t1/t1-0.json", text.to_vec()).await?;
        let refused = job.commit().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
        assert!(refused.to_string().contains("__tidegate_a/tasks/t1/t1-0.json"), "{refused}");
        assert!(!out.exists("0").await?);
    }
    assert!(matches!(job.abort().await?, JobAbort::Abandoned { uploads: 1, .. }));
    assert_eq!((keys(&out).await, sessions(&out).await), (Vec::new(), 0));
    Ok(())
}

#[tokio::test]
async fn a_record_that_nobody_can_read_is_named() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    out.put("__tidegate_a/attempts/t9/t9/x.json", "torn").await?;
    let refused = job.abort_attempt("t9", "t9").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let committed = job.commit().await?;
    assert_eq!(committed.unreadable, ["__tidegate_a/attempts/t9/t9/x.json"]);
    assert_eq!(keys(&out).await, ["0", "_SUCCESS"]);
    Ok(())
}

#[tokio::test]
async fn a_job_without_files_has_its_marker_alone_or_nothing() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    job.attempt("t0", "t0-0").await?.commit().await?;
    assert_eq!(job.commit().await?.objects, 0);
    assert_eq!(keys(&out).await, ["_SUCCESS"]);
    out.delete(SUCCESS).await?;
    let job = Job::new(&out, "b")?;
    job.set_up().success_marker(false).await?;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    assert_eq!(job.commit().await?.objects, 1);
    assert_eq!(keys(&out).await, ["0"]);
    assert_eq!(job.commit().await.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn two_tasks_with_one_key_are_refused_and_can_be_given_up() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    run_task(&job, "t1", "t1-0", &["0"], "rows").await?;
    assert_eq!(job.commit().await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(matches!(job.abort().await?, JobAbort::Abandoned { uploads: 2, .. }));
    assert_eq!((keys(&out).await, sessions(&out).await), (Vec::new(), 0));
    Ok(())
}

#[tokio::test]
async fn a_set_that_lost_an_upload_is_ended_by_hand() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0", "1"], "rows").await?;
    let text = out.get("__tidegate_a/tasks/t0/t0-0.json").await?;
    let task = record::TaskManifest::from_json(&text).unwrap();
    let pending: Vec<_> = task.files.into_iter().map(|file| file.pending).collect();
    out.abandon(&pending[1]).await?;
    // Not begun: the check finds it.
    assert!(
        matches!(job.commit().await.unwrap_err(), JobError::Store(error) if error.kind() == ErrorKind::SessionLost)
    );
    assert!(!out.exists("0").await?);
    // Begun: as if the upload was lost after the check.
    let set = out.manifest(&job.pointer(), pending)?;
    let root = out.tide().open("memory://jobs").await?;
    root.put(format!(".tidegate/manifests/out/{}", job.pointer()), set.to_json()).await?;
    let stuck = job.commit().await.unwrap_err();
    assert!(
        matches!(&stuck, JobError::CannotComplete { pointer, .. } if pointer.ends_with("out/__tidegate_a/commit.json"))
    );
    let ways = "`tidegate abandon --manifest memory://jobs/out/__tidegate_a/commit.json`, then `tidegate abandon --job`";
    assert!(stuck.to_string().ends_with(&format!(". To end the job: {ways}")), "{stuck}");
    assert_eq!(job.abort().await?, JobAbort::Begun);
    let ended = out.abandon_set(&job.pointer()).await?;
    let visible = ended.visible.len() as u64;
    assert!(matches!(job.abort().await?, JobAbort::Abandoned { visible: stays, .. } if stays == visible));
    assert_eq!((keys(&out).await.len() as u64, sessions(&out).await), (visible, 0));
    Ok(())
}

#[tokio::test]
async fn names_and_ids_are_checked() -> Result {
    let out = out().await;
    for id in ["", ".", "..", "a/b", "a b", "ä", "a\n", &"a".repeat(201)] {
        assert_eq!(Job::new(&out, id).unwrap_err().kind(), ErrorKind::InvalidInput, "{id:?}");
    }
    let job = Job::new(&out, "job_2026.11-30")?;
    assert_eq!(job.attempt("t", "t").await.unwrap_err().kind(), ErrorKind::Closed);
    job.set_up().await?;
    job.set_up().await?;
    assert_eq!(job.attempt("t/0", "t").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(job.attempt("t", "..").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let attempt = job.attempt("t", "t").await?;
    for key in [SUCCESS, "__tidegate_x/y"] {
        assert_eq!(attempt.writer(key, |options| options).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    Ok(())
}

#[tokio::test]
async fn earlier_jobs_are_rolled_forward_and_those_that_were_not_begun_are_left() -> Result {
    let out = out().await;
    let (begun, idle) = (new_job(&out, "begun").await, new_job(&out, "idle").await);
    run_task(&begun, "t0", "t0-0", &["0"], "rows").await?;
    run_task(&idle, "t0", "t0-0", &["1"], "rows").await?;
    // As a driver leaves it that dies with the set's pointer.
    let tasks = begun.read_tasks().await?.unwrap();
    let pending = tasks.into_iter().flat_map(|task| task.files).map(|file| file.pending);
    out.commit_all(&out.manifest(&begun.pointer(), pending)?).await?;
    assert_eq!(begun.set_up().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(begun.abort().await?, JobAbort::Begun);
    let earlier = Job::new(&out, "new")?.set_up().roll_forward_earlier(true).await?;
    let outcomes: Vec<_> =
        earlier.iter().map(|found| (&*found.id, found.outcome.as_ref().unwrap())).collect();
    assert!(matches!(outcomes[0], ("begun", JobOutcome::Committed(committed)) if committed.objects == 1));
    assert_eq!(outcomes[1], ("idle", &JobOutcome::NotBegun));
    assert!(out.exists("0").await? && out.exists(SUCCESS).await? && !out.exists("1").await?);
    let ended = abandon_unfinished(&out).await?;
    assert_eq!(ended.iter().map(|found| &*found.id).collect::<Vec<_>>(), ["idle", "new"]);
    assert_eq!((keys(&out).await.len(), sessions(&out).await), (2, 0));
    Ok(())
}

#[tokio::test]
async fn a_job_of_two_thousand_files() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    let tasks = (0..20).map(async |task| {
        let keys: Vec<String> = (0..100).map(|file| format!("x/{task:02}-{file:02}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        run_task(&job, &format!("t{task}"), &format!("t{task}-0"), &keys, "rows").await
    });
    futures::future::try_join_all(tasks).await?;
    let committed = job.commit().await?;
    assert_eq!((committed.objects, committed.abandoned), (2000, 0));
    assert_eq!((keys(&out).await.len(), sessions(&out).await), (2001, 0));
    let root = out.tide().open("memory://jobs").await?;
    assert_eq!(root.list(".tidegate/").try_collect::<Vec<_>>().await?.len(), 0);
    Ok(())
}

fn is_send(_: impl Future + Send) {}

/// Bindings move these futures between threads. Compiled, and never run.
#[expect(dead_code, reason = "only its types count")]
fn every_future_is_send(
    job: &Job,
    attempt: &TaskAttempt,
    late: fn() -> TaskAttempt,
    writer: fn() -> TaskWriter,
) {
    is_send(async { job.set_up().await });
    is_send(job.attempt("t", "a"));
    is_send(job.abort_attempt("t", "a"));
    is_send(job.commit());
    is_send(job.abort());
    is_send(roll_forward(job.out()));
    is_send(abandon_unfinished(job.out()));
    is_send(last_completed(job.out()));
    is_send(attempt.writer("k", |options| options));
    is_send(attempt.commit());
    is_send(late().abort());
    is_send(writer().close());
    is_send(writer().abort());
    is_send(async move { writer().write_bytes("rows".into()).await });
}
