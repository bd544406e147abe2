//! Bytes of unknown length, given piece by piece to a request that is held open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use tokio::sync::mpsc;

/// The bytes of a request that is held open. The stream never ends cleanly: when no more bytes can be given, its
/// last item is an error, so that the sender breaks the request off.
#[derive(Debug)]
pub struct Unending {
    pieces: mpsc::Receiver<Bytes>,
}

/// Gives the bytes.
#[derive(Debug)]
pub struct Giver {
    pieces: mpsc::Sender<Bytes>,
}

/// The request takes no more bytes; the result of the request says why.
#[derive(Debug)]
pub struct RequestEnded;

impl Unending {
    /// A payload without an end yet, and what gives it bytes.
    pub fn new() -> (Giver, Self) {
        // One piece waits while the last one is being sent.
        let (giver, pieces) = mpsc::channel(1);
        (Giver { pieces: giver }, Self { pieces })
    }
}

impl Giver {
    /// Waits until the request takes the piece.
    pub async fn give(&self, piece: Bytes) -> Result<(), RequestEnded> {
        self.pieces.send(piece).await.map_err(|_| RequestEnded)
    }
}

impl Stream for Unending {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = ready!(self.pieces.poll_recv(cx));
        Poll::Ready(Some(piece.ok_or_else(|| io::Error::other("the request was given up"))))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn without_a_giver_it_ends_with_an_error_and_never_cleanly() {
        let (giver, mut bytes) = Unending::new();
        giver.give(Bytes::from_static(b"some")).await.unwrap();
        drop(giver);
        assert_eq!(bytes.next().await.unwrap().unwrap(), "some");
        for _ in 0..3 {
            bytes.next().await.unwrap().unwrap_err();
        }
    }

    #[tokio::test]
    async fn who_gives_learns_that_the_request_is_gone() {
        let (giver, bytes) = Unending::new();
        drop(bytes);
        giver.give(Bytes::from_static(b"some")).await.unwrap_err();
    }
}
