//! One object to copy or move: where it is, where it goes, and what is done with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tidegate::backend::local::{FilesBelow, LINK_SUFFIX};
use tidegate::location::local_root;
use tidegate::text::printable;
use tidegate::{ErrorKind, Object, Store};

use super::copies::CopyOutcome;
use super::job::{CopyJob, IfExists};
use super::{download, link, upload};
use crate::compare::time_of_file;
use crate::error::{Error, Result};
use crate::event::{CopiedObject, Event, SkipReason};
use crate::links::Links;
use crate::obstacle::{Obstacle, refuse_long_names};
use crate::place::Place;
use crate::planted::Planted;
use crate::two_addresses::{self, Places};

/// An object to copy or move, and its target.
#[derive(Debug)]
pub(crate) struct CopyItem {
    pub(crate) source: ItemSource,
    pub(crate) to: Place,
}

/// What a listing tells of an object that is copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListedFacts {
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<SystemTime>,
}

/// An object to copy or move.
#[derive(Debug)]
pub(crate) struct ItemSource {
    place: Place,
    /// The path, if the object is a file on this machine.
    path: Option<PathBuf>,
    /// The files of the tree, if the object is one that a walk has found.
    files: Option<Arc<FilesBelow>>,
    /// What the listing tells.
    listed: ListedFacts,
    /// The description in the listing, if the object is to be moved.
    object: Option<Box<Object>>,
    /// The store of another source of the command that may be the target, by another address.
    pub(super) may_replace: Option<Store>,
}

impl ItemSource {
    /// A file on this machine; `place` is the same file.
    pub(crate) fn file(path: PathBuf, place: Place) -> Self {
        Self { path: Some(path), ..Self::object(place) }
    }

    /// The same file, found by the walk of a tree.
    pub(crate) fn of_tree(self, files: Option<Arc<FilesBelow>>) -> Self {
        Self { files, ..self }
    }

    /// An object of a store.
    pub(crate) fn object(place: Place) -> Self {
        let listed = ListedFacts::default();
        Self { place, path: None, files: None, listed, object: None, may_replace: None }
    }

    /// Adds what a listing says of the object.
    pub(crate) fn described(mut self, job: &CopyJob, object: Object) -> Self {
        self.listed = ListedFacts { size: object.known_size(), modified: time_of_file(&object) };
        self.object = job.moves().then(|| Box::new(object));
        self
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The path or URL.
    pub(crate) fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| self.place.url(), |path| path.display().to_string())
    }
}

/// Copies or moves the object, or passes it over, or only says what would be done. A symbolic link that is to be made
/// on this machine waits until all files are in place.
pub(crate) async fn copy(job: &CopyJob, item: CopyItem) -> CopyOutcome {
    if item.to.is_local() && link::is_link(job, &item.source.place, &item.to) {
        job.links.push(item);
        return CopyOutcome::LeftOut;
    }
    if !job.is_dry_run
        && !item.to.is_local()
        && let Err(error) = refuse_empty_names(&item).await
    {
        return CopyOutcome::Failed(error);
    }
    copy_now(job, item).await
}

/// Refuses a target whose key the store keeps without its empty names: that may be the key of another object.
async fn refuse_empty_names(item: &CopyItem) -> Result {
    let Some(kept) = item.to.store.kept_elsewhere(&item.to.key).await? else { return Ok(()) };
    let (source, target) = (item.source.name(), item.to.url());
    let message = format!(
        "{source}: not copied to {target}: the server drops empty names in keys: that is {kept} there: copy it to a key \
         without empty names"
    );
    Err(Error::Failed(printable(&message).into_owned()))
}

pub(super) async fn copy_now(job: &CopyJob, item: CopyItem) -> CopyOutcome {
    if let Err(error) = link::refuse_file_as_link(job.writing.links(), &item.source.place, &item.to) {
        return CopyOutcome::Failed(error);
    }
    let wants_proof = item.source.may_replace.is_some() && job.distinct.wants_proof()
        || job.wants_proof(&item.source.place, &item.to);
    if job.is_plain() && !wants_proof {
        let copied = transfer(job, &item, None).await.map(|(copied, _)| copied);
        return copied.map_err(|error| error.of_object(&item.source.name())).into();
    }
    // Boxed, so that a plain copy needs no room for it.
    let name = item.source.name();
    let done = Box::pin(with_conditions(job, item, wants_proof)).await;
    done.unwrap_or_else(|error| CopyOutcome::Failed(error.of_object(&name)))
}

