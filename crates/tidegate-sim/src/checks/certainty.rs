//! What a writer may leave open, and what it may take for certain.

use tidegate::Operation;

use super::Run;
use crate::actor::Failed;

impl Run<'_> {
    /// Whether the store could not tell what became of a commit: asking was not answered; or the answer
    /// leaves it open, and the object was never seen to be the writer's own.
    pub(super) fn is_open(&self, number: usize, failed: &Failed) -> bool {
        let told = self.state.witness.seen[number].told;
        // Another writer of the key may have seen it, and that is taken down here too.
        let own = told.own && self.writers_of(number) == 1;
        let open = match failed.operation {
            // No session to end: a request that nobody answered may come yet, and another's object may
            // lie over this one.
            Operation::Put => told.late || told.another,
            // It is ended or was committed, by whom is not said. An abort in time would have settled it.
            // Where the store says that of any abort, another's object may lie over this one.
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
