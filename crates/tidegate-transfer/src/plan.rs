//! Decides what becomes of each key of two trees: pairs of their listings and answers in, steps out, without I/O.
//!
//! A check, a synchronization and its dry run take the same steps from one plan. What a step needs of the target's disk
//! comes from a [`TargetDisk`]; whether an object has changed that the listings do not tell apart is a step of its own.

use std::path::PathBuf;

use tidegate::Object;
use tidegate::backend::OtherKind;
use tidegate::backend::local::{LINK_SUFFIX, LinkPolicy};

use crate::compare::{CompareRules, Difference, Verdict};
use crate::error::Error;
use crate::event::{self, Failure, Side};
use crate::folding::FoldedNames;
use crate::hashed::HashedNames;
use crate::links::Links;
use crate::listing::TreeObject;
use crate::merge::Pair;
use crate::obstacle::Obstacle;
use crate::planted::Planted;
use crate::select::ObjectFilter;
use crate::walk::Missed;

mod no_objects;
mod taken;

pub(crate) use no_objects::NoObjects;
use taken::TakenNames;

/// What the plan decides for one key.
#[derive(Debug)]
pub(crate) enum PlanStep {
    /// The listings do not tell whether both sides have the same object: compare further. The answer is
    /// [`Change::None`] or [`Change::Replace`].
    Compare {
        source: TreeObject,
        target: Box<Object>,
    },
    Do(Change),
}

/// What would make the target like the source, for one key.
#[derive(Debug)]
pub(crate) enum Change {
    /// Both sides have the same object.
    None,
    /// The target does not have the object.
    Add(TreeObject),
    /// The target has another object of this key.
    Replace(TreeObject, Difference),
    /// The object would have the name of another one, `by`, on the target's disk. `None`: the disk may take its name and
    /// that of another object for one.
    Refuse { source: TreeObject, by: Option<String> },
    /// Only the target has the object.
    Remove(TreeObject),
    /// Only the target has the object, and nothing is removed through the link that it lies behind.
    Keep { object: TreeObject, behind: PathBuf },
    /// The source has something there that is no object.
    LeaveOut(PathBuf, OtherKind),
    /// Something could not be listed or compared. Other keys follow.
    Fail(Failure),
    /// A listing has ended before its end, or is not in the order of its keys. No other keys follow.
    Stop(Failure),
}

/// What a plan asks of the directory that is the target. A target that is no directory answers `false` and `None`.
pub(crate) trait TargetDisk {
    /// Whether there is a directory of this name. A link to a directory is one if links are followed.
    fn has_directory(&self, name: &str) -> bool;

    /// The first name above this key that is a symbolic link.
    fn link_above(&self, key: &str) -> Option<PathBuf>;

    /// The file that the object of this key becomes if links are written through; `None` if they are not.
    fn file_behind_links(&self, key: &str) -> Option<FileBehindLinks>;

    /// The file of this name, which may be listed by another name that the disk takes for this one.
    fn file(&self, name: &str) -> Option<Object>;

    /// What stands for all names that the disk takes for this one; `None` if it takes no other for it.
    fn folded(&self, name: &str) -> Option<String>;

    /// What is in the way of the object of this key.
    fn obstacle(&self, key: &str) -> Option<Obstacle>;
}

/// A file that an object becomes by links of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileBehindLinks {
    /// Its name below the target, or its whole path if a link leads out of the target.
    OfTarget(String),
    /// The key of an object of the source, which it is.
    OfSource(String),
}

/// The plan of two trees, as far as their listings have come.
#[derive(Debug)]
pub(crate) struct TreePlan {
    rules: CompareRules,
    filter: ObjectFilter,
    /// What becomes of links in the target, if that is a directory.
    target_links: Option<(Links, LinkPolicy)>,
    /// The names that objects of the source take on the target's disk.
    taken: Option<TakenNames>,
    /// The files that objects of the source become, where links of the target are written through: two names may be one
    /// file.
    files: HashedNames,
    /// The names that objects of the source have on a disk that does not tell all names apart.
    folded: FoldedNames,
    no_objects: NoObjects,
    /// How many objects the source has, without those that the filter leaves out.
    objects: u64,
}

