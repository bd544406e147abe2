//! Options by name, with values as text: for bindings to other languages, and for programs whose settings come from a
//! file. The names are those of the builders' methods.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use tidegate::options::Options;
//!
//! let mut of_engine = Options::default();
//! of_engine.set("memory", "64MiB")?;
//! let store = of_engine.engine()?.build()?.open("memory://options").await?;
//!
//! let mut of_write = Options::default();
//! of_write.set("create_only", "true")?;
//! of_write.set("metadata", "origin=tide")?; // may be repeated
//! let object = of_write.write(store.put("a", "1"))?.await?;
//! assert_eq!(store.head("a").await?.attributes.metadata["origin"], "tide");
//!
//! assert!(of_write.set("colour", "blue").is_err()); // no option has this name
//! assert!(of_engine.write(store.put("b", "1")).is_err()); // a write has no option `memory`
//! # let _ = object;
//! # Ok::<(), tidegate::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::api::list::ListStream;
use crate::api::rename::RenameBuilder;
use crate::api::{Tidegate, TidegateBuilder};
use crate::download::{DownloadBuilder, ReaderBuilder};
use crate::engine::retry::RetryPolicy;
use crate::journal::Durability;
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::{Attributes, Encryption, Object};
use crate::upload::{CopyBuilder, WriterBuilder};

mod in_parts;
mod stores;
mod values;

pub use values::{concurrency, duration, rate, size};

/// The options that may be given several times. Of all others the last value counts.
const REPEATED: [&str; 5] = ["spool", "journal", "owner", "metadata", "tags"];

/// The names of all options, with what they are options of.
const NAMES: &[(&str, &str)] = &[
    ("memory", "an engine"),
    ("slab", "an engine"),
    ("spool", "an engine"),
    ("journal", "an engine"),
    ("durability", "an engine"),
    ("journal_keep", "an engine"),
    ("memory_wait", "an engine"),
    ("bandwidth", "an engine"),
    ("parts_in_flight", "an engine"),
    ("hedge", "an engine"),
    ("records", "an engine"),
    ("owner", "an engine"),
    ("attempts", "an engine"),
    ("patience", "an engine"),
    ("min_rate", "an engine"),
    ("idle_limit", "an engine or a write"),
    ("concurrency", "an engine, a write or a copy"),
    ("part_size", "an engine, a write or a copy"),
    ("strategy", "a write"),
    ("size_hint", "a write or a download"),
    ("exact_size", "a write"),
    ("replaces", "a write"),
    ("preserve", "an upload or a download"),
    ("sync", "a download"),
    ("keep_modified", "a download"),
    ("create_only", "a write, a copy, a rename or a download"),
    ("content_type", "a write or a copy"),
    ("cache_control", "a write or a copy"),
    ("content_encoding", "a write or a copy"),
    ("content_disposition", "a write or a copy"),
    ("content_language", "a write or a copy"),
    ("expires", "a write or a copy"),
    ("metadata", "a write or a copy"),
    ("tags", "a write or a copy"),
    ("storage_class", "a write or a copy"),
    ("encryption", "a write or a copy"),
    ("if_unchanged", "a read"),
    ("random", "a read"),
    ("size", "a read"),
    ("recursive", "a listing"),
    ("start_after", "a listing"),
    ("anonymous", "a store"),
    ("access_key", "a store of s3"),
    ("secret_key", "a store of s3"),
    ("session_token", "a store of s3"),
    ("token", "a store of gs or az"),
    ("account_key", "a store of az"),
    ("sas", "a store of az"),
    ("endpoint_url", "a store"),
    ("ca_bundle", "a store"),
    ("connect_timeout", "a store"),
    ("region", "a store of s3"),
    ("profile", "a store of s3"),
    ("profile_only", "a store of s3"),
    ("addressing", "a store of s3"),
    ("checksum", "a store of s3"),
    ("trailers", "a store of s3"),
    ("payload_sha256", "a store of s3"),
    ("equal_parts", "a store of s3"),
    ("max_parts", "a store of s3"),
    ("kept_conditions", "a store of s3"),
    ("request_payer", "a store of s3 or gs"),
    ("project", "a store of gs"),
    ("transport", "a store of gs"),
    ("account", "a store of az"),
    ("connection_string", "a store of az"),
    ("metadata_checksums", "a store of az"),
];

