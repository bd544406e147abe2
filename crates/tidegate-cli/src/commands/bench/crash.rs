//! `tidegate bench crash`: kills processes that upload through a journal, and checks that nothing is lost.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use tidegate::ErrorKind;
use tidegate::Tidegate;
use tidegate::location::Location;

use super::content::Content;
use super::embedded::Embedded;
use crate::exit::{Failure, Outcome};
use crate::options::Connection;
use crate::stores::{Place, Stores};
use crate::{output, values};

mod directory;
mod figures;
mod process;
mod worker;

use figures::Figures;
use process::{Ended, Limit};

/// Kill processes that upload through a journal at random moments, and let others resume.
///
/// A separate process writes each object. It is killed with SIGKILL and followed by the next process, up to --kills
/// times; the last process is not killed. Each process reads its source from the beginning, as `cp` does, and
/// compares it with the journal. If a journal was left, a second process often lists it at the same time as the next
/// process, waits, and resumes it once that process has ended. The run counts what must be zero: bytes whose write
/// had returned and that the next process did not find, objects that differ from what was written, and sessions with
/// parts and journals that were left. Each object is removed after its check.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write this many objects.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,

    /// Write to s3://BUCKET/PREFIX or gs://BUCKET/PREFIX. Default: a private embedded server.
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// Keep the journals in this directory, which must be empty. Default: a new directory where temporary files are
    /// kept. That stays if something went wrong, or if a run with --to was interrupted.
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// Kill at most this many processes per object.
    #[arg(long, default_value_t = 3, value_name = "N")]
    kills: u64,

    /// Make the smallest object this large.
    #[arg(long, default_value = "1MiB", value_parser = values::size_above_zero, value_name = "SIZE")]
    least: u64,

    /// Make the largest object this large. Sizes are spread evenly between the two.
    #[arg(long, default_value = "40MiB", value_parser = values::size_above_zero, value_name = "SIZE")]
    most: u64,

    /// Derive all random choices from this number. Default: a different number each time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Write object N, whose size is --size, as a worker process.
    #[arg(long, hide = true, value_name = "N")]
    worker: Option<u64>,

    #[arg(long, hide = true, default_value_t = 0, value_name = "BYTES")]
    size: u64,

    /// Wait this long between listing a journal and claiming it. Without a journal, do nothing.
    #[arg(long, hide = true, value_name = "MS")]
    linger: Option<u64>,

    #[command(flatten)]
    connection: Connection,
}

/// One run.
struct Run<'a> {
    args: &'a Args,
    stores: &'a Stores,
    to: String,
    journal: PathBuf,
    /// The server that this run started; `None` if the user named a store.
    embedded: Option<&'a Embedded>,
    content: Content,
    seed: u64,
    /// How long a process that is not killed takes per byte, in seconds.
    pace: f64,
    figures: Figures,
}

impl Args {
    pub(crate) async fn run(self) -> Outcome {
        if let Some(index) = self.worker {
            return worker::run(&self, index).await;
        }
        if self.least > self.most {
            let (least, most) = (self.least, self.most);
            return Err(Failure::Usage(format!("--least {least} is more than --most {most}")));
        }
        if self.to.is_none() && self.connection != Connection::default() {
            // The worker processes would take the connection from the command line, and write to that store.
            let message =
                "the embedded server is reached in its own way: say where with --to, or leave out how";
            return Err(Failure::Usage(message.to_owned()));
        }
        if let Some(to) = &self.to {
            check_target(to)?;
        }
        let embedded = match &self.to {
            Some(_) => None,
            None => Some(Embedded::start(None).await?),
        };
        let (journal, is_own) = match &self.journal {
            Some(directory) => (directory.clone(), false),
            None => (directory::new()?, true),
        };
        let seed = self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::from(now.subsec_nanos())
        });
        let engine = match &embedded {
            Some(embedded) => Tidegate::builder().s3(embedded.settings()),
            None => self.connection.reached(Tidegate::builder()),
        };
        let engine = engine.journal([&journal]);
        let done = Stores::with(engine, async |stores| {
            let run = Run {
                args: &self,
                stores,
                to: self.to.clone().unwrap_or_else(|| "s3://bench/tidegate-crash".to_owned()),
                journal: journal.clone(),
                embedded: embedded.as_ref(),
                content: Content::new(),
                seed,
                pace: 0.0,
                figures: Figures { seed, ..Figures::default() },
            };
            run.all().await
        })
        .await;
        if is_own {
            directory::clear(&journal, &done, self.to.is_some());
        }
        done
    }
}

