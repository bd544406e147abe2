//! Sweeps end unfinished uploads that nobody works on any more; lifecycle rules make the store itself end them.

use std::collections::HashSet;
use std::future::{IntoFuture, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use crate::api::Store;
use crate::backend::{Attempt, FaultKind, Held, Session};
use crate::types::error::{Error, ErrorKind, Operation, Result};

mod find;
mod lifecycle;
mod report;
#[cfg(test)]
mod tests;

use find::WithoutRecords;
pub use lifecycle::LifecycleOutcome;
pub use report::{KeepReason, Process, SweepOutcome, SweepReport, Swept, Unfinished};

/// Sessions that are examined or aborted at the same time.
const IN_FLIGHT: usize = 16;
const DAY: Duration = Duration::from_secs(86_400);

/// Aborts unfinished uploads that are older than a limit and belong to no live process; from [`Store::sweep`].
///
/// A session is left alone while a live process on this machine has it: this process itself, a process that keeps
/// [records](crate::TidegateBuilder::records) in the same directory, or one that holds the lock of a file on a local
/// disk. It is also left alone if one of the engine's [journals](crate::TidegateBuilder::journal) can resume it.
/// On every machine, [pending uploads](crate::upload::Pending) are left alone until their lifetime is over; the records
/// of those whose lifetime is over are removed.
/// Nothing else is known here of processes on other machines or without records; only the age limit protects their sessions.
/// The age is the difference between the store's clock and this machine's.
///
/// Awaited, it sweeps to the end and adds up the outcomes; [`stream`](Self::stream) gives each of them.
///
/// # Errors
/// As those of the stream. Sessions that could not be aborted are counted; the report has the first of their errors.
#[derive(Clone, Debug)]
#[must_use = "nothing is swept before it is awaited or read"]
pub struct Sweep {
    store: Store,
    prefix: String,
    older_than: Duration,
    dry_run: bool,
}

impl IntoFuture for Sweep {
    type Output = Result<SweepReport>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl Sweep {
    /// Leaves younger sessions alone; one day by default.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Aborts nothing, and reports the sessions that would be aborted. Where the records of [pending
    /// uploads](crate::upload::Pending) cannot be read, a sweep fails, and a dry run warns.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sweeps while the stream is read. The stream gives each session that was found and its outcome. If a session
    /// cannot be aborted, its [`SweepOutcome`] says so, and the sweep continues. Dropping the stream ends the sweep;
    /// requests in flight may still be carried out.
    ///
    /// # Errors
    /// The first error ends the stream: an error of the listing, [`ErrorKind::Source`] if the records cannot be read,
    /// or [`ErrorKind::Unsupported`] if the store aborts no uploads and removes their parts itself (Azure Blob Storage).
    pub fn stream(self) -> BoxStream<'static, Result<Swept>> {
        let (store, prefix, dry_run) = (self.store.clone(), self.prefix.clone(), self.dry_run);
        let without = if dry_run { WithoutRecords::Warn } else { WithoutRecords::Fail };
        let ended = Arc::new(Mutex::new(HashSet::new()));
        let known = ended.clone();
        let swept = store.candidates(&prefix, without).map(move |found| {
            let (sweep, ended) = (self.clone(), known.clone());
            async move {
                let swept = sweep.judge(found?).await;
                if matches!(swept.fate, SweepOutcome::Ended | SweepOutcome::AlreadyGone) {
                    let id = swept.found.open.session.id.clone();
                    ended.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
                }
                Ok(swept)
            }
        });
        let (of_refused, of_failed) = (prefix.clone(), prefix.clone());
        let (ending, failing, ended_before) = (store.clone(), store.clone(), ended.clone());
        let epilogue = stream::once(async move {
            if !dry_run {
                let ended = std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
                ending.strike_out(&prefix, &ended).await;
                return ending.remove_expired_records().await.err().map(Err);
            }
            None
        });
        // An error ends the stream, so the records of what was ended before go first.
        let strike_out_before_error = move |swept: Result<Swept>| {
            let (store, prefix, ended) = (failing.clone(), of_failed.clone(), ended_before.clone());
            async move {
                if swept.is_err() && !dry_run {
                    let ended = std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
                    store.strike_out_ended(&prefix, &ended).await;
                }
                swept
            }
        };
        let refusal = stream::once(async move {
            let error = store.refuses_aborts().await?;
            if !dry_run {
                store.strike_out(&of_refused, &HashSet::new()).await;
                if let Err(error) = store.remove_expired_records().await {
                    return Some(Err(error));
                }
            }
            Some(Err(error))
        });
        let swept = swept.buffered(IN_FLIGHT).then(strike_out_before_error).chain(epilogue.filter_map(ready));
        until_error(refusal.filter_map(ready).chain(swept)).boxed()
    }

    pub(crate) async fn run(self) -> Result<SweepReport> {
        let mut report = SweepReport::default();
        let mut swept = self.stream();
        while let Some(swept) = swept.try_next().await? {
            report.add(swept);
        }
        Ok(report)
    }

    async fn judge(&self, found: Unfinished) -> Swept {
        let session = found.open.session.clone();
        let kept = if matches!(found.process, Process::Live(_)) {
            Some(KeepReason::Live)
        } else if found.open.kept_until.is_some_and(|until| until > SystemTime::now()) {
            Some(KeepReason::Pending)
        } else {
            match found.age() {
                None => Some(KeepReason::Ageless),
                Some(age) if age < self.older_than => Some(KeepReason::Young),
                Some(_) => match self.store.has_journal_of(&session).await {
                    Ok(false) => None,
                    Ok(true) => Some(KeepReason::Journaled),
                    // The session may still be needed, so leave it alone.
                    Err(error) => return Swept { found, fate: SweepOutcome::Failed(error) },
                },
            }
        };
        if let Some(kept) = kept {
            return Swept { found, fate: SweepOutcome::Kept(kept) };
        }
        let gone = |error: &Error| error.kind() == ErrorKind::SessionLost;
        let held = match self.store.held(&session).await {
            Err(error) if gone(&error) => return Swept { found, fate: SweepOutcome::AlreadyGone },
            // The size is for the report only: abort the session even if it is unknown.
            held => held.ok(),
        };
        let found = found.with_held(held);
        if self.dry_run {
            return Swept { found, fate: SweepOutcome::WouldEnd };
        }
        let fate = match self.store.abort_session(&session).await {
            Ok(()) => SweepOutcome::Ended,
            Err(error) if gone(&error) => SweepOutcome::AlreadyGone,
            Err(error) => SweepOutcome::Failed(error),
        };
        Swept { found, fate }
    }
}

impl Store {
    /// Sets up a sweep of unfinished uploads of keys that begin with `prefix`: those older than one day, unless
    /// [`Sweep::older_than`] says otherwise, and of no live process.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let tide = tidegate::Tidegate::builder().build()?;
    /// let store = tide.open("memory://demo").await?;
    /// let report = store.sweep("logs/").dry_run(true).await?;
    /// assert_eq!((report.would_end, report.bytes), (0, 0));
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep(&self, prefix: impl Into<String>) -> Sweep {
        Sweep { store: self.clone(), prefix: prefix.into(), older_than: DAY, dry_run: false }
    }

    /// Lists the unfinished uploads of keys that begin with `prefix`, with the bytes that each holds and its process:
    /// one more request for each. The [records](crate::TidegateBuilder::records) also find sessions of this machine's
    /// processes that the store's listing leaves out.
    ///
    /// # Errors
    /// The first error ends the stream: an error of the listing, or [`ErrorKind::Source`] if the records cannot be
    /// read. The size is left out if the store does not give it. Where the records of [pending
    /// uploads](crate::upload::Pending) cannot be read, a warning says so.
    pub fn unfinished(&self, prefix: &str) -> BoxStream<'static, Result<Unfinished>> {
        let store = self.clone();
        let described = self.candidates(prefix, WithoutRecords::Warn).map(move |found| {
            let store = store.clone();
            async move {
                let found = found?;
                let held = store.held(&found.open.session).await.ok();
                Ok(found.with_held(held))
            }
        });
        until_error(described.buffered(IN_FLIGHT)).boxed()
    }

    /// One sentence that says which unfinished uploads this store's listings leave out. Known only after the store
    /// has answered a request.
    pub fn unlisted_sessions(&self) -> Option<&'static str> {
        self.context().backend().admin()?.unlisted_sessions()
    }

    /// Adds up the parts and bytes that an unfinished upload holds.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if there is no such session; [`ErrorKind::Unsupported`] if the store cannot tell.
    pub async fn held(&self, session: &Session) -> Result<Held> {
        let full = self.full(session);
        let requests = self.context().requests(&session.key, self.context().engine().progress.clone());
        let (backend, full) = (self.context().backend(), &full);
        let held = |attempt| async move { backend.need_admin()?.held(full, attempt).await };
        let held = requests.send(Operation::List, None, None, held).await;
        held.map_err(|failure| failure.into_error(Operation::List, &self.context().url(&session.key)))
    }

    /// Aborts an unfinished upload and frees its parts, even if a process works on it. After the future is dropped,
    /// the session may or may not be aborted.
    ///
    /// # Errors
    /// [`ErrorKind::SessionLost`] if there is no such session; not every store tells (MinIO does not).
    pub async fn abort_session(&self, session: &Session) -> Result<()> {
        let full = self.full(session);
        let requests = self.context().requests(&session.key, self.context().engine().progress.clone());
        let abort = |attempt| self.context().backend().abort(&full, attempt);
        let abort = requests.send(Operation::Abort, None, None, abort).await;
        match abort {
            // An earlier attempt of this request has aborted it.
            Err(failure) if failure.attempts > 1 && failure.fault.kind == FaultKind::NoSession => Ok(()),
            other => other
                .map_err(|failure| failure.into_error(Operation::Abort, &self.context().url(&session.key))),
        }
    }

    /// Why nothing is swept here: the store aborts no session.
    async fn refuses_aborts(&self) -> Option<Error> {
        let backend = self.context().backend();
        if backend.capabilities().aborts {
            return None;
        }
        // Such a store sends nothing for an abort, and says why.
        let none = Session { key: String::new(), id: String::new() };
        let said = backend.abort(&none, Attempt::FIRST).await.err().map(|fault| fault.message);
        let message = format!(
            "nothing can be swept: {}",
            said.unwrap_or_else(|| "the store aborts no unfinished uploads".to_owned())
        );
        Some(Error::new(ErrorKind::Unsupported, Operation::Sweep, self.location(), message))
    }

    /// Whether a journal can resume the session. A journal that cannot be read may be able to.
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
    /// How long ago the session began, if known; zero if the store's clock is ahead.
    pub fn age(&self) -> Option<Duration> {
        Some(SystemTime::now().duration_since(self.open.started?).unwrap_or_default())
    }
}

/// The stream up to and including its first error.
fn until_error<T: Send + 'static>(
    stream: impl Stream<Item = Result<T>> + Send + 'static,
) -> impl Stream<Item = Result<T>> + Send + 'static {
    stream.scan(false, |ended, item| {
        let before = std::mem::replace(ended, item.is_err());
        ready((!before).then_some(item))
    })
}
