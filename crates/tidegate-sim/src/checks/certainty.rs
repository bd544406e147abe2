//! Checks whether a writer may report that a commit's outcome is uncertain.

use tidegate::Operation;

use super::RunChecks;
use crate::actor::WriterFailure;

impl RunChecks<'_> {
    /// True when the outcome of a commit may stay unknown: the last HEAD was not answered; or the other answers
    /// leave the outcome open, and no HEAD found the writer's own object.
    pub(super) fn is_open(&self, number: usize, failed: &WriterFailure) -> bool {
        let told = self.state.witness.seen[number].told;
        // Where the key has several writers, another writer's HEAD may have found the object.
        let own = told.own && self.writers_of(number) == 1;
        let open = match failed.operation {
            // A put has no session to abort: the store may still carry out an unanswered attempt, and another
            // writer's object may have replaced this one.
            Operation::Put => told.late || told.another,
            // The session is gone, and the store does not say whether it was aborted or completed. A successful
            // abort would have settled that. Where the store confirms any abort, another writer's object may
            // have replaced this one.
            Operation::Complete => {
                told.no_abort || told.gone || (told.another && self.scenario.lenient_abort)
            }
            _ => false,
        };
        told.no_answer || (open && !own)
    }

    fn writers_of(&self, number: usize) -> usize {
        let key = &self.subjects[number].key;
        self.subjects.iter().filter(|subject| subject.key == *key).count()
    }
}
