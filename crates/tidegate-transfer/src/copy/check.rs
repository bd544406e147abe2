//! Which combinations of sources, target and options a copy refuses.

use tidegate::Strategy;
use tidegate::location::Location;

use super::{AfterCopy, CopySources, CopyTrees, is_local, is_single, names_link, naming, sources};
use crate::error::{Error, Result};
use crate::links::Links;
use crate::select::Source;

impl CopyTrees {
    /// Refuses combinations of arguments that make no sense, before any request is sent.
    pub(super) fn check(&self) -> Result {
        let refused = |message: String| Err(Error::Refused(message));
        let target = &self.target;
        if self.after == AfterCopy::Remove && self.files.links == Links::Follow {
            return refused(
                "--links follow: files behind a link can't be moved: use `tidegate cp`".to_owned(),
            );
        }
        if self.strategy == Strategy::Journal && self.journals.is_empty() {
            return refused("--strategy journal: it needs a directory: add --journal DIR".to_owned());
        }
        let (named, is_listed) = match &self.sources {
            CopySources::Named(sources) => (&sources[..], false),
            CopySources::Listed(source, _) => (source.as_slice(), true),
            CopySources::Input(..) | CopySources::Command(_) | CopySources::File(..) => {
                return match self.after {
                    AfterCopy::Keep => Ok(()),
                    AfterCopy::Remove => {
                        refused("-: standard input can't be moved: use `tidegate cp`".to_owned())
                    }
                };
            }
        };
        let is_one = matches!(named, [source] if !is_listed && is_single(source, self.is_recursive));
        if self.expect_size.is_some() && !is_one {
            return refused(
                "--expect-size: it is the size of one file or pipe that is sent: leave it out".to_owned(),
            );
        }
        if is_listed && (self.is_recursive || named.iter().any(|source| source.pattern.is_some())) {
            return refused(
                "--files-from: it goes with at most one SRC, without -r and without a pattern".to_owned(),
            );
        }
        if is_listed && !self.filter.is_everything() {
            return refused("a filter does not go with --files-from, which names the objects".to_owned());
        }
        named.iter().try_for_each(|source| self.check_source(source, is_listed))?;
        if named.len() > 1 && !naming::is_container(target) {
            return refused(format!(
                "{target}: several sources need a directory or a prefix: end it with a slash"
            ));
        }
        if is_listed && named.is_empty() && !naming::is_container(target) {
            return refused(format!(
                "{target}: a list of objects needs a directory or a prefix: end it with a slash"
            ));
        }
        Ok(())
    }

    fn check_source(&self, source: &Source, is_listed: bool) -> Result {
        let refused = |message: String| Err(Error::Refused(message));
        let from = source.text();
        if let Location::Local { path } = &source.location {
            sources::refuse_journals(path, &self.journals)?;
        }
        if !self.journals.is_empty() && !is_local(&source.location) {
            return refused(
                "--journal: it is for files and standard input, an object is in a store already".to_owned(),
            );
        }
        if self.expect_size.is_some() && !is_local(&source.location) {
            return refused(
                "--expect-size: it is the size of one file or pipe that is sent: leave it out".to_owned(),
            );
        }
        let needs_recursion = source.pattern.is_none()
            && naming::is_container(&source.location)
            && !names_link(&source.location, self.files.links);
        if needs_recursion && !self.is_recursive && !is_listed {
            let verb = if self.after == AfterCopy::Remove { "move" } else { "copy" };
            return refused(format!("{from}: this is a directory: add -r to {verb} all that is below it"));
        }
        Ok(())
    }
}
