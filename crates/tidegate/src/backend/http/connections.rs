//! Connections to one endpoint: those that are kept, and those that are opened for one request.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::tls;
use crate::backend::{Fault, FaultKind, wants_new_connection};

/// Which HTTP is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum Version {
    One,
    /// From its first byte on: nothing is negotiated in plain text.
    Two,
}

/// How much of one answer may come in before it is read, over HTTP/2.
const STREAM_WINDOW: u32 = 1 << 20;

/// So many requests go over one connection of HTTP/2 at a time: what all of their answers may hold unread
/// fits into the connection's own window, so that none that nobody reads holds up another.
pub(in crate::backend) const STREAMS: usize = 8;

/// What is needed to set up clients of one endpoint.
#[derive(Clone)]
pub(in crate::backend) struct Connector {
    tls: rustls::ClientConfig,
    is_plain: bool,
    timeout: Duration,
    version: Version,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Connector {
    /// To the store at `url`, trusting the authorities in `bundle` beside the system's.
    pub(in crate::backend) fn new(
        url: &str,
        timeout: Duration,
        bundle: Option<&Path>,
        version: Version,
    ) -> Result<Self, Fault> {
        let bundle = bundle.map(tls::read_bundle).transpose()?.unwrap_or_default();
        let is_plain = !url.starts_with("https:");
        // Reading the system's certificates takes longer than a small transfer: only where they are used.
        let roots = if !is_plain || proxy_speaks_tls() {
            tls::roots(&bundle)
        } else {
            rustls::RootCertStore::empty()
        };
        let protocol = match version {
            Version::One => "http/1.1",
            Version::Two => "h2",
        };
        Ok(Self { tls: tls::config(roots, protocol)?, is_plain, timeout, version })
    }

    /// A client that keeps so many idle connections; with none, each request opens one of its own.
    pub(in crate::backend) fn client(&self, idle: usize) -> Result<reqwest::Client, Fault> {
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // Whatever features others give the library: an object comes as it is stored.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .tcp_nodelay(true)
            .connect_timeout(self.timeout)
            .pool_max_idle_per_host(idle)
            // Less than the 20 s after which S3 hangs up on an idle connection.
            .pool_idle_timeout(Duration::from_secs(15))
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        let builder = match self.version {
            Version::One => builder.http1_only(),
            Version::Two => {
                let builder = builder
                    .http2_prior_knowledge()
                    .http2_initial_stream_window_size(STREAM_WINDOW)
                    .http2_initial_connection_window_size(STREAM_WINDOW * STREAMS as u32)
                    // A connection that something on the way has forgotten is found out; more often, and
                    // servers of gRPC take it for an attack ("Keepalive User Guide for gRPC").
                    .http2_keep_alive_interval(Duration::from_secs(60))
                    .http2_keep_alive_timeout(Duration::from_secs(20));
                // What is not encrypted is for this machine or the next one; proxies forward no HTTP/2 of it.
                if self.is_plain { builder.no_proxy() } else { builder }
            }
        };
        builder.build().map_err(|error| {
            Fault::new(FaultKind::Invalid, "no HTTP client can be set up").with_source(error)
        })
    }
}

/// How requests get to a store.
#[derive(Debug)]
pub(in crate::backend) struct Connections {
    pooled: reqwest::Client,
    /// Keeps no connection: each request looks the address up and opens one of its own.
    unpooled: reqwest::Client,
}

impl Connections {
    /// To the store at `url`, trusting the authorities in `bundle` beside the system's.
    pub(in crate::backend) fn new(
        url: &str,
        connect_timeout: Duration,
        bundle: Option<&Path>,
    ) -> Result<Self, Fault> {
        let connector = Connector::new(url, connect_timeout, bundle, Version::One)?;
        Ok(Self { pooled: connector.client(usize::MAX)?, unpooled: connector.client(0)? })
    }

    /// What to send the current request with.
    pub(in crate::backend) fn current(&self) -> &reqwest::Client {
        if wants_new_connection() { &self.unpooled } else { &self.pooled }
    }
}

fn proxy_speaks_tls() -> bool {
    ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|proxy| proxy.starts_with("https:")))
}
