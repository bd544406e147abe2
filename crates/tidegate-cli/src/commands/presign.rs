//! `tidegate presign`: signs a URL that anyone can use.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tidegate::location::Location;

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::stores::Stores;
use crate::{output, text, values};

/// Print a URL by which anyone can read an object, without an account, until it expires
///
///     curl "$(tidegate presign s3://BUCKET/KEY --expires 1d)"
///     curl -T FILE "$(tidegate presign s3://BUCKET/KEY --put)"
///
/// Treat the URL as a password. Nothing is sent to the store, so the object need not exist.
/// A URL that was signed with temporary credentials ends with them. Google's buckets need a
/// service account, which signs by its key or through IAM. For Azure the account's key or an
/// identity signs, and a PUT needs the header `x-ms-blob-type: BlockBlob`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PresignArgs {
    /// Object to read or write: s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY.
    #[arg(value_name = "URL")]
    object: String,

    /// Allow writing the object, by a PUT of its bytes, instead of reading it.
    #[arg(long)]
    put: bool,

    /// How long the URL can be used, at most 7d. Give 90s, 15min, 1h, 7d, or a number of seconds.
    #[arg(long, alias = "expires-in", default_value = "1h", value_parser = values::lifetime, value_name = "TIME")]
    expires: Duration,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// A signed URL as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "presigned")]
struct PresignedUrl<'a> {
    /// The object.
    url: String,
    signed_url: &'a str,
    method: &'a str,
    /// What the client must send with the request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'static str, &'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

impl PresignArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.object.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let place = stores.object(&location).await?;
            if matches!(location, Location::Dev { .. }) && !stores.dev_outlives_us() {
                let message = format!(
                    "{location}: the embedded server would end with this command, and the URL with it: start \
                     `tidegate serve` before"
                );
                return Err(CommandFailure::Usage(message));
            }
            // Taken before the URL is signed: the URL is good for a moment longer than is said, never shorter.
            let now = SystemTime::now();
            let (method, url) = match self.put {
                false => ("GET", place.store.presign_get(&place.key, self.expires).await?),
                true => ("PUT", place.store.presign_put(&place.key, self.expires).await?),
            };
            let headers = if self.put { place.store.presigned_put_headers() } else { &[] };
            let headers: BTreeMap<_, _> = headers.iter().copied().collect();
            let mut out = output::text(invocation.format())?;
            if out.is_json() {
                let expires = now.checked_add(self.expires).map(text::time);
                out.json(&PresignedUrl { url: place.url(), signed_url: &url, method, headers, expires })?;
            } else {
                // As it is, however long: a URL that is cut is no URL.
                out.write_all(url.as_bytes())?;
                out.write_all(b"\n")?;
                for (name, value) in headers {
                    output::say(&format!("the request needs the header `{name}: {value}`"));
                }
            }
            out.finish().await
        })
        .await
    }
}
