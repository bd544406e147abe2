//! The cases: the faults, the result that the writer must return, and the requests that it may make.

use std::fmt;

use tidegate::ErrorKind;
use tidegate_dev::{FaultAction, FaultRule};

// The paths are explicit because the program that prints the table includes this file from another directory.
#[path = "cases/google.rs"]
mod google;
#[path = "cases/parts.rs"]
mod parts;
#[path = "cases/put.rs"]
mod put;

pub(crate) const PART: u64 = 5 << 20;

/// How the object is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Put,
    Parts,
    /// A PUT, or below, parts, on Google Cloud Storage.
    GooglePut,
    GoogleParts,
    /// Chunks of a resumable upload to Google Cloud Storage.
    GoogleChunks,
    /// `GooglePut`, or below, `GoogleChunks`, over gRPC.
    GrpcPut,
    GrpcChunks,
}

impl Way {
    pub(crate) fn is_google(self) -> bool {
        !matches!(self, Self::Put | Self::Parts)
    }

    pub(crate) fn is_grpc(self) -> bool {
        matches!(self, Self::GrpcPut | Self::GrpcChunks)
    }

    /// True if the last chunk publishes the object.
    pub(crate) fn is_chunks(self) -> bool {
        matches!(self, Self::GoogleChunks | Self::GrpcChunks)
    }
}

/// The writer's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Committed,
    NotCommitted(ErrorKind),
    Uncertain,
}

/// The object under the key in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    Ours,
    Another,
    Nothing,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) way: Way,
    pub(crate) create_only: bool,
    pub(crate) what: &'static str,
    pub(crate) faults: Vec<FaultRule>,
    pub(crate) attempts: u32,
    /// Some request is given up because its response never arrives.
    pub(crate) hangs: bool,
    pub(crate) says: Says,
    pub(crate) requests: &'static str,
    pub(crate) there: There,
    /// How many sessions stay because the store rejects their abort.
    pub(crate) sessions: usize,
}

impl Case {
    pub(crate) fn size(&self) -> u64 {
        match self.way {
            Way::Put | Way::GooglePut | Way::GrpcPut => 1000,
            Way::Parts | Way::GoogleParts | Way::GoogleChunks | Way::GrpcChunks => PART + 1,
        }
    }

    fn new(way: Way, what: &'static str, faults: Vec<FaultRule>) -> Self {
        let (says, requests, there) = (Says::Committed, "", There::Ours);
        Self {
            way,
            create_only: false,
            what,
            faults,
            attempts: 3,
            hangs: false,
            says,
            requests,
            there,
            sessions: 0,
        }
    }

    fn create_only(mut self) -> Self {
        self.create_only = true;
        self
    }

    fn hangs(mut self) -> Self {
        (self.hangs, self.attempts) = (true, 2);
        self
    }

    fn committed(mut self, requests: &'static str) -> Self {
        (self.says, self.requests) = (Says::Committed, requests);
        self
    }

    fn committed_and_replaced(mut self, requests: &'static str) -> Self {
        (self.says, self.requests, self.there) = (Says::Committed, requests, There::Another);
        self
    }

    fn not_committed(mut self, kind: ErrorKind, requests: &'static str, there: There) -> Self {
        (self.says, self.requests, self.there) = (Says::NotCommitted(kind), requests, there);
        self
    }

    fn uncertain(mut self, requests: &'static str, there: There) -> Self {
        (self.says, self.requests, self.there) = (Says::Uncertain, requests, there);
        self
    }
}

/// Fault rules for the request that publishes the object.
#[derive(Clone, Copy)]
struct Publishing(&'static str);

impl Publishing {
    fn does(self, action: FaultAction) -> FaultRule {
        FaultRule::new(self.0, action)
    }

    fn cut(self) -> FaultRule {
        self.does(FaultAction::ResetRequest { after_bytes: 0 })
    }

    fn loses(self) -> FaultRule {
        self.does(FaultAction::LoseAnswer)
    }

    fn hangs(self) -> FaultRule {
        self.does(FaultAction::DelayMs(3_600_000.0))
    }

    fn denies(self, status: u16, code: &str) -> FaultRule {
        self.does(FaultAction::DenySuccess { status, code: code.into() })
    }
}

fn question(action: FaultAction) -> FaultRule {
    FaultRule::new("HeadObject", action)
}

fn unreachable() -> FaultRule {
    question(FaultAction::ResetRequest { after_bytes: 0 })
}

pub(crate) fn all() -> Vec<Case> {
    let mut all = parts::all();
    all.extend(put::all());
    all.extend(google::all());
    all
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.way, self.what)?;
        if self.create_only { write!(f, ", create-only") } else { Ok(()) }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put => "one PUT",
            Self::Parts => "parts",
            Self::GooglePut => "gs, one request",
            Self::GoogleParts => "gs, parts",
            Self::GoogleChunks => "gs, chunks",
            Self::GrpcPut => "gs over gRPC, one request",
            Self::GrpcChunks => "gs over gRPC, chunks",
        })
    }
}

impl fmt::Display for Says {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed => f.write_str("committed"),
            Self::NotCommitted(kind) => write!(f, "not committed ({kind:?})"),
            Self::Uncertain => f.write_str("`Uncertain`"),
        }
    }
}

impl fmt::Display for There {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "this object",
            Self::Another => "another's",
            Self::Nothing => "nothing",
        })
    }
}
