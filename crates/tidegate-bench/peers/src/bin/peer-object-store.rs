//! `peer-object-store FILE URL`: uploads a file through object_store's `BufWriter`, as its documentation shows.
//!
//! Its default settings (10 MiB of buffer and so of a part, 8 requests in flight), except that the
//! payload is not signed: that costs more than everything else together. The file is read inline in
//! pieces of 1 MiB, without a hand-off to another thread, which is the cheapest way to feed it.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use tidegate_bench::peer::{self, Result};
use tokio::io::AsyncWriteExt;

/// How much is read from the file at a time.
const PIECE: usize = 1024 * 1024;

#[tokio::main]
async fn main() -> Result<()> {
    let job = peer::Job::from_arguments()?;
    let store: Arc<dyn ObjectStore> = Arc::new(
        AmazonS3Builder::from_env()
            .with_bucket_name(&job.bucket)
            .with_allow_http(true)
            .with_unsigned_payload(true)
            .build()?,
    );
    let mut writer = BufWriter::new(store, Path::parse(&job.key)?);
    let mut file = File::open(&job.file)?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            break;
        }
        writer.write_all(&piece[..read]).await?;
    }
    writer.shutdown().await?;
    Ok(())
}
