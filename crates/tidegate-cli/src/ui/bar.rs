//! The progress bar: one line, no wider than the terminal.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate::progress::Waiting;
use tidegate::text::printable;

use crate::{output, text};

/// Whether a stream goes to a terminal, so that people read it live.
pub(crate) fn is_terminal(stream: impl IsTerminal) -> bool {
    stream.is_terminal()
}

/// The figures that the bar shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarFigures {
    /// An object that is in flight.
    pub(crate) name: String,
    /// Bytes written to the socket, or received from it.
    pub(crate) moved: u64,
    /// Bytes that the store has acknowledged; `None` if nothing is uploaded.
    pub(crate) stored: Option<u64>,
    /// Total bytes to move; `None` if unknown.
    pub(crate) expected: Option<u64>,
    /// Objects that are done, and objects found so far, if there are several.
    pub(crate) objects: Option<(u64, u64)>,
    /// What the transfers wait for, if anything.
    pub(crate) waiting: Option<Waiting>,
}

/// A bar on standard error; cleared when it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    rate: Mutex<ByteRate>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // The test below would find a template that does not parse.
        bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
        output::set_bar(Some(bar.clone()));
        Self { bar, rate: Mutex::default() }
    }

    pub(crate) fn show(&self, state: &BarFigures) {
        let rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner).at(Instant::now(), state.moved);
        self.bar.set_message(drawn(state, rate, width()));
        self.bar.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        output::set_bar(None);
        self.bar.finish_and_clear();
    }
}

/// The number of columns of the terminal.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(80, |size| usize::from(size.ws_col)).clamp(20, 300)
}

/// Bytes per second over the last few seconds.
#[derive(Debug, Default)]
struct ByteRate {
    seen: VecDeque<(Instant, u64)>,
}

impl ByteRate {
    const SPAN: Duration = Duration::from_secs(5);
    /// The shortest time after which a rate is known.
    const LEAST: Duration = Duration::from_millis(500);

    /// The rate at time `now`, when `bytes` have moved in all; `None` while it is unknown.
    fn at(&mut self, now: Instant, bytes: u64) -> Option<f64> {
        self.seen.push_back((now, bytes));
        while self.seen.len() > 2 && self.seen[1].0 + Self::SPAN < now {
            self.seen.pop_front();
        }
        let (since, before) = *self.seen.front()?;
        let span = now.saturating_duration_since(since);
        let moved = bytes.saturating_sub(before);
        (span >= Self::LEAST && moved > 0).then(|| moved as f64 / span.as_secs_f64())
    }
}

/// From this width on, the line also shows moved and total bytes.
const WIDE: usize = 79;

/// The line, in at most `width` columns: name, objects, percentage, bytes stored, rate, time left; a bar if there is
/// room.
fn drawn(state: &BarFigures, rate: Option<f64>, width: usize) -> String {
    // The last column stays free: a terminal may wrap there.
    let width = width.saturating_sub(1);
    let moved = state.expected.map_or(state.moved, |expected| state.moved.min(expected));
    let share =
        state.expected.filter(|expected| *expected > 0).map(|expected| moved as f64 / expected as f64);
    let mut fields = Vec::new();
    if let Some((done, found)) = state.objects {
        fields.push(format!("{done} of {found}"));
    }
    match share {
        Some(share) => fields.push(format!("{:.0}%", (share * 100.0).floor())),
        None => fields.push(size(moved)),
    }
    if let Some(expected) = state.expected.filter(|_| width >= WIDE) {
        fields.push(format!("{}/{}", size(moved), size(expected)));
    }
    if let Some(stored) = state.stored {
        fields.push(format!("{} stored", size(stored)));
    }
    let left = state.expected.zip(rate).map(|(expected, rate)| (expected - moved) as f64 / rate);
    match state.waiting {
        Some(Waiting::Backoff) => fields.push("pausing".to_owned()),
        _ => {
            fields.push(rate.map_or_else(|| "–".to_owned(), |rate| format!("{}/s", size(rate as u64))));
            if state.expected.is_some() {
                fields.push(left.map_or_else(|| "–".to_owned(), clock));
            }
        }
    }
    let figures = fields.join("  ");
    let taken = figures.chars().count() + 2;
    let name = shortened(&state.name, width.saturating_sub(taken).min(40));
    let mut line = if name.is_empty() { figures } else { format!("{name}  {figures}") };
    let free = width.saturating_sub(line.chars().count());
    if let Some(share) = share.filter(|_| free >= 14) {
        let cells = (free - 4).min(30);
        let full = (share * cells as f64) as usize;
        line += &format!("  [{}{}]", "=".repeat(full), " ".repeat(cells - full));
    }
    line.chars().take(width).collect()
}

