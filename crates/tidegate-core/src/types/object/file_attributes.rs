//! The modification time and the permission bits of a file in the user metadata of an object, as rclone, s3cmd and s3fs
//! write them.
//!
//! | tool | `mtime` | `mode` |
//! |---|---|---|
//! | rclone, Tidegate | seconds since 1970 with a fraction, or RFC 3339 | octal: `100644` |
//! | s3fs | seconds since 1970 | decimal: `33188` |
//! | rclone for Google and Azure | RFC 3339 | octal |
//! | gcloud | `goog-reserved-file-mtime`: seconds since 1970 | `goog-reserved-posix-mode`, octal: `644` |
//! | s3cmd | in `s3cmd-attrs`: `…/mode:33188/mtime:1500000000/…` | the same, decimal |

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::types::date;

#[cfg(test)]
mod tests;

/// The modification time and the permission bits of a file, as an object's user metadata keeps them.
///
/// ```
/// use tidegate::object::FileAttributes;
///
/// let metadata = [("mtime".to_owned(), "1754400000.25".to_owned()), ("mode".to_owned(), "100640".to_owned())].into();
/// let (attributes, ignored) = FileAttributes::from_metadata(&metadata);
/// assert_eq!((attributes.permissions, ignored), (Some(0o640), 0));
/// assert_eq!(attributes.to_metadata(), metadata);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// When the bytes of the file last changed, between the years 0 and 9999.
    pub modified: Option<SystemTime>,
    /// The lower nine bits of the mode; never set-user-ID, set-group-ID or sticky.
    pub permissions: Option<u32>,
}

const MODIFIED: &str = "mtime";
const MODE: &str = "mode";
const S3CMD: &str = "s3cmd-attrs";
const GCLOUD_MODIFIED: &str = "goog-reserved-file-mtime";
const GCLOUD_MODE: &str = "goog-reserved-posix-mode";

/// The kind of regular files in a mode, whose lower twelve bits say who may do what.
const REGULAR: u32 = 0o100_000;
const PERMISSIONS: u32 = 0o777;

impl FileAttributes {
    /// The attributes of the file that `metadata` describes. A time outside of the years 0 to 9999 is left out.
    pub fn of_file(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().filter(|time| date::is_in_calendars(*time));
        Self { modified, permissions: Some(metadata.permissions().mode() & PERMISSIONS) }
    }

    /// The entries of user metadata: `mtime` and `mode`, as rclone writes them for a regular file.
    pub fn to_metadata(&self) -> BTreeMap<String, String> {
        let modified = self.modified.map(|time| (MODIFIED.to_owned(), seconds(time)));
        let mode =
            self.permissions.map(|bits| (MODE.to_owned(), format!("{:o}", REGULAR | bits & PERMISSIONS)));
        modified.into_iter().chain(mode).collect()
    }

    /// The entries of user metadata for a store of this scheme (`s3`, `gs`, `az`, …): those of
    /// [`to_metadata`](Self::to_metadata), with the time in the form that rclone reads there. For Google and Azure that
    /// is the form of RFC 3339.
    pub fn to_metadata_of(&self, scheme: &str) -> BTreeMap<String, String> {
        let mut entries = self.to_metadata();
        let is_written_out = matches!(scheme, "gs" | "az" | "abfss");
        if let Some(time) = self.modified.filter(|_| is_written_out) {
            entries.insert(MODIFIED.to_owned(), written_out(time));
        }
        entries
    }

    /// Reads the attributes that Tidegate, rclone, gcloud, s3cmd or s3fs left in the metadata of an object. The second value is
    /// how many values make no sense, and are ignored: a text that is no time, or the mode of something that is not a
    /// regular file.
    pub fn from_metadata(metadata: &BTreeMap<String, String>) -> (Self, u64) {
        let mut ignored = 0;
        let s3cmd = |name: &str| {
            let attributes =
                metadata.get(S3CMD)?.split('/').filter_map(|attribute| attribute.split_once(':'));
            attributes.into_iter().find_map(|(found, value)| (found == name).then_some(value))
        };
        let own = |name: &str| metadata.get(name).map(String::as_str);
        let modified = first([own(MODIFIED), own(GCLOUD_MODIFIED), s3cmd(MODIFIED)], time, &mut ignored);
        let permissions = first([own(MODE), own(GCLOUD_MODE), s3cmd(MODE)], permissions, &mut ignored);
        (Self { modified, permissions }, ignored)
    }

    /// Whether [`from_metadata`](Self::from_metadata) reads the metadata entry of this name.
    pub fn is_name(name: &str) -> bool {
        [MODIFIED, MODE, S3CMD, GCLOUD_MODIFIED, GCLOUD_MODE].contains(&name)
    }

