//! Connections through proxies, and to peers that do not answer.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use rcgen::{CertifiedKey, KeyPair};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{Client, Connector, Response, Sending, Version, Work, read};
use tidegate_core::backend::{Fault, FaultKind};
use tidegate_core::testkit::samples::next_head;

/// How long it may take to open a connection.
const TIMEOUT: Duration = Duration::from_secs(10);
/// `user:pass` in the header that a proxy gets.
const WHO: &str = "Basic dXNlcjpwYXNz";

fn named(proxy: &str) -> Matcher {
    Matcher::builder().all(proxy).no("direct.example").build()
}

fn plainly(proxies: Matcher, url: &str, timeout: Duration) -> Client {
    Connector::through(proxies, url, timeout, None, Version::One).unwrap().client(usize::MAX)
}

async fn get(client: &Client, url: &str) -> Result<Response, Fault> {
    client.send(Method::GET, url.to_owned(), HeaderMap::new(), Sending::default(), Work::Little).await
}

async fn refused(client: &Client, url: &str) -> (FaultKind, String) {
    let fault = get(client, url).await.unwrap_err();
    (fault.kind, fault.message)
}

/// A peer with a self-signed certificate.
struct Secure {
    made: CertifiedKey<KeyPair>,
    bundle: NamedTempFile,
}

impl Secure {
    fn new(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let mut bundle = NamedTempFile::new().unwrap();
        bundle.write_all(made.cert.pem().as_bytes()).unwrap();
        Self { made, bundle }
    }

    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
        let chain = vec![self.made.cert.der().clone()];
        let key = self.made.signing_key.serialize_der().try_into().unwrap();
        let mut config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config).into()
    }

    fn client(&self, proxies: Matcher, url: &str, version: Version) -> Client {
        let through = Connector::through(proxies, url, TIMEOUT, Some(self.bundle.path()), version);
        through.unwrap().client(usize::MAX)
    }
}

/// A store over TLS, and the headers of the requests that it receives.
async fn store(secure: &Secure, at: &str, version: Version) -> (String, Arc<Mutex<Vec<HeaderMap>>>) {
    let acceptor = secure.acceptor(match version {
        Version::One => &["http/1.1"],
        Version::Two => &["h2"],
    });
    let listener = TcpListener::bind(at).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, log) = (acceptor.clone(), log.clone());
            tokio::spawn(async move {
                let stream = TokioIo::new(acceptor.accept(socket).await.unwrap());
                let answer = service_fn(move |request: Request<Incoming>| {
                    log.lock().unwrap().push(request.headers().clone());
                    async { Ok::<_, io::Error>(http::Response::new(Full::new(Bytes::from("stored")))) }
                });
                // The client may hang up at any time.
                let _ = match version {
                    Version::One => http1::Builder::new().serve_connection(stream, answer).await,
                    Version::Two => {
                        http2::Builder::new(TokioExecutor::new()).serve_connection(stream, answer).await
                    }
                };
            });
        }
    });
    (address, asked)
}

/// A proxy that forwards tunnels, and answers all other requests itself.
#[derive(Default)]
struct Proxy {
    address: String,
    connections: AtomicUsize,
    /// The heads of the requests that it received, in lower case.
    heads: Mutex<Vec<String>>,
    /// The response to requests for a tunnel, if the proxy rejects them.
    refusal: Option<&'static str>,
}

impl Proxy {
    async fn start(tls: Option<TlsAcceptor>, refusal: Option<&'static str>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let proxy = Arc::new(Self { address, refusal, ..Self::default() });
        let handle = proxy.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                proxy.connections.fetch_add(1, Ordering::Relaxed);
                let (tls, proxy) = (tls.clone(), proxy.clone());
                tokio::spawn(async move {
                    match tls {
                        None => proxy.serve(socket).await,
                        Some(tls) => proxy.serve(tls.accept(socket).await.unwrap()).await,
                    }
                });
            }
        });
        handle
    }

    async fn serve(&self, mut near: impl AsyncRead + AsyncWrite + Unpin) {
        let mut held = Vec::new();
        while let Some((head, end, _)) = next_head(&mut near, &mut held).await {
            held.drain(..end);
            let to = head.strip_prefix("connect ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
            self.heads.lock().unwrap().push(head);
            let answer = match (self.refusal, &to) {
                (Some(refusal), _) => refusal,
                (None, Some(_)) => "HTTP/1.1 200 OK\r\n\r\n",
                (None, None) => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfar",
            };
            near.write_all(answer.as_bytes()).await.unwrap();
            if let Some(to) = to.filter(|_| self.refusal.is_none()) {
                let mut far = TcpStream::connect(to).await.unwrap();
                // The store may hang up at any time.
                let _ = copy_bidirectional(&mut near, &mut far).await;
                return;
            }
        }
    }

    /// The requests since the last call, and the number of connections so far.
    fn asked(&self) -> (Vec<Vec<String>>, usize) {
        let heads = std::mem::take(&mut *self.heads.lock().unwrap());
        let heads = heads.iter().map(|head| head.lines().map(str::to_owned).collect()).collect();
        (heads, self.connections.load(Ordering::Relaxed))
    }
}

