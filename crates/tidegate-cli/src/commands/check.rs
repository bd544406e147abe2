//! `tidegate check`: compares two trees and copies nothing.

use std::io::Write;

use futures::StreamExt;
use serde::Serialize;

use crate::compare::{Change, CompareOptions, TreeArguments, Trees};
use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, SourceOptions};
use crate::select::FilterOptions;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::{output, text};

/// Compare everything below SRC with everything below DST, and copy nothing
///
///     tidegate check photos s3://BUCKET/photos
///     tidegate check --checksum s3://BUCKET/tables gs://OTHER/tables
///
/// Prints one line for each key that differs: `missing` (DST lacks it), `extra` (SRC lacks it),
/// `size`, `newer` (SRC is newer), `checksum`, or `unproven` (the two have no checksum or time
/// in common). The exit code is 0 if all keys are the same and 1 if some differ. A listing that
/// fails has the exit code of its cause.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    trees: TreeArguments,

    #[command(flatten)]
    compare: CompareOptions,

    #[command(flatten)]
    filter: FilterOptions,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,

    #[command(flatten)]
    source: SourceOptions,
}

/// A difference as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "difference")]
struct FoundDifference<'a> {
    /// The key below both trees.
    key: &'a str,
    difference: &'static str,
    /// The object of the source, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The object of the target, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl CheckArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let (source, target) = self.trees.locations()?;
        let filter = self.filter.clone().filter()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            self.source.reach(stores, &self.connection, &[&source], false)?;
            self.spread.open(stores, &[&source, &target]).await?;
            let trees = Trees::open(stores, &source, &target, self.compare, filter.clone()).await?;
            self.check(&trees, invocation).await
        })
        .await
    }

    async fn check(&self, trees: &Trees, invocation: &Invocation) -> Outcome {
        let mut out = output::text(invocation.format())?;
        let mut changes = std::pin::pin!(trees.changes());
        let (mut compared, mut different, mut failed) = (0_u64, 0_u64, None);
        while let Some(change) = changes.next().await {
            let change = match change {
                Ok(change) => change,
                Err(failure) => {
                    failed.replace(failure).iter().for_each(output::fail);
                    continue;
                }
            };
            let (key, difference) = match &change {
                Change::LeftOut(what) => {
                    output::warn(&format!("left out: {what}"));
                    continue;
                }
                Change::None => (None, ""),
                Change::Add(object) | Change::Taken(object, _) => (Some(&object.key), "missing"),
                Change::Replace(object, how) => (Some(&object.key), how.name()),
                Change::Remove(object) => (Some(&object.key), "extra"),
            };
            compared += 1;
            let Some(key) = key else { continue };
            different += 1;
            if out.is_json() {
                let source = (difference != "extra").then(|| trees.source.place(key).url());
                let target = (difference != "missing").then(|| trees.target.place(key).url());
                out.json(&FoundDifference { key, difference, source, target })?;
            } else {
                writeln!(out, "{difference:8}  {key}")?;
            }
            out.flow().await?;
        }
        out.finish().await?;
        trees.skipped_line().iter().for_each(|line| output::say(line));
        trees.incomparable_line().iter().for_each(|line| output::warn(line));
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
