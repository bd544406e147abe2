use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedKey, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::*;
use crate::{Bandwidth, FaultAction, FaultRule, Knobs, Server};

/// The longest that a test waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// The path of the object.
const OBJECT: &str = "/storage/v1/b/bucket/o/k?alt=media";

fn certified() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap()
}

fn of(chain: &str, key: &KeyPair) -> Result<Tls, TlsError> {
    Tls::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes())
}

/// A server, and the client settings that trust it.
async fn server() -> (Server, ClientConfig) {
    patient(HANDSHAKE).await
}

/// A server with this time limit for handshakes, and the client settings that trust it.
async fn patient(handshake: Duration) -> (Server, ClientConfig) {
    let made = certified();
    let tls = Tls { handshake, ..of(&made.cert.pem(), &made.signing_key).unwrap() };
    let server = Server::builder().tls(tls).start().await.unwrap();
    server.create_bucket("bucket").unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server, config)
}

type Stream = tokio_rustls::client::TlsStream<TcpStream>;

async fn connect(server: &Server, config: &ClientConfig) -> Stream {
    let stream = TcpStream::connect(server.addr()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connecting = TlsConnector::from(Arc::new(config.clone())).connect(name, stream);
    timeout(PATIENCE, connecting).await.unwrap().unwrap()
}

/// Sends a request on a new connection and returns all bytes until the connection ends.
async fn ask(server: &Server, config: &ClientConfig, head: &str, body: &[u8]) -> (Vec<u8>, io::Result<()>) {
    let mut stream = connect(server, config).await;
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    (answer, end.map(drop))
}

async fn put(server: &Server, config: &ClientConfig, body: &[u8]) -> String {
    let upload = "POST /upload/storage/v1/b/bucket/o?uploadType=media&name=k";
    let (answer, end) = ask(server, config, upload, body).await;
    end.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn clients_get_http_1_unless_they_want_http_2_alone() {
    let (server, mut config) = server().await;
    assert_eq!(server.endpoint(), format!("https://{}", server.addr()));
    for (offered, taken) in [
        (&[&b"h2"[..], b"http/1.1"][..], Some(&b"http/1.1"[..])),
        (&[b"http/1.1"], Some(b"http/1.1")),
        (&[b"h2"], Some(b"h2")),
        (&[], None),
    ] {
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let stream = connect(&server, &config).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), taken, "{offered:?}");
    }
    assert_eq!(server.counts().connections, 4);
}

