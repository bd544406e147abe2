//! Every help text has the form that people can rely on.

use std::collections::BTreeSet;

use super::*;
use crate::command_line;

/// The widest line of a help text, and the longest help of an option in `-h`.
const WIDEST: usize = 92;
const LONGEST_SHORT: usize = 80;

/// The commands that are shown, each with its name as it is typed.
fn commands() -> Vec<(String, Command)> {
    fn add(command: &Command, before: &str, all: &mut Vec<(String, Command)>) {
        for below in
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
        {
            let name = format!("{before}{}", below.get_name());
            all.push((name.clone(), below.clone()));
            add(below, &format!("{name} "), all);
        }
    }
    let mut program = command_line();
    program.build();
    let mut all = Vec::new();
    add(&program, "", &mut all);
    assert!(all.len() > 20);
    all
}

/// The words of an example as a shell gives them to the program, up to what follows its command.
fn words(example: &str) -> Vec<String> {
    let command = &example[example.find("tidegate ").unwrap()..];
    let ends = ["   ", " | ", ")"].iter().filter_map(|end| command.find(end));
    let command = &command[..ends.min().unwrap_or(command.len())];
    command.split_whitespace().map(|word| word.replace('\'', "")).collect()
}

#[test]
fn every_command_has_a_title_and_examples_that_parse() {
    for (name, command) in commands() {
        let title = command.get_about().unwrap().to_string();
        assert!(title.len() <= WIDEST && !title.ends_with('.') && !title.contains('\n'), "{name}: {title}");
        let whole = command.get_long_about().unwrap_or_else(|| panic!("{name} has a title only")).to_string();
        let mut paragraphs = whole.split("\n\n");
        assert_eq!(paragraphs.next(), Some(&*title), "{name}");
        let examples: Vec<_> = paragraphs.next().unwrap().lines().collect();
        for example in &examples {
            assert!(example.starts_with("    ") && example.len() <= WIDEST, "{name}: {example}");
            let words = words(example);
            if let Err(wrong) = command_line().try_get_matches_from(&words) {
                panic!("{name}: {example}: {wrong}");
            }
        }
        let of_it = examples.iter().filter(|example| example.contains(&format!("tidegate {name}")));
        assert!(of_it.count() > 0, "{name}: {examples:?}");
    }
}

#[test]
fn options_stand_under_known_headings_in_one_order() {
    for (name, command) in commands() {
        let headings: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_help_heading()).collect();
        let places: Vec<_> = headings
            .iter()
            .map(|heading| {
                HEADINGS
                    .iter()
                    .position(|known| known == heading)
                    .unwrap_or_else(|| panic!("{name}: {heading}"))
            })
            .collect();
        assert!(places.is_sorted(), "{name}: {headings:?}");
        assert!(headings.contains(&"Output"), "{name}");
    }
}

#[test]
fn an_option_stands_under_one_heading_in_all_commands() {
    // These are other options of the same name, or stand alone in commands that transfer nothing.
    const SEVERAL: [&str; 6] = ["bandwidth", "checksum", "journal", "min_rate", "older_than", "owners"];
    let mut known = std::collections::BTreeMap::new();
    for (name, command) in commands() {
        for arg in command.get_arguments().filter(|arg| !SEVERAL.contains(&arg.get_id().as_str())) {
            let heading = arg.get_help_heading().map(str::to_owned);
            let before = known.entry(arg.get_id().clone()).or_insert_with(|| heading.clone());
            assert_eq!(*before, heading, "{name} {arg}");
        }
    }
}

#[test]
fn the_short_help_is_one_sentence_an_option() {
    for (name, command) in commands() {
        for arg in command.get_arguments() {
            let help = arg.get_help().unwrap_or_else(|| panic!("{name}: {arg}")).to_string();
            assert!(
                help.len() <= LONGEST_SHORT && !help.contains(". "),
                "{name} {arg}: {} {help}",
                help.len()
            );
            assert!(!help.ends_with('.') && !help.contains('\n'), "{name} {arg}: {help}");
        }
    }
}

#[test]
fn options_of_one_heading_are_described_alike() {
    let mut known = std::collections::BTreeMap::new();
    for (name, command) in commands() {
        for arg in command
            .get_arguments()
            .filter(|arg| matches!(arg.get_help_heading(), Some("Connection" | "Output")))
        {
            let text = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string);
            let before = known.entry(arg.get_id().clone()).or_insert_with(|| text.clone());
            assert_eq!(*before, text, "{name} {arg}");
        }
    }
    assert!(known.len() > 10);
}

#[test]
fn each_command_is_in_one_group() {
    let mut program = command_line();
    program.build();
    let shown: BTreeSet<_> =
        program.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
    let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    assert_eq!(grouped.len(), shown.len());
    assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), shown);
    let help = program.render_help().to_string();
    for (group, _) in GROUPS {
        assert!(help.contains(&format!("\n{group}:\n")), "{help}");
    }
    assert!(help.find("tidegate cp big.tar") < help.find("Usage:"), "{help}");
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
}

#[test]
fn paragraphs_are_joined_and_examples_are_not() {
    assert_eq!(
        unwrapped("Title\n\n    a\n    b\n\nOne\ntwo\n\nthree\n   x y"),
        "Title\n\n    a\n    b\n\nOne two\n\nthree\n   x y"
    );
}

#[test]
fn each_command_has_a_page() {
    let pages = page::all(command_line());
    let names: Vec<_> = pages.iter().map(page::ManPage::name).collect();
    let wanted: Vec<_> =
        commands().iter().map(|(name, _)| format!("tidegate-{}", name.replace(' ', "-"))).collect();
    assert_eq!(names[0], "tidegate");
    assert_eq!(names[1..], wanted);
    for page in pages {
        let roff = page.roff("2026-11-27");
        assert!(roff.contains(".SH NAME\n") && roff.contains(".SH OPTIONS\n"), "{roff}");
        assert_eq!(roff.matches("\n.EX\n").count(), roff.matches("\n.EE\n").count(), "{roff}");
        assert!(roff.matches("\n.EX\n").count() > 0 && !roff.contains("\n\n"), "{roff}");
    }
}
