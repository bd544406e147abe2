//! `--prefixed`: a root whose keys are spread over prefixes.

use tidegate::location::Location;
use tidegate::prefix::PrefixedStore;

use crate::exit::{CommandFailure, Outcome};
use crate::stores::Stores;

/// The option `--prefixed`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct PrefixedOption {
    /// Find keys below ROOT where `tidegate prefix` has spread them. ROOT is a bucket or prefix that `tidegate prefix
    /// init` has set up. Write URLs as if the keys were not spread.
    #[arg(long, value_name = "ROOT")]
    prefixed: Option<String>,
}

/// An open root whose keys are spread over prefixes.
#[derive(Debug)]
pub(crate) struct PrefixedRoot {
    location: Location,
    store: PrefixedStore,
}

impl PrefixedOption {
    /// Opens the root, if one is given. At least one of the command's `locations` must be below it. From here on,
    /// `stores` finds objects below the root where its layout puts them.
    pub(crate) async fn open(&self, stores: &Stores, locations: &[&Location]) -> Outcome {
        let Some(text) = &self.prefixed else { return Ok(()) };
        let location = root(text)?;
        if !locations.iter().any(|given| key_below(&location, given).is_some()) {
            return Err(CommandFailure::Usage(format!(
                "--prefixed {text}: nothing that is named lies below it"
            )));
        }
        let store = PrefixedStore::open(&stores.root(&location).await?).await?;
        stores.spread(PrefixedRoot { location, store });
        Ok(())
    }

    /// The root as the user wrote it.
    pub(crate) fn given(&self) -> Option<&str> {
        self.prefixed.as_deref()
    }
}

impl PrefixedRoot {
    /// The store and the key of a location below the root; `None` for other locations.
    pub(crate) fn find(&self, location: &Location) -> Option<(tidegate::Store, String)> {
        Some((self.store.store().clone(), key_below(&self.location, location)?))
    }
}

/// Parses a root: a bucket, or a prefix in it.
pub(crate) fn root(text: &str) -> Outcome<Location> {
    let location: Location = text.parse()?;
    if matches!(location, Location::Local { .. }) {
        let message =
            format!("{text}: keys are spread in stores: a directory takes as many requests as there are");
        return Err(CommandFailure::Usage(message));
    }
    Ok(location)
}

/// The key of `location` below `root`, without the slash between them; `None` if it is not below.
fn key_below(given: &Location, location: &Location) -> Option<String> {
    let (root_scheme, root_bucket, root) = given.in_store()?;
    let (scheme, bucket, key) = location.in_store()?;
    if (root_scheme, root_bucket, given.profile()) != (scheme, bucket, location.profile()) {
        return None;
    }
    let root = root.strip_suffix('/').unwrap_or(root);
    match key.strip_prefix(root)? {
        rest if root.is_empty() => Some(rest.to_owned()),
        "" => Some(String::new()),
        rest => rest.strip_prefix('/').map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_root_is_found_by_its_key() {
        let key = |root: &str, location: &str| key_below(&root.parse().unwrap(), &location.parse().unwrap());
        assert_eq!(key("s3://bucket/t", "s3://bucket/t/a/b").as_deref(), Some("a/b"));
        assert_eq!(key("s3://bucket/t/", "s3://bucket/t/a/").as_deref(), Some("a/"));
        assert_eq!(key("s3://bucket/t/", "s3://bucket/t").as_deref(), Some(""));
        assert_eq!(key("s3://bucket", "s3://bucket/t").as_deref(), Some("t"));
        assert_eq!(key("s3://a@bucket/t", "s3://a@bucket/t/x").as_deref(), Some("x"));
        for other in [
            "s3://bucket/table",
            "s3://a@bucket/t/x",
            "s3://other/t/a",
            "gs://bucket/t/a",
            "dev://bucket/t/a",
            "t/a",
        ] {
            assert_eq!(key("s3://bucket/t", other), None, "{other}");
        }
    }

    #[test]
    fn directories_are_no_roots() {
        assert!(root("s3://bucket/t").is_ok());
        assert!(root("out/").is_err());
    }
}
