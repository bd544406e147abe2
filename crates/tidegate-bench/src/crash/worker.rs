//! The process that is killed: writes one object, and resumes where the killed process before it stopped.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tidegate::checksum::Hasher;
use tidegate::journal::{Durability, JournalError};
use tidegate::recover::{ClaimedUpload, LeftUpload, Resumed};
use tidegate::{ErrorKind, Store, Strategy, Writer};
use tokio::time::sleep;

use super::Content;
use crate::Result;

/// The hidden subcommand of this program, which is killed.
pub const WORKER: &str = "crash-worker";

/// Bytes in one write.
const PIECE: usize = 192 << 10;

/// How often to check whether another process has released a journal.
const LOOK: Duration = Duration::from_millis(5);

/// One process's part in an object.
#[derive(Clone, Debug, Args)]
pub struct Worker {
    /// Where the objects are.
    #[arg(long)]
    to: String,
    /// Over gRPC instead of HTTP.
    #[arg(long)]
    grpc: bool,
    /// The object's number.
    #[arg(long)]
    object: u64,
    /// Its bytes.
    #[arg(long)]
    size: u64,
    /// The directory of the journals.
    #[arg(long)]
    journal: PathBuf,
    /// Wait this long, in milliseconds, between listing a journal and claiming it. Without a journal, do nothing.
    #[arg(long)]
    linger: Option<u64>,
}

impl Worker {
    /// Writes the object. Prints on standard output where the writing begins, how far its writes have returned, and
    /// when the object is done.
    ///
    /// # Errors
    /// If the object can't be written, or its journal does not begin as the object does.
    pub fn run(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let engine = super::engine(self.grpc)
                .memory(32 << 20)
                .part_size(5 << 20)
                // The guarantee after a killed process does not depend on the durability; a slow setting would allow
                // fewer runs.
                .durability(Durability::Group { bytes: 4 << 20, delay: Duration::from_millis(100) })
                .journal([&self.journal]);
            let tide = engine.build()?;
            let done = self.write_object(&tide.open(&self.to).await?).await;
            tide.settled().await;
            done
        })
    }

    async fn write_object(&self, store: &Store) -> Result<()> {
        let object = object(self.object, self.size);
        match self.begin(store, &object).await? {
            Some(Resumed::Writer(writer)) => write(writer, &object).await,
            Some(Resumed::Object(_)) => {
                say(&format!("begins {}", self.size))?;
                say("done")
            }
            None => Ok(()),
        }
    }

    /// Resumes the upload in the journal if that has the beginning of `object`, or begins a new one. `None` if the
    /// object exists already, or if there is no journal and this process only lingers.
    async fn begin(&self, store: &Store, object: &[u8]) -> Result<Option<Resumed>> {
        let key = super::key(self.object);
        loop {
            let left = store.left(&key).await?;
            let Some(left) = left.first() else {
                // The process before may have published the object, and been killed before it printed that.
                if store.head(&key).await.is_ok() {
                    say("done")?;
                    return Ok(None);
                }
                if self.linger.is_some() {
                    return Ok(None);
                }
                let builder = store.writer(&key).strategy(Strategy::Journal);
                return Ok(Some(Resumed::Writer(builder.await?)));
            };
            sleep(Duration::from_millis(self.linger.unwrap_or(0))).await;
            let Some(claimed) = claim(left, store).await? else { continue };
            let (found, length) = (claimed.recovered().checksum, claimed.recovered().checksum.covers());
            if left.recovered().is_some_and(|listed| listed.checksum != found) {
                say("overtaken")?;
            }
            let mut hasher = Hasher::new(found.algorithm());
            hasher.update(object.get(..length as usize).unwrap_or_default());
            if hasher.finish() != found {
                return Err(format!("the journal of {key} has other bytes than were written").into());
            }
            return Ok(Some(claimed.resume().await?));
        }
    }
}

/// Claims an upload, once no other process has it. `None` if it has ended.
async fn claim(left: &LeftUpload, store: &Store) -> Result<Option<ClaimedUpload>> {
    loop {
        match left.claim_on(store).await {
            Ok(claimed) if claimed.recovered().state.end.is_some() => {
                // Its process died before it could remove the journal file.
                claimed.abort().await?;
                return Ok(None);
            }
            Ok(claimed) => return Ok(Some(claimed)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if is_in_use(&error) => sleep(LOOK).await,
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_in_use(error: &tidegate::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    matches!(source, Some(JournalError::InUse { .. }))
}

/// Writes the rest of the object.
async fn write(mut writer: Writer, object: &[u8]) -> Result<()> {
    say(&format!("begins {}", writer.position()))?;
    let position = writer.position() as usize;
    for piece in object.get(position..).unwrap_or_default().chunks(PIECE) {
        writer.write_bytes(Bytes::copy_from_slice(piece)).await?;
        say(&format!("written {}", writer.position()))?;
    }
    writer.finish().await?;
    say("done")
}

/// All bytes of object `index`.
fn object(index: u64, size: u64) -> Vec<u8> {
    let (content, mut bytes) = (Content::new(), Vec::new());
    while (bytes.len() as u64) < size {
        let offset = bytes.len() as u64;
        bytes.extend_from_slice(&content.piece(index, offset, size - offset));
    }
    bytes
}

/// Prints a line, and flushes it at once.
fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
