//! `peer-opendal FILE URL` or `URL FILE`: uploads or downloads a file through OpenDAL, as its documentation shows.
//!
//! Up: a writer in its default settings (parts as small as the store takes them, one after the other), fed in pieces
//! of 1 MiB that are read inline. Down: a stream of the whole object, written to the file as it comes. The environment
//! may say other parts, and how many at once.

use std::fs::File;
use std::io::{Read, Write};

use futures::TryStreamExt;
use opendal::Operator;
use opendal::services::S3;
use tidegate_bench_peers::peer::{PeerDirection, PeerJob, Result, tuning, variable};

/// How much is read from the file at a time.
const PIECE: u64 = 1024 * 1024;

#[tokio::main]
async fn main() -> Result<()> {
    let job = PeerJob::from_arguments()?;
    let service = S3::default()
        .bucket(&job.bucket)
        .endpoint(&variable("AWS_ENDPOINT_URL")?)
        .region(&variable("AWS_REGION")?)
        .access_key_id(&variable("AWS_ACCESS_KEY_ID")?)
        .secret_access_key(&variable("AWS_SECRET_ACCESS_KEY")?);
    let operator = Operator::new(service)?;
    match job.direction {
        PeerDirection::Upload => upload(&operator, &job.key, File::open(&job.file)?).await,
        PeerDirection::Download => download(&operator, &job.key, File::create(&job.file)?).await,
    }
}

async fn upload(operator: &Operator, key: &str, file: File) -> Result<()> {
    let mut writer = match tuning()? {
        None => operator.writer(key).await?,
        Some((part, at_once)) => operator.writer_with(key).chunk(part).concurrent(at_once).await?,
    };
    loop {
        let mut piece = Vec::with_capacity(PIECE as usize);
        (&file).take(PIECE).read_to_end(&mut piece)?;
        if piece.is_empty() {
            break;
        }
        writer.write(piece).await?;
    }
    writer.close().await?;
    Ok(())
}

async fn download(operator: &Operator, key: &str, mut file: File) -> Result<()> {
    let reader = match tuning()? {
        None => operator.reader(key).await?,
        Some((part, at_once)) => operator.reader_with(key).chunk(part).concurrent(at_once).await?,
    };
    let mut pieces = reader.into_bytes_stream(..).await?;
    while let Some(piece) = pieces.try_next().await? {
        file.write_all(&piece)?;
    }
    Ok(())
}
