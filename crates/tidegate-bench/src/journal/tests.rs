use clap::Parser;

use super::*;
use crate::machine::Machine;
use crate::measure::ProcessUsage;
use crate::size::GIB;

/// The trial of these options.
fn trial(words: &[&str]) -> JournalTrial {
    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        trial: JournalTrial,
    }
    Words::try_parse_from(["b"].iter().chain(words)).unwrap().trial
}

fn report(ways: &[(JournalWay, f64)]) -> JournalReport {
    let usage =
        ProcessUsage { wall: 9.0, user: 1.0, system: 0.5, peak_kib: 20 << 10, exit: Some(0), signal: None };
    let trial = trial(&["--streams", "1"]);
    let run = |seconds: &f64| JournalRun {
        sizes: vec![GIB, 2 * GIB],
        seconds: vec![*seconds; 2],
        usage,
        disk: 7 * MIB,
    };
    let line =
        |&(way, seconds): &(JournalWay, f64)| JournalLine::of(way, 1, 2.0, vec![run(&seconds)]).unwrap();
    let lines = ways.iter().map(line).collect();
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    JournalReport { trial, conditions, lines }
}

/// The cells of the rows of a way.
fn rows<'a>(said: &'a str, way: &str) -> Vec<Vec<&'a str>> {
    let rows = said.lines().filter(|line| line.starts_with(&format!("| {way} ")));
    rows.map(|row| row.split('|').map(str::trim).skip(1).collect()).collect()
}

#[test]
fn speeds_are_those_of_the_published_rates() {
    let said = report(&[(JournalWay::CHUNKED[0], 32.0), (JournalWay::JOURNAL, 16.0)]).to_string();
    // 1 and 2 GiB in 16 s, all twice as slow as the published rates.
    let journal = rows(&said, "journal");
    let expected =
        ["journal", "1", "2", "192.0", "125.8", "90.5", "128.0", "128.0", "256.0", "256.0", "256.0", "256.0"];
    assert_eq!(journal[0][..12], expected);
    // The 3 GiB cost 1.5 CPU s.
    assert_eq!(journal[1][..8], ["journal", "1", "2", "1.000", "1.00", "0.50", "20", "7"]);
    assert_eq!(rows(&said, "chunked, 16 MiB")[1][3..5], ["0.500", "2.00"]);
    assert!(!said.contains("DOES NOT HOLD"), "{said}");
}

#[test]
fn journaling_is_to_be_above_chunks() {
    let broken = report(&[
        (JournalWay::CHUNKED[0], 32.0),
        (JournalWay::CHUNKED[1], 15.0),
        (JournalWay::JOURNAL, 16.0),
    ])
    .broken();
    assert_eq!(broken, ["1 streams: journal 128.0 MiB/s, chunked, 64 MiB 136.5"]);
}

#[test]
fn without_limits_nothing_is_scaled_and_journaling_need_not_win() {
    let mut slow = report(&[(JournalWay::CHUNKED[0], 15.0), (JournalWay::JOURNAL, 16.0)]);
    assert_eq!((slow.trial.scale(32), slow.broken().len()), (16.0, 1));
    slow.trial.unshaped = true;
    assert_eq!((slow.trial.scale(32), slow.broken().len()), (1.0, 0));
    let said = slow.to_string();
    assert!(said.contains("to the embedded server, unshaped\n"), "{said}");
    assert_eq!(rows(&said, "journal")[1][3..5], ["", "1.00"]);
    (slow.trial.unshaped, slow.trial.to) = (false, Some("s3://b/p".to_owned()));
    assert!(slow.to_string().contains("to s3://b/p\n"));
    let to = |url: &str| JournalWay::ALL.into_iter().filter(|way| way.goes_to(url)).count();
    assert_eq!((to("s3://b"), to("gs://b")), (5, 6));
}

