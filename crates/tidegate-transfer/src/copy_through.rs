//! Copies an object from one store to another through this machine, with its attributes.

use tidegate::download::ReaderBuilder;
use tidegate::upload::WriterBuilder;
use tidegate::{Attributes, Object, Reader, Result, Store};

use crate::attributes;

/// An object that is open to be copied.
pub(crate) struct OpenObject {
    /// Its description, with all of its attributes.
    pub(crate) object: Object,
    /// Reads exactly that object.
    pub(crate) reader: Reader,
    /// The attributes that the copy carries.
    pub(crate) carried: Attributes,
    /// The names of those that the target cannot hold.
    pub(crate) left_out: Vec<&'static str>,
}

/// Opens an object to copy it.
///
/// A HEAD request asks for the attributes first, because not every store returns them with the bytes (Google's JSON API
/// returns none). `described` is the answer, if it was sent before. The object's tags are asked for if it has any, unless the
/// target is a directory. `opening` is shown the reader before its first request.
///
/// # Errors
/// If the object cannot be described or read, or its tags cannot be.
pub(crate) async fn open(
    from: &Store,
    key: &str,
    described: Option<&Object>,
    to: &Store,
    opening: impl FnOnce(&ReaderBuilder),
) -> Result<OpenObject> {
    let mut object = match described {
        Some(object) => object.clone(),
        None => from.head(key).await?,
    };
    let reading = from.reader(key);
    let reading = if object.has_identity() { reading.if_unchanged(&object) } else { reading };
    opening(&reading);
    let reader = reading.await?;
    if !object.has_identity() {
        // Without an identity, HEAD may have described another version: use the attributes that came with the bytes.
        object = reader.object().clone();
    }
    if !to.is_local() && object.tag_count.max(reader.object().tag_count) > 0 {
        object.attributes.tags = from.tags(key).await?;
    }
    let (carried, mut left_out) = attributes::between(from, to, &object);
    if !to.is_local() {
        match from.hides_capitals(&object).await {
            Ok(true) => left_out.push("capital letters in names of metadata"),
            Ok(false) => {}
            // The copy continues: only the warning about changed names needs the answer.
            Err(error) => {
                tracing::warn!(object = key, %error, "the names of its metadata are not known");
                left_out.push("capital letters in names of metadata, if there were any (the store did not show the names)");
            }
        }
    }
    Ok(OpenObject { object, reader, carried, left_out })
}

/// Copies an object. `write` makes the writer, with the attributes that the copy carries. The result names in
/// [`Object::not_carried`] what of the source the target cannot hold.
///
/// # Errors
/// If the object cannot be described or read, or its tags cannot be, and those of the writer. Then nothing is published.
pub async fn copy(
    from: &Store,
    key: &str,
    to: &Store,
    write: impl FnOnce(Attributes) -> WriterBuilder,
) -> Result<Object> {
    let OpenObject { mut reader, carried, left_out, .. } = open(from, key, None, to, |_| {}).await?;
    let mut writer = write(carried).exact_size(reader.object().size).await?;
    writer.read_from(&mut reader).await?;
    let mut written = writer.finish().await?;
    written.not_carried = left_out;
    Ok(written)
}
