//! Giving bytes to a writer, piece by piece, by every face that it has.

use std::time::Duration;

use futures::SinkExt;
use tidegate::Writer;
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

use super::{Actor, Failed};
use crate::scenario::{Face, Producer};

/// After so many cancelled writes a producer has patience.
const CANCELLED: u32 = 20;

impl Actor {
    /// Gives `writer` the content up to `stop`.
    pub(super) async fn produce(
        &mut self,
        writer: &mut Writer,
        producer: &Producer,
        stop: u64,
    ) -> Result<(), Failed> {
        let stop = usize::try_from(stop).unwrap_or(usize::MAX).min(self.content.len());
        let (least, most) = producer.piece;
        let mut cancelled = 0;
        let mut given = 0;
        while given < stop {
            if producer.pause.1 > 0 && self.random.f64() < producer.pause.0 {
                self.set("pausing");
                sleep(Duration::from_millis(self.random.u64(1..=producer.pause.1))).await;
            }
            self.set("writing");
            let piece = self.random.usize(least..=most.max(least)).min(stop - given);
            let faces = [Face::Bytes, Face::AsyncWrite, Face::Sink, Face::ReadFrom];
            let face = producer.face.or_else(|| self.random.choice(faces)).unwrap_or(Face::Bytes);
            let patience = match producer.impatience.filter(|_| cancelled < CANCELLED) {
                Some(patience) => Duration::from_millis(patience),
                None => Duration::MAX,
            };
            let before = given;
            given = self.give(writer, face, given..given + piece, patience).await?;
            cancelled += u32::from(given < before + piece && patience != Duration::MAX);
        }
        Ok(())
    }

    /// Gives one piece; says how far the content is given now.
    async fn give(
        &self,
        writer: &mut Writer,
        face: Face,
        piece: std::ops::Range<usize>,
        patience: Duration,
    ) -> Result<usize, Failed> {
        let from = piece.start;
        let bytes = self.content.slice(piece);
        match face {
            Face::Bytes => {
                let len = bytes.len();
                match timeout(patience, writer.write(bytes)).await {
                    Ok(result) => result.map(|()| from + len).map_err(Failed::from),
                    // What it took before is first in its position, so this is never less.
                    Err(_) => Ok(from.max(usize::try_from(writer.position()).unwrap_or(usize::MAX))),
                }
            }
            Face::AsyncWrite => match timeout(patience, AsyncWriteExt::write(writer, &bytes)).await {
                Ok(result) => Ok(from + result?),
                Err(_) => Ok(from),
            },
            Face::Sink => {
                let len = bytes.len();
                match timeout(patience, writer.feed(bytes)).await {
                    Ok(result) => result.map(|()| from + len).map_err(Failed::from),
                    Err(_) => Ok(from),
                }
            }
            Face::ReadFrom => {
                let mut source = &bytes[..];
                let read = timeout(patience, writer.read_from(&mut source)).await;
                let taken = bytes.len() - source.len();
                read.map_or(Ok(0), |result| result)?;
                Ok(from + taken)
            }
        }
    }
}
