//! `dev://`: an embedded server in this process, with its objects in a local directory.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tidegate::backend::s3::{Credentials, S3Client, S3Settings};
use tidegate::backend::{Backend, Buckets, Fault, FaultKind, KnownFacts, Scheme};
use tidegate::text::printable;
use tidegate::trusted_file::{Distrust, TrustedOwners, UntrustedFile, read_trusted};
use tidegate_dev::{Server, ServerError, Storage};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::exit::{CommandFailure, Outcome};
use crate::output;

/// The access key and the secret key of the embedded server, unless `tidegate serve` is given others.
pub(crate) const KEY: &str = "tidegate";
pub(crate) const REGION: &str = "us-east-1";
/// How long to wait for another command that uses the same directory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The directory of the objects: `TIDEGATE_DEV_DIR`, or `.tidegate-dev` in the current directory.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("TIDEGATE_DEV_DIR") {
        Some(directory) if !directory.is_empty() => directory.into(),
        _ => ".tidegate-dev".into(),
    }
}

/// How to reach the `tidegate serve` that holds a directory. Only one server may hold it.
///
/// The server writes this to a file beside the objects. The file is valid only while the server holds the directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contact {
    pub(crate) url: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    /// The file of the server's certificate, if it speaks TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
}

impl Contact {
    fn of(server: &Server, certificate: Option<&Path>) -> Self {
        let (access_key, secret_key) = server.credentials();
        Self {
            url: url_here(&server.endpoint(), server.addr()),
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            certificate: certificate.map(Path::to_owned),
        }
    }

    fn file(directory: &Path) -> PathBuf {
        directory.join("server.json")
    }

    /// Writes the file, so that other commands find `server`. It has secret keys, so it gets mode 0600. The file is
    /// made new and replaces any file of its name: that may be a link to another file, or have been opened by another
    /// user.
    pub(crate) fn leave(server: &Server, certificate: Option<&Path>, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_string(&Self::of(server, certificate))?;
        let mut file = tempfile::Builder::new().prefix(".server-").tempfile_in(directory)?;
        file.write_all(text.as_bytes())?;
        file.persist(Self::file(directory)).map(drop).map_err(|error| error.error)
    }

    pub(crate) fn take_back(directory: &Path) {
        // An old file does no harm: the directory is free.
        let _ = fs::remove_file(Self::file(directory));
    }

    /// Reads the file of the server that holds the directory; `None` if there is no file, or it has another version's
    /// format.
    ///
    /// # Errors
    /// If another user may have written the file, or it names another machine: objects would be sent there.
    fn read(directory: &Path) -> Outcome<Option<Self>> {
        const LONGEST: u64 = 64 << 10;
        let path = Self::file(directory);
        let text = match read_trusted(&path, &TrustedOwners::default(), LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread(&path, &error)),
        };
        let Ok(contact) = serde_json::from_slice::<Self>(&text) else { return Ok(None) };
        if !is_of_loopback(&contact.url) {
            let (url, directory) = (printable(&contact.url), directory.display());
            return Err(CommandFailure::Denied(format!(
                "dev://: the server of {directory} is said to be at {url}, which is not a loopback address: use s3:// with AWS_ENDPOINT_URL to reach it"
            )));
        }
        Ok(Some(contact))
    }
}

/// The failure to read the file of a server.
fn unread(path: &Path, error: &io::Error) -> CommandFailure {
    let refused = error.get_ref().and_then(|error| error.downcast_ref::<UntrustedFile>());
    match refused.map(|refused| refused.reason) {
        Some(Distrust::Owner(uid)) => CommandFailure::Denied(format!(
            "dev://: {} belongs to user {uid}: remove it, or set TIDEGATE_DEV_DIR to a directory of your own",
            path.display()
        )),
        Some(_) => CommandFailure::Denied(format!("dev://: {error}")),
        None => CommandFailure::of_file(path, error),
    }
}

/// The address of a server from this machine: a server that listens on every address is reached by loopback.
fn url_here(endpoint: &str, address: SocketAddr) -> String {
    let loopback: IpAddr = match address.ip() {
        ip if !ip.is_unspecified() => return endpoint.to_owned(),
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let scheme = endpoint.split_once("://").map_or("http", |(scheme, _)| scheme);
    format!("{scheme}://{}", SocketAddr::new(loopback, address.port()))
}

fn is_of_loopback(url: &str) -> bool {
    let address = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    address
        .and_then(|address| address.parse().ok())
        .is_some_and(|address: SocketAddr| address.ip().is_loopback())
}

/// The store behind `dev://`.
#[derive(Debug)]
pub(crate) struct Dev {
    client: S3Client,
    /// `None` if a `tidegate serve` holds the directory (then requests go to that server), and once it is stopped.
    server: Mutex<Option<Server>>,
}

impl Dev {
    /// Starts a server, or finds the `tidegate serve` that holds the directory.
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
                    if Contact::read(&directory)?.is_some() {
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
            None => Contact::read(&directory)?.ok_or_else(|| {
                CommandFailure::Failed("the server of dev:// has just ended: try again".to_owned())
            })?,
        };
        let settings = S3Settings::default()
            .with_endpoint_url(&contact.url)
            .with_region(REGION)
            .with_scheme("dev")
            .with_kept_conditions(true)
            .with_credentials(Credentials::fixed(&contact.access_key, &contact.secret_key, None));
        let settings = match &contact.certificate {
            Some(file) => settings.with_ca_bundle(file),
            None => settings,
        };
        let client = S3Client::connect(&settings).await;
        let client = client.map_err(|fault| CommandFailure::Failed(format!("dev://: {fault}")))?;
        Ok(Self { client, server: Mutex::new(server) })
    }

    /// Whether another process, a `tidegate serve`, has started the server.
    pub(crate) fn is_of_another_process(&self) -> bool {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Stops the server, if this process started it.
    pub(crate) async fn stop(&self) {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            server.stop().await;
        }
    }
}

