//! `tidegate cat`: writes objects, or a range of each, to standard output.

use futures::TryStreamExt;
use tidegate::Tidegate;
use tidegate::location::Location;
use tidegate::settings::Concurrency;

use crate::exit::Outcome;
use crate::options::ConnectionOptions;
use crate::output::ByteOutput;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::values::{self, ByteRange};

/// Write objects to standard output, one after another.
#[derive(Debug, clap::Args)]
pub(crate) struct CatArgs {
    /// Objects to write: s3://BUCKET/KEY, gs://BUCKET/KEY, dev://BUCKET/KEY or a path.
    #[arg(required = true, value_name = "URL")]
    objects: Vec<String>,

    /// Write only these bytes of each object. FIRST and LAST count from 0, and LAST is included; without LAST, to the
    /// end. For example 0-1023.
    #[arg(long, value_name = "FIRST-[LAST]")]
    range: Option<ByteRange>,

    /// Hold at most this many bytes in buffers.
    #[arg(long, default_value = "256MiB", value_parser = values::memory, value_name = "SIZE")]
    memory: u64,

    /// Allow this many requests in flight: a number, or auto to adapt.
    #[arg(long, default_value = "auto", value_parser = values::concurrency, value_name = "N")]
    concurrency: Concurrency,

    /// Read at most this many bytes a second, such as 50MB/s.
    #[arg(long, value_parser = values::rate_above_zero, value_name = "RATE")]
    bandwidth: Option<u64>,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl CatArgs {
    pub(crate) async fn run(self) -> Outcome {
        let objects: Vec<Location> =
            self.objects.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let engine = Tidegate::builder().memory(self.memory).concurrency(self.concurrency);
        let engine = match self.bandwidth {
            Some(bytes_per_second) => engine.bandwidth(bytes_per_second),
            None => engine,
        };
        Stores::with(self.connection.reached(engine), async |stores| {
            self.spread.open(stores, &objects.iter().collect::<Vec<_>>()).await?;
            let mut output = ByteOutput::stdout()?;
            let written = show(stores, &objects, self.range, &mut output).await;
            // Bytes that were read before an error are written all the same.
            output.finish().await?;
            written
        })
        .await
    }
}

async fn show(
    stores: &Stores,
    objects: &[Location],
    range: Option<ByteRange>,
    output: &mut ByteOutput,
) -> Outcome {
    for location in objects {
        let place = stores.object(location).await?;
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
    }
    Ok(())
}
