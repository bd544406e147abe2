//! What is left behind: unfinished uploads that nobody works on any more, and the rules by which a store
//! ends them itself.

use std::future::ready;
use std::time::{Duration, SystemTime};

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use crate::api::Store;
use crate::backend::{FaultKind, Held, Session};
use crate::types::error::{Error, ErrorKind, Operation, Result};

mod find;
mod lifecycle;
mod report;
#[cfg(test)]
mod tests;

pub use lifecycle::LifecycleOutcome;
pub use report::{Fate, Kept, Process, SweepReport, Swept, Unfinished};

/// Sessions that are looked at or ended at once.
const IN_FLIGHT: usize = 16;
const DAY: Duration = Duration::from_secs(86_400);

/// Ends unfinished uploads that are older than a limit and of no live process; from [`Store::sweep`].
///
/// A session is left alone where a live process of this machine has it: this process itself, one that
/// keeps [records](crate::Builder::records) in the same directory, or one that holds the lock of a file
/// on a local disk; and where one of the engine's [journals](crate::Builder::journal) goes on with it. Of
/// processes on other machines, or without records, nothing is known here: the limit
/// is what protects them. Age goes by the store's clock and this machine's.
#[derive(Clone, Debug)]
#[must_use = "nothing is swept before `start` or `run`"]
pub struct Sweep {
    store: Store,
    prefix: String,
    older_than: Duration,
    dry_run: bool,
}

impl Sweep {
    /// Leaves what is younger alone; one day by default.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Ends nothing, and says what would be ended.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sweeps as the stream is read: what was found, one by one, and what became of it. That a session
    /// can't be ended is its [`Fate`], and the sweep goes on. Dropping the stream ends the sweep; requests
    /// on their way may still be carried out.
    ///
    /// # Errors
    /// The first ends the stream: of the listing, or [`ErrorKind::Source`] where the records can't be
    /// read.
    pub fn start(self) -> BoxStream<'static, Result<Swept>> {
        let (store, prefix, dry_run) = (self.store.clone(), self.prefix.clone(), self.dry_run);
        let swept = store.candidates(&prefix).map(move |found| {
            let sweep = self.clone();
            async move { Ok(sweep.judge(found?).await) }
        });
        let epilogue = stream::once(async move {
            if !dry_run {
                store.strike_out(&prefix).await;
            }
        });
        until_error(swept.buffered(IN_FLIGHT).chain(epilogue.filter_map(|()| ready(None)))).boxed()
    }

    /// Sweeps to the end, and adds up what was found.
    ///
    /// # Errors
    /// As [`start`](Self::start). Sessions that could not be ended are counted, and the first error of
    /// one is in the report.
    pub async fn run(self) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        let mut swept = self.start();
        while let Some(swept) = swept.try_next().await? {
            report.add(swept);
        }
        Ok(report)
    }

    async fn judge(&self, found: Unfinished) -> Swept {
        let session = found.open.session.clone();
        let kept = if matches!(found.process, Process::Live(_)) {
            Some(Kept::Live)
        } else {
            match found.age() {
                None => Some(Kept::Ageless),
                Some(age) if age < self.older_than => Some(Kept::Young),
                Some(_) => match self.store.has_journal_of(&session).await {
                    Ok(false) => None,
                    Ok(true) => Some(Kept::Journaled),
                    // Who can't know what is needed ends nothing.
                    Err(error) => return Swept { found, fate: Fate::Failed(error) },
                },
            }
        };
        if let Some(kept) = kept {
            return Swept { found, fate: Fate::Kept(kept) };
        }
        let gone = |error: &Error| error.kind() == ErrorKind::SessionLost;
        let held = match self.store.held(&session).await {
            Err(error) if gone(&error) => return Swept { found, fate: Fate::AlreadyGone },
            // What can't be weighed is ended all the same.
            held => held.ok(),
        };
        let found = found.with_held(held);
        if self.dry_run {
            return Swept { found, fate: Fate::WouldEnd };
        }
        let fate = match self.store.abort_session(&session).await {
            Ok(()) => Fate::Ended,
            Err(error) if gone(&error) => Fate::AlreadyGone,
            Err(error) => Fate::Failed(error),
        };
        Swept { found, fate }
    }
}

