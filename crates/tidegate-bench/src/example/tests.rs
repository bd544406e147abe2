use super::*;

fn run(wall: f64, peak_mib: u64) -> ExampleRun {
    let figures = ExampleFigures {
        seconds: wall,
        bytes_in: 0,
        bytes_out: 0,
        entries_out: 0,
        requests: 0,
        retries: 0,
        peak_budget_bytes: peak_mib * MIB / 2,
    };
    let usage =
        ProcessUsage { wall, user: 1.0, system: 0.5, peak_kib: peak_mib << 10, exit: Some(0), signal: None };
    ExampleRun { figures, usage, memory: Vec::new() }
}

#[test]
fn ways_take_turns_until_one_fails() {
    let ways = [ExampleWay::Streamed, ExampleWay::Whole];
    let mut turns = Vec::new();
    let done = in_turn(&ways, 2, "nothing", |way, number| {
        turns.push((way, number));
        Ok(run(turns.len() as f64, 1))
    });
    assert_eq!(turns, [(ways[0], 1), (ways[1], 1), (ways[0], 2), (ways[1], 2)]);
    let walls = |runs: &[ExampleRun]| runs.iter().map(|run| run.usage.wall).collect::<Vec<_>>();
    let done: Vec<_> = done.unwrap().iter().map(|(way, runs)| (*way, walls(runs))).collect();
    assert_eq!(done, [(ways[0], vec![1.0, 3.0]), (ways[1], vec![2.0, 4.0])]);

    let mut turns = 0;
    let failed = in_turn(&ways, 2, "nothing", |way, _| {
        turns += 1;
        if way == ExampleWay::Whole { Err("full".into()) } else { Ok(run(1.0, 1)) }
    });
    assert_eq!((failed.unwrap_err().to_string().as_str(), turns), ("full", 2));
}

#[test]
fn a_total_has_the_middle_time_and_the_highest_peaks() {
    let runs = [run(4.0, 2), run(2.0, 8), run(8.0, 4)];
    let total = ExampleTotal::of(&runs).unwrap();
    assert_eq!((total.figures.seconds, total.wall.median, total.cpu.median), (4.0, 4.0, 1.5));
    assert_eq!((total.peak_mib, total.peak_budget_mib), (8.0, 4.0));
    assert!(ExampleTotal::of(&[]).is_none());
}

#[test]
fn figures_are_the_last_line() {
    let line = r#"{"way":"whole","seconds":1.5,"bytes_in":7,"bytes_out":5,"outputs":[],"entries_out":3,"requests":4,"retries":0,"peak_budget_bytes":2}"#;
    let read = figures(&format!("a warning\n{line}\n")).unwrap();
    assert_eq!((read.seconds, read.bytes_in, read.entries_out), (1.5, 7, 3));
    assert!(figures("failed\n").unwrap_err().to_string().contains("failed"));
}

/// A folder stands in for a real store.
#[test]
fn what_is_left_in_a_real_store_is_removed() {
    let (store, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = store.path().join("other");
    std::fs::write(&other, "not of this").unwrap();
    for fails in [false, true] {
        let place = ExampleStore::within(store.path().to_str().unwrap());
        let example = Example { path: PathBuf::new(), place, folder: logs.path(), limit: Duration::ZERO };
        let left = PathBuf::from(example.location("in/a.table"));
        let done = example.hold(|| {
            std::fs::create_dir_all(left.parent().unwrap())?;
            std::fs::write(&left, "a table")?;
            if fails { Err("full".into()) } else { Ok(7) }
        });
        assert_eq!(
            done.map_err(|error| error.to_string()),
            if fails { Err("full".to_owned()) } else { Ok(7) }
        );
        assert!(!left.exists() && other.exists());
    }
}