fn assert_said(head: &[String], line: &str) {
    assert!(head.contains(&line.to_lowercase()), "{line} in {head:?}");
}

#[tokio::test]
async fn what_is_not_encrypted_is_handed_to_the_proxy_over_one_connection() {
    let proxy = Proxy::start(None, None).await;
    let url = "http://store.invalid:81/bucket/k?x=1";
    let client = plainly(named(&format!("http://user:pass@{}", proxy.address)), url, TIMEOUT);
    for _ in 0..2 {
        assert_eq!(read(get(&client, url).await.unwrap(), 10).await.unwrap(), "far");
    }
    let (heads, connections) = proxy.asked();
    assert_eq!((heads.len(), connections), (2, 1));
    for head in heads {
        assert_eq!(head[0], format!("get {url} http/1.1"));
        assert_said(&head, "host: store.invalid:81");
        assert_said(&head, &format!("proxy-authorization: {WHO}"));
    }
}

#[tokio::test]
async fn what_is_encrypted_goes_through_one_tunnel_and_who_asks_is_said_to_the_proxy_alone() {
    let secure = Secure::new("127.0.0.1");
    for (scheme, tls) in [("http", None), ("https", Some(secure.acceptor(&["http/1.1"])))] {
        for version in [Version::One, Version::Two] {
            let (address, asked) = store(&secure, "127.0.0.1:0", version).await;
            let proxy = Proxy::start(tls.clone(), None).await;
            let url = format!("https://{address}/k");
            let proxies = named(&format!("{scheme}://user:pass@{}", proxy.address));
            let client = secure.client(proxies, &url, version);
            for _ in 0..2 {
                assert_eq!(read(get(&client, &url).await.unwrap(), 10).await.unwrap(), "stored");
            }
            let (heads, connections) = proxy.asked();
            assert_eq!((heads.len(), connections), (1, 1), "{scheme} {version:?}");
            assert_eq!(heads[0][0], format!("connect {address} http/1.1"));
            assert_said(&heads[0], &format!("proxy-authorization: {WHO}"));
            assert_said(&heads[0], &format!("user-agent: {AGENT}"));
            let asked = asked.lock().unwrap();
            assert_eq!(asked.len(), 2);
            for headers in &*asked {
                assert!(!headers.contains_key(header::PROXY_AUTHORIZATION), "{headers:?}");
                assert_eq!(headers[header::USER_AGENT], AGENT);
            }
        }
    }
}

