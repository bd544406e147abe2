//! Sorts a listing by key, for stores that list in another order.
//!
//! Azure's accounts with a hierarchical namespace list `a/b` before `a-b`. A listing that fits into memory is sorted there;
//! a longer one becomes sorted runs in a temporary file without a name, which are then merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::mem;
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::SystemTime;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tidegate::Object;

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
    let sorting = Sorting::Reads { listing, runs: SortedRuns::default() };
    stream::unfold(Some((tree, sorting)), move |state| async move {
        let (tree, sorting) = state?;
        match sorting.next(most_in_memory).await {
            Ok(None) => None,
            Ok(Some((entry, sorting))) => Some((entry, Some((tree, sorting)))),
            Err(error) => Some((Err(Missed::Failed(Error::Unsorted { tree, error })), None)),
        }
    })
    .boxed()
}

enum Sorting<L> {
    Reads { listing: L, runs: SortedRuns },
    Merges(MergedRuns),
}

impl<L: Stream<Item = Result<TreeObject, Missed>> + Unpin> Sorting<L> {
    async fn next(mut self, most_in_memory: usize) -> io::Result<Option<(Result<TreeObject, Missed>, Self)>> {
        loop {
            match &mut self {
                Self::Reads { listing, runs } => match listing.next().await {
                    Some(Ok(object)) => {
                        runs.waiting.push(object);
                        if runs.waiting.len() >= most_in_memory {
                            runs.write().await?;
                        }
                    }
                    Some(Err(missed)) => return Ok(Some((Err(missed), self))),
                    None => self = Self::Merges(mem::take(runs).merge()?),
                },
                Self::Merges(runs) => return Ok(runs.next()?.map(|object| (Ok(object), self))),
            }
        }
    }
}

/// The objects that have been read: sorted runs of them in a file, and in memory those that wait for the next run.
#[derive(Default)]
struct SortedRuns {
    waiting: Vec<TreeObject>,
    file: Option<File>,
    /// Where in the file each run ends.
    ends: Vec<u64>,
}

impl SortedRuns {
    /// Makes a run of the objects that wait.
    async fn write(&mut self) -> io::Result<()> {
        let (mut objects, file) = (mem::take(&mut self.waiting), self.file.take());
        let writing = tokio::task::spawn_blocking(move || {
            objects.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            append(file, &objects)
        });
        let written = writing.await.unwrap_or_else(|ended| match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(ended) => Err(io::Error::other(ended)),
        });
        let (file, end) = written?;
        self.file = Some(file);
        self.ends.push(end);
        Ok(())
    }

    fn merge(mut self) -> io::Result<MergedRuns> {
        // Taken from the end, so the first key comes last.
        self.waiting.sort_unstable_by(|one, other| other.key.cmp(&one.key));
        let mut runs = vec![Run::Memory(self.waiting)];
        if let Some(file) = self.file.map(Arc::new) {
            let mut start = 0;
            for end in self.ends {
                runs.push(Run::File(BufReader::new(Section { file: file.clone(), at: start, end })));
                start = end;
            }
        }
        let mut merged = MergedRuns(BinaryHeap::new());
        for mut run in runs {
            merged.0.extend(run.next()?.map(|first| Head { first, run }));
        }
        Ok(merged)
    }
}

/// Appends objects to the file, which is made for the first ones; returns where they end.
fn append(file: Option<File>, objects: &[TreeObject]) -> io::Result<(File, u64)> {
    let mut writer = BufWriter::new(file.map_or_else(tempfile::tempfile, Ok)?);
    for object in objects {
        serde_json::to_writer(&mut writer, &Record::of(object))?;
        writer.write_all(b"\n")?;
    }
    let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    let end = file.stream_position()?;
    Ok((file, end))
}

/// Sorted runs that are read as one.
struct MergedRuns(BinaryHeap<Head>);

impl MergedRuns {
    fn next(&mut self) -> io::Result<Option<TreeObject>> {
        let Some(mut head) = self.0.peek_mut() else { return Ok(None) };
        let next = head.run.next()?;
        Ok(Some(match next {
            Some(next) => mem::replace(&mut head.first, next),
            None => PeekMut::pop(head).first,
        }))
    }
}

/// A run and its first object. The greatest is the one whose key comes first.
struct Head {
    first: TreeObject,
    run: Run,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.first.key.cmp(&self.first.key)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

enum Run {
    /// The objects in descending order.
    Memory(Vec<TreeObject>),
    File(BufReader<Section>),
}

impl Run {
    fn next(&mut self) -> io::Result<Option<TreeObject>> {
        match self {
            Self::Memory(objects) => Ok(objects.pop()),
            Self::File(section) => {
                let mut line = Vec::new();
                section.read_until(b'\n', &mut line)?;
                let record: Option<Record> =
                    (!line.is_empty()).then(|| serde_json::from_slice(&line)).transpose()?;
                Ok(record.map(Record::into_object))
            }
        }
    }
}

/// The bytes of a file from `at` to `end`.
struct Section {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Section {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let most = into.len().min(left);
        let read = self.file.read_at(&mut into[..most], self.at)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += read as u64;
        Ok(read)
    }
}

/// What comparisons need of a listed object, as a line of JSON.
#[derive(Serialize, Deserialize)]
struct Record {
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

impl Record {
    fn of(TreeObject { key, object }: &TreeObject) -> Self {
        Self {
            key: key.clone(),
            whole_key: object.key.clone(),
            size: object.known_size(),
            etag: object.etag.clone(),
            version: object.version.clone(),
            modified: object.modified,
            is_fresh: object.is_fresh,
            crc64nvme: object.crc64nvme.clone(),
            crc32c: object.crc32c.clone(),
            md5: object.other_checksums.get(MD5).cloned(),
        }
    }

    fn into_object(self) -> TreeObject {
        let mut object = Object::default();
        object.key = self.whole_key;
        (object.size, object.size_is_unknown) = (self.size.unwrap_or(0), self.size.is_none());
        (object.etag, object.version) = (self.etag, self.version);
        (object.modified, object.is_fresh) = (self.modified, self.is_fresh);
        (object.crc64nvme, object.crc32c) = (self.crc64nvme, self.crc32c);
        object.other_checksums.extend(self.md5.map(|md5| (MD5, md5)));
        TreeObject { key: self.key, object }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn object(key: &str, size: u64) -> TreeObject {
        let mut object = Object::default();
        object.key = format!("root/{key}");
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
    async fn a_key_that_is_listed_twice_comes_twice() {
        let twice = ["b", "a", "b"].map(|key| Ok(object(key, 1)));
        let keys: Vec<_> =
            read(twice.into(), 2).await.into_iter().map(|object| object.unwrap().key).collect();
        assert_eq!(keys, ["a", "b", "b"]);
    }

    #[tokio::test]
    async fn what_was_missed_comes_first() {
        let failed = Err(Missed::Failed(Error::Failed("no".to_owned())));
        let read = read(vec![Ok(object("b", 1)), failed, Ok(object("a", 2))], 1).await;
        assert!(matches!(&read[..], [Err(_), Ok(a), Ok(b)] if a.key == "a" && b.key == "b"), "{read:?}");
    }

    #[tokio::test]
    async fn a_run_that_was_cut_is_an_error() {
        let mut runs = SortedRuns { waiting: vec![object("b", 1), object("a", 2)], ..Default::default() };
        runs.write().await.unwrap();
        runs.file.as_ref().unwrap().set_len(runs.ends[0] - 5).unwrap();
        let mut merged = runs.merge().unwrap();
        let failed = merged.next().and_then(|_| merged.next());
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
