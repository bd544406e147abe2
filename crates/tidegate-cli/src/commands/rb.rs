//! `tidegate rb`: removes an empty bucket.

use tidegate::ErrorKind;
use tidegate::location::Location;

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output;
use crate::stores::Stores;
use crate::ui::lines::RemoveLine;

/// Remove an empty bucket
///
///     tidegate rb s3://BUCKET
///
/// A bucket that has objects is left as it is: remove them first, with
/// `tidegate rm -r s3://BUCKET`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RbArgs {
    /// Bucket to remove: s3://BUCKET, gs://BUCKET, az://CONTAINER or dev://BUCKET.
    #[arg(value_name = "URL")]
    bucket: String,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl RbArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.bucket.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            match stores.remove_bucket(&location).await {
                Err(CommandFailure::Store(error)) if error.kind() == ErrorKind::NotEmpty => {
                    Err(CommandFailure::Failed(not_empty(&location)))
                }
                Err(failure) => Err(failure),
                Ok(()) if !invocation.is_json() => {
                    output::say(&format!("removed {location}"));
                    Ok(())
                }
                Ok(()) => {
                    let mut out = output::text(invocation.format())?;
                    out.print(&RemoveLine { url: &location.to_string(), dry_run: false })?;
                    out.finish().await
                }
            }
        })
        .await
    }
}

fn not_empty(bucket: &Location) -> String {
    format!(
        "{bucket}: the bucket is not empty: remove the objects first with `tidegate rm -r {bucket}`, and old \
         versions of objects if the bucket keeps them"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_with_objects_is_named_with_the_command_that_empties_it() {
        let said = not_empty(&"s3://inbox".parse().unwrap());
        assert!(said.starts_with("s3://inbox: the bucket is not empty"), "{said}");
        assert!(said.contains("`tidegate rm -r s3://inbox`"), "{said}");
    }
}
