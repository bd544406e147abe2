//! `tidegate du`: counts the objects and bytes below URLs.

use std::io::Write;

use futures::StreamExt;
use serde::Serialize;
use tidegate::backend::Entry;
use tidegate::location::Location;
use tidegate::{ErrorKind, Object};

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::output::{self, TextOutput};
use tidegate_transfer::{ObjectFilter, Source};

use crate::select::{FilterOptions, PatternOption};
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::text;

/// Count the objects and bytes below each URL, with a total if there are several
///
///     tidegate du -H s3://BUCKET/logs/ s3://BUCKET/tables/
///
/// Every object below is listed, by one request for each 1,000. Old versions and unfinished
/// uploads, for which a store also charges, are not counted; `tidegate sessions ls` shows
/// the uploads.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DuArgs {
    /// Buckets, prefixes, objects, directories or patterns. A prefix is s3://BUCKET/PREFIX/, with or without the slash.
    /// Places that overlap are counted twice in the total.
    #[arg(required = true, value_name = "URL")]
    places: Vec<String>,

    /// Show sizes with a unit of 1024 bytes, such as 3.4 MiB, instead of bytes.
    #[arg(short = 'H', long, alias = "human-readable")]
    human: bool,

    #[command(flatten)]
    pattern: PatternOption,

    #[command(flatten)]
    filter: FilterOptions,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// How much is stored somewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct TreeSize {
    objects: u64,
    bytes: u64,
}

/// A line as a JSON object.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", tag = "type")]
enum UsageLine<'a> {
    Usage {
        url: &'a str,
        #[serde(flatten)]
        stored: TreeSize,
    },
    Total {
        #[serde(flatten)]
        stored: TreeSize,
    },
}

impl DuArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let parse = |text: &String| self.pattern.parse(text.as_ref(), false);
        let sources: Vec<Source> = self.places.iter().map(parse).collect::<Result<_, _>>()?;
        let filter = self.filter.clone().filter()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            let locations: Vec<_> = sources.iter().map(|source| &source.location).collect();
            self.spread.open(stores, &locations).await?;
            let mut out = output::text(invocation.format())?;
            let measured = self.measure_all(stores, &sources, &filter, &mut out).await;
            // What was measured before an error is printed all the same.
            out.finish().await?;
            measured
        })
        .await
    }

    /// Measures and prints each location, then the total. After a failure, continues with the next location, and
    /// prints no total.
    async fn measure_all(
        &self,
        stores: &Stores,
        sources: &[Source],
        filter: &ObjectFilter,
        out: &mut TextOutput,
    ) -> Outcome {
        let mut total = TreeSize::default();
        let mut failures = Vec::new();
        for source in sources {
            match measure(stores, source, filter).await {
                Ok(stored) => {
                    total.count(stored.objects, stored.bytes, &source.location)?;
                    self.print(out, &UsageLine::Usage { url: &source.name(), stored })?;
                    out.flow_soon().await?;
                }
                Err(failure) => failures.push(failure),
            }
        }
        // Nothing was measured, and all failures have one cause: exit with the cause's code.
        let is_one_cause = failures.windows(2).all(|pair| pair[0].code() == pair[1].code());
        let last = if failures.len() == sources.len() && is_one_cause { failures.pop() } else { None };
        failures.iter().for_each(output::fail);
        if let Some(failure) = last {
            return Err(failure);
        }
        if !failures.is_empty() {
            let all = text::count(sources.len() as u64, "place");
            return Err(CommandFailure::Failed(format!("{} of {all} could not be measured", failures.len())));
        }
        if sources.len() > 1 {
            self.print(out, &UsageLine::Total { stored: total })?;
        }
        Ok(())
    }

    fn print(&self, out: &mut TextOutput, line: &UsageLine<'_>) -> Outcome {
        if out.is_json() {
            return out.json(line);
        }
        let (name, TreeSize { objects, bytes }) = match line {
            UsageLine::Usage { url, stored } => (*url, *stored),
            UsageLine::Total { stored } => ("total", *stored),
        };
        let size = if self.human { text::size(bytes) } else { bytes.to_string() };
        let objects = text::count(objects, "object");
        writeln!(out, "{size:>14}  {objects:>12}  {name}")?;
        Ok(())
    }
}

