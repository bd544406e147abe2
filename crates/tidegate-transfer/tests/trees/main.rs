//! Trees of every kind, commands with options, faults and kills: what must hold of each command, whatever happens, and
//! what it must come to by a model of a few lines.
//!
//! A case comes from one number. `TIDEGATE_TREE_SEED=n` runs one; `TIDEGATE_TREE_CASES=a..b` runs a range.

#![allow(clippy::unwrap_used, reason = "it is all tests")]
#![allow(clippy::nonminimal_bool, clippy::if_same_then_else, reason = "one line of the model for one rule")]
#![allow(clippy::result_large_err, reason = "a violation ends the test")]

mod case;
mod check;
mod model;
mod planted;
mod world;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The cases of the normal run.
const CASES: Range<u64> = 0..10_000;

fn seeds() -> Range<u64> {
    if let Ok(seed) = std::env::var("TIDEGATE_TREE_SEED") {
        let seed = seed.parse().expect("TIDEGATE_TREE_SEED is a number");
        return seed..seed + 1;
    }
    let Ok(range) = std::env::var("TIDEGATE_TREE_CASES") else { return CASES };
    let parsed = range.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.expect("TIDEGATE_TREE_CASES is a range: 0..1000000")
}

#[test]
fn commands_hold_what_they_promise() {
    let seeds = seeds();
    let (next, violations) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let most: usize =
        std::env::var("TIDEGATE_TREE_FAILURES").ok().and_then(|most| most.parse().ok()).unwrap_or(3);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while violations.lock().unwrap().len() < most {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match std::panic::catch_unwind(|| check::run(seed, None)) {
                        Ok(Ok(())) => {}
                        Ok(Err(violation)) => violations.lock().unwrap().push(violation.to_string()),
                        Err(_) => {
                            violations.lock().unwrap().push(format!("a panic in the case of seed {seed}"))
                        }
                    }
                }
            });
        }
    });
    let violations = violations.into_inner().unwrap();
    assert!(violations.is_empty(), "{}", violations.join("\n\n"));
}
