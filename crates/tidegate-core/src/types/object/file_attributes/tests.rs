use proptest::prelude::*;

use super::*;

fn metadata(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(entries: &[(&str, &str)]) -> (Option<i128>, Option<u32>, u64) {
    let (attributes, ignored) = FileAttributes::from_metadata(&metadata(entries));
    let nanoseconds = attributes.modified.map(|time| {
        let (seconds, nanoseconds) = since_1970(time);
        seconds * 1_000_000_000 + i128::from(nanoseconds)
    });
    (nanoseconds, attributes.permissions, ignored)
}

const S: i128 = 1_000_000_000;

#[test]
fn values_of_other_tools_are_understood() {
    for (tool, entries, expected) in [
        (
            "rclone",
            &[("mtime", "1754400000.123456789"), ("mode", "100644"), ("uid", "0")][..],
            (Some(1_754_400_000_123_456_789), Some(0o644), 0),
        ),
        ("rclone, a whole second", &[("mtime", "1754400000")], (Some(1_754_400_000 * S), None, 0)),
        ("rclone before 1970", &[("mtime", "-1.5")], (Some(-1_500_000_000), None, 0)),
        (
            "rclone on Google",
            &[("mtime", "2025-08-05T13:20:00.123456789Z"), ("mode", "104755")],
            (Some(1_754_400_000_123_456_789), Some(0o755), 0),
        ),
        ("another zone", &[("mtime", "2025-08-05T15:20:00+02:00")], (Some(1_754_400_000 * S), None, 0)),
        ("s3fs", &[("mtime", "1500000000"), ("mode", "33188")], (Some(1_500_000_000 * S), Some(0o644), 0)),
        (
            "s3cmd",
            &[(
                "s3cmd-attrs",
                "atime:1500000001/ctime:1500000002/gid:0/gname:root/mode:33261/mtime:1500000000/uid:0/uname:root",
            )],
            (Some(1_500_000_000 * S), Some(0o755), 0),
        ),
        ("chmod", &[("mode", "644")], (None, Some(0o644), 0)),
        ("one's own is preferred", &[("mtime", "5"), ("s3cmd-attrs", "mtime:7")], (Some(5 * S), None, 0)),
        ("the other may make sense", &[("mtime", "x"), ("s3cmd-attrs", "mtime:7")], (Some(7 * S), None, 1)),
        ("nothing", &[("other", "1")], (None, None, 0)),
    ] {
        assert_eq!(read(entries), expected, "{tool}");
    }
}

#[test]
fn values_that_make_no_sense_are_counted() {
    for time in [
        "",
        ".",
        "1.",
        ".5",
        "-",
        "+1",
        "1e9",
        "0x10",
        "1 ",
        "1754400000123",
        "yesterday",
        "--1",
        "1.5.5",
        "1.-5",
        "2025-02-29T00:00:00Z",
        "2025-13-01T00:00:00Z",
        "2025-08-05T24:00:00Z",
        "2025-08-05T13:20:00",
        "2025-08-05",
        "2025-08-05T13:20:00.Z",
        "2025-8-5T13:20:00Z",
        "2025-08-05T13:20:00+2:00",
        "99999999999999999999",
    ] {
        assert_eq!(read(&[("mtime", time)]), (None, None, 1), "{time:?}");
    }
    // Of a directory and a link, too large, and no number.
    for mode in
        ["", "40755", "16877", "120777", "41471", "200644", "0o644", "-644", "rw-r--r--", "99999999999", "９"]
    {
        assert_eq!(read(&[("mode", mode)]), (None, None, 1), "{mode:?}");
    }
}

#[test]
fn days_are_those_of_the_calendar() {
    for (text, seconds) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T00:00:00Z", 951_782_400),
        ("1900-03-01T00:00:00Z", -2_203_891_200),
        ("0000-01-01T00:00:00Z", -62_167_219_200),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ] {
        assert_eq!(read(&[("mtime", text)]).0, Some(seconds * S), "{text}");
    }
}

