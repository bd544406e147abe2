//! `tidegate-bench crash`: kills processes that upload through a journal, and checks that nothing is lost.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use futures::TryStreamExt;
use tidegate::backend::gcs::{GcsSettings, GcsTransport};
use tidegate::location::Location;
use tidegate::{ErrorKind, Store, Tidegate, TidegateBuilder};

use crate::content::Content;
use crate::embedded::Embedded;
use crate::interrupt::until_signal;
use crate::{Result, size};

mod directory;
mod figures;
mod process;
mod worker;

pub use figures::CrashFigures;
use process::{Limit, WorkerOutcome};
pub use worker::{WORKER, Worker};

/// One run: a separate process writes each object. It is killed with SIGKILL and followed by the next process, up to
/// `kills` times; the last process is not killed. Each process reads its source from the beginning, as `cp` does, and
/// compares it with the journal. If a journal was left, a second process often lists it at the same time as the next
/// process, waits, and resumes it once that process has ended. The run counts what must be zero: bytes whose write
/// had returned and that the next process did not find, objects that differ from what was written, and sessions with
/// parts and journals that were left. Each object is removed after its check.
#[derive(Clone, Debug, Args)]
pub struct CrashTrial {
    /// Write this many objects.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,

    /// Write to s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; the environment describes the store.
    /// Default: a private embedded server.
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// Write to gs:// over gRPC instead of HTTP.
    #[arg(long, requires = "to")]
    grpc: bool,

    /// Keep the journals in this directory, which must be empty. Default: a new directory where temporary files are
    /// kept. That stays if something went wrong, or if a run with --to was interrupted.
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// Kill at most this many processes per object.
    #[arg(long, default_value_t = 3, value_name = "N")]
    kills: u64,

    /// Make the smallest object this large.
    #[arg(long, default_value = "1MiB", value_parser = size::parse, value_name = "SIZE")]
    least: u64,

    /// Make the largest object this large. Sizes are spread evenly between the two.
    #[arg(long, default_value = "40MiB", value_parser = size::parse, value_name = "SIZE")]
    most: u64,

    /// Derive all random choices from this number. Default: a different number each time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// The state of a run.
struct CrashRun<'a> {
    crash: &'a CrashTrial,
    store: &'a Store,
    to: String,
    is_over_grpc: bool,
    journal: PathBuf,
    /// The server that this run started; `None` if the user named a store.
    embedded: Option<&'a Embedded>,
    content: Content,
    seed: u64,
    /// How long a process that is not killed takes per byte, in seconds.
    pace: f64,
    figures: CrashFigures,
}

/// The settings of every engine of a run; the environment describes the store.
fn engine(is_over_grpc: bool) -> TidegateBuilder {
    let transport = if is_over_grpc { GcsTransport::Grpc } else { GcsTransport::Http };
    Tidegate::builder().gcs(GcsSettings::default().with_transport(transport))
}

/// The key of object `index`.
fn key(index: u64) -> String {
    format!("{index:07}")
}

impl CrashTrial {
    /// Does the run. `tidegate` finds the program whose embedded server is used where no store is named.
    ///
    /// # Errors
    /// If the run can't be done. What it finds is in the figures.
    pub fn run(&self, tidegate: impl Fn() -> Result<PathBuf>) -> Result<CrashFigures> {
        if self.least > self.most {
            return Err(format!("--least {} is more than --most {}", self.least, self.most).into());
        }
        if let Some(to) = &self.to {
            check_target(to)?;
        }
        let (journal, is_own) = match &self.journal {
            Some(directory) => (directory.clone(), false),
            None => (directory::new()?, true),
        };
        let done = self.run_with(tidegate, journal.clone());
        if is_own {
            directory::clear(&journal, &done, self.to.is_some());
        }
        done
    }

