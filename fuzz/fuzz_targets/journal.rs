//! Builds a journal from the input, with as many mistakes as the input asks for, and has the library read it.
//! The journal follows docs/JOURNAL.md, not the library's own code. Wrong fields have right checksums, so that
//! the reader gets past the checksums to the fields.
#![no_main]

use std::io;
use std::ops::Range;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tidegate::checksum::{Algorithm, Checksum};
use tidegate::journal::{JournalFile, examine};

const HEAD: usize = 16384;
const BLOCK: usize = 4096;
const SALT: [u8; 16] = *b"0123456789abcdef";

/// A file in memory.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl JournalFile for Bytes {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let length = buffer.len().min(from.len());
        buffer[..length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read(buffer, offset).map(Some)
    }

    fn write(&self, _: u64, _: &[&[u8]]) -> io::Result<()> {
        panic!("reading a journal changes nothing")
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        panic!("reading a journal changes nothing")
    }

    fn sync(&self) -> io::Result<()> {
        panic!("reading a journal changes nothing")
    }

    fn punch(&self, _: Range<u64>) -> io::Result<()> {
        panic!("reading a journal changes nothing")
    }

    fn allocate(&self, _: Range<u64>) -> io::Result<()> {
        panic!("reading a journal changes nothing")
    }
}

/// The fuzzer's input, from which everything is built; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            small => u64::from(small) * 8,
        }
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The right value; if `wrong`, a value from the input.
    fn value(&mut self, right: u64, wrong: bool) -> u64 {
        if wrong { self.number() } else { right }
    }
}

struct Writer {
    file: Vec<u8>,
    object: Vec<u8>,
    previous: u32,
    synced: u64,
    /// Whether the journal is valid so far.
    right: bool,
}

impl Writer {
    fn running(&self) -> u64 {
        Checksum::of(Algorithm::Crc64Nvme, &self.object).value()
    }

    fn preamble(&mut self, input: &mut Input<'_>) {
        let mut sector = [0; 512];
        sector[..8].copy_from_slice(b"TIDEJRNL");
        let version = if input.byte() == 7 { input.byte() } else { 1 };
        self.right &= version == 1;
        sector[8] = version;
        sector[16..32].copy_from_slice(&SALT);
        let sum = crc32c::crc32c(&sector[..32]);
        sector[32..36].copy_from_slice(&sum.to_le_bytes());
        self.previous = sum;
        self.file.extend_from_slice(&sector);
        for slot in 1..=2 {
            self.file.resize(slot * BLOCK, 0);
            self.slot(input);
        }
        self.file.resize(HEAD, 0);
    }

    fn slot(&mut self, input: &mut Input<'_>) {
        let mut sector = [0; 512];
        sector[..4].copy_from_slice(b"TGJS");
        let wrong = input.byte();
        let bit = |bit: u8| wrong & 0x80 != 0 && wrong & (1 << bit) != 0;
        self.right &= wrong & 0x80 == 0;
        let fields = [
            input.value(0, bit(0)),
            input.value(HEAD as u64, bit(1)),
            input.value(0, bit(2)),
            input.value(0, bit(3)),
            input.value(0, bit(4)),
            input.value(0, bit(5)),
        ];
        for (field, value) in fields.into_iter().enumerate() {
            sector[8 + 8 * field..16 + 8 * field].copy_from_slice(&value.to_le_bytes());
        }
        sector[56..60].copy_from_slice(&self.previous.to_le_bytes());
        let sum = crc32c::crc32c(&[&SALT[..], &sector[..60]].concat());
        sector[60..64].copy_from_slice(&sum.to_le_bytes());
        self.file.extend_from_slice(&sector);
    }

    fn frame(&mut self, input: &mut Input<'_>, kind: u8, payload: &[u8]) {
        let wrong = input.byte();
        let bit = |bit: u8| wrong & 0x80 != 0 && wrong & (1 << bit) != 0;
        self.right &= wrong & 0x80 == 0;
        let before = self.object.len() as u64;
        if kind == 1 {
            self.object.extend_from_slice(payload);
        }
        let at = self.file.len() as u64;
        let mut padded = payload.to_vec();
        padded.resize(payload.len().next_multiple_of(8), 0);
        let mut header = [0; 48];
        header[..4].copy_from_slice(b"TGJF");
        header[4] = kind;
        let length = input.value(payload.len() as u64, bit(0)) as u32;
        header[8..12].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c(&padded) ^ u32::from(bit(1));
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        header[16..24].copy_from_slice(&input.value(before, bit(2)).to_le_bytes());
        header[24..32].copy_from_slice(&input.value(self.synced, bit(3)).to_le_bytes());
        header[32..40].copy_from_slice(&input.value(self.running(), bit(4)).to_le_bytes());
        header[40..44].copy_from_slice(&(self.previous ^ u32::from(bit(5))).to_le_bytes());
        let sum = crc32c::crc32c(&[&SALT[..], &at.to_le_bytes(), &header[..44]].concat());
        header[44..48].copy_from_slice(&(sum ^ u32::from(bit(6))).to_le_bytes());
        self.previous = sum;
        self.file.extend_from_slice(&header);
        self.file.extend_from_slice(&padded);
    }
}

