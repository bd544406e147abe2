//! Tells whether two paths are the same entry of the same directory, whatever links lead there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::replaced;

/// True if a file renamed to `to` replaces `from`, so that removing `from` would remove the new file.
pub(super) fn is_one(from: &Path, to: &Path) -> bool {
    // Writing to a link replaces the file that the link leads to.
    let behind = replaced::behind_links(to);
    let to = behind.as_ref().map_or(to, |(path, _)| path);
    if from == to {
        return true;
    }
    let (Ok(one), Ok(other)) = (fs::symlink_metadata(from), fs::symlink_metadata(to)) else { return false };
    if (one.dev(), one.ino()) != (other.dev(), other.ino()) {
        return false;
    }
    // A file with one name is one entry. One with several (hard links) may be two.
    one.nlink() == 1
        || (is_one_directory(from, to) && (from.file_name() == to.file_name() || !has_both(from, to)))
}

/// Whether both paths lead to one directory, also by a bind mount.
fn is_one_directory(from: &Path, to: &Path) -> bool {
    let directory = |path: &Path| {
        let found = fs::metadata(path.parent()?).ok()?;
        Some((found.dev(), found.ino()))
    };
    directory(from).is_some() && directory(from) == directory(to)
}

/// Whether the directory lists both names. Where it does not tell capital letters from small ones, two names may be
/// one entry.
fn has_both(from: &Path, to: &Path) -> bool {
    let Some(Ok(entries)) = from.parent().map(fs::read_dir) else { return false };
    let names = [from.file_name(), to.file_name()];
    entries.flatten().filter(|entry| names.contains(&Some(entry.file_name().as_os_str()))).take(2).count()
        == 2
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_written_through_a_link_takes_the_place_of_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/a"), "a").unwrap();
        symlink(at("real"), at("link")).unwrap();
        symlink(at("real/a"), at("to-a")).unwrap();
        assert!(is_one(&at("real/a"), &at("real/a")) && is_one(&at("real/a"), &at("link/a")));
        // The link would lead nowhere without the file; the file needs no link.
        assert!(is_one(&at("real/a"), &at("to-a")) && !is_one(&at("to-a"), &at("real/a")));
        fs::hard_link(at("real/a"), at("real/b")).unwrap();
        assert!(!is_one(&at("real/a"), &at("real/b")) && is_one(&at("real/a"), &at("link/a")));
        assert!(!is_one(&at("real/b"), &at("link/a")) && !is_one(&at("real/a"), &at("missing")));
    }
}
