//! Figures and names as people read them.

use std::time::SystemTime;

/// A size with its unit: `17 bytes`, `512.0 KiB`, `1024.0 MiB`, `12.0 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TiB", 10 << 40), ("GiB", 10 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, least) in UNITS {
        if bytes >= least {
            // The unit is the largest power of 1024 that `least` holds.
            let unit_bytes = 1u64 << (least.ilog2() / 10 * 10);
            return format!("{:.1} {unit}", bytes as f64 / unit_bytes as f64);
        }
    }
    format!("{bytes} {}", plural(bytes, "byte"))
}

/// A rate: `788 MiB/s`, `1.5 MiB/s`, `20.0 KiB/s`.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    let kib = bytes as f64 / 1024.0 / seconds.max(1e-9);
    match kib / 1024.0 {
        mib if mib >= 100.0 => format!("{mib:.0} MiB/s"),
        mib if mib >= 1.0 => format!("{mib:.1} MiB/s"),
        _ => format!("{kib:.1} KiB/s"),
    }
}

/// A time that something took: `3 ms`, `1.3 s`.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// `1 part`, `2 parts`.
pub(crate) fn count(number: u64, what: &str) -> String {
    format!("{number} {}", plural(number, what))
}

fn plural(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{what}{ending}")
}

/// A time in UTC, to the second.
pub(crate) fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// An age in its largest unit: `17 s`, `3 min`, `5 h`, `12 d`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// An argument as a shell takes it.
pub(crate) fn quoted(argument: &str) -> String {
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
    fn rates_and_times_have_the_unit_that_reads_best() {
        assert_eq!(rate(1 << 30, 1.3), "788 MiB/s");
        assert_eq!(rate(3 << 20, 2.0), "1.5 MiB/s");
        assert_eq!(rate(20 << 10, 1.0), "20.0 KiB/s");
        assert_eq!(seconds(0.0031), "3 ms");
        assert_eq!(seconds(1.25), "1.2 s");
    }

    #[test]
    fn ages_have_one_unit() {
        assert_eq!(age(59), "59 s");
        assert_eq!(age(60), "1 min");
        assert_eq!(age(7200), "2 h");
        assert_eq!(age(86_400 * 12), "12 d");
    }

    #[test]
    fn arguments_survive_a_shell() {
        assert_eq!(quoted("dev://demo/a.txt"), "dev://demo/a.txt");
        assert_eq!(quoted("dev://demo/it's"), r"'dev://demo/it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
