//! `tidegate prefix show`: shows the layout of a root.

use std::io::Write;

use tidegate::prefix::PrefixedStore;

use super::{DescribedLayout, root};
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output;
use crate::stores::Stores;

/// Show how the keys below a root are spread, or where given keys are.
#[derive(Debug, clap::Args)]
pub(crate) struct PrefixShow {
    /// A bucket or prefix.
    #[arg(value_name = "ROOT")]
    root: String,

    /// Keys, without the root. For each, print the URL that it is written to.
    #[arg(value_name = "KEY")]
    keys: Vec<String>,

    /// Print one JSON object.
    #[arg(long, conflicts_with = "keys")]
    json: bool,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl PrefixShow {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let store = PrefixedStore::open(&root(stores, &self.root).await?).await?;
            let mut out = output::text()?;
            if self.keys.is_empty() {
                DescribedLayout::of(&store).print(&mut out, self.json)?;
            }
            for key in &self.keys {
                writeln!(out, "{}/{}", store.location(), store.place(key))?;
                out.flow().await?;
            }
            out.finish().await
        })
        .await
    }
}