#[test]
fn objects_are_of_the_same_sizes_for_all_ways() {
    let trial = trial(&[]);
    let sizes = trial.sizes(4, 1);
    assert_eq!(sizes, trial.sizes(4, 1));
    assert_ne!(sizes, trial.sizes(4, 2));
    assert!(sizes.iter().all(|size| (GIB..=2 * GIB).contains(size)));
    let small = trial.sizes(4, WARM_UP);
    assert!(small.iter().all(|size| (128 * MIB..=256 * MIB).contains(size)), "{small:?}");
}

#[test]
fn few_streams_have_more_runs() {
    let numbers = |words: &[&str]| [1, 2, 3, 4, 32].map(|streams| trial(words).numbers(streams));
    assert_eq!(numbers(&[]), [0..=4, 0..=2, 0..=2, 0..=1, 0..=1]);
    assert_eq!(numbers(&["--runs", "3"]), [const { 0..=3 }; 5]);
    let mut quick = trial(&["--quick"]);
    quick.runs = Some(1);
    assert_eq!(quick.numbers(1), 1..=1);
}

#[test]
fn runs_are_told() {
    let mut report = report(&[]);
    let mut said = |runs, quick| {
        (report.trial.runs, report.trial.quick) = (runs, quick);
        report.to_string()
    };
    let default = said(None, false);
    assert!(
        default.contains("times the scale; as many runs of each, in turn, as make 4 objects, after one with")
    );
    assert!(default.contains("which warms up and does not count. Published: the mean."), "{default}");
    assert!(default.contains("memory: with the bytes that the producer gave away and the writer keeps;"));
    assert!(said(Some(3), false).contains("; 3 runs of each, in turn, after one with objects of an eighth"));
    assert!(said(Some(1), true).contains("; 1 run of each, in turn, and none to warm up. Published"));
}

#[test]
fn ways_are_wanted_by_how_their_names_begin() {
    let names = |words: &[&str]| trial(words).ways().into_iter().map(JournalWay::name).collect::<Vec<_>>();
    let ours = ["chunked, 16 MiB", "chunked, 64 MiB", "spool", "journal", "journal, gRPC"];
    assert_eq!(names(&["--only", "chunked,spool,journal"]), ours);
    assert_eq!(names(&["--only", "bare"]), ["(bare stream)"]);
    assert_eq!(names(&["--quick"]), ours[..4]);
    assert_eq!(names(&["--quick", "--only", "journal"]), ["journal"]);
    assert_eq!(names(&[]).len(), JournalWay::ALL.len());
    let refused = trial(&["--only", "spool,stream"]).hold(Path::new("none")).unwrap_err().to_string();
    assert!(
        refused.starts_with("--only stream: there is no way whose name begins so, but chunked"),
        "{refused}"
    );
}

#[test]
fn the_published_means_are_those_of_the_write_up() {
    let means = |threads| {
        let known = JournalWay::ALL.into_iter().filter_map(|way| Some((way.name(), way.published(threads)?)));
        known.collect::<Vec<_>>()
    };
    let names = ["chunked, 16 MiB", "chunked, 64 MiB", "spool", "journal"].map(str::to_owned);
    let expected = |means: [f64; 4]| names.iter().cloned().zip(means).collect::<Vec<_>>();
    assert_eq!(means(1), expected([79.941, 100.410, 104.728, 125.820]));
    assert_eq!(means(32), expected([72.923, 93.151, 89.134, 104.557]));
    for threads in [2, 4, 8, 16] {
        assert_eq!(means(threads), []);
    }
}

/// A chunk is made, sent and committed, and only then the next chunk is made.
#[test]
fn the_store_gives_the_published_speeds_back() {
    let trial = trial(&[]);
    for (streams, scaled) in [(1, 1.0), (32, 16.0)] {
        let scale = trial.scale(streams);
        assert_eq!(scale, scaled);
        let shape = trial.shape(scale);
        let stream = shape["bandwidth"]["stream_in"].as_f64().unwrap() / MIB as f64;
        let commit = shape["commit_latency"]["fixed_ms"].as_f64().unwrap() / 1000.0;
        let producer = trial.produce(scale) as f64 / MIB as f64;
        let speed = |chunk: f64| chunk / (chunk / producer + chunk / stream + commit) * scale;
        for (chunk, published) in [(16.0, 79.9), (64.0, 100.4)] {
            assert!((speed(chunk) / published - 1.0).abs() < 0.01, "{}", speed(chunk));
        }
        // A journaled stream is sent without a pause.
        assert!((stream * scale / 125.8 - 1.0).abs() < 0.02, "{stream}");
    }
}