/// Shortens the name to `columns` by replacing its middle with `…`; empty below 8 columns.
fn shortened(name: &str, columns: usize) -> String {
    let name = printable(name);
    // This counts characters, but wide ones take two columns. So a name that is not ASCII gets half of the columns.
    let columns = if name.is_ascii() { columns } else { columns / 2 };
    let count = name.chars().count();
    if count <= columns {
        return name.into_owned();
    }
    if columns < 8 {
        return String::new();
    }
    let behind = columns / 2;
    let before = columns - 1 - behind;
    let start: String = name.chars().take(before).collect();
    let end: String = name.chars().skip(count - behind).collect();
    format!("{start}…{end}")
}

/// A size in at most seven columns: `480 MiB`, `1.2 GiB`.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 999.5 {
            let digits = usize::from(value < 9.95 && unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    text::size(bytes)
}

/// The time left: `0:43`, `1:02:03`, or days from one day on.
fn clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> BarFigures {
        BarFigures {
            name: "warehouse/part-00017-a-very-long-name-of-a-file.parquet".to_owned(),
            moved: 512 << 20,
            stored: Some(480 << 20),
            expected: Some(1 << 30),
            objects: Some((12, 301)),
            waiting: None,
        }
    }

    #[test]
    fn the_template_parses() {
        ProgressStyle::with_template("{msg}").unwrap();
    }

    #[test]
    fn everything_fits_fifty_columns() {
        let rate = Some(12.5 * f64::from(1 << 20));
        assert_eq!(drawn(&state(), rate, 50), "12 of 301  50%  480 MiB stored  12 MiB/s  0:41");
        let one = BarFigures { objects: None, name: "a-rather-long-name.tar.gz".to_owned(), ..state() };
        assert_eq!(drawn(&one, rate, 50), "a-rat…tar.gz  50%  480 MiB stored  12 MiB/s  0:41");
        for width in 20..200 {
            assert!(drawn(&state(), rate, width).chars().count() < width);
        }
        assert!(drawn(&state(), rate, 120).contains("[="));
        assert!(drawn(&state(), rate, 80).starts_with("wareho…parquet  12 of 301  50%  512 MiB/1.0 GiB"));
    }

    #[test]
    fn an_unknown_rate_has_no_time() {
        assert_eq!(drawn(&state(), None, 50), "wareh…rquet  12 of 301  50%  480 MiB stored  –  –");
        let mut rate = ByteRate::default();
        let now = Instant::now();
        assert_eq!(rate.at(now, 0), None);
        assert_eq!(rate.at(now + Duration::from_secs(1), 0), None, "nothing has moved");
        assert_eq!(rate.at(now + Duration::from_secs(2), 100), Some(50.0));
    }

    #[test]
    fn a_retried_byte_never_makes_more_than_all() {
        let state = BarFigures { moved: 3 << 30, ..state() };
        assert!(drawn(&state, None, 50).contains("100%"));
    }

    #[test]
    fn a_name_can_do_nothing_to_a_terminal() {
        let state = BarFigures { name: "\u{1b}[2Jx\ny".to_owned(), ..state() };
        assert!(drawn(&state, None, 100).starts_with(r"\u{1b}[2Jx\ny  12 of 301"));
    }
}
