//! Whether two addresses are of one place. One server may be reached by two endpoints, two profiles or two protocols,
//! and a directory by a bind mount: then the names alone do not tell.
//!
//! A move, or a removal of what the source does not have, must not hit the source itself. So where the names leave it
//! open, the places are proven to be different, by reading, before anything is removed.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::TryStreamExt;
use futures::future::ready;
use tidegate::location::Location;
use tidegate::text::printable;
use tidegate::{Entry, ErrorKind, Object, Store};

use crate::error::{Error, Result};
use crate::place::Place;
use crate::resolved::resolved;

/// Whether two places of one bucket name are taken for different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distinct {
    /// A bucket at two endpoints or by two protocols is one place, until the answers of both show that it is not.
    #[default]
    Proven,
    /// They are different: the caller says so.
    Assumed,
}

impl Distinct {
    /// Whether places need a proof.
    pub(crate) fn wants_proof(self) -> bool {
        self == Self::Proven
    }
}

/// The bucket and the key of a place in a store; `None` on this machine. Of a container of Azure only the name: a URL that
/// does not name the account may mean the same account as one that does.
pub(crate) fn in_bucket(place: &Place) -> Option<(String, String)> {
    let location: Location = place.url().parse().ok()?;
    let (_, bucket, key) = location.in_store()?;
    let bucket = bucket.split_once('@').map_or(bucket, |(container, _)| container);
    Some((bucket.to_owned(), key.to_owned()))
}

/// The keys of two places whose buckets have one name at two addresses: they may be one bucket.
fn keys_at_two_addresses(from: &Place, to: &Place) -> Option<(String, String)> {
    let ((ours, from_key), (theirs, to_key)) = (in_bucket(from)?, in_bucket(to)?);
    (ours == theirs && !from.store.shares_endpoint_with(&to.store)).then_some((from_key, to_key))
}

/// Whether two trees, or two objects, may be one place, or one in the other, although their addresses differ: both have
/// the same bucket, and one key begins with the other.
pub(crate) fn may_be_one(from: &Place, to: &Place) -> bool {
    keys_at_two_addresses(from, to).is_some_and(|(from, to)| from.starts_with(&to) || to.starts_with(&from))
}

/// Whether the copy of `from` to `to` may replace an object of its own source: as [`may_be_one`], for the trees that
/// both are in. Then one key is the other one without some names in its middle, or both keys are the same.
pub(crate) fn may_replace_source(from: &Place, to: &Place) -> bool {
    keys_at_two_addresses(from, to).is_some_and(|(from, to)| is_shortened(&from, &to))
}

/// As [`may_replace_source`], for a copy that keeps its source: an object that is copied onto itself is not lost.
pub(crate) fn may_replace_another_source(from: &Place, to: &Place) -> bool {
    keys_at_two_addresses(from, to).is_some_and(|(from, to)| is_shortened(&from, &to) && from != to)
}

/// Refuses a tree `to` that may lie in the tree `from` by another address of one server: the listing of `from` would find
/// the copies, and never end. Asks both addresses for the first object of `from`.
pub(crate) async fn refuse_nested(from: &Place, to: &Place) -> Result {
    let is_below = |(from, to): (String, String)| to.len() > from.len() && to.starts_with(&from);
    if !keys_at_two_addresses(from, to).is_some_and(is_below) {
        return Ok(());
    }
    let mut objects = from.store.list(&from.key).try_filter(|entry| ready(matches!(entry, Entry::Object(_))));
    let Some(first) = objects.try_next().await? else { return Ok(()) };
    match compare(&to.store, &Place::named(from.store.clone(), first.key())).await? {
        Places::Different => Ok(()),
        Places::Alike | Places::Empty => Err(Error::Refused(format!(
            "{}: this may be in {}, which is to be copied, by another address of one server: {REMEDY}",
            printable(&to.url()),
            printable(&from.url())
        ))),
    }
}

/// Whether one key is the other one without some names.
fn is_shortened(one: &str, other: &str) -> bool {
    let (one, other): (Vec<_>, Vec<_>) = (one.split('/').collect(), other.split('/').collect());
    let begin = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    begin + end >= one.len().min(other.len())
}

