//! Describes a write in a pending upload or a point: its key, options and token. Another process sets up the same write from it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::session::Upload;
use crate::backend::WriteOptions;
use crate::engine::Context;
use crate::engine::records;
use crate::journal::Part;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::{Attributes, Object};

/// A write of one object, as another process needs it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::upload) struct DescribedWrite {
    /// Where the bucket is: `s3://bucket`.
    pub(super) url: String,
    /// At which endpoint it was begun, for messages: another machine may reach the bucket by another address.
    pub(super) endpoint: String,
    pub(super) key: String,
    pub(super) token: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    create_only: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<ReplacedObject>,
    #[serde(default)]
    attributes: Attributes,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) preserve: bool,
}

/// The object that is to be replaced, as far as stores compare it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ReplacedObject {
    etag: Option<String>,
    version: Option<String>,
}

impl DescribedWrite {
    pub(super) fn of(upload: &Upload) -> Self {
        let options = &upload.options;
        let replaced =
            |object: &Object| ReplacedObject { etag: object.etag.clone(), version: object.version.clone() };
        Self {
            url: records::root(&*upload.backend),
            endpoint: upload.backend.endpoint().to_owned(),
            key: upload.key.clone(),
            token: options.token.clone().unwrap_or_default(),
            create_only: options.create_only,
            replaces: options.replaces.as_deref().map(replaced),
            attributes: options.attributes.clone(),
            preserve: options.preserve,
        }
    }

    /// The options of the write.
    pub(super) fn options(&self) -> WriteOptions {
        let replaced = |replaced: &ReplacedObject| {
            let ReplacedObject { etag, version } = replaced.clone();
            Box::new(Object { etag, version, size_is_unknown: true, ..Object::default() })
        };
        WriteOptions {
            attributes: self.attributes.clone(),
            create_only: self.create_only,
            replaces: self.replaces.as_ref().map(replaced),
            token: Some(self.token.clone()),
            preserve: self.preserve,
        }
    }

    /// The upload in the hands of this process, for `operation`; its checksums are made by `algorithm`. `root` is the
    /// whole bucket of `context`.
    pub(super) fn upload(
        &self,
        context: &Context,
        root: &Context,
        algorithm: Algorithm,
        operation: Operation,
    ) -> Result<Upload> {
        context.engine().owner.check(operation, || self.key.clone())?;
        context.refuse_spread(operation, "pending uploads")?;
        let here = records::root(&**context.backend());
        if self.url != here {
            let message = format!("it was begun in {}, and this store is {here}", self.url);
            let object = format!("{}/{}", self.url, self.key);
            return Err(Error::new(ErrorKind::InvalidInput, operation, object, message));
        }
        let options = self.options();
        root.check(operation, &self.key, Some(&options))?;
        let upload = Upload::new(root, &self.key, options, context.engine().progress.part());
        let takes = upload.backend.capabilities().checksum;
        if algorithm != takes {
            let message = format!(
                "it was begun with the checksum {}, and this store is used with {}",
                algorithm.name(),
                takes.name()
            );
            return Err(upload.error(ErrorKind::InvalidInput, operation, message));
        }
        Ok(upload)
    }

    /// Fails if a member is missing without which nothing can be continued.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self.token.is_empty() || self.key.is_empty() {
            true => Err("it has no key or no token"),
            false => Ok(()),
        }
    }
}

/// The checksum of parts together, in `algorithm`; `None` unless each begins where the one before it ends.
pub(super) fn joined(parts: &[Part], algorithm: Algorithm) -> Option<Checksum> {
    let mut whole = algorithm.empty();
    for (part, number) in parts.iter().zip(1..) {
        let follows = part.number == number
            && part.offset == whole.covers()
            && part.checksum.covers() == part.size
            && part.checksum.algorithm() == algorithm
            && part.offset.checked_add(part.size).is_some();
        if !follows {
            return None;
        }
        whole = whole.then(&part.checksum);
    }
    Some(whole)
}

/// Reads a value of a version up to `latest` from JSON. `what` is its name in messages, which show nothing of the text: it
/// may have an address that is a secret, and serde's messages may quote it.
pub(super) fn read_versioned<T: DeserializeOwned>(
    json: &str,
    what: &str,
    operation: Operation,
    latest: u32,
) -> Result<T> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let refused =
        |message: String| Error::new(ErrorKind::InvalidInput, operation, format!("a {what}"), message);
    let place = |error: serde_json::Error| format!("line {}, column {}", error.line(), error.column());
    let Versioned { version } = serde_json::from_str(json)
        .map_err(|error| refused(format!("the text is no {what} ({})", place(error))))?;
    if version > latest {
        let message = format!(
            "it was written by a later version of Tidegate (format {version}, and this version reads up to {latest})"
        );
        return Err(refused(message));
    }
    serde_json::from_str(json)
        .map_err(|error| refused(format!("the text is no whole {what} ({})", place(error))))
}
