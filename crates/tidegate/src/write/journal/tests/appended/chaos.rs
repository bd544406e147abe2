//! Seeded trouble on sessions that are appended to: faults of all kinds at once, and writers that are dropped in
//! the middle, disks that lose power.

use fastrand::Rng;

use super::*;

over_both! {
    on threads: whatever_happens_the_object_is_there_in_the_end
}

/// More of them: `TIDEGATE_JOURNAL_SEEDS=0..1000 cargo test -p tidegate --lib write::journal::tests::appended::chaos`.
fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("TIDEGATE_JOURNAL_SEEDS").ok();
    let range = given.as_deref().and_then(|given| given.split_once(".."));
    range.map_or(0..15, |(from, to)| from.parse().unwrap()..to.parse().unwrap())
}

async fn whatever_happens_the_object_is_there_in_the_end(over: GcsTransport) -> Result<()> {
    for seed in seeds() {
        tokio::time::timeout(Duration::from_secs(60), one(seed, over))
            .await
            .unwrap_or_else(|_| panic!("seed {seed} does not end"))?;
    }
    Ok(())
}

/// A fault that passes; one that takes the session away only where the journal `keeps_all`.
fn fault(random: &mut Rng, keeps_all: bool) -> Rule {
    let rest = [QUERY, "storage.resumable.start", "storage.objects.get", "storage.objects.insert"];
    let operation = if random.bool() { APPEND } else { rest[random.usize(..rest.len())] };
    let after_bytes = random.u64(..6 * GRAIN);
    let refusals =
        [(503, "backendError"), (500, "backendError"), (429, "rateLimitExceeded"), (503, ""), (408, "")];
    let (status, code) = refusals[random.usize(..refusals.len())];
    let code = code.to_owned();
    let action = match random.u32(..if keeps_all { 11 } else { 9 }) {
        0 | 1 => Action::ResetRequest { after_bytes },
        2 => Action::ResetResponse { after_bytes: after_bytes % 200 },
        3 => Action::CutHead,
        4 => Action::LoseAnswer,
        5 | 6 => Action::ErrorAfter { after_bytes, status, code },
        7 => Action::Stall { after_bytes, ms: 600.0 },
        8 => Action::Error { status, code, retry_after: None },
        _ => return Rule::new(operation, Action::AbortSessions).skip(random.u64(..4)).times(1),
    };
    Rule::new(operation, action).skip(random.u64(..3)).times(random.u64(1..8))
}

async fn one(seed: u64, over: GcsTransport) -> Result<()> {
    let mut random = Rng::with_seed(seed);
    let place = Google::new(over).await;
    let keeps_all = random.bool();
    let keep = if keeps_all { u64::MAX } else { random.u64(1..4 * CHUNK) };
    let durabilities = [
        Durability::Write,
        Durability::Sync,
        Durability::Group { bytes: 64 * KIB, delay: Duration::from_millis(2) },
    ];
    let durability = durabilities[random.usize(..3)];
    let retry = RetryPolicy {
        attempts: 4,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(20),
        patience: Duration::from_millis(400),
        least_patience: Duration::from_millis(100),
        slowest: 1 << 30,
        ..RetryPolicy::default()
    };
    let process =
        || place.process_of(place.builder().journal_keep(keep).durability(durability).retry(retry.clone()));
    let bytes = data(random.u64(0..40 * CHUNK));
    let mut power = Power::of(place.folder.path(), durability, random.fork());
    let (mut tide, mut store) = process().await;
    let mut writer: Option<Writer> = None;
    // Bytes whose write has returned.
    let mut written = 0;
    for step in 0.. {
        let faults = if step > 60 { 0 } else { random.usize(..3) };
        if random.u32(..3) == 0 || step > 60 {
            place.goes_wrong((0..faults).map(|_| fault(&mut random, keeps_all)).collect());
        }
        let Some(now) = &mut writer else {
            tide.settled().await;
            written = power.restart(written);
            if step <= 60 && random.u32(..8) == 0 {
                power.fail();
            }
            (tide, store) = process().await;
            let left = tide.recover().await?;
            assert!(left.len() <= 1, "seed {seed}: {left:?}");
            let Some(left) = left.first() else {
                place.goes_wrong(Vec::new());
                if let Ok(object) = store.head("k").await {
                    assert_eq!(object.size, bytes.len() as u64, "seed {seed}");
                    break;
                }
                assert_eq!(written, 0, "seed {seed}: nothing is left of {written} bytes");
                writer = match store.writer("k").strategy(Strategy::Journal).start().await {
                    Ok(writer) => Some(writer),
                    Err(error) if power.is_failing() => {
                        assert_eq!(error.operation(), crate::Operation::Write, "seed {seed}: {error}");
                        None
                    }
                    Err(error) => return Err(error),
                };
                continue;
            };
            let whole = left.is_finished();
            assert!(left.length() >= written, "seed {seed}: {} of {written} bytes", left.length());
            match left.resume_on(&store).await {
                Ok(Resumed::Writer(resumed)) => {
                    assert!(!whole && resumed.position() >= written, "seed {seed}");
                    power.synced(resumed.position());
                    writer = Some(resumed);
                }
                Ok(Resumed::Object(_)) => break,
                Err(error) => {
                    let expected = power.is_failing() || whole && step < 200;
                    assert!(expected, "seed {seed}, step {step}: {error}");
                }
            }
            continue;
        };
        let position = now.position();
        let rest = bytes.len() as u64 - position;
        match random.u32(..12) {
            0 => writer = None,
            1 => match now.sync().await {
                Ok(synced) => power.synced(synced),
                Err(_) => writer = None,
            },
            2 | 3 => tokio::time::sleep(Duration::from_millis(random.u64(..60))).await,
            4 if step <= 60 => power.fail(),
            _ if rest > 0 => {
                let piece = random.u64(1..=rest.min(5 * CHUNK));
                match now.write(bytes.slice(position as usize..(position + piece) as usize)).await {
                    Ok(()) => {
                        written = position + piece;
                        power.written(written);
                    }
                    Err(_) => writer = None,
                }
            }
            _ => {
                let whole = writer.take().unwrap();
                let finish = tokio::time::timeout(Duration::from_millis(random.u64(..2000)), whole.finish());
                if let Ok(Ok(_)) = finish.await {
                    break;
                }
            }
        }
    }
    tide.settled().await;
    place.check(&store, &bytes).await;
    let is_free = async {
        while tide.usage().held > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), is_free).await.unwrap_or_else(|_| panic!("seed {seed}"));
    Ok(())
}
