//! What `--help`, `-h` and the man pages have in common: commands in groups, options under headings in one order, and
//! texts that fit the width of the terminal.

use clap::{Arg, Command};

pub(crate) mod page;

/// The commands by what they are for.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Copy and compare", &["cp", "mv", "sync", "check", "run"]),
    ("List, read and remove", &["ls", "du", "stat", "cat", "presign", "rm"]),
    ("Buckets", &["mb", "rb", "doctor"]),
    ("Unfinished uploads and journals", &["commit", "abandon", "sessions", "sweep", "lifecycle", "journal"]),
    ("Keys spread over prefixes", &["prefix"]),
    ("The embedded server", &["serve"]),
    ("This program", &["completions", "man", "help"]),
];

/// The headings of options, in their order: what, how, output, connection. Options of one command have none.
const HEADINGS: [&str; 6] = [
    "Which objects",
    "How objects are compared",
    "What the object carries",
    "How objects are transferred",
    "Output",
    "Connection",
];

const EXAMPLES: &str = concat!(
    "    tidegate cp big.tar s3://BUCKET/big.tar\n",
    "    tidegate cp -r photos/ gs://BUCKET/photos/\n",
    "    tidegate sync photos s3://BUCKET/photos\n",
    "    tidegate ls -H s3://BUCKET/logs/",
);

const AFTER_HELP: &str = "\
`tidegate COMMAND --help` has examples and all options of a command, and -h the short form.
`tidegate --help` also has the forms of locations and the exit codes.";

pub(crate) const AFTER_LONG_HELP: &str = "\
Locations:
  s3://BUCKET/KEY       an object of Amazon S3 or of a compatible store
  s3://NAME@BUCKET/KEY  the same, by this profile of the AWS files alone
  gs://BUCKET/KEY       an object of Google Cloud Storage
  az://CONTAINER/KEY    a blob of Azure Blob Storage; with the account:
                        abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY
  dev://BUCKET/KEY      an object of the embedded server, in .tidegate-dev
  PATH, file:///PATH    a file on this machine
  -                     standard input or output

Exit codes:
  0         everything was done
  1         it failed, or was done in part only
  2         the command line or its input is wrong; nothing was sent
  3         not found: an object, bucket, directory or file, or all of a prefix
  4         denied: by the store, for lack of credentials, or by this machine
  5         the store could not be reached, or did not answer in time
  130       Ctrl-C: unfinished uploads were aborted, journaled ones are kept
  129, 143  SIGHUP or SIGTERM: likewise";

/// Arranges the help of the program and of its commands.
pub(crate) fn arranged(command: Command) -> Command {
    let template = template(&command);
    let globals: Vec<Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    arrange(command, &globals).help_template(template).after_help(AFTER_HELP).after_long_help(AFTER_LONG_HELP)
}

/// The help of the program: clap has no groups of commands.
fn template(command: &Command) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let heading = |text: &str| format!("{header}{text}:{header:#}");
    let mut text = format!("{{about-with-newline}}\n{EXAMPLES}\n\n{{usage-heading}} {{usage}}\n");
    for (group, names) in GROUPS {
        text += &format!("\n{}\n", heading(group));
        for name in names {
            let about = match command.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this help, or that of a command".to_owned(),
            };
            text += &format!("  {literal}{name:<11}{literal:#}  {about}\n");
        }
    }
    text + &format!("\n{}\n{{options}}{{after-help}}", heading("Options"))
}

/// Arranges one command and those below it. Each takes the options `globals`.
fn arrange(mut command: Command, globals: &[Arg]) -> Command {
    for global in globals {
        if !command.get_arguments().any(|arg| arg.get_id() == global.get_id()) {
            command = command.arg(global.clone());
        }
    }
    // clap shows headings in the order of their first options, and `mut_arg` puts an option last.
    let mut order: Vec<_> = command.get_arguments().map(|arg| (rank(arg), arg.get_id().clone())).collect();
    order.sort_by_key(|(rank, _)| *rank);
    for (_, id) in order {
        command = command.mut_arg(id, with_short_help);
    }
    if let Some(about) = command.get_long_about().map(|about| unwrapped(&about.to_string())) {
        command = command.long_about(about);
    }
    command.mut_subcommands(|below| arrange(below, globals))
}

/// The place of an argument's heading. Arguments without one come first.
fn rank(arg: &Arg) -> usize {
    match arg.get_help_heading() {
        None => 0,
        Some(heading) => 1 + HEADINGS.iter().position(|known| *known == heading).unwrap_or(HEADINGS.len()),
    }
}

/// With its first sentence as the help of `-h`, and all sentences as that of `--help`.
fn with_short_help(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    let Some((first, _)) = help.split_once(". ") else { return arg };
    let whole = arg.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
    let whole = whole.trim_end_matches('.').to_owned() + ".";
    let first = first.to_owned();
    arg.help(first).long_help(whole)
}

/// Joins the lines of each paragraph, so that they are wrapped at the width of the terminal. Indented lines, which are
/// examples and tables, stay as they are.
fn unwrapped(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut before = "";
    for line in text.lines() {
        let goes_on = ![before, line].iter().any(|line| line.is_empty() || line.starts_with(' '));
        if !joined.is_empty() {
            joined.push(if goes_on { ' ' } else { '\n' });
        }
        joined.push_str(line);
        before = line;
    }
    joined
}

/// The names of the man pages, without the program's: `cp`, `journal`, `journal-ls`, …
pub(crate) fn page_names() -> Vec<String> {
    page::all(crate::command_line())
        .iter()
        .filter_map(|page| page.name().strip_prefix("tidegate-").map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests;
