//! Writes and reads times. Stores and files may have any time, but HTTP has only the years 1970 to 9999.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The end of the year 9999.
const END: Duration = Duration::from_secs(253_402_300_800);
/// The beginning of the year 0, before 1970.
const BEGIN: Duration = Duration::from_secs(62_167_219_200);

/// A time as HTTP writes it (`Thu, 01 Jan 1970 00:00:00 GMT`); for a time that HTTP can't write, its distance from
/// 1970.
pub fn http_date(time: SystemTime) -> String {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) if since < END => httpdate::fmt_http_date(time),
        Ok(since) => format!("{} s after 1970", since.as_secs()),
        Err(before) => format!("{} s before 1970", before.duration().as_secs()),
    }
}

/// The time so many seconds after 1970, as a file has it; if no clock can hold that time, the latest possible one.
pub fn since_1970(seconds: u64) -> SystemTime {
    let at = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    at(seconds).or_else(|| at(i64::MAX as u64)).unwrap_or(UNIX_EPOCH)
}

/// Whether a time is between the years 0 and 9999, which every calendar knows.
pub(crate) fn is_in_calendars(time: SystemTime) -> bool {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since < END,
        Err(before) => before.duration() <= BEGIN,
    }
}

/// The same time, or the nearest one between the years 0 and 9999.
pub fn within_calendars(time: SystemTime) -> SystemTime {
    time.clamp(UNIX_EPOCH - BEGIN, UNIX_EPOCH + END - Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_can_be_written() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(http_date(UNIX_EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(at(253_402_300_799)), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(http_date(at(253_402_300_800)), "253402300800 s after 1970");
        assert_eq!(http_date(at(i64::MAX as u64)), "9223372036854775807 s after 1970");
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_secs(62_135_596_800)), "62135596800 s before 1970");
    }

    #[test]
    fn every_number_of_seconds_is_a_time() {
        assert_eq!(since_1970(1), UNIX_EPOCH + Duration::from_secs(1));
        assert!(since_1970(u64::MAX) > since_1970(1 << 40));
    }
}
