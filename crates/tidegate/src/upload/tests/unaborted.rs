//! A store that aborts no session, as Azure Blob Storage: nothing stops a completion that is on its way.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;

use super::*;
use crate::backend::{Fault, FaultKind};
use crate::testkit::scripted::{Answer, Below, Call, Script, Scripted};

/// What becomes of a completion.
#[derive(Clone, Copy, Debug)]
enum CompletionFate {
    CarriedOut,
    /// It is carried out, and its answer is lost.
    AnswerLost,
    /// It does not arrive, or later.
    OnItsWay,
    /// Another commit of the key has discarded the parts.
    Discarded,
}

/// A store without aborts.
#[derive(Debug, Default)]
struct WithoutAborts {
    /// The fates of the completions in order; the last one is that of all further ones.
    fates: Vec<CompletionFate>,
    completions: AtomicUsize,
    aborts: Arc<AtomicUsize>,
}

#[async_trait]
impl Script for WithoutAborts {
    async fn answer(&self, call: Call<'_>, below: Below<'_>) -> Result<Answer, Fault> {
        if let Call::Abort { .. } = call {
            self.aborts.fetch_add(1, Relaxed);
            return Err(Fault::new(FaultKind::Unsupported, "there is no abort"));
        }
        let Call::Complete { .. } = call else { return below.send(call).await };
        let at = self.completions.fetch_add(1, Relaxed).min(self.fates.len() - 1);
        match self.fates[at] {
            CompletionFate::CarriedOut => below.send(call).await,
            CompletionFate::AnswerLost => {
                below.send(call).await?;
                Err(Fault::new(FaultKind::Transient, "the connection was closed"))
            }
            CompletionFate::OnItsWay => Err(Fault::new(FaultKind::Transient, "the connection was closed")),
            CompletionFate::Discarded => {
                Err(Fault::new(FaultKind::NoSession, "the blocks are gone").with_answered(true))
            }
        }
    }
}

fn without_aborts(tide: &Tidegate, fates: &[CompletionFate]) -> (Store, Arc<AtomicUsize>) {
    let capabilities = Capabilities { min_part: 4 * KIB, aborts: false, ..Capabilities::default() };
    let script = WithoutAborts { fates: fates.to_vec(), ..WithoutAborts::default() };
    let aborts = script.aborts.clone();
    (tide.store(Scripted::new(Memory::new("test").with_capabilities(capabilities), script)), aborts)
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_completion_is_what_the_store_says_and_no_abort_is_asked_for() -> Result<()> {
    use CompletionFate::{AnswerLost, CarriedOut, Discarded, OnItsWay};
    for (fates, expected) in [
        (&[CarriedOut][..], None),
        // The object has the writer's token.
        (&[AnswerLost, Discarded], None),
        (&[AnswerLost], None),
        (&[OnItsWay, CarriedOut], None),
        // The store refused the only attempt.
        (&[Discarded], Some(ErrorKind::SessionLost)),
        // The first attempt may arrive yet.
        (&[OnItsWay], Some(ErrorKind::Uncertain)),
        // It may have been carried out, and the object been removed since.
        (&[OnItsWay, Discarded], Some(ErrorKind::Uncertain)),
    ] {
        let tide = engine();
        let (store, aborts) = without_aborts(&tide, fates);
        let mut writer = store.writer("k").start().await?;
        writer.write_bytes(data(3 * PART)).await?;
        let finished = writer.finish().await;
        assert_eq!(finished.as_ref().err().map(crate::Error::kind), expected, "{fates:?}: {finished:?}");
        tide.settled().await;
        assert_eq!((aborts.load(Relaxed), tide.usage().held), (0, 0), "{fates:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_is_left_to_the_store() -> Result<()> {
    let tide = engine();
    let (store, aborts) = without_aborts(&tide, &[CompletionFate::CarriedOut]);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(3 * PART)).await?;
    drop(writer);
    let mut writer = store.writer("k").start().await?;
    writer.write_bytes(data(3 * PART)).await?;
    writer.abort().await?;
    tide.settled().await;
    assert_eq!((aborts.load(Relaxed), store.list("").count().await, tide.usage().held), (0, 0, 0));
    Ok(())
}
