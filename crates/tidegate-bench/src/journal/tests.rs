use super::*;
use crate::machine::Machine;

fn report(ways: &[(Way, f64)]) -> Report {
    let usage = Usage { wall: 9.0, user: 1.0, system: 0.5, peak_kib: 20 << 10, exit: Some(0), signal: None };
    let trial = Trial {
        streams: vec![1],
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
        runs: 1,
        only: Vec::new(),
        scratch: None,
        limit: 60,
    };
    let run =
        |seconds: &f64| Run { sizes: vec![GIB, 2 * GIB], seconds: vec![*seconds; 2], usage, disk: 7 * MIB };
    let line = |&(way, seconds): &(Way, f64)| Trial::line(way, 1, 2.0, vec![run(&seconds)]).unwrap();
    let lines = ways.iter().map(line).collect();
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    Report { trial, conditions, lines, missing: vec!["that".to_owned()], failed: vec!["this".to_owned()] }
}

/// The cells of the rows that begin with this.
fn rows<'a>(said: &'a str, way: &str) -> Vec<Vec<&'a str>> {
    let rows = said.lines().filter(|line| line.starts_with(&format!("| {way} ")));
    rows.map(|row| row.split('|').map(str::trim).skip(1).collect()).collect()
}

#[test]
fn speeds_are_those_of_the_published_rates() {
    let said = report(&[(Way::CHUNKED[0], 32.0), (Way::JOURNAL, 16.0)]).to_string();
    // 1 and 2 GiB in 16 s, all twice as slow as it is to be.
    let journal = rows(&said, "journal");
    let expected =
        ["journal", "1", "2", "192.0", "125.8", "90.5", "128.0", "128.0", "256.0", "256.0", "256.0", "256.0"];
    assert_eq!(journal[0][..12], expected);
    // They have cost 1.5 s.
    assert_eq!(journal[1][..8], ["journal", "1", "2", "1.000", "1.00", "0.50", "20", "7"]);
    assert_eq!(rows(&said, "chunked, 16 MiB")[1][3..5], ["0.500", "2.00"]);
    assert!(said.contains("- that: MISSING") && said.contains("- this: FAILED"), "{said}");
    assert!(!said.contains("DOES NOT HOLD"), "{said}");
}

#[test]
fn journaling_is_to_be_above_chunks() {
    let broken = report(&[(Way::CHUNKED[0], 32.0), (Way::CHUNKED[1], 15.0), (Way::JOURNAL, 16.0)]).broken();
    assert_eq!(broken, ["1 streams: journal 128.0 MiB/s, chunked, 64 MiB 136.5"]);
}

#[test]
fn without_limits_nothing_is_scaled_and_journaling_need_not_win() {
    let mut slow = report(&[(Way::CHUNKED[0], 15.0), (Way::JOURNAL, 16.0)]);
    assert_eq!((slow.trial.scale(32), slow.broken().len()), (16.0, 1));
    slow.trial.unshaped = true;
    assert_eq!((slow.trial.scale(32), slow.broken().len()), (1.0, 0));
    let said = slow.to_string();
    assert!(said.contains("to the embedded server, unshaped\n"), "{said}");
    assert_eq!(rows(&said, "journal")[1][3..5], ["", "1.00"]);
    (slow.trial.unshaped, slow.trial.to) = (false, Some("s3://b/p".to_owned()));
    assert!(slow.to_string().contains("to s3://b/p\n"));
    let to = |url: &str| Way::ALL.into_iter().filter(|way| way.goes_to(url)).count();
    assert_eq!((to("s3://b"), to("gs://b")), (5, 6));
}

#[test]
fn objects_are_of_the_same_sizes_for_all_ways() {
    let report = report(&[]);
    let sizes = report.trial.sizes(4, 1);
    assert_eq!(sizes, report.trial.sizes(4, 1));
    assert_ne!(sizes, report.trial.sizes(4, 2));
    assert!(sizes.iter().all(|size| (GIB..=2 * GIB).contains(size)));
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
    let watched = Watched::new(folder.path());
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
    let load = Load {
        place: Place {
            store: "gs://b/".to_owned(),
            url: "http://h:1".to_owned(),
            bucket: "b".to_owned(),
            prefix: "p".to_owned(),
        },
        sizes: vec![2, 3],
        produce: 4,
    };
    let line = |way: Way| {
        let program = way.program(Path::new("/x"), &load, Path::new("/s"));
        let words: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    };
    let what = "--url http://h:1 --bucket b --prefix p --how";
    let numbers = "--sizes 2,3 --produce 4";
    assert_eq!(line(Way::JOURNAL), format!("uploads --store gs://b/ {what} journal {numbers} --scratch /s"));
    assert_eq!(
        line(Way::CHUNKED[0]),
        format!("uploads --store gs://b/ {what} chunked {numbers} --chunk 16777216 --scratch /s")
    );
    // Google's takes nothing that it has no use for.
    assert!(line(Way::Java { chunk: Some(5) }).ends_with(&format!("{what} chunked {numbers} --chunk 5")));
    assert!(line(Way::Java { chunk: None }).ends_with(&format!("{what} journal {numbers} --scratch /s")));
}
