//! Copies one object to standard output, to a named pipe or to a device.

use std::path::Path;
use std::time::Instant;

use futures::TryStreamExt;
use tidegate::location::Location;
use tidegate_transfer::{CopiedObject, Event, Place, RunProgress};

use crate::exit::{CommandFailure, Outcome};
use crate::output::ByteOutput;
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
        };
        let source = self.source.to_string();
        if let (true, StreamTarget::Device(_)) = (is_dry_run, &self.to) {
            return report.tell(Event::WouldCopy { source, target, bytes: None }).await;
        }
        let from = stores.source().object(self.source).await?;
        if is_dry_run {
            let bytes = from.store.head(&from.key).await?.known_size();
            return report.tell(Event::WouldCopy { source, target, bytes }).await;
        }
        let output = match self.to {
            StreamTarget::Output => ByteOutput::stdout()?,
            StreamTarget::Device(path) => {
                // Opening a named pipe waits for a reader.
                let opened = tokio::fs::File::options().write(true).open(path).await;
                let failed = |error| CommandFailure::of_file(path, &error);
                ByteOutput::new(opened.map_err(failed)?.into_std().await)
            }
        };
        write(stores, report, (source, target), &from, output).await
    }
}

async fn write(
    stores: &Stores,
    report: &mut CopyReport<'_>,
    (source, target): (String, String),
    from: &Place,
    mut output: ByteOutput,
) -> Outcome {
    let began = Instant::now();
    let builder = from.store.reader(&from.key);
    let progress = builder.progress();
    let shown = |bytes| RunProgress::of_one(&from.key, &progress, bytes);
    let mut reader = report.drawing(|| shown(None), async { Ok(builder.await?) }).await?;
    let (object, range) = (reader.object().clone(), reader.range());
    let bytes = range.end - range.start;
    let written = report.drawing(|| shown(Some(bytes)), async {
        while let Some(piece) = reader.try_next().await? {
            output.write(piece).await?;
        }
        output.finish().await
    });
    written.await?;
    let mut copied = CopiedObject::read(source, &[progress], began, &object);
    copied.target = target;
    copied.bytes = bytes;
    copied.peak_buffered_bytes = stores.tide().usage().peak;
    report.tell(Event::Copied(Box::new(copied))).await
}
