//! `tidegate ls`: lists buckets, or the objects below a prefix.

use std::io::Write;

use futures::{StreamExt, TryStreamExt, future};
use serde::Serialize;
use tidegate::Error;
use tidegate::backend::Entry;
use tidegate::location::{Location, LocationError};

use crate::exit::{CommandFailure, Outcome};
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use tidegate_transfer::{ObjectFilter, Source};

use crate::select::{FilterOptions, PatternOption};
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::{output, text};

/// List the objects and prefixes that begin with a URL, or the buckets of an account
///
///     tidegate ls s3://BUCKET/logs/
///     tidegate ls -r s3://BUCKET/logs/2026-    everything whose key begins so
///     tidegate ls 's3://BUCKET/logs/**.gz'     everything that matches a pattern
///     tidegate ls gs://                        the buckets of a project
///     tidegate ls az://                        the containers of an account
///
/// Lines have date and time (UTC), size in bytes, and name, in the columns of `aws s3 ls`:
///
///     2026-11-27 10:15:00      12345 name
///                                PRE prefix/
///
/// A name begins after the last slash of the URL; with -r it is the whole key.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LsArgs {
    /// A bucket, a prefix (s3://BUCKET/PREFIX/), a directory, or a pattern. s3://, gs://, az:// or dev:// alone
    /// lists the buckets there.
    #[arg(default_value = "s3://", value_name = "URL")]
    prefix: String,

    /// List everything below, not only the next level.
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,

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

/// A line as a JSON object.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", tag = "type")]
enum ListingLine<'a> {
    Bucket {
        url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        created: Option<String>,
    },
    Prefix {
        url: String,
    },
    /// An entry of a local directory (a link that is not followed, a device, a named pipe, a socket), or a directory of
    /// Azure.
    Other {
        url: String,
        what: String,
    },
    Object {
        url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        modified: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        etag: Option<&'a str>,
    },
}

