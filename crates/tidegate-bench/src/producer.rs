//! A producer that makes bytes at a rate, and makes none while its writer does not accept them.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::size::MIB;

/// Bytes made in one step.
const PIECE: u64 = MIB;

/// The shortest sleep, in seconds; shorter sleeps are added up first.
const LEAST: f64 = 0.002;

/// The piece that all objects repeat; neighbouring bytes differ.
pub(crate) fn piece() -> Bytes {
    let mut bytes = vec![0; PIECE as usize];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    bytes.into()
}

/// Makes the bytes of one object. Each piece is copied to memory of its own, as a real producer fills it: a
/// writer keeps large pieces instead of copying them, so a shared piece would use no memory, and filling it
/// would cost nothing.
#[derive(Debug)]
pub(crate) struct PacedProducer {
    piece: Bytes,
    left: u64,
    /// Bytes a second.
    rate: f64,
    /// Seconds still to sleep; negative if copying and sleeping took too long.
    owed: f64,
}

impl PacedProducer {
    pub(crate) fn new(piece: Bytes, size: u64, rate: u64) -> Self {
        Self { piece, left: size, rate: rate as f64, owed: 0.0 }
    }

    /// The next bytes, and how long to sleep before they count as made; report the sleep to
    /// [`slept`](Self::slept).
    pub(crate) fn next(&mut self) -> Option<(Bytes, Option<Duration>)> {
        let now = self.left.min(self.piece.len() as u64);
        if now == 0 {
            return None;
        }
        self.left -= now;
        let began = Instant::now();
        let bytes = Bytes::copy_from_slice(&self.piece[..now as usize]);
        // Copying is a part of making the bytes, so the rate stays the same.
        self.owed += now as f64 / self.rate - began.elapsed().as_secs_f64();
        let nap = (self.owed >= LEAST).then(|| Duration::from_secs_f64(self.owed));
        Some((bytes, nap))
    }

    /// Reports a sleep that began at `began`.
    pub(crate) fn slept(&mut self, began: Instant) {
        self.owed -= began.elapsed().as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_take_their_time() {
        let size = 3 * PIECE + 5;
        let mut producer = PacedProducer::new(piece(), size, 100 * MIB);
        let (mut bytes, mut began) = (0, Instant::now());
        let start = began;
        while let Some((piece, nap)) = producer.next() {
            bytes += piece.len() as u64;
            if let Some(nap) = nap {
                began = Instant::now();
                std::thread::sleep(nap);
                producer.slept(began);
            }
        }
        assert_eq!(bytes, size);
        assert!(start.elapsed() >= Duration::from_millis(28), "{:?}", start.elapsed());
    }

    #[test]
    fn what_is_kept_of_it_is_memory() {
        let piece = piece();
        let mut producer = PacedProducer::new(piece.clone(), 2 * PIECE, u64::MAX);
        let (first, _) = producer.next().unwrap();
        let (second, _) = producer.next().unwrap();
        assert!(first == piece && second == piece);
        let places = [&piece, &first, &second].map(|bytes| bytes.as_ptr());
        assert!(places[0] != places[1] && places[0] != places[2] && places[1] != places[2], "{places:?}");
    }
}
