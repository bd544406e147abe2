//! Writers that others end at the very moment that they go on.

use tokio::time::{advance, sleep};

use super::*;
use crate::budget::Holder;

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_writer_that_is_ended_as_it_goes_on_leaves_no_session() -> Result<()> {
    let tide = engine();
    let store = store(&tide);
    let mut writer = store.writer("k").start().await?;
    writer.write(data(PART)).await?;
    // The next byte comes: the writer was not ended when it looked, and is now.
    writer.plan.more().unwrap();
    advance(LIMIT).await;
    assert!(writer.held.end_idle(LIMIT));
    assert_eq!(writer.dispatch().unwrap_err().kind(), ErrorKind::Idle);
    drop(writer);
    sleep(LIMIT).await;
    assert_nothing(&tide, &store).await;
    Ok(())
}
