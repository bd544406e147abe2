//! Names on a disk that two objects would share: `x` beside `x/y`, and with `--links preserve` `x` beside
//! `x.rclonelink`. Stores keep both; a disk has one. The first in the order of keys has the name, but links are made last.

use std::collections::HashMap;

use tidegate::backend::local::LINK_SUFFIX;

use super::TargetDisk;
use crate::links::Links;

/// The files that objects take on a disk, as far as later keys can collide with them. Keys come in the order of their
/// bytes.
#[derive(Debug)]
pub(super) struct TakenNames {
    links: Links,
    /// The earlier objects that the current key may collide with.
    files: Vec<TakenName>,
    /// The names of objects that another object needs a directory of, and the key of that one.
    needed: HashMap<String, String>,
}

#[derive(Debug)]
struct TakenName {
    key: String,
    /// The name of the file, or of the link.
    name: String,
    is_link: bool,
}

impl TakenNames {
    pub(super) fn new(links: Links) -> Self {
        Self { links, files: Vec::new(), needed: HashMap::new() }
    }

    /// An object that needs a directory of this name, which an earlier object has, and which stays: that one fails.
    pub(super) fn needs_directory(&self, name: &str) -> Option<&str> {
        self.needed.get(name).map(String::as_str)
    }

    /// The earlier object that leaves no room for the object `key`. Otherwise `key` takes its name.
    pub(super) fn taken_by(&mut self, key: &str, disk: &impl TargetDisk) -> Option<&str> {
        while self.files.last().is_some_and(|taken| !key.starts_with(&*taken.name)) {
            self.files.pop();
        }
        let link = key.strip_suffix(LINK_SUFFIX).filter(|_| self.links == Links::Preserve);
        let name = link.unwrap_or(key);
        let mut taken = None;
        for (at, TakenName { name: file, is_link, .. }) in self.files.iter().enumerate() {
            let is_below = name.strip_prefix(&**file).is_some_and(|rest| rest.starts_with('/'));
            // A directory on the disk stays, and links are made when all files are in place.
            if is_below && (*is_link && link.is_none() || disk.has_directory(file)) {
                self.needed.entry(file.clone()).or_insert_with(|| key.to_owned());
            } else if is_below || file == name {
                taken = taken.or(Some(at));
            }
        }
        if taken.is_none() {
            let is_link = link.is_some();
            self.files.push(TakenName { key: key.to_owned(), name: name.to_owned(), is_link });
        }
        self.files.get(taken?).map(|taken| &*taken.key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Names;
    use super::*;

    fn taken(links: Links, keys: &[&str]) -> String {
        let mut names = TakenNames::new(links);
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        let taken =
            keys.iter().filter_map(|key| Some(format!("{key}<{}", names.taken_by(key, &Names::default())?)));
        taken.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_directory_in_the_place_of_an_object_stays() {
        let disk = Names { directories: vec!["d"], ..Names::default() };
        for (links, first, name, taken, needed) in [
            (Links::Preserve, "d", "d", None, Some("d/f")),
            (Links::Preserve, "d.rclonelink", "d", None, Some("d/f")),
            (Links::Preserve, "x", "x", Some("x"), None),
            (Links::Preserve, "x.rclonelink", "x", None, Some("x/f")),
            (Links::Files, "d", "d", None, Some("d/f")),
            (Links::Files, "x", "x", Some("x"), None),
        ] {
            let mut names = TakenNames::new(links);
            assert_eq!(names.taken_by(first, &disk), None);
            assert_eq!(names.taken_by(&format!("{name}/f"), &disk), taken, "{links:?} {first}");
            assert_eq!(names.needs_directory(name), needed, "{links:?} {first}");
        }
    }

    #[test]
    fn the_second_object_of_one_name_is_found() {
        let (files, preserve) = (Links::Files, Links::Preserve);
        assert_eq!(taken(preserve, &["f", "f!", "f-", "f.a", "f.rclonelink", "g"]), "f.rclonelink<f");
        assert_eq!(taken(files, &["f", "f.rclonelink", "f/x"]), "f/x<f");
        assert_eq!(taken(preserve, &["f/x", "f-/y", "f.rclonelink"]), "", "the link fails when it is made");
        assert_eq!(taken(preserve, &["f/x.rclonelink", "f.rclonelink"]), "f/x.rclonelink<f.rclonelink");
        assert_eq!(taken(files, &["a", "a-", "a-b/c", "a/b", "a/b/c", "ab", "b/a"]), "a/b<a a/b/c<a");
        assert_eq!(taken(preserve, &["d/f", "d/f.rclonelink", "df.rclonelink", "f"]), "d/f.rclonelink<d/f");
    }
}
