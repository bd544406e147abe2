//! Whether two objects of one key are the same, as far as two descriptions tell.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate::Object;
use tidegate::object::FileAttributes;

use super::checksums;
use crate::event::Finding;
use crate::links::FileOptions;
use crate::planted::{Planted, Plants};

/// How two objects of one key are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// By size and time.
    #[default]
    Time,
    /// By size only.
    Size,
    /// By size and checksum. Stores keep checksums; local files are read to compute theirs. Takes one request for each
    /// object of a store whose listing has no checksums (S3). Objects without a checksum to compare count as different.
    Checksum,
}

/// How two trees are compared, and what their files are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompareOptions {
    pub(crate) by: Comparison,
    pub(crate) files: FileOptions,
    pub(crate) plants: Plants,
}

/// The rules by which two objects of one key are compared: the options, and on which sides files are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompareRules {
    pub(crate) options: CompareOptions,
    pub(crate) sides: Sides,
}

impl CompareRules {
    /// Compares two objects of one key as far as the listings describe them.
    pub(crate) fn compare(self, source: &Object, target: &Object) -> Verdict {
        match self.options.compare(source, target, self.sides) {
            Verdict::Different(Difference::Newer) if self.has_preserved_times() => Verdict::Unknown,
            verdict => verdict,
        }
    }

    /// Whether the files of one tree may have their times in the metadata of the other's objects.
    fn has_preserved_times(self) -> bool {
        self.options.files.preserve && matches!(self.sides, Sides::FromDisk | Sides::ToDisk)
    }

    /// Compares two objects by all that their stores say of them. A file that has the time in the metadata of its
    /// object is the same, whatever the object's own time.
    pub(super) fn compare_described(self, source: &Object, target: &Object) -> Verdict {
        let verdict = self.options.compare(source, target, self.sides);
        if verdict != Verdict::Different(Difference::Newer) || !self.has_preserved_times() {
            return verdict;
        }
        let (file, object) = if self.sides.source_is_local() { (source, target) } else { (target, source) };
        let (kept, _) = FileAttributes::from_metadata(&object.attributes.metadata);
        match file.modified.is_some_and(|time| kept.is_modified_at(time)) {
            true => Verdict::Same,
            false => verdict,
        }
    }
}

/// Whether two objects of one key are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    Different(Difference),
    /// The listings do not tell: see [`Trees::ask`](super::Trees::ask).
    Unknown,
    /// The times say that they are the same, and one is so new that this proves little: see [`Trees::ask`](super::Trees::ask).
    Fresh,
}

/// How two objects of one key differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Size,
    Newer,
    Checksum,
    /// Nothing that can be compared.
    Unproven,
}

impl Difference {
    /// What a check says of it.
    pub(crate) fn finding(self) -> Finding {
        match self {
            Self::Size => Finding::Size,
            Self::Newer => Finding::Newer,
            Self::Checksum => Finding::Checksum,
            Self::Unproven => Finding::Unproven,
        }
    }
}

