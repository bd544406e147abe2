//! Pairs the objects of two listings by key.
//!
//! Both listings must be in the order of the keys' bytes (`a-b` before `a/b`), which S3, Google and the walk of a
//! directory promise. A listing in another order would make objects look missing, and `sync --delete` would remove
//! them: so the order is checked.

use std::cmp::Ordering;
use std::pin::Pin;

use futures::stream::{self, Peekable};
use futures::{Stream, StreamExt, future};
use tidegate::Object;

use super::{TreeListing, TreeObject};
use crate::walk::Missed;

/// A key of one tree or of both.
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
    /// Something in the source, or in the target, could not be listed, or is no object. If the target has more than a
    /// single name that can be passed over, the merge ends: what was not listed is not missing, and must not be
    /// overwritten.
    SourceMissed(Missed),
    TargetMissed(Missed),
    /// A listing is not in key order: this key came after a greater one, or twice. The merge ends.
    Disorder {
        key: String,
    },
}

/// Merges two listings.
pub(crate) fn merge(source: TreeListing, target: TreeListing) -> impl Stream<Item = Step> {
    let merging =
        Merging { source: OrderedSide::new(source), target: OrderedSide::new(target), is_over: false };
    stream::unfold(merging, |mut merging| async move {
        let step = merging.next().await?;
        Some((step, merging))
    })
}

struct Merging {
    source: OrderedSide,
    target: OrderedSide,
    is_over: bool,
}

/// One listing, and the last key that was taken from it.
struct OrderedSide {
    listing: Peekable<TreeListing>,
    last: Option<String>,
}

impl OrderedSide {
    fn new(listing: TreeListing) -> Self {
        Self { listing: listing.peekable(), last: None }
    }

    async fn peek(&mut self) -> Option<&Result<TreeObject, Missed>> {
        Pin::new(&mut self.listing).peek().await
    }

    /// Takes the next object. `Err` if its key is not greater than the last.
    async fn take(&mut self) -> Option<Result<Result<TreeObject, Missed>, String>> {
        let next = self.listing.next().await?;
        if let Ok(object) = &next {
            if self.last.as_ref().is_some_and(|last| *last >= object.key) {
                return Some(Err(object.key.clone()));
            }
            self.last = Some(object.key.clone());
        }
        Some(Ok(next))
    }
}

/// The side, or sides, whose next entry comes first.
enum Next {
    Source,
    Target,
    Both,
}

impl Merging {
    async fn next(&mut self) -> Option<Step> {
        if self.is_over {
            return None;
        }
        let next = match future::join(self.source.peek(), self.target.peek()).await {
            (None, None) => return None,
            (Some(Err(_)), _) | (Some(_), None) => Next::Source,
            (_, Some(Err(_))) | (None, Some(_)) => Next::Target,
            (Some(Ok(source)), Some(Ok(target))) => match source.key.cmp(&target.key) {
                Ordering::Less => Next::Source,
                Ordering::Greater => Next::Target,
                Ordering::Equal => Next::Both,
            },
        };
        let (source, target) = match next {
            Next::Source => (self.source.take().await, None),
            Next::Target => (None, self.target.take().await),
            Next::Both => future::join(self.source.take(), self.target.take()).await,
        };
        let step = match (source, target) {
            (Some(Err(key)), _) | (_, Some(Err(key))) => {
                self.is_over = true;
                Step::Disorder { key }
            }
            (Some(Ok(Ok(source))), Some(Ok(Ok(target)))) => Step::Both { source, target: target.object },
            (Some(Ok(Ok(source))), _) => Step::SourceOnly(source),
            (Some(Ok(Err(missed))), _) => Step::SourceMissed(missed),
            (None, Some(Ok(Ok(target)))) => Step::TargetOnly(target),
            (None, Some(Ok(Err(missed)))) => {
                self.is_over = !missed.is_harmless();
                Step::TargetMissed(missed)
            }
            (None, None) => return None,
        };
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate::backend::OtherKind;

    use super::*;
    use crate::exit::CommandFailure;

    fn listing(keys: &[impl AsRef<str>]) -> TreeListing {
        let entry = |key: &str| match key {
            "!" => Err(Missed::LeftOut("link".into(), OtherKind::LinkToDirectory)),
            "!!" => Err(Missed::Failed(CommandFailure::Store(broken()))),
            key => Ok(TreeObject { key: key.to_owned(), object: Object::default() }),
        };
        stream::iter(keys.iter().map(|key| entry(key.as_ref())).collect::<Vec<_>>()).boxed_local()
    }

    /// An error of a store.
    fn broken() -> tidegate::Error {
        tidegate::Tidegate::builder().memory(1).build().unwrap_err()
    }

    async fn merged(source: &[impl AsRef<str>], target: &[impl AsRef<str>]) -> String {
        let steps: Vec<_> = merge(listing(source), listing(target)).collect().await;
        let word = |step: &Step| match step {
            Step::Both { source, .. } => format!("={}", source.key),
            Step::SourceOnly(object) => format!("+{}", object.key),
            Step::TargetOnly(object) => format!("-{}", object.key),
            Step::Taken { source, by } => format!("{}<{by}", source.key),
            Step::SourceMissed(_) => "+!".to_owned(),
            Step::TargetMissed(_) => "-!".to_owned(),
            Step::Disorder { key } => format!("?{key}"),
        };
        steps.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn keys_are_paired_in_the_order_of_their_bytes() {
        assert_eq!(merged(&[""; 0], &[""; 0]).await, "");
        assert_eq!(merged(&["a-b", "a/b", "c"], &["a/b", "b", "c"]).await, "+a-b =a/b -b =c");
        assert_eq!(merged(&["a"], &[""; 0]).await, "+a");
        assert_eq!(merged(&[""; 0], &["a", "é"]).await, "-a -é");
    }

    #[tokio::test]
    async fn what_a_listing_missed_is_told_apart_by_its_side() {
        assert_eq!(merged(&["a", "!", "b"], &["a", "c", "!"]).await, "=a +! +b -c -!");
    }

    #[tokio::test]
    async fn a_target_that_was_not_listed_to_its_end_ends_the_merge() {
        assert_eq!(merged(&["a", "b", "c"], &["a", "!!", "c"]).await, "=a -!");
        assert_eq!(merged(&["a", "!!", "c"], &["a", "b"]).await, "=a +! -b +c");
    }

    #[tokio::test]
    async fn a_listing_in_another_order_ends_the_merge() {
        assert_eq!(merged(&["a", "c", "b", "d"], &["d"]).await, "+a +c ?b");
        assert_eq!(merged(&["z"], &["a", "a", "b"]).await, "-a ?a");
    }

    #[tokio::test]
    async fn random_trees_are_compared_as_sets() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut name = || -> String {
                (0..random.usize(1..4)).filter_map(|_| random.choice(['a', '-', '/', 'é'])).collect()
            };
            let mut tree = || -> BTreeSet<String> { (0..9).map(|_| name()).collect() };
            let (source, target) = (tree(), tree());
            let expected: Vec<_> = source
                .union(&target)
                .map(|key| match (source.contains(key), target.contains(key)) {
                    (true, true) => format!("={key}"),
                    (true, false) => format!("+{key}"),
                    _ => format!("-{key}"),
                })
                .collect();
            let keys = |tree: &BTreeSet<String>| tree.iter().cloned().collect::<Vec<_>>();
            assert_eq!(merged(&keys(&source), &keys(&target)).await, expected.join(" "), "seed {seed}");
        }
    }
}
