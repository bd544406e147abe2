//! Derives target names from source names.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use tidegate::location::Location;

use crate::error::{Error, Result};
use crate::place::not_utf8;

/// Whether `location` is a container of objects: a bucket, a prefix, a directory.
pub fn is_container(location: &Location) -> bool {
    match location {
        Location::Local { path } => location.ends_with_slash() || path.is_dir(),
        _ => location.in_store().is_some_and(|(_, _, key)| key.is_empty() || key.ends_with('/')),
    }
}

/// The target of one object. In a container, the copy keeps the source's name.
pub fn of_one(source: &Location, target: &Location) -> Result<Location> {
    if !is_container(target) {
        return Ok(target.clone());
    }
    let nameless = || Error::Refused(format!("{source}: it has no name to keep in {target}"));
    within(target, &last_name(source).ok_or_else(nameless)?)
}

/// The target of everything below `source`. In a container, the copy keeps the source's name, unless the source is
/// written with a slash at its end.
pub fn of_tree(source: &Location, target: &Location) -> Result<Location> {
    if source.ends_with_slash() || !is_container(target) {
        return Ok(target.clone());
    }
    match last_name(source) {
        Some(name) => within(target, &name),
        // A bucket, `.`, `..` and `/` have no name that a copy could keep.
        None => Ok(target.clone()),
    }
}

fn last_name(location: &Location) -> Option<OsString> {
    if let Location::Local { path } = location {
        return path.file_name().map(OsStr::to_owned);
    }
    let (_, _, key) = location.in_store()?;
    let name = key.trim_end_matches('/').rsplit('/').next()?;
    (!name.is_empty()).then(|| name.into())
}

fn within(location: &Location, name: &OsStr) -> Result<Location> {
    let mut location = location.clone();
    match &mut location {
        Location::Local { path } => path.push(name),
        Location::S3 { key, .. }
        | Location::Gcs { key, .. }
        | Location::Azure { key, .. }
        | Location::Dev { key, .. }
        | Location::Other { key, .. }
        | Location::Memory { key, .. } => {
            key.push_str(name.to_str().ok_or_else(|| Error::Refused(not_utf8(Path::new(name))))?);
        }
        _ => {}
    }
    Ok(location)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        text.parse().unwrap()
    }

    fn one(source: &str, target: &str) -> String {
        of_one(&location(source), &location(target)).unwrap().to_string()
    }

    fn tree(source: &str, target: &str) -> String {
        of_tree(&location(source), &location(target)).unwrap().to_string()
    }

    #[test]
    fn an_object_keeps_its_name_in_a_container() {
        assert_eq!(one("dir/big.tar", "s3://bucket/x"), "s3://bucket/x");
        assert_eq!(one("dir/big.tar", "s3://bucket/x/"), "s3://bucket/x/big.tar");
        assert_eq!(one("dir/big.tar", "s3://bucket"), "s3://bucket/big.tar");
        assert_eq!(one("s3://bucket/a/b", "nowhere/"), "nowhere/b");
        assert_eq!(one("s3://bucket/a/b", "nowhere"), "nowhere");
    }

    #[test]
    fn a_directory_that_is_there_is_a_container() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        assert_eq!(one("s3://bucket/a/b", path), format!("{path}/b"));
    }

    #[test]
    fn a_tree_keeps_its_name_unless_it_ends_with_a_slash() {
        assert_eq!(tree("out", "s3://bucket/x/"), "s3://bucket/x/out");
        assert_eq!(tree("out/", "s3://bucket/x/"), "s3://bucket/x/");
        assert_eq!(tree("out", "s3://bucket/x"), "s3://bucket/x");
        assert_eq!(tree(".", "s3://bucket/x/"), "s3://bucket/x/");
        assert_eq!(tree("s3://bucket/a/b", "nowhere/"), "nowhere/b");
        assert_eq!(tree("s3://bucket/a/b/", "nowhere/"), "nowhere/");
        assert_eq!(tree("s3://bucket", "nowhere/"), "nowhere/");
    }

    #[test]
    fn containers_are_buckets_prefixes_and_directories() {
        for container in ["s3://bucket", "s3://bucket/", "dev://demo/a/", "nowhere/", "."] {
            assert!(is_container(&location(container)), "{container}");
        }
        for object in ["s3://bucket/a", "nowhere", "file:///nowhere/a"] {
            assert!(!is_container(&location(object)), "{object}");
        }
    }
}
