//! Runs the embedded server as a process of its own, which counts requests and mostly discards the bytes it
//! receives.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::backend::s3::{Credentials, S3, S3Settings};

use crate::Result;
use crate::certificate::CertificateFiles;
use crate::http::LocalClient;
use crate::machine;
use crate::process::{Program, ServerProcess};
use crate::sign::Signer;
use crate::size::KIB;

const KEY: &str = "tidegate";
const REGION: &str = "us-east-1";
const BUCKET: &str = "bench";

/// A store, as the benchmark describes it to a tool.
#[derive(Clone, Debug)]
pub struct StoreEndpoint {
    /// The store's address, `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// The credentials and the region.
    pub signer: Signer,
    /// The bucket, which exists.
    pub bucket: &'static str,
    /// The file of the authority that signed the server's certificate, if the server speaks TLS.
    pub authority: Option<PathBuf>,
}

impl StoreEndpoint {
    /// The same store through another address, such as a proxy.
    #[must_use]
    pub fn at(&self, url: String) -> Self {
        Self { url, ..self.clone() }
    }

    /// The environment variables that give an S3 client the address, the credentials and the trusted authority.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("AWS_ENDPOINT_URL", self.url.clone()),
            ("AWS_ACCESS_KEY_ID", self.signer.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.signer.secret_key.clone()),
            ("AWS_REGION", self.signer.region.clone()),
        ];
        if let Some(file) = &self.authority {
            // Most Python clients read the first variable, most Go and Rust clients the second.
            variables
                .extend(["AWS_CA_BUNDLE", "SSL_CERT_FILE"].map(|name| (name, file.display().to_string())));
        }
        variables
    }

    /// The address and the credentials, for the library.
    #[must_use]
    pub fn settings(&self) -> S3Settings {
        let signer = &self.signer;
        let credentials = Credentials::fixed(signer.access_key.as_str(), signer.secret_key.as_str(), None);
        let settings = S3Settings::default()
            .with_endpoint_url(self.url.as_str())
            .with_region(signer.region.as_str())
            .with_credentials(credentials);
        match &self.authority {
            Some(file) => settings.with_ca_bundle(file),
            None => settings,
        }
    }

    /// Connects the library to the bucket.
    ///
    /// # Errors
    /// As [`S3::connect`].
    pub async fn connect(&self) -> Result<S3> {
        Ok(S3::connect(self.bucket, &self.settings()).await?)
    }
}

/// The server's counts since they were last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Requests by the operation's name.
    pub requests: BTreeMap<String, u64>,
    /// Of these, requests answered with an error or not at all.
    pub failed: BTreeMap<String, u64>,
    /// Bytes of request bodies.
    pub bytes_in: u64,
    /// Bytes of response bodies.
    pub bytes_out: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Stored objects, by the checksum that they carry.
    #[serde(default)]
    pub checksums: BTreeMap<String, u64>,
}

impl ServerCounts {
    /// The number of requests of one operation.
    #[must_use]
    pub fn of(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or(0)
    }

    /// The number of all requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// `tidegate serve`, with one bucket.
#[derive(Debug)]
pub struct Embedded {
    server: ServerProcess,
    client: LocalClient,
    endpoint: StoreEndpoint,
}

impl Embedded {
    /// Starts the server of the program `tidegate` on a free port. The server discards all objects; its output
    /// goes to `folder`.
    pub fn start(tidegate: &Path, folder: &Path) -> Result<Self> {
        Self::storing(tidegate, folder, "discard")
    }

    /// The same, with a storage as `tidegate serve` takes it, such as `disk:DIR`.
    pub fn storing(tidegate: &Path, folder: &Path, storage: &str) -> Result<Self> {
        Self::run(tidegate, folder, storage, None)
    }

    /// The same over TLS, with a certificate that is made in `folder`.
    pub fn storing_over_tls(tidegate: &Path, folder: &Path, storage: &str) -> Result<Self> {
        Self::run(tidegate, folder, storage, Some(CertificateFiles::make(folder)?))
    }