/// Options by name. What an operation has no option for is refused when the options are applied to it.
///
/// Sizes are written as `16MiB`, `64MB` or a number of bytes, rates also as `50MB/s`, times as `20ms`, `1min` or a number
/// of seconds, and `true` or `false` says whether. `spool`, `journal`, `owner`, `metadata` and `tags` may be set several
/// times, and have all values; `metadata` and `tags` take `NAME=VALUE`. Of every other option the last value counts.
/// `durability` is `write`, `sync`, or a size and a time as in `8MiB,1s`; `encryption` is `managed`, `kms` or `kms:KEY`.
#[derive(Clone, Default)]
pub struct Options {
    given: Vec<(&'static str, Value)>,
}

impl Options {
    fn by_name(&self) -> Vec<&(&'static str, Value)> {
        let mut given: Vec<_> = self.given.iter().collect();
        given.sort_by_key(|(name, _)| *name);
        given
    }
}

impl PartialEq for Options {
    /// The order counts among the values of one name only.
    fn eq(&self, other: &Self) -> bool {
        self.by_name() == other.by_name()
    }
}

impl Eq for Options {}

#[derive(Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    Object(Box<Object>),
}

impl std::fmt::Debug for Options {
    /// Without the values, because some are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.given.iter().map(|(name, _)| name)).finish()
    }
}

/// An option that was given, while it is applied.
struct Given<'a> {
    name: &'static str,
    value: &'a Value,
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, Operation::Connect, "options", message)
}

