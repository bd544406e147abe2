//! A caller's own backend that returns wrong receipts or answers.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use async_trait::async_trait;
use tokio::time::timeout;

use super::*;
use crate::backend::{
    Attempt, Backend, Fault, FaultKind, Layer, PartSource, Parts, Receipt, Session, WriteOptions,
};
use crate::memory::payload::Payload;
use crate::types::checksum::Checksum;
use crate::types::object::Object;

const LONG: Duration = Duration::from_secs(3600);

/// A store whose receipts name another part, or another size.
#[derive(Debug)]
struct Wrong {
    store: Memory,
    number: u32,
    size: u64,
}

#[async_trait]
impl Layer for Wrong {
    fn below(&self) -> &dyn Backend {
        &self.store
    }

    async fn part(
        &self,
        session: &Session,
        number: u32,
        offset: u64,
        source: PartSource<'_>,
        attempt: Attempt,
    ) -> Result<Receipt, Fault> {
        let receipt = self.store.part(session, number, offset, source, attempt).await?;
        Ok(Receipt { number: receipt.number + self.number, size: receipt.size + self.size, ..receipt })
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
        let store = tide.store(Arc::new(Wrong { store, number, size }));
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
    store: Memory,
    before: Option<Bytes>,
    completions: AtomicU32,
}

#[async_trait]
impl Layer for Stopped {
    fn below(&self) -> &dyn Backend {
        &self.store
    }

    async fn complete(
        &self,
        session: &Session,
        parts: &[Receipt],
        checksum: Option<&Checksum>,
        options: &WriteOptions,
        attempt: Attempt,
    ) -> Result<Object, Fault> {
        if self.completions.fetch_add(1, Relaxed) == 0 {
            return Err(Fault::new(FaultKind::Transient, "the connection was closed"));
        }
        let object = self.store.complete(session, parts, checksum, options, attempt).await?;
        match &self.before {
            Some(bytes) => {
                let checksum = Checksum::of(checksum.unwrap().algorithm(), bytes);
                let before = Payload::from_memory(vec![bytes.clone()], checksum);
                self.store.put("k", before, &WriteOptions::default(), attempt).await?;
            }
            None => self.store.delete("k", attempt).await?,
        }
        Ok(object)
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_succeeds_after_one_that_was_cut_is_looked_into() -> Result<()> {
    for before in [None, Some(data(100))] {
        let tide = engine();
        let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
        let store = Memory::new("test").with_capabilities(capabilities);
        let store = Stopped { store, before: before.clone(), completions: AtomicU32::new(0) };
        let store = tide.store(Arc::new(store));
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
