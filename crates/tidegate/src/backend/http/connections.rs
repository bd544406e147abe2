//! Connections to one endpoint: pooled ones, and ones opened for a single request.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::client::Client;
use super::dialer::Dialer;
use super::late::Heard;
use super::{proxies, tls};
use crate::backend::{Attempt, Fault, FaultKind};
use crate::types::printable::address_without_password;

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum Version {
    One,
    /// HTTP/2 from the first byte: in plain text nothing is negotiated.
    Two,
}

/// The HTTP/2 stream window: how many bytes of one answer may arrive before they are read.
const STREAM_WINDOW: u32 = 1 << 20;

/// The most requests in flight on one HTTP/2 connection. The unread bytes of all their answers fit into the
/// connection's window, so an answer that nobody reads does not block the others.
pub(in crate::backend) const STREAMS: usize = 8;

/// Sets up clients of one endpoint.
#[derive(Clone)]
pub(in crate::backend) struct Connector {
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
    pub(in crate::backend) fn new(
        url: &str,
        timeout: Duration,
        bundle: Option<&Path>,
        version: Version,
    ) -> Result<Self, Fault> {
        let uri = address(url)?;
        Self::through(proxies::from_environment(&uri)?, url, timeout, bundle, version)
    }

    pub(super) fn through(
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
    pub(in crate::backend) fn client(&self, idle: usize) -> Client {
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
pub(in crate::backend) struct Connections {
    pooled: Client,
    /// Keeps no connection: each request looks up the address and opens a new connection.
    unpooled: Client,
}

impl Connections {
    /// Connects to the store at `url`, and trusts the authorities in `bundle` in addition to the system's.
    pub(in crate::backend) fn new(
        url: &str,
        connect_timeout: Duration,
        bundle: Option<&Path>,
    ) -> Result<Self, Fault> {
        let connector = Connector::new(url, connect_timeout, bundle, Version::One)?;
        Ok(Self { pooled: connector.client(usize::MAX), unpooled: connector.client(0) })
    }

    /// The client for an attempt of a request.
    pub(in crate::backend) fn client(&self, attempt: Attempt) -> &Client {
        if attempt.wants_new_connection() { &self.unpooled } else { &self.pooled }
    }
}
