//! The description of an upload in its journal's header, with which another process can resume the upload.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::ser::Error as _;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, WriteOptions};
use crate::engine::records;
use crate::journal::{Header, Recovered};
use crate::types::checksum::{Algorithm, Checksum};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Attributes;
use crate::upload::plan::{Cut, Schedule};

/// The `options` of a journal's header.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Intent {
    /// Where the bucket is, as the backend names it.
    endpoint: String,
    /// How the object is cut: a part must be the same bytes in every process.
    schedule: Schedule,
    /// Whether the object goes to a session that is appended to.
    #[serde(default)]
    appends: bool,
    create_only: bool,
    token: Option<String>,
    #[serde(default)]
    attributes: Attributes,
}

impl Intent {
    /// The header of a new upload.
    pub(super) fn header(
        backend: &dyn Backend,
        key: &str,
        options: &WriteOptions,
        cut: Cut,
    ) -> Result<Header, serde_json::Error> {
        let schedule = cut.schedule().ok_or_else(|| serde_json::Error::custom("it is not cut into parts"))?;
        let intent = Self {
            endpoint: endpoint(backend).to_owned(),
            schedule,
            appends: cut.appends(),
            create_only: options.create_only,
            token: options.token.clone(),
            attributes: options.attributes.clone(),
        };
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Header {
            upload: format!("{}{:08x}", ids(backend, key), fastrand::u32(..)),
            url: records::root(backend),
            key: key.to_owned(),
            checksum: backend.capabilities().checksum.empty(),
            created: created.as_secs(),
            options: serde_json::to_value(intent)?,
        })
    }

    /// Reads the header of a left upload, if the upload is one of this store.
    pub(super) fn of(header: &Header, backend: &Arc<dyn Backend>) -> Result<Self> {
        let object = format!("{}/{}", header.url, header.key);
        let refused = |kind, message: String| Error::new(kind, Operation::Write, &*object, message);
        let intent: Self = serde_json::from_value(header.options.clone()).map_err(|error| {
            let message = format!("its journal does not say how it is to be written: {error}");
            refused(ErrorKind::Unsupported, message)
        })?;
        if !intent.schedule.is_sound() {
            let message = "its journal says that it is cut into parts as no store takes them".to_owned();
            return Err(refused(ErrorKind::Integrity, message));
        }
        let (root, endpoint) = (records::root(&**backend), endpoint(&**backend));
        if header.url != root || intent.endpoint != endpoint {
            let message = format!(
                "the unfinished upload in the journal was begun in {} at {}, and this is {root} at {endpoint} (use that endpoint, \
                 or give the upload up: `tidegate journal abort --forget`)",
                header.url, intent.endpoint
            );
            return Err(refused(ErrorKind::InvalidInput, message));
        }
        let (taken, takes) = (header.checksum.algorithm(), backend.capabilities().checksum);
        if taken != takes {
            let message = format!(
                "the unfinished upload in the journal was begun with the checksum {}, and this store is used with {} (choose the \
                 first)",
                taken.name(),
                takes.name()
            );
            return Err(refused(ErrorKind::InvalidInput, message));
        }
        Ok(intent)
    }

    /// Refuses parts that do not match the schedule, and chunks that the store does not take.
    pub(super) fn check_parts(&self, recovered: &Recovered, backend: &Arc<dyn Backend>) -> Result<()> {
        let (state, length) = (&recovered.state, recovered.checksum.covers());
        let grain = backend.capabilities().append.unwrap_or(1).max(1);
        let is_grained = !self.appends || self.schedule.part_at(0).is_multiple_of(grain);
        let (mut number, mut start) = (1, 0u64);
        let is_cut_so = state.parts.values().all(|part| {
            // Parts before this one may not be there yet.
            while number < part.number && start < length {
                start = start.saturating_add(self.schedule.part_at(start));
                number += 1;
            }
            let is_last = state.finish.is_some() && part.offset.checked_add(part.size) == Some(length);
            let size = self.schedule.part_at(start);
            part.number == number
                && part.offset == start
                && (part.size == size || (is_last && part.size < size))
        });
        if is_grained && is_cut_so {
            return Ok(());
        }
        let object = format!("{}/{}", state.header.url, state.header.key);
        let message = "its journal has parts that are cut otherwise than it says (upload the object again)";
        Err(Error::new(ErrorKind::Integrity, Operation::Write, object, message))
    }

    /// Takes in that the session is one that is appended to: its server has no parts, though they were asked for.
    pub(super) fn goes_to_appended(&mut self, backend: &Arc<dyn Backend>) {
        self.appends |= backend.appending().is_some();
    }

    /// How the object is cut.
    pub(super) fn cut(&self) -> Cut {
        if self.appends { Cut::Chunks(self.schedule) } else { Cut::Parts(self.schedule) }
    }

    pub(super) fn into_options(self) -> WriteOptions {
        let Self { attributes, create_only, token, .. } = self;
        WriteOptions { attributes, create_only, replaces: None, token, preserve: false }
    }
}

/// The beginning of the ids of all uploads of a key: they are found by it, also those whose journal another
/// process has.
pub(crate) fn ids(backend: &dyn Backend, key: &str) -> String {
    let place = Checksum::of(Algorithm::Crc64Nvme, records::place(backend, key).as_bytes());
    format!("{:016x}-", place.value())
}

/// Where the bucket is. The embedded server of `dev://` listens elsewhere each time, but counts as the same
/// place.
fn endpoint(backend: &dyn Backend) -> &str {
    if backend.location().starts_with("dev://") { "dev://" } else { backend.endpoint() }
}