    fn run_with(&self, tidegate: impl Fn() -> Result<PathBuf>, journal: PathBuf) -> Result<CrashFigures> {
        let logs = tempfile::tempdir()?;
        let embedded = match &self.to {
            Some(_) => None,
            None => Some(Embedded::storing(&tidegate()?, logs.path(), "memory")?),
        };
        let (to, engine) = match (&self.to, &embedded) {
            (Some(to), _) => (to.trim_end_matches('/').to_owned(), engine(self.grpc)),
            (None, Some(embedded)) => {
                let endpoint = embedded.endpoint();
                let to = format!("s3://{}/tidegate-crash", endpoint.bucket);
                (to, Tidegate::builder().s3(endpoint.settings()))
            }
            (None, None) => return Err("no store".into()),
        };
        let seed = self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::from(now.subsec_nanos())
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let tide = engine.journal([&journal]).build()?;
            let work = async {
                let store = tide.open(&to).await?;
                let run = CrashRun {
                    crash: self,
                    store: &store,
                    to: to.clone(),
                    is_over_grpc: self.grpc,
                    journal: journal.clone(),
                    embedded: embedded.as_ref(),
                    content: Content::new(),
                    seed,
                    pace: 0.0,
                    figures: CrashFigures { seed, ..CrashFigures::default() },
                };
                run.all(&tide).await
            };
            until_signal(&tide, work).await
        })
    }
}

/// Refuses targets that the worker processes cannot use at the same time: each would have a store of its own, or they
/// would have to take turns.
fn check_target(to: &str) -> Result<()> {
    const WANTED: &str = "--to is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX";
    match to.parse() {
        Ok(Location::S3 { .. } | Location::Gcs { .. } | Location::Azure { .. }) => Ok(()),
        Ok(location) => Err(format!("{location}: {WANTED}").into()),
        Err(error) => Err(format!("{error}: {WANTED}").into()),
    }
}

