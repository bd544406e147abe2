//! Shows what operations on trees tell: events become lines, a bar, and JSON.

use tidegate_transfer::Event;

use crate::output;

pub(crate) mod bar;
pub(crate) mod lines;
pub(crate) mod report;

/// Prints a warning, a notice or a failure on standard error. Other events need a place of their own.
pub(crate) fn tell(event: Event) {
    match event {
        Event::Warning(text) => output::warn(&text),
        Event::Notice(text) => output::say(&text),
        Event::Failed(failure) => output::fail(&failure.error.into()),
        _ => {}
    }
}
