//! Waiting for room on a disk that is full: what uploads send to their stores makes it.
//!
//! Who waits to append is in line, and the first in line looks for room: there may be ten thousand, and the
//! room is for a few. When the first has found some, the next one looks at once, and so on to the one who
//! finds none; so as many are woken as there is room for, in the order in which they came. Who is not first
//! looks seldom, for a quota may be in the first one's way alone, or less may be enough for the others.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::engine::journaling::Disk;
use crate::journal::JournalError;
use crate::types::progress::{Progress, Waiting};

/// In case the room that is made is not of this process's making.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// When who is not first in line looks first; then after twice as long, up to a quarter of its patience.
const LOOK_ALONE: Duration = Duration::from_secs(1);

/// For how long nothing has left the disk.
struct Stillness {
    since: Instant,
    seen: u64,
    patience: Duration,
}

impl Stillness {
    fn new(disk: &Disk, patience: Duration) -> Self {
        Self { since: Instant::now(), seen: disk.moved(), patience }
    }

    /// Gives up where it has been too long.
    fn check(&mut self, disk: &Disk, full: JournalError) -> Result<(), JournalError> {
        let moved = disk.moved();
        if moved != self.seen {
            (self.since, self.seen) = (Instant::now(), moved);
        }
        if self.since.elapsed() >= self.patience { Err(full) } else { Ok(()) }
    }

    /// When it is too long if nothing leaves.
    fn ends(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed())
    }
}

impl Disk {
    /// Does `write` again while the disk is full, as long as anything leaves it: a byte of any upload that
    /// this process sends from there. Gives up when nothing has for so long. For records, which are small and
    /// make room: they wait for nobody.
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

    /// The same, behind those who wait for room already.
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
                // What is given back is looked at as soon as it is; an error is that nothing was.
                let _ = timeout(LOOK_AGAIN.min(patience), self.room.notified()).await;
            }
        }
    }
}

/// Room is waited for, until this is dropped: the wait may be cancelled.
struct Wanted<'a>(&'a Disk);

impl<'a> Wanted<'a> {
    fn new(disk: &'a Disk) -> Self {
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
