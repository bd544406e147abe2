//! Writers that the engine ends as idle at the very moment they continue.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::runtime::Handle;
use tokio::time::{advance, sleep};

use super::*;
use crate::memory::budget::Holder;

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_writer_that_is_ended_as_it_goes_on_leaves_no_session() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(PART)).await?;
    // The next byte arrives. The writer was not ended when it checked, but is ended before it dispatches.
    let direct = direct(&mut writer);
    direct.plan.more().unwrap();
    advance(LIMIT).await;
    assert!(direct.source.part_buffer.end_idle(LIMIT));
    assert_eq!(direct.act().unwrap_err().kind(), ErrorKind::Idle);
    drop(writer);
    sleep(LIMIT).await;
    assert_nothing(&tide, &store).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_has_just_been_given_memory_is_not_idle() -> Result<()> {
    for _ in 0..3000 {
        let tide = engine();
        let store = store(&tide);
        let budget = store.context().engine().budget.clone();
        let mut writer = store.writer("k").start().await?;
        writer.write_bytes(data(4096)).await?;
        let rest = budget.try_lease(budget.total() - budget.usage().held).unwrap();
        let part_buffer = direct(&mut writer).source.part_buffer.clone();
        let writing = tokio::spawn(async move { writer.write_bytes(data(100)).await.map(|()| writer) });
        while budget.usage().waiting == 0 {
            tokio::task::yield_now().await;
        }
        advance(2 * LIMIT).await;
        // Ends the idle writer on another thread, as relief does.
        let (runtime, over) = (Handle::current(), Arc::new(AtomicBool::new(false)));
        let ends = std::thread::spawn({
            let over = over.clone();
            move || {
                let _entered = runtime.enter();
                while !over.load(Relaxed) && !part_buffer.end_idle(LIMIT) {}
            }
        });
        drop(rest);
        let wrote = writing.await.unwrap();
        over.store(true, Relaxed);
        ends.join().unwrap();
        wrote?.finish().await?;
    }
    Ok(())
}
