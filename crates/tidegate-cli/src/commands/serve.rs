//! `tidegate serve`: runs the embedded server.

use std::fmt::Display;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tidegate_dev::{Bandwidth, Delay, Knobs, Server, Storage, Tls, TlsError};

use crate::dev::{self, Contact};
use crate::exit::{CommandFailure, Outcome};
use crate::interrupt::Signals;
use crate::invocation::{Invocation, OutputFormat};
use crate::{output, text, values};

/// How long requests may take to end after a signal: the process must end within two seconds.
const STOPPING: Duration = Duration::from_secs(1);

/// Run the embedded server for tests, trials and measurements, until Ctrl-C
///
///     tidegate serve
///     tidegate serve --storage memory --listen 127.0.0.1:0
///     tidegate serve --latency 20ms --bandwidth 40MB/s
///
/// It speaks S3 and Google Cloud Storage on one port, over the same buckets. It prints the
/// variables that lead clients to it, such as AWS_ENDPOINT_URL and STORAGE_EMULATOR_HOST.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArgs {
    /// Listen on this address. Port 0 takes any free port.
    #[arg(long, default_value = "127.0.0.1:9123", value_name = "HOST:PORT")]
    listen: SocketAddr,

    /// Keep objects in disk:PATH, in memory, or nowhere (discard). Use discard to measure clients. Default: the storage
    /// of dev://, disk:.tidegate-dev.
    #[arg(long, value_parser = storage, value_name = "WHERE")]
    storage: Option<Storage>,

    /// Create a bucket at the first write to it. Always on for the storage of dev://.
    #[arg(long)]
    auto_create_buckets: bool,

    /// Also answer requests for this host name or address. Repeat it for several. Requests for hosts other than these
    /// and loopback are refused, so that no web page reaches the server through a browser.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,

    /// Set the access key that clients sign with.
    #[arg(long, default_value = dev::KEY, value_name = "KEY")]
    access_key: String,

    /// Set the secret key. Default: tidegate, or a random key if --listen is not a loopback address. There, clients
    /// of Google Cloud Storage send it as their bearer token.
    #[arg(long, value_name = "KEY")]
    secret_key: Option<String>,

    /// Accept some requests without credentials, from any machine. These are requests to the control endpoint, and
    /// those of clients of Google Cloud Storage, which send no credentials to an emulator.
    #[arg(long)]
    allow_anonymous: bool,

    /// Inject faults and delays, given as JSON or as @FILE. GET and PUT of /_tidegate/knobs read and change them at
    /// run time.
    #[arg(long, value_parser = knobs, value_name = "JSON|@FILE")]
    knobs: Option<Knobs>,

    /// Delay each response by this time, such as 20ms.
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    latency: Option<Duration>,

    /// Move at most this many bytes per second, such as 40MB/s. The limit is for each direction of each connection.
    #[arg(long, value_parser = values::rate_above_zero, value_name = "RATE")]
    bandwidth: Option<u64>,

    /// Make each ETag the MD5 of the content, as S3 mostly does. It costs processor time.
    #[arg(long)]
    md5_etags: bool,

    /// Speak TLS, with the certificate in this file (PEM). It must name the host that clients connect to.
    #[arg(long, requires = "tls_key", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// Use the private key in this file (PEM) for the certificate.
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

