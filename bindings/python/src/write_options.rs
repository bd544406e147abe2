//! The options of one write, from Python's keyword arguments.

use std::collections::BTreeMap;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tidegate::object::Encryption;
use tidegate::upload::{CopyBuilder, WriterBuilder};
use tidegate::{Attributes, Strategy};

use crate::arguments::Argument;
use crate::objects::Object;

/// The options of a write that were given.
#[derive(Debug, Default)]
pub(crate) struct WriteOptions {
    strategy: Option<Strategy>,
    part_size: Option<u64>,
    size_hint: Option<u64>,
    exact_size: Option<u64>,
    concurrency: Option<usize>,
    idle_limit: Option<std::time::Duration>,
    create_only: bool,
    replaces: Option<tidegate::Object>,
    preserve: bool,
    /// All but the metadata and the tags.
    attributes: Attributes,
    metadata: Option<BTreeMap<String, String>>,
    tags: Option<BTreeMap<String, String>>,
}

impl WriteOptions {
    pub(crate) fn of(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut taken = Self::default();
        let Some(options) = options else { return Ok(taken) };
        for (name, value) in options.iter() {
            let name = name.cast_into::<PyString>()?;
            let name = name.to_str()?;
            let given = Argument { name, value };
            // `None` is what an option is without being given.
            if !given.value.is_none() {
                taken.take(&given)?;
            }
        }
        Ok(taken)
    }

    /// The same for bytes that are no file's: they have nothing to preserve.
    pub(crate) fn of_bytes(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        match Self::of(options)? {
            Self { preserve: true, .. } => {
                Err(PyTypeError::new_err("there is no option 'preserve': no file is uploaded"))
            }
            options => Ok(options),
        }
    }

    fn take(&mut self, given: &Argument<'_, '_>) -> PyResult<()> {
        let attributes = &mut self.attributes;
        match given.name {
            "strategy" => self.strategy = Some(given.named()?),
            "part_size" => self.part_size = Some(given.get()?),
            "size_hint" => self.size_hint = Some(given.get()?),
            "exact_size" => self.exact_size = Some(given.get()?),
            "concurrency" => self.concurrency = Some(given.get()?),
            "idle_limit" => self.idle_limit = Some(given.duration()?),
            "create_only" => self.create_only = given.get()?,
            "replaces" => self.replaces = Some(given.get::<Object>()?.0),
            "preserve" => self.preserve = given.get()?,
            "content_type" => attributes.content_type = Some(given.get()?),
            "cache_control" => attributes.cache_control = Some(given.get()?),
            "content_encoding" => attributes.content_encoding = Some(given.get()?),
            "content_disposition" => attributes.content_disposition = Some(given.get()?),
            "content_language" => attributes.content_language = Some(given.get()?),
            "expires" => attributes.expires = Some(given.get()?),
            "metadata" => {
                let metadata: BTreeMap<String, String> = given.get()?;
                let lower = metadata.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
                self.metadata = Some(lower.collect());
            }
            "tags" => self.tags = Some(given.get()?),
            "storage_class" => attributes.storage_class = Some(given.get()?),
            "encryption" => attributes.encryption = Some(encryption(&given.get::<String>()?)?),
            _ => return Err(given.unknown()),
        }
        Ok(())
    }

    /// These options, with the attributes of a source where none are given.
    pub(crate) fn over(mut self, source: Attributes) -> Self {
        let given = std::mem::take(&mut self.attributes);
        let mut attributes = source;
        attributes.content_type = given.content_type.or(attributes.content_type);
        attributes.cache_control = given.cache_control.or(attributes.cache_control);
        attributes.content_encoding = given.content_encoding.or(attributes.content_encoding);
        attributes.content_disposition = given.content_disposition.or(attributes.content_disposition);
        attributes.content_language = given.content_language.or(attributes.content_language);
        attributes.expires = given.expires.or(attributes.expires);
        attributes.storage_class = given.storage_class.or(attributes.storage_class);
        attributes.encryption = given.encryption;
        self.metadata.get_or_insert(std::mem::take(&mut attributes.metadata));
        self.tags.get_or_insert(std::mem::take(&mut attributes.tags));
        self.attributes = attributes;
        self
    }

    pub(crate) fn set<Input>(self, mut builder: WriterBuilder<Input>) -> WriterBuilder<Input> {
        if let Some(strategy) = self.strategy {
            builder = builder.strategy(strategy);
        }
        if let Some(bytes) = self.part_size {
            builder = builder.part_size(bytes);
        }
        if let Some(bytes) = self.size_hint {
            builder = builder.size_hint(bytes);
        }
        if let Some(bytes) = self.exact_size {
            builder = builder.exact_size(bytes);
        }
        if let Some(parts) = self.concurrency {
            builder = builder.concurrency(parts);
        }
        if let Some(limit) = self.idle_limit {
            builder = builder.idle_limit(limit);
        }
        if self.create_only {
            builder = builder.create_only();
        }
        if let Some(object) = self.replaces {
            builder = builder.replaces(object);
        }
        let mut attributes = self.attributes;
        attributes.metadata = self.metadata.unwrap_or_default();
        attributes.tags = self.tags.unwrap_or_default();
        builder.attributes(attributes).preserve(self.preserve)
    }

    /// Sets those that a copy inside a store has.
    ///
    /// # Errors
    /// `ValueError` for the others.
    pub(crate) fn set_copy(self, mut builder: CopyBuilder) -> PyResult<CopyBuilder> {
        let refused = [
            ("strategy", self.strategy.is_some()),
            ("size_hint", self.size_hint.is_some()),
            ("exact_size", self.exact_size.is_some()),
            ("idle_limit", self.idle_limit.is_some()),
            ("replaces", self.replaces.is_some()),
            ("preserve", self.preserve),
        ];
        if let Some((name, _)) = refused.into_iter().find(|(_, is_given)| *is_given) {
            return Err(PyValueError::new_err(format!("a copy inside a store takes no {name:?}")));
        }
        if let Some(bytes) = self.part_size {
            builder = builder.part_size(bytes);
        }
        if let Some(parts) = self.concurrency {
            builder = builder.concurrency(parts);
        }
        if self.create_only {
            builder = builder.create_only();
        }
        if let Some(metadata) = self.metadata {
            builder = builder.metadata(metadata);
        }
        if let Some(tags) = self.tags {
            builder = builder.tags(tags);
        }
        Ok(builder.attributes(self.attributes))
    }
}

/// An encryption by its name: `managed`, `kms`, or `kms:` and the key.
pub(crate) fn encryption(word: &str) -> PyResult<Encryption> {
    match word.split_once(':') {
        None if word == "managed" => Ok(Encryption::Managed),
        None if word == "kms" => Ok(Encryption::Kms { key_id: None }),
        Some(("kms", key)) => Ok(Encryption::Kms { key_id: Some(key.to_owned()) }),
        _ => Err(PyValueError::new_err(format!(
            "encryption: {word:?} is none of \"managed\", \"kms\" and \"kms:KEY\""
        ))),
    }
}
