//! `peer-object-store FILE URL` or `URL FILE`: uploads a file through object_store's `BufWriter`, or downloads an
//! object by ranges, as its documentation shows both.
//!
//! Up: its default settings (10 MiB of buffer and so of a part, 8 requests in flight), except that the
//! payload is not signed: that costs more than everything else together. The file is read inline in
//! pieces of 1 MiB, without a hand-off to another thread, which is the cheapest way to feed it.
//!
//! Down: a HEAD for the size, then ranges of 8 MiB, 8 of them in flight, each in a task of its own and written inline
//! in its place. (`get_ranges` would join neighbours into one request.)
//!
//! The environment may say other parts, and how many at once.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tidegate_bench_peers::peer::{PeerDirection, PeerJob, Result, tuning};
use tokio::io::AsyncWriteExt;

/// How much is read from the file at a time.
const PIECE: usize = 1024 * 1024;
/// How much is asked for at a time.
const RANGE: usize = 8 * 1024 * 1024;
/// How many ranges are in flight: as many as the parts of `BufWriter`.
const AT_ONCE: usize = 8;

#[tokio::main]
async fn main() -> Result<()> {
    let job = PeerJob::from_arguments()?;
    let store: Arc<dyn ObjectStore> = Arc::new(
        AmazonS3Builder::from_env()
            .with_bucket_name(&job.bucket)
            .with_allow_http(true)
            .with_unsigned_payload(true)
            .build()?,
    );
    let path = Path::parse(&job.key)?;
    match job.direction {
        PeerDirection::Upload => {
            let writer = match tuning()? {
                None => BufWriter::new(store, path),
                Some((part, at_once)) => BufWriter::with_capacity(store, path, part).with_max_concurrency(at_once),
            };
            upload(writer, File::open(&job.file)?).await
        }
        PeerDirection::Download => {
            let (range, at_once) = tuning()?.unwrap_or((RANGE, AT_ONCE));
            download(store, path, File::create(&job.file)?, range, at_once).await
        }
    }
}

async fn upload(mut writer: BufWriter, mut file: File) -> Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        // A pipe gives less than what there is room for.
        let mut read = 0;
        while read < piece.len() {
            match file.read(&mut piece[read..])? {
                0 => break,
                more => read += more,
            }
        }
        if read == 0 {
            break;
        }
        writer.write_all(&piece[..read]).await?;
    }
    writer.shutdown().await?;
    Ok(())
}

async fn download(
    store: Arc<dyn ObjectStore>,
    path: Path,
    file: File,
    range: usize,
    at_once: usize,
) -> Result<()> {
    let size = store.head(&path).await?.size;
    let file = Arc::new(file);
    let starts = (0..size).step_by(range);
    let ranges = stream::iter(starts).map(|start| {
        let (store, path, file) = (store.clone(), path.clone(), file.clone());
        let task = tokio::spawn(async move {
            let bytes = store.get_range(&path, start..(start + range as u64).min(size)).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(file.write_all_at(&bytes, start)?)
        });
        async move { task.await? }
    });
    ranges.buffer_unordered(at_once).try_collect().await
}