#[test]
fn the_disk_has_what_the_ways_keep() {
    let of = |words: &[&str]| {
        let words = [&["--streams", "1,4,2", "--size", "1GiB", "--largest", "1GiB"][..], words].concat();
        let trial = trial(&words);
        trial.on_disk(&trial.ways())
    };
    assert_eq!(of(&[]), (4 * GIB, 4));
    assert_eq!(of(&["--only", "spool"]), (4 * GIB, 4));
    assert_eq!(of(&["--only", "chunked,parallel,bare"]).0, 0);
    // While the producer makes 800 MiB, 128 MiB are sent.
    assert_eq!(of(&["--only", "journal,chunked"]).0.div_ceil(MIB), (4 * 1024 * 84_u64).div_ceil(100));
    assert_eq!(of(&["--only", "journal", "--producer-mib", "100"]).0, 0);
    assert_eq!(of(&["--only", "journal", "--unshaped"]), (4 * GIB, 4));
}

#[test]
fn more_than_the_disk_has_is_refused_first() {
    let words = ["--streams", "1,1000", "--size", "900000GiB", "--largest", "900000GiB", "--runs", "1"];
    let refused = trial(&words).hold(Path::new("none")).unwrap_err().to_string();
    let (needed, free) = refused.split_once(" MiB in journals or spools, and ").unwrap();
    assert_eq!(needed, format!("1000 streams have up to {}", 900_000_000 * 1024_u64));
    assert!(free.contains(" MiB free: another --scratch"), "{refused}");
    let nowhere = trial(&["--scratch", "/no/such/folder"]).hold(Path::new("none")).unwrap_err();
    assert!(nowhere.to_string().starts_with("/no/such/folder: "), "{nowhere}");
}

#[test]
fn figures_of_all_objects_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, "a warning\n{\"seconds\":[1.5,2.0]}\n").unwrap();
    assert_eq!(seconds(&log, 2).unwrap(), [1.5, 2.0]);
    assert!(seconds(&log, 3).unwrap_err().to_string().contains("of 2 objects, not 3"));
    std::fs::write(&log, "failed\n").unwrap();
    assert!(seconds(&log, 2).unwrap_err().to_string().contains("failed"));
}

#[test]
fn what_was_in_use_of_a_disk_is_seen_though_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let watched = DiskWatch::new(folder.path());
    let file = folder.path().join("journal");
    std::fs::write(&file, vec![1; MIB as usize]).unwrap();
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    while watched.so_far() < MIB {
        std::thread::yield_now();
    }
    std::fs::remove_file(&file).unwrap();
    assert!(watched.most() >= MIB);
}

#[test]
fn each_program_is_told_what_it_knows() {
    let load = JournalLoad {
        place: JournalDestination {
            store: "gs://b/".to_owned(),
            url: "http://h:1".to_owned(),
            bucket: "b".to_owned(),
            prefix: "p".to_owned(),
        },
        sizes: vec![2, 3],
        produce: 4,
    };
    let line = |way: JournalWay| {
        let program = way.program(Path::new("/x"), &load, Path::new("/s"));
        let words: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    };
    let what = "--url http://h:1 --bucket b --prefix p --how";
    let numbers = "--sizes 2,3 --produce 4";
    assert_eq!(
        line(JournalWay::JOURNAL),
        format!("uploads --store gs://b/ {what} journal {numbers} --scratch /s")
    );
    assert_eq!(
        line(JournalWay::CHUNKED[0]),
        format!("uploads --store gs://b/ {what} chunked {numbers} --chunk 16777216 --scratch /s")
    );
}
