//! One task that feeds many writers in turn: while it waits for memory, no writer's producer goes on.

use super::*;

const MIB: u64 = 1 << 20;
/// The smallest slab.
const LEAST: u64 = 4 * KIB;

/// Opens this many writers, gives each of them `each` bytes in turn, `piece` bytes at a time, and finishes them in
/// turn. Returns the most memory that was held at once.
async fn feed_in_turn(tide: &Tidegate, store: &Store, writers: u64, each: u64, piece: u64) -> Result<u64> {
    let reserved = tide.usage().held;
    let bytes = data(piece);
    let mut open = Vec::new();
    for number in 0..writers {
        open.push(store.writer(format!("{number}")).start().await?);
    }
    for fed in (0..each).step_by(piece as usize) {
        for writer in &mut open {
            writer.write_bytes(bytes.slice(..piece.min(each - fed) as usize)).await?;
        }
    }
    for writer in open {
        assert_eq!(writer.finish().await?.size, each);
    }
    assert_eq!(tide.usage().held, reserved);
    Ok(tide.usage().peak)
}

#[tokio::test(start_paused = true)]
async fn five_hundred_writers_fit_into_the_default_memory() -> Result<()> {
    // 131 MB in all, and a little more than a power of two for each writer.
    for (each, piece) in
        [(262_000, 8 * KIB), (263 * KIB, KIB), (263 * KIB, 64 * KIB), (263 * KIB, MIB), (470 * KIB, 16 * KIB)]
    {
        let tide = Tidegate::builder().build()?;
        let store = tide.store(Arc::new(Memory::new("test")));
        let peak = feed_in_turn(&tide, &store, 500, each, piece).await;
        let peak = peak.unwrap_or_else(|error| panic!("{each} bytes each, by {piece}: {error}"));
        assert!(peak <= 500 * (each * 3 / 2 + LEAST), "{peak} bytes held of {}", 500 * each);
    }
    Ok(())
}

/// As [`crate::Builder::memory`] promises.
#[tokio::test(start_paused = true)]
async fn as_many_fit_as_their_bytes_and_the_largest_part_allow() -> Result<()> {
    let (memory, part) = (8 * MIB, 256 * KIB);
    for (each, piece) in [(5_000_u64, 300), (20_000, 1_000), (70_000, 10_000), (200_000, 100_000)] {
        let tide = Tidegate::builder().memory(memory).slab(64 << 10).part_size(part).build()?;
        let store = store(&tide);
        let fit = (memory - part) / each.next_multiple_of(LEAST);
        let peak = feed_in_turn(&tide, &store, fit, each, piece).await;
        let peak = peak.unwrap_or_else(|error| panic!("{fit} with {each} bytes each: {error}"));
        assert!(peak <= memory);

        let more = memory / each + 1;
        let error = feed_in_turn(&tide, &store, more, each, piece).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Starved, "{error}");
        assert!(error.to_string().contains("set a spool directory, raise the memory"), "{error}");
        tide.settled().await;
        assert_eq!(tide.usage().held, 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn with_a_spool_as_many_fit_as_the_disk_takes() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let tide = Tidegate::builder().memory(8 * MIB).slab(64 << 10).spool([folder.path()]).build()?;
    let store = tide.store(Arc::new(Memory::new("test")));
    let peak = feed_in_turn(&tide, &store, 100, 263 * KIB, 8 * KIB).await?;
    assert!(peak <= 8 * MIB);
    Ok(())
}
