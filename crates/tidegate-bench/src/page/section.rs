//! Makes one file of figures a section of the page.

use maud::{Markup, html};

use super::plot::{Plot, PlotTable};

/// The contents of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct PageSection {
    pub(super) title: String,
    /// Sentences that the reader needs first.
    pub(super) first: Vec<String>,
    /// The measurement in a few sentences.
    pub(super) what: String,
    /// The command that measured it.
    pub(super) command: Option<String>,
    pub(super) plots: Vec<Plot>,
    /// A table of more numbers than are drawn, with its title.
    pub(super) more: Option<(String, PlotTable)>,
    /// The settings of the tools, if there are several.
    pub(super) settings: Vec<String>,
    /// Facts that the numbers depend on: the machine, the noise.
    pub(super) depends: Vec<String>,
}

impl PageSection {
    pub(super) fn show(&self, id: &str) -> Markup {
        html! {
            section id=(id) aria-labelledby=(format!("{id}-heading")) {
                h2 id=(format!("{id}-heading")) { (self.title) }
                @if !self.first.is_empty() {
                    ul class="first" { @for line in &self.first { li { (line) } } }
                }
                p { (self.what) }
                div class={ "plots" @if self.plots.len() < 3 { " few" } } {
                    @for (number, plot) in self.plots.iter().enumerate() {
                        (plot.show(&format!("{id}-{}", number + 1)))
                    }
                }
                @if let Some((what, table)) = &self.more {
                    (table.behind(what, &self.title))
                }
                @if let Some(command) = &self.command {
                    // A word is broken only if it is wider than the page.
                    p class="command" {
                        "Measured by "
                        code { @for word in command.split(' ') { span { (word) } " " } }
                    }
                }
                @if !self.settings.is_empty() {
                    details {
                        summary { "Tools and their settings" }
                        ul class="depends" { @for line in &self.settings { li { (line) } } }
                    }
                }
                ul class="depends" { @for line in &self.depends { li { (line) } } }
            }
        }
    }
}