impl ServeArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let mut signals = Signals::new();
        let is_open = self.listen.ip().is_loopback() || self.allow_anonymous;
        let certificate = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(ServerCertificate::read(certificate, key)?),
            _ => None,
        };
        let is_dev = self.storage.is_none();
        let storage = self.storage.unwrap_or_else(|| Storage::Disk(dev::directory()));
        let mut knobs = self.knobs.unwrap_or_default();
        if let Some(latency) = self.latency {
            knobs.latency = Delay::FixedMs(latency.as_secs_f64() * 1e3);
        }
        if let Some(bandwidth) = self.bandwidth {
            knobs.bandwidth = Bandwidth::per_connection(bandwidth);
        }
        let secret_key = match self.secret_key {
            Some(key) => key,
            None if self.listen.ip().is_loopback() => dev::KEY.to_owned(),
            None => random_key()?,
        };
        let mut builder = self.host.iter().fold(Server::builder(), |builder, host| builder.host(host));
        if let Some(certificate) = &certificate {
            builder = builder.tls(certificate.tls.clone());
        }
        let server = builder
            .storage(storage.clone())
            .listen(self.listen)
            .credentials(self.access_key, secret_key)
            .allow_anonymous(self.allow_anonymous)
            .region(dev::REGION)
            .knobs(knobs)
            .md5_etags(self.md5_etags)
            .auto_create_buckets(is_dev || self.auto_create_buckets)
            .start()
            .await
            .map_err(|error| CommandFailure::Failed(error.to_string()))?;
        let directory = match &storage {
            Storage::Disk(directory) => Some(directory.as_path()),
            _ => None,
        };
        let trusted = certificate.as_ref().and_then(ServerCertificate::trusted);
        if let Some(directory) = directory {
            Contact::leave(&server, trusted, directory).map_err(|error| {
                CommandFailure::Failed(format!("can't write in {}: {error}", directory.display()))
            })?;
        }
        let said = match invocation.is_json() {
            true => describe(&server, directory).await,
            false => say_how_to_use(&server, certificate.as_ref(), directory, is_dev, is_open).await,
        };
        if said.is_ok() {
            signals.next().await;
        }
        if let Some(directory) = directory {
            Contact::take_back(directory);
        }
        // The process ends whether the server has stopped or the time is up: requests in flight do not keep it alive.
        let _ = tokio::time::timeout(STOPPING, server.stop()).await;
        said
    }
}

/// The variables that tell clients which certificates to trust: for AWS; for Go, Rust and OpenSSL; for `requests` in
/// Python.
const TRUSTING: [&str; 3] = ["AWS_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"];

/// The server's certificate.
struct ServerCertificate {
    tls: Tls,
    /// The certificate's file, as an absolute path.
    path: PathBuf,
}

impl ServerCertificate {
    fn read(certificate: &Path, key: &Path) -> Outcome<Self> {
        let unusable = |what: &str, path: &Path, why: &dyn Display| {
            CommandFailure::Usage(format!("the {what} {} cannot be used: {why}", path.display()))
        };
        let text =
            std::fs::read(certificate).map_err(|error| unusable("certificate", certificate, &error))?;
        let key_text = std::fs::read(key).map_err(|error| unusable("private key", key, &error))?;
        let tls = Tls::from_pem(&text, &key_text).map_err(|error| match &error {
            TlsError::Certificate(why) => unusable("certificate", certificate, why),
            TlsError::Key(why) => unusable("private key", key, why),
            _ => CommandFailure::Failed(error.to_string()),
        })?;
        let path =
            std::path::absolute(certificate).map_err(|error| unusable("certificate", certificate, &error))?;
        Ok(Self { tls, path })
    }

    /// The certificate's file, if trusting the file is enough to trust the server.
    fn trusted(&self) -> Option<&Path> {
        self.tls.has_authority().then_some(self.path.as_path())
    }

    fn say(&self, address: IpAddr, out: &mut impl Write) -> Outcome {
        match self.trusted() {
            Some(file) => {
                writeln!(out, "for them to trust it:")?;
                for name in TRUSTING {
                    writeln!(out, "  export {name}={}", text::quoted(&file.to_string_lossy()))?;
                }
            }
            None => writeln!(
                out,
                "for them to trust it, name the file of the authority that signed its certificate in {}",
                TRUSTING.join(", ")
            )?,
        }
        if !self.tls.names(address) {
            writeln!(
                out,
                "its certificate does not name {address}: clients need a name that it has in the URLs"
            )?;
        }
        Ok(())
    }
}

/// The running server as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "server")]
struct DescribedServer<'a> {
    endpoint_url: &'a str,
    access_key: &'a str,
    secret_key: &'a str,
    region: &'a str,
    /// Where objects are kept, if they outlive the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'a Path>,
}

async fn describe(server: &Server, directory: Option<&Path>) -> Outcome {
    let (endpoint_url, (access_key, secret_key)) = (server.endpoint(), server.credentials());
    let endpoint_url = &endpoint_url;
    let mut out = output::text(OutputFormat::Json)?;
    out.json(&DescribedServer { endpoint_url, access_key, secret_key, region: dev::REGION, directory })?;
    out.finish().await
}