/// What two addresses answer about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// The answers differ: two places.
    Different,
    /// The answers are the same: one place, or a copy that the answers do not tell apart.
    Alike,
    /// Neither has the key, so nothing can be compared, and nothing can be replaced.
    Empty,
}

/// Asks both addresses for the key of `to`: that of `to`, and that of `from` for the same key of its own bucket.
pub(crate) async fn compare(from: &Store, to: &Place) -> Result<Places> {
    let theirs = described(&to.store, &to.key).await?;
    let Some(key) = key_in(from, to) else { return Ok(Places::Alike) };
    let ours = described(from, &key).await?;
    let (ours, theirs) = match (ours, theirs) {
        (None, None) => return Ok(Places::Empty),
        (Some(ours), Some(theirs)) => (ours, theirs),
        _ => return Ok(Places::Different),
    };
    if !differ(&ours, &theirs, scheme(from) == scheme(&to.store)) {
        return Ok(Places::Alike);
    }
    // It may have been replaced between the two answers.
    let again = described(&to.store, &to.key).await?;
    let is_unchanged = again.is_some_and(|again| !differ(&again, &theirs, true));
    Ok(if is_unchanged { Places::Different } else { Places::Alike })
}

/// Whether two descriptions cannot be of one object: the times differ, or the versions. Whole seconds are compared, as
/// most answers have them. Two protocols number versions in two ways.
fn differ(ours: &Object, theirs: &Object, is_one_protocol: bool) -> bool {
    let times = ours.modified.zip(theirs.modified);
    let versions = ours.version.as_ref().zip(theirs.version.as_ref()).filter(|_| is_one_protocol);
    times.is_some_and(|(ours, theirs)| seconds(ours) != seconds(theirs))
        || versions.is_some_and(|(ours, theirs)| ours != theirs)
}

fn seconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

async fn described(store: &Store, key: &str) -> Result<Option<Object>> {
    match store.head(key).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // A key of the other place, which the caller's rights may not include.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::Failed(format!(
            "{}; so nothing tells whether source and target are one place: {REMEDY}",
            printable(&error.to_string())
        ))),
        Err(error) => Err(error.into()),
    }
}

fn scheme(store: &Store) -> Option<String> {
    let location = store.location();
    location.split_once("://").map(|(scheme, _)| scheme.to_owned())
}

/// The key by which `store` has what is at `place`, if its bucket is the same.
fn key_in(store: &Store, place: &Place) -> Option<String> {
    let (_, root) = in_bucket(&Place::named(store.clone(), ""))?;
    let (_, key) = in_bucket(place)?;
    let root = root.trim_end_matches('/');
    match root.is_empty() {
        true => Some(key),
        false => key.strip_prefix(root)?.strip_prefix('/').map(str::to_owned),
    }
}

/// What to do if nothing proves that two places are different.
pub(crate) const REMEDY: &str = "add --assume-distinct if they are different places";

/// The failure of a removal of `extra` from the target, where nothing proves that the tree `source` does not hold it.
pub(crate) fn unproven(source: &str, extra: &Place) -> Error {
    let extra = extra.url();
    Error::NotRemoved(format!(
        "{extra} may be in {source} by another address of one server, which answers the same for it: \
         {REMEDY}"
    ))
}

/// Device and inode of a directory.
pub(crate) type DirectoryId = (u64, u64);

pub(crate) fn id_of(found: &Metadata) -> DirectoryId {
    (found.dev(), found.ino())
}

/// A path on its device, whatever mount leads there: two paths that lead to one directory are the same here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DevicePath {
    device: String,
    path: PathBuf,
}

impl DevicePath {
    /// `path` with links resolved, as far as it exists.
    pub(crate) fn of(path: &Path) -> Self {
        Self::by_mounts(&table_of_mounts(), &resolved(path))
    }

