//! `tidegate sessions`: lists and aborts unfinished uploads at a store.

use std::borrow::Cow;
use std::ops::Not;

use serde::Serialize;
use tidegate::sweep::{Process, Unfinished};

use crate::exit::Outcome;
use crate::invocation::Invocation;
use crate::text;

mod abort;
mod ls;

/// List and abort uploads at a store that were begun and neither finished nor aborted
///
///     tidegate sessions ls s3://BUCKET/
///     tidegate sessions abort s3://BUCKET/KEY
///
/// `tidegate sweep` aborts the old ones of a whole bucket.
#[derive(Debug, clap::Subcommand)]
#[command(verbatim_doc_comment)]
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

/// An unfinished upload that a command was to end, as a JSON object.
#[derive(Serialize)]
pub(super) struct SessionFate<'a> {
    #[serde(flatten)]
    pub(super) described: DescribedSession<'a>,
    /// `ended`, `would_end`, `live`, `young`, `ageless`, `journaled`, `pending`, `gone` or `failed`.
    pub(super) fate: &'static str,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) dry_run: bool,
}

/// What a command did about unfinished uploads, as a JSON object: its last line.
#[derive(Default, Serialize)]
#[serde(tag = "type", rename = "sessions")]
pub(super) struct SessionTotals {
    pub(super) ended: u64,
    pub(super) would_end: u64,
    pub(super) bytes: u64,
    pub(super) live: u64,
    pub(super) young: u64,
    pub(super) ageless: u64,
    pub(super) journaled: u64,
    pub(super) pending: u64,
    pub(super) failed: u64,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) dry_run: bool,
}

/// An unfinished upload as a JSON object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "session")]
pub(super) struct DescribedSession<'a> {
    url: String,
    /// The store's own, or a name in place of an address that is a secret.
    id: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initiator: Option<&'a str>,
    /// `live`, `gone` or `gave_up`, from the records on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Until when it waits for a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending_until: Option<String>,
}

impl<'a> DescribedSession<'a> {
    pub(super) fn of(root: &str, found: &'a Unfinished) -> Self {
        let (process, pid) = match found.process {
            Process::Live(pid) => (Some("live"), pid),
            Process::Gone(pid) => (Some("gone"), Some(pid)),
            Process::GaveUp(pid) => (Some("gave_up"), Some(pid)),
            _ => (None, None),
        };
        Self {
            url: format!("{root}/{}", found.open.session.key),
            id: found.open.session.public_id(),
            started: found.open.started.map(text::time),
            age_seconds: found.age().map(|age| age.as_secs()),
            bytes: found.held.as_ref().map(|held| held.bytes),
            parts: found.held.as_ref().and_then(|held| held.parts),
            initiator: found.initiator(),
            process,
            pid,
            pending_until: found.open.kept_until.map(text::time),
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
        let pending = match &self.pending_until {
            Some(until) => format!("  (pending until {until})"),
            None => String::new(),
        };
        format!("{age:>8}  {size:>12}  {}  {}{whose}{pending}", self.id, self.url)
    }
}
