//! `tidegate prefix migrate`: moves objects to another layout.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tidegate::prefix::{Layout, Migrated, Naming, PrefixedStore};

use super::{DescribedLayout, root};
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::stores::Stores;
use crate::{output, text};

/// Move the objects below a root to another layout, or resume such a move
///
///     tidegate prefix migrate s3://BUCKET/tables --count 256
///
/// The migration can run beside readers and writers, be interrupted at any point, and be run
/// again. All objects can be read meanwhile.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PrefixMigrate {
    /// A bucket or prefix.
    #[arg(value_name = "ROOT")]
    root: String,

    /// Spread keys over this many prefixes from now on. Default: as recorded.
    #[arg(long, value_name = "N")]
    count: Option<u32>,

    /// Name the prefixes by this scheme from now on: base2, decimal or decimal-id. Default: as recorded.
    #[arg(long, value_name = "NAMES")]
    naming: Option<Naming>,

    /// Record the new layout without moving objects. Objects are written by it from now on.
    #[arg(long, conflicts_with = "now")]
    later: bool,

    /// Skip the three waits of one minute each. They give every client time to see the record, so skip them only if
    /// nobody else uses or migrates the root.
    #[arg(long)]
    now: bool,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// What a migration has done; the names are those of `--json`.
#[derive(Serialize)]
pub(super) struct MigrationFigures {
    moved: u64,
    bytes: u64,
    removed: u64,
}

impl PrefixMigrate {
    pub(super) async fn run(self, invocation: &Invocation) -> Outcome {
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let store = PrefixedStore::open(&root(stores, &self.root).await?).await?;
            let naming = self.naming.unwrap_or(store.layout().naming());
            let layout = Layout::new(naming, self.count.unwrap_or(store.layout().count()))?;
            store.change(layout).await?;
            let migrated = if self.later { Migrated::default() } else { self.migrate(&store).await? };
            let Migrated { moved, bytes, removed, .. } = migrated;
            let mut out = output::text(invocation.format())?;
            if !self.later && !out.is_json() {
                let (objects, size) = (text::count(moved, "object"), text::size(bytes));
                writeln!(out, "moved {objects} ({size}), and removed {removed} where they were before")?;
            }
            let done = Some(MigrationFigures { moved, bytes, removed });
            out.print(&DescribedLayout { done, ..DescribedLayout::of(&store) })?;
            out.finish().await
        })
        .await
    }

    async fn migrate(&self, store: &PrefixedStore) -> Outcome<Migrated> {
        let notice = if self.now { Duration::ZERO } else { 2 * PrefixedStore::REFRESH };
        if store.older().is_some() && !self.now {
            let (store, seconds) = (store.location(), notice.as_secs());
            output::say(&format!(
                "{store}: waiting {seconds} s before objects are copied, again before the old ones are removed, and \
                 once more at the end, until all clients know"
            ));
        }
        Ok(store.migrate(notice).await?)
    }
}
