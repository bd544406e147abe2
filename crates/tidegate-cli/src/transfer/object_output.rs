//! Copies one object to standard output, to a named pipe, to a device or to a command.

use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use futures::TryStreamExt;
use tidegate::location::Location;
use tidegate_transfer::command::{CommandInput, Consumed, ExternalCommand};
use tidegate_transfer::{CopiedObject, Event, Place, RunProgress};

use crate::exit::{CommandFailure, Outcome};
use crate::output::{self, ByteOutput};
use crate::stores::Stores;
use crate::ui::report::CopyReport;

/// An object that is written to a stream.
pub(super) struct ObjectOutput<'a> {
    pub(super) source: &'a Location,
    pub(super) to: StreamTarget<'a>,
}

/// The stream.
pub(super) enum StreamTarget<'a> {
    Output,
    /// An existing named pipe or device, which is written to and not replaced.
    Device(&'a Path),
    Command(&'a ExternalCommand),
}

impl ObjectOutput<'_> {
    pub(super) async fn copy(
        &self,
        stores: &Stores,
        report: &mut CopyReport<'_>,
        is_dry_run: bool,
    ) -> Outcome {
        let target = match self.to {
            StreamTarget::Output => "-".to_owned(),
            StreamTarget::Device(path) => path.display().to_string(),
            StreamTarget::Command(command) => command.name(),
        };
        let source = self.source.to_string();
        if let (true, StreamTarget::Device(_) | StreamTarget::Command(_)) = (is_dry_run, &self.to) {
            return report.tell(Event::WouldCopy { source, target, bytes: None }).await;
        }
        let from = stores.source().object(self.source).await?;
        if is_dry_run {
            let bytes = from.store.head(&from.key).await?.known_size();
            return report.tell(Event::WouldCopy { source, target, bytes }).await;
        }
        write(stores, report, (source, target), &from, &self.to).await
    }
}

impl StreamTarget<'_> {
    async fn open(&self) -> Outcome<Sink> {
        match self {
            Self::Output => Ok(Sink::Bytes(ByteOutput::stdout()?)),
            Self::Command(command) => Ok(Sink::Command(Box::new(command.consume()?))),
            Self::Device(path) => {
                // Opening a named pipe waits for a reader.
                let opened = tokio::fs::File::options().write(true).open(path).await;
                let failed = |error| CommandFailure::of_file(path, &error);
                Ok(Sink::Bytes(ByteOutput::new(opened.map_err(failed)?.into_std().await)))
            }
        }
    }
}

/// What takes the bytes.
enum Sink {
    Bytes(ByteOutput),
    Command(Box<CommandInput>),
}

impl Sink {
    async fn write(&mut self, piece: Bytes) -> Outcome<Consumed> {
        match self {
            Self::Bytes(output) => output.write(piece).await.map(|()| Consumed::All),
            Self::Command(command) => Ok(command.write(&piece).await?),
        }
    }

    async fn finish(self) -> Outcome<Consumed> {
        match self {
            Self::Bytes(output) => output.finish().await.map(|()| Consumed::All),
            Self::Command(command) => Ok(command.finish().await?),
        }
    }
}

async fn write(
    stores: &Stores,
    report: &mut CopyReport<'_>,
    (source, target): (String, String),
    from: &Place,
    to: &StreamTarget<'_>,
) -> Outcome {
    let began = Instant::now();
    let builder = from.store.reader(&from.key);
    let progress = builder.progress();
    let shown = |bytes| RunProgress::of_one(&from.key, &progress, bytes);
    let mut reader = report.drawing(|| shown(None), async { Ok(builder.await?) }).await?;
    // A command is not started for an object that is not there.
    let mut output = to.open().await?;
    let (object, range) = (reader.object().clone(), reader.range());
    let bytes = range.end - range.start;
    let mut written = 0;
    let writing = report.drawing(|| shown(Some(bytes)), async {
        while let Some(piece) = reader.try_next().await? {
            let length = piece.len() as u64;
            if output.write(piece).await? == Consumed::Part {
                break;
            }
            written += length;
        }
        output.finish().await
    });
    if writing.await? == Consumed::Part {
        output::warn(&format!(
            "{target} has not read all of {source}: {written} of {bytes} bytes were written"
        ));
    }
    let mut copied = CopiedObject::read(source, &[progress], began, &object);
    copied.target = target;
    copied.bytes = written;
    copied.peak_buffered_bytes = stores.tide().usage().peak;
    report.tell(Event::Copied(Box::new(copied))).await
}