/// Refuses targets that the worker processes cannot use at the same time: each would have a store of its own, or they
/// would have to take turns.
fn check_target(to: &str) -> Outcome {
    match to.parse()? {
        Location::S3 { .. } | Location::Gcs { .. } => Ok(()),
        location => {
            let message = format!("{location}: --to is s3://BUCKET/PREFIX or gs://BUCKET/PREFIX");
            Err(Failure::Usage(message))
        }
    }
}

impl Run<'_> {
    async fn all(mut self) -> Outcome {
        let began = Instant::now();
        if !self.stores.tide().recover().await?.is_empty() {
            let directory = self.journal.display();
            return Err(Failure::Usage(format!("{directory}: there are journals in it already")));
        }
        self.set_pace().await?;
        for index in 0..self.args.count {
            let size =
                self.args.least + (self.draw(index, 0) * (self.args.most - self.args.least) as f64) as u64;
            self.one(index, size).await?;
        }
        self.figures.journals_left = self.stores.tide().recover().await?.len() as u64;
        self.figures.seconds = began.elapsed().as_secs_f64();
        self.figures.say(self.args.json).await
    }

    fn draw(&self, index: u64, what: u64) -> f64 {
        Content::draw(self.seed.wrapping_mul(1_000_003).wrapping_add(index * 64 + what))
    }

    /// Measures how long a process that is not killed takes, with an extra object that is not counted.
    async fn set_pace(&mut self) -> Outcome {
        let (index, size) = (self.args.count, self.args.least.midpoint(self.args.most));
        let ended = self.process(index, size, Limit::Never, None).await?;
        if !ended.is_done {
            return Err(Failure::Failed("a process that was left alone did not finish".to_owned()));
        }
        self.pace = ended.took.as_secs_f64() / size as f64;
        let place = worker::place(self.stores, &self.to, index).await?;
        Ok(place.store.delete(&place.key).await?)
    }

    /// Has one object written, by a series of processes.
    async fn one(&mut self, index: u64, size: u64) -> Outcome {
        let mut before = Ended::default();
        for attempt in 0.. {
            let last = attempt >= self.args.kills;
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
                return Err(Failure::Failed(format!(
                    "object {index} was not finished by a process that was left alone"
                )));
            }
        }
        self.figures.objects += 1;
        self.figures.bytes += size;
        let place = worker::place(self.stores, &self.to, index).await?;
        self.look(index, size, &place).await
    }

    /// Counts the results of processes that shared one journal, in the order in which they had it. Returns how far
    /// they came.
    fn take_in(&mut self, before: Ended, mut ended: Vec<Ended>) -> Ended {
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
    async fn look(&mut self, index: u64, size: u64, place: &Place) -> Outcome {
        let differs = !is_written(&self.content, index, size, place).await?;
        self.figures.differing_objects += u64::from(differs);
        let left: Vec<_> = place.store.unfinished(&place.key).try_collect().await?;
        for found in left {
            match place.store.abort_session(&found.open.session).await {
                Ok(()) => {}
                // The request of a killed process took effect after the listing.
                Err(error) if error.kind() == ErrorKind::SessionLost => continue,
                Err(error) => return Err(error.into()),
            }
            let is_empty = found.held.as_ref().is_some_and(|held| held.bytes == 0);
            self.figures.empty_sessions += u64::from(is_empty);
            self.figures.sessions_left += u64::from(!is_empty);
            if !is_empty {
                let (url, id) = (place.url(), &found.open.session.id);
                let held = found.held.as_ref().map_or_else(
                    || "what the store does not say".to_owned(),
                    |held| format!("{} bytes in {} parts", held.bytes, held.parts.unwrap_or(1)),
                );
                output::say(&format!("session {id} of {url} was left, with {held}"));
            }
        }
        Ok(place.store.delete(&place.key).await?)
    }
}

/// Whether the object at `place` has the bytes and the size of object `index`.
async fn is_written(content: &Content, index: u64, size: u64, place: &Place) -> Outcome<bool> {
    let mut reader = place.store.reader(&place.key).start().await?;
    let (mut offset, mut is_same) = (0, true);
    while let Some(piece) = reader.try_next().await? {
        is_same &= content.is_at(index, offset, &piece);
        offset += piece.len() as u64;
    }
    is_same &= offset == size;
    if !is_same {
        let url = place.url();
        output::say(&format!("{url} is not what was written: {offset} bytes, of {size}"));
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
            let place = Place { store: store.clone(), key: "k".to_owned() };
            let mut writer = place.store.writer("k").start().await.unwrap();
            writer.write_bytes(bytes.into()).await.unwrap();
            writer.finish().await.unwrap();
            assert_eq!(is_written(&content, 3, 1000, &place).await.unwrap(), is_same);
        }
    }
}