impl TreePlan {
    /// The plan before the first pair. `target_links` is what becomes of links in the target, if that is a directory.
    pub(crate) fn new(
        rules: CompareRules,
        filter: ObjectFilter,
        target_links: Option<(Links, LinkPolicy)>,
        no_objects: NoObjects,
    ) -> Self {
        let may_share_names = !rules.options.plants.has(Planted::LinkOverFile);
        let taken = target_links.filter(|_| may_share_names).map(|(links, _)| TakenNames::new(links));
        Self {
            rules,
            filter,
            target_links,
            taken,
            files: HashedNames::default(),
            folded: FoldedNames::default(),
            no_objects,
            objects: 0,
        }
    }

    /// How many objects the source has so far, without those that the filter leaves out.
    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    /// The line about empty objects of the source that no file can have the names of; `None` if there are none.
    pub(crate) fn no_files_of_source(&self) -> Option<String> {
        self.no_objects.line_of_source()
    }

    /// The line about names in the target that are no objects and that only the target has; `None` if there are none.
    pub(crate) fn no_objects_of_target(&self) -> Option<String> {
        self.no_objects.line_of_target()
    }

    /// The step for the next pair; `None` for nothing. If both sides have the object, the source's decides whether the
    /// filter takes it; what only the target has stays if the filter would not take it from the source.
    pub(crate) fn next(&mut self, pair: Pair, disk: &impl TargetDisk) -> Option<PlanStep> {
        self.no_objects.see(&pair);
        match pair {
            Pair::Both { source, target } => self.source_has(source, Some(target), disk),
            Pair::SourceOnly(source) => self.source_has(source, None, disk),
            Pair::TargetOnly(object) => self.only_target_has(object, disk),
            Pair::SourceMissed(Missed::LeftOut(path, kind)) => {
                let is_taken = self.no_objects.takes_source(&path);
                is_taken.then_some(PlanStep::Do(Change::LeaveOut(path, kind)))
            }
            Pair::SourceMissed(Missed::Failed(error)) => Some(self.missed(Side::Source, error)),
            Pair::TargetMissed(missed) if missed.is_harmless() => None,
            Pair::TargetMissed(Missed::Failed(error)) => Some(self.missed(Side::Target, error)),
            Pair::SourceMissed(Missed::Marker(_)) => None,
            Pair::TargetMissed(Missed::LeftOut(..) | Missed::Marker(_)) => None,
            Pair::Disorder(_) if self.rules.options.plants.has(Planted::UnorderedListing) => None,
            Pair::Disorder(disorder) => {
                let failure = Failure::new(event::Step::List, None, disorder.into());
                Some(PlanStep::Do(Change::Stop(failure)))
            }
        }
    }

    fn source_has(
        &mut self,
        source: TreeObject,
        mut target: Option<Object>,
        disk: &impl TargetDisk,
    ) -> Option<PlanStep> {
        if !self.filter.takes(&source.key, &source.object) {
            return None;
        }
        self.objects += 1;
        let by = self.taken.as_mut().and_then(|taken| taken.taken_by(&source.key, disk)).map(str::to_owned);
        let same_file = || match disk.file_behind_links(&source.key)? {
            FileBehindLinks::OfTarget(file) => Some(file).filter(|file| !self.files.add(&**file)),
            FileBehindLinks::OfSource(key) => Some(key).filter(|key| *key != source.key),
        };
        if let Some(by) = by.or_else(same_file) {
            return Some(PlanStep::Do(Change::Refuse { source, by: Some(by) }));
        }
        let makes_links = self.target_links.is_some_and(|(links, _)| links == Links::Preserve);
        let link = source.key.strip_suffix(LINK_SUFFIX).filter(|_| makes_links);
        let name = link.unwrap_or(&source.key);
        if let Some(folded) = disk.folded(name) {
            if !self.folded.take(&*folded, target.is_some()) {
                return Some(PlanStep::Do(Change::Refuse { source, by: None }));
            }
            // The disk may list the file by another name.
            target = target.or_else(|| disk.file(name).filter(|_| link.is_none()));
        }
        let Some(target) = target else { return Some(PlanStep::Do(Change::Add(source))) };
        Some(match self.rules.compare(&source.object, &target) {
            Verdict::Same => PlanStep::Do(Change::None),
            Verdict::Different(how) => PlanStep::Do(Change::Replace(source, how)),
            Verdict::Unknown | Verdict::Fresh => PlanStep::Compare { source, target: target.into() },
        })
    }

