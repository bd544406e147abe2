//! Connections to one endpoint: pooled ones, and ones opened for a single request.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{Handle, Id};

use super::client::Client;
use super::dialer::Dialer;
use super::late::Heard;
use super::{proxies, tls};
use tidegate_core::backend::{Attempt, Fault, FaultKind};
use tidegate_core::types::printable::address_without_password;

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    One,
    /// HTTP/2 from the first byte: in plain text nothing is negotiated.
    Two,
}

/// The HTTP/2 stream window: how many bytes of one answer may arrive before they are read.
const STREAM_WINDOW: u32 = 1 << 20;

/// The most requests in flight on one HTTP/2 connection. The unread bytes of all their answers fit into the
/// connection's window, so an answer that nobody reads does not block the others.
pub const STREAMS: usize = 8;

/// Sets up clients of one endpoint.
#[derive(Clone)]
pub struct Connector {
    dialer: Dialer,
    proxies: Option<Arc<Matcher>>,
    version: Version,
    heard: Arc<Heard>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Connector {
    /// Connects to the store at `url` through the proxies that the environment or the system names. Trusts the
    /// authorities in `bundle` in addition to the system's.
    pub fn new(url: &str, timeout: Duration, bundle: Option<&Path>, version: Version) -> Result<Self, Fault> {
        let uri = address(url)?;
        Self::through(proxies::from_environment(&uri)?, url, timeout, bundle, version)
    }

    /// Connections to `url` through the proxy that `proxies` names for it.
    pub fn through(
        proxies: Matcher,
        url: &str,
        timeout: Duration,
        bundle: Option<&Path>,
        version: Version,
    ) -> Result<Self, Fault> {
        let bundle = bundle.map(tls::read_bundle).transpose()?.unwrap_or_default();
        let uri = address(url)?;
        let is_plain = uri.scheme_str() != Some("https");
        // Plain HTTP/2 goes to this machine or the next one, and proxies do not forward it.
        let proxies = Some(proxies).filter(|_| !is_plain || version == Version::One);
        let named: Vec<_> = proxies.iter().flat_map(named).collect();
        let proxies = proxies.filter(|_| !named.is_empty()).map(Arc::new);
        // Reading the system's certificates takes longer than a small transfer: skip it if they are not needed.
        let roots = if !is_plain || named.iter().any(|proxy| proxy.uri().scheme_str() == Some("https")) {
            tls::roots(&bundle)
        } else {
            rustls::RootCertStore::empty()
        };
        let protocol = match version {
            Version::One => "http/1.1",
            Version::Two => "h2",
        };
        let dialer = Dialer::new(tls::config(roots, protocol)?, proxies.clone(), timeout);
        Ok(Self { dialer, proxies, version, heard: Arc::default() })
    }

    /// A client that keeps up to `idle` idle connections; with 0, each request opens a new connection.
    pub fn client(&self, idle: usize) -> Client {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(idle)
            // Less than the 20 s after which S3 hangs up on an idle connection.
            .pool_idle_timeout(Duration::from_secs(15));
        if self.version == Version::Two {
            builder
                .http2_only(true)
                .http2_initial_stream_window_size(STREAM_WINDOW)
                .http2_initial_connection_window_size(STREAM_WINDOW * STREAMS as u32)
                // Detects a connection that something on the way has forgotten. Servers of gRPC take more frequent
                // pings for an attack ("Keepalive User Guide for gRPC").
                .http2_keep_alive_interval(Duration::from_secs(60))
                .http2_keep_alive_timeout(Duration::from_secs(20));
        }
        Client::new(builder.build(self.dialer.clone()), self.proxies.clone(), self.heard.clone())
    }
}

fn address(url: &str) -> Result<Uri, Fault> {
    let shown = address_without_password(url);
    url.parse().map_err(|error| Fault::new(FaultKind::Invalid, format!("{shown} is no address: {error}")))
}

/// All proxies that are set, even if some hosts bypass them.
fn named(proxies: &Matcher) -> impl Iterator<Item = Intercept> {
    ["http://any.invalid", "https://any.invalid"]
        .into_iter()
        .filter_map(|url| proxies.intercept(&Uri::from_static(url)))
}

/// The clients for requests to a store.
#[derive(Debug)]
pub struct Connections {
    connector: Connector,
    /// One client for each of the runtimes that made requests last: a kept connection is driven by the runtime that
    /// opened it, and must not carry the request of a runtime that outlives or outruns that one. The latest is last.
    pooled: Mutex<Vec<(Id, Client)>>,
    /// Keeps no connection: each request looks up the address and opens a new connection.
    unpooled: Client,
}

impl Connections {
    /// The most runtimes whose connections are kept.
    const RUNTIMES: usize = 8;

    /// Connects to the store at `url`, and trusts the authorities in `bundle` in addition to the system's.
    pub fn new(url: &str, connect_timeout: Duration, bundle: Option<&Path>) -> Result<Self, Fault> {
        let connector = Connector::new(url, connect_timeout, bundle, Version::One)?;
        let unpooled = connector.client(0);
        Ok(Self { connector, pooled: Mutex::default(), unpooled })
    }

    /// Connects to a server of this machine or network at `url`, never through a proxy.
    pub fn direct(url: &str, connect_timeout: Duration) -> Result<Self, Fault> {
        let none = Matcher::builder().build();
        let connector = Connector::through(none, url, connect_timeout, None, Version::One)?;
        let unpooled = connector.client(0);
        Ok(Self { connector, pooled: Mutex::default(), unpooled })
    }

    /// The client for an attempt of a request.
    pub fn client(&self, attempt: Attempt) -> Client {
        if attempt.wants_new_connection() {
            self.unpooled.clone()
        } else {
            self.of_runtime(Handle::current().id())
        }
    }

    fn of_runtime(&self, runtime: Id) -> Client {
        let mut pooled = self.pooled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = pooled.iter().position(|(of, _)| *of == runtime) {
            // A busy runtime stays among the latest.
            pooled[at..].rotate_left(1);
        } else {
            if pooled.len() == Self::RUNTIMES {
                pooled.remove(0);
            }
            pooled.push((runtime, self.connector.client(usize::MAX)));
        }
        pooled[pooled.len() - 1].1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_of_a_few_runtimes_are_kept() {
        let connections = Connections::new("http://127.0.0.1:1", Duration::from_secs(1), None).unwrap();
        let runtimes: Vec<_> = (0..Connections::RUNTIMES + 1)
            .map(|_| tokio::runtime::Builder::new_current_thread().build().unwrap())
            .collect();
        let id = |at: usize| runtimes[at].handle().id();
        let kept = || connections.pooled.lock().unwrap().iter().map(|(of, _)| *of).collect::<Vec<_>>();
        for runtime in &runtimes[..Connections::RUNTIMES] {
            runtime.block_on(async { connections.client(Attempt::FIRST) });
        }
        connections.of_runtime(id(0));
        connections.of_runtime(id(Connections::RUNTIMES));
        assert_eq!(kept().len(), Connections::RUNTIMES);
        assert!(
            kept().contains(&id(0)) && !kept().contains(&id(1)),
            "the one unused for longest is forgotten"
        );
    }
}
