//! Copies files by the system: on Linux [`io::copy`] between two files uses `copy_file_range`. Within one file
//! system, if it can, blocks are shared and no byte is read.

use std::borrow::Borrow;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::fault::{blocking, fault};
use super::session::part_etag;
use super::target::{self, Target};
use super::temp::{self, Publish, Temp};
use super::waiting::Waiter;
use super::{Local, read};
use tidegate_core::backend::{
    CopySource, Fault, FaultKind, Receipt, Session, WriteOptions, check_range, gone,
};
use tidegate_core::types::location::local_root;
use tidegate_core::types::object::Object;

/// The file to copy.
struct FileToCopy {
    file: File,
    target: Target,
    object: Object,
}

impl FileToCopy {
    fn open(from: &CopySource) -> Result<Self, Fault> {
        let target = Target::of(&local_root(&from.location), &from.key)?;
        let failed = |error| gone(fault(error, target.directory()));
        // Check first: opening a pipe would wait for its other end.
        target::check_readable(&fs::metadata(target.path()).map_err(failed)?)?;
        let file = File::open(target.path()).map_err(failed)?;
        let source = Self { file, object: from.object.clone(), target };
        source.check_same()?;
        read::check_size(&source.file, source.object.size, source.target.directory())?;
        Ok(source)
    }

    /// Fails if the file is not the described one, or was written to since.
    fn check_same(&self) -> Result<(), Fault> {
        let found = self.file.metadata().map_err(|error| fault(error, self.target.directory()))?;
        if self.object.is_same(&target::describe("", &found)) {
            return Ok(());
        }
        Err(Fault::new(FaultKind::Replaced, "the file was replaced or written to while it was copied"))
    }

    /// The file, described by the key of `target`, if `target` is the same file: by another path, a link or a hard
    /// link.
    fn same_file(&self, target: &Target) -> Result<Option<(Object, Metadata)>, Fault> {
        let Ok(there) = fs::metadata(target.path()) else { return Ok(None) };
        let found = self.file.metadata().map_err(|error| fault(error, self.target.directory()))?;
        let is_same = (found.dev(), found.ino()) == (there.dev(), there.ino());
        Ok(is_same.then(|| (target::describe(target.key(), &found), found)))
    }

    /// Copies a range to the same offset of `to`, which is in `directory`.
    fn copy(&mut self, to: &File, directory: &Path, range: &Range<u64>) -> Result<(), Fault> {
        let mut to = to;
        let wanted = range.end - range.start;
        let copied = (|| {
            self.file.seek(SeekFrom::Start(range.start))?;
            to.seek(SeekFrom::Start(range.start))?;
            io::copy(&mut (&self.file).take(wanted), &mut to)
        })();
        let copied = copied.map_err(|error| fault(error, directory))?;
        self.check_same()?;
        if copied != wanted {
            let message = format!("{copied} bytes were copied of {wanted}");
            return Err(Fault::new(FaultKind::Undone, message));
        }
        Ok(())
    }
}

impl Local {
    pub(super) async fn copy_whole(
        &self,
        from: &CopySource,
        key: &str,
        options: &WriteOptions,
    ) -> Result<Object, Fault> {
        let target = self.to_write(key)?;
        let (parents, how) = (self.parents.clone(), Publish::of_write(options)?);
        let condition = how.condition;
        let from = from.clone();
        let waiter = Waiter::default();
        let waiting = waiter.waiting();
        let copied = blocking(move || {
            let mut source = FileToCopy::open(&from)?;
            // A file copied onto itself, by whatever name, stays as it is.
            if !condition.is_create_only()
                && let Some((itself, found)) = source.same_file(&target)?
            {
                return condition.check(Some(&found)).map(|()| itself);
            }
            let directory = target.directory().to_owned();
            let temp = waiting.make(|| Temp::create(&parents, target, condition), Temp::trace)?;
            source.copy(temp.borrow(), &directory, &(0..from.object.size))?;
            temp.publish(how, &waiting)
        });
        let copied = copied.await;
        waiter.done();
        copied
    }

    pub(super) async fn copy_range(
        &self,
        session: &Session,
        number: u32,
        from: &CopySource,
        range: Range<u64>,
    ) -> Result<Receipt, Fault> {
        check_range(from, &range)?;
        let target = Target::of(&self.root, &session.key)?;
        let (from, id) = (from.clone(), session.id.clone());
        blocking(move || {
            let file = temp::open(&temp::find(&target, &id)?)?;
            FileToCopy::open(&from)?.copy(&file, target.directory(), &range)?;
            let etag = part_etag(range.start, None);
            Ok(Receipt { number, size: range.end - range.start, etag, checksum: None })
        })
        .await
    }
}
