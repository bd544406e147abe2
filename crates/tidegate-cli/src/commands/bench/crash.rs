//! `tidegate bench crash`: processes that are killed while they upload through a journal.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use tidegate::{Location, Tidegate};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::content::Content;
use super::embedded::Embedded;
use crate::exit::{Failure, Outcome};
use crate::options::Connection;
use crate::stores::{Place, Stores};
use crate::{output, text, values};

mod worker;

/// Kill processes that upload through a journal, at random moments, and have others go on.
///
/// Each object is written by a process of its own, which is killed with SIGKILL and followed by the next
/// one, up to --kills times; the last is left alone. Counted is what must be zero: bytes whose write had
/// returned and that the next process did not find, objects that are not what was written, sessions with
/// parts and journals that were left. Objects are removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many objects.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,

    /// Where to: s3://BUCKET/PREFIX; default: an embedded server of its own.
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// Directory for the journals; it must be empty. Default: a new one where temporary files are.
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// Most kills an object.
    #[arg(long, default_value_t = 3, value_name = "N")]
    kills: u64,

    /// Size of the smallest object.
    #[arg(long, default_value = "1MiB", value_parser = values::size_above_zero, value_name = "SIZE")]
    least: u64,

    /// Size of the largest object; sizes are spread evenly between the two.
    #[arg(long, default_value = "40MiB", value_parser = values::size_above_zero, value_name = "SIZE")]
    most: u64,

    /// Number that all random choices follow from; default: another one each time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// This process is the one that writes object N of so many bytes.
    #[arg(long, hide = true, value_name = "N")]
    worker: Option<u64>,

    #[arg(long, hide = true, default_value_t = 0, value_name = "BYTES")]
    size: u64,

    #[command(flatten)]
    connection: Connection,
}

/// What came of it; the names are those of `--json`.
#[derive(Debug, Default, Serialize)]
struct Figures {
    seed: u64,
    objects: u64,
    bytes: u64,
    kills: u64,
    /// Processes that went on with a journal that another had left.
    resumed: u64,
    /// Bytes whose write had returned, and that the next process did not find.
    lost_bytes: u64,
    differing_objects: u64,
    /// Sessions that hold parts.
    sessions_left: u64,
    /// Sessions that hold nothing: their process was killed before it had written down the store's answer.
    empty_sessions: u64,
    journals_left: u64,
    seconds: f64,
}

/// One run.
struct Run<'a> {
    args: &'a Args,
    stores: &'a Stores,
    to: String,
    journal: PathBuf,
    environment: Vec<(&'static str, String)>,
    content: Content,
    seed: u64,
    /// How long a process that is not killed takes for a byte.
    pace: f64,
    figures: Figures,
}

/// What became of one process.
#[derive(Default)]
struct Ended {
    /// Bytes whose write had returned.
    written: u64,
    is_done: bool,
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
        let embedded = match &self.to {
            Some(_) => None,
            None => Some(Embedded::start(None).await?),
        };
        let settings = embedded.as_ref().map_or_else(|| self.connection.settings(), Embedded::settings);
        let (journal, is_own) = match &self.journal {
            Some(directory) => (directory.clone(), false),
            None => (std::env::temp_dir().join(format!("tidegate-crash-{}", std::process::id())), true),
        };
        if is_own {
            std::fs::create_dir(&journal)?;
        }
        let seed = self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::from(now.subsec_nanos())
        });
        let engine = Tidegate::builder().s3(settings).journal([&journal]);
        let done = Stores::with(engine, async |stores| {
            let run = Run {
                args: &self,
                stores,
                to: self.to.clone().unwrap_or_else(|| "s3://bench/tidegate-crash".to_owned()),
                journal: journal.clone(),
                environment: embedded.iter().flat_map(Embedded::environment).collect(),
                content: Content::new(),
                seed,
                pace: 0.0,
                figures: Figures { seed, ..Figures::default() },
            };
            run.all().await
        })
        .await;
        if is_own {
            // What is left in it has been counted.
            let _ = std::fs::remove_dir_all(&journal);
        }
        done
    }
}

