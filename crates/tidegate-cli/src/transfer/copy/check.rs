//! Which combinations of sources, target and options `cp` and `mv` refuse.

use tidegate::location::Location;

use super::{CopyArguments, CopyEnd, CopyEnds, CopyMethod, CopySource, is_local};
use crate::exit::{CommandFailure, Outcome};
use crate::file_options::LinkChoice;
use crate::transfer::job::AfterCopy;
use crate::transfer::{naming, sources};

impl CopyArguments {
    /// Refuses combinations of arguments that make no sense, before any request is sent.
    pub(super) fn check(&self, ends: &CopyEnds, method: &CopyMethod) -> Outcome {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        let is_single = self.is_single(ends);
        if let Some(option) = self.filter.given()
            && (is_single || self.names.is_given())
        {
            let remedy =
                if self.recursive { "leave it out for a single file" } else { "add -r, or use a pattern" };
            return usage(format!("{option}: it chooses among many objects: {remedy}"));
        }
        if method.after == AfterCopy::Remove && self.files.links == LinkChoice::Follow {
            return usage("--links follow: files behind a link can't be moved: use `tidegate cp`".to_owned());
        }
        let has_pattern = || {
            let places = ends.sources.iter().filter_map(CopySource::place);
            places.into_iter().any(|source| source.pattern.is_some())
        };
        if self.names.is_given() && (ends.sources.len() > 1 || self.recursive || has_pattern()) {
            return usage(
                "--files-from: it goes with at most one SRC, without -r and without a pattern".to_owned(),
            );
        }
        if method.expect_size.is_some() && !is_single {
            return usage(
                "--expect-size: it is the size of one file or pipe that is sent: leave it out".to_owned(),
            );
        }
        for source in &ends.sources {
            self.check_source(ends, source, method)?;
        }
        if self.names.is_given() && ends.target.is_standard_output() {
            return usage("-: standard output takes one object: use `tidegate cat` for several".to_owned());
        }
        let Some(target) = ends.target.place() else {
            let is_one = is_single
                || matches!(&ends.sources[..], [CopySource::Place(source)] if source.pattern.is_none());
            return match () {
                () if method.after == AfterCopy::Remove => {
                    usage("-: an object can't be moved to standard output: use `tidegate cp`".to_owned())
                }
                () if self.recursive => usage("-: standard output takes one object: leave out -r".to_owned()),
                () if !is_one => {
                    usage("-: standard output takes one object: use `tidegate cat` for several".to_owned())
                }
                () => Ok(()),
            };
        };
        let to = self.paths.last().map(|path| path.to_string_lossy()).unwrap_or_default();
        if to.contains('*') && !self.pattern.is_literal() && !is_local(target) {
            return usage(format!(
                "{to}: a target can't be a pattern: add --literal if `*` is part of the key"
            ));
        }
        if ends.sources.len() > 1 && !naming::is_container(target) {
            return usage(format!(
                "{target}: several sources need a directory or a prefix: end it with a slash"
            ));
        }
        if self.names.is_given() && ends.sources.is_empty() && !naming::is_container(target) {
            return usage(format!(
                "{target}: a list of objects needs a directory or a prefix: end it with a slash"
            ));
        }
        Ok(())
    }

    fn check_source(&self, ends: &CopyEnds, source: &CopySource, method: &CopyMethod) -> Outcome {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        let source = match (source, &ends.target) {
            (CopySource::Place(source), _) => source,
            (CopySource::Standard, _) if method.after == AfterCopy::Remove => {
                return usage("-: standard input can't be moved: use `tidegate cp`".to_owned());
            }
            (CopySource::Standard, CopyEnd::Standard) => {
                return usage("-: standard input to standard output needs no tidegate".to_owned());
            }
            (CopySource::Standard, _) if self.recursive => {
                return usage("-: standard input is no directory: leave out -r".to_owned());
            }
            (CopySource::Standard, _) if ends.sources.len() > 1 || self.names.is_given() => {
                return usage("-: standard input can't be one of several sources".to_owned());
            }
            (CopySource::Standard, CopyEnd::Place(place)) if naming::is_container(place) => {
                let to = self.paths.last().map(|path| path.to_string_lossy()).unwrap_or_default();
                return usage(format!(
                    "{to}: this is a directory, and standard input has no name to keep in it: add one"
                ));
            }
            (CopySource::Standard, _) => return Ok(()),
        };
        let from = source.text();
        if let Location::Local { path } = &source.location {
            sources::refuse_journals(path, &method.journals)?;
        }
        if !method.journals.is_empty() && !is_local(&source.location) {
            return usage(
                "--journal: it is for files and standard input, an object is in a store already".to_owned(),
            );
        }
        if method.expect_size.is_some() && !is_local(&source.location) {
            return usage(
                "--expect-size: it is the size of one file or pipe that is sent: leave it out".to_owned(),
            );
        }
        let needs_recursion = source.pattern.is_none() && naming::is_container(&source.location);
        if needs_recursion && !self.recursive && !self.names.is_given() {
            let verb = if method.after == AfterCopy::Remove { "move" } else { "copy" };
            return usage(format!("{from}: this is a directory: add -r to {verb} all that is below it"));
        }
        Ok(())
    }
}
