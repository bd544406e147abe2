//! Objects that are written in parts: into an unfinished file beside the target, which is published at the end.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use async_trait::async_trait;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::condition::Condition;
use super::fault::{blocking, fault, invalid};
use super::target::Target;
use super::temp::{Publish, Temp};
use super::waiting::Waiter;
use super::{Local, beneath, kept, parents, temp, write};
use tidegate_core::backend::{
    Attempt, Fault, FaultKind, PartOrigin, PartSource, Parts, Receipt, Session, StoredPart, WriteOptions,
};
use tidegate_core::types::checksum::{Algorithm, Checksum};
use tidegate_core::types::object::Object;

impl Local {
    /// Publishes a session's file. Fails if its size is not that of the parts together. The file of a session that was
    /// [kept](Parts::keep) is compared with the checksum: other processes may have written to it, also behind its end.
    async fn publish(
        &self,
        session: &Session,
        checked: Result<u64, Fault>,
        checksum: Option<Checksum>,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let target = self.to_write(&session.key)?;
        let (parents, how, id) = (self.parents.clone(), Publish::of_write(options)?, session.id.clone());
        let waiter = Waiter::default();
        let waiting = waiter.waiting();
        let published = blocking(move || {
            let path = temp::find(&target, &id)?;
            let target = if how.condition.is_create_only() {
                target.on_a_safe_way()?
            } else {
                target.behind_links()?
            };
            let file = temp::open(&path)?;
            let size = checked?;
            let failed = |error| fault(error, target.directory());
            let kept_until = kept::until_of(&file).map_err(failed)?;
            let is_kept = kept_until.is_some();
            let held = file.metadata().map_err(failed)?.len();
            if is_kept && held > size {
                file.set_len(size).map_err(failed)?;
            } else if held != size {
                return Err(invalid(format!("the parts have {size} bytes, and the file has {held}")));
            }
            if let Some(checksum) = checksum.filter(|_| is_kept)
                && !kept::has_bytes(&path, &checksum).map_err(failed)?
            {
                let message = "another process has written to the unfinished file: its bytes are not those of the parts";
                return Err(Fault::new(FaultKind::Integrity, message));
            }
            let Some(until) = kept_until else {
                return temp::publish(&parents, &file, &path, &target, how, &waiting);
            };
            kept::set_modified(&path, how.modified.unwrap_or_else(SystemTime::now))
                .map_err(|error| temp::no_session_or(error, target.directory()))?;
            let how = Publish { modified: None, ..how };
            let published = temp::publish(&parents, &file, &path, &target, how, &waiting);
            match &published {
                Err(fault) if fault.kind != FaultKind::Unsynced => kept::mark_again(&path, until),
                _ => kept::unmark(&file),
            }
            published
        });
        let published = published.await;
        waiter.done();
        published
    }
}

