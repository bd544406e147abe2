//! `cp --prepare`: uploads one source, publishes nothing, and writes the pending upload to a file.

use std::path::PathBuf;
use std::time::Duration;

use tidegate::location::Location;
use tidegate::{Strategy, TidegateBuilder};
use tidegate_transfer::{OpenedFile, is_stream};
use tokio::io::AsyncRead;

use super::{CopyArguments, CopyEnd, CopyMethod, CopySource, Stdin, StdinWait};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::output;
use crate::pending_files::{PendingFile, PendingLine};
use crate::stores::Stores;

/// Where a pending upload goes, and how long it lives.
pub(crate) struct Preparation {
    pub(crate) file: PathBuf,
    pub(crate) lifetime: Option<Duration>,
}

impl CopyArguments {
    /// Prepares the upload of the one source.
    pub(crate) async fn prepare(
        self,
        invocation: &Invocation,
        engine: TidegateBuilder,
        method: CopyMethod,
        to: Preparation,
    ) -> Outcome {
        let ends = self.ends(&method.piped)?;
        self.check(&ends, &method)?;
        let usage = |message: &str| Err(CommandFailure::Usage(format!("--prepare: {message}")));
        let ([source], CopyEnd::Place(target), true) =
            (&ends.sources[..], &ends.target, self.is_single(&ends))
        else {
            return usage(
                "it takes one object: one file, or - for standard input, and the URL of its target",
            );
        };
        let is_directory = self.paths.last().is_some_and(|path| path.to_string_lossy().ends_with('/'));
        if is_directory {
            return usage("name the target itself, not the directory or prefix that it goes to");
        }
        if self.dry_run
            || self.if_absent
            || self.spread.given().is_some()
            || method.strategy == Strategy::Journal
        {
            return usage("it does not go with --dry-run, --if-absent, --prefixed or a journal");
        }
        let files: tidegate_transfer::FileOptions = self.files.into();
        if files.preserve {
            return usage("it does not go with --preserve");
        }
        let attributes = self.carried.clone().attributes()?;
        Stores::with(invocation, engine, async |stores| {
            let place = stores.object(target).await?;
            let mut file = PendingFile::create(&to.file)?;
            let builder =
                place.store.writer(&place.key).strategy(method.strategy).attributes(attributes.clone());
            let builder = if self.create_only { builder.create_only() } else { builder };
            let builder = match method.expect_size {
                Some(bytes) => builder.exact_size(bytes),
                None => builder,
            };
            let mut writer = builder.await?;
            let begun = stores.unfinished().begin(false);
            let (mut input, file_before) = open(stores, source).await?;
            let read = writer.read_from(&mut input).await?;
            if let Some(before) = file_before {
                before.check_unchanged(read)?;
            }
            let builder = writer.prepare();
            let builder = match to.lifetime {
                Some(lifetime) => builder.lifetime(lifetime),
                None => builder,
            };
            let pending = builder.await?;
            drop(begun);
            if let Err(failure) = file.write(&pending) {
                // Nobody would know of it.
                place.store.abandon(&pending).await?;
                return Err(failure);
            }
            if let Some(warning) = pending.warning() {
                output::warn(warning);
            }
            let mut out = output::text(invocation.format())?;
            out.print(&PendingLine::prepared(&pending, &to.file.to_string_lossy()))?;
            out.finish().await
        })
        .await
    }
}

type Input = Box<dyn AsyncRead + Unpin + Send>;

/// Opens the source of an upload. A file must not change while it is read.
async fn open(stores: &Stores, source: &CopySource) -> Outcome<(Input, Option<OpenedFile>)> {
    Ok(match source {
        CopySource::Standard => (Box::new(Stdin::open(StdinWait::Here)?), None),
        CopySource::Command(_) => {
            return Err(CommandFailure::Usage("--prepare: it does not go with a command".to_owned()));
        }
        CopySource::Place(source) => match &source.location {
            Location::Local { path } if is_stream(path) => {
                let opened = tokio::fs::File::open(path).await;
                (Box::new(opened.map_err(|error| CommandFailure::of_file(path, &error))?), None)
            }
            Location::Local { path } => {
                let failed = |error| CommandFailure::of_file(path, &error);
                let opened = OpenedFile::open(path).map_err(failed)?;
                (Box::new(opened.source().map_err(failed)?), Some(opened))
            }
            location => {
                let place = stores.object(location).await?;
                (Box::new(place.store.reader(&place.key).await?), None)
            }
        },
    })
}
