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
            let described = Described::of(&store);
            let mut out = output::text()?;
            if self.json {
                serde_json::to_writer(&mut out, &described).map_err(std::io::Error::from)?;
                writeln!(out)?;
            } else if self.keys.is_empty() {
                writeln!(out, "{}", described.line())?;
            }
            for key in &self.keys {
                writeln!(out, "{}/{}", store.location(), store.place(key))?;
            }
            Ok(out.flush()?)
        })
        .await
    }
}
