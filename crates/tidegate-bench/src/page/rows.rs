//! Draws plots of rows: bars, and values along a line. The name of a row stands above it, where it has the
//! whole width.

use maud::{Markup, html};

use super::axis::{Axis, short};
use super::plot::{Drawing, WIDTH, marker, place};
use super::text;
use crate::stats::{RunSpread, quantile};

/// A bar from 0 to the median, with a thinner line from the smallest to the largest value.
#[derive(Clone, Debug)]
pub(super) struct PlotBar {
    pub(super) name: String,
    /// The values as text.
    pub(super) said: String,
    pub(super) spread: RunSpread,
    /// The colour: `ours`, `peer` or `floor`.
    pub(super) kind: &'static str,
}

/// Values of one kind.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    /// The published value, if any.
    pub(super) said: Option<f64>,
    pub(super) kind: &'static str,
}

/// Height of a row: its name, and the drawing below.
const ROW: f64 = 34.0;
const NAME: f64 = 12.0;
const BAR: f64 = 11.0;
/// Room for half a marker or number beside the outermost places.
const ROOM: f64 = 10.0;
/// With more values, a box shows more than points.
const MOST_POINTS: usize = 12;

/// Draws bars that all begin at 0.
pub(super) fn bars(bars: &[PlotBar]) -> Drawing {
    let axis = Axis::from_zero(bars.iter().flat_map(|bar| [bar.spread.median, bar.spread.max]));
    let across = |value: f64| axis.at(value).map(|at| at * WIDTH);
    let body = html! {
        @for (number, bar) in bars.iter().enumerate() {
            @let top = number as f64 * ROW;
            @let middle = top + NAME + 5.0 + BAR / 2.0;
            (name(&bar.name, top, WIDTH - text::width(&bar.said) - 8.0))
            text class="end" x=(place(WIDTH)) y=(place(top + NAME)) { (bar.said) }
            g class=(bar.kind) {
                rect class="track" x="0" y=(place(middle - BAR / 2.0)) width=(place(WIDTH)) height=(place(BAR)) {}
                @if let Some(end) = across(bar.spread.median) {
                    rect class="bar" x="0" y=(place(middle - BAR / 2.0)) width=(place(end)) height=(place(BAR)) {}
                }
                @if let (Some(least), Some(most)) = (across(bar.spread.min), across(bar.spread.max)) {
                    path class="range" d=(format!("M{} {}H{}", place(least), place(middle), place(most))) {}
                }
            }
        }
    };
    Drawing { height: bars.len() as f64 * ROW, body, legend: html! {} }
}

/// Draws values along one axis from 0, with a line where `reference` is.
pub(super) fn strips(strips: &[Strip], axis: &Axis, unit: &str, reference: Option<f64>) -> Drawing {
    let across = |value: f64| axis.at(value).map(|at| ROOM + at * (WIDTH - 2.0 * ROOM));
    let bottom = strips.len() as f64 * ROW + 2.0;
    // Only beside the values, because a line through a name makes the name hard to read.
    let beside = |number: usize| number as f64 * ROW + NAME + 3.0;
    let segment =
        |x: f64, number: usize| format!("M{} {}v{}", place(x), place(beside(number)), ROW - NAME - 1.0);
    let line = |value: f64| {
        across(value).map(|x| (0..strips.len()).map(|number| segment(x, number)).collect::<String>())
    };
    let body = html! {
        @for (value, _) in &axis.ticks {
            @if let Some(line) = line(*value) { path class="grid" d=(line) {} }
        }
        @if let Some(line) = reference.and_then(line) { path class="reference" d=(line) {} }
        @for (number, strip) in strips.iter().enumerate() {
            @let top = number as f64 * ROW;
            (name(&strip.name, top, WIDTH))
            g class=(strip.kind) {
                @if strip.values.len() <= MOST_POINTS {
                    (points(&strip.values, top + NAME + 11.0, across))
                } @else {
                    (boxed(&strip.values, top + NAME + 11.0, across))
                }
                @if let Some(x) = strip.said.and_then(across) {
                    path class="hollow" d=(marker(3, x, top + NAME + 11.0)) {}
                }
            }
        }
        @for (value, number) in &axis.ticks {
            @if let Some(x) = across(*value) {
                @let half = text::width(number) / 2.0;
                text class="middle" x=(place(x.clamp(half, WIDTH - half))) y=(place(bottom + 14.0)) { (number) }
            }
        }
        text class="name middle" x=(place(WIDTH / 2.0)) y=(place(bottom + 29.0)) { (unit) }
    };
    Drawing { height: bottom + 34.0, body, legend: html! {} }
}

fn name(name: &str, top: f64, most: f64) -> Markup {
    let shown = text::fit(name, most);
    html! {
        text class="row" x="0" y=(place(top + NAME)) {
            (shown)
            @if shown != name { title { (name) } }
        }
    }
}

fn points(values: &[f64], y: f64, across: impl Fn(f64) -> Option<f64>) -> Markup {
    html! {
        @for &value in values {
            @if let Some(x) = across(value) {
                circle class="point" cx=(place(x)) cy=(place(y)) r="4" { title { (short(value)) } }
            }
        }
    }
}

fn boxed(values: &[f64], y: f64, across: impl Fn(f64) -> Option<f64>) -> Markup {
    let places = quartiles(values).map(across);
    html! {
        @if let [Some(least), Some(low), Some(median), Some(high), Some(most)] = places {
            path class="whisker" d=(format!("M{} {y}H{}", place(least), place(most))) {}
            rect class="box" x=(place(low)) y=(place(y - 5.0)) width=(place(high - low)) height="10" {}
            path class="median" d=(format!("M{} {}v14", place(median), place(y - 7.0))) {}
        }
    }
}

/// The smallest value, the quartiles, and the largest value.
pub(super) fn quartiles(values: &[f64]) -> [f64; 5] {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&values, share))
}
