use clap::Parser;

use super::*;
use crate::example::ExampleFigures;
use crate::machine::Machine;
use crate::measure::ProcessUsage;

fn line(way: ExampleWay, walls: &[f64]) -> TablesLine {
    let run = |wall: &f64| ExampleRun {
        figures: ExampleFigures {
            seconds: *wall,
            bytes_in: 0,
            bytes_out: GIB,
            entries_out: 0,
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
        memory: Vec::new(),
    };
    TablesLine { way, table_size: 8 * MIB, runs: walls.iter().map(run).collect() }
}

fn report(lines: Vec<TablesLine>) -> TablesReport {
    let trial = TablesTrial {
        size: GIB,
        table_sizes: vec![8 * MIB],
        memory: 64 * MIB,
        unshaped: false,
        to: None,
        megabytes: 40,
        latency_ms: 20,
        ways: vec![ExampleWay::Streamed, ExampleWay::Whole],
        runs: 3,
        quick: false,
        limit: 1,
    };
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    TablesReport { trial, conditions, lines }
}

#[test]
fn streams_are_not_to_be_slower() {
    let broken = |streamed| {
        report(vec![line(ExampleWay::Streamed, &[streamed]), line(ExampleWay::Whole, &[10.0])]).broken()
    };
    assert!(broken(11.4).is_empty());
    assert_eq!(broken(12.0), ["tables of 8 MiB: streamed takes 1.20 times as long as whole"]);
}

#[test]
fn ways_are_compared_with_streaming() {
    let said = report(vec![line(ExampleWay::Streamed, &[4.0, 2.0, 8.0]), line(ExampleWay::Whole, &[10.0])])
        .to_string();
    let row = |way: &str| -> Vec<String> {
        let row = said.lines().find(|line| line.starts_with(&format!("| {way}"))).unwrap();
        row.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let streamed = ["streamed", "8", "4.00 (2.00–8.00)", "1.00", "256", "1.50", "20", "3", "9"];
    assert_eq!(row("streamed")[1..10], streamed);
    assert_eq!(row("whole")[3..5], ["10.00 (10.00–10.00)", "2.50"]);
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    trial: TablesTrial,
}

#[test]
fn a_store_is_shaped_unshaped_or_real() {
    let parsed = |words: &[&str]| Cli::try_parse_from(["tables"].iter().chain(words)).map(|cli| cli.trial);
    let store = |words: &[&str]| parsed(words).map(|trial| (trial.unshaped, trial.to)).unwrap();
    assert_eq!(store(&[]), (false, None));
    assert_eq!(store(&["--quick", "--unshaped"]), (true, None));
    assert_eq!(store(&["--to", "s3://bucket/prefix"]), (false, Some("s3://bucket/prefix".to_owned())));
    assert!(parsed(&["--unshaped", "--to", "s3://bucket"]).is_err());
    assert!(parsed(&["--to"]).is_err());
}

#[test]
fn the_store_is_named_and_measured_alike() {
    let mut report = report(vec![line(ExampleWay::Streamed, &[12.0]), line(ExampleWay::Whole, &[10.0])]);
    assert!(
        report.to_string().starts_with("Tables of 1 GiB in all; 40 MB/s a connection, 20 ms of latency; ")
    );
    report.trial.unshaped = true;
    assert!(report.to_string().starts_with("Tables of 1 GiB in all; to the embedded server, unshaped; "));
    assert_eq!(report.broken().len(), 1);
    (report.trial.unshaped, report.trial.to) = (false, Some("s3://bucket/prefix".to_owned()));
    assert!(report.to_string().starts_with("Tables of 1 GiB in all; to s3://bucket/prefix; "));
    assert_eq!(report.broken().len(), 1);
}
