//! Parsers for option values: sizes, pairs, ranges, times.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use tidegate::object::Encryption;

pub(crate) use tidegate::options::{concurrency, rate, size};

/// A rate of at least one byte per second.
pub(crate) fn rate_above_zero(text: &str) -> Result<u64, String> {
    above_zero(rate(text)?)
}

fn above_zero(bytes: u64) -> Result<u64, String> {
    if bytes == 0 { Err("it must be more than 0".to_owned()) } else { Ok(bytes) }
}

/// A size of at least one byte.
pub(crate) fn size_above_zero(text: &str) -> Result<u64, String> {
    above_zero(size(text)?)
}

/// A memory budget, of at least 1 MiB: enough for the engine's own buffers.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes if bytes < 1 << 20 => Err("it must be at least 1MiB".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A user of this machine, by name or number. Returns the number.
pub(crate) fn user(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    match nix::unistd::User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err("this machine has no user of that name".to_owned()),
        Err(error) => Err(format!("the users of this machine can't be looked up: {error}")),
    }
}

/// `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// `AES256`, `aws:kms` or `aws:kms:KEY`.
pub(crate) fn encryption(text: &str) -> Result<Encryption, String> {
    let kms = |key_id: Option<&str>| Encryption::Kms { key_id: key_id.map(str::to_owned) };
    match text {
        "AES256" => Ok(Encryption::Managed),
        "aws:kms" => Ok(kms(None)),
        _ => match text.strip_prefix("aws:kms:") {
            Some(key) if !key.is_empty() => Ok(kms(Some(key))),
            _ => Err("write AES256, aws:kms or aws:kms:KEY".to_owned()),
        },
    }
}

/// A range of bytes as HTTP writes it, last byte included: `FIRST-` or `FIRST-LAST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) last: Option<u64>,
}

impl FromStr for ByteRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write FIRST-LAST or FIRST-, counted from 0".to_owned();
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let first = first.parse().map_err(|_| wrong())?;
        let last = match last {
            "" => None,
            last => Some(last.parse().map_err(|_| wrong())?),
        };
        if last.is_some_and(|last| last < first) {
            return Err("the last byte comes before the first".to_owned());
        }
        Ok(Self { first, last })
    }
}

/// A time: `20ms`, `1s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a time such as 20ms or 1s".to_owned())
}

/// How long something is valid: `90s`, `1h`, `7d`, or a number of seconds, as `aws s3 presign --expires-in` takes.
pub(crate) fn lifetime(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text).map_err(|_| "write a time such as 15min, 1h, 7d or 3600".to_owned())
}

/// An age: `1d`, `12h`, `90min`, `0s`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write an age such as 1d, 12h or 90min".to_owned())
}

