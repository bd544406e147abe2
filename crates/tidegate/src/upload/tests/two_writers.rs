//! One session, and several writers or commits: only bytes that are proven to be the writer's own are published.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use async_trait::async_trait;
use tidegate_dev::{Knobs, Server};

use super::*;
use crate::backend::gcs::{Gcs, GcsCredentials, GcsSettings};
use crate::backend::s3::{Credentials, S3, S3Settings};
use crate::backend::{Fault, FaultKind};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

const S3_PART: usize = 5 << 20;

pub(super) async fn server() -> Server {
    let server = Server::builder().start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    server
}

fn large_engine() -> Tidegate {
    Tidegate::builder().memory(64 << 20).part_size(S3_PART as u64).build().unwrap()
}

pub(super) async fn s3(server: &Server) -> Store {
    let (access, secret) = server.credentials();
    let settings = S3Settings::default()
        .with_endpoint_url(server.endpoint())
        .with_region("us-east-1")
        .with_credentials(Credentials::fixed(access, secret, None));
    large_engine().store(Arc::new(S3::connect("bucket", &settings).await.unwrap()))
}

pub(super) async fn google(server: &Server) -> Store {
    let settings = GcsSettings::default()
        .with_endpoint_url(server.endpoint())
        .with_credentials(GcsCredentials::anonymous());
    large_engine().store(Arc::new(Gcs::connect("bucket", &settings).await.unwrap()))
}

#[tokio::test]
async fn another_writers_part_is_published_by_no_commit() -> Result<()> {
    for no_checksums in [false, true] {
        let server = server().await;
        server.set_knobs(Knobs { no_checksums, ..Knobs::default() });
        let store = s3(&server).await;
        let mut writer = store.writer("k").await?;
        writer.write_bytes(vec![1; S3_PART].into()).await?;
        let point = writer.persist().await?;
        writer.write_bytes(vec![2; S3_PART + 9].into()).await?;
        let pending = writer.prepare().await?;

        let mut other = store.resume(&point).await?;
        other.write_bytes(vec![3; S3_PART].into()).await?;
        other.persist().await?;
        let refused = store.commit(&pending).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SessionLost, "{no_checksums}: {refused}");
        assert!(!store.exists("k").await?, "{no_checksums}");
        let object = other.finish().await?;
        assert_eq!(object.size, 2 * S3_PART as u64);
        assert_eq!(store.get("k").await?, [vec![1; S3_PART], vec![3; S3_PART]].concat());
    }
    Ok(())
}

#[tokio::test]
async fn of_two_pending_uploads_of_one_point_the_second_is_not_said_to_be_there() -> Result<()> {
    let server = server().await;
    server.set_knobs(Knobs { no_checksums: true, ..Knobs::default() });
    let store = s3(&server).await;
    let mut writer = store.writer("k").await?;
    let point = writer.persist().await?;
    drop(writer);
    let mut prepared = Vec::new();
    for byte in [b'a', b'b'] {
        let mut writer = store.resume(&point).await?;
        writer.write_bytes(vec![byte; 7].into()).await?;
        prepared.push(writer.prepare().await?);
    }
    // The second has replaced the part of the first.
    assert_eq!(store.commit(&prepared[0]).await.unwrap_err().kind(), ErrorKind::SessionLost);
    store.commit(&prepared[1]).await?;
    assert_eq!(store.get("k").await?, "bbbbbbb");
    assert_eq!(store.commit(&prepared[0]).await.unwrap_err().kind(), ErrorKind::SessionLost);
    store.commit(&prepared[1]).await?;
    Ok(())
}

#[tokio::test]
async fn a_repeated_commit_asks_for_the_object_on_google_too() -> Result<()> {
    let server = server().await;
    let store = google(&server).await;
    let mut writer = store.writer("k").create_only().await?;
    writer.write_bytes("bytes".into()).await?;
    let pending = writer.prepare().await?;
    for _ in 0..2 {
        assert_eq!(store.commit(&pending).await?.size, 5);
    }
    store.delete("k").await?;
    assert_eq!(store.commit(&pending).await.unwrap_err().kind(), ErrorKind::SessionLost);
    store.put("k", "other").await?;
    assert_eq!(store.commit(&pending).await.unwrap_err().kind(), ErrorKind::SessionLost);
    Ok(())
}

/// A store that completes an upload for another process: it shows neither the session nor, three times, the object.
#[derive(Debug, Default)]
struct Completing(AtomicU32);

#[async_trait]
impl Script for Completing {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match call {
            Call::Complete { .. } | Call::StoredParts { .. } => {
                Err(Fault::new(FaultKind::NoSession, "no such upload"))
            }
            Call::Head { .. } if self.0.fetch_add(1, SeqCst) < 3 => {
                Err(Fault::new(FaultKind::NotFound, "not there"))
            }
            call => below.send(call).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_the_store_still_completes_for_another_process_is_no_lost_one() -> Result<()> {
    let memory = Memory::new("test");
    let store = large_engine().store(Arc::new(memory.clone()));
    let mut writer = store.writer("k").await?;
    writer.write_bytes(vec![1; 100].into()).await?;
    let pending = writer.prepare().await?;
    store.commit(&pending).await?;
    let second = large_engine().store(Scripted::new(memory.clone(), Completing::default()));
    assert_eq!(second.commit(&pending).await?.size, 100);
    // One that is lost is said to be lost after a while.
    store.delete("k").await?;
    let lost = second.commit(&pending).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::SessionLost, "{lost}");
    Ok(())
}
