//! `tidegate prefix show`: shows the layout of a root.

use serde::Serialize;
use tidegate::prefix::PrefixedStore;

use super::{DescribedLayout, root};
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output;
use crate::stores::Stores;
use crate::ui::lines::OutputLine;

/// Show how the keys below a root are spread, or where given keys are
///
///     tidegate prefix show s3://BUCKET/tables
///     tidegate prefix show s3://BUCKET/tables 2026/t.parquet
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PrefixShow {
    /// A bucket or prefix.
    #[arg(value_name = "ROOT")]
    root: String,

    /// Keys, without the root. For each, print the URL that it is written to.
    #[arg(value_name = "KEY")]
    keys: Vec<String>,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Where the object of a key is.
#[derive(Serialize)]
#[serde(tag = "type", rename = "place")]
struct KeyPlace<'a> {
    key: &'a str,
    url: String,
}

impl OutputLine for KeyPlace<'_> {
    fn text(&self) -> String {
        self.url.clone()
    }
}

impl PrefixShow {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let store = PrefixedStore::open(&root(stores, &self.root).await?).await?;
            let mut out = output::text(invocation.format())?;
            if self.keys.is_empty() {
                out.print(&DescribedLayout::of(&store))?;
            }
            for key in &self.keys {
                let url = format!("{}/{}", store.location(), store.place(key));
                out.print(&KeyPlace { key, url })?;
                out.flow().await?;
            }
            out.finish().await
        })
        .await
    }
}
