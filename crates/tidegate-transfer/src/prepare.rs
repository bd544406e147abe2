//! Prepares the upload of one source: all its bytes are at the store, and nothing is visible until a commit.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::upload::Pending;
use tidegate::{Store, Writer};
use tokio::io::AsyncRead;

use crate::copy::{OpenedFile, is_stream};
use crate::error::{Error, Result};

/// Where the bytes of a pending upload come from.
pub enum PreparedSource<'a> {
    /// A file, which must not change while it is read; or a pipe or a device, which is read to its end.
    File(PathBuf),
    /// An object: its bytes pass through this machine.
    Object(&'a Store, String),
    /// Bytes that come from elsewhere, to their end.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

impl fmt::Debug for PreparedSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Object(store, key) => f.debug_tuple("Object").field(store).field(key).finish(),
            Self::Reader(_) => f.write_str("Reader"),
        }
    }
}

/// Reads all of a source into a writer that was just begun, and prepares the upload. It can be committed for `lifetime`;
/// for six days if that is `None`. Dropping the future aborts the upload.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use tidegate_transfer::{PreparedSource, prepare};
///
/// let store = tidegate::Tidegate::builder().build()?.open("memory://demo").await?;
/// store.put("from", "bytes").await?;
/// let source = PreparedSource::Object(&store, "from".to_owned());
/// let pending = prepare(store.writer("to").await?, source, None).await?;
/// assert_eq!(store.commit(&pending).await?.size, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of the source, [`Error::Failed`] if the file changed while it was read, and those of [`Writer::prepare`].
/// Nothing is prepared then.
pub async fn prepare(
    mut writer: Writer,
    source: PreparedSource<'_>,
    lifetime: Option<Duration>,
) -> Result<Pending> {
    let (mut input, opened): (Box<dyn AsyncRead + Send + Unpin>, _) = match source {
        PreparedSource::File(path) if is_stream(&path) => {
            let opened = tokio::fs::File::open(&path).await;
            (Box::new(opened.map_err(|error| Error::of_file(&path, &error))?), None)
        }
        PreparedSource::File(path) => {
            let failed = |error| Error::of_file(&path, &error);
            let opened = OpenedFile::open(&path).map_err(failed)?;
            (Box::new(opened.source().map_err(failed)?), Some(opened))
        }
        PreparedSource::Object(store, key) => (Box::new(store.reader(key).await?), None),
        PreparedSource::Reader(reader) => (reader, None),
    };
    let read = writer.read_from(&mut input).await?;
    if let Some(opened) = opened {
        opened.check_unchanged(read)?;
    }
    let builder = writer.prepare();
    let builder = match lifetime {
        Some(lifetime) => builder.lifetime(lifetime),
        None => builder,
    };
    Ok(builder.await?)
}
