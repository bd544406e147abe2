//! A caller's own backend that returns wrong receipts or answers.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use async_trait::async_trait;
use tokio::time::timeout;

use super::*;
use crate::backend::{Fault, FaultKind, Receipt, WriteOptions};
use crate::memory::payload::Payload;
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};
use crate::types::checksum::Checksum;

const LONG: Duration = Duration::from_secs(3600);

/// A store whose receipts name another part, or another size.
#[derive(Debug)]
struct Wrong {
    number: u32,
    size: u64,
}

#[async_trait]
impl Script for Wrong {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        match below.send(call).await? {
            Answer::Receipt(part) => {
                let (number, size) = (part.number + self.number, part.size + self.size);
                Ok(Answer::Receipt(Receipt { number, size, ..part }))
            }
            answer => Ok(answer),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_receipt_that_is_not_of_the_part_is_an_error() -> Result<()> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), data(3 * PART)).unwrap();
    for (number, size) in [(0, 1), (1, 0), (7, 0)] {
        let tide = engine();
        let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
        let store = Memory::new("test").with_capabilities(capabilities);
        let store = tide.store(Scripted::new(store, Wrong { number, size }));
        let mut writer = store.writer("k").start().await?;
        let written = timeout(LONG, async {
            writer.write_bytes(data(3 * PART)).await?;
            writer.finish().await
        });
        let error = written.await.expect("it waits for ever").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
        let error = store.upload(file.path(), "k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
        assert_nothing(&tide, &store).await;
    }
    Ok(())
}

/// A store that is stopped during a completion and then takes it for done, as a killed versitygw 1.8.0 does: it
/// answers the second completion with success although the object was never published.
#[derive(Debug)]
struct Stopped {
    before: Option<Bytes>,
    completions: AtomicU32,
}

#[async_trait]
impl Script for Stopped {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        let Call::Complete { checksum, .. } = call else { return below.send(call).await };
        if self.completions.fetch_add(1, Relaxed) == 0 {
            return Err(Fault::new(FaultKind::Transient, "the connection was closed"));
        }
        let completed = below.send(call).await?;
        match &self.before {
            Some(bytes) => {
                let checksum = Checksum::of(checksum.unwrap().algorithm(), bytes);
                let payload = Payload::from_memory(vec![bytes.clone()], checksum);
                let options = &WriteOptions::default();
                below.send(Call::Put { key: "k", payload, options }).await?;
            }
            None => drop(below.send(Call::Delete { key: "k", same: None }).await?),
        }
        Ok(completed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_succeeds_after_one_that_was_cut_is_looked_into() -> Result<()> {
    for before in [None, Some(data(100))] {
        let tide = engine();
        let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
        let store = Memory::new("test").with_capabilities(capabilities);
        let stopped = Stopped { before: before.clone(), completions: AtomicU32::new(0) };
        let store = tide.store(Scripted::new(store, stopped));
        let mut writer = store.writer("k").start().await?;
        writer.write_bytes(data(3 * PART)).await?;
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
        match before {
            Some(before) => assert_eq!(stored(&store, "k").await, before),
            None => assert_nothing(&tide, &store).await,
        }
    }
    Ok(())
}
