use super::*;
use crate::knobs::{FaultRule, Slow};

fn faults(seed: u64, knobs: Knobs) -> Faults {
    Faults::new(seed, Arc::default(), knobs)
}

fn part(key: &str, number: u32) -> RequestFacts<'_> {
    RequestFacts { operation: "UploadPart", bucket: "bucket", key, part_number: Some(number) }
}

fn refusals(faults: &Faults, requests: u32) -> Vec<bool> {
    (0..requests).map(|n| faults.judge(part("k", n), Instant::now()).refusal.is_some()).collect()
}

#[test]
fn the_first_n_fail_and_no_more() {
    let faults = faults(
        1,
        Knobs {
            faults: vec![FaultRule::error("UploadPart", 503, "SlowDown").skip(1).times(2)],
            ..Knobs::default()
        },
    );
    assert_eq!(refusals(&faults, 5), vec![false, true, true, false, false]);
}

#[test]
fn the_seed_decides_and_other_operations_do_not_disturb() {
    let knobs = Knobs {
        faults: vec![FaultRule::error("UploadPart", 500, "InternalError").probability(0.3)],
        ..Knobs::default()
    };
    let plain = faults(7, knobs.clone());
    let expected = refusals(&plain, 100);
    let hits = expected.iter().filter(|&&hit| hit).count();
    assert!((15..45).contains(&hits), "{hits} of 100 at 0.3");

    let disturbed = faults(7, knobs.clone());
    let seen: Vec<bool> = (0..100)
        .map(|n| {
            let other = RequestFacts { operation: "GetObject", ..part("k", 0) };
            assert_eq!(disturbed.judge(other, Instant::now()), RequestFaults::default());
            disturbed.judge(part("k", n), Instant::now()).refusal.is_some()
        })
        .collect();
    assert_eq!(seen, expected);
    assert_ne!(refusals(&faults(8, knobs), 100), expected);
}

#[test]
fn rules_pick_by_part_and_prefix() {
    let faults = faults(
        1,
        Knobs {
            faults: vec![
                FaultRule::lose_answer("*").part(2),
                FaultRule::new("*", FaultAction::DelayMs(50.0)).key_prefix("slow/"),
            ],
            ..Knobs::default()
        },
    );
    assert!(!faults.judge(part("k", 1), Instant::now()).lose_answer);
    assert!(faults.judge(part("k", 2), Instant::now()).lose_answer);
    let delayed = faults.judge(part("slow/k", 1), Instant::now());
    assert_eq!(delayed.delay, Duration::from_millis(50));
}

#[test]
fn a_rule_of_two_operations_counts_them_together() {
    let rule = FaultRule::error("UploadPart|GetObject", 503, "SlowDown").times(1);
    let faults = faults(1, Knobs { faults: vec![rule], ..Knobs::default() });
    let is_refused = |operation| {
        let subject = RequestFacts { operation, ..part("k", 1) };
        faults.judge(subject, Instant::now()).refusal.is_some()
    };
    assert_eq!(["PutObject", "GetObject", "UploadPart"].map(is_refused), [false, true, false]);
}

#[test]
fn slow_requests_are_the_fraction_asked_for() {
    let faults = faults(
        3,
        Knobs {
            latency: Delay::FixedMs(10.0),
            slow: Some(Slow { fraction: 0.1, factor: 10.0, extra_ms: 1.0 }),
            ..Knobs::default()
        },
    );
    let delays: Vec<Duration> = (0..1000).map(|_| faults.judge(part("k", 1), Instant::now()).delay).collect();
    let slow = delays.iter().filter(|&&delay| delay == Duration::from_millis(101)).count();
    let normal = delays.iter().filter(|&&delay| delay == Duration::from_millis(10)).count();
    assert_eq!(slow + normal, 1000);
    assert!((70..130).contains(&slow), "{slow} of 1000 at 0.1");
}

#[test]
fn a_part_can_be_slow_once() {
    let rule = FaultRule::slow("UploadPart", 20.0).part(3).times(1);
    let knobs = Knobs { latency: Delay::FixedMs(10.0), faults: vec![rule], ..Knobs::default() };
    let faults = faults(3, knobs);
    let judged = |number| faults.judge(part("k", number), Instant::now());
    assert_eq!((judged(2).slow, judged(2).delay), (None, Duration::from_millis(10)));
    let slow = judged(3);
    assert_eq!((slow.slow, slow.delay), (Some(20.0), Duration::from_millis(200)));
    assert_eq!(judged(3).slow, None);
}

#[test]
fn each_prefix_has_its_own_rate() {
    let faults = faults(
        1,
        Knobs {
            rate_limit: Some(RateLimit {
                per_second: 2.0,
                burst: None,
                prefix_depth: 1,
                retry_after: Some(1),
            }),
            ..Knobs::default()
        },
    );
    let now = Instant::now();
    let refused = |key: &str, at| faults.judge(part(key, 1), at).refusal;
    assert_eq!(refused("a/1", now), None);
    assert_eq!(refused("a/2", now), None);
    let refusal = refused("a/3", now).unwrap();
    assert_eq!((refusal.status, refusal.retry_after), (503, Some(1)));
    assert_eq!(refused("b/1", now), None);
    assert_eq!(refused("a/4", now + Duration::from_millis(600)), None);
}

#[test]
fn a_name_is_not_a_prefix() {
    assert_eq!(prefix_of("b", "name", 1), "b/");
    assert_eq!(prefix_of("b", "a/name", 1), "b/a");
    assert_eq!(prefix_of("b", "a/c/name", 1), "b/a");
    assert_eq!(prefix_of("b", "a/c/name", 2), "b/a/c");
    assert_eq!(prefix_of("b", "a/c/name", 0), "b");
}
