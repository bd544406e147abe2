//! A cut download keeps every byte that arrived.

use super::*;
use crate::testkit::figures::Figures;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

const STALLED: Duration = Duration::from_secs(1000);

/// Each response stalls after the next of these numbers of bytes; the last number is repeated.
#[derive(Debug)]
struct Stalling(Vec<u64>);

impl Fates for Stalling {
    fn next(&mut self, _: &Option<Range<u64>>) -> Fate {
        let at = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] };
        Fate::Stalls(at, STALLED)
    }
}

impl Place {
    /// Cuts a download after `patience`, when it has stalled.
    async fn cut_after(&self, patience: Duration) {
        let cut = timeout(patience, self.run()).await;
        assert!(cut.is_err(), "{cut:?}");
        self.is_let_go().await;
    }
}

async fn place(data: &[u8], requests: usize, stalls: &[u64]) -> Place {
    let fixed = Concurrency::Fixed(requests);
    Place::with(data, Stalling(stalls.to_vec()), |tide| tide.concurrency(fixed).hedge(false)).await
}

#[tokio::test(start_paused = true)]
async fn bytes_of_unfinished_ranges_are_kept() {
    let figures = Figures::default();
    let _recorder = metrics::set_default_local_recorder(&figures);
    let data = bytes_of(40 * MIB, 3);
    let stalls = [3 * MIB, 7, 5 * MIB + 3];
    let place = place(&data, 3, &[&stalls[..], &[0]].concat()).await;
    place.cut_after(Duration::from_secs(5)).await;
    assert_eq!(place.entries(), [&stalls[..], &[0, 0]].concat());
    let counted = place.store.context().engine().progress.snapshot();
    assert_eq!((counted.kept, counted.kept_of), (stalls.iter().sum(), 40 * MIB));
    assert_eq!(figures.of("bytes_read_total{}"), stalls.iter().sum::<u64>() as f64);

    *place.odd.fates.lock().unwrap() = Box::new(well());
    place.odd.asked.lock().unwrap().clear();
    place.run().await.unwrap();
    place.is_whole(&data);
    let asked = place.odd.asked.lock().unwrap().clone();
    let rest: Vec<_> =
        stalls.iter().zip(0..).map(|(at, n)| Some(n * 8 * MIB + at..(n + 1) * 8 * MIB)).collect();
    assert_eq!(asked[..3], rest);
    assert_eq!(place.odd.sent.load(Relaxed), 40 * MIB, "no byte is sent twice");
    assert_eq!(figures.of("bytes_read_total{}"), (40 * MIB) as f64, "no byte is counted twice");
}

/// Also for an object that fits in one request.
#[tokio::test(start_paused = true)]
async fn one_answer_is_resumed_at_the_exact_byte() {
    let data = bytes_of(2 * MIB, 3);
    let place = place(&data, 1, &[300_001, 1, 1_000_000, MIB * 9]).await;
    for kept in [300_001, 300_002, 1_300_002] {
        place.cut_after(Duration::from_secs(5)).await;
        assert_eq!(place.entries(), [kept]);
    }
    place.run().await.unwrap();
    place.is_whole(&data);
    let from = |at: u64| Some(at..2 * MIB);
    let asked = [None, from(300_001), from(300_002), from(1_300_002)];
    assert_eq!(*place.odd.asked.lock().unwrap(), asked);
    assert_eq!(place.odd.sent.load(Relaxed), 2 * MIB);
}

/// A process that is killed leaves a note of all bytes but those of the last second.
#[tokio::test(start_paused = true)]
async fn what_has_come_is_noted_within_a_second() {
    let data = bytes_of(40 * MIB, 3);
    let place = place(&data, 3, &[3 * MIB, 7, 5 * MIB + 3, 0]).await;
    let noted = async {
        sleep(Duration::from_millis(1100)).await;
        place.entries()
    };
    tokio::select! {
        done = place.run() => panic!("it was not cut: {done:?}"),
        noted = noted => assert_eq!(noted, [3 * MIB, 7, 5 * MIB + 3, 0, 0]),
    }
}

/// A process that is killed before a byte arrives leaves a file that the next download finds and removes.
#[tokio::test(start_paused = true)]
async fn a_file_without_bytes_is_found_again() {
    let data = bytes_of(20 * MIB, 3);
    let place = place(&data, 3, &[0]).await;
    let killed = async {
        sleep(Duration::from_millis(100)).await;
        [place.part(), place.note()].map(|path| (fs::read(&path).unwrap(), path))
    };
    let left = tokio::select! {
        done = place.run() => panic!("it was not cut: {done:?}"),
        left = killed => left,
    };
    assert!(place.names().is_empty(), "a download that is only dropped leaves nothing: {:?}", place.names());
    fs::create_dir_all(place.path().parent().unwrap()).unwrap();
    for (bytes, path) in left {
        fs::write(path, bytes).unwrap();
    }
    *place.odd.fates.lock().unwrap() = Box::new(well());
    place.run().await.unwrap();
    place.is_whole(&data);
}

