//! Names on a disk that two objects would share: `x` beside `x/y`, and with `--links preserve` `x` beside
//! `x.rclonelink`. Stores keep both; a disk has one.

use tidegate::backend::local::LINK_SUFFIX;

use super::TargetDisk;
use crate::links::Links;

/// The files that objects take on a disk, as far as later keys can collide with them. Keys come in the order of their
/// bytes.
#[derive(Debug)]
pub(super) struct TakenNames {
    links: Links,
    /// Earlier keys that are prefixes of the current key; each becomes a file.
    files: Vec<String>,
}

impl TakenNames {
    pub(super) fn new(links: Links) -> Self {
        Self { links, files: Vec::new() }
    }

    /// The earlier object that leaves no room for the object `key`. Otherwise `key` takes its name.
    pub(super) fn taken_by(&mut self, key: &str, disk: &impl TargetDisk) -> Option<&str> {
        while self.files.last().is_some_and(|file| !key.starts_with(&**file)) {
            self.files.pop();
        }
        let link = key.strip_suffix(LINK_SUFFIX).filter(|_| self.links == Links::Preserve);
        let name = link.unwrap_or(key);
        let leaves_no_room = |file: &String| {
            name.strip_prefix(file.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // A directory on the disk stays: the object of its name fails, and those below it do not.
        let leaves_no_room =
            |file: &String| leaves_no_room(file) && (file == name || !disk.has_directory(file));
        match self.files.iter().position(leaves_no_room) {
            Some(at) => self.files.get(at).map(String::as_str),
            None => {
                // Links are made after all files, so none takes a file's place.
                if link.is_none() {
                    self.files.push(key.to_owned());
                }
                None
            }
        }
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
        for (links, name, taken) in [
            (Links::Preserve, "d", None),
            (Links::Preserve, "x", Some("x")),
            (Links::Files, "d", None),
            (Links::Files, "x", Some("x")),
        ] {
            let mut names = TakenNames::new(links);
            assert_eq!(names.taken_by(name, &disk), None);
            let file = format!("{name}/f");
            assert_eq!(names.taken_by(&file, &disk), taken, "{links:?} {name}");
            if links == Links::Preserve {
                let by = taken.map_or_else(|| file.clone(), str::to_owned);
                assert_eq!(names.taken_by(&format!("{file}.rclonelink"), &disk), Some(&*by), "{name}");
                assert_eq!(names.taken_by(&format!("{name}.rclonelink"), &disk), Some(name));
            }
        }
    }

    #[test]
    fn the_second_object_of_one_name_is_found() {
        let (files, preserve) = (Links::Files, Links::Preserve);
        assert_eq!(taken(preserve, &["f", "f!", "f-", "f.a", "f.rclonelink", "g"]), "f.rclonelink<f");
        assert_eq!(taken(files, &["f", "f.rclonelink", "f/x"]), "f/x<f");
        assert_eq!(taken(preserve, &["f/x", "f-/y", "f.rclonelink"]), "", "the link fails when it is made");
        assert_eq!(taken(files, &["a", "a-", "a-b/c", "a/b", "a/b/c", "ab", "b/a"]), "a/b<a a/b/c<a");
        assert_eq!(taken(preserve, &["d/f", "d/f.rclonelink", "df.rclonelink", "f"]), "d/f.rclonelink<d/f");
    }
}
