//! Writes numbers of bytes as messages show them.

use std::fmt::{Display, Formatter, Result};

const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];

/// Exactly, in the largest unit that divides the number: `5 MiB`, `5242881 bytes`.
pub struct Exactly(pub u64);

impl Display for Exactly {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match UNITS.iter().find(|(shift, _)| self.0 >> shift > 0 && self.0.trailing_zeros() >= *shift) {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// To a tenth of the largest unit that the number reaches: `5.0 MiB`, `16.0 KiB`, `17 bytes`.
pub struct Rounded(pub u64);

impl Display for Rounded {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match UNITS.iter().find(|(shift, _)| self.0 >> shift > 0) {
            Some((shift, unit)) => write!(f, "{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64),
            None => write!(f, "{} bytes", self.0),
        }
    }
}
