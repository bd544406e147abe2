use super::*;
use crate::machine::Machine;

fn line(tool: Tool, wall: f64, cpu: f64, peak: f64) -> ContestLine {
    let one = |value| RunSpread::of([value]).unwrap();
    ContestLine {
        tool: tool.name(),
        version: None,
        settings: "defaults".to_owned(),
        wall: one(wall),
        cpu: one(cpu),
        peak_mib: one(peak),
        requests: one(66.0),
        connections: one(8.0),
        server_cpu: one(0.5),
        checksums: Vec::new(),
        refused: BTreeMap::new(),
        runs: Vec::new(),
    }
}

fn report(tools: Vec<ContestLine>) -> ContestReport {
    let nothing =
        ProcessUsage { wall: 0.002, user: 0.001, system: 0.0, peak_kib: 2048, exit: Some(0), signal: None };
    ContestReport {
        title: "One file".to_owned(),
        objects: 1,
        bytes: GIB / 2,
        runs: 0,
        enough: 20,
        best: false,
        conditions: Conditions { machine: Machine::this(), load: [0.0, 1.0] },
        source: "source: one file in /tmp".to_owned(),
        nothing,
        tools,
        failed: vec![("rclone", "it was killed".to_owned())],
        missing: vec![("s5cmd", "scripts/install python")],
        left_out: vec![("crt", "it takes no pipe")],
        command: None,
        losses: Vec::new(),
    }
    .judged()
}

#[test]
fn losses_come_first_and_the_worst_of_them_before_the_others() {
    let report = report(vec![
        line(Tool::Tidegate, 2.0, 1.0, 30.0),
        line(Tool::ObjectStore, 1.0, 0.9, 90.0),
        line(Tool::Floor, 0.1, 0.1, 1.0),
    ]);
    let losses = report.losses.clone();
    assert_eq!(losses.len(), 2);
    assert_eq!(losses[0], "tidegate loses to object_store in wall time: 2.00 times as much");
    assert!(losses[1].contains("CPU time"), "{losses:?}");
    let text = report.to_string();
    assert!(text.find("loses") < text.find("| tool"), "{text}");
}

#[test]
fn cpu_time_is_told_by_the_gib_of_one_object_and_by_the_run_of_many() {
    let mut report = report(vec![line(Tool::Tidegate, 2.0, 0.25, 30.0)]);
    assert!(report.to_string().contains("0.50 (0.50–0.50)"), "{report}");
    report.objects = 10_000;
    assert!(report.to_string().contains("0.25 (0.25–0.25)"), "{report}");
}

#[test]
fn what_is_missing_failed_or_was_refused_is_named() {
    let mut refused = line(Tool::Mc, 2.0, 1.0, 30.0);
    refused.refused.insert("HeadObject".to_owned(), 3);
    let report = report(vec![line(Tool::Tidegate, 2.0, 1.0, 30.0), refused]);
    let said = report.to_string();
    assert!(said.contains("s5cmd: MISSING"), "{said}");
    assert!(said.contains("crt: left out: it takes no pipe"), "{said}");
    assert!(said.contains("rclone: FAILED: it was killed"), "{said}");
    assert!(
        said.contains("mc: requests of all runs that were answered with an error: HeadObject 3"),
        "{said}"
    );
}

#[test]
fn who_had_fewer_runs_than_the_others_is_named() {
    let mut report = report(vec![line(Tool::Tidegate, 2.0, 1.0, 30.0), line(Tool::Rclone, 30.0, 1.0, 30.0)]);
    report.runs = 1;
    let said = report.to_string();
    assert!(
        said.contains("- tidegate: only 0 of these runs, for its runs have taken 20 s or more in all"),
        "{said}"
    );
    assert!(!said.contains("rclone: only"), "it failed: {said}");
}

#[test]
fn who_was_alone_lost_to_nobody_and_says_nothing_of_it() {
    let none = |tools| report(tools).to_string().contains("loses to none");
    let (ours, floor) = (line(Tool::Tidegate, 2.0, 1.0, 30.0), line(Tool::Floor, 1.0, 0.5, 3.0));
    assert!(!none(vec![ours.clone(), floor]));
    assert!(none(vec![ours, line(Tool::S5cmd, 2.5, 1.5, 40.0)]));
}

#[test]
fn counts_that_differ_are_shown_as_a_range() {
    assert_eq!(shown_count(&RunSpread::of([3.0, 3.0]).unwrap()), "3");
    assert_eq!(shown_count(&RunSpread::of([3.0, 5.0]).unwrap()), "3–5");
}

#[test]
fn a_loss_within_the_noise_is_said_to_be_one() {
    let mut ours = line(Tool::Tidegate, 2.0, 0.1, 1.0);
    let theirs = line(Tool::S5cmd, 1.5, 1.0, 1.0);
    ours.wall = RunSpread::of([1.4, 2.0, 2.1]).unwrap();
    let losses = report(vec![ours, theirs]).losses;
    assert_eq!(
        losses,
        [
            "tidegate loses to s5cmd in wall time: 1.33 times as much, though some runs were the other way round"
        ]
    );
}
