//! Sorts a listing by key, for stores that list in another order.
//!
//! Azure's accounts with a hierarchical namespace list `a/b` before `a-b`. A listing that fits into memory is sorted there;
//! a longer one becomes sorted runs in a temporary file without a name, which are then merged.

use std::io;
use std::panic::resume_unwind;
use std::time::SystemTime;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tidegate::Object;
use tidegate::external_sort::{MergedRuns, Record, SortedRuns};

use super::TreeObject;
use crate::error::Error;
use crate::walk::Missed;

/// The most objects that are sorted in memory at once: about 32 MiB, at 1 KiB each.
const MOST_IN_MEMORY: usize = 1 << 15;

/// The objects of the listing of `tree` in the order of their keys. The whole listing is read before the first object
/// comes; what the listing has missed comes at once. If the temporary file fails, the listing ends with
/// [`Error::Unsorted`].
pub(crate) fn by_key<L>(tree: String, listing: L) -> BoxStream<'static, Result<TreeObject, Missed>>
where
    L: Stream<Item = Result<TreeObject, Missed>> + Send + Unpin + 'static,
{
    sorted(tree, listing, MOST_IN_MEMORY)
}

fn sorted<L>(
    tree: String,
    listing: L,
    most_in_memory: usize,
) -> BoxStream<'static, Result<TreeObject, Missed>>
where
    L: Stream<Item = Result<TreeObject, Missed>> + Send + Unpin + 'static,
{
    let sorting = Sorting::Reads { listing, runs: SortedRuns::new(most_in_memory) };
    stream::unfold(Some((tree, sorting)), move |state| async move {
        let (tree, sorting) = state?;
        match sorting.next().await {
            Ok(None) => None,
            Ok(Some((entry, sorting))) => Some((entry, Some((tree, sorting)))),
            Err(error) => Some((Err(Missed::Failed(Error::Unsorted { tree, error })), None)),
        }
    })
    .boxed()
}

enum Sorting<L> {
    Reads { listing: L, runs: SortedRuns<ListedRecord> },
    Merges(MergedRuns<ListedRecord>),
}

impl<L: Stream<Item = Result<TreeObject, Missed>> + Unpin> Sorting<L> {
    async fn next(mut self) -> io::Result<Option<(Result<TreeObject, Missed>, Self)>> {
        loop {
            self = match self {
                Self::Reads { mut listing, mut runs } => match listing.next().await {
                    Some(Ok(object)) => {
                        runs.push(ListedRecord::of(object));
                        let runs = if runs.is_full() { spilled(runs).await? } else { runs };
                        Self::Reads { listing, runs }
                    }
                    Some(Err(missed)) => return Ok(Some((Err(missed), Self::Reads { listing, runs }))),
                    None => Self::Merges(runs.merge()?),
                },
                Self::Merges(mut runs) => {
                    let next = runs.next().transpose()?;
                    return Ok(next.map(|record| (Ok(record.into_object()), Self::Merges(runs))));
                }
            }
        }
    }
}

/// Writes the objects in memory to the file, without blocking the caller's thread.
async fn spilled(mut runs: SortedRuns<ListedRecord>) -> io::Result<SortedRuns<ListedRecord>> {
    let spilling = tokio::task::spawn_blocking(move || runs.spill().map(|()| runs));
    spilling.await.unwrap_or_else(|ended| match ended.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(ended) => Err(io::Error::other(ended)),
    })
}

/// What comparisons need of a listed object, as a line of JSON.
#[derive(Serialize, Deserialize)]
struct ListedRecord {
    key: String,
    whole_key: String,
    size: Option<u64>,
    etag: Option<String>,
    version: Option<String>,
    modified: Option<SystemTime>,
    is_fresh: bool,
    crc64nvme: Option<String>,
    crc32c: Option<String>,
    md5: Option<String>,
}

const MD5: &str = "md5";

impl Record for ListedRecord {
    fn key(&self) -> &str {
        &self.key
    }
}

impl ListedRecord {
    fn of(TreeObject { key, object }: TreeObject) -> Self {
        Self {
            key,
            size: object.known_size(),
            md5: object.other_checksums.get(MD5).cloned(),
            whole_key: object.key,
            etag: object.etag,
            version: object.version,
            modified: object.modified,
            is_fresh: object.is_fresh,
            crc64nvme: object.crc64nvme,
            crc32c: object.crc32c,
        }
    }

    fn into_object(self) -> TreeObject {
        let mut object = Object {
            key: self.whole_key,
            size: self.size.unwrap_or(0),
            size_is_unknown: self.size.is_none(),
            etag: self.etag,
            version: self.version,
            modified: self.modified,
            is_fresh: self.is_fresh,
            crc64nvme: self.crc64nvme,
            crc32c: self.crc32c,
            ..Object::default()
        };
        object.other_checksums.extend(self.md5.map(|md5| (MD5, md5)));
        TreeObject { key: self.key, object }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn object(key: &str, size: u64) -> TreeObject {
        let mut object = Object { key: format!("root/{key}"), ..Object::default() };
        (object.size, object.size_is_unknown) = (size, size == 0);
        object.etag = Some(format!("\"{size}\n\""));
        object.version = (!size.is_multiple_of(2)).then(|| size.to_string());
        object.modified = Some(UNIX_EPOCH + Duration::from_nanos(size * 1_000_000_001));
        object.is_fresh = size.is_multiple_of(3);
        object.crc64nvme = Some("crc64".to_owned());
        object.crc32c = Some("crc32c".to_owned());
        object.other_checksums.insert(MD5, "md5".to_owned());
        TreeObject { key: key.to_owned(), object }
    }

    async fn read(listing: Vec<Result<TreeObject, Missed>>, most: usize) -> Vec<Result<TreeObject, Missed>> {
        sorted("tree".to_owned(), stream::iter(listing), most).collect().await
    }

    #[tokio::test]
    async fn a_listing_of_any_length_comes_in_order_and_whole() {
        let mut random = fastrand::Rng::with_seed(1);
        for length in [0, 1, 2, 3, 6, 7, 100] {
            let name = |number: usize| format!("é{}/\n{number}", ["", "-", "/"][number % 3]);
            let mut objects: Vec<_> =
                (0..length).map(|number| object(&name(number), number as u64)).collect();
            random.shuffle(&mut objects);
            let mut expected = objects.clone();
            expected.sort_by(|one, other| one.key.cmp(&other.key));
            for most in [1, 3, 1000] {
                let read = read(objects.iter().cloned().map(Ok).collect(), most).await;
                let read: Vec<_> = read.into_iter().map(Result::unwrap).collect();
                assert_eq!(read.len(), length);
                for (read, expected) in read.iter().zip(&expected) {
                    assert_eq!((&read.key, &read.object), (&expected.key, &expected.object));
                }
            }
        }
    }

    #[tokio::test]
    async fn what_was_missed_comes_first() {
        let failed = Err(Missed::Failed(Error::Failed("no".to_owned())));
        let read = read(vec![Ok(object("b", 1)), failed, Ok(object("a", 2))], 1).await;
        assert!(matches!(&read[..], [Err(_), Ok(a), Ok(b)] if a.key == "a" && b.key == "b"), "{read:?}");
    }
}
