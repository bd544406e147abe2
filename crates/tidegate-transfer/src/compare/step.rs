//! What there is to do for one key.

use crate::listing::{Disorder, TreeObject};
use crate::merge;
use tidegate::Object;

use super::taken::TakenNames;
use crate::walk::Missed;

/// A key of one tree or of both: a step of the merge, or an object without a name at the target.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are `Both`, and none lives long")]
pub(crate) enum Step {
    Both {
        source: TreeObject,
        target: Object,
    },
    SourceOnly(TreeObject),
    TargetOnly(TreeObject),
    /// The source has the object, and another object of the source, `by`, has its name on the target's disk.
    Taken {
        source: TreeObject,
        by: String,
    },
    SourceMissed(Missed),
    TargetMissed(Missed),
    Disorder(Disorder),
}

impl Step {
    /// The step of the merge; with the names that are taken on the target's disk.
    pub(super) fn of(merged: merge::Step<Missed>, mut taken: Option<&mut TakenNames>) -> Self {
        let mut taken_by = |key: &str| taken.as_mut()?.taken_by(key).map(str::to_owned);
        match merged {
            merge::Step::Both { source, target } => match taken_by(&source.key) {
                Some(by) => Self::Taken { source, by },
                None => Self::Both { source, target },
            },
            merge::Step::SourceOnly(source) => match taken_by(&source.key) {
                Some(by) => Self::Taken { source, by },
                None => Self::SourceOnly(source),
            },
            merge::Step::TargetOnly(object) => Self::TargetOnly(object),
            merge::Step::SourceMissed(missed) => Self::SourceMissed(missed),
            merge::Step::TargetMissed(missed) => Self::TargetMissed(missed),
            merge::Step::Disorder(disorder) => Self::Disorder(disorder),
        }
    }
}
