//! What a job refuses, and what `_SUCCESS` says.

use std::time::Duration;

use tidegate::Strategy;
use tokio::io::AsyncWriteExt;

use super::*;

#[tokio::test]
async fn more_manifests_than_a_driver_reads_are_refused() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    run_task(&job, "t0", "t0-0", &["0"], "rows").await?;
    let size = usize::try_from(manifests::MOST_MANIFESTS).unwrap();
    out.put("__tidegate_a/tasks/t1/t1-0.json", vec![b' '; size]).await?;
    let refused = job.commit().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    assert!(!out.exists("0").await? && !out.exists(SUCCESS).await?);
    assert!(matches!(job.abort().await?, JobAbort::Abandoned { uploads: 1, .. }));
    assert_eq!((keys(&out).await, sessions(&out).await), (Vec::new(), 0));
    Ok(())
}

#[tokio::test]
async fn an_attempt_with_more_files_than_a_driver_reads_is_refused() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    let attempt = job.attempt("t0", "t0-0").await?;
    let keys: Vec<String> = (0..30).map(|file| format!("{file}/{}", "x".repeat(900))).collect();
    for key in &keys {
        write(&attempt, key, "rows").await?;
    }
    attempt.commit().await?;
    let mut many = job.read_tasks().await?.unwrap().remove(0);
    let size = |manifest: &record::TaskManifest| manifest.to_json().len() as u64;
    while size(&many) <= manifests::MOST_MANIFESTS {
        many.files.extend_from_within(..);
    }
    let refused = job.hand_in(&many).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    assert!(refused.object().ends_with("tasks/t0/t0-0.json"), "{refused}");
    assert_eq!(job.commit().await?.objects, 30);
    Ok(())
}

#[tokio::test]
async fn a_file_is_neither_opened_nor_closed_after_the_lifetime() -> Result {
    let out = out().await;
    let job = Job::new(&out, "a")?;
    job.set_up().lifetime(Duration::from_secs(2)).await?;
    let attempt = job.attempt("t0", "t0-0").await?;
    let open = attempt.writer("0", |options| options).await?;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    for refused in
        [open.close().await.unwrap_err(), attempt.writer("1", |options| options).await.unwrap_err()]
    {
        assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
        assert!(refused.to_string().contains("lifetime"), "{refused}");
    }
    job.abort().await?;
    out.tide().settled().await;
    assert_eq!((keys(&out).await, sessions(&out).await), (Vec::new(), 0));
    Ok(())
}

#[tokio::test]
async fn the_marker_has_the_checksums_of_the_files() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    let attempt = job.attempt("t0", "t0-0").await?;
    let mut writer = attempt.writer("0", |options| options).await?;
    writer.write_bytes("rows".into()).await?;
    let checksum = writer.close().await?.to_string();
    attempt.commit().await?;
    job.commit().await?;
    let success: serde_json::Value = serde_json::from_slice(&out.get(SUCCESS).await?).unwrap();
    let file = serde_json::json!({ "key": "out/0", "size": 4, "checksum": checksum });
    assert_eq!((&success["objects"], &success["bytes"]), (&serde_json::json!([file]), &4.into()));
    Ok(())
}

#[tokio::test]
async fn a_shutdown_of_a_stream_neither_ends_a_file_nor_publishes_it() -> Result {
    let out = out().await;
    let job = new_job(&out, "a").await;
    let attempt = job.attempt("t0", "t0-0").await?;
    let mut writer = attempt.writer("0", |options| options).await?;
    writer.write_all(b"ro").await.unwrap();
    writer.flush().await.unwrap();
    let refused = writer.shutdown().await.unwrap_err();
    assert!(refused.to_string().contains("`close`"), "{refused}");
    assert!(!out.exists("0").await?);
    writer.write_all(b"ws").await.unwrap();
    assert_eq!(writer.close().await?.covers(), 4);
    attempt.commit().await?;
    job.commit().await?;
    assert_eq!(out.get("0").await?.as_ref(), b"rows");
    Ok(())
}

/// Another process can't end an upload whose bytes are in a journal of this machine.
#[tokio::test]
async fn a_file_that_goes_to_a_journal_first_is_refused() -> Result {
    let journals = tempfile::tempdir().unwrap();
    let engine = Tidegate::builder().memory(64 << 20).journal([journals.path()]).build().unwrap();
    let out = engine.open("memory://jobs").await?.within("out");
    let attempt = new_job(&out, "a").await.attempt("t0", "t0-0").await?;
    let refused = attempt.writer("0", |options| options.strategy(Strategy::Journal)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert_eq!((keys(&out).await, sessions(&out).await), (vec!["__tidegate_a/job.json".to_owned()], 0));
    // The key is free.
    write(&attempt, "0", "rows").await?;
    Ok(())
}
