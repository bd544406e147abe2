//! `tidegate sync`: makes one tree like another.

use tidegate::checksum::Algorithm;
use tidegate::location::Location;
use tidegate_transfer::{Extra, SyncTrees};

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::runtime::open_files;
use crate::select::FilterOptions;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::transfer::choices::Carried;
use crate::transfer::options::TransferOptions;
use crate::tree_options::{CompareOptions, DistinctOption, TreeArguments};
use crate::ui::lines::ObjectLines;
use crate::ui::report::{CopyDisplay, CopyReport};
use crate::{output, text};

/// Copy what is new or has changed below SRC to DST: up, down, or between stores
///
///     tidegate sync photos s3://BUCKET/photos
///     tidegate sync --delete --dry-run s3://BUCKET/site ./site
///     tidegate sync s3://BUCKET/tables gs://OTHER/tables
///
/// Both names stand for everything below them. An object is copied if DST has none of its name,
/// if the sizes differ, or if the source is newer. Downloaded files get the times of their
/// objects, so an unchanged tree takes no requests beyond the listings. Use --checksum if the
/// clocks of this machine and the store differ.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SyncArgs {
    #[command(flatten)]
    trees: TreeArguments,

    /// Remove from DST what SRC does not have, after all copies. What is in the way of a copy goes right before it.
    /// Nothing is removed if anything could not be listed, read or copied.
    #[arg(long)]
    delete: bool,

    /// With --delete, remove nothing if more than N objects would be removed.
    #[arg(long, requires = "delete", value_name = "N")]
    max_delete: Option<u64>,

    /// With --delete, remove everything below DST if SRC is empty. Without this, an empty source removes nothing.
    #[arg(long, requires = "delete")]
    delete_all: bool,

    /// Print what would be copied and removed, and change nothing.
    #[arg(long, alias = "dryrun")]
    dry_run: bool,

    /// Force downloaded files to disk before the command ends. They, and their names, then survive a loss of power.
    #[arg(long)]
    fsync: bool,

    #[command(flatten)]
    compare: CompareOptions,

    #[command(flatten)]
    filter: FilterOptions,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    distinct: DistinctOption,

    #[command(flatten)]
    carried: Carried,

    #[command(flatten)]
    transfer: TransferOptions,
}

impl SyncArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let (source, target) = self.trees.locations()?;
        let filter = self.filter.clone().filter()?;
        let attributes = self.carried.clone().attributes()?;
        let show = match self.dry_run {
            true => CopyDisplay::Nothing,
            false => self.transfer.display(invocation, false),
        };
        let extra = match (self.delete, self.delete_all) {
            (false, _) => Extra::Keep,
            (true, false) => Extra::Remove,
            (true, true) => Extra::RemoveAll,
        };
        Stores::with(invocation, self.transfer.engine(Algorithm::default()), async |stores| {
            self.transfer.reach_source(stores, &[&source], false)?;
            self.spread.open(stores, &[&source, &target]).await?;
            let sync =
                SyncTrees::new(stores.source().whole_tree(&source).await?, stores.whole_tree(&target).await?)
                    .delete(extra)
                    .max_delete(self.max_delete)
                    .dry_run(self.dry_run)
                    .distinct(self.distinct.into())
                    .compare(self.compare.into())
                    .files(self.compare.files.into())
                    .filter(filter.clone())
                    .attributes(attributes.clone())
                    .fsync(self.fsync)
                    .two_accounts(stores.has_source())
                    .verify(matches!(target, Location::Dev { .. }))
                    .open_files(open_files());
            let lines = if self.dry_run { ObjectLines::of_dry_run } else { ObjectLines::of };
            let mut report = CopyReport::new(show, lines(invocation)?, stores);
            let mut run = sync.start().without_task();
            report.show(&mut run).await?;
            let (unchanged, removed) = run.counts();
            let ended = report.ended(run);
            report.close(ended).await?;
            if !self.dry_run && (show != CopyDisplay::Nothing || invocation.is_json()) {
                let unchanged = text::count(unchanged, "object");
                let removed = if self.delete { format!(", {removed} removed") } else { String::new() };
                output::say(&format!("{unchanged} unchanged{removed}"));
            }
            Ok(())
        })
        .await
    }
}