impl Run<'_> {
    async fn all(mut self) -> Outcome {
        let began = Instant::now();
        if !self.stores.tide().recover().await?.is_empty() {
            let directory = self.journal.display();
            return Err(Failure::Usage(format!("{directory}: there are journals in it already")));
        }
        for index in 0..self.args.count {
            let size =
                self.args.least + (self.draw(index, 0) * (self.args.most - self.args.least) as f64) as u64;
            self.one(index, size).await?;
        }
        self.figures.journals_left = self.stores.tide().recover().await?.len() as u64;
        self.figures.seconds = began.elapsed().as_secs_f64();
        self.figures.say(self.args.json)
    }

    fn draw(&self, index: u64, what: u64) -> f64 {
        Content::draw(self.seed.wrapping_mul(1_000_003).wrapping_add(index * 64 + what))
    }

    /// Has one object written, by as many processes as it takes.
    async fn one(&mut self, index: u64, size: u64) -> Outcome {
        let mut before = 0;
        for attempt in 0.. {
            // The first object shows how long one takes.
            let last = attempt >= self.args.kills || index == 0;
            let whole = 0.02 + self.pace * size as f64;
            let limit = (!last).then(|| Duration::from_secs_f64(whole * 1.1 * self.draw(index, attempt + 1)));
            let began = Instant::now();
            let ended = self.process(index, size, before, limit).await?;
            before = ended.written;
            if ended.is_done {
                if index == 0 {
                    self.pace = began.elapsed().as_secs_f64() / size as f64;
                }
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

    /// Starts a process, kills it after `limit`, and says how far it came. It must begin where `before`
    /// bytes had been written.
    async fn process(
        &mut self,
        index: u64,
        size: u64,
        before: u64,
        limit: Option<Duration>,
    ) -> Outcome<Ended> {
        let mut child = self.start(index, size)?;
        let Some(output) = child.stdout.take() else { return Ok(Ended::default()) };
        let mut lines = BufReader::new(output).lines();
        let mut kill = std::pin::pin!(async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        });
        let (mut ended, mut is_killed) = (Ended { written: before, is_done: false }, false);
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line?,
                () = &mut kill, if !is_killed => {
                    child.start_kill()?;
                    is_killed = true;
                    self.figures.kills += 1;
                    continue; // what it had said before is in the pipe yet
                }
            };
            let Some(line) = line else { break };
            match line.split_once(' ') {
                Some(("begins", position)) => {
                    let position: u64 = position.parse().unwrap_or(0);
                    self.figures.resumed += u64::from(position > 0);
                    self.figures.lost_bytes += before.saturating_sub(position);
                }
                Some(("written", position)) => ended.written = position.parse().unwrap_or(ended.written),
                _ if line == "done" => ended.is_done = true,
                _ => output::say(&line),
            }
        }
        let status = child.wait().await?;
        if !is_killed && !ended.is_done {
            return Err(Failure::Failed(format!("the process of object {index} failed by itself: {status}")));
        }
        Ok(ended)
    }

    fn start(&self, index: u64, size: u64) -> Outcome<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1));
        command.args(["--worker", &index.to_string(), "--size", &size.to_string()]);
        if self.args.to.is_none() {
            command.args(["--to", &self.to]);
        }
        if self.args.journal.is_none() {
            command.arg("--journal").arg(&self.journal);
        }
        command.envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        Ok(command.spawn()?)
    }

    /// Reads an object back, compares it, counts what is left beside it, and removes it.
    async fn look(&mut self, index: u64, size: u64, place: &Place) -> Outcome {
        let mut reader = place.store.reader(&place.key).start().await?;
        let (mut offset, mut is_same) = (0, true);
        while let Some(piece) = reader.next().await {
            let piece = piece?;
            is_same &= self.content.is_at(index, offset, &piece);
            offset += piece.len() as u64;
        }
        if !is_same || offset != size {
            self.figures.differing_objects += 1;
            let url = place.url();
            output::say(&format!("{url} is not what was written: {offset} bytes, of {size}"));
        }
        let left: Vec<_> = place.store.unfinished(&place.key).try_collect().await?;
        for found in left {
            let is_empty = found.held.as_ref().is_some_and(|held| held.bytes == 0);
            self.figures.empty_sessions += u64::from(is_empty);
            self.figures.sessions_left += u64::from(!is_empty);
            place.store.abort_session(&found.open.session).await?;
        }
        Ok(place.store.delete(&place.key).await?)
    }
}

impl Figures {
    /// Says what came of it; what must be zero and is not is a failure.
    fn say(&self, json: bool) -> Outcome {
        use std::io::Write;
        let mut out = output::text()?;
        if json {
            serde_json::to_writer(&mut out, self).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(
                out,
                "{} of {} through {} kills and {} resumptions in {:.1} s (seed {})",
                text::count(self.objects, "object"),
                text::size(self.bytes),
                self.kills,
                self.resumed,
                self.seconds,
                self.seed
            )?;
            writeln!(out, "lost bytes         {}", self.lost_bytes)?;
            writeln!(out, "differing objects  {}", self.differing_objects)?;
            writeln!(
                out,
                "sessions left      {}, and {} that hold nothing",
                self.sessions_left, self.empty_sessions
            )?;
            writeln!(out, "journals left      {}", self.journals_left)?;
        }
        out.flush()?;
        match self.lost_bytes + self.differing_objects + self.sessions_left + self.journals_left {
            0 => Ok(()),
            _ => Err(Failure::Failed("something was lost or left: see the figures".to_owned())),
        }
    }
}

/// Where `to` is, checked.
fn location(to: &str) -> Outcome<Location> {
    Ok(to.trim_end_matches('/').parse()?)
}
