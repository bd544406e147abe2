//! Records the trace of a run: each event with its virtual time, as a hash and, if asked for, as lines.

use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// Records events.
#[derive(Debug)]
pub struct RunTrace {
    began: Instant,
    state: Mutex<TraceState>,
}

#[derive(Debug)]
struct TraceState {
    digest: Digest,
    events: u64,
    lines: Option<Vec<String>>,
}

impl RunTrace {
    /// An empty trace that starts now; `keep` keeps its lines.
    pub fn new(keep: bool) -> Self {
        let state =
            TraceState { digest: Digest(0xcbf2_9ce4_8422_2325), events: 0, lines: keep.then(Vec::new) };
        Self { began: Instant::now(), state: Mutex::new(state) }
    }

    /// Virtual milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records one event.
    pub fn note(&self, event: fmt::Arguments<'_>) {
        let now = self.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.events += 1;
        // Writing to a digest or a string does not fail.
        let _ = writeln!(state.digest, "{now} {event}");
        if let Some(lines) = &mut state.lines {
            lines.push(format!("{:>9.3} s  {event}", now as f64 / 1000.0));
        }
    }

    /// The hash of all events so far.
    pub fn hash(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).digest.0
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).events
    }

    /// The lines, if they were kept.
    pub fn lines(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).lines.clone().unwrap_or_default()
    }
}

/// FNV-1a over 64 bits: the same on every platform and in every version.
#[derive(Debug)]
struct Digest(u64);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
