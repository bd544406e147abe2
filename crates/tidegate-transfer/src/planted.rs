//! Bugs that a test plants, to show that the property test of trees finds them. Without the feature `planted` there are
//! none: [`Plants::has`] is then a constant.

/// A bug in the engine of trees.
#[cfg_attr(not(feature = "planted"), expect(unreachable_pub, reason = "only the feature exports it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A listing that is not in the order of its keys is merged all the same.
    UnorderedListing,
    /// A move removes its source although the copy is not confirmed.
    UnconfirmedMove,
    /// A target may be another source of the command.
    ReplacedSource,
    /// What only the target has is removed although something could not be listed or copied.
    RemovalAfterFailure,
    /// What the target has below a name that the source leaves out counts as extra.
    RemovalBelowLeftOut,
    /// Equal sizes in one second count as unchanged.
    SameSecond,
    /// Links below the target are written through.
    WriteThroughLink,
    /// A file and a link of one name become one file.
    LinkOverFile,
    /// The dry run leaves out a removal.
    UntoldRemoval,
    /// What is in the way of an object stays.
    LastingObstacle,
}

/// The bug that is planted in an operation, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plants(Option<Planted>);

impl Plants {
    #[cfg(feature = "planted")]
    pub(crate) fn of(planted: Option<Planted>) -> Self {
        Self(planted)
    }

    pub(crate) fn has(self, bug: Planted) -> bool {
        cfg!(feature = "planted") && self.0 == Some(bug)
    }
}
