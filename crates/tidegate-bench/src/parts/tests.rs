use super::*;
use crate::machine::Machine;

fn line(row: Row, seconds: &[(Way, &[f64])]) -> Line {
    let done = |(way, seconds): &(Way, &[f64])| Done { way: *way, seconds: seconds.to_vec() };
    Line { row, done: seconds.iter().map(done).collect() }
}

#[test]
fn the_rows_are_those_that_were_published() {
    let rows = Published::Async.rows();
    assert_eq!((rows.len(), rows[0].size, rows[9].size), (10, 4 * MIB, 2048 * MIB));
    let rows = Published::Threaded.rows();
    assert_eq!((rows[0].part, rows[3].part, rows[7].part), (5 * MIB, 5 * MIB, 5 * MIB));
}

/// 48.82 ms for 4 MiB, and 16.40 s for 2 GiB: each request waits for the one before.
#[test]
fn the_store_gives_the_published_times_back() {
    let shape = Published::Async.shape(false);
    let latency = shape["latency"]["fixed_ms"].as_f64().unwrap() / 1000.0;
    let stream = shape["bandwidth"]["stream_in"].as_f64().unwrap();
    let seconds = |size: u64, requests: u64| requests as f64 * latency + size as f64 / stream;
    assert!((seconds(4 * MIB, 1) / 0.04882 - 1.0).abs() < 0.01);
    assert!((seconds(2048 * MIB, 205 + 2) / 16.40 - 1.0).abs() < 0.01);
}

#[test]
fn gains_are_of_medians_and_by_the_first_way() {
    let row = Published::Threaded.rows()[3];
    let done: [(Way, &[f64]); 3] =
        [(Way::Plain, &[2.0, 2.2, 9.0]), (Way::AtOnce, &[1.1]), (Way::Auto, &[4.4])];
    let line = line(row, &done);
    let gain = |way| line.gain(way).map(|gain| gain.round());
    assert_eq!([gain(Way::Plain), gain(Way::AtOnce), gain(Way::Auto)], [100.0, 200.0, 50.0].map(Some));
    assert_eq!(line.gain(Way::OneByOne), None);
}

fn report(table: Published, lines: Vec<Line>) -> Report {
    let extent = Extent { runs: 1, ..Extent::default() };
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    Report { shape: table.shape(false), trial: Trial { table, extent }, conditions, lines }
}

#[test]
fn what_is_slower_than_it_may_be_is_told() {
    let rows = Published::Async.rows();
    let even: [(Way, &[f64]); 3] =
        [(Way::OneByOne, &[1.0, 1.1]), (Way::AtOnce, &[1.1, 1.1]), (Way::Auto, &[1.0, 1.3])];
    let slow: [(Way, &[f64]); 3] = [(Way::OneByOne, &[1.0]), (Way::AtOnce, &[1.3]), (Way::Auto, &[1.2])];
    let report = report(Published::Async, vec![line(rows[0], &even), line(rows[1], &slow)]);
    let expected = [
        "8 MiB: parts at once takes 1.30 times as long as part by part",
        "8 MiB: auto takes 1.20 times as long as part by part",
    ];
    assert_eq!(report.broken(), expected);
    assert!(report.to_string().contains("- DOES NOT HOLD: 8 MiB: auto"));
}

#[test]
fn a_report_has_the_published_gain_beside_ours() {
    let row = Published::Async.rows()[3];
    let done: [(Way, &[f64]); 3] = [(Way::OneByOne, &[0.3]), (Way::AtOnce, &[0.1]), (Way::Auto, &[0.2])];
    let said = report(Published::Async, vec![line(row, &done)]).to_string();
    let row: Vec<_> =
        said.lines().find(|line| line.contains("32 MiB")).unwrap().split('|').map(str::trim).collect();
    assert_eq!(row[1..4], ["32 MiB (10 MiB)", "300.0 (300.0–300.0)", "111.85"]);
    assert_eq!(row[8..11], ["170", "300", "150"]);
}
