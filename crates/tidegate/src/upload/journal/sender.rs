//! The store's side of a journaled upload: sends bytes from the journal to the store as they come, and
//! retries for as long as an outage lasts.
//!
//! A store that is down is no error here: the bytes are safe in the journal. A fault that does not pass with
//! time (no such bucket, no permission) ends the upload, and so does an outage that outlasts the retries of a
//! request that was begun after the producer had finished. The journal stays in any case.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::journal::{End, Part};
use crate::types::error::Result;
use crate::types::object::Object;
use crate::upload::plan::Cut;
use crate::upload::source::journal::JournalRanges;

mod appending;
mod link;
mod lost;
mod pacing;
mod parts;
mod standing;
mod stream;

use appending::AppendSender;
use link::Link;
use parts::PartsSender;

/// The sender, one for each kind of session.
pub(super) enum Sender {
    Parts(Box<PartsSender>),
    Appending(Box<AppendSender>),
}

/// The state that an earlier process left.
#[derive(Default)]
pub(super) struct Before {
    pub(super) stored: BTreeMap<u32, Part>,
    /// The session has acknowledged all bytes below.
    pub(super) committed: u64,
    /// Length of the object in the journal, in bytes.
    pub(super) length: u64,
    pub(super) session: Option<String>,
    /// When the upload was begun, in seconds since 1970.
    pub(super) created: u64,
}

impl Sender {
    pub(super) fn new(
        source: Arc<JournalRanges>,
        cut: Cut,
        in_flight: usize,
        keep: u64,
        tracker: TaskTracker,
        before: Before,
    ) -> Self {
        let Before { stored, committed, length, session, created } = before;
        let link = Link::new(source, keep, session, created);
        match cut {
            Cut::Chunks(schedule) => {
                Self::Appending(Box::new(AppendSender::new(link, schedule.part_at(0), committed, length)))
            }
            Cut::Parts(_) | Cut::Whole { .. } => {
                Self::Parts(Box::new(PartsSender::new(link, cut, in_flight, tracker, stored)))
            }
        }
    }

    /// Sends until the object is published.
    pub(super) async fn run(self) -> Result<Object> {
        let mut appending = match self {
            Self::Parts(mut parts) => match parts.publish().await? {
                Some(object) => return Self::published(object, &parts.into_link()).await,
                // The server has no sessions of parts, so it opened one that is appended to.
                None => Box::new(parts.into_appending()),
            },
            Self::Appending(appending) => appending,
        };
        let object = appending.publish().await?;
        Self::published(object, &appending.link).await
    }

    async fn published(object: Object, link: &Link) -> Result<Object> {
        let journal = link.journal().clone();
        // The object is published. A journal that can't be removed is left for the next recovery.
        if let Err(error) = journal.end(End::Completed).await {
            warn!(%error, "a journal of an object that is published can't be removed");
        }
        Ok(object)
    }
}
