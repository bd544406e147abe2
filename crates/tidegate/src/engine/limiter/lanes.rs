//! The lanes of one endpoint.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::lane::Lane;
use crate::engine::retry::RetryPolicy;

/// The lanes of one endpoint by prefix: those in use, and some unused ones that are remembered.
#[derive(Debug)]
pub(crate) struct Lanes {
    policy: RetryPolicy,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
}

impl Lanes {
    /// Above this number, unused lanes are forgotten: the idle ones, else the least recently used. A forgotten prefix
    /// is learned again.
    const MOST: usize = 4096;

    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self { policy: policy.clone(), lanes: Mutex::default() }
    }

    /// The lane of `prefix`.
    pub(crate) fn lane(&self, prefix: &str) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(prefix) {
            return lane.clone();
        }
        if lanes.len() >= Self::MOST {
            forget(&mut lanes);
        }
        let lane = Arc::new(Lane::new(&self.policy));
        lanes.insert(prefix.to_owned(), lane.clone());
        lane
    }
}

/// Makes room, if possible for at least a quarter, so that this does not run for each new lane.
fn forget(lanes: &mut HashMap<String, Arc<Lane>>) {
    let now = Instant::now();
    let is_used = |lane: &Arc<Lane>| Arc::strong_count(lane) > 1;
    lanes.retain(|_, lane| is_used(lane) || !lane.is_idle(now));
    if lanes.len() <= Lanes::MOST * 3 / 4 {
        return;
    }
    let mut unused: Vec<_> = lanes.values().filter(|lane| !is_used(lane)).map(|lane| lane.used()).collect();
    unused.sort_unstable();
    if let Some(until) = unused.get(Lanes::MOST / 4).or(unused.last()).copied() {
        lanes.retain(|_, lane| is_used(lane) || lane.used() > until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_in_use_are_kept_and_no_more_than_are_remembered() {
        let lanes = Lanes::new(&RetryPolicy::default());
        let held: Vec<_> = (0..10).map(|number| lanes.lane(&format!("held/{number}"))).collect();
        let len = || lanes.lanes.lock().unwrap().len();
        for number in 0..3 * Lanes::MOST {
            lanes.lane(&format!("other/{number}"));
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
            assert!(len() <= Lanes::MOST);
        }
        assert!(len() > Lanes::MOST / 2, "{}", len());
        let latest = lanes.lane(&format!("other/{}", 3 * Lanes::MOST - 1));
        assert!(lanes.lanes.lock().unwrap().values().any(|lane| Arc::ptr_eq(lane, &latest)));
        for (number, lane) in held.iter().enumerate() {
            assert!(Arc::ptr_eq(lane, &lanes.lane(&format!("held/{number}"))), "{number}");
        }
    }
}
