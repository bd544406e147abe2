//! `tidegate cat`: writes objects, or a range of each, to standard output.

use std::ffi::OsString;

use futures::TryStreamExt;
use tidegate::Tidegate;
use tidegate::backend::Entry;
use tidegate::settings::Concurrency;

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output::ByteOutput;
use tidegate_transfer::{ObjectFilter, Place, Source};

use crate::select::PatternOption;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::values::{self, ByteRange};

/// The heading of options in the help.
const TRANSFER: &str = "How objects are transferred";

/// Write objects to standard output, one after another
///
///     tidegate cat s3://BUCKET/KEY | less
///     tidegate cat s3://BUCKET/KEY --range 0-1023
///     tidegate cat 's3://BUCKET/logs/2026-11-*.gz' | zcat
///
/// What matches a pattern is written in the order of the keys.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CatArgs {
    /// Objects to write, or patterns of them. An object is s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY,
    /// dev://BUCKET/KEY or a path.
    #[arg(required = true, value_name = "URL")]
    objects: Vec<OsString>,

    /// Write only these bytes of each object, for example 0-1023. FIRST and LAST count from 0, and LAST is included.
    /// Without LAST, all bytes from FIRST on are written.
    #[arg(long, value_name = "FIRST-[LAST]")]
    range: Option<ByteRange>,

    /// Hold at most this many bytes in buffers.
    #[arg(long, default_value = "256MiB", value_parser = values::memory, value_name = "SIZE", help_heading = TRANSFER)]
    memory: u64,

    /// Allow this many requests in flight. With auto, the number adapts.
    #[arg(long, default_value = "auto", value_parser = values::concurrency, value_name = "N", help_heading = TRANSFER)]
    concurrency: Concurrency,

    /// Read at most this many bytes a second, such as 50MB/s.
    #[arg(long, value_parser = values::rate_above_zero, value_name = "RATE", help_heading = TRANSFER)]
    bandwidth: Option<u64>,

    #[command(flatten)]
    pattern: PatternOption,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl CatArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        invocation.refuse_json("the objects themselves")?;
        let parse = |text: &OsString| self.pattern.parse(text, false);
        let sources: Vec<Source> = self.objects.iter().map(parse).collect::<Result<_, _>>()?;
        let engine = Tidegate::builder().memory(self.memory).concurrency(self.concurrency);
        let engine = match self.bandwidth {
            Some(bytes_per_second) => engine.bandwidth(bytes_per_second),
            None => engine,
        };
        Stores::with(invocation, self.connection.reached(engine), async |stores| {
            let locations: Vec<_> = sources.iter().map(|source| &source.location).collect();
            self.spread.open(stores, &locations).await?;
            let mut output = ByteOutput::stdout()?;
            let written = show(stores, &sources, self.range, &mut output).await;
            // Bytes that were read before an error are written all the same.
            output.finish().await?;
            written
        })
        .await
    }
}

async fn show(
    stores: &Stores,
    sources: &[Source],
    range: Option<ByteRange>,
    output: &mut ByteOutput,
) -> Outcome {
    for source in sources {
        if source.pattern.is_none() {
            show_one(&stores.object(&source.location).await?, range, output).await?;
            continue;
        }
        let (store, prefix) = stores.tree(&source.location).await?;
        let mut entries = source.selection(&ObjectFilter::default()).list(&store, &prefix);
        let mut is_empty = true;
        while let Some(entry) = entries.try_next().await? {
            if let Entry::Object(object) = entry {
                is_empty = false;
                let place = Place::named(store.clone(), object.key);
                show_one(&place, range, output).await?;
            }
        }
        if is_empty {
            return Err(source.no_match().into());
        }
    }
    Ok(())
}

async fn show_one(place: &Place, range: Option<ByteRange>, output: &mut ByteOutput) -> Outcome {
    let reader = place.store.reader(&place.key);
    let reader = match range {
        Some(ByteRange { first, last: Some(last) }) => reader.range(first..=last),
        Some(ByteRange { first, last: None }) => reader.range(first..),
        None => reader,
    };
    let mut reader = reader.await?;
    while let Some(piece) = reader.try_next().await? {
        output.write(piece).await?;
    }
    Ok(())
}
