//! `tidegate prefix show`.

use std::io::Write;

use tidegate::PrefixedStore;

use super::{Described, root};
use crate::exit::Outcome;
use crate::options::Connection;
use crate::output;
use crate::stores::Stores;

/// Say how the keys below a root are spread; with keys, where each of them is.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// A bucket or prefix.
    #[arg(value_name = "ROOT")]
    root: String,

    /// Keys, without the root: the URL of each is printed, where it is written.
    #[arg(value_name = "KEY")]
    keys: Vec<String>,

    /// Print one JSON object.
    #[arg(long, conflicts_with = "keys")]
    json: bool,

    #[command(flatten)]
    connection: Connection,
}

impl Show {
    pub(super) async fn run(self) -> Outcome {
        Stores::with_defaults(&self.connection, async |stores| {
            let store = PrefixedStore::open(&root(stores, &self.root).await?).await?;
            let mut out = output::text()?;
            if self.keys.is_empty() {
                Described::of(&store).print(&mut out, self.json)?;
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
