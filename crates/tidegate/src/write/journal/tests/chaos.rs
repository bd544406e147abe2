//! Seeded trouble: a store that comes and goes, forgets its sessions, loses answers; writers that are
//! dropped in the middle; and, of every other seed, a disk that loses power. What was written, or was durable when
//! the power went, is there in the end, once, and nothing else.

use fastrand::Rng;

use super::*;

/// More of them: `TIDEGATE_JOURNAL_SEEDS=0..1000 cargo test -p tidegate --lib write::journal::tests::chaos`.
fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("TIDEGATE_JOURNAL_SEEDS").ok();
    let range = given.as_deref().and_then(|given| given.split_once(".."));
    range.map_or(0..30, |(from, to)| from.parse().unwrap()..to.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_the_object_is_there_in_the_end() -> Result<()> {
    for seed in seeds() {
        tokio::time::timeout(Duration::from_secs(60), one(seed))
            .await
            .unwrap_or_else(|_| panic!("seed {seed} does not end"))?;
    }
    Ok(())
}

/// What comes of `work`, or nothing where it is cancelled in the middle.
async fn cut<T>(random: &mut Rng, work: impl Future<Output = T>) -> Option<T> {
    if random.u32(..4) > 0 {
        return Some(work.await);
    }
    tokio::time::timeout(Duration::from_micros(random.u64(..3000)), work).await.ok()
}

async fn one(seed: u64) -> Result<()> {
    let mut random = Rng::with_seed(seed);
    let place = Place::new();
    let keeps_all = random.bool();
    let keep = if keeps_all { u64::MAX } else { random.u64(1..256 * KIB) };
    let durabilities = [
        Durability::Write,
        Durability::Sync,
        Durability::Group { bytes: 64 * KIB, delay: Duration::from_millis(2) },
    ];
    let durability = durabilities[random.usize(..3)];
    let process = || place.process_of(place.builder().journal_keep(keep).durability(durability));
    let bytes = data(random.u64(0..40 * PART));
    let mut power = Power::of(place.folder.path(), durability, random.fork());
    place.backend.end_with(power.disk.clone());
    let (mut tide, mut store) = process();
    let mut writer: Option<Writer> = None;
    // Bytes whose write has returned.
    let mut written = 0;
    for step in 0.. {
        if step > 60 {
            place.backend.go_down(false); // enough
        }
        let Some(now) = &mut writer else {
            tide.settled().await;
            written = power.restart(written);
            if step <= 60 && random.u32(..8) == 0 {
                power.fail();
            }
            (tide, store) = process();
            let left = tide.recover().await?;
            assert!(left.len() <= 1, "seed {seed}: {left:?}");
            let Some(left) = left.first() else {
                place.backend.go_down(false);
                if let Ok(object) = store.head("k").await {
                    assert_eq!(object.size, bytes.len() as u64, "seed {seed}");
                    break;
                }
                assert_eq!(written, 0, "seed {seed}: nothing is left of {written} bytes");
                writer = match place.writer(&store).await {
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
                    assert!(power.is_failing() || whole && step < 200, "seed {seed}: {error}");
                }
            }
            continue;
        };
        let position = now.position();
        let rest = bytes.len() as u64 - position;
        match random.u32(..20) {
            0 => place.backend.go_down(true),
            1 | 2 => place.backend.go_down(false),
            3 => writer = None,
            4 if keeps_all => place.backend.forget_sessions().await,
            5 => match now.sync().await {
                Ok(synced) => power.synced(synced),
                Err(_) => writer = None,
            },
            6 => tokio::time::sleep(Duration::from_millis(random.u64(..20))).await,
            7 => place.backend.lose_answers(random.bool()),
            8 if step <= 60 => power.fail(),
            _ if rest > 0 => {
                let piece = random.u64(1..=rest.min(3 * PART));
                let write = now.write(bytes.slice(position as usize..(position + piece) as usize));
                match cut(&mut random, write).await {
                    Some(Ok(())) => {
                        written = position + piece;
                        power.written(written);
                    }
                    Some(Err(_)) => writer = None,
                    None => {} // some of it was taken
                }
            }
            _ => {
                if let Some(whole) = writer.take()
                    && let Some(Ok(_)) = cut(&mut random, whole.finish()).await
                {
                    break;
                }
            }
        }
    }
    place.backend.go_down(false);
    tide.settled().await;
    assert_eq!(stored(&store, "k").await, bytes, "seed {seed}");
    assert_eq!((place.files(), place.sessions_with_parts(&store).await), (0, 0), "seed {seed}");
    assert_eq!(tide.usage().held, 0, "seed {seed}");
    Ok(())
}
