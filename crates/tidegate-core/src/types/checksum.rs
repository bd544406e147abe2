//! Checksums that can be joined: the checksum of an object is computed from those of its parts.
//!
//! CRC-64/NVME and CRC-32C (iSCSI) as S3 and Google Cloud Storage name them; both are linear, so the
//! checksum of `a ++ b` follows from the checksums of `a` and `b` and the length of `b`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use crc_fast::{CrcAlgorithm, Digest};

use crate::types::unknown_name::UnknownName;

mod joining;

/// The checksum that travels with the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CRC-64/NVME: what S3 stores for a whole object, whatever its parts.
    #[default]
    Crc64Nvme,
    /// CRC-32C (Castagnoli): what Google Cloud Storage stores.
    Crc32c,
}

impl Algorithm {
    const ALL: [Self; 2] = [Self::Crc64Nvme, Self::Crc32c];

    fn crc(self) -> CrcAlgorithm {
        match self {
            Self::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            Self::Crc32c => CrcAlgorithm::Crc32Iscsi,
        }
    }

    /// The name as users write it: `crc64nvme`, `crc32c`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "crc64nvme",
            Self::Crc32c => "crc32c",
        }
    }

    fn width(self) -> usize {
        match self {
            Self::Crc64Nvme => 8,
            Self::Crc32c => 4,
        }
    }

    /// The checksum of no bytes.
    pub fn empty(self) -> Checksum {
        Hasher::new(self).finish()
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Algorithm {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        UnknownName::find("checksum", &name.to_ascii_lowercase(), &Self::ALL, Self::name)
    }
}

/// A checksum together with the number of bytes that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checksum {
    algorithm: Algorithm,
    value: u64,
    len: u64,
}

impl Checksum {
    /// The checksum of `bytes`.
    ///
    /// ```
    /// use tidegate::checksum::{Algorithm, Checksum};
    /// let sum = Checksum::of(Algorithm::Crc64Nvme, b"123456789");
    /// assert_eq!(sum.value(), 0xae8b_1486_0a79_9888); // check value of the CRC RevEng catalogue
    /// ```
    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    /// A checksum that was taken before and recorded.
    pub fn known(algorithm: Algorithm, value: u64, covers: u64) -> Self {
        Self { algorithm, value, len: covers }
    }

    /// Which checksum this is.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The value, as a number.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// How many bytes it covers.
    pub fn covers(&self) -> u64 {
        self.len
    }

    /// The checksum of these bytes followed by `next`'s bytes.
    ///
    /// # Panics
    /// If the two are of different algorithms; one upload uses one algorithm.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        assert_eq!(self.algorithm, next.algorithm, "checksums of one upload are of one algorithm");
        Self {
            algorithm: self.algorithm,
            value: joining::join(self.algorithm, self.value, next.value, next.len),
            len: self.len + next.len,
        }
    }

    /// The value as stores write it: big-endian bytes in base64.
    pub fn base64(&self) -> String {
        let bytes = self.value.to_be_bytes();
        STANDARD.encode(&bytes[8 - self.algorithm.width()..])
    }

    /// A checksum from a store's text, in the form that [`base64`](Self::base64) writes; `None` if the text is not
    /// a checksum of this algorithm.
    pub fn from_base64(algorithm: Algorithm, text: &str, covers: u64) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim()).ok().filter(|bytes| bytes.len() == algorithm.width())?;
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Some(Self::known(algorithm, value, covers))
    }

    /// Whether a store's text says the same value; `None` if the text is not a checksum of this algorithm, as the
    /// checksum of part checksums (`…-3`) and a text in another encoding are not.
    pub fn compare(&self, text: &str) -> Option<bool> {
        let text = text.trim().trim_end_matches('=');
        let told = STANDARD_NO_PAD.decode(text).ok().filter(|told| told.len() == self.algorithm.width())?;
        Some(told == self.value.to_be_bytes()[8 - self.algorithm.width()..])
    }

    /// Whether a store's base64 text says the same value.
    pub fn agrees_with(&self, base64: &str) -> bool {
        self.base64() == base64.trim()
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.base64())
    }
}

/// Computes a checksum piece by piece.
#[derive(Clone, Debug)]
pub struct Hasher {
    algorithm: Algorithm,
    digest: Digest,
    len: u64,
}

impl Hasher {
    /// A hasher that has taken in no bytes yet.
    pub fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, digest: Digest::new(algorithm.crc()), len: 0 }
    }

    /// Continues where `checksum` ends, as if its bytes had been taken in here.
    pub fn resume(checksum: &Checksum) -> Self {
        // Both algorithms are reflected and invert all bits at the end, so a digest's inner state is the inverse of
        // its result.
        let width = 8 * u32::try_from(checksum.algorithm.width()).unwrap_or_default();
        let state = !checksum.value & (u64::MAX >> (u64::BITS - width));
        let digest = Digest::new_with_init_state(checksum.algorithm.crc(), state);
        Self { algorithm: checksum.algorithm, digest, len: checksum.len }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// The checksum of everything taken in.
    pub fn finish(&self) -> Checksum {
        Checksum { algorithm: self.algorithm, value: self.digest.finalize(), len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn joined_parts_equal_the_whole(data in prop::collection::vec(any::<u8>(), 0..4096), cut in 0usize..4096) {
            let cut = cut.min(data.len());
            for algorithm in [Algorithm::Crc64Nvme, Algorithm::Crc32c] {
                let (a, b) = data.split_at(cut);
                let joined = Checksum::of(algorithm, a).then(&Checksum::of(algorithm, b));
                prop_assert_eq!(joined, Checksum::of(algorithm, &data));
                let mut resumed = Hasher::resume(&Checksum::of(algorithm, a));
                resumed.update(b);
                prop_assert_eq!(resumed.finish(), joined);
            }
        }
    }

    #[test]
    fn text_forms_are_those_of_the_stores() {
        let sum = Checksum::of(Algorithm::Crc32c, b"123456789");
        assert_eq!(sum.value(), 0xe306_9283); // CRC RevEng catalogue, CRC-32/ISCSI
        assert_eq!(sum.base64(), "4waSgw==");
        assert!(sum.agrees_with("4waSgw=="));
        assert_eq!(Algorithm::Crc64Nvme.empty().base64(), "AAAAAAAAAAA=");
        for (text, same) in [("4waSgw==", true), (" 4waSgw ", true), ("4waSgg==", false)] {
            assert_eq!(sum.compare(text), Some(same), "{text}");
        }
        for text in ["", "4waSgw==-3", "e3069283", "AAAAAAAAAAA=", "4wa!"] {
            assert_eq!(sum.compare(text), None, "{text}");
        }
    }
}
