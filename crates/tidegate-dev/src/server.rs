//! Configures, starts, controls and stops the server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use s3s::auth::SimpleAuth;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::{self, Catalog, Moment, Protocol};
use crate::connection::{self, ServerState};
use crate::counts::{Counts, LiveCounters};
use crate::faults::Faults;
use crate::gate::Gate;
use crate::gcs::Google;
use crate::guard::Guard;
use crate::s3::{ServerStore, StoreHandle};
use crate::shaping::Rates;
use crate::storage::Vault;
use crate::{Knobs, ServerError, Tls};

/// The largest XML document accepted: a completion of 10,000 parts with checksums has about 3 MiB.
const LARGEST_XML: usize = 8 << 20;

/// Where the server stores the bytes it receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In memory, until the server stops.
    #[default]
    Memory,
    /// In this directory; buckets, objects and sessions survive a restart.
    Disk(PathBuf),
    /// Nowhere: only sizes and checksums are stored, and reads return zeros. For measuring clients.
    Discard,
}

/// Configures and starts a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    storage: Storage,
    listen: SocketAddr,
    credentials: (String, String),
    region: String,
    knobs: Knobs,
    seed: u64,
    has_md5_etags: bool,
    creates_buckets: bool,
    keeps_journal: bool,
    tls: Option<Tls>,
    hosts: Vec<String>,
    allows_anonymous: bool,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            storage: Storage::default(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            credentials: ("tidegate".to_owned(), "tidegate".to_owned()),
            region: "us-east-1".to_owned(),
            knobs: Knobs::default(),
            seed: 0,
            has_md5_etags: false,
            creates_buckets: false,
            keeps_journal: false,
            tls: None,
            hosts: Vec::new(),
            allows_anonymous: false,
        }
    }
}

impl ServerBuilder {
    /// Where the server stores bytes; in memory by default.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// The address to listen on; by default any free port of 127.0.0.1.
    #[must_use]
    pub fn listen(mut self, addr: SocketAddr) -> Self {
        self.listen = addr;
        self
    }

    /// The only access key and secret key that the server accepts; `tidegate` and `tidegate` by default.
    #[must_use]
    pub fn credentials(mut self, access: impl Into<String>, secret: impl Into<String>) -> Self {
        self.credentials = (access.into(), secret.into());
        self
    }

    /// The region of all buckets; `us-east-1` by default. Requests may be signed for any region.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = region.into();
        self
    }

    /// The knobs to start with.
    #[must_use]
    pub fn knobs(mut self, knobs: Knobs) -> Self {
        self.knobs = knobs;
        self
    }

    /// The minimum size of every part but the last: sets the knob `min_part_size`, for tests with small parts.
    #[must_use]
    pub fn min_part_size(mut self, bytes: u64) -> Self {
        self.knobs.min_part_size = Some(bytes);
        self
    }

    /// The seed for all random choices of the knobs.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether ETags are MD5s, as S3's mostly are. Off by default: the MD5 costs more than all other work.
    #[must_use]
    pub fn md5_etags(mut self, has_md5_etags: bool) -> Self {
        self.has_md5_etags = has_md5_etags;
        self
    }

    /// Whether the first write to a bucket creates it. Off by default.
    #[must_use]
    pub fn auto_create_buckets(mut self, creates_buckets: bool) -> Self {
        self.creates_buckets = creates_buckets;
        self
    }

    /// Whether [`Server::requests`] records every request in order. Off by default: the record of a
    /// long-running server grows without limit.
    #[must_use]
    pub fn journal(mut self, keeps: bool) -> Self {
        self.keeps_journal = keeps;
        self
    }

    /// Speaks only TLS, with this certificate, to all clients. Off by default.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Also answers requests for this host, a name or an address without a port; may be called several times.
    /// Requests for any other host than loopback's (`localhost`, 127.0.0.0/8, `::1`) are refused: otherwise a
    /// web page could reach the server through a name of its own.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Whether clients of Google Cloud Storage and of the control endpoint need no credentials even beyond
    /// loopback. Off by default: beyond loopback they present the secret key as their bearer token. On loopback
    /// they need none.
    #[must_use]
    pub fn allow_anonymous(mut self, allows: bool) -> Self {
        self.allows_anonymous = allows;
        self
    }

    /// Starts the server on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// If the address is taken, or the storage directory is not usable.
    pub async fn start(self) -> Result<Server, ServerError> {
        let (catalog, vault) = match &self.storage {
            Storage::Memory => (Catalog::default(), Vault::Memory),
            Storage::Disk(root) => catalog::load::load(root)?,
            Storage::Discard => (Catalog::default(), Vault::Discard),
        };
        let listen_error = |source| ServerError::Listen { addr: self.listen, source };
        let listener = TcpListener::bind(self.listen).await.map_err(listen_error)?;
        let addr = listener.local_addr().map_err(listen_error)?;

        let rates = Arc::new(Rates::default());
        let faults = Arc::new(Faults::new(self.seed, Arc::clone(&rates), self.knobs));
        let counters = Arc::new(LiveCounters::new(self.keeps_journal));
        let store = Arc::new(ServerStore {
            catalog: Mutex::new(catalog),
            vault,
            faults: Arc::clone(&faults),
            region: self.region,
            has_md5_etags: self.has_md5_etags,
            creates_buckets: self.creates_buckets,
            counters: Arc::clone(&counters),
            // Larger than in every earlier run on the same directory, because sessions are sorted by this
            // number.
            sequence: AtomicU64::new(Moment::now().sequence()),
        });
        let (access, secret) = &self.credentials;
        let mut s3 = S3ServiceBuilder::new(StoreHandle(Arc::clone(&store)));
        s3.set_auth(SimpleAuth::from_single(access.clone(), secret.as_str()));
        let gate =
            Gate { counters: Arc::clone(&counters), faults: Arc::clone(&faults), store: Arc::clone(&store) };
        s3.set_access(gate.clone());
        let mut config = S3Config::default();
        config.xml_max_body_size = LARGEST_XML;
        s3.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        let guard = Guard::new(self.hosts, addr, secret, self.allows_anonymous);
        let stop = CancellationToken::new();
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(ServerState {
            s3: s3.build(),
            guard,
            google: Google { gate, tasks: TaskTracker::new(), stop: stop.clone(), scheme },
            faults: Arc::clone(&faults),
            counters: Arc::clone(&counters),
            rates,
            tls: self.tls,
        });
        let accepting = tokio::spawn(connection::accept(listener, shared, stop.clone()));
        Ok(Server {
            addr,
            scheme,
            credentials: self.credentials,
            store,
            faults,
            counters,
            stop,
            accepting: Some(accepting),
        })
    }
}

