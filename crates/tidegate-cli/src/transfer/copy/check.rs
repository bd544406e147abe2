//! Which combinations of standard input and output, sources and options `cp` and `mv` refuse. The library refuses the
//! other combinations that make no sense.

use tidegate_transfer::{AfterCopy, naming};

use super::{CopyArguments, CopyEnd, CopyEnds, CopyMethod, CopySource, is_local};
use crate::exit::{CommandFailure, Outcome};

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
        if self.names.is_given() && ends.sources.len() > 1 {
            return usage(
                "--files-from: it goes with at most one SRC, without -r and without a pattern".to_owned(),
            );
        }
        for source in &ends.sources {
            self.check_source(ends, source, method)?;
        }
        let output = match &ends.target {
            CopyEnd::Command(_) => "--to-command: a command",
            CopyEnd::Standard | CopyEnd::Place(_) => "-: standard output",
        };
        let is_stream = ends.target.place().is_none() || ends.target.is_standard_output();
        if self.names.is_given() && is_stream {
            return usage(format!("{output} takes one object: use `tidegate cat` for several"));
        }
        let Some(target) = ends.target.place() else {
            let is_one = is_single
                || matches!(&ends.sources[..], [CopySource::Place(source)] if source.pattern.is_none());
            return match () {
                () if method.after == AfterCopy::Remove => {
                    usage("-: an object can't be moved to standard output: use `tidegate cp`".to_owned())
                }
                () if self.recursive => usage(format!("{output} takes one object: leave out -r")),
                () if !is_one => usage(format!("{output} takes one object: use `tidegate cat` for several")),
                () => Ok(()),
            };
        };
        let to = self.paths.last().map(|path| path.to_string_lossy()).unwrap_or_default();
        if to.contains('*') && !self.pattern.is_literal() && !is_local(target) {
            return usage(format!(
                "{to}: a target can't be a pattern: add --literal if `*` is part of the key"
            ));
        }
        Ok(())
    }

    fn check_source(&self, ends: &CopyEnds, source: &CopySource, method: &CopyMethod) -> Outcome {
        let usage = |message: String| Err(CommandFailure::Usage(message));
        let input = match source {
            CopySource::Command(_) => "--from-command: a command",
            CopySource::Standard | CopySource::Place(_) => "-: standard input",
        };
        match (source, &ends.target) {
            (CopySource::Place(source), CopyEnd::Standard | CopyEnd::Command(_))
                if naming::is_container(&source.location) =>
            {
                usage(format!("{}: this is a directory: add -r to copy all that is below it", source.text()))
            }
            (CopySource::Place(_), _) => Ok(()),
            (_, _) if method.after == AfterCopy::Remove => {
                usage("-: standard input can't be moved: use `tidegate cp`".to_owned())
            }
            (CopySource::Standard, CopyEnd::Standard) => {
                usage("-: standard input to standard output needs no tidegate".to_owned())
            }
            (_, _) if self.recursive => usage(format!("{input} is no directory: leave out -r")),
            (_, _) if ends.sources.len() > 1 || self.names.is_given() => {
                usage(format!("{input} can't be one of several sources"))
            }
            (_, CopyEnd::Place(place)) if naming::is_container(place) => {
                let to = self.paths.last().map(|path| path.to_string_lossy()).unwrap_or_default();
                usage(format!("{to}: this is a directory, and the input has no name to keep in it: add one"))
            }
            (_, _) => Ok(()),
        }
    }
}
