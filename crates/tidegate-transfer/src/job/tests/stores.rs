//! Jobs on a disk, and on the dialects of the embedded server.

use std::time::Duration;

use tidegate::settings::{Credentials, GcsCredentials, GcsSettings, S3Settings};
use tidegate_dev::Server;

use super::*;

/// A job with an attempt that lost, and one whose executor is gone. `out` is a part of `root`, the whole bucket.
async fn commit_and_abort(root: &Store, out: &Store) -> Result {
    let job = new_job(out, "a").await;
    run_task(&job, "t0", "t0-0", &["x=1/0", "x=1/1"], "first").await?;
    run_task(&job, "t0", "t0-1", &["x=1/0", "x=1/1"], "second").await?;
    let gone = job.attempt("t1", "t1-0").await?;
    let mut open = gone.writer("x=2/0", |options| options.create_only()).await?;
    open.write_bytes("lost".into()).await?;
    assert!(sessions(out).await >= 4);
    assert_eq!(roll_forward(out).await?[0].outcome.as_ref().unwrap(), &JobOutcome::NotBegun);
    let committed = job.commit().await?;
    assert_eq!((committed.objects, committed.abandoned), (2, 3));
    drop(open);
    // It lives on.
    let late = gone.writer("x=2/1", |options| options).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Closed, "{late}");
    out.tide().settled().await;
    let mut found = keys(out).await;
    found.sort_unstable();
    assert_eq!(found, ["_SUCCESS", "x=1/0", "x=1/1"]);
    assert_eq!(out.get("x=1/0").await?.as_ref(), b"second x=1/0");
    assert_eq!(sessions(out).await, 0);
    assert_eq!(job.commit().await?.objects, 2);

    // A driver died behind the intent; another one completes the set, and the intent goes.
    let job = new_job(out, "c").await;
    run_task(&job, "t0", "t0-0", &["x=1/2"], "rows").await?;
    let tasks = job.read_tasks().await?.unwrap();
    let pending = tasks.into_iter().flat_map(|task| task.files).map(|file| file.pending);
    let set = out.manifest(&job.pointer(), pending)?;
    root.put(format!(".tidegate/manifests/{}", set.pointer()), set.to_json()).await?;
    let found = roll_forward(out).await?;
    assert!(
        matches!(&found[0].outcome, Ok(JobOutcome::Committed(committed)) if committed.objects == 1),
        "{found:?}"
    );
    let own: Vec<Entry> = root.list(".tidegate/").try_collect().await?;
    assert!(own.iter().all(|entry| !matches!(entry, Entry::Object(_))), "{own:?}");

    let job = new_job(out, "b").await;
    run_task(&job, "t0", "t0-0", &["y"], "rows").await?;
    assert!(matches!(job.abort().await?, JobAbort::Abandoned { uploads: 1, .. }));
    assert_eq!((keys(out).await.len(), sessions(out).await), (4, 0));
    Ok(())
}

#[tokio::test]
async fn on_a_disk() -> Result {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let out = Tidegate::builder().build().unwrap().open(path.to_str().unwrap()).await?;
    commit_and_abort(&out, &out).await?;
    let mut left: Vec<_> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort_unstable();
    assert_eq!(left, [".tidegate", "_SUCCESS", "x=1"]);
    Ok(())
}

async fn s3(server: &Server) -> Store {
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_credentials(Credentials::fixed(access, secret, None));
    server.create_bucket("jobs").unwrap();
    let tide = Tidegate::builder().memory(64 << 20).build().unwrap();
    tide.open("s3://jobs").s3(settings).await.unwrap()
}

#[tokio::test]
async fn on_s3() -> Result {
    let server = Server::builder().start().await.unwrap();
    let root = s3(&server).await;
    commit_and_abort(&root, &root.within("warehouse/t")).await
}

