use proptest::prelude::*;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn small_store() -> Capabilities {
    Capabilities {
        min_part: 4,
        max_part: 4096,
        max_parts: 16,
        max_object: 1 << 20,
        max_put: 4096,
        ..Capabilities::default()
    }
}

fn receipt(number: u32, range: &Range<u64>) -> Receipt {
    let bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
    let checksum = Some(Checksum::of(Algorithm::Crc64Nvme, &bytes));
    Receipt { number, size: range.end - range.start, etag: format!("e{number}"), checksum }
}

/// Pushes `size` bytes in pieces of at most `piece`, as a writer does. Returns the actions, in order.
fn run(mut plan: Plan, size: u64, piece: u64) -> Result<Vec<Action>, PlanError> {
    let mut actions = Vec::new();
    while plan.size() < size {
        plan.more()?;
        plan.push(piece.min(size - plan.size()).min(plan.room()));
    }
    plan.finish();
    while let Some(action) = plan.next() {
        if let Action::Part { number, range } = &action {
            plan.stored(receipt(*number, range));
        }
        actions.push(action);
    }
    Ok(actions)
}

fn parts(actions: &[Action]) -> Vec<Range<u64>> {
    let ranges = actions.iter().filter_map(|action| match action {
        Action::Part { range, .. } => Some(range.clone()),
        _ => None,
    });
    ranges.collect()
}

proptest! {
    #[test]
    fn every_object_is_whole_and_within_the_stores_rules(
        size in 0u64..40_000,
        piece in 1u64..9000,
        part in 4u64..=4096,
        equal in any::<bool>(),
        hinted in any::<bool>(),
    ) {
        let store = Capabilities { equal_parts: equal, ..small_store() };
        let hint = hinted.then_some(size);
        let Ok(schedule) = Schedule::new(&store, Some(part), hint, None, false) else {
            prop_assert!(hinted, "only a size that is known beforehand is refused beforehand");
            return Ok(());
        };
        let first = schedule.part_at(0);
        match run(Plan::new(&store, Cut::Parts(schedule)), size, piece) {
            Err(_) => {
                prop_assert!(size > schedule.reach(), "refused {size} of {}", schedule.reach());
                prop_assert!(!hinted);
            }
            Ok(actions) if size <= first => prop_assert_eq!(actions, vec![Action::Put { size }]),
            Ok(actions) => {
                let parts = parts(&actions);
                prop_assert_eq!(actions.len(), parts.len() + 2);
                prop_assert_eq!(&actions[0], &Action::Open);
                prop_assert_eq!(actions.last().unwrap(), &Action::Complete { size });
                prop_assert!(parts.len() <= 16);
                let mut end = 0;
                for (index, part) in parts.iter().enumerate() {
                    prop_assert_eq!(part.start, end);
                    end = part.end;
                    let length = part.end - part.start;
                    let last = index + 1 == parts.len();
                    prop_assert!(length <= store.max_part && (last || length >= store.min_part));
                    prop_assert!(!equal || last || length == first);
                }
                prop_assert_eq!(end, size);
            }
        }
    }

    #[test]
    fn parts_that_are_made_smaller_are_within_the_stores_rules_and_reach_as_far_as_is_said(
        hundredths in 0u64..150,
        pieces in 1u64..300,
        part in 5u64..=4096,
        least in 4u64..=4096,
        narrowed in prop::collection::vec(0.0f64..1.2, 64),
    ) {
        let store = Capabilities { max_parts: 64, ..small_store() };
        let least = least.min(part - 1);
        let schedule = Schedule::new(&store, Some(part), None, None, false).unwrap();
        let mut plan = Plan::new(&store, Cut::Parts(schedule)).down_to(Some(least));
        let (reach, mut ranges) = (plan.reach(), Vec::<Range<u64>>::new());
        prop_assert!(reach <= schedule.reach());
        let size = reach * hundredths / 100;
        while plan.size() < size {
            if plan.more().is_err() {
                prop_assert!(plan.size() >= reach, "refused {} of {reach}", plan.size());
                return Ok(());
            }
            plan.push((size / pieces + 1).min(size - plan.size()).min(plan.room()));
            while let Some(action) = plan.next() {
                if let Action::Part { number, range } = action {
                    plan.stored(receipt(number, &range));
                    ranges.push(range);
                    let (scheduled, share) = (plan.part(), narrowed[ranges.len() - 1]);
                    plan.narrow((scheduled as f64 * share) as u64);
                    prop_assert!((least..=scheduled).contains(&plan.part()));
                }
            }
        }
        plan.finish();
        let mut published = false;
        while let Some(action) = plan.next() {
            match action {
                Action::Part { number, range } => {
                    plan.stored(receipt(number, &range));
                    ranges.push(range);
                }
                Action::Put { size: put } => published = put == size && ranges.is_empty(),
                Action::Complete { size: whole } => published = whole == size && !ranges.is_empty(),
                other => prop_assert!(other == Action::Open, "{:?} at the end", other),
            }
        }
        prop_assert!(published);
        if let Some(first) = ranges.first() {
            prop_assert_eq!(first.end, part.min(size), "the first part is as it was scheduled");
        }
        let (mut end, last) = (0, ranges.last().cloned());
        for range in ranges {
            let bytes = range.end - range.start;
            let is_last = Some(&range) == last.as_ref();
            prop_assert!(range.start == end && bytes <= store.max_part && (bytes >= least || is_last));
            end = range.end;
        }
        prop_assert!(end == size || end == 0);
    }

    #[test]
    fn chunks_are_of_one_size_and_the_last_one_publishes(
        size in 0u64..40_000,
        piece in 1u64..9000,
        asked in 1u64..=4096,
        grain in 1u64..=512,
    ) {
        let schedule = Schedule::appended(&small_store(), grain, Some(asked), None, None, false).unwrap();
        let chunk = schedule.part_at(0);
        prop_assert!(chunk.is_multiple_of(grain) && (asked..asked + grain).contains(&chunk));
        let actions = run(Plan::new(&small_store(), Cut::Chunks(schedule)), size, piece).unwrap();
        if size <= chunk {
            prop_assert_eq!(actions, vec![Action::Put { size }]);
            return Ok(());
        }
        let count = size.div_ceil(chunk);
        let mut expected = vec![Action::Open];
        for number in 1..count {
            let range = (number - 1) * chunk..number * chunk;
            expected.push(Action::Part { number: number as u32, range });
        }
        expected.push(Action::Last { number: count as u32, range: (count - 1) * chunk..size });
        prop_assert_eq!(actions, expected);
    }

    #[test]
    fn completes_only_when_whole_and_in_order(order in Just((1u32..=8).collect::<Vec<_>>()).prop_shuffle()) {
        let schedule = Schedule::new(&small_store(), Some(4), None, None, false).unwrap();
        let mut plan = Plan::new(&small_store(), Cut::Parts(schedule));
        while plan.outstanding() < 7 {
            plan.more().unwrap();
            plan.push(1);
        }
        plan.finish();
        let mut ranges = BTreeMap::new();
        while let Some(action) = plan.next() {
            if let Action::Part { number, range } = action {
                ranges.insert(number, range);
            }
        }
        let order: Vec<_> = order.into_iter().filter(|number| ranges.contains_key(number)).collect();
        for (index, number) in order.iter().enumerate() {
            prop_assert_eq!(plan.next(), None, "complete before part {} of {}", index, order.len());
            plan.stored(receipt(*number, &ranges[number]));
            plan.stored(receipt(*number, &ranges[number])); // a duplicate receipt counts once
        }
        let size = plan.size();
        prop_assert_eq!(plan.next(), Some(Action::Complete { size }));
        let (receipts, whole) = (plan.parts(), plan.checksum());
        prop_assert!(receipts.is_sorted_by_key(|receipt| receipt.number));
        prop_assert_eq!(whole, Checksum::of(Algorithm::Crc64Nvme, &vec![0; size as usize]));
    }
}