/// `dev://`: buckets of the embedded server, once a command has started it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DevScheme(Arc<OnceCell<Dev>>);

impl DevScheme {
    /// Starts the server, unless it was started before.
    pub(crate) async fn start(&self) -> Outcome {
        self.0.get_or_try_init(Dev::start).await.map(drop)
    }

    /// The server, if it was started.
    pub(crate) fn started(&self) -> Option<&Dev> {
        self.0.get()
    }

    fn client(&self) -> Result<&S3Client, Fault> {
        let not_started = || Fault::new(FaultKind::Unsupported, "the embedded server is not started");
        Ok(&self.started().ok_or_else(not_started)?.client)
    }
}

impl Scheme for DevScheme {
    fn open<'a>(
        &'a self,
        bucket: &'a str,
        _facts: &'a KnownFacts,
    ) -> BoxFuture<'a, Result<Arc<dyn Backend>, Fault>> {
        Box::pin(async move { Ok(Arc::new(self.client()?.bucket(bucket)?) as Arc<dyn Backend>) })
    }

    fn buckets<'a>(&'a self, _facts: &'a KnownFacts) -> BoxFuture<'a, Result<Arc<dyn Buckets>, Fault>> {
        Box::pin(async move { Ok(Arc::new(self.client()?.buckets()) as Arc<dyn Buckets>) })
    }
}

/// Whether another server holds the directory.
fn is_busy(error: &ServerError) -> bool {
    matches!(error, ServerError::Storage { source, .. } if source.kind() == io::ErrorKind::ResourceBusy)
}

fn failed(error: &ServerError) -> CommandFailure {
    CommandFailure::Failed(format!("the embedded server does not start: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    async fn server(directory: &Path) -> Server {
        Server::builder().storage(Storage::Disk(directory.to_owned())).start().await.unwrap()
    }

    #[tokio::test]
    async fn word_of_a_server_is_left_in_a_file_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let (directory, victim) = (place.path().join("dev"), place.path().join("victim"));
        let server = server(&directory).await;
        std::fs::write(&victim, "precious").unwrap();
        let file = Contact::file(&directory);
        for is_link in [true, false] {
            let _ = std::fs::remove_file(&file);
            match is_link {
                true => symlink(&victim, &file).unwrap(),
                false => std::fs::hard_link(&victim, &file).unwrap(),
            }
            Contact::leave(&server, None, &directory).unwrap();
            assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
            let found = std::fs::symlink_metadata(&file).unwrap();
            assert!(found.is_file() && found.mode() & 0o7777 == 0o600 && found.nlink() == 1);
            assert_eq!(Contact::read(&directory).unwrap().unwrap().url, server.endpoint());
        }
        Contact::take_back(&directory);
        assert!(Contact::read(&directory).unwrap().is_none());
        server.stop().await;
    }

    #[test]
    fn word_that_another_user_may_have_left_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (Contact::file(directory.path()), directory.path().join("elsewhere"));
        let text = |url: &str| format!(r#"{{"url": "{url}", "access_key": "a", "secret_key": "s"}}"#);
        let write = |path: &Path, url: &str, mode| {
            let _ = std::fs::remove_file(path);
            std::fs::write(path, text(url)).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let here = "http://127.0.0.1:9123";
        let read = || {
            Contact::read(directory.path()).map(|contact| contact.is_some()).map_err(|failure| failure.code())
        };
        for url in [here, "https://[::1]:9123"] {
            write(&file, url, 0o600);
            assert_eq!(read(), Ok(true));
        }
        for url in [
            "http://192.0.2.1:80",
            "http://localhost.example:80",
            "http://127.0.0.1@192.0.2.1:80",
            "127.0.0.1:80",
        ] {
            write(&file, url, 0o600);
            assert_eq!(read(), Err(4), "{url}");
        }
        write(&file, here, 0o666);
        assert_eq!(read(), Err(4));
        write(&elsewhere, here, 0o600);
        std::fs::remove_file(&file).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert_eq!(read(), Err(4));
        if rustix::process::geteuid().is_root() {
            write(&file, here, 0o600);
            chown(&file, Some(4711), None).unwrap();
            assert_eq!(read(), Err(4));
        }
    }

    #[test]
    fn a_server_on_every_address_is_reached_by_loopback() {
        for (address, url) in [
            ("0.0.0.0:9123", "https://127.0.0.1:9123"),
            ("[::]:9123", "https://[::1]:9123"),
            ("192.0.2.1:80", "https://192.0.2.1:80"),
        ] {
            assert_eq!(url_here(&format!("https://{address}"), address.parse().unwrap()), url);
        }
    }
}
