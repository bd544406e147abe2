//! The records of pending uploads, from whose names alone every machine's sweep knows what to leave alone.
//!
//! A record is an object `.tidegate/pending/UNTIL-MARK-TOKEN`. The listing of these keys says until when each pending
//! upload lives and which session is its own, so that a sweep reads no record. Its content is what the session does
//! not have: nothing, the last bytes of a session that is appended to, or all bytes where a store has no sessions.

use std::collections::HashMap;
use std::time::SystemTime;

use futures::TryStreamExt;

use super::Context;
use crate::backend::Entry;
use crate::engine::listing;
use crate::engine::request::Failure;
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::date::since_1970;

/// The beginning of the keys of records. Keys below `.tidegate/` belong to no tree (`tidegate-transfer`'s `select`).
const PENDING: &str = ".tidegate/pending/";

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

    fn has_expired(&self) -> bool {
        self.until() <= SystemTime::now()
    }
}

/// Stands for a session's id, which may be a secret.
fn mark(session: &str) -> u64 {
    Checksum::of(Algorithm::Crc64Nvme, session.as_bytes()).value()
}

/// The pending uploads of a bucket.
#[derive(Debug, Default)]
pub(crate) struct PendingUploads {
    /// When each ends, by the marks of their sessions.
    until: HashMap<u64, SystemTime>,
    /// The keys of records of uploads whose lifetime is over.
    pub(crate) expired: Vec<String>,
}

impl PendingUploads {
    /// Until when the session with this id is pending, if it is.
    pub(crate) fn until(&self, session: &str) -> Option<SystemTime> {
        self.until.get(&mark(session)).copied()
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
        let requests = root.list_requests(PENDING);
        let mut records = listing::entries(&requests, &**root.backend(), PENDING, true, None);
        while let Some(entry) = records.try_next().await? {
            let Some(name) = RecordName::of_key(entry.key()) else { continue };
            let Entry::Object(object) = entry else { continue };
            if name.has_expired() {
                found.expired.push(object.key);
            } else {
                let until = found.until.entry(name.mark).or_insert(SystemTime::UNIX_EPOCH);
                *until = name.until().max(*until);
            }
        }
        Ok(found)
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
}