#[tokio::test]
async fn http_2_in_plain_text_and_what_is_excepted_goes_past_the_proxy() {
    let server = tidegate_dev::Server::builder().start().await.unwrap();
    let url = format!("{}/none/k", server.endpoint());
    // No proxy listens there, so a connection to it fails.
    let all = Matcher::builder().all("http://127.0.0.1:1");
    let past = Connector::through(all.build(), &url, TIMEOUT, None, Version::Two).unwrap().client(0);
    assert!(get(&past, &url).await.is_ok());
    for proxy in ["http://127.0.0.1:1", "socks5://127.0.0.1:1"] {
        let excepted = Matcher::builder().all(proxy).no("127.0.0.1").build();
        let past = plainly(excepted, &url, TIMEOUT);
        assert_eq!(get(&past, &url).await.unwrap().status(), StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn a_host_that_an_address_gives_as_a_number_is_known_by_it() {
    let secure = Secure::new("::1");
    let (address, _) = store(&secure, "[::1]:0", Version::One).await;
    let url = format!("https://{address}/k");
    let client = secure.client(Matcher::builder().build(), &url, Version::One);
    assert_eq!(read(get(&client, &url).await.unwrap(), 10).await.unwrap(), "stored");
}

#[tokio::test]
async fn who_is_not_there_is_named_the_store_or_its_proxy() {
    let answer = (FaultKind::Unreachable, "connection refused by 127.0.0.1:1".to_owned());
    for (proxy, url) in [
        ("http://127.0.0.1:1", "http://store.invalid/k"),
        ("http://127.0.0.1:1", "https://store.invalid/k"),
        ("", "http://127.0.0.1:1/k"),
    ] {
        assert_eq!(refused(&plainly(named(proxy), url, TIMEOUT), url).await, answer);
    }
}

#[tokio::test]
async fn a_proxy_that_gives_no_tunnel_is_named() {
    for (refusal, kind, said) in [
        (
            "HTTP/1.1 502 Bad Gateway\r\n\r\n",
            FaultKind::Unreachable,
            "the connection with AT failed: tunnel error",
        ),
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
            FaultKind::Invalid,
            "the proxy AT wants a name and a password, or others: its address is http://NAME:PASSWORD@AT",
        ),
    ] {
        let proxy = Proxy::start(None, Some(refusal)).await;
        let said = said.replace("AT", &proxy.address);
        let proxies = || named(&format!("http://user:wrong@{}", proxy.address));
        let url = "https://store.invalid/k";
        let answer = refused(&plainly(proxies(), url, TIMEOUT), url).await;
        assert_eq!(answer.0, kind);
        assert!(answer.1.starts_with(&said), "{}", answer.1);
        // Without a tunnel, the rejection is an ordinary response; but not a response of the store.
        let url = "http://store.invalid/k";
        match get(&plainly(proxies(), url, TIMEOUT), url).await {
            Ok(answer) => {
                assert_eq!((answer.status(), kind), (StatusCode::BAD_GATEWAY, FaultKind::Unreachable))
            }
            Err(fault) => assert_eq!((fault.kind, fault.message), (kind, said)),
        }
    }
}

#[tokio::test]
async fn without_a_proxy_what_only_proxies_say_is_the_stores_answer() {
    let store =
        Proxy::start(None, Some("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"))
            .await;
    let url = format!("http://{}/k", store.address);
    let answer = get(&plainly(Matcher::builder().build(), &url, TIMEOUT), &url).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PROXY_AUTHENTICATION_REQUIRED);
}

#[test]
fn what_a_proxys_address_is_to_be_is_as_secret_as_it_was() {
    for (proxy, says) in
        [("https://p:8443", "https://NAME:PASSWORD@p:8443"), ("http://p", "http://NAME:PASSWORD@p:80")]
    {
        let said = ProxyRefusal::unknown(&proxy.parse().unwrap()).to_string();
        assert!(said.ends_with(&format!("its address is {says}")), "{said}");
    }
}

#[tokio::test]
async fn a_proxy_of_another_kind_is_refused() {
    for url in ["http://store.invalid/k", "https://store.invalid:4433/k"] {
        let (kind, said) = refused(&plainly(named("socks5://127.0.0.1:1"), url, TIMEOUT), url).await;
        assert_eq!(kind, FaultKind::Invalid);
        assert!(said.ends_with("is one of socks5: only http and https can be used"), "{said}");
    }
}

#[tokio::test]
async fn who_takes_the_connection_and_says_nothing_is_given_up() {
    // The kernel completes connections that no process accepts.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let soon = Duration::from_millis(100);
    for (proxy, url) in [
        (String::new(), format!("https://{address}/k")),
        (format!("http://{address}"), "https://store.invalid/k".to_owned()),
        (format!("https://{address}"), "http://store.invalid/k".to_owned()),
    ] {
        let answer = refused(&plainly(named(&proxy), &url, soon), &url).await;
        assert_eq!(answer, (FaultKind::Unreachable, format!("no connection with {address} in time")));
    }
}

#[tokio::test]
async fn a_tunnel_to_who_says_nothing_is_given_up_and_the_store_named() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(None, None).await;
    let address = silent.local_addr().unwrap();
    let url = format!("https://{address}/k");
    let client = plainly(named(&format!("http://{}", proxy.address)), &url, Duration::from_millis(500));
    let answer = refused(&client, &url).await;
    assert_eq!(answer, (FaultKind::Unreachable, format!("no connection with {address} in time")));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_is_asked_whether_it_still_is_one() {
    use rustix::net::sockopt;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let tls = super::super::tls::config(rustls::RootCertStore::empty(), "http/1.1").unwrap();
    let mut dialer = Dialer::new(tls, None, TIMEOUT);
    let socket = dialer.tcp.call(to).await.unwrap().into_inner();
    assert!(socket.nodelay().unwrap());
    assert!(sockopt::socket_keepalive(&socket).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), KEEPALIVE);
    assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), KEEPALIVE);
    assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), KEEPALIVE_PROBES);
    assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), UNACKNOWLEDGED.as_millis() as u32);
}

/// A socket that records the largest write.
struct Noting<T> {
    io: T,
    most: Arc<AtomicUsize>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Noting<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Noting<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored_once(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored_once(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<T: AsyncWrite + Unpin> Noting<T> {
    fn poll_write_vectored_once(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.most.fetch_max(bytes.iter().map(|slice| slice.len()).sum(), Ordering::Relaxed);
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }
}

#[tokio::test]
async fn as_much_is_encrypted_at_once_as_the_buffer_says() {
    let secure = Secure::new("store.example");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(secure.made.cert.der().clone()).unwrap();
    let dialer = Dialer::new(super::super::tls::config(roots, "http/1.1").unwrap(), None, TIMEOUT);
    for buffer in [TLS_BUFFER, PROXY_TLS_BUFFER] {
        let dialer = Dialer { tls_buffer: buffer, ..dialer.clone() };
        let (near, far) = tokio::io::duplex(1 << 20);
        let most = Arc::new(AtomicUsize::new(0));
        let near = Noting { io: near, most: most.clone() };
        let acceptor = secure.acceptor(&[]);
        let peer = tokio::spawn(async move {
            let mut all = Vec::new();
            acceptor.accept(far).await.unwrap().read_to_end(&mut all).await.unwrap();
            all.len()
        });
        let mut stream = dialer.encrypted(&Uri::from_static("https://store.example"), near).await.unwrap();
        stream.write_all(&vec![7; 2 << 20]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(peer.await.unwrap(), 2 << 20);
        let most = most.load(Ordering::Relaxed);
        assert!((buffer * 3 / 4..buffer * 5 / 4).contains(&most), "{most} of {buffer}");
    }
}
