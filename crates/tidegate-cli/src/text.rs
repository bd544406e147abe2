//! Formats figures and names for people.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use tidegate_transfer::figures::{count, quoted, size};

/// A rate: `788 MiB/s`, `1.5 MiB/s`, `20.0 KiB/s`.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    let kib = bytes as f64 / 1024.0 / seconds.max(1e-9);
    match kib / 1024.0 {
        mib if mib >= 100.0 => format!("{mib:.0} MiB/s"),
        mib if mib >= 1.0 => format!("{mib:.1} MiB/s"),
        _ => format!("{kib:.1} KiB/s"),
    }
}

/// A duration: `3 ms`, `1.3 s`.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// A time in UTC, to the second, in RFC 3339 format. RFC 3339 has no years outside 0 to 9999; those are written with
/// a sign, as in ISO 8601, because files and stores may report any time.
pub(crate) fn time(time: SystemTime) -> String {
    let (date, clock) = date_and_clock(time);
    format!("{date}T{clock}Z")
}

/// A time in UTC, to the second, as `aws s3 ls` writes it: `2026-11-27 10:15:00`.
pub(crate) fn time_of_listing(time: SystemTime) -> String {
    let (date, clock) = date_and_clock(time);
    format!("{date} {clock}")
}

/// The date and the time of day in UTC: `2026-11-27`, `10:15:00`.
fn date_and_clock(time: SystemTime) -> (String, String) {
    let seconds = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i128::from(since.as_secs()),
        Err(before) => {
            let before = before.duration();
            -i128::from(before.as_secs()) - i128::from(before.subsec_nanos() > 0)
        }
    };
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let year = if (0..=9999).contains(&year) { format!("{year:04}") } else { format!("{year:+05}") };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    (format!("{year}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}"))
}

/// Year, month and day of a day number, counted from 1970-01-01, in the Gregorian calendar.
fn date(days: i128) -> (i128, i128, i128) {
    // Years begin on March 1 here, so that a leap day is the last of its year; an era has 400 years.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i128::from(month <= 2), month, day)
}

/// An entity tag without its quotes, as tools print it. A weak tag (`W/"…"`) stays as it is.
pub(crate) fn unquoted_etag(etag: &str) -> &str {
    etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap_or(etag)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_have_the_unit_that_reads_best() {
        assert_eq!(rate(1 << 30, 1.3), "788 MiB/s");
        assert_eq!(rate(3 << 20, 2.0), "1.5 MiB/s");
        assert_eq!(rate(20 << 10, 1.0), "20.0 KiB/s");
        assert_eq!(seconds(0.0031), "3 ms");
        assert_eq!(seconds(1.25), "1.2 s");
    }

    #[test]
    fn every_time_can_be_written() {
        use std::time::Duration;
        let after = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let before = |seconds| UNIX_EPOCH - Duration::from_secs(seconds);
        for (at, text) in [
            (after(0), "1970-01-01T00:00:00Z"),
            (after(951_827_696), "2000-02-29T12:34:56Z"),
            (before(3600), "1969-12-31T23:00:00Z"),
            (before(1) + Duration::from_millis(1), "1969-12-31T23:59:59Z"),
            (before(62_135_596_800), "0001-01-01T00:00:00Z"),
            (before(62_167_219_200), "0000-01-01T00:00:00Z"),
            (before(62_167_219_201), "-0001-12-31T23:59:59Z"),
            (after(253_402_300_799), "9999-12-31T23:59:59Z"),
            (after(253_402_300_800), "+10000-01-01T00:00:00Z"),
            (after(i64::MAX as u64), "+292277026596-12-04T15:30:07Z"),
        ] {
            assert_eq!(time(at), text);
            assert_eq!(time_of_listing(at), text.replace('T', " ").replace('Z', ""));
        }
        let earliest = before(i64::MAX as u64) - Duration::from_secs(1);
        assert_eq!(time(earliest), "-292277022657-01-27T08:29:52Z");
        // A library gives the same result for the times that it supports.
        for day in (0..2_932_896).step_by(97) {
            let at = after(day * 86_400 + day % 86_400);
            assert_eq!(time(at), humantime::format_rfc3339_seconds(at).to_string());
        }
    }

    #[test]
    fn tags_lose_their_quotes() {
        for (etag, shown) in
            [("\"9b2c-2\"", "9b2c-2"), ("9b2c", "9b2c"), ("W/\"9b\"", "W/\"9b\""), ("\"", "\"")]
        {
            assert_eq!(unquoted_etag(etag), shown);
        }
    }

    #[test]
    fn ages_have_one_unit() {
        assert_eq!(age(59), "59 s");
        assert_eq!(age(60), "1 min");
        assert_eq!(age(7200), "2 h");
        assert_eq!(age(86_400 * 12), "12 d");
    }
}
