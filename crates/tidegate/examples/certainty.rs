//! Prints what a writer says, and which requests it makes, in every way that an answer can be lost:
//! `cargo run -p tidegate --example certainty`; with `-- --errors`, the errors' own words after it.

#[path = "../tests/public/certainty/cases.rs"]
mod cases;
#[path = "../tests/public/certainty/run.rs"]
mod run;

use cases::Case;

#[tokio::main]
async fn main() {
    println!("| the writer | what happens | it says | requests | there afterwards |");
    println!("|---|---|---|---|---|");
    let all = run::all().await;
    for (case, seen) in &all {
        let case = Case { says: seen.says, there: seen.there, sessions: seen.sessions, ..case.clone() };
        println!("{}", row(&case, &seen.requests));
    }
    if std::env::args().any(|argument| argument == "--errors") {
        for (case, seen) in all.iter().filter(|(_, seen)| !seen.told.is_empty()) {
            println!("\n{case}:\n{}", seen.told);
        }
    }
}

/// One line of the table.
fn row(case: &Case, requests: &str) -> String {
    let only = if case.create_only { ", create-only" } else { "" };
    let session = if case.sessions == 0 { "" } else { ", and the session" };
    format!("| {}{only} | {} | {} | {requests} | {}{session} |", case.way, case.what, case.says, case.there)
}
