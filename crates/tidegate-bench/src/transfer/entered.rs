//! Decides which tools take part in a contest.

use crate::tool::{Tool, TransferSource};

/// The tools that take part, and the names of the others with the reasons.
pub(super) fn entered(source: &TransferSource) -> (Vec<Tool>, Vec<(&'static str, &'static str)>) {
    let left_out = |tool: Tool| Some((tool.name(), tool.left_out(source)?));
    let tools = Tool::ALL.into_iter().filter(|tool| tool.left_out(source).is_none());
    (tools.collect(), Tool::ALL.into_iter().filter_map(left_out).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tools match those in results/PEERS.md.
    #[test]
    fn who_is_left_out_is_named() {
        let [file, tree, pipe] =
            [TransferSource::File, TransferSource::Directory, TransferSource::Pipe].map(|of| of("/s".into()));
        let object = TransferSource::Object { original: "/s".into(), into: "/d".into() };
        let objects = TransferSource::Objects { originals: "/s".into(), into: "/d".into() };
        let of_trees = ["object_store", "OpenDAL", "boto3", "crt", "obstore", "(floor)"];
        for (source, expected) in [
            (file, &[][..]),
            (object, &[]),
            (tree, &of_trees),
            (objects, &of_trees),
            (pipe, &["transfer manager", "crt", "(floor)"]),
        ] {
            let (tools, left_out) = entered(&source);
            let names: Vec<_> = left_out.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, expected, "{source:?}");
            assert_eq!(tools.len() + names.len(), Tool::ALL.len(), "{source:?}");
            assert!(tools.iter().all(|tool| !names.contains(&tool.name())), "{source:?}");
        }
    }
}