impl Given<'_> {
    fn text(&self) -> Result<&str> {
        match self.value {
            Value::Text(text) => Ok(text),
            Value::Object(_) => Err(refused(format!("`{}` takes text, and was given an object", self.name))),
        }
    }

    fn object(&self) -> Result<Object> {
        match self.value {
            Value::Object(object) => Ok((**object).clone()),
            Value::Text(_) => Err(refused(format!("`{}` takes an object, and was given text", self.name))),
        }
    }

    /// The value that `parse` makes of the text.
    fn read<T>(&self, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T> {
        let text = self.text()?;
        parse(text).map_err(|why| refused(format!("`{}` can't be `{text}`: {why}", self.name)))
    }

    fn named<T: FromStr<Err: std::fmt::Display>>(&self) -> Result<T> {
        self.read(|text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    fn number<T: FromStr>(&self) -> Result<T> {
        self.read(|text| text.parse().map_err(|_| "write a whole number".to_owned()))
    }

    fn flag(&self) -> Result<bool> {
        self.read(|text| text.parse().map_err(|_| "write true or false".to_owned()))
    }

    fn size(&self) -> Result<u64> {
        self.read(size)
    }

    fn duration(&self) -> Result<Duration> {
        self.read(duration)
    }

    /// `NAME=VALUE`.
    fn pair(&self) -> Result<(String, String)> {
        self.read(|text| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err("write NAME=VALUE".to_owned()),
        })
    }

    /// The error for an option that `what` does not have.
    fn misplaced(&self, what: &str) -> Error {
        let of = NAMES.iter().find(|(name, _)| *name == self.name).map_or("something else", |(_, of)| *of);
        refused(format!("{what} has no option `{}`, which is one of {of}", self.name))
    }
}

impl Options {
    /// Sets an option to a text.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if no option has this name. A wrong value is refused where the options are applied.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<()> {
        self.give(name, Value::Text(value.into()))
    }

    /// Sets an option to an object: `replaces` of a write, `if_unchanged` of a read.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if no option has this name.
    pub fn set_object(&mut self, name: &str, object: Object) -> Result<()> {
        self.give(name, Value::Object(object.into()))
    }

    fn give(&mut self, name: &str, value: Value) -> Result<()> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        let (name, _) = known.ok_or_else(|| refused(format!("there is no option `{name}`")))?;
        if !REPEATED.contains(name) {
            self.given.retain(|(given, _)| given != name);
        }
        self.given.push((name, value));
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = Given<'_>> {
        self.given.iter().map(|(name, value)| Given { name, value })
    }

    /// The last value of an option.
    fn last(&self, name: &str) -> Option<Given<'_>> {
        self.iter().filter(|given| given.name == name).last()
    }

    /// A builder with the options of an engine.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an option that an engine does not have, and for a wrong value. So do the methods
    /// below.
    pub fn engine(&self) -> Result<TidegateBuilder> {
        let (mut builder, mut retry) = (Tidegate::builder(), RetryPolicy::default());
        for given in self.iter() {
            builder = match given.name {
                "memory" => builder.memory(given.size()?),
                "slab" => builder.slab(usize::try_from(given.size()?).unwrap_or(usize::MAX)),
                "spool" => builder.spool([given.text()?]),
                "journal" => builder.journal([given.text()?]),
                "durability" => builder.durability(given.read(durability)?),
                "journal_keep" => builder.journal_keep(given.size()?),
                "memory_wait" => builder.memory_wait(given.duration()?),
                "idle_limit" => builder.idle_limit(given.duration()?),
                "concurrency" => builder.concurrency(given.read(concurrency)?),
                "bandwidth" => builder.bandwidth(given.read(rate)?),
                "parts_in_flight" => builder.parts_in_flight(given.number()?),
                "part_size" => builder.part_size(given.size()?),
                "hedge" => builder.hedge(given.flag()?),
                "records" => builder.records(given.text()?),
                "owner" => builder.owner(given.number()?),
                "attempts" => {
                    retry.attempts = given.number()?;
                    builder
                }
                "patience" => {
                    retry.patience = given.duration()?;
                    builder
                }
                "min_rate" => {
                    retry.min_rate = given.read(rate)?;
                    builder
                }
                _ => return Err(given.misplaced("an engine")),
            };
        }
        Ok(builder.retry(retry))
    }

    /// Applies these options to a write.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn write<Input>(&self, mut builder: WriterBuilder<Input>) -> Result<WriterBuilder<Input>> {
        let mut attributes = Attributes::default();
        for given in self.iter() {
            builder = match given.name {
                "strategy" => builder.strategy(given.named()?),
                "part_size" => builder.part_size(given.size()?),
                "size_hint" => builder.size_hint(given.size()?),
                "exact_size" => builder.exact_size(given.size()?),
                "concurrency" => builder.concurrency(given.number()?),
                "idle_limit" => builder.idle_limit(given.duration()?),
                "replaces" => builder.replaces(given.object()?),
                // The last value counts, and no method takes the condition back.
                "create_only" => builder,
                _ if set_attribute(&mut attributes, &given)? => builder,
                _ => return Err(given.misplaced("a write")),
            };
        }
        if self.is_set("create_only")? {
            builder = builder.create_only();
        }
        Ok(builder.attributes(attributes))
    }

    /// Applies these options to the upload of a file: those of a write, and `preserve`.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn upload(&self, builder: WriterBuilder<PathBuf>) -> Result<WriterBuilder<PathBuf>> {
        let of_write =
            Self { given: self.given.iter().filter(|(name, _)| *name != "preserve").cloned().collect() };
        Ok(of_write.write(builder)?.preserve(self.is_set("preserve")?))
    }

    /// Applies these options to a download.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn download(&self, mut builder: DownloadBuilder) -> Result<DownloadBuilder> {
        for given in self.iter() {
            builder = match given.name {
                "sync" => builder.sync(given.flag()?),
                "keep_modified" => builder.keep_modified(given.flag()?),
                "preserve" => builder.preserve(given.flag()?),
                "size_hint" => builder.size_hint(given.size()?),
                "create_only" => builder,
                _ => return Err(given.misplaced("a download")),
            };
        }
        Ok(if self.is_set("create_only")? { builder.create_only() } else { builder })
    }

    /// Applies these options to a copy inside a store.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn copy(&self, mut builder: CopyBuilder) -> Result<CopyBuilder> {
        let mut attributes = Attributes::default();
        for given in self.iter() {
            builder = match given.name {
                "part_size" => builder.part_size(given.size()?),
                "concurrency" => builder.concurrency(given.number()?),
                "create_only" => builder,
                _ if set_attribute(&mut attributes, &given)? => builder,
                _ => return Err(given.misplaced("a copy")),
            };
        }
        if self.is_set("create_only")? {
            builder = builder.create_only();
        }
        Ok(builder.attributes(attributes))
    }

    /// Applies these options to a rename.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn rename(&self, builder: RenameBuilder) -> Result<RenameBuilder> {
        self.refuse_others(&["create_only"], "a rename")?;
        Ok(if self.is_set("create_only")? { builder.create_only() } else { builder })
    }

    /// Applies these options to a read.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn read(&self, builder: ReaderBuilder) -> Result<ReaderBuilder> {
        self.refuse_others(&["if_unchanged", "random", "size"], "a read")?;
        Ok(match self.described()? {
            Some(object) => builder.if_unchanged(&object),
            None => builder,
        })
    }

    /// The object that `if_unchanged` of a read describes.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn described(&self) -> Result<Option<Object>> {
        self.last("if_unchanged").map(|given| given.object()).transpose()
    }

    /// Whether a read is `random`: its bytes are asked for range by range, and none before.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn is_random(&self) -> Result<bool> {
        self.is_set("random")
    }

    /// The size of the object of a read, if the caller knows it.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn known_size(&self) -> Result<Option<u64>> {
        self.last("size").map(|given| given.size()).transpose()
    }

    /// Applies these options to a listing.
    ///
    /// # Errors
    /// As of [`engine`](Self::engine).
    pub fn list(&self, mut entries: ListStream) -> Result<ListStream> {
        for given in self.iter() {
            entries = match given.name {
                "recursive" => entries.recursive(given.flag()?),
                "start_after" => entries.start_after(given.text()?),
                _ => return Err(given.misplaced("a listing")),
            };
        }
        Ok(entries)
    }

    fn is_set(&self, name: &str) -> Result<bool> {
        self.last(name).map_or(Ok(false), |given| given.flag())
    }

    fn refuse_others(&self, names: &[&str], what: &str) -> Result<()> {
        match self.iter().find(|given| !names.contains(&given.name)) {
            Some(given) => Err(given.misplaced(what)),
            None => Ok(()),
        }
    }
}

