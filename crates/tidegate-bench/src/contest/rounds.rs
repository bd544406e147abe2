//! Decides which tool runs when.

use std::time::Duration;

use super::{ContestRun, Entrant};
use crate::Result;
use crate::tool::Tool;

/// How often each tool runs.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Counted runs; a tool without trials has one warm-up run before.
    pub runs: u32,
    /// A tool whose runs, with the warm-up, have taken this long in all has no more runs; at least one run
    /// counts.
    pub enough: Duration,
}

impl Rounds {
    /// Calls `run` for the tools in turn (A B C A B C …): first a warm-up for tools that are not warm, which
    /// does not count, then the counted runs.
    pub(super) fn hold(
        &self,
        entrants: &mut [Entrant],
        is_warm: impl Fn(Tool) -> bool,
        mut run: impl FnMut(&Entrant, &str) -> Result<ContestRun>,
    ) -> Result<()> {
        let enough = self.enough.as_secs_f64();
        let mut spent = vec![0.0; entrants.len()];
        for round in 0..=self.runs {
            for (entrant, spent) in entrants.iter_mut().zip(&mut spent) {
                let is_due = match round {
                    0 => !is_warm(entrant.tool),
                    _ => entrant.runs.is_empty() || *spent < enough,
                };
                if entrant.failed.is_some() || !is_due {
                    continue;
                }
                let what = if round == 0 { "warm-up".to_owned() } else { format!("run {round}") };
                match run(entrant, &what) {
                    Ok(run) => {
                        *spent += run.usage.wall;
                        if round > 0 {
                            entrant.runs.push(run);
                        }
                    }
                    Err(error) => entrant.fail(error)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