impl CrashRun<'_> {
    async fn all(mut self, tide: &Tidegate) -> Result<CrashFigures> {
        let began = Instant::now();
        if !tide.recover().await?.is_empty() {
            return Err(format!("{}: there are journals in it already", self.journal.display()).into());
        }
        self.set_pace().await?;
        for index in 0..self.crash.count {
            let (least, most) = (self.crash.least, self.crash.most);
            let size = least + (self.draw(index, 0) * (most - least) as f64) as u64;
            self.one(index, size).await?;
        }
        self.figures.journals_left = tide.recover().await?.len() as u64;
        self.figures.seconds = began.elapsed().as_secs_f64();
        Ok(self.figures)
    }

    fn draw(&self, index: u64, what: u64) -> f64 {
        Content::draw(self.seed.wrapping_mul(1_000_003).wrapping_add(index * 64 + what))
    }

    /// Measures how long a process that is not killed takes, with an extra object that is not counted.
    async fn set_pace(&mut self) -> Result<()> {
        let (index, size) = (self.crash.count, self.crash.least.midpoint(self.crash.most));
        let ended = self.process(index, size, Limit::Never, None).await?;
        if !ended.is_done {
            return Err("a process that was left alone did not finish".into());
        }
        self.pace = ended.took.as_secs_f64() / size as f64;
        Ok(self.store.delete(&key(index)).await?)
    }

    /// Has one object written, by a series of processes.
    async fn one(&mut self, index: u64, size: u64) -> Result<()> {
        let mut before = WorkerOutcome::default();
        for attempt in 0.. {
            let last = attempt >= self.crash.kills;
            let whole = 0.02 + self.pace * size as f64;
            let draw = |what| self.draw(index, attempt * 8 + what);
            let limit = match draw(1) {
                _ if last => Limit::Never,
                drawn if draw(2) < 0.2 => Limit::Started(Duration::from_secs_f64(0.2 * drawn)),
                drawn => Limit::Begun(Duration::from_secs_f64(whole * 1.1 * drawn)),
            };
            let ended = if last || draw(3) < 0.5 {
                vec![self.process(index, size, limit, None).await?]
            } else {
                // The second process lists the journal first, and claims it while the first process has it, or after.
                let (late, linger) = (Duration::from_secs_f64(0.2 * draw(4)), Duration::from_millis(250));
                let second = Limit::Begun(Duration::from_secs_f64(whole * 1.1 * draw(5)));
                let first = async {
                    tokio::time::sleep(late).await;
                    self.process(index, size, limit, None).await
                };
                let (one, other) =
                    futures::join!(first, self.process(index, size, second, Some(late + linger)));
                vec![one?, other?]
            };
            before = self.take_in(before, ended);
            if before.is_done {
                break;
            }
            if last {
                return Err(
                    format!("object {index} was not finished by a process that was left alone").into()
                );
            }
        }
        self.figures.objects += 1;
        self.figures.bytes += size;
        self.look(index, size).await
    }

    /// Counts the results of processes that shared one journal, in the order in which they had it. Returns how far
    /// they came.
    fn take_in(&mut self, before: WorkerOutcome, mut ended: Vec<WorkerOutcome>) -> WorkerOutcome {
        ended.sort_by_key(|ended| (ended.begins, ended.written));
        let mut far = before;
        for ended in ended {
            self.figures.take_in(&far, &ended);
            far.written = far.written.max(ended.written);
            far.is_done |= ended.is_done;
        }
        far
    }

    /// Reads an object back, compares it, counts the sessions that are left, and removes the object.
    async fn look(&mut self, index: u64, size: u64) -> Result<()> {
        let key = key(index);
        let differs = !is_written(&self.content, index, size, self.store, &key).await?;
        self.figures.differing_objects += u64::from(differs);
        let left: Vec<_> = self.store.unfinished(&key).try_collect().await?;
        for found in left {
            match self.store.abort_session(&found.open.session).await {
                Ok(()) => {}
                // The request of a killed process took effect after the listing.
                Err(error) if error.kind() == ErrorKind::SessionLost => continue,
                Err(error) => return Err(error.into()),
            }
            let is_empty = found.held.as_ref().is_some_and(|held| held.bytes == 0);
            self.figures.empty_sessions += u64::from(is_empty);
            self.figures.sessions_left += u64::from(!is_empty);
            if !is_empty {
                let (location, id) = (self.store.location(), &found.open.session.id);
                let held = found.held.as_ref().map_or_else(
                    || "what the store does not say".to_owned(),
                    |held| format!("{} bytes in {} parts", held.bytes, held.parts.unwrap_or(1)),
                );
                eprintln!("session {id} of {location}/{key} was left, with {held}");
            }
        }
        Ok(self.store.delete(&key).await?)
    }
}

/// Whether the object of `store` at `key` has the bytes and the size of object `index`.
async fn is_written(content: &Content, index: u64, size: u64, store: &Store, key: &str) -> Result<bool> {
    let mut reader = store.reader(key).await?;
    let (mut offset, mut is_same) = (0, true);
    while let Some(piece) = reader.try_next().await? {
        is_same &= content.is_at(index, offset, &piece);
        offset += piece.len() as u64;
    }
    is_same &= offset == size;
    if !is_same {
        let location = store.location();
        eprintln!("{location}/{key} is not what was written: {offset} bytes, of {size}");
    }
    Ok(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_object_that_is_not_what_was_written_is_counted() {
        let tide = Tidegate::builder().build().unwrap();
        let store = tide.open("memory://crash").await.unwrap();
        let content = Content::new();
        let whole = content.piece(3, 0, 1000);
        let mut other = whole.to_vec();
        other[999] ^= 1;
        let cases = [(whole.to_vec(), true), (whole[..999].to_vec(), false), (other, false)];
        for (bytes, is_same) in cases {
            let mut writer = store.writer("k").await.unwrap();
            writer.write_bytes(bytes.into()).await.unwrap();
            writer.finish().await.unwrap();
            assert_eq!(is_written(&content, 3, 1000, &store, "k").await.unwrap(), is_same);
        }
    }
}
