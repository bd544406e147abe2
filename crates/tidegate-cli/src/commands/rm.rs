//! `tidegate rm`: removes objects.

use futures::{StreamExt, TryStreamExt};
use tidegate::backend::Entry;
use tidegate::{Location, Store};

use crate::exit::{Failure, Outcome};
use crate::options::Connection;
use crate::spread::Spread;
use crate::stores::Stores;
use crate::{listing, output, text};

/// Removals on their way at once.
const IN_FLIGHT: usize = 64;

/// Remove objects; that one is not there is no error.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The objects, or with -r what everything to remove lies below.
    #[arg(required = true, value_name = "URL")]
    objects: Vec<String>,

    /// Remove everything below URL/.
    #[arg(short, long)]
    recursive: bool,

    #[command(flatten)]
    spread: Spread,

    #[command(flatten)]
    connection: Connection,
}

impl Args {
    pub(crate) async fn run(self) -> Outcome {
        let locations: Vec<Location> =
            self.objects.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        if !self.recursive {
            locations.iter().try_for_each(refuse_trees)?;
        }
        Stores::with_defaults(&self.connection, async |stores| {
            self.spread.open(stores, &locations.iter().collect::<Vec<_>>()).await?;
            for location in &locations {
                if self.recursive {
                    let (store, prefix) = stores.tree(location).await?;
                    let removed = remove_below(&store, &prefix, location).await?;
                    output::say(&format!("removed {} below {location}", text::count(removed, "object")));
                } else {
                    let place = stores.object(location).await?;
                    place.store.delete(&place.key).await?;
                }
            }
            Ok(())
        })
        .await
    }
}

/// A bucket, a prefix or a directory is removed with -r only.
fn refuse_trees(location: &Location) -> Outcome {
    let is_tree = match location {
        Location::S3 { key, .. }
        | Location::Gcs { key, .. }
        | Location::Dev { key, .. }
        | Location::Memory { key, .. } => key.is_empty() || key.ends_with('/'),
        Location::Local { path } => path.is_dir(),
        _ => false,
    };
    if is_tree {
        let message = format!("{location}: this is no object: add -r to remove all that lies below");
        return Err(Failure::Usage(message));
    }
    Ok(())
}

async fn remove_below(store: &Store, prefix: &str, location: &Location) -> Outcome<u64> {
    let keys = listing::ahead(store.list(prefix, true)).try_filter_map(async |entry| {
        Ok(match entry {
            Entry::Object(object) => Some(object.key),
            _ => None,
        })
    });
    let removals = keys.map(|key| async { store.delete(&key?).await });
    let mut removals = std::pin::pin!(removals.buffer_unordered(IN_FLIGHT));
    let mut removed = 0;
    while let Some(removal) = removals.next().await {
        if let Err(error) = removal {
            output::say(&format!("removed {} below {location}", text::count(removed, "object")));
            return Err(error.into());
        }
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_need_r() {
        for tree in ["s3://bucket", "s3://bucket/", "s3://bucket/logs/", "dev://demo/a/", "."] {
            let location = tree.parse().unwrap();
            assert!(refuse_trees(&location).is_err(), "{tree}");
        }
        assert!(refuse_trees(&"s3://bucket/logs".parse().unwrap()).is_ok());
    }
}
