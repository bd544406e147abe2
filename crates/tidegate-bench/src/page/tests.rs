use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::*;
use crate::machine::{Conditions, Machine};
use crate::measure::ProcessUsage;
use crate::size::{GIB, MIB};
use crate::stats::Distribution;
use crate::{compaction, example, journal, parts, prefixes, report, tables};

mod judged;

fn conditions() -> Conditions {
    let machine = Machine { date: "2026-01-02".to_owned(), version: "0.0.9", ..Machine::this() };
    Conditions { machine, load: [0.5, f64::NAN] }
}

fn usage(wall: f64) -> ProcessUsage {
    ProcessUsage { wall, user: 1.0, system: 0.5, peak_kib: 20 << 10, exit: Some(0), signal: None }
}

fn run(wall: f64) -> example::ExampleRun {
    let figures = example::ExampleFigures {
        seconds: wall,
        bytes_in: GIB,
        bytes_out: GIB,
        entries_out: 7,
        requests: 9,
        retries: 0,
        peak_budget_bytes: 3 * MIB,
    };
    example::ExampleRun { figures, usage: usage(wall), memory: vec![(0.0, 1536), (1.5, 20 << 10)] }
}

fn parts_of(table: parts::Published, sizes: &[u64]) -> parts::PartsReport {
    let trial =
        parts::PartsTrial { table, extent: parts::PartsExtent { runs: 2, ..parts::PartsExtent::default() } };
    let streams = (table == parts::Published::Threaded).then_some(5);
    let line = |size: &u64| parts::PartsLine {
        row: parts::PublishedRow { size: *size, part: 10 * MIB, streams, published: 111.0 },
        done: [
            (parts::PartsWay::OneByOne, 0.5),
            (parts::PartsWay::AtOnce, 0.25),
            (parts::PartsWay::Auto, 0.2),
        ]
        .map(|(way, seconds)| parts::PartsRuns { way, seconds: vec![seconds, seconds] })
        .into(),
    };
    let lines = sizes.iter().map(line).collect();
    parts::PartsReport {
        trial,
        shape: json!({"latency": {"fixed_ms": 28.2}}),
        conditions: conditions(),
        lines,
    }
}

fn journal_of(streams: &[u32]) -> journal::JournalReport {
    let trial = journal::JournalTrial {
        streams: streams.to_vec(),
        size: GIB,
        largest: 2 * GIB,
        quick: false,
        full: false,
        unshaped: false,
        to: None,
        stream_mib: 128,
        commit_ms: 54,
        producer_mib: 800,
        most_mib: 256,
        runs: Some(1),
        only: Vec::new(),
        scratch: None,
        limit: 60,
    };
    let line = |streams: &u32| {
        let seconds: Vec<f64> = (1..=*streams).map(|number| 8.0 + f64::from(number)).collect();
        let speed = Distribution::of(seconds.iter().map(|seconds| 1024.0 / seconds * 2.0)).unwrap();
        let sizes = vec![GIB; *streams as usize];
        let runs = vec![journal::JournalRun { sizes, seconds, usage: usage(9.0), disk: 7 * MIB }];
        let published = Some(125.8);
        journal::JournalLine {
            way: "journal".to_owned(),
            streams: *streams,
            scale: 2.0,
            speed,
            published,
            runs,
        }
    };
    let lines = streams.iter().map(line).collect();
    let missing = vec!["Java: journaling".to_owned()];
    journal::JournalReport { trial, conditions: conditions(), lines, missing, failed: Vec::new() }
}

fn compaction_of() -> compaction::CompactionReport {
    let trial = compaction::CompactionTrial {
        inputs: vec![2, 4],
        size: 64 * MIB,
        table_size: 64 * MIB,
        memory: 64 * MIB,
        ways: vec![example::ExampleWay::Streamed],
        runs: 1,
        quick: false,
        to: None,
        scratch: None,
        limit: 1200,
    };
    let line = |inputs| compaction::CompactionLine {
        way: example::ExampleWay::Streamed,
        inputs,
        runs: vec![run(2.0)],
    };
    compaction::CompactionReport { trial, conditions: conditions(), lines: vec![line(2), line(4)] }
}

fn tables_of() -> tables::TablesReport {
    let trial = tables::TablesTrial {
        size: GIB,
        table_sizes: vec![8 * MIB],
        memory: 64 * MIB,
        megabytes: 40,
        latency_ms: 20,
        ways: vec![example::ExampleWay::Whole],
        runs: 1,
        quick: false,
        unshaped: false,
        to: None,
        limit: 600,
    };
    let line = tables::TablesLine {
        way: example::ExampleWay::Whole,
        table_size: 8 * MIB,
        runs: vec![run(2.0), run(4.0)],
    };
    tables::TablesReport { trial, conditions: conditions(), lines: vec![line] }
}

