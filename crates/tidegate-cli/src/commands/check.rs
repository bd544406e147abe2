//! `tidegate check`: compares two trees and copies nothing.

use std::io::Write;

use futures::StreamExt;
use serde::Serialize;
use tidegate::checksum::Algorithm;

use crate::compare::{Change, CompareOptions, TreeArguments, Trees};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, SourceOptions};
use crate::removal::say;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::{output, text};

/// Compare everything below SRC with everything below DST, and copy nothing.
///
/// Prints one line for each key that differs: `missing` (DST lacks it), `extra` (SRC lacks it), `size`, `newer` (SRC is
/// newer), `checksum`, or `unproven` (the two have no checksum or time in common). The exit code is 0 if all keys are
/// the same and 1 if some differ. A listing that fails has the exit code of its cause.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    trees: TreeArguments,

    #[command(flatten)]
    compare: CompareOptions,

    /// Print one JSON object per difference.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,

    #[command(flatten)]
    source: SourceOptions,
}

/// A line of `--json`.
#[derive(Serialize)]
struct FoundDifference<'a> {
    key: &'a str,
    difference: &'static str,
}

impl CheckArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let (source, target) = self.trees.locations()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let algorithm = Algorithm::default();
            self.source.reach(stores, &self.connection, algorithm, &[&source], Some(&target))?;
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
