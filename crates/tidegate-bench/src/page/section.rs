//! One file of figures as a part of the page.

use maud::{Markup, html};

use super::plot::{Plot, Table};

/// What is said of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) title: String,
    /// What has to be known first.
    pub(super) first: Vec<String>,
    /// What was done, in a few sentences.
    pub(super) what: String,
    /// What measured it.
    pub(super) command: Option<String>,
    pub(super) plots: Vec<Plot>,
    /// More numbers than are drawn: what they are, and the table.
    pub(super) more: Option<(String, Table)>,
    /// What the tools were told, where there are several.
    pub(super) settings: Vec<String>,
    /// What the numbers depend on: the machine, how far runs were apart.
    pub(super) depends: Vec<String>,
}

impl Section {
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
                    // A word of it is broken only where it is wider than the page.
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
