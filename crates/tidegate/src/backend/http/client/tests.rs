//! Requests through proxies, and to who does not answer.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use http::StatusCode;
use tempfile::NamedTempFile;
use tidegate_dev::{Server, Tls};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::backend::http::{Connector, Version, read};
use crate::backend::samples::next_head;

/// How long a connection may take to come about.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What proxies were asked.
type Heads = Arc<Mutex<Vec<String>>>;

fn named(proxy: &str) -> Matcher {
    Matcher::builder().all(proxy).no("direct.example").build()
}

async fn get(connector: &Connector, url: &str) -> Result<Response, Fault> {
    connector.client(0).send(Method::GET, url.to_owned(), HeaderMap::new(), Sending::default()).await
}

/// A proxy: passes tunnels on, and answers all else itself.
async fn proxy(tls: Option<tokio_rustls::TlsAcceptor>) -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Heads::default();
    let log = heads.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (tls, log) = (tls.clone(), log.clone());
            tokio::spawn(async move {
                match tls {
                    None => pass_on(socket, &log).await,
                    Some(tls) => pass_on(tls.accept(socket).await.unwrap(), &log).await,
                }
            });
        }
    });
    (address, heads)
}

async fn pass_on(mut near: impl AsyncRead + AsyncWrite + Unpin, log: &Mutex<Vec<String>>) {
    let (head, _, _) = next_head(&mut near, &mut Vec::new()).await.unwrap();
    let to = head.strip_prefix("connect ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    log.lock().unwrap().push(head);
    let Some(to) = to else {
        near.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfar").await.unwrap();
        return;
    };
    let mut far = TcpStream::connect(to).await.unwrap();
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    // Who is asked hangs up as it likes.
    let _ = copy_bidirectional(&mut near, &mut far).await;
}

/// The heads of the only request, one line each.
fn only(heads: &Heads) -> Vec<String> {
    let heads = std::mem::take(&mut *heads.lock().unwrap());
    assert_eq!(heads.len(), 1, "{heads:?}");
    heads[0].lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn what_is_not_encrypted_is_handed_to_the_proxy() {
    let (address, heads) = proxy(None).await;
    let url = "http://store.invalid:81/bucket/k?x=1";
    let through =
        Connector::through(named(&format!("http://user:pass@{address}")), url, TIMEOUT, None, Version::One);
    let response = get(&through.unwrap(), url).await.unwrap();
    assert_eq!(read(response, 10).await.unwrap(), "far");
    let head = only(&heads);
    assert_eq!(head[0], format!("get {url} http/1.1"));
    for line in ["host: store.invalid:81", "proxy-authorization: basic dxnlcjpwyxnz"] {
        assert!(head.iter().any(|said| said == line), "{line} in {head:?}");
    }
}

#[tokio::test]
async fn what_is_encrypted_goes_through_a_tunnel_and_who_asks_is_said_to_the_proxy_alone() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let mut bundle = NamedTempFile::new().unwrap();
    bundle.write_all(certificate.as_bytes()).unwrap();
    let server = Server::builder().tls(Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap());
    let server = server.start().await.unwrap();
    let acceptor = || {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
        let chain = vec![made.cert.der().clone()];
        let key = made.signing_key.serialize_der().try_into().unwrap();
        Arc::new(builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap()).into()
    };
    for (scheme, tls) in [("http", None), ("https", Some(acceptor()))] {
        for version in [Version::One, Version::Two] {
            let (address, heads) = proxy(tls.clone()).await;
            let url = server.endpoint();
            let proxies = named(&format!("{scheme}://user:pass@{address}"));
            let through = Connector::through(proxies, &url, TIMEOUT, Some(bundle.path()), version).unwrap();
            let response = get(&through, &format!("{url}/none/k")).await.unwrap();
            assert_eq!(response.status(), StatusCode::FORBIDDEN, "{scheme} {version:?}");
            let head = only(&heads);
            assert_eq!(head[0], format!("connect {} http/1.1", server.addr()));
            assert!(head.iter().any(|line| line == "proxy-authorization: basic dxnlcjpwyxnz"), "{head:?}");
        }
    }
}

#[tokio::test]
async fn http_2_in_plain_text_and_what_is_excepted_goes_past_the_proxy() {
    let server = Server::builder().start().await.unwrap();
    let (address, heads) = proxy(None).await;
    let url = server.endpoint();
    let proxies = named(&format!("http://{address}"));
    let past = Connector::through(proxies, &url, TIMEOUT, None, Version::Two).unwrap();
    assert!(get(&past, &format!("{url}/none/k")).await.is_ok());
    let excepted = Matcher::builder().all(format!("http://{address}")).no("127.0.0.1").build();
    let past = Connector::through(excepted, &url, TIMEOUT, None, Version::One).unwrap();
    assert_eq!(get(&past, &format!("{url}/none/k")).await.unwrap().status(), StatusCode::FORBIDDEN);
    assert!(heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn who_is_not_there_is_named_the_store_or_its_proxy() {
    let fault = async |proxy: &str, url: &str| {
        let through = Connector::through(named(proxy), url, TIMEOUT, None, Version::One);
        let fault = get(&through?, url).await.unwrap_err();
        Err::<(), _>(fault)
    };
    let of = |fault: Fault| (fault.kind, fault.message);
    let refused = (FaultKind::Unreachable, "connection refused by 127.0.0.1:1".to_owned());
    assert_eq!(of(fault("http://127.0.0.1:1", "http://store.invalid/k").await.unwrap_err()), refused);
    assert_eq!(of(fault("http://127.0.0.1:1", "https://store.invalid/k").await.unwrap_err()), refused);
    assert_eq!(of(fault("", "http://127.0.0.1:1/k").await.unwrap_err()), refused);
    let (kind, said) = of(fault("socks5://127.0.0.1:1", "https://store.invalid/k").await.unwrap_err());
    assert_eq!(kind, FaultKind::Invalid);
    assert!(said.contains("https://store.invalid/k is one of socks5"), "{said}");
}

#[tokio::test]
async fn who_takes_the_connection_and_says_nothing_is_given_up() {
    // The system takes connections that nobody accepts.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let soon = Duration::from_millis(100);
    for (proxy, url, at) in [
        (String::new(), format!("https://{address}/k"), address.to_string()),
        (format!("http://{address}"), "https://store.invalid/k".to_owned(), "store.invalid:443".to_owned()),
    ] {
        let through = Connector::through(named(&proxy), &url, soon, None, Version::One).unwrap();
        let fault = get(&through, &url).await.unwrap_err();
        assert_eq!(
            (fault.kind, fault.message),
            (FaultKind::Unreachable, format!("no connection with {at} in time"))
        );
    }
}
