//! `tidegate prefix migrate`.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use tidegate::{Layout, Migrated, Naming, PrefixedStore};

use super::{Described, root};
use crate::exit::Outcome;
use crate::options::Connection;
use crate::stores::Stores;
use crate::{output, text};

/// Move the objects below a root to where another layout has them, or go on with that.
///
/// It may run beside readers and writers, be cut off anywhere, and be called again. No object is out of reach
/// meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Migrate {
    /// A bucket or prefix.
    #[arg(value_name = "ROOT")]
    root: String,

    /// How many prefixes from here on; default: as many as are recorded.
    #[arg(long, value_name = "N")]
    count: Option<u32>,

    /// How they are named from here on: base2, decimal or decimal-id; default: as is recorded.
    #[arg(long, value_name = "NAMES")]
    naming: Option<Naming>,

    /// Only record the new layout, by which objects are written from here on, and move none.
    #[arg(long, conflicts_with = "now")]
    later: bool,

    /// Do not wait a minute, three times, until every client has seen what is recorded: nobody else uses the root,
    /// and nobody else migrates it.
    #[arg(long)]
    now: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: Connection,
}

/// What a migration has done, in `--json`.
#[derive(Serialize)]
pub(super) struct Done {
    moved: u64,
    bytes: u64,
    removed: u64,
}

impl Migrate {
    pub(super) async fn run(self) -> Outcome {
        Stores::with_defaults(&self.connection, async |stores| {
            let store = PrefixedStore::open(&root(stores, &self.root).await?).await?;
            let naming = self.naming.unwrap_or(store.layout().naming());
            let layout = Layout::new(naming, self.count.unwrap_or(store.layout().count()))?;
            store.change(layout).await?;
            let migrated = if self.later { Migrated::default() } else { self.migrate(&store).await? };
            let Migrated { moved, bytes, removed, .. } = migrated;
            let mut out = output::text()?;
            if !self.later && !self.json {
                let (objects, size) = (text::count(moved, "object"), text::size(bytes));
                writeln!(out, "moved {objects} ({size}), and removed {removed} where they were before")?;
            }
            let done = Some(Done { moved, bytes, removed });
            Described { done, ..Described::of(&store) }.print(&mut out, self.json)?;
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
