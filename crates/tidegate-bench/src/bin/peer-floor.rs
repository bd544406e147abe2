//! `peer-floor FILE URL`, `peer-floor URL FILE`: the least cost of moving a file. Not a tool, but a bare socket
//! loop.
//!
//! Eight threads (or `PEER_AT_ONCE`) have one connection each, and one buffer of 256 KiB that they reuse. To
//! upload, each thread reads the file into its buffer and writes the buffer to the socket, with one PUT for
//! every 16 MiB (`PEER_PART_MIB`), each as an object of its own (`KEY-0`, `KEY-1`, …). To download, each thread
//! requests a range of that size, reads the socket into its buffer and writes the buffer to the right place of
//! the file. The server is the same as for the tools, so every request is signed; the signature does not cover
//! the body, and there is no checksum, no retry, no session.
//!
//! To an `https://` endpoint the same bytes go through TLS, which costs the ciphers and the buffers of the
//! records. The program uses the same TLS 1.3 cipher and the same number of bytes at a time as tidegate, and
//! trusts only the authorities in `AWS_CA_BUNDLE`.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tidegate_bench::peer::{
    PeerDirection, PeerJob, Result, expect_success, success_length, tuning, variable,
};
use tidegate_bench::sign::Signer;
use tidegate_bench::size::KIB;

const BUFFER: u64 = 256 * KIB;

fn main() -> Result<()> {
    let job = PeerJob::from_arguments()?;
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
    let (part, connections) = tuning()?.unwrap_or((16 << 20, 8));
    let is_upload = job.direction == PeerDirection::Upload;
    let file = if is_upload { File::open(&job.file)? } else { File::create_new(&job.file)? };
    let mut floor = Floor {
        job,
        endpoint,
        address,
        tls,
        signer,
        file,
        size: 0,
        part: part as u64,
        next: AtomicU64::new(0),
    };
    floor.size = if is_upload { floor.file.metadata()?.len() } else { floor.length()? };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(|| floor.work())).collect();
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
    let mut ring = rustls::crypto::ring::default_provider();
    ring.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let config = ClientConfig::builder_with_provider(Arc::new(ring)).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Both directions of a connection.
trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

struct Floor<'a> {
    job: PeerJob,
    endpoint: &'a str,
    /// The endpoint without its scheme.
    address: &'a str,
    tls: Option<Arc<ClientConfig>>,
    signer: Signer,
    file: File,
    size: u64,
    part: u64,
    next: AtomicU64,
}

impl Floor<'_> {
    fn connect(&self) -> Result<BufReader<Box<dyn Duplex>>> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        let stream: Box<dyn Duplex> = match &self.tls {
            None => Box::new(socket),
            Some(config) => {
                let host = self.address.rsplit_once(':').map_or(self.address, |(host, _)| host);
                let server = ServerName::try_from(host.to_owned())?;
                let mut session = ClientConnection::new(Arc::clone(config), server)?;
                session.set_buffer_limit(Some(BUFFER as usize));
                Box::new(StreamOwned::new(session, socket))
            }
        };
        Ok(BufReader::with_capacity(4096, stream))
    }

    /// Moves parts over one connection until there are none left.
    fn work(&self) -> Result<()> {
        let mut stream = self.connect()?;
        let mut buffer = vec![0; BUFFER as usize];
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let (at, end) = (number * self.part, ((number + 1) * self.part).min(self.size));
            if at >= end {
                return Ok(());
            }
            match self.job.direction {
                PeerDirection::Upload => self.send(&mut stream, &mut buffer, number, at..end)?,
                PeerDirection::Download => self.receive(&mut stream, &mut buffer, at..end)?,
            }
        }
    }

    fn send(
        &self,
        stream: &mut BufReader<impl Duplex>,
        buffer: &mut [u8],
        number: u64,
        part: Range<u64>,
    ) -> Result<()> {
        let key = format!("{}-{number}", self.job.key);
        let length = format!("content-length: {}\r\n", part.end - part.start);
        stream.get_mut().write_all(self.head("PUT", &key, &length)?.as_bytes())?;
        let mut at = part.start;
        while at < part.end {
            let piece = &mut buffer[..BUFFER.min(part.end - at) as usize];
            self.file.read_exact_at(piece, at)?;
            stream.get_mut().write_all(piece)?;
            at += piece.len() as u64;
        }
        stream.get_mut().flush()?;
        expect_success(stream)
    }

    fn receive(
        &self,
        stream: &mut BufReader<impl Duplex>,
        buffer: &mut [u8],
        range: Range<u64>,
    ) -> Result<()> {
        let asked = format!("range: bytes={}-{}\r\n", range.start, range.end - 1);
        stream.get_mut().write_all(self.head("GET", &self.job.key, &asked)?.as_bytes())?;
        stream.get_mut().flush()?;
        let length = success_length(stream)?;
        if length != range.end - range.start {
            return Err(format!("{length} bytes answer a range of {}", range.end - range.start).into());
        }
        let mut at = range.start;
        while at < range.end {
            let room = BUFFER.min(range.end - at) as usize;
            let read = stream.read(&mut buffer[..room])?;
            if read == 0 {
                return Err(format!("the answer ends at byte {at}").into());
            }
            self.file.write_all_at(&buffer[..read], at)?;
            at += read as u64;
        }
        Ok(())
    }

    /// The object's length.
    fn length(&self) -> Result<u64> {
        let mut stream = self.connect()?;
        stream.get_mut().write_all(self.head("HEAD", &self.job.key, "")?.as_bytes())?;
        stream.get_mut().flush()?;
        success_length(&mut stream)
    }

    fn head(&self, method: &str, key: &str, fields: &str) -> Result<String> {
        let path = format!("/{}/{key}", self.job.bucket);
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{fields}", self.address);
        for (name, value) in self.signer.sign(method, &format!("{}{path}", self.endpoint))? {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        Ok(head)
    }
}
