//! What jobs are built on: sessions that are opened early, and sets that are looked at.

use std::time::Duration;

use tidegate::store::SetProgress;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_session_that_is_opened_early_is_still_the_writers() -> Result {
    let out = out().await;
    // A process that is killed aborts nothing: another one does so.
    let mut writer = out.writer("k").await?;
    let opened = writer.open_session(DAY).await?;
    assert_eq!((opened.key(), opened.size(), sessions(&out).await), ("out/k", 0, 1));
    out.abandon(&opened).await?;
    assert_eq!(sessions(&out).await, 0);
    drop(writer);
    // A drop aborts.
    let mut writer = out.writer("k").await?;
    writer.open_session(DAY).await?;
    drop(writer);
    out.tide().settled().await;
    assert_eq!(sessions(&out).await, 0);
    // The object is published as any other, and the value can't take it back.
    let mut writer = out.writer("k").await?;
    let opened = writer.open_session(DAY).await?;
    writer.write_bytes("rows".into()).await?;
    assert_eq!(writer.open_session(DAY).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    out.commit(&writer.prepare().await?).await?;
    assert_eq!(out.abandon(&opened).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((keys(&out).await, sessions(&out).await), (vec!["k".to_owned()], 0));
    Ok(())
}

/// The uploads of a set that is being published are in another manifest too: giving that up must not take them.
#[tokio::test]
async fn a_set_that_is_begun_keeps_the_uploads_that_it_shares() -> Result {
    let out = out().await;
    let mut pending = Vec::new();
    for key in ["0", "1", "2"] {
        let mut writer = out.writer(key).await?;
        writer.write_bytes("rows".into()).await?;
        pending.push(writer.prepare().await?);
    }
    let begun = out.manifest("pointer", pending[..2].to_vec())?;
    assert!(matches!(out.find_set("pointer").await?, SetProgress::NotBegun));
    let root = out.tide().open("memory://jobs").await?;
    root.put(".tidegate/manifests/out/pointer", begun.to_json()).await?;
    assert!(matches!(out.find_set("pointer").await?, SetProgress::Begun(set) if set == begun));
    let other = out.manifest("pointer", pending[1..].to_vec())?;
    assert_eq!(out.abandon_all(&other).await.unwrap_err().kind(), ErrorKind::Closed);
    // One that shares none is given up beside it.
    out.abandon_all(&out.manifest("pointer", pending[2..].to_vec())?).await?;
    assert_eq!(out.commit_all(&begun).await?.len(), 2);
    let SetProgress::Complete(objects) = out.find_set("pointer").await? else { panic!("not complete") };
    assert_eq!(objects.iter().map(|object| &*object.key).collect::<Vec<_>>(), ["out/0", "out/1"]);
    out.put("none", "{}").await?;
    assert_eq!(out.find_set("none").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    Ok(())
}
