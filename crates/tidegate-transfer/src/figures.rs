//! Numbers and names in sentences for people.

/// `1 part`, `2 parts`.
pub fn count(number: u64, what: &str) -> String {
    format!("{number} {}", plural(number, what))
}

fn plural(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{what}{ending}")
}

/// A size with its unit: `17 bytes`, `512.0 KiB`, `1024.0 MiB`, `12.0 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 10 << 40), ("GiB", 10 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, least) in UNITS {
        if bytes >= least {
            // The largest power of 1024 that is not above `least`.
            let unit_bytes = 1u64 << (least.ilog2() / 10 * 10);
            return format!("{:.1} {unit}", bytes as f64 / unit_bytes as f64);
        }
    }
    format!("{bytes} {}", plural(bytes, "byte"))
}

/// An argument, quoted for a shell if needed.
pub fn quoted(argument: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+=,".contains(letter);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_reads_best() {
        let written = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (15 << 20, "15.0 MiB"),
            (1 << 30, "1024.0 MiB"),
            (10 << 30, "10.0 GiB"),
            (5 << 40, "5120.0 GiB"),
            (20 << 40, "20.0 TiB"),
        ];
        for (bytes, text) in written {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn arguments_survive_a_shell() {
        assert_eq!(quoted("dev://demo/a.txt"), "dev://demo/a.txt");
        assert_eq!(quoted("dev://demo/it's"), r"'dev://demo/it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
