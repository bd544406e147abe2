//! Opens a connection to the store, or to the proxy in front of it, with TLS for an https address.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Uri, header};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::AGENT;

/// The most encrypted bytes that wait for the socket to the store and go out in one call. The TLS library's default
/// of 64 KiB costs more; a larger buffer gains little for the memory that each connection may hold.
const TLS_BUFFER: usize = 256 << 10;
/// The same for the socket to a proxy, whose bytes were in the store's buffer before.
const PROXY_TLS_BUFFER: usize = 64 << 10;
/// Time without traffic after which a connection is probed, and the interval of further probes.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Unanswered probes after which the connection is closed.
const KEEPALIVE_PROBES: u32 = 3;
/// Time limit for the acknowledgement of sent bytes.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// A connection that takes longer than this is reported.
const LATE: Duration = Duration::from_millis(1500);

type BoxError = Box<dyn Error + Send + Sync>;

/// Opens connections.
#[derive(Clone)]
pub struct Dialer {
    tcp: HttpConnector,
    tls: TlsConnector,
    tls_buffer: usize,
    proxies: Option<Arc<Proxies>>,
    timeout: Duration,
}

/// The proxies for requests.
struct Proxies {
    matcher: Arc<Matcher>,
    /// TLS with the proxy itself.
    tls: TlsConnector,
}

impl Dialer {
    /// Uses `tls` for https addresses, and the proxies that `matcher` names. `timeout` covers the whole connection:
    /// name lookup, socket, proxy and TLS.
    pub fn new(tls: ClientConfig, matcher: Option<Arc<Matcher>>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // hyper divides this by the number of a name's addresses, so that one that does not answer leaves time for
        // the next.
        tcp.set_connect_timeout(Some(timeout));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let proxies = matcher.map(|matcher| {
            // The protocol for the store (ALPN) is not the protocol for the proxy.
            let mut tls = tls.clone();
            tls.alpn_protocols.clear();
            Arc::new(Proxies { matcher, tls: Arc::new(tls).into() })
        });
        Self { tcp, tls: Arc::new(tls).into(), tls_buffer: TLS_BUFFER, proxies, timeout }
    }

    /// Connects, and reports to subscribers of `tidegate::connect` when that takes long.
    async fn dial(self, to: Uri) -> Result<Stream, BoxError> {
        let at = authority(&to);
        let mut dialing = std::pin::pin!(self.connect(to));
        let late = tokio::time::sleep(LATE);
        tokio::select! {
            dialed = &mut dialing => return dialed,
            () = late => {}
        }
        let pause_ms = LATE.as_millis() as u64;
        tracing::debug!(target: "tidegate::connect", at, pause_ms, "no connection yet");
        dialing.await
    }

    async fn connect(self, to: Uri) -> Result<Stream, BoxError> {
        let until = Instant::now() + self.timeout;
        let Some((proxies, proxy)) =
            self.proxies.as_ref().and_then(|proxies| Some((proxies, proxies.matcher.intercept(&to)?)))
        else {
            return in_time(until, &to, self.open(to.clone())).await;
        };
        let near =
            Self { tls: proxies.tls.clone(), tls_buffer: PROXY_TLS_BUFFER, proxies: None, ..self.clone() };
        let at = proxy.uri();
        if let Some(scheme) = at.scheme_str().filter(|scheme| !matches!(*scheme, "http" | "https")) {
            return Err(ProxyRefusal::Foreign { to: authority(&to), scheme: scheme.to_owned() }.into());
        }
        if !is_encrypted(&to) {
            let stream = in_time(until, at, near.open(at.clone())).await?;
            return Ok(Stream { is_proxied: true, ..stream });
        }
        let mut headers = HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static(AGENT))]);
        headers.extend(proxy.basic_auth().map(|auth| (header::PROXY_AUTHORIZATION, auth.clone())));
        let mut tunnel = Tunnel::new(at.clone(), near).with_headers(headers);
        let tunnel = async { tunnel.call(to.clone()).await.map_err(|error| not_through(at, error)) };
        let stream = in_time(until, at, tunnel).await?.into_inner();
        in_time(until, &to, self.encrypted(&to, stream)).await
    }

    /// Connects to this address itself, without a proxy.
    async fn open(mut self, to: Uri) -> Result<Stream, BoxError> {
        let opened = self.tcp.call(to.clone()).await;
        let socket = opened.map_err(|error| Unreached::new(&to, error))?.into_inner();
        if is_encrypted(&to) { self.encrypted(&to, socket).await } else { Ok(Stream::new(socket)) }
    }

    async fn encrypted(&self, to: &Uri, stream: impl Io + 'static) -> Result<Stream, BoxError> {
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|error| Unreached::new(to, error))?;
        let buffer = Some(self.tls_buffer);
        let begun = self.tls.connect_with(name, stream, |session| session.set_buffer_limit(buffer));
        Ok(Stream::new(begun.await.map_err(|error| Unreached::new(to, error))?))
    }
}

fn is_encrypted(to: &Uri) -> bool {
    to.scheme() == Some(&Scheme::HTTPS)
}

/// Runs one step of a connection, with the deadline `until`; a timeout is blamed on `at`.
async fn in_time<T>(
    until: Instant,
    at: &Uri,
    step: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    let over = tokio::time::timeout_at(until, step).await;
    over.unwrap_or_else(|_| Err(Unreached::new(at, io::Error::from(io::ErrorKind::TimedOut)).into()))
}

/// The error if the proxy at `at` opens no tunnel.
fn not_through(at: &Uri, error: impl Error + Send + Sync + 'static) -> BoxError {
    // hyper-util does not export the type of this error.
    if error.to_string().ends_with("proxy authorization required") {
        return ProxyRefusal::unknown(at).into();
    }
    Unreached::new(at, error).into()
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move { Ok(TokioIo::new(dialer.dial(to).await?)) })
    }
}

/// No connection with `at`: the store, or the proxy in front of it.
#[derive(Debug, thiserror::Error)]
#[error("no connection with {at}")]
pub(crate) struct Unreached {
    /// Host and port.
    pub at: String,
    source: BoxError,
}

impl Unreached {
    fn new(to: &Uri, source: impl Into<BoxError>) -> Self {
        Self { at: authority(to), source: source.into() }
    }
}

/// A failure at a proxy that a retry would not cure.
#[derive(Debug, thiserror::Error)]
pub enum ProxyRefusal {
    #[error("the proxy for {to} is one of {scheme}: only http and https can be used")]
    Foreign { to: String, scheme: String },
    #[error(
        "the proxy {at} wants a name and a password, or others: its address is {scheme}://NAME:PASSWORD@{at}"
    )]
    Unknown { at: String, scheme: String },
}

impl ProxyRefusal {
    /// The proxy at this address rejects our credentials, or wants some.
    pub fn unknown(at: &Uri) -> Self {
        Self::Unknown { at: authority(at), scheme: at.scheme_str().unwrap_or("http").to_owned() }
    }
}

/// Host and port of an address.
pub(crate) fn authority(uri: &Uri) -> String {
    let port = uri.port_u16().unwrap_or(if is_encrypted(uri) { 443 } else { 80 });
    format!("{}:{port}", uri.host().unwrap_or_default())
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A connection's bytes.
pub struct Stream {
    io: Box<dyn Io>,
    /// The other end is a proxy that forwards requests, so each request carries the store's full address.
    is_proxied: bool,
}

impl Stream {
    fn new(io: impl Io + 'static) -> Self {
        Self { io: Box::new(io), is_proxied: false }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("is_proxied", &self.is_proxied).finish_non_exhaustive()
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
