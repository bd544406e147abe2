//! Parses and formats sizes.

/// 1024 bytes.
pub const KIB: u64 = 1024;
/// 1024 KiB.
pub const MIB: u64 = 1024 * KIB;
/// 1024 MiB.
pub const GIB: u64 = 1024 * MIB;

const UNITS: [(&str, u64); 4] = [("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1)];

/// Parses `64KiB`, `1GiB` or a number of bytes; zero is rejected.
pub fn parse(text: &str) -> Result<u64, String> {
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1));
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .filter(|size| *size > 0)
        .ok_or_else(|| format!("{text}: write a size such as 64KiB, 16MiB or 1GiB"))
}

/// Formats a size in the largest unit that divides it.
#[must_use]
pub fn format(size: u64) -> String {
    let (name, unit) = UNITS.iter().find(|(_, unit)| size.is_multiple_of(*unit)).unwrap_or(&UNITS[3]);
    format!("{} {name}", size / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("1GiB"), Ok(GIB));
        assert_eq!(parse("16MiB"), Ok(16 * MIB));
        assert_eq!(parse("4KiB"), Ok(4096));
        assert_eq!(parse("7B"), Ok(7));
        assert_eq!(parse("7"), Ok(7));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for wrong in ["", "0", "0MiB", "-1", "1.5GiB", "1GB", "GiB", "99999999999999GiB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        assert_eq!(format(GIB), "1 GiB");
        assert_eq!(format(1536 * MIB), "1536 MiB");
        assert_eq!(format(4096), "4 KiB");
        assert_eq!(format(4097), "4097 B");
    }
}