    fn run(
        tidegate: &Path,
        folder: &Path,
        storage: &str,
        certificate: Option<CertificateFiles>,
    ) -> Result<Self> {
        let mut program = Program::new(tidegate);
        for argument in ["serve", "--storage", storage, "--listen", "127.0.0.1:0"] {
            program = program.arg(argument);
        }
        let mut client = LocalClient::default();
        if let Some(certificate) = &certificate {
            program =
                program.arg("--tls-cert").arg(&certificate.chain).arg("--tls-key").arg(&certificate.key);
            client = LocalClient::trusting(&certificate.authority)?;
        }
        let mut server = ServerProcess::start("tidegate-serve", &program, folder)?;
        let url = server.wait_ready(|said| {
            let url = url_in(said)?;
            client.answers(&format!("{url}/_tidegate/counts")).then_some(url)
        })?;
        let signer =
            Signer { access_key: KEY.to_owned(), secret_key: KEY.to_owned(), region: REGION.to_owned() };
        let bucket = format!("{url}/{BUCKET}");
        client.put_empty(&bucket, &signer.sign("PUT", &bucket)?)?;
        let authority = certificate.map(|certificate| certificate.authority);
        Ok(Self { server, client, endpoint: StoreEndpoint { url, signer, bucket: BUCKET, authority } })
    }

    /// The server's address and credentials.
    #[must_use]
    pub fn endpoint(&self) -> &StoreEndpoint {
        &self.endpoint
    }

    /// The server's `host:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        let url = &self.endpoint.url;
        url.split_once("://").map_or(url, |(_, address)| address)
    }

    /// Resets the server's counts.
    pub fn forget(&self) -> Result<()> {
        self.client.delete(&self.counts_url())
    }

    /// The server's counts since the last reset, without the requests of this client.
    pub fn counts(&self) -> Result<ServerCounts> {
        let mut counts: ServerCounts = self.client.get(&self.counts_url())?;
        // This question used a connection, too.
        counts.connections = counts.connections.saturating_sub(1);
        Ok(counts)
    }

    /// Sets the server's knobs (`tidegate_dev::Knobs`), from the next request on.
    pub fn behave(&self, knobs: &Value) -> Result<()> {
        let _: Value = self.client.put(&format!("{}/_tidegate/knobs", self.endpoint.url), knobs)?;
        Ok(())
    }

    /// Creates empty objects with these keys, thousands in one request, which is not counted.
    pub fn fill(&self, keys: &[String]) -> Result<()> {
        let objects = json!({"bucket": self.endpoint.bucket, "keys": keys});
        let _: Value = self.client.post(&format!("{}/_tidegate/objects", self.endpoint.url), &objects)?;
        Ok(())
    }

    /// Resident bytes of the server's memory.
    pub fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid()))?;
        Ok(machine::kib(&status, "VmRSS").ok_or("the server's memory is not in /proc")? * KIB)
    }

    /// Stops the server's process for a while: connections stay open, and no bytes move.
    pub(crate) async fn stall(&self, time: Duration) -> Result<()> {
        let process = i32::try_from(self.server.pid()).ok().and_then(Pid::from_raw);
        let process = process.ok_or("the server has ended")?;
        kill_process(process, Signal::STOP)?;
        tokio::time::sleep(time).await;
        Ok(kill_process(process, Signal::CONT)?)
    }

    fn counts_url(&self) -> String {
        format!("{}/_tidegate/counts", self.endpoint.url)
    }
}

/// The URL in the first line, `listening on URL`, once the line is complete.
fn url_in(said: &str) -> Option<String> {
    let (line, _) = said.split_once('\n')?;
    line.strip_prefix("listening on ").map(|url| url.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_taken_from_a_whole_line() {
        assert_eq!(url_in("listening on http://127.0.0.1:5\nmore"), Some("http://127.0.0.1:5".to_owned()));
        assert_eq!(url_in("listening on http://127.0."), None);
        assert_eq!(url_in("error: no\n"), None);
    }

    #[test]
    fn requests_are_added_up() {
        let counts: ServerCounts =
            serde_json::from_str(r#"{"requests":{"PutObject":3,"HeadObject":2},"failed":{},"bytes_in":9,"bytes_out":0,"connections":1,"checksums":{}}"#)
                .unwrap();
        assert_eq!((counts.of("PutObject"), counts.of("GetObject"), counts.total()), (3, 0, 5));
    }
}
