//! `peer-transfer-manager FILE URL` or `URL FILE`: uploads or downloads a file with AWS's transfer manager for Rust, as
//! its documentation shows, in its default settings, from or to an endpoint that has its buckets in the path. A URL
//! that ends with a slash is a prefix, and FILE a directory. The environment may say other parts, and how many at once.

use aws_sdk_s3_transfer_manager::Client;
use aws_sdk_s3_transfer_manager::config::{Config, S3ClientConfig};
use aws_sdk_s3_transfer_manager::io::InputStream;
use aws_sdk_s3_transfer_manager::types::{ConcurrencyMode, PartSize};
use tidegate_bench_peers::peer::{PeerDirection, PeerJob, Result, tuning};

#[tokio::main]
async fn main() -> Result<()> {
    let job = PeerJob::from_arguments()?;
    let settings = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
    let s3 = aws_sdk_s3::config::Builder::from(&settings).force_path_style(true);
    let mut config = Config::builder().s3_config(S3ClientConfig::new(s3));
    if let Some((part, at_once)) = tuning()? {
        config = config
            .part_size(PartSize::Target(part as u64))
            .concurrency(ConcurrencyMode::Explicit(at_once));
    }
    let client = Client::new(config.build());
    match (job.direction, job.key.ends_with('/')) {
        (PeerDirection::Upload, false) => {
            let body = InputStream::from_path(&job.file)?;
            client.upload().bucket(&job.bucket).key(&job.key).body(body).initiate()?.join().await?;
        }
        (PeerDirection::Download, false) => {
            let download = client.download().bucket(&job.bucket).key(&job.key);
            download.write_to_path(&job.file).await?.join().await?;
        }
        (PeerDirection::Upload, true) => {
            let upload = client.upload_objects().bucket(&job.bucket).key_prefix(job.key.trim_end_matches('/'));
            upload.source(&job.file).initiate()?.join().await?;
        }
        (PeerDirection::Download, true) => {
            let download = client.download_objects().bucket(&job.bucket).key_prefix(&job.key);
            download.destination(&job.file).initiate()?.join().await?;
        }
    }
    Ok(())
}
