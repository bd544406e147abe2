//! `tidegate prefix init`: sets up a root.

use tidegate::prefix::{Layout, Naming, PrefixedStore};

use super::{DescribedLayout, root};
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output;
use crate::stores::Stores;

/// Record in the store how the keys below a root are spread
///
///     tidegate prefix init s3://BUCKET/tables --count 64
///
/// Nothing else changes. Objects that exist can be read from now on only if they are already
/// where the layout puts them. If the same layout is already recorded, nothing is done.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PrefixInit {
    /// A bucket or prefix.
    #[arg(value_name = "ROOT")]
    root: String,

    /// Spread keys over this many prefixes, from 1 to 1048576. A listing makes at least one request for each.
    #[arg(long, value_name = "N")]
    count: u32,

    /// Name the prefixes by this scheme: base2, decimal or decimal-id. base2 takes the first bits of the key's SHA-256,
    /// and the count is a power of two; decimal takes crc32(key) modulo the count; decimal-id takes crc32 of the number
    /// that begins the key's last segment, modulo the count.
    #[arg(long, default_value = "base2", value_name = "NAMES")]
    naming: Naming,

    #[command(flatten)]
    connection: ConnectionOptions,
}

impl PrefixInit {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        let layout = Layout::new(self.naming, self.count)?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let store = PrefixedStore::init(&root(stores, &self.root).await?, layout).await?;
            let mut out = output::text(invocation.format())?;
            out.print(&DescribedLayout::of(&store))?;
            out.finish().await
        })
        .await
    }
}
