//! `cp --prepare`: uploads one source, publishes nothing, and writes the pending upload to a file.

use std::path::PathBuf;
use std::time::Duration;

use tidegate::location::Location;
use tidegate::{Store, Strategy, TidegateBuilder};
use tidegate_transfer::{PreparedSource, Source, prepare};

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
            let writer = builder.await?;
            let begun = stores.unfinished().begin(false);
            let from = match source {
                CopySource::Place(source) if !matches!(source.location, Location::Local { .. }) => {
                    Some(stores.object(&source.location).await?)
                }
                _ => None,
            };
            let from = from.as_ref().map(|place| (&place.store, place.key.clone()));
            let pending = prepare(writer, read_from(source, from)?, to.lifetime).await?;
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

/// What is read: `object` is the source's, if it is one.
fn read_from<'a>(source: &CopySource, object: Option<(&'a Store, String)>) -> Outcome<PreparedSource<'a>> {
    match (source, object) {
        (_, Some((store, key))) => Ok(PreparedSource::Object(store, key)),
        (CopySource::Standard, _) => Ok(PreparedSource::Reader(Box::new(Stdin::open(StdinWait::Here)?))),
        (CopySource::Place(Source { location: Location::Local { path }, .. }), _) => {
            Ok(PreparedSource::File(path.clone()))
        }
        _ => Err(CommandFailure::Usage("--prepare: it does not go with a command".to_owned())),
    }
}
