//! A producer that makes bytes at a rate, and makes none while its writer does not take them.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::size::MIB;

/// What is made in one go.
const PIECE: u64 = MIB;

/// What a clock can be asked to sleep; less is saved up.
const LEAST: f64 = 0.002;

/// What all objects consist of, again and again: no byte like the next.
pub(crate) fn piece() -> Bytes {
    let mut bytes = vec![0; PIECE as usize];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    bytes.into()
}

/// Makes the bytes of one object: each time a copy of the piece in memory of its own, as a real producer fills it. A writer
/// does not copy large pieces but keeps them: of one that is handed over again and again it would keep no memory at all,
/// and filling it would cost nothing.
#[derive(Debug)]
pub(crate) struct Producer {
    piece: Bytes,
    left: u64,
    /// Bytes a second.
    rate: f64,
    /// Seconds that were not slept yet; negative where copying and sleeping took longer than it should.
    owed: f64,
}

impl Producer {
    pub(crate) fn new(piece: Bytes, size: u64, rate: u64) -> Self {
        Self { piece, left: size, rate: rate as f64, owed: 0.0 }
    }

    /// The next bytes, and how long to sleep before they are there; [`slept`](Self::slept) takes how long that was.
    pub(crate) fn next(&mut self) -> Option<(Bytes, Option<Duration>)> {
        let now = self.left.min(self.piece.len() as u64);
        if now == 0 {
            return None;
        }
        self.left -= now;
        let began = Instant::now();
        let bytes = Bytes::copy_from_slice(&self.piece[..now as usize]);
        // The copy is a part of the making: the rate stays what it is.
        self.owed += now as f64 / self.rate - began.elapsed().as_secs_f64();
        let nap = (self.owed >= LEAST).then(|| Duration::from_secs_f64(self.owed));
        Some((bytes, nap))
    }

    /// The sleep that was asked for began then.
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
        let mut producer = Producer::new(piece(), size, 100 * MIB);
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
        let mut producer = Producer::new(piece.clone(), 2 * PIECE, u64::MAX);
        let (first, _) = producer.next().unwrap();
        let (second, _) = producer.next().unwrap();
        assert!(first == piece && second == piece);
        let places = [&piece, &first, &second].map(|bytes| bytes.as_ptr());
        assert!(places[0] != places[1] && places[0] != places[2] && places[1] != places[2], "{places:?}");
    }
}
