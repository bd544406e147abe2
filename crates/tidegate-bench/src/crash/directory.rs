//! The directory that a run creates for its journals.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::interrupt::InterruptedRun;

/// Creates the directory.
pub(super) fn new() -> Result<PathBuf> {
    match tempfile::Builder::new().prefix("tidegate-crash-").tempdir() {
        Ok(directory) => Ok(directory.keep()),
        Err(error) => {
            let place = std::env::temp_dir();
            Err(format!("no directory for journals in {}: {error}", place.display()).into())
        }
    }
}

/// Removes the journals, except in two cases: the run failed, and they may show why; or the run was interrupted, and
/// only they name the sessions that are left in a store that this run did not start.
pub(super) fn clear<T>(journal: &Path, done: &Result<T>, is_store_named: bool) {
    let stays = match done {
        Ok(_) => false,
        Err(error) if error.is::<InterruptedRun>() => is_store_named,
        Err(_) => true,
    };
    if stays && std::fs::read_dir(journal).is_ok_and(|mut entries| entries.next().is_some()) {
        let directory = journal.display();
        let advice = if is_store_named {
            format!(": `tidegate journal abort {directory} --all` ends what is left of their uploads")
        } else {
            String::new()
        };
        eprintln!("the journals are in {directory}{advice}");
        return;
    }
    // A failure does no harm: temporary directories are cleaned up by the system, too.
    let _ = std::fs::remove_dir_all(journal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journals_of_a_run_that_failed_stay() {
        let directory = tempfile::tempdir().unwrap();
        let journal = directory.path().join("journal");
        let failed = || Err("a reason".into());
        let interrupted = || Err(InterruptedRun { exit_code: 130 }.into());
        let cases: [(Result<()>, bool, bool); 5] = [
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
        clear::<()>(&journal, &failed(), true);
        assert!(!journal.exists(), "there is nothing in it");
    }
}
