//! Pairs the objects of two listings by key.

use std::cmp::Ordering;

use futures::stream;
use futures::{Stream, future};
use tidegate::Object;

use crate::listing::{Disorder, OrderedListing, TreeObject};
use crate::walk::Missed;

/// A key of one tree or of both.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are `Both`, and none lives long")]
pub(crate) enum Pair {
    /// Both trees have an object of the key.
    Both {
        /// The object of the source.
        source: TreeObject,
        /// The object of the target.
        target: Object,
    },
    /// The target has no object of the key.
    SourceOnly(TreeObject),
    /// The source has no object of the key.
    TargetOnly(TreeObject),
    /// Something in the source could not be listed, or is no object.
    SourceMissed(Missed),
    /// Something in the target could not be listed, or is no object. Unless it is harmless, the merge ends.
    TargetMissed(Missed),
    /// A listing is not in the order of its keys. The merge ends.
    Disorder(Disorder),
}

/// Merges two listings: the keys of both, in order.
pub(crate) fn merge<S, T>(source: OrderedListing<S>, target: OrderedListing<T>) -> impl Stream<Item = Pair>
where
    S: Stream<Item = Result<TreeObject, Missed>> + Unpin,
    T: Stream<Item = Result<TreeObject, Missed>> + Unpin,
{
    let merging = Merging { source, target, is_over: false };
    stream::unfold(merging, |mut merging| async move {
        let pair = merging.next().await?;
        Some((pair, merging))
    })
}

struct Merging<S: Stream, T: Stream> {
    source: OrderedListing<S>,
    target: OrderedListing<T>,
    is_over: bool,
}

/// The side, or sides, whose next entry comes first.
enum Next {
    Source,
    Target,
    Both,
}

impl<S, T> Merging<S, T>
where
    S: Stream<Item = Result<TreeObject, Missed>> + Unpin,
    T: Stream<Item = Result<TreeObject, Missed>> + Unpin,
{
    async fn next(&mut self) -> Option<Pair> {
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
        let pair = match (source, target) {
            (Some(Err(disorder)), _) | (_, Some(Err(disorder))) => {
                self.is_over = true;
                Pair::Disorder(disorder)
            }
            (Some(Ok(Ok(source))), Some(Ok(Ok(target)))) => Pair::Both { source, target: target.object },
            (Some(Ok(Ok(source))), _) => Pair::SourceOnly(source),
            (Some(Ok(Err(missed))), _) => Pair::SourceMissed(missed),
            (None, Some(Ok(Ok(target)))) => Pair::TargetOnly(target),
            (None, Some(Ok(Err(missed)))) => {
                self.is_over = !missed.is_harmless();
                Pair::TargetMissed(missed)
            }
            (None, None) => return None,
        };
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::StreamExt;
    use tidegate::backend::OtherKind;

    use super::*;
    use crate::error::Error;

    type Entries = std::vec::IntoIter<Result<TreeObject, Missed>>;

    fn listing(keys: &[impl AsRef<str>]) -> OrderedListing<stream::Iter<Entries>> {
        let entry = |key: &str| match key {
            "!" => Err(Missed::LeftOut("link".into(), OtherKind::LinkToDirectory)),
            "!!" => Err(Missed::Failed(Error::Refused("no more".to_owned()))),
            key => Ok(TreeObject { key: key.to_owned(), object: Object::default() }),
        };
        OrderedListing::new(stream::iter(keys.iter().map(|key| entry(key.as_ref())).collect::<Vec<_>>()))
    }

    async fn merged(source: &[impl AsRef<str>], target: &[impl AsRef<str>]) -> String {
        let pairs: Vec<Pair> = merge(listing(source), listing(target)).collect().await;
        let word = |pair: &Pair| match pair {
            Pair::Both { source, .. } => format!("={}", source.key),
            Pair::SourceOnly(object) => format!("+{}", object.key),
            Pair::TargetOnly(object) => format!("-{}", object.key),
            Pair::SourceMissed(_) => "+!".to_owned(),
            Pair::TargetMissed(_) => "-!".to_owned(),
            Pair::Disorder(Disorder { key }) => format!("?{key}"),
        };
        pairs.iter().map(word).collect::<Vec<_>>().join(" ")
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
