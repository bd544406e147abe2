//! Sorts more records than fit into memory: full runs go to a temporary file without a name, each in order, and are then
//! merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is sorted: in the file, a line of JSON.
pub trait Record: Serialize + DeserializeOwned {
    /// Records are sorted by the bytes of this key.
    fn key(&self) -> &str;
}

/// The records so far: sorted runs in a file, and in memory the records of the next run.
#[derive(Debug)]
pub struct SortedRuns<R> {
    most_in_memory: usize,
    waiting: Vec<R>,
    file: Option<File>,
    /// Where in the file each run ends.
    ends: Vec<u64>,
}

impl<R: Record> SortedRuns<R> {
    /// No records yet, and so many in memory at most.
    pub fn new(most_in_memory: usize) -> Self {
        Self { most_in_memory, waiting: Vec::new(), file: None, ends: Vec::new() }
    }

    /// Adds a record. If the memory is then [full](Self::is_full), [`spill`](Self::spill) before the next one.
    pub fn push(&mut self, record: R) {
        self.waiting.push(record);
    }

    /// Whether as many records are in memory as may be.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.most_in_memory
    }

    /// Moves the records in memory to the file. Blocks.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub fn spill(&mut self) -> io::Result<()> {
        let mut records = mem::take(&mut self.waiting);
        records.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        let mut writer = BufWriter::new(self.file.take().map_or_else(tempfile::tempfile, Ok)?);
        for record in &records {
            serde_json::to_writer(&mut writer, record)?;
            writer.write_all(b"\n")?;
        }
        let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.ends.push(file.stream_position()?);
        self.file = Some(file);
        Ok(())
    }

    /// All records in order.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub fn merge(mut self) -> io::Result<MergedRuns<R>> {
        // Taken from the end, so the first key comes last.
        self.waiting.sort_unstable_by(|one, other| other.key().cmp(one.key()));
        let mut runs = vec![SortedRun::Memory(self.waiting)];
        if let Some(file) = self.file.map(Arc::new) {
            let mut start = 0;
            for end in self.ends {
                runs.push(SortedRun::File(BufReader::new(Section { file: file.clone(), at: start, end })));
                start = end;
            }
        }
        let mut heads = BinaryHeap::new();
        for mut run in runs {
            heads.extend(run.next()?.map(|first| Head { first, run }));
        }
        Ok(MergedRuns { heads })
    }
}

/// Sorted runs that are read as one. Reading blocks. An error of the temporary file ends the records.
pub struct MergedRuns<R> {
    heads: BinaryHeap<Head<R>>,
}

impl<R: Record> Default for MergedRuns<R> {
    fn default() -> Self {
        Self { heads: BinaryHeap::new() }
    }
}

impl<R> std::fmt::Debug for MergedRuns<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergedRuns").field("runs", &self.heads.len()).finish_non_exhaustive()
    }
}

impl<R: Record> Iterator for MergedRuns<R> {
    type Item = io::Result<R>;

    fn next(&mut self) -> Option<io::Result<R>> {
        let mut head = self.heads.peek_mut()?;
        Some(match head.run.next() {
            Ok(Some(next)) => Ok(mem::replace(&mut head.first, next)),
            Ok(None) => Ok(PeekMut::pop(head).first),
            Err(error) => {
                drop(head);
                self.heads.clear();
                Err(error)
            }
        })
    }
}

/// A run and its first record. The greatest is the one whose key comes first.
struct Head<R> {
    first: R,
    run: SortedRun<R>,
}

impl<R: Record> Ord for Head<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.first.key().cmp(self.first.key())
    }
}

impl<R: Record> PartialOrd for Head<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Record> Eq for Head<R> {}

impl<R: Record> PartialEq for Head<R> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

enum SortedRun<R> {
    /// The records in descending order.
    Memory(Vec<R>),
    File(BufReader<Section>),
}

impl<R: Record> SortedRun<R> {
    fn next(&mut self) -> io::Result<Option<R>> {
        match self {
            Self::Memory(records) => Ok(records.pop()),
            Self::File(section) => {
                let mut line = Vec::new();
                section.read_until(b'\n', &mut line)?;
                Ok((!line.is_empty()).then(|| serde_json::from_slice(&line)).transpose()?)
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Named(String, u32);

    impl Record for Named {
        fn key(&self) -> &str {
            &self.0
        }
    }

    fn runs(names: &[String], most: usize) -> SortedRuns<Named> {
        let mut runs = SortedRuns::new(most);
        for (number, name) in (0..).zip(names) {
            runs.push(Named(name.clone(), number));
            if runs.is_full() {
                runs.spill().unwrap();
            }
        }
        runs
    }

    #[test]
    fn any_number_of_records_comes_in_order_and_whole() {
        let mut random = fastrand::Rng::with_seed(1);
        for length in [0, 1, 2, 3, 6, 7, 100] {
            let name = |number: usize| format!("é{}/\n{number}", ["", "-", "/"][number % 3]);
            let mut names: Vec<_> = (0..length).map(name).collect();
            random.shuffle(&mut names);
            let mut expected: Vec<_> =
                names.iter().zip(0..).map(|(name, number)| Named(name.clone(), number)).collect();
            expected.sort_by(|one, other| one.0.cmp(&other.0));
            for most in [1, 3, 1000] {
                let read: Vec<_> = runs(&names, most).merge().unwrap().map(Result::unwrap).collect();
                assert_eq!(read, expected, "{length} records, {most} in memory");
            }
        }
    }

    #[test]
    fn a_key_that_comes_twice_stays_twice() {
        let names = ["b", "a", "b"].map(str::to_owned);
        let read: Vec<_> = runs(&names, 2).merge().unwrap().map(|record| record.unwrap().0).collect();
        assert_eq!(read, ["a", "b", "b"]);
    }

    #[test]
    fn a_run_that_was_cut_is_an_error() {
        let runs = runs(&["b".to_owned(), "a".to_owned()], 2);
        runs.file.as_ref().unwrap().set_len(runs.ends[0] - 5).unwrap();
        let mut merged = runs.merge().unwrap();
        let failed = merged.next().unwrap().and_then(|_| merged.next().unwrap());
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(merged.next().is_none());
    }
}
