//! S3's checksums: named algorithms, in base64, over the whole object or over its parts' checksums
//! ("composite").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, Digest};
use s3s::crypto::{Checksum as _, Sha1, Sha256};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum S3Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

pub(crate) const ALGORITHMS: [S3Algorithm; 5] =
    [S3Algorithm::Crc32, S3Algorithm::Crc32c, S3Algorithm::Crc64Nvme, S3Algorithm::Sha1, S3Algorithm::Sha256];

impl S3Algorithm {
    /// The name in S3's spelling.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The header and trailer that carry the checksum.
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    pub(crate) fn parse(name: &str) -> S3Result<Self> {
        ALGORITHMS
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                s3_error!(
                    InvalidRequest,
                    "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]"
                )
            })
    }

    fn length(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 => None,
        }
    }

    /// Whether a session's checksum is composite if the client does not say.
    pub(crate) fn is_composite_by_default(self) -> bool {
        self != Self::Crc64Nvme
    }

    /// For an object uploaded in parts, only a checksum that can be combined may cover the whole object;
    /// CRC64NVME may not be composite.
    pub(crate) fn allows(self, is_composite: bool) -> bool {
        if is_composite { self != Self::Crc64Nvme } else { self.crc().is_some() }
    }

    /// Refuses a value that is not base64 of this algorithm's length.
    pub(crate) fn check_form(self, value: &str) -> S3Result<()> {
        match STANDARD.decode(value) {
            Ok(bytes) if bytes.len() == self.length() => Ok(()),
            _ => Err(s3_error!(InvalidRequest, "Value for {} header is invalid.", self.header())),
        }
    }
}

/// A checksum of an object or part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct S3Checksum {
    pub(crate) algorithm: S3Algorithm,
    /// Base64; a composite checksum ends with `-` and the number of parts.
    pub(crate) value: String,
    pub(crate) is_composite: bool,
}

impl S3Checksum {
    pub(crate) fn of_bytes(algorithm: S3Algorithm, value: &[u8]) -> Self {
        Self { algorithm, value: STANDARD.encode(value), is_composite: false }
    }

    /// Computes the checksum of the concatenated parts from their checksums and sizes.
    pub(crate) fn combine(algorithm: S3Algorithm, parts: &[(String, u64)]) -> S3Result<Self> {
        let crc = algorithm
            .crc()
            .ok_or_else(|| s3_error!(InternalError, "{} cannot be combined", algorithm.name()))?;
        let mut whole = crc_fast::checksum(crc, &[]);
        for (value, size) in parts {
            let part = number(&decode(value)?);
            whole = crc_fast::checksum_combine(crc, whole, part, *size);
        }
        let bytes = whole.to_be_bytes();
        Ok(Self::of_bytes(algorithm, &bytes[bytes.len() - algorithm.length()..]))
    }

    /// Computes the checksum of the parts' checksums.
    pub(crate) fn compose(algorithm: S3Algorithm, parts: &[(String, u64)]) -> S3Result<Self> {
        let mut hasher = S3Hasher::new(algorithm);
        for (value, _) in parts {
            hasher.update(&decode(value)?);
        }
        let mut checksum = hasher.finish();
        checksum.value = format!("{}-{}", checksum.value, parts.len());
        checksum.is_composite = true;
        Ok(checksum)
    }

    pub(crate) fn kind(&self) -> &'static str {
        kind(self.is_composite)
    }
}

pub(crate) fn kind(is_composite: bool) -> &'static str {
    if is_composite { "COMPOSITE" } else { "FULL_OBJECT" }
}

fn decode(value: &str) -> S3Result<Vec<u8>> {
    STANDARD.decode(value).map_err(|error| s3_error!(error, InternalError, "A kept checksum is not base64"))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Computes a checksum over pieces of bytes.
pub(crate) enum S3Hasher {
    Crc(S3Algorithm, Box<Digest>),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl S3Hasher {
    pub(crate) fn new(algorithm: S3Algorithm) -> Self {
        match (algorithm.crc(), algorithm) {
            (Some(crc), _) => Self::Crc(algorithm, Box::new(Digest::new(crc))),
            (None, S3Algorithm::Sha1) => Self::Sha1(Sha1::new()),
            (None, _) => Self::Sha256(Sha256::new()),
        }
    }

    pub(crate) fn algorithm(&self) -> S3Algorithm {
        match self {
            Self::Crc(algorithm, _) => *algorithm,
            Self::Sha1(_) => S3Algorithm::Sha1,
            Self::Sha256(_) => S3Algorithm::Sha256,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc(_, digest) => digest.update(bytes),
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> S3Checksum {
        let algorithm = self.algorithm();
        match self {
            Self::Crc(_, digest) => {
                let bytes = digest.finalize().to_be_bytes();
                S3Checksum::of_bytes(algorithm, &bytes[bytes.len() - algorithm.length()..])
            }
            Self::Sha1(hash) => S3Checksum::of_bytes(algorithm, hash.finalize().as_ref()),
            Self::Sha256(hash) => S3Checksum::of_bytes(algorithm, hash.finalize().as_ref()),
        }
    }
}

/// Stores a checksum in the matching one of an answer's five checksum fields.
macro_rules! set_checksum {
    ($output:expr, $checksum:expr) => {
        if let Some(checksum) = $checksum {
            use $crate::s3::checksum::S3Algorithm;
            let value = Some(checksum.value.clone());
            match checksum.algorithm {
                S3Algorithm::Crc32 => $output.checksum_crc32 = value,
                S3Algorithm::Crc32c => $output.checksum_crc32c = value,
                S3Algorithm::Crc64Nvme => $output.checksum_crc64nvme = value,
                S3Algorithm::Sha1 => $output.checksum_sha1 = value,
                S3Algorithm::Sha256 => $output.checksum_sha256 = value,
            }
        }
    };
}

/// A request's checksums from its five fields, as pairs of algorithm and value.
macro_rules! given_checksums {
    ($input:expr) => {{
        use $crate::s3::checksum::S3Algorithm;
        [
            (S3Algorithm::Crc32, $input.checksum_crc32.as_deref()),
            (S3Algorithm::Crc32c, $input.checksum_crc32c.as_deref()),
            (S3Algorithm::Crc64Nvme, $input.checksum_crc64nvme.as_deref()),
            (S3Algorithm::Sha1, $input.checksum_sha1.as_deref()),
            (S3Algorithm::Sha256, $input.checksum_sha256.as_deref()),
        ]
        .into_iter()
        .filter_map(|(algorithm, value)| value.map(|value| (algorithm, value.to_owned())))
    }};
}

pub(crate) use {given_checksums, set_checksum};

#[cfg(test)]
mod tests;
