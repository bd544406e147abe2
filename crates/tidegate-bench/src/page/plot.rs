//! A plot with its title, a description for readers who do not see it, and its numbers.
//!
//! Plots are SVG in the page itself, [`WIDTH`] units wide, which is less than the width of a phone: text never
//! gets smaller than drawn. Colours come from the page's style, so that they follow light and dark. No library
//! draws the plots, because of that and of the text for readers who do not see the plot.

use maud::{Markup, html};

/// The width of every plot.
pub(super) const WIDTH: f64 = 320.0;

/// The number of colours in the style.
pub(super) const LOOKS: usize = 6;

/// A drawing and its height.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    pub(super) height: f64,
    pub(super) body: Markup,
    pub(super) legend: Markup,
}

/// Column names and rows.
#[derive(Clone, Debug, Default)]
pub(super) struct PlotTable {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl PlotTable {
    pub(super) fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table, folded below a line that opens it.
    pub(super) fn behind(&self, summary: &str, of: &str) -> Markup {
        html! {
            details {
                summary { (summary) }
                div class="scroll" role="region" tabindex="0" aria-label=(of) {
                    table {
                        caption { (of) }
                        thead { tr { @for name in &self.head { th scope="col" { (name) } } } }
                        tbody {
                            @for row in &self.rows {
                                tr {
                                    @for (number, cell) in row.iter().enumerate() {
                                        @if number == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A drawing with its title, description and table.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    /// A sentence that describes the plot, for readers who do not see it.
    pub(super) says: String,
    pub(super) drawing: Drawing,
    /// The numbers that are drawn.
    pub(super) table: PlotTable,
}

impl Plot {
    /// The plot as HTML; `id` is unique on the page.
    pub(super) fn show(&self, id: &str) -> Markup {
        let Drawing { height, body, legend } = &self.drawing;
        let (title, says) = (format!("{id}-title"), format!("{id}-says"));
        html! {
            figure {
                figcaption { (self.title) }
                (legend)
                svg role="img" aria-labelledby=(title) aria-describedby=(says)
                    viewBox=(format!("0 0 {WIDTH} {}", place(*height))) {
                    title id=(title) { (self.title) }
                    desc id=(says) { (self.says) " The numbers are in the table below." }
                    (body)
                }
                (self.table.behind("Numbers", &self.title))
            }
        }
    }
}

/// Formats a coordinate.
pub(super) fn place(value: f64) -> String {
    format!("{value:.1}")
}

/// The outline of a marker. Each look has its own shape as far as there are shapes, for readers who can't tell
/// colours apart.
pub(super) fn marker(look: usize, x: f64, y: f64) -> String {
    let [x, y] = [x, y].map(place);
    match look % 4 {
        0 => format!("M{x} {y}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
        1 => format!("M{x} {y}m-3.5 -3.5h7v7h-7z"),
        2 => format!("M{x} {y}m0 -4.5l4.5 8h-9z"),
        _ => format!("M{x} {y}m0 -5l5 5l-5 5l-5 -5z"),
    }
}

/// The legend of the lines: names, looks, and whether they were measured.
pub(super) fn legend(keys: Vec<(&str, usize, bool)>) -> Markup {
    html! {
        ul class="legend" {
            @for (name, look, is_measured) in keys {
                li {
                    svg class=(format!("c{look}{}", if is_measured { "" } else { " said" })) aria-hidden="true" viewBox="0 0 28 12" {
                        path class="line" d="M0 6H28" {}
                        path class="marker" d=(marker(look, 14.0, 6.0)) {}
                    }
                    (name)
                }
            }
        }
    }
}