#[tokio::test]
async fn requests_are_answered_with_links_that_work() {
    let (server, config) = server().await;
    let told = put(&server, &config, b"bytes").await;
    assert!(told.contains(r#""selfLink":"https://localhost/storage/v1/b/bucket/o/k""#), "{told}");

    let (mut sender, connection) =
        http1::handshake(TokioIo::new(connect(&server, &config).await)).await.unwrap();
    let driver = tokio::spawn(connection);
    for _ in 0..2 {
        let request =
            Request::get(OBJECT).header("host", "localhost").body(Empty::<bytes::Bytes>::new()).unwrap();
        let answer = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "bytes");
    }
    driver.abort();
    let counts = server.counts();
    assert_eq!((counts.bytes_in, counts.bytes_out >= 10, counts.connections), (5, true, 2), "{counts:?}");
}

#[tokio::test]
async fn who_says_nothing_is_let_go_and_holds_up_nobody() {
    let handshake = Duration::from_secs(2);
    let (server, config) = patient(handshake).await;
    let began = Instant::now();
    let mut silent = TcpStream::connect(server.addr()).await.unwrap();
    let mut plain = TcpStream::connect(server.addr()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut said)).await.unwrap();
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    put(&server, &config, b"bytes").await;

    let end = timeout(PATIENCE, silent.read(&mut [0])).await.unwrap();
    assert_eq!(end.unwrap(), 0);
    assert!(began.elapsed() >= handshake);
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_waits_for_no_handshake() {
    let (server, _) = server().await;
    let _silent = TcpStream::connect(server.addr()).await.unwrap();
    // Until the server waits for the client's handshake: one turn after it accepts the connection.
    while server.counts().connections == 0 {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    timeout(HANDSHAKE / 2, server.stop()).await.unwrap();
}

#[tokio::test]
async fn faults_are_as_without_it() {
    let (server, config) = server().await;
    put(&server, &config, &[7; 100_000]).await;
    let behave = |action| {
        let faults = vec![FaultRule::new("storage.objects.download", action)];
        server.set_knobs(Knobs { faults, ..Knobs::default() });
    };
    let get = format!("GET {OBJECT}");

    behave(FaultAction::CutHead);
    let (answer, end) = ask(&server, &config, &get, b"").await;
    assert_eq!(answer, b"H");
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

    behave(FaultAction::ResetResponse { after_bytes: 50_000 });
    let (answer, end) = ask(&server, &config, &get, b"").await;
    let (head, body) = answer.split_at(answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4);
    assert!(head.starts_with(b"HTTP/1.1 200"));
    assert_eq!(body.len(), 50_000);
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn connections_keep_their_pace() {
    let (server, config) = server().await;
    let knobs = Knobs { bandwidth: Bandwidth::per_connection(1_000_000), ..Knobs::default() };
    server.set_knobs(knobs);
    let began = Instant::now();
    put(&server, &config, &[7; 300_000]).await;
    assert!(began.elapsed() > Duration::from_millis(200), "{:?}", began.elapsed());
}

#[test]
fn what_cannot_be_used_is_refused_by_what_is_wrong_with_it() {
    let (one, other) = (certified(), certified());
    let (certificate, key) = (one.cert.pem(), one.signing_key.serialize_pem());
    let refused = |certificate: &str, key: &str| {
        Tls::from_pem(certificate.as_bytes(), key.as_bytes()).expect_err("it was taken").to_string()
    };
    let none = "the certificate cannot be used: there is no certificate in it";
    assert_eq!(refused("", &key), none);
    assert_eq!(refused(&key, &key), none);
    assert_eq!(
        refused(&certificate, &certificate),
        "the private key cannot be used: there is no private key in it"
    );
    let broken = certificate.replace("-----END CERTIFICATE-----", "");
    assert!(refused(&broken, &key).starts_with("the certificate cannot be used: it is not PEM: "));
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(
        refused(empty, &key).starts_with("the certificate cannot be used: number 1 in it cannot be read: ")
    );
    let second = refused(&format!("{certificate}{empty}"), &key);
    assert!(
        second.starts_with("the certificate cannot be used: number 2 in it cannot be read: "),
        "{second}"
    );
    assert_eq!(
        refused(&certificate, &other.signing_key.serialize_pem()),
        "the private key cannot be used: it is not that of the first certificate"
    );
    for encrypted in [
        key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END EC PRIVATE KEY-----\n"
            .to_owned(),
    ] {
        let said = refused(&certificate, &encrypted);
        assert_eq!(said, "the private key cannot be used: it is encrypted: give one without a passphrase");
    }
    let odd = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(
        refused(&certificate, odd).ends_with("what is taken is RSA, ECDSA on P-256 or P-384, and Ed25519")
    );
}

#[test]
fn it_knows_whether_its_authority_is_among_its_certificates() {
    let made = certified();
    let own = of(&made.cert.pem(), &made.signing_key).unwrap();
    assert!(own.has_authority());
    assert!(own.names([127, 0, 0, 1].into()) && !own.names([127, 0, 0, 2].into()));

    let authority = |name: &str| {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
    };
    let [root_key, middle_key, key] = std::array::from_fn(|_| KeyPair::generate().unwrap());
    let (root, middle) = (authority("an authority"), authority("one in between"));
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let root = Issuer::new(root, root_key);
    let middle_pem = middle.signed_by(&middle_key, &root).unwrap().pem();
    let middle = Issuer::new(middle, middle_key);
    let server = || CertificateParams::new(["localhost".to_owned()]).unwrap();

    let leaf = server().signed_by(&key, &root).unwrap().pem();
    assert!(!of(&leaf, &key).unwrap().has_authority());
    assert!(of(&format!("{leaf}{root_pem}"), &key).unwrap().has_authority());
    let leaf = server().signed_by(&key, &middle).unwrap().pem();
    // Only a client that knows the signer of the middle certificate trusts it.
    assert!(!of(&format!("{leaf}{middle_pem}"), &key).unwrap().has_authority());
    assert!(!of(&format!("{leaf}{root_pem}"), &key).unwrap().has_authority());
    assert!(of(&format!("{leaf}{middle_pem}{root_pem}"), &key).unwrap().has_authority());
}
