//! Measures and cuts text in a plot, where text does not wrap.

/// Width of a character in units of a plot, with some to spare because fonts differ.
const CHARACTER: f64 = 7.0;

/// The approximate width of a text.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// A text, cut if it is wider than `most`.
pub(super) fn fit(text: &str, most: f64) -> String {
    let count = (most / CHARACTER).max(1.0) as usize;
    if text.chars().count() <= count {
        return text.to_owned();
    }
    text.chars().take(count - 1).chain(['…']).collect()
}

/// The lines of a label below an axis: one word each, the last with the rest.
pub(super) fn lines(label: &str) -> Vec<String> {
    let mut words = label.split_whitespace();
    let mut lines: Vec<String> = words.by_ref().take(LINES - 1).map(str::to_owned).collect();
    let rest = words.collect::<Vec<_>>().join(" ");
    lines.extend(Some(rest).filter(|rest| !rest.is_empty()));
    lines
}

/// Most lines of a label.
pub(super) const LINES: usize = 3;
