//! Gives bytes to a writer, piece by piece, through each of the writer's faces.

use std::ops::Range;
use std::time::Duration;

use futures::SinkExt;
use tidegate::Writer;
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

use super::{Actor, WriterFailure};
use crate::scenario::{Face, ProducerPlan};

/// After this many cancelled writes a producer cancels no more.
const CANCELLED: u32 = 20;

impl Actor {
    /// Gives `writer` the content from `given` up to `stop`; returns the offset reached.
    pub(super) async fn produce(
        &mut self,
        writer: &mut Writer,
        producer: &ProducerPlan,
        mut given: usize,
        stop: u64,
    ) -> Result<usize, WriterFailure> {
        let stop = usize::try_from(stop).unwrap_or(usize::MAX).min(self.content.len());
        while given < stop {
            given = self.produce_one(writer, producer, given, stop).await?;
        }
        Ok(given)
    }

    /// Gives one piece, sometimes after a pause.
    pub(super) async fn produce_one(
        &mut self,
        writer: &mut Writer,
        producer: &ProducerPlan,
        given: usize,
        stop: usize,
    ) -> Result<usize, WriterFailure> {
        let (least, most) = producer.piece;
        if producer.pause.1 > 0 && self.random.f64() < producer.pause.0 {
            self.set("pausing");
            sleep(Duration::from_millis(self.random.u64(1..=producer.pause.1))).await;
        }
        self.set("writing");
        let piece = self.random.usize(least..=most.max(least)).min(stop - given);
        let faces = [Face::Bytes, Face::AsyncWrite, Face::Sink, Face::ReadFrom];
        let face = producer.face.or_else(|| self.random.choice(faces)).unwrap_or(Face::Bytes);
        let patience = match producer.impatience.filter(|_| self.cancelled < CANCELLED) {
            Some(patience) => Duration::from_millis(patience),
            None => Duration::MAX,
        };
        let before = given;
        let given = self.give(writer, face, given..given + piece, patience).await?;
        self.cancelled += u32::from(given < before + piece && patience != Duration::MAX);
        Ok(given)
    }

    /// Before a producer stops, it may give one more piece, and may cancel that write.
    pub(super) async fn last_word(
        &mut self,
        writer: &mut Writer,
        producer: &ProducerPlan,
        given: usize,
    ) -> Result<usize, WriterFailure> {
        if self.random.bool() || given == self.content.len() {
            return Ok(given);
        }
        let piece = self.random.usize(1..=producer.piece.1.max(1)).min(self.content.len() - given);
        let face = producer.face.unwrap_or(Face::Bytes);
        let patience = Duration::from_millis(self.random.u64(0..=50));
        self.give(writer, face, given..given + piece, patience).await
    }

    /// Gives one piece; returns the offset reached.
    async fn give(
        &mut self,
        writer: &mut Writer,
        face: Face,
        piece: Range<usize>,
        patience: Duration,
    ) -> Result<usize, WriterFailure> {
        let began = self.trace.now();
        let (progress, trace) = (writer.progress(), self.trace.clone());
        let (mut accepted, mut moved) = (progress.snapshot().accepted, self.moved);
        let given = {
            let mut offer = std::pin::pin!(self.offer(writer, face, piece, patience));
            // The writer may accept one piece in several steps: the last step counts.
            std::future::poll_fn(|cx| {
                let polled = offer.as_mut().poll(cx);
                let now = progress.snapshot().accepted;
                if now > accepted {
                    (accepted, moved) = (now, trace.now());
                }
                polled
            })
            .await
        };
        self.moved = moved;
        let now = self.trace.now();
        if now > began {
            // A cancelled write keeps its place in the queue for memory.
            let until = if now - began >= ms(patience) { u64::MAX } else { now };
            self.store.state().witness.waits.push((self.number, began, until));
        }
        given
    }

    async fn offer(
        &self,
        writer: &mut Writer,
        face: Face,
        piece: Range<usize>,
        patience: Duration,
    ) -> Result<usize, WriterFailure> {
        let from = piece.start;
        let bytes = self.content.slice(piece);
        // A cancelled write may have accepted some of its bytes: the producer resumes at the writer's position.
        // The position includes all earlier bytes, so it is never less than `from`.
        let cancelled_at =
            |writer: &Writer| from.max(usize::try_from(writer.position()).unwrap_or(usize::MAX));
        match face {
            Face::Bytes => {
                let len = bytes.len();
                match timeout(patience, writer.write_bytes(bytes)).await {
                    Ok(result) => result.map(|()| from + len).map_err(WriterFailure::from),
                    Err(_) => Ok(cancelled_at(writer)),
                }
            }
            Face::AsyncWrite => match timeout(patience, AsyncWriteExt::write(writer, &bytes)).await {
                Ok(result) => Ok(from + result?),
                Err(_) => Ok(cancelled_at(writer)),
            },
            Face::Sink => {
                let len = bytes.len();
                match timeout(patience, writer.feed(bytes)).await {
                    Ok(result) => result.map(|()| from + len).map_err(WriterFailure::from),
                    Err(_) => Ok(cancelled_at(writer)),
                }
            }
            Face::ReadFrom => {
                let mut source = &bytes[..];
                let read = timeout(patience, writer.read_from(&mut source)).await;
                let taken = bytes.len() - source.len();
                match read {
                    Ok(result) => result.map(|_| from + taken).map_err(WriterFailure::from),
                    Err(_) => Ok(cancelled_at(writer)),
                }
            }
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
