use std::cell::RefCell;

use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    trial: PublishedTrial,
}

fn parsed(words: &[&str]) -> Result<PublishedTrial, clap::Error> {
    Line::try_parse_from(["all"].iter().chain(words)).map(|line| line.trial)
}

/// A table's report with two numbers; one of them is NaN.
#[derive(Serialize)]
struct Report {
    values: [f64; 2],
}

impl Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:?}", self.values)
    }
}

#[test]
fn it_is_said_how_much_is_wanted() {
    assert!(parsed(&["--quick", "--full"]).is_err());
    assert!(!parsed(&[]).unwrap().extent.quick);
    assert_eq!(parsed(&["--full"]).unwrap().only.len(), 5);
    assert_eq!(parsed(&["--only", "growth"]).unwrap().only, [Letter::Growth]);
    assert_eq!(parsed(&["--quick", "--only", "a,d"]).unwrap().only, [Letter::A, Letter::D]);
    assert!(parsed(&["--to", "results"]).is_ok());
    assert!(parsed(&["--to", "s3://bucket/prefix"]).unwrap_err().to_string().contains("`a --to URL`"));
}

#[test]
fn each_table_is_told() {
    for (words, is_quick) in [(&["--quick"], true), (&["--full"], false)] {
        let PublishedTrial { extent, .. } = parsed(words).unwrap();
        let quick = [
            extent.of::<parts::PartsExtent>().unwrap().quick,
            extent.of::<journal::JournalTrial>().unwrap().quick,
            extent.of::<prefixes::PrefixesTrial>().unwrap().quick,
            extent.of::<growth::GrowthTrial>().unwrap().quick,
        ];
        assert_eq!(quick, [is_quick; 4]);
    }
}

#[test]
fn all_is_every_table_once() {
    let all = parsed(&[]).unwrap().only;
    let names: Vec<_> = all.iter().flat_map(|letter| letter.tables()).map(|(name, _)| *name).collect();
    assert_eq!(names, ["a", "b", "c", "prefixes", "growth"]);
}

#[test]
fn what_does_not_hold_is_in_the_json_too() {
    let folder = tempfile::tempdir().unwrap();
    let extent = PublishedExtent { quick: true, full: false, to: folder.path().to_owned() };
    let report = Report { values: [1.5, f64::NAN] };
    let broken =
        extent.keep("a", report, |report| vec![format!("{} is too much", report.values[0])]).unwrap();
    assert_eq!(broken, ["1.5 is too much"]);
    let read = |file| std::fs::read_to_string(folder.path().join(file)).unwrap();
    assert_eq!(read("a.md"), "[1.5, NaN]\n");
    let json: Value = serde_json::from_str(&read("a.json")).unwrap();
    assert_eq!(json, json!({"values": [1.5, null], "broken": ["1.5 is too much"]}));
}

#[test]
fn a_table_by_itself_that_does_not_hold_is_an_error() {
    let judged = |broken| Judged::of(Report { values: [1.5, 2.0] }, broken).verdict();
    assert!(judged(|_| Vec::new()).is_ok());
    assert_eq!(
        judged(|_| vec!["slow".to_owned()]).unwrap_err().to_string(),
        "a table does not show what it is to show"
    );
}

#[test]
fn a_table_that_can_not_run_stops_none_of_the_others() {
    let asked = RefCell::new(Vec::new());
    let tables = ["a", "b", "c"].map(|name| {
        let asked = &asked;
        (name, move || {
            asked.borrow_mut().push(name);
            if name == "b" { Err("no room".into()) } else { Ok(vec!["slow".to_owned()]) }
        })
    });
    let outcome = PublishedOutcome::of(tables);
    assert_eq!(*asked.borrow(), ["a", "b", "c"]);
    assert_eq!(outcome.broken, ["a: slow", "c: slow"]);
    assert_eq!(outcome.failed, [("b", "no room".to_owned())]);
}

#[test]
fn what_does_not_hold_and_what_could_not_run_is_told_and_is_an_error() {
    let of = |broken: &[&str], failed: &[&'static str]| PublishedOutcome {
        broken: broken.iter().map(|broken| (*broken).to_owned()).collect(),
        failed: failed.iter().map(|name| (*name, "no room".to_owned())).collect(),
    };
    let error = |outcome: &PublishedOutcome| outcome.verdict().unwrap_err().to_string();

    let well = of(&[], &[]);
    assert!(well.to_string().starts_with("All tables") && well.verdict().is_ok());
    let broken = of(&["a: one", "b: two"], &[]);
    assert_eq!(broken.to_string(), "DOES NOT HOLD: a: one\nDOES NOT HOLD: b: two\n");
    assert_eq!(error(&broken), "a table does not show what it is to show");
    let failed = of(&[], &["b", "growth"]);
    assert_eq!(failed.to_string(), "COULD NOT RUN: b: no room\nCOULD NOT RUN: growth: no room\n");
    assert_eq!(error(&failed), "of the tables these could not run: b, growth");
    let both = of(&["a: one"], &["b"]);
    assert_eq!(both.to_string(), "DOES NOT HOLD: a: one\nCOULD NOT RUN: b: no room\n");
    assert_eq!(
        error(&both),
        "of the tables these could not run: b; a table does not show what it is to show"
    );
}
