//! What an earlier download has left: found, and known by its checksums.

use std::sync::Arc;

use super::record::{Description, ENTRY, FOOT, HEAD};
use super::{CHUNK, MOST_CHUNKS};
use crate::backend::local::Arrival;
use crate::backend::{Body, Fault, FaultKind};
use crate::checksum::{Algorithm, Checksum, Hasher};
use crate::error::Result;
use crate::object::Object;
use crate::read::source::{Pieces, Source};

/// Chunks of one object that are in a file.
#[derive(Debug)]
pub(super) struct Left {
    description: Description,
    there: Vec<Option<Checksum>>,
}

/// A download that can begin.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) object: Object,
    /// `None` where there is only one chunk, or where it could not be told whether the object is the same.
    pub(super) description: Option<Description>,
    pub(super) there: Vec<Option<Checksum>>,
    pub(super) is_new: bool,
}

impl Left {
    /// Reads what is there, all of it.
    pub(super) fn find(arrival: &Arrival, url: &str, algorithm: Algorithm) -> Result<Option<Self>, Fault> {
        let Some(description) = described(arrival)? else { return Ok(None) };
        if description.url != url
            || description.algorithm != algorithm.name()
            || description.file_size() != arrival.len()?
        {
            return Ok(None);
        }
        let chunks = usize::try_from(description.chunks()).unwrap_or(usize::MAX);
        // The file is that long, so this is no more than what is on disk.
        let mut entries = vec![0; chunks.saturating_mul(ENTRY)];
        if !arrival.read(&mut entries, description.entries())? {
            return Ok(None);
        }
        let mut there = Vec::with_capacity(chunks);
        for (number, entry) in (0..).zip(entries.chunks(ENTRY)) {
            let told = description.checksum(number, entry);
            there.push(match told {
                Some(told) => checksum(arrival, description.range(number), algorithm)?
                    .filter(|checksum| checksum.value() == told),
                None => None,
            });
        }
        Ok(there.iter().any(Option::is_some).then_some(Self { description, there }))
    }

    /// Nothing is there of this object.
    pub(super) fn nothing(object: Object, url: &str, algorithm: Algorithm) -> Opened {
        let chunk = CHUNK.max(object.size.div_ceil(MOST_CHUNKS));
        let description = Description::new(url, &object, chunk, algorithm).filter(|_| object.size > CHUNK);
        let chunks = object.size.div_ceil(chunk).max(1);
        Opened { object, description, there: vec![None; chunks as usize], is_new: true }
    }

    /// Asks for the first chunk that is missing, of the same object; `None` where the key has another by now.
    pub(super) async fn opened(self, source: &Arc<Source>) -> Result<Option<(Opened, Option<Pieces>)>> {
        let Self { description, there } = self;
        let same = description.object();
        let missing = there.iter().position(Option::is_none);
        let asked = match missing {
            Some(missing) => source.open(Some(description.range(missing as u64)), Some(&same)).await,
            None => source.head(Some(&same)).await.map(|object| {
                let range = 0..0;
                Body { object, range, stream: Box::pin(futures::stream::empty()) }
            }),
        };
        match asked {
            Ok(Body { object, stream, .. }) => {
                let crc64nvme = object.crc64nvme.or(same.crc64nvme);
                let crc32c = object.crc32c.or(same.crc32c);
                let object = Object { crc64nvme, crc32c, ..object };
                let opened = Opened { object, description: Some(description), there, is_new: false };
                Ok(Some((opened, missing.map(|_| stream))))
            }
            // One that is smaller has no such range.
            Err(failure) if matches!(failure.fault.kind, FaultKind::Replaced | FaultKind::Invalid) => {
                Ok(None)
            }
            Err(failure) => Err(source.failed(failure, 0)),
        }
    }
}

fn described(arrival: &Arrival) -> Result<Option<Description>, Fault> {
    let mut foot = [0; FOOT];
    let Some(at) = arrival.len()?.checked_sub(FOOT as u64) else { return Ok(None) };
    arrival.read(&mut foot, at)?;
    let Some(size) = Description::size_told(&foot).filter(|size| *size < at) else { return Ok(None) };
    let mut head = [0; HEAD];
    if !arrival.read(&mut head, size)? {
        return Ok(None);
    }
    let Some(length) = Description::length(&head) else { return Ok(None) };
    let mut text = vec![0; length];
    let is_there = arrival.read(&mut text, size + HEAD as u64)?;
    Ok(Description::decode(&head, &text).filter(|described| is_there && described.size == size))
}

/// The checksum of what is in a range of the file.
fn checksum(
    arrival: &Arrival,
    range: std::ops::Range<u64>,
    algorithm: Algorithm,
) -> Result<Option<Checksum>, Fault> {
    const PIECE: u64 = 256 << 10;
    let mut hasher = Hasher::new(algorithm);
    let mut buffer = vec![0; PIECE as usize];
    for at in range.clone().step_by(PIECE as usize) {
        let piece = &mut buffer[..(range.end - at).min(PIECE) as usize];
        if !arrival.read(piece, at)? {
            return Ok(None);
        }
        hasher.update(piece);
    }
    Ok(Some(hasher.finish()))
}
