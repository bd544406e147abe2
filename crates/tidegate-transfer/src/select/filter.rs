//! Chooses among the objects of a tree: by name, time and size.

use std::time::SystemTime;

use tidegate::Object;

use super::pattern::{KeyPattern, Matches};
use crate::error::{Error, Result};
use crate::place::Place;
use crate::walk::unlisted_name;

/// Which objects to take, by name, time and size.
#[derive(Clone, Debug, Default)]
pub struct ObjectFilter {
    /// Patterns, and whether names that match are taken. The last that matches decides.
    names: Vec<(bool, KeyPattern)>,
    newer_than: Option<SystemTime>,
    older_than: Option<SystemTime>,
    /// The least and the largest size.
    sizes: (Option<u64>, Option<u64>),
}

impl ObjectFilter {
    /// Takes names that match a pattern, and everything below them.
    ///
    /// In a pattern, `*` stands for any characters but `/`, and `**` for any characters. It is a name at any depth, or
    /// begins with `/` for the top. Of several patterns, the last that matches decides; what none matches is taken if
    /// the first one [excludes](Self::exclude).
    ///
    /// # Errors
    /// If the pattern is too long.
    pub fn include(self, pattern: &str) -> Result<Self> {
        self.with(true, pattern)
    }

    /// Leaves out names that match a pattern, and everything below them: see [`include`](Self::include).
    ///
    /// # Errors
    /// If the pattern is too long.
    pub fn exclude(self, pattern: &str) -> Result<Self> {
        self.with(false, pattern)
    }

    fn with(mut self, takes: bool, pattern: &str) -> Result<Self> {
        let compiled = KeyPattern::new(pattern, Matches::NameAndBelow);
        self.names.push((takes, compiled.map_err(|why| Error::Refused(format!("{pattern}: {why}")))?));
        Ok(self)
    }

    /// Takes objects that were modified after this time.
    pub fn newer_than(self, time: SystemTime) -> Self {
        Self { newer_than: Some(time), ..self }
    }

    /// Takes objects that were modified before this time.
    pub fn older_than(self, time: SystemTime) -> Self {
        Self { older_than: Some(time), ..self }
    }

    /// Takes objects of at least this many bytes.
    pub fn min_size(self, bytes: u64) -> Self {
        Self { sizes: (Some(bytes), self.sizes.1), ..self }
    }

    /// Takes objects of at most this many bytes.
    pub fn max_size(self, bytes: u64) -> Self {
        Self { sizes: (self.sizes.0, Some(bytes)), ..self }
    }

    /// Whether it takes everything.
    pub fn is_everything(&self) -> bool {
        self.names.is_empty() && !self.looks_at_objects()
    }

    /// The filter without its times and sizes.
    pub(crate) fn of_names(&self) -> Self {
        Self { names: self.names.clone(), ..Self::default() }
    }

    /// Whether a time or a size decides, too.
    pub(super) fn looks_at_objects(&self) -> bool {
        self.newer_than.is_some() || self.older_than.is_some() || self.sizes != (None, None)
    }

    /// Whether to take an object whose key below the tree's root is `key`. An object without a known time or size is
    /// left out if that decides.
    pub fn takes(&self, key: &str, object: &Object) -> bool {
        let (least, most) = self.sizes;
        let is_size = |fits: &dyn Fn(u64) -> bool| object.known_size().is_some_and(fits);
        let is_time = |fits: &dyn Fn(SystemTime) -> bool| object.modified.is_some_and(fits);
        self.takes_name(key)
            && least.is_none_or(|least| is_size(&|size| size >= least))
            && most.is_none_or(|most| is_size(&|size| size <= most))
            && self.newer_than.is_none_or(|after| is_time(&|modified| modified > after))
            && self.older_than.is_none_or(|before| is_time(&|modified| modified < before))
    }

    /// Whether to take an object that is named by itself: by the last name of its key. Describes the object where its time
    /// or size decides.
    pub(crate) async fn takes_named(&self, place: &Place) -> Result<bool> {
        let key = place.key.trim_end_matches('/');
        let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
        if !self.takes_name(name) || !self.looks_at_objects() {
            return Ok(self.takes_name(name));
        }
        let object = place.store.head(&place.key).await?;
        Ok(self.takes(name, &object))
    }

    /// Whether it leaves out the name that a listing's error is about, and all that may be below; such an error is not
    /// reported.
    pub(crate) fn leaves_out_unlisted(&self, error: &tidegate::Error) -> bool {
        unlisted_name(error).is_some_and(|unlisted| self.leaves_out_all(unlisted.name()))
    }

    /// Whether it leaves out a name, and all names below it: the last pattern that matches excludes, and no later one
    /// includes. A pattern matches a directory, whose name ends with a slash, also by matching all names in it.
    fn leaves_out_all(&self, name: &str) -> bool {
        let directory = name.strip_suffix('/');
        let within = directory.map(|directory| format!("{directory}/\u{fffd}"));
        let name = directory.unwrap_or(name);
        let matches = |pattern: &KeyPattern| {
            pattern.matches(name) || within.as_ref().is_some_and(|within| pattern.matches(within))
        };
        let deciding = self.names.iter().rev().find(|(takes, pattern)| *takes || matches(pattern));
        deciding.is_some_and(|(takes, _)| !takes)
    }

    /// Whether the name alone is taken.
    pub fn takes_name(&self, key: &str) -> bool {
        let decides = self.names.iter().rev().find(|(_, pattern)| pattern.matches(key));
        match (decides, self.names.first()) {
            (Some((takes, _)), _) => *takes,
            (None, Some((first_takes, _))) => !first_takes,
            (None, None) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_an_excluded_directory_is_left_out_if_nothing_includes_it() {
        let excludes = |patterns: &[&str]| {
            patterns.iter().fold(ObjectFilter::default(), |filter, pattern| filter.exclude(pattern).unwrap())
        };
        for pattern in ["lost+found", "/lost+found", "lost+found/**", "/lost+found/*", "**", "lost*"] {
            assert!(excludes(&[pattern]).leaves_out_all("lost+found/"), "{pattern}");
            assert!(excludes(&[pattern, "*.tmp"]).leaves_out_all("lost+found/"), "{pattern}");
            let includes = excludes(&[pattern]).include("lost+found/keep").unwrap();
            assert!(!includes.leaves_out_all("lost+found/"), "{pattern}");
        }
        for pattern in ["lost+found/*.tmp", "found", "*.tmp"] {
            assert!(!excludes(&[pattern]).leaves_out_all("lost+found/"), "{pattern}");
        }
        for pattern in ["a/", "a/*", "a/**"] {
            assert!(excludes(&[pattern]).leaves_out_all("a/"), "{pattern}");
            assert!(!excludes(&[pattern]).leaves_out_all("a"), "{pattern}: a file");
        }
        assert!(excludes(&["cache"]).leaves_out_all("cache/x\u{fffd}"));
        assert!(excludes(&["bad*"]).leaves_out_all("bad\u{fffd}"));
        assert!(!ObjectFilter::default().include("*.txt").unwrap().leaves_out_all("secret"));
        assert!(!ObjectFilter::default().leaves_out_all("secret"));
    }
}
