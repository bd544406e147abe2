//! Checks that a run without faults makes the fewest possible requests.

use tidegate::{Operation, Strategy};

use super::RunChecks;
use crate::actor::WriterOutcome;
use crate::scenario::Ending;

impl RunChecks<'_> {
    pub(super) fn check_counts(&mut self, number: usize, outcome: &WriterOutcome, hedges: u64) {
        let plan = &self.scenario.writers[number];
        // The engine retries when a store stalls for longer than its latency lets expect.
        if !self.scenario.profile.is_calm() || self.scenario.stall.is_some() {
            return;
        }
        let seen = &self.state.witness.seen[number];
        let [put, open, part, complete, abort] =
            [Operation::Put, Operation::Open, Operation::Part, Operation::Complete, Operation::Abort]
                .map(|operation| seen.count(operation));
        // Each hedge sends one part more; the engine reports the hedges.
        let part = part - hedges.min(part);
        let first_part = self.scenario.part(plan);
        let parts = plan.size.div_ceil(first_part);
        let fewest = match outcome {
            WriterOutcome::Committed(_) if plan.strategy == Strategy::Put || plan.size <= first_part => {
                (put, open, part, complete, abort) == (1, 0, 0, 0, 0)
            }
            WriterOutcome::Committed(_) => {
                part > 1 && part <= parts && (put, open, complete, abort) == (0, 1, 1, 0)
            }
            // When a writer that ended for idling is then aborted, the engine aborts the session again, to be
            // sure.
            WriterOutcome::Aborted(_) if plan.idle_limit.is_some() => {
                put + complete == 0 && open <= 1 && part <= parts && (open..=open * 3).contains(&abort)
            }
            // An opened session is aborted once; twice if the request of a part was given up.
            WriterOutcome::Failed(_) | WriterOutcome::Aborted(_) => {
                put + complete <= 1 && open <= 1 && part <= parts && (open..=2 * open).contains(&abort)
            }
            WriterOutcome::Dropped => {
                let finishing = matches!(plan.ending, Ending::DropInFinish(_));
                let committing = put + complete;
                committing <= u64::from(finishing) && open <= 1 && part <= parts && abort <= 2 * open
            }
        };
        let kept = seen.count(Operation::Head) == 0
            || self.subjects.iter().filter(|s| s.key == plan.key).count() > 1;
        self.hold(fewest && kept, || {
            let requests = &seen.requests;
            format!("writer {number} needed {requests:?} for {outcome:?} of {plan:?}, parts of {first_part}")
        });
    }
}
