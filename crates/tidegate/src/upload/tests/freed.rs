//! Uploads that end without an object: nothing of them is kept, and nothing more is sent.

use futures::FutureExt;

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

#[tokio::test]
async fn a_request_that_was_not_sent_before_the_drop_is_never_sent() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(100)).await?;
    // The task of the request has not run yet.
    assert!(writer.finish().now_or_never().is_none());
    assert_nothing(&tide, &store).await;
    Ok(())
}
