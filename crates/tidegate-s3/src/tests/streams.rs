//! Objects that must be read over one stream: they have no identity, or the store ignores ranges.

use std::future::IntoFuture;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::raw::connect;
use super::*;
use tidegate::{ErrorKind, Store, Tidegate};
use tidegate_core::testkit::bytes::bytes_of;
use tidegate_core::testkit::samples::{header_of, next_head};

const SIZE: usize = 40 * MIB;
/// Headers without anything that identifies an object.
const NAMELESS: &str = "x-amz-request-id: 1\r\n";
/// The same, with a modification time, which has only whole seconds.
const TIMED: &str = "x-amz-request-id: 1\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
const TAGGED: &str = "etag: \"e\"\r\n";

/// A server's objects and behaviour.
#[derive(Clone)]
struct Serving {
    headers: &'static str,
    /// Each request is answered with the next object, and with the last one from then on.
    objects: Vec<Bytes>,
    ignores_ranges: bool,
    /// The first response breaks off after so many bytes.
    breaks_at: Option<usize>,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    /// Bytes of bodies that were sent.
    sent: AtomicU64,
    /// Method and range of each request.
    asked: Mutex<Vec<String>>,
}

impl Log {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn sent(&self) -> u64 {
        self.sent.swap(0, Relaxed)
    }
}

impl Serving {
    fn new(headers: &'static str, objects: impl IntoIterator<Item = u8>) -> Self {
        let object = |seed| bytes_of(SIZE as u64, u64::from(seed)).into();
        let objects = objects.into_iter().map(object).collect();
        Self { headers, objects, ignores_ranges: false, breaks_at: None, log: Arc::default() }
    }

    async fn store(&self) -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = self.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(socket));
            }
        });
        Tidegate::builder().build().unwrap().store(Arc::new(connect(url).await))
    }

    async fn serve(self, mut socket: TcpStream) {
        let mut held = Vec::new();
        while let Some((head, end, _)) = next_head(&mut socket, &mut held).await {
            held.drain(..end);
            let is_get = head.starts_with("get");
            let asked = header_of(&head, "range").filter(|_| is_get && !self.ignores_ranges);
            let number = {
                let mut log = self.log.asked.lock().unwrap();
                let method = head.split(' ').next().unwrap().to_uppercase();
                log.push(format!("{method} {}", header_of(&head, "range").unwrap_or_default()));
                log.len() - 1
            };
            let object = &self.objects[number.min(self.objects.len() - 1)];
            let range = asked.as_deref().map_or(0..SIZE, range_of);
            let (status, extent) = match &asked {
                Some(_) => (
                    "206 Partial",
                    format!("content-range: bytes {}-{}/{SIZE}\r\n", range.start, range.end - 1),
                ),
                None => ("200 OK", String::new()),
            };
            let said = format!(
                "HTTP/1.1 {status}\r\n{}{extent}content-length: {}\r\n\r\n",
                self.headers,
                range.len()
            );
            if socket.write_all(said.as_bytes()).await.is_err() {
                return;
            }
            let body = object.slice(range);
            let breaks_at = self.breaks_at.filter(|_| number == 0);
            for piece in body[..breaks_at.unwrap_or(body.len())].chunks(64 << 10).filter(|_| is_get) {
                if socket.write_all(piece).await.is_err() {
                    return;
                }
                self.log.sent.fetch_add(piece.len() as u64, Relaxed);
            }
            if breaks_at.is_some() {
                return;
            }
        }
    }
}

fn range_of(text: &str) -> Range<usize> {
    let (first, last) = text.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    first.parse().unwrap()..last.parse::<usize>().map_or(SIZE, |last| SIZE.min(last + 1))
}

async fn download(store: &Store) -> tidegate::Result<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    store.download("k", &path).await?;
    Ok(std::fs::read(path).unwrap())
}

async fn read(store: &Store) -> tidegate::Result<Vec<u8>> {
    let pieces: Vec<Bytes> = store.reader("k").await?.try_collect().await?;
    Ok(pieces.concat())
}

/// Three blocks that are far from each other.
const INDEX: [Range<u64>; 3] = [10..20, 15 << 20..16 << 20, (30 << 20)..(30 << 20) + 5];

async fn blocks(store: &Store) -> tidegate::Result<Vec<u8>> {
    let blocks = store.blocks("k", INDEX).await?;
    let blocks: Vec<_> = blocks.map(|block| block.map(|block| block.bytes)).try_collect().await?;
    Ok(blocks.concat())
}