/// A running server. Dropping it stops it; [`Server::stop`] also waits until it has stopped.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    scheme: &'static str,
    credentials: (String, String),
    store: Arc<ServerStore>,
    faults: Arc<Faults>,
    counters: Arc<LiveCounters>,
    stop: CancellationToken,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// A builder with default settings.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The URL for clients, such as `http://127.0.0.1:9000`; with TLS, `https://127.0.0.1:9000`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.addr)
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The access key and the secret key that the server accepts.
    #[must_use]
    pub fn credentials(&self) -> (&str, &str) {
        (&self.credentials.0, &self.credentials.1)
    }

    /// Requests, bytes and connections since the start or the last reset.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.snapshot()
    }

    /// Resets all counts to zero.
    pub fn reset_counts(&self) {
        self.counters.reset();
    }

    /// The operations since the start or the last reset, in order of arrival. Empty unless
    /// [`ServerBuilder::journal`] is on.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.counters.journal()
    }

    /// The knobs in force.
    #[must_use]
    pub fn knobs(&self) -> Knobs {
        Knobs::clone(&self.faults.knobs())
    }

    /// Puts these knobs in force for all later requests. Rules that count requests start from zero again.
    pub fn set_knobs(&self, knobs: Knobs) {
        self.faults.set_knobs(knobs);
    }

    /// Creates a bucket without a request.
    ///
    /// # Errors
    ///
    /// If S3 does not allow the name, the bucket exists, or the disk fails.
    pub fn create_bucket(&self, name: &str) -> Result<(), ServerError> {
        let mut catalog = self.store.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        catalog.add_bucket(name, Protocol::S3)
    }

    /// Stops the server and waits until it has released its port and its storage.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(accepting) = self.accepting.take()
            && let Err(error) = accepting.await
        {
            tracing::warn!(%error, "the server did not stop in order");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_listens_counts_and_stops() {
        let server = Server::builder().start().await.unwrap();
        let addr = server.addr();
        assert_eq!(server.endpoint(), format!("http://{addr}"));
        assert_eq!(server.credentials(), ("tidegate", "tidegate"));
        assert_eq!(server.counts(), Counts::default());
        server.stop().await;
        TcpListener::bind(addr).await.unwrap();
    }

    #[tokio::test]
    async fn buckets_have_names_and_are_there_once() {
        let server = Server::builder().start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        let again = server.create_bucket("bucket");
        assert!(matches!(again, Err(ServerError::BucketExists(_))));
        let bad = server.create_bucket("_tidegate");
        assert!(matches!(bad, Err(ServerError::BucketName(_))));
    }

    #[tokio::test]
    async fn a_directory_takes_one_server_and_remembers() {
        let dir = tempfile::tempdir().unwrap();
        let builder = || Server::builder().storage(Storage::Disk(dir.path().to_owned()));
        let server = builder().start().await.unwrap();
        server.create_bucket("bucket").unwrap();
        assert!(builder().start().await.is_err());
        server.stop().await;
        let server = builder().start().await.unwrap();
        let again = server.create_bucket("bucket");
        assert!(matches!(again, Err(ServerError::BucketExists(_))));
    }
}
