use super::*;
use crate::machine::Machine;

fn report(ways: &[(Way, f64)]) -> Report {
    let usage = Usage { wall: 9.0, user: 1.0, system: 0.5, peak_kib: 20 << 10, exit: Some(0), signal: None };
    let trial = Trial {
        streams: vec![1],
        size: GIB,
        stream_mib: 128,
        commit_ms: 54,
        producer_mib: 800,
        most_mib: 256,
        runs: 1,
        only: None,
        scratch: None,
        limit: 60,
    };
    let run = |seconds| Run { seconds: vec![seconds], usage, disk: 7 * MIB };
    let line = |&(way, seconds): &(Way, f64)| trial.line(way, 4, 2.0, vec![run(seconds)]).unwrap();
    let lines = ways.iter().map(line).collect();
    let conditions = Conditions { machine: Machine::this(), load: [0.0, 1.0] };
    Report { trial, conditions, lines, missing: vec!["that".to_owned()], failed: vec!["this".to_owned()] }
}

#[test]
fn speeds_are_those_of_the_published_rates() {
    let said = report(&[(Way::CHUNKED[0], 32.0), (Way::JOURNAL, 16.0)]).to_string();
    let row = |way: &str| {
        let row = said.lines().find(|line| line.starts_with(way)).unwrap();
        row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    // 1 GiB in 16 s, all twice as slow as it is to be; four objects have cost 1.5 s.
    assert_eq!(
        row("| journal ")[1..],
        ["journal", "4", "2", "128.0 (128.0–128.0)", "1.000", "1.00", "0.38", "20", "7", ""]
    );
    assert_eq!(row("| chunked, 16")[4..7], ["64.0 (64.0–64.0)", "0.500", "2.00"]);
    assert!(said.contains("- that: MISSING") && said.contains("- this: FAILED"), "{said}");
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
        url: "http://h:1".to_owned(),
        bucket: "b".to_owned(),
        prefix: "p".to_owned(),
        objects: 2,
        size: 3,
        produce: 4,
    };
    let line = |way: Way| {
        let program = way.program(Path::new("/x"), &load, Path::new("/s"));
        let words: Vec<_> = program.arguments.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    };
    let what = "--url http://h:1 --bucket b --prefix p --how";
    let numbers = "--objects 2 --size 3 --produce 4";
    assert_eq!(line(Way::JOURNAL), format!("uploads {what} journal {numbers} --scratch /s"));
    assert_eq!(
        line(Way::CHUNKED[0]),
        format!("uploads {what} chunked {numbers} --chunk 16777216 --scratch /s")
    );
    // Google's takes nothing that it has no use for.
    assert!(line(Way::Java { chunk: Some(5) }).ends_with(&format!("{what} chunked {numbers} --chunk 5")));
    assert!(line(Way::Java { chunk: None }).ends_with(&format!("{what} journal {numbers} --scratch /s")));
}