/// A report's lines can't be made outside of its module, so they are added as JSON.
fn prefixes_of() -> serde_json::Value {
    let trial = prefixes::PrefixesTrial {
        scale: 200.0,
        most: 2,
        callers: 8,
        seconds: 20,
        warm_up: 10,
        latency_ms: 5,
        list: vec![10_000],
        only: Vec::new(),
        quick: false,
        unshaped: false,
        to: None,
    };
    let report = prefixes::PrefixesReport {
        trial,
        conditions: conditions(),
        lines: Vec::new(),
        beside: Vec::new(),
        spreading: Vec::new(),
        listings: Vec::new(),
    };
    let mut report = serde_json::to_value(report).unwrap();
    let line = |prefixes: Option<u32>, done: f64| json!({"prefixes": prefixes, "kind": "writes", "limit": 17.5, "pace": {"per_second": done, "refused": 3}});
    report["lines"] = json!([line(None, 17.0), line(Some(1), 17.6), line(Some(2), 0.0)]);
    report
}

fn tool(tool: &'static str, wall: f64, cpu: f64, peak: f64) -> report::ContestLine {
    let spread = |value: f64| RunSpread { median: value, min: value * 0.9, max: value * 1.1 };
    report::ContestLine {
        tool,
        version: Some("1.0".to_owned()),
        settings: "defaults".to_owned(),
        wall: spread(wall),
        cpu: spread(cpu),
        peak_mib: spread(peak),
        requests: spread(66.0),
        connections: RunSpread { median: 8.0, min: 8.0, max: 8.0 },
        server_cpu: spread(0.5),
        checksums: vec!["CRC64NVME".to_owned()],
        refused: [("HeadObject".to_owned(), 3)].into(),
        runs: Vec::new(),
    }
}

fn contest_of(tools: Vec<report::ContestLine>) -> report::ContestReport {
    report::ContestReport {
        title: "One file of 1 GiB".to_owned(),
        objects: 1,
        bytes: GIB,
        runs: 5,
        enough: 20,
        best: false,
        conditions: conditions(),
        source: "source: one file".to_owned(),
        nothing: usage(0.002),
        tools,
        failed: vec![("mc", "it was killed".to_owned())],
        missing: vec![("rclone", "scripts/install rclone")],
        left_out: vec![("crt", "it takes no pipe")],
        command: Some("tidegate-bench peers --only upload --runs 5".to_owned()),
        losses: Vec::new(),
    }
    .judged()
}

fn put(dir: &Path, file: &str, report: &impl Serialize) {
    fs::write(dir.join(file), serde_json::to_string(report).unwrap()).unwrap();
}

fn made(dir: &Path) -> Result<String> {
    let path = PageArgs { dir: dir.to_owned(), to: None }.write()?;
    Ok(fs::read_to_string(path).unwrap())
}

fn all(dir: &Path) {
    for (name, ..) in contests() {
        let tools = vec![tool("tidegate", 1.0, 1.0, 30.0), tool("s5cmd", 3.0, 0.5, 20.0)];
        put(dir, &format!("{name}.json"), &contest_of(tools));
    }
    put(dir, "a.json", &parts_of(parts::Published::Async, &[4 * MIB, 8 * MIB, 16 * MIB]));
    put(dir, "c.json", &parts_of(parts::Published::Threaded, &[MIB, 50 * MIB, 50 * MIB]));
    put(dir, "b.json", &journal_of(&[1, 2, 32]));
    put(dir, "compaction.json", &compaction_of());
    put(dir, "tables.json", &tables_of());
    put(dir, "prefixes.json", &prefixes_of());
    put(dir, "memory.json", &compaction_of().memory());
    put(dir, "growth.json", &growth::tests::growth_of());
}

#[test]
fn every_report_is_a_section_with_plots_and_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    all(folder.path());
    let page = made(folder.path()).unwrap();
    for file in contests().map(|(file, ..)| file).chain(FILES.map(|(file, ..)| file.to_owned())) {
        assert!(page.contains(&format!("<section id=\"{file}\"")), "{file}");
        assert!(page.contains(&format!("id=\"{file}-1-title\"")), "{file} has no plot");
    }
    assert_eq!(page.matches("<figure>").count(), page.matches("Numbers</summary>").count());
    assert_eq!(page.matches("<figure>").count(), page.matches("<desc ").count());
    assert!(!page.contains("Not measured"), "nothing is missing");
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));
    // The facts that the numbers depend on, and the commands.
    assert!(page.contains(
        "load average 0.5 before, – after. Measured on 2026-01-02 (UTC) by tidegate-bench 0.0.9.<"
    ));
    let page = page.replace("<span>", "").replace("</span>", "");
    assert!(page.contains("tidegate-bench a --runs 2 --json"));
    assert!(page.contains("tidegate-bench b --commit-ms 54"));
    assert!(page.contains("--inputs 2,4") && page.contains("--table-size 64MiB"));
    assert!(page.contains("--largest 2GiB"));
    assert!(page.contains("tidegate-bench peers --only upload --runs 5"));
    assert!(page.contains("runs of the same are up to 67% apart"), "2 s and 4 s");
    assert!(
        page.contains("Java: journaling: missing")
            && page.contains("rclone: missing")
            && page.contains("crt: left out: it takes no pipe")
            && page.contains("mc: failed: it was killed")
            && page.contains("s5cmd: only 0 of the runs")
            && page.contains("Noise: not known, for tidegate has no two runs"),
    );
}

