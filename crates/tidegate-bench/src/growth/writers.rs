//! The measured process: keeps many writers open at once on one engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tidegate::{ErrorKind, Tidegate, Writer};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use crate::Result;

/// The hidden subcommand of this program, which is measured.
pub const WRITERS: &str = "growth-writers";

/// Longest wait for memory that only the waiting producer itself could end.
const MEMORY_WAIT: Duration = Duration::from_secs(5);
/// How many writers one task finishes at once.
const FINISHED_AT_ONCE: usize = 64;

/// The tasks that feed the writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum WriterFeed {
    /// One task for each writer, which yields after every turn.
    Tasks,
    /// One task that feeds all writers in turn.
    Turns,
    /// One task that feeds all writers in turn, with a spool.
    SpooledTurns,
}

impl WriterFeed {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Tasks, Self::Turns, Self::SpooledTurns];

    /// The name in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tasks => "a task each",
            Self::Turns => "one task",
            Self::SpooledTurns => "one task, a spool",
        }
    }

    /// The name on a command line.
    pub(super) fn argument(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Turns => "turns",
            Self::SpooledTurns => "spooled-turns",
        }
    }
}

/// The writers of one process.
#[derive(Clone, Debug, Args)]
pub struct Writers {
    /// Bucket of the objects; the environment describes the store.
    #[arg(long)]
    pub bucket: String,
    /// The objects are `PREFIX0`, `PREFIX1` and so on.
    #[arg(long)]
    pub prefix: String,
    /// Number of writers open at once.
    #[arg(long)]
    pub writers: u32,
    /// Bytes of each object.
    #[arg(long)]
    pub size: u64,
    /// Bytes that a writer gets in one turn.
    #[arg(long)]
    pub turn: u64,
    /// The engine's memory budget.
    #[arg(long)]
    pub memory: u64,
    /// How the writers are fed.
    #[arg(long)]
    pub way: WriterFeed,
    /// Folder for the spool, if any.
    #[arg(long)]
    pub spool: Option<PathBuf>,
}

/// The line that the process prints at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WritersSummary {
    /// The error, if a writer waited for memory that nothing could free.
    pub(super) starved: Option<String>,
}

impl Writers {
    /// Opens all writers, feeds them, publishes all objects, and prints the outcome.
    ///
    /// # Errors
    /// The first error of any writer, except [`ErrorKind::Starved`], which is printed.
    pub fn run(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let done = match runtime.block_on(self.write_all()) {
            Ok(()) => WritersSummary::default(),
            Err(error) => match error.downcast_ref::<tidegate::Error>() {
                Some(found) if found.kind() == ErrorKind::Starved => {
                    WritersSummary { starved: Some(found.to_string()) }
                }
                _ => return Err(error),
            },
        };
        println!("{}", serde_json::to_string(&done)?);
        Ok(())
    }

    async fn write_all(&self) -> Result<()> {
        let tide = Tidegate::builder().memory(self.memory).memory_wait(MEMORY_WAIT).spool(&self.spool);
        let store = tide.build()?.open(format!("s3://{}", self.bucket)).await?;
        let mut writers = Vec::with_capacity(self.writers as usize);
        for number in 0..self.writers {
            writers.push(store.writer(format!("{}{number}", self.prefix)).await?);
        }
        match self.way {
            WriterFeed::Tasks => self.feed_by_tasks(writers).await,
            WriterFeed::Turns | WriterFeed::SpooledTurns => self.feed_in_turn(writers).await,
        }
    }

    async fn feed_by_tasks(&self, writers: Vec<Writer>) -> Result<()> {
        let mut tasks = JoinSet::new();
        let block = self.block();
        for mut writer in writers {
            let (size, turn, block) = (self.size, self.turn, block.clone());
            tasks.spawn(async move {
                for bytes in turns(size, turn) {
                    give(&mut writer, &block[..bytes as usize]).await?;
                    tokio::task::yield_now().await;
                }
                Ok::<_, crate::Error>(writer.finish().await?)
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(())
    }

    async fn feed_in_turn(&self, mut writers: Vec<Writer>) -> Result<()> {
        let block = self.block();
        for bytes in turns(self.size, self.turn) {
            for writer in &mut writers {
                give(writer, &block[..bytes as usize]).await?;
            }
        }
        let mut finished = stream::iter(writers).map(Writer::finish).buffer_unordered(FINISHED_AT_ONCE);
        while finished.try_next().await?.is_some() {}
        Ok(())
    }

    /// The bytes of one turn.
    fn block(&self) -> Arc<[u8]> {
        vec![0xa5; self.turn.min(self.size) as usize].into()
    }
}

/// Copies the bytes into the writer's memory: the engine does not own the bytes of a waiting producer, and
/// bytes that all writers share would not show in the peak.
async fn give(writer: &mut Writer, bytes: &[u8]) -> Result<()> {
    let given = writer.write_all(bytes).await;
    given.map_err(|error| error.downcast::<tidegate::Error>().map_or_else(Into::into, Into::into))
}

/// The bytes of each turn of one writer.
fn turns(size: u64, turn: u64) -> impl Iterator<Item = u64> {
    (0..size.div_ceil(turn)).map(move |number| turn.min(size - number * turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_turn_has_what_is_left() {
        assert_eq!(turns(10, 4).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(turns(8, 4).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(turns(3, 4).collect::<Vec<_>>(), [3]);
    }
}
