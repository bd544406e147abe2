//! Readers and writers under one budget.

use super::*;
use crate::Strategy;

/// Reads `each` bytes at a time from each reader in turn, as a merge does.
async fn in_turns(mut readers: Vec<Reader>, data: &[u8], each: usize) {
    let mut buffer = vec![0; each];
    for at in (0..data.len()).step_by(each) {
        for reader in &mut readers {
            let expected = &data[at..data.len().min(at + each)];
            timeout(Duration::from_secs(60), reader.read_exact(&mut buffer[..expected.len()]))
                .await
                .unwrap()
                .unwrap();
            assert!(buffer[..expected.len()] == *expected);
        }
    }
}

#[tokio::test]
async fn many_readers_go_on_with_little_memory_and_one_request_at_a_time() {
    let data = bytes_of(10 * MIB, 1);
    for concurrency in [Concurrency::Fixed(1), Concurrency::Auto] {
        let odd = Odd::with(&data, well()).await;
        let store = store(&odd, |tide| tide.memory(4 * MIB).concurrency(concurrency));
        let mut readers = Vec::new();
        for _ in 0..30 {
            readers.push(store.reader("k").start().await.unwrap());
        }
        in_turns(readers, &data, MIB as usize).await;
        let usage = store.context().engine().budget.usage();
        assert!(usage.peak <= 4 * MIB && usage.held == 0, "{usage:?}");
    }
}

#[tokio::test]
async fn what_is_read_ahead_gives_way_to_writers() {
    let data = bytes_of(60 * MIB, 1);
    let odd = Odd::with(&data, well()).await;
    let store = store(&odd, |tide| tide.memory(20 * MIB).part_size(5 * MIB));
    let mut reader = store.reader("k").start().await.unwrap();
    let mut got = 0;
    while store.context().engine().budget.usage().held < 6 * MIB {
        got += reader.try_next().await.unwrap().expect("it reads further and further ahead").len() as u64;
    }
    // The consumer of the reader writes, and does not read meanwhile.
    let mut writers = Vec::new();
    for at in 0..4 {
        let writer = store.writer(format!("w{at}")).strategy(Strategy::Parallel).start().await.unwrap();
        writers.push(writer);
    }
    for _ in 0..70 {
        for writer in &mut writers {
            let write = writer.write_bytes(vec![1; 70_000].into());
            timeout(Duration::from_secs(20), write).await.expect("it waits for ever").unwrap();
        }
    }
    for writer in writers {
        timeout(Duration::from_secs(20), writer.finish()).await.expect("it waits for ever").unwrap();
    }
    while let Some(piece) = reader.try_next().await.unwrap() {
        got += piece.len() as u64;
    }
    assert_eq!(got, 60 * MIB);
    assert!(store.context().engine().budget.usage().peak <= 20 * MIB);
}

#[tokio::test]
async fn a_slow_consumer_holds_what_was_read_ahead_and_no_turn() {
    let data = bytes_of(60 * MIB, 1);
    let odd = Odd::with(&data, well()).await;
    let store = store(&odd, |tide| tide.concurrency(Concurrency::Fixed(2)));
    let mut slow = store.reader("k").start().await.unwrap();
    slow.try_next().await.unwrap();
    // Meanwhile another reader reads the whole object.
    let other = timeout(Duration::from_secs(60), async { all(store.reader("k").start().await?).await });
    assert!(other.await.expect("it waits for ever").unwrap() == data);
    assert!(odd.bodies.load(Relaxed) <= 1, "the open one");
    drop(slow);
}

/// Chunks are tasks of the runtime on which the reader was started.
#[test]
fn a_reader_whose_first_runtime_has_ended_goes_on_or_fails() {
    let data = bytes_of(60 * MIB, 1);
    let first = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
    let (odd, mut reader) = first.block_on(async {
        let odd = Odd::with(&data, well()).await;
        let store = store(&odd, |tide| tide);
        let mut reader = store.reader("k").start().await.unwrap();
        reader.try_next().await.unwrap();
        (odd, reader)
    });
    drop(first);
    let second = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
    second.block_on(async {
        let rest = async { while let Ok(Some(_)) = reader.try_next().await {} };
        timeout(Duration::from_secs(10), rest).await.expect("it waits for ever");
    });
    drop(odd);
}
