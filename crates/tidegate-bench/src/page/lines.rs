//! Draws a plot of lines: one value by another, a line for each way.

use maud::{Markup, html};

use super::axis::{Axis, short};
use super::plot::{Drawing, WIDTH, legend, marker, place};
use super::text;

/// A line: points in the order in which they are joined.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// The line's name.
    pub(super) name: String,
    /// The number of the colour and the marker; the same thing looks the same in all plots.
    pub(super) look: usize,
    /// Whether the values were measured here, not published or demanded.
    pub(super) is_measured: bool,
    /// Along both axes.
    pub(super) points: Vec<(f64, f64)>,
}

/// A plot of lines with its axes.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    /// The name of the horizontal axis.
    pub(super) x_name: &'a str,
    /// The name of the vertical axis.
    pub(super) y_name: &'a str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

const HEIGHT: f64 = 190.0;
/// Height of the axis's name above the plot.
const TOP: f64 = 24.0;
/// Height of a line of text.
const LINE: f64 = 14.0;
/// Room for the markers of the outermost points.
const ROOM: f64 = 10.0;
/// With more points, markers would hide the line.
const MOST_MARKED: usize = 40;

impl Lines<'_> {
    pub(super) fn draw(&self) -> Drawing {
        let left = self.y.ticks.iter().map(|(_, name)| text::width(name)).fold(0.0, f64::max) + 6.0;
        let bottom = TOP + HEIGHT;
        let across = |value| self.x.at(value).map(|at| left + ROOM + at * (WIDTH - left - 2.0 * ROOM));
        let down = |value| self.y.at(value).map(|at| bottom - at * HEIGHT);
        let names = below(&self.x, across);
        let deepest = names.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0) as f64;
        let end = bottom + 4.0 + deepest * LINE + LINE + 4.0;
        let body = html! {
            text class="name" x="0" y="12" { (self.y_name) }
            @for (value, name) in &self.y.ticks {
                @if let Some(y) = down(*value) {
                    path class="grid" d=(format!("M{} {}H{WIDTH}", place(left), place(y))) {}
                    text class="end" x=(place(left - 4.0)) y=(place(y + 4.0)) { (name) }
                }
            }
            path class="grid" d=(format!("M{} {}H{WIDTH}", place(left), place(bottom))) {}
            @for (x, lines) in &names {
                @for (number, line) in lines.iter().enumerate() {
                    text class="middle" x=(place(*x)) y=(place(bottom + LINE * (number as f64 + 1.0) + 2.0)) { (line) }
                }
            }
            text class="name middle" x=(place(left + (WIDTH - left) / 2.0)) y=(place(end - 3.0)) { (self.x_name) }
            @for series in &self.series {
                (draw(series, &across, &down))
            }
        };
        let keys = self
            .series
            .iter()
            .map(|series| (series.name.as_str(), series.look, series.is_measured))
            .collect();
        Drawing { height: end, body, legend: legend(keys) }
    }
}

fn draw(series: &Series, across: &impl Fn(f64) -> Option<f64>, down: &impl Fn(f64) -> Option<f64>) -> Markup {
    let mut line = String::new();
    let mut markers = Vec::new();
    let mut is_joined = false;
    for &(x_value, y_value) in &series.points {
        // A value that is not on its axis leaves a gap.
        let (Some(x), Some(y)) = (across(x_value), down(y_value)) else {
            is_joined = false;
            continue;
        };
        line.push_str(&format!("{}{} {}", if is_joined { 'L' } else { 'M' }, place(x), place(y)));
        is_joined = true;
        markers.push((marker(series.look, x, y), y_value));
    }
    let is_marked = markers.len() <= MOST_MARKED;
    html! {
        g class=(format!("c{}{}", series.look, if series.is_measured { "" } else { " said" })) {
            path class="line" d=(line) {}
            @if is_marked {
                @for (shape, value) in markers {
                    path class="marker" d=(shape) { title { (series.name) ": " (short(value)) } }
                }
            }
        }
    }
}

/// The labels below an axis that fit, with the places of their middles.
fn below(axis: &Axis, across: impl Fn(f64) -> Option<f64>) -> Vec<(f64, Vec<String>)> {
    let mut free_from = 0.0;
    let mut names = Vec::new();
    for (value, name) in &axis.ticks {
        let Some(x) = across(*value) else { continue };
        let lines: Vec<_> = text::lines(name).iter().map(|line| text::fit(line, 70.0)).collect();
        let half = lines.iter().map(|line| text::width(line)).fold(0.0, f64::max) / 2.0;
        let x = x.clamp(half, (WIDTH - half).max(half));
        if x - half >= free_from {
            free_from = x + half + 2.0;
            names.push((x, lines));
        }
    }
    names
}