const HEADER: &str = r#"{"upload":"u","url":"s3://b","key":"k","checksum":{"algorithm":"crc64nvme","value":"0000000000000000","covers":0},"created":1,"options":null}"#;

fn record(writer: &Writer, input: &mut Input<'_>) -> (Vec<u8>, bool) {
    let length = writer.object.len() as u64;
    let offset = input.number();
    let (text, right) = match input.byte() {
        0 => (format!(r#"{{"header":{HEADER}}}"#), false),
        1 => (r#"{"session":{"kind":"parts","id":"s"}}"#.to_owned(), true),
        2 => {
            let sum = r#"{"algorithm":"crc32c","value":"12","covers":3}"#;
            (
                format!(
                    r#"{{"part":{{"number":1,"offset":{offset},"size":3,"etag":"e","checksum":{sum}}}}}"#
                ),
                offset.saturating_add(3) <= length,
            )
        }
        3 => (format!(r#"{{"committed":{offset}}}"#), offset <= length),
        4 => {
            let sum =
                format!(r#"{{"algorithm":"crc64nvme","value":"{:x}","covers":{length}}}"#, writer.running());
            (format!(r#"{{"finish":{sum}}}"#), false)
        }
        5 => (r#"{"end":"aborted"}"#.to_owned(), true),
        6 => {
            let state = format!(r#""session":null,"parts":[],"committed":{offset},"finish":null,"end":null"#);
            (format!(r#"{{"checkpoint":{{"header":{HEADER},{state}}}}}"#), offset <= length)
        }
        _ => {
            let most = usize::from(input.byte());
            return (input.bytes(most).to_vec(), false);
        }
    };
    (text.into_bytes(), right)
}

fuzz_target!(|data: &[u8]| {
    let input = &mut Input(data);
    let mut writer = Writer { file: Vec::new(), object: Vec::new(), previous: 0, synced: 0, right: true };
    writer.preamble(input);
    if input.byte() != 9 {
        writer.frame(input, 3, format!(r#"{{"header":{HEADER}}}"#).as_bytes());
    } else {
        writer.right = false;
    }
    while !input.0.is_empty() {
        match input.byte() {
            0..100 => {
                let most = usize::from(input.byte()) * 4;
                let bytes = input.bytes(most);
                writer.frame(input, 1, bytes);
            }
            100..180 => {
                let (text, right) = record(&writer, input);
                writer.right &= right;
                writer.frame(input, 3, &text);
            }
            180..200 => {
                let bytes = input.bytes(8);
                writer.frame(input, 2, bytes);
            }
            200..220 => writer.synced = writer.file.len() as u64,
            220..230 => {
                let at = usize::try_from(input.number()).unwrap_or(usize::MAX) % writer.file.len();
                writer.file[at] ^= input.byte();
                writer.right = false;
            }
            230..235 => {
                let length = usize::try_from(input.number()).unwrap_or(usize::MAX) % writer.file.len();
                // Keeps at least half of the file, rounded down to 8 bytes.
                writer.file.truncate((length.max(writer.file.len() / 2) / 8 * 8).max(8));
                writer.right = false;
            }
            kind => {
                let bytes = input.bytes(40);
                writer.frame(input, kind, bytes);
                writer.right = false;
            }
        }
    }
    let Writer { file, object, right, .. } = writer;
    match examine(Path::new("fuzzed"), &Bytes(file)) {
        Ok(found) if right => {
            assert_eq!(found.checksum, Checksum::of(Algorithm::Crc64Nvme, &object));
            assert_eq!(found.cut, 0);
        }
        Ok(found) => assert!(found.state.committed <= found.checksum.covers()),
        Err(error) => assert!(!right, "{error}"),
    }
});
