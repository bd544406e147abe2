//! Seeks in readers.

use std::io::SeekFrom;

use tokio::io::AsyncSeekExt;

use super::*;

#[tokio::test]
async fn seeks_keep_what_is_of_use() {
    let data = bytes_of(100 * MIB, 5);
    let odd = Odd::with(&data, well()).await;
    let store = store(&odd, |tide| tide);
    let mut reader = store.reader("k").start().await.unwrap();
    let mut buffer = vec![0; 10 * MIB as usize];
    reader.read_exact(&mut buffer).await.unwrap();
    let asked = odd.requests();
    // Seek a little back, and forward over bytes in flight; then ask for the position.
    for to in [10 * MIB - 5, 9 * MIB, 12 * MIB, 11 * MIB] {
        assert_eq!(reader.seek(SeekFrom::Start(to)).await.unwrap(), to);
        reader.read_exact(&mut buffer[..1000]).await.unwrap();
        assert!(buffer[..1000] == data[to as usize..to as usize + 1000]);
        assert_eq!(reader.stream_position().await.unwrap(), to + 1000);
    }
    assert!(odd.requests() <= asked + 3, "{} after {asked}: {:?}", odd.requests(), odd.asked);
    // Seek far away, and past the end.
    let to = reader.seek(SeekFrom::End(-10)).await.unwrap();
    assert_eq!(to, 100 * MIB - 10);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.unwrap();
    assert!(rest == data[data.len() - 10..]);
    reader.seek(SeekFrom::End(10)).await.unwrap();
    assert_eq!(reader.read(&mut buffer).await.unwrap(), 0);
    reader.seek(SeekFrom::Start(3)).await.unwrap();
    assert_eq!(reader.read_u8().await.unwrap(), data[3]);
    assert!(reader.seek(SeekFrom::Current(-5)).await.is_err());
}

/// A seek past the last bytes of an open response must not keep the response and its connection open.
#[tokio::test]
async fn an_answer_that_was_left_behind_is_closed() {
    let data = bytes_of(100 * MIB, 5);
    let end = 4 * MIB - 100_000;
    let odd = Odd::with(&data, vec![Fate::Breaks(end)].into_iter()).await;
    let store = store(&odd, |tide| tide);
    let mut reader = store.reader("k").start().await.unwrap();
    // The first 4 MiB are followed by chunks of 4 MiB.
    let mut buffer = vec![0; end as usize];
    reader.read_exact(&mut buffer).await.unwrap();
    let to = 4 * MIB + 100_000;
    reader.seek(SeekFrom::Start(to)).await.unwrap();
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.unwrap();
    assert!(rest == data[to as usize..]);
    assert_eq!(odd.bodies.load(Relaxed), 0);
}
