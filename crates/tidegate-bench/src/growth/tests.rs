use clap::Parser;

use super::*;
use crate::machine::Machine;
use crate::size::GIB;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    trial: GrowthTrial,
}

fn parsed(words: &[&str]) -> Result<GrowthTrial, clap::Error> {
    Line::try_parse_from(["growth"].iter().chain(words)).map(|line| line.trial)
}

pub(crate) fn run(wall: f64, peak_mib: f64) -> GrowthRun {
    let peak_kib = (peak_mib * 1024.0) as u64;
    GrowthRun {
        usage: ProcessUsage { wall, user: wall, system: 0.0, peak_kib, exit: Some(0), signal: None },
        requests: 7,
    }
}

/// Uploads: size in GiB, seconds and peak MiB.
fn uploads(rows: &[(u64, f64, f64)]) -> GrowthReport {
    let moved: Vec<_> = rows
        .iter()
        .map(|(size, wall, peak)| TransferRuns {
            direction: GrowthDirection::Upload,
            size: size * GIB,
            runs: vec![run(*wall, *peak)],
        })
        .collect();
    report(moved, Vec::new())
}

/// Writers of one kind: number, seconds, peak MiB, and whether they starved.
fn writers(way: WriterFeed, rows: &[(u32, f64, f64, bool)]) -> GrowthReport {
    let written = rows
        .iter()
        .map(|(writers, wall, peak, starved)| WriterRuns {
            way,
            writers: *writers,
            runs: vec![run(*wall, *peak)],
            starved: starved.then(|| "waited for memory".to_owned()),
        })
        .collect();
    report(Vec::new(), written)
}

pub(crate) fn report(moved: Vec<TransferRuns>, written: Vec<WriterRuns>) -> GrowthReport {
    let fits = report::fits(&moved, &written);
    let conditions = Conditions { machine: Machine::this(), load: [0.5, f64::NAN] };
    GrowthReport { trial: parsed(&[]).unwrap(), conditions, moved, written, fits }
}

#[test]
fn sizes_and_writers_are_lists() {
    let trial = parsed(&["--sizes", "64MiB,1GiB", "--writers", "1,300", "--runs", "2"]).unwrap();
    assert_eq!((trial.sizes, trial.writers, trial.runs), (vec![64 * MIB, GIB], vec![1, 300], 2));
    let trial = parsed(&[]).unwrap();
    assert_eq!((trial.sizes.len(), trial.sizes[6], trial.writers[4]), (7, 64 * GIB, 10_000));
    for wrong in [["--sizes", "0"], ["--sizes", "many"], ["--writers", "0"], ["--runs", "0"]] {
        assert!(parsed(&wrong).is_err(), "{wrong:?}");
    }
    for figures in [["--sizes", "1GiB"], ["--writers", "5"], ["--runs", "5"], ["--memory", "1GiB"]] {
        assert!(parsed(&[&figures[..], &["--quick"]].concat()).is_err(), "{figures:?}");
    }
}

#[test]
fn a_process_is_told_its_way_as_it_reads_it() {
    for way in WriterFeed::ALL {
        assert_eq!(<WriterFeed as clap::ValueEnum>::from_str(way.argument(), false), Ok(way));
    }
}

#[test]
fn objects_are_published_by_requests_that_succeed() {
    let counts: ServerCounts = serde_json::from_value(serde_json::json!({
        "requests": {"PutObject": 5, "UploadPart": 8, "CompleteMultipartUpload": 2},
        "failed": {"PutObject": 1, "UploadPart": 1}, "bytes_in": 0, "bytes_out": 0, "connections": 1, "checksums": {},
    }))
    .unwrap();
    assert_eq!(published(&counts), 6);
}

#[test]
fn a_straight_line_and_the_same_memory_hold() {
    let report = uploads(&[(1, 1.0, 50.0), (2, 1.9, 52.0), (4, 3.9, 49.0), (8, 7.8, 60.0)]);
    assert_eq!(report.broken(), Vec::<String>::new());
    let said = report.to_string();
    assert!(said.contains("| upload |  4 GiB |") || said.contains("| upload | 4 GiB |"), "{said}");
    assert!(!said.contains("DOES NOT HOLD"), "{said}");
    let slope = report.fits.iter().find(|fitted| fitted.figure == "wall s").unwrap().fit.slope;
    assert!((0.9..1.0).contains(&slope), "{slope}");
}

#[test]
fn time_that_bends_is_told() {
    let report = uploads(&[(1, 1.0, 50.0), (2, 2.0, 50.0), (4, 4.0, 50.0), (8, 9.5, 50.0)]);
    assert_eq!(report.broken(), ["upload: 9.5 s for the largest, 19% more than the line of the others says"]);
    assert!(report.to_string().contains("- DOES NOT HOLD: upload: 9.5 s"));
    let report = uploads(&[(1, 1.0, 50.0), (2, 2.0, 50.0), (4, 4.0, 50.0), (8, 6.0, 50.0)]);
    assert_eq!(report.broken(), ["upload: 6.0 s for the largest, 25% less than the line of the others says"]);
    // A short run allows no conclusion, and neither do two points.
    let report = uploads(&[(1, 0.1, 50.0), (2, 0.2, 50.0), (4, 0.4, 50.0), (8, 2.0, 50.0)]);
    assert_eq!(report.broken(), Vec::<String>::new());
    assert_eq!(uploads(&[(1, 1.0, 50.0), (8, 80.0, 50.0)]).broken(), Vec::<String>::new());
}

#[test]
fn memory_above_the_bound_is_told() {
    // Memory may grow up to the budget and the fixed part of a process.
    assert_eq!(uploads(&[(1, 1.0, 50.0), (2, 2.0, 288.0)]).broken(), Vec::<String>::new());
    let mut report = uploads(&[(1, 1.0, 50.0), (2, 2.0, 289.0)]);
    assert_eq!(report.broken(), ["upload of 2 GiB: 289 MiB, where 288 are allowed"]);
    report.moved[1].runs.push(run(2.0, 60.0));
    assert_eq!(report.broken().len(), 1, "one run is enough");
    report.trial.memory *= 2;
    assert_eq!(report.broken(), Vec::<String>::new());
}

#[test]
fn every_open_writer_is_allowed_for() {
    let rows = [(1, 0.1, 288.0, false), (1000, 1.0, 295.0, false), (10_000, 4.0, 366.0, false)];
    assert_eq!(writers(WriterFeed::Tasks, &rows).broken(), Vec::<String>::new());
    let rows = [(1, 0.1, 16.0, false), (1000, 1.0, 297.0, false)];
    assert_eq!(
        writers(WriterFeed::SpooledTurns, &rows).broken(),
        ["1000 writers, one task, a spool: 297 MiB, where 296 are allowed"]
    );
}

#[test]
fn only_one_task_without_a_spool_may_be_stopped() {
    let rows = [(1, 0.1, 16.0, false), (1000, 5.0, 200.0, true)];
    let turns = writers(WriterFeed::Turns, &rows);
    assert_eq!(turns.broken(), Vec::<String>::new());
    assert!(turns.to_string().contains("- 1000 writers, one task: waited for memory"));
    assert!(turns.to_string().contains("none: starved"));
    let broken = ["1000 writers, a task each: waited for memory"];
    assert_eq!(writers(WriterFeed::Tasks, &rows).broken(), broken);
    // If all bytes fit in memory, no writer waits.
    let rows = [(1, 0.1, 16.0, false), (100, 5.0, 100.0, true)];
    assert_eq!(writers(WriterFeed::Turns, &rows).broken(), ["100 writers, one task: waited for memory"]);
}
