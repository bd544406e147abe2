//! Uploads one file, pipe or device.

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tidegate::location::Location;
use tidegate::recover::Resumed;
use tidegate::text::printable;
use tidegate::upload::WrongSize;
use tidegate::{ErrorKind, Strategy};
use tokio::io::AsyncRead;

use super::job::CopyJob;
use super::journaled;
use super::opened::OpenedFile;
use super::report::CompletedCopy;
use super::stdin::{Stdin, StdinWait};
use super::verify;
use crate::exit::{CommandFailure, Outcome};
use crate::standard;
use crate::stores::ObjectPlace;

/// Uploads standard input to `target`.
pub(crate) async fn standard_input(job: &CopyJob<'_>, target: &Location) -> Outcome {
    // With a journal, another task takes the bytes from the journal's buffer, so do not block the thread.
    let wait = if job.writing.is_journaled() { StdinWait::Elsewhere } else { StdinWait::Here };
    let mut input = Stdin::open(wait)?;
    let to = job.stores.object(target).await?;
    job.report.expect(job.writing.expect_size);
    let done = stream(job, "-".to_owned(), &mut input, None, &to).await?;
    job.report.done(done).await
}

/// Uploads the local path `source`: a file, or a pipe or device that gives a stream of bytes.
pub(crate) async fn path(job: &CopyJob<'_>, source: &Location, to: &ObjectPlace) -> Outcome {
    let Location::Local { path } = source else { return Ok(()) };
    standard::refuse_closed_input(path)?;
    let unreadable = |error| CommandFailure::of_file(path, &error);
    let found = tokio::fs::metadata(path).await.map_err(unreadable)?;
    let name = source.to_string();
    let done = if gives_a_stream(found.file_type()) {
        job.report.expect(job.writing.expect_size);
        let mut opened = tokio::fs::File::open(path).await.map_err(unreadable)?;
        stream(job, name, &mut opened, None, to).await?
    } else {
        if let Some(expected) = job.writing.expect_size.filter(|expected| *expected != found.len()) {
            let has = found.len();
            return Err(CommandFailure::Usage(format!(
                "{name}: it has {has} bytes, and --expect-size is {expected}"
            )));
        }
        job.report.expect(Some(found.len()));
        file(job, path, name, to).await?
    };
    job.report.done(done).await
}

fn gives_a_stream(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
}

/// Uploads a file, streamed from disk.
pub(crate) async fn file(
    job: &CopyJob<'_>,
    path: &Path,
    source: String,
    to: &ObjectPlace,
) -> Outcome<CompletedCopy> {
    if job.writing.is_journaled() {
        let unreadable = |error| CommandFailure::of_file(path, &error);
        let opened = tokio::task::spawn_blocking({
            let path = path.to_owned();
            move || OpenedFile::open(&path)
        });
        let opened =
            opened.await.map_err(|ended| CommandFailure::Failed(ended.to_string()))?.map_err(unreadable)?;
        let mut input = opened.source().map_err(unreadable)?;
        // Boxed, so that files without a journal need no room for it.
        return Box::pin(stream(job, source, &mut input, Some(&opened), to)).await;
    }
    let builder = job.writing.file_builder(to);
    let progress = builder.progress();
    let live = job.report.upload(&to.key, &progress, vec![progress.clone()]);
    let object = builder.upload(path).await.map_err(|error| of_source(path, error))?;
    let done = live.done(source, to.url(), object.size, &object);
    let strategy = job.writing.of_file(done.parts());
    verify::if_dev(job, to, &object, done.by(strategy)).await
}

/// The library's error names the object; an error of the source must also name the file.
fn of_source(path: &Path, error: tidegate::Error) -> CommandFailure {
    if error.kind() != ErrorKind::Source {
        return error.into();
    }
    let named = printable(&path.display().to_string()).into_owned();
    let sentence = error.to_string();
    let sentence = if sentence.contains(&named) { sentence } else { format!("{named}: {sentence}") };
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    CommandFailure::by_kind(cause.map(std::io::Error::kind), sentence)
}

/// Uploads all bytes of `input`. If `input` is a `file` that changes meanwhile, nothing is published.
async fn stream(
    job: &CopyJob<'_>,
    source: String,
    input: &mut (impl AsyncRead + Unpin),
    file: Option<&OpenedFile>,
    to: &ObjectPlace,
) -> Outcome<CompletedCopy> {
    let expected = job.writing.expect_size;
    let builder = job.writing.builder(to);
    let builder = if let Some(bytes) = expected { builder.exact_size(bytes) } else { builder };
    let builder = match file.filter(|_| job.writing.preserves()) {
        Some(file) => builder.file_attributes(&file.attributes()?),
        None => builder,
    };
    let (live, begun) = if job.writing.is_journaled() {
        journaled::begin(job, builder, input, to, &source).await?
    } else {
        let writer = builder.await?;
        let progress = writer.progress();
        (job.report.upload(&to.key, &progress, vec![progress.clone()]), Resumed::Writer(writer))
    };
    let mut writer = match begun {
        Resumed::Writer(writer) => writer,
        Resumed::Object(object) => {
            let done = live.done(source, to.url(), object.size, &object);
            return verify::if_dev(job, to, &object, done.by(Strategy::Journal)).await;
        }
    };
    let strategy = writer.strategy();
    let of_size = |error| of_size(error, to);
    if let Some(expected) = expected {
        // The journal of a resumed upload does not record the exact size.
        writer.set_exact_size(expected);
    }
    writer.read_from(input).await.map_err(of_size)?;
    if let Some(file) = file {
        file.check_unchanged(writer.position())?;
    }
    let object = writer.finish().await.map_err(of_size)?;
    let done = live.done(source, to.url(), object.size, &object);
    verify::if_dev(job, to, &object, done.by(strategy)).await
}

/// Turns an error about the size into a message that names --expect-size.
fn of_size(error: tidegate::Error, to: &ObjectPlace) -> CommandFailure {
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    let (found, expected) = match source {
        Some(WrongSize::TooFew { given, exact }) => (given.to_string(), exact),
        Some(WrongSize::TooMany { exact }) => (format!("more than {exact}"), exact),
        _ => return error.into(),
    };
    let url = to.url();
    CommandFailure::Failed(format!(
        "{url}: nothing was written: the source gave {found} bytes, and --expect-size is {expected}"
    ))
}
