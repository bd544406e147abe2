//! Copies one object out of a store: to standard output, to a device, to a file, or to another store.

use std::path::Path;

use futures::TryStreamExt;
use tidegate::ErrorKind;
use tidegate::download::ReaderBuilder;
use tidegate::location::Location;
use tidegate_transfer::{attributes, copy_through};

use super::item::ListedFacts;
use super::job::CopyJob;
use super::report::CompletedCopy;
use super::verify;
use crate::exit::{CommandFailure, Outcome};
use crate::output::{self, ByteOutput};
use crate::stores::ObjectPlace;

pub(crate) async fn to_standard_output(job: &CopyJob<'_>, source: &Location, from: &ObjectPlace) -> Outcome {
    let done = write(job, source, from, "-".to_owned(), ByteOutput::stdout()?).await?;
    job.report.done(done).await
}

/// Copies to an existing named pipe or device, which is written to and not replaced.
pub(crate) async fn to_device(
    job: &CopyJob<'_>,
    source: &Location,
    from: &ObjectPlace,
    path: &Path,
) -> Outcome {
    // Opening a named pipe waits for a reader.
    let opened = tokio::fs::File::options().write(true).open(path).await;
    let failed = |error| CommandFailure::of_file(path, &error);
    let output = ByteOutput::new(opened.map_err(failed)?.into_std().await);
    let done = write(job, source, from, path.display().to_string(), output).await?;
    job.report.done(done).await
}

async fn write(
    job: &CopyJob<'_>,
    source: &Location,
    from: &ObjectPlace,
    target: String,
    mut output: ByteOutput,
) -> Outcome<CompletedCopy> {
    let builder = from.store.reader(&from.key);
    let live = job.report.read(&from.key, &builder.progress());
    let mut reader = builder.await?;
    let (object, range) = (reader.object().clone(), reader.range());
    let bytes = range.end - range.start;
    job.report.expect(Some(bytes));
    while let Some(piece) = reader.try_next().await? {
        output.write(piece).await?;
    }
    output.finish().await?;
    Ok(live.done(source.to_string(), target, bytes, &object))
}

/// Copies an object to a file or another store; a store copies within itself if it can. If the transfer fails,
/// nothing is published. The caller has already announced the object to the report; `listed` is what is known of it.
pub(crate) async fn object(
    job: &CopyJob<'_>,
    source: &str,
    from: &ObjectPlace,
    listed: ListedFacts,
    to: &ObjectPlace,
) -> Outcome<CompletedCopy> {
    if to.is_local() && !from.is_local() {
        // The file is published whole or not at all; an interrupted download is resumed.
        let download = job.writing.download(from, to, to.file()?);
        let mut download = download.on_warning(output::warn);
        if let Some(size) = listed.size {
            download = download.size_hint(size);
        }
        if let Some(modified) = listed.modified {
            download = download.listed_time(modified);
        }
        let live = job.report.download(&from.key, &download.progress());
        let object = download.await?;
        job.writing.downloaded(&object);
        return Ok(live.done(source.to_owned(), to.url(), object.size, &object));
    }
    if let Some(copy) = job.writing.copy_within(from, to) {
        let progress = copy.progress();
        let live = job.report.upload(&to.key, &progress, vec![progress.clone()]);
        match copy.await {
            Ok(object) => {
                job.writing.copy_ended(true);
                job.writing.left_out.add(object.not_carried.iter().copied());
                let done = live.done(source.to_owned(), to.url(), object.size, &object).by_store();
                return verify::if_dev(job, to, &object, done).await;
            }
            // Not every store that speaks S3 supports copies: then this process transfers the bytes.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            // The target's account may not read the source, and the source's own account may.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && job.stores.are_apart(from, to) => {
                job.writing.copy_ended(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    // Boxed, so that downloads into files need no room for it.
    Box::pin(through(job, source, from, to)).await
}

async fn through(
    job: &CopyJob<'_>,
    source: &str,
    from: &ObjectPlace,
    to: &ObjectPlace,
) -> Outcome<CompletedCopy> {
    let mut counted = Vec::new();
    let counts = |reading: &ReaderBuilder| counted.push(reading.progress());
    let (object, mut reader) = copy_through::open(&from.store, &from.key, !to.is_local(), counts).await?;
    if to.is_local() {
        job.writing.left_out.add(attributes::lost_on_disk(&object, false));
    }
    let (attributes, mut left_out) = attributes::between(&from.store, &to.store, &object);
    if !to.is_local() {
        match from.store.hides_capitals(&object).await {
            Ok(true) => left_out.push("capital letters in names of metadata"),
            Ok(false) => {}
            // The copy goes on: only the warning about changed names needs the answer.
            Err(error) => tracing::warn!(object = source, %error, "the names of its metadata are not known"),
        }
    }
    let builder = job.writing.builder_like(to, attributes).size_hint(object.size);
    let progress = builder.progress();
    if !to.is_local() {
        counted.push(progress.clone());
    }
    let live = job.report.upload(&to.key, &progress, counted);
    let mut writer = builder.await?;
    let strategy = writer.strategy();
    while let Some(piece) = reader.try_next().await? {
        writer.write_bytes(piece).await?;
    }
    let written = writer.finish().await?;
    if !to.is_local() {
        job.writing.left_out.add(left_out);
    }
    let known = if to.is_local() { &object } else { &written };
    let done = live.done(source.to_owned(), to.url(), written.size, known);
    verify::if_dev(job, to, &written, done.by(strategy)).await
}
