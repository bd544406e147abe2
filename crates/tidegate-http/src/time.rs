//! Parses times in the answers of stores.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Parses the time in a description or a listing: RFC 3339, with or without a fraction, with any offset or none
/// (UTC), or an HTTP date. `None` for anything else.
pub fn time(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    // No valid form is longer than 64 bytes.
    if !text.is_ascii() || text.len() > 64 {
        return None;
    }
    if let Ok(date) = httpdate::parse_http_date(text) {
        return Some(date);
    }
    let mut written = text.to_ascii_uppercase();
    // RFC 3339, section 5.6, allows a space instead of the `T`.
    let clock = written.get(10..)?.strip_prefix(['T', ' '])?;
    if !clock.contains(['Z', '+', '-']) {
        written.push('Z');
    }
    OffsetDateTime::parse(&written, &Rfc3339).ok().map(SystemTime::from)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn one_time_is_known_in_every_form() {
        let at = UNIX_EPOCH + Duration::from_secs(1_767_323_045);
        for text in [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.000Z",
            "2026-01-02T03:04:05.000000000Z",
            " 2026-01-02t03:04:05z\n",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05+00:00",
            "2026-01-02T05:04:05+02:00",
            "2026-01-01T19:04:05.0-08:00",
            "Fri, 02 Jan 2026 03:04:05 GMT",
        ] {
            assert_eq!(time(text), Some(at), "{text}");
        }
        let fraction = time("2026-01-02T03:04:05.678Z").unwrap();
        assert_eq!(fraction, at + Duration::from_millis(678));
    }

    #[test]
    fn early_times_are_known_and_what_is_no_time_is_not() {
        assert!(time("0001-01-01T00:00:00Z").unwrap() < UNIX_EPOCH);
        assert!(time("1969-12-31T23:59:59.5Z").unwrap() < UNIX_EPOCH);
        assert!(time("9999-12-31T23:59:59Z").is_some());
        for text in [
            "",
            "now",
            "0",
            "2026-13-01T00:00:00Z",
            "2026-01-02",
            "+12026-01-02T03:04:05Z",
            "２026-01-02T03:04:05Z",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(time(&"9".repeat(1 << 20)), None);
    }
}