fn blocks_of(object: &[u8]) -> Vec<u8> {
    INDEX.iter().flat_map(|block| &object[block.start as usize..block.end as usize]).copied().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_nothing_tells_from_another_is_read_by_one_request() {
    for headers in [NAMELESS, TIMED] {
        // The object is replaced after the second request of each read.
        let serving = Serving::new(headers, [0, 0, 7]);
        let old = serving.objects[0].clone();
        let store = serving.store().await;
        assert!(download(&store).await.unwrap() == old, "{headers}");
        assert_eq!(serving.log.asked(), ["GET "], "{headers}");
        assert!(read(&store).await.unwrap() == old, "{headers}");
        assert_eq!(serving.log.asked(), ["GET "], "{headers}");
        assert!(blocks(&store).await.unwrap() == blocks_of(&old), "{headers}");
        let span = format!("GET bytes=10-{}", INDEX[2].end - 1);
        assert_eq!(serving.log.asked(), ["GET bytes=10-19", &span], "{headers}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn such_a_read_fails_where_its_request_breaks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    for headers in [NAMELESS, TIMED] {
        let serving = Serving { breaks_at: Some(10 * MIB), ..Serving::new(headers, [0]) };
        let store = serving.store().await;
        let failed = store.download("k", &path).await.unwrap_err();
        assert_eq!(serving.log.asked(), ["GET "], "{failed}");
        let reading = read(&store).await.unwrap_err();
        assert_eq!(serving.log.asked(), ["GET "], "{reading}");
        for error in [failed, reading] {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("neither an ETag nor a version"), "{error}");
        }
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
    }
}

#[tokio::test]
async fn such_an_object_is_not_sought_back_in_nor_copied_by_the_store() {
    let serving = Serving::new(TIMED, [0]);
    let store = serving.store().await;
    let mut reader = store.reader("k").await.unwrap();
    let mut byte = [0; 1];
    use tokio::io::{AsyncReadExt, AsyncSeekExt};
    // A seek forward continues over the same request.
    reader.seek(std::io::SeekFrom::Start(3 << 20)).await.unwrap();
    reader.read_exact(&mut byte).await.unwrap();
    assert_eq!(byte[0], serving.objects[0][3 << 20]);
    reader.seek(std::io::SeekFrom::Start(0)).await.unwrap();
    let back = reader.read_exact(&mut byte).await.unwrap_err();
    assert!(back.to_string().contains("neither an ETag nor a version"), "{back}");
    assert_eq!(serving.log.asked(), ["GET "]);
    let copied = store.copy("k", &store, "l").await.unwrap_err();
    assert_eq!(copied.kind(), ErrorKind::Unsupported, "{copied}");
    assert_eq!(serving.log.asked(), ["HEAD "]);
    let described = store.head("k").await.unwrap();
    let same = store.reader("k").if_unchanged(&described).await.map(drop).unwrap_err();
    assert_eq!(same.kind(), ErrorKind::Unsupported, "{same}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_ignores_ranges_sends_an_object_twice_at_most_and_then_once() {
    let once = SIZE as u64;
    for first in ["download", "read", "blocks"] {
        let serving = Serving { ignores_ranges: true, ..Serving::new(TAGGED, [0]) };
        let object = serving.objects[0].clone();
        let store = serving.store().await;
        let what = async |how: &str| match how {
            "download" => download(&store).await.unwrap() == object,
            "read" => read(&store).await.unwrap() == object,
            _ => blocks(&store).await.unwrap() == blocks_of(&object),
        };
        assert!(what(first).await, "{first}");
        let (asked, sent) = (serving.log.asked(), serving.log.sent());
        assert!(sent <= 2 * once, "{first}: {sent} bytes, {asked:?}");
        // Later reads know from the first one that the store ignores ranges.
        for then in ["download", "read", "blocks"] {
            assert!(what(then).await, "{first} {then}");
            let (asked, sent) = (serving.log.asked(), serving.log.sent());
            assert!(sent <= once && asked.len() == 1, "{first} {then}: {sent} bytes, {asked:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_stream_that_breaks_is_resumed_behind_what_came() {
    for headers in [TAGGED, "x-amz-version-id: 1\r\n"] {
        let serving =
            Serving { ignores_ranges: true, breaks_at: Some(20 * MIB), ..Serving::new(headers, [0]) };
        let store = serving.store().await;
        assert!(read(&store).await.unwrap() == serving.objects[0], "{headers}");
        serving.log.asked();
        assert!(download(&store).await.unwrap() == serving.objects[0], "{headers}");
        assert_eq!(serving.log.asked().len(), 2, "{headers}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_that_was_cut_is_resumed_from_a_store_that_ignores_ranges() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let serving = Serving { ignores_ranges: true, ..Serving::new(TAGGED, [0]) };
    let store = serving.store().await;
    for _ in 0..2 {
        let download = store.download("k", &path);
        let progress = download.progress();
        let running = tokio::spawn(download.into_future());
        while progress.snapshot().acknowledged < 12 << 20 && !running.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        running.abort();
        drop(running.await);
    }
    store.download("k", &path).await.unwrap();
    assert!(std::fs::read(&path).unwrap() == serving.objects[0]);
}
