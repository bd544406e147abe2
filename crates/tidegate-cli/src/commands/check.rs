//! `tidegate check`: compares two trees and copies nothing.

use std::ffi::OsString;
use std::io::Write;

use futures::StreamExt;
use serde::Serialize;

use super::sync::tree;
use crate::compare::{Change, CompareOptions, Trees};
use crate::exit::{CommandFailure, Outcome};
use crate::options::ConnectionOptions;
use crate::removal::say;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::{output, text};

/// Compare everything below SRC with everything below DST, and copy nothing.
///
/// Prints a line for each difference: `missing` in DST, `extra` in DST, or what differs: size, newer (the source is),
/// checksum, or unproven (there is nothing to compare). Exits with 0 if there is none, with 1 if
/// there is one, and with another code if the trees could not be compared.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Source: a directory, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or dev://BUCKET/PREFIX.
    #[arg(value_name = "SRC")]
    source: OsString,

    /// Target: likewise.
    #[arg(value_name = "DST")]
    target: OsString,

    #[command(flatten)]
    compare: CompareOptions,

    /// Print one JSON object per difference.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// A line of `--json`.
#[derive(Serialize)]
struct FoundDifference<'a> {
    key: &'a str,
    difference: &'static str,
}

impl CheckArgs {
    pub(crate) async fn run(self) -> Outcome {
        let (source, target) = (tree(&self.source)?, tree(&self.target)?);
        Stores::with_defaults(&self.connection, async |stores| {
            self.spread.open(stores, &[&source, &target]).await?;
            let trees = Trees::open(stores, &source, &target, self.compare).await?;
            self.check(&trees).await
        })
        .await
    }

    async fn check(&self, trees: &Trees) -> Outcome {
        let mut out = output::text()?;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut compared, mut different, mut failed) = (0_u64, 0_u64, None);
        while let Some(change) = changes.next().await {
            let change = match change {
                Ok(change) => change,
                Err(failure) => {
                    failed.replace(failure).iter().for_each(say);
                    continue;
                }
            };
            let (key, difference) = match &change {
                Change::LeftOut(what) => {
                    output::say(&format!("left out: {what}"));
                    continue;
                }
                Change::None => (None, ""),
                Change::Add(object) => (Some(&object.key), "missing"),
                Change::Replace(object, how) => (Some(&object.key), how.name()),
                Change::Remove(object) => (Some(&object.key), "extra"),
            };
            compared += 1;
            let Some(key) = key else { continue };
            different += 1;
            if self.json {
                out.json(&FoundDifference { key, difference })?;
            } else {
                writeln!(out, "{difference:8}  {key}")?;
            }
            out.flow().await?;
        }
        out.finish().await?;
        if let Some(failure) = failed {
            return Err(failure);
        }
        let compared = text::count(compared, "object");
        match different {
            0 => {
                output::say(&format!("{compared} compared, no difference"));
                Ok(())
            }
            different => {
                let differences = text::count(different, "difference");
                Err(CommandFailure::Failed(format!("{compared} compared: {differences}")))
            }
        }
    }
}
