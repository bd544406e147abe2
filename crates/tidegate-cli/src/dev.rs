//! `dev://`: the embedded server, in this process, with its objects on disk here.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::backend::Backend;
use tidegate::backend::s3::{Credentials, S3Client, S3Settings};
use tidegate_dev::{Error, Server, Storage};
use tokio::time::Instant;

use crate::exit::{Failure, Outcome};
use crate::output;

/// Both keys of the embedded server, unless `tidegate serve` is told others.
pub(crate) const KEY: &str = "tidegate";
pub(crate) const REGION: &str = "us-east-1";
/// How long to wait for another command that uses the same directory.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the objects are: `TIDEGATE_DEV_DIR`, or `.tidegate-dev` in the current directory.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("TIDEGATE_DEV_DIR") {
        Some(directory) if !directory.is_empty() => directory.into(),
        _ => ".tidegate-dev".into(),
    }
}

/// Where a `tidegate serve` is that holds a directory: only one server may.
///
/// It stands in a file beside the objects, which means something only while the directory is held.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contact {
    pub(crate) url: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    /// The file of its certificate, where it speaks TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
}

impl Contact {
    fn of(server: &Server, certificate: Option<&Path>) -> Self {
        let (access_key, secret_key) = server.credentials();
        Self {
            url: server.endpoint(),
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            certificate: certificate.map(Path::to_owned),
        }
    }

    fn file(directory: &Path) -> PathBuf {
        directory.join("server.json")
    }

    /// Leaves word where `server` is; its keys are nobody else's business.
    pub(crate) fn leave(server: &Server, certificate: Option<&Path>, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_string(&Self::of(server, certificate))?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(Self::file(directory))?.write_all(text.as_bytes())
    }

    pub(crate) fn take_back(directory: &Path) {
        // The directory is free all the same.
        let _ = fs::remove_file(Self::file(directory));
    }

    fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::file(directory)).ok()?).ok()
    }
}

/// The store behind `dev://`.
#[derive(Debug)]
pub(crate) struct Dev {
    client: S3Client,
    /// `None` where a `tidegate serve` has the directory and was asked instead.
    server: Option<Server>,
}

impl Dev {
    /// Starts the server, or finds the one that is running on the directory.
    pub(crate) async fn start() -> Outcome<Self> {
        let directory = directory();
        let began = Instant::now();
        let mut told = false;
        let server = loop {
            let storage = Storage::Disk(directory.clone());
            let builder = Server::builder().storage(storage).credentials(KEY, KEY);
            match builder.region(REGION).auto_create_buckets(true).start().await {
                Ok(server) => break Some(server),
                Err(error) if is_busy(&error) => {
                    if Contact::read(&directory).is_some() {
                        break None;
                    }
                    if began.elapsed() > PATIENCE {
                        return Err(failed(&error));
                    }
                    if !told && began.elapsed() > Duration::from_secs(1) {
                        told = true;
                        let directory = directory.display();
                        output::say(&format!("waiting for another tidegate on {directory}"));
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(failed(&error)),
            }
        };
        let contact = match &server {
            Some(server) => Contact::of(server, None),
            None => Contact::read(&directory).ok_or_else(|| {
                Failure::Failed("the server of dev:// has just ended: try again".to_owned())
            })?,
        };
        let settings = S3Settings::default()
            .with_endpoint_url(&contact.url)
            .with_region(REGION)
            .with_scheme("dev")
            .with_credentials(Credentials::fixed(&contact.access_key, &contact.secret_key, None));
        let settings = match &contact.certificate {
            Some(file) => settings.with_ca_bundle(file),
            None => settings,
        };
        let client = S3Client::connect(&settings).await;
        let client = client.map_err(|fault| Failure::Failed(format!("dev://: {fault}")))?;
        Ok(Self { client, server })
    }

    pub(crate) fn bucket(&self, name: &str) -> Outcome<Arc<dyn Backend>> {
        let bucket = self.client.bucket(name);
        let bucket = bucket.map_err(|fault| Failure::Usage(format!("dev://{name}: {fault}")))?;
        Ok(Arc::new(bucket))
    }

    /// Stops the server, if it is this process's.
    pub(crate) async fn stop(self) {
        if let Some(server) = self.server {
            server.stop().await;
        }
    }
}

/// Whether another server holds the directory.
fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Storage { source, .. } if source.kind() == io::ErrorKind::ResourceBusy)
}

fn failed(error: &Error) -> Failure {
    Failure::Failed(format!("the embedded server does not start: {error}"))
}
