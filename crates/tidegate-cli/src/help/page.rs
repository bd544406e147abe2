//! A man page of a command, in roff.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::GROUPS;

/// The man page of one command.
pub(crate) struct ManPage {
    command: Command,
}

/// The pages of the program and of all its commands, in the order of the commands.
pub(crate) fn all(program: Command) -> Vec<ManPage> {
    fn add(command: &Command, pages: &mut Vec<ManPage>) {
        pages.push(ManPage { command: command.clone() });
        command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(|below| add(below, pages));
    }
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add(&program, &mut pages);
    pages
}

impl ManPage {
    /// `tidegate`, or `tidegate-COMMAND`.
    pub(crate) fn name(&self) -> &str {
        self.command.get_display_name().unwrap_or_else(|| self.command.get_name())
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{}.1", self.name())
    }

    /// The page in roff; `date` is of the form 2026-11-27.
    pub(crate) fn roff(&self, date: &str) -> String {
        let mut roff = Roff::default();
        let version = concat!("tidegate ", env!("CARGO_PKG_VERSION"));
        roff.control("TH", [&*self.name().to_uppercase(), "1", date, version, "Tidegate"]);
        roff.control("SH", ["NAME"]);
        let about = self.command.get_about().map(ToString::to_string).unwrap_or_default();
        roff.text([roman(format!("{} - {}", self.name(), about.trim_end_matches('.')))]);
        self.synopsis(&mut roff);
        self.description(&mut roff);
        let mut text = roff.render();
        text += &self.options();
        let mut roff = Roff::default();
        self.commands(&mut roff);
        if let Some(after) = self.command.get_after_long_help().or_else(|| self.command.get_after_help()) {
            sections(&mut roff, &after.to_string());
        }
        self.see_also(&mut roff);
        text += &roff.render();
        tidied(&text)
    }

    fn synopsis(&self, roff: &mut Roff) {
        roff.control("SH", ["SYNOPSIS"]);
        let usage = self.command.clone().render_usage().to_string();
        let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
        let program = self.command.get_bin_name().unwrap_or_default();
        match usage.strip_prefix(program) {
            Some(rest) => roff.text([bold(program), roman(rest)]),
            None => roff.text([roman(usage)]),
        };
    }

    fn description(&self, roff: &mut Roff) {
        roff.control("SH", ["DESCRIPTION"]);
        let text = self.command.get_long_about().or_else(|| self.command.get_about());
        let text = text.map(ToString::to_string).unwrap_or_default();
        // The first line of a help text is a title.
        let (title, rest) = text.split_once('\n').unwrap_or((&text, ""));
        paragraphs(roff, &format!("{}.\n{rest}", title.trim_end_matches('.')));
        if self.is_program() {
            roff.control("SH", ["EXAMPLES"]);
            paragraphs(roff, super::EXAMPLES);
        }
    }

    fn options(&self) -> String {
        // Arguments without a heading would be in one section, positional ones last.
        let command = self.command.clone().mut_args(|arg| match arg.get_help_heading() {
            Some(_) if !self.is_program() => arg,
            _ if arg.is_positional() => arg.help_heading("Arguments"),
            _ => arg.help_heading("Options"),
        });
        let mut roff = Vec::new();
        match Man::new(command).render_options_section(&mut roff) {
            Ok(()) => String::from_utf8_lossy(&roff).into_owned(),
            Err(_) => unreachable!("a vector takes what is written"),
        }
    }

    fn commands(&self, roff: &mut Roff) {
        let list = |roff: &mut Roff, command: &Command| {
            roff.control("TP", []);
            roff.text([bold(format!("{}-{}", self.name(), command.get_name())), roman("(1)")]);
            roff.text([roman(command.get_about().map(ToString::to_string).unwrap_or_default())]);
        };
        if self.is_program() {
            roff.control("SH", ["COMMANDS"]);
            for (group, names) in GROUPS {
                roff.control("SS", [group]);
                names
                    .iter()
                    .filter_map(|name| self.command.find_subcommand(name))
                    .for_each(|command| list(roff, command));
            }
        } else if self.command.has_subcommands() {
            roff.control("SH", ["COMMANDS"]);
            self.command.get_subcommands().for_each(|command| list(roff, command));
        }
    }

    fn see_also(&self, roff: &mut Roff) {
        if !self.is_program() {
            roff.control("SH", ["SEE ALSO"]);
            roff.text([bold("tidegate"), roman("(1), for the forms of locations and the exit codes.")]);
        }
    }

    fn is_program(&self) -> bool {
        self.command.get_name() == self.name()
    }
}

/// Paragraphs, and indented lines as they are.
fn paragraphs(roff: &mut Roff, text: &str) {
    let mut is_literal = false;
    let (mut is_new, mut is_first) = (false, true);
    for line in text.lines() {
        if line.is_empty() {
            is_new = true;
            continue;
        }
        if line.starts_with(' ') != is_literal {
            is_literal = !is_literal;
            if is_literal {
                if !is_first {
                    roff.control("PP", []);
                }
                roff.control("RS", ["4"]).control("EX", []);
            } else {
                roff.control("EE", []).control("RE", []).control("PP", []);
            }
        } else if is_new {
            roff.control(if is_literal { "sp" } else { "PP" }, []);
        }
        (is_new, is_first) = (false, false);
        roff.text([roman(if is_literal {
            line.strip_prefix("    ").unwrap_or(line.trim_start())
        } else {
            line
        })]);
    }
    if is_literal {
        roff.control("EE", []).control("RE", []);
    }
}

/// The sections of a text: a line `Title:` and indented lines of two columns.
fn sections(roff: &mut Roff, text: &str) {
    for line in text.lines().filter(|line| !line.is_empty()) {
        match (line.strip_suffix(':'), line.strip_prefix("  ").and_then(|line| line.split_once("  "))) {
            (Some(title), _) if !line.starts_with(' ') => {
                roff.control("SH", [&*title.to_uppercase()]);
            }
            (_, Some((name, what))) => {
                roff.control("TP", []);
                roff.text([italic(name)]);
                roff.text([roman(what.trim_start())]);
            }
            _ => {
                roff.text([roman(line)]);
            }
        }
    }
}

/// Joins what was rendered in pieces: each defines an apostrophe first, and a blank line, which stands for a vertical
/// space, may have line breaks around it.
fn tidied(roff: &str) -> String {
    let mut tidied = String::with_capacity(roff.len());
    let mut lines = roff.lines().peekable();
    let mut defines = true;
    while let Some(line) = lines.next() {
        let is_space = |line: &str| matches!(line, "" | ".br" | ".sp");
        if is_space(line) {
            let mut space = line;
            while let Some(next) = lines.next_if(|next| is_space(next)) {
                space = if next == ".br" { space } else { "" };
            }
            tidied += if space == ".br" { ".br\n" } else { ".sp\n" };
            continue;
        }
        let is_definition = line.starts_with(".ie \\n(.g") || line.starts_with(".el .ds Aq");
        defines &= is_definition;
        if defines || !is_definition {
            tidied += line;
            tidied.push('\n');
        }
    }
    tidied
}
