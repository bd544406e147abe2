//! `tidegate sessions`: lists and aborts unfinished uploads at a store.

use serde::Serialize;
use tidegate::sweep::{Process, Unfinished};

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::text;

mod abort;
mod ls;

/// List and abort uploads that were begun and neither finished nor aborted.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SessionsCommand {
    Ls(ls::SessionsLs),
    Abort(abort::SessionsAbort),
}

impl SessionsCommand {
    pub(crate) async fn run(self, invocation: &Invocation) -> Outcome {
        match self {
            Self::Ls(args) => args.run(invocation).await,
            Self::Abort(args) => args.run(invocation).await,
        }
    }
}

/// An unfinished upload in `--json`.
#[derive(Serialize)]
pub(super) struct DescribedSession<'a> {
    url: String,
    id: &'a str,
    started: Option<String>,
    age_seconds: Option<u64>,
    bytes: Option<u64>,
    parts: Option<u64>,
    initiator: Option<&'a str>,
    /// `live`, `gone` or `gave-up`, from the records on this machine.
    process: Option<&'static str>,
    pid: Option<u32>,
}

impl<'a> DescribedSession<'a> {
    pub(super) fn of(root: &str, found: &'a Unfinished) -> Self {
        let (process, pid) = match found.process {
            Process::Live(pid) => (Some("live"), pid),
            Process::Gone(pid) => (Some("gone"), Some(pid)),
            Process::GaveUp(pid) => (Some("gave-up"), Some(pid)),
            _ => (None, None),
        };
        Self {
            url: format!("{root}/{}", found.open.session.key),
            id: &found.open.session.id,
            started: found.open.started.map(text::time),
            age_seconds: found.age().map(|age| age.as_secs()),
            bytes: found.held.as_ref().map(|held| held.bytes),
            parts: found.held.as_ref().and_then(|held| held.parts),
            initiator: found.initiator(),
            process,
            pid,
        }
    }

    /// The line for people: age, size, id, key and, if known, the process. A dash for what is unknown.
    pub(super) fn line(&self) -> String {
        let dash = || "-".to_owned();
        let age = self.age_seconds.map_or_else(dash, text::age);
        let size = self.bytes.map_or_else(dash, text::size);
        let pid = self.pid.map_or_else(String::new, |pid| format!(" {pid}"));
        let whose = match self.process {
            Some("live") => format!("  (live process{pid})"),
            Some("gone") => format!("  (of process{pid}, which is gone)"),
            Some(_) => format!("  (given up by process{pid})"),
            None => String::new(),
        };
        format!("{age:>8}  {size:>12}  {}  {}{whose}", self.id, self.url)
    }
}
