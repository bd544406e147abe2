use clap::Parser;

use super::*;
use crate::machine::Machine;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    trial: PrefixesTrial,
}

fn parsed(words: &[&str]) -> Result<PrefixesTrial, clap::Error> {
    Cli::try_parse_from(["prefixes"].iter().chain(words)).map(|cli| cli.trial)
}

#[test]
fn a_store_is_shaped_unshaped_or_real() {
    let store = |words: &[&str]| {
        let trial = parsed(words).unwrap();
        (trial.is_shaped(), trial.unshaped, trial.to)
    };
    assert_eq!(store(&[]), (true, false, None));
    assert_eq!(store(&["--quick", "--unshaped"]), (false, true, None));
    let url = "s3://bucket/prefix";
    assert_eq!(store(&["--quick", "--to", url]), (false, false, Some(url.to_owned())));
    assert!(parsed(&["--unshaped", "--to", url]).is_err());
    assert!(parsed(&["--to"]).is_err());
}

#[test]
fn listings_are_not_of_a_real_store() {
    let trial = parsed(&["--to", "s3://bucket", "--only", "spreading,listing"]).unwrap();
    let error = trial.hold(Path::new("none")).unwrap_err().to_string();
    assert!(error.starts_with("--only listing"), "{error}");
}

#[test]
fn what_needs_no_store_asks_none() {
    let trial = parsed(&["--to", "s3://bucket", "--only", "spreading", "--most", "2"]).unwrap();
    let report = trial.hold(Path::new("none")).unwrap();
    assert!(!report.spreading.is_empty() && report.listings.is_empty());
    assert!(!report.to_string().contains("LEFT OUT"));
}

fn pace(per_second: f64) -> RequestPace {
    RequestPace { per_second, refused: 1, refused_before: 2, p99: 0.1, done: 99 }
}

/// A report with the rates of one prefix and of eight.
fn report(words: &[&str], one: f64, all: f64) -> PrefixesReport {
    let trial = parsed(&[&["--most", "8"][..], words].concat()).unwrap();
    let limit = trial.is_shaped().then_some(17.5);
    let line = |prefixes, per_second| PrefixesLine {
        prefixes: Some(prefixes),
        kind: "writes",
        limit,
        pace: pace(per_second),
    };
    let lines = vec![line(1, one), line(8, all)];
    let beside =
        vec![Beside { what: "15 prefixes beside a hot one", cold: pace(240.0), hot: Some(pace(14.0)) }];
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    PrefixesReport { trial, conditions, lines, beside, spreading: Vec::new(), listings: Vec::new() }
}

#[test]
fn rates_grow_by_prefixes_where_each_is_limited() {
    assert!(report(&[], 10.0, 40.0).broken().is_empty());
    assert_eq!(report(&[], 10.0, 39.0).broken(), ["writes: 39 a second over 8 prefixes, 10 over one"]);
    for words in [&["--unshaped"][..], &["--to", "s3://bucket"]] {
        assert!(report(words, 10.0, 5.0).broken().is_empty());
        assert_eq!(report(words, 10.0, 4.0).broken(), ["writes: 4 a second over 8 prefixes, 10 over one"]);
    }
}

#[test]
fn a_report_says_which_store_and_what_is_left_out() {
    let cells = |said: &str, begin: &str| -> Vec<String> {
        let row = said.lines().find(|line| line.starts_with(begin)).unwrap();
        row.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let shaped = report(&[], 17.5, 35.0).to_string();
    assert!(shaped.contains("divided by 200; 5 ms of\nlatency; 20 s each"), "{shaped}");
    assert_eq!(cells(&shaped, "| 8 ")[3..9], ["17.5", "35.0", "200%", "1", "1.0%", "2"]);
    assert_eq!(cells(&shaped, "| 15 ")[5..8], ["14.0", "1", "80%"]);
    let unshaped = report(&["--unshaped"], 17.5, 35.0).to_string();
    assert!(unshaped.contains("; the embedded server, unshaped: "), "{unshaped}");
    assert_eq!(cells(&unshaped, "| 8 ")[3..6], ["–", "35.0", "–"]);
    assert_eq!(cells(&unshaped, "| 15 ")[5..8], ["14.0", "1", "–"]);
    let real = report(&["--to", "s3://bucket/prefix"], 17.5, 35.0).to_string();
    assert!(real.contains("; requests to s3://bucket/prefix, whose limits are its own: "), "{real}");
    let is_left_out = |said: &str| said.contains("- LEFT OUT: listings");
    assert_eq!([&shaped, &unshaped, &real].map(|said| is_left_out(said)), [false, false, true]);
}