/// Sets an attribute of an object; false if the option is none of those.
fn set_attribute(attributes: &mut Attributes, given: &Given<'_>) -> Result<bool> {
    let text = || given.text().map(|text| Some(text.to_owned()));
    match given.name {
        "content_type" => attributes.content_type = text()?,
        "cache_control" => attributes.cache_control = text()?,
        "content_encoding" => attributes.content_encoding = text()?,
        "content_disposition" => attributes.content_disposition = text()?,
        "content_language" => attributes.content_language = text()?,
        "expires" => attributes.expires = text()?,
        "metadata" => {
            let (name, value) = given.pair()?;
            attributes.metadata.insert(name.to_ascii_lowercase(), value);
        }
        "tags" => {
            let (name, value) = given.pair()?;
            attributes.tags.insert(name, value);
        }
        "storage_class" => attributes.storage_class = text()?,
        "encryption" => attributes.encryption = Some(given.read(encryption)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// `write`, `sync`, or the bytes and the time of a group: `8MiB,1s`.
fn durability(text: &str) -> Result<Durability, String> {
    match (text, text.split_once(',')) {
        ("write", _) => Ok(Durability::Write),
        ("sync", _) => Ok(Durability::Sync),
        (_, Some((bytes, delay))) => Ok(Durability::Group { bytes: size(bytes)?, delay: duration(delay)? }),
        _ => Err("write `write`, `sync`, or a size and a time such as `8MiB,1s`".to_owned()),
    }
}

/// `managed`, `kms`, or `kms:` and the key.
fn encryption(text: &str) -> Result<Encryption, String> {
    match text.split_once(':') {
        None if text == "managed" => Ok(Encryption::Managed),
        None if text == "kms" => Ok(Encryption::Kms { key_id: None }),
        Some(("kms", key)) if !key.is_empty() => Ok(Encryption::Kms { key_id: Some(key.to_owned()) }),
        _ => Err("write managed, kms or kms:KEY".to_owned()),
    }
}

#[cfg(test)]
mod tests;
