use clap::{CommandFactory, Parser};

use super::*;
use crate::CommandLine;

/// The types of the lines that each command prints with `--json`. A command without any refuses the option.
const PRINTED: &[(&str, &[&str])] = &[
    ("abandon", &["job", "pending"]),
    ("cat", &[]),
    ("check", &["difference"]),
    ("commit", &["job", "pending"]),
    ("completions", &[]),
    ("cp", &["copy", "pending", "skip"]),
    ("doctor", &["finding"]),
    ("du", &["usage", "total"]),
    ("journal abort", &["abort"]),
    ("journal ls", &["journal"]),
    ("journal resume", &["publish"]),
    ("journal show", &["journal"]),
    ("journal verify", &["verify"]),
    ("lifecycle ensure", &["rule"]),
    ("lifecycle show", &["rule"]),
    ("ls", &["bucket", "prefix", "object", "other"]),
    ("man", &[]),
    ("mb", &["create"]),
    ("mv", &["copy", "remove", "skip"]),
    ("prefix init", &["layout"]),
    ("prefix migrate", &["layout"]),
    ("prefix show", &["layout", "place"]),
    ("presign", &["presigned"]),
    ("rb", &["remove"]),
    ("rm", &["remove"]),
    // The lines of the commands that it runs.
    ("run", &["copy", "remove"]),
    ("serve", &["server"]),
    ("sessions abort", &["session", "sessions"]),
    ("sessions ls", &["session"]),
    ("stat", &["stat"]),
    ("sweep", &["session", "sessions"]),
    ("sync", &["copy", "remove"]),
];

/// The types on standard error.
const MESSAGES: &[&str] = &["error", "warning", "notice", "log"];

/// The names of the commands that do something, such as `cp` and `journal ls`.
fn leaves(command: &clap::Command, above: &str) -> Vec<String> {
    let name = |below: &clap::Command| format!("{above}{}", below.get_name());
    let below = command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set());
    let leaves = below.flat_map(|below| match below.has_subcommands() {
        true => leaves(below, &format!("{} ", name(below))),
        false => vec![name(below)],
    });
    leaves.collect()
}

#[test]
fn every_command_has_json_or_refuses_it() {
    let mut commands = leaves(&CommandLine::command(), "");
    commands.sort();
    let listed: Vec<&str> = PRINTED.iter().map(|(command, _)| *command).collect();
    assert_eq!(commands, listed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (command, _) in PRINTED.iter().filter(|(_, types)| types.is_empty()) {
        let argument = if *command == "completions" { "bash" } else { "s3://bucket/key" };
        let parsed = CommandLine::try_parse_from(["tidegate", command, argument, "--json"]).unwrap();
        let refused = runtime.block_on(parsed.command.run(&parsed.invocation)).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(refused.sentence().unwrap().starts_with("--json: "), "{refused:?}");
    }
}

#[test]
fn the_schema_has_the_types_of_all_lines_and_no_others() {
    let schema = include_str!("../../../../../docs/json-lines.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let mut printed: Vec<&str> =
        PRINTED.iter().flat_map(|(_, types)| *types).chain(MESSAGES).copied().collect();
    printed.sort_unstable();
    printed.dedup();
    let mut described: Vec<&str> =
        schema["$defs"]["lines"].as_object().unwrap().keys().map(String::as_str).collect();
    described.sort_unstable();
    assert_eq!(described, printed);
}

fn json(line: &impl OutputLine) -> String {
    serde_json::to_string(line).unwrap()
}

#[test]
fn a_line_is_a_sentence_and_an_object() {
    let plan = CopyLine::planned("a", "s3://b/a", Some(12_600));
    assert_eq!(plan.text(), "copy a -> s3://b/a (12.3 KiB)");
    let shown = r#"{"type":"copy","source":"a","target":"s3://b/a","bytes":12600,"dry_run":true}"#;
    assert_eq!(json(&plan), shown);
    assert_eq!(CopyLine::planned("a", "b", None).text(), "copy a -> b");
    let removed = RemoveLine { url: "s3://b/a", dry_run: false };
    assert_eq!(removed.text(), "remove s3://b/a");
    assert_eq!(json(&removed), r#"{"type":"remove","url":"s3://b/a"}"#);
    let skipped = SkipLine { source: "a", target: "b", reason: SkipReason::Exists, dry_run: false };
    assert_eq!(skipped.text(), "skip a -> b (the target exists)");
    assert_eq!(json(&skipped), r#"{"type":"skip","source":"a","target":"b","reason":"exists"}"#);
}

#[test]
fn figures_stand_beside_the_object() {
    let figures = CopyFigures { seconds: 0.5, parts: 2, ..CopyFigures::default() };
    let copied =
        CopyLine { source: "a", target: "b", bytes: Some(3), dry_run: false, figures: Some(figures) };
    let shown: serde_json::Value = serde_json::from_str(&json(&copied)).unwrap();
    assert!(json(&copied).starts_with(r#"{"type":"copy","source":"a","target":"b","bytes":3,"seconds":0.5"#));
    assert_eq!(
        (shown["parts"].as_u64(), shown.get("strategy"), shown.get("verified")),
        (Some(2), None, None)
    );
}
