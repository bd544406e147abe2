//! `tidegate rm`: removes objects.

use futures::StreamExt;
use tidegate_transfer::{Ends, Event, RemoveTrees, Source};

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::select::{FilterOptions, NamesOption, PatternOption};
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::ui;
use crate::ui::lines::{ObjectLines, RemoveLine};

/// The most failures of one shared cause that are printed.
const ALIKE: u64 = 9;

/// Remove objects
///
///     tidegate rm s3://BUCKET/KEY
///     tidegate rm -r s3://BUCKET/tmp/ --older-than 7d
///     tidegate rm 's3://BUCKET/logs/2025-*.gz' --dry-run
///
/// After a failure, prints an error and continues. A missing object is a failure: each object
/// that is named by its URL is looked up (HEAD) before it is removed, because stores report
/// success for the removal of a missing object. The objects of a list (--files-from) are not
/// looked up: S3 removes 1,000 of them by one request, and one that is missing counts as removed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RmArgs {
    /// Objects to remove, or patterns of them. With -r, everything below each URL. With --files-from, at most one: the
    /// names are those of objects below it.
    #[arg(value_name = "URL", required_unless_present = "files_from")]
    objects: Vec<String>,

    /// Remove everything below URL/.
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,

    /// Print which objects would be removed, one a line, and remove nothing.
    #[arg(long, alias = "dryrun")]
    dry_run: bool,

    #[command(flatten)]
    names: NamesOption,

    #[command(flatten)]
    pattern: PatternOption,

    #[command(flatten)]
    filter: FilterOptions,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl RmArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let parse = |text: &String| self.pattern.parse(text.as_ref(), self.recursive);
        let sources: Vec<Source> = self.objects.iter().map(parse).collect::<Outcome<_>>()?;
        let filter = self.filter.clone().filter()?;
        self.check(&sources)?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let locations: Vec<_> = sources.iter().map(|source| &source.location).collect();
            self.spread.open(stores, &locations).await?;
            let lines = if self.dry_run { ObjectLines::of_dry_run } else { ObjectLines::of };
            let mut lines = lines(invocation)?;
            let remove = match self.names.open().await? {
                Some(names) => RemoveTrees::listed(stores.side(), sources.first().cloned(), names),
                None => RemoveTrees::new(stores.side(), sources.clone()),
            };
            let remove = remove.recursive(self.recursive).dry_run(self.dry_run).filter(filter.clone());
            let mut run = remove.start().without_task();
            let mut alike = 0;
            while let Some(event) = run.next().await {
                match event {
                    Event::Failed(failure) if failure.ends == Ends::SameCause && alike == ALIKE => {}
                    Event::Removed { url } => lines.print(&RemoveLine { url: &url, dry_run: false }).await?,
                    Event::WouldRemove { url } => {
                        lines.print(&RemoveLine { url: &url, dry_run: true }).await?
                    }
                    event => {
                        alike += u64::from(
                            matches!(&event, Event::Failed(failure) if failure.ends == Ends::SameCause),
                        );
                        ui::tell(event);
                    }
                }
            }
            // The lines of objects that were removed before an error are printed all the same.
            lines.finish().await?;
            Ok(run.into_parts().1?)
        })
        .await
    }

    /// Refuses combinations of arguments that make no sense.
    fn check(&self, sources: &[Source]) -> Outcome {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        if self.names.is_given() && sources.len() > 1 {
            return usage(
                "--files-from: it goes with at most one URL, and without -r and patterns".to_owned(),
            );
        }
        let has_single = || sources.iter().any(|source| source.pattern.is_none());
        match self.filter.given() {
            Some(option) if self.names.is_given() => {
                usage(format!("{option}: it does not go with --files-from, which names the objects"))
            }
            Some(option) if !self.recursive && has_single() => {
                usage(format!("{option}: it chooses among many objects: add -r, or use a pattern"))
            }
            _ => Ok(()),
        }
    }
}
