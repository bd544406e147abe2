//! Searches for a tool's best settings.

use std::time::Duration;

use super::{Contest, Entrant};
use crate::Result;
use crate::tool::{Tool, Tuning};

/// How many of the best settings are tried again, because the first time may have been luck. Settings with long
/// runs vary less, and are not tried again.
pub const AGAIN: usize = 3;

/// Time for a program's start and end, which a trial gets beyond the least time so far.
const AROUND: Duration = Duration::from_millis(50);

impl Contest<'_> {
    /// The settings with the least time, out of the tool's defaults and the tried settings: each is tried once,
    /// then the best again.
    pub(super) fn best_of(&self, entrant: &Entrant) -> Result<Option<Tuning>> {
        let tried = entrant.tool.tried(&self.source);
        if tried.is_empty() {
            return Ok(entrant.tuning);
        }
        let all = std::iter::once(entrant.tuning).chain(tried.into_iter().map(Some));
        let best = search(all, self.rounds.enough.as_secs_f64(), |tuning, least| {
            self.trial(entrant, tuning, least)
        })?;
        Ok(best.unwrap_or(entrant.tuning))
    }

    /// The seconds of a run with these settings; `None` if they are certainly more than `least`, or if a peer
    /// fails. The defaults are tried first, without a `least`, and must finish.
    fn trial(&self, entrant: &Entrant, tuning: Option<Tuning>, least: Option<f64>) -> Result<Option<f64>> {
        let what = tuning.map_or_else(|| "defaults".to_owned(), |tuning| tuning.to_string());
        let Some(least) = least else {
            return Ok(Some(self.run(entrant, tuning, &what)?.usage.wall));
        };
        match self.run_within(entrant, tuning, &what, Duration::from_secs_f64(least) + AROUND) {
            Ok(run) => Ok(run.map(|run| run.usage.wall)),
            Err(error) if entrant.tool == Tool::Tidegate => Err(error),
            Err(error) => {
                eprintln!("{what}: {}: {error}", entrant.tool.name());
                Ok(None)
            }
        }
    }
}

/// The setting of `all` that takes the least time. Each is tried once, and the best [`AGAIN`] a second time
/// unless the first took `enough` seconds. A trial gets the least time so far, and may stop when it has taken
/// longer: it can't win.
fn search<T: Copy>(
    all: impl Iterator<Item = T>,
    enough: f64,
    mut trial: impl FnMut(T, Option<f64>) -> Result<Option<f64>>,
) -> Result<Option<T>> {
    let mut done: Vec<(f64, T)> = Vec::new();
    let mut run = |done: &mut Vec<(f64, T)>, one: T| -> Result<()> {
        done.extend(trial(one, done.first().map(|(least, _)| *least))?.map(|took| (took, one)));
        done.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(())
    };
    for one in all {
        run(&mut done, one)?;
    }
    for (_, one) in done.clone().into_iter().filter(|(took, _)| *took < enough).take(AGAIN) {
        run(&mut done, one)?;
    }
    Ok(done.first().map(|(_, one)| *one))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_least_of_all_trials_wins_and_what_takes_longer_is_stopped() {
        let takes = [("a", [5.0, 3.0]), ("b", [4.0, 4.0]), ("c", [9.0, 9.0]), ("d", [3.5, 3.9])];
        let seen = RefCell::new(Vec::new());
        let trial = |name, least: Option<f64>| {
            let before = seen.borrow().iter().filter(|(other, _)| *other == name).count();
            seen.borrow_mut().push((name, least));
            let took = takes.iter().find(|(other, _)| *other == name).unwrap().1[before];
            Ok((took <= least.unwrap_or(f64::INFINITY)).then_some(took))
        };
        assert_eq!(search(takes.iter().map(|(name, _)| *name), 20.0, trial).unwrap(), Some("a"));
        let least = |name, least| (name, Some(least));
        let again = [least("d", 3.5), least("b", 3.5), least("a", 3.5)];
        let once = [("a", None), least("b", 5.0), least("c", 4.0), least("d", 4.0)];
        assert_eq!(*seen.borrow(), [&once[..], &again[..]].concat());
    }

    #[test]
    fn what_takes_long_enough_once_is_not_tried_again() {
        let tried = RefCell::new(0);
        let trial = |took, _| {
            *tried.borrow_mut() += 1;
            Ok(Some(took))
        };
        assert_eq!(search([30.0, 19.0].into_iter(), 20.0, trial).unwrap(), Some(19.0));
        assert_eq!(*tried.borrow(), 3);
    }

    #[test]
    fn a_trial_that_fails_ends_the_search() {
        assert!(search([1, 2].into_iter(), 20.0, |_, _| Err("broken".into())).is_err());
        assert_eq!(search([1, 2].into_iter(), 20.0, |_, _| Ok(None)).unwrap(), None);
    }
}
