//! Journals of uploads to servers without sessions of parts.

use super::*;
use crate::recover::Resumed;

async fn begin(store: &Store, parts: usize) -> Writer {
    store.writer("k").strategy(Strategy::Journal).concurrency(parts).start().await.unwrap()
}

impl Emulator {
    async fn process(&self) -> (Tidegate, Store) {
        let tide = self.builder().journal([self.folder.path().join("journal")]).build().unwrap();
        let store = tide.open("gs://bucket").await.unwrap();
        (tide, store)
    }
}

async fn every_emulator() -> [Emulator; 2] {
    [Emulator::new(GcsTransport::Http).await, Emulator::fake_gcs_server().await]
}

#[tokio::test]
async fn every_length_gives_the_object() {
    for emulator in every_emulator().await {
        for parts in [1, 3] {
            for len in [0, PART, PART + 1, 3 * PART + GRAIN + 7] {
                let (tide, store) = emulator.process().await;
                let bytes = data(len);
                let mut writer = begin(&store, parts).await;
                for piece in bytes.chunks(1_000_000) {
                    writer.write_bytes(Bytes::copy_from_slice(piece)).await.unwrap();
                }
                assert_eq!(writer.finish().await.unwrap().size, len);
                check(&store, "k", &bytes).await;
                store.delete("k").await.unwrap();
                tide.settled().await;
            }
        }
    }
}

#[tokio::test]
async fn a_process_that_resumes_finishes_the_object() {
    for emulator in every_emulator().await {
        for parts in [1, 3] {
            let bytes = data(4 * PART + GRAIN + 7);
            let (tide, store) = emulator.process().await;
            let mut writer = begin(&store, parts).await;
            writer.write_bytes(bytes.slice(..3 * PART as usize + 9)).await.unwrap();
            writer.sync().await.unwrap();
            acknowledged(&writer, PART).await;
            drop(writer);
            tide.settled().await;
            assert!(is_missing(&store, "k").await, "nothing is published before the end");
            let (tide, store) = emulator.process().await;
            let left = tide.recover().await.unwrap().pop().unwrap();
            let Resumed::Writer(mut writer) = left.resume().await.unwrap() else {
                panic!("its producer had not finished")
            };
            let rest = bytes.slice(writer.position() as usize..);
            writer.write_bytes(rest).await.unwrap();
            writer.finish().await.unwrap();
            check(&store, "k", &bytes).await;
            store.delete("k").await.unwrap();
        }
    }
}