    /// The path by a table of mounts.
    fn by_mounts(mounts: &str, path: &Path) -> Self {
        let found = self::mounts(mounts).filter_map(|(at, shown)| {
            let below = path.strip_prefix(&at).ok()?.to_owned();
            Some((at.components().count(), shown, below))
        });
        // Of two mounts at one place, the last one is seen.
        match found.max_by_key(|(depth, ..)| *depth) {
            Some((_, shown, below)) if below.as_os_str().is_empty() => shown,
            Some((_, shown, below)) => Self { path: shown.path.join(below), ..shown },
            None => Self { device: String::new(), path: path.to_owned() },
        }
    }

    /// Whether this directory is `other`, or below it.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

impl std::fmt::Display for DevicePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.device, self.path.display())
    }
}

/// The table of mounts. Other systems than Linux have none, and no bind mounts.
fn table_of_mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// The places of a table of mounts, each with the directory of a device that is seen there: see proc_pid_mountinfo(5).
fn mounts(table: &str) -> impl Iterator<Item = (PathBuf, DevicePath)> {
    table.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (device, path, at) = (fields.next()?, unescaped(fields.next()?), unescaped(fields.next()?));
        Some((at, DevicePath { device: device.to_owned(), path }))
    })
}

/// Looks for a mount below one of the two trees that shows a directory of the other tree. Returns that directory's path
/// below `one`, and its path below `other`. A mount that both trees have at the same place does not count.
pub(crate) fn shared_by_mount(one: &Path, other: &Path) -> Option<(PathBuf, PathBuf)> {
    shared_by(&table_of_mounts(), &resolved(one), &resolved(other))
}

fn shared_by(table: &str, one: &Path, other: &Path) -> Option<(PathBuf, PathBuf)> {
    let seen = |root: &Path| {
        // Of two mounts at one place, the last one is seen.
        let mut seen: BTreeMap<PathBuf, DevicePath> =
            mounts(table).filter(|(at, _)| at != root && at.starts_with(root)).collect();
        seen.insert(root.to_owned(), DevicePath::by_mounts(table, root));
        seen
    };
    let (ours, theirs) = (seen(one), seen(other));
    ours.iter().find_map(|(our_path, ours)| {
        let shares = |(their_path, theirs): &(&PathBuf, &DevicePath)| {
            let are_roots = our_path == one && *their_path == other;
            // The path shows that: nothing is at two places.
            let is_below = our_path.starts_with(their_path) || their_path.starts_with(our_path);
            let is_one_name = our_path.strip_prefix(one).ok() == their_path.strip_prefix(other).ok();
            let is_known = are_roots || is_below || is_one_name && ours == *theirs;
            !is_known && (ours.is_in(theirs) || theirs.is_in(ours))
        };
        theirs.iter().find(shares).map(|(their_path, _)| (our_path.clone(), their_path.clone()))
    })
}

/// The error for two directories that are the same, or of which one contains the other.
pub(crate) fn overlap(one: &Path, other: &Path) -> Error {
    Error::Refused(format!(
        "{} and {} overlap: they are one directory, or one is in the other",
        one.display(),
        other.display()
    ))
}

/// A path of the table of mounts, without the escapes of blanks and backslashes.
fn unescaped(text: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character)).into()
}

