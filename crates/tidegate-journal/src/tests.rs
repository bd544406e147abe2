use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;

use super::log::Log;
use super::record::{Header, Part, Record};
use super::recover::{self, Check, Recovered};
use super::*;
use tidegate_core::types::checksum::Algorithm;

mod bits;
mod crash;
mod faults;
mod full;
mod order;
mod real;
mod sound;

use super::testkit::disk::{self, SimFile};

const NAME: &str = "/journals/one.journal";

fn header(algorithm: Algorithm) -> Header {
    Header {
        upload: "one".into(),
        url: "s3://bucket".into(),
        key: "a/key with \"quotes\" and ünïcode".into(),
        checksum: algorithm.empty(),
        created: 1_700_000_000,
        options: serde_json::json!({"create_only": true, "metadata": {"a": "b"}}),
    }
}

fn part(number: u32, offset: u64, size: u64) -> Part {
    let checksum = Checksum::known(Algorithm::Crc64Nvme, u64::from(number) << 60, size);
    Part { number, offset, size, etag: format!("\"{number:032x}\""), checksum }
}

fn create(file: &Arc<SimFile>, algorithm: Algorithm) -> Log {
    Log::create(Path::new(NAME), file.clone(), header(algorithm), *b"salt salt salt s").unwrap()
}

fn resume(file: &Arc<SimFile>) -> Result<(Log, Recovered), JournalError> {
    recover::resume(Path::new(NAME), file.clone())
}

fn scan(bytes: Vec<u8>, check: Check) -> Result<Recovered, JournalError> {
    let file = SimFile::of(bytes, Rng::with_seed(0));
    recover::scan(Path::new(NAME), &*file, check).map(|scan| scan.recovered())
}

/// Reads a range of the object in pieces, as a request body does.
fn read(log: &Log, from: u64, length: usize, piece: usize) -> Result<Vec<u8>, JournalError> {
    let (mut bytes, mut near) = (vec![0; length], None);
    let mut done = 0;
    while done < length {
        let end = (done + piece).min(length);
        let buffer = &mut bytes[done..end];
        let offset = from + done as u64;
        let read = match log.read(buffer, offset, &mut near, false)? {
            Some(read) => read,
            None => log.read(buffer, offset, &mut near, true)?.unwrap(),
        };
        assert!(read > 0, "{read} bytes at {offset}, in the middle of the object");
        done += read;
    }
    Ok(bytes)
}

fn data(size: usize, seed: u64) -> Bytes {
    let mut random = Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(size).collect()
}
