//! Layouts: which prefix a key is written below. docs/PREFIXES.md specifies the hashes and names.

use std::fmt;

use crc_fast::{CrcAlgorithm, checksum};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::unknown_name::UnknownName;

/// How a key's prefix is computed and named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Naming {
    /// The leading bits of the key's SHA-256, as zeros and ones: `010110`. The count must be a power of two. Stores
    /// split a busy range of keys into halves, and these names are spread evenly over both.
    #[default]
    Base2,
    /// `crc32(key) % count`, in decimal. The CRC-32 is that of zlib (CRC-32/ISO-HDLC).
    Decimal,
    /// `crc32(id) % count`, in decimal, for keys whose last segment is a number, up to its end or its first dot. `id`
    /// is that number as eight bytes, big-endian. Other keys are named as in [`Decimal`](Self::Decimal).
    DecimalId,
}

impl Naming {
    const ALL: [Self; 3] = [Self::Base2, Self::Decimal, Self::DecimalId];

    /// The name as users write it: `base2`, `decimal`, `decimal-id`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base2 => "base2",
            Self::Decimal => "decimal",
            Self::DecimalId => "decimal-id",
        }
    }
}

impl std::fmt::Display for Naming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Naming {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        UnknownName::find("naming", name, &Self::ALL, Self::name)
    }
}

/// How keys are spread: the number of prefixes, and their naming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    naming: Naming,
    count: u32,
}

impl Layout {
    /// Most prefixes of a layout.
    pub const MOST: u32 = 1 << 20;

    /// A layout with `count` prefixes, from 1 to [`MOST`](Self::MOST).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for another count, and with [`Naming::Base2`] for a count that is not a power of
    /// two.
    pub fn new(naming: Naming, count: u32) -> Result<Self> {
        let layout = Self { naming, count };
        layout.check().map_err(|message| {
            Error::new(ErrorKind::InvalidInput, Operation::Layout, format!("{count} prefixes"), message)
        })?;
        Ok(layout)
    }

    /// The reason why the layout is not valid, as an error.
    pub(super) fn check(self) -> Result<(), String> {
        let Self { naming, count } = self;
        if !(1..=Self::MOST).contains(&count) {
            return Err(format!("there may be 1 to {} prefixes", Self::MOST));
        }
        if naming == Naming::Base2 && !count.is_power_of_two() {
            let (less, more) = (1 << count.ilog2(), count.next_power_of_two());
            return Err(format!("with base2 names their count is a power of two: {less} or {more}"));
        }
        Ok(())
    }

    /// The number of prefixes.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The naming of the prefixes.
    pub fn naming(self) -> Naming {
        self.naming
    }

    /// The name of the prefix of `key`. It consists of digits only.
    pub fn name(self, key: &str) -> String {
        self.nth(match self.naming {
            Naming::Base2 => leading_bits(key) >> (32 - self.bits().max(1)) & (self.count - 1),
            Naming::Decimal => crc32(key.as_bytes()) % self.count,
            Naming::DecimalId => {
                let crc = match id(key) {
                    Some(id) => crc32(&id.to_be_bytes()),
                    None => crc32(key.as_bytes()),
                };
                crc % self.count
            }
        })
    }

    /// The names of all prefixes.
    pub fn names(self) -> impl Iterator<Item = String> + Send + use<> {
        (0..self.count).map(move |index| self.nth(index))
    }

    /// Whether one of the prefixes has this name.
    pub(super) fn has(self, name: &str) -> bool {
        let radix = if self.naming == Naming::Base2 { 2 } else { 10 };
        u32::from_str_radix(name, radix).is_ok_and(|index| index < self.count && self.nth(index) == name)
    }

    fn nth(self, index: u32) -> String {
        match self.naming {
            // Even a single prefix has a name.
            Naming::Base2 => format!("{index:0width$b}", width = self.bits().max(1) as usize),
            Naming::Decimal | Naming::DecimalId => index.to_string(),
        }
    }

    fn bits(self) -> u32 {
        self.count.ilog2()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes = if self.count == 1 { "prefix" } else { "prefixes" };
        write!(f, "{} {prefixes} ({})", self.count, self.naming.name())
    }
}

/// The first 32 bits of the key's SHA-256.
fn leading_bits(key: &str) -> u32 {
    let digest = Sha256::digest(key.as_bytes());
    digest.iter().take(4).fold(0, |bits, byte| bits << 8 | u32::from(*byte))
}

fn crc32(bytes: &[u8]) -> u32 {
    // The crate returns the 32-bit checksum in 64 bits.
    (checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) & u64::from(u32::MAX)) as u32
}

/// The number that makes up the last segment of `key`, up to its end or its first dot.
fn id(key: &str) -> Option<u64> {
    let last = key.rsplit('/').next()?;
    let number = last.split('.').next()?;
    // `parse` would also accept a sign.
    number.bytes().all(|digit| digit.is_ascii_digit()).then(|| number.parse().ok())?
}
