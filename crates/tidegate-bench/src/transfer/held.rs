//! Who is in a contest, and who is not.

use std::fmt;

use serde::Serialize;

use crate::report::Report;
use crate::tool::{Source, Tool};

/// What a contest came to, and whom it left out.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// What it came to.
    #[serde(flatten)]
    pub report: Report,
    /// Tools that it left out, and why.
    pub left_out: Vec<(&'static str, &'static str)>,
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.report)?;
        for (name, why) in &self.left_out {
            writeln!(out, "- {name}: left out: {why}")?;
        }
        Ok(())
    }
}

/// The tools that are in a contest, and the names of the others with the reasons.
pub(super) fn entered(source: &Source) -> (Vec<Tool>, Vec<(&'static str, &'static str)>) {
    let left_out = |tool: Tool| Some((tool.name(), tool.left_out(source)?));
    let tools = Tool::ALL.into_iter().filter(|tool| tool.left_out(source).is_none());
    (tools.collect(), Tool::ALL.into_iter().filter_map(left_out).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Conditions, Machine};
    use crate::measure::Usage;

    fn held(left_out: Vec<(&'static str, &'static str)>) -> Held {
        let nothing = Usage { wall: 0.0, user: 0.0, system: 0.0, peak_kib: 0, exit: Some(0), signal: None };
        let report = Report {
            title: "Ten files".to_owned(),
            objects: 10,
            bytes: 10,
            runs: 1,
            enough: 20,
            best: false,
            conditions: Conditions { machine: Machine::this(), load: [0.0, 0.0] },
            source: "source: ten files".to_owned(),
            nothing,
            tools: Vec::new(),
            failed: Vec::new(),
            missing: Vec::new(),
            command: None,
            losses: Vec::new(),
        };
        Held { report, left_out }
    }

    #[test]
    fn every_tool_is_in_a_contest_or_named_below_it_with_the_reason() {
        let [file, tree, pipe] = [Source::File, Source::Directory, Source::Pipe].map(|of| of("/s".into()));
        let object = Source::Object { original: "/s".into(), into: "/d".into() };
        let objects = Source::Objects { originals: "/s".into(), into: "/d".into() };
        for source in [file, tree, pipe, object, objects] {
            let (tools, left_out) = entered(&source);
            let said = held(left_out).to_string();
            for tool in Tool::ALL {
                let lines: Vec<_> = said
                    .lines()
                    .filter_map(|line| line.strip_prefix(&format!("- {}: ", tool.name())))
                    .collect();
                match (tools.contains(&tool), &lines[..]) {
                    (true, []) => assert!(tool.settings(&source).is_some(), "{tool:?}"),
                    (false, [why]) => {
                        let why = why.strip_prefix("left out: ").unwrap();
                        assert!(why.len() > 10 && !why.contains('\n'), "{tool:?}: {why}");
                    }
                    _ => panic!("{tool:?} of {source:?}: {said}"),
                }
            }
        }
    }

    #[test]
    fn whom_a_contest_leaves_out_is_beside_its_figures() {
        let json = serde_json::to_value(held(vec![("crt", "no pipe")])).unwrap();
        assert_eq!(json["title"], "Ten files");
        assert_eq!(json["left_out"], serde_json::json!([["crt", "no pipe"]]));
        assert!(held(Vec::new()).to_string().lines().all(|line| !line.contains("left out")));
    }
}
