//! `tidegate prefix`: manages keys that are spread over prefixes.

use serde::Serialize;
use tidegate::Store;
use tidegate::prefix::{Layout, PrefixedStore};

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::spread;
use crate::stores::Stores;
use crate::ui::lines::OutputLine;

mod init;
mod migrate;
mod show;

/// Spread keys over prefixes, for stores that limit the requests to each prefix
///
///     tidegate prefix init s3://BUCKET/tables --count 64
///     tidegate ls -r s3://BUCKET/tables/ --prefixed s3://BUCKET/tables
///     tidegate prefix show s3://BUCKET/tables t.parquet
///
/// Objects below the root are then written and read with --prefixed ROOT.
#[derive(Debug, clap::Subcommand)]
#[command(verbatim_doc_comment)]
pub(crate) enum PrefixCommand {
    Show(show::PrefixShow),
    Init(init::PrefixInit),
    Migrate(migrate::PrefixMigrate),
}

impl PrefixCommand {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        match self {
            Self::Show(args) => args.run(invocation).await,
            Self::Init(args) => args.run(invocation).await,
            Self::Migrate(args) => args.run(invocation).await,
        }
    }
}

/// A layout. Its serialized form is the JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "layout")]
struct DescribedLayout {
    url: String,
    #[serde(flatten)]
    layout: Layout,
    /// The layout before, while objects are still to be moved or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    older: Option<Layout>,
    /// What this migration has done.
    #[serde(flatten)]
    done: Option<migrate::MigrationFigures>,
}

impl DescribedLayout {
    fn of(store: &PrefixedStore) -> Self {
        Self { url: store.location(), layout: store.layout(), older: store.older(), done: None }
    }
}

impl OutputLine for DescribedLayout {
    fn text(&self) -> String {
        let Self { url, layout, older, .. } = self;
        let keys = format!("{url}: keys are spread over {layout}");
        match older {
            None => keys,
            Some(older) => format!("{keys}; not all is moved from {older}: run `tidegate prefix migrate`"),
        }
    }
}

/// Opens the store of a root.
async fn root(stores: &Stores, text: &str) -> Outcome<Store> {
    stores.root(&spread::root(text)?).await
}