/// Counts what is below `location`; if nothing is, the object that it names.
///
/// # Errors
/// If there is neither; an empty bucket or directory is fine. If an entry cannot be listed, or has no known size: the
/// sum would be wrong.
async fn measure(stores: &Stores, source: &Source, filter: &ObjectFilter) -> Outcome<TreeSize> {
    let location = &source.location;
    if let Location::Local { path } = location
        && !path.is_dir()
    {
        return match filter.is_everything() {
            true => measure_object(stores, location).await,
            false => Err(CommandFailure::Usage(format!(
                "{location}: filters choose among many objects, and this is one"
            ))),
        };
    }
    let (store, prefix) = stores.tree(location).await?;
    let mut entries = source.selection(filter).list(&store, &prefix);
    let mut stored = TreeSize::default();
    while let Some(entry) = entries.next().await {
        if let Entry::Object(object) = entry? {
            stored.add(&object, location)?;
        }
    }
    match stored.objects {
        0 if !filter.is_everything() => Ok(stored),
        0 if source.pattern.is_some() => Err(source.no_match().into()),
        0 if !prefix.is_empty() => measure_object(stores, location).await,
        _ => Ok(stored),
    }
}

/// Measures the one object at `location`.
async fn measure_object(stores: &Stores, location: &Location) -> Outcome<TreeSize> {
    let nothing = |what| Err(CommandFailure::nothing_at(location, what));
    if location.ends_with_slash() {
        return nothing("there is nothing below it");
    }
    let place = stores.object(location).await?;
    let mut stored = TreeSize::default();
    match place.store.head(&place.key).await {
        Ok(object) => stored.add(&object, location)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return nothing("there is no such object, and nothing below it");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(stored)
}

impl TreeSize {
    /// Adds an object found at or below `location`.
    fn add(&mut self, object: &Object, location: &Location) -> Outcome {
        let Some(size) = object.known_size() else {
            let message = format!("{location}: the store does not say how large {} is", object.key);
            return Err(CommandFailure::Failed(message));
        };
        self.count(1, size, location)
    }

    fn count(&mut self, objects: u64, bytes: u64, location: &Location) -> Outcome {
        let too_large =
            || CommandFailure::Failed(format!("{location}: the sum of sizes is more than can be counted"));
        self.objects += objects;
        self.bytes = self.bytes.checked_add(bytes).ok_or_else(too_large)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_unknown_size_makes_no_wrong_sum() {
        let location: Location = "s3://bucket/t/".parse().unwrap();
        let mut stored = TreeSize::default();
        let mut object = Object { size: 12, ..Object::default() };
        stored.add(&object, &location).unwrap();
        object.size_is_unknown = true;
        assert!(stored.add(&object, &location).is_err());
        assert_eq!(stored, TreeSize { objects: 1, bytes: 12 });
        (object.size_is_unknown, object.size) = (false, u64::MAX);
        assert!(stored.add(&object, &location).is_err());
    }

    #[test]
    fn a_line_of_json_says_what_it_is_about() {
        let stored = TreeSize { objects: 3, bytes: 12 };
        let json = |line| serde_json::to_string(&line).unwrap();
        assert_eq!(
            json(UsageLine::Usage { url: "s3://bucket/t", stored }),
            r#"{"type":"usage","url":"s3://bucket/t","objects":3,"bytes":12}"#
        );
        assert_eq!(json(UsageLine::Total { stored }), r#"{"type":"total","objects":3,"bytes":12}"#);
    }
}