#[test]
fn an_object_that_never_exceeds_a_part_is_one_request() {
    let store = Capabilities::default();
    for (size, requests) in
        [(0, 1), (1, 1), (16 * MIB - 1, 1), (16 * MIB, 1), (16 * MIB + 1, 4), (32 * MIB, 4)]
    {
        let schedule = Schedule::new(&store, None, None, Some(256 * MIB), false).unwrap();
        let actions = run(Plan::new(&store, Cut::Parts(schedule)), size, 64 * KIB).unwrap();
        assert_eq!(actions.len(), requests, "{size} bytes");
    }
}

#[test]
fn parts_of_unknown_streams_grow_to_the_largest_object() {
    let store = Capabilities::default();
    for part in [5 * MIB, 16 * MIB, 64 * MIB] {
        let schedule = Schedule::new(&store, Some(part), None, None, false).unwrap();
        assert!(schedule.reach() >= store.max_object, "{part}: {}", schedule.reach());
        assert_eq!(schedule.part_at(part * 1249), part, "the first parts keep the size that was asked for");
    }
}

#[test]
fn memory_bounds_the_reach_and_a_part_bounds_memory() {
    let store = Capabilities::default();
    let schedule = Schedule::new(&store, None, None, Some(64 * MIB), false).unwrap();
    assert_eq!(schedule.part_at(0), 8 * MIB);
    assert_eq!(schedule.part_at(1 << 40), 32 * MIB);
    assert!((255 << 30..265 << 30).contains(&schedule.reach()), "{}", schedule.reach());
    assert_eq!(Schedule::new(&store, None, None, Some(48 * MIB), false).unwrap().part_at(0), 6 * MIB);
    let refused = Schedule::new(&store, Some(16 * MIB), None, Some(8 * MIB), false);
    assert_eq!(refused, Err(ScheduleError::Memory { part: 16 * MIB, memory: 8 * MIB }));
    let refused = Schedule::new(&store, None, Some(5 << 40), Some(64 * MIB), false);
    assert!(matches!(refused, Err(ScheduleError::Reach { .. })), "{refused:?}");
}

