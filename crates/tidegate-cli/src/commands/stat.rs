//! `tidegate stat`: shows the store's description of an object.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use tidegate::Object;
use tidegate::location::Location;
use tidegate::object::Encryption;

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::options::ConnectionOptions;
use crate::spread::PrefixedOption;
use crate::stores::Stores;
use crate::{output, text};

/// Show what the store knows of an object: size, checksum, time, attributes
///
///     tidegate stat s3://BUCKET/KEY
///     tidegate stat gs://BUCKET/KEY --json
///
/// Takes one request (HEAD), and reads none of the bytes. A missing object has the exit code 3.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatArgs {
    /// Object to show. A slash at the end is part of the key: s3://BUCKET/DIR/ is the object that some tools leave in
    /// place of a directory.
    #[arg(value_name = "URL")]
    object: String,

    #[command(flatten)]
    spread: PrefixedOption,

    #[command(flatten)]
    connection: ConnectionOptions,
}

/// The description of an object. Its serialized form is the JSON object; output for people has its names with spaces.
#[derive(Serialize)]
#[serde(tag = "type", rename = "stat")]
struct ObjectFacts<'a> {
    url: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc64nvme: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc32c: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    other_checksums: &'a BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_disposition: Option<&'a str>,
    #[serde(rename = "expires_header", skip_serializing_if = "Option::is_none")]
    expires: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<String>,
    metadata: &'a BTreeMap<String, String>,
}

impl StatArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        let location: Location = self.object.parse()?;
        Stores::with_defaults(invocation, &self.connection, async |stores| {
            self.spread.open(stores, &[&location]).await?;
            let place = stores.object(&location).await?;
            let object = place.store.head(&place.key).await?;
            let facts = facts(place.url(), &object);
            let mut out = output::text(invocation.format())?;
            if out.is_json() {
                out.json(&facts)?;
            } else {
                write(&mut out, &facts)?;
            }
            out.finish().await
        })
        .await
    }
}

fn facts(url: String, object: &Object) -> ObjectFacts<'_> {
    let attributes = &object.attributes;
    ObjectFacts {
        url,
        size: object.size,
        etag: object.etag.as_deref().map(text::unquoted_etag),
        version: object.version.as_deref(),
        modified: object.modified.map(text::time),
        crc64nvme: object.crc64nvme.as_deref(),
        crc32c: object.crc32c.as_deref(),
        other_checksums: &object.other_checksums,
        content_type: attributes.content_type.as_deref(),
        cache_control: attributes.cache_control.as_deref(),
        content_encoding: attributes.content_encoding.as_deref(),
        content_disposition: attributes.content_disposition.as_deref(),
        expires: attributes.expires.as_deref(),
        storage_class: attributes.storage_class.as_deref(),
        encryption: attributes.encryption.as_ref().map(encryption),
        metadata: &attributes.metadata,
    }
}

fn encryption(encryption: &Encryption) -> String {
    match encryption {
        Encryption::Managed => "AES256".to_owned(),
        Encryption::Kms { key_id: None } => "aws:kms".to_owned(),
        Encryption::Kms { key_id: Some(key) } => format!("aws:kms:{key}"),
    }
}

fn write(out: &mut impl Write, facts: &ObjectFacts<'_>) -> std::io::Result<()> {
    let mut line = |name: &str, value: Option<&str>| match value {
        Some(value) => writeln!(out, "{name:<20} {value}"),
        None => Ok(()),
    };
    line("url", Some(&facts.url))?;
    let size = format!("{} bytes", facts.size);
    let size = match facts.size {
        0..1024 => size,
        bytes => format!("{size} ({})", text::size(bytes)),
    };
    line("size", Some(&size))?;
    line("modified", facts.modified.as_deref())?;
    line("etag", facts.etag)?;
    line("version", facts.version)?;
    line("crc64nvme", facts.crc64nvme)?;
    line("crc32c", facts.crc32c)?;
    for (name, checksum) in facts.other_checksums {
        line(name, Some(checksum))?;
    }
    line("content type", facts.content_type)?;
    line("cache control", facts.cache_control)?;
    line("content encoding", facts.content_encoding)?;
    line("content disposition", facts.content_disposition)?;
    line("expires", facts.expires)?;
    line("storage class", facts.storage_class)?;
    line("encryption", facts.encryption.as_deref())?;
    for (name, value) in facts.metadata {
        line(&format!("metadata {name}"), Some(value))?;
    }
    Ok(())
}
