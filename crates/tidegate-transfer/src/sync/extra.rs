//! What only the target of a `sync --delete` has, until it is removed.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::sync::{Arc, OnceLock};

use crate::listing::TreeObject;
use futures::{Stream, StreamExt, stream};

use crate::error::{Error, Result, temporary_directory};

/// What only the target has, or what waits for its removal, in a file without a name: a million keys would take much
/// memory. There is no file before the first one.
#[derive(Default)]
pub(super) struct ExtraObjects {
    file: Option<BufWriter<File>>,
    pub(super) count: u64,
}

/// An object that only the target has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExtraObject {
    /// The key below the root of the tree.
    pub(super) key: String,
    /// The ETag in the listing; empty if there was none.
    pub(super) etag: String,
    /// The size in the listing, if there was one.
    pub(super) size: Option<u64>,
}

impl ExtraObjects {
    pub(super) fn push(&mut self, TreeObject { key, object }: &TreeObject) -> io::Result<()> {
        self.add(key, object.etag.as_deref().unwrap_or_default(), object.known_size())
    }

    /// Adds an object: key, ETag and size, each as text with its length in four bytes before it.
    fn add(&mut self, key: &str, etag: &str, size: Option<u64>) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::new(tempfile::tempfile()?)),
        };
        let size = size.map_or_else(String::new, |size| size.to_string());
        for text in [key, etag, &size] {
            let length = u32::try_from(text.len()).map_err(io::Error::other)?;
            file.write_all(&length.to_le_bytes())?;
            file.write_all(text.as_bytes())?;
        }
        self.count += 1;
        Ok(())
    }

    /// The objects in the order in which they were added. They end early with an error, which is then in the second
    /// value. They may be read again, and not at the same time.
    pub(super) fn read(
        &mut self,
    ) -> io::Result<(impl Stream<Item = ExtraObject> + Send + 'static, Arc<OnceLock<io::Error>>)> {
        let file = match &mut self.file {
            Some(file) => {
                file.flush()?;
                let mut file = file.get_ref().try_clone()?;
                file.rewind()?;
                Some(BufReader::new(file))
            }
            None => None,
        };
        let (mut file, mut left, unread) = (file, self.count, Arc::new(OnceLock::<io::Error>::new()));
        let error = unread.clone();
        let objects = std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let file = file.as_mut()?;
            let read = (|| {
                let (key, etag) = (read_text(file)?, read_text(file)?);
                Ok(ExtraObject { key, etag, size: read_text(file)?.parse().ok() })
            })();
            read.map_err(|unread| error.get_or_init(|| unread).kind()).ok()
        });
        Ok((stream::iter(objects.fuse()), unread))
    }
}

impl ExtraObjects {
    /// The objects that `is_kept` is true of.
    pub(super) async fn only(mut self, is_kept: impl Fn(&str) -> bool) -> Result<Self> {
        let (mut kept, mut failure) = (Self::default(), None);
        let keep = |object: ExtraObject| {
            if is_kept(&object.key)
                && let Err(unkept) = kept.add(&object.key, &object.etag, object.size)
            {
                failure.get_or_insert(unkept);
            }
        };
        self.each(keep).await?;
        failure.map_or(Ok(kept), |unkept| Err(lost_keys(&unkept)))
    }

    /// Calls `look` with each object.
    pub(super) async fn each(&mut self, mut look: impl FnMut(ExtraObject)) -> Result {
        let (mut objects, unread) = self.read().map_err(|error| lost_keys(&error))?;
        while let Some(object) = objects.next().await {
            look(object);
        }
        unread.get().map_or(Ok(()), |error| Err(lost_keys(error)))
    }
}

fn read_text(file: &mut impl Read) -> io::Result<String> {
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let mut text = vec![0; u32::from_le_bytes(length) as usize];
    file.read_exact(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// The failure of that file.
pub(super) fn lost_keys(error: &io::Error) -> Error {
    let directory = temporary_directory();
    Error::Failed(format!("the keys to remove could not be kept in a temporary file in {directory}: {error}"))
}

#[cfg(test)]
mod tests {
    use tidegate::Object;

    use super::*;

    fn object(number: usize) -> TreeObject {
        let object = Object {
            etag: number.is_multiple_of(2).then(|| format!("\"{number}\"")),
            size: number as u64,
            ..Object::default()
        };
        TreeObject { key: format!("é/{number}\n"), object }
    }

    #[tokio::test]
    async fn objects_to_remove_are_kept_in_order() {
        let mut kept = ExtraObjects::default();
        (0..2000).for_each(|number| kept.push(&object(number)).unwrap());
        assert_eq!(kept.count, 2000);
        drop(kept.read().unwrap().0.next().await);
        let (read, unread) = kept.read().unwrap();
        let read: Vec<_> = read.collect().await;
        let expected: Vec<_> = (0..2000)
            .map(object)
            .map(|TreeObject { key, object }| ExtraObject {
                key,
                size: object.known_size(),
                etag: object.etag.unwrap_or_default(),
            })
            .collect();
        assert!(read == expected && unread.get().is_none());
        assert_eq!(ExtraObjects::default().read().unwrap().0.collect::<Vec<_>>().await, []);
        let mut kept = kept.only(|key| key.contains("/12")).await.unwrap();
        let read: Vec<_> = kept.read().unwrap().0.collect().await;
        assert!(kept.count == 111 && read[1] == expected[120], "{read:?}");
    }
}
