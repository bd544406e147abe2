//! `tidegate check`: compares two trees and copies nothing.

use std::io::Write;

use futures::StreamExt;
use serde::Serialize;

use tidegate_transfer::{CheckTrees, Event, Run};

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::{ConnectionOptions, SourceOptions};
use crate::select::FilterOptions;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::tree_options::{CompareOptions, TreeArguments};
use crate::{output, text, ui};

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
            let check = CheckTrees::new(
                stores.source().whole_tree(&source).await?,
                stores.whole_tree(&target).await?,
            )
            .compare(self.compare.into())
            .files(self.compare.files.into())
            .filter(filter.clone());
            show(check.start().without_task(), invocation).await
        })
        .await
    }
}

/// Prints each difference, and at the end how many there are.
async fn show(mut run: Run, invocation: &Invocation) -> Outcome {
    let mut out = output::text(invocation.format())?;
    while let Some(event) = run.next().await {
        let Event::Differs { key, difference, source, target } = event else {
            ui::tell(event);
            continue;
        };
        let difference = difference.name();
        if out.is_json() {
            out.json(&FoundDifference { key: &key, difference, source, target })?;
        } else {
            // The object whose key is the prefix has no name of its own.
            let name = if key.is_empty() { source.or(target).unwrap_or_default() } else { key };
            writeln!(out, "{difference:8}  {name}")?;
        }
        out.flow().await?;
    }
    out.finish().await?;
    let (report, result) = run.into_parts();
    result?;
    let compared = text::count(report.compared, "object");
    match report.different {
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