    /// Whether a file that was last changed at `time` has this modification time: to the nanosecond, or to the second
    /// if these attributes have only seconds. False without a time.
    pub fn is_modified_at(&self, time: SystemTime) -> bool {
        self.modified.is_some_and(|own| {
            let (own, time) = (since_1970(own), since_1970(time));
            own.0 == time.0 && (own.1 == 0 || own.1 == time.1)
        })
    }
}

/// The first value that makes sense; counts those before it that make none.
fn first<T>(values: [Option<&str>; 3], read: impl Fn(&str) -> Option<T>, ignored: &mut u64) -> Option<T> {
    for value in values.into_iter().flatten() {
        match read(value) {
            Some(read) => return Some(read),
            None => *ignored += 1,
        }
    }
    None
}

/// The permission bits of a regular file's mode, in octal or in decimal. The two can't be confused: as an octal number,
/// the decimal mode of a regular file (32768 to 36863) has the bits of another kind of file.
fn permissions(text: &str) -> Option<u32> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let octal = u32::from_str_radix(text, 8).ok().filter(|mode| matches!(mode & !0o7777, 0 | REGULAR));
    let decimal = || text.parse::<u32>().ok().filter(|mode| mode & !0o7777 == REGULAR);
    octal.or_else(decimal).map(|mode| mode & PERMISSIONS)
}

/// A time in seconds since 1970, or in the form of RFC 3339.
fn time(text: &str) -> Option<SystemTime> {
    decimal(text).or_else(|| rfc_3339(text)).filter(|time| date::is_in_calendars(*time))
}

/// Seconds since 1970, negative before that, with or without a fraction.
fn decimal(text: &str) -> Option<SystemTime> {
    let (is_before, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (whole, nanoseconds) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, self::nanoseconds(fraction)?),
        None => (text, 0),
    };
    let distance = Duration::new(number(whole)?, nanoseconds);
    if is_before { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

/// The number that these digits are; nothing else, not even a sign.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The digits behind the point of a number of seconds; those behind the ninth don't count.
fn nanoseconds(fraction: &str) -> Option<u32> {
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    is_number.then(|| digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

/// `2006-01-02T15:04:05.999999999Z`, or with the distance from UTC at its end (`+01:00`).
fn rfc_3339(text: &str) -> Option<SystemTime> {
    let (day, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|other: char| !other.is_ascii_digit())?;
            (nanoseconds(&rest[..end])?, &rest[end..])
        }
        None => (0, rest),
    };
    let [year, month, day] = fields(day, '-', [4, 2, 2])?;
    let [hour, minute, second] = fields(clock, ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset = match (zone, zone.strip_prefix('+'), zone.strip_prefix('-')) {
        ("Z" | "z", ..) => 0,
        (_, Some(ahead), _) => zone_seconds(ahead)?,
        (_, _, Some(behind)) => -zone_seconds(behind)?,
        _ => return None,
    };
    let seconds = days(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second - offset;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(Duration::from_nanos(fraction.into()))
}

fn zone_seconds(text: &str) -> Option<i64> {
    let [hours, minutes] = fields(text, ':', [2, 2])?;
    (hours <= 23 && minutes <= 59).then_some(hours * 3600 + minutes * 60)
}

/// The numbers in a text, each with exactly so many digits.
fn fields<const N: usize>(text: &str, between: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(between);
    for (field, length) in found.iter_mut().zip(lengths) {
        let part = parts.next().filter(|part| part.len() == length)?;
        *field = i64::try_from(number(part)?).ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// The days from 1970-01-01 to a day of the Gregorian calendar; `None` if there is no such day.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years begin in March here, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    // The days from 0000-03-01 to 1970-01-01.
    Some(year * 365 + leap_days + day_of_year - 719_468)
}

/// Whole seconds since 1970, negative before that, and nanoseconds on top.
fn since_1970(time: SystemTime) -> (i128, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since.as_secs().into(), since.subsec_nanos()),
        Err(before) => {
            let nanoseconds = -(before.duration().as_nanos() as i128);
            let whole = nanoseconds.div_euclid(1_000_000_000);
            (whole, (nanoseconds - whole * 1_000_000_000) as u32)
        }
    }
}

/// Seconds since 1970 with as many digits behind the point as the time has.
fn seconds(time: SystemTime) -> String {
    let (sign, distance) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => ("", since),
        Err(before) => ("-", before.duration()),
    };
    let text = format!("{sign}{}.{:09}", distance.as_secs(), distance.subsec_nanos());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time in the form of RFC 3339, in UTC, with as many digits behind the point as the time has.
fn written_out(time: SystemTime) -> String {
    let (seconds, nanoseconds) = since_1970(time);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // As in `days`: years begin in March, in eras of 400 years.
    let day = days + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        10.. => (era * 400 + year + 1, month - 9),
        _ => (era * 400 + year, month + 3),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = format!(".{nanoseconds:09}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}
