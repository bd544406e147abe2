//! Waits for room on a full disk: uploads make room as they send their bytes to the store.
//!
//! Appends that wait for room stand in line, and the first in line looks for room: ten thousand may wait, and
//! the room is for a few. When the first has found room, the next looks at once, and so on until one finds no
//! room. So as many wake as there is room for, in the order in which they came. The others look seldom, in
//! case a quota stops only the first, or less room is enough for them.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::engine::journaling::JournalDisk;
use crate::journal::JournalError;
use crate::types::progress::{Progress, Waiting};

/// Longest wait between two looks, in case something outside this process makes room.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long an append that is not first in line waits for its first look; then twice as long each time, up to
/// a quarter of its patience.
const LOOK_ALONE: Duration = Duration::from_secs(1);

/// How long nothing has left the disk.
struct Stillness {
    since: Instant,
    seen: u64,
    patience: Duration,
}

impl Stillness {
    fn new(disk: &JournalDisk, patience: Duration) -> Self {
        Self { since: Instant::now(), seen: disk.moved(), patience }
    }

    /// Fails with `full` where nothing has left the disk for too long.
    fn check(&mut self, disk: &JournalDisk, full: JournalError) -> Result<(), JournalError> {
        let moved = disk.moved();
        if moved != self.seen {
            (self.since, self.seen) = (Instant::now(), moved);
        }
        if self.since.elapsed() >= self.patience { Err(full) } else { Ok(()) }
    }

    /// How long until that is too long, if nothing leaves the disk.
    fn ends(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed())
    }
}

impl JournalDisk {
    /// Repeats `write` while the disk is full, as long as any byte leaves the disk: of any upload that this
    /// process sends from there. Gives up when nothing has left for as long as `patience`. For records, which
    /// are small and make room, and so do not wait in line.
    pub(super) async fn patiently<T, F>(
        &self,
        progress: &Progress,
        patience: Duration,
        write: impl Fn() -> F,
    ) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, JournalError>>,
    {
        let mut still = Stillness::new(self, patience);
        let mut waiting = None;
        loop {
            match write().await {
                Err(full @ JournalError::Full { .. }) => still.check(self, full)?,
                done => return done,
            }
            waiting.get_or_insert_with(|| (progress.waiting(Waiting::Disk), Wanted::new(self)));
            sleep(LOOK_AGAIN.min(patience)).await;
        }
    }

    /// Like `patiently`, but in line behind the appends that already wait for room.
    pub(super) async fn in_line<T, F>(
        &self,
        progress: &Progress,
        patience: Duration,
        write: impl Fn() -> F,
    ) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, JournalError>>,
    {
        if self.line.try_lock().is_ok() {
            match write().await {
                Err(JournalError::Full { .. }) => {}
                done => return done,
            }
        }
        let _waiting = (progress.waiting(Waiting::Disk), Wanted::new(self));
        let mut still = Stillness::new(self, patience);
        let mut place = Box::pin(self.line.lock());
        let (mut first, mut alone) = (None, LOOK_ALONE);
        loop {
            if first.is_none() {
                tokio::select! {
                    turn = &mut place => first = Some(turn),
                    () = sleep(alone.min(still.ends())) => alone = (alone * 2).min(patience / 4).max(LOOK_AGAIN),
                }
            }
            match write().await {
                Err(full @ JournalError::Full { .. }) => still.check(self, full)?,
                done => return done,
            }
            if first.is_some() {
                // Looks as soon as space is given back; an error means that none was.
                let _ = timeout(LOOK_AGAIN.min(patience), self.room.notified()).await;
            }
        }
    }
}

/// Counts a wait for room until this is dropped, because the wait may be cancelled.
struct Wanted<'a>(&'a JournalDisk);

impl<'a> Wanted<'a> {
    fn new(disk: &'a JournalDisk) -> Self {
        disk.is_wanted(true);
        Self(disk)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.is_wanted(false);
    }
}

#[cfg(test)]
mod tests;
