//! `peer-floor FILE URL`: the least that an upload of a file could take. Not a tool: a bare socket loop.
//!
//! Eight threads with one connection each read the file into a reused buffer of 256 KiB and write that to the
//! socket, one PUT for every 16 MiB, each an object of its own (`KEY-0`, `KEY-1`, …). The server is the one that
//! the tools have, so every request is signed; its body is not, and there is no checksum, no retry, no session.
//! What answers is read only as far as to know that it was a success.
//!
//! To an `https://` endpoint the same goes through TLS, which costs its ciphers and the buffers of its records. It trusts
//! the authorities in `AWS_CA_BUNDLE` and no other.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tidegate_bench::peer::{Job, Result, expect_success, variable};
use tidegate_bench::sign::Signer;
use tidegate_bench::size::{KIB, MIB};

const PART: u64 = 16 * MIB;
const BUFFER: u64 = 256 * KIB;
const CONNECTIONS: usize = 8;

fn main() -> Result<()> {
    let job = Job::from_arguments()?;
    let endpoint = variable("AWS_ENDPOINT_URL")?;
    let endpoint = endpoint.trim_end_matches('/');
    let (address, tls) = match endpoint.split_once("://") {
        Some(("http", address)) => (address, None),
        Some(("https", address)) => (address, Some(trusting(&variable("AWS_CA_BUNDLE")?)?)),
        _ => return Err("only http://HOST:PORT and https://HOST:PORT endpoints".into()),
    };
    let signer = Signer {
        access_key: variable("AWS_ACCESS_KEY_ID")?,
        secret_key: variable("AWS_SECRET_ACCESS_KEY")?,
        region: variable("AWS_REGION")?,
    };
    let file = File::open(&job.file)?;
    let size = file.metadata()?.len();
    let upload = Upload { job, endpoint, address, tls, signer, file, size, next: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(|| upload.work())).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })
}

/// TLS that trusts the authorities in a PEM file.
fn trusting(bundle: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(bundle).map_err(|error| format!("{bundle}: {error}"))? {
        roots.add(certificate?)?;
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

struct Upload<'a> {
    job: Job,
    endpoint: &'a str,
    /// What the endpoint has behind its scheme.
    address: &'a str,
    tls: Option<Arc<ClientConfig>>,
    signer: Signer,
    file: File,
    size: u64,
    next: AtomicU64,
}

impl Upload<'_> {
    /// Sends parts over one connection until there are none left.
    fn work(&self) -> Result<()> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        let Some(config) = &self.tls else { return self.send(socket) };
        let host = self.address.rsplit_once(':').map_or(self.address, |(host, _)| host);
        let server = ServerName::try_from(host.to_owned())?;
        self.send(StreamOwned::new(ClientConnection::new(Arc::clone(config), server)?, socket))
    }

    fn send(&self, stream: impl Read + Write) -> Result<()> {
        let mut stream = BufReader::with_capacity(4096, stream);
        let mut buffer = vec![0; BUFFER as usize];
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let (mut at, end) = (number * PART, ((number + 1) * PART).min(self.size));
            if at >= end {
                return Ok(());
            }
            stream.get_mut().write_all(self.head(number, end - at)?.as_bytes())?;
            while at < end {
                let piece = &mut buffer[..BUFFER.min(end - at) as usize];
                self.file.read_exact_at(piece, at)?;
                stream.get_mut().write_all(piece)?;
                at += piece.len() as u64;
            }
            stream.get_mut().flush()?;
            expect_success(&mut stream)?;
        }
    }

    fn head(&self, number: u64, length: u64) -> Result<String> {
        let path = format!("/{}/{}-{number}", self.job.bucket, self.job.key);
        let address = self.address;
        let mut head = format!("PUT {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n");
        for (name, value) in self.signer.put(&format!("{}{path}", self.endpoint))? {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        Ok(head)
    }
}
