//! Checks that a tool has moved everything.

use std::path::Path;

use crate::Result;
use crate::embedded::ServerCounts;
use crate::scratch::first_difference;

/// Checks that all bytes arrived, and that all objects exist. Bytes alone are not enough: bodies include their
/// framing, and may belong to a session that was never completed.
pub(super) fn check_stored(name: &str, counts: &ServerCounts, objects: u64, bytes: u64) -> Result<()> {
    let sent = counts.bytes_in;
    if sent < bytes {
        return Err(format!("{name} ended well, but sent {sent} of {bytes} bytes").into());
    }
    let stored: u64 = counts.checksums.values().sum();
    if stored < objects {
        return Err(format!("{name} ended well, but stored {stored} of {objects} objects").into());
    }
    Ok(())
}

/// Checks that a copy has the original's bytes.
pub(super) fn check_copy(original: &Path, copy: &Path) -> Result<()> {
    match first_difference(original, copy)? {
        Some(place) => Err(format!("its file is another from byte {place} on").into()),
        None => Ok(()),
    }
}

/// Checks that nothing else is left.
pub(super) fn check_empty(folder: &Path) -> Result<()> {
    match std::fs::read_dir(folder)?.next() {
        None => Ok(()),
        Some(left) => Err(format!("it left {} behind", left?.path().display()).into()),
    }
}

/// Removes the directory `copies`, which must have all files of `originals` and no others.
pub(super) fn remove_copies(originals: &Path, copies: &Path) -> Result<()> {
    for original in std::fs::read_dir(originals)? {
        let original = original?;
        let copy = copies.join(original.file_name());
        let name = original.file_name();
        check_copy(&original.path(), &copy).map_err(|why| format!("{}: {why}", name.display()))?;
        std::fs::remove_file(copy)?;
    }
    check_empty(copies)?;
    Ok(std::fs::remove_dir(copies)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_sent_must_be_stored_as_objects() {
        let counts = |bytes_in, none: u64, crc32: u64| ServerCounts {
            bytes_in,
            checksums: [("none".to_owned(), none), ("CRC32".to_owned(), crc32)].into(),
            ..ServerCounts::default()
        };
        let check = |counts| check_stored("x", &counts, 3, 100).map_err(|error| error.to_string());
        assert_eq!(check(counts(100, 1, 2)), Ok(()));
        assert_eq!(check(counts(99, 1, 2)).unwrap_err(), "x ended well, but sent 99 of 100 bytes");
        assert_eq!(check(counts(150, 0, 2)).unwrap_err(), "x ended well, but stored 2 of 3 objects");
    }

    #[test]
    fn copies_must_be_those_and_leave_nothing_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let [originals, copies] = ["originals", "copies"].map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        let refused = || remove_copies(&originals, &copies).unwrap_err().to_string();
        let put = |directory: &Path, name: &str, bytes: &str| {
            std::fs::write(directory.join(name), bytes).unwrap();
        };
        put(&originals, "one", "bytes");
        assert!(refused().contains("one"), "it is not there");
        put(&copies, "one", "byteS");
        assert!(refused().contains("one: its file is another from byte 4 on"), "{}", refused());

        put(&copies, "one", "bytes");
        put(&copies, "one.part", "");
        let said = refused();
        assert!(said.contains("one.part"), "{said}");

        put(&copies, "one", "bytes");
        std::fs::remove_file(copies.join("one.part")).unwrap();
        remove_copies(&originals, &copies).unwrap();
        assert!(!copies.exists());
    }
}
