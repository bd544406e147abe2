//! Reads under random faults: every byte is right, or an error says why.
//!
//! `TIDEGATE_READ_RUNS=2000 TIDEGATE_READ_SEED=1` sets the number of runs and the seed.

use tokio::io::AsyncSeekExt;

use super::*;

#[derive(Debug)]
pub(super) struct Random {
    random: fastrand::Rng,
    /// How many of a hundred requests go wrong.
    odd: u32,
}

impl Random {
    pub(super) fn new(random: fastrand::Rng, odd: u32) -> Self {
        Self { random, odd }
    }
}

impl Fates for Random {
    fn next(&mut self, range: &Option<Range<u64>>) -> Fate {
        let random = &mut self.random;
        let len = range.as_ref().map_or(MIB, |range| range.end.saturating_sub(range.start).clamp(1, 4 * MIB));
        if random.u32(0..100) >= self.odd {
            return Fate::Well;
        }
        let at = random.u64(0..len);
        match random.u32(0..5) {
            0 => Fate::Breaks(at),
            1 => Fate::EndsEarly(at),
            2 => Fate::Stalls(at, Duration::from_secs(random.u64(1..200))),
            3 => Fate::Refused,
            _ => Fate::Shifted(random.u64(1..100)),
        }
    }
}

async fn run(seed: u64) -> std::result::Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let len = match random.u32(0..4) {
        0 => random.u64(0..100_000),
        _ => random.u64(0..24 * MIB),
    };
    let data = bytes_of(len, seed);
    let fates = Random::new(random.fork(), random.u32(0..40));
    let odd = Odd::with(&data, fates).await;
    let memory = [MIB, 2 * MIB, 5 * MIB, 64 * MIB][random.usize(0..4)];
    let concurrency = [Concurrency::Auto, Concurrency::Fixed(1), Concurrency::Fixed(3)][random.usize(0..3)];
    let store = store(&odd, |tide| tide.memory(memory).concurrency(concurrency));
    let range = match random.bool() {
        true => 0..len,
        false => {
            let start = random.u64(0..=len);
            start..random.u64(start..=len)
        }
    };
    let reader = store.reader("k");
    let reader = if range == (0..len) { reader } else { reader.range(range.clone()) };
    let replaced_at = random.u64(0..100);
    let (mut reads, mut position) = (0, 0);
    let mut reader = match reader.start().await {
        Ok(reader) => reader,
        // The range begins at the end of an object that is not empty.
        Err(error) if error.kind() == ErrorKind::InvalidInput && range.start == len => return Ok(()),
        Err(error) => return clean(&error),
    };
    let slice = &data[range.start as usize..range.end as usize];
    let seeks = random.u32(0..3) == 0;
    loop {
        reads += 1;
        if reads == replaced_at {
            odd.replace(&bytes_of(len, !seed)).await;
        }
        if seeks && random.u32(0..4) == 0 {
            position = random.usize(0..=slice.len());
            reader
                .seek(std::io::SeekFrom::Start(position as u64))
                .await
                .map_err(|error| error.to_string())?;
        }
        if random.u32(0..50) == 0 {
            sleep(Duration::from_secs(random.u64(0..100))).await;
        }
        let mut buffer = vec![0; random.usize(1..2_000_000)];
        let got = match reader.read(&mut buffer).await {
            Ok(got) => got,
            Err(error) => {
                let error = error.into_inner().and_then(|error| error.downcast::<Error>().ok());
                return clean(&*error.ok_or("an error of no kind")?);
            }
        };
        let end = position + got;
        if end > slice.len() || buffer[..got] != slice[position..end] {
            return Err(format!("bytes {position}..{end} are not right"));
        }
        position = end;
        if got == 0 {
            if position != slice.len() {
                return Err(format!("it ended at {position} of {}", slice.len()));
            }
            if !seeks || reads > 50 {
                break;
            }
        }
    }
    let usage = store.context().engine().budget.usage();
    if usage.peak > memory {
        return Err(format!("{usage:?}"));
    }
    drop(reader);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    match (store.context().engine().budget.usage().held, odd.bodies.load(Relaxed)) {
        (0, 0) => Ok(()),
        left => Err(format!("bytes held, and bodies open, behind the end: {left:?}")),
    }
}

pub(super) fn clean(error: &Error) -> std::result::Result<(), String> {
    let is_clean = matches!(
        error.kind(),
        ErrorKind::Replaced | ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Timeout
    );
    if is_clean && error.object().ends_with("/k") { Ok(()) } else { Err(error.to_string()) }
}

#[test]
fn every_byte_is_right_or_there_is_an_error() {
    let number = |name, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let (runs, first) = (number("TIDEGATE_READ_RUNS", 40), number("TIDEGATE_READ_SEED", 0));
    for seed in first..first + runs {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        let ended = runtime.block_on(async { timeout(Duration::from_secs(100_000), run(seed)).await });
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(wrong)) => panic!("seed {seed}: {wrong}"),
            Err(_) => panic!("seed {seed}: it waits for ever"),
        }
    }
}
