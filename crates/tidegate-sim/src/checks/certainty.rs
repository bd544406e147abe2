//! What a writer may leave open, and what it may take for certain.

use tidegate::{ErrorKind, Operation};

use super::{Run, writer_of};
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
            Operation::Complete => told.no_abort || told.gone,
            _ => false,
        };
        told.no_answer || (open && !own)
    }

    /// Whether another's object hides from a writer that its own was there, so that it says for certain
    /// what is not so. Two cases are left:
    ///
    /// - A store that says of any session that it was aborted in time. The object was published after it
    ///   was asked for and before the abort, and replaced before it was asked for again: nothing that
    ///   such a store says tells this from an abort in time.
    /// - `create_only`, where an answer was lost, the next attempt ran into the condition, and the object
    ///   that is there is another's. Nearly always that one was first; it may have replaced ours, and the
    ///   engine takes the likely for the certain. Saying `Uncertain` here would avoid it.
    pub(super) fn is_hidden(&self, number: usize, failed: &Failed) -> bool {
        let key = &self.subjects[number].key;
        let history = self.state.model.history(key);
        let Some(ours) = history.iter().position(|version| writer_of(version) == Some(number)) else {
            return false;
        };
        let Some(next) = history.get(ours + 1) else { return false };
        let (from, until) = (history[ours].at, next.at);
        let looked = |from: u64, until: u64| {
            let mut heads = self.state.witness.heads.iter();
            heads.any(|(head, at)| head == key && from < *at && *at < until)
        };
        // Whoever looked while it was there has seen it; of several writers it is not known who looked.
        let unseen = self.writers_of(number) > 1 || !looked(from, until);
        let asked = looked(until.saturating_sub(1), u64::MAX);
        let lenient = self.scenario.lenient_abort && failed.operation == Operation::Complete;
        let create = failed.kind == ErrorKind::AlreadyExists && self.state.witness.seen[number].doubt;
        unseen && asked && (lenient || create)
    }

    fn writers_of(&self, number: usize) -> usize {
        let key = &self.subjects[number].key;
        self.subjects.iter().filter(|subject| subject.key == *key).count()
    }
}
