use clap::Parser;

use super::*;
use crate::example::ExampleFigures;
use crate::machine::Machine;
use crate::measure::ProcessUsage;

fn line(way: ExampleWay, inputs: u32, entries: u64, walls: &[f64]) -> CompactionLine {
    let run = |wall: &f64| ExampleRun {
        figures: ExampleFigures {
            seconds: *wall,
            bytes_in: GIB,
            bytes_out: 512 * MIB,
            entries_out: entries,
            requests: 9,
            retries: 0,
            peak_budget_bytes: 3 * MIB,
        },
        usage: ProcessUsage {
            wall: *wall,
            user: 1.0,
            system: 0.5,
            peak_kib: 20 << 10,
            exit: Some(0),
            signal: None,
        },
        memory: (0..1000_u32).map(|at| (f64::from(at), 1024 * u64::from(at % 7 + 1))).collect(),
    };
    CompactionLine { way, inputs, runs: walls.iter().map(run).collect() }
}

#[test]
fn ways_that_make_something_else_are_found() {
    let runs = |way, entries, walls: &[f64]| (way, line(way, 2, entries, walls).runs);
    let same = [runs(ExampleWay::Streamed, 7, &[1.0, 2.0]), runs(ExampleWay::Whole, 7, &[1.0])];
    check_same(2, &same).unwrap();
    let other = [runs(ExampleWay::Streamed, 7, &[1.0]), runs(ExampleWay::Whole, 8, &[1.0])];
    let error = check_same(2, &other).unwrap_err().to_string();
    assert!(error.starts_with("2 inputs: streamed made (entries, bytes) (7, "), "{error}");
}

fn report(lines: Vec<CompactionLine>) -> CompactionReport {
    let trial = CompactionTrial {
        inputs: vec![2],
        size: 512 * MIB,
        table_size: 64 * MIB,
        memory: 64 * MIB,
        to: None,
        ways: vec![ExampleWay::Streamed],
        runs: 3,
        quick: false,
        scratch: None,
        limit: 1,
    };
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    CompactionReport { trial, conditions, lines }
}

#[test]
fn streams_are_to_hold_less() {
    let mut whole = line(ExampleWay::Whole, 2, 7, &[1.0]);
    let equal = report(vec![line(ExampleWay::Streamed, 2, 7, &[1.0]), whole.clone()]).broken();
    assert_eq!(equal, ["2 inputs: 20 MiB as streams, 20 MiB whole"]);
    whole.runs[0].usage.peak_kib = 21 << 10;
    assert!(report(vec![line(ExampleWay::Streamed, 2, 7, &[1.0]), whole]).broken().is_empty());
}

#[test]
fn memory_over_time_keeps_its_peaks() {
    let memory =
        report(vec![line(ExampleWay::Streamed, 2, 7, &[1.0]), line(ExampleWay::Whole, 1, 7, &[1.0])])
            .memory();
    let series = memory["series"].as_array().unwrap();
    assert_eq!((series.len(), &series[0]["name"]), (1, &json!("streamed")));
    let points = series[0]["points"].as_array().unwrap();
    assert!(points.len() <= POINTS && points.contains(&json!([6.0, 7.0])), "{points:?}");
}

#[test]
fn a_line_is_of_all_runs() {
    let said = report(vec![line(ExampleWay::Streamed, 2, 7, &[4.0, 2.0, 8.0])]).to_string();
    let row = said.lines().find(|line| line.starts_with("| streamed")).unwrap();
    let cells: Vec<_> = row.split('|').map(str::trim).collect();
    assert_eq!(
        cells[1..11],
        ["streamed", "2", "1024", "512", "4.00 (2.00–8.00)", "256", "1.50", "20", "3", "9"]
    );
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    trial: CompactionTrial,
}

#[test]
fn a_store_is_this_machines_or_a_real_one() {
    let parsed =
        |words: &[&str]| Cli::try_parse_from(["compaction"].iter().chain(words)).map(|cli| cli.trial);
    let store = |words: &[&str]| parsed(words).map(|trial| trial.to).unwrap();
    assert_eq!(store(&["--quick"]), None);
    assert_eq!(store(&["--to", "s3://bucket/prefix"]).as_deref(), Some("s3://bucket/prefix"));
    assert!(parsed(&["--to"]).is_err());
}

#[test]
fn the_store_is_named_and_measured_alike() {
    let mut report =
        report(vec![line(ExampleWay::Streamed, 2, 7, &[1.0]), line(ExampleWay::Whole, 2, 7, &[1.0])]);
    let first = |report: &CompactionReport| report.to_string().lines().next().unwrap().to_owned();
    assert!(first(&report).ends_with("; server on the same machine, unshaped, on disk"));
    report.trial.to = Some("s3://bucket/prefix".to_owned());
    assert!(first(&report).ends_with("; in s3://bucket/prefix"));
    assert_eq!(report.broken().len(), 1);
}