/// 44 MiB of memory makes parts of 5.5 MiB; the smallest parts, of 5 MiB, grow in other steps.
#[test]
fn a_stream_whose_parts_are_all_as_small_as_may_be_reaches_as_far_as_is_said() {
    for memory in [44, 64, 256] {
        let store = Capabilities { max_object: u64::MAX, ..Capabilities::default() };
        let schedule = Schedule::new(&store, None, None, Some(memory * MIB), false).unwrap();
        let mut plan = Plan::new(&store, Cut::Parts(schedule)).down_to(Some(5 * MIB));
        let reach = plan.reach();
        while plan.more().is_ok() {
            plan.push(plan.room());
            while plan.next().is_some() {
                plan.narrow(0);
            }
        }
        assert!(plan.size() >= reach, "{} of {reach}", plan.size());
        assert!(plan.size() < schedule.reach());
    }
}

#[test]
fn chunks_fit_in_memory_and_reach_the_largest_object() {
    let store = Capabilities::default();
    let chunks = |asked, hint, memory| Schedule::appended(&store, 256 * KIB, asked, hint, memory, false);
    assert_eq!(chunks(None, None, None).unwrap().part_at(0), 16 * MIB);
    assert_eq!(chunks(None, None, Some(50_000_000)).unwrap().part_at(0), 47 * 256 * KIB);
    assert_eq!(chunks(None, None, Some(600 * KIB)).unwrap().part_at(0), 256 * KIB);
    assert_eq!(chunks(Some(MIB + 1), Some(5 << 40), None).unwrap().part_at(4 << 40), MIB + 256 * KIB);
    assert!(chunks(Some(256 * KIB), None, None).unwrap().reach() >= store.max_object);
    let refused = chunks(Some(MIB), None, Some(MIB - 1));
    assert_eq!(refused, Err(ScheduleError::Memory { part: MIB, memory: MIB - 1 }));
    let refused = chunks(Some(u64::MAX), None, None);
    assert!(matches!(refused, Err(ScheduleError::PartSize { asked: u64::MAX, .. })), "{refused:?}");
    assert!(matches!(chunks(None, Some((5 << 40) + 1), None), Err(ScheduleError::TooLarge { .. })));
}

#[test]
fn part_sizes_that_the_store_refuses_are_refused_first() {
    let store = Capabilities::default();
    for asked in [0, 5 * MIB - 1, (5 << 30) + 1] {
        let refused = Schedule::new(&store, Some(asked), None, None, false);
        assert_eq!(refused, Err(ScheduleError::PartSize { asked, least: 5 * MIB, most: 5 << 30 }));
    }
    let refused = Schedule::new(&store, None, Some((5 << 40) + 1), None, false);
    assert!(matches!(refused, Err(ScheduleError::TooLarge { .. })), "{refused:?}");
}

#[test]
fn a_known_size_fits_in_the_parts_that_there_may_be() {
    let store = Capabilities { equal_parts: true, ..Capabilities::default() };
    let size = 1 << 40;
    let schedule = Schedule::new(&store, None, Some(size), None, false).unwrap();
    assert!(schedule.reach() >= size);
    assert_eq!(schedule.part_at(0), schedule.part_at(size - 1));
}

#[test]
fn a_stream_past_the_reach_is_refused_before_its_byte_is_taken() {
    let store = Capabilities { equal_parts: true, ..small_store() };
    let schedule = Schedule::new(&store, Some(4), None, None, false).unwrap();
    assert_eq!(schedule.reach(), 64);
    let refused = run(Plan::new(&store, Cut::Parts(schedule)), 65, 3);
    assert_eq!(refused, Err(PlanError::PastReach { reach: 64, parts: 16 }));
    assert!(run(Plan::new(&store, Cut::Parts(schedule)), 64, 3).is_ok());
    let refused = run(Plan::new(&store, Cut::Whole { limit: 10 }), 11, 3);
    assert_eq!(refused, Err(PlanError::PastRequest { limit: 10 }));
}

/// Another upload is refused a part while this one is under way.
#[test]
fn parts_grow_when_the_store_turns_out_to_take_fewer() {
    let store = Capabilities { max_parts: 10_000, ..Capabilities::default() };
    let schedule = Schedule::new(&store, None, None, None, false).unwrap();
    let part = schedule.part_at(0);
    let mut plan = Plan::new(&store, Cut::Parts(schedule)).in_session();
    let fill = |plan: &mut Plan| plan.more().map(|()| plan.push(plan.room()));
    for _ in 0..300 {
        fill(&mut plan).unwrap();
    }
    plan.limit_parts(1000);
    let mut refused = fill(&mut plan);
    for _ in 301..1000 {
        refused = refused.and_then(|()| fill(&mut plan));
    }
    refused.unwrap();
    assert!(plan.size() > 10_000 * part, "{}", plan.size());
    let reach = plan.size();
    assert_eq!(plan.more(), Err(PlanError::PastReach { reach, parts: 1000 }));
    // A limit that is no lower changes nothing.
    let mut plan = Plan::new(&store, Cut::Parts(schedule));
    plan.limit_parts(10_000);
    assert_eq!((plan.part(), plan.reach()), (part, schedule.reach().min(store.max_object)));
}
