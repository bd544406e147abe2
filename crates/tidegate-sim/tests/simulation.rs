//! The simulation itself: seeds pass, a seed is a run, planted bugs are found.

use tidegate_sim::campaign::{Campaign, replay_command};
use tidegate_sim::scenario::Scenario;
use tidegate_sim::{Plant, Settings, run};

fn campaign(start: u64, seeds: u64, plant: Option<Plant>) -> Campaign {
    Campaign { start, step: 1, seeds, jobs: 2, plant, pending: false }
}

/// Seeds about memory pressure only.
fn pressure(seeds: u64, plant: Option<Plant>) -> Campaign {
    let (start, step) = Scenario::PRESSURE;
    Campaign { start, step, seeds, jobs: 2, plant, pending: false }
}

/// Processes that prepare, crash, commit elsewhere, twice, at once, and after an abandon.
#[test]
fn pending_uploads_are_published_once_or_never() {
    let campaign = Campaign { pending: true, ..campaign(0, 600, None) };
    let summary = campaign.run(|_| {}, |seed| panic!("seed {seed} is stuck in real time"));
    assert_eq!(summary.seeds, 600);
    assert!(summary.failed.is_empty(), "{:#?}", summary.failed);
    for outcome in [
        "not prepared",
        "Commit: done",
        "Commit: crashed",
        "Commit: SessionLost",
        "Abandon: done",
        "Abandon: crashed",
        "Abandon: Closed",
        "set: published",
        "set: given up",
        "set: lost",
        "set: ended in the middle",
        "set, RollForward: done",
        "set, Abandon: Closed",
        "set, End: done",
    ] {
        assert!(summary.outcomes.contains_key(outcome), "{summary}");
    }
    let settings = Settings::new(7);
    let (one, again) = (tidegate_sim::pending::run(&settings), tidegate_sim::pending::run(&settings));
    assert_eq!((one.hash, one.events), (again.hash, again.events), "a seed is a run");
}

/// Both intents of a set are written, where a write that must not replace anything does: part of a set that was given up is
/// published. An upload that was abandoned is published, where its session is not aborted.
#[test]
fn planted_bugs_of_pending_uploads_are_found() {
    for plant in [Plant::Overwrite, Plant::ForgottenAbort] {
        let campaign = Campaign { pending: true, ..campaign(0, 600, Some(plant)) };
        let summary = campaign.run(|_| {}, |seed| panic!("seed {seed} is stuck in real time"));
        let failed = summary.failed.values().map(|failures| format!("{failures:?}"));
        let found = failed.filter(|failures| failures.contains("the set: ")).count();
        assert!(found > 0, "{plant:?}: {summary}");
    }
}

/// Among them are seeds that found: a turn taken before its session (97), a put whose lost answers were
/// not settled (67, 96), memory that lay idle in a begun slab (36), a part too many in flight (1), a copy of
/// a part that came late and had the completion refused (117, 129).
#[test]
fn the_first_seeds_pass() {
    let summary = campaign(0, 600, None).run(|_| {}, |seed| panic!("seed {seed} is stuck in real time"));
    assert_eq!(summary.seeds, 600);
    let failed: Vec<String> = summary.failed.keys().map(|seed| replay_command(*seed, None)).collect();
    assert!(failed.is_empty(), "replay: {failed:#?}\n{:#?}", summary.failed);
    // It simulates what it is for.
    assert!(summary.troubles.iter().all(|count| *count > 0), "{summary}");
    assert!(summary.hedges > 0, "{summary}");
    for outcome in
        ["committed", "AlreadyExists", "Unavailable", "aborted", "dropped", "Starved", "Idle", "NoSpace"]
    {
        assert!(summary.outcomes.contains_key(outcome), "{summary}");
    }
}

