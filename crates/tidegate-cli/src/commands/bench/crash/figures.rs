//! What came of a run: the figures, of which some must be zero.

use std::io::Write;

use serde::Serialize;

use super::process::Ended;
use crate::exit::{Failure, Outcome};
use crate::{output, text};

/// What came of it; the names are those of `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) seed: u64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) kills: u64,
    /// Processes that went on with a journal that another had left.
    pub(super) resumed: u64,
    /// Of those, the ones that had found it with fewer bytes than it had when it was theirs.
    pub(super) overtaken: u64,
    /// Bytes whose write had returned, and that the next process did not find.
    pub(super) lost_bytes: u64,
    pub(super) differing_objects: u64,
    /// Sessions that hold parts.
    pub(super) sessions_left: u64,
    /// Sessions that hold nothing: their process was killed before it had written down the store's answer.
    pub(super) empty_sessions: u64,
    pub(super) journals_left: u64,
    pub(super) seconds: f64,
}

impl Figures {
    /// Counts a process that went on where others had come as `far` as that.
    pub(super) fn take_in(&mut self, far: &Ended, ended: &Ended) {
        self.kills += u64::from(ended.is_killed);
        self.overtaken += u64::from(ended.is_overtaken);
        if let Some(begins) = ended.begins {
            self.resumed += u64::from(begins > 0);
            self.lost_bytes += far.written.saturating_sub(begins);
        }
    }

    /// What must be zero.
    fn wrong(&self) -> u64 {
        self.lost_bytes + self.differing_objects + self.sessions_left + self.journals_left
    }

    /// Says what came of it; what must be zero and is not is a failure.
    pub(super) async fn say(&self, json: bool) -> Outcome {
        let mut out = output::text()?;
        if json {
            out.json(self)?;
        } else {
            writeln!(
                out,
                "{} of {} through {} kills and {} resumptions, {} of them overtaken, in {:.1} s (seed {})",
                text::count(self.objects, "object"),
                text::size(self.bytes),
                self.kills,
                self.resumed,
                self.overtaken,
                self.seconds,
                self.seed
            )?;
            writeln!(out, "lost bytes         {}", self.lost_bytes)?;
            writeln!(out, "differing objects  {}", self.differing_objects)?;
            writeln!(
                out,
                "sessions left      {}, and {} that hold nothing",
                self.sessions_left, self.empty_sessions
            )?;
            writeln!(out, "journals left      {}", self.journals_left)?;
        }
        out.finish().await?;
        match self.wrong() {
            0 => Ok(()),
            _ => Err(Failure::Failed("something was lost or left: see the figures".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_next_process_does_not_find_is_lost() {
        let before = Ended { written: 10, ..Ended::default() };
        let mut figures = Figures::default();
        for (begins, lost) in [(Some(10), 0), (Some(12), 0), (None, 0), (Some(4), 6), (Some(0), 16)] {
            figures.take_in(&before, &Ended { begins, ..Ended::default() });
            assert_eq!(figures.lost_bytes, lost, "begun at {begins:?}");
        }
        assert_eq!((figures.resumed, figures.wrong()), (3, 16));
        assert!(figures.say(true).await.is_err(), "it is no success");
    }
}