/// Whether one directory lies in the other, or both are the same, by whatever mounts and links.
pub(crate) fn are_nested(one: &Path, other: &Path) -> bool {
    let (one, other) = (DevicePath::of(one), DevicePath::of(other));
    one.is_in(&other) || other.is_in(&one)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn object(seconds: u64, version: Option<&str>) -> Object {
        Object {
            modified: Some(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 7 * seconds)),
            version: version.map(str::to_owned),
            ..Object::default()
        }
    }

    #[test]
    fn only_another_time_or_version_tells_two_objects_apart() {
        let plain = object(5, None);
        assert!(!differ(&plain, &plain, true));
        let mut later = plain.clone();
        later.modified = Some(UNIX_EPOCH + Duration::from_secs(5));
        assert!(!differ(&plain, &later, true), "one answer has milliseconds");
        assert!(differ(&plain, &object(6, None), true));
        let (one, two) = (object(5, Some("1")), object(5, Some("2")));
        assert!(differ(&one, &two, true) && !differ(&one, &two, false) && !differ(&one, &plain, true));
        let mut tagged = plain.clone();
        tagged.etag = Some("\"other\"".to_owned());
        assert!(!differ(&plain, &tagged, true), "a gateway may write other tags");
        assert!(!differ(&Object::default(), &plain, true), "no time proves nothing");
    }

    #[test]
    fn a_key_that_is_another_without_a_part_may_be_an_object_of_the_source() {
        for (from, to) in
            [("src/one", "one"), ("k", "k"), ("a/src/x/y", "a/x/y"), ("x", "dst/x"), ("a/b", "a/new/b")]
        {
            assert!(is_shortened(from, to), "{from} {to}");
        }
        for (from, to) in
            [("x/k", "y/k"), ("a/one", "b/two"), ("src/one", "two"), ("ab/k", "xab/k"), ("a/bc", "a/b")]
        {
            assert!(!is_shortened(from, to), "{from} {to}");
        }
    }

    #[test]
    fn a_directory_is_known_by_another_path() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/src/x")).unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        assert!(are_nested(&root.join("link/src"), &root.join("a")));
        assert!(are_nested(&root.join("a"), &root.join("link/new")));
        assert!(!are_nested(&root.join("a/src"), &root.join("link/new")));
    }

    #[test]
    fn a_bind_mount_leads_to_the_directory_of_its_device() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      30 22 8:2 / /home rw - ext4 /dev/sda2 rw\n\
                      31 22 8:1 /data/src /mnt/a\\040b rw - ext4 /dev/sda1 rw\n\
                      32 22 8:1 /old /mnt/twice rw - ext4 /dev/sda1 rw\n\
                      33 22 8:1 /new /mnt/twice rw - ext4 /dev/sda1 rw\n";
        let at = |path: &str| DevicePath::by_mounts(mounts, Path::new(path));
        for (path, device, expected) in [
            ("/data/src/x", "8:1", "/data/src/x"),
            ("/mnt/a b/x", "8:1", "/data/src/x"),
            ("/mnt/a b", "8:1", "/data/src"),
            ("/home/x", "8:2", "/x"),
            ("/homes", "8:1", "/homes"),
            ("/mnt/twice/x", "8:1", "/new/x"),
        ] {
            assert_eq!(at(path), DevicePath { device: device.to_owned(), path: expected.into() }, "{path}");
        }
        assert!(at("/mnt/a b").is_in(&at("/data")) && !at("/data").is_in(&at("/mnt/a b")));
        assert!(!at("/home/x").is_in(&at("/x")), "another device");
    }

    #[test]
    fn a_mount_within_a_tree_may_show_the_other_tree() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      23 22 8:1 /s/sub /t/m rw - ext4 /dev/sda1 rw\n\
                      24 22 0:5 / /a/proc rw - proc proc rw\n\
                      25 22 0:5 / /b/proc rw - proc proc rw\n\
                      26 22 0:5 / /b/other rw - proc proc rw\n\
                      27 22 8:3 / /mnt/backup rw - ext4 /dev/sdc1 rw\n";
        let shared = |one: &str, other: &str| {
            let found = shared_by(mounts, Path::new(one), Path::new(other));
            found.map(|(one, other)| format!("{} {}", one.display(), other.display()))
        };
        assert_eq!(shared("/s", "/t").as_deref(), Some("/s /t/m"));
        assert_eq!(shared("/t", "/s").as_deref(), Some("/t/m /s"));
        assert_eq!(shared("/t", "/s/sub/deep").as_deref(), Some("/t/m /s/sub/deep"));
        assert_eq!(shared("/t", "/s/other"), None);
        assert_eq!(shared("/a", "/b").as_deref(), Some("/a/proc /b/other"));
        assert_eq!(shared("/a/proc", "/b/proc"), None, "the roots are compared by `are_nested`");
        assert_eq!(shared("/", "/mnt/backup"), None, "the path shows that one is in the other");
    }
}
