//! Each planted bug is found.

use tidegate_transfer::Planted;

use crate::check::{self, Invariant};

/// Each bug, and the invariants that find it.
const BUGS: [(Planted, &[Invariant]); 10] = [
    (Planted::UnorderedListing, &[Invariant::SyncIsComplete]),
    (Planted::UnconfirmedMove, &[Invariant::MovesLoseNothing]),
    (Planted::ReplacedSource, &[Invariant::MovesLoseNothing, Invariant::SourcesStay]),
    (Planted::RemovalAfterFailure, &[Invariant::SyncIsComplete]),
    (Planted::RemovalBelowLeftOut, &[Invariant::OnlyWhatIsNamed]),
    (Planted::SameSecond, &[Invariant::SyncIsComplete]),
    (Planted::WriteThroughLink, &[Invariant::OnlyWhatIsNamed]),
    (Planted::LinkOverFile, &[Invariant::SuccessMeansDone]),
    (Planted::UntoldRemoval, &[Invariant::DryRunIsTrue]),
    (Planted::LastingObstacle, &[Invariant::SyncIsComplete]),
];

/// Within so many cases.
const CASES: u64 = 5000;

#[test]
fn planted_bugs_are_found() {
    let find = |(bug, by): (Planted, &[Invariant])| {
        // Some cases show a bug in another way, too.
        let finds = |seed: &u64| {
            check::run(*seed, Some(bug)).is_err_and(|violation| by.contains(&violation.invariant))
        };
        match (0..CASES).find(finds) {
            Some(seed) => {
                println!("{bug:?}: found by {by:?} in case {seed}");
                None
            }
            None => Some(format!("{bug:?} was not found by {by:?} in {CASES} cases")),
        }
    };
    let missed: Vec<String> = std::thread::scope(|scope| {
        let searches = BUGS.map(|bug| scope.spawn(move || find(bug)));
        searches.into_iter().filter_map(|search| search.join().unwrap()).collect()
    });
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}
