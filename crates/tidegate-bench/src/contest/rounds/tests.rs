use std::path::PathBuf;

use super::*;
use crate::embedded::ServerCounts;
use crate::measure::ProcessUsage;

fn entrant(tool: Tool) -> Entrant {
    Entrant { tool, path: PathBuf::new(), tuning: None, runs: Vec::new(), failed: None }
}

fn that_took(wall: f64) -> ContestRun {
    let usage = ProcessUsage { wall, user: 0.0, system: 0.0, peak_kib: 0, exit: Some(0), signal: None };
    ContestRun { usage, counts: ServerCounts::default(), server_cpu: 0.0 }
}

/// Runs tools that take the seconds in `takes`, with an `enough` of 20 s; returns all runs in order, and the
/// counted runs.
fn hold(
    runs: u32,
    tools: &[Tool],
    warm: &[Tool],
    mut takes: impl FnMut(Tool, &str) -> Result<f64>,
) -> Result<(Vec<String>, Vec<Entrant>)> {
    let mut entrants: Vec<_> = tools.iter().copied().map(entrant).collect();
    let mut order = Vec::new();
    let rounds = Rounds { runs, enough: Duration::from_secs(20) };
    rounds.hold(
        &mut entrants,
        |tool| warm.contains(&tool),
        |entrant, what| {
            order.push(format!("{} {what}", entrant.tool.name()));
            takes(entrant.tool, what).map(that_took)
        },
    )?;
    Ok((order, entrants))
}

fn walls(entrants: &[Entrant]) -> Vec<Vec<f64>> {
    entrants.iter().map(|entrant| entrant.runs.iter().map(|run| run.usage.wall).collect()).collect()
}

#[test]
fn tools_run_in_turn_and_their_first_run_does_not_count() {
    let mut seconds = 0.0;
    let longer_each_time = |_, _: &str| {
        seconds += 1.0;
        Ok(seconds)
    };
    let (order, entrants) = hold(2, &[Tool::Tidegate, Tool::Mc], &[], longer_each_time).unwrap();
    let told = ["tidegate warm-up", "mc warm-up", "tidegate run 1", "mc run 1", "tidegate run 2", "mc run 2"];
    assert_eq!(order, told);
    assert_eq!(walls(&entrants), [[3.0, 5.0], [4.0, 6.0]]);
}

#[test]
fn a_tool_has_no_more_runs_when_all_of_its_own_were_enough() {
    let takes = |tool, _: &str| {
        Ok(match tool {
            Tool::Tidegate => 1.0,
            Tool::S5cmd => 8.0,
            _ => 10.0,
        })
    };
    let (order, entrants) = hold(4, &[Tool::Tidegate, Tool::S5cmd, Tool::Mc], &[], takes).unwrap();
    assert_eq!(walls(&entrants), [vec![1.0; 4], vec![8.0; 2], vec![10.0]]);
    // A tool with no more runs is skipped, and the others continue.
    assert_eq!(order[6..], ["tidegate run 2", "s5cmd run 2", "tidegate run 3", "tidegate run 4"]);
}

#[test]
fn after_a_warm_up_that_was_enough_one_run_counts() {
    let takes = |_, what: &str| Ok(if what == "warm-up" { 40.0 } else { 30.0 });
    let (order, entrants) = hold(3, &[Tool::Mc], &[], takes).unwrap();
    assert_eq!(order, ["mc warm-up", "mc run 1"]);
    assert_eq!(walls(&entrants), [[30.0]]);
}

#[test]
fn what_is_warm_begins_with_a_run_that_counts() {
    let tools = [Tool::Tidegate, Tool::Mc, Tool::Rclone];
    let takes = |tool, _: &str| Ok(if tool == Tool::Rclone { 30.0 } else { 2.0 });
    let (order, entrants) = hold(2, &tools, &[Tool::Tidegate, Tool::Rclone], takes).unwrap();
    assert_eq!(
        order,
        ["mc warm-up", "tidegate run 1", "mc run 1", "rclone run 1", "tidegate run 2", "mc run 2"]
    );
    assert_eq!(walls(&entrants), [vec![2.0; 2], vec![2.0; 2], vec![30.0]]);
}

#[test]
fn a_peer_that_fails_runs_no_more_and_the_others_go_on() {
    let takes = |tool: Tool, what: &str| match (tool, what) {
        (Tool::Mc, "warm-up") => Err("it has no word".into()),
        (Tool::Rclone, "run 2") => Err("it was killed".into()),
        _ => Ok(1.0),
    };
    let (order, entrants) = hold(3, &[Tool::Mc, Tool::Rclone, Tool::Tidegate], &[], takes).unwrap();
    let of = |tool: &str| order.iter().filter(|run| run.starts_with(tool)).count();
    assert_eq!((of("mc"), of("rclone"), of("tidegate")), (1, 3, 4));
    assert_eq!(walls(&entrants), [vec![], vec![1.0], vec![1.0; 3]]);
    let failed: Vec<_> = entrants.iter().map(|entrant| entrant.failed.as_deref()).collect();
    assert_eq!(failed, [Some("it has no word"), Some("it was killed"), None]);
}

#[test]
fn ours_may_not_fail() {
    for at in ["warm-up", "run 1"] {
        let takes = |tool: Tool, what: &str| {
            if (tool, what) == (Tool::Tidegate, at) { Err("it is broken".into()) } else { Ok(1.0) }
        };
        let held = hold(2, &[Tool::Mc, Tool::Tidegate], &[], takes);
        assert_eq!(held.unwrap_err().to_string(), "it is broken", "{at}");
    }
}
