//! Finds the bytes that an earlier download has left, by its note, and checks them against the note's checksums.

use std::ops::Range;
use std::sync::Arc;

use super::note::{self, Chunks, Description, Note};
use super::small;
use crate::backend::local::{Arrival, NotedTarget, WaitedWork};
use crate::backend::{Fault, FaultKind};
use crate::download::source::{ObjectSource, OpenObject, Pieces};
use crate::types::checksum::{Algorithm, Checksum, Hasher};
use crate::types::error::Result;
use crate::types::object::Object;

/// The beginning of a download: a file, perhaps with kept bytes.
#[derive(Debug)]
pub(super) struct DownloadStart {
    pub(super) arrival: Arc<Arrival>,
    pub(super) kept: Option<KeptBytes>,
    /// Why an earlier download is not resumed, although it may have left bytes.
    pub(super) warning: Option<String>,
}

/// Kept bytes of one object in the file: how many of each chunk, from its beginning on.
#[derive(Debug)]
pub(super) struct KeptBytes {
    note: Note,
    description: Description,
    there: Vec<Checksum>,
}

/// A download whose object is known.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) object: Object,
    /// `None` where the download is not worth resuming, or nothing could tell whether the object is still the same.
    pub(super) note: Option<Note>,
    pub(super) chunks: Chunks,
    /// How much of each chunk is there.
    pub(super) there: Vec<Checksum>,
}

impl DownloadStart {
    /// Reads all kept bytes, for as long as the caller waits.
    pub(super) fn at(
        place: NotedTarget,
        warning: Option<String>,
        url: &str,
        algorithm: Algorithm,
        waiting: &WaitedWork,
    ) -> Result<Self, Fault> {
        let (note, description, told) = match noted(&place, url, algorithm)? {
            Ok(Some(noted)) => noted,
            Ok(None) => return Self::anew(place, warning),
            Err(why) => return Self::anew(place, Some(why)),
        };
        let arrival = match place.resume(note.token(), description.size) {
            Ok(arrival) => Arc::new(arrival),
            Err(refused) => {
                let (place, why) = *refused;
                return Self::anew(place, Some(why));
            }
        };
        let chunks = Chunks::of(description.size);
        let mut there = Vec::with_capacity(told.len());
        for (number, told) in told.into_iter().enumerate() {
            let start = chunks.range(number).start;
            let range = start..start + told.covers();
            let is_there = told.covers() > 0 && checksum(&arrival, range, algorithm, waiting)? == Some(told);
            there.push(if is_there { told } else { algorithm.empty() });
        }
        if there.iter().all(|there| there.covers() == 0) {
            let arrival = Arc::new(arrival.begin_again()?);
            return Ok(Self { arrival, kept: None, warning });
        }
        Ok(Self { arrival, kept: Some(KeptBytes { note, description, there }), warning })
    }

    fn anew(place: NotedTarget, warning: Option<String>) -> Result<Self, Fault> {
        Ok(Self { arrival: Arc::new(place.begin()?), kept: None, warning })
    }
}

type Noted = (Note, Description, Vec<Checksum>);

/// The contents of the note at a place, if it is about the object at `url`; or why it can't be used.
fn noted(
    place: &NotedTarget,
    url: &str,
    algorithm: Algorithm,
) -> Result<std::result::Result<Option<Noted>, String>, Fault> {
    let unusable = |why: &str| format!("the note of an earlier download is not used: {why}; it begins again");
    Ok(match place.note(note::LONGEST)? {
        None => Ok(None),
        Some(bytes) => match Note::decode(&bytes) {
            Err(why) => Err(unusable(why)),
            Ok((_, description, _)) if description.url != url => Err(unusable("it is of another object")),
            Ok((_, description, _)) if description.algorithm != algorithm.name() => {
                Err(unusable("its checksums are of another kind"))
            }
            Ok(noted) => Ok(Some(noted)),
        },
    })
}

