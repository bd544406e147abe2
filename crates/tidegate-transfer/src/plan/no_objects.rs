//! Names in two trees that are no objects of both, such as links to directories, named pipes, and empty objects in place
//! of directories.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tidegate::text::printable;

use crate::compare::key_of;
use crate::error::Error;
use crate::figures::count;
use crate::merge::Pair;
use crate::select::ObjectFilter;
use crate::walk::{Missed, unlisted_name};

/// How many names of the target are described.
const DESCRIBED: usize = 3;

/// How many names of the target are remembered; more are only counted.
const REMEMBERED: usize = 10_000;

/// The names that a plan has come to so far. Names below the target are taken note of only if the filter takes them.
#[derive(Debug)]
pub(crate) struct NoObjects {
    /// The directories of the trees that are on this machine.
    source: Option<PathBuf>,
    target: Option<PathBuf>,
    filter: ObjectFilter,
    /// Below the source. `sync --delete` keeps what the target has at or below such a name, because the source may have
    /// it there too.
    in_source: HashSet<String>,
    /// Below the target: the name, if it is a key, and what is there.
    in_target: Vec<(Option<String>, String)>,
    /// How many more names there are below the target.
    beyond: u64,
    /// The first URLs of empty objects of the source that no file can have the names of, and how many there are.
    markers: (Vec<String>, u64),
}

impl NoObjects {
    /// No names yet, of trees in these directories.
    pub(crate) fn below(source: Option<&Path>, target: Option<&Path>, filter: &ObjectFilter) -> Self {
        let (source, target) = (source.map(Path::to_owned), target.map(Path::to_owned));
        let (in_source, in_target, markers) = Default::default();
        Self { source, target, filter: filter.clone(), in_source, in_target, beyond: 0, markers }
    }

    /// Takes note of the names in a pair.
    pub(super) fn see(&mut self, pair: &Pair) {
        match pair {
            Pair::SourceMissed(Missed::LeftOut(path, _)) => {
                self.in_source.extend(key_of(self.source.as_deref(), path).map(str::to_owned));
            }
            Pair::SourceMissed(Missed::Failed(Error::Store(error))) => {
                self.in_source.extend(
                    unlisted_name(error).map(|unlisted| unlisted.name().trim_end_matches('/').to_owned()),
                );
            }
            Pair::SourceMissed(Missed::Marker(url)) => {
                let (described, all) = &mut self.markers;
                *all += 1;
                if described.len() < DESCRIBED {
                    described.push(url.clone());
                }
            }
            Pair::TargetMissed(missed) if missed.is_harmless() => {
                let (key, what) = match missed {
                    Missed::Marker(url) => {
                        (None, format!("{url} is an empty object in place of a directory"))
                    }
                    Missed::LeftOut(path, kind) => {
                        (key_of(self.target.as_deref(), path), format!("{} is {kind}", path.display()))
                    }
                    Missed::Failed(failure) => (None, failure.to_string()),
                };
                match key.is_none_or(|key| self.filter.takes_name(key)) {
                    true if self.in_target.len() < REMEMBERED => {
                        self.in_target.push((key.map(str::to_owned), what));
                    }
                    true => self.beyond += 1,
                    false => {}
                }
            }
            _ => {}
        }
    }

    /// Whether the filter takes a path below the source.
    pub(super) fn takes_source(&self, path: &Path) -> bool {
        key_of(self.source.as_deref(), path).is_none_or(|key| self.filter.takes_name(key))
    }

    /// Whether the source has no object at this key, or at a name above it, but something else.
    pub(super) fn is_in_source(&self, key: &str) -> bool {
        let source = &self.in_source;
        let ends = key.match_indices('/').map(|(at, _)| at).chain([key.len()]);
        !source.is_empty() && ends.into_iter().any(|end| source.contains(&key[..end]))
    }

    /// The line about empty objects of the source that no file can have the names of; `None` if there are none.
    pub(super) fn line_of_source(&self) -> Option<String> {
        let (described, all) = &self.markers;
        let is = match all {
            0 => return None,
            1 => "is",
            _ => "are",
        };
        let more = if *all > DESCRIBED as u64 { ", …" } else { "" };
        let line = format!(
            "{} in the source {is} left out, because no file's name ends with a slash: {}{more}",
            count(*all, "name"),
            described.join(", ")
        );
        Some(printable(&line).into_owned())
    }

    /// The line about names that only the target has, and that stay there; `None` if there are none.
    pub(super) fn line_of_target(&self) -> Option<String> {
        let is_extra = |key: &Option<String>| key.as_ref().is_none_or(|key| !self.in_source.contains(key));
        let extra: Vec<_> =
            self.in_target.iter().filter(|(key, _)| is_extra(key)).map(|(_, what)| &**what).collect();
        let all = Some(extra.len() as u64 + self.beyond).filter(|all| *all > 0)?;
        let more = if extra.len() > DESCRIBED { ", …" } else { "" };
        let described = extra.iter().take(DESCRIBED).copied().collect::<Vec<_>>().join(", ");
        let what = if all == 1 { "is no object and stays" } else { "are no objects and stay" };
        let line = format!("{} in the target {what}: {described}{more}", count(all, "name"));
        Some(printable(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use tidegate::backend::OtherKind;

    use super::*;

    fn left_out(path: &str) -> Missed {
        Missed::LeftOut(path.into(), OtherKind::LinkToDirectory)
    }

    fn names(filter: ObjectFilter) -> NoObjects {
        NoObjects::below(Some(Path::new("/s")), Some(Path::new("/t")), &filter)
    }

    #[test]
    fn names_of_the_source_cover_what_lies_below() {
        let mut names = names(ObjectFilter::default());
        for path in ["/s/a/link", "/s/é"] {
            names.see(&Pair::SourceMissed(left_out(path)));
        }
        for key in ["a/link", "a/link/x", "a/link/x/y", "é/x"] {
            assert!(names.is_in_source(key), "{key}");
        }
        for key in ["a", "a/link-x", "a/linked/x", "b/a/link"] {
            assert!(!names.is_in_source(key), "{key}");
        }
    }

    #[test]
    fn names_that_only_the_target_has_are_told() {
        let mut names = names(ObjectFilter::default().exclude("e").unwrap());
        for pair in [
            Pair::TargetMissed(left_out("/t/both")),
            Pair::SourceMissed(left_out("/s/both")),
            Pair::TargetMissed(left_out("/t/e")),
        ] {
            names.see(&pair);
        }
        assert_eq!(names.line_of_target(), None);
        for name in ["a", "b", "c\u{202e}", "d"] {
            names.see(&Pair::TargetMissed(left_out(&format!("/t/{name}"))));
        }
        let line = names.line_of_target().unwrap();
        assert!(line.starts_with("4 names in the target are no objects and stay: /t/a is a "), "{line}");
        assert!(line.ends_with(", …") && !line.contains('\u{202e}') && !line.contains("/t/d"), "{line}");
        for number in 0..REMEMBERED {
            names.see(&Pair::TargetMissed(left_out(&format!("/t/{number}"))));
        }
        assert!(names.line_of_target().unwrap().starts_with("10004 names"));
    }
}
