//! `peer-transfer-manager FILE URL` or `URL FILE`: uploads or downloads a file with AWS's transfer manager for Rust, as
//! its documentation shows, in its default settings, from or to an endpoint that has its buckets in the path.

use aws_sdk_s3_transfer_manager::Client;
use aws_sdk_s3_transfer_manager::config::{Config, S3ClientConfig};
use aws_sdk_s3_transfer_manager::io::InputStream;
use tidegate_bench_peers::peer::{Direction, Job, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let job = Job::from_arguments()?;
    let settings = aws_config::load_defaults(aws_config::BehaviorVersion::latest()).await;
    let s3 = aws_sdk_s3::config::Builder::from(&settings).force_path_style(true);
    let client = Client::new(Config::builder().s3_config(S3ClientConfig::new(s3)).build());
    match job.direction {
        Direction::Upload => {
            let body = InputStream::from_path(&job.file)?;
            client.upload().bucket(&job.bucket).key(&job.key).body(body).initiate()?.join().await?;
        }
        Direction::Download => {
            let download = client.download().bucket(&job.bucket).key(&job.key);
            download.write_to_path(&job.file).await?.join().await?;
        }
    }
    Ok(())
}