/// Copies the object. `described` is the source as the store has just described it, if it was asked. For a download into a
/// file also returns the object that was read.
async fn transfer(
    job: &CopyJob,
    item: &CopyItem,
    described: Option<&Object>,
) -> Result<(Box<CopiedObject>, Option<Box<Object>>)> {
    let CopyItem { source, to } = item;
    if link::is_link(job, &source.place, to) {
        // Boxed, so that other objects need no room for it.
        return Ok((Box::pin(link::copy(job, source.name(), &source.place, to)).await?, None));
    }
    match &source.path {
        Some(path) => {
            let below = source.files.as_ref().map(|files| (files, &*source.place.key));
            Ok((upload::file(job, (path, below), source.name(), source.listed.size, to).await?, None))
        }
        None if is_download(source, to) => {
            let (copied, read) =
                download::file(job, &source.name(), &source.place, source.listed, to).await?;
            Ok((copied, Some(read)))
        }
        None => {
            let from = (&source.place, described);
            Ok((download::object(job, &source.name(), from, source.listed, to).await?, None))
        }
    }
}

async fn with_conditions(job: &CopyJob, mut item: CopyItem, wants_proof: bool) -> Result<CopyOutcome> {
    let skips = job.writing.if_exists == IfExists::Skip;
    // Otherwise the move would remove the only copy.
    if job.moves() && is_same(job, &item).await? {
        let name = item.source.name();
        return Err(Error::Refused(format!("{name}: source and target are the same object")));
    }
    if wants_proof {
        refuse_source(&item).await?;
    }
    match job.writing.if_exists {
        IfExists::Skip if exists(job, &item.to).await? => return Ok(skipped(job, &item)),
        IfExists::Fail if job.is_dry_run && exists(job, &item.to).await? => {
            let target = item.to.url();
            return Err(Error::Failed(format!("{target}: it exists, and --create-only leaves it as it is")));
        }
        _ => {}
    }
    let source = describe(job, &mut item).await?;
    if job.is_dry_run {
        refuse_obstacle(job, &item.to)?;
        let bytes = source.as_ref().and_then(|object| object.known_size());
        job.events.push(Event::WouldCopy {
            source: item.source.name(),
            target: item.to.url(),
            bytes: bytes.or(item.source.listed.size),
        });
        if job.moves() {
            job.events.push(Event::WouldRemove { url: item.source.name() });
        }
        return Ok(CopyOutcome::Planned);
    }
    let from = &item.source.place;
    let before = match wants_proof && job.moves() {
        true => Some(from.store.head(&from.key).await?),
        false => None,
    };
    let copied = transfer(job, &item, source.as_deref()).await;
    if let Some(object) = source.as_ref().filter(|_| job.plants.has(Planted::UnconfirmedMove)) {
        remove(job, &item.source, object).await?;
    }
    let (done, read) = match copied {
        Err(Error::Store(error)) if skips && error.kind() == ErrorKind::AlreadyExists => {
            return Ok(skipped(job, &item));
        }
        done => done?,
    };
    if let Some(before) = before {
        let now = item.source.place.store.head(&item.source.place.key).await?;
        if (&now.token, now.modified, &now.version) != (&before.token, before.modified, &before.version) {
            let name = item.source.name();
            return Err(Error::Failed(format!(
                "{name}: not removed: source and target are the same object by two addresses, or it has changed meanwhile"
            )));
        }
    }
    if job.moves() {
        // What was read is what was copied, whatever the key had before.
        let name = item.source.name();
        let unknown =
            || Error::Failed(format!("{name}: copied, but not removed, because it was not described"));
        let object = read.or(source).ok_or_else(unknown)?;
        remove(job, &item.source, &object).await?;
        match &item.source.path {
            Some(path) => job.emptied.add_parent_of(path),
            None => job.emptied.add_parents_of(&item.source.place),
        }
        job.events.push(Event::Copied(done));
        job.events.push(Event::Removed { url: item.source.name() });
        return Ok(CopyOutcome::Moved);
    }
    Ok(CopyOutcome::Copied(done))
}

/// Whether the copy is a download into a file.
fn is_download(source: &ItemSource, to: &Place) -> bool {
    source.path.is_none() && to.is_local() && !source.place.is_local()
}

