//! The figures of a run, some of which must be zero.

use std::fmt;

use serde::Serialize;

use super::process::WorkerOutcome;
use crate::Result;
use crate::size::MIB;

/// The figures of a run; the names are those of `--json`.
#[derive(Debug, Default, Serialize)]
pub struct CrashFigures {
    pub(super) seed: u64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) kills: u64,
    /// Processes that resumed a journal that another process had left.
    pub(super) resumed: u64,
    /// Resumed journals that had changed between the listing and the claim, because another process had written to
    /// them.
    pub(super) overtaken: u64,
    /// Bytes whose write had returned and that the next process did not find.
    pub(super) lost_bytes: u64,
    pub(super) differing_objects: u64,
    /// Sessions that hold parts.
    pub(super) sessions_left: u64,
    /// Sessions without parts: their process was killed before it could record the store's response.
    pub(super) empty_sessions: u64,
    pub(super) journals_left: u64,
    pub(super) seconds: f64,
}

impl CrashFigures {
    /// Counts a process that started after others had written as `far` as that.
    pub(super) fn take_in(&mut self, far: &WorkerOutcome, ended: &WorkerOutcome) {
        self.kills += u64::from(ended.is_killed);
        self.overtaken += u64::from(ended.is_overtaken);
        if let Some(begins) = ended.begins {
            self.resumed += u64::from(begins > 0);
            self.lost_bytes += far.written.saturating_sub(begins);
        }
    }

    /// The sum of the figures that must be zero.
    fn wrong(&self) -> u64 {
        self.lost_bytes + self.differing_objects + self.sessions_left + self.journals_left
    }

    /// Fails if a figure that must be zero is not.
    ///
    /// # Errors
    /// That the figures show something lost or left.
    pub fn verdict(&self) -> Result<()> {
        match self.wrong() {
            0 => Ok(()),
            _ => Err("something was lost or left: see the figures".into()),
        }
    }
}

impl fmt::Display for CrashFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} objects of {:.1} MiB through {} kills and {} resumptions, {} of them overtaken, in {:.1} s (seed {})",
            self.objects,
            self.bytes as f64 / MIB as f64,
            self.kills,
            self.resumed,
            self.overtaken,
            self.seconds,
            self.seed
        )?;
        writeln!(f, "lost bytes         {}", self.lost_bytes)?;
        writeln!(f, "differing objects  {}", self.differing_objects)?;
        writeln!(
            f,
            "sessions left      {}, and {} that hold nothing",
            self.sessions_left, self.empty_sessions
        )?;
        writeln!(f, "journals left      {}", self.journals_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_next_process_does_not_find_is_lost() {
        let before = WorkerOutcome { written: 10, ..WorkerOutcome::default() };
        let mut figures = CrashFigures::default();
        for (begins, lost) in [(Some(10), 0), (Some(12), 0), (None, 0), (Some(4), 6), (Some(0), 16)] {
            figures.take_in(&before, &WorkerOutcome { begins, ..WorkerOutcome::default() });
            assert_eq!(figures.lost_bytes, lost, "begun at {begins:?}");
        }
        assert_eq!((figures.resumed, figures.wrong()), (3, 16));
        assert!(figures.verdict().is_err());
    }
}
