//! The progress bar.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate::Waiting;

use crate::text;

/// Whether people read it as it is written.
pub(crate) fn is_terminal(stream: impl IsTerminal) -> bool {
    stream.is_terminal()
}

/// What the bar shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// That the store has acknowledged.
    pub(crate) bytes: u64,
    /// Of so many; `None` where nobody knows.
    pub(crate) expected: Option<u64>,
    /// Objects copied, where there are several.
    pub(crate) objects: Option<u64>,
    /// What is waited for.
    pub(crate) waiting: Option<Waiting>,
}

/// A bar on standard error; gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Self { bar }
    }

    pub(crate) fn show(&self, state: &State) {
        let expected = state.expected.filter(|expected| *expected > 0);
        if self.bar.length() != expected || self.bar.position() == 0 {
            self.bar.set_style(style(expected.is_some()));
        }
        match expected {
            Some(expected) => self.bar.set_length(expected),
            None => self.bar.unset_length(),
        }
        self.bar.set_message(message(state));
        self.bar.set_position(state.bytes);
        self.bar.tick();
    }

    /// Clears the bar while something else is written.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(knows_total: bool) -> ProgressStyle {
    let template = if knows_total {
        "[{wide_bar}] {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left{msg}"
    } else {
        "{spinner} {binary_bytes}  {binary_bytes_per_sec}  {elapsed}{msg}"
    };
    let style = ProgressStyle::with_template(template);
    // A template that does not parse would be found by the test below.
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

fn message(state: &State) -> String {
    let mut message = String::new();
    if let Some(objects) = state.objects {
        message += &format!("  {}", text::count(objects, "object"));
    }
    if let Some(waiting) = state.waiting {
        message += &format!("  {waiting}");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_parse() {
        for knows_total in [false, true] {
            let style = format!("{:?}", style(knows_total).get_tick_str(0));
            assert!(!style.is_empty());
        }
    }

    #[test]
    fn the_message_names_the_wait() {
        let waiting = Some(Waiting::Memory);
        let state = State { bytes: 0, expected: None, objects: Some(3), waiting };
        assert_eq!(message(&state), "  3 objects  waiting for memory");
    }
}
