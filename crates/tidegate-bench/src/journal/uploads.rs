//! The measured process: uploads some objects at once, each from its own producer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{self, Arc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate::backend::gcs::{GcsSettings, GcsTransport};
use tidegate::{Store, Strategy, Tidegate};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::Result;
use crate::http::LocalClient;
use crate::producer::{self, PacedProducer};
use crate::size::MIB;

/// The uploads of one process.
#[derive(Clone, Debug, Args)]
pub struct Uploads {
    /// The objects and the store.
    #[command(flatten)]
    pub load: JournalLoad,
    /// A strategy's name, or `stream`.
    #[arg(long)]
    pub how: How,
    /// Bytes of a chunk.
    #[arg(long)]
    pub chunk: Option<u64>,
    /// Over gRPC instead of HTTP.
    #[arg(long)]
    pub grpc: bool,
    /// Folder for the spool or the journal.
    #[arg(long)]
    pub scratch: PathBuf,
}

/// The destination of the objects.
#[derive(Clone, Debug, Args)]
pub struct JournalDestination {
    /// The store, such as `gs://BUCKET/`, for the library.
    #[arg(long)]
    pub store: String,
    /// The server's address for the bare stream and for Google's client; empty if they do not run.
    #[arg(long)]
    pub url: String,
    /// The bucket for these two.
    #[arg(long)]
    pub bucket: String,
    /// The objects are `PREFIX0`, `PREFIX1` and so on.
    #[arg(long)]
    pub prefix: String,
}

/// The objects and their destination.
#[derive(Clone, Debug, Args)]
pub struct JournalLoad {
    /// The destination.
    #[command(flatten)]
    pub place: JournalDestination,
    /// Bytes of each object; all objects are uploaded at once.
    #[arg(long, value_delimiter = ',', required = true)]
    pub sizes: Vec<u64>,
    /// Bytes a second that each producer makes.
    #[arg(long)]
    pub produce: u64,
}

/// How an object's bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Through the library, with a strategy.
    Strategy(Strategy),
    /// In one request that stays open; bytes are written to its socket as they are made.
    Stream,
}

impl How {
    const STREAM: &str = "stream";

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Strategy(strategy) => strategy.name(),
            Self::Stream => Self::STREAM,
        }
    }
}

impl FromStr for How {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        if name == Self::STREAM {
            return Ok(Self::Stream);
        }
        name.parse().map(Self::Strategy).map_err(|error: tidegate::settings::UnknownName| error.to_string())
    }
}

/// The line that the process prints at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UploadTimes {
    /// Seconds of each object in turn, from the making of its first byte to its publication.
    pub seconds: Vec<f64>,
}

impl Uploads {
    /// Makes all uploads and prints how long they took.
    ///
    /// # Errors
    /// The first error of any upload.
    pub fn run(&self) -> Result<()> {
        let seconds = match self.how {
            How::Stream => self.load.stream_all()?,
            How::Strategy(strategy) => {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
                runtime.block_on(self.upload_all(strategy))?
            }
        };
        println!("{}", serde_json::to_string(&UploadTimes { seconds })?);
        Ok(())
    }

    async fn upload_all(&self, strategy: Strategy) -> Result<Vec<f64>> {
        let load = &self.load;
        let transport = if self.grpc { GcsTransport::Grpc } else { GcsTransport::Http };
        let tide = Tidegate::builder().gcs(GcsSettings::default().with_transport(transport));
        let tide = match strategy {
            Strategy::Spool => tide.spool([&self.scratch]),
            Strategy::Journal => tide.journal([&self.scratch]),
            // Each chunked object holds one chunk, which is the cost of that way; parts get memory for as many
            // parts as objects.
            _ => {
                let chunk = self.chunk.unwrap_or(16 * MIB) + 8 * MIB;
                tide.memory((256 * MIB).max(2 * chunk * load.sizes.len() as u64))
            }
        };
        let store = tide.build()?.open(&load.place.store).await?;
        let piece = producer::piece();
        // Opens connections, and does what is set up once.
        let mut warm = store.writer(format!("{}warm", load.place.prefix)).strategy(strategy).await?;
        warm.write_bytes(piece.clone()).await?;
        warm.finish().await?;
        let start = Arc::new(Barrier::new(load.sizes.len()));
        let mut uploads = JoinSet::new();
        for (number, size) in load.sizes.iter().copied().enumerate() {
            let (store, start, piece, this) = (store.clone(), start.clone(), piece.clone(), self.clone());
            uploads.spawn(async move {
                start.wait().await;
                Ok::<_, crate::Error>((number, this.upload(&store, (number, size), strategy, piece).await?))
            });
        }
        let mut seconds = vec![0.0; load.sizes.len()];
        while let Some(upload) = uploads.join_next().await {
            let (number, took) = upload??;
            seconds[number] = took;
        }
        Ok(seconds)
    }