async fn say_how_to_use(
    server: &Server,
    certificate: Option<&ServerCertificate>,
    directory: Option<&Path>,
    is_dev: bool,
    is_open: bool,
) -> Outcome {
    let (url, (access_key, secret_key)) = (server.endpoint(), server.credentials());
    let mut out = output::text(OutputFormat::Text)?;
    writeln!(out, "listening on {url}")?;
    match directory {
        Some(directory) => writeln!(out, "objects are kept in {}", directory.display())?,
        None => writeln!(out, "objects are gone when it stops")?,
    }
    if is_dev {
        writeln!(out, "they are those of dev://; a bucket is made at the first write to it")?;
    }
    writeln!(out, "for any S3 client:")?;
    let variables = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", access_key),
        ("AWS_SECRET_ACCESS_KEY", secret_key),
        ("AWS_REGION", dev::REGION),
    ];
    for (name, value) in variables {
        writeln!(out, "  export {name}={}", text::quoted(value))?;
    }
    match is_open {
        true => writeln!(out, "for any client of Google Cloud Storage, without credentials:")?,
        false => {
            writeln!(out, "for clients of Google Cloud Storage, with the secret key as their bearer token:")?
        }
    }
    for name in ["STORAGE_EMULATOR_HOST", "STORAGE_EMULATOR_HOST_GRPC"] {
        writeln!(out, "  export {name}={}", text::quoted(&url))?;
    }
    if let Some(certificate) = certificate {
        certificate.say(server.addr().ip(), &mut out)?;
    }
    writeln!(out, "Ctrl-C stops it")?;
    out.finish().await
}

/// A random secret key, of 16 bytes.
fn random_key() -> Outcome<String> {
    let mut bytes = [0; 16];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(count) if count == bytes.len() => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Ok(_) => Err(CommandFailure::Failed("the system gives no random bytes for a secret key".to_owned())),
        Err(errno) => {
            Err(CommandFailure::Failed(format!("the system gives no random bytes for a secret key: {errno}")))
        }
    }
}

fn storage(text: &str) -> Result<Storage, String> {
    match text.split_once(':') {
        None if text == "memory" => Ok(Storage::Memory),
        None if text == "discard" => Ok(Storage::Discard),
        Some(("disk", path)) if !path.is_empty() => Ok(Storage::Disk(PathBuf::from(path))),
        _ => Err("write disk:PATH, memory or discard".to_owned()),
    }
}

fn knobs(text: &str) -> Result<Knobs, String> {
    let json = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| error.to_string())?,
        None => text.to_owned(),
    };
    serde_json::from_str(&json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_are_named() {
        assert_eq!(storage("memory"), Ok(Storage::Memory));
        assert_eq!(storage("discard"), Ok(Storage::Discard));
        assert_eq!(storage("disk:a:b"), Ok(Storage::Disk(PathBuf::from("a:b"))));
        for wrong in ["", "disk", "disk:", "tape", "memory:x"] {
            assert!(storage(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn knobs_are_json_with_known_names() {
        assert!(knobs(r#"{"latency": {"fixed_ms": 5}}"#).is_ok());
        assert!(knobs(r#"{"latencies": 5}"#).is_err());
        assert!(knobs("@/nowhere/knobs.json").is_err());
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (none, empty) = (folder.path().join("none.pem"), folder.path().join("empty.pem"));
        std::fs::write(&empty, "").unwrap();
        let refused = |certificate: &Path, key: &Path| {
            ServerCertificate::read(certificate, key).err().and_then(|failure| failure.sentence()).unwrap()
        };
        let missing = format!("the certificate {} cannot be used: No such file", none.display());
        assert!(refused(&none, &empty).starts_with(&missing));
        let missing = format!("the private key {} cannot be used: No such file", none.display());
        assert!(refused(&empty, &none).starts_with(&missing));
        let nothing =
            format!("the certificate {} cannot be used: there is no certificate in it", empty.display());
        assert_eq!(refused(&empty, &empty), nothing);
    }
}
