//! Finds the unfinished uploads and the processes that they belong to.

use std::collections::HashSet;
use std::future::ready;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};

use super::{Process, Unfinished, until_error};
use crate::api::Store;
use crate::backend::{Appended, FaultKind, Feature, OpenSession, Session};
use crate::engine::pending::PendingUploads;
use crate::engine::records::{AbandonedSession, Roll, place};
use crate::types::error::{Error, ErrorKind, Operation, Result};

/// Most sessions per read of the records.
const BATCH: usize = 1000;

/// What happens where the records of pending uploads cannot be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum WithoutRecords {
    /// The listing fails: uploads that wait for a commit would be ended.
    Fail,
    /// A warning says so, and the unfinished uploads are listed all the same: the caller ends none of them.
    Warn,
}

impl Store {
    /// The unfinished uploads below `prefix`: first those in the records, then those that the store lists.
    pub(super) fn candidates(
        &self,
        prefix: &str,
        without: WithoutRecords,
    ) -> BoxStream<'static, Result<Unfinished>> {
        let (store, prefix) = (self.clone(), prefix.to_owned());
        let remembered = {
            let (store, prefix) = (store.clone(), prefix.clone());
            async move { store.remembered(&prefix).await }
        };
        let found = stream::once(remembered).map_ok(move |remembered| {
            let known: HashSet<String> = remembered.iter().map(|open| open.session.id.clone()).collect();
            let listed =
                store.sessions(&prefix).try_filter(move |open| ready(!known.contains(&open.session.id)));
            store.clone().with_owners(without, stream::iter(remembered).map(Ok).chain(listed))
        });
        until_error(found.try_flatten()).boxed()
    }

    /// Adds the process of each session, and until when it is kept for a commit. The records, of this machine and of the
    /// bucket, are read after the sessions are listed: a process records a session before the store can list it, so every
    /// listed session of a live process is in the records.
    fn with_owners(
        self,
        without: WithoutRecords,
        found: impl Stream<Item = Result<OpenSession>> + Send + 'static,
    ) -> BoxStream<'static, Result<Unfinished>> {
        let batches = found.ready_chunks(BATCH).then(move |batch| {
            let store = self.clone();
            async move {
                let owned = async {
                    let roll = store.roll().await?;
                    let pending = match (store.pending().await, without) {
                        (Err(error), WithoutRecords::Warn) => {
                            tracing::warn!(%error, "it is not known which uploads wait for a commit, and a sweep would end none");
                            PendingUploads::default()
                        }
                        (pending, _) => pending?,
                    };
                    let owned = |open| store.owned(store.kept(open, &pending), &roll);
                    Ok(batch.into_iter().map(|open| open.map(owned)).collect())
                };
                stream::iter(owned.await.unwrap_or_else(|error| vec![Err(error)]))
            }
        });
        batches.flatten().boxed()
    }

    fn owned(&self, open: OpenSession, roll: &Roll) -> Unfinished {
        let object = place(&**self.context().backend(), &self.context().full_key(&open.session.key));
        let gone = roll.gone(&open.session.id);
        let process = match (roll.live(&object, &open.session.id), gone) {
            (Some(pid), _) => Process::Live(Some(pid)),
            _ if open.in_use => Process::Live(None),
            (None, Some(gone)) if gone.lives => Process::GaveUp(gone.pid),
            (None, Some(gone)) => Process::Gone(gone.pid),
            (None, None) => Process::Unknown,
        };
        let started = open.started.or_else(|| gone.map(|gone| gone.record.since));
        Unfinished { open: open.with_started(started), held: None, process }
    }

    /// Sessions below `prefix` that the records name and the store still has; the store is asked for each whole key.
    async fn remembered(&self, prefix: &str) -> Result<Vec<OpenSession>> {
        let mut remembered = Vec::new();
        for (gone, key) in self.left_below(prefix).await? {
            let found = self.sessions_of(&key, gone.record.id.as_deref()).await?;
            remembered.extend(found);
        }
        Ok(remembered)
    }

    /// Removes records of sessions that the store no longer has; `known` are the ids of those that it has ended.
    pub(super) async fn strike_out(&self, prefix: &str, known: &HashSet<String>) {
        let mut ended = Vec::new();
        for (gone, key) in self.left_below(prefix).await.unwrap_or_default() {
            if gone.record.id.as_ref().is_some_and(|id| known.contains(id)) {
                ended.push(gone);
                continue;
            }
            let rest = self.sessions_of(&key, gone.record.id.as_deref()).await;
            if rest.is_ok_and(|rest| rest.is_empty()) {
                ended.push(gone);
            }
        }
        self.context().engine().records.forget(ended).await;
    }

    /// Removes the records of sessions that were ended, by their ids. Asks the store nothing. Records that cannot be read
    /// stay: the sweep has an error of its own.
    pub(super) async fn strike_out_ended(&self, prefix: &str, ended: &HashSet<String>) {
        let left = self.left_below(prefix).await.unwrap_or_default().into_iter().map(|(gone, _)| gone);
        let is_ended = |gone: &AbandonedSession| gone.record.id.as_ref().is_some_and(|id| ended.contains(id));
        self.context().engine().records.forget(left.filter(is_ended).collect()).await;
    }

    /// The records of sessions left below `prefix`, each with its key.
    async fn left_below(&self, prefix: &str) -> Result<Vec<(AbandonedSession, String)>> {
        self.context().refuse_spread(Operation::List, "unfinished uploads")?;
        let backend = &**self.context().backend();
        let (root, below) = (place(backend, ""), place(backend, &self.context().full_key(prefix)));
        let left = self.roll().await?.gone_below(backend.endpoint(), &below);
        let keyed = left.into_iter().filter_map(|gone| {
            let key = self.context().relative_key(gone.record.object.strip_prefix(&root)?);
            Some((gone, key))
        });
        Ok(keyed.collect())
    }

    /// The sessions of one whole key. With `id` only that session, even if the store does not list it.
    async fn sessions_of(&self, key: &str, id: Option<&str>) -> Result<Vec<OpenSession>> {
        let is_it = |open: &OpenSession| open.session.key == key && id.is_none_or(|id| open.session.id == id);
        let listed = self.sessions(key).try_filter(|open| ready(is_it(open))).try_collect::<Vec<_>>().await;
        let listed = match (listed, id) {
            // The store refuses the listing, which says nothing of a session that a record names.
            (Err(error), Some(id)) if is_refusal(error.kind()) => {
                return self.unlisted_of_key(key, id.to_owned()).await;
            }
            (listed, _) => listed?,
        };
        let Some(id) = id.filter(|_| listed.is_empty()) else { return Ok(listed) };
        let session = Session { key: self.context().full_key(key), id: id.to_owned() };
        let is_listed = self.context().backend().capabilities().aborts
            && !self.context().facts().lacks(Feature::ListSessions);
        if !is_listed {
            return self.unlisted_of_key(key, session.id).await;
        }
        // Stores list their sessions of parts, and none that bytes are appended to.
        let Some(append) = self.context().backend().appending().filter(|append| append.has(&session)) else {
            return Ok(listed);
        };
        let requests = self.context().requests(key, self.context().engine().progress.clone());
        let look = |attempt| append.position(&session, attempt);
        let unlisted = requests.send(Operation::List, None, None, look).await;
        let unlisted = match unlisted {
            Ok(Appended::Open(_)) => Some(OpenSession::new(session)),
            Ok(Appended::Published(_)) => None,
            Err(failure) if failure.fault.kind == FaultKind::NoSession => None,
            // This session alone cannot be asked for (one that began over gRPC cannot be asked for over HTTP). It may
            // exist, and its error must not end the sweep of the others.
            Err(failure)
                if matches!(
                    failure.fault.kind,
                    FaultKind::Denied | FaultKind::Invalid | FaultKind::Unsupported
                ) =>
            {
                Some(OpenSession::new(session))
            }
            Err(failure) => return Err(failure.into_error(Operation::List, &self.context().url(key))),
        };
        Ok(unlisted
            .map(|open| OpenSession { session: Session { key: key.to_owned(), ..open.session }, ..open })
            .into_iter()
            .collect())
    }

    /// The session of a store that does not list it: one that keeps parts by key, and does not list those of a key that
    /// has an object, or a server that does not list. A session that the store cannot tell of may exist.
    async fn unlisted_of_key(&self, key: &str, id: String) -> Result<Vec<OpenSession>> {
        let session = Session { key: key.to_owned(), id };
        match self.held(&session).await {
            Ok(_) => Ok(vec![OpenSession::new(session)]),
            Err(error) if error.kind() == ErrorKind::SessionLost => Ok(Vec::new()),
            Err(error) if is_refusal(error.kind()) => Ok(vec![OpenSession::new(session)]),
            Err(error) => Err(error),
        }
    }

    /// The session with the time until which it is kept for a commit, if the bucket has a record of that.
    fn kept(&self, open: OpenSession, pending: &PendingUploads) -> OpenSession {
        let recorded = pending.until(&open.session.id);
        let kept_until = open.kept_until.max(recorded);
        open.with_kept_until(kept_until)
    }

    /// The pending uploads of the bucket.
    pub(super) async fn pending(&self) -> Result<PendingUploads> {
        self.context().pending_uploads().await.map_err(|failure| {
            let error = failure.into_error(Operation::List, &self.location());
            error.and("the records of uploads that wait for a commit could not be read")
        })
    }

    /// Removes the records of pending uploads whose lifetime is over, and the tails of points that no record speaks for.
    /// Their sessions are then swept like any unfinished upload.
    pub(super) async fn remove_expired_records(&self) -> Result<()> {
        // First the tails: their records are written before them.
        let tails = self.context().tails().await;
        let tails = tails.map_err(|failure| failure.into_error(Operation::List, &self.location()))?;
        let pending = self.pending().await?;
        let strays = tails.iter().filter(|key| !pending.needs_tail(key));
        let root = self.with(self.context().root());
        for key in pending.expired.iter().chain(strays) {
            root.delete(key).await?;
        }
        Ok(())
    }

    async fn roll(&self) -> Result<Roll> {
        self.context().engine().records.roll().await.map_err(|error| {
            let message = format!("nothing is swept where it is not known what lives: {error}");
            Error::new(ErrorKind::Source, Operation::Sweep, self.location(), message).with_source(error)
        })
    }
}

/// Whether a store refuses a question, so that the answer says nothing of what was asked about.
fn is_refusal(kind: ErrorKind) -> bool {
    use ErrorKind::{InvalidInput, NotAStore, NotFound, PermissionDenied, Unsupported};
    matches!(kind, InvalidInput | NotAStore | NotFound | PermissionDenied | Unsupported)
}