/// A time: an age before now (`7d`), a date, or a date with a time of day, in UTC.
pub(crate) fn moment(text: &str) -> Result<SystemTime, String> {
    let wrong =
        || "write an age such as 7d or 12h, or a time such as 2026-11-27 or 2026-11-27T10:15:00Z".to_owned();
    if let Ok(age) = humantime::parse_duration(text) {
        return SystemTime::now().checked_sub(age).ok_or_else(wrong);
    }
    let is_date = text.len() == "2026-11-27".len();
    let midnight = format!("{text}T00:00:00Z");
    humantime::parse_rfc3339_weak(if is_date { &midnight } else { text }).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use tidegate::settings::Concurrency;

    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!([user("root"), user("0"), user("1000")], [Ok(0), Ok(0), Ok(1000)]);
        for wrong in ["", "-1", "4294967296", "no such user"] {
            assert!(user(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        let written = [
            ("16MiB", 16 << 20),
            ("16M", 16 << 20),
            ("16mib", 16 << 20),
            ("16 MiB", 16 << 20),
            ("64KiB", 64 << 10),
            ("64k", 64 << 10),
            ("1GiB", 1 << 30),
            ("5TiB", 5 << 40),
            ("1048576", 1 << 20),
            ("12B", 12),
            ("0", 0),
            ("64MB", 64_000_000),
            ("64mb", 64_000_000),
            ("1 kB", 1000),
            ("2GB", 2_000_000_000),
            ("1TB", 1_000_000_000_000),
            ("1.5g", 3 << 29),
            ("1.5MiB", 3 << 19),
            ("0.25KB", 250),
            ("1.1G", 1_181_116_006),
            ("00.50k", 512),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in written {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn rates_may_be_per_second() {
        for (text, bytes) in
            [("50MB/s", 50_000_000), ("1.5 MiB/s", 3 << 19), ("1KiB", 1024), ("40M/s", 40 << 20), ("0", 0)]
        {
            assert_eq!(rate(text), Ok(bytes), "{text}");
        }
        for text in ["", "/s", "50MB/m", "50MB/s/s", "fast", "100Mb/s", "0.0001K"] {
            let error = rate(text).unwrap_err();
            assert!(error.ends_with("write a rate such as 50MB/s, 1.5MiB/s or 1024"), "{text}: {error}");
        }
        assert!(rate_above_zero("0/s").is_err());
        assert_eq!(rate_above_zero("1/s"), Ok(1));
    }

    #[test]
    fn what_is_wrong_with_a_size_is_named() {
        for (text, what) in [
            ("16XB", "there is no unit `XB`"),
            ("50MB/s", "there is no unit `MB/s`"),
            ("lots", "it does not begin with a number"),
            ("1.2.3M", "`1.2.3` is no number"),
            ("1.5", "`1.5` needs a unit, because there are no fractions of a byte"),
            ("99999999TiB", "that is more than a machine can count"),
        ] {
            let example = "write a size such as 16MiB, 64MB, 1.5G or 1048576";
            assert_eq!(size(text), Err(format!("{what}: {example}")));
        }
    }

    #[test]
    fn moments_are_ages_or_times() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (text, seconds) in [
            ("1970-01-02", 86_400),
            ("1970-01-01T00:01:00Z", 60),
            ("1970-01-01 00:01:00", 60),
            ("1970-01-01T00:01:00", 60),
        ] {
            assert_eq!(moment(text), Ok(at(seconds)), "{text}");
        }
        let (before, hour) = (SystemTime::now(), Duration::from_secs(3600));
        let moment_before = moment("1h").unwrap();
        assert!(moment_before >= before - hour && moment_before <= SystemTime::now() - hour);
        for text in ["", "yesterday", "2026-13-01", "2026-1-1", "-1d", "5"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("1d"), Ok(Duration::from_secs(86_400)));
        assert_eq!(age("1d 12h"), Ok(Duration::from_secs(129_600)));
        assert_eq!(age("0s"), Ok(Duration::ZERO));
        for text in ["", "1", "-1d", "soon", "1 fortnight"] {
            assert!(age(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lifetimes_may_be_plain_seconds() {
        assert_eq!(lifetime("3600"), Ok(Duration::from_secs(3600)));
        assert_eq!(lifetime("1h 30min"), Ok(Duration::from_secs(5400)));
        assert_eq!(lifetime("1.5h"), Ok(Duration::from_secs(5400)));
        for text in ["", "-1", "soon", "99999999999999999999"] {
            assert!(lifetime(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "-1",
            "MiB",
            ".",
            ".5M",
            "5.M",
            "1.5B",
            "1,5M",
            "1 2",
            "0x10",
            "+5",
            "16Mbit",
            "18446744073709551616",
            "0.1234567890123G",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
        assert!(size_above_zero("0").is_err());
        assert!(memory("512KiB").is_err());
        assert_eq!(memory("1MiB"), Ok(1 << 20));
    }

    #[test]
    fn pairs_have_a_name_and_an_equals_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("no-equals").is_err());
        assert!(pair("=b").is_err());
    }

    #[test]
    fn concurrency_is_auto_or_a_number() {
        assert_eq!(concurrency("auto"), Ok(Concurrency::Auto));
        assert_eq!(concurrency("8"), Ok(Concurrency::Fixed(8)));
        assert!(concurrency("0").is_err());
        assert!(concurrency("-1").is_err());
        assert!(concurrency("many").is_err());
    }

    #[test]
    fn encryption_is_named_as_s3_names_it() {
        let kms = |key: Option<&str>| Ok(Encryption::Kms { key_id: key.map(str::to_owned) });
        assert_eq!(encryption("AES256"), Ok(Encryption::Managed));
        assert_eq!(encryption("aws:kms"), kms(None));
        assert_eq!(encryption("aws:kms:arn:x"), kms(Some("arn:x")));
        assert!(encryption("aws:kms:").is_err());
        assert!(encryption("rot13").is_err());
    }

    #[test]
    fn ranges_are_those_of_http() {
        let range = |first, last| Ok(ByteRange { first, last });
        assert_eq!("0-0".parse(), range(0, Some(0)));
        assert_eq!("4-".parse(), range(4, None));
        for text in ["", "-", "-5", "5", "5-4", "a-b", "1-2-3"] {
            assert!(text.parse::<ByteRange>().is_err(), "{text}");
        }
    }
}