#[test]
fn what_is_drawn_is_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    all(folder.path());
    let page = made(folder.path()).unwrap();
    let has = |cells: &str| assert!(page.contains(cells), "{cells}");
    has("<td>0.500 (0.500–0.500)</td><td>0.250 (0.250–0.250)</td><td>0.200 (0.200–0.200)</td>");
    has("<td>111</td><td>200</td><td>250</td>");
    // 2 × 1 GiB in 9 s.
    has("<th scope=\"row\">journal</th><td>227.6</td>");
    has("<td>1</td><td>227.6</td><td>125.8</td>");
    has("<th scope=\"row\">streamed</th><td>2</td><td>1.5</td><td>1.5</td><td>10.8</td><td>20</td>");
    has("<th scope=\"row\">streamed</th><td>2</td><td>20</td><td>2.00 (2.00–2.00)</td>");
    has("<th scope=\"row\">whole</th><td>8 MiB</td><td>3.00 (2.00–4.00)</td>");
    has("<th scope=\"row\">not spread</th><td>17.5</td><td>17.0</td><td>97%</td>");
    has("<th scope=\"row\">s5cmd</th><td>3.00 (2.70–3.30)</td><td>3.00</td>");
}

#[test]
fn losses_are_first_and_in_the_words_of_the_contest() {
    let folder = tempfile::tempdir().unwrap();
    let worse = contest_of(vec![
        tool("tidegate", 2.0, 1.0, 30.0),
        tool("object_store", 1.0, 0.95, 90.0),
        tool("s5cmd", 3.0, 3.0, 10.0),
        tool("(floor)", 0.1, 0.1, 1.0),
    ]);
    let better = contest_of(vec![tool("tidegate", 1.0, 1.0, 10.0), tool("s5cmd", 3.0, 3.0, 30.0)]);
    for report in [worse, better] {
        put(folder.path(), "upload.json", &report);
        let page = made(folder.path()).unwrap();
        let said = report.to_string();
        let losses: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("- tidegate loses")).collect();
        assert!(!losses.is_empty());
        let mut from = page.find("class=\"first\"").unwrap();
        for loss in losses {
            from += page[from..].find(loss).unwrap_or_else(|| panic!("{loss} is not next"));
        }
        assert!(from < page.find("<svg").unwrap());
    }
}

#[test]
fn text_from_files_stays_text() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = "<script>&\"'</svg></details><img src=x onerror=y>";
    let report = contest_of(vec![tool("<script>&\"", 1.0, 1.0, 1.0), tool("tidegate", 1.0, 1.0, 1.0)]);
    put(folder.path(), "upload.json", &report);
    let series = json!([{"name": wrong, "points": [[0, 1]]}]);
    put(folder.path(), "memory.json", &json!({"title": wrong, "unit": wrong, "series": series}));
    let mut report = journal_of(&[1]);
    report.lines[0].way = wrong.to_owned();
    put(folder.path(), "b.json", &report);
    let page = made(folder.path()).unwrap();
    assert!(
        !page.contains("<script") && !page.contains("<img") && page.contains("&lt;script&gt;&amp;&quot;")
    );
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
}

#[test]
fn checksums_are_told_only_of_what_was_stored() {
    let dir = tempfile::tempdir().unwrap();
    let told = |checksums: &[&str]| {
        let mut line = tool("tidegate", 1.0, 1.0, 30.0);
        line.checksums = checksums.iter().map(|name| (*name).to_owned()).collect();
        put(dir.path(), "upload.json", &contest_of(vec![line]));
        made(dir.path()).unwrap().contains("checksum stored")
    };
    assert!(told(&["CRC64NVME"]));
    assert!(!told(&[]));
}

