//! Uploads one file, pipe or device.

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use tidegate::backend::local::FilesBelow;
use tidegate::location::Location;
use tidegate::recover::Resumed;
use tidegate::text::printable;
use tidegate::upload::WrongSize;
use tidegate::{ErrorKind, Strategy};

use super::job::CopyJob;
use super::journaled;
use super::opened::OpenedFile;
use super::verify;
use crate::command::{Producer, Whole};
use crate::error::{Error, Result};
use crate::event::{CopiedObject, Event, StartedTransfer};
use crate::place::Place;

/// Uploads all bytes of `input`, which the caller calls `name`, to `target`.
pub(crate) async fn input(job: &CopyJob, name: &str, input: &mut dyn Producer, target: &Location) -> Result {
    let to = job.stores.target.object(target).await?;
    to.refuse_directory().await?;
    let done = stream(job, name.to_owned(), input, None, &to).await?;
    job.events.push(Event::Copied(done));
    Ok(())
}

/// Uploads the local `path`, which the caller calls `name`: a file, or a pipe or device that gives a stream of bytes.
pub(crate) async fn path(job: &CopyJob, name: String, path: &Path, to: &Place) -> Result {
    let unreadable = |error| Error::of_file(path, &error);
    let found = tokio::fs::metadata(path).await.map_err(unreadable)?;
    let done = if gives_a_stream(found.file_type()) {
        let mut opened = Whole(tokio::fs::File::open(path).await.map_err(unreadable)?);
        stream(job, name, &mut opened, None, to).await?
    } else {
        if let Some(expected) = job.writing.expect_size.filter(|expected| *expected != found.len()) {
            let has = found.len();
            return Err(Error::Refused(format!(
                "{name}: it has {has} bytes, and --expect-size is {expected}"
            )));
        }
        file(job, (path, None), name, Some(found.len()), to).await?
    };
    job.events.push(Event::Copied(done));
    Ok(())
}

fn gives_a_stream(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
}

/// Uploads a file, streamed from disk. `below` is its name below a tree, if a walk has found it there.
pub(crate) async fn file(
    job: &CopyJob,
    (path, below): (&Path, Option<(&Arc<FilesBelow>, &str)>),
    source: String,
    size: Option<u64>,
    to: &Place,
) -> Result<Box<CopiedObject>> {
    if job.writing.is_journaled() {
        let unreadable = |error| Error::of_file(path, &error);
        let opened = tokio::task::spawn_blocking({
            let path = path.to_owned();
            let below = below.map(|(files, name)| (files.clone(), name.to_owned()));
            move || match below {
                Some((files, name)) => OpenedFile::of(path, files.open(&name)?),
                None => OpenedFile::open(&path),
            }
        });
        let opened = opened.await.map_err(|ended| Error::Failed(ended.to_string()))?.map_err(unreadable)?;
        let mut input = Whole(opened.source().map_err(unreadable)?);
        // Boxed, so that files without a journal need no room for it.
        return Box::pin(stream(job, source, &mut input, Some(&opened), to)).await;
    }
    let builder = job.writing.file_builder(to);
    let progress = builder.progress();
    let live = job.events.start(StartedTransfer {
        key: &to.key,
        progress: &progress,
        counted: vec![progress.clone()],
        sends: true,
        journaled: false,
        bytes: size,
    });
    let object = match below {
        Some((files, name)) => builder.upload_below(files, name).await,
        None => builder.upload(path).await,
    };
    let object = object.map_err(|error| of_source(path, error))?;
    let done = live.done(source, to.url(), object.size, &object);
    let strategy = job.writing.of_file(done.parts);
    verify::read_back(job, to, &object, done.by(strategy)).await
}

/// The library's error names the object; an error of the source must also name the file.
fn of_source(path: &Path, error: tidegate::Error) -> Error {
    if error.kind() != ErrorKind::Source {
        return error.into();
    }
    let named = printable(&path.display().to_string()).into_owned();
    let sentence = error.to_string();
    let sentence = if sentence.contains(&named) { sentence } else { format!("{named}: {sentence}") };
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    Error::by_kind(cause.map(std::io::Error::kind), sentence)
}

/// Uploads all bytes of `input`. If they are not whole, or `input` is a `file` that changes meanwhile, nothing is
/// published.
async fn stream(
    job: &CopyJob,
    source: String,
    input: &mut dyn Producer,
    file: Option<&OpenedFile>,
    to: &Place,
) -> Result<Box<CopiedObject>> {
    let expected = job.writing.expect_size;
    let builder = job.writing.builder(to);
    let builder = if let Some(bytes) = expected { builder.exact_size(bytes) } else { builder };
    let builder = match file.filter(|_| job.writing.preserves()) {
        Some(file) => builder.file_attributes(&file.attributes().map_err(|error| file.failure(&error))?),
        None => builder,
    };
    let (live, begun) = if job.writing.is_journaled() {
        journaled::begin(job, builder, input, to, &source).await?
    } else {
        let writer = builder.await?;
        let progress = writer.progress();
        let live = job.events.start(StartedTransfer {
            key: &to.key,
            progress: &progress,
            counted: vec![progress.clone()],
            sends: true,
            journaled: false,
            bytes: expected,
        });
        (live, Resumed::Writer(writer))
    };
    let mut writer = match begun {
        Resumed::Writer(writer) => writer,
        Resumed::Object(object) => {
            let done = live.done(source, to.url(), object.size, &object);
            return verify::read_back(job, to, &object, done.by(Strategy::Journal)).await;
        }
    };
    let strategy = writer.strategy();
    let of_size = |error| of_size(error, to);
    if let Some(expected) = expected {
        // The journal of a resumed upload does not record the exact size.
        writer.set_exact_size(expected);
    }
    writer.read_from(&mut &mut *input).await.map_err(of_size)?;
    input.complete().await?;
    if let Some(file) = file {
        file.check_unchanged(writer.position()).map_err(|changed| {
            Error::Failed(format!(
                "{changed}, and what was read is in the journal (copy it again: if it has only grown, that goes on)"
            ))
        })?;
    }
    let object = writer.finish().await.map_err(of_size)?;
    let done = live.done(source, to.url(), object.size, &object);
    verify::read_back(job, to, &object, done.by(strategy)).await
}

/// Turns an error about the size into a message that names --expect-size.
fn of_size(error: tidegate::Error, to: &Place) -> Error {
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    let (found, expected) = match source {
        Some(WrongSize::TooFew { given, exact }) => (given.to_string(), exact),
        Some(WrongSize::TooMany { exact }) => (format!("more than {exact}"), exact),
        _ => return error.into(),
    };
    let url = to.url();
    Error::Failed(format!(
        "{url}: nothing was written: the source gave {found} bytes, and --expect-size is {expected}"
    ))
}