impl LsArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let listed = ListTarget::parse(&self.prefix, self.pattern, self.recursive)?;
        let filter = self.filter.clone().filter()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| match &listed {
            ListTarget::Buckets(scheme) => self.list_buckets(stores, scheme, invocation).await,
            ListTarget::Objects(source) => self.list(stores, source, &filter, invocation).await,
        })
        .await
    }

    async fn list_buckets(&self, stores: &Stores, scheme: &str, invocation: &Invocation) -> Outcome {
        if self.recursive {
            let message = format!(
                "{scheme}://: all objects of one bucket are listed: name it, as in {scheme}://BUCKET"
            );
            return Err(CommandFailure::Usage(message));
        }
        self.spread.open(stores, &[]).await?;
        let mut buckets = stores.buckets(scheme).await?;
        let mut out = output::text(invocation.format())?;
        let mut failed = None;
        loop {
            match buckets.try_next().await {
                Ok(Some(bucket)) => {
                    let url = format!("{scheme}://{}", bucket.name);
                    if out.is_json() {
                        out.json(&ListingLine::Bucket { url, created: bucket.created.map(text::time) })?;
                    } else {
                        let created = bucket.created.map(text::time_of_listing).unwrap_or_default();
                        writeln!(out, "{created:19} {}", bucket.name)?;
                    }
                    out.flow().await?;
                }
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // Buckets that were listed before an error are printed all the same.
        out.finish().await?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn list(
        &self,
        stores: &Stores,
        source: &Source,
        filter: &ObjectFilter,
        invocation: &Invocation,
    ) -> Outcome {
        let location = &source.location;
        self.spread.open(stores, &[location]).await?;
        let (store, prefix) = match source.pattern {
            Some(_) => stores.tree(location).await?,
            None => stores.bucket(location).await?,
        };
        let root = store.location();
        let directory = prefix.rfind('/').map_or(0, |slash| slash + 1);
        let selection = source.selection(filter);
        let mut entries = if source.pattern.is_some() {
            selection.list(&store, &prefix)
        } else {
            let entries = store.list(&prefix).recursive(self.recursive);
            let is_taken = move |entry: &Entry| selection.takes_entry(entry, directory);
            entries.try_filter(move |entry| future::ready(is_taken(entry))).boxed()
        };
        // Names are shown without the directory part of the prefix, or, as by `aws s3 ls --recursive`, whole.
        let shown_from = if self.recursive { 0 } else { directory };
        let mut out = output::text(invocation.format())?;
        let (mut shown, mut failed) = (0_u64, 0_u64);
        let mut first = None;
        while let Some(entry) = entries.next().await {
            // An entry that cannot be listed does not hide the others.
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if shown == 0 && failed == 0 => {
                    failed += 1;
                    first = Some(error);
                    continue;
                }
                Err(error) => {
                    failed += 1;
                    first.take().into_iter().for_each(say);
                    say(error);
                    continue;
                }
            };
            shown += 1;
            first.take().into_iter().for_each(say);
            out.flow().await?;
            if out.is_json() {
                out.json(&line(&root, &entry))?;
                continue;
            }
            writeln!(out, "{}", columns(&entry, shown_from, self.human))?;
        }
        out.finish().await?;
        match (first, failed) {
            // Nothing was listed, and this error is the reason.
            (Some(error), _) => Err(error.into()),
            // An empty bucket or directory is fine.
            (None, 0) if filter.is_everything() && shown == 0 && source.pattern.is_some() => {
                Err(source.no_match().into())
            }
            (None, 0) if shown == 0 && !prefix.is_empty() && filter.is_everything() => {
                Err(CommandFailure::nothing_at(
                    location,
                    match location {
                        Location::Local { .. } => "no such file or directory",
                        _ => "no key begins with this",
                    },
                ))
            }
            (None, 0) => Ok(()),
            (None, failed) => {
                let names = text::count(failed, "failure");
                Err(CommandFailure::Failed(format!("{location}: not everything is listed: {names}")))
            }
        }
    }
}

/// The line for people: date and time, size, and the name, which begins at `shown_from` of the key.
fn columns(entry: &Entry, shown_from: usize, human: bool) -> String {
    let name = |key: &str| key.get(shown_from..).unwrap_or(key).to_owned();
    let (modified, size, name) = match entry {
        Entry::Prefix(key) => (String::new(), "PRE".to_owned(), name(key)),
        Entry::Object(object) => {
            let size = match object.known_size() {
                Some(size) if human => text::size(size),
                Some(size) => size.to_string(),
                None => "?".to_owned(),
            };
            (object.modified.map(text::time_of_listing).unwrap_or_default(), size, name(&object.key))
        }
        Entry::Other { key, kind } => (String::new(), "-".to_owned(), format!("{}  ({kind})", name(key))),
    };
    format!("{modified:19} {size:>10} {name}")
}

/// What is listed.
#[derive(Debug)]
enum ListTarget {
    /// The buckets of a scheme.
    Buckets(&'static str),
    /// What begins with a URL, is in a directory, or matches a pattern.
    Objects(Source),
}

impl ListTarget {
    /// Parses a URL, or a scheme alone (`s3://`).
    fn parse(text: &str, pattern: PatternOption, is_recursive: bool) -> Outcome<Self> {
        match text.parse::<Location>() {
            Err(LocationError::NoBucket { scheme, .. }) if text.ends_with("://") => Ok(Self::Buckets(scheme)),
            _ => Ok(Self::Objects(pattern.parse(text.as_ref(), is_recursive)?)),
        }
    }
}

fn say(error: Error) {
    output::fail(&error.into());
}

fn line<'a>(root: &str, entry: &'a Entry) -> ListingLine<'a> {
    match entry {
        Entry::Prefix(key) => ListingLine::Prefix { url: format!("{root}/{key}") },
        Entry::Object(object) => ListingLine::Object {
            url: format!("{root}/{}", object.key),
            size: object.known_size(),
            modified: object.modified.map(text::time),
            etag: object.etag.as_deref().map(text::unquoted_etag),
        },
        Entry::Other { key, kind } => {
            ListingLine::Other { url: format!("{root}/{key}"), what: kind.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use tidegate::Object;

    use super::*;

    #[test]
    fn lines_are_those_of_aws_s3_ls() {
        let mut object = Object {
            key: "t/name".to_owned(),
            size: 12345,
            modified: Some(UNIX_EPOCH + Duration::from_secs(1_795_774_500)),
            ..Object::default()
        };
        let line = |object: &Object, human| columns(&Entry::Object(object.clone()), 2, human);
        assert_eq!(line(&object, false), "2026-11-27 10:15:00      12345 name");
        assert_eq!(line(&object, true), "2026-11-27 10:15:00   12.1 KiB name");
        object.size = u64::MAX;
        assert_eq!(line(&object, false), "2026-11-27 10:15:00 18446744073709551615 name");
        object.size_is_unknown = true;
        object.modified = None;
        assert_eq!(line(&object, false), "                             ? name");
        let prefix = Entry::Prefix("t/sub/".to_owned());
        assert_eq!(columns(&prefix, 2, false), "                           PRE sub/");
    }

    #[test]
    fn a_scheme_alone_means_its_buckets() {
        let parse = |text: &str| ListTarget::parse(text, PatternOption::default(), false);
        for (text, scheme) in
            [("s3://", "s3"), ("gs://", "gs"), ("gcs://", "gs"), ("DEV://", "dev"), ("az://", "az")]
        {
            assert!(matches!(parse(text), Ok(ListTarget::Buckets(named)) if named == scheme), "{text}");
        }
        assert!(matches!(parse("s3://bucket"), Ok(ListTarget::Objects(_))));
        assert!(matches!(parse("out/"), Ok(ListTarget::Objects(_))));
        for wrong in ["s3:///", "s3:///key", "s3:", "ftp://", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
