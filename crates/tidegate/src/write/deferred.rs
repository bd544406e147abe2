//! What is kept in the spool until `finish`.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::timeout;

use super::fill::Taken;
use super::held::Held;
use super::relief::Relief;
use super::spooling::Spooling;
use crate::spool::SpoolError;

/// A part that is whole.
type Part = (u32, Range<u64>, Taken);

/// The parts of an upload that sends nothing before `finish`.
#[derive(Default)]
pub(super) struct Deferred {
    open: bool,
    parts: Vec<Part>,
    /// Parts that are not in the spool yet: at most one, with what is written of it at this moment.
    unspooled: Vec<Part>,
    spooling: Option<BoxFuture<'static, Result<Option<Part>, SpoolError>>>,
}

impl std::fmt::Debug for Deferred {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deferred").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

impl Deferred {
    /// With this many bytes in memory they are written.
    const CHUNK: u64 = 1 << 20;

    /// A session is to be opened.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    pub(super) fn part(&mut self, number: u32, range: Range<u64>, taken: Taken) {
        self.unspooled.push((number, range, taken));
    }

    /// Whether a session is to be opened, and the parts to be sent.
    pub(super) fn into_parts(mut self) -> (bool, Vec<Part>) {
        self.parts.append(&mut self.unspooled);
        (self.open, self.parts)
    }

    /// Waits until at most a chunk of the part that is being filled is in memory, and nothing of those
    /// before it.
    pub(super) fn poll_spooled(
        &mut self,
        cx: &mut Context<'_>,
        held: &Arc<Held>,
        relief: &Arc<Relief>,
    ) -> Poll<Result<(), SpoolError>> {
        let Some(spooling) = relief.spooling() else { return Poll::Ready(Ok(())) };
        loop {
            if let Some(writing) = &mut self.spooling {
                let written = ready!(writing.as_mut().poll(cx));
                self.spooling = None;
                self.parts.extend(written?);
            } else if let Some(part) = self.unspooled.pop() {
                if part.2.in_memory() {
                    self.spooling = Some(Box::pin(spool_part(part, spooling.clone())));
                } else {
                    self.parts.push(part);
                }
            } else if held.lock().fill.in_memory() >= Self::CHUNK {
                let (held, spooling) = (held.clone(), spooling.clone());
                self.spooling = Some(Box::pin(async move {
                    while let Err(error) = held.spill_to(spooling.spool()).await {
                        wait_for_room(error, &spooling).await?;
                    }
                    Ok(None)
                }));
            } else {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

async fn spool_part(part: Part, spooling: Arc<Spooling>) -> Result<Option<Part>, SpoolError> {
    let (number, range, mut taken) = part;
    loop {
        match taken.spool(spooling.spool()).await {
            Ok(taken) => return Ok(Some((number, range, taken))),
            Err((kept, error)) => {
                wait_for_room(error, &spooling).await?;
                taken = kept;
            }
        }
    }
}

/// Waits until blocks may have come back; fails where none can, because nothing is leaving the spool.
async fn wait_for_room(error: SpoolError, spooling: &Spooling) -> Result<(), SpoolError> {
    /// In case the room that is made is not of this spool's making.
    const LONGEST: Duration = Duration::from_secs(1);
    if matches!(error, SpoolError::Failed { .. }) || spooling.draining() == 0 {
        return Err(error);
    }
    let _ = timeout(LONGEST, spooling.spool().freed().notified()).await;
    Ok(())
}
