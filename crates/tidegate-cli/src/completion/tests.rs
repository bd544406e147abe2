//! Which words of a command line are completed, and how.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use tempfile::TempDir;
use tidegate::Strategy;
use tidegate::checksum::Algorithm;
use tidegate::prefix::Naming;

use super::*;

/// The values that are proposed for the last of `words`, after `tidegate`.
fn proposed(words: &[&str]) -> Vec<String> {
    // Of several threads: one that only hands out its handle drives nothing.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let words: Vec<OsString> = [&["tidegate"], words].concat().into_iter().map(OsString::from).collect();
    let index = words.len() - 1;
    let found = candidates(words, index, runtime.handle().clone());
    found.iter().map(|candidate| candidate.get_value().to_str().unwrap().to_owned()).collect()
}

fn files(names: &[&str]) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    for name in names {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let path = format!("{}/", directory.path().to_str().unwrap());
    (directory, path)
}

#[test]
fn commands_and_options_are_proposed() {
    assert_eq!(proposed(&["sy"]), ["sync"]);
    assert_eq!(proposed(&["journal", "re"]), ["resume"]);
    assert_eq!(proposed(&["cp", "--create"]), ["--create-only"]);
    let commands = proposed(&[""]);
    assert!(commands.contains(&"cp".to_owned()) && commands.contains(&"man".to_owned()), "{commands:?}");
    assert!(!commands.iter().any(|name| name == "complete" || name.starts_with('-')), "{commands:?}");
    let page: Vec<_> = proposed(&["man", "journal-r"]);
    assert_eq!(page, ["journal-resume"]);
}

#[test]
fn values_are_proposed() {
    assert_eq!(proposed(&["cp", "--strategy", "p"]), ["put", "parallel"]);
    assert_eq!(proposed(&["cp", "--strategy=ch"]), ["--strategy=chunked"]);
    assert_eq!(proposed(&["cp", "--checksum", ""]), CHECKSUMS);
    assert_eq!(proposed(&["prefix", "init", "--naming", "decimal-"]), ["decimal-id"]);
    assert_eq!(proposed(&["serve", "--storage", "m"]), ["memory"]);
    assert_eq!(proposed(&["cp", "--hedge", ""]), ["on", "off"]);
    assert!(proposed(&["cp", "--part-size", ""]).is_empty());
}

#[test]
fn the_proposed_names_are_all_that_there_are() {
    /// Whether the list in the message on a wrong name is `names`.
    fn are_all<T: std::str::FromStr<Err: std::fmt::Display>>(names: &[&str]) {
        for name in names {
            assert!(name.parse::<T>().is_ok(), "{name}");
        }
        let Err(wrong) = "wrong".parse::<T>() else { panic!("there is no such name") };
        let wrong = wrong.to_string();
        let said = wrong.split(|letter: char| !(letter.is_alphanumeric() || letter == '-'));
        let said: Vec<_> = said.filter(|word| word.parse::<T>().is_ok()).collect();
        assert_eq!(said, names, "{wrong}");
    }
    are_all::<Strategy>(&STRATEGIES);
    are_all::<Algorithm>(&CHECKSUMS);
    are_all::<Naming>(&NAMINGS);
}

#[test]
fn paths_are_proposed_where_a_place_is_named() {
    let (_directory, root) = files(&["one.txt", "other/in", "two"]);
    assert_eq!(proposed(&["cp", &format!("{root}o")]), [format!("{root}one.txt"), format!("{root}other/")]);
    assert_eq!(proposed(&["cp", "s3://bkt/k", &format!("{root}t")]), [format!("{root}two")]);
    assert_eq!(proposed(&["cp", "--journal", &format!("{root}oth")]), [format!("{root}other/")]);
    assert_eq!(proposed(&["serve", "--storage", &format!("disk:{root}o")]), [format!("disk:{root}other/")]);
    assert_eq!(proposed(&["rm", "--files-from", &format!("{root}tw")]), [format!("{root}two")]);
    assert_eq!(proposed(&["ls", "s3:"]), ["s3://"]);
}

#[test]
fn names_that_a_terminal_acts_on_are_not_proposed() {
    let names = ["k\u{9b}31m", "k\u{202e}gpj", "k\u{2066}x", "k\u{2028}x", "k\u{85}x", "k\u{1b}[2J", "kéx"];
    let (directory, root) = files(&names);
    fs::write(directory.path().join(OsStr::from_bytes(b"k\x9bm")), "").unwrap();
    assert_eq!(proposed(&["cp", &format!("{root}k")]), [format!("{root}kéx")]);
}

#[test]
fn an_unreachable_store_proposes_nothing() {
    // A port that nothing listens on: it was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("http://127.0.0.1:{port}");
    for url in ["s3://b", "s3://bkt/k", "s3:///", "s3://"] {
        assert!(proposed(&["ls", "--endpoint-url", &endpoint, "--no-sign-request", url]).is_empty(), "{url}");
    }
}

#[test]
fn options_are_read_from_an_unfinished_command_line() {
    let read = |words: &[&str]| {
        options_of::<ConnectionOptions>(&words.iter().map(OsString::from).collect::<Vec<_>>())
    };
    let plain = ConnectionOptions::default();
    let wanted = read(&["tidegate", "ls", "s3://bkt/", "--profile", "work"]);
    assert_ne!(wanted, plain);
    for words in [
        // Without a target; with a wrong option; with a value that is missing.
        &["tidegate", "cp", "--profile", "work", "s3://b"][..],
        &["tidegate", "cp", "s3://b", "--profile=work", "--frob"],
        &["tidegate", "sync", "--profile", "work", "s3://b", "--max-delete"],
        &["tidegate", "prefix", "init", "--profile", "work"],
    ] {
        assert_eq!(read(words), wanted, "{words:?}");
    }
    assert_eq!(read(&["tidegate", "serve", "--frob"]), plain);
    assert_eq!(read(&["tidegate"]), plain);
}

/// Value names for which completion proposes nothing, on purpose.
const FREE: [&str; 23] = [
    "AGE",
    "AGE|TIME",
    "BYTES",
    "CLASS",
    "FIRST-[LAST]",
    "HOST",
    "HOST:PORT",
    "ID",
    "KEY",
    "N",
    "NAME",
    "NAME=VALUE",
    "PATTERN",
    "RATE",
    "SIZE",
    "TEXT",
    "TIME",
    "TYPE",
    "URL",
    "USER|UID",
    "WORDS",
    "INDEX",
    "FIXED",
];

#[test]
fn every_argument_is_completed_or_free() {
    fn look(command: &Command, places: &PlaceCompleter) {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let is_known = completer(arg, places).is_some()
                || !arg.get_possible_values().is_empty()
                || arg.get_value_hint() != clap::ValueHint::Unknown;
            let name = arg.get_value_names().and_then(|names| names.first()).unwrap();
            assert!(is_known || FREE.contains(&name.as_str()), "{arg} of {}", command.get_name());
        }
        command.get_subcommands().for_each(|below| look(below, places));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut program = command_line();
    program.build();
    look(&program, &PlaceCompleter::new(&[], runtime.handle().clone()));
}