impl Store {
    /// Ends unfinished uploads of keys that begin with `prefix` and that nobody works on any more: older
    /// than one day, unless [`Sweep::older_than`] says otherwise, and of no live process.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let tide = tidegate::Tidegate::builder().build()?;
    /// let store = tide.open("memory://demo").await?;
    /// let report = store.sweep("logs/").dry_run(true).run().await?;
    /// assert_eq!((report.would_end, report.bytes), (0, 0));
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep(&self, prefix: impl Into<String>) -> Sweep {
        Sweep { store: self.clone(), prefix: prefix.into(), older_than: DAY, dry_run: false }
    }

    /// Lists the unfinished uploads of keys that begin with `prefix`, with what each holds and whose it
    /// is: one request more for each. What processes of this machine left behind is found by their
    /// [records](crate::Builder::records), also where the store's listing has forgotten it.
    ///
    /// # Errors
    /// The first ends the stream: of the listing, or [`ErrorKind::Source`] where the records can't be
    /// read. What a session holds is left out where the store does not say.
    pub fn unfinished(&self, prefix: &str) -> BoxStream<'static, Result<Unfinished>> {
        let store = self.clone();
        let described = self.candidates(prefix).map(move |found| {
            let store = store.clone();
            async move {
                let found = found?;
                let held = store.held(&found.open.session).await.ok();
                Ok(found.with_held(held))
            }
        });
        until_error(described.buffered(IN_FLIGHT)).boxed()
    }

    /// What the listings of unfinished uploads leave out on this store, in one sentence. Known once the
    /// store has answered a request.
    pub fn unlisted_sessions(&self) -> Option<&'static str> {
        self.context().backend().unlisted_sessions()
    }

    /// Adds up what an unfinished upload holds.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] where there is none; [`ErrorKind::Unsupported`] where the store does not
    /// tell.
    pub async fn held(&self, session: &Session) -> Result<Held> {
        let full = self.full(session);
        let requests = self.context().requests(&session.key, self.context().engine().progress.clone());
        let held = requests.send(Operation::List, None, None, || self.context().backend().held(&full)).await;
        held.map_err(|failure| failure.into_error(Operation::List, &self.context().url(&session.key)))
    }

    /// Ends an unfinished upload and frees what it holds, whoever works on it. Dropping the future leaves
    /// open whether it was carried out.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] where there is none; not every store tells (MinIO does not).
    pub async fn abort_session(&self, session: &Session) -> Result<()> {
        let full = self.full(session);
        let requests = self.context().requests(&session.key, self.context().engine().progress.clone());
        let abort =
            requests.send(Operation::Abort, None, None, || self.context().backend().abort(&full)).await;
        match abort {
            // An earlier attempt of this very request is what ended it.
            Err(failure) if failure.attempts > 1 && failure.fault.kind == FaultKind::NoSession => Ok(()),
            other => other
                .map_err(|failure| failure.into_error(Operation::Abort, &self.context().url(&session.key))),
        }
    }

    /// Whether a journal goes on with a session, or may: what one has that can't be read is not known.
    async fn has_journal_of(&self, session: &Session) -> Result<bool> {
        if self.context().engine().journaling.directories.is_empty() {
            return Ok(false);
        }
        let left = self.left(&session.key).await?;
        Ok(left.iter().any(|left| match left.recovered() {
            Some(found) => found.state.session.as_ref().is_some_and(|open| open.id == session.id),
            None => true,
        }))
    }

    fn full(&self, session: &Session) -> Session {
        Session { key: self.context().full_key(&session.key), id: session.id.clone() }
    }
}

impl Unfinished {
    /// How long ago it was begun, where that is known; nothing where the store's clock is ahead.
    pub fn age(&self) -> Option<Duration> {
        Some(SystemTime::now().duration_since(self.open.started?).unwrap_or_default())
    }
}

/// The stream up to its first error, and with it.
fn until_error<T: Send + 'static>(
    stream: impl Stream<Item = Result<T>> + Send + 'static,
) -> impl Stream<Item = Result<T>> + Send + 'static {
    stream.scan(false, |ended, item| {
        let before = std::mem::replace(ended, item.is_err());
        ready((!before).then_some(item))
    })
}
