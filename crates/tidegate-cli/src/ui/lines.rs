//! The lines that commands print on standard output for what they copy, remove or skip, and when these are printed.
//!
//! Each line has two forms: text for people, and with `--json` one JSON object, whose `type` comes first. The file
//! `docs/json-lines.schema.json` describes every type. A field whose value is not known is left out.

use std::ops::Not;

use serde::{Serialize, Serializer};
use tidegate_transfer::{CopiedObject, SkipReason};

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::output::{self, TextOutput};
use crate::text;

/// A line of standard output. Its serialized form is the JSON object.
pub(crate) trait OutputLine: Serialize {
    /// The line for people.
    fn text(&self) -> String;
}

/// An object that was copied, or in a dry run would be.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "copy")]
pub(crate) struct CopyLine<'a> {
    pub(crate) source: &'a str,
    pub(crate) target: &'a str,
    /// How many bytes the object has; `None` if a store does not say so beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Whether nothing was done.
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) dry_run: bool,
    /// How the transfer went; `None` in a dry run.
    #[serde(flatten)]
    pub(crate) figures: Option<CopyFigures<'a>>,
}

/// How the transfer of one object went.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CopyFigures<'a> {
    pub(crate) seconds: f64,
    /// How the object was sent; `None` for a download.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) strategy: Option<&'static str>,
    pub(crate) parts: u64,
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    pub(crate) hedges: u64,
    /// The checksum of the object, as its store reports it: the algorithm, a colon, and the value in Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<&'a str>,
    /// The most bytes that the whole process has held in buffers so far.
    pub(crate) peak_buffered_bytes: u64,
    /// Whether the object was read back and compared.
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) verified: bool,
}

impl<'a> CopyLine<'a> {
    /// A copy that was made.
    pub(crate) fn done(copied: &'a CopiedObject) -> Self {
        let figures = CopyFigures {
            seconds: copied.seconds,
            strategy: copied.strategy,
            parts: copied.parts,
            requests: copied.requests,
            retries: copied.retries,
            hedges: copied.hedges,
            checksum: copied.checksum.as_deref(),
            peak_buffered_bytes: copied.peak_buffered_bytes,
            verified: copied.verified,
        };
        let (source, target, bytes) = (&copied.source, &copied.target, Some(copied.bytes));
        Self { source, target, bytes, dry_run: false, figures: Some(figures) }
    }

    /// A copy that a dry run announces.
    pub(crate) fn planned(source: &'a str, target: &'a str, bytes: Option<u64>) -> Self {
        Self { source, target, bytes, dry_run: true, figures: None }
    }
}

impl OutputLine for CopyLine<'_> {
    fn text(&self) -> String {
        let Self { source, target, bytes, .. } = self;
        let size = bytes.map_or_else(String::new, |bytes| format!(" ({})", text::size(bytes)));
        format!("copy {source} -> {target}{size}")
    }
}

/// An object or bucket that was removed, or in a dry run would be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename = "remove")]
pub(crate) struct RemoveLine<'a> {
    pub(crate) url: &'a str,
    /// Whether nothing was done.
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) dry_run: bool,
}

impl OutputLine for RemoveLine<'_> {
    fn text(&self) -> String {
        format!("remove {}", self.url)
    }
}

/// An object that was not copied, and need not be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename = "skip")]
pub(crate) struct SkipLine<'a> {
    pub(crate) source: &'a str,
    pub(crate) target: &'a str,
    #[serde(serialize_with = "reason")]
    pub(crate) reason: SkipReason,
    /// Whether this is a dry run.
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) dry_run: bool,
}

/// The word for a reason, and what it is in a sentence.
fn words(reason: SkipReason) -> (&'static str, &'static str) {
    match reason {
        SkipReason::Exists => ("exists", "the target exists"),
        _ => ("other", "it need not be copied"),
    }
}

fn reason<S: Serializer>(reason: &SkipReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(words(*reason).0)
}

impl OutputLine for SkipLine<'_> {
    fn text(&self) -> String {
        let Self { source, target, reason, .. } = self;
        let why = words(*reason).1;
        format!("skip {source} -> {target} ({why})")
    }
}

/// Where a command prints a line for each object that it copies, removes or skips. It is one place for all the objects
/// of a command.
#[derive(Debug)]
pub(crate) struct ObjectLines(Option<TextOutput>);

impl ObjectLines {
    /// Prints the lines with `--json` and with `-v`, otherwise nothing.
    pub(crate) fn of(invocation: &Invocation) -> Outcome<Self> {
        let is_wanted = invocation.is_json() || invocation.is_verbose();
        if is_wanted { Self::of_dry_run(invocation) } else { Ok(Self::none()) }
    }

    /// Prints the lines always: they are the result of a dry run.
    pub(crate) fn of_dry_run(invocation: &Invocation) -> Outcome<Self> {
        Ok(Self(Some(output::text(invocation.format())?)))
    }

    /// Prints nothing: standard output takes the object itself.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Prints one line, soon.
    pub(crate) async fn print(&mut self, line: &impl OutputLine) -> Outcome {
        let Some(out) = &mut self.0 else { return Ok(()) };
        out.print(line)?;
        out.flow_soon().await
    }

    /// Waits until all lines are written.
    pub(crate) async fn finish(self) -> Outcome {
        match self.0 {
            Some(out) => out.finish().await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