impl KeptBytes {
    /// How many bytes are kept, and of how many.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.there.iter().map(Checksum::covers).sum(), self.description.size)
    }

    /// Requests the first missing bytes of the same object; `None` if the key has another object by now.
    pub(super) async fn opened(self, source: &Arc<ObjectSource>) -> Result<Option<(Opened, Option<Pieces>)>> {
        let Self { note, description, there } = self;
        let (same, chunks) = (description.object(), Chunks::of(description.size));
        let rest = |(number, there): (usize, &Checksum)| {
            let range = chunks.range(number);
            Some(range.start + there.covers()..range.end).filter(|rest| !rest.is_empty())
        };
        let missing = there.iter().enumerate().find_map(rest);
        // One stream continues to the object's end.
        let is_one_stream = source.ignores_ranges();
        let asked = match &missing {
            Some(missing) => {
                let end = if is_one_stream { description.size } else { missing.end };
                let opened = source.open(Some(missing.start..end), Some(&same)).await;
                opened.map(|OpenObject { object, pieces, .. }| (object, Some(pieces)))
            }
            None => source.head(Some(&same)).await.map(|object| (object, None)),
        };
        match asked {
            Ok((object, stream)) => {
                let crc64nvme = object.crc64nvme.or(same.crc64nvme);
                let crc32c = object.crc32c.or(same.crc32c);
                let object = Object { crc64nvme, crc32c, ..object };
                let opened = Opened { object, note: Some(note), chunks, there };
                Ok(Some((opened, stream.filter(|_| source.ignores_ranges() == is_one_stream))))
            }
            // A smaller object has no such range.
            Err(failure) if matches!(failure.fault.kind, FaultKind::Replaced | FaultKind::Invalid) => {
                Ok(None)
            }
            Err(failure) => Err(source.failed(failure, 0)),
        }
    }
}

impl Opened {
    /// An object without any kept bytes.
    pub(super) fn anew(object: Object, url: &str, token: &str, algorithm: Algorithm) -> Self {
        let description = Description::new(url, &object, algorithm).filter(|_| object.size > small::MOST);
        let note = description.and_then(|description| Note::new(token, &description));
        let chunks = Chunks::of(object.size);
        Self { object, note, chunks, there: vec![algorithm.empty(); chunks.count()] }
    }
}

/// The checksum of a range of the file; `None` where the file ends before. The zeros of a hole, which may be
/// terabytes long, are not read.
fn checksum(
    arrival: &Arrival,
    range: Range<u64>,
    algorithm: Algorithm,
    waiting: &WaitedWork,
) -> Result<Option<Checksum>, Fault> {
    const PIECE: u64 = 256 << 10;
    let mut buffer = vec![0; PIECE.min(range.end - range.start) as usize];
    let (mut at, mut sum) = (range.start, algorithm.empty());
    while at < range.end {
        let bytes = arrival.next_bytes(at, range.end)?;
        sum = sum.then(&zeros(algorithm, bytes.start - at));
        let mut hasher = Hasher::resume(&sum);
        for from in bytes.clone().step_by(PIECE as usize) {
            waiting.check()?;
            let piece = &mut buffer[..(bytes.end - from).min(PIECE) as usize];
            if !arrival.read(piece, from)? {
                return Ok(None);
            }
            hasher.update(piece);
        }
        (at, sum) = (bytes.end, hasher.finish());
    }
    Ok(Some(sum))
}

/// The checksum of `count` zeros, computed without reading each of them.
fn zeros(algorithm: Algorithm, count: u64) -> Checksum {
    let (mut sum, mut power, mut left) = (algorithm.empty(), Checksum::of(algorithm, &[0]), count);
    while left > 0 {
        if left & 1 == 1 {
            sum = sum.then(&power);
        }
        left >>= 1;
        if left > 0 {
            power = power.then(&power);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::backend::local::Waiter;

    #[test]
    fn zeros_are_joined_as_they_would_be_read() {
        for algorithm in [Algorithm::Crc64Nvme, Algorithm::Crc32c] {
            for count in [0, 1, 2, 3, 255, 4096, 1_000_003] {
                assert_eq!(zeros(algorithm, count), Checksum::of(algorithm, &vec![0; count as usize]));
            }
        }
    }

    /// Terabytes of zeros take no time.
    #[test]
    fn a_hole_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let arrival = Arrival::begin(&path, &"0".repeat(16)).unwrap();
        let name = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
        let file = std::fs::OpenOptions::new().write(true).open(name).unwrap();
        let size = 4_u64 << 40;
        file.set_len(size).unwrap();
        file.write_all_at(b"data", 1 << 40).unwrap();
        let (waiter, algorithm) = (Waiter::default(), Algorithm::Crc64Nvme);
        let waiting = waiter.waiting();
        let sum = checksum(&arrival, 0..size, algorithm, &waiting).unwrap().unwrap();
        let data = Checksum::of(algorithm, b"data");
        assert_eq!(sum, zeros(algorithm, 1 << 40).then(&data).then(&zeros(algorithm, size - (1 << 40) - 4)));
        drop(waiter);
        checksum(&arrival, 1 << 40..(1 << 40) + 4, algorithm, &waiting).unwrap_err();
    }
}
