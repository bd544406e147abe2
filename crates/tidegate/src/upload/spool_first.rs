//! Parts that are kept in the spool until `finish`.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::fill::Taken;
use super::part_buffer::PartBuffer;
use crate::memory::relief::Relief;
use crate::memory::spool::{Spool, SpoolError};

/// A whole part: its number, its range and its bytes.
type Part = (u32, Range<u64>, Taken);

/// The parts of an upload that sends nothing before `finish`.
pub(super) struct SpoolFirst {
    open: bool,
    parts: VecDeque<Part>,
    /// Writes to the spool, each in a task: a producer that does not come back must not hold memory, or hold
    /// up others, in the middle of a write.
    spooling: JoinSet<Result<Option<Part>, SpoolError>>,
    runtime: Handle,
}

impl std::fmt::Debug for SpoolFirst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpoolFirst").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

impl SpoolFirst {
    /// Bytes in memory are written to the spool once there are this many.
    const CHUNK: u64 = 1 << 20;

    /// For a writer that was started on `runtime`.
    pub(super) fn new(runtime: Handle) -> Self {
        Self { open: false, parts: VecDeque::new(), spooling: JoinSet::new(), runtime }
    }

    /// Notes that a session must be opened.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// Keeps a part that other parts follow.
    pub(super) fn part(&mut self, part: Part, part_buffer: &Arc<PartBuffer>, relief: &Arc<Relief>) {
        match relief.spool().filter(|_| part.2.in_memory()) {
            Some(spool) => {
                let (is_spooling, spool) =
                    (part_buffer.spooling(), spool_part(part, part_buffer.clone(), spool.clone()));
                let spool = async move {
                    let _is_spooling = is_spooling;
                    spool.await
                };
                self.spooling.spawn_on(spool, &self.runtime);
            }
            None => self.parts.push_back(part),
        }
    }

    /// Keeps the last part, which is sent before the others, because some of it is in memory.
    pub(super) fn last(&mut self, part: Part) {
        self.parts.push_front(part);
    }

    /// Keeps the last part of a session that may be appended to, where it is sent after the others.
    pub(super) fn behind(&mut self, part: Part) {
        self.parts.push_back(part);
    }

    /// Whether a session must be opened; true only once.
    pub(super) fn take_open(&mut self) -> bool {
        std::mem::take(&mut self.open)
    }

    /// The next part to be sent.
    pub(super) fn next(&mut self) -> Option<Part> {
        self.parts.pop_front()
    }

    /// Waits until all earlier parts are in the spool, and less than a chunk of the part that is being filled
    /// is in memory.
    pub(super) fn poll_spooled(
        &mut self,
        cx: &mut Context<'_>,
        part_buffer: &Arc<PartBuffer>,
        relief: &Arc<Relief>,
    ) -> Poll<Result<(), SpoolError>> {
        let Some(spool) = relief.spool() else { return Poll::Ready(Ok(())) };
        loop {
            if let Some(joined) = ready!(self.spooling.poll_join_next(cx)) {
                let ended = |ended| SpoolError::failed("all of them".to_owned(), io::Error::other(ended));
                self.parts.extend(joined.map_err(ended)??);
            } else if part_buffer.lock().fill.in_memory() >= Self::CHUNK {
                let (part_buffer, spool) = (part_buffer.clone(), spool.clone());
                let is_spooling = part_buffer.spooling();
                let spill = async move {
                    let _is_spooling = is_spooling;
                    loop {
                        let room = Room::from_here_on(&spool);
                        match part_buffer.spill_to(&spool).await {
                            Ok(_) => return Ok(None),
                            Err(error) => room.comes(error).await?,
                        }
                    }
                };
                self.spooling.spawn_on(spill, &self.runtime);
            } else {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

async fn spool_part(
    part: Part,
    part_buffer: Arc<PartBuffer>,
    spool: Spool,
) -> Result<Option<Part>, SpoolError> {
    let (number, range, mut taken) = part;
    // A spill of this part that has begun goes to the same place, so it must end first.
    part_buffer.spilled().await;
    loop {
        let room = Room::from_here_on(&spool);
        match taken.spool(&spool).await {
            Ok(taken) => return Ok(Some((number, range, taken))),
            Err((kept, error)) => {
                room.comes(error).await?;
                taken = kept;
            }
        }
    }
}

/// Watches for room in the spool that comes during an attempt to write there, or after it.
struct Room<'a> {
    spool: &'a Spool,
    /// Whether parts were being sent from the spool when the attempt began.
    draining: bool,
    freed: Notified<'a>,
}

impl<'a> Room<'a> {
    /// Longest wait for room, in case the room is made outside of this spool.
    const LONGEST: Duration = Duration::from_secs(1);
    /// The wait where nothing leaves the spool: a writer that is being finished sends nothing between two
    /// parts until it is polled.
    const MOMENT: Duration = Duration::from_millis(100);

    fn from_here_on(spool: &'a Spool) -> Self {
        Self { spool, draining: spool.draining() > 0, freed: spool.freed().notified() }
    }

    /// After a failed attempt: waits until blocks may have come back. Fails where no block can come back:
    /// nothing is leaving the spool, and nothing was when the attempt began.
    async fn comes(self, error: SpoolError) -> Result<(), SpoolError> {
        if matches!(error, SpoolError::Failed { .. }) {
            return Err(error);
        }
        let draining = self.draining || self.spool.draining() > 0;
        let freed = timeout(if draining { Self::LONGEST } else { Self::MOMENT }, self.freed).await.is_ok();
        if draining || freed || self.spool.draining() > 0 { Ok(()) } else { Err(error) }
    }
}
