//! Whether the uploads of a set can be published, before and after its intent is written.

use futures::stream::{self, StreamExt};

use super::Manifest;
use super::intent::{Intent, PointerState, Purpose};
use super::publish::AT_ONCE;
use crate::api::Store;
use crate::types::error::{Error, ErrorKind, Result};
use crate::types::object::Object;

/// The methods of a store that is the whole bucket.
impl Store {
    /// Whether each upload of the set can be published now, in the order of the manifest.
    pub(super) async fn check_each(&self, manifest: &Manifest) -> Vec<Result<()>> {
        let checks: Vec<_> =
            manifest.pending().iter().map(|pending| crate::upload::check(self.context(), pending)).collect();
        stream::iter(checks).buffered(AT_ONCE).collect().await
    }

    /// Whether a process may have committed uploads of the set.
    pub(super) async fn is_begun(&self, manifest: &Manifest) -> Result<bool> {
        let intent = self.read_intent(manifest.pointer()).await?;
        let is_ours =
            |intent: &Intent| intent.purpose == Purpose::Publish && intent.manifest.set() == manifest.set();
        // The intent goes after the pointer has come.
        Ok(intent.as_ref().is_some_and(is_ours) || self.pointer_of(manifest).await? == PointerState::Ours)
    }

    /// Checks the uploads of a set again, now that its intent is there. Fails if one can't be published. If none is published
    /// yet, removes the intent, so that the set is not begun; only the process that has written the intent (`written`) does so.
    pub(super) async fn check_again(&self, manifest: &Manifest, written: Option<&Intent>) -> Result<()> {
        let checked = self.check_each(manifest).await;
        if !checked.iter().any(is_refused) {
            return Ok(());
        }
        let Err(error) = self.confirm(manifest, checked).await else { return Ok(()) };
        let Some(intent) = written.filter(|_| is_final(&error)) else { return Err(error) };
        // Another process may publish uploads of the set as soon as it has read the intent.
        let asks: Vec<_> =
            manifest.pending().iter().map(|each| crate::upload::is_published(self.context(), each)).collect();
        let published: Vec<Result<bool>> = stream::iter(asks).buffered(AT_ONCE).collect().await;
        if !published.into_iter().collect::<Result<Vec<_>>>()?.contains(&true) {
            self.remove_intent(intent).await?;
        }
        Err(error)
    }

    /// Commits the uploads that a check found to be lost, of a set that was begun. A store that is publishing an object for
    /// another process may have neither its parts nor the object for a moment (MinIO); a commit waits for that.
    pub(super) async fn confirm(&self, manifest: &Manifest, checked: Vec<Result<()>>) -> Result<()> {
        let lost = manifest.pending().iter().zip(&checked).filter(|(_, checked)| is_refused(checked));
        let commits: Vec<_> = lost.map(|(pending, _)| self.commit(pending)).collect();
        let committed: Vec<Result<Object>> = stream::iter(commits).buffered(AT_ONCE).collect().await;
        first_error(committed)?;
        let other = checked.into_iter().filter(|checked| !is_refused(checked)).collect();
        first_error(other).map(drop)
    }
}

/// Whether the error says that an upload cannot be published, rather than that it failed this time.
pub(super) fn is_final(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::AlreadyExists | ErrorKind::Replaced)
}

pub(super) fn is_refused(checked: &Result<()>) -> bool {
    checked.as_ref().is_err_and(is_final)
}

/// All results, or the first error of an upload that cannot be published, or the first of all errors.
pub(super) fn first_error<T>(results: Vec<Result<T>>) -> Result<Vec<T>> {
    let (mut whole, mut failed) = (Vec::with_capacity(results.len()), Vec::new());
    for result in results {
        match result {
            Ok(one) => whole.push(one),
            Err(error) => failed.push(error),
        }
    }
    let lost = failed.iter().filter(|error| is_final(error)).count();
    let first = failed.iter().position(is_final).unwrap_or_default();
    match failed.into_iter().nth(first) {
        None => Ok(whole),
        Some(error) if lost > 1 => {
            Err(error.and(&format!("{} more uploads of the set cannot be published either", lost - 1)))
        }
        Some(error) => Err(error),
    }
}
