//! Decides what a request to a resumable session does, from its `Content-Range` and the session's persisted
//! bytes: the rules of `cloud.google.com/storage/docs/performing-resumable-uploads`, without any I/O.

use super::refusal::GcsRefusal;
use crate::catalog::session::GRAIN;

/// A request's `Content-Range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentRange {
    /// No header: the body is the whole object.
    Whole,
    /// `bytes */*` and `bytes */total`: asks for the session's status.
    Query { total: Option<u64> },
    /// `bytes first-last/*` and `bytes first-last/total`.
    Chunk { first: u64, last: u64, total: Option<u64> },
    /// `bytes first-*/*`: all bytes from `first` to the end of the body.
    Rest { first: u64, total: Option<u64> },
}

impl ContentRange {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, GcsRefusal> {
        let Some(text) = text else {
            return Ok(Self::Whole);
        };
        let range = Self::read(text);
        range.ok_or_else(|| GcsRefusal::invalid(format!("Failed to parse Content-Range header: {text:?}")))
    }

    fn read(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
        let total = match total {
            "*" => None,
            number => Some(number.parse().ok()?),
        };
        let Some((first, last)) = range.split_once('-') else {
            return (range == "*").then_some(Self::Query { total });
        };
        let first: u64 = first.parse().ok()?;
        if last == "*" {
            return Some(Self::Rest { first, total });
        }
        let last: u64 = last.parse().ok()?;
        let is_ordered = first <= last && total.is_none_or(|total| last < total);
        is_ordered.then_some(Self::Chunk { first, last, total })
    }
}

/// The action for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionAction {
    /// Report the persisted bytes.
    Tell,
    /// Append the body.
    Take(AppendBody),
}

/// How to append a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendBody {
    /// This many of the body's first bytes are persisted already; they are dropped without comparison.
    pub(crate) skip: u64,
    /// The length that the body must have, if known.
    pub(crate) length: Option<u64>,
    /// The object's length, if the request states it.
    pub(crate) total: Option<u64>,
    /// The body's end finishes the object.
    pub(crate) is_last: bool,
}

/// Decides on a request to an unfinished session with `persisted` bytes. `length` is the body's length, if the
/// request states it.
pub(crate) fn plan(
    range: ContentRange,
    length: Option<u64>,
    persisted: u64,
) -> Result<SessionAction, GcsRefusal> {
    let (first, total) = match range {
        ContentRange::Query { total } => {
            if length.is_some_and(|length| length > 0) {
                return Err(GcsRefusal::invalid("A query for the status of an upload has no body."));
            }
            return match total {
                // All bytes are persisted, and the total says that they are complete.
                Some(total) if total == persisted => Ok(SessionAction::Take(AppendBody {
                    skip: 0,
                    length: Some(0),
                    total: Some(total),
                    is_last: true,
                })),
                Some(total) if total < persisted => Err(too_much(total, persisted)),
                _ => Ok(SessionAction::Tell),
            };
        }
        ContentRange::Whole => (0, length),
        ContentRange::Chunk { first, total, .. } | ContentRange::Rest { first, total } => (first, total),
    };
    if first > persisted {
        return Err(GcsRefusal::gap(first, persisted));
    }
    if let Some(total) = total.filter(|total| *total < persisted) {
        return Err(too_much(total, persisted));
    }
    let skip = persisted - first;
    let ContentRange::Chunk { last, .. } = range else {
        // A known total also gives the body's length.
        let length = total.map(|total| total.saturating_sub(first)).or(length);
        return Ok(SessionAction::Take(AppendBody { skip, length, total, is_last: true }));
    };
    let chunk = last - first + 1;
    if length.is_some_and(|length| length != chunk) {
        return Err(GcsRefusal::invalid(format!(
            "The Content-Range is of {chunk} bytes, and the request has {}.",
            length.unwrap_or_default()
        )));
    }
    let is_last = total == Some(last + 1);
    if !is_last && chunk < GRAIN {
        return Err(GcsRefusal::invalid(format!(
            "Invalid request.  The number of bytes uploaded is required to be equal or greater than {GRAIN}, except for the final request (it's recommended to be the exact multiple of {GRAIN}).  The received request contained {chunk} bytes, which does not meet this requirement."
        )));
    }
    Ok(SessionAction::Take(AppendBody { skip, length: Some(chunk), total, is_last }))
}

fn too_much(total: u64, persisted: u64) -> GcsRefusal {
    GcsRefusal::invalid(format!(
        "The object is to have {total} byte(s), and {persisted} are uploaded already."
    ))
}

#[cfg(test)]
mod tests;