#[test]
fn what_is_missing_is_named_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "tables.json", &tables_of());
    let page = made(folder.path()).unwrap();
    let line = page.split("Not measured: ").nth(1).unwrap();
    assert!(line.contains("streams of unknown length (b.json), parts by several threads (c.json), sorted"));
    assert!(!line.contains("tables.json"));
}

#[test]
fn a_folder_without_figures_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = made(folder.path()).unwrap_err().to_string();
    assert!(error.contains("has no figures") && error.contains("download-shaped.json"), "{error}");
    let error = made(&folder.path().join("none")).unwrap_err().to_string();
    assert!(error.ends_with("none is no folder"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_no_such_report_is_named_with_the_field() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "tables.json", &tables_of());
    let mut without = serde_json::to_value(tables_of()).unwrap();
    without["lines"][0].as_object_mut().unwrap().remove("runs");
    let mut other = serde_json::to_value(tables_of()).unwrap();
    other["lines"][0]["runs"][1]["usage"]["wall"] = json!("long");
    let mut nowhere = serde_json::to_value(tables_of()).unwrap();
    nowhere.as_object_mut().unwrap().remove("machine");
    for (text, why) in [
        (without.to_string(), "lines[0]: missing field `runs` at line 1"),
        (other.to_string(), "lines[0].runs[1].usage.wall: invalid type: string \"long\""),
        (nowhere.to_string(), "missing field `machine`"),
        ("{\n\"trial\": {},\n".to_owned(), "at line 3"),
        (String::new(), "at line 1"),
        (format!("{}{{}}", json!(tables_of())), "trailing characters"),
        (json!(compaction_of()).to_string(), "missing field `table_size`"),
    ] {
        fs::write(folder.path().join("tables.json"), text).unwrap();
        let error = made(folder.path()).unwrap_err().to_string();
        assert!(error.contains("tables.json is no report of this kind: ") && error.contains(why), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is written");
}

#[test]
fn a_page_that_can_not_be_written_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "tables.json", &tables_of());
    let to = folder.path().join("no/such/page.html");
    let page = PageArgs { dir: folder.path().to_owned(), to: Some(to.clone()) };
    let error = page.write().unwrap_err().to_string();
    assert!(error.contains("page.html can't be written"), "{error}");
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    assert_eq!(page.write().unwrap(), to);
    assert!(!folder.path().join("index.html").exists());
    assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn zero_and_no_number_break_no_plot() {
    let folder = tempfile::tempdir().unwrap();
    for value in [0.0, f64::NAN, f64::MIN_POSITIVE, 1e18] {
        let mut parts = parts_of(parts::Published::Async, &[4 * MIB, 8 * MIB]);
        parts.lines[0].done[0].seconds = vec![value];
        parts.lines[0].row.published = value;
        put(folder.path(), "a.json", &parts);
        let mut journal = journal_of(&[1, 32]);
        journal.lines[1].runs[0].seconds[3] = value;
        journal.lines[0].published = Some(value);
        put(folder.path(), "b.json", &journal);
        let mut contest =
            contest_of(vec![tool("tidegate", value, value, value), tool("s5cmd", 1.0, 0.0, 1.0)]);
        contest.bytes = 0;
        put(folder.path(), "upload.json", &contest);
        let series = json!([{"name": "a", "points": [[value, value], [1, 2]]}, {"name": "b", "points": []}]);
        put(folder.path(), "memory.json", &json!({"title": "t", "unit": "MiB", "series": series}));
        let page = made(folder.path()).unwrap();
        for plot in page.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next()) {
            let is_broken = |word: &str| ["NaN", "inf"].iter().any(|wrong| word.contains(wrong));
            for attribute in plot.split('<').filter_map(|tag| tag.split('>').next()) {
                assert!(!is_broken(attribute), "{value}: {attribute}");
            }
        }
    }
    let mut nothing = parts_of(parts::Published::Async, &[]);
    put(folder.path(), "a.json", &nothing);
    made(folder.path()).unwrap();
    nothing.lines = parts_of(parts::Published::Async, &[MIB]).lines;
    put(folder.path(), "a.json", &nothing);
    made(folder.path()).unwrap();
}

#[test]
fn of_many_points_the_extremes_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let mut points: Vec<_> = (0..20_000).map(|second| json!([second, 10])).collect();
    points[7_777] = json!([7_777, 80]);
    put(
        folder.path(),
        "memory.json",
        &json!({"title": "t", "unit": "MiB", "series": [{"name": "a", "points": points}]}),
    );
    let page = made(folder.path()).unwrap();
    assert!(page.len() < 40_000, "{}", page.len());
    // The axis ends at 80, so the point is at the top, below the axis's name.
    assert!(page.contains(" 24.0L"), "{page}");
    assert!(page.contains("<td>20000</td><td>19999</td><td>10</td><td>10</td><td>80</td>"), "{page}");
}