#[async_trait]
impl Parts for Local {
    async fn open(
        &self,
        key: &str,
        options: &WriteOptions,
        _origin: PartOrigin,
        _attempt: Attempt,
    ) -> Result<Session, Fault> {
        if self.link(key)?.is_some() {
            return Err(invalid("the text of a symbolic link is written in one request"));
        }
        let target = self.to_write(key)?;
        let (parents, condition) = (self.parents.clone(), Condition::of_write(options)?);
        let temp = blocking(move || Temp::create(&parents, target, condition)).await?;
        Ok(temp.into_session())
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        _attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        let payload = match source {
            PartSource::Bytes(payload) => payload,
            PartSource::CopyOf(from, range) => return self.copy_range(session, number, from, range).await,
        };
        let most = self.info.capabilities.max_parts;
        if !(1..=most).contains(&number) {
            return Err(invalid(format!("part {number}: parts are numbered from 1 to {most}")));
        }
        if offset.checked_add(payload.len()).is_none_or(|end| end > self.info.capabilities.max_object) {
            let message = format!(
                "part {number} would end past the {} bytes of a file",
                self.info.capabilities.max_object
            );
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        let target = Target::of(&self.root, &session.key)?;
        let (file, id) = (target.clone(), session.id.clone());
        let begin = move || temp::open(&temp::find(&file, &id)?);
        let finish = move |_: fs::File, checksum: Checksum| {
            let etag = part_etag(offset, Some(&checksum));
            Ok(Receipt { number, size: checksum.covers(), etag, checksum: Some(checksum) })
        };
        write::write_out(payload, offset, target.directory().to_owned(), begin, finish).await
    }

    async fn stored_parts(&self, session: &Session, _attempt: Attempt) -> Result<Vec<StoredPart>, Fault> {
        let message = format!("the store does not list the parts of session {}", session.id);
        Err(Fault::new(FaultKind::Unsupported, message))
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        _attempt: Attempt,
    ) -> Result<Object, Fault> {
        self.publish(session, check_parts(parts, checksum), checksum.copied(), options).await
    }

    /// The file's times become the end of the lifetime: a session's listing finds it there.
    async fn keep(&self, session: &Session, until: SystemTime, _attempt: Attempt) -> Result<(), Fault> {
        let target = Target::of(&self.root, &session.key)?;
        let id = session.id.clone();
        blocking(move || {
            let path = temp::find(&target, &id)?;
            let failed = |error| fault(error, target.directory());
            let file = temp::open(&path)?;
            kept::mark(&file, until).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            parents::sync(path.parent().unwrap_or(&path)).map_err(failed)
        })
        .await
    }

    async fn abort(&self, session: &Session, _attempt: Attempt) -> Result<(), Fault> {
        let target = Target::of(&self.root, &session.key)?;
        let name = temp::name(&session.id)?;
        let (root, parents) = (self.root.clone(), self.parents.clone());
        blocking(move || {
            let failed = |error: Errno| temp::no_session_or(error.into(), target.directory());
            let directory = Self::directory_of(&root, &target)?.ok_or_else(|| failed(Errno::NOENT))?;
            // A session of parts holds no lock, because its file is opened anew for each part. A locked file belongs
            // to a write in flight.
            let remove = |directory: &OwnedFd| {
                if temp::open_at(directory, &name).is_ok_and(|file| temp::is_locked(&file)) {
                    return Err(Fault::new(FaultKind::Denied, "a process that lives is writing the file"));
                }
                unlinkat(directory, &name, AtFlags::empty()).map_err(failed)
            };
            match remove(&directory) {
                Err(fault) if fault.kind == FaultKind::NoSession && target.path().is_symlink() => {
                    let behind = target.clone().behind_links()?;
                    let directory = beneath::root_to_change(behind.directory())?;
                    remove(&directory.ok_or_else(|| failed(Errno::NOENT))?)?;
                    parents.remove_empty(behind.directory());
                }
                removed => {
                    removed?;
                    parents.remove_empty(target.directory());
                }
            }
            Ok(())
        })
        .await
    }
}

/// A part's ETag: its offset and its checksum, if the bytes were seen. [`check_parts`] compares it.
pub(super) fn part_etag(offset: u64, checksum: Option<&Checksum>) -> String {
    let checksum = checksum.map_or_else(|| Algorithm::default().empty(), |checksum| *checksum);
    format!("\"{offset}-{:016x}\"", checksum.value())
}

/// The size of all parts together, if they follow each other from the first byte on and have this checksum. The bytes
/// of copied parts were not seen, so those have none.
fn check_parts(parts: &[Receipt], checksum: Option<&Checksum>) -> Result<u64, Fault> {
    if parts.is_empty() {
        return Err(invalid("a session is completed with at least one part"));
    }
    let mut whole = checksum.map(|checksum| checksum.algorithm().empty());
    let (mut number, mut end) = (0, 0_u64);
    for part in parts {
        if part.number <= number {
            return Err(invalid(format!("part {} comes after part {number}", part.number)));
        }
        number = part.number;
        let is_other = |own: Checksum| {
            own.covers() != part.size
                || checksum.is_some_and(|checksum| checksum.algorithm() != own.algorithm())
        };
        if part.checksum.is_some_and(is_other) {
            return Err(invalid(format!("part {number} has no checksum of its own")));
        }
        if part.etag != part_etag(end, part.checksum.as_ref()) {
            return Err(invalid(format!(
                "part {number} does not begin at byte {end}, where the one before it ends"
            )));
        }
        whole = whole.zip(part.checksum).map(|(whole, own)| whole.then(&own));
        end = end.saturating_add(part.size);
    }
    if whole.is_some_and(|whole| checksum != Some(&whole)) {
        let message = "the checksum is not that of the parts together";
        return Err(Fault::new(FaultKind::Integrity, message));
    }
    Ok(end)
}
