use serde_json::{Value, json};

use super::*;
use crate::growth::{self, writers::WriterFeed};

/// A report as the command writes it, with numbers that differ from each other.
pub(in crate::page) fn growth_of() -> growth::GrowthReport {
    let moved = |direction, gib, wall, mib| growth::TransferRuns {
        direction,
        size: gib * GIB,
        runs: vec![growth::tests::run(wall, mib)],
    };
    let written = |way, writers, wall, mib, starved: Option<&str>| growth::WriterRuns {
        way,
        writers,
        runs: vec![growth::tests::run(wall, mib)],
        starved: starved.map(str::to_owned),
    };
    growth::tests::report(
        vec![
            moved(growth::GrowthDirection::Upload, 1, 1.75, 40.0),
            moved(growth::GrowthDirection::Upload, 64, 80.5, 44.0),
            moved(growth::GrowthDirection::Download, 1, 0.5, 150.0),
        ],
        vec![
            written(WriterFeed::Tasks, 1, 0.01, 17.0, None),
            written(WriterFeed::Tasks, 10_000, 4.0, 281.0, None),
            written(WriterFeed::Turns, 10_000, 5.0, 276.0, Some("waited 5.0 s for memory")),
        ],
    )
}

fn json_of() -> Value {
    serde_json::to_value(growth_of()).unwrap()
}

fn shown(report: Value) -> String {
    let report: JsonGrowth = serde_json::from_value(report).unwrap();
    report.section("growth").show("growth").into_string().replace("<span>", "").replace("</span>", "")
}

#[test]
fn sizes_and_writers_are_drawn_with_their_numbers() {
    let page = shown(json_of());
    for cells in [
        "<th scope=\"row\">upload</th><td>64 GiB</td><td>80.50 (80.50–80.50)</td>",
        "<th scope=\"row\">download</th><td>1 GiB</td><td>150 (150–150)</td>",
        "<th scope=\"row\">a task each</th><td>10000</td><td>281 (281–281)</td>",
        "<th scope=\"row\">upload</th><td>wall s</td><td>1.25</td><td>GiB</td><td>0.5</td><td>0.0%</td>",
    ] {
        assert!(page.contains(cells), "{cells}");
    }
    assert_eq!(page.matches("<figure>").count(), 3);
    // The budget is beside both figures of memory, and the axis of 1 to 10,000 writers has a label for each
    // decade.
    assert_eq!(page.matches("</svg>budget").count(), 2);
    assert!([">1<", ">10<", ">100<", ">1000<", ">10000<"].iter().all(|tick| page.contains(tick)));
    assert!(page.contains("32GiB,64GiB") && page.contains("--writers 1,10,100,1000,10000"), "{page}");
}

#[test]
fn what_was_stopped_is_told_and_not_drawn() {
    let page = shown(json_of());
    assert!(page.contains("10000 writers, one task: waited 5.0 s for memory"));
    assert!(!page.contains("<th scope=\"row\">one task</th>"));
}

#[test]
fn a_part_that_was_not_measured_has_no_plot() {
    let mut report = json_of();
    report["written"] = json!([]);
    assert_eq!(shown(report.clone()).matches("<figure>").count(), 2);
    report["moved"] = json!([]);
    assert_eq!(shown(report).matches("<figure>").count(), 0);
}

#[test]
fn zero_and_no_number_break_no_plot() {
    for value in [json!(0.0), json!(null), json!(1e18)] {
        let mut report = json_of();
        report["moved"][0]["runs"][0]["usage"]["wall"] = value.clone();
        report["written"][0]["runs"][0]["usage"]["peak_kib"] = value;
        let page = shown(report);
        assert!(
            page.split('<').filter_map(|tag| tag.split('>').next()).all(|tag| !tag.contains("NaN")),
            "{page}"
        );
    }
}
