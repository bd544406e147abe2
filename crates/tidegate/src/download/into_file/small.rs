//! Downloads a small object: receives it into memory, then creates, writes and names its file in one go.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures::poll;
use tokio::time::Instant;

use super::attributes::GivenAttributes;
use super::{arriving, at_file, whole};
use crate::backend::Fault;
use crate::backend::local::{self, Arrival, Batch, Destination, Publish};
use crate::download::source::{AcceptedAnswer, ObjectSource, OpenObject, Sink};
use crate::engine::request::Inflow;
use crate::types::checksum::{Algorithm, Hasher};
use crate::types::error::{Error, ErrorKind, Operation, Result};
use crate::types::object::Object;
use crate::types::progress::Waiting;

/// The largest object that counts as small: the size of one write.
pub(super) const MOST: u64 = arriving::GATHER;

/// The smallest buffer of an answer: hyper begins with 8 KiB and doubles it.
const BUFFER: u64 = 16 << 10;

/// The result of a download that was said to be small.
pub(super) enum SmallDownload {
    InFile(Object),
    /// The object is larger than was said; its request is open.
    IsLarge(OpenObject),
}

/// A download of an object that is said to be small. It holds memory and permits, so it must run in a task of its
/// own.
pub(super) struct Small {
    pub(super) source: Arc<ObjectSource>,
    pub(super) destination: Destination,
    pub(super) how: Publish,
    pub(super) gives: GivenAttributes,
    pub(super) algorithm: Algorithm,
    pub(super) began: Instant,
    pub(super) batch: Arc<Batch>,
    /// Whether the caller still waits for the file.
    pub(super) waiting: Arc<local::WaitedWork>,
}

impl Small {
    pub(super) async fn run(self) -> Result<SmallDownload> {
        let Self { source, destination, how, gives, algorithm, began, batch, waiting: somebody_waits } = self;
        let mut coming = batch.coming();
        let body = whole(&source).await?;
        if body.object.size > MOST {
            return Ok(SmallDownload::IsLarge(body));
        }
        let OpenObject { object, pieces, .. } = body;
        let budget = &source.budget;
        let waiting = source.requests.progress.waiting(Waiting::Memory);
        let mut lease = pin!(budget.lease((2 * object.size).max(BUFFER).min(budget.total())));
        let memory = match poll!(lease.as_mut()) {
            Poll::Ready(memory) => memory,
            Poll::Pending => {
                // This one waits for memory that others hold: the others must not wait for this one.
                drop(coming);
                let memory = lease.await;
                coming = batch.coming();
                memory
            }
        };
        drop(waiting);
        let memory = memory.map_err(|starved| {
            Error::new(ErrorKind::Starved, Operation::Get, source.url(), starved.to_string())
        })?;
        let state = Mutex::new((Vec::with_capacity(object.size as usize), Hasher::new(algorithm)));
        let into = InMemory { inflow: Inflow::new(object.size), state };
        let received =
            source.receive(0..object.size, &object, &into, Some(pieces), AcceptedAnswer::RangeOrWhole);
        received.await.map_err(|failure| source.failed(failure, into.inflow.got()))?;
        let (bytes, hasher) = into.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        source.check(&object, &hasher.finish(), began)?;
        let path = destination.path.clone();
        let object = gives.described(&source, object).await?;
        let how = gives.publish(how, &object);
        let published =
            Arrival::of_bytes(coming, destination, bytes.into(), memory, how, somebody_waits).await;
        published.map_err(|fault| at_file(fault, &path, began))?;
        source.requests.progress.acknowledged(object.size);
        Ok(SmallDownload::InFile(object))
    }
}

/// Received bytes, copied into one buffer of the right size: the connection's own buffers may be larger.
struct InMemory {
    inflow: Inflow,
    state: Mutex<(Vec<u8>, Hasher)>,
}

impl Sink for InMemory {
    fn inflow(&self) -> &Inflow {
        &self.inflow
    }

    async fn take(&self, at: u64, piece: bytes::Bytes) -> Result<(), Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, hasher) = &mut *state;
        let got = self.inflow.got();
        let end = at + piece.len() as u64;
        if end > got {
            let piece = &piece[(got - at) as usize..];
            hasher.update(piece);
            bytes.extend_from_slice(piece);
        }
        self.inflow.reaches(end);
        Ok(())
    }
}