    fn only_target_has(&self, object: TreeObject, disk: &impl TargetDisk) -> Option<PlanStep> {
        let plants = self.rules.options.plants;
        // The source may have it there too, behind what is no object.
        let is_unsure =
            self.no_objects.is_in_source(&object.key) && !plants.has(Planted::RemovalBelowLeftOut);
        if is_unsure || !self.filter.takes(&object.key, &object.object) {
            return None;
        }
        let follows = self.target_links.is_some_and(|(_, lists)| lists == LinkPolicy::Follow);
        Some(PlanStep::Do(match follows.then(|| disk.link_above(&object.key)).flatten() {
            Some(behind) => Change::Keep { object, behind },
            None => Change::Remove(object),
        }))
    }

    fn missed(&self, side: Side, error: Error) -> PlanStep {
        let is_local = match side {
            Side::Source => self.rules.sides.source_is_local(),
            Side::Target => self.rules.sides.target_is_local(),
        };
        // The listing of a store ends with its error; the walk of a directory continues.
        let ends = !is_local && matches!(error, Error::Store(_) | Error::Unsorted { .. });
        let failure = Failure::new(event::Step::List, Some(side), error);
        PlanStep::Do(if ends { Change::Stop(failure) } else { Change::Fail(failure) })
    }

    /// Whether an object of the source has the file of this name by another name: one that the disk takes for the same, or
    /// that a link leads from.
    pub(crate) fn has_file_of(&self, name: &str, disk: &impl TargetDisk) -> bool {
        disk.folded(name).is_some_and(|folded| self.folded.has(&*folded))
            || disk.file_behind_links(name).is_some_and(|file| match file {
                FileBehindLinks::OfTarget(file) => self.files.has(&*file),
                FileBehindLinks::OfSource(_) => true,
            })
    }