#[test]
fn however_often_it_is_cut_no_byte_is_sent_twice() {
    for seed in 0..6 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut random = fastrand::Rng::with_seed(seed);
            let data = bytes_of(random.u64(300_000..30 * MIB), seed);
            let stalls: Vec<u64> = (0..1000).map(|_| random.u64(0..3 * MIB)).collect();
            let place = place(&data, random.usize(1..5), &stalls).await;
            let mut runs = 0;
            while timeout(Duration::from_secs(5), place.run()).await.is_err() {
                runs += 1;
                assert!(runs < 200, "seed {seed}: it makes no progress");
            }
            place.is_whole(&data);
            let (sent, size) = (place.odd.sent.load(Relaxed), data.len() as u64);
            // When a chunk has been read to its end, a few more bytes of its response are in flight.
            assert!(sent <= size + 100_000, "seed {seed}: {sent} for {size} in {runs} runs");
        });
    }
}

/// One download has the note; the other works without a note, and leaves nothing.
#[tokio::test(start_paused = true)]
async fn of_two_at_once_that_are_cut_one_is_kept() {
    let data = bytes_of(20 * MIB, 3);
    let place = place(&data, 4, &[MIB]).await;
    let both = async { tokio::join!(place.run(), place.run()) };
    assert!(timeout(Duration::from_secs(5), both).await.is_err());
    place.is_let_go().await;
    assert!(place.entries().iter().sum::<u64>() >= MIB);
    *place.odd.fates.lock().unwrap() = Box::new(well());
    let (one, two) = tokio::join!(place.run(), place.run());
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
    place.is_whole(&data);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_is_kept_too() {
    let data = bytes_of(20 * MIB, 3);
    // Every request beside the first range, or after it, is refused.
    let refused = vec![Fate::Refused; 100];
    let fates = [vec![Fate::Breaks(MIB)], refused.clone()].concat();
    let policy = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let with = |tide: crate::TidegateBuilder| tide.concurrency(Concurrency::Fixed(1)).retry(policy);
    let place = Place::with(&data, fates.into_iter(), with).await;
    place.run().await.unwrap_err();
    assert_eq!(place.entries(), [MIB, 0, 0]);
    *place.odd.fates.lock().unwrap() = Box::new(refused.into_iter());
    place.run().await.unwrap_err();
    assert_eq!(place.entries(), [MIB, 0, 0]);
    *place.odd.fates.lock().unwrap() = Box::new(well());
    place.run().await.unwrap();
    place.is_whole(&data);
    assert!(place.odd.sent.load(Relaxed) <= 20 * MIB + 100_000);
}

/// A slow link has few ranges in flight, in file order.
#[tokio::test(start_paused = true)]
async fn a_slow_link_has_few_in_flight() {
    /// Passes on one piece of each response in turn, 5 MB a second in total.
    #[derive(Debug, Default)]
    struct Slow {
        turn: Arc<tokio::sync::Mutex<()>>,
        asked: Mutex<Vec<u64>>,
        bodies: Arc<AtomicU64>,
        most: AtomicU64,
    }
    impl Slow {
        fn paced(&self, mut body: Body) -> Body {
            self.most.fetch_max(self.bodies.fetch_add(1, Relaxed) + 1, Relaxed);
            let (turn, counted) = (self.turn.clone(), Arc::new(Counted(self.bodies.clone())));
            // 50,000 bytes every ten milliseconds.
            let pieces = body.stream.flat_map(|piece| {
                let mut pieces = Vec::new();
                match piece {
                    Ok(mut bytes) => {
                        while !bytes.is_empty() {
                            pieces.push(Ok(bytes.split_to(bytes.len().min(50_000))));
                        }
                    }
                    Err(fault) => pieces.push(Err(fault)),
                }
                futures::stream::iter(pieces)
            });
            let paced = pieces.then(move |piece| {
                let (turn, counted) = (turn.clone(), counted.clone());
                async move {
                    let _turn = turn.lock().await;
                    sleep(Duration::from_millis(10)).await;
                    drop(counted);
                    piece
                }
            });
            body.stream = paced.boxed();
            body
        }
    }

    #[async_trait::async_trait]
    impl Script for Slow {
        async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
            if let Call::Get { range, .. } = &call {
                self.asked.lock().unwrap().push(range.as_ref().map_or(0, |range| range.start));
            }
            match below.send(call).await? {
                Answer::Body(body) => Ok(Answer::Body(self.paced(body))),
                answer => Ok(answer),
            }
        }
    }
    let data = bytes_of(100 * MIB, 3);
    let odd = Odd::with(&data, well()).await;
    let slow = Scripted::new(odd.memory.clone(), Slow::default());
    let store = Tidegate::builder().memory(256 * MIB).build().unwrap().store(slow.clone());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    store.download("k", &path).run().await.unwrap();
    assert!(fs::read(&path).unwrap() == data);
    assert!(slow.most.load(Relaxed) <= 6, "{} were in flight", slow.most.load(Relaxed));
    let asked = slow.asked.lock().unwrap().clone();
    assert!(asked.is_sorted() && asked.len() == 13, "{asked:?}");
}

/// Some stores look at the range first, and then do not say that the object is another.
#[tokio::test(start_paused = true)]
async fn a_smaller_object_that_replaced_the_first_is_downloaded_from_its_beginning() {
    let place = place(&bytes_of(40 * MIB, 3), 1, &[9 * MIB]).await;
    place.cut_after(Duration::from_secs(5)).await;
    let data = bytes_of(5 * MIB, 4);
    place.odd.replace(&data).await;
    *place.odd.fates.lock().unwrap() = Box::new(vec![Fate::PastTheEnd].into_iter());
    assert_eq!(place.run().await.unwrap().size, 5 * MIB);
    place.is_whole(&data);
}
