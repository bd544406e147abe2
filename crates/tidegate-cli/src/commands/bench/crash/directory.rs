//! The directory that a run creates for its journals.

use std::path::{Path, PathBuf};

use crate::exit::{Failure, Outcome};
use crate::{output, text};

/// Creates the directory.
pub(super) fn new() -> Outcome<PathBuf> {
    match tempfile::Builder::new().prefix("tidegate-crash-").tempdir() {
        Ok(directory) => Ok(directory.keep()),
        Err(error) => {
            let place = std::env::temp_dir();
            Err(Failure::Failed(format!("no directory for journals in {}: {error}", place.display())))
        }
    }
}

/// Removes the journals, except in two cases: the run failed, and they may show why; or the run was interrupted, and
/// only they name the sessions that are left in a store that this run did not start.
pub(super) fn clear(journal: &Path, done: &Outcome, is_store_named: bool) {
    let stays = match done {
        Ok(()) => false,
        Err(Failure::Interrupted(_)) => is_store_named,
        Err(_) => true,
    };
    if stays && std::fs::read_dir(journal).is_ok_and(|mut entries| entries.next().is_some()) {
        let sentence = format!("the journals are in {}", journal.display());
        if !is_store_named {
            return output::say(&sentence);
        }
        let directory = text::quoted(&journal.display().to_string());
        let command = format!("`tidegate journal abort {directory} --all`");
        return output::say(&format!("{sentence}: {command} ends what is left of their uploads"));
    }
    // A failure does no harm: temporary directories are cleaned up by the system, too.
    let _ = std::fs::remove_dir_all(journal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Signal;

    #[test]
    fn the_journals_of_a_run_that_failed_stay() {
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("journal");
        let failed = || Err(Failure::Failed(String::new()));
        let interrupted = || Err(Failure::Interrupted(Signal::Interrupt));
        let cases = [
            (failed(), false, true),
            (failed(), true, true),
            (interrupted(), true, true), // only the journals name what is left in the store
            (interrupted(), false, false),
            (Ok(()), true, false),
        ];
        for (done, is_store_named, stays) in cases {
            std::fs::create_dir_all(&journal).unwrap();
            std::fs::write(journal.join("1.journal"), "bytes").unwrap();
            clear(&journal, &done, is_store_named);
            assert_eq!(journal.exists(), stays, "{done:?}, {is_store_named}");
        }
        std::fs::create_dir_all(&journal).unwrap();
        clear(&journal, &failed(), true);
        assert!(!journal.exists(), "there is nothing in it");
    }
}
