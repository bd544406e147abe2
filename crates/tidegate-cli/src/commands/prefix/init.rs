//! `tidegate prefix init`.

use tidegate::{Layout, Naming, PrefixedStore};

use super::{Described, root};
use crate::exit::Outcome;
use crate::options::Connection;
use crate::output;
use crate::stores::Stores;

/// Record in the store how the keys below a root are spread.
///
/// Nothing else is changed: objects that are where the layout has them already can be read from here on,
/// others can't. Where the same layout is recorded there is nothing to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// A bucket or prefix.
    #[arg(value_name = "ROOT")]
    root: String,

    /// How many prefixes, from 1 to 1048576. A listing makes at least one request for each.
    #[arg(long, value_name = "N")]
    count: u32,

    /// How they are named: base2 (the first bits of the key's SHA-256; the count is a power of two), decimal
    /// (crc32(key) modulo the count), or decimal-id (the same of the number in the key's last segment).
    #[arg(long, default_value = "base2", value_name = "NAMES")]
    naming: Naming,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: Connection,
}

impl Init {
    pub(super) async fn run(self) -> Outcome {
        let layout = Layout::new(self.naming, self.count)?;
        Stores::with_defaults(&self.connection, async |stores| {
            let store = PrefixedStore::init(&root(stores, &self.root).await?, layout).await?;
            let mut out = output::text()?;
            Described::of(&store).print(&mut out, self.json)?;
            out.finish().await
        })
        .await
    }
}
