//! Uploads that end without an object are freed with their store and engine.

use super::*;

/// The backend of a writer that has opened a session.
async fn with_a_session(tide: &Tidegate) -> Result<(Arc<Memory>, crate::Writer)> {
    let capabilities = Capabilities { min_part: 4 * KIB, ..Capabilities::default() };
    let backend = Arc::new(Memory::new("test").with_capabilities(capabilities));
    let mut writer = tide.store(backend.clone()).writer("k").start().await?;
    writer.write_bytes(data(3 * PART)).await?;
    Ok((backend, writer))
}

#[tokio::test]
async fn a_writer_that_is_dropped_or_fails_leaves_nothing_behind() -> Result<()> {
    for fails in [false, true] {
        let tide = engine();
        let (backend, mut writer) = with_a_session(&tide).await?;
        if fails {
            let error = direct(&mut writer).closed();
            direct(&mut writer).fail(error);
        }
        drop(writer);
        assert!(tide.settled().await.is_empty());
        drop(tide);
        let backend = Arc::downgrade(&{ backend });
        // Relief and the requests end a little later, in their own tasks.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(backend.upgrade().is_none(), "fails: {fails}");
    }
    Ok(())
}
