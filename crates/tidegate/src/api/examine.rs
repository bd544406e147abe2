//! Finds out what a store has, and which promises hold there, by a few small objects of its own.

use std::fmt::{self, Display};
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use super::Store;

mod checks;
#[cfg(test)]
mod tests;

use checks::Probe;

/// Time limit of all checks together.
const LIMIT: Duration = Duration::from_secs(10);
/// Time limit of the last check, which removes the objects that the others wrote.
const REMOVAL: Duration = Duration::from_secs(5);

/// One feature of a store, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The feature that was checked.
    pub feature: StoreFeature,
    /// The outcome.
    pub state: FindingState,
    /// How long the check took.
    pub took: Duration,
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingState {
    /// The store has the feature. The text may say more: `12 ms a request`.
    Works(String),
    /// The store lacks the feature, and every promise holds without it. The text says what Tidegate does instead.
    Missing(String),
    /// The store lacks the feature or does it wrong, and a promise does not hold there. The text names the promise, and
    /// what to do.
    Broken(String),
    /// The check was not made, for this reason.
    Untested(String),
}

macro_rules! features {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A feature that [`Store::examine`] checks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum StoreFeature {
            $($(#[$doc])* $variant,)+
        }

        impl StoreFeature {
            /// All features, in the order of the checks.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name as users read it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

features! {
    /// The store is reached, and lets the caller list.
    List = "list",
    /// Objects can be written, and come back byte for byte.
    Write = "write and read",
    /// The store keeps the metadata by which a writer recognizes its own object.
    Metadata = "metadata",
    /// The store keeps a checksum of the whole object.
    Checksum = "checksum",
    /// A part of an object can be read.
    Range = "ranges",
    /// A write can be bound to the condition that the key has no object.
    CreateOnly = "create only",
    /// A write can be bound to the condition which object it replaces.
    Replace = "replace if unchanged",
    /// A read can be bound to the condition which object it reads.
    ReadSame = "read if unchanged",
    /// Uploads in parts.
    Parts = "upload in parts",
    /// The completion of an upload in parts can be bound to the condition that the key has no object.
    PartsCreateOnly = "create only, in parts",
    /// Unfinished uploads are listed.
    Sessions = "list of unfinished uploads",
    /// An unfinished upload can be aborted.
    Abort = "abort",
    /// Uploads that bytes are appended to.
    Append = "resumable upload",
    /// The store copies objects itself.
    Copy = "copy in the store",
    /// Keys with unusual characters are listed as they were written.
    Keys = "unusual keys",
    /// Many objects are removed by one request.
    BulkDelete = "bulk delete",
    /// The bucket aborts unfinished uploads itself.
    Lifecycle = "lifecycle rule",
    /// The store's clock agrees with the local one.
    Clock = "clock",
    /// Objects can be removed.
    Delete = "delete",
}

impl Display for StoreFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FindingState {
    /// `works`, `missing`, `broken` or `untested`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Works(_) => "works",
            Self::Missing(_) => "missing",
            Self::Broken(_) => "broken",
            Self::Untested(_) => "untested",
        }
    }

    /// The text for people; may be empty if the feature works.
    pub fn text(&self) -> &str {
        match self {
            Self::Works(text) | Self::Missing(text) | Self::Broken(text) | Self::Untested(text) => text,
        }
    }
}

/// The examination of a store: a stream of findings, one for each feature, as soon as its check ends.
#[must_use = "nothing is checked before the stream is polled"]
pub struct Examination {
    place: String,
    findings: BoxStream<'static, Finding>,
}

impl Examination {
    /// The URL that all objects of the checks begin with.
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl Stream for Examination {
    type Item = Finding;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Finding>> {
        self.findings.as_mut().poll_next(cx)
    }
}

impl fmt::Debug for Examination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Examination").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Store {
    /// Checks what the store has, and which promises hold there, within fifteen seconds at most: ten for the checks,
    /// five to remove what they wrote.
    ///
    /// The checks write a few objects of at most 64 KiB, whose keys begin with a new prefix ([`Examination::place`]),
    /// and touch no other object. The last check removes them; if the stream is dropped before,
    /// they are left. A request that fails in a way that may pass is tried three times.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use futures::StreamExt;
    /// use tidegate::examine::{FindingState, StoreFeature};
    ///
    /// let tide = tidegate::Tidegate::builder().build()?;
    /// let findings: Vec<_> = tide.open("memory://demo").await?.examine().collect().await;
    /// assert_eq!(findings.len(), StoreFeature::ALL.len());
    /// assert!(!findings.iter().any(|finding| matches!(finding.state, FindingState::Broken(_))));
    /// # Ok::<(), tidegate::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn examine(&self) -> Examination {
        // No slash: a directory would stay on a disk.
        let place = format!(".tidegate-examine-{:016x}-", fastrand::u64(..));
        let url = self.context().url(&place);
        let probe = Probe::new(self.clone(), self.context().full_key(&place));
        Examination { place: url, findings: findings(probe) }
    }
}

fn findings(probe: Probe) -> BoxStream<'static, Finding> {
    let until = Instant::now() + LIMIT;
    stream::unfold((probe, StoreFeature::ALL), move |(mut probe, features)| async move {
        let (&feature, rest) = features.split_first()?;
        let began = Instant::now();
        let until = if feature == StoreFeature::Delete { began + REMOVAL } else { until };
        let checked = timeout_at(until, probe.check(feature)).await;
        let late = || FindingState::Untested("the store did not answer in time".to_owned());
        let finding = Finding { feature, state: checked.unwrap_or_else(|_| late()), took: began.elapsed() };
        Some((finding, (probe, rest)))
    })
    .boxed()
}
