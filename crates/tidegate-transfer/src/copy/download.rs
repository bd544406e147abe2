//! Copies one object of a store: into a file, or to another store.

use futures::TryStreamExt;
use tidegate::download::ReaderBuilder;
use tidegate::{ErrorKind, Object};

use super::item::ListedFacts;
use super::job::CopyJob;
use super::verify;
use crate::attributes;
use crate::copy_through::{self, OpenObject};
use crate::error::Result;
use crate::event::{CopiedObject, StartedTransfer};
use crate::place::Place;

/// Downloads an object into a file; also returns the object that was read. The file is published whole or not at all, and
/// an interrupted download is resumed. The caller has already announced the object to the report; `listed` is what is known
/// of it.
pub(super) async fn file(
    job: &CopyJob,
    source: &str,
    from: &Place,
    listed: ListedFacts,
    to: &Place,
) -> Result<(Box<CopiedObject>, Box<Object>)> {
    let download = job.writing.download(from, to, to.file()?);
    let events = job.events.clone();
    let mut download = download.on_warning(move |text| events.warn(text));
    if let Some(size) = listed.size {
        download = download.size_hint(size);
    }
    if let Some(modified) = listed.modified {
        download = download.listed_time(modified);
    }
    let progress = download.progress();
    let live = job.events.start(StartedTransfer {
        key: &from.key,
        progress: &progress,
        counted: vec![progress.clone()],
        sends: false,
        journaled: false,
        bytes: listed.size,
    });
    let object = Box::new(download.await?);
    job.writing.downloaded(&object);
    Ok((live.done(source.to_owned(), to.url(), object.size, &object), object))
}

/// Copies an object of a store, which may be a directory, to another store or within the store; a store copies within itself
/// if it can. If the transfer fails, nothing is published. The caller has already announced the object to the report;
/// `described` is the object as the store has just described it, and `listed` is what is known of it.
pub(super) async fn object(
    job: &CopyJob,
    source: &str,
    (from, described): (&Place, Option<&Object>),
    mut listed: ListedFacts,
    to: &Place,
) -> Result<Box<CopiedObject>> {
    if let Some(copy) = job.writing.copy_within(from, to) {
        let copy = match described {
            Some(object) => copy.described(object.clone()),
            None => copy,
        };
        let progress = copy.progress();
        let live = job.events.start(StartedTransfer {
            key: &to.key,
            progress: &progress,
            counted: vec![progress.clone()],
            sends: true,
            journaled: false,
            bytes: listed.size,
        });
        match copy.await {
            Ok(object) => {
                job.writing.copy_ended(true);
                job.writing.left_out.add(object.not_carried.iter().copied());
                let done = live.done(source.to_owned(), to.url(), object.size, &object).by_store();
                return verify::read_back(job, to, &object, done).await;
            }
            // Not every store that speaks S3 supports copies: then this process transfers the bytes.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            // The target's account may not read the source, and the source's own account may.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && job.stores.are_apart(from, to) => {
                job.writing.copy_ended(false);
            }
            Err(error) => return Err(error.into()),
        }
        // The bytes are expected since the first try.
        listed.size = Some(0);
    }
    // Boxed, so that downloads into files need no room for it.
    Box::pin(through(job, source, (from, described), listed, to)).await
}

async fn through(
    job: &CopyJob,
    source: &str,
    (from, described): (&Place, Option<&Object>),
    listed: ListedFacts,
    to: &Place,
) -> Result<Box<CopiedObject>> {
    let mut counted = Vec::new();
    let counts = |reading: &ReaderBuilder| counted.push(reading.progress());
    let open = copy_through::open(&from.store, &from.key, described, &to.store, counts).await?;
    let OpenObject { object, mut reader, carried, left_out } = open;
    let builder = job.writing.builder_like(to, carried).size_hint(object.size);
    let progress = builder.progress();
    if !to.is_local() {
        counted.push(progress.clone());
    }
    let live = job.events.start(StartedTransfer {
        key: &to.key,
        progress: &progress,
        counted,
        sends: true,
        journaled: false,
        bytes: listed.size,
    });
    let mut writer = builder.await?;
    let strategy = writer.strategy();
    while let Some(piece) = reader.try_next().await? {
        writer.write_bytes(piece).await?;
    }
    let written = writer.finish().await?;
    job.writing.left_out.add(match to.is_local() {
        true => attributes::lost_on_disk(&object, false),
        false => left_out,
    });
    let known = if to.is_local() { &object } else { &written };
    let done = live.done(source.to_owned(), to.url(), written.size, known);
    verify::read_back(job, to, &written, done.by(strategy)).await
}
