//! Feeds many writers in turn from one task.

use std::time::Duration;

use tidegate::Writer;
use tokio::time::sleep;

use super::{Actor, WriterFailure, WriterOutcome};
use crate::scenario::{Ending, ProducerPlan, WriterSource};

/// A writer that the task feeds.
struct Fed {
    actor: Actor,
    producer: ProducerPlan,
    writer: Option<Writer>,
    given: usize,
    outcome: Option<WriterOutcome>,
}

/// Feeds all writers, one piece each at a time, and returns their outcomes.
pub async fn feed(actors: Vec<Actor>) -> Vec<(usize, WriterOutcome)> {
    sleep(Duration::from_millis(5)).await;
    let mut all = Vec::new();
    for mut actor in actors {
        let WriterSource::Producer(producer) = actor.plan.source.clone() else { continue };
        let started = actor.builder().await;
        let mut fed = Fed { actor, producer, writer: None, given: 0, outcome: None };
        match started {
            Ok(writer) => fed.writer = Some(writer),
            Err(error) => fed.end(Err(error.into())),
        }
        all.push(fed);
    }
    while step_each(&mut all, false).await {}
    let holding = all.iter().find(|fed| fed.outcome.is_none()).map(|fed| fed.actor.curtain.clone());
    if let Some(curtain) = holding {
        all.iter().filter(|fed| fed.outcome.is_none()).for_each(|fed| fed.actor.set("holding"));
        curtain.fallen().await;
    }
    while step_each(&mut all, true).await {}
    all.into_iter().filter_map(|fed| Some((fed.actor.number, fed.outcome?))).collect()
}

/// Takes one step for each writer; true if any writer took a step. With `last`, writers that were holding
/// continue too.
async fn step_each(all: &mut [Fed], last: bool) -> bool {
    let mut any = false;
    for fed in all {
        any |= fed.outcome.is_none() && fed.step(last).await;
    }
    any
}

impl Fed {
    async fn step(&mut self, last: bool) -> bool {
        let returns = last && matches!(self.actor.plan.ending, Ending::Return(_));
        let stop = if returns { self.actor.plan.size } else { self.actor.stop() };
        let stop = usize::try_from(stop).unwrap_or(usize::MAX).min(self.actor.content.len());
        let Some(writer) = &mut self.writer else { return false };
        if self.given < stop {
            match self.actor.produce_one(writer, &self.producer, self.given, stop).await {
                Ok(given) => self.given = given,
                Err(failed) => {
                    self.actor.check_closed(writer).await;
                    self.end(Err(failed));
                }
            }
            return true;
        }
        if self.actor.plan.ending.holds().is_some() && !last {
            return false;
        }
        if let Some(writer) = self.writer.take() {
            let ended = self.actor.end(writer).await;
            self.end(ended);
        }
        true
    }

    fn end(&mut self, ended: Result<WriterOutcome, WriterFailure>) {
        self.writer = None;
        self.outcome = Some(self.actor.ended(ended));
    }
}
