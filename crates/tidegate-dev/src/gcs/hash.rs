//! The two hashes that Google stores with objects: CRC32C and MD5, in base64
//! (`cloud.google.com/storage/docs/data-validation`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, Digest};
use http::HeaderMap;
use md5::{Digest as _, Md5};

use super::refusal::GcsRefusal;
use crate::catalog::session::Expected;

/// Google's CRC32C: Castagnoli's polynomial, written big-endian.
pub(crate) const CRC32C: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    narrow(crc_fast::checksum(CRC32C, bytes))
}

/// The CRC of two concatenated pieces.
pub(crate) fn join(first: u32, second: u32, second_length: u64) -> u32 {
    narrow(crc_fast::checksum_combine(CRC32C, first.into(), second.into(), second_length))
}

/// A 32-bit CRC, which the library returns as 64 bits.
fn narrow(crc: u64) -> u32 {
    crc as u32
}

pub(crate) fn encode_crc32c(crc: u32) -> String {
    STANDARD.encode(crc.to_be_bytes())
}

pub(crate) fn encode_md5(md5: &[u8; 16]) -> String {
    STANDARD.encode(md5)
}

fn decode<const N: usize>(text: &str, what: &str) -> Result<[u8; N], GcsRefusal> {
    let bytes = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| GcsRefusal::invalid(format!("Value of {what} is not a valid base64 hash: {text:?}")))
}

pub(crate) fn decode_crc32c(text: &str) -> Result<u32, GcsRefusal> {
    decode(text, "crc32c").map(u32::from_be_bytes)
}

pub(crate) fn decode_md5(text: &str) -> Result<[u8; 16], GcsRefusal> {
    decode(text, "md5Hash")
}

impl Expected {
    /// Adds the hashes from a request's headers: `X-Goog-Hash` (`crc32c=…,md5=…`, or the header twice) and
    /// `Content-MD5`.
    pub(crate) fn add_headers(&mut self, headers: &HeaderMap) -> Result<(), GcsRefusal> {
        let lines = headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
        for hash in lines.flat_map(|line| line.split(',')) {
            match hash.trim().split_once('=') {
                Some(("crc32c", value)) => self.crc32c = Some(decode_crc32c(value)?),
                Some(("md5", value)) => self.md5 = Some(decode_md5(value)?),
                _ => return Err(GcsRefusal::invalid(format!("Invalid value for X-Goog-Hash: {hash:?}"))),
            }
        }
        if let Some(value) = headers.get("content-md5").and_then(|value| value.to_str().ok()) {
            self.md5 = Some(decode_md5(value)?);
        }
        Ok(())
    }

    /// Refuses an object that does not match the client's statements.
    pub(crate) fn check(&self, size: u64, crc32c: u32, md5: Option<&[u8; 16]>) -> Result<(), GcsRefusal> {
        if let Some(expected) = self.size.filter(|expected| *expected != size) {
            return Err(GcsRefusal::invalid(format!(
                "The object has {size} bytes, and was to have {expected}."
            )));
        }
        if let Some(expected) = self.crc32c.filter(|expected| *expected != crc32c) {
            return Err(GcsRefusal::invalid(format!(
                "Provided CRC32C \"{}\" doesn't match calculated CRC32C \"{}\".",
                encode_crc32c(expected),
                encode_crc32c(crc32c)
            )));
        }
        let Some(expected) = &self.md5 else {
            return Ok(());
        };
        match md5 {
            Some(md5) if md5 == expected => Ok(()),
            Some(md5) => Err(GcsRefusal::invalid(format!(
                "Provided MD5 hash \"{}\" doesn't match calculated MD5 hash \"{}\".",
                encode_md5(expected),
                encode_md5(md5)
            ))),
            None => Err(GcsRefusal::invalid(
                "An MD5 that comes behind bytes which this storage does not keep cannot be compared: give it when the upload starts.",
            )),
        }
    }
}

/// Computes both hashes. The MD5 costs more than all other work, so it is computed only if wanted.
#[derive(Clone, Debug)]
pub(crate) struct ObjectHasher {
    crc32c: Digest,
    pub(crate) md5: Option<Md5>,
}

impl ObjectHasher {
    pub(crate) fn new(md5: Option<Md5>) -> Self {
        Self { crc32c: Digest::new(CRC32C), md5 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.crc32c.update(bytes);
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
    }

    pub(crate) fn crc32c(&self) -> u32 {
        narrow(self.crc32c.finalize())
    }
}

pub(crate) fn finish_md5(md5: Md5) -> [u8; 16] {
    md5.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_documents() {
        // `printf 123456789`: the check value of CRC-32C, and the MD5 of the empty text.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(encode_md5(&finish_md5(Md5::new())), "1B2M2Y8AsgTpgAmY7PhCfg==");
        assert_eq!(decode_crc32c(&encode_crc32c(0xE306_9283)).unwrap(), 0xE306_9283);
        assert!(decode_crc32c("AAAA").is_err() && decode_md5("no").is_err());
    }

    #[test]
    fn crcs_join() {
        let (first, second) = (crc32c(b"12345"), crc32c(b"6789"));
        assert_eq!(join(first, second, 4), crc32c(b"123456789"));
        assert_eq!(join(0, second, 4), second);
    }

    #[test]
    fn headers_give_hashes() {
        let mut headers = HeaderMap::new();
        let text = format!("crc32c={},md5=1B2M2Y8AsgTpgAmY7PhCfg==", encode_crc32c(7));
        headers.insert("x-goog-hash", text.parse().unwrap());
        let mut expected = Expected::default();
        expected.add_headers(&headers).unwrap();
        assert_eq!(expected.crc32c, Some(7));
        assert_eq!(expected.md5, Some(finish_md5(Md5::new())));
        headers.insert("x-goog-hash", "sha256=x".parse().unwrap());
        assert!(expected.add_headers(&headers).is_err());
    }
}
