//! A transfer in progress: its events, and the record of it when it is done.

use std::fmt;
use std::time::Instant;

use tidegate::progress::Snapshot;
use tidegate::{Object, Progress, Strategy};

use super::{CopiedObject, Event, Events, Transfer};

impl Events {
    /// Begins a transfer. Its figures are in `progress`; the requests of `counted` are counted.
    pub(crate) fn start(&self, transfer: StartedTransfer<'_>) -> TransferInProgress {
        let StartedTransfer { key, progress, counted, sends, journaled, bytes } = transfer;
        let id = {
            let mut waiting = self.waiting();
            waiting.transfers += 1;
            waiting.transfers
        };
        let transfer =
            Transfer { id, key: key.to_owned(), progress: progress.clone(), sends, journaled, bytes };
        self.push(Event::Started(transfer));
        TransferInProgress { events: self.clone(), id, began: Instant::now(), counted }
    }
}

/// What is known of a transfer when it begins.
pub(crate) struct StartedTransfer<'a> {
    pub(crate) key: &'a str,
    pub(crate) progress: &'a Progress,
    pub(crate) counted: Vec<Progress>,
    pub(crate) sends: bool,
    pub(crate) journaled: bool,
    pub(crate) bytes: Option<u64>,
}

/// A transfer in progress, until it is dropped.
pub(crate) struct TransferInProgress {
    events: Events,
    id: u64,
    began: Instant,
    counted: Vec<Progress>,
}

impl fmt::Debug for TransferInProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferInProgress").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TransferInProgress {
    /// The record of the completed transfer. `object` is the target store's description, or else the source store's.
    pub(crate) fn done(
        self,
        source: String,
        target: String,
        bytes: u64,
        object: &Object,
    ) -> Box<CopiedObject> {
        Box::new(CopiedObject {
            target,
            bytes,
            peak_buffered_bytes: self.events.tide.usage().peak,
            ..CopiedObject::read(source, &self.counted, self.began, object)
        })
    }
}

impl Drop for TransferInProgress {
    fn drop(&mut self) {
        self.events.push(Event::Ended(self.id));
    }
}

impl CopiedObject {
    /// An object that was read since `began`, with the figures of these requests.
    #[must_use]
    pub fn read(source: String, requests: &[Progress], began: Instant, object: &Object) -> Self {
        let sum =
            |figure: fn(&Snapshot) -> u64| requests.iter().map(|progress| figure(&progress.snapshot())).sum();
        Self {
            source,
            target: String::new(),
            bytes: object.size,
            seconds: began.elapsed().as_secs_f64(),
            strategy: None,
            parts: sum(|snapshot| snapshot.parts),
            requests: sum(|snapshot| snapshot.requests),
            retries: sum(|snapshot| snapshot.retries),
            hedges: sum(|snapshot| snapshot.hedges),
            checksum: checksum(object),
            peak_buffered_bytes: 0,
            verified: false,
        }
    }

    pub(crate) fn by(mut self: Box<Self>, strategy: Strategy) -> Box<Self> {
        self.strategy = Some(strategy.name());
        self
    }

    /// Marks a copy that the store made itself.
    pub(crate) fn by_store(mut self: Box<Self>) -> Box<Self> {
        self.strategy = Some("copy");
        self
    }
}

/// The checksum of the whole object, as the store reported it.
fn checksum(object: &Object) -> Option<String> {
    let named = |name: &str, sum: &Option<String>| sum.as_ref().map(|sum| format!("{name}:{sum}"));
    named("crc64nvme", &object.crc64nvme).or_else(|| named("crc32c", &object.crc32c))
}
