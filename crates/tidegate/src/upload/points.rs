//! What an upload knows of its points, from which other processes can continue it: whether there are any, the record that
//! keeps sweeps from their session, and the removal of all that is theirs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures::stream::{self, StreamExt};

use super::session::Upload;
use crate::engine::pending::{list_records, list_tails};
use crate::types::error::{Operation, Result};

/// Records and tails that are removed at the same time.
const AT_ONCE: usize = 16;

/// The points of one upload. Most uploads have none, and their writers are small.
#[derive(Debug, Default)]
pub(super) struct Points(OnceLock<Box<PointsState>>);

#[derive(Debug, Default)]
struct PointsState {
    /// Whether somebody may have a point, so that the session is not aborted with the writer.
    kept: AtomicBool,
    /// Whether other writers may have sent parts of their own to the session.
    shared: AtomicBool,
    /// Whether this process has continued from a point. Then a session that is appended to may have more bytes than
    /// this process knows of.
    resumed: AtomicBool,
    /// How many bytes such a session is known to have.
    appended: AtomicU64,
    record: Mutex<Option<PointRecord>>,
}

/// The record of an upload's points.
#[derive(Clone, Copy, Debug)]
pub(super) struct PointRecord {
    /// When the first point was persisted, in seconds since 1970.
    pub(super) created: u64,
    /// Until when sweeps leave the session alone, in seconds since 1970.
    pub(super) until: u64,
}

impl Points {
    fn state(&self) -> &PointsState {
        self.0.get_or_init(Box::default)
    }

    pub(super) fn are_kept(&self) -> bool {
        self.0.get().is_some_and(|state| state.kept.load(Ordering::Acquire))
    }

    /// Takes in that somebody has a point now.
    pub(super) fn keep(&self) {
        self.share();
        self.state().kept.store(true, Ordering::Release);
    }

    /// Takes in that other writers may have sent parts of their own to the session: somebody has, or had, a point.
    pub(super) fn share(&self) {
        self.state().shared.store(true, Ordering::Release);
    }

    pub(super) fn are_shared(&self) -> bool {
        self.0.get().is_some_and(|state| state.shared.load(Ordering::Acquire))
    }

    /// Takes in that there are no points any more; whether there were.
    pub(super) fn forget(&self) -> bool {
        self.0.get().is_some_and(|state| state.kept.swap(false, Ordering::AcqRel))
    }

    /// Takes in that this process continues from a point with this record.
    pub(super) fn resume(&self, record: PointRecord) {
        self.state().resumed.store(true, Ordering::Release);
        self.has_record(record);
        self.keep();
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.0.get().is_some_and(|state| state.resumed.load(Ordering::Acquire))
    }

    pub(super) fn appended(&self) -> u64 {
        self.0.get().map_or(0, |state| state.appended.load(Ordering::Acquire))
    }

    /// Takes in that the session has `bytes`, of which this process may have sent only some.
    pub(super) fn has_appended(&self, bytes: u64) {
        self.state().appended.fetch_max(bytes, Ordering::AcqRel);
    }

    pub(super) fn record(&self) -> Option<PointRecord> {
        *self.0.get()?.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_record(&self, record: PointRecord) {
        *self.state().record.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }
}

impl Upload {
    /// Removes the records and the tails of all points of this upload, which has ended. Other processes may have written
    /// some of them, so they are listed. `session` is its session's id; empty without one.
    pub(super) async fn remove_points(&self, session: &str) -> Result<()> {
        let token = self.options.token.clone().unwrap_or_default();
        let requests = Arc::new(self.requests.again());
        let listed = async {
            let mut keys = list_tails(&requests, &*self.backend, &token).await?;
            if !self.backend.is_local() {
                let records = list_records(&requests, &*self.backend).await?;
                let ours = records.into_iter().filter(|(name, _)| name.is_of(session, &token));
                keys.extend(ours.map(|(_, key)| key));
            }
            Ok(keys)
        };
        let keys = listed.await.map_err(|failure| {
            self.failed(failure, Operation::List).and("it was looking for the records of its points")
        })?;
        let removals: Vec<_> = keys.iter().map(|key| self.remove_own(key)).collect();
        let removed: Vec<Result<()>> = stream::iter(removals).buffer_unordered(AT_ONCE).collect().await;
        removed.into_iter().collect()
    }

    /// Like [`remove_points`](Self::remove_points), of an upload that was published. If it fails, a sweep removes them when
    /// their lifetime is over.
    pub(super) async fn remove_points_of_published(&self, session: &str) {
        if let Err(error) = self.remove_points(session).await {
            tracing::warn!(%error, "what was kept for an upload that is published could not be removed; a sweep will do it");
        }
    }

    /// Removes a record or a tail.
    pub(super) async fn remove_own(&self, key: &str) -> Result<()> {
        let delete = |attempt| self.backend.delete(key, None, attempt);
        let removed = self.requests.send(Operation::Delete, None, None, delete).await;
        removed.map_err(|failure| {
            self.failed(failure, Operation::Delete).and(&format!("it was removing the record `{key}`"))
        })
    }

    /// The id of the session, if one was opened; empty otherwise.
    pub(super) async fn session_id(&self) -> String {
        let has_session = self.lock().is_some();
        let session = if has_session { self.session().await.ok() } else { None };
        session.map_or_else(String::new, |session| session.id)
    }
}