/// Seeds that fail where the named fix is taken back; what fails in one of the first 600 is not here, but
/// for the bugs of the spool and of those who hold memory and stop, where it says which are which.
const REGRESSIONS: [(u64, &str); 22] = [
    (715, "a source that failed after a sink's item was told as an object that is too large"),
    (2862, "a file of one slab whose cached read was cut hung for ever"),
    (3983, "a completion that was replaced was called failed, for its session was aborted in time"),
    (52, "those who waited for a slow producer were starved, for it filled what it had been granted"),
    (1229, "a writer that waited for memory was ended as idle when it was granted some"),
    (964, "what was granted to a write that was cancelled for good was nobody's"),
    (39, "whole parts of the strategy spool stayed in memory until their producer came back"),
    (74, "a part was spooled beside a spill of its own beginning, to the same place"),
    (414, "parts grew past their size by what spills that failed had closed"),
    (289, "an upload that was ended for idling was aborted twice"),
    (549, "the wait for a slow disk was counted as one that nothing can end"),
    (94, "a disk that does not say how full it is was taken for full"),
    (1629, "all who had waited as long were starved at once, where one would have been enough"),
    (4404, "a writer that had come back and waited for memory was ended as idle, and never told"),
    (2154, "parts on their way to a slow disk starved others"),
    (12859, "blocks that came back at the end of the file were no room on a full disk"),
    (19274, "a wait was ended by what had been seen before a slow spill"),
    (31569, "disks that were slow to fail were tried for ever"),
    (36679, "a writer that was committing was ended as idle after a slow spill"),
    (1681, "a refusal after a lost answer was to be certain, at a store whose aborts tell nothing"),
    (
        14952,
        "a session that was gone at the second completion, after the first was refused, was left in doubt",
    ),
    (61084, "twice as many were starved each time, where the room in the spool was enough for one"),
];

#[test]
fn bugs_of_the_past_do_not_return() {
    for (seed, bug) in REGRESSIONS {
        let failures = run(&Settings::new(seed)).failures;
        assert!(failures.is_empty(), "{bug}? {}\n{failures:#?}", replay_command(seed, None));
    }
}

#[test]
fn a_seed_is_one_run_event_for_event() {
    for seed in 0..150 {
        let (once, again) = (run(&Settings::new(seed)), run(&Settings::new(seed)));
        let replay = replay_command(seed, None);
        assert_eq!((once.hash, once.events), (again.hash, again.events), "{replay} --trace");
    }
    assert_ne!(run(&Settings::new(1)).hash, run(&Settings::new(2)).hash);
}

#[test]
fn a_trace_is_kept_where_it_is_asked_for_and_changes_nothing() {
    let traced = run(&Settings { trace: true, ..Settings::new(3) });
    let plain = run(&Settings::new(3));
    assert_eq!((traced.hash, traced.events), (plain.hash, plain.events));
    assert_eq!((traced.trace.len() as u64, plain.trace.len()), (traced.events, 0));
}

#[test]
fn every_planted_bug_is_found_within_a_hundred_seeds() {
    let stuck = |seed| panic!("seed {seed} is stuck in real time");
    for plant in Plant::ALL {
        let summary = campaign(0, 50, Some(plant)).run(|_| {}, stuck);
        let more = || pressure(50, Some(plant)).run(|_| {}, stuck);
        let found = !summary.failed.is_empty() || !more().failed.is_empty();
        assert!(found, "{} is not found", plant.name());
    }
}

#[test]
fn a_planted_bug_is_found_for_what_it_is() {
    let found = |plant: Plant, words: &str| {
        let campaign =
            if plant.is_of_memory() { pressure(50, Some(plant)) } else { campaign(0, 50, Some(plant)) };
        let summary = campaign.run(|_| {}, |seed| panic!("seed {seed} is stuck in real time"));
        let failures: Vec<String> = summary.failed.into_values().flatten().collect();
        assert!(failures.iter().any(|failure| failure.contains(words)), "{plant:?}: {failures:#?}");
    };
    found(Plant::UnsortedParts, "InvalidPartOrder");
    found(Plant::UnsentPart, "there is no part");
    found(Plant::OtherBytes, "not the bytes");
    found(Plant::ForgottenAbort, "is left behind");
    found(Plant::PublishOnOpen, "before the writer was finished");
    found(Plant::PartTwice, "needed");
    found(Plant::Overwrite, "another was there before");
    found(Plant::SwallowedError, "says committed, and no object was there");
    found(Plant::ShortPut, "of an object of");
    found(Plant::LostTail, "gave back other bytes");
    found(Plant::SharedBlock, "gave back other bytes");
    found(Plant::LostWake, "not over after");
    found(Plant::Impatience, "Starved");
    found(Plant::KeptBytes, "not over after");
}
