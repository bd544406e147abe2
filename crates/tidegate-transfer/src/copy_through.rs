//! Copies an object from one store to another through this machine, with its attributes.

use tidegate::download::ReaderBuilder;
use tidegate::upload::WriterBuilder;
use tidegate::{Attributes, Object, Reader, Result, Store};

use crate::attributes;

/// Opens an object to copy it: its description with all of its attributes, and a reader of exactly that object.
///
/// A HEAD request asks for the attributes first, because not every store returns them with the bytes (Google's JSON API
/// returns none). With `wants_tags`, the object's tags are asked for, if it has any. `opening` is shown the reader before
/// its first request.
///
/// # Errors
/// If the object cannot be described or read, or its tags cannot be.
pub async fn open(
    store: &Store,
    key: &str,
    wants_tags: bool,
    opening: impl FnOnce(&ReaderBuilder),
) -> Result<(Object, Reader)> {
    let mut object = store.head(key).await?;
    let reading = store.reader(key);
    let reading = if object.has_identity() { reading.if_unchanged(&object) } else { reading };
    opening(&reading);
    let reader = reading.await?;
    if !object.has_identity() {
        // Without an identity, HEAD may have described another version: use the attributes that came with the bytes.
        object = reader.object().clone();
    }
    if wants_tags && object.tag_count.max(reader.object().tag_count) > 0 {
        object.attributes.tags = store.tags(key).await?;
    }
    Ok((object, reader))
}

/// Copies an object. `write` makes the writer, with the attributes that the copy carries. The result names in
/// [`Object::not_carried`] what of the source the target cannot hold.
///
/// # Errors
/// As [`open`], and those of the writer. Then nothing is published.
pub async fn copy(
    from: &Store,
    key: &str,
    to: &Store,
    write: impl FnOnce(Attributes) -> WriterBuilder,
) -> Result<Object> {
    let (object, mut reader) = open(from, key, true, |_| {}).await?;
    let (carried, left_out) = attributes::between(from, to, &object);
    let mut writer = write(carried).exact_size(reader.object().size).await?;
    writer.read_from(&mut reader).await?;
    let mut written = writer.finish().await?;
    written.not_carried = left_out;
    Ok(written)
}
