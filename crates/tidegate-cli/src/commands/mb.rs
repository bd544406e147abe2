//! `tidegate mb`: creates a bucket.

use serde::Serialize;
use tidegate::location::Location;

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output;
use crate::stores::Stores;

/// Create a bucket (make bucket)
///
///     tidegate mb s3://BUCKET --region eu-central-1
///     tidegate mb gs://BUCKET
///     tidegate mb az://CONTAINER
///
/// A bucket of S3 is created in the region of --region or AWS_REGION. A bucket of Google
/// belongs to the project that GOOGLE_CLOUD_PROJECT or the credentials' file names. If there
/// is a bucket of this name, that is an error, except in us-east-1 for a bucket of your own.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct MbArgs {
    /// Bucket to create: s3://BUCKET, gs://BUCKET, az://CONTAINER or dev://BUCKET.
    #[arg(value_name = "URL")]
    bucket: String,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// The bucket as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "create")]
struct CreatedBucket {
    url: String,
}

impl MbArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.bucket.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            stores.create_bucket(&location).await?;
            if !invocation.is_json() {
                output::say(&format!("created {location}"));
                return Ok(());
            }
            let mut out = output::text(invocation.format())?;
            out.json(&CreatedBucket { url: location.to_string() })?;
            out.finish().await
        })
        .await
    }
}
