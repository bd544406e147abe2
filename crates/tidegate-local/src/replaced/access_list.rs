//! POSIX access control lists (acl(5)): rights of single users and groups, in addition to the mode.

use std::fs::File;
use std::path::Path;

use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, lgetxattr, lgetxattr_query};
use rustix::io::Errno;

use super::AccessListMatch;

/// The extended attribute in which Linux keeps the list.
const LIST: &str = "system.posix_acl_access";

/// Gives `file` the list of the file at `replaced`, or no list if that file has none: `file` may have inherited one
/// from its directory. A list refers to one group, so it is not carried over if the group changed.
pub(super) fn take_over(file: &File, replaced: &Path, has_same_group: bool) -> AccessListMatch {
    match list_of(replaced) {
        Ok(Some(list)) if has_same_group && fsetxattr(file, LIST, &list, XattrFlags::empty()).is_ok() => {
            AccessListMatch::All
        }
        Ok(None) if remove(file).is_ok() => AccessListMatch::All,
        Ok(None) => AccessListMatch::Nothing,
        Ok(Some(_)) | Err(_) => {
            // If this fails: the group gets no rights, so an inherited list gives none to the users that it names.
            let _ = remove(file);
            AccessListMatch::Nothing
        }
    }
}

/// `None` if the file has no list, or the file system has no lists.
fn list_of(path: &Path) -> Result<Option<Vec<u8>>, Errno> {
    let read = lgetxattr_query(path, LIST).and_then(|length| {
        let mut list = vec![0; length];
        let length = lgetxattr(path, LIST, &mut list[..])?;
        list.truncate(length);
        Ok(list)
    });
    match read {
        Ok(list) => Ok(Some(list).filter(|list| !list.is_empty())),
        Err(error) if says_none(error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(file: &File) -> Result<(), Errno> {
    match fremovexattr(file, LIST) {
        Err(error) if !says_none(error) => Err(error),
        _ => Ok(()),
    }
}

fn says_none(error: Errno) -> bool {
    matches!(error, Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    /// `user::rw-, user:1001:r--, group::---, mask::r--, other::---`, as Linux keeps it: the version, then for
    /// each entry its tag, rights, and user or group.
    fn list() -> Vec<u8> {
        const NOBODY: u32 = u32::MAX;
        let entries =
            [(0x01, 6, NOBODY), (0x02, 4, 1001), (0x04, 0, NOBODY), (0x10, 4, NOBODY), (0x20, 0, NOBODY)];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            list.extend(u16::to_le_bytes(tag));
            list.extend(u16::to_le_bytes(rights));
            list.extend(id.to_le_bytes());
        }
        list
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").mode() & 0o777
    }

    /// A file with such a list, and a new one that is to replace it; `None` where the file system knows no lists.
    fn files(directory: &Path) -> Option<(std::path::PathBuf, File)> {
        let (old, new) = (directory.join("old"), directory.join("new"));
        let file = File::create(&old).expect("a file");
        if fsetxattr(&file, LIST, &list(), XattrFlags::empty()).is_err() {
            println!("skipped: the file system has no access control lists");
            return None;
        }
        let file = File::create(&new).expect("a file");
        file.set_permissions(fs::Permissions::from_mode(0o600)).expect("permissions");
        Some((old, file))
    }

    #[test]
    fn the_list_of_a_replaced_file_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let Some((old, new)) = files(directory.path()) else { return };
        assert_eq!(mode(&old), 0o640, "it looks as if its group could read it");
        super::super::take_over(&new, &old, None).expect("taken over");
        let path = directory.path().join("new");
        assert_eq!(list_of(&path), list_of(&old));
        assert_eq!((list_of(&path), mode(&path)), (Ok(Some(list())), 0o640));
    }

    #[test]
    fn without_the_list_nobody_else_has_rights() {
        let directory = tempfile::tempdir().expect("a directory");
        let Some((old, new)) = files(directory.path()) else { return };
        assert_eq!(take_over(&new, &old, false), AccessListMatch::Nothing);
        assert_eq!(list_of(&directory.path().join("new")), Ok(None));
    }

    #[test]
    fn an_inherited_list_is_not_kept_where_the_replaced_file_had_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let Some((with_list, _)) = files(directory.path()) else { return };
        let plain = directory.path().join("plain");
        fs::write(&plain, "").expect("a file");
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o640)).expect("permissions");
        super::super::take_over(&File::open(&with_list).expect("a file"), &plain, None).expect("taken over");
        assert_eq!((list_of(&with_list), mode(&with_list)), (Ok(None), 0o640));
    }
}
