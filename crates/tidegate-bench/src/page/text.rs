//! Text in a plot, where nothing wraps: how wide it is, and what of it fits.

/// Units of a plot that a character takes, with some to spare: fonts differ.
const CHARACTER: f64 = 7.0;

/// About how wide a text is.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// A text, or its beginning where it is wider than this.
pub(super) fn fit(text: &str, most: f64) -> String {
    let count = (most / CHARACTER).max(1.0) as usize;
    if text.chars().count() <= count {
        return text.to_owned();
    }
    text.chars().take(count - 1).chain(['…']).collect()
}

/// The lines of a label below an axis: a word each, the last with all that is left.
pub(super) fn lines(label: &str) -> Vec<String> {
    let mut words = label.split_whitespace();
    let mut lines: Vec<String> = words.by_ref().take(LINES - 1).map(str::to_owned).collect();
    let rest = words.collect::<Vec<_>>().join(" ");
    lines.extend(Some(rest).filter(|rest| !rest.is_empty()));
    lines
}

/// Most lines of a label.
pub(super) const LINES: usize = 3;
