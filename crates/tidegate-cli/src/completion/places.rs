//! Candidates for the name of a place: the buckets and keys of stores, and local paths.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use futures::{Stream, StreamExt};
use tidegate::backend::Entry;
use tidegate::location::Location;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::{ConnectionOptions, PrefixedOption, options_of};
use crate::dev;
use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::stores::Stores;

/// How long a store is asked: a person waits.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The most names that are proposed: those of one request.
const PAGE: usize = 1000;
const SCHEMES: [&str; 5] = ["s3://", "gs://", "az://", "abfss://", "dev://"];

/// Completes URLs and paths. Stores are reached as the rest of the command line says.
#[derive(Clone, Debug)]
pub(super) struct PlaceCompleter {
    connection: ConnectionOptions,
    spread: PrefixedOption,
    handle: Handle,
}

impl PlaceCompleter {
    pub(super) fn new(words: &[OsString], handle: Handle) -> Self {
        Self { connection: options_of(words), spread: options_of(words), handle }
    }

    /// What a store has that begins with a URL, as far as one request tells in time.
    fn in_store(&self, text: &str) -> Vec<CompletionCandidate> {
        let mut found = Vec::new();
        let until = Instant::now() + PATIENCE;
        let invocation = Invocation::default();
        let asked = Stores::with_defaults(&invocation, &self.connection, async |stores| {
            match timeout_at(until, self.list(stores, text, &mut found)).await {
                Ok(listed) => listed,
                Err(elapsed) => {
                    tracing::debug!(%elapsed, "the store took too long");
                    Ok(())
                }
            }
        });
        if let Err(failure) = self.handle.block_on(asked) {
            tracing::debug!(?failure, "no completion");
        }
        found.into_iter().map(CompletionCandidate::new).collect()
    }

    async fn list(&self, stores: &Stores, text: &str, found: &mut Vec<String>) -> Outcome {
        let Some((scheme, place)) = text.split_once("://") else { return Ok(()) };
        // A server that starts makes the directory.
        if scheme == "dev" && !dev::directory().is_dir() {
            return Ok(());
        }
        if !place.contains('/') {
            let buckets = stores.buckets(scheme).await?.map(|bucket| Ok(bucket?.name));
            let url = |name: String| name.starts_with(place).then(|| format!("{scheme}://{name}/"));
            return add(buckets, url, found).await;
        }
        let location: Location = text.parse()?;
        if let Err(failure) = self.spread.open(stores, &[&location]).await {
            tracing::debug!(?failure, "the root of --prefixed is not used");
        }
        let (store, prefix) = stores.bucket(&location).await?;
        // The store of a root, such as that of --prefixed, has shorter keys than the URL.
        let Some(before) = text.strip_suffix(&prefix) else { return Ok(()) };
        let entries = store.list(prefix).recursive(false).map(|entry| Ok(entry?));
        add(entries, |entry: Entry| Some(format!("{before}{}", entry.key())), found).await
    }
}

/// Adds the names of the first page of a listing.
async fn add<T>(
    listed: impl Stream<Item = Outcome<T>>,
    name: impl Fn(T) -> Option<String>,
    found: &mut Vec<String>,
) -> Outcome {
    let mut listed = std::pin::pin!(listed.take(PAGE));
    while let Some(one) = listed.next().await {
        found.extend(name(one?));
    }
    Ok(())
}

impl ValueCompleter for PlaceCompleter {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let text = current.to_str().unwrap_or_default();
        if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return self.in_store(text);
        }
        let schemes = SCHEMES.iter().filter(|scheme| scheme.starts_with(text) && current.to_str().is_some());
        PathCompleter::any()
            .complete(current)
            .into_iter()
            .chain(schemes.map(CompletionCandidate::new))
            .collect()
    }
}
