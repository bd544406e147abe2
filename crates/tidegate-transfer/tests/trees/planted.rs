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
        let found = (0..CASES).find_map(|seed| Some((seed, check::run(seed, Some(bug)).err()?)));
        match found {
            Some((seed, violation)) if by.contains(&violation.invariant) => {
                println!("{bug:?}: found by {:?} in case {seed}", violation.invariant);
                None
            }
            Some((_, violation)) => Some(format!("{bug:?} was found otherwise: {violation}")),
            None => Some(format!("{bug:?} was not found in {CASES} cases")),
        }
    };
    let missed: Vec<String> = BUGS.into_iter().filter_map(find).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}
