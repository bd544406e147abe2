//! Generations: Google's protocols use them to tell a key's objects apart, and requests may set conditions on
//! them (`cloud.google.com/storage/docs/request-preconditions`).

use serde::{Deserialize, Serialize};

use super::{CatalogObject, Moment};

/// The version of an object: of its bytes and of its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectVersion {
    /// Of the bytes: never reused, larger for later objects. 0 before the object is published.
    pub(crate) generation: u64,
    /// Of the attributes: 1 for a new object, one more with every change.
    pub(crate) metageneration: u64,
    /// The time of the last change of the attributes, if any.
    pub(crate) updated: Option<Moment>,
}

/// Conditions on a key's live object; a condition that is not set holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generations {
    pub(crate) is: Option<u64>,
    pub(crate) is_not: Option<u64>,
    pub(crate) metageneration_is: Option<u64>,
    pub(crate) metageneration_is_not: Option<u64>,
}

/// The result of checking conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionResult {
    Holds,
    /// The client already has the live object: a read answers 304, anything else 412.
    Unchanged,
    Fails,
}

impl Generations {
    /// Generation 0 stands for no object: without a live object, only `is: 0` holds.
    pub(crate) fn check(&self, live: Option<&CatalogObject>) -> ConditionResult {
        let generation = live.map_or(0, |object| object.version.generation);
        let metageneration = live.map(|object| object.version.metageneration);
        if self.is.is_some_and(|wanted| wanted != generation)
            || self.metageneration_is.is_some_and(|wanted| Some(wanted) != metageneration)
        {
            return ConditionResult::Fails;
        }
        let has_negative = self.is_not.is_some() || self.metageneration_is_not.is_some();
        if has_negative && live.is_none() {
            return ConditionResult::Fails;
        }
        let is_same = self.is_not == Some(generation)
            || (self.metageneration_is_not.is_some() && self.metageneration_is_not == metageneration);
        if is_same { ConditionResult::Unchanged } else { ConditionResult::Holds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CatalogAttributes;

    fn object(generation: u64, metageneration: u64) -> CatalogObject {
        CatalogObject {
            key: "k".to_owned(),
            size: 0,
            etag: String::new(),
            modified: Moment::now(),
            checksum: None,
            part_sizes: Vec::new(),
            attributes: CatalogAttributes::default(),
            version: ObjectVersion { generation, metageneration, updated: None },
            crc32c: None,
            md5: None,
            pieces: Vec::new(),
        }
    }

    #[test]
    fn conditions_are_about_the_live_object() {
        let live = object(7, 2);
        let (some, none) = (Some(&live), None);
        let is = |n| Generations { is: Some(n), ..Generations::default() };
        let is_not = |n| Generations { is_not: Some(n), ..Generations::default() };
        assert_eq!(Generations::default().check(none), ConditionResult::Holds);
        assert_eq!((is(0).check(none), is(0).check(some)), (ConditionResult::Holds, ConditionResult::Fails));
        assert_eq!(
            (is(7).check(some), is(8).check(some), is(7).check(none)),
            (ConditionResult::Holds, ConditionResult::Fails, ConditionResult::Fails)
        );
        assert_eq!(
            (is_not(0).check(some), is_not(0).check(none)),
            (ConditionResult::Holds, ConditionResult::Fails)
        );
        assert_eq!(
            (is_not(7).check(some), is_not(8).check(some)),
            (ConditionResult::Unchanged, ConditionResult::Holds)
        );
        let meta = |n| Generations { metageneration_is: Some(n), ..Generations::default() };
        let not_meta = |n| Generations { metageneration_is_not: Some(n), ..Generations::default() };
        assert_eq!(
            (meta(2).check(some), meta(1).check(some)),
            (ConditionResult::Holds, ConditionResult::Fails)
        );
        assert_eq!(
            (meta(2).check(none), not_meta(2).check(none)),
            (ConditionResult::Fails, ConditionResult::Fails)
        );
        assert_eq!(
            (not_meta(2).check(some), not_meta(1).check(some)),
            (ConditionResult::Unchanged, ConditionResult::Holds)
        );
    }
}