impl CompareOptions {
    /// Compares what two descriptions say.
    ///
    /// Most stores have times in whole seconds, so times in one second tell nothing of two objects in stores: their tags
    /// or checksums do, or else both are described. A downloaded file has the time of its object, with the fraction of
    /// the listing if it has one. A file that is changed in the second of its upload counts as newer.
    ///
    /// An object that was changed within two seconds before it was listed may have been replaced in the second of its
    /// time. Then the contents are compared as far as that is possible.
    pub(super) fn compare(self, source: &Object, target: &Object, sides: Sides) -> Verdict {
        let newer = Verdict::Different(Difference::Newer);
        match source.known_size().zip(target.known_size()) {
            None => return Verdict::Unknown,
            Some((ours, theirs)) if ours != theirs => return Verdict::Different(Difference::Size),
            _ if self.by == Comparison::Size => return Verdict::Same,
            _ if self.by == Comparison::Checksum => return Verdict::Unknown,
            _ => {}
        }
        let Some((ours, theirs)) = source.modified.zip(target.modified) else {
            return Verdict::Different(Difference::Unproven);
        };
        if self.plants.has(Planted::SameSecond) && seconds(ours) == seconds(theirs) {
            return Verdict::Same;
        }
        let by_tag = match sides {
            Sides::Stores => checksums::listed(source, target),
            Sides::FromDisk | Sides::ToDisk | Sides::Disks => None,
        };
        let is_close = seconds(theirs).saturating_sub(seconds(ours)) <= CLOSE;
        let is_fresh = source.is_fresh || target.is_fresh || sides == Sides::ToDisk && is_unsure(theirs);
        match seconds(ours).cmp(&seconds(theirs)) {
            Ordering::Greater => newer,
            Ordering::Less if !is_fresh || !is_close => Verdict::Same,
            _ if by_tag == Some(true) => Verdict::Same,
            _ if by_tag == Some(false) => Verdict::Different(Difference::Checksum),
            Ordering::Less => Verdict::Fresh,
            Ordering::Equal => match sides {
                Sides::FromDisk | Sides::Disks if ours > theirs => newer,
                Sides::Stores | Sides::ToDisk if has_fraction(ours) && has_fraction(theirs) => {
                    if ours > theirs { newer } else { Verdict::Same }
                }
                Sides::Stores => Verdict::Unknown,
                _ if is_fresh => Verdict::Fresh,
                Sides::FromDisk | Sides::ToDisk | Sides::Disks => Verdict::Same,
            },
        }
    }
}

/// How many seconds apart two times are at most that fresh objects make doubtful.
const CLOSE: i64 = 2;

/// The time of a file that is downloaded from a `listed` object.
///
/// An object that is fresh, in a store that lists whole seconds, may be replaced in the same second. Nothing would tell
/// the next run, so the file gets a nanosecond more: then its content is compared.
pub(crate) fn time_of_file(listed: &Object) -> Option<SystemTime> {
    let time = listed.modified?;
    let is_unsure = listed.is_fresh && !has_fraction(time);
    Some(if is_unsure { time + UNSURE } else { time })
}

const UNSURE: Duration = Duration::from_nanos(1);

fn is_unsure(time: SystemTime) -> bool {
    time.duration_since(UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() == UNSURE.subsec_nanos())
}

/// On which sides of a comparison files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sides {
    Stores,
    /// From a directory to a store.
    FromDisk,
    /// From a store to a directory.
    ToDisk,
    Disks,
}

impl Sides {
    pub(crate) fn source_is_local(self) -> bool {
        matches!(self, Self::FromDisk | Self::Disks)
    }

    pub(crate) fn target_is_local(self) -> bool {
        matches!(self, Self::ToDisk | Self::Disks)
    }
}

fn has_fraction(time: SystemTime) -> bool {
    time.duration_since(UNIX_EPOCH).is_ok_and(|since| since.subsec_nanos() != 0)
}