    async fn upload(
        &self,
        store: &Store,
        (number, size): (usize, u64),
        strategy: Strategy,
        piece: Bytes,
    ) -> Result<f64> {
        let (load, began) = (&self.load, Instant::now());
        let mut producer = PacedProducer::new(piece, size, load.produce);
        let writer = store.writer(format!("{}{number}", load.place.prefix)).strategy(strategy);
        let mut writer = match self.chunk {
            Some(chunk) => writer.part_size(chunk),
            None => writer,
        }
        .await?;
        while let Some((bytes, nap)) = producer.next() {
            if let Some(nap) = nap {
                let began = Instant::now();
                tokio::time::sleep(nap).await;
                producer.slept(began);
            }
            writer.write_bytes(bytes).await?;
        }
        let object = writer.finish().await?;
        if object.size != size {
            return Err(format!("{}: {} of {size} bytes", object.key, object.size).into());
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

impl JournalLoad {
    fn stream_all(&self) -> Result<Vec<f64>> {
        let piece = producer::piece();
        let start = sync::Barrier::new(self.sizes.len());
        std::thread::scope(|scope| {
            let work = |(number, size): (usize, &u64)| {
                let (piece, start, size) = (piece.clone(), &start, *size);
                scope.spawn(move || {
                    start.wait();
                    self.stream(number, size, piece)
                })
            };
            let threads: Vec<_> = self.sizes.iter().enumerate().map(work).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
                .collect()
        })
    }

    /// One resumable upload in one request of unknown length (`bytes 0-*/*`), whose clean end publishes it.
    fn stream(&self, number: usize, size: u64, piece: Bytes) -> Result<f64> {
        let began = Instant::now();
        let mut producer = PacedProducer::new(piece, size, self.produce);
        let JournalDestination { url, bucket, prefix, .. } = &self.place;
        let url = url.trim_end_matches('/');
        let name = format!("{prefix}{number}").replace('/', "%2F");
        let session = LocalClient::default()
            .begin(&format!("{url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name={name}"))?;
        let address = url.strip_prefix("http://").ok_or("only http://HOST:PORT addresses")?;
        let path = session.strip_prefix(url).ok_or_else(|| format!("a session elsewhere: {session}"))?;
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut answers = BufReader::new(socket.try_clone()?);
        socket.write_all(
            format!(
                "PUT {path} HTTP/1.1\r\nhost: {address}\r\ntransfer-encoding: chunked\r\n\
                 content-range: bytes 0-*/*\r\n\r\n"
            )
            .as_bytes(),
        )?;
        while let Some((bytes, nap)) = producer.next() {
            if let Some(nap) = nap {
                let began = Instant::now();
                std::thread::sleep(nap);
                producer.slept(began);
            }
            socket.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
            socket.write_all(&bytes)?;
            socket.write_all(b"\r\n")?;
        }
        socket.write_all(b"0\r\n\r\n")?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        expect_success(&mut answers)?;
        Ok(began.elapsed().as_secs_f64())
    }
}

/// Reads one answer to its end; an error unless it is a success.
fn expect_success(answers: &mut impl BufRead) -> Result<()> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let (status, mut length) = (line.trim_end().to_owned(), 0);
    loop {
        line.clear();
        answers.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    if !status.starts_with("HTTP/1.1 20") {
        return Err(format!("the server answers: {status}").into());
    }
    std::io::copy(&mut answers.take(length), &mut std::io::sink())?;
    Ok(())
}
