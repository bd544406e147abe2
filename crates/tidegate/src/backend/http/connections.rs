//! Connections to one endpoint: those that are kept, and those that are opened for one request.

use std::path::Path;
use std::time::Duration;

use super::tls;
use crate::backend::{Fault, FaultKind, wants_new_connection};

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
        let bundle = bundle.map(tls::read_bundle).transpose()?.unwrap_or_default();
        // Reading the system's certificates takes longer than a small transfer: only where they are used.
        let roots = if url.starts_with("https:") || proxy_speaks_tls() {
            tls::roots(&bundle)
        } else {
            rustls::RootCertStore::empty()
        };
        let tls = tls::config(roots)?;
        let client = |idle: usize| {
            reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .http1_only()
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                // Whatever features others give the library: an object comes as it is stored.
                .no_gzip()
                .no_brotli()
                .no_zstd()
                .no_deflate()
                .tcp_nodelay(true)
                .connect_timeout(connect_timeout)
                .pool_max_idle_per_host(idle)
                // Less than the 20 s after which S3 hangs up on an idle connection.
                .pool_idle_timeout(Duration::from_secs(15))
                .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| {
                    Fault::new(FaultKind::Invalid, "no HTTP client can be set up").with_source(error)
                })
        };
        Ok(Self { pooled: client(usize::MAX)?, unpooled: client(0)? })
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