    /// An object of the source that needs a directory of this name, which another object has, and which stays.
    pub(crate) fn needs_directory(&self, name: &str) -> Option<&str> {
        self.taken.as_ref()?.needs_directory(name)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::compare::{CompareOptions, Sides};
    use crate::listing::Disorder;

    /// What a disk has, by name.
    #[derive(Debug, Default)]
    pub(crate) struct Names {
        pub(crate) directories: Vec<&'static str>,
        pub(crate) links: Vec<&'static str>,
        /// A link that is followed, and the directory that it leads to.
        pub(crate) leads: Option<(&'static str, &'static str)>,
        /// Whether small letters are capital ones.
        pub(crate) folds: bool,
        /// Files, by any of their names.
        pub(crate) files: Vec<&'static str>,
    }

    impl TargetDisk for Names {
        fn has_directory(&self, name: &str) -> bool {
            self.directories.contains(&name)
        }

        fn link_above(&self, key: &str) -> Option<PathBuf> {
            let is_above = |link: &&&str| key.strip_prefix(**link).is_some_and(|rest| rest.starts_with('/'));
            self.links.iter().find(is_above).map(PathBuf::from)
        }

        fn file_behind_links(&self, key: &str) -> Option<FileBehindLinks> {
            let (link, to) = self.leads?;
            let Some(below) = key.strip_prefix(link) else {
                return Some(FileBehindLinks::OfTarget(key.to_owned()));
            };
            Some(match to.strip_prefix("/source/") {
                Some(to) => FileBehindLinks::OfSource(format!("{to}{below}")),
                None => FileBehindLinks::OfTarget(format!("{to}{below}")),
            })
        }

        fn file(&self, name: &str) -> Option<Object> {
            self.files.contains(&name).then(|| at(name, 1, 20).object)
        }

        fn folded(&self, name: &str) -> Option<String> {
            self.folds.then(|| name.to_lowercase())
        }

        fn obstacle(&self, _: &str) -> Option<Obstacle> {
            None
        }
    }

    fn plan(sides: Sides, links: Links, lists: LinkPolicy, filter: ObjectFilter) -> TreePlan {
        let rules = CompareRules { options: CompareOptions::default(), sides };
        let no_objects = NoObjects::below(Some(Path::new("/s")), Some(Path::new("/t")), &filter);
        TreePlan::new(rules, filter, sides.target_is_local().then_some((links, lists)), no_objects)
    }

    fn at(key: &str, size: u64, second: u64) -> TreeObject {
        let mut object = Object::default();
        (object.size, object.modified) = (size, Some(UNIX_EPOCH + Duration::from_secs(second)));
        TreeObject { key: key.to_owned(), object }
    }

    fn both(source: TreeObject, target: TreeObject) -> Pair {
        Pair::Both { source, target: target.object }
    }

    /// The steps of all pairs, in words.
    fn steps(plan: &mut TreePlan, disk: &Names, pairs: Vec<Pair>) -> String {
        let word = |step: PlanStep| match step {
            PlanStep::Compare { source, .. } => format!("?{}", source.key),
            PlanStep::Do(change) => match change {
                Change::None => "=".to_owned(),
                Change::Add(object) => format!("+{}", object.key),
                Change::Replace(object, how) => format!("+{}:{}", object.key, how.finding().name()),
                Change::Refuse { source, by } => {
                    format!("!{}<{}", source.key, by.unwrap_or_default())
                }
                Change::Remove(object) => format!("-{}", object.key),
                Change::Keep { object, behind } => format!("~{}@{}", object.key, behind.display()),
                Change::LeaveOut(path, _) => format!("/{}", path.display()),
                Change::Fail(failure) => format!("failed {:?}", failure.side),
                Change::Stop(failure) => format!("stopped {:?}", failure.side),
            },
        };
        let words: Vec<_> = pairs.into_iter().filter_map(|pair| plan.next(pair, disk)).map(word).collect();
        words.join(" ")
    }

    #[test]
    fn each_pair_has_its_step() {
        let mut plan = plan(Sides::Stores, Links::Files, LinkPolicy::default(), ObjectFilter::default());
        let pairs = vec![
            both(at("a", 1, 10), at("a", 1, 20)),
            both(at("b", 1, 20), at("b", 1, 10)),
            both(at("c", 2, 10), at("c", 1, 20)),
            both(at("d", 1, 10), at("d", 1, 10)),
            Pair::SourceOnly(at("e", 1, 10)),
            Pair::TargetOnly(at("f", 1, 10)),
            Pair::Disorder(Disorder { key: "a".to_owned() }),
        ];
        let steps = steps(&mut plan, &Names::default(), pairs);
        assert_eq!(steps, "= +b:newer +c:size ?d +e -f stopped None");
        assert_eq!(plan.objects(), 5);
    }

    #[test]
    fn what_the_filter_leaves_out_is_neither_copied_nor_removed_nor_counted() {
        let filter = ObjectFilter::default().exclude("x").unwrap().max_size(5);
        let mut plan = plan(Sides::Disks, Links::Files, LinkPolicy::default(), filter);
        let left_out = |name: &str| Missed::LeftOut(format!("/s/{name}").into(), OtherKind::NotRegular);
        let pairs = vec![
            both(at("big", 9, 20), at("big", 1, 10)),
            both(at("shrunk", 1, 20), at("shrunk", 9, 10)),
            Pair::SourceOnly(at("x", 1, 10)),
            Pair::TargetOnly(at("x/y", 1, 10)),
            Pair::TargetOnly(at("z", 9, 10)),
            Pair::SourceMissed(left_out("x/pipe")),
            Pair::SourceMissed(left_out("pipe")),
        ];
        assert_eq!(steps(&mut plan, &Names::default(), pairs), "+shrunk:size //s/pipe");
        assert_eq!(plan.objects(), 1);
    }

    #[test]
    fn what_the_target_has_behind_no_object_of_the_source_or_behind_a_link_stays() {
        let mut plan = plan(Sides::Disks, Links::Follow, LinkPolicy::Follow, ObjectFilter::default());
        let disk = Names { links: vec!["link"], ..Names::default() };
        let missed = Missed::LeftOut("/s/d".into(), OtherKind::WayBack);
        let pairs = vec![
            Pair::SourceMissed(missed),
            Pair::TargetOnly(at("d", 1, 10)),
            Pair::TargetOnly(at("d/x", 1, 10)),
            Pair::TargetOnly(at("dd", 1, 10)),
            Pair::TargetOnly(at("link/x", 1, 10)),
        ];
        assert_eq!(steps(&mut plan, &disk, pairs), "//s/d -dd ~link/x@link");
    }

    #[test]
    fn two_objects_of_one_name_on_a_disk_become_one() {
        let mut plan = plan(Sides::ToDisk, Links::Files, LinkPolicy::default(), ObjectFilter::default());
        let pairs = ["a", "a/b", "d", "d/e"].map(|key| Pair::SourceOnly(at(key, 1, 10)));
        let disk = Names { directories: vec!["d"], ..Names::default() };
        assert_eq!(steps(&mut plan, &disk, pairs.into()), "+a !a/b<a +d +d/e");
        assert_eq!((plan.needs_directory("d"), plan.needs_directory("a")), (Some("d/e"), None));
    }

    #[test]
    fn two_names_that_the_disk_takes_for_one_are_one_object() {
        let new = |key: &str| Pair::SourceOnly(at(key, 1, 10));
        let there = |key: &str| both(at(key, 2, 20), at(key, 1, 10));
        let only_there = |key: &str| Pair::TargetOnly(at(key, 1, 20));
        for (links, folds, pairs, expected) in [
            (
                Links::Files,
                true,
                vec![there("IMG"), new("img"), new("img.rclonelink")],
                "+IMG:size !img< +img.rclonelink",
            ),
            (Links::Files, false, vec![there("IMG"), new("img")], "+IMG:size +img"),
            (Links::Files, true, vec![new("IMG"), there("img")], "+IMG !img<"),
            (Links::Files, true, vec![there("IMG"), there("img")], "+IMG:size +img:size"),
            (Links::Preserve, true, vec![new("IMG"), new("img.rclonelink")], "+IMG !img.rclonelink<"),
            // The disk lists the file of `NOTES` as `notes`.
            (Links::Files, true, vec![new("NOTES"), only_there("notes")], "= -notes"),
            (Links::Files, true, vec![Pair::SourceOnly(at("NOTES", 2, 10))], "+NOTES:size"),
            (Links::Files, false, vec![new("NOTES"), only_there("notes")], "+NOTES -notes"),
            (Links::Preserve, true, vec![new("NOTES.rclonelink")], "+NOTES.rclonelink"),
        ] {
            let mut plan = plan(Sides::ToDisk, links, LinkPolicy::default(), ObjectFilter::default());
            let files = vec!["NOTES", "notes"];
            let disk = Names { folds, files, ..Names::default() };
            assert_eq!(steps(&mut plan, &disk, pairs), expected);
            // An extra of such a name is not removed.
            assert_eq!(plan.has_file_of("img", &disk), folds && expected.contains("IMG"));
        }
    }

    #[test]
    fn only_a_store_s_listing_ends_with_a_failure() {
        let failed =
            || Missed::Failed(Error::Unsorted { tree: String::new(), error: std::io::Error::other("no") });
        for (sides, expected) in [
            (Sides::FromDisk, "failed Some(Source) stopped Some(Target)"),
            (Sides::ToDisk, "stopped Some(Source) failed Some(Target)"),
        ] {
            let mut plan = plan(sides, Links::Files, LinkPolicy::default(), ObjectFilter::default());
            let harmless = Missed::Failed(Error::Failed("a broken link".to_owned()));
            let pairs = vec![
                Pair::TargetMissed(harmless),
                Pair::SourceMissed(failed()),
                Pair::TargetMissed(failed()),
            ];
            assert_eq!(steps(&mut plan, &Names::default(), pairs), expected);
        }
    }

    #[test]
    fn two_names_of_one_file_of_the_target_are_one_object() {
        let mut plan = plan(Sides::ToDisk, Links::Follow, LinkPolicy::Follow, ObjectFilter::default());
        let disk = Names { leads: Some(("e/", "d/")), ..Names::default() };
        let pairs = ["a", "d/f", "e/f", "e/g"].map(|key| Pair::SourceOnly(at(key, 1, 1)));
        assert_eq!(steps(&mut plan, &disk, pairs.into()), "+a +d/f !e/f<d/f +e/g");
        // An extra that is the file of an object by a link is not removed.
        assert!(plan.has_file_of("d/g", &disk) && !plan.has_file_of("d/h", &disk));
    }

    #[test]
    fn no_object_of_the_source_is_replaced_through_a_link_of_the_target() {
        let mut plan = plan(Sides::Disks, Links::Follow, LinkPolicy::Follow, ObjectFilter::default());
        let disk = Names { leads: Some(("e/", "/source/d/")), ..Names::default() };
        let pairs = ["d/f", "e/f"].map(|key| Pair::SourceOnly(at(key, 1, 1)));
        assert_eq!(steps(&mut plan, &disk, pairs.into()), "+d/f !e/f<d/f");
        let disk = Names { leads: Some(("e/", "/source/e/")), ..Names::default() };
        assert_eq!(steps(&mut plan, &disk, vec![Pair::SourceOnly(at("e/g", 1, 1))]), "+e/g");
    }
}