#[tokio::test]
async fn on_google_and_a_lifetime_that_it_does_not_grant() -> Result {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("jobs").unwrap();
    let settings = GcsSettings::default()
        .with_endpoint_url(server.endpoint())
        .with_credentials(GcsCredentials::anonymous());
    let tide = Tidegate::builder().memory(64 << 20).build().unwrap();
    let root = tide.open("gs://jobs").gcs(settings).await.unwrap();
    let out = root.within("warehouse/t");
    commit_and_abort(&root, &out).await?;
    // A file with a condition is a resumable upload there, which lives for a week.
    let job = Job::new(&out, "long")?;
    job.set_up().lifetime(Duration::from_secs(8 * 86_400)).await?;
    let attempt = job.attempt("t0", "t0-0").await?;
    let refused = attempt.writer("z/0", |options| options.create_only()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    assert!(
        refused.to_string().contains("within a week") && refused.to_string().contains("lifetime"),
        "{refused}"
    );
    write(&attempt, "z/0", "rows").await?;
    attempt.commit().await?;
    assert_eq!(job.commit().await?.objects, 1);
    Ok(())
}

#[tokio::test]
async fn a_file_is_refused_where_a_lifecycle_rule_may_end_its_upload_before_the_job() -> Result {
    let server = Server::builder().start().await.unwrap();
    let out = s3(&server).await.within("t");
    // After a day.
    out.ensure_lifecycle().await?;
    let attempt = new_job(&out, "a").await.attempt("t0", "t0-0").await?;
    let refused = attempt.writer("0", |options| options).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    assert!(refused.to_string().contains("lifetime"), "{refused}");
    assert_eq!((keys(&out).await, sessions(&out).await), (vec!["__tidegate_a/job.json".to_owned()], 0));
    Ok(())
}

/// What docs/PENDING.md says of the price.
#[tokio::test]
async fn a_file_costs_four_requests_more_than_in_a_set_and_an_attempt_six() -> Result {
    let server = Server::builder().start().await.unwrap();
    let out = s3(&server).await.within("t");
    let requests = || server.counts().requests.values().sum::<u64>();
    let mut of_set = Vec::new();
    // The engine reads the bucket's lifecycle rules with the first.
    for (set, files) in [(0, 3), (1, 3), (2, 4)] {
        let before = requests();
        let mut pending = Vec::new();
        for file in 0..files {
            let mut writer = out.writer(format!("set-{set}/{file}")).await?;
            writer.write_bytes("rows".into()).await?;
            pending.push(writer.prepare().await?);
        }
        out.commit_all(&out.manifest(&format!("set-{set}.json"), pending)?).await?;
        of_set.push(requests() - before);
    }
    // Every job but the first replaces `_SUCCESS`.
    new_job(&out, "first").await.commit().await?;
    let mut of_job = Vec::new();
    for (tasks, files) in [(1, 3), (1, 4), (2, 2)] {
        let before = requests();
        let job = new_job(&out, &format!("{tasks}-{files}")).await;
        for task in 0..tasks {
            let keys: Vec<String> =
                (0..files).map(|file| format!("job-{tasks}-{files}/{task}-{file}")).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            run_task(&job, &format!("t{task}"), "a", &keys, "rows").await?;
        }
        job.commit().await?;
        of_job.push(requests() - before);
    }
    assert_eq!((of_job[1] - of_job[0]) - (of_set[2] - of_set[1]), 4, "{of_set:?} {of_job:?}");
    assert_eq!(of_job[2] - of_job[1], 6, "{of_job:?}");
    Ok(())
}

#[tokio::test]
async fn the_marker_of_an_earlier_job_is_replaced_at_the_first_try() -> Result {
    let server = Server::builder().start().await.unwrap();
    let out = s3(&server).await.within("t");
    for id in ["a", "b"] {
        run_task(&new_job(&out, id).await, "t0", "t0-0", &[id], "rows").await?;
        Job::new(&out, id)?.commit().await?;
        assert_eq!(last_completed(&out).await?.as_deref(), Some(id));
    }
    assert_eq!(server.counts().failed.get("PutObject"), None);
    Ok(())
}

#[tokio::test]
async fn a_late_attempt_abandons_each_of_its_files_once() -> Result {
    let server = Server::builder().start().await.unwrap();
    let out = s3(&server).await.within("t");
    let job = new_job(&out, "a").await;
    let late = job.attempt("t0", "late").await?;
    for key in ["0", "1", "2"] {
        write(&late, key, "late").await?;
    }
    // As a driver leaves it that dies with the set's pointer.
    out.commit_all(&out.manifest(&job.pointer(), [])?).await?;
    let aborts = || server.counts().get("AbortMultipartUpload");
    assert_eq!(aborts(), 0);
    assert_eq!(late.commit().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((aborts(), sessions(&out).await), (3, 0));
    assert_eq!(keys(&out).await, ["__tidegate_a/commit.json", "__tidegate_a/job.json"]);
    Ok(())
}
