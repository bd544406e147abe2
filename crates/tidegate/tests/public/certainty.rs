//! Every way in which the outcome of a write can be unclear, against the embedded server: the writer's result,
//! and every request that it makes.
//!
//! `cargo run -p tidegate --example certainty` prints these cases as a table; docs/CERTAINTY.md sums
//! them up.

#![allow(clippy::unwrap_used)] // the shared helpers are test code as well

pub(crate) mod cases;
mod run;

use cases::Says;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_case_ends_as_it_should_with_no_request_more() {
    let seen = run::all().await;
    let mut wrong = Vec::new();
    for (case, seen) in &seen {
        let expected = (case.says, case.requests.to_owned(), case.there, case.sessions);
        let got = (seen.says, seen.requests.clone(), seen.there, seen.sessions);
        if got != expected {
            wrong.push(format!("{case}\n   expected {expected:?}\n   got      {got:?}\n   {}", seen.told));
        }
        if case.says == Says::Uncertain {
            let object = if case.way.is_google() { "gs://bucket/k" } else { "s3://bucket/k" };
            let names = [object, "tidegate-writer: ", &format!("{} bytes", case.size()), " GMT"];
            let missing: Vec<_> = names.into_iter().filter(|name| !seen.told.contains(name)).collect();
            if !missing.is_empty() {
                wrong.push(format!("{case}\n   does not name {missing:?}: {}", seen.told));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
