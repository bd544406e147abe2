//! A small object: all of it is received into memory before there is a file.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::backend::{Body, Fault};
use crate::budget::Lease;
use crate::checksum::{Algorithm, Checksum, Hasher};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::progress::Waiting;
use crate::read::source::{Sink, Source};
use crate::request::Inflow;

/// As much as is gathered for one write.
pub(super) const MOST: u64 = 256 << 10;

/// The least that the buffer of an answer takes: hyper begins with 8 KiB, and doubles it.
const BUFFER: u64 = 16 << 10;

/// The bytes of a whole object.
#[derive(Debug)]
pub(super) struct Small {
    pub(super) pieces: Vec<Bytes>,
    pub(super) checksum: Checksum,
    /// What they are counted in.
    _memory: Lease,
}

impl Small {
    /// Receives the object whose answer `body` is.
    pub(super) async fn receive(source: &Source, body: Body, algorithm: Algorithm) -> Result<Self> {
        let Body { object, stream, .. } = body;
        let budget = &source.budget;
        let waiting = source.requests.progress.waiting(Waiting::Memory);
        let lease = budget.lease((2 * object.size).max(BUFFER).min(budget.total())).await;
        drop(waiting);
        let memory = lease.map_err(|starved| {
            Error::new(ErrorKind::Starved, Operation::Get, source.url(), starved.to_string())
        })?;
        let state = Mutex::new((Vec::new(), Hasher::new(algorithm)));
        let into = InMemory { inflow: Inflow::new(object.size), state };
        let received = source.receive(0..object.size, &object, &into, Some(stream)).await;
        received.map_err(|failure| source.failed(failure, into.inflow.got()))?;
        let (pieces, hasher) = into.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Self { pieces, checksum: hasher.finish(), _memory: memory })
    }
}

struct InMemory {
    inflow: Inflow,
    state: Mutex<(Vec<Bytes>, Hasher)>,
}

impl Sink for InMemory {
    fn inflow(&self) -> &Inflow {
        &self.inflow
    }

    async fn take(&self, at: u64, piece: Bytes) -> Result<(), Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (pieces, hasher) = &mut *state;
        let got = self.inflow.got();
        let end = at + piece.len() as u64;
        if end > got {
            let piece = piece.slice((got - at) as usize..);
            hasher.update(&piece);
            pieces.push(piece);
        }
        self.inflow.reaches(end);
        Ok(())
    }
}