/// Whole seconds since 1970: some stores list times without fractions.
fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX) - 1,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An object of a size, written so many tenths of a second after 1970.
    pub(in crate::compare) fn object(size: Option<u64>, modified: Option<u64>) -> Object {
        Object {
            size: size.unwrap_or(0),
            size_is_unknown: size.is_none(),
            modified: modified.map(|tenths| UNIX_EPOCH + Duration::from_millis(tenths * 100)),
            ..Object::default()
        }
    }

    #[test]
    fn sizes_then_times_decide() {
        let by = |options: CompareOptions, source, target| options.compare(&source, &target, Sides::Stores);
        let default = CompareOptions::default();
        let size_only = CompareOptions { by: Comparison::Size, ..default };
        let checksum = CompareOptions { by: Comparison::Checksum, ..default };
        let (old, new) = (object(Some(3), Some(100)), object(Some(3), Some(110)));
        let (later, unknown) = (object(Some(3), Some(119)), object(None, Some(100)));
        assert_eq!(by(default, old.clone(), new.clone()), Verdict::Same);
        assert_eq!(by(default, new.clone(), old.clone()), Verdict::Different(Difference::Newer));
        assert_eq!(by(default, later.clone(), new.clone()), Verdict::Unknown, "one has whole seconds");
        assert_eq!(default.compare(&later, &new, Sides::FromDisk), Verdict::Different(Difference::Newer));
        assert_eq!(default.compare(&later, &new, Sides::ToDisk), Verdict::Same);
        assert_eq!(by(size_only, new.clone(), old.clone()), Verdict::Same);
        assert_eq!(by(checksum, new.clone(), old.clone()), Verdict::Unknown);
        assert_eq!(by(default, unknown, old.clone()), Verdict::Unknown);
        let (larger, timeless) = (object(Some(4), Some(100)), object(Some(3), None));
        for options in [default, size_only, checksum] {
            assert_eq!(by(options, larger.clone(), new.clone()), Verdict::Different(Difference::Size));
        }
        assert_eq!(by(default, timeless, new), Verdict::Different(Difference::Unproven));
    }

    #[test]
    fn within_one_second_tags_and_fractions_decide() {
        let (same, newer) = (Verdict::Same, Verdict::Different(Difference::Newer));
        let other = Verdict::Different(Difference::Checksum);
        let at = |tenths, tag: &str| {
            let mut object = object(Some(3), Some(tenths));
            object.etag = Some(format!("\"{}\"", tag.repeat(32)));
            object
        };
        let compare = |source: &Object, target: &Object, sides| {
            CompareOptions::default().compare(source, target, sides)
        };
        for (source, target, sides, expected) in [
            (at(119, "a"), at(113, "b"), Sides::Stores, other),
            (at(113, "a"), at(119, "b"), Sides::Stores, other),
            (at(110, "a"), at(110, "b"), Sides::Stores, other),
            (at(119, "a"), at(113, "a"), Sides::Stores, same),
            (at(110, "x"), at(110, "b"), Sides::Stores, Verdict::Unknown),
            (at(119, "x"), at(113, "x"), Sides::Stores, newer),
            (at(113, "x"), at(119, "x"), Sides::Stores, same),
            (at(109, "a"), at(113, "b"), Sides::Stores, same),
            (at(119, "a"), at(113, "x"), Sides::ToDisk, newer),
            (at(113, "a"), at(113, "x"), Sides::ToDisk, same),
            (at(113, "a"), at(110, "x"), Sides::ToDisk, same),
            (at(110, "a"), at(110, "x"), Sides::ToDisk, same),
            (at(113, "a"), at(110, "x"), Sides::FromDisk, newer),
            (at(110, "a"), at(113, "x"), Sides::FromDisk, same),
        ] {
            assert_eq!(compare(&source, &target, sides), expected, "{source:?} {target:?} {sides:?}");
        }
        let mut fresh = at(110, "a");
        fresh.is_fresh = true;
        assert_eq!(compare(&fresh, &at(110, "x"), Sides::ToDisk), Verdict::Fresh);
        for sides in [Sides::FromDisk, Sides::ToDisk, Sides::Stores] {
            assert_eq!(compare(&at(90, "x"), &fresh, sides), Verdict::Fresh);
            assert_eq!(compare(&at(79, "x"), &fresh, sides), same, "long before");
        }
        assert_eq!(compare(&at(90, "b"), &fresh, Sides::Stores), other);
        let mut file = at(110, "x");
        file.modified = time_of_file(&fresh);
        assert_eq!(
            compare(&at(110, "a"), &file, Sides::ToDisk),
            Verdict::Fresh,
            "it was fresh when it was copied"
        );
        file.modified = time_of_file(&at(110, "a"));
        assert_eq!(compare(&at(110, "a"), &file, Sides::ToDisk), same);
    }

    #[test]
    fn times_before_1970_are_in_order() {
        let at = |millis: u64| seconds(UNIX_EPOCH - Duration::from_millis(millis));
        assert!(at(2500) < at(900) && at(900) < seconds(UNIX_EPOCH));
    }
}