/// The source as the store describes it, where the move or the dry run needs that before the copy. A download into a file
/// describes the object that it reads, so it is not described before.
async fn describe(job: &CopyJob, item: &mut CopyItem) -> Result<Option<Box<Object>>> {
    let source = &mut item.source;
    let listed = source.object.take();
    let is_wanted = match job.is_dry_run {
        true => listed.is_none() && (job.moves() || source.listed.size.is_none()),
        // Equal times prove nothing of a file that may have been written again within its second. The copy of an object by
        // the store asks for its description in any case.
        false => job.moves() && (source.path.is_none() || listed.as_ref().is_none_or(|file| file.is_fresh)),
    };
    let is_read =
        !job.is_dry_run && is_download(source, &item.to) && !link::is_link(job, &source.place, &item.to);
    if !is_wanted || is_read && !job.plants.has(Planted::UnconfirmedMove) {
        return Ok(listed);
    }
    Ok(Some(Box::new(source.place.store.head(&source.place.key).await?)))
}

/// Refuses what a real run could not write, because no file has such a name, or something is in the way.
fn refuse_obstacle(job: &CopyJob, to: &Place) -> Result {
    if !to.is_local() {
        return Ok(());
    }
    to.file()?;
    let root = local_root(&to.store.location());
    let link = to.key.strip_suffix(LINK_SUFFIX).filter(|_| job.writing.links() == Links::Preserve);
    refuse_long_names(&root, link.unwrap_or(&to.key))?;
    let obstacle = Obstacle::find(&root, &to.key, job.writing.links(), to.links);
    match obstacle {
        // The copy has its name, as that of a file has.
        None | Some(Obstacle::Replaced(_)) => Ok(()),
        Some(obstacle) => Err(obstacle.failure(&root, &to.url())),
    }
}

/// Refuses a copy onto an object that may be one of its source, by another address of its server. If both addresses
/// describe an object with the same time, the two count as one object.
async fn refuse_source(item: &CopyItem) -> Result {
    let (from, to) = (item.source.may_replace.as_ref().unwrap_or(&item.source.place.store), &item.to);
    match two_addresses::compare(from, to).await? {
        Places::Different | Places::Empty => Ok(()),
        Places::Alike => {
            let (name, target) = (item.source.name(), to.url());
            Err(Error::Failed(format!(
                "{name}: not copied to {target}: source and target are the same object by two addresses, or the target \
                 is another object of the source: {}",
                two_addresses::REMEDY
            )))
        }
    }
}

/// Whether source and target are one object, or one file by whatever links.
async fn is_same(job: &CopyJob, item: &CopyItem) -> Result<bool> {
    let (from, to) = (&item.source.place, &item.to);
    if let Some(path) = item.source.path.as_ref().filter(|_| to.is_local()) {
        let target = to.file()?;
        let (path, target) = (tokio::fs::canonicalize(path).await, tokio::fs::canonicalize(target).await);
        if path.ok().zip(target.ok()).is_some_and(|(path, target)| path == target) {
            return Ok(true);
        }
    }
    if from.store.is_one_place(&from.key, &to.store, &to.key).await {
        return Ok(true);
    }
    Ok(!job.is_dry_run && from.store.keeps_as_one(&from.key, &to.store, &to.key).await?)
}

fn skipped(job: &CopyJob, item: &CopyItem) -> CopyOutcome {
    job.events.push(Event::Skipped {
        source: item.source.name(),
        target: item.to.url(),
        reason: SkipReason::Exists,
        dry_run: job.is_dry_run,
    });
    CopyOutcome::LeftOut
}

/// Removes the object that was copied, unless another has replaced it meanwhile.
async fn remove(job: &CopyJob, source: &ItemSource, object: &Object) -> Result {
    let removed = source.place.store.delete_if_unchanged(&source.place.key, object).await;
    // A link whose file was moved before counts as no object. Links that are objects have other names than their paths,
    // which may be those of other links.
    if let (Ok(()), Some(path)) = (&removed, &source.path)
        && job.writing.links() != Links::Preserve
        && path.is_symlink()
    {
        return tokio::fs::remove_file(path).await.map_err(|error| Error::of_file(path, &error));
    }
    removed.map_err(|error| {
        let name = source.name();
        match error.kind() {
            ErrorKind::Replaced => Error::Failed(format!(
                "{name}: copied, but not removed, because it has changed meanwhile: move it again"
            )),
            _ => Error::Failed(format!("{name}: copied, but not removed: {error}")),
        }
    })
}

async fn exists(job: &CopyJob, place: &Place) -> Result<bool> {
    if !place.is_local() {
        return Ok(place.store.exists(&place.key).await?);
    }
    // A link that is an object is at the name without the suffix.
    let link = place.key.strip_suffix(LINK_SUFFIX).filter(|_| job.writing.links() == Links::Preserve);
    let place = Place { key: link.unwrap_or(&place.key).to_owned(), ..place.clone() };
    let path = place.file()?;
    match tokio::fs::symlink_metadata(&path).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::of_file(&path, &error)),
    }
}
