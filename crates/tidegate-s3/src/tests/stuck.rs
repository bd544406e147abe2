//! A connection whose peer stopped reading, among connections that work.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::raw::connect;
use super::*;
use tidegate::settings::RetryPolicy;
use tidegate::{Strategy, Tidegate};
use tidegate_core::testkit::samples::next_head;

const MIB: u64 = 1 << 20;

/// Takes in whole requests and answers them; if `stuck`, keeps the connection open and reads nothing.
async fn serve(mut socket: TcpStream, stuck: bool) {
    let mut held = Vec::new();
    while let Some((head, end, mut body)) = next_head(&mut socket, &mut held).await {
        if stuck {
            sleep(Duration::from_secs(600)).await;
        }
        body -= held.len() - end;
        held.clear();
        let mut buffer = vec![0; 1 << 16];
        while body > 0 {
            match socket.read(&mut buffer).await.unwrap_or(0) {
                0 => return,
                read => body -= read,
            }
        }
        let answer = if head.starts_with("put") {
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\netag: \"e\"\r\n\r\n"
        } else {
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
        };
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A store whose first connection is stuck; the others work.
async fn store_with_one_stuck(spool: Option<&std::path::Path>) -> tidegate::Store {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let first = Arc::new(AtomicBool::new(true));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, first.swap(false, Relaxed)));
        }
    });
    let s3 = connect(url).await;
    let mut policy = RetryPolicy::default();
    policy.attempts = 4;
    policy.first_pause = Duration::from_millis(10);
    policy.patience = Duration::from_secs(2);
    policy.least_patience = Duration::from_secs(2);
    policy.slowest = u64::MAX;
    let builder = Tidegate::builder().memory(6 * MIB).retry(policy);
    let builder = match spool {
        Some(folder) => builder.spool([folder]),
        None => builder,
    };
    builder.build().unwrap().store(Arc::new(s3))
}

#[tokio::test]
async fn an_object_from_the_spool_outlives_a_stuck_connection() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_one_stuck(Some(folder.path())).await;
    let builder = store.writer("k").strategy(Strategy::Spool).part_size(64 * MIB);
    let mut writer = builder.await.unwrap();
    for _ in 0..40 {
        writer.write_bytes(vec![7; MIB as usize].into()).await.unwrap();
    }
    let object = writer.finish().await;
    assert!(object.is_ok(), "{}", object.unwrap_err());
}

#[tokio::test]
async fn a_file_outlives_a_stuck_connection() {
    let store = store_with_one_stuck(None).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; 40 * MIB as usize]).unwrap();
    let object = store.writer("k").part_size(64 * MIB).upload(file.path()).await;
    assert!(object.is_ok(), "{}", object.unwrap_err());
}
