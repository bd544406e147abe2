//! Compares two trees and copies nothing.

use std::future::IntoFuture;

use futures::StreamExt;
use futures::future::BoxFuture;

use crate::compare::{CompareOptions, Comparison, Tree, Trees};
use crate::error::Result;
use crate::event::{Event, Events, Finding, Report};
use crate::links::FileOptions;
use crate::plan::Change;
use crate::run::Run;
use crate::select::ObjectFilter;

/// Compares everything below two trees. Configure it, then [`start`](Self::start) it for its events, or await it for its
/// report: [`Event::Differs`] names each key that differs, and [`Report::different`] says how many do.
///
/// # Errors
/// As [`Run`]. Differences are no errors.
#[derive(Debug)]
#[must_use = "a check does nothing unless it is started or awaited"]
pub struct CheckTrees {
    source: Tree,
    target: Tree,
    options: CompareOptions,
    filter: ObjectFilter,
}

impl CheckTrees {
    /// Compares `target` with `source`.
    pub fn new(source: Tree, target: Tree) -> Self {
        let (options, filter) = (CompareOptions::default(), ObjectFilter::default());
        Self { source, target, options, filter }
    }

    /// How objects are compared. Default: by size and time.
    pub fn compare(mut self, by: Comparison) -> Self {
        self.options.by = by;
        self
    }

    /// What counts of files, and what becomes of links.
    pub fn files(mut self, files: FileOptions) -> Self {
        self.options.files = files;
        self
    }

    /// Compares some of the objects only.
    pub fn filter(self, filter: ObjectFilter) -> Self {
        Self { filter, ..self }
    }

    /// The operation as a stream of events. Nothing is done before the first event is asked for.
    pub fn start(self) -> Run {
        let events = Events::new(self.target.store.tide());
        Run::new(events.clone(), self.work(events))
    }

    async fn work(self, events: Events) -> Result {
        let trees = Trees::new(self.source, self.target, self.options, self.filter)?;
        let mut changes = std::pin::pin!(trees.changes());
        let mut failed = None;
        while let Some(change) = changes.next().await {
            let (key, difference) = match change {
                Change::None => {
                    events.count(|report| {
                        (report.compared, report.unchanged) = (report.compared + 1, report.unchanged + 1)
                    });
                    continue;
                }
                Change::Add(object) | Change::Refuse { source: object, .. } => (object.key, Finding::Missing),
                Change::Replace(object, how) => (object.key, how.finding()),
                Change::Remove(object) | Change::Keep { object, .. } => (object.key, Finding::Extra),
                Change::LeaveOut(path, kind) => {
                    trees.leave_out(&events, &path, kind);
                    continue;
                }
                // Of several failures, the last is the error of the operation.
                Change::Fail(failure) | Change::Stop(failure) => {
                    if let Some(before) = failed.replace(failure) {
                        events.push(Event::Failed(before));
                    }
                    continue;
                }
            };
            events.count(|report| report.compared += 1);
            let source = (difference != Finding::Extra).then(|| trees.source.place(&key).url());
            let target = (difference != Finding::Missing).then(|| trees.target.place(&key).url());
            events.push(Event::Differs { key, difference, source, target });
            events.flow().await;
        }
        trees.skipped_line().into_iter().for_each(|line| events.say(line));
        trees.left_out_lines().for_each(|line| events.say(line));
        trees.plan().no_objects_of_target().into_iter().for_each(|line| events.warn(line));
        trees.incomparable_line().into_iter().for_each(|line| events.warn(line));
        if let Some(failure) = failed {
            return Err(failure.error);
        }
        trees.refuse_nothing()
    }
}

impl IntoFuture for CheckTrees {
    type Output = Result<Report>;
    type IntoFuture = BoxFuture<'static, Result<Report>>;

    fn into_future(self) -> Self::IntoFuture {
        IntoFuture::into_future(self.start())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::event::{Side, Step};

    #[tokio::test]
    async fn a_name_that_can_t_be_listed_is_told_with_its_side() {
        let tide = tidegate::Tidegate::builder().build().unwrap();
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["a", "b"] {
            symlink("nowhere", source.path().join(name)).unwrap();
        }
        let trees = [source.path(), target.path()].map(|path| Tree::directory(&tide, path));
        let [source, target] = trees;
        let mut run = CheckTrees::new(source, target).start();
        let mut failures = Vec::new();
        while let Some(event) = run.next().await {
            if let Event::Failed(failure) = event {
                failures.push((failure.step, failure.side));
            }
        }
        // The last failure is the error of the operation.
        assert_eq!(failures, [(Step::List, Some(Side::Source))]);
        assert!(run.result().is_err());
    }
}