#[test]
fn a_file_has_the_time_to_the_nanosecond_or_to_the_second() {
    let at = |text: &str| FileAttributes { modified: time(text), permissions: None };
    let file = |text: &str| time(text).unwrap();
    assert!(at("5.25").is_modified_at(file("5.25")));
    assert!(!at("5.25").is_modified_at(file("5.250000001")));
    assert!(!at("5.25").is_modified_at(file("5")));
    assert!(at("5").is_modified_at(file("5.75")));
    assert!(!at("5").is_modified_at(file("6")));
    assert!(at("-2").is_modified_at(file("-1.25")), "seconds are counted from below");
    assert!(!FileAttributes::default().is_modified_at(file("0")));
}

#[test]
fn a_file_is_described() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o4751)).unwrap();
    file.as_file().set_modified(time("1.000000001").unwrap()).unwrap();
    let attributes = FileAttributes::of_file(&file.as_file().metadata().unwrap());
    assert_eq!(attributes.to_metadata(), metadata(&[("mtime", "1.000000001"), ("mode", "100751")]));
    let written_out = metadata(&[("mtime", "1970-01-01T00:00:01.000000001Z"), ("mode", "100751")]);
    for (scheme, expected) in
        [("s3", attributes.to_metadata()), ("gs", written_out.clone()), ("az", written_out.clone())]
    {
        assert_eq!(attributes.to_metadata_of(scheme), expected, "{scheme}");
    }
}

#[test]
fn what_gcloud_writes_is_read() {
    let entries = [("goog-reserved-file-mtime", "1754400000"), ("goog-reserved-posix-mode", "640")];
    assert_eq!(read(&entries), (Some(1_754_400_000 * S), Some(0o640), 0));
    assert!(entries.iter().all(|(name, _)| FileAttributes::is_name(name)));
    assert_eq!(read(&[("mtime", "5"), entries[0]]).0, Some(5 * S), "our own comes first");
}

fn any_attributes() -> impl Strategy<Value = FileAttributes> {
    let time =
        (-62_167_219_200..253_402_300_800_i64, 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| {
            let whole = Duration::from_secs(seconds.unsigned_abs());
            let second = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
            second + Duration::from_nanos(nanoseconds.into())
        });
    (prop::option::of(time), prop::option::of(0..=0o777_u32))
        .prop_map(|(modified, permissions)| FileAttributes { modified, permissions })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(attributes in any_attributes()) {
        prop_assert_eq!(FileAttributes::from_metadata(&attributes.to_metadata()), (attributes, 0));
        prop_assert_eq!(FileAttributes::from_metadata(&attributes.to_metadata_of("gs")), (attributes, 0));
        prop_assert!(attributes.modified.is_none_or(|time| attributes.is_modified_at(time)));
    }

    /// The mode of a regular file is understood in both ways of writing it.
    #[test]
    fn octal_and_decimal_modes_are_told_apart(mode in 0o100_000..=0o107_777_u32) {
        let expected = (None, Some(mode & 0o777), 0);
        prop_assert_eq!(read(&[("mode", &format!("{mode:o}"))]), expected);
        prop_assert_eq!(read(&[("mode", &mode.to_string())]), expected);
    }

    #[test]
    fn no_text_is_too_much(
        mtime in "\\PC{0,40}|[-+.:TZ0-9]{0,40}",
        mode in "\\PC{0,20}|[0-9]{0,20}",
        attributes in "\\PC{0,40}|(mode|mtime):[-.0-9]{0,25}/(mode|mtime):[-.0-9]{0,25}",
    ) {
        let entries = metadata(&[("mtime", &mtime), ("mode", &mode), ("s3cmd-attrs", &attributes)]);
        let (read, ignored) = FileAttributes::from_metadata(&entries);
        prop_assert!(ignored <= 4);
        prop_assert!(read.permissions.is_none_or(|bits| bits <= 0o777));
        prop_assert_eq!(FileAttributes::from_metadata(&read.to_metadata()), (read, 0));
    }
}
