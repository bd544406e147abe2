//! The records of pending uploads and of persisted points, from whose names alone every machine's sweep knows what to
//! leave alone.
//!
//! A record is an object `.tidegate/pending/UNTIL-MARK-TOKEN`. The listing of these keys says until when each upload
//! lives and which session is its own, so that a sweep reads no record. The content of a pending upload's record is what
//! the session does not have: nothing, the last bytes of a session that is appended to, or all bytes where a store has
//! no sessions. The record of persisted points is empty.
//!
//! The bytes of a point that no session has, its *tail*, are an object `.tidegate/tails/TOKEN-NUMBER`. A tail belongs to
//! nobody once no record has its token.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use futures::TryStreamExt;

use super::Context;
use crate::backend::{Backend, Entry};
use crate::engine::listing;
use crate::engine::request::{Failure, Requests};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::date::since_1970;

/// The beginning of the keys of records. Keys below `.tidegate/` belong to no tree (`tidegate-transfer`'s `select`).
const PENDING: &str = ".tidegate/pending/";

/// The beginning of the keys of tails.
const TAILS: &str = ".tidegate/tails/";

/// The key of a tail of the upload with this writer token.
pub(crate) fn tail_key(token: &str, number: &str) -> String {
    format!("{TAILS}{token}-{number}")
}

/// The writer token in the key of a tail; `None` if it is no tail's.
fn token_of_tail(key: &str) -> Option<&str> {
    key.strip_prefix(TAILS)?.rsplit_once('-').map(|(token, _)| token)
}

/// What the name of a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordName {
    /// When the pending upload ends, in seconds since 1970.
    pub(crate) until: u64,
    mark: u64,
    token: String,
}

impl RecordName {
    /// The name of the record of an upload with this writer token. `session` is its session's id; empty without one.
    pub(crate) fn new(until: u64, session: &str, token: &str) -> Self {
        Self { until, mark: mark(session), token: token.to_owned() }
    }

    /// Reads the key of a record; `None` if it is no record's.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        let mut words = key.strip_prefix(PENDING)?.splitn(3, '-');
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (until, mark) = (number()?, number()?);
        let token = words.next().filter(|token| !token.is_empty())?.to_owned();
        Some(Self { until, mark, token })
    }

    pub(crate) fn key(&self) -> String {
        format!("{PENDING}{:010x}-{:016x}-{}", self.until, self.mark, self.token)
    }

    pub(crate) fn until(&self) -> SystemTime {
        since_1970(self.until)
    }

    /// Whether it is the record of the upload with this session and this writer token.
    pub(crate) fn is_of(&self, session: &str, token: &str) -> bool {
        self.mark == mark(session) && self.token == token
    }

    fn has_expired(&self) -> bool {
        self.until() <= SystemTime::now()
    }
}

/// Lists the records of a bucket, with their keys.
pub(crate) async fn list_records(
    requests: &Arc<Requests>,
    backend: &dyn Backend,
) -> Result<Vec<(RecordName, String)>, Failure> {
    let keys = list_keys(requests, backend, PENDING).await?;
    Ok(keys.into_iter().filter_map(|key| Some((RecordName::of_key(&key)?, key))).collect())
}

/// Lists the keys of the tails of one upload.
pub(crate) async fn list_tails(
    requests: &Arc<Requests>,
    backend: &dyn Backend,
    token: &str,
) -> Result<Vec<String>, Failure> {
    list_keys(requests, backend, &tail_key(token, "")).await
}

async fn list_keys(
    requests: &Arc<Requests>,
    backend: &dyn Backend,
    prefix: &str,
) -> Result<Vec<String>, Failure> {
    let mut listed = listing::entries(requests, backend, prefix, true, None);
    let mut keys = Vec::new();
    while let Some(entry) = listed.try_next().await? {
        if let Entry::Object(object) = entry {
            keys.push(object.key);
        }
    }
    Ok(keys)
}

/// Stands for a session's id, which may be a secret.
fn mark(session: &str) -> u64 {
    Checksum::of(Algorithm::Crc64Nvme, session.as_bytes()).value()
}

/// The uploads of a bucket that sweeps leave alone: those that are pending, and those that a point names.
#[derive(Debug, Default)]
pub(crate) struct PendingUploads {
    /// When each ends, by the marks of their sessions.
    until: HashMap<u64, SystemTime>,
    /// Their writer tokens.
    tokens: HashSet<String>,
    /// The keys of the records that may be removed: the lifetimes of their uploads are over.
    pub(crate) expired: Vec<String>,
}

impl PendingUploads {
    /// Until when the session with this id is pending, if it is.
    pub(crate) fn until(&self, session: &str) -> Option<SystemTime> {
        self.until.get(&mark(session)).copied()
    }

    /// How many are to live beyond `time`.
    pub(crate) fn beyond(&self, time: SystemTime) -> u64 {
        self.until.values().filter(|until| **until > time).count() as u64
    }

    /// Whether a tail belongs to an upload that lives. The tails must have been listed before the records: a record is
    /// written before the tail.
    pub(crate) fn needs_tail(&self, key: &str) -> bool {
        token_of_tail(key).is_none_or(|token| self.tokens.contains(token))
    }
}

impl Context {
    /// Lists the pending uploads of the bucket. A disk has no records: the session's file itself says until when it is kept.
    pub(crate) async fn pending_uploads(&self) -> Result<PendingUploads, Failure> {
        let mut found = PendingUploads::default();
        if self.backend().is_local() {
            return Ok(found);
        }
        let root = self.root();
        for (name, key) in list_records(&root.list_requests(PENDING), &**root.backend()).await? {
            if name.has_expired() {
                found.expired.push(key);
            } else {
                let until = found.until.entry(name.mark).or_insert(SystemTime::UNIX_EPOCH);
                *until = name.until().max(*until);
                found.tokens.insert(name.token);
            }
        }
        Ok(found)
    }

    /// Lists the tails of all uploads of the bucket. A disk has none.
    pub(crate) async fn tails(&self) -> Result<Vec<String>, Failure> {
        if self.backend().is_local() {
            return Ok(Vec::new());
        }
        let root = self.root();
        list_keys(&root.list_requests(TAILS), &**root.backend(), TAILS).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_time_and_session_and_read_back() {
        let name = RecordName::new(1_800_000_000, "https://host/?upload_id=secret", "0123-token");
        let key = name.key();
        assert!(!key.contains("secret") && key.starts_with(".tidegate/pending/"), "{key}");
        assert_eq!(RecordName::of_key(&key), Some(name));
        for other in [
            "",
            "a",
            ".tidegate/pending/",
            ".tidegate/pending/1-2",
            ".tidegate/pending/1-2-",
            ".tidegate/pending/x-2-t",
        ] {
            assert_eq!(RecordName::of_key(other), None, "{other}");
        }
    }

    #[test]
    fn a_tail_is_needed_as_long_as_a_record_has_its_token() {
        let mut found = PendingUploads::default();
        found.tokens.insert("01-a".to_owned());
        for (key, is_needed) in [
            (tail_key("01-a", "7"), true),
            (tail_key("01", "7"), false),
            (tail_key("02", "7"), false),
            // Of another program, or of a later version.
            (format!("{TAILS}other"), true),
            ("other".to_owned(), true),
        ] {
            assert_eq!(found.needs_tail(&key), is_needed, "{key}");
        }
    }
}
